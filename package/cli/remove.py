"""The command remove."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from .common import DONE, add_dates, count_text, refuse_the_input, sizes_text

if TYPE_CHECKING:
    from .common import Commands


def add(commands: Commands) -> None:
    command = commands.add_parser("remove", help="take .sframe sections and the segment that names them out of a file")
    command.add_argument("file", metavar="FILE")
    output = command.add_mutually_exclusive_group(required=True)
    output.add_argument("-o", dest="output", metavar="OUT", help="write the file without its .sframe here")
    output.add_argument("--in-place", action="store_true", help="replace FILE itself")
    add_dates(command)
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    from ..jobs.sframe_files import remove_sframe

    if options.output:
        refuse_the_input(options, options.output)
    target = options.file if options.in_place else options.output
    report = remove_sframe(options.file, target, preserve_dates=options.preserve_dates)
    sizes = f" of {sizes_text(report.removed)} bytes" if report.removed else ""
    sections = count_text(len(report.removed), ".sframe section") + sizes
    taken = f"took out {sections}, {count_text(report.segments, 'segment')}"
    print(f"{options.output or options.file}: {taken}", file=sys.stderr)
    return DONE
