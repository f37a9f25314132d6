"""The command edit."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from .common import (
    DIFFERENT,
    DONE,
    add_dates,
    add_quiet,
    add_writer,
    count_text,
    input_path,
    output_path,
    refused_lines,
    say,
    target_of,
    writer_lines,
)
from .parser import examples

if TYPE_CHECKING:
    from ..jobs.edit import EditReport
    from .common import Commands

EXAMPLES = examples(
    ("edit a.out -o b.out --drop main", "without a function"),
    ("edit a.out --in-place --merge more.o", "with another's records"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "edit",
        help="drop, replace or add functions of an ELF file's .eh_frame; all other records are unchanged",
        description="Write FILE with functions of its .eh_frame dropped, replaced or added, and a new .eh_frame_hdr.",
        epilog=EXAMPLES,
    )
    command.add_argument("file", metavar="FILE")
    output = command.add_mutually_exclusive_group(required=True)
    output.add_argument("-o", dest="output", metavar="OUT", help="write the file here; - for standard output")
    output.add_argument("--in-place", action="store_true", help="replace FILE itself")
    _add_named(command, "--drop", "drop this function, or the one that covers this PC (repeatable)")
    command.add_argument("--from", dest="source", metavar="OTHER", help="take functions from this ELF file")
    _add_named(command, "--take", "take only this function from OTHER (repeatable)")
    command.add_argument("--merge", metavar="OTHER", help="append the records of this ELF file unchanged")
    add_writer(command)
    add_dates(command)
    command.add_argument("--strict", action="store_true", help="exit with 1 if some function could not be expressed")
    add_quiet(command)
    command.set_defaults(run=run, command=command)


def _add_named(command: argparse.ArgumentParser, option: str, about: str) -> None:
    command.add_argument(option, action="append", default=[], metavar="NAME|ADDRESS", help=about)


def run(options: argparse.Namespace) -> int:
    from ..converters.refusals import is_lossless
    from ..jobs.edit import edit_eh_frame

    if options.take and not options.source:
        options.command.error("--take requires --from")
    if not (options.drop or options.source or options.merge):
        options.command.error("nothing to do: give --drop, --from or --merge")
    if options.merge and (options.drop or options.source):
        options.command.error("--merge cannot be combined with --drop or --from")
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
    say(options, _text(replace(report, file=options.file, output=target)))
    return DIFFERENT if options.strict and not is_lossless(report.refused) else DONE


def _text(report: EditReport) -> str:
    done = f"{report.dropped:,} dropped, {report.replaced:,} replaced, {report.added:,} added"
    size = f"{report.bytes_before:,} bytes, now {report.bytes_after:,} at {report.address:#x}"
    lines = [f"{report.output}: {count_text(report.functions, 'function')}: {done}", f"  .eh_frame had {size}"]
    if report.conflicts:
        lines.append(
            f"  conflicts: {count_text(report.conflicts, 'range')} with different rows in both: those of FILE are kept"
        )
    lines += writer_lines(report.writer, report.moved, report.passed_over)
    return "\n".join(lines + refused_lines(report.refused))
