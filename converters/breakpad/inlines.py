"""INLINE records: the ranges of inlined functions, cut to FUNC records, in the order in which they nest.

Strategy: readers nest records in one of two ways, by their order or by level and address. Both find the same functions
if the records of each FUNC are in preorder, the ranges of one level are disjoint, and each range is inside one of its
parent. Ranges that break this are rare; only their FUNC records are cut level by level.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.section import BuildError
from ..arrays import group_numbers, last_at_or_before, ranges, run_starts
from ..columns import Columns, column_of, columns
from ..debug_info.table import FunctionTable, InlineColumns
from ..kernels import engine, views
from ..table.lookup import range_owners

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOURCE = "function records"
TOP = np.uint64((1 << 64) - 1)
# Ranges that are cut into more parts than this, on average, are not inside the functions that they belong to.
MAX_PARTS = 16


@columns
class InlineRecordColumns(Columns):
    """INLINE records, in the order of the file."""

    function: NDArray[np.int64] = column_of("index", "of the FUNC record")
    level: NDArray[np.uint16] = column_of("levels", "0 if it is inlined into the function itself")
    call_line: NDArray[np.uint32] = column_of("line", "from 1; 0 if it is unknown")
    call_file: NDArray[np.int64] = column_of("index", "of the file of the call; -1 if it is unknown", fill=-1)
    name: NDArray[np.int64] = column_of("index", "of the name")


@columns
class InlineRecordRanges(Columns):
    """The ranges of INLINE records, in the order of the file."""

    start: NDArray[np.uint64] = column_of("address", "absolute")
    size: NDArray[np.uint64] = column_of("bytes", "at least 1")
    inline: NDArray[np.int64] = column_of("index", "of the INLINE record")


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """Ranges cut to FUNC records: `function`, the index of that; `inline`, that of the inlined function; start and end
    addresses."""

    function: NDArray[np.int64]
    inline: NDArray[np.int64]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]

    def __len__(self) -> int:
        """The number of parts."""
        return len(self.start)

    def select(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> _Parts:
        """Some of the parts."""
        return _Parts(self.function[which], self.inline[which], self.start[which], self.end[which])


def inline_records(
    table: FunctionTable, function: NDArray[np.int64], address: NDArray[np.uint64], size: NDArray[np.uint64]
) -> tuple[InlineRecordColumns, InlineRecordRanges]:
    """The INLINE records of FUNC records, which are disjoint and ascending parts of functions (`function`). Their names
    are indices in the table. Raises BuildError for a table that does not nest."""
    inlines = table.inlines
    _check(table)
    rank = _preorder(inlines)
    parts = _cut_to_functions(table, function, address, size)
    parts = _sorted(parts, rank)
    faulty = _faults(parts, inlines, len(function))
    if faulty.any():
        is_faulty = faulty[parts.function]
        found = [parts.select(~is_faulty), *_cut_by_level(parts.select(is_faulty), inlines)]
        parts = _sorted(_concatenated(found), rank)
    is_new = run_starts(parts.function, parts.inline)
    inline = parts.inline[is_new]
    level, call_line = inlines.depth[inline], inlines.call_line[inline]
    columns = (parts.function[is_new], level, call_line, inlines.call_file[inline], inlines.name[inline])
    record = np.cumsum(is_new) - 1
    return InlineRecordColumns(*columns), InlineRecordRanges(parts.start, parts.end - parts.start, record)


def _check(table: FunctionTable) -> None:
    """Raise BuildError for inlined functions that do not nest, or ranges without one."""
    inlines, count = table.inlines, len(table.inlines)
    parent = inlines.parent
    above = np.where(parent < 0, 0, parent)
    nests = (parent >= -1) & (parent < np.arange(count)) & (inlines.function < len(table))
    if nests.all():
        depth = np.where(parent < 0, 0, inlines.depth[above].astype(np.int64) + 1)
        nests &= (inlines.depth == depth) & ((parent < 0) | (inlines.function[above] == inlines.function))
    for wrong in np.flatnonzero(~nests)[:1]:
        raise BuildError(SOURCE, None, f"inlines[{wrong}]", "it is not one level below an earlier one of its function")
    if len(table.inline_ranges) and int(table.inline_ranges.inline.max()) >= count:
        raise BuildError(SOURCE, None, "inline_ranges", f"one is of none of the {count} inlined functions")


def _preorder(inlines: InlineColumns) -> NDArray[np.int64]:
    """The rank of each inlined function among all, where those that it contains come right after it."""
    count = len(inlines)
    rank = np.empty(count, np.int64)
    memory = np.ones(count, np.int64), np.empty(count + 1, np.int64)
    engine.breakpad.inline_order.preorder(*views(np.ascontiguousarray(inlines.parent), *memory, rank))
    return rank


def _cut_to_functions(
    table: FunctionTable, function: NDArray[np.int64], address: NDArray[np.uint64], size: NDArray[np.uint64]
) -> _Parts:
    """The parts of inlined functions' ranges that are in FUNC records of their functions."""
    found = table.inline_ranges
    order = np.lexsort((address, function))
    begin, end = address[order], (address + size)[order]
    first_of = np.searchsorted(function[order], np.arange(len(table) + 1))
    # As yet `function` is that of the table.
    parts = _Parts(
        table.inlines.function[found.inline].astype(np.int64),
        found.inline.astype(np.int64),
        found.start,
        found.start + np.minimum(found.size, TOP - found.start),
    )
    parts = parts.select((parts.end > parts.start) & (np.diff(first_of) > 0)[parts.function])
    # Nearly all are whole, in the first FUNC record of their function.
    place = first_of[parts.function]
    is_whole = (begin[place] <= parts.start) & (parts.end <= end[place])
    whole, others = parts.select(is_whole), parts.select(~is_whole)
    low, high = first_of[others.function], first_of[others.function + 1]
    first = last_at_or_before(end, low, high, others.start) + 1
    count = np.maximum(last_at_or_before(begin, low, high, others.end - np.uint64(1)) + 1 - first, 0)
    if int(count.sum()) > MAX_PARTS * (len(found) + len(function)):
        raise BuildError(SOURCE, None, "inline_ranges", "they reach past the ranges of their functions")
    at, piece = ranges(first, count), group_numbers(count)
    start, stop = np.maximum(others.start[piece], begin[at]), np.minimum(others.end[piece], end[at])
    cut = _Parts(order[at], others.inline[piece], start, stop)
    return _concatenated([replace(whole, function=order[place[is_whole]]), cut])


