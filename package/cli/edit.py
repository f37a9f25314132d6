"""The command that edits call frame information in place of records: edit."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from .common import (
    DIFFERENT,
    DONE,
    add_dates,
    add_writer,
    count_text,
    input_path,
    output_path,
    refused_lines,
    target_of,
    writer_lines,
)

if TYPE_CHECKING:
    from ..jobs.edit import EditReport
    from .common import Commands


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "edit",
        help="drop, replace or add functions of an ELF file's .eh_frame; every other record stays as it is",
        description="Write FILE with functions of its .eh_frame dropped, replaced or added, and the header made anew.",
    )
    command.add_argument("file", metavar="FILE")
    output = command.add_mutually_exclusive_group(required=True)
    output.add_argument("-o", dest="output", metavar="OUT", help="write the file here; - for standard output")
    output.add_argument("--in-place", action="store_true", help="replace FILE itself")
    _add_named(command, "--drop", "a function, or the one that has this PC; may be repeated")
    command.add_argument("--from", dest="source", metavar="OTHER", help="an ELF file whose functions are taken")
    _add_named(command, "--take", "of OTHER this function alone; may be repeated")
    command.add_argument("--merge", metavar="OTHER", help="an ELF file whose records are appended as they are")
    add_writer(command)
    add_dates(command)
    command.add_argument("--strict", action="store_true", help="exit 1 if some function could not be said")
    command.set_defaults(run=run, command=command)


def _add_named(command: argparse.ArgumentParser, option: str, about: str) -> None:
    command.add_argument(option, action="append", default=[], metavar="NAME|ADDRESS", help=about)


def run(options: argparse.Namespace) -> int:
    from ..jobs.edit import edit_eh_frame

    if options.take and not options.source:
        options.command.error("--take goes with --from")
    if not (options.drop or options.source or options.merge):
        options.command.error("nothing is asked for: --drop, --from or --merge")
    if options.merge and (options.drop or options.source):
        options.command.error("--merge goes with neither --drop nor --from")
    target = target_of(options)
    with input_path(options.file) as path, output_path(target) as out_path:
        report = edit_eh_frame(
            path,
            out_path,
            drop=options.drop,
            source=options.source,
            take=options.take,
            merge=options.merge,
            writer=options.writer,
            preserve_dates=options.preserve_dates,
        )
    print(_text(replace(report, file=options.file, output=target)), file=sys.stderr)
    return DIFFERENT if options.strict and report.refused else DONE


def _text(report: EditReport) -> str:
    done = f"{report.dropped:,} dropped, {report.replaced:,} replaced, {report.added:,} added"
    size = f"{report.bytes_before:,} bytes, now {report.bytes_after:,} at {report.address:#x}"
    lines = [f"{report.output}: {count_text(report.functions, 'function')}: {done}", f"  .eh_frame had {size}"]
    if report.conflicts:
        lines.append(f"  both say different things of {count_text(report.conflicts, 'range')}: the first one holds")
    lines += writer_lines(report.writer, report.moved, report.passed_over)
    return "\n".join(lines + refused_lines(report.refused))
