"""Find the function and the row in force at a PC, for many PCs at once.

Strategy: functions become disjoint ranges in address order, searched once for all PCs; then each PC's row run is
bisected, all runs in step.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_address, checked
from ...schemas.data_classes import dataclass
from ...schemas.section import Section
from ..arrays import furthest_before, last_at_or_before, values_at
from ..columns import Columns, column_of, columns
from .model import UnwindTable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

NOTHING = -1


@columns
class RowsAt(Columns):
    """One record per PC."""

    function: NDArray[np.int64] = column_of("index", "of the function in the table, -1 for none")
    row: NDArray[np.int64] = column_of("index", "of the row in the table, -1 for none")


@dataclass(frozen=True, slots=True, eq=False)
class ChosenPcs:
    """PCs whose functions are shown. In a relocatable file, where all sections start at 0, they are addresses of
    `located`: the section that is shown as it would be if each had its own address. Otherwise that is None.
    """

    pcs: NDArray[np.uint64]
    located: Section | None


def addresses(pcs: ArrayLike) -> NDArray[np.uint64]:
    """PCs in any form as a new column. Raises TypeError for what are not integers, and ValueError for PCs outside 64
    bits or in several dimensions."""
    try:
        given = np.array(pcs, ndmin=1)
        if given.ndim > 1:
            raise ValueError(f"addresses must be in one dimension, not in {given.ndim}")
        if given.size and given.dtype.kind not in "iu":
            # Integers of both halves of the range have no common type in NumPy.
            values = [check_address(index(one), "an address") for one in np.array(pcs, object, ndmin=1)]
            return np.array(values, np.uint64)
        for wrong in given[given < 0][:1]:
            check_address(int(wrong), "an address")
        return given.astype(np.uint64)
    except OverflowError as error:
        raise ValueError("an address is outside 64 bits") from error


@checked(table=UnwindTable)
def find_rows(table: UnwindTable, pcs: ArrayLike) -> RowsAt:
    """The function and the row in force at each PC, for a table of a linked file. PCs are absolute, in any order.

    A PC that several functions cover belongs to the one that starts first.
    """
    pc = addresses(pcs)
    function = ranges_at(table.functions.start, table.functions.size, pc)
    found = np.flatnonzero(function != NOTHING)
    row = np.full(len(pc), NOTHING, np.int64)
    row[found] = rows_in_force(table, function[found], pc[found])
    return RowsAt(function, row)


class RowIndex:
    """As `find_rows`, for single PCs of one table: its functions are put in order once."""

    def __init__(self, table: UnwindTable) -> None:
        self.table = table
        self._owner, self._begin = owners(table)

    def row_at(self, pc: int) -> tuple[int, int]:
        """The function and the row in force at a PC; NOTHING for none."""
        functions, runs, offsets = self.table.functions, self.table.run_rows, self.table.rows.offset
        at = int(np.searchsorted(self._begin, np.uint64(pc), side="right")) - 1
        function = int(self._owner[at]) if at >= 0 else NOTHING
        if function == NOTHING or (offset := pc - int(functions.start[function])) >= int(functions.size[function]):
            return NOTHING, NOTHING
        offset %= int(functions.repetition[function]) or 1 << 64
        run = int(functions.run[function])
        first, end = int(runs[run]), int(runs[run + 1])
        row = first - 1 + int(np.searchsorted(offsets[first:end], np.uint64(offset), side="right"))
        return function, row if row >= first else NOTHING


def owners(table: UnwindTable) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """As `range_owners`, for the functions of a table."""
    return range_owners(table.functions.start, table.functions.size)


def range_owners(start: NDArray[np.uint64], size: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """The ranges that own addresses, and the first address that each owns, ascending; it owns the rest up to its end.

    An address in several ranges is owned by the one that starts first.
    """
    order = np.argsort(start, kind="stable")
    order = order[size[order] > 0]
    last = start[order] + (size[order] - np.uint64(1))
    reach = furthest_before(last)
    begin = start[order].copy()
    taken = reach >= begin
    taken[:1] = False
    begin[taken] = reach[taken] + np.uint64(1)
    kept = begin <= last
    kept[taken & (reach == np.uint64(0xFFFFFFFFFFFFFFFF))] = False
    return order[kept], begin[kept]


def ranges_at(start: NDArray[np.uint64], size: NDArray[np.uint64], pc: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The range that owns each PC (`range_owners`), or NOTHING."""
    owner, begin = range_owners(start, size)
    found = values_at(owner, np.searchsorted(begin, pc, side="right") - 1, NOTHING)
    hits = np.flatnonzero(found != NOTHING)
    outside = pc[hits] - start[found[hits]] >= size[found[hits]]
    found[hits[outside]] = NOTHING
    return found


def rows_in_force(table: UnwindTable, function: NDArray[np.int64], pc: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The last row at or before each PC, in its `function`, which covers it."""
    functions = table.functions
    offset = pc - functions.start[function]
    block = functions.repetition[function].astype(np.uint64)
    offset = np.where(block > 0, offset % np.maximum(block, np.uint64(1)), offset)
    run = functions.run[function]
    first, end = table.run_rows[:-1][run], table.run_rows[1:][run]
    row = last_at_or_before(table.rows.offset, first, end, offset)
    return np.where(row >= first, row, NOTHING)
