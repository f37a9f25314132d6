"""Dump of a symbol file's STACK records: the lines as they are.

Strategy: lines are copied in runs, which are few, since dumpers write records of one type together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.breakpad.files import parse_record
from ...schemas.breakpad.records import NAMES, StackWin
from ..arrays import holds_any, ranges, run_starts
from ..breakpad.records import STACK, lines_of, lines_starting_with
from ..breakpad.stack_cfi.read import stack_lines
from ..elf.image import ElfImage
from ..table.lookup import ChosenPcs

if TYPE_CHECKING:
    from numpy.typing import NDArray

STACK_WIN = b"STACK WIN "


def stack_records_text(image: ElfImage, at: ChosenPcs | None) -> Iterator[bytes]:
    """Yield the STACK records, of all functions or of those at some PCs."""
    data = image.data
    begin, end = lines_of(data)
    shown = _shown(image, begin, end, at)
    yield b"Contents of the STACK records:\n\n"
    first = np.flatnonzero(run_starts(shown - np.arange(len(shown))))
    for start, stop in pairwise([*first.tolist(), len(shown)]):
        yield bytes(data[int(begin[shown[start]]) : int(end[shown[stop - 1]])])
    yield b"\n"


def stack_records_json(image: ElfImage, at: ChosenPcs | None) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """The fields of the section, and the STACK records one by one, for JSON, with the names in the document."""
    return {"section": "STACK", "load_address": image.load_address}, _records(image, at)


def _records(image: ElfImage, at: ChosenPcs | None) -> Iterator[dict[str, Any]]:
    begin, end = lines_of(image.data)
    for number in _shown(image, begin, end, at).tolist():
        record = parse_record(bytes(image.data[int(begin[number]) : int(end[number])]), number + 1)
        fields = {name: value for name, value in asdict(record).items() if name != "spelling"}
        yield {"line": number + 1, "record": NAMES[type(record)]} | fields


def _shown(
    image: ElfImage, begin: NDArray[np.int64], end: NDArray[np.int64], at: ChosenPcs | None
) -> NDArray[np.int64]:
    """The indices of the lines that are STACK records, of all functions or of those at some PCs."""
    if at is not None:
        return np.union1d(_cfi_lines_at(image, at), _win_lines_at(image, begin, end, at))
    return lines_starting_with(image.data, begin, STACK)


def _cfi_lines_at(image: ElfImage, at: ChosenPcs) -> NDArray[np.int64]:
    """The STACK CFI lines of the functions at some PCs."""
    lines = stack_lines(bytes(image.data))
    first = np.flatnonzero(lines.is_init)
    count = np.diff(np.append(first, len(lines)))
    start = lines.address[first] + np.uint64(image.load_address)
    chosen = holds_any(start, lines.size[first], at.pcs)
    return lines.number[ranges(first[chosen], count[chosen])] - 1


def _win_lines_at(
    image: ElfImage, begin: NDArray[np.int64], end: NDArray[np.int64], at: ChosenPcs
) -> NDArray[np.int64]:
    """The STACK WIN lines of the functions at some PCs."""
    lines = lines_starting_with(image.data, begin, STACK_WIN)
    records = [parse_record(bytes(image.data[int(begin[one]) : int(end[one])]), one + 1) for one in lines.tolist()]
    known = [one for one in records if isinstance(one, StackWin)]
    start = np.array([one.rva for one in known], np.uint64) + np.uint64(image.load_address)
    return lines[holds_any(start, np.array([one.code_size for one in known], np.uint64), at.pcs)]
