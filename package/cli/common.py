"""What the commands share: exit codes, options, standard streams, and the text of figures."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, TypedDict

from ..schemas.section import FormatError

if TYPE_CHECKING:
    from ..converters.elf.debug_files import DebugFiles
    from ..converters.elf.debuginfod import DebugServers
    from ..converters.refusals import RefusedCount
    from ..jobs.code_coverage import CodeCoverage
    from ..jobs.report import FileReport, Input, SframeFigures

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

DONE, DIFFERENT, WRONG = 0, 1, 2
MESSAGE = "unwindkit: "  # what warnings and errors begin with
STREAM = "-"  # standard input, standard output
MANY_SIZES = 4
FAR_BELOW = 0.05  # the share of what the file's sections cover that may be missing without a word
INPUTS = "an ELF file, an archive, the bytes of a section, or a symbol file; - for standard input"
# KINDS of converters/files/inputs.py, which takes long to import.
SOURCES = (
    *("sframe", "eh_frame", "debug_frame", "eh_frame_hdr", "debug_line", "debug_aranges", "debug_pubnames"),
    *("debug_gnu_pubnames", "debug_pubtypes", "debug_gnu_pubtypes", "debug_macinfo", "debug_macro", "breakpad"),
    "directives",
)


class RawInput(TypedDict):
    """What is given for an input that does not tell it."""

    source: str | None
    address: int
    architecture: str | None


def add_choices(command: argparse.ArgumentParser, version: int | None, about_version: str) -> None:
    """The options of every command that writes SFrame."""
    group = command.add_argument_group("the .sframe")
    group.add_argument("--sframe-version", type=int, default=version, choices=(2, 3), help=about_version)
    group.add_argument(
        "--compact",
        choices=("none", "share", "merge"),
        help="share: functions with equal rows share their FREs; merge: share, and one FDE for adjacent functions with "
        "padding between them; none: neither (default: share; none for big-endian targets)",
    )
    group.add_argument(
        "--no-pcrel",
        action="store_true",
        help="version 2: function starts relative to the section, as before errata 1 (for binutils 2.44 and older)",
    )
    group.add_argument(
        "--frame-pointer",
        action="store_true",
        help="version 2: set the flag FRAME_POINTER: you know that all functions preserve the frame pointer",
    )


def add_quiet(command: argparse.ArgumentParser) -> None:
    """The option of every command that reports what it wrote."""
    command.add_argument("-q", "--quiet", action="store_true", help="print warnings and errors only, no report")


def add_limits(command: argparse.ArgumentParser) -> None:
    """The option of every command that reads files of others."""
    about = "multiply the limits on what a small file may amplify, which errors name, by N (default 1)"
    command.add_argument("--raise-limits", type=factor_of, metavar="N", help=about)


def factor_of(text: str) -> int:
    """What limits are multiplied by. argparse shows the message of the error."""
    from ..converters.limits import LARGEST, is_factor

    if not is_factor(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {LARGEST}")
    return int(text)


def say(options: argparse.Namespace, text: str) -> None:
    """Print a report on standard error; of a quiet command only its warnings."""
    lines = [line for line in text.splitlines() if not options.quiet or line.startswith(MESSAGE)]
    if lines:
        print("\n".join(lines), file=sys.stderr)


def warning_lines(file: str, warnings: Iterable[str]) -> list[str]:
    """One line for each warning of a report."""
    return [f"{MESSAGE}{file}: warning: {one}" for one in warnings]


def add_batch(command: argparse.ArgumentParser) -> None:
    """The options of commands that take many files."""
    many = command.add_argument_group("many files")
    many.add_argument("--files-from", metavar="LIST", help="also the files in LIST, one a line; - for standard input")
    many.add_argument(
        "--manifest", metavar="M", help="list in M what is done, and skip what M lists: to go on after a kill"
    )
    many.add_argument(
        "--exclude",
        metavar="PATTERN",
        action="append",
        default=[],
        help="leave out files in folders and packages whose path there, or whose name, matches (repeatable)",
    )
    many.add_argument(
        "--exclude-from", metavar="LIST", help="the same with each line of the file LIST, but those with #"
    )
    many.add_argument(
        "--member-limit",
        type=size_of,
        default=1 << 30,
        metavar="SIZE",
        help="the largest file in a package to read (default 1G)",
    )
    many.add_argument("--time-limit", type=seconds_of, metavar="SECONDS", help="a file that takes longer fails")
    many.add_argument(
        "--memory-limit", type=size_of, metavar="SIZE", help="a file that needs more memory fails (as 600M)"
    )


def refuse_batch_options(options: argparse.Namespace, required: str) -> None:
    """Wrong usage if an option for many files is given without the one that they require."""
    for name in ("files_from", "manifest", "exclude", "exclude_from", "time_limit", "memory_limit"):
        if getattr(options, name) not in (None, []):
            options.command.error(f"--{name.replace('_', '-')} requires {required}")
    if not options.files:
        options.command.error("a FILE is required")


def size_of(text: str) -> int:
    """A number of bytes, also with K, M or G. argparse shows the message of the error."""
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    digits = text[:-1] if factor > 1 else text
    if not digits.isdecimal() or not int(digits):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size")
    return int(digits) * factor


def seconds_of(text: str) -> float:
    """A time in seconds, above 0. argparse shows the message of the error."""
    try:
        found = float(text)
    except ValueError:
        found = 0
    if not 0 < found < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds")
    return found


def add_gates(command: argparse.ArgumentParser) -> None:
    """The options by which a pipeline fails on what the result lacks."""
    group = command.add_argument_group("exit code")
    group.add_argument(
        "--strict", action="store_true", help="exit with 1 if the result lacks rules by which callers could be found"
    )
    about = "exit with 1 if the result covers less of the code bytes than this"
    group.add_argument("--min-coverage", type=percent, metavar="PERCENT", help=about)


def fails_gates(options: argparse.Namespace, report: FileReport, coverage: CodeCoverage) -> bool:
    """Whether a result lacks more than the options of `add_gates` allow; too little coverage is printed."""
    from ..converters.refusals import is_lossless

    is_low = options.min_coverage is not None and coverage.coverage < options.min_coverage
    if is_low:
        clear_progress()
        share = share_text(coverage.covered_bytes, coverage.code_bytes)
        about = f"{share} of code bytes covered, less than --min-coverage {options.min_coverage:g} %"
        print(f"unwindkit: {report.file}: {about}", file=sys.stderr)
    return is_low or (options.strict and not is_lossless(report.refused))


def percent(text: str) -> float:
    """A number from 0 to 100. argparse shows the message of the error."""
    try:
        found = float(text.removesuffix("%"))
    except ValueError:
        found = -1
    if not 0 <= found <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0 to 100")
    return found


def add_writer(command: argparse.ArgumentParser) -> None:
    """The choice of the engine that makes space in an ELF file."""
    command.add_argument(
        "--writer",
        choices=("auto", "lief", "native"),
        default="auto",
        help="what makes space in the file: native, lief, or (auto, default) the first of them with a correct result",
    )


def add_dates(command: argparse.ArgumentParser) -> None:
    """The option of objcopy."""
    command.add_argument("-p", "--preserve-dates", action="store_true", help="keep the file's access and change times")


def add_debug_files(command: argparse.ArgumentParser) -> None:
    """The options about separate debug files."""
    group = command.add_argument_group("separate debug files")
    group.add_argument(
        "--debug-file", metavar="DEBUG", help="separate debug file (default: found by build id or .gnu_debuglink)"
    )
    group.add_argument(
        "--debug-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="look for debug files in DIR before /usr/lib/debug (repeatable)",
    )
    about = "ask the servers in DEBUGINFOD_URLS for debug files that are not here"
    group.add_argument("--debuginfod", action="store_true", help=about)
    group.add_argument("--no-debug-links", action="store_true", help="do not look for a debug file")


def debug_files(options: argparse.Namespace) -> DebugFiles:
    """The choice that these options make."""
    from ..converters.elf.debug_files import DEBUG_FOLDERS, DebugFiles

    folders = (*options.debug_dir, *DEBUG_FOLDERS)
    return DebugFiles(options.debug_file, not options.no_debug_links, folders, servers=_debug_servers(options))


def _debug_servers(options: argparse.Namespace) -> DebugServers | None:
    if not options.debuginfod:
        return None
    import os

    from ..converters.elf.debuginfod import URLS, servers_of

    try:
        servers = servers_of(os.environ)
    except ValueError as error:
        options.command.error(str(error))
    if not servers.urls:
        options.command.error(f"--debuginfod requires {URLS}")
    return servers


def debug_lines(report: Input) -> list[str]:
    """The debug file that was used, and those that were not."""
    used = [f"  debug file: {report.debug_file}"] if report.debug_file else []
    return used + [f"  debug file {note}" for note in report.debug_notes]


def writer_lines(writer: str | None, moved: tuple[str, ...], passed_over: dict[str, str]) -> list[str]:
    """How space was made in the file, and why other ways were not used."""
    if writer is None:
        return []
    also = f"; moved {', '.join(moved)}" if moved else ""
    return [f"  written: {writer}{also}", *(f"  not {name}: {reason}" for name, reason in passed_over.items())]


def add_address(command: argparse._ActionsContainer, about: str) -> None:
    command.add_argument("--address", type=integer, default=0, help=about)


def add_raw(command: argparse.ArgumentParser) -> None:
    """The options of commands that read inputs of every kind."""
    group = command.add_argument_group("raw sections and symbol files")
    group.add_argument(
        "--from",
        dest="source",
        metavar="KIND",
        choices=SOURCES,
        help="the kind of a raw FILE, or the section of an ELF FILE to read: " + ", ".join(SOURCES),
    )
    add_address(group, "raw FILE: its virtual address (default 0); symbol file: its load address")
    group.add_argument("--arch", help="architecture of a raw FILE; SFrame and symbol files with MODULE tell it")


def raw_input(options: argparse.Namespace) -> RawInput:
    """The values of these options, as the library's functions take them."""
    return {"source": options.source, "address": options.address, "architecture": options.arch}


