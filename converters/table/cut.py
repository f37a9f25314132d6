"""Cut functions into pieces, and make tables in which no two functions share a PC.

Strategy: a piece that is a whole function, or starts with a repetition block, keeps its run. The rows of other pieces
are copied, with offsets relative to the piece's start, and appended to those of the table. Rules are shared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.section import ParseError
from ..arrays import distinct_values, group_numbers, range_run_starts, ranges, run_ends, values_at
from ..limits import exceeded, raised
from .lookup import owners, rows_in_force
from .model import RowColumns, UnwindTable, concatenate

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The limit on copied rows, beside as many as the table has: each of many functions may cut a long shared run elsewhere.
MAX_COPIED = 1 << 20


def trim(table: UnwindTable) -> UnwindTable:
    """The table of a linked file with every PC in only one function: the one that starts first, as in `by_pc`.

    A function that starts inside another keeps the PCs after the end of the other, with their rules; a function without
    PCs of its own gets size 0. Functions keep their indices. Raises ParseError if this takes more rows than MAX_COPIED.
    """
    functions = table.functions
    owner, begin = owners(table)
    start, size = functions.start.copy(), np.zeros_like(functions.size)
    start[owner] = begin
    size[owner] = functions.size[owner] - (begin - functions.start[owner])
    if np.array_equal(size, functions.size):
        return table
    return pieces_of(table, np.arange(len(table)), start, size)


def overlay(above: UnwindTable, below: UnwindTable) -> UnwindTable:
    """The functions of `above`, followed by pieces of functions of `below` for the PCs that `above` does not cover.

    Raises ParseError if this takes too many rows (MAX_COPIED).
    """
    owner, begin = owners(above)
    end = above.functions.start[owner] + above.functions.size[owner]
    function, start = owners(below)
    stop = below.functions.start[function] + below.functions.size[function]
    at = distinct_values(np.concatenate([start, stop, begin, end]))
    place, cover = (np.searchsorted(starts, at, side="right") - 1 for starts in (start, begin))
    is_free = at >= values_at(end, cover, 0)
    is_covered = at < values_at(stop, place, 0)
    first = np.flatnonzero(is_free & is_covered)
    if not len(first):
        return above
    piece = place[first]
    # Adjacent steps of one function are one piece.
    is_new = range_run_starts(first, first + 1, piece)
    begins, ends = at[first[is_new]], at[first[run_ends(is_new)] + 1]
    pieces = pieces_of(below, function[piece[is_new]], begins, ends - begins)
    return replace(concatenate([above, pieces]), source=f"{above.source} and {below.source}")


def without_blocks(table: UnwindTable) -> UnwindTable:
    """The table with every repetition block expanded into ordinary rows. Raises ParseError if this takes too many rows
    (MAX_COPIED)."""
    functions = table.functions
    repeated = np.flatnonzero((functions.repetition > 0) & (functions.size > 0))
    if not functions.repetition.any():
        return table
    run_rows, rows = _cut_rows(table, repeated, functions.start[repeated], functions.size[repeated])
    run = functions.run.copy()
    run[repeated] = len(table.run_rows) - 1 + np.arange(len(repeated))
    functions = replace(functions, run=run, repetition=np.zeros_like(functions.repetition))
    return replace(table, functions=functions, run_rows=run_rows, rows=rows)


def pieces_of(
    table: UnwindTable, function: NDArray[np.int64], start: NDArray[np.uint64], size: NDArray[np.uint64]
) -> UnwindTable:
    """A table whose functions are pieces of the table's functions, given by function index, absolute start and size.

    Each piece must be inside its function and has the same rules at every PC. Raises ParseError if this takes too many
    rows (MAX_COPIED).
    """
    whole = table.functions
    skipped = start - whole.start[function]
    block = whole.repetition[function].astype(np.uint64)
    # For a piece that starts in the middle of a block, readers that take the address modulo the block find other rows.
    keeps_blocks = (block > 0) & (skipped % np.maximum(block, np.uint64(1)) == 0) & (size >= block)
    is_cut = (size > 0) & (size < whole.size[function]) & ~keeps_blocks
    cut = np.flatnonzero(is_cut)
    run_rows, rows = _cut_rows(table, function[cut], start[cut], size[cut])
    run, repetition = whole.run[function], whole.repetition[function]
    run[cut] = len(table.run_rows) - 1 + np.arange(len(cut))
    repetition[cut] = 0
    functions = replace(whole.select(function), start=start, size=size, run=run, repetition=repetition)
    return replace(table, functions=functions, run_rows=run_rows, rows=rows)


def _cut_rows(
    table: UnwindTable, function: NDArray[np.int64], start: NDArray[np.uint64], size: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], RowColumns]:
    """`run_rows` and rows with one more run for each piece; repetition blocks are expanded into ordinary rows."""
    whole, offset = table.functions, table.rows.offset
    first_row = table.run_rows[whole.run[function]]
    count = table.run_rows[whole.run[function] + np.uint32(1)] - first_row
    block = np.where(whole.repetition[function] > 0, whole.repetition[function], whole.size[function])
    begin = start - whole.start[function]
    skipped = begin % block
    first = rows_in_force(table, function, start) - first_row
    last = rows_in_force(table, function, start + size - np.uint64(1)) - first_row
    blocks = (begin + size - np.uint64(1)) // block - begin // block
    if (blocks * count.astype(np.float64) + (last - first + 1)).sum() > raised(MAX_COPIED) + len(offset):
        reason = f"overlap such that more than {raised(MAX_COPIED)} rows must be copied"
        raise ParseError(table.source, None, "functions", exceeded(reason))
    number = blocks.astype(np.int64) * count + last - first + 1
    owner = group_numbers(number)
    rank = ranges(first, number)
    row = first_row[owner] + rank % count[owner]
    at = (rank // count[owner]).astype(np.uint64) * block[owner] + offset[row]
    moved = np.maximum(at, skipped[owner]) - skipped[owner]
    copied = replace(table.rows.select(row), offset=moved)
    run_rows = np.concatenate([table.run_rows, table.run_rows[-1] + np.cumsum(number)])
    return run_rows, RowColumns.concatenate([table.rows, copied])
