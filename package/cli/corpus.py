"""The command corpus."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .common import DONE, add_quiet, count_text, say
from .parser import examples

if TYPE_CHECKING:
    from ..corpus.formats import Options
    from .common import Commands

EXAMPLES = examples(
    ("corpus -o cases --format sframe-v2", "cases of one format"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser("corpus", help="write sections with known answers, to test readers", epilog=EXAMPLES)
    command.add_argument("-o", "--output-dir", metavar="DIR", required=True, help="where the files go")
    add_selection(command)
    command.add_argument("-j", "--jobs", type=positive, default=1, metavar="N", help="processes (default 1)")
    add_quiet(command)
    command.set_defaults(run=run, command=command, file="corpus")


def add_selection(command: argparse.ArgumentParser) -> None:
    """The options that say which cases there are."""
    command.add_argument(
        "--format", dest="formats", action="append", metavar="FORMAT", help="a format (repeatable; default: all)"
    )
    command.add_argument("--count", type=positive, default=1000, metavar="N", help="cases per format (default 1000)")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="of the drawing (default 0)")
    command.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="leave out a feature, a fault or an architecture (repeatable)",
    )
    command.add_argument("--valid-only", action="store_true", help="no cases with a broken field")
    command.add_argument("--raw", action="store_true", help="the bytes of the section instead of an ELF file")


def selection(options: argparse.Namespace) -> tuple[list[str], Options]:
    """The formats, and what the cases have."""
    from ..corpus.formats import FORMATS, Options, check_names

    formats = options.formats or list(FORMATS)
    without = frozenset(options.without)
    check_names(formats, without)
    return formats, Options(options.seed, without, options.valid_only)


def positive(text: str) -> int:
    """A number of at least 1. argparse shows the message of the error."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def run(options: argparse.Namespace) -> int:
    from ..corpus.write import write_corpus

    formats, chosen = selection(options)
    options.file = options.output_dir
    count = write_corpus(options.output_dir, formats, options.count, chosen, raw=options.raw, jobs=options.jobs)
    say(options, f"{options.output_dir}: {count_text(count, 'case')}, {count_text(len(formats), 'format')}")
    return DONE
