"""The command line: arguments in, one library call a command, results and messages out.

Strategy: results go to standard output or `-o`, everything said about them to standard error. Exit 0: done;
1: done, but `--strict` met a refusal; 2: malformed input or wrong usage, with one line that says where.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from .schemas.section import FormatError

if TYPE_CHECKING:
    from .conversions import ConvertReport, MergeReport
    from .jobs import FileInfo, RefusedCount, SframeReport

DONE, DIFFERENT, WRONG = 0, 1, 2

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
    _add_info(commands)
    _add_sframe(commands)
    _add_dump(commands)
    _add_find(commands)
    _add_remove(commands)
    _add_convert(commands)
    _add_merge(commands)
    return parser


def _add_info(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("info", help="what unwind information a file has")
    command.add_argument("file", metavar="FILE", nargs="?")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.add_argument("--engine", action="store_true", help="say which kernels are in use: compiled or pure")
    command.set_defaults(run=_info, command=command)


def _add_sframe(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "sframe",
        help="add an .sframe section made from the file's call frame information",
        description="Make an .sframe section from .eh_frame (or .debug_frame) and add it to the file.",
    )
    command.add_argument("file", metavar="FILE")
    output = command.add_mutually_exclusive_group(required=True)
    output.add_argument("-o", dest="output", metavar="OUT", help="write the file with its .sframe here")
    output.add_argument("--in-place", action="store_true", help="replace FILE itself")
    output.add_argument("--section", metavar="OUT.bin", help="write the bytes of the section alone")
    _add_address(command, "with --section: the virtual address the section will have (starts count from it; default 0)")
    _add_choices(command, 2, "version to write (default 2)")
    command.add_argument("--max-rows", type=int, metavar="N", help="with --compact merge: at most N FREs an FDE")
    command.add_argument("--report", metavar="R.json", help="write the figures as JSON")
    command.add_argument("--strict", action="store_true", help="exit 1 if some function could not be converted whole")
    command.set_defaults(run=_sframe, command=command)


def _add_choices(command: argparse.ArgumentParser, version: int | None, about_version: str) -> None:
    """What every command that writes SFrame has."""
    command.add_argument("--sframe-version", type=int, default=version, choices=(2, 3), help=about_version)
    command.add_argument(
        "--compact",
        choices=("none", "share", "merge"),
        help="share: functions with equal rows name the same FREs; merge: also neighbours across padding are one FDE; "
        "none: neither (default: share, for big-endian targets none)",
    )


def _add_address(command: argparse.ArgumentParser, about: str) -> None:
    command.add_argument("--address", type=lambda text: int(text, 0), default=0, help=about)


def _add_dump(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("dump", help="print what sections hold, as GNU readelf 2.47 prints it")
    command.add_argument("file", metavar="FILE")
    command.add_argument("--sframe", action="store_true", help="every .sframe section, as readelf --sframe does")
    command.add_argument("--json", action="store_true", help="as JSON, one object a section")
    command.set_defaults(run=_dump, command=command)


def _add_find(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("find", help="the row in force at a PC, from each source in the file")
    command.add_argument("file", metavar="FILE")
    command.add_argument("pcs", metavar="PC", nargs="+", type=_address, help="an address, 0x1234 or decimal")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=_find, command=command)


def _add_remove(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("remove", help="take .sframe sections and the segment that names them out of a file")
    command.add_argument("file", metavar="FILE")
    output = command.add_mutually_exclusive_group(required=True)
    output.add_argument("-o", dest="output", metavar="OUT", help="write the file without its .sframe here")
    output.add_argument("--in-place", action="store_true", help="replace FILE itself")
    command.set_defaults(run=_remove, command=command)


def _add_convert(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "convert",
        help="one version or format into another: raw sections, or the section of an ELF file",
        description="Write the unwind information of IN, an ELF file or a raw section, in another format.",
    )
    command.add_argument("file", metavar="IN")
    command.add_argument("output", metavar="OUT")
    command.add_argument("--to", required=True, choices=("sframe",), help="format to write")
    command.add_argument(
        "--from",
        dest="source",
        choices=("sframe", "eh_frame", "debug_frame"),
        help="what IN is, or its section to read",
    )
    _add_choices(command, 2, "version to write (default 2)")
    _add_address(command, "raw IN: the virtual address of its section (default 0)")
    command.add_argument(
        "--to-address", type=lambda text: int(text, 0), help="that of a section written (default: IN's)"
    )
    command.add_argument("--arch", help="raw call frame information: its architecture")
    command.add_argument("--section", action="store_true", help="ELF IN: write the bytes of the section alone")
    command.add_argument("--strict", action="store_true", help="exit 1 if some function could not be converted whole")
    command.set_defaults(run=_convert, command=command)


def _add_merge(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("merge", help="several .sframe sections into one")
    command.add_argument(
        "inputs", metavar="FILE[@ADDRESS]", nargs="+", type=_input, help="an ELF file, or a raw section and its address"
    )
    command.add_argument("-o", dest="file", metavar="OUT", required=True, help="write the section here")
    _add_address(command, "the virtual address the section will have (default 0)")
    _add_choices(command, None, "version to write (default: the inputs')")
    command.add_argument(
        "--strict", action="store_true", help="exit 1 if inputs contradict each other, or on a refusal"
    )
    command.set_defaults(run=_merge, command=command)


def _input(text: str) -> tuple[str, int]:
    """FILE@ADDRESS; what follows the last @ is an address where it is a number."""
    path, found, address = text.rpartition("@")
    try:
        return (path, _address(address)) if found else (text, 0)
    except argparse.ArgumentTypeError:
        return text, 0


def _address(text: str) -> int:
    """An address in any notation of Python's; argparse shows what is said of another text."""
    try:
        address = int(text, 0)
    except ValueError:
        address = -1
    if not 0 <= address < 1 << 64:
        raise argparse.ArgumentTypeError(f"{text!r} is no address")
    return address


