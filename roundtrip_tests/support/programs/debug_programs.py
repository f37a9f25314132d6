"""Small programs with look-up tables and macros, in every form that gcc and clang write them, for three machines.

Strategy: two units and two headers, linked without the C library, so that a program takes a moment to
build and has several sets of each table; built once a session for the same folder.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCES = {
    "shared.h": (
        "#define SHARED(x, y) ((x) + (y))\n#define EMPTY\n#define GONE 1\n#undef GONE\n"
        "struct pair { int a; long b; };\n"
    ),
    "other.h": '#include "shared.h"\n#define OTHER "text\\t" SHARED(1, 2)\n',
    "main.c": (
        '#include "shared.h"\n#define LOCAL(...) __VA_ARGS__\nstruct pair global; static int hidden;\n'
        "int other(struct pair *);\n"
        "int _start(void) { hidden++; return other(&global) + SHARED(LOCAL(1), 2); }\n"
        '__attribute__((section(".text.cold_part"))) void cold(void) { hidden--; }\n'
    ),
    "other.c": (
        '#include "other.h"\n#undef OTHER\ntypedef unsigned number;\nnumber other(struct pair *p) { return p->a; }\n'
    ),
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to build: the compiler's options, and the machine by its compiler's prefix."""

    name: str
    flags: tuple[str, ...]
    machine: str = ""
    program: str = "gcc"


_BY_MACHINE = (
    Variant("macinfo", ("-gdwarf-4", "-gstrict-dwarf", "-gpubnames")),
    Variant("dwarf5", ("-gdwarf-5", "-ggnu-pubnames")),
    Variant("dwarf64", ("-gdwarf-5", "-gdwarf64", "-gpubnames")),
)
VARIANTS = (
    Variant("dwarf2", ("-gdwarf-2", "-gpubnames")),
    Variant("dwarf3", ("-gdwarf-3", "-gpubnames")),
    Variant("dwarf4", ("-gdwarf-4", "-ggnu-pubnames")),
    Variant("macinfo2", ("-gdwarf-2", "-gstrict-dwarf", "-ggnu-pubnames")),
    Variant("compressed", ("-gdwarf-5", "-gpubnames", "-gz=zlib")),
    Variant("sections", ("-gdwarf-4", "-ffunction-sections", "-gpubnames")),
    *_BY_MACHINE,
    *(
        Variant(f"{machine.partition('-')[0]}-{one.name}", one.flags, machine)
        for machine in ("aarch64-linux-gnu-", "s390x-linux-gnu-")
        for one in _BY_MACHINE
    ),
)
CLANG = (
    Variant("clang-dwarf4", ("-gdwarf-4", "-fdebug-macro", "-gdwarf-aranges", "-gpubnames"), program="clang"),
    Variant("clang-dwarf5", ("-gdwarf-5", "-fdebug-macro", "-gdwarf-aranges", "-ggnu-pubnames"), program="clang"),
)
EVERY_VARIANT = pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)


@functools.cache
def built(folder: Path, variant: Variant) -> tuple[Path, Path]:
    """The object of main.c, and the program. Skips the test if there is no such compiler."""
    compiler = variant.machine + variant.program
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    work = folder / variant.name
    work.mkdir(parents=True)
    for name, text in SOURCES.items():
        (work / name).write_text(text)
    flags = ("-g3", "-O1", "-DFROM_COMMAND_LINE=7", *variant.flags)
    for name in ("main", "other"):
        _run(work, compiler, *flags, "-c", f"{name}.c", "-o", f"{name}.o")
    _run(work, compiler, *flags, "-nostdlib", "-static", "main.o", "other.o", "-o", "program")
    return work / "main.o", work / "program"


@pytest.fixture(scope="session", name="debug_folder")
def debug_folder_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all such programs, for the session."""
    return tmp_path_factory.mktemp("debug-programs")


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
