"""`python -m roundtrip_tests.faults [--sample N] [--seed S] [--jobs J] [CASE...]`: every fault of every case, or a
seeded sample; a table of faults by case, and what did not hold."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .cases import CASES
from .inject import Fault, faults_of, prepare, wrongs


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
        if options.cases and not any(one in case.name for one in options.cases):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = prepare(case, Path(folder, "base"))
            faults = faults_of(found)
            if options.sample is not None and options.sample < len(faults):
                faults = random.Random(f"{options.seed} {case.name}").sample(faults, options.sample)

            def one(pair: tuple[int, Fault], folder: str = folder, found: object = found) -> list[str]:
                place = Path(folder, str(pair[0]))
                place.mkdir()
                return wrongs(found, pair[1], place)  # type: ignore[arg-type]

            with ThreadPoolExecutor(options.jobs) as pool:
                outcomes = list(pool.map(one, enumerate(faults)))
        kinds = Counter(fault.what for fault in faults)
        print(f"{case.name}: {len(found.calls)} calls, {len(faults)} faults ({dict(kinds)})", flush=True)
        for fault, wrong in zip(faults, outcomes, strict=True):
            for text in wrong:
                print(f"  {fault.call} {fault.index} {fault.what}: {text}", flush=True)
        total += len(faults)
        bad += sum(map(bool, outcomes))
    print(f"{total} faults, {bad} with something lost")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
