"""The command verify."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from .common import DIFFERENT, DONE, clear_progress, count_text
from .parser import examples

if TYPE_CHECKING:
    from ..jobs.verify import UncoveredCode, VerifiedFile, VerifyReport, WrongRow
    from .common import Commands

# Lines of a report for people; --json has all.
SHOWN_SYMBOLS, SHOWN_UNCLEAR = 3, 5
BURST, PAUSE = 20_000, 0.05

EXAMPLES = examples(
    ("verify -- ls -l", "rows that a program reaches"),
    ("verify --sample --time 60 -- ./server", "what runs for long"),
)


def add(commands: Commands) -> None:
    about = "run a program step by step and hold each row that is reached against what the machine did"
    command = commands.add_parser("verify", help=about, epilog=EXAMPLES)
    command.add_argument("--pid", type=int, help="a running process, instead of a program to run")
    command.add_argument("--steps", type=int, metavar="N", help="stop after N single steps")
    command.add_argument("--time", type=float, metavar="SECONDS", dest="seconds", help="stop after this time")
    command.add_argument(
        "--sample",
        action="store_true",
        help=f"run freely for {PAUSE:g} s between bursts of {BURST:,} single steps, to reach more of a large program",
    )
    command.add_argument(
        "--symbol-file",
        metavar="SYM",
        action="append",
        default=[],
        help="check the STACK CFI of this symbol file too, in the loaded file that it is for (repeatable)",
    )
    command.add_argument("-o", "--output", metavar="REPORT", help="write the report there, not on standard error")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.add_argument("program", metavar="PROGRAM", nargs="?", help="the program to run, after --")
    command.add_argument("arguments", metavar="ARG", nargs="*", help="its arguments")
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    from ..jobs.verify import verify

    if (options.program is None) == (options.pid is None):
        options.command.error("give a PROGRAM after --, or --pid")
    options.file = options.program or f"process {options.pid}"
    burst, pause = (BURST, PAUSE) if options.sample else (0, 0.0)
    report = verify(
        [options.program, *options.arguments] if options.program else (),
        pid=options.pid,
        steps=options.steps,
        seconds=options.seconds,
        burst=burst,
        pause=pause,
        symbol_files=options.symbol_file,
        progress=_Progress() if sys.stderr.isatty() else None,
    )
    clear_progress()
    text = json.dumps(asdict(report), indent=2) if options.json else _text(report)
    if options.output:
        Path(options.output).write_text(text + "\n", errors="surrogateescape")
    else:
        print(text, file=sys.stderr)  # standard output is the program's
    return DIFFERENT if report.wrong else DONE


class _Progress:
    """The line of a run on a terminal: steps, and their rate since the start."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def __call__(self, steps: int) -> None:
        rate = steps / max(time.monotonic() - self.started, 1e-3)
        print(f"\r{steps:,} steps, {rate:,.0f}/s", end="", file=sys.stderr, flush=True)


def _text(report: VerifyReport) -> str:
    rows = sum(source.rows for file in report.files for source in file.sources)
    lines = [
        f"{report.architecture}: {count_text(report.steps, 'step')}, {report.checked:,} of them checked; "
        f"{count_text(rows, 'row')} reached, {len(report.wrong):,} wrong places"
    ]
    for file in sorted(report.files, key=lambda one: -one.steps):
        lines += _file_lines(file)
    lines += [line for one in report.wrong for line in _wrong_lines("wrong", one)]
    lines += [line for one in report.unclear[:SHOWN_UNCLEAR] for line in _wrong_lines("unclear", one)]
    if len(report.unclear) > SHOWN_UNCLEAR:
        lines.append(f"unclear: {len(report.unclear) - SHOWN_UNCLEAR:,} more places, listed with --json")
    if report.switches:
        lines.append(f"{count_text(report.switches, 'change')} of the stack without a call or return")
    lines += [f"not read: {note}" for note in report.notes]
    if report.exit_status:
        lines.append(f"the program ended with {report.exit_status}")
    return "\n".join(lines)


def _file_lines(file: VerifiedFile) -> list[str]:
    lines = [f"{file.file}: {count_text(file.steps, 'step')}"]
    for one in file.sources:
        wrong = f", {one.wrong:,} wrong" if one.wrong else ""
        lines.append(
            f"  {one.source}: {count_text(one.rows, 'row')} reached, {count_text(one.checked, 'step')} checked{wrong}"
        )
    if file.uncovered:
        steps = sum(one.steps for one in file.uncovered)
        shown = ", ".join(map(_uncovered_text, file.uncovered[:SHOWN_SYMBOLS]))
        more = f", {len(file.uncovered) - SHOWN_SYMBOLS:,} more" if len(file.uncovered) > SHOWN_SYMBOLS else ""
        lines.append(f"  no row: {count_text(steps, 'step')}: {shown}{more}")
    return lines + [f"  {name} is not readable: {reason}" for name, reason in file.faults.items()]


def _uncovered_text(one: UncoveredCode) -> str:
    return f"{one.symbol} {one.address:#x} ({count_text(one.instructions, 'instruction')})".lstrip()


def _wrong_lines(kind: str, one: WrongRow) -> list[str]:
    rules = " ".join(f"{name}={rule}" for name, rule in one.rules.items())
    return [
        f"{kind}: {one.file} {one.address:#x} <{one.symbol}> {one.code}",
        f"  {one.source} {one.function_start:#x} +{one.offset:#x}: {rules}",
        f"  {one.seen}; {count_text(one.count, 'step')}",
    ]