def integer(text: str) -> int:
    """A number, hexadecimal with 0x or decimal."""
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def address_of(text: str) -> int:
    """An address, hexadecimal with 0x or decimal. argparse shows the message of the error."""
    try:
        address = int(text, 0)
    except ValueError:
        address = -1
    if not 0 <= address < 1 << 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address")
    return address


def address_or_name(text: str) -> int | str:
    """An address, or the name of a symbol: those do not begin with a digit or a sign."""
    return address_of(text) if text[:1] in set("+-0123456789") else text


def input_of(name: str) -> str | BinaryIO:
    """What to read: the file of that name, or standard input for `-`."""
    return sys.stdin.buffer if name == STREAM else name


@contextmanager
def input_path(name: str) -> Iterator[str]:
    """The path to read: `name`, or, for `-`, a temporary file with all of standard input."""
    if name != STREAM:
        yield name
        return
    import shutil
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="unwindkit-") as folder:
        path = Path(folder, STREAM)
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield str(path)
        except FormatError as error:
            if error.file == str(path):
                error.file = STREAM
            raise


@contextmanager
def output_path(name: str) -> Iterator[str]:
    """The path to write: `name`, or, for `-`, a temporary file that is copied to standard output when complete."""
    if name != STREAM:
        yield name
        return
    import shutil
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="unwindkit-") as folder:
        path = Path(folder, STREAM)
        yield str(path)
        sys.stdout.flush()
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


