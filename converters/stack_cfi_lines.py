"""STACK CFI lines of a symbol file as columns (the symbol file document, STACK CFI records).

Strategy: a kernel finds the lines and reads their addresses; what they say is numbered, equal texts alike, and each
text is parsed once, by its record's declaration. Lines that are spelled oddly are written canonically first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..schemas.breakpad import StackCfi, StackCfiInit
from ..schemas.breakpad_files import build_record, parse_record
from ..schemas.section import ParseError
from ..schemas.text_records import Number, Record, Rule, parts_of
from .interning import intern
from .kernels import engine, views
from .kernels.breakpad.protocol import LineKind
from .stack_cfi import DELTA, INIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOURCE = "STACK CFI"
RECORDS: tuple[type[Record], ...] = (StackCfiInit, StackCfi)  # as `LineKind` numbers them
NEWLINE = 10


@dataclass(frozen=True, slots=True, eq=False)
class StackLines:
    """One element a line: its number in the file from 1, whether it is an INIT, u64 address and, of an INIT, size in
    bytes, and the number of its rules in `texts`."""

    number: NDArray[np.int64]
    is_init: NDArray[np.bool_]
    address: NDArray[np.uint64]
    size: NDArray[np.uint64]
    text: NDArray[np.int64]
    texts: list[tuple[Rule, ...]]

    def __len__(self) -> int:
        """The number of lines."""
        return len(self.number)

    def until(self, count: int) -> StackLines:
        """The first lines."""
        number, is_init, address = self.number[:count], self.is_init[:count], self.address[:count]
        return StackLines(number, is_init, address, self.size[:count], self.text[:count], self.texts)


def stack_lines(data: bytes) -> StackLines:
    """The STACK CFI lines of a symbol file; others are passed over. Raises ParseError, whose record is the line."""
    found = _scan(data)
    if (found.kind == LineKind.ODD).any():
        data = _respelled(data, found)
        found = _scan(data)
    text, first = intern(np.frombuffer(data, np.uint8), found.rest, found.end, np.zeros(len(found.kind), np.int64))
    texts = [
        _rules(data[begin:end], number + 1)
        for begin, end, number in zip(
            *(column[first].tolist() for column in (found.begin, found.end, found.line)), strict=True
        )
    ]
    is_init = found.kind == LineKind.LONGER
    size = np.where(is_init, found.values[:, 1], np.uint64(0))
    return StackLines(found.line + 1, is_init, found.values[:, 0], size, text.astype(np.int64), texts)


@dataclass(frozen=True, slots=True, eq=False)
class _Scanned:
    """As the kernel finds lines (kernels/breakpad/symbol_lines.py)."""

    line: NDArray[np.int64]
    begin: NDArray[np.int64]
    kind: NDArray[np.uint8]
    values: NDArray[np.uint64]
    rest: NDArray[np.int64]
    end: NDArray[np.int64]


def _scan(data: bytes) -> _Scanned:
    # A line has at least its head.
    room = min(data.count(b"\n") + 1, len(data) // len(DELTA) + 1)
    line, begin, rest, end = (np.empty(room, np.int64) for _ in range(4))
    kind, values = np.empty(room, np.uint8), np.zeros((room, 2), np.uint64)
    numbers = [sum(isinstance(kind, Number) for _, kind in parts_of(record)) for record in RECORDS]
    heads = (np.frombuffer(head, np.uint8) for head in (data, INIT, DELTA))
    columns = (np.array(numbers, np.int64), line, begin, kind, values, rest, end)
    count = engine.breakpad.symbol_lines.scan(*views(*heads, *columns))
    return _Scanned(line[:count], begin[:count], kind[:count], values[:count], rest[:count], end[:count])


def _respelled(data: bytes, found: _Scanned) -> bytes:
    """The file with its oddly spelled lines as we would write them. Raises ParseError."""
    pieces, at = [], 0
    odd = np.flatnonzero(found.kind == LineKind.ODD)
    for begin, end, number in zip(
        *(column[odd].tolist() for column in (found.begin, found.end, found.line)), strict=True
    ):
        record = parse_record(data[begin:end] + b"\n", number + 1)
        pieces += [data[at:begin], build_record(replace(record, spelling=b"")).rstrip(b"\n")]
        at = end
    return b"".join([*pieces, data[at:]])


def _rules(line: bytes, number: int) -> tuple[Rule, ...]:
    record = parse_record(line + b"\n", number)
    assert isinstance(record, StackCfiInit | StackCfi)
    if len(dict(record.rules)) != len(record.rules):
        raise ParseError(SOURCE, None, f"line {number}", "a register has two rules")
    return record.rules
