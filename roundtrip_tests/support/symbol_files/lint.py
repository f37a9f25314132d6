"""What is wrong in a Breakpad symbol file by itself: each fault is of one kind, and says where it is.

Strategy: no product code. One function at a time; an INLINE's parent is the last record before it that is one level
less deep, as the document says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from .records import Func, Inline, Line, SymbolFile


class Fault(Enum):
    """The kinds of faults."""

    repeated_id = "an id is given twice"
    stray = "INLINE or line records before the first FUNC"
    functions_unordered = "FUNC records are not in the order of their addresses"
    functions_overlap = "FUNC records overlap"
    function_empty = "a FUNC record has no bytes"
    function_unnamed = "a FUNC or PUBLIC record has no name"
    publics_unordered = "PUBLIC records are not in the order of their addresses"
    public_repeated = "two PUBLIC records have one address"
    public_in_function = "a PUBLIC record has the address of a FUNC"
    line_outside = "a line record is not inside its FUNC"
    lines_overlap = "line records overlap"
    lines_unordered = "line records are not in the order of their addresses"
    line_empty = "a line record has no bytes"
    unknown_file = "no FILE record has this number"
    unknown_origin = "no INLINE_ORIGIN record has this number"
    inline_orphan = "an INLINE record is more than one level deeper than the one before"
    inline_outside = "a range of an INLINE record is not inside its parent's"
    inlines_overlap = "INLINE records of one parent overlap"
    inline_empty = "a range of an INLINE record has no bytes"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault at an address."""

    fault: Fault
    address: int
    text: str = ""


Ranges = list[tuple[int, int]]


def lint(symbols: SymbolFile) -> Iterator[Finding]:
    """Every fault of a file. Raises SymbolFileError at a malformed record."""
    yield from (Finding(Fault.repeated_id, 0, one) for one in symbols.repeated)
    if symbols.stray:
        yield Finding(Fault.stray, 0, f"{symbols.stray} records")
    yield from _lint_functions(symbols.functions)
    yield from _lint_publics(symbols)
    for function in symbols.functions:
        inlines, lines = function.records()
        yield from _lint_lines(function, lines, symbols)
        yield from _lint_inlines(function, inlines, symbols)


def _lint_functions(functions: tuple[Func, ...]) -> Iterator[Finding]:
    last = -1
    for one in functions:
        if one.address < last:
            yield Finding(Fault.functions_unordered, one.address)
        if not one.size:
            yield Finding(Fault.function_empty, one.address, one.name)
        if not one.name:
            yield Finding(Fault.function_unnamed, one.address)
        last = one.address
    spans = ((one.address, one.end) for one in functions)
    yield from (Finding(Fault.functions_overlap, address) for address in _overlaps(spans))


def _lint_publics(symbols: SymbolFile) -> Iterator[Finding]:
    starts, last = {one.address for one in symbols.functions}, -1
    seen = set[int]()
    for one in symbols.publics:
        if one.address < last:
            yield Finding(Fault.publics_unordered, one.address, one.name)
        if one.address in seen:
            yield Finding(Fault.public_repeated, one.address, one.name)
        if one.address in starts:
            yield Finding(Fault.public_in_function, one.address, one.name)
        if not one.name:
            yield Finding(Fault.function_unnamed, one.address)
        last = one.address
        seen.add(one.address)


def _lint_lines(function: Func, lines: list[Line], symbols: SymbolFile) -> Iterator[Finding]:
    last = -1
    for one in lines:
        if one.address < last:
            yield Finding(Fault.lines_unordered, one.address, function.name)
        if not one.size:
            yield Finding(Fault.line_empty, one.address, function.name)
        if not function.address <= one.address <= one.address + one.size <= function.end:
            yield Finding(Fault.line_outside, one.address, function.name)
        if one.file not in symbols.files:
            yield Finding(Fault.unknown_file, one.address, str(one.file))
        last = one.address
    spans = ((one.address, one.address + one.size) for one in lines)
    yield from (Finding(Fault.lines_overlap, address, function.name) for address in _overlaps(spans))


def _lint_inlines(function: Func, inlines: list[Inline], symbols: SymbolFile) -> Iterator[Finding]:
    # The ranges of the records that the next one may be nested in, and of the children that each already has.
    parents: list[Ranges] = [[(function.address, function.end)]]
    children: list[Ranges] = [[]]
    for one in inlines:
        address = one.ranges[0][0]
        if one.call_file not in symbols.files:
            yield Finding(Fault.unknown_file, address, str(one.call_file))
        if one.origin not in symbols.origins:
            yield Finding(Fault.unknown_origin, address, str(one.origin))
        if one.depth >= len(parents):
            yield Finding(Fault.inline_orphan, address, function.name)
            continue
        del parents[one.depth + 1 :], children[one.depth + 1 :]
        spans = [(start, start + size) for start, size in one.ranges]
        for start, end in spans:
            if start == end:
                yield Finding(Fault.inline_empty, start, function.name)
            elif not _is_inside(start, end, parents[one.depth]):
                yield Finding(Fault.inline_outside, start, function.name)
            if any(start < other_end and other < end for other, other_end in children[one.depth]):
                yield Finding(Fault.inlines_overlap, start, function.name)
            children[one.depth].append((start, end))
        parents.append(spans)
        children.append([])


def _is_inside(start: int, end: int, parent: Ranges) -> bool:
    """Whether the ranges of a parent, of which several may join, cover one range."""
    for low, high in sorted(parent):
        if low <= start < high:
            start = high
    return start >= end


def _overlaps(spans: Iterable[tuple[int, int]]) -> Iterator[int]:
    """The start of each span that begins before another, which does not begin after it, has ended."""
    reached = -1
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if start < reached:
            yield start
        reached = max(reached, end)
