"""What became of the mutants: tables by folder and by operator, the survivors, and all of it as JSON."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from .places import Mutant
from .run import Result

Results = Sequence[tuple[Mutant, Result]]
STATUSES = ("killed", "timed out", "crashed", "survived", "uncovered", "broken", "equal")


def folder_of(mutant: Mutant) -> str:
    """The first two parts of the module's path that are folders."""
    return "/".join(mutant.module.path.split("/")[:-1][:2])


def tables(results: Results) -> Iterator[str]:
    """Lines of text: by folder, by operator, in all."""
    yield from _table("folder", results, folder_of)
    yield ""
    yield from _table("operator", results, lambda mutant: mutant.operator)


def _table(title: str, results: Results, group_of: Callable[[Mutant], str]) -> Iterator[str]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, result in results:
        counts[group_of(mutant)][result.status] += 1
    width = max([len(title), *map(len, counts)]) if counts else len(title)
    yield f"{title:<{width}} {'mutants':>8} " + " ".join(f"{status:>9}" for status in STATUSES) + "   killed"
    whole: Counter[str] = Counter()
    for group in sorted(counts):
        yield _row(group, width, counts[group])
        whole += counts[group]
    yield _row("all", width, whole)


def _row(name: str, width: int, counts: Counter[str]) -> str:
    killed = sum(counts[status] for status in ("killed", "timed out", "crashed"))
    decided = counts.total() - counts["equal"] - counts["broken"]
    share = f"{100 * killed / decided:.1f} %" if decided else ""
    return f"{name:<{width}} {counts.total():>8} " + " ".join(f"{counts[one]:>9}" for one in STATUSES) + f"  {share:>7}"


def line(mutant: Mutant, result: Result) -> str:
    """One mutant that was not killed."""
    return f"{result.status.upper()} line {mutant.line}: {mutant.key} ({result.tests} tests)"


def read_killed(path: Path) -> dict[str, Result]:
    """The mutants that were killed in an earlier run, by key."""
    if not path.exists():
        return {}
    names = [one.name for one in fields(Result)]
    stored = json.loads(path.read_text(encoding="utf-8"))
    found = [Result(**{name: one[name] for name in names}) for one in stored]
    return {one.key: one for one in found if one.is_killed}


def write_json(path: Path, results: Results) -> None:
    """Every result, with the place of its mutant."""
    found = [
        asdict(result) | {"module": mutant.module.path, "line": mutant.line, "operator": mutant.operator}
        for mutant, result in results
    ]
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
