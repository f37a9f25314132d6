"""The rules between the records of a Breakpad symbol file, which no single line can break.

Strategy: one pass that keeps the state the rules need and returns every fault as an error, without raising it: real
files have some (dump_syms writes STACK CFI records at or past the end of their INIT's range), and readers tolerate it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .breakpad import NAMES, File, Func, Inline, Line, Module, StackCfi, StackCfiInit
from .section import ParseError
from .text_records import Record

Fault = tuple[str, str]
Ranges = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Seen:
    """The records so far.

    `ranges` are those of the last FUNC, then of the enclosing INLINE records by nest level; `cfi_start` is the address
    of the last STACK CFI record, and `cfi_end` the end of its INIT's range.
    """

    records: int = 0
    ranges: list[Ranges] = field(default_factory=list)
    files: set[int] = field(default_factory=set)
    cfi_start: int = 0
    cfi_end: int | None = None


def check_records(records: Iterable[tuple[int, Record]]) -> Iterator[ParseError]:
    """Check the records of a symbol file, each with its line number; yield an error for every breach of a rule."""
    seen = _Seen()
    for number, record in records:
        for name, reason in _faults(record, seen):
            yield ParseError("", None, f"line {number}: {NAMES[type(record)]}.{name}", reason)
        seen.records += 1


def _faults(record: Record, seen: _Seen) -> Iterator[Fault]:
    """Yield field and reason for each rule that a record breaks, and update `seen`."""
    match record:
        case Line():
            if not seen.ranges:
                yield "address", "a line record before the first FUNC"
            if record.filenum not in seen.files:
                yield "filenum", f"no FILE {record.filenum} before this record"
        case Inline():
            yield from _inline_faults(record, seen)
        case StackCfi():
            yield from _delta_faults(record, seen)
        case Func():
            seen.ranges = [((record.address, record.size),)]
        case StackCfiInit():
            seen.cfi_start, seen.cfi_end = record.address, record.address + record.size
        case File():
            seen.files.add(record.number)
        case Module():
            if seen.records:
                yield "operatingsystem", "MODULE is not the first record"


def _delta_faults(record: StackCfi, seen: _Seen) -> Iterator[Fault]:
    if seen.cfi_end is None:
        yield "address", "a STACK CFI record without a STACK CFI INIT before it"
        return
    if record.address <= seen.cfi_start:
        yield "address", f"{record.address:#x} is not above {seen.cfi_start:#x}, the address of the previous record"
    if record.address >= seen.cfi_end:
        yield "address", f"{record.address:#x} is not before {seen.cfi_end:#x}, the end of its STACK CFI INIT's range"
    seen.cfi_start = record.address


def _inline_faults(record: Inline, seen: _Seen) -> Iterator[Fault]:
    if not seen.ranges:
        yield "inline_nest_level", "an INLINE record before the first FUNC"
        return
    if record.inline_nest_level >= len(seen.ranges):
        yield "inline_nest_level", f"{record.inline_nest_level}, but no record of the previous level precedes it"
        return
    parent = seen.ranges[record.inline_nest_level]
    for start, size in record.ranges:
        if not any(around <= start and start + size <= around + length for around, length in parent):
            yield "ranges", f"{size:#x} bytes at {start:#x} are outside the record that they are inlined into"
    seen.ranges = [*seen.ranges[: record.inline_nest_level + 1], record.ranges]
