"""A whole run: a reader is asked every case of a corpus; failures are counted, and the smallest one of each kind is
made smaller by shrinking what it was drawn from.

Strategy: a case is a function of the numbers that were drawn for it. Shrinking removes numbers and makes them smaller,
and keeps every case that fails in the same way; no library is needed for it, and the result is valid by construction,
because the generator made it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field as dataclass_field
from pathlib import Path
from tempfile import TemporaryDirectory

from ..corpus.case import Case
from ..corpus.choices import Replayed, Seeded
from ..corpus.formats import Format, Options, format_named, make_case
from ..corpus.write import case_name, file_bytes
from ..schemas.data_classes import dataclass
from .judge import Difference, differences
from .reader import TIMEOUT, Reader, Reply

# The most cases that are tried to make one smaller.
SHRINKS = 150

Key = tuple[str, str, str]


@dataclass(slots=True)
class Failure:
    """Cases of one format that fail in one way: how many, the first difference of the smallest, and that case."""

    format: str
    field: str
    kind: str
    number: int
    cases: int = 0
    difference: Difference | None = None
    case: Case | None = None
    numbers: tuple[int, ...] = ()
    features: Counter[str] = dataclass_field(default_factory=Counter)
    bytes_named: tuple[str, ...] = ()


@dataclass(slots=True)
class Result:
    """`asked`: cases by format; `failed`: those with a difference; `features`: of all cases, architectures
    among them, by FORMAT/FEATURE."""

    asked: Counter[str] = dataclass_field(default_factory=Counter)
    failed: Counter[str] = dataclass_field(default_factory=Counter)
    features: Counter[str] = dataclass_field(default_factory=Counter)
    failures: dict[Key, Failure] = dataclass_field(default_factory=dict)


class Examiner:
    """Asks a reader about cases that are written to one file after another."""

    def __init__(self, reader: Reader, folder: Path, *, raw: bool) -> None:
        self._reader, self._raw = reader, raw
        self._path = folder / ("case.bin" if raw else "case.elf")

    def ask(self, case: Case) -> tuple[tuple[int, ...], Reply]:
        """The PCs of a case, and the reader's answers."""
        self._path.write_bytes(file_bytes(case, raw=self._raw))
        pcs = tuple(case.answers)
        return pcs, self._reader.ask(case, self._path, pcs)

    def differences(self, case: Case) -> list[Difference]:
        """What the reader answers wrongly."""
        return list(differences(case, *self.ask(case)))


def conform(
    command: Sequence[str],
    formats: Sequence[str],
    count: int,
    options: Options = Options(),  # noqa: B008 - frozen
    *,
    raw: bool = False,
    timeout: float = TIMEOUT,
    shrinks: int = SHRINKS,
) -> Result:
    """Ask a reader about `count` cases of each format. Raises ReaderError, and BuildError for an unknown format."""
    from .explain import name_bytes

    result, options = Result(), options.for_files(raw=raw)
    with TemporaryDirectory(prefix="unwindkit-") as folder, Reader(command, timeout) as reader:
        examiner = Examiner(reader, Path(folder), raw=raw)
        for form in [format_named(name) for name in formats]:
            for number in range(count):
                _examine(result, examiner, form, number, options)
        for failure in result.failures.values():
            _shrink(failure, examiner, options, shrinks)
            failure.bytes_named = name_bytes(failure, examiner, options)
    return result


def _examine(result: Result, examiner: Examiner, form: Format, number: int, options: Options) -> None:
    draw = Seeded(f"{options.seed}/{form.name}/{number}")
    case = make_case(form, number, options, draw)
    result.asked[form.name] += 1
    features = case.features | {case.architecture.name}
    result.features.update(f"{form.name}/{one}" for one in features)
    found = examiner.differences(case)
    result.failed[form.name] += bool(found)
    for key in {one.key for one in found}:
        failure = result.failures.setdefault((form.name, *key), Failure(form.name, *key, number))
        failure.cases += 1
        failure.features.update(features)
        if failure.case is None or len(case.data) < len(failure.case.data):
            failure.case, failure.number = case, number
            failure.numbers = tuple(draw.numbers)
            failure.difference = next(one for one in found if one.key == key)


def _shrink(failure: Failure, examiner: Examiner, options: Options, budget: int) -> None:
    """Make the smallest case smaller while it fails in the same way."""
    form = format_named(failure.format)
    improved = True
    while improved and budget > 0:
        improved = False
        for numbers in _smaller(failure.numbers):
            if budget <= 0:
                return
            replayed = Replayed(numbers)
            case = make_case(form, failure.number, options, replayed)
            used = tuple(replayed.numbers)
            if (len(used), sum(used), used) >= (len(failure.numbers), sum(failure.numbers), failure.numbers):
                continue
            budget -= 1
            found = [one for one in examiner.differences(case) if one.key == (failure.field, failure.kind)]
            if found:
                failure.case, failure.numbers, failure.difference = case, used, found[0]
                improved = True
                break


def _smaller(numbers: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Numbers to try instead: without some of them, with some as 0, with one half as large or one less."""
    for size in (32, 16, 8, 4, 2, 1):
        for start in range(0, len(numbers), size):
            yield numbers[:start] + numbers[start + size :]
            if any(numbers[start : start + size]):
                yield numbers[:start] + (0,) * len(numbers[start : start + size]) + numbers[start + size :]
    for place, number in enumerate(numbers):
        for less in (number // 2, number - 1):
            if 0 <= less < number:
                yield (*numbers[:place], less, *numbers[place + 1 :])


def file_name(failure: Failure) -> str:
    """The name of the case that a failure was found in."""
    return case_name(format_named(failure.format), failure.number)
