"""Programs for which functions, inlines and lines of addresses are asked, in every form that DWARF is found in.

Strategy: the same sources, compiled by gcc and clang with every version of DWARF and at every level of optimization,
and then linked, split, folded, compressed or moved to other files, as distributions do. Built once for a folder.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from ..oracles import absent, oracle_command
from .clang import write_scripts
from .symbol_sources import SOURCES


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to build.

    `step` is done to the linked program, see `_STEPS`. `machine` is the prefix of the compilers' names.
    """

    name: str
    flags: tuple[str, ...]
    link: tuple[str, ...] = ()
    step: str = ""
    compiler: str = "g++"
    machine: str = ""

    @property
    def is_freestanding(self) -> bool:
        """Whether it is linked without libraries, which are not here for that machine."""
        return "-m32" in self.flags


@dataclass(frozen=True, slots=True)
class DebugProgram:
    """A program, and the separate file with its debugging information if there is one.

    `plain` has the same code, and the same debugging information in a form that every program reads: in one file, not
    compressed.
    """

    name: str
    path: Path
    debug: Path | None
    plain: Path


def _gcc(name: str, *flags: str, link: tuple[str, ...] = (), step: str = "") -> Variant:
    return Variant(f"gcc-{name}", flags, link, step)


def _clang(name: str, *flags: str, link: tuple[str, ...] = (), step: str = "") -> Variant:
    return Variant(f"clang-{name}", flags, link, step, "clang++")


