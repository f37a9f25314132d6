"""What a Breakpad symbol file's records must be to one another: the rules that no line shows by itself.

Strategy: one pass that remembers what the rules need, and says every fault as an error that is not raised: real files
have some (dump_syms writes STACK CFI records at or past the end of their INIT's range), and readers go on.
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
    """What came before: `ranges` of the last FUNC, then of the INLINE records around the place, by nest level;
    `cfi_start` and `cfi_end` the last STACK CFI record's address and its INIT's end."""

    records: int = 0
    ranges: list[Ranges] = field(default_factory=list)
    files: set[int] = field(default_factory=set)
    cfi_start: int = 0
    cfi_end: int | None = None


def faults(records: Iterable[tuple[int, Record]]) -> Iterator[ParseError]:
    """Every breach of a rule, in the order of the lines; yielded, not raised."""
    seen = _Seen()
    for number, record in records:
        yield from _errors(number, record, seen)


def checked(records: Iterable[tuple[int, Record]]) -> Iterator[tuple[int, Record]]:
    """The records as they come. Raises ParseError at the first that breaks a rule."""
    seen = _Seen()
    for number, record in records:
        for error in _errors(number, record, seen):
            raise error
        yield number, record


def _errors(number: int, record: Record, seen: _Seen) -> list[ParseError]:
    found = list(_faults(record, seen))
    seen.records += 1
    return [ParseError("", None, f"line {number}: {NAMES[type(record)]}.{name}", reason) for name, reason in found]


def _faults(record: Record, seen: _Seen) -> Iterator[Fault]:
    """Field and reason of each rule that a record breaks, and what is to be remembered of it."""
    match record:
        case Line():
            if not seen.ranges:
                yield "address", "a line record before the first FUNC"
            if record.filenum not in seen.files:
                yield "filenum", f"no FILE {record.filenum} stands before"
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
        yield "address", f"{record.address:#x} does not follow {seen.cfi_start:#x}, the address of the record before"
    if record.address >= seen.cfi_end:
        yield "address", f"{record.address:#x} is not before {seen.cfi_end:#x}, the end of its STACK CFI INIT's range"
    seen.cfi_start = record.address


def _inline_faults(record: Inline, seen: _Seen) -> Iterator[Fault]:
    if not seen.ranges:
        yield "inline_nest_level", "an INLINE record before the first FUNC"
        return
    if record.inline_nest_level >= len(seen.ranges):
        yield "inline_nest_level", f"{record.inline_nest_level} where no record of the level before stands"
        return
    parent = seen.ranges[record.inline_nest_level]
    for start, size in record.ranges:
        if not any(around <= start and start + size <= around + length for around, length in parent):
            yield "ranges", f"{size:#x} bytes at {start:#x} are not inside the record that they are inlined into"
    seen.ranges = [*seen.ranges[: record.inline_nest_level + 1], record.ranges]