def target_of(options: argparse.Namespace) -> str:
    """Where to write a copy of the file: OUT, or with --in-place the file itself."""
    if options.output:
        refuse_the_input(options, options.output)
        return str(options.output)
    if options.file == STREAM:
        options.command.error("--in-place requires a file, not standard input")
    return str(options.file)


def refuse_the_input(options: argparse.Namespace, written: str, read: str | None = None) -> None:
    source = Path(read or options.file)
    if STREAM in (written, str(source)):
        return
    if Path(written).exists() and source.exists() and source.samefile(written):
        hint = ": use --in-place" if "in_place" in options and written == options.output else ""
        options.command.error(f"{written} is the input file{hint}")


def count_text(number: int | None, singular: str, plural: str | None = None) -> str:
    if number is None:
        return f"no {plural or singular + 's'} counted"
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def share_text(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "no share"


def refused_lines(refused: dict[str, RefusedCount]) -> list[str]:
    from ..converters.refusals import Reason

    return [
        f"  refused: {count_text(found.ranges, 'range')}, {found.bytes:,} bytes: {Reason[name].sentence}"
        for name, found in refused.items()
    ]


def coverage_lines(report: CodeCoverage, refused: dict[str, RefusedCount]) -> list[str]:
    """Functions that are left out, and why the result covers far less than the file's call frame information."""
    from ..converters.refusals import Reason

    lines = []
    if report.outside_code:
        lines.append(f"  left out: {count_text(report.outside_code, 'function')} outside the executable sections")
    lost = sum(found.bytes for name, found in refused.items() if Reason[name].is_loss)
    unread = sum(one.code_bytes for one in report.unread.values())
    clauses = []
    if is_far := lost + unread > FAR_BELOW * report.described_bytes:
        clauses.append(f"the file's sections cover {share_text(report.described_bytes, report.code_bytes)} of the code")
    for name, one in report.unread.items():
        if is_far or not one.code_bytes:
            more = f" ({one.code_bytes:,} bytes more)" if one.code_bytes else ""
            clauses.append(f"{name}{more} was not read: {one.reason}")
    if is_far and lost > FAR_BELOW * unread:
        clauses.append(f"{lost:,} bytes are refused")
    return [*lines, *([f"  {'; '.join(clauses)}"] * bool(clauses))]


def unchanged_lines(members: tuple[str, ...]) -> list[str]:
    """The members of an archive that stay as they are, by reason."""
    reasons = Counter(one.rpartition(": ")[2] for one in members)
    return [f"  kept: {count_text(count, 'member')}: {reason}" for reason, count in reasons.items()]


def place_text(address: int | None) -> str:
    return "" if address is None else f" at {address:#x}"


def sframe_text(figures: SframeFigures, address: int | None) -> str:
    return (
        f".sframe version {figures.version}: {figures.sframe_bytes:,} bytes{place_text(address)} "
        f"({count_text(figures.fdes, 'FDE')}, {count_text(figures.fres, 'FRE')})"
    )


def sizes_text(sizes: tuple[int, ...]) -> str:
    """All of them, or the sum if there are many."""
    if len(sizes) > MANY_SIZES:
        return f"a total of {sum(sizes):,}"
    return ", ".join(f"{size:,}" for size in sizes)


def show_progress(number: int, total: int, files: int, seconds: float) -> None:
    """On a terminal, a bar of how many sources were read, with the files that are done and the time left."""
    if sys.stderr.isatty():
        width = 40
        filled = width * number // max(1, total)
        rate = f"{files / seconds:,.0f}/s" if seconds else ""
        left = f", {_time_text(seconds / number * (total - number))} left" if number else ""
        bar = f"[{'#' * filled}{' ' * (width - filled)}] {number}/{total}"
        print(f"\r{bar}, {count_text(files, 'file')}, {rate}{left}", end="", file=sys.stderr, flush=True)


def _time_text(seconds: float) -> str:
    """Hours, minutes and seconds; hours only if there are any."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def clear_progress() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
