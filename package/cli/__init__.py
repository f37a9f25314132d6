"""The command line, one file per command: each parses its arguments, makes one library call and prints the result.

Strategy: results go to standard output or `-o`, everything else to standard error. Exit code 0: done; 1: done, but
`--strict` found a refusal; 2: malformed input or wrong usage, with one line that tells where. Nothing is imported here
before it is known to be needed: `--version` takes about as long as Python itself.
"""

from __future__ import annotations

import gc
import sys

from .. import __version__

PROGRAM = "unwindkit"
VERSION = f"{PROGRAM} {__version__}"
# New objects after which Python looks for cyclic garbage. Imports make some ten thousand, none of them garbage: with
# Python's 700, the search takes a twentieth of a short command.
NEW_OBJECTS = 100_000


def run_program() -> int:
    """`main` for a process of its own; returns the exit code."""
    gc.set_threshold(NEW_OBJECTS)
    try:
        return main()
    finally:
        # The process ends: a last search, through all modules, would only free memory that the system frees faster.
        gc.freeze()


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        try:
            return _run(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; Python would report that again when it flushes.
        import os

        from .common import DIFFERENT

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DIFFERENT


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        print(VERSION)
        return 0
    from .commands import run_command

    return run_command(PROGRAM, VERSION, arguments)
