"""The command find."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from .common import DONE, INPUTS, add_debug_files, add_raw, address_or_name, debug_files, input_of, raw_input
from .parser import examples

if TYPE_CHECKING:
    from .common import Commands

EXAMPLES = examples(
    ("find a.out main+4", "the row at an instruction"),
    ("find a.out 0x1234 --json", "at an address"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "find", help="print the row in force at a PC, from each source in the file", epilog=EXAMPLES
    )
    command.add_argument("file", metavar="FILE", help=INPUTS)
    command.add_argument(
        "pcs",
        metavar="PC|SYMBOL",
        nargs="+",
        type=address_or_name,
        help="an address, 0x1234 or decimal, the name of a function, or in a relocatable file SECTION+OFFSET",
    )
    add_raw(command)
    add_debug_files(command)
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    from ..converters.files.find import find_in_file, found_json, found_text

    debug = debug_files(options)
    architecture, found = find_in_file(input_of(options.file), options.pcs, **raw_input(options), debug=debug)
    for debug_file in sorted({one.file for one in found} - {""}):
        print(f"unwindkit: {options.file}: debug file: {debug_file}", file=sys.stderr)
    if options.json:
        import json

        print(json.dumps([found_json(architecture, one) for one in found], indent=2))
    else:
        print(found_text(architecture, found))
    return DONE
