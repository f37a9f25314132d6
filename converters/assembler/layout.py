"""The order of a table's functions in assembler text, and those that the text cannot contain.

Strategy: a location counter only moves forward, so functions are cut until no two share a PC, then sorted. The text
begins at its base address; the `.eh_frame` of GNU as has 4-byte offsets, which limits the distance from there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.section import BuildError
from ..refusals import Reason, Refusals
from ..table.cut import trim, without_blocks
from ..table.model import FunctionColumns, FunctionFlag, UnwindTable
from .pointers import REACH, Pointers, is_far

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_COLUMN = 0xFF  # as writes version 1 CIEs, where the return address column is one byte
_ADDRESS_SPACE = 1 << 64
_AARCH64_FLAGS = FunctionFlag.PAUTH_B_KEY | FunctionFlag.MEMORY_TAGGING


def cut_overlaps(table: UnwindTable) -> UnwindTable:
    """The table with every PC in only one function, the one that starts first, and without repetition blocks.

    Functions keep their indices; one without a PC of its own gets size 0. Raises FormatError if that takes a
    disproportionate number of rows, or if the sections of a relocatable file exceed the address space.
    """
    shift = _section_starts(table.functions)
    moved = replace(table, functions=replace(table.functions, start=table.functions.start + shift))
    cut = trim(without_blocks(moved))
    return replace(cut, functions=replace(cut.functions, start=cut.functions.start - shift))


def _section_starts(functions: FunctionColumns) -> NDArray[np.uint64]:
    """The address given to each function's section, such that no two sections overlap; 0 in a linked file."""
    sections, which = np.unique(functions.section, return_inverse=True)
    end = functions.start + functions.size
    extent = np.zeros(len(sections), np.uint64)
    np.maximum.at(extent, which.reshape(-1), end)
    if len(sections) > 1 and ((end < functions.start).any() or sum(extent.tolist()) >= _ADDRESS_SPACE):
        raise BuildError("", None, "sections", "together they are larger than the address space")
    return (np.cumsum(extent) - extent)[which.reshape(-1)]


def text_base(functions: FunctionColumns) -> int:
    """The base address that puts the most functions within reach; 0 in a relocatable file."""
    if not len(functions.start) or functions.section.any():
        return 0
    start = np.sort(functions.start)
    last = np.minimum(start, np.uint64(_ADDRESS_SPACE - 1 - REACH)) + np.uint64(REACH)
    reached = np.searchsorted(start, last, side="right") - np.arange(len(start))
    return int(start[np.argmax(reached)])


def expressible_functions(
    table: UnwindTable, cut: UnwindTable, base: int, run_reason: NDArray[np.uint8], pointers: tuple[Pointers, ...]
) -> tuple[NDArray[np.int64], Refusals]:
    """The functions that a text can contain, in its order, and the PCs of the table that it cannot.

    `cut` is the table without overlaps; `run_reason` has a `Reason` or 0 for each of its runs.
    """
    reason = _reasons(table, cut, base, run_reason, pointers)
    functions = cut.functions
    kept = np.flatnonzero(reason == 0)
    order = kept[np.lexsort((functions.size[kept], functions.start[kept], functions.section[kept]))]
    # A function of size 0 may start inside another, where .cfi_startproc is not allowed.
    inside = _starts_inside(functions, order)
    reason[order[inside]] = Reason.OVERLAP
    whole = table.functions
    is_cut = (reason == 0) & (functions.start > whole.start)
    end = np.where(is_cut, functions.start, whole.start + whole.size)
    refused = np.flatnonzero(is_cut | (reason > 0))
    reason[is_cut] = Reason.OVERLAP
    return order[~inside], Refusals(refused, whole.start[refused], end[refused], reason[refused])


def _starts_inside(functions: FunctionColumns, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which functions of `order` start before the end of an earlier one in the same section."""
    covers = np.flatnonzero(functions.size[order] > 0)
    last = np.searchsorted(covers, np.arange(len(order)), side="left") - 1
    before = order[covers[np.maximum(last, 0)]] if len(covers) else order
    ends_after_start = functions.start[before] + (functions.size[before] - np.uint64(1)) >= functions.start[order]
    is_same = functions.section[before] == functions.section[order]
    is_inside: NDArray[np.bool_] = (last >= 0) & is_same & ends_after_start
    return is_inside


def _reasons(
    table: UnwindTable, cut: UnwindTable, base: int, run_reason: NDArray[np.uint8], pointers: tuple[Pointers, ...]
) -> NDArray[np.uint8]:
    """The `Reason` why a text cannot contain each function, or 0."""
    functions, flags = cut.functions, cut.functions.flags
    foreign = np.uint8(0 if table.architecture.signs_return_addresses else _AARCH64_FLAGS)
    has_far_pointer = np.logical_or.reduce([one.are_far() for one in pointers])
    reasons = {
        Reason.AUGMENTATION: (flags & FunctionFlag.UNKNOWN_AUGMENTATION) > 0,
        Reason.SEGMENT: functions.segment > 0,
        Reason.OVERLAP: (functions.size == 0) & (table.functions.size > 0),
        Reason.FAR: is_far(functions, base) | has_far_pointer,
        Reason.LARGE_COLUMN: functions.return_column > MAX_COLUMN,
        Reason.NO_DIRECTIVE: (flags & foreign) > 0,
        Reason.NULL_POINTER: np.logical_or.reduce([one.are_null() for one in pointers]),
    }
    return np.select(list(reasons.values()), [np.uint8(one) for one in reasons], run_reason[functions.run])
