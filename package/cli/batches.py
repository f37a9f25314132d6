"""What `sframe --output-dir` and `breakpad --store` share: sources, a message for each file, progress, a summary."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..batches.limits import Limits
from ..batches.run import Batch, Outcome, run_batch
from ..batches.source_files import Failure, Kept
from ..batches.sources import IsWanted, Sources, find_sources
from ..batches.workers import WorkerProcesses, worker_processes
from ..converters.refusals import Reason
from ..schemas.data_classes import dataclass
from .common import DIFFERENT, DONE, MESSAGE, STREAM, WRONG, clear_progress, count_text, say, show_progress

# What differs between failures of one kind.
PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|\b0x[0-9a-f]+\b|\b\d[\d,.]*\b|(?:/[^\s:]+)+")
MOST_KINDS = 12


@dataclass(frozen=True, slots=True)
class Done:
    """All outcomes of a batch in order, and the exit code."""

    outcomes: tuple[Outcome, ...]
    code: int

    @property
    def outputs(self) -> list[str]:
        """The results."""
        return [one.report.output for one in self.outcomes if not isinstance(one.report, Failure | Kept)]


def find_files(options: argparse.Namespace, wanted: IsWanted) -> Sources:
    """The sources that the arguments name. Raises OSError, FormatError."""
    paths = list(options.files)
    if options.files_from:
        paths += _listed(options.files_from)
    output = getattr(options, "output_dir", None) or getattr(options, "store", None)
    return find_sources(paths, wanted, options.member_limit, output, _excluded(options))


def _excluded(options: argparse.Namespace) -> list[str]:
    """The patterns of files to leave out. Raises OSError."""
    lines = Path(options.exclude_from).read_text(errors="surrogateescape").splitlines() if options.exclude_from else []
    listed = (line.strip() for line in lines if not line.startswith("#"))
    return [*options.exclude, *filter(None, listed)]


def _listed(name: str) -> list[str]:
    """The paths in a list: one a line, or with a zero byte after each."""
    data = sys.stdin.buffer.read() if name == STREAM else Path(name).read_bytes()
    between = b"\0" if b"\0" in data else b"\n"
    return [one.decode("utf-8", "surrogateescape") for one in data.split(between) if one]


def batch_of(
    options: argparse.Namespace, command: str, sources: Sources, folder: str | None, choices: dict[str, Any]
) -> Batch:
    """The batch that the options ask for."""
    manifest = Path(options.manifest) if options.manifest else None
    limits = Limits(options.time_limit, options.memory_limit)
    return Batch(command, sources, None if folder is None else Path(folder), choices, limits, manifest)


def do_batch(
    options: argparse.Namespace, batch: Batch, text_of: Callable[[Any], str], fails: Callable[[Any], bool], verb: str
) -> Done:
    """Do a batch, with a message for each file that was not done before, and a summary."""
    started, read, outcomes, failed = time.monotonic(), 0, [], False
    jobs = options.jobs or 1
    files = len(batch.sources.files) if not batch.sources.packages else jobs

    def at_end() -> None:
        nonlocal read
        read += 1

    # A process that takes too long or too much is one that may end.
    workers = WorkerProcesses(max(1, jobs)) if batch.limits else worker_processes(jobs, files)
    with workers as executor:
        for outcome in run_batch(batch, executor, at_end):
            outcomes.append(outcome)
            clear_progress()
            failed |= _shown(options, outcome, text_of, fails)
            if not (options.quiet or options.verbose):
                show_progress(read, len(batch.sources), len(outcomes), time.monotonic() - started)
    clear_progress()
    wrong = [one.report for one in outcomes if isinstance(one.report, Failure)]
    say(options, "\n".join(summary_lines(outcomes, wrong, verb)))
    return Done(tuple(outcomes), WRONG if wrong else DIFFERENT if failed else DONE)


def _shown(
    options: argparse.Namespace, outcome: Outcome, text_of: Callable[[Any], str], fails: Callable[[Any], bool]
) -> bool:
    """Print the message about a file; whether it fails the gates."""
    if isinstance(outcome.report, Failure):
        say(options, f"{MESSAGE}{outcome.report.file}: {outcome.report.error}")
        return False
    if isinstance(outcome.report, Kept):
        say(options, f"{outcome.report.file}: unchanged: {outcome.report.reason}")
        return False
    if not outcome.is_skipped:
        say(options, text_of(outcome.report))
    return fails(outcome.report)


def summary_lines(outcomes: list[Outcome], wrong: list[Failure], verb: str) -> list[str]:
    """What became of all files; with several reasons of failures, or any refusals of many files, those too."""
    skipped = sum(one.is_skipped for one in outcomes)
    again = f" ({skipped:,} by an earlier run)" if skipped else ""
    kept = sum(isinstance(one.report, Kept) for one in outcomes)
    unchanged = f"{kept:,} unchanged, " if kept else ""
    done = f"{len(outcomes) - len(wrong) - kept:,} {verb}{again}, {unchanged}{len(wrong):,} failed"
    bare = sum(not isinstance(one.report, Failure | Kept) and not one.report.functions for one in outcomes)
    note = f"; {count_text(bare, 'file')} without call frame information" if bare else ""
    return [*_refusal_lines(outcomes), *_failure_lines(wrong), f"{count_text(len(outcomes), 'file')}: {done}{note}"]


def _failure_lines(wrong: list[Failure]) -> list[str]:
    if len(wrong) < 2:
        return []
    kinds = Counter(PARTICULAR.sub("...", one.kind) for one in wrong)
    lines = [f"  failed: {count_text(count, 'file')}: {kind}" for kind, count in kinds.most_common(MOST_KINDS)]
    rest = sum(kinds.values()) - sum(count for _, count in kinds.most_common(MOST_KINDS))
    return [*lines, *([f"  failed: {count_text(rest, 'file')} for other reasons"] if rest else [])]


def _refusal_lines(outcomes: Iterable[Outcome]) -> list[str]:
    files: Counter[str] = Counter()
    ranges: Counter[str] = Counter()
    for one in outcomes:
        if not isinstance(one.report, Failure | Kept):
            files.update(one.report.refused.keys())
            ranges.update({name: found.ranges for name, found in one.report.refused.items()})
    return [
        f"  refused in {count_text(count, 'file')}: {count_text(ranges[name], 'range')}: {Reason[name].sentence}"
        for name, count in files.most_common()
    ]


def as_json(done: Done) -> list[dict[str, Any]]:
    """The reports of all files, as in --report."""
    return [asdict(one.report) for one in done.outcomes]
