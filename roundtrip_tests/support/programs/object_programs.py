"""A C++ program of two files, compiled to objects and linked by GNU ld 2.47, natively and for other machines.

Strategy: no product code. Both files have the same templates and inline functions (COMDAT), each has functions that
nothing calls; its exit status depends on every step. The C runtime's start files are linked by name, so that a test
can give them an `.sframe` as well: then only ld's own PLT is described by another tool.
"""

from __future__ import annotations

import functools
import platform
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from .. import oracles
from ..oracles import absent

COMMON = r"""
#include <stdexcept>
#include <string>
#include <vector>
#define NOINLINE __attribute__((noinline))
extern int destroyed;
struct Guard { int weight; explicit Guard(int w) : weight(w) {} NOINLINE ~Guard() { destroyed += weight; } };
template <int N> NOINLINE int deep(int n) { Guard guard(1); return deep<N - 1>(n + 1) + N; }
template <> int deep<0>(int n);
NOINLINE inline int shared(std::vector<int> &v) { v.push_back(2); return (int)v.size(); }
template <class T> NOINLINE T unused_template(T value) { Guard guard(2); return deep<3>(value); }
"""
FIRST = (
    COMMON
    + r"""
int destroyed;
int other(int);
NOINLINE int thrower(int n) { Guard guard(10); if (n > 0) throw std::runtime_error(std::string(n, 'x')); return n; }
int never_called(int n) { return unused_template(n); }
int main(int argc, char **) {
    std::vector<int> v(3);
    int caught = 0;
    try { v.push_back(thrower(argc)); }
    catch (const std::exception &error) { caught = (int)std::string(error.what()).size(); }
    int value = shared(v) + deep<2>(argc) + other(argc);
    return value + caught + destroyed;
}
"""
)
SECOND = (
    COMMON
    + r"""
template <> int deep<0>(int n) { char bytes[300]; bytes[n] = (char)n; return bytes[n]; }
int other(int n) { std::vector<int> v; return shared(v) + deep<1>(n); }
int not_called_either(int n) { std::string s(n, 'a'); return (int)s.size() + unused_template(n); }
"""
)
SOURCES = {"first": FIRST, "second": SECOND}
# v has 3 elements: 4 after `shared`; deep<2>(1) is 3 + 1 + 2; other(1) is 1 + (2 + 1); 1 caught; 10 + 2 + 1 destroyed.
EXIT_CODE = 4 + 6 + 4 + 1 + 13
# One of their two copies stays, or none with --gc-sections.
FOLDED, DEAD = (
    ("_Z6sharedRSt6vectorIiSaIiEE", "_ZN5GuardD1Ev", "_Z4deepILi1EEii"),
    ("_Z12never_calledi", "_Z17not_called_eitheri"),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """The program's target. `suite` has GNU as and ld 2.47 with that prefix."""

    name: str
    prefix: str = ""
    suite: str = "forky"

    @property
    def compiler(self) -> str:
        return f"{self.prefix}g++"


NATIVE = Machine("x86_64")
MACHINES = (NATIVE, Machine("aarch64", "aarch64-linux-gnu-"), Machine("s390x", "s390x-linux-gnu-"))
TRIXIE = Machine("x86_64", suite="trixie")
EVERY_MACHINE = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


def require(machine: Machine) -> None:
    """Skip the test if nothing can be built for the machine."""
    if platform.machine() != "x86_64" or shutil.which(machine.compiler) is None:
        absent(f"no {machine.compiler} on x86-64")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stderr}"
    return done.stdout + done.stderr


@functools.cache
def tools(folder: Path, machine: Machine) -> tuple[str, ...]:
    """The compiler's options for the suite's ld (not its as: users' code is assembled by the system's)."""
    scripts = folder / f"ld-{machine.suite}-{machine.name}"
    scripts.mkdir(parents=True, exist_ok=True)
    command = shlex.join(map(str, oracles.oracle_command(f"{machine.prefix}ld", machine.suite)))
    (scripts / "ld").write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (scripts / "ld").chmod(0o755)
    return ("-B", f"{scripts}/")


def compiled(folder: Path, machine: Machine, *flags: str) -> list[Path]:
    """The objects of the program."""
    require(machine)
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in SOURCES.items():
        (folder / f"{name}.cc").write_text(source)
        run(machine.compiler, *flags, "-c", f"{name}.cc", "-o", f"{name}.o", cwd=folder)
    return [folder / f"{name}.o" for name in SOURCES]


def start_files(machine: Machine, names: Sequence[str] = ("Scrt1.o", "crti.o", "crtbeginS.o")) -> list[Path]:
    return [Path(run(machine.compiler, f"-print-file-name={name}").strip()) for name in names]


def linked(
    folder: Path, machine: Machine, objects: Sequence[str | Path], *flags: str, start: Sequence[Path] = ()
) -> Path:
    """The program, linked by the suite's ld; `start`, if given, are its start files, a position-independent one's."""
    output = folder / "program"
    ends = start_files(machine, ("crtendS.o", "crtn.o")) if start else []
    bare = ["-nostartfiles", "-pie"] if start else []
    options = [*tools(folder, machine), *bare, *flags]
    said = run(machine.compiler, *options, *start, *objects, *ends, "-o", output)
    assert "sframe" not in said.lower(), said
    return output


def runs(program: Path, machine: Machine) -> None:
    """Check that the program exits as expected; skips the test if nothing can run it."""
    command: list[str | Path] = [program]
    if machine.prefix:
        emulator = shutil.which(f"qemu-{machine.name}")
        if emulator is None:
            absent(f"no qemu-{machine.name}")
        command = [emulator, "-L", f"/usr/{machine.name}-linux-gnu", program]
    assert subprocess.run(command, check=False).returncode == EXIT_CODE


def sections(path: Path) -> dict[str, tuple[int, int]]:
    """Start and end of each section by its name, the last of equal names."""
    with path.open("rb") as file:
        found = ELFFile(file).iter_sections()
        return {one.name: (one["sh_addr"], one["sh_addr"] + one["sh_size"]) for one in found}


def symbols(path: Path) -> set[str]:
    """The functions that the file defines."""
    with path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        return {one.name for one in table.iter_symbols() if one["st_shndx"] != "SHN_UNDEF"}
