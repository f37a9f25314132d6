"""Repetition blocks: CFA expressions that depend on the PC modulo a block size, as GNU ld writes for the lazy PLT.

Strategy: such an expression is register + f(PC & (2**k - 1)). `split_repetitive` makes its PCs a separate function
with a repetition block (PCMASK in SFrame); `unroll` expands the blocks into ordinary rows in place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.section import Section
from ..refusals import Reason
from ..rules import CfaKind
from .cut import without_blocks
from .model import CfaRule, Function, FunctionColumns, Row, UnwindTable, concatenate, concatenate_functions, table_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# SFrame's func_rep_size is one byte.
MAX_BLOCK = 128
# The limit on expanded rows. A PLT of 30,000 entries has fewer; malicious input can declare any size in a few bytes.
MAX_UNROLLED = 1 << 16
# The limit on distinct expressions with the PC that are examined: a linker writes one.
MAX_EXPRESSIONS = 8

# The columns of functions that are left out when functions are split.
NOT_KEPT = ("personality", "lsda", "origin")

# The CFA of such an expression: its register, and its offset for each value of the PC modulo the block.
Masked = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Functions, some of them split. Their runs are in `tables`, numbered across all of them. `parent` is the index of
    the original function of each. An original function that was split remains, with size 0. `functions` have no
    personality, LSDA and origin: these columns are the widest, and no format with repetition blocks has them."""

    functions: FunctionColumns
    tables: tuple[UnwindTable, ...]
    parent: NDArray[np.int64]


def split_repetitive(table: UnwindTable) -> Split:
    """The table's functions, split where such expressions begin and end. No row of the table is copied.

    Readers disagree whether a block is relative to the start of its FDE or to address 0 (the specification: the
    latter), so a part that does not start at a multiple of its block size is expanded into ordinary rows.
    """
    touched = _touched(table)
    everything = np.arange(len(table))
    nothing: dict[str, Any] = {name: np.zeros(len(table), np.uint64) for name in NOT_KEPT}
    if not touched:
        return Split(replace(table.functions, **nothing), (table,), everything)
    parts: list[Function] = []
    parents: list[int] = []
    for index, masked in touched.items():
        found = _parts(table.function(index), masked)
        parts += found
        parents += [index] * len(found)
    split = table_of(table.architecture, parts)
    functions = concatenate_functions([table, split], without=NOT_KEPT)
    functions.size[list(touched)] = 0
    return Split(functions, (table, split), np.concatenate([everything, np.array(parents, np.int64)]))


def unroll(table: UnwindTable) -> UnwindTable:
    """The table with every such expression expanded into equivalent rows; functions keep their indices."""
    touched = _touched(table)
    if not touched:
        return table
    expanded = []
    for index, masked in touched.items():
        function = table.function(index)
        rows = [row for at, end, row in _bounds(function) for row in _expand(function, at, end, row, masked)]
        expanded.append(replace(function, rows=tuple(rows)))
    both = concatenate([table, table_of(table.architecture, expanded)])
    run = both.functions.run[: len(table)].copy()
    run[list(touched)] = both.functions.run[len(table) :]
    return replace(both, functions=replace(table.functions, run=run))


