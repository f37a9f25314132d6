"""The rules between the records of a Breakpad symbol file, which no single line can break.

Strategy: one pass that keeps the state the rules need and returns every fault as an error, without raising it: real
files have some (dump_syms writes STACK CFI records at or past the end of their INIT's range), and readers tolerate it.
What a later record may still decide, such as ranges that overlap, is checked after the last record.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import field

import numpy as np

from ..data_classes import dataclass
from ..section import ParseError
from ..text_records import Record, Rule
from .files import spelling_faults
from .records import (
    CFA_NAME,
    NAMES,
    RA_NAME,
    UNDEFINED,
    File,
    Func,
    Inline,
    InlineOrigin,
    Line,
    Module,
    StackCfi,
    StackCfiInit,
    StackWin,
)
from .values import Fault, expression_faults, module_faults, stack_win_faults

Ranges = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _RangeColumns:
    """The ranges of all records of a type: address, size, and the number of the line."""

    address: array[int] = field(default_factory=lambda: array("Q"))
    size: array[int] = field(default_factory=lambda: array("Q"))
    line: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, address: int, size: int, line: int) -> None:
        self.address.append(address)
        self.size.append(size)
        self.line.append(line)

    def overlaps(self) -> list[tuple[int, int]]:
        """Line numbers of pairs of records whose ranges overlap, the later one first: at most one pair per record."""
        address, size, line = (np.array(column, np.uint64) for column in (self.address, self.size, self.line))
        order = np.argsort(address, kind="stable")
        order = order[size[order] > 0]
        address, line = address[order], line[order]
        # A range that would wrap ends at the last address.
        last = address + np.minimum(size[order] - np.uint64(1), ~address)
        reach = np.maximum.accumulate(last)
        is_furthest = np.append(True, reach[1:] > reach[:-1])[: len(reach)]
        holder = np.maximum.accumulate(np.where(is_furthest, np.arange(len(reach)), 0))
        second = np.flatnonzero(address[1:] <= reach[:-1]) + 1
        pair = np.column_stack([line[second], line[holder[second - 1]]])
        return sorted((max(one), min(one)) for one in pair.tolist())


@dataclass(slots=True)
class _Seen:
    """The records so far.

    `ranges` are those of the last FUNC, then of the enclosing INLINE records by nest level; `cfi_start` is the address
    of the last STACK CFI record, `cfi_end` the end of its INIT's range, `cfi_rules` the rules in force. `absent` has
    the references of INLINE records to numbers that no record has yet: line, field, record type, number.
    """

    records: int = 0
    ranges: list[Ranges] = field(default_factory=list)
    names: dict[type[Record], dict[int, str]] = field(default_factory=lambda: {File: {}, InlineOrigin: {}})
    absent: list[tuple[int, str, type[Record], int]] = field(default_factory=list)
    cfi_start: int = 0
    cfi_end: int | None = None
    cfi_rules: dict[str, str] = field(default_factory=dict)
    covered: dict[type[Record], _RangeColumns] = field(
        default_factory=lambda: {Line: _RangeColumns(), StackCfiInit: _RangeColumns()}
    )


def check_records(records: Iterable[tuple[int, Record]]) -> Iterator[ParseError]:
    """Check the records of a symbol file, each with its line number; yield an error for every breach of a rule."""
    seen = _Seen()
    for number, record in records:
        for name, reason in _faults(record, number, seen):
            yield _error(number, type(record), name, reason)
        seen.records += 1
    yield from _faults_of_the_whole(seen)


def _error(line: int, cls: type[Record], name: str, reason: str) -> ParseError:
    return ParseError("", None, f"line {line}: {NAMES[cls]}.{name}", reason)


def _faults(record: Record, number: int, seen: _Seen) -> Iterator[Fault]:
    """Yield field and reason for each rule that a record breaks, and update `seen`."""
    yield from spelling_faults(record)
    match record:
        case Line():
            yield from _line_faults(record, number, seen)
        case Inline():
            yield from _inline_faults(record, number, seen)
        case StackCfi():
            yield from _delta_faults(record, seen)
        case StackCfiInit():
            yield from _init_faults(record, number, seen)
        case Func():
            seen.ranges = [((record.address, record.size),)]
        case File() | InlineOrigin():
            if seen.names[type(record)].setdefault(record.number, record.name) != record.name:
                yield "number", f"{record.number} is the number of another name"
        case StackWin():
            yield from stack_win_faults(record)
        case Module():
            if seen.records:
                yield "operatingsystem", "MODULE is not the first record"
            yield from module_faults(record)


def _line_faults(record: Line, number: int, seen: _Seen) -> Iterator[Fault]:
    if not seen.ranges:
        yield "address", "a line record before the first FUNC"
    if record.filenum not in seen.names[File]:
        yield "filenum", f"no FILE {record.filenum} before this record"
    seen.covered[Line].add(record.address, record.size, number)


def _init_faults(record: StackCfiInit, number: int, seen: _Seen) -> Iterator[Fault]:
    seen.cfi_start, seen.cfi_end = record.address, record.address + record.size
    seen.covered[StackCfiInit].add(record.address, record.size, number)
    seen.cfi_rules = dict(record.rules)
    yield from expression_faults(record.rules)
    yield from _missing(seen.cfi_rules)


def _missing(rules: dict[str, str]) -> Iterator[Fault]:
    """Rules are needed for `.cfa` and `.ra` at every address."""
    for name in (CFA_NAME, RA_NAME):
        if rules.get(name, UNDEFINED) == UNDEFINED:
            yield "rules", f"no rule for {name} is in force: stack walkers ignore the rules"


def _delta_faults(record: StackCfi, seen: _Seen) -> Iterator[Fault]:
    yield from expression_faults(record.rules)
    if seen.cfi_end is None:
        yield "address", "a STACK CFI record without a STACK CFI INIT before it"
        return
    if record.address <= seen.cfi_start:
        yield "address", f"{record.address:#x} is not above {seen.cfi_start:#x}, the address of the previous record"
    if record.address >= seen.cfi_end:
        yield "address", f"{record.address:#x} is not before {seen.cfi_end:#x}, the end of its STACK CFI INIT's range"
    seen.cfi_start = record.address
    yield from _changes(record.rules, seen)


def _changes(rules: tuple[Rule, ...], seen: _Seen) -> Iterator[Fault]:
    """Each rule of a STACK CFI record changes the rule in force."""
    for name, expression in rules:
        if seen.cfi_rules.get(name) == expression:
            yield "rules", f"the rule for {name} is in force already"
    before = list(_missing(seen.cfi_rules))
    seen.cfi_rules.update(rules)
    yield from (fault for fault in _missing(seen.cfi_rules) if fault not in before)


def _inline_faults(record: Inline, number: int, seen: _Seen) -> Iterator[Fault]:
    for name, cls, to in (
        ("call_site_file_num", File, record.call_site_file_num),
        ("origin_num", InlineOrigin, record.origin_num),
    ):
        if to is not None and to not in seen.names[cls]:
            seen.absent.append((number, name, cls, to))
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
    seen.ranges = [*seen.ranges[: record.inline_nest_level + 1], _joined(record.ranges)]


def _joined(ranges: Ranges) -> Ranges:
    """Ranges in ascending order; those that touch or overlap become one."""
    found: list[tuple[int, int]] = []
    for start, size in sorted(ranges):
        if found and start <= sum(found[-1]):
            found[-1] = found[-1][0], max(sum(found[-1]), start + size) - found[-1][0]
        else:
            found.append((start, size))
    return tuple(found)


def _faults_of_the_whole(seen: _Seen) -> Iterator[ParseError]:
    """The faults that show only after the last record, in the order of their lines."""
    found: list[tuple[int, type[Record], str, str]] = [
        (line, Inline, name, f"no record has the number: {NAMES[cls]} {number} is absent")
        for line, name, cls, number in seen.absent
        if number not in seen.names[cls]
    ]
    for cls, ranges in seen.covered.items():
        found += [
            (line, cls, "address", f"the range overlaps that of line {other}") for line, other in ranges.overlaps()
        ]
    for line, owner, name, reason in sorted(found, key=lambda fault: fault[0]):
        yield _error(line, owner, name, reason)
