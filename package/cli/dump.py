"""The command dump."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .common import DONE, address_or_name, input_path

if TYPE_CHECKING:
    from ..jobs.dump import JsonSection
    from .common import Commands


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "dump",
        help="print the content of sections as GNU readelf 2.47 does",
        description="Print the content of sections as GNU readelf 2.47 does; without options, all unwind information.",
    )
    command.add_argument("file", metavar="FILE", help="an ELF file; - for standard input")
    command.add_argument("--frames", action="store_true", help="call frame instructions, as readelf -wNf")
    command.add_argument("--frames-interp", action="store_true", help="call frame information as rows, as readelf -wNF")
    command.add_argument("--sframe", action="store_true", help="every .sframe section, as readelf --sframe")
    command.add_argument("--aranges", action="store_true", help="address ranges of units, as readelf -wNr")
    command.add_argument("--pubnames", action="store_true", help="names of functions and data, as readelf -wNp")
    command.add_argument("--pubtypes", action="store_true", help="names of types, as readelf -wNt")
    command.add_argument("--macro", action="store_true", help="macro information, as readelf -wNm")
    command.add_argument("--rawline", action="store_true", help="line number instructions, as readelf -wNl")
    command.add_argument("--decodedline", action="store_true", help="line number programs as rows, as readelf -wNL")
    command.add_argument(
        "--at",
        metavar="PC|SYMBOL",
        action="append",
        default=[],
        type=address_or_name,
        help="of --frames, --frames-interp, --sframe: only functions at this address or of this name (repeatable)",
    )
    command.add_argument("--json", action="store_true", help="as JSON, one object per section")
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    from ..jobs import dump as job

    line_views = (job.RAW,) * options.rawline + (job.DECODED,) * options.decodedline
    names = (
        *job.CFI_SECTIONS * (options.frames or options.frames_interp),
        *job.SFRAME_SECTIONS * options.sframe,
        *job.LINE_SECTIONS * bool(line_views),
        *job.ARANGES_SECTIONS * options.aranges,
        *job.PUBNAMES_SECTIONS * options.pubnames,
        *job.PUBTYPES_SECTIONS * options.pubtypes,
        *job.MACROS * options.macro,
    )
    if options.at and not set(names) <= set(job.UNWIND_SECTIONS):
        options.command.error("--at can be combined with --frames, --frames-interp and --sframe only")
    with input_path(options.file) as path:
        asked = path, names or job.UNWIND_SECTIONS, options.frames_interp, line_views, options.at
        if options.json:
            _print_json(job.dump_json(*asked))
            return DONE
        sys.stdout.flush()
        for piece in job.dump_sections(*asked):
            sys.stdout.buffer.write(piece)
    return DONE


def _print_json(sections: Iterable[JsonSection]) -> None:
    """Print an array of objects one by one: the objects of a large section would not fit into memory."""

    before = "["
    for section in sections:
        print(before, json.dumps(section.fields)[:-1], f', "{section.name}": [', sep="", end="")
        for number, part in enumerate(section.parts):
            print(",\n " if number else "\n ", json.dumps(part), sep="", end="")
        print("]}", end="")
        before = ",\n"
    print("[]" if before == "[" else "]")
