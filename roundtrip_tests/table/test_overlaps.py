"""Functions that share PCs: the later one keeps what follows, and the rules at every PC stay the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import ParseError, by_pc
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.refusals import Reason
from unwindkit.converters.sframe.write import sframe_from_table
from unwindkit.converters.table.cut import MAX_COPIED, overlay, trim
from unwindkit.converters.table.model import Function, Row, UnwindTable, table_of

from ..conftest import fewer
from ..support.handmade import at, row, sp
from ..support.tables import tables

SAVED_RA = at(16, -8)
ENTRY = row(0, sp(8), SAVED_RA)


def function(start: int, size: int, *rows: Row, repetition: int = 0) -> Function:
    """An x86-64 function; its CFA is SP + 8 if no rows are given."""
    return Function(start, size, rows or (ENTRY,), return_column=16, repetition=repetition)


def of(*functions: Function) -> UnwindTable:
    return table_of(ARCHITECTURES["x86_64"], functions)


@pytest.mark.parametrize("name", ["x86_64", "aarch64_be", "s390x", "riscv64"])
@fewer(5)
@given(data=st.data())
def test_the_rules_at_every_pc_stay(name: str, data: st.DataObject) -> None:
    table = data.draw(tables(ARCHITECTURES[name]))
    found, expected = trim(table), by_pc(table)
    assert by_pc(found) == expected, expected.differences(by_pc(found))
    has_bytes = np.flatnonzero(found.functions.size)
    order = has_bytes[np.argsort(found.functions.start[has_bytes])]
    ends = (found.functions.start + found.functions.size)[order]
    assert (found.functions.start[order][1:] >= ends[:-1]).all()
    if ARCHITECTURES[name].sframe is not None:
        assert Reason.OVERLAP not in sframe_from_table(found)[1].reason


def test_a_later_function_keeps_what_lies_behind_starting_with_the_row_in_force() -> None:
    later = function(0x1010, 0x40, ENTRY, row(8, sp(16), SAVED_RA), row(0x18, sp(32), SAVED_RA))
    first, second = trim(of(function(0x1000, 0x20), later))
    assert first == function(0x1000, 0x20)
    assert second == function(0x1020, 0x30, row(0, sp(16), SAVED_RA), row(8, sp(32), SAVED_RA))


def test_a_row_that_starts_where_the_rest_does_is_its_first() -> None:
    later = function(0x1010, 0x40, ENTRY, row(0x10, sp(16), SAVED_RA))
    assert trim(of(later, function(0x1000, 0x20))).function(0) == function(0x1020, 0x30, row(0, sp(16), SAVED_RA))


def test_of_two_that_start_together_the_first_one_given_holds() -> None:
    longer = function(0x1000, 0x30, row(0, sp(16), SAVED_RA), row(0x20, sp(24), SAVED_RA))
    first, second = trim(of(function(0x1000, 0x20), longer))
    assert (first, second) == (function(0x1000, 0x20), function(0x1020, 0x10, row(0, sp(24), SAVED_RA)))


def test_a_function_wholly_covered_has_no_bytes() -> None:
    outer, inner, behind = function(0x1000, 0x100), function(0x1010, 0x20), function(0x10F0, 0x20)
    found = trim(of(behind, inner, outer))
    assert [(one.start, one.size) for one in found] == [(0x1100, 0x10), (0x1010, 0), (0x1000, 0x100)]


def test_the_one_with_the_longest_reach_counts_not_the_one_before() -> None:
    found = trim(of(function(0x1000, 0x100), function(0x1010, 0x10), function(0x1030, 0x100)))
    assert [(one.start, one.size) for one in found] == [(0x1000, 0x100), (0x1010, 0), (0x1100, 0x30)]


def test_functions_without_bytes_cover_nothing() -> None:
    table = of(function(0x1000, 0), function(0x1000, 0x20), function(0x1010, 0))
    assert trim(table) is table


def test_functions_that_are_not_concerned_keep_their_rows() -> None:
    table = of(function(0x1000, 0x20), function(0x1010, 0x20), function(0x2000, 0x10, row(0, sp(64), SAVED_RA)))
    found = trim(table)
    assert found.functions.run.tolist() == [0, 2, 1]
    assert len(found.rows.offset) == len(table.rows.offset) + 1
    assert found.rules is table.rules


def test_pieces_of_adjacent_functions_stay_separate() -> None:
    above, other = function(0x1008, 4), row(0, sp(16), SAVED_RA)
    found = overlay(of(above), of(function(0x1000, 0x10), function(0x1010, 0x10, other)))
    assert tuple(found) == (above, function(0x1000, 8), function(0x100C, 4), function(0x1010, 0x10, other))


PLT = (row(0, sp(8), SAVED_RA), row(11, sp(16), SAVED_RA))


def test_repetition_goes_on_where_a_block_begins() -> None:
    first, second = trim(of(function(0x1000, 0x40), function(0x1020, 0x60, *PLT, repetition=16)))
    assert second == function(0x1040, 0x40, *PLT, repetition=16)
    assert first.size == 0x40


def test_blocks_cut_in_the_middle_are_laid_out() -> None:
    _, rest = trim(of(function(0x1000, 0x34), function(0x1020, 0x40, *PLT, repetition=16)))
    expected = [(0, 8), (7, 16), (0xC, 8), (0x17, 16), (0x1C, 8), (0x27, 16)]
    assert (rest.start, rest.size, rest.repetition) == (0x1034, 0x2C, 0)
    assert [(one.offset, one.cfa.value) for one in rest.rows] == expected


def test_a_rest_shorter_than_its_block_is_ordinary_rows() -> None:
    _, rest = trim(of(function(0x1000, 0x30), function(0x1020, 0x18, *PLT, repetition=16)))
    assert rest == function(0x1030, 8)


def repeated(table: UnwindTable, starts: list[int]) -> UnwindTable:
    """The one function of a table, at many addresses."""
    copies = table.functions.select(np.repeat(np.arange(len(table)), len(starts)))
    return replace(table, functions=replace(copies, start=np.array(starts, np.uint64)))


def test_rows_are_copied_in_proportion() -> None:
    # Two thousand functions share two thousand rows, and each is cut: four million rows.
    rows = (ENTRY, *(row(0x8000 + number, sp(16 + number % 2), SAVED_RA) for number in range(2000)))
    table = repeated(of(function(0, 0x18000, *rows)), [0x10000 * number + number for number in range(2000)])
    with pytest.raises(ParseError, match=f"more than {MAX_COPIED} rows must be copied"):
        trim(table)
    few = repeated(of(function(0, 0x18000, *rows)), [0x10000 * number + number for number in range(100)])
    assert by_pc(trim(few)) == by_pc(few)


def test_blocks_are_laid_out_in_proportion() -> None:
    blocks = function(1, 1 << 40, row(0, sp(8), SAVED_RA), row(1, sp(16), SAVED_RA), repetition=2)
    with pytest.raises(ParseError, match=f"more than {MAX_COPIED} rows must be copied"):
        trim(of(function(0, 2), blocks))
