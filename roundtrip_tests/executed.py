"""verify on programs of this system, with millions of steps: every source of unwind information against execution.

Strategy: `python -m roundtrip_tests.executed [--steps N] [NAME ...]`. A program and all libraries it is linked with
get an `.sframe` of both versions and a symbol file, and run by their own loader, so that the same steps judge all of
these. Prints figures by program, and each wrong row; a row that is wrong in our formats alone makes the exit status 1.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import unwindkit
from unwindkit import VerifyReport, verify

from .support.programs.executed_languages import CGO, GO, RUST, built_go, built_rust
from .support.programs.executed_programs import CONTROL, EXCEPTIONS, PLAIN, built

LOOP = "i=0; while [ $i -lt 300 ]; do i=$((i + 1)); x=$(echo $i | tr 0-9 a-j); case $x in a*) y=$x;; esac; done"
THREADS = """
import ctypes, threading
order = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: (a > b) - (a < b))
def work():
    values = (ctypes.c_int * 20)(*range(20, 0, -1))
    ctypes.CDLL(None).qsort(values, 20, 4, order)
threads = [threading.Thread(target=work) for _ in range(3)]
[one.start() for one in threads]
[one.join() for one in threads]
"""
CRYPTO = "import hashlib, ssl; [hashlib.new(n, b'x' * 999).hexdigest() for n in ('md5', 'sha1', 'sha256', 'sha512')]"
ROUNDS = "-DROUNDS=40"  # of PLAIN
SIGNED = ("-mbranch-protection=standard", ROUNDS)  # return addresses are signed


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run: `command`, or a source of executed_programs.py or executed_languages.py. `flags`: of the
    compiler."""

    name: str
    command: tuple[str, ...] = ()
    source: str = ""
    compiler: str = "gcc"
    flags: tuple[str, ...] = ()


PROGRAMS = (
    Program("ls", ("ls", "-lR", "/usr/lib/python3")),
    Program("bash", ("bash", "-c", LOOP)),
    Program("python", ("/usr/bin/python3", "-c", THREADS)),
    Program("exceptions", source=EXCEPTIONS),
    Program("control", source=CONTROL),
    Program("openssl", ("openssl", "speed", "-bytes", "64", "-seconds", "1", "sha256", "aes-128-cbc", "sha512")),
    Program("crypto", ("/usr/bin/python3", "-c", CRYPTO)),
    Program("gdb", ("gdb", "-batch", "-nx", "-ex", "info line main")),
    Program("go", source=GO, compiler="go"),
    Program("cgo", source=CGO, compiler="go"),
    Program("rust", source=RUST, compiler="rustc"),
    Program("aarch64", source=PLAIN, compiler="aarch64-linux-gnu-gcc", flags=SIGNED),
    Program("aarch64-static", source=PLAIN, compiler="aarch64-linux-gnu-gcc", flags=(*SIGNED, "-static")),
    Program("s390x", source=PLAIN, compiler="s390x-linux-gnu-gcc", flags=(ROUNDS,)),
    Program("s390x-static", source=PLAIN, compiler="s390x-linux-gnu-gcc", flags=(ROUNDS, "-static")),
)


def with_own_sections(program: Path, version: int, folder: Path) -> list[str]:
    """Copies of a program and its libraries with an `.sframe`, and the command that runs it with these."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    loader = ""
    for path in {word for word in listed.split() if word.startswith("/")} | {str(program)}:
        copy = folder / Path(path).name
        unwindkit.write_sframe(path, copy, version)
        if Path(path).name.startswith("ld-linux"):
            loader = str(copy)
    if not loader:
        return [str(folder / program.name)]
    return [loader, "--library-path", str(folder), str(folder / program.name)]


def runs(program: Program, steps: int, folder: Path) -> Iterator[tuple[str, VerifyReport]]:
    """Run a program with sections of each version, and symbol files of all that it loads."""
    command = list(program.command)
    if program.source:
        command = [str(_built(program, folder))]
    found = shutil.which(command[0])
    if found is None:
        sys.stdout.write(f"{program.name}: no {command[0]} here\n")
        return
    if program.compiler.endswith("-linux-gnu-gcc"):
        yield "as it is", verify(command, steps=steps)
        return
    for version in (2, 3):
        copies = folder / str(version)
        copies.mkdir()
        prefix = with_own_sections(Path(found).resolve(), version, copies)
        symbols = [folder / f"{path.name}.{version}.sym" for path in copies.iterdir()]
        for path, out in zip(copies.iterdir(), symbols, strict=True):
            unwindkit.write_breakpad(path, out, cfi_only=True)
        yield f"version {version}", verify([*prefix, *command[1:]], steps=steps, symbol_files=symbols)


def _built(program: Program, folder: Path) -> Path:
    match program.compiler:
        case "go":
            return built_go(folder, program.source)
        case "rustc":
            return built_rust(folder, program.source)
        case compiler:
            return built(folder, program.source, compiler, *program.flags)


def report(name: str, found: VerifyReport) -> bool:
    """Print figures; whether no row of ours is wrong where the `.eh_frame` is right."""
    places = {(one.file, one.address) for one in found.wrong if one.source in (".eh_frame", ".debug_frame")}
    ours = [one for one in found.wrong if (one.file, one.address) not in places]
    rows = sum(source.rows for file in found.files for source in file.sources)
    rate = found.steps / found.seconds
    sys.stdout.write(
        f"{name}: {found.steps:,} steps, {found.checked:,} checked, {rows:,} rows, {len(found.wrong)} wrong, "
        f"{len(ours)} of them ours alone, {len(found.unclear)} unclear, {rate:,.0f} steps/s\n"
    )
    for one in found.wrong[:20]:
        rules = " ".join(f"{register}={rule}" for register, rule in one.rules.items())
        sys.stdout.write(f"    {one.file} {one.address:#x} <{one.symbol}> {one.source} {rules}: {one.seen}\n")
    sys.stdout.flush()
    return not ours


def main() -> int:
    """Run it; the exit status is 1 if a row of our own formats is wrong alone."""
    parser = argparse.ArgumentParser(prog="python -m roundtrip_tests.executed", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="at most, for each run (default 1,000,000)")
    parser.add_argument("name", nargs="*", help=f"default: all of {', '.join(one.name for one in PROGRAMS)}")
    options = parser.parse_args()
    is_right = True
    for program in PROGRAMS:
        if not options.name or program.name in options.name:
            with tempfile.TemporaryDirectory() as folder:
                for how, found in runs(program, options.steps, Path(folder)):
                    is_right &= report(f"{program.name}, {how}", found)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
