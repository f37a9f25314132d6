"""CFA expressions of the PC modulo a block, as GNU ld writes them for the lazy PLT: rows instead of an expression.

Strategy: such an expression is register + f(PC & (2**k - 1)). `split_repetitive` gives its PCs a function of their
own with a repetition block (what SFrame says as PCMASK); `unroll` lays the blocks out as ordinary rows in place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.section import Section
from ..refusals import Reason
from ..rules import CfaKind
from .cut import without_blocks
from .model import CfaRule, Function, FunctionColumns, Row, UnwindTable, concatenate, concatenate_functions, table_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# SFrame's func_rep_size is one byte.
MAX_BLOCK = 128
# Rows of all functions laid out. A PLT of 30,000 entries has fewer; a few bytes of an attack can claim any size.
MAX_UNROLLED = 1 << 16
# Distinct expressions looked at that name the PC: a linker writes one.
MAX_EXPRESSIONS = 8

# For the row that starts there, register and offset by residue.
Masked = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Functions, some of them split. `tables` hold their runs, numbered on from one table to the next; `parent` is
    the function of the whole table that each comes from. One that was split is there too, and covers nothing."""

    functions: FunctionColumns
    tables: tuple[UnwindTable, ...]
    parent: NDArray[np.int64]


def split_repetitive(table: UnwindTable) -> Split:
    """The table's functions, split where such expressions begin and end. No row of the table is copied.

    Readers disagree whether a block counts from its FDE's start or from address 0 (the text says the latter), so
    a part that does not start at a multiple of its block is laid out as ordinary rows.
    """
    touched = _touched(table)
    everything = np.arange(len(table))
    if not touched:
        return Split(table.functions, (table,), everything)
    parts: list[Function] = []
    parents: list[int] = []
    for index, masked in touched.items():
        found = _parts(table.function(index), masked)
        parts += found
        parents += [index] * len(found)
    split = table_of(table.architecture, parts)
    functions = concatenate_functions([table, split])
    functions.size[list(touched)] = 0
    return Split(functions, (table, split), np.concatenate([everything, np.array(parents, np.int64)]))


def unroll(table: UnwindTable) -> UnwindTable:
    """The table with every such expression laid out as the rows it stands for; functions keep their indices."""
    touched = _touched(table)
    if not touched:
        return table
    laid_out = []
    for index, masked in touched.items():
        function = table.function(index)
        rows = [row for at, end, row in _bounds(function) for row in _lay_out(function, at, end, row, masked)]
        laid_out.append(replace(function, rows=tuple(rows)))
    both = concatenate([table, table_of(table.architecture, laid_out)])
    run = both.functions.run[: len(table)].copy()
    run[list(touched)] = both.functions.run[len(table) :]
    return replace(both, functions=replace(table.functions, run=run))