_SPLIT, _TYPES = "-gsplit-dwarf", "-fdebug-types-section"
_SECTIONS = ("-ffunction-sections", "-fdata-sections")
_GC = ("-Wl,--gc-sections",)
GCC = (
    _gcc("dwarf2-O0", "-gdwarf-2", "-O0"),
    _gcc("dwarf2-O2", "-gdwarf-2", "-O2"),
    # Without DW_AT_ranges: a cold part is another function, which does not contain what is inlined there.
    _gcc("dwarf2-strict", "-gdwarf-2", "-gstrict-dwarf", "-O2"),
    _gcc("dwarf3-O1", "-gdwarf-3", "-O1"),
    _gcc("dwarf4-O2", "-gdwarf-4", "-O2"),
    _gcc("dwarf4-O3", "-gdwarf-4", "-O3"),
    _gcc("dwarf5-O0", "-gdwarf-5", "-O0"),
    _gcc("dwarf5-O1", "-gdwarf-5", "-O1"),
    _gcc("dwarf5-O2", "-gdwarf-5", "-O2", "-freorder-blocks-and-partition"),
    _gcc("dwarf5-O3", "-gdwarf-5", "-O3"),
    _gcc("dwarf5-Os", "-gdwarf-5", "-Os"),
    _gcc("dwarf64", "-gdwarf-5", "-gdwarf64", "-O2"),
    _gcc("lto", "-gdwarf-5", "-O2", "-flto"),
    _gcc("lto-dwarf4", "-gdwarf-4", "-O2", "-flto", "-flto-partition=max"),
    _gcc("types4", "-gdwarf-4", "-O2", _TYPES),
    _gcc("types5", "-gdwarf-5", "-O2", _TYPES),
    _gcc("sections-bfd", "-gdwarf-4", "-O2", *_SECTIONS, link=_GC),
    _gcc("sections-gold", "-gdwarf-5", "-O2", *_SECTIONS, link=(*_GC, "-fuse-ld=gold", "-Wl,--icf=all")),
    _gcc("sections-lld", "-gdwarf-5", "-O2", *_SECTIONS, link=(*_GC, "-fuse-ld=lld", "-Wl,--icf=all")),
    _gcc("no-pie", "-gdwarf-5", "-O2", "-fno-pie", link=("-no-pie",)),
    _gcc("zlib", "-gdwarf-5", "-O2", "-gz=zlib"),
    _gcc("zstd", "-gdwarf-5", "-O2", step="zstd"),
    _gcc("separate", "-gdwarf-5", "-O2", step="separate"),
    _gcc("dwz", "-gdwarf-4", "-O2", step="dwz"),
    _gcc("dwz5", "-gdwarf-5", "-O2", step="dwz"),
    _gcc("dwz-multifile", "-gdwarf-4", "-O2", step="dwz-multifile"),
    _gcc("dwz5-multifile", "-gdwarf-5", "-O2", step="dwz-multifile"),
    _gcc("dwz5-sup", "-gdwarf-5", "-O2", step="dwz-sup"),
    _gcc("split4", "-gdwarf-4", "-O2", _SPLIT),
    _gcc("split5", "-gdwarf-5", "-O2", _SPLIT),
    _gcc("package4", "-gdwarf-4", "-O2", _SPLIT, step="dwp"),
    _gcc("package5", "-gdwarf-5", "-O2", _SPLIT, step="dwp"),
    Variant("gcc-i386-dwarf4", ("-gdwarf-4", "-O2", "-m32")),
    Variant("gcc-i386-dwarf5", ("-gdwarf-5", "-O2", "-m32")),
    *(
        Variant(f"gcc-{machine.partition('-')[0]}-dwarf{version}", (f"-gdwarf-{version}", "-O2"), machine=machine)
        for machine in ("aarch64-linux-gnu-", "s390x-linux-gnu-")
        for version in (4, 5)
    ),
)
# clang is fetched by `.ci/oracles --large` only: `absent` where it is not.
CLANG = (
    _clang("dwarf2-O0", "-gdwarf-2", "-O0"),
    _clang("dwarf3-O1", "-gdwarf-3", "-O1"),
    _clang("dwarf4-O2", "-gdwarf-4", "-O2"),
    _clang("dwarf5-O0", "-gdwarf-5", "-O0"),
    _clang("dwarf5-O2", "-gdwarf-5", "-O2"),
    _clang("dwarf5-O3", "-gdwarf-5", "-O3"),
    _clang("lto", "-gdwarf-5", "-O2", "-flto", link=("-fuse-ld=lld",)),
    _clang("types", "-gdwarf-5", "-O2", _TYPES),
    _clang("sections-lld", "-gdwarf-4", "-O2", *_SECTIONS, link=(*_GC, "-fuse-ld=lld", "-Wl,--icf=all")),
    _clang("blocks", "-gdwarf-5", "-O2", "-fbasic-block-sections=all", link=("-fuse-ld=lld",)),
    _clang("split5", "-gdwarf-5", "-O2", _SPLIT),
    _clang("package5", "-gdwarf-5", "-O2", _SPLIT, step="dwp"),
)
VARIANTS = (*GCC, *CLANG)


@functools.cache
def built(folder: Path, variant: Variant) -> DebugProgram:
    """The program of one variant; the test is skipped if a program to build it with is missing."""
    work = folder / variant.name
    work.mkdir(parents=True)
    for name, text in SOURCES.items():
        (work / name).write_text(text)
    program, plain = work / "program", work / "plain"
    simple = _simple(variant)
    if simple != variant:
        _build(work, simple, plain.name)
    _build(work, variant, program.name)
    if simple == variant:
        shutil.copy(program, plain)
    debug = _STEPS[variant.step](work) if variant.step else None
    return DebugProgram(variant.name, program, debug, plain)


def _simple(variant: Variant) -> Variant:
    """The variant whose debugging information the referees read: neither split nor with type units, and of clang in
    version 4, as binutils and elfutils miss inlines in what clang writes in version 5."""
    flags = [flag for flag in variant.flags if flag not in (_SPLIT, _TYPES)]
    if variant.compiler == "clang++":
        flags = ["-gdwarf-4" if flag == "-gdwarf-5" else flag for flag in flags]
    return replace(variant, flags=tuple(flags))


