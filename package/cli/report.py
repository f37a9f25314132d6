"""The command report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .common import (
    DONE,
    INPUTS,
    STREAM,
    add_debug_files,
    add_quiet,
    add_raw,
    count_text,
    debug_files,
    input_of,
    output_path,
    raw_input,
    refuse_the_input,
    say,
)
from .parser import examples

if TYPE_CHECKING:
    from .common import Commands

EXAMPLES = examples(
    ("report a.out -o a.html", "a page about a file"),
    ("report old.so new.so -o both.html", "two builds side by side"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "report",
        help="write a page with pictures of unwind information and a table of functions",
        description="Write an HTML page about files, side by side: how much of the code has rows, what SFrame would "
        "take and refuse, how rows are shared, findings, and a table of all functions. The page needs nothing else.",
        epilog=EXAMPLES,
    )
    command.add_argument("files", metavar="FILE", nargs="+", help=INPUTS.replace("an archive, ", ""))
    command.add_argument(
        "-o", dest="output", metavar="OUT.html", required=True, help="write the page here; - for standard output"
    )
    add_raw(command)
    add_debug_files(command)
    add_quiet(command)
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    error = options.command.error
    if options.debug_file and len(options.files) > 1:
        error("--debug-file is for one file: use --debug-dir")
    if options.files.count(STREAM) > 1:
        error("only one FILE can be standard input")
    options.file = options.files[0]
    for one in options.files:
        refuse_the_input(options, options.output, one)
    from ..pages.report import report
    from ..writers.files import write_bytes

    page = report([input_of(one) for one in options.files], **raw_input(options), debug=debug_files(options))
    data = page.encode()
    with output_path(options.output) as path:
        write_bytes(Path(path), data)
    say(options, f"{options.output}: {count_text(len(options.files), 'file')}, {len(data):,} bytes")
    return DONE
