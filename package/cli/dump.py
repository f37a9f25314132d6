"""The command dump."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .common import DONE, INPUTS, add_raw, address_or_name, input_of, raw_input
from .parser import examples

if TYPE_CHECKING:
    from ..jobs.section_dumps import JsonSection
    from .common import Commands

EXAMPLES = examples(
    ("dump a.out", "what readelf prints"),
    ("dump --frames-interp --at main a.out", "the rows of main"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "dump",
        help="print the content of sections as GNU readelf 2.47 does",
        description="Print the content of sections as GNU readelf 2.47 does; without options, all unwind information.",
        epilog=EXAMPLES,
    )
    command.add_argument("file", metavar="FILE", help=INPUTS)
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
    add_raw(command)
    command.add_argument("--json", action="store_true", help="as JSON, one object per section")
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    from ..jobs import section_dumps as shown
    from ..jobs.dump import dump_json, dump_sections

    line_views = (shown.RAW,) * options.rawline + (shown.DECODED,) * options.decodedline
    names = (
        *shown.CFI_SECTIONS * (options.frames or options.frames_interp),
        *shown.SFRAME_SECTIONS * options.sframe,
        *shown.LINE_SECTIONS * bool(line_views),
        *shown.ARANGES_SECTIONS * options.aranges,
        *shown.PUBNAMES_SECTIONS * options.pubnames,
        *shown.PUBTYPES_SECTIONS * options.pubtypes,
        *shown.MACROS * options.macro,
    )
    if options.at and not set(names) <= set(shown.UNWIND_SECTIONS):
        options.command.error("--at can be combined with --frames, --frames-interp and --sframe only")
    asked = input_of(options.file), names or None, options.frames_interp, line_views, options.at
    if options.json:
        _print_json(dump_json(*asked, **raw_input(options)))
        return DONE
    sys.stdout.flush()
    for piece in dump_sections(*asked, **raw_input(options)):
        sys.stdout.buffer.write(piece)
    return DONE


def _print_json(sections: Iterable[JsonSection]) -> None:
    """Print an array of objects one by one: the objects of a large section would not fit into memory."""
    import json

    before = "["
    for section in sections:
        print(before, json.dumps(section.fields)[:-1], f', "{section.name}": [', sep="", end="")
        for number, part in enumerate(section.parts):
            print(",\n " if number else "\n ", json.dumps(part), sep="", end="")
        print("]}", end="")
        before = ",\n"
    print("[]" if before == "[" else "]")