def without_repetition(table: UnwindTable) -> tuple[UnwindTable, NDArray[np.uint8]]:
    """The table with its repetition blocks in one, functions keeping their indices; for each function 0, or the reason
    why that is not possible.

    Two rows whose CFA alone differs become one with an expression of the PC, as GNU ld writes it, where blocks count
    from a multiple of their size; others are laid out, as far as MAX_UNROLLED rows go.
    """
    reason = np.zeros(len(table), np.uint8)
    repeated = np.flatnonzero(table.functions.repetition).tolist()
    if not repeated:
        return table, reason
    left, made, said = MAX_UNROLLED, [], []
    for index in repeated:
        function = table.function(index)
        if row := _as_expression(function, table):
            made.append(replace(function, rows=(row,)))
            said.append(index)
            continue
        needed = -(-function.size // function.repetition) * len(function.rows)
        reason[index] = Reason.REPETITION if needed > left else 0
        left -= 0 if reason[index] else needed
    both = concatenate([table, table_of(table.architecture, made)])
    run, repetition = both.functions.run[: len(table)].copy(), table.functions.repetition.copy()
    run[said] = both.functions.run[len(table) :]
    repetition[said] = repetition[reason > 0] = 0
    return without_blocks(replace(both, functions=replace(table.functions, run=run, repetition=repetition))), reason


def _as_expression(function: Function, table: UnwindTable) -> Row | None:
    """The one row that says what a block's rows do, if there is one."""
    block, pc = function.repetition, table.architecture.program_counter
    if pc is None or len(function.rows) != 2 or block & block - 1 or function.start % block:
        return None
    low, high = function.rows
    if not low.cfa.kind is high.cfa.kind is CfaKind.REGISTER:
        return None
    step = int(high.cfa.value) - int(low.cfa.value)
    same = low.cfa.register == high.cfa.register and low == replace(high, offset=0, cfa=low.cfa)
    if not same or step <= 0 or step & step - 1:
        return None
    expression = _step_expression(low.cfa, high.offset, step, block, pc, table)
    return replace(low, cfa=CfaRule(CfaKind.EXPRESSION, 0, expression))


def _step_expression(low: CfaRule, at: int, step: int, block: int, program_counter: int, table: UnwindTable) -> bytes:
    """`low`, and `step` (a power of two) more where the PC modulo `block` is `at` or more: ld's for the lazy PLT."""
    from ...schemas.expressions import Operation, build_expression
    from ..dwarf.expressions import literal, register_plus

    pc = register_plus(program_counter, 0)
    residue = (pc, literal(block - 1), Operation("and"))
    added = (literal(at), Operation("ge"), literal(step.bit_length() - 1), Operation("shl"), Operation("plus"))
    base = register_plus(low.register, int(low.value))
    like = Section.of("", b"", 0, table.byte_order, table.address_size)
    return build_expression((base, *residue, *added), like)


def _touched(table: UnwindTable) -> dict[int, dict[int, Masked]]:
    """The functions with such a row, and for each of these rows, by its offset, what its expression says."""
    said = _masked_rows(table)
    if not said:
        return {}
    functions = table.functions
    users = np.isin(functions.run, list(said)) & (functions.repetition == 0) & _stands_alone(table)
    touched: dict[int, dict[int, Masked]] = {}
    left = MAX_UNROLLED
    for index in np.flatnonzero(users).tolist():
        masked = said[int(functions.run[index])]
        size = int(functions.size[index])
        needed = sum(size // len(offsets) * _changes(offsets) for _, offsets in masked.values())
        if needed <= left:
            touched[index] = masked
            left -= needed
    return touched


def _masked_rows(table: UnwindTable) -> dict[int, dict[int, Masked]]:
    """By run, and by the offset of the row in it, what such an expression says."""
    pc = table.architecture.program_counter
    rows = np.flatnonzero(table.rows.cfa_kind == CfaKind.EXPRESSION)
    if pc is None or not len(rows):
        return {}
    from ..dwarf.expressions import masked_offsets, names_register

    said: dict[int, dict[int, Masked]] = {}
    known: dict[bytes, Masked | None] = {}
    runs = np.searchsorted(table.run_rows, rows, side="right") - 1
    for row, run in zip(rows.tolist(), runs.tolist(), strict=True):
        expression = table.expressions[int(table.rows.cfa_offset[row])]
        if expression not in known and len(known) < MAX_EXPRESSIONS and names_register(expression, pc):
            known[expression] = masked_offsets(expression, pc, table.byte_order, table.address_size)
        found = known.get(expression)
        if found is not None:
            said.setdefault(run, {})[int(table.rows.offset[row])] = found
    return said


def _stands_alone(table: UnwindTable) -> NDArray[np.bool_]:
    """Which functions have bytes, and share none with another: whose a PC is must not depend on how one is split."""
    start, end = table.functions.start, table.functions.start + table.functions.size
    has_bytes = np.flatnonzero(table.functions.size)
    order = has_bytes[np.argsort(start[has_bytes], kind="stable")]
    reach = np.maximum.accumulate(end[order])
    is_apart = start[order][1:] >= reach[:-1]
    alone = np.zeros(len(table), np.bool_)
    alone[order] = np.append(True, is_apart)[: len(order)] & np.append(is_apart, True)[: len(order)]
    return alone


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
            plain += _lay_out(function, at, end, row, masked)
    return parts + _plain_part(function, plain, function.size)


def _plain_part(function: Function, rows: list[Row], end: int) -> list[Function]:
    if not rows:
        return []
    at = rows[0].offset
    moved = tuple(replace(row, offset=row.offset - at) for row in rows)
    return [replace(function, start=function.start + at, size=end - at, rows=moved)]


def _lay_out(function: Function, at: int, end: int, row: Row, masked: dict[int, Masked]) -> tuple[Row, ...]:
    """The ordinary rows that a row stands for."""
    if at not in masked:
        return (row,)
    register, offsets = masked[at]
    steps = _steps(row, register, offsets, (function.start + at) % len(offsets), end - at)
    return tuple(replace(step, offset=step.offset + at) for step in steps)


def _steps(row: Row, register: int, offsets: tuple[int, ...], residue: int, size: int) -> tuple[Row, ...]:
    """A row wherever the offset changes in `size` bytes, of which the first has that residue."""
    block = len(offsets)
    # Bytes from the first one, whose PC has `residue`; offsets[-1] stands before offsets[0].
    changes = [at for at in range(block) if offsets[(residue + at) % block] != offsets[(residue + at) % block - 1]]
    starts = [base + at for base in range(0, size, block) for at in changes] if changes else []
    return tuple(
        replace(row, offset=at, cfa=CfaRule(CfaKind.REGISTER, register, offsets[(residue + at) % block]))
        for at in [0, *(at for at in starts if 0 < at < size)]
    )