def _build(work: Path, variant: Variant, output: str) -> None:
    """Objects are named after their sources, so that .dwo files are."""
    units = ["main.cc", "other.cc", "plain.c"] + ["code.S"] * (not variant.is_freestanding)
    for unit in units:
        _run(work, *_compile(variant, unit))
    libraries = ("-nostdlib", "-static") if variant.is_freestanding else ()
    objects = [f"{Path(unit).stem}.o" for unit in units]
    flags = [flag for flag in variant.flags if flag != "-fno-pie"]
    _run(work, variant.machine + variant.compiler, *flags, *variant.link, *libraries, *objects, "-o", output)


_OF_C = {"g++": "gcc", "clang++": "clang"}


_FREESTANDING = ("-DFREESTANDING", "-ffreestanding", "-fno-exceptions", "-fno-pic", "-fno-stack-protector")
_OF_CXX = ("-std=c++20",)


def _compile(variant: Variant, unit: str) -> tuple[str, ...]:
    flags = variant.flags
    if unit == "code.S":
        # The assembler has no split form.
        flags = (
            *(flag for flag in flags if flag != _SPLIT),
            f"-DNOP={'nopr' if 's390x' in variant.machine else 'nop'}",
        )
    elif variant.is_freestanding:
        flags = (*flags, *_FREESTANDING)
    is_cxx = unit.endswith(".cc")
    compiler = variant.compiler if is_cxx else _OF_C[variant.compiler]
    more = (*_OF_CXX, *(["-fno-rtti"] if variant.is_freestanding else [])) if is_cxx else ()
    return (variant.machine + compiler, *flags, *more, "-c", unit, "-o", f"{Path(unit).stem}.o")


# --- what is done after the link; each gives the separate file with the debugging information, or None --------------


def _compress(work: Path) -> None:
    _run(work, *oracle_command("objcopy"), "--compress-debug-sections=zstd", "program")


def _separate(work: Path) -> Path:
    """As distributions do: `program.debug`, and a link to it by name and checksum."""
    _run(work, "objcopy", "--only-keep-debug", "program", "program.debug")
    _run(work, "objcopy", "--strip-all", "--add-gnu-debuglink=program.debug", "program")
    return work / "program.debug"


def _dwz(work: Path) -> None:
    _run(work, "dwz", "program")


def _dwz_multifile(work: Path, *options: str) -> None:
    """What this program has in common with a copy of it goes to `common.dwz`, which both refer to."""
    shutil.copy(work / "program", work / "second")
    _run(work, "dwz", *options, "-m", "common.dwz", "-M", str(work / "common.dwz"), "program", "second")


def _dwz_sup(work: Path) -> None:
    """The same in the forms of DWARF 5: `.debug_sup`, not GNU's link."""
    _dwz_multifile(work, "--dwarf-5")


def _dwp(work: Path) -> None:
    """The units of the .dwo files of C++, in one package beside the program.

    dwp of binutils 2.40 is not for version 5: it leaves out .debug_rnglists.dwo. llvm-dwp 22 does not end with
    plain.dwo, where it reads a DW_FORM_implicit_const's value as the next attribute; that file is not packed."""
    units = ["main.dwo", "other.dwo"]
    _run(work, *oracle_command("llvm-dwp-22", "sid-llvm"), *units, "-o", "program.dwp")
    for unit in units:
        (work / unit).unlink()


_LIMIT = 120  # seconds, for one program
_SCRIPTS = "scripts"
_STEPS = {
    "zstd": _compress,
    "separate": _separate,
    "dwz": _dwz,
    "dwz-multifile": _dwz_multifile,
    "dwz-sup": _dwz_sup,
    "dwp": _dwp,
}


def _run(work: Path, *command: str | Path) -> None:
    scripts = work.parent / _SCRIPTS
    if str(command[0]).startswith("clang") and shutil.which(command[0]) is None and not scripts.exists():
        write_scripts(scripts)
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}" if scripts.exists() else os.environ["PATH"]
    if shutil.which(command[0], path=path) is None:
        absent(f"no {command[0]}")
    environment = os.environ | {"PATH": path}
    done = subprocess.run(
        command, cwd=work, capture_output=True, text=True, check=False, timeout=_LIMIT, env=environment
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stderr}"
