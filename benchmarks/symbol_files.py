"""Whole symbol files, with functions, inlines and lines: our command and the programs that do the same, on large files.

Strategy: programs alternate, as in every part; each is a whole process, from the files to what it writes. symbolic has
no command: a child of this module makes its symcache and writes that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from .cases import SymbolFiles
from .debug_inputs import DebugInput
from .measure import Program, Skipped, Usage, alternate, run_once, version_line
from .stack_cfi import DUMP_SYMS, OURS, dump_syms, symbolic

# The path of Mozilla's program, which `cargo install dump_syms` compiles in minutes: `.ci/oracles` does not fetch it.
MOZILLA_PATH = "UNWINDKIT_MOZILLA_DUMP_SYMS"
MOZILLA, BREAKPAD, SYMCACHE = "Mozilla dump_syms", "Breakpad dump_syms", "symbolic symcache"
CPU_LIMIT = 600  # seconds
INPUTS = ("libc", "python3.11", "symbolic", "librados2", "ceph-mds")


def peers() -> tuple[list[Program], list[Skipped]]:
    """The peers found, each without the files that it reads, and why the others are missing."""
    found = [_renamed(dump_syms(), BREAKPAD), mozilla(), _renamed(symbolic(), SYMCACHE)]
    programs = [peer for peer in found if isinstance(peer, Program)]
    return programs, [peer for peer in found if isinstance(peer, Skipped)]


def mozilla() -> Program | Skipped:
    """Mozilla's dump_syms, by the environment or on PATH."""
    path = os.environ.get(MOZILLA_PATH) or shutil.which(DUMP_SYMS)
    if path is None:
        return Skipped(MOZILLA, f"no {DUMP_SYMS} on PATH, and {MOZILLA_PATH} is not set (cargo install {DUMP_SYMS})")
    try:
        return Program(MOZILLA, (path,), version=version_line(path, "--version"))
    except (subprocess.CalledProcessError, OSError) as error:
        return Skipped(MOZILLA, f"does not run: {error}")


def _renamed(peer: Program | Skipped, name: str) -> Program | Skipped:
    if isinstance(peer, Skipped):
        return Skipped(name, peer.reason)
    return Program(name, peer.command, version=peer.version)


def commands(one: DebugInput, programs: list[Program], folder: Path) -> Iterator[Program]:
    """What is run: our command first, and each peer's for the same names, inlines and lines."""
    debug = ("--debug-file", str(one.debug)) if one.debug else ()
    whole = (sys.executable, "-m", "unwindkit", "breakpad", str(one.path), *debug)
    yield Program(OURS, (*whole, "-o", str(folder / "ours.sym")))
    arguments = {
        BREAKPAD: ("-d", "-m", str(one.path), *([str(one.debug.parent)] if one.debug else [])),
        MOZILLA: ("--inlines", "-o", str(folder / "mozilla.sym"), str(one.source)),
    }
    for peer in programs:
        if peer.name == SYMCACHE:
            child = (sys.executable, "-m", "benchmarks.symbol_files", str(one.source), str(folder / "symcache"))
            yield Program(SYMCACHE, child)
        else:
            yield Program(peer.name, (*peer.command, *arguments[peer.name]))


def _run_once(program: Program) -> Usage:
    return run_once(program, CPU_LIMIT)


def measure(one: DebugInput, programs: list[Program], runs: int) -> tuple[SymbolFiles | None, list[Skipped]]:
    """All of them on one input, in turn; no comparison where unwindkit itself fails."""
    with TemporaryDirectory() as folder:
        measured, failed = alternate(list(commands(one, programs, Path(folder))), runs, _run_once)
    skipped = [Skipped(f"{skip.name} on {one.name}", skip.reason) for skip in failed]
    if not measured or measured[0].program != OURS:
        return None, skipped
    return SymbolFiles(one.name, tuple(measured), one.debug_info_size()), skipped


def main(path: str, output: str) -> None:
    """The child: symbolic's symcache of a file, written to another."""
    from symbolic import Archive

    cache = next(Archive.open(path).iter_objects()).make_symcache()
    with open(output, "wb") as file:
        cache.dump_into(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
