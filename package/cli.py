"""The command line: arguments in, one library call a command, results and messages out.

Strategy: results go to standard output or `-o`, everything said about them to standard error. Exit 0: done;
1: done, but `--strict` met a refusal; 2: malformed input or wrong usage, with one line that says where.
"""

from __future__ import annotations

import argparse
import io
import os
import sys

from . import cli_breakpad, cli_convert, cli_edit, cli_read, cli_write
from .cli_common import DIFFERENT, WRONG
from .schemas.section import FormatError

# NumPy's linear algebra starts a thread a core when it is loaded; nothing here asks for any.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A file name need not be text; it is printed as it came.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except FormatError as error:
        return _complain(f"{error.file or options.file}: {error}")
    except BrokenPipeError:
        # Whoever read has seen enough; Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DIFFERENT
    except OSError as error:
        return _complain(f"{error.filename or options.file}: {error.strerror or error}")
    return code


def _complain(message: str) -> int:
    print(f"unwindkit: {message}", file=sys.stderr)
    return WRONG


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="unwindkit", description="Unwind information of finished binaries.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (
        *(cli_read.add_info, cli_write.add_sframe, cli_breakpad.add_breakpad, cli_read.add_dump, cli_read.add_find),
        *(cli_write.add_remove, cli_edit.add_edit, cli_convert.add_convert, cli_convert.add_merge),
    ):
        add(commands)
    return parser
