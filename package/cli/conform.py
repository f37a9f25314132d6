"""The command conform."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from .common import DIFFERENT, DONE
from .corpus import add_selection, selection
from .parser import examples

if TYPE_CHECKING:
    from .common import Commands

EXAMPLES = examples(
    ("conform --format sframe-v2 -- ./reader", "by the line protocol"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser("conform", help="ask a reader about sections with known answers", epilog=EXAMPLES)
    command.add_argument("reader", metavar="READER", nargs="+", help="after --: the reader and its arguments")
    add_selection(command)
    command.add_argument("--timeout", type=float, default=20.0, metavar="SECONDS", help="per case (default 20)")
    command.add_argument("--save", metavar="DIR", help="write the smallest failing case of each kind into DIR")
    command.add_argument("--json", action="store_true", help="the report as JSON")
    command.set_defaults(run=run, command=command, file="conform")


def run(options: argparse.Namespace) -> int:
    from ..conform.report import report_json, report_text, save_cases
    from ..conform.run import conform

    formats, chosen = selection(options)
    options.file = options.reader[0]
    result = conform(options.reader, formats, options.count, chosen, raw=options.raw, timeout=options.timeout)
    if options.save:
        save_cases(result, options.save, raw=options.raw)
    if options.json:
        print(json.dumps(report_json(result), indent=2))
    else:
        print(report_text(result))
    sys.stdout.flush()
    return DIFFERENT if result.failures else DONE
