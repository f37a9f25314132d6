"""The command remove."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .common import DONE, add_dates, add_quiet, count_text, input_path, output_path, say, sizes_text, target_of
from .parser import examples

if TYPE_CHECKING:
    from .common import Commands

EXAMPLES = examples(
    ("remove a.out -o plain", "a copy without .sframe"),
    ("remove a.out --in-place", "the file itself"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "remove", help="remove .sframe sections and their program header from a file", epilog=EXAMPLES
    )
    command.add_argument("file", metavar="FILE")
    output = command.add_mutually_exclusive_group(required=True)
    output.add_argument(
        "-o", dest="output", metavar="OUT", help="write the file without its .sframe here; - for standard output"
    )
    output.add_argument("--in-place", action="store_true", help="replace FILE itself")
    add_dates(command)
    add_quiet(command)
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    from ..jobs.sframe_files import remove_sframe

    target = target_of(options)
    with input_path(options.file) as path, output_path(target) as out_path:
        report = remove_sframe(path, out_path, preserve_dates=options.preserve_dates)
    sizes = f" of {sizes_text(report.removed)} bytes" if report.removed else ""
    sections = count_text(len(report.removed), ".sframe section") + sizes
    taken = f"removed {sections}, {count_text(report.segments, 'segment')}"
    smaller = f"; the file is {report.file_bytes:,} bytes smaller" if report.file_bytes else ""
    say(options, f"{target}: {taken}{smaller}")
    return DONE
