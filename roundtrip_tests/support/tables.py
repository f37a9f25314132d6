"""Hypothesis strategies for unwind tables, the input of tests of converters, and what compares them.

Strategy: rows are drawn as by `unwindkit.testing`; functions may overlap and be of any size here.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from unwindkit.converters.arch.table import Architecture
from unwindkit.converters.rules import RuleKind
from unwindkit.converters.table.model import Function, FunctionFlag, RegisterRule, Row, UnwindTable, table_of
from unwindkit.testing.unwind_tables import ADDRESSES, UP_TO_FOUR, UP_TO_SIX, draw_row, unwind_tables

from .stepping.machines import MACHINES

SIZES = st.one_of(st.sampled_from([1, 2, 255, 256, 257, 65535, 65536, 65537]), st.integers(0, 300), st.just(2**32))
# Sizes of repetitive functions: they are unrolled block by block when compared, so gigabytes are too much.
SHORT_SIZES = st.one_of(st.sampled_from([1, 2, 255, 256, 257]), st.integers(0, 300), st.just(4095))
REPETITIONS = st.sampled_from([0, 0, 0, 8, 16, 32])
MAX_ADDRESS = (1 << 64) - 1

# Of a function: whether its return column is another, its flags, its segment.
MARKS = st.sampled_from(
    list(product([0] * 5 + [3], [FunctionFlag(0), FunctionFlag.SIGNAL_FRAME, FunctionFlag.PAUTH_B_KEY], [0] * 9 + [1]))
)


def draw_function(draw: DrawFn, architecture: Architecture, start: int) -> Function:
    """A function of up to five rows inside it, now and then repetitive."""
    repetition = draw(REPETITIONS)
    size = draw(SHORT_SIZES if repetition else SIZES)
    reach = min(repetition or size, size)
    starts = {draw(st.integers(1, reach - 1)) for _ in range(draw(UP_TO_FOUR))} if reach > 1 else set()
    found = tuple(draw_row(draw, architecture, offset) for offset in sorted({0} | starts))
    column, flags, segment = draw(MARKS)
    return Function(
        start=start,
        size=size,
        rows=found,
        return_column=column or architecture.return_address,
        repetition=repetition if size else 0,
        flags=flags,
        segment=segment,
    )


GAPS = st.sampled_from([0, 0, 1, 16, 4096, -1, -20])


@st.composite
def tables(draw: DrawFn, architecture: Architecture) -> UnwindTable:
    """A table of up to six functions in any order, adjacent, separate, or overlapping."""
    found: list[Function] = []
    address = draw(ADDRESSES)
    for _ in range(draw(UP_TO_SIX)):
        function = draw_function(draw, architecture, address)
        found.insert(draw(st.integers(0, len(found))), function)
        address = max(0, address + min(function.size, 1 << 20) + draw(GAPS))
    return table_of(architecture, found)


def rich_tables(architecture: Architecture) -> SearchStrategy[UnwindTable]:
    """A table of all that call frame information can express except segments and repetition, its functions disjoint."""
    return unwind_tables(architecture.name, has_segments=False, has_repetition=False)


def with_sp(table: UnwindTable) -> UnwindTable:
    """The table with SP as read from STACK CFI: always with a rule where readers of call frame information need one,
    elsewhere without one for the ABI's default."""
    machine = MACHINES[table.architecture.name]
    number, implied = machine.sp, -machine.bias

    def row_with_sp(row: Row) -> Row:
        rules = {rule.register: rule for rule in row.registers}
        default = RegisterRule(number, RuleKind.VAL_OFFSET, implied)
        if rules.setdefault(number, default) == default and not machine.keeps_sp:
            del rules[number]
        return replace(row, registers=tuple(sorted(rules.values())))

    functions = [replace(one, rows=tuple(map(row_with_sp, one.rows))) for one in table]
    return table_of(table.architecture, functions, table.byte_order)


def telling_pcs(table: UnwindTable) -> list[int]:
    """Every PC where a look-up could err by one: starts and ends of functions, blocks and rows, and their neighbours.

    In a repetitive function, the first two blocks and the last.
    """
    found = {0, 1, MAX_ADDRESS - 1, MAX_ADDRESS}
    for function in table:
        size, block = function.size, function.repetition or function.size
        bases = {0, block, size - size % block if block else 0}
        places = {0, size} | {base + row.offset for base in bases for row in function.rows} | bases
        for place in places:
            found |= {function.start + place + beside for beside in (-1, 0, 1)}
    return sorted(pc for pc in found if 0 <= pc <= MAX_ADDRESS)
