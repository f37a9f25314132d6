"""Fuzz the readers, writers and kernels: `python -m roundtrip_tests.fuzz --minutes N [--jobs J] [TARGET ...]`.

Strategy: the minutes are divided among the targets. Prints a line for each target, and each fault; exit status 1 if
there are any. `--exhaustive` runs every truncation and bit flip of small inputs instead. Faults are stored, minimised,
in the folder `--faults`; `--replay` runs them again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

# Before NumPy is imported: each worker is one thread.
for _name in ("UNWINDKIT_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"

from . import kernels  # noqa: E402
from .faults import Fault  # noqa: E402
from .lines import lines_in  # noqa: E402
from .run import Plan, Result, death_of, run  # noqa: E402
from .targets import TARGETS  # noqa: E402
from .worker import Runner  # noqa: E402

IS_SANITIZED = os.environ.get(kernels.MARK) == "sanitizers"
# Compiled with sanitizers, kernels take several times as long, and so does Python's memory.
SLOWNESS = 20.0 if IS_SANITIZED else 1.0


def main() -> int:
    """Run the command."""
    options = _options()
    if options.list:
        _print("\n".join(TARGETS))
        return 0
    if options.replay is not None:
        return _replay(options.replay)
    targets = [TARGETS[name] for name in options.targets or TARGETS]
    share = 60 * options.minutes * min(options.jobs, len(targets)) / len(targets)
    plan = Plan(options.seed, 0, share, options.executions, SLOWNESS, IS_SANITIZED, options.exhaustive)
    start = time.monotonic()
    results = run(targets, plan, options.jobs, lambda fault: _show(fault, options.faults))
    _print(f"{'target':<18} {'executions':>11} {'a second':>9} {'compared':>9} {'kept':>6} {'lines':>15}  faults")
    for result in results:
        _print(_line(result))
    executions, faults = sum(one.executions for one in results), sum(len(one.faults) for one in results)
    _print(f"{executions:,} executions of {len(targets)} targets in {time.monotonic() - start:.0f} s, {faults} faults")
    return 1 if faults else 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m roundtrip_tests.fuzz", description="Fuzz unwindkit.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="the targets to run (default: all)")
    parser.add_argument("--minutes", type=float, default=10.0, help="time of the whole run (default: 10)")
    parser.add_argument("--executions", type=int, help="for each target, instead of a time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one for each core)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default: 0)")
    parser.add_argument(
        "--faults", type=Path, default=Path("fuzz-faults"), help="folder for faults (default: fuzz-faults)"
    )
    parser.add_argument("--replay", type=Path, help="run the stored faults of a folder again")
    parser.add_argument(
        "--exhaustive",
        action="store_true",
        help="run each truncation and bit flip of small inputs on both engines, with no time limit (with --executions"
        " N: N of them for each target)",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    options = parser.parse_args()
    for name in options.targets:
        if name not in TARGETS:
            parser.error(f"{name!r} is not a target (see --list)")
    if options.executions is not None or options.exhaustive:
        options.minutes = float("inf")
    return options


def _show(fault: Fault, folder: Path) -> None:
    path = fault.store(folder)
    _print(f"FAULT {fault.target}: {fault.key}: {fault.text}\n  {len(fault.seed.data)} bytes in {path}")


def _line(result: Result) -> str:
    """A target's line in the table."""
    lines = lines_in(result.target.code)
    seen = len(lines & result.lines)
    rate = result.executions / result.seconds if result.seconds else 0
    share = f"{seen:,}/{len(lines):,} {100 * seen // max(1, len(lines))} %"
    return (
        f"{result.target.name:<18} {result.executions:>11,} {rate:>9,.0f} {result.compared:>9,} {result.kept:>6,} "
        f"{share:>15}  {len(result.faults)}"
    )


def _replay(folder: Path) -> int:
    """Run stored faults again; 1 if one still shows itself."""
    shown = 0
    for path in sorted(folder.glob("*.json")):
        fault = Fault.load(path)
        target = TARGETS[fault.target]
        death = death_of(target, fault.seed)
        runner = Runner(target, Plan(0, 0, 0, None, SLOWNESS, IS_SANITIZED))
        found = death or runner.signature(fault.seed)[1] or runner.compare(fault.seed)
        shown += found is not None
        _print(f"{path.name}: {found if isinstance(found, str) else 'mended' if found is None else found.text}")
    return 1 if shown else 0


if __name__ == "__main__":
    sys.exit(main())
