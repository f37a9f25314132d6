"""Whole commands next to what a person compares them with: the start of Python, one thread, another program, one core.

Strategy: each part is a `Comparison` whose first program is ours; programs alternate, as everywhere.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import unwindkit

from .cases import Batch, Comparison, conversion
from .inputs import Found
from .measure import Program, Skipped, alternate

_PYTHON = (sys.executable,)
_UNWINDKIT = (*_PYTHON, "-m", "unwindkit")
SMALL_FILE = Path("/bin/bash")
FILES_IN_A_BATCH, LARGEST_IN_A_BATCH = 200, 1 << 20


def start_up(runs: int) -> tuple[list[Comparison], list[Skipped]]:
    """What a command costs before it works: next to the interpreter, and to the interpreter with NumPy."""
    with TemporaryDirectory() as name:
        small = conversion(SMALL_FILE, Path(name), f"sframe {SMALL_FILE} --section")
        pairs = [
            [Program("--version", (*_UNWINDKIT, "--version")), Program("python -c pass", (*_PYTHON, "-c", "pass"))],
            [small, Program("python -c 'import numpy'", (*_PYTHON, "-c", "import numpy"))],
        ]
        return _compared([("start", pair) for pair in pairs], runs)


def threads(found: Found, peers: list[Program], runs: int) -> tuple[list[Comparison], list[Skipped]]:
    """The conversion of one file by two threads, by one, and by the peers."""
    with TemporaryDirectory() as name:
        command = conversion(found.path, Path(name)).command
        ours = [
            Program("unwindkit, two threads", command, (("UNWINDKIT_THREADS", "2"),)),
            Program("unwindkit, one thread", command, (("UNWINDKIT_THREADS", "1"),)),
        ]
        return _compared([(found.name, [*ours, *peers])], runs)


def rewriting(found: Found, gimli: Program | None, runs: int) -> tuple[list[Comparison], list[Skipped]]:
    """A file's `.eh_frame` encoded again: by us the whole file with its table, by gimli the section's bytes."""
    with TemporaryDirectory() as name:
        out = str(Path(name) / "out")
        arguments = ("convert", str(found.path), out, "--from", "eh_frame", "--to", "eh_frame")
        programs = [Program("unwindkit", (*_UNWINDKIT, *arguments))]
        if gimli is not None:
            programs.append(Program(gimli.name, (*gimli.command, str(found.path), out)))
        return _compared([(found.name, programs)], runs)


def batch(folder: Path, runs: int) -> tuple[Batch | None, list[Skipped]]:
    """SFrame for many small files, written, by two processes and by one."""
    sources = _small_files(folder)
    if not sources:
        return None, [Skipped("batch", f"no small ELF file with call frame information in {folder}")]
    with TemporaryDirectory() as name:
        arguments = ("sframe", *sources, "--output-dir", str(Path(name) / "out"))
        programs = [Program(f"unwindkit -j{jobs}", (*_UNWINDKIT, *arguments, "-j", str(jobs))) for jobs in (2, 1)]
        measured, skipped = alternate(programs, runs)
    return (Batch(len(sources), tuple(measured)) if measured else None), skipped


def _small_files(folder: Path) -> list[str]:
    """The first files of a folder, by name, that are small and have call frame information."""
    found: list[str] = []
    for path in sorted(folder.iterdir()):
        if len(found) == FILES_IN_A_BATCH:
            break
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_IN_A_BATCH:
            continue
        with suppress(unwindkit.FormatError):
            if len(unwindkit.read_elf(path)):
                found.append(str(path))
    return found


def _compared(parts: list[tuple[str, list[Program]]], runs: int) -> tuple[list[Comparison], list[Skipped]]:
    """The programs of each part, in turn; no comparison where ours fails."""
    found, skipped = [], []
    for name, programs in parts:
        measured, failed = alternate(programs, runs)
        skipped += [Skipped(f"{skip.name} on {name}", skip.reason) for skip in failed]
        if measured and measured[0].program == programs[0].name:
            found.append(Comparison(name, tuple(measured)))
    return found, skipped
