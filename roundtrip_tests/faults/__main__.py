"""`python -m roundtrip_tests.faults [--sample N] [--seed S] [--jobs J] [CASE...]`: every fault of every case, or a
seeded sample; a table of faults by case, and what did not hold."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from .cases import CASES, Case
from .inject import faults_of, prepare, wrongs


def main() -> int:
    """Run, print, and return 1 if something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m roundtrip_tests.faults", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="a part of the name of a case (default: all)")
    parser.add_argument("--sample", type=int, metavar="N", help="only N faults of each case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    total = bad = 0
    for case in CASES:
        if not options.cases or any(one in case.name for one in options.cases):
            faults, found = _run(case, options)
            total += faults
            bad += found
    print(f"{total} faults, {bad} with something lost")
    return 1 if bad else 0


def _run(case: Case, options: argparse.Namespace) -> tuple[int, int]:
    """Run one case, and print; the number of its faults, and of those after which something did not hold."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        before = prepare(case, Path(folder, "base"))
        faults = faults_of(before)
        if options.sample is not None and options.sample < len(faults):
            faults = random.Random(f"{options.seed} {case.name}").sample(faults, options.sample)
        places = [Path(folder, str(number)) for number in range(len(faults))]
        for place in places:
            place.mkdir()
        outcomes = list(pool.map(partial(wrongs, before), faults, places))
    kinds = Counter(fault.what for fault in faults)
    print(f"{case.name}: {len(before.calls)} calls, {len(faults)} faults ({dict(kinds)})", flush=True)
    for fault, wrong in zip(faults, outcomes, strict=True):
        for text in wrong:
            print(f"  {fault.call} {fault.index} {fault.what}: {text}", flush=True)
    return len(faults), sum(map(bool, outcomes))


if __name__ == "__main__":
    sys.exit(main())
