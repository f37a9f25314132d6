"""The command export."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas.section import BuildError
from .common import add_batch, add_debug_files, add_quiet, count_text, debug_files, debug_lines
from .parser import examples

if TYPE_CHECKING:
    from ..jobs.export import ExportReport
    from .common import Commands

EXAMPLES = examples(
    ("export /usr -o data -j4", "every data set"),
    ("export a.out -o data --only rows", "one data set"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "export",
        help="write unwind information as Parquet files: functions, rows, rules, costs, lines",
        description="Write the unwind information of files as Parquet, one file for each data set and module: "
        "DIR/DATA SET/FILE.parquet. Requires pyarrow (unwindkit[data]).",
        epilog=EXAMPLES,
    )
    command.add_argument("files", metavar="FILE", nargs="*", help="an ELF file, a folder, a package or an image")
    command.add_argument("-o", dest="output_dir", metavar="DIR", required=True, help="the folder of the data sets")
    command.add_argument(
        "--only", metavar="NAME", action="append", default=[], help="write this data set (repeatable; default: all)"
    )
    command.add_argument(
        "--sframe-version", type=int, choices=(2, 3), default=2, help="of the .sframe whose cost is given (default 2)"
    )
    command.add_argument("--compact", choices=("none", "share", "merge"), help="of the .sframe whose cost is given")
    command.add_argument("-j", dest="jobs", type=int, metavar="N", default=1, help="N files at once")
    add_debug_files(command)
    add_batch(command)
    add_quiet(command)
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    error = options.command.error
    if options.jobs < 1:
        error("-j requires a number from 1")
    if not options.files and not options.files_from:
        error("a FILE is required")
    if options.debug_file:
        error("--debug-file is for one file of another command: use --debug-dir")
    from ..batches.limits import Limits
    from ..batches.run import export_batch
    from ..batches.sources import is_linked
    from ..jobs.export import export_choices
    from .batches import do_batch, find_files

    options.file = options.output_dir
    choices = export_choices(options.only, options.sframe_version, options.compact)
    sources = find_files(options, is_linked)
    try:
        batch = export_batch(
            sources,
            Path(options.output_dir),
            {"choices": choices, "debug": debug_files(options)},
            Limits(options.time_limit, options.memory_limit),
            Path(options.manifest) if options.manifest else None,
        )
    except ImportError as missing:
        options.file = "export"
        raise BuildError("", None, "", str(missing)) from None
    return do_batch(options, batch, _text, lambda _: False, "exported").code


def _text(report: ExportReport) -> str:
    counts = (report.functions, "function"), (report.rows, "row"), (report.records.get("lines", 0), "line row")
    shown = ", ".join(count_text(count, what) for count, what in counts if count or what != "line row")
    size = sum(report.sizes.values())
    first = f"{report.file}: {shown}; {count_text(len(report.shards), 'data set')}, {size:,} bytes"
    return "\n".join([first, *debug_lines(report)])