def _sorted(parts: _Parts, rank: NDArray[np.int64]) -> _Parts:
    """Parts in the order of the file."""
    order = np.lexsort((parts.start, rank[parts.inline], parts.function))
    return parts.select(order)


def _concatenated(parts: list[_Parts]) -> _Parts:
    names = ("function", "inline", "start", "end")
    return _Parts(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))


def _faults(parts: _Parts, inlines: InlineColumns, functions: int) -> NDArray[np.bool_]:
    """Which FUNC records have ranges of one level that overlap, or that are not inside one of their parent."""
    order = np.argsort(parts.start, kind="stable")
    level = inlines.depth[parts.inline].astype(np.int64)
    faulty = np.zeros(functions, np.uint8)
    last_of = np.full(int(level.max(initial=0)) + 1, -1, np.int64)
    columns = (parts.start, parts.end, parts.function, level, parts.inline, inlines.parent[parts.inline])
    engine.breakpad.inline_order.mark_faults(*views(order, *columns, last_of, faulty))
    return faulty > 0


def _cut_by_level(parts: _Parts, inlines: InlineColumns) -> list[_Parts]:
    """Parts cut to those of their parents, and disjoint in each level: an address belongs to the one that starts first,
    then to the first inlined function."""
    level = inlines.depth[parts.inline]
    order = np.argsort(level, kind="stable")
    first = np.searchsorted(level[order], np.arange(int(level.max(initial=0)) + 2))
    found: list[_Parts] = []
    for low, high in zip(first.tolist(), first[1:].tolist(), strict=False):
        here = parts.select(order[low:high])
        if found:
            here = _cut_to_parents(here, found[-1], inlines)
        if not len(here):
            break
        owner, begin = range_owners(here.start, here.end - here.start)
        found.append(replace(here.select(owner), start=begin))
    return found


def _cut_to_parents(parts: _Parts, above: _Parts, inlines: InlineColumns) -> _Parts:
    """The parts of one level cut to those of the level above, which are disjoint and ascending."""
    first = np.searchsorted(above.end, parts.start, side="right")
    count = np.maximum(np.searchsorted(above.start, parts.end, side="left") - first, 0)
    if int(count.sum()) > MAX_PARTS * (len(parts) + len(above)):
        raise BuildError(SOURCE, None, "inline_ranges", "they reach past the ranges of what contains them")
    piece, place = group_numbers(count), ranges(first, count)
    is_own = above.inline[place] == inlines.parent[parts.inline[piece]]
    piece, place = piece[is_own], place[is_own]
    start, end = np.maximum(parts.start[piece], above.start[place]), np.minimum(parts.end[piece], above.end[place])
    return _Parts(parts.function[piece], parts.inline[piece], start, end)
