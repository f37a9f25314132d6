"""The command explain."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .common import (
    DONE,
    INPUTS,
    add_debug_files,
    add_raw,
    address_or_name,
    debug_files,
    input_of,
    output_path,
    raw_input,
    refuse_the_input,
)
from .parser import examples

if TYPE_CHECKING:
    from .common import Commands

WHEN = ("auto", "always", "never")
EXAMPLES = examples(
    ("explain a.out main", "the records of a function"),
    ("explain a.out 0x1234 --html out.html", "as a page"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "explain", help="print the records of a function byte by byte, with the rows that they make", epilog=EXAMPLES
    )
    command.add_argument("file", metavar="FILE", help=INPUTS)
    command.add_argument(
        "pc",
        metavar="PC|SYMBOL",
        type=address_or_name,
        help="an address, 0x1234 or decimal, the name of a function, or in a relocatable file SECTION+OFFSET",
    )
    command.add_argument(
        "--color",
        metavar="WHEN",
        choices=WHEN,
        default="auto",
        help="colours: auto (default: on a terminal, unless NO_COLOR is set), always, never",
    )
    forms = command.add_mutually_exclusive_group()
    forms.add_argument("--html", metavar="OUT.html", help="write a page instead; - for standard output")
    forms.add_argument("--json", action="store_true", help="as JSON; bytes are hexadecimal")
    add_raw(command)
    add_debug_files(command)
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    from ..explanation.explain import explain

    found = explain(input_of(options.file), options.pc, **raw_input(options), debug=debug_files(options))
    if options.json:
        import json
        from dataclasses import asdict

        print(json.dumps([asdict(one) for one in found], indent=2, default=bytes.hex))
    elif options.html is not None:
        from ..explanation.html import explanation_page
        from ..writers.files import write_bytes

        refuse_the_input(options, options.html)
        with output_path(options.html) as path:
            write_bytes(Path(path), explanation_page(found).encode())
    else:
        from ..explanation.text import explanation_text

        print("\n\n".join(explanation_text(one, colour=_is_coloured(options.color)) for one in found))
    return DONE


def _is_coloured(when: str) -> bool:
    """By https://no-color.org: any value that is not empty."""
    if when == "auto":
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return when == "always"
