"""CFA expressions of the PC modulo a block, as GNU ld writes them for the lazy PLT: rows instead of an expression.

Strategy: such an expression is register + f(PC & (2**k - 1)). `split_repetitive` gives its PCs a function of their
own with a repetition block (what SFrame says as PCMASK); `unroll` lays the blocks out as ordinary rows in place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .rules import CfaKind
from .unwind import CfaRule, Function, Row, UnwindTable, concatenate, select, table_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# SFrame's func_rep_size is one byte.
MAX_BLOCK = 128
# A PLT of 30,000 entries; more rows than that are no PLT's.
MAX_UNROLLED = 1 << 16

# For the row that starts there, register and offset by residue.
Masked = tuple[int, tuple[int, ...]]


def split_repetitive(table: UnwindTable) -> tuple[UnwindTable, NDArray[np.int64]]:
    """The table with functions split where such expressions begin and end, and the function each one comes from.

    Readers disagree whether a block counts from its FDE's start or from address 0 (the text says the latter), so
    a part that does not start at a multiple of its block is laid out as ordinary rows.
    """
    touched = _touched(table)
    everything = np.arange(len(table))
    if not touched:
        return table, everything
    kept = np.setdiff1d(everything, list(touched))
    parts, parents = [], []
    for index, masked in touched.items():
        for part in _parts(table.function(index), masked):
            parts.append(part)
            parents.append(index)
    rest = replace(table, functions=select(table.functions, kept))
    return concatenate(rest, table_of(table.architecture, parts)), np.concatenate([kept, parents]).astype(np.int64)


def unroll(table: UnwindTable) -> UnwindTable:
    """The table with every such expression laid out as the rows it stands for; functions keep their indices."""
    touched = _touched(table)
    if not touched:
        return table
    laid_out = []
    for index, masked in touched.items():
        function = table.function(index)
        rows = [row for at, end, row in _bounds(function) for row in _laid_out(function, at, end, row, masked)]
        laid_out.append(replace(function, rows=tuple(rows)))
    both = concatenate(table, table_of(table.architecture, laid_out))
    run = both.functions.run[: len(table)].copy()
    run[list(touched)] = both.functions.run[len(table) :]
    return replace(both, functions=replace(table.functions, run=run))


def _touched(table: UnwindTable) -> dict[int, dict[int, Masked]]:
    """The functions with such a row, and for each of these rows, by its offset, what its expression says."""
    pc = table.architecture.program_counter
    rows = np.flatnonzero(table.rows.cfa_kind == CfaKind.EXPRESSION)
    if pc is None or not len(rows):
        return {}
    from .expressions import masked_offsets

    said: dict[int, dict[int, Masked]] = {}
    known: dict[int, Masked | None] = {}
    runs = np.searchsorted(table.run_rows, rows, side="right") - 1
    for row, run in zip(rows.tolist(), runs.tolist(), strict=True):
        number = int(table.rows.cfa_offset[row])
        if number not in known:
            known[number] = masked_offsets(table.expressions[number], pc, table.byte_order, table.address_size)
        found = known[number]
        if found is not None:
            said.setdefault(run, {})[int(table.rows.offset[row])] = found
    is_plain = table.functions.repetition == 0
    users = np.flatnonzero(np.isin(table.functions.run, list(said)) & is_plain)
    return {index: said[int(table.functions.run[index])] for index in users.tolist() if _is_small(table, index, said)}


def _is_small(table: UnwindTable, index: int, said: dict[int, dict[int, Masked]]) -> bool:
    """Whether the function could be laid out: a few bytes can claim any size."""
    size = int(table.functions.size[index])
    blocks = said[int(table.functions.run[index])].values()
    return all(size // len(offsets) * _changes(offsets) <= MAX_UNROLLED for _, offsets in blocks)


def _changes(offsets: tuple[int, ...]) -> int:
    return sum(one != other for one, other in zip(offsets, (*offsets[1:], offsets[0]), strict=True))


def _bounds(function: Function) -> list[tuple[int, int, Row]]:
    """Each row with its offset and the next one's."""
    ends = [row.offset for row in function.rows[1:]] + [function.size]
    return [(row.offset, end, row) for row, end in zip(function.rows, ends, strict=True)]


def _parts(function: Function, masked: dict[int, Masked]) -> list[Function]:
    """The function in pieces: rows that repeat apart, those between them together."""
    parts: list[Function] = []
    plain: list[Row] = []
    for at, end, row in _bounds(function):
        block = masked[at][1] if at in masked else ()
        if len(block) in range(2, MAX_BLOCK + 1) and (function.start + at) % len(block) == 0:
            parts += _plain_part(function, plain, at)
            plain = []
            residues = _steps(row, masked[at][0], block, 0, min(len(block), end - at))
            start = function.start + at
            parts.append(replace(function, start=start, size=end - at, rows=residues, repetition=len(block)))
        else:
            plain += _laid_out(function, at, end, row, masked)
    return parts + _plain_part(function, plain, function.size)


def _plain_part(function: Function, rows: list[Row], end: int) -> list[Function]:
    if not rows:
        return []
    at = rows[0].offset
    moved = tuple(replace(row, offset=row.offset - at) for row in rows)
    return [replace(function, start=function.start + at, size=end - at, rows=moved)]


def _laid_out(function: Function, at: int, end: int, row: Row, masked: dict[int, Masked]) -> tuple[Row, ...]:
    """The ordinary rows that a row stands for."""
    if at not in masked:
        return (row,)
    register, offsets = masked[at]
    steps = _steps(row, register, offsets, (function.start + at) % len(offsets), end - at)
    return tuple(replace(step, offset=step.offset + at) for step in steps)


def _steps(row: Row, register: int, offsets: tuple[int, ...], residue: int, size: int) -> tuple[Row, ...]:
    """A row wherever the offset changes in `size` bytes, of which the first has that residue."""
    found: list[Row] = []
    before = None
    for at in range(size):
        offset = offsets[(residue + at) % len(offsets)]
        if offset != before:
            found.append(replace(row, offset=at, cfa=CfaRule(CfaKind.REGISTER, register, offset)))
        before = offset
    return tuple(found)
