"""The command check."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from .common import (
    DIFFERENT,
    DONE,
    STREAM,
    add_address,
    add_debug_files,
    count_text,
    debug_files,
    input_path,
    raw_input,
    share_text,
)
from .parser import examples

if TYPE_CHECKING:
    from ..converters.files.lint import LintedSection
    from ..jobs.check import CheckedPair, CheckReport, RangeCount, RowDifference
    from .common import Commands

# Differences in a report for people; --json has all.
SHOWN_DIFFERENCES = 10
# Sources that have a table; "all" is all call frame information of an ELF file.
CHECKED = ("sframe", "eh_frame", "debug_frame", "all", "breakpad", "directives")

EXAMPLES = examples(
    ("check a.out", "faults; .eh_frame against .sframe"),
    ("check old new --by-symbol", "two builds"),
    ("check a.out a.sym", "against a symbol file"),
)


def add(commands: Commands) -> None:
    about = "list faults in unwind information; compare two sources of it at every PC"
    command = commands.add_parser("check", help=about, epilog=EXAMPLES)
    command.add_argument("file", metavar="A", help="an ELF file, the bytes of a section, or a symbol file")
    command.add_argument("second", metavar="B", nargs="?", help="a file to compare A with")
    kinds = ", ".join(CHECKED)
    command.add_argument(
        "--from",
        dest="source",
        metavar="KIND",
        choices=CHECKED,
        help=f"what to check of A, or the kind of a raw A: {kinds} (default: every section)",
    )
    command.add_argument(
        "--with",
        dest="second_source",
        metavar="KIND",
        choices=CHECKED,
        help=f"what to compare with, of B or, without B, of A: {kinds} (default: all call frame information)",
    )
    add_address(command, "raw A or B: its virtual address (default 0); symbol file: its load address")
    command.add_argument("--arch", help="architecture of a raw A or B; SFrame and symbol files with MODULE tell it")
    command.add_argument(
        "--by-symbol", action="store_true", help="compare functions of the same name, whatever their addresses"
    )
    command.add_argument(
        "--ignore", metavar="CODE", action="append", default=[], help="leave out findings of this code (repeatable)"
    )
    command.add_argument("--strict", action="store_true", help="exit with 1 also for findings that are not faults")
    add_debug_files(command)
    command.add_argument("--json", action="store_true", help="as JSON, with all findings and differences")
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    from ..jobs.check import check

    if options.file == STREAM == options.second:
        options.command.error("only one of A and B can be standard input")
    raw = raw_input(options)
    with ExitStack() as files:
        first = files.enter_context(input_path(options.file))
        second = None if options.second is None else files.enter_context(input_path(options.second))
        report = check(
            first,
            second,
            **raw,
            second_source=options.second_source,
            by_symbol=options.by_symbol,
            ignore=options.ignore,
            debug=debug_files(options),
        )
    print(json.dumps(_json(report), indent=2) if options.json else "\n".join(_lines(report)))
    return DIFFERENT if report.has_faults or (options.strict and report.has_notes) else DONE


def _lines(report: CheckReport) -> Iterator[str]:
    for section in report.sections:
        yield f"{report.file}: {section.name}: {count_text(section.functions, 'function')}"
        if section.reason:
            yield f"  unreadable: {section.reason}"
            continue
        found = list(_finding_lines(report, section))
        yield from found or ["  no findings"]
    for pair in report.pairs:
        yield from _pair_lines(pair)


def _finding_lines(report: CheckReport, section: LintedSection) -> Iterator[str]:
    """One line per code, with the first places."""
    from ..converters.files.lint_text import finding_texts

    for one in finding_texts(report.names, section):
        yield f"  {'fault' if one.code.is_fault else 'note'} {one.text}"
        yield from (f"    {place}" for place in one.places)
        if one.more:
            yield f"    and {one.more:,} more"


def _pair_lines(pair: CheckedPair) -> Iterator[str]:
    yield f"{pair.first} and {pair.second}: {'equal' if pair.is_equal else 'different'}"
    total = sum(one.bytes for one in (pair.equal, pair.different, pair.only_first, pair.only_second))
    total += sum(one.bytes for one in pair.inexpressible.values())
    counts = (
        ("equal", pair.equal),
        ("different", pair.different),
        ("only in the first", pair.only_first),
        ("only in the second", pair.only_second),
    )
    for words, count in counts:
        if count.ranges or words == "equal":
            yield f"  {words}: {_count(count)} ({share_text(count.bytes, total)})"
    yield from _reason_lines(pair)
    if pair.unpaired is not None:
        first, second = (count_text(count, "function") for count in pair.unpaired)
        yield f"  without a counterpart of the same name: {first} of the first, {second} of the second"
    for one in pair.differences[:SHOWN_DIFFERENCES]:
        yield from _difference_lines(one)
    if len(pair.differences) > SHOWN_DIFFERENCES:
        yield f"  and {len(pair.differences) - SHOWN_DIFFERENCES:,} more ranges"


def _reason_lines(pair: CheckedPair) -> Iterator[str]:
    from ..converters.refusals import Reason

    for name, found in pair.inexpressible.items():
        ranges = count_text(found.ranges, "range")
        yield f"  only in one, which the other cannot express: {ranges}, {found.bytes:,} bytes: {Reason[name].sentence}"


def _count(count: RangeCount) -> str:
    return f"{count_text(count.functions, 'function')}, {count_text(count.ranges, 'range')}, {count.bytes:,} bytes"


def _difference_lines(one: RowDifference) -> Iterator[str]:
    name = f" <{one.name}>" if one.name else ""
    yield f"  {one.start:#x}..{one.end:#x}{name}"
    for rules in (one.first, one.second):
        yield "    " + ("no row" if rules is None else " ".join(f"{name}={rule}" for name, rule in rules.items()))


def _json(report: CheckReport) -> dict[str, Any]:
    """All findings and differences."""
    return {
        "file": report.file,
        "has_faults": report.has_faults,
        "sections": [_json_section(report, one) for one in report.sections],
        "pairs": [_json_pair(pair) for pair in report.pairs],
    }


def _json_pair(pair: CheckedPair) -> dict[str, Any]:
    fields = asdict(replace(pair, differences=()))
    return {"is_equal": pair.is_equal, **fields, "differences": [asdict(one) for one in pair.differences]}


def _json_section(report: CheckReport, section: LintedSection) -> dict[str, Any]:
    from ..converters.files.lint import Code

    found = section.findings
    columns = (column.tolist() for column in (found.code, found.address, found.size, found.offset))
    findings = [
        {
            "code": Code(code).text,
            "is_fault": Code(code).is_fault,
            "address": address,
            "name": report.names.text(address) if address else "",
            "size": size,
            "offset": None if offset < 0 else offset,
        }
        for code, address, size, offset in zip(*columns, strict=True)
    ]
    return {"name": section.name, "functions": section.functions, "reason": section.reason, "findings": findings}
