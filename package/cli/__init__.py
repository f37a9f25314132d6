"""The command line, one file per command: each parses its arguments, makes one library call and prints the result.

Strategy: results go to standard output or `-o`, everything else to standard error. Exit code 0: done; 1: done, but
`--strict` found a refusal; 2: malformed input or wrong usage, with one line that tells where.
"""

from __future__ import annotations

import argparse
import io
import os
import sys

from .. import __version__
from ..schemas.section import FormatError
from . import (
    breakpad,
    check,
    conform,
    convert,
    corpus,
    dump,
    edit,
    find,
    info,
    merge,
    remove,
    sframe,
    symbolize,
    verify,
    walk,
)
from .common import DIFFERENT, WRONG

# When it is loaded, NumPy's linear algebra starts one thread per core; nothing here uses them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A file name may be any bytes; they are printed unchanged.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except FormatError as error:
        return _complain(f"{error.file or options.file}: {error}")
    except BrokenPipeError:
        # The reader has closed the pipe; Python would report that again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DIFFERENT
    except OSError as error:
        return _complain(f"{error.filename or options.file}: {error.strerror or error}")
    return code


def _complain(message: str) -> int:
    print(f"unwindkit: {message}", file=sys.stderr)
    return WRONG


def _parser() -> argparse.ArgumentParser:
    about = "Read, convert and write the unwind information of finished binaries."
    parser = argparse.ArgumentParser(prog="unwindkit", description=about)
    parser.add_argument("--version", action="version", version=f"unwindkit {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    uses = (
        info,
        sframe,
        breakpad,
        dump,
        find,
        symbolize,
        walk,
        check,
        verify,
        remove,
        edit,
        convert,
        merge,
        corpus,
        conform,
    )
    for command in uses:
        command.add(commands)
    return parser
