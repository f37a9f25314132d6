"""The command merge."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from .common import (
    DIFFERENT,
    DONE,
    STREAM,
    add_address,
    add_choices,
    add_quiet,
    address_of,
    count_text,
    input_path,
    output_path,
    refuse_the_input,
    refused_lines,
    say,
    sframe_text,
)
from .parser import examples

if TYPE_CHECKING:
    from ..jobs.merge import MergeReport
    from .common import Commands

EXAMPLES = examples(
    ("merge a.out b.out -o both.sframe", "one section"),
    ("merge a.bin@0x1000 b.bin@0x2000 -o c.bin", "sections at addresses"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser("merge", help="merge several .sframe sections", epilog=EXAMPLES)
    command.add_argument(
        "inputs", metavar="FILE[@ADDRESS]", nargs="+", type=_input, help="an ELF file, or a raw section and its address"
    )
    command.add_argument(
        "-o", dest="file", metavar="OUT", required=True, help="write the section here; - for standard output"
    )
    add_address(command, "virtual address of the new section (default 0)")
    add_choices(command, None, "version to write (default: that of the inputs)")
    command.add_argument(
        "--strict", action="store_true", help="exit with 1 if inputs contradict each other, or on a refusal"
    )
    add_quiet(command)
    command.set_defaults(run=run, command=command)


def _input(text: str) -> tuple[str, int]:
    """FILE@ADDRESS; the part after the last @ is an address only if it is a number."""
    path, found, address = text.rpartition("@")
    try:
        return (path, address_of(address)) if found else (text, 0)
    except argparse.ArgumentTypeError:
        return text, 0


def run(options: argparse.Namespace) -> int:
    from ..converters.refusals import is_lossless
    from ..jobs.merge import merge_sframe

    files = tuple(path for path, _ in options.inputs)
    if files.count(STREAM) > 1:
        options.command.error("only one input can be standard input")
    for path in files:
        refuse_the_input(options, options.file, path)
    with ExitStack() as stack:
        inputs = [(stack.enter_context(input_path(path)), address) for path, address in options.inputs]
        out_path = stack.enter_context(output_path(options.file))
        flags = not options.no_pcrel, options.frame_pointer
        report = merge_sframe(inputs, out_path, options.sframe_version, options.address, options.compact, *flags)
    say(options, _merge_text(replace(report, files=files, output=options.file)))
    return DIFFERENT if options.strict and (report.conflicts or not is_lossless(report.refused)) else DONE


def _merge_text(report: MergeReport) -> str:
    lines = [
        f"{report.output}: {count_text(report.functions, 'function')}",
        f"  {sframe_text(report, report.address)}",
    ]
    if report.duplicates:
        lines.append(f"  duplicates: {count_text(report.duplicates, 'range')}, {report.duplicate_bytes:,} bytes")
    if report.conflicts:
        lines.append(f"  conflicts: {count_text(report.conflicts, 'range')}, {report.conflict_bytes:,} bytes")
    for conflict in report.first_conflicts:
        first, second = (report.files[index] for index in (conflict.first, conflict.second))
        lines.append(f"    {conflict.start:#x}..{conflict.end:#x}: kept from {first}, different in {second}")
    warnings = [f"unwindkit: warning: {one}" for one in report.warnings]
    return "\n".join([*lines, *refused_lines(report.refused), *warnings])
