"""One step of unwinding in every format, for the C libraries of all architectures (`python -m` and this module's name).

Strategy: the library's call frame information is written in each format, and what that keeps in every other; random
registers and memory must give the same caller. Prints how many frames of each pair are equal and how many are refused.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from unwindkit import read_elf

from .support.oracles import FRAME_SUITES, oracle_root
from .support.stepping.pairs import Outcome, outcomes


def libraries() -> dict[str, Path]:
    """The C libraries that have been fetched, by suite."""
    found = {
        suite: next((path for pattern in patterns for path in oracle_root(suite).glob(pattern)), None)
        for suite, patterns in FRAME_SUITES.items()
    }
    return {suite: path for suite, path in found.items() if path is not None}


def line_of(name: str, outcome: Outcome) -> str:
    """A line of the report."""
    counts = f"{outcome.equal:>7,} equal {outcome.refused:>6,} refused {outcome.outside:>5,} outside"
    bad = f" {outcome.contradictory:,} contradictory" * (outcome.contradictory > 0)
    bad += f" {outcome.different:,} DIFFERENT" * (outcome.different > 0)
    return f"{name:<12} {outcome.source:<11} -> {outcome.target:<11} {counts}{bad}\n"


def main() -> int:
    """Run it; the exit status is 1 if a frame differs."""
    parser = argparse.ArgumentParser(prog="python -m roundtrip_tests.one_step", description=__doc__)
    parser.add_argument("--pcs", type=int, default=10_000, help="random PCs of each pair (default 10,000)")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("suite", nargs="*", help=f"of {', '.join(FRAME_SUITES)} (default: all that were fetched)")
    options = parser.parse_args()
    different = 0
    for suite, path in libraries().items():
        if options.suite and suite not in options.suite:
            continue
        table = read_elf(path, "all")
        if not len(table):
            sys.stdout.write(f"{suite}: no call frame information\n")
            continue
        with tempfile.TemporaryDirectory() as folder:
            for outcome in outcomes(table, Path(folder), options.pcs, options.seed):
                sys.stdout.write(line_of(table.architecture.name, outcome))
                sys.stdout.write("".join(f"    {one}\n" for one in outcome.differences))
                sys.stdout.flush()
                different += outcome.different + outcome.contradictory
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
