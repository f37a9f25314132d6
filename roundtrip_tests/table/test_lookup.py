"""Look-ups in the bytes of an `.sframe` and in a table: they agree with each other and with the rules by PC.

Strategy: laws over random sections and tables at every PC where a look-up could err by one; then tables made by hand,
for cases that random ones seldom contain. test_lookup_sframe.py has sections made by hand.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from unwindkit import FunctionFlag, RowsAt, UnwindTable, by_pc, find_fres, find_rows, from_sframe
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.rules import CfaKind
from unwindkit.converters.sframe.read import rows_of_fres
from unwindkit.converters.table.by_pc import RuleSet
from unwindkit.converters.table.lookup import RowIndex
from unwindkit.converters.table.model import CfaRule, Function, Row, table_of
from unwindkit.schemas import engine
from unwindkit.schemas.sframe import SFRAME_VERSION
from unwindkit.schemas.sframe_abi import SFRAME_ABI, SFRAME_ABIS
from unwindkit.schemas.strategies import valid_sframe_sections

from ..conftest import engine_in_use, fewer
from ..support.answers import answers_of_fres, answers_of_rows
from ..support.handmade import row, sp
from ..support.tables import MAX_ADDRESS, tables, telling_pcs

NO_ROW = Row(0, CfaRule(CfaKind.NONE))
ANYWHERE = st.integers(0, MAX_ADDRESS)
engines = st.sampled_from(["pure", "compiled"])


def rows_found(table: UnwindTable, pcs: Sequence[int]) -> RowsAt:
    """`find_rows`; looked up one at a time, each PC has the same function and row."""
    found, index = find_rows(table, pcs), RowIndex(table)
    assert [index.row_at(pc) for pc in pcs] == list(zip(found.function.tolist(), found.row.tolist(), strict=True))
    return found


# --- laws -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", SFRAME_VERSION)
@pytest.mark.parametrize("abi_arch", SFRAME_ABI)
@fewer(5)
@given(engine_name=engines, data=st.data())
def test_bytes_and_their_table_answer_alike(
    version: SFRAME_VERSION, abi_arch: SFRAME_ABI, engine_name: str, data: st.DataObject
) -> None:
    section = engine.build(data.draw(valid_sframe_sections(version, abi_arch)), SFRAME_ABIS[abi_arch].byte_order)
    # The last is above all functions of a section that starts there: they are at the address space's end and beginning.
    address = data.draw(st.sampled_from([0, 0x1238, 1 << 40, MAX_ADDRESS - 0xFFFF]))
    with engine_in_use(engine_name):
        table = from_sframe(section, address)
        pcs = telling_pcs(table) + data.draw(st.lists(ANYWHERE, max_size=3))
        by_bytes, by_table = find_fres(section, pcs, address), find_rows(table, pcs)
    assert by_bytes.fde.tolist() == by_table.function.tolist()
    if version < SFRAME_VERSION.V3:
        ours = answers_of_fres(by_bytes)
        assert ours.differences(answers_of_rows(table, by_table, ours.fields["info"]), pcs) == []
    rows, rules, expressions = rows_of_fres(by_bytes.fres, table.architecture, version)
    asked = replace(table, rows=rows, rules=rules, expressions=expressions)
    for index, number in enumerate(by_table.row.tolist()):
        one = table.row(number) if number >= 0 else NO_ROW
        says_something = one.cfa.kind is not CfaKind.NONE or bool(one.registers)
        assert by_bytes.found[index] == says_something
        assert not says_something or asked.row(index) == one


@st.composite
def placed_tables(draw: DrawFn) -> UnwindTable:
    """Tables whose first function, or whose last, is at an end of the address space, or in the middle of it."""
    table = draw(tables(ARCHITECTURES[draw(st.sampled_from(["x86_64", "aarch64", "s390x"]))]))
    functions = table.functions
    if not len(table):
        return table
    first, end = int(functions.start.min()), int((functions.start + functions.size).max())
    # No function of a table reaches the address 2**64 - 1: its end would not fit in 64 bits.
    room = MAX_ADDRESS - end
    shift = draw(st.sampled_from([0, -first, room, room - 1]))
    return replace(table, functions=replace(functions, start=functions.start + np.uint64(shift % (1 << 64))))


@fewer(5)
@given(table=placed_tables(), data=st.data())
def test_rows_found_are_those_of_the_rules_by_pc(table: UnwindTable, data: st.DataObject) -> None:
    pcs = telling_pcs(table) + data.draw(st.lists(ANYWHERE, max_size=3))
    found, rules = rows_found(table, pcs), by_pc(table)
    starts, ends = rules.start.tolist(), rules.end.tolist()
    for index, pc in enumerate(pcs):
        place = bisect_right(starts, pc) - 1
        expected = rules.sets[rules.rules[place]] if place >= 0 and pc < ends[place] else None
        assert rules_found(table, found, index) == expected, hex(pc)


def rules_found(table: UnwindTable, found: RowsAt, index: int) -> RuleSet | None:
    """The result of a look-up in the canonical form: a row without rules is None."""
    if found.row[index] < 0:
        return None
    function, here = table.function(int(found.function[index])), table.row(int(found.row[index]))
    if here.cfa.kind is CfaKind.NONE and not here.registers:
        return None
    flags = function.flags & ~FunctionFlag.HAS_LSDA
    return RuleSet(replace(here, offset=0), function.return_column, flags)


# --- tables made by hand --------------------------------------------------------------------------------------


def table(*functions: Function) -> UnwindTable:
    return table_of(ARCHITECTURES["x86_64"], functions)


def found_in(made: UnwindTable, *pcs: int) -> list[tuple[int, int | None]]:
    """For each PC the function and the offset of the row."""
    at = rows_found(made, pcs)
    rows = [None if number < 0 else int(made.rows.offset[number]) for number in at.row.tolist()]
    return list(zip(at.function.tolist(), rows, strict=True))


NOWHERE = (-1, None)
TWO_ROWS = (row(0, sp(8)), row(4, sp(16)))


def test_a_pc_belongs_to_the_function_that_starts_first() -> None:
    made = table(
        Function(0x1008, 8, TWO_ROWS),  # entirely in the next
        Function(0x1000, 0x20, TWO_ROWS),
        Function(0x101C, 8, TWO_ROWS),  # over its end
        Function(0x1024, 4, TWO_ROWS),  # after that one
    )
    assert found_in(made, 0xFFF, 0x1000, 0x1008, 0x100C, 0x101F) == [NOWHERE, (1, 0), (1, 4), (1, 4), (1, 4)]
    # The third keeps only what the second leaves: the row still depends on the distance from its start.
    assert found_in(made, 0x1020, 0x1023, 0x1024, 0x1027, 0x1028) == [(2, 4), (2, 4), (3, 0), (3, 0), NOWHERE]


def test_of_functions_with_one_start_the_first_in_the_table_has_the_pc() -> None:
    assert found_in(table(Function(16, 8, TWO_ROWS), Function(16, 16, TWO_ROWS)), 16, 23, 24) == [
        (0, 0),
        (0, 4),
        (1, 4),
    ]
    assert found_in(table(Function(16, 16, TWO_ROWS), Function(16, 8, TWO_ROWS)), 16, 23, 24) == [
        (0, 0),
        (0, 4),
        (0, 4),
    ]


@pytest.mark.parametrize("start", [0, 0x1000])
@pytest.mark.parametrize("empty_first", [True, False])
def test_function_of_no_bytes_is_nowhere(empty_first: bool, start: int) -> None:
    both = [Function(start, 0, TWO_ROWS), Function(start, 8, TWO_ROWS)]
    made = table(*both) if empty_first else table(*reversed(both))
    here = int(empty_first)
    assert found_in(made, start, start + 7, start + 8) == [(here, 0), (here, 4), NOWHERE]
    assert found_in(table(both[0]), start, start + 1, MAX_ADDRESS) == [NOWHERE] * 3


def test_functions_at_both_ends_of_the_address_space() -> None:
    made = table(Function(MAX_ADDRESS - 8, 8, TWO_ROWS), Function(0, 8, TWO_ROWS))
    assert found_in(made, 0, 3, 4, 7, 8) == [(1, 0), (1, 0), (1, 4), (1, 4), NOWHERE]
    last = MAX_ADDRESS - 8
    assert found_in(made, last - 1, last, last + 4, last + 7, last + 8) == [NOWHERE, (0, 0), (0, 4), (0, 4), NOWHERE]


def test_a_row_is_that_of_the_remainder_of_the_distance_from_the_start() -> None:
    made = table(Function(0x1004, 40, TWO_ROWS, repetition=16))  # 0x1004 is no multiple of 16
    expected = [(0, 0)] * 4 + [(0, 4)] * 12
    assert found_in(made, *range(0x1004, 0x102C)) == [*expected, *expected, *expected[:8]]
    assert found_in(made, 0x1003, 0x102C) == [NOWHERE, NOWHERE]


def test_function_without_a_row_at_its_start() -> None:
    # No reader makes one, as every run starts at 0; a hand-made table may.
    made = table(Function(0x1000, 8, (row(4, sp(16)),)), Function(0x1008, 8, ()))
    assert found_in(made, 0x1003, 0x1004, 0x1008) == [(0, None), (0, 4), (1, None)]


def test_table_without_functions() -> None:
    assert found_in(table(), 0, 0x1000, MAX_ADDRESS) == [NOWHERE] * 3
    assert len(rows_found(table(), []).function) == 0
