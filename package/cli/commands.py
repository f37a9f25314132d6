"""The commands: the arguments of the one that is run are parsed, and its errors become one line."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterable
from importlib import import_module

from ..schemas.section import FormatError
from .common import WRONG
from .parser import CommandParser
from .signals import Ended, signals_as_exceptions

# Each is a module of this folder; in the order of the help text.
COMMANDS = (
    *(
        "info",
        "sframe",
        "breakpad",
        "dump",
        "find",
        "explain",
        "symbolize",
        "walk",
        "check",
        "verify",
        "remove",
        "edit",
    ),
    *("convert", "merge", "export", "report", "corpus", "conform", "completion"),
)
# When it is loaded, NumPy's linear algebra starts one thread per core; nothing here uses them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def run_command(program: str, version: str, arguments: list[str]) -> int:
    """Run the command that the arguments begin with; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A file name may be any bytes; they are printed unchanged.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")
    # The other commands take as long to add as a short command takes to run.
    only = arguments[:1] if arguments[:1] and arguments[0] in COMMANDS else COMMANDS
    CommandParser.given = tuple(arguments)
    options, unknown = parser_of(program, version, only).parse_known_args(arguments)
    if unknown:
        # By the command's parser, which knows its options.
        options.command.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        with signals_as_exceptions():
            code: int = options.run(options)
    except FormatError as error:
        return _complain(f"{error.file or options.file}: {error}{_next_step(options, error)}")
    except BrokenPipeError:
        raise  # to `main`, for all output
    except OSError as error:
        return _complain(f"{error.filename or options.file}: {error.strerror or error}")
    except Ended as ended:
        _complain(f"ended by {ended.signal.name}")
        # By the signal's own action, so that the shell sees what happened.
        os.kill(os.getpid(), ended.signal)
    return code


def _next_step(options: argparse.Namespace, error: FormatError) -> str:
    """What the user could do."""
    is_bare = error.reason.startswith("has no call frame information")
    # Of commands that take one.
    return "; a debug file may have it: --debug-file" if is_bare and getattr(options, "debug_file", "") is None else ""


def _complain(message: str) -> int:
    print(f"unwindkit: {message}", file=sys.stderr)
    return WRONG


def parser_of(program: str, version: str, names: Iterable[str] = COMMANDS) -> CommandParser:
    """The parser of the commands of these names."""
    about = "Read, convert and write the unwind information of finished binaries."
    parser = CommandParser(prog=program, description=about)
    parser.add_argument("--version", action="version", version=version)
    # Without `prog`, argparse formats the usage here.
    commands = parser.add_subparsers(required=True, metavar="COMMAND", prog=program)
    for name in names:
        import_module(f".{name}", __package__).add(commands)
        added, about = commands.choices[name], commands._choices_actions[-1].help or ""
        added.description = added.description or f"{about[:1].upper()}{about[1:]}."
    return parser
