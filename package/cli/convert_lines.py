"""The targets of the command convert that are line information."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from .common import DONE, count_text, debug_files, debug_lines, input_path, output_path, refuse_the_input, say

if TYPE_CHECKING:
    from ..jobs.line_conversion import LineReport
    from ..jobs.report import LineTarget

LINE_TARGETS = ("debug_line", "debug_aranges", "breakpad-lines")
# The options of other targets, with the values that they have if they are not given.
OTHERS = {
    "compact": None,
    "no_pcrel": False,
    "frame_pointer": False,
    "sframe_version": None,
    "to_address": None,
    "writer": "auto",
    "strict": False,
    "into": None,
    "keep": False,
    "min_coverage": None,
}


def add_lines(command: argparse.ArgumentParser) -> None:
    """The options of these targets."""
    command.add_argument(
        "--line-version",
        type=int,
        choices=(2, 3, 4, 5),
        help="--to debug_line: DWARF version of the units (default: as is)",
    )
    command.add_argument(
        "--keep-size",
        action="store_true",
        help="--to debug_line: pad each unit to its old size, so that no offset changes",
    )


def refuse_line_options(options: argparse.Namespace) -> None:
    """End with an error if an option of these targets is given for another one."""
    if options.line_version is not None or options.keep_size:
        name = "--keep-size" if options.keep_size else "--line-version"
        options.command.error(f"{name} requires --to debug_line")


def run_lines(options: argparse.Namespace) -> int:
    """Convert line information."""
    from ..jobs.convert import convert

    refuse_the_input(options, options.output)
    for name, value in OTHERS.items():
        if getattr(options, name) != value:
            options.command.error(f"--{name.replace('_', '-')} does not apply to --to {options.to}")
    if options.to != "debug_line":
        refuse_line_options(options)
    with input_path(options.file) as path, output_path(options.output) as out_path:
        report = convert(
            path,
            out_path,
            cast("LineTarget", options.to),
            source=options.source,
            address=options.address,
            architecture=options.arch,
            section_only=options.section,
            version=options.line_version,
            keep_size=options.keep_size,
            debug=debug_files(options),
        )
    say(options, _text(replace(report, file=options.file, output=options.output)))
    return DONE


def _text(report: LineReport) -> str:
    written = f"{report.to}: {report.written:,} bytes{_contents(report)}"
    lines = [
        f"{report.output}: {count_text(report.units, 'unit')}, {count_text(report.sequences, 'sequence')}, "
        f"{count_text(report.rows, 'row')}",
        f"  {written}; from {report.source_bytes:,} bytes of {report.source}",
    ]
    lines += debug_lines(report)
    if report.references:
        lines.append(f"  {count_text(report.references, 'reference')} to units updated")
    if report.left_out:
        lines.append(f"  left out: {count_text(report.left_out, 'sequence')} of no unit, or of discarded code")
    if report.file_bytes is not None:
        lines.append(f"  file: {report.file_bytes[0]:,} bytes before, {report.file_bytes[1]:,} after")
    return "\n".join(lines)


def _contents(report: LineReport) -> str:
    if report.to == "debug_aranges":
        return f" ({count_text(report.sets, 'set')}, {count_text(report.ranges, 'range')})"
    return f" ({count_text(report.records, 'line record')})" if report.to == "breakpad-lines" else ""
