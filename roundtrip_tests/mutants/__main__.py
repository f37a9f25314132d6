"""Break the code in named ways and see which changes no test notices.

`python -m roundtrip_tests.mutants [--seed N] [--count N | --all] [--jobs J] [MODULE ...]`; first, and after changes of
tests or code, `--record [TESTS ...]`. MODULE is a path as `writers/elf/add.py`, or a folder. Exit status 1 if a mutant
survives that is not declared equal (equal.json).
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .choice import Choice
from .known import equal_mutants, named_mutants
from .places import Mutant, mutants_of
from .project import UNWINDKIT, Project
from .recording import FOLDER, QUICK, THOROUGH, Recording, load, record
from .report import line, read_killed, tables, write_json
from .run import Result, run

# How much likelier a mutant here is to be drawn than one elsewhere.
WEIGHTS = {"writers/elf/": 3.0}


def main() -> int:
    """Run the command."""
    options = _options()
    if options.record:
        record(
            options.project,
            options.folder,
            options.names,
            options.jobs,
            _logger(),
            THOROUGH if options.thorough else QUICK,
        )
        return 0
    return _run(options, load(options.folder, options.project))


def _logger() -> Callable[[str], object]:
    """Prints although standard output will be replaced."""
    log = os.dup(1)
    return lambda text: os.write(log, f"{text}\n".encode())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m roundtrip_tests.mutants", description="Break the code in named ways."
    )
    parser.add_argument(
        "names", nargs="*", metavar="MODULE", help="modules and folders (default: all); with --record, tests"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random choice (default: 0)")
    parser.add_argument("--count", type=int, default=100, help="how many mutants (default: 100)")
    parser.add_argument("--covered", action="store_true", help="only those in lines that a recorded test runs")
    parser.add_argument("--named", action="store_true", help="those that tests once did not notice (named.json)")
    parser.add_argument("--all", action="store_true", help="every mutant")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one for each core)")
    parser.add_argument("--operator", action="append", help="only mutants of this kind (repeatable)")
    parser.add_argument("--match", help="only mutants with this text in their name")
    parser.add_argument("--seconds", type=float, default=15.0, help="CPU time of a mutant's tests (default: 15)")
    parser.add_argument("--json", type=Path, help="write every result to this file")
    parser.add_argument("--resume", action="store_true", help="do not run again what was killed in that file's run")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run none")
    parser.add_argument(
        "--record", action="store_true", help="record which tests run which lines; with tests, only these"
    )
    parser.add_argument(
        "--thorough", action="store_true", help="record tests that take seconds, and those of oracles, too"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the recordings (default: .mutants)")
    parser.add_argument("--package", nargs=2, metavar=("NAME", "TESTS"), help="of another import package and its tests")
    options = parser.parse_args()
    options.project = Project(options.package[0], Path(options.package[1]).absolute()) if options.package else UNWINDKIT
    if not options.record:
        try:
            options.project.chosen(options.names)
        except KeyError as unknown:
            parser.error(f"{unknown} is not a module or a folder")
    return options


def drawn(options: argparse.Namespace, choice: Choice) -> list[Mutant]:
    """The mutants that were asked for."""
    named = named_mutants()
    places = {key.partition(":")[0] for key in named}
    found = [
        mutant
        for module in options.project.chosen(options.names)
        if not options.named or module.path in places
        for mutant in mutants_of(module)
        if (not options.operator or mutant.operator in options.operator)
        and (not options.match or options.match in mutant.key)
        and (not options.named or mutant.key in named)
    ]
    if options.all or options.named or len(found) <= options.count:
        return found
    # The weighted sample of Efraimidis and Spirakis.
    found.sort(key=lambda mutant: mutant.rank(options.seed) ** (1 / _weight(mutant)), reverse=True)
    with_tests = (mutant for mutant in found if not options.covered or choice.tests(mutant))
    return list(itertools.islice(with_tests, options.count))


def _weight(mutant: Mutant) -> float:
    return next((weight for place, weight in WEIGHTS.items() if mutant.module.path.startswith(place)), 1.0)


def _run(options: argparse.Namespace, recording: Recording) -> int:
    choice = Choice(options.project, recording, options.seconds)
    mutants = drawn(options, choice)
    if options.list:
        _print("\n".join(f"{mutant.line}: {mutant.key}" for mutant in mutants))
        return 0
    stale = {one.module.path for one in mutants if one.module.name in recording.stale}
    if stale or not recording.tests:
        _print(f"run with --record first; changed since the last time: {', '.join(sorted(stale)) or 'all'}")
        return 2
    equal = equal_mutants()
    results: list[tuple[Mutant, Result]] = []
    start = time.monotonic()

    def found(mutant: Mutant, result: Result) -> None:
        results.append((mutant, result))
        if not result.is_killed and result.status != "equal":
            _print(line(mutant, result))
        if options.json and len(results) % 20 == 0:
            write_json(options.json, results)

    killed = read_killed(options.json) if options.json and options.resume else {}
    left = []
    for mutant in mutants:
        if mutant.key in equal:
            found(mutant, Result(mutant.key, "equal"))
        elif mutant.key in killed:
            results.append((mutant, killed[mutant.key]))
        else:
            left.append(mutant)
    run(options.project, choice, left, options.jobs, found)
    if options.json:
        write_json(options.json, results)
    _print("\n".join(tables(results)))
    _print(f"{len(results):,} mutants in {time.monotonic() - start:.0f} s; {len(choice.distrusted)} tests not counted")
    return 0 if all(result.is_killed or result.status == "equal" for _, result in results) else 1


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
