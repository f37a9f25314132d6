"""Which function and which row of a table apply at a PC: many PCs at once.

Strategy: functions become disjoint ranges in order of addresses, searched once for all PCs; then a bisection of
each PC's row run, all of them in step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .model import UnwindTable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

NOTHING = -1


@dataclass(frozen=True, slots=True, eq=False)
class RowsAt:
    """One element a PC: `function` and `row`, i64, indices in the table; -1 where there is none."""

    function: NDArray[np.int64]
    row: NDArray[np.int64]


def addresses(pcs: ArrayLike) -> NDArray[np.uint64]:
    """PCs given in any way as a column of their own."""
    return np.array(pcs, np.uint64, ndmin=1)


def find_rows(table: UnwindTable, pcs: ArrayLike) -> RowsAt:
    """The function and the row in force at each PC, for a table of a linked file. PCs are absolute, in any order.

    A PC that several functions claim belongs to the one that starts first.
    """
    pc = addresses(pcs)
    functions = table.functions
    owner, begin = owners(table)
    place = np.searchsorted(begin, pc, side="right") - 1
    function = np.append(owner, NOTHING)[place]
    found = np.flatnonzero(function >= 0)
    inside = pc[found] - functions.start[function[found]] < functions.size[function[found]]
    function[np.delete(found, np.flatnonzero(inside))] = NOTHING
    found = found[inside]
    row = np.full(len(pc), NOTHING, np.int64)
    row[found] = rows_in_force(table, function[found], pc[found])
    return RowsAt(function, row)


def owners(table: UnwindTable) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """As `range_owners`, of a table's functions."""
    return range_owners(table.functions.start, table.functions.size)


def range_owners(start: NDArray[np.uint64], size: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Ranges and the first address that each has for itself, ascending: it is the range's up to its end.

    An address that several have belongs to the one that starts first. A range that has none is not among them.
    """
    order = np.argsort(start, kind="stable")
    order = order[size[order] > 0]
    last = start[order] + (size[order] - np.uint64(1))
    reach = np.maximum.accumulate(np.concatenate([np.zeros(1, np.uint64), last]))[:-1]
    begin = start[order].copy()
    taken = reach >= begin
    taken[:1] = False
    begin[taken] = reach[taken] + np.uint64(1)
    kept = begin <= last
    kept[taken & (reach == np.uint64(0xFFFFFFFFFFFFFFFF))] = False
    return order[kept], begin[kept]


def rows_in_force(table: UnwindTable, function: NDArray[np.int64], pc: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The last row at or before each PC, in a function that holds it."""
    functions = table.functions
    offset = pc - functions.start[function]
    block = functions.repetition[function].astype(np.uint64)
    offset = np.where(block > 0, offset % np.maximum(block, np.uint64(1)), offset)
    run = functions.run[function]
    first = table.run_rows[run]
    low, high = first.copy(), table.run_rows[run + np.uint32(1)].copy()
    while len(open_ones := np.flatnonzero(low < high)):
        middle = (low[open_ones] + high[open_ones]) >> 1
        is_before = table.rows.offset[middle] <= offset[open_ones]
        low[open_ones[is_before]] = middle[is_before] + 1
        high[open_ones[~is_before]] = middle[~is_before]
    return np.where(low > first, low - 1, NOTHING)