def _info(options: argparse.Namespace) -> int:
    if options.engine:
        from .converters.kernels import engine

        print(engine().name)
    if options.file is None:
        return DONE if options.engine else options.command.error("FILE is missing")
    import json

    from .jobs import describe

    found = describe(options.file)
    print(json.dumps(asdict(found), indent=2) if options.json else _info_text(found))
    return DONE


def _info_text(found: FileInfo) -> str:
    lines = [
        f"{found.file}: {found.architecture}, {found.byte_order}-endian, {found.type}, "
        f"{found.code_bytes:,} bytes of code"
    ]
    for section in found.sections:
        version = "" if section.version is None else f" version {section.version}"
        lines.append(f"{section.name}{version}: {section.size:,} bytes at {section.address:#x}")
        if section.fault:
            lines.append(f"  not readable: {section.fault}")
        elif section.rows is None:
            lines.append(f"  {_count(section.functions, 'entry', 'entries')}")
        else:
            lines.append(
                f"  {_count(section.functions, 'function')}, {_count(section.rows, 'row')}, "
                f"{_count(section.distinct_runs, 'distinct row run')}, "
                f"{_share(section.covered_bytes or 0, found.code_bytes)} of code bytes covered"
            )
    if not found.sections:
        lines.append("no unwind information")
    return "\n".join(lines)


def _count(number: int | None, singular: str, plural: str | None = None) -> str:
    if number is None:
        return f"no {plural or singular + 's'} counted"
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "no share"


def _sframe(options: argparse.Namespace) -> int:
    from .jobs import write_sframe, write_sframe_section

    if options.address and not options.section:
        options.command.error("--address goes with --section")
    if options.max_rows is not None and (options.compact != "merge" or options.max_rows < 1):
        options.command.error("--max-rows goes with --compact merge, from 1 on")
    for written in filter(None, (options.output, options.section, options.report)):
        _refuse_the_input(options, written)
    if options.report and Path(options.report).resolve() == Path(options.output or options.section or "").resolve():
        options.command.error(f"{options.report} cannot be both the result and the report")
    if options.section:
        report = write_sframe_section(
            *(options.file, options.section, options.address, options.sframe_version, options.compact),
            options.max_rows,
        )
    else:
        target = options.file if options.in_place else options.output
        report = write_sframe(options.file, target, options.sframe_version, options.compact, options.max_rows)
    if options.report:
        import json

        from .writers.files import write_bytes

        write_bytes(Path(options.report), json.dumps(asdict(report), indent=2).encode() + b"\n")
    print(_report_text(report), file=sys.stderr)
    return DIFFERENT if options.strict and report.refused else DONE


def _refuse_the_input(options: argparse.Namespace, written: str, read: str | None = None) -> None:
    source = Path(read or options.file)
    if Path(written).exists() and source.exists() and source.samefile(written):
        hint = ": say --in-place" if "in_place" in options and written == options.output else ""
        options.command.error(f"{written} is the input itself{hint}")


def _refused_lines(refused: dict[str, RefusedCount]) -> list[str]:
    from .converters.refusals import Reason

    return [
        f"  refused: {_count(found.ranges, 'range')}, {found.bytes:,} bytes: {Reason[name].sentence}"
        for name, found in refused.items()
    ]


