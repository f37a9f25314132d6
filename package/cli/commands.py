"""The commands: the arguments of the one that is run are parsed, and its errors become one line."""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module

from ..schemas.section import FormatError
from .common import WRONG, add_limits, count_text
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
# The options of what library functions call otherwise.
PARAMETERS = {"source": "--from", "architecture": "--arch"}
# They read no files of others.
WITHOUT_LIMITS = ("corpus", "conform", "completion")
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
    if options.verbose and getattr(options, "quiet", False):
        options.command.error("argument -v/--verbose: not allowed with argument -q/--quiet")
    try:
        steps = _steps_shown(version) if options.verbose else nullcontext()
        with signals_as_exceptions(), _limits(options), steps:
            code: int = options.run(options)
    except FormatError as error:
        return _complain(f"{error.file or options.file}: {error}{_next_step(options, error)}")
    except BrokenPipeError:
        raise  # to `main`, for all output
    except OSError as error:
        hint = "; a folder requires --output-dir" if _could_be_folder(options, error) else ""
        return _complain(f"{error.filename or options.file}: {error.strerror or error}{hint}")
    except Ended as ended:
        _complain(f"ended by {ended.signal.name}")
        # By the signal's own action, so that the shell sees what happened.
        os.kill(os.getpid(), ended.signal)
    return code


@contextmanager
def _steps_shown(version: str) -> Iterator[None]:
    """What `--verbose` prints on standard error: kernels and threads, the steps of the body, and the whole time."""
    from ..converters.kernels import engine
    from ..converters.threads import thread_count
    from ..schemas.steps import listening

    python = ".".join(map(str, sys.version_info[:3]))
    begin = time.monotonic()
    _show_step(
        f"{version}, Python {python}, {engine.chosen().name} kernels, {count_text(thread_count(), 'thread')}", None
    )
    try:
        with listening(_show_step):
            yield
    finally:
        _show_step("in all", time.monotonic() - begin)


def _show_step(text: str, seconds: float | None) -> None:
    when = "" if seconds is None else f"{seconds:.3f} s"
    # In one piece: steps of several threads end together.
    sys.stderr.write(f"{when:>9}  {text}\n")
    sys.stderr.flush()


def _limits(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Limits as the options have them."""
    factor = getattr(options, "raise_limits", None)
    if factor is None:
        return nullcontext()
    from ..converters.limits import raised_limits

    return raised_limits(factor)


def _next_step(options: argparse.Namespace, error: FormatError) -> str:
    """What the user could do, where an option of the command would help."""
    is_input = error.file in (None, "", options.file)
    has_raw = is_input and hasattr(options, "arch") and hasattr(options, "source")
    if error.reason.startswith("has no call frame information") and getattr(options, "debug_file", "") is None:
        return "; a debug file may have it: --debug-file"
    if has_raw and error.reason == "not an ELF file":
        return "; the kind of a raw section is given by --from"
    if has_raw and error.reason.startswith("is missing") and error.record in PARAMETERS:
        return f"; it is given by {PARAMETERS[error.record]}"
    return ""


def _could_be_folder(options: argparse.Namespace, error: OSError) -> bool:
    """Whether the input is a folder, and the command takes folders in other ways."""
    return isinstance(error, IsADirectoryError) and hasattr(options, "output_dir") and error.filename == options.file


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
        if name not in WITHOUT_LIMITS:
            add_limits(added)
        added.description = added.description or f"{about[:1].upper()}{about[1:]}."
        help_text = "print on standard error each step with its time, and which files, kernels and threads are used"
        added.add_argument("-v", "--verbose", action="store_true", help=help_text)
    return parser
