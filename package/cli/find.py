"""The command find."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from .common import DONE, INPUTS, add_raw, address_or_name, input_of, raw_input

if TYPE_CHECKING:
    from .common import Commands


def add(commands: Commands) -> None:
    command = commands.add_parser("find", help="print the row in force at a PC, from each source in the file")
    command.add_argument("file", metavar="FILE", help=INPUTS)
    command.add_argument(
        "pcs",
        metavar="PC|SYMBOL",
        nargs="+",
        type=address_or_name,
        help="an address, 0x1234 or decimal, the name of a function, or in a relocatable file SECTION+OFFSET",
    )
    add_raw(command)
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    from ..converters.files.find import find_in_file, found_json, found_text

    architecture, found = find_in_file(input_of(options.file), options.pcs, **raw_input(options))
    if options.json:
        print(json.dumps([found_json(architecture, one) for one in found], indent=2))
    else:
        print(found_text(architecture, found))
    return DONE
