"""Where the functions of a table stand in assembler text, and which of them it cannot have.

Strategy: a text goes forward only, so functions are cut until no two share a PC, and sorted. It begins at its base,
from which GNU as's `.eh_frame`, with offsets of four bytes, reaches so far.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.section import BuildError
from ..refusals import Reason, Refusals
from ..table.cut import trimmed, without_blocks
from ..table.model import FunctionColumns, FunctionFlag, UnwindTable
from .pointers import REACH, Pointers, is_far

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_COLUMN = 0xFF  # one byte of a CIE of version 1, which as writes
_ADDRESS_SPACE = 1 << 64
_OF_AARCH64 = FunctionFlag.PAUTH_B_KEY | FunctionFlag.MEMORY_TAGGING


def laid_apart(table: UnwindTable) -> UnwindTable:
    """The table with every PC in one function, the one that starts first, and without repetition blocks.

    Functions keep their indices; one that has no PC for itself gets size 0. Raises FormatError where that needs rows
    out of proportion, and where the sections of a relocatable file fill more than an address space.
    """
    shift = _section_starts(table.functions)
    moved = replace(table, functions=replace(table.functions, start=table.functions.start + shift))
    apart = trimmed(without_blocks(moved))
    return replace(apart, functions=replace(apart.functions, start=apart.functions.start - shift))


def _section_starts(functions: FunctionColumns) -> NDArray[np.uint64]:
    """For each function an address for its section, such that no two sections share one; 0 in a linked file."""
    sections, which = np.unique(functions.section, return_inverse=True)
    end = functions.start + functions.size
    extent = np.zeros(len(sections), np.uint64)
    np.maximum.at(extent, which.reshape(-1), end)
    if len(sections) > 1 and ((end < functions.start).any() or sum(extent.tolist()) >= _ADDRESS_SPACE):
        raise BuildError("", None, "functions", "fill more than an address space with their sections")
    return (np.cumsum(extent) - extent)[which.reshape(-1)]


def text_base(functions: FunctionColumns) -> int:
    """The address at which a text begins: from it the most functions can be reached. 0 in a relocatable file."""
    if not len(functions.start) or functions.section.any():
        return 0
    start = np.sort(functions.start)
    last = np.minimum(start, np.uint64(_ADDRESS_SPACE - 1 - REACH)) + np.uint64(REACH)
    reached = np.searchsorted(start, last, side="right") - np.arange(len(start))
    return int(start[np.argmax(reached)])


def sayable(
    table: UnwindTable, apart: UnwindTable, base: int, run_reason: NDArray[np.uint8], pointers: tuple[Pointers, ...]
) -> tuple[NDArray[np.int64], Refusals]:
    """The functions that a text has, in its order, and the PCs of the table that it does not have.

    `apart` is the table laid apart, `run_reason` a `Reason` or 0 for each of its runs.
    """
    reason = _reasons(table, apart, base, run_reason, pointers)
    functions = apart.functions
    said = np.flatnonzero(reason == 0)
    order = said[np.lexsort((functions.size[said], functions.start[said], functions.section[said]))]
    # What covers nothing may begin inside another function, where no text can begin one.
    inside = _begins_inside(functions, order)
    reason[order[inside]] = Reason.OVERLAP
    whole = table.functions
    is_cut = (reason == 0) & (functions.start > whole.start)
    end = np.where(is_cut, functions.start, whole.start + whole.size)
    refused = np.flatnonzero(is_cut | (reason > 0))
    reason[is_cut] = Reason.OVERLAP
    return order[~inside], Refusals(refused, whole.start[refused], end[refused], reason[refused])


def _begins_inside(functions: FunctionColumns, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which functions, in that order, begin before the end of one of their section that comes first."""
    covers = np.flatnonzero(functions.size[order] > 0)
    last = np.searchsorted(covers, np.arange(len(order)), side="left") - 1
    before = order[covers[np.maximum(last, 0)]] if len(covers) else order
    ends_behind = functions.start[before] + (functions.size[before] - np.uint64(1)) >= functions.start[order]
    is_same = functions.section[before] == functions.section[order]
    is_inside: NDArray[np.bool_] = (last >= 0) & is_same & ends_behind
    return is_inside


def _reasons(
    table: UnwindTable, apart: UnwindTable, base: int, run_reason: NDArray[np.uint8], pointers: tuple[Pointers, ...]
) -> NDArray[np.uint8]:
    """For each function why a text cannot have it, or 0."""
    functions, flags = apart.functions, apart.functions.flags
    foreign = np.uint8(0 if table.architecture.signs_return_addresses else _OF_AARCH64)
    reasons = {
        Reason.AUGMENTATION: (flags & FunctionFlag.UNKNOWN_AUGMENTATION) > 0,
        Reason.SEGMENT: functions.segment > 0,
        Reason.OVERLAP: (functions.size == 0) & (table.functions.size > 0),
        Reason.FAR: np.logical_or.reduce([is_far(functions, base), *(one.are_far() for one in pointers)]),
        Reason.LARGE_COLUMN: functions.return_column > MAX_COLUMN,
        Reason.NO_DIRECTIVE: (flags & foreign) > 0,
        Reason.NULL_POINTER: np.logical_or.reduce([one.are_null() for one in pointers]),
    }
    return np.select(list(reasons.values()), [np.uint8(one) for one in reasons], run_reason[functions.run])
