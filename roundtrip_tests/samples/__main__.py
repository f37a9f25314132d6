"""`python -m roundtrip_tests.samples [--sample N] [--seed S] [--jobs J] [--only TEXT] [--command TEXT] [FOLDER]`: every
command on every sample out of the source packages in FOLDER, which `.ci/oracles --samples` fetches; a table by package,
and the commands that broke a promise: exit status 0 or 2 (1 for `check`), at most 2 seconds, at most 150 MiB and ten
bytes for each byte of the file."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from ..support.oracles import absent_suite, oracle_root
from .collect import Sample, collect
from .judge import judged
from .measured import Outcome, prepare

ARCHIVES = ("*.orig.tar.*", "*.orig-*.tar.*", "binutils-*.tar.xz")


@dataclass(slots=True)
class Figures:
    """Of the samples of one package; `statuses` are exit statuses."""

    samples: int = 0
    commands: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    faults: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    largest: int = 0


def main() -> int:
    """Run, print, and return 1 if some command broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m roundtrip_tests.samples", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=oracle_root("samples"), metavar="FOLDER")
    parser.add_argument("--sample", type=int, metavar="N", help="only N files of each package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose package, path or name has it")
    parser.add_argument("--command", default="", metavar="TEXT", help="commands whose line has it")
    options = parser.parse_args()
    archives = sorted({path for pattern in ARCHIVES for path in options.folder.glob(pattern) if path.suffix != ".asc"})
    if not archives:
        print(f"no source packages in {options.folder}: .ci/oracles --samples fetches them", file=sys.stderr)
        return 2
    reason = absent_suite("sid-llvm")
    if reason is not None:
        print(f"without the files that LLVM's tests make: {reason}", file=sys.stderr)
    samples = collect(archives, _folder(options.folder / "files"), with_llvm=reason is None)
    return 1 if run(chosen(samples, options), options.command, options.jobs) else 0


def _folder(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


def chosen(samples: list[Sample], options: argparse.Namespace) -> list[Sample]:
    """Those that the options ask for, in a random order, so that the first thousands say something of all."""
    found = [one for one in samples if options.only in f"{one.source} {one.origin} {one.path.name}"]
    random.Random(options.seed).shuffle(found)
    if options.sample is None:
        return found
    counts: Counter[str] = Counter()
    kept = []
    for one in found:
        counts[one.source] += 1
        if counts[one.source] <= options.sample:
            kept.append(one)
    return kept


def run(samples: list[Sample], pattern: str, jobs: int) -> int:
    """Every command on samples; the number of faults, which are printed as they are found."""
    figures: dict[str, Figures] = {}
    with ProcessPoolExecutor(jobs, get_context("spawn"), prepare, (Path(sys.executable),)) as pool:
        for number, (sample, outcomes) in enumerate(
            zip(samples, pool.map(partial(judged, pattern), samples), strict=True), 1
        ):
            print(f"{number} of {len(samples)}", end="\r", file=sys.stderr, flush=True)
            _count(figures.setdefault(sample.source, Figures()), sample, outcomes)
    print(f"{'package':24} {'samples':>8} {'commands':>9} {'0':>8} {'1':>6} {'2':>8} {'faults':>7} {'s/command':>10}")
    for name, one in sorted(figures.items()):
        by_status = f"{one.statuses[0]:8} {one.statuses[1]:6} {one.statuses[2]:8}"
        mean = one.seconds / max(1, one.commands)
        print(f"{name:24} {one.samples:8} {one.commands:9} {by_status} {one.faults:7} {mean:10.3f}")
    print(
        f"slowest {max(one.slowest for one in figures.values()):.2f} s, most memory "
        f"{max(one.largest for one in figures.values()) >> 20} MiB"
    )
    return sum(one.faults for one in figures.values())


def _count(figures: Figures, sample: Sample, outcomes: list[tuple[Outcome, str]]) -> None:
    figures.samples += 1
    for outcome, fault in outcomes:
        figures.commands += 1
        figures.statuses[outcome.status] += 1
        figures.seconds += outcome.seconds
        figures.slowest = max(figures.slowest, outcome.seconds)
        figures.largest = max(figures.largest, outcome.memory)
        if fault:
            figures.faults += 1
            line = " ".join(outcome.command)
            print(
                f"{sample.source}: {sample.origin} ({sample.path.name}, {sample.size:,} bytes)\n  {line}: {fault}",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
