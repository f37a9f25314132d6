"""`python -m roundtrip_tests.layouts [--count N] [--first K] [--seed S] [--jobs J]`: programs with random layouts,
rewritten in each way and run; a table of refusals by reason, and what is wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .layout import draw
from .rewrite import EXIT_STATUS, WAYS, Outcome, answer, rewritten


def one(seed: str) -> dict[str, Outcome] | str:
    """The outcomes of one layout by way; or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        path = draw(seed).build(Path(folder))
        if path is None:
            return "not built"
        is_running = path.stat().st_mode & 0o100 and _answers(path)
        if not is_running:
            return "does not run"
        return {way: rewritten(path, way) for way in WAYS}


def _answers(path: Path) -> bool:
    try:
        return answer(path)[0] == EXIT_STATUS
    except OSError:
        return False


def main() -> int:
    """Run, print, and return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m roundtrip_tests.layouts", description=__doc__)
    parser.add_argument("--count", type=int, default=100, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="K")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    seeds = [f"{options.seed} {number}" for number in range(options.first, options.first + options.count)]
    totals: Counter[str] = Counter()
    refused: dict[str, Counter[str]] = {way: Counter() for way in WAYS}
    examples: dict[str, str] = {}
    wrong = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for seed, found in zip(seeds, pool.map(one, seeds), strict=True):
            if isinstance(found, str):
                totals[found] += 1
                continue
            totals["rewritten"] += 1
            for way, outcome in found.items():
                if outcome.refused is not None:
                    refused[way][outcome.refused] += 1
                    examples.setdefault(outcome.refused, seed.split()[1])
                elif outcome.wrong:
                    wrong += 1
                    print(f"layout {seed.split()[1]}, {way}: {outcome.wrong}\n  {draw(seed)}", flush=True)
    print(f"{sum(totals.values())} layouts: {', '.join(f'{count} {what}' for what, count in totals.items())}")
    for way, reasons in refused.items():
        print(f"{way}: {totals['rewritten'] - reasons.total()} written, {reasons.total()} refused")
        for reason, count in reasons.most_common():
            print(f"  {count} refused, as layout {examples[reason]}: {reason}")
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
