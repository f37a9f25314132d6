"""The programs that unwindkit is measured against: each prints every row of a file's `.eh_frame`.

Strategy: an absent peer is a `Skipped` with the reason; `programs` returns those that run on one input.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import metadata

from .crates import FRAMES, ROWS, crate_program
from .inputs import Found
from .measure import ORACLES, Program, Skipped, version_line

READELF = "readelf 2.47"
_ROWS = ("-wNF",)  # N: no links to debug files are followed, so that all read the same bytes


def readelf_of_oracles() -> Program | Skipped:
    """binutils 2.47 as roundtrip_tests/support/oracles.py finds it: unpacked, run with its own loader and libraries."""
    root = ORACLES / "forky"
    loader = next(root.glob("usr/lib/*-linux-gnu/ld*.so.?"), None)
    path = root / "usr/bin/readelf"
    if loader is None or not path.exists():
        reason = "no usr/bin/readelf with its loader in forky of UNWINDKIT_ORACLES or .oracles (.ci/oracles fetches it)"
        return Skipped(READELF, reason)
    command = (str(loader), "--library-path", str(loader.parent), "--argv0", str(path), str(path))
    return _versioned(Program(READELF, (*command, *_ROWS)), *command, "--version")


def readelf_of_system() -> Program | Skipped:
    """The readelf on PATH."""
    return _on_path("readelf (system)", "readelf", *_ROWS)


def llvm_dwarfdump() -> Program | Skipped:
    """LLVM's, on PATH; it prints instructions and rows."""
    return _on_path("llvm-dwarfdump", "llvm-dwarfdump", "--eh-frame")


def pyelftools() -> Program:
    """The library that we open ELF files with, decoding every entry."""
    command = (sys.executable, "-m", "benchmarks.pyelftools_rows")
    return Program("pyelftools", command, version=metadata.version("pyelftools"))


def _on_path(name: str, program: str, *options: str) -> Program | Skipped:
    path = shutil.which(program)
    if path is None:
        return Skipped(name, f"no {program} on PATH")
    return _versioned(Program(name, (path, *options)), path, "--version")


def _versioned(program: Program, *command: str) -> Program | Skipped:
    """The program and its version, as it prints it."""
    try:
        return replace(program, version=version_line(*command))
    except (subprocess.CalledProcessError, OSError) as error:
        return Skipped(program.name, f"does not run: {error}")


def all_peers(quick: bool, fetch: bool = False) -> tuple[list[Program], list[Skipped]]:
    """The peers found, and why others are missing. Quick: one readelf, the system's if 2.47 is absent. `fetch`: cargo
    may build those in Rust."""
    oracle = readelf_of_oracles()
    if quick:
        found = [oracle] if isinstance(oracle, Program) else [oracle, readelf_of_system()]
    else:
        crates = [crate_program(name, fetch) for name in (ROWS, FRAMES)]
        found = [oracle, readelf_of_system(), llvm_dwarfdump(), *crates, pyelftools()]
    programs = [peer for peer in found if isinstance(peer, Program)]
    return programs, [peer for peer in found if isinstance(peer, Skipped)]


def on_input(peers: list[Program], found: Found) -> tuple[list[Program], list[Skipped]]:
    """The peers' commands for one file; the slow ones get only small files."""
    slow = [peer for peer in peers if peer.name == "pyelftools" and not found.small]
    programs = [replace(peer, command=(*peer.command, str(found.path))) for peer in peers if peer not in slow]
    return programs, [Skipped(f"{peer.name} on {found.name}", "too slow for a file of this size") for peer in slow]
