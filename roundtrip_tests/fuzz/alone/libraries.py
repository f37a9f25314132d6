"""Small real files: libraries that the C compiler makes, read by everything that reads such a file."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import unwindkit

from ...support.made.debug_entries import NO_LINKS
from ..seeds import Seed
from ..target import Target

SOURCE = """\
struct s { int a; long b[3]; };
static inline int twice(int x) { return 2 * x; }
int f(int x) { return x > 3 ? twice(x) + f(x - 1) : x; }
long g(struct s *p, int n) { long sum = 0; for (int i = 0; i < n; i++) sum += p->b[i % 3] + f(i); return sum; }
void *h(int n) { char *space = __builtin_alloca(n); space[n - 1] = (char)f(n); return space + g(0, n); }
"""
FLAGS = (
    ("-O0", "-g"),
    ("-O2", "-g"),
    ("-O2", "-gdwarf-4"),
    ("-O1", "-gdwarf-2", "-gstrict-dwarf"),
    ("-O2", "-m32", "-g"),
)


@cache
def libraries() -> list[Seed]:
    """The library of one source with each of some flags; those that the compiler cannot make are left out."""
    compiler, found = shutil.which("gcc"), []
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "a.c"), Path(folder, "a.so")
        source.write_text(SOURCE, encoding="utf-8")
        for flags in FLAGS if compiler else ():
            command = [str(compiler), "-shared", "-nostdlib", "-fPIC", *flags, "-o", str(target), str(source)]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                found.append(Seed(target.read_bytes()))
    return found


def _sframe(seed: Seed) -> object:
    table = unwindkit.read_elf(seed.data)
    return [unwindkit.from_sframe(unwindkit.to_sframe(table, version=version)[0]) for version in (2, 3)]


def _merged(seed: Seed) -> object:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "a.so"), Path(folder, "b.so")
        source.write_bytes(seed.data)
        for version in (2, 3):
            unwindkit.write_sframe(source, target, version=version, compact="merge", debug=NO_LINKS)
        return target.read_bytes()


def _lines(seed: Seed) -> object:
    lines = unwindkit.read_lines(seed.data)
    again = unwindkit.from_line_records(unwindkit.to_line_records(lines))
    return unwindkit.to_debug_line(again), unwindkit.to_debug_line(lines)


def _symbol_file(seed: Seed) -> object:
    out = io.BytesIO()
    unwindkit.write_breakpad(seed.data, out, debug=NO_LINKS)
    return out.getvalue()


LIBRARIES = Target(
    "libraries",
    libraries,
    {
        "sframe": _sframe,
        "merged": _merged,
        "eh_frame": lambda seed: unwindkit.to_eh_frame(unwindkit.read_elf(seed.data)),
        "stack_cfi": lambda seed: unwindkit.to_stack_cfi(unwindkit.read_elf(seed.data)),
        "lines": _lines,
        "functions": _symbol_file,
        "units": lambda seed: unwindkit.read_units(seed.data),
    },
    (),
)