def _report_text(report: SframeReport) -> str:
    lines = [
        f"{report.output}: {_count(report.functions, 'function')}: {report.converted:,} converted, "
        f"{report.partial:,} in part, {report.functions - report.converted - report.partial:,} not; "
        f"{_share(report.covered_bytes, report.code_bytes)} of {report.code_bytes:,} code bytes covered",
        f"  .sframe {report.sframe_bytes:,} bytes ({_count(report.fdes, 'FDE')}, {_count(report.fres, 'FRE')}), "
        f"{report.sframe_bytes / max(1, report.cfi_bytes):.2f} of {report.cfi_section}'s {report.cfi_bytes:,}",
    ]
    lines += _refused_lines(report.refused)
    if report.replaced_bytes:
        lines.append(f"  replaced an .sframe of {', '.join(f'{size:,}' for size in report.replaced_bytes)} bytes")
    return "\n".join(lines)


def _dump(options: argparse.Namespace) -> int:
    from .jobs import dump_sframe, plain_sframe

    if not options.sframe:
        options.command.error("say what to print: --sframe")
    if options.json:
        _print_json(plain_sframe(options.file))
        return DONE
    sys.stdout.flush()
    for piece in dump_sframe(options.file):
        sys.stdout.buffer.write(piece)
    return DONE


def _print_json(sections: Iterable[tuple[dict[str, object], Iterable[dict[str, object]]]]) -> None:
    """An array of objects, written piece by piece: a large section is never whole in memory as objects."""
    import json

    before = "["
    for header, functions in sections:
        print(before, json.dumps(header)[:-1], ', "functions": [', sep="", end="")
        for number, function in enumerate(functions):
            print(",\n " if number else "\n ", json.dumps(function), sep="", end="")
        print("]}", end="")
        before = ",\n"
    print("]")


def _find(options: argparse.Namespace) -> int:
    from .converters.found import find_in_file, found_plain, found_text

    architecture, found = find_in_file(options.file, options.pcs)
    if options.json:
        import json

        print(json.dumps([found_plain(architecture, one) for one in found], indent=2))
    else:
        print(found_text(architecture, found))
    return DONE


def _remove(options: argparse.Namespace) -> int:
    from .jobs import remove_sframe

    if options.output:
        _refuse_the_input(options, options.output)
    report = remove_sframe(options.file, options.file if options.in_place else options.output)
    sizes = ", ".join(f"{size:,}" for size in report.removed)
    sections = _count(len(report.removed), ".sframe section") + (f" of {sizes} bytes" if sizes else "")
    print(
        f"{options.output or options.file}: took out {sections}, {_count(report.segments, 'segment')}", file=sys.stderr
    )
    return DONE


def _convert(options: argparse.Namespace) -> int:
    from .conversions import convert

    _refuse_the_input(options, options.output)
    report = convert(
        *(options.file, options.output, options.sframe_version, options.source, options.address, options.to_address),
        compact=options.compact,
        section_only=options.section,
        architecture=options.arch,
    )
    print(_convert_text(report), file=sys.stderr)
    return DIFFERENT if options.strict and report.refused else DONE


def _convert_text(report: ConvertReport) -> str:
    version = f" version {report.source_version}" if report.source_version else ""
    lines = [
        f"{report.output}: {_count(report.functions, 'function')}: {report.converted:,} converted, "
        f"{report.partial:,} in part, {report.functions - report.converted - report.partial:,} not",
        f"  {_written(report)}; from {report.source_bytes:,} of {report.source}{version}",
    ]
    return "\n".join(lines + _refused_lines(report.refused))


def _written(report: ConvertReport | MergeReport) -> str:
    return (
        f".sframe version {report.version}: {report.sframe_bytes:,} bytes at {report.address:#x} "
        f"({_count(report.fdes, 'FDE')}, {_count(report.fres, 'FRE')})"
    )


def _merge(options: argparse.Namespace) -> int:
    from .conversions import merge_sframe

    for path, _ in options.inputs:
        _refuse_the_input(options, options.file, path)
    report = merge_sframe(options.inputs, options.file, options.sframe_version, options.address, options.compact)
    print(_merge_text(report), file=sys.stderr)
    return DIFFERENT if options.strict and (report.conflicts or report.refused) else DONE


def _merge_text(report: MergeReport) -> str:
    lines = [f"{report.output}: {_count(report.functions, 'function')}", f"  {_written(report)}"]
    if report.duplicates:
        lines.append(f"  said twice: {_count(report.duplicates, 'range')}, {report.duplicate_bytes:,} bytes")
    if report.conflicts:
        lines.append(f"  contradicted: {_count(report.conflicts, 'range')}, {report.conflict_bytes:,} bytes")
    for conflict in report.first_conflicts:
        first, second = (report.files[index] for index in (conflict.first, conflict.second))
        lines.append(f"    {conflict.start:#x}..{conflict.end:#x}: {first} holds, {second} says another thing")
    return "\n".join(lines + _refused_lines(report.refused))