def without_repetition(table: UnwindTable) -> tuple[UnwindTable, NDArray[np.uint8]]:
    """The table without repetition blocks, and for each function 0 or the reason why its block could not be replaced.

    Functions keep their indices. A block of two rows that differ only in the CFA, in a function that starts at a
    multiple of the block size, becomes one row with a CFA expression of the PC, as GNU ld writes it. Other blocks are
    expanded into ordinary rows, up to MAX_UNROLLED in all.
    """
    reason = np.zeros(len(table), np.uint8)
    repeated = np.flatnonzero(table.functions.repetition).tolist()
    if not repeated:
        return table, reason
    left, made, replaced = MAX_UNROLLED, [], []
    for index in repeated:
        function = table.function(index)
        if row := _as_expression(function, table):
            made.append(replace(function, rows=(row,)))
            replaced.append(index)
            continue
        needed = -(-function.size // function.repetition) * len(function.rows)
        reason[index] = Reason.REPETITION if needed > left else 0
        left -= 0 if reason[index] else needed
    both = concatenate([table, table_of(table.architecture, made)])
    run, repetition = both.functions.run[: len(table)].copy(), table.functions.repetition.copy()
    run[replaced] = both.functions.run[len(table) :]
    repetition[replaced] = repetition[reason > 0] = 0
    return without_blocks(replace(both, functions=replace(table.functions, run=run, repetition=repetition))), reason


def _as_expression(function: Function, table: UnwindTable) -> Row | None:
    """One row equivalent to the rows of a block, or None."""
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
    """`low`, plus `step` (a power of two) if the PC modulo `block` is at least `at`, as ld writes for the lazy PLT."""
    from ...schemas.expressions import Operation, build_expression
    from ..dwarf.expressions import literal, register_plus

    pc = register_plus(program_counter, 0)
    residue = (pc, literal(block - 1), Operation("and"))
    added = (literal(at), Operation("ge"), literal(step.bit_length() - 1), Operation("shl"), Operation("plus"))
    base = register_plus(low.register, int(low.value))
    like = Section.of("", b"", 0, table.byte_order, table.address_size)
    return build_expression((base, *residue, *added), like)


def _touched(table: UnwindTable) -> dict[int, dict[int, Masked]]:
    """The functions with such an expression, and the CFA of each of their rows that have one, by the row's offset."""
    by_run = _masked_rows(table)
    if not by_run:
        return {}
    functions = table.functions
    users = np.flatnonzero(np.isin(functions.run, list(by_run)) & (functions.repetition == 0))
    touched: dict[int, dict[int, Masked]] = {}
    left = MAX_UNROLLED
    for index in users[_is_disjoint(table, users)].tolist():
        masked = by_run[int(functions.run[index])]
        size = int(functions.size[index])
        needed = sum(size // len(offsets) * _changes(offsets) for _, offsets in masked.values())
        if needed <= left:
            touched[index] = masked
            left -= needed
    return touched


def _masked_rows(table: UnwindTable) -> dict[int, dict[int, Masked]]:
    """The CFA of each row with such an expression, by run and by the row's offset."""
    pc = table.architecture.program_counter
    rows = np.flatnonzero(table.rows.cfa_kind == CfaKind.EXPRESSION)
    if pc is None or not len(rows):
        return {}
    from ..dwarf.expressions import masked_offsets, names_register

    by_run: dict[int, dict[int, Masked]] = {}
    known: dict[bytes, Masked | None] = {}
    runs = np.searchsorted(table.run_rows, rows, side="right") - 1
    for row, run in zip(rows.tolist(), runs.tolist(), strict=True):
        expression = table.expressions[int(table.rows.cfa_offset[row])]
        if expression not in known and len(known) < MAX_EXPRESSIONS and names_register(expression, pc):
            known[expression] = masked_offsets(expression, pc, table.byte_order, table.address_size)
        found = known.get(expression)
        if found is not None:
            by_run.setdefault(run, {})[int(table.rows.offset[row])] = found
    return by_run


def _is_disjoint(table: UnwindTable, which: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of some functions have bytes and share none with another function of the table: splitting must not change
    which function owns a PC."""
    start, end = table.functions.start, table.functions.start + table.functions.size
    # Of all functions only those between the first and the last byte of these, which are few.
    low, high = start[which].min(initial=np.iinfo(np.uint64).max), end[which].max(initial=0)
    near = np.flatnonzero((table.functions.size > 0) & (start < high) & (end > low))
    order = near[np.argsort(start[near], kind="stable")]
    reach = np.maximum.accumulate(end[order])
    is_after = start[order][1:] >= reach[:-1]
    is_disjoint = np.zeros(len(table), np.bool_)
    is_disjoint[order] = np.append(True, is_after)[: len(order)] & np.append(is_after, True)[: len(order)]
    return is_disjoint[which]


def _changes(offsets: tuple[int, ...]) -> int:
    return sum(one != other for one, other in zip(offsets, (*offsets[1:], offsets[0]), strict=True))


def _bounds(function: Function) -> list[tuple[int, int, Row]]:
    """Each row with its offset and its end (exclusive), relative to the function's start."""
    ends = [row.offset for row in function.rows[1:]] + [function.size]
    return [(row.offset, end, row) for row, end in zip(function.rows, ends, strict=True)]


def _parts(function: Function, masked: dict[int, Masked]) -> list[Function]:
    """The function in parts: one for each repeating row, and one for the ordinary rows between two of them."""
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
            plain += _expand(function, at, end, row, masked)
    return parts + _plain_part(function, plain, function.size)


def _plain_part(function: Function, rows: list[Row], end: int) -> list[Function]:
    if not rows:
        return []
    at = rows[0].offset
    moved = tuple(replace(row, offset=row.offset - at) for row in rows)
    return [replace(function, start=function.start + at, size=end - at, rows=moved)]


def _expand(function: Function, at: int, end: int, row: Row, masked: dict[int, Masked]) -> tuple[Row, ...]:
    """The ordinary rows that a row is equivalent to."""
    if at not in masked:
        return (row,)
    register, offsets = masked[at]
    steps = _steps(row, register, offsets, (function.start + at) % len(offsets), end - at)
    return tuple(replace(step, offset=step.offset + at) for step in steps)


def _steps(row: Row, register: int, offsets: tuple[int, ...], residue: int, size: int) -> tuple[Row, ...]:
    """A row at each change of the offset in `size` bytes; the PC of the first is `residue` modulo the block size."""
    block = len(offsets)
    # Relative to the first byte. The block repeats, so offsets[-1] precedes offsets[0].
    changes = [at for at in range(block) if offsets[(residue + at) % block] != offsets[(residue + at) % block - 1]]
    starts = [base + at for base in range(0, size, block) for at in changes] if changes else []
    return tuple(
        replace(row, offset=at, cfa=CfaRule(CfaKind.REGISTER, register, offsets[(residue + at) % block]))
        for at in [0, *(at for at in starts if 0 < at < size)]
    )
