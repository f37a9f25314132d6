"""Several tables as one: which one covers a PC, duplicates, contradictions; compared with ld's merge."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import (
    BuildError,
    FunctionFlag,
    ParseError,
    by_pc,
    find_rows,
    from_sframe,
    project_sframe,
    read_elf,
    to_sframe,
)
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.refusals import Reason
from unwindkit.converters.table.by_pc import RuleSet
from unwindkit.converters.table.cut import trim
from unwindkit.converters.table.merge import Merged, SharedRange, SharedRanges
from unwindkit.converters.table.merge import merge as merge_tables
from unwindkit.converters.table.model import Function, UnwindTable, table_of
from unwindkit.schemas.section import ByteOrder

from ..conftest import fewer
from ..support.handmade import NO_CFA, at, on, row, sp
from ..support.oracles import run_oracle
from ..support.tables import tables
from ..support.texts.readelf_text import sframe_rows
from ..support.wrapped import rows_of_bytes
from .test_overlaps import PLT, SAVED_RA, function, of, repeated

merge = partial(merge_tables, project=partial(project_sframe, version=3))
OTHER = row(0, sp(16), SAVED_RA)
EVERY = pytest.mark.parametrize("name", ["x86_64", "aarch64", "aarch64_be", "s390x"])


def ranges(found: SharedRanges) -> list[SharedRange]:
    return [found[index] for index in range(len(found))]


def places(merged: Merged) -> list[tuple[int, int]]:
    return [(one.start, one.size) for one in merged.table]


# --- laws -----------------------------------------------------------------------------------------------------


@EVERY
@fewer(10)
@given(data=st.data())
def test_a_table_in_parts_merges_to_itself(name: str, data: st.DataObject) -> None:
    table = trim(data.draw(tables(ARCHITECTURES[name])))
    of_part = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(table), max_size=len(table))), np.int64)
    merged = merge([table.select(of_part == number) for number in range(3)])
    expected = by_pc(table)
    assert by_pc(merged.table) == expected, expected.differences(by_pc(merged.table))
    assert (len(merged.duplicates), len(merged.conflicts)) == (0, 0)
    assert (np.diff(merged.table.functions.start.astype(np.int64)) > 0).all()


@EVERY
@fewer(10)
@given(data=st.data())
def test_a_table_with_itself_is_all_duplicates(name: str, data: st.DataObject) -> None:
    table = data.draw(tables(ARCHITECTURES[name]))
    merged = merge([table, table])
    assert by_pc(merged.table) == by_pc(table)
    assert len(merged.conflicts) == 0
    assert merged.duplicates.bytes == int(merged.table.functions.size.sum())


@pytest.mark.parametrize("name", ["x86_64", "aarch64_be"])
@fewer(10)
@given(data=st.data())
def test_the_first_table_with_a_function_holds(name: str, data: st.DataObject) -> None:
    inputs = [data.draw(tables(ARCHITECTURES[name])) for _ in range(3)]
    merged = merge(inputs)
    pcs = changes(inputs)
    inside = [find_rows(table, pcs).function >= 0 for table in inputs]
    rules = [said(table, pcs) for table in inputs]
    compared = [said(project_sframe(table, 3), pcs) for table in inputs]
    found, held = said(merged.table, pcs), find_rows(merged.table, pcs).function >= 0
    for number, pc in enumerate(pcs.tolist()):
        claims = [index for index in range(3) if inside[index][number]]
        assert held[number] == bool(claims)
        assert found[number] == (rules[claims[0]][number] if claims else None)
        for second in claims[1:]:
            is_same = compared[claims[0]][number] == compared[second][number]
            assert is_in(merged.duplicates, pc, claims[0], second) == is_same
            assert is_in(merged.conflicts, pc, claims[0], second) != is_same
    assert Reason.OVERLAP not in to_sframe(merged.table, 3)[1].reason


def changes(inputs: list[UnwindTable]) -> np.ndarray:
    """Every PC at which the rules of a table may change: between two of them nothing changes."""
    found = [0]
    for table in inputs:
        rules, functions = by_pc(table), table.functions
        for column in (rules.start, rules.end, functions.start, functions.start + functions.size):
            found += column.tolist()
    return np.unique(np.array(found, np.uint64))


def said(table: UnwindTable, pcs: np.ndarray) -> list[RuleSet | None]:
    """The rules at each PC."""
    rules = by_pc(table)
    found: list[RuleSet | None] = []
    for pc, place in zip(pcs.tolist(), (np.searchsorted(rules.start, pcs, side="right") - 1).tolist(), strict=True):
        found.append(rules.sets[rules.rules[place]] if place >= 0 and pc < rules.end[place] else None)
    return found


def is_in(found: SharedRanges, pc: int, first: int, second: int) -> bool:
    here = (found.start <= pc) & (pc < found.end) & (found.first == first) & (found.second == second)
    return bool(here.any())


# --- by hand --------------------------------------------------------------------------------------------------


def test_functions_come_in_order_of_addresses() -> None:
    merged = merge([of(function(0x3000, 16), function(0x1000, 16)), of(function(0x2000, 16))])
    assert places(merged) == [(0x1000, 16), (0x2000, 16), (0x3000, 16)]


def test_the_same_twice_is_a_duplicate() -> None:
    merged = merge([of(function(0x1000, 0x20)), of(function(0x1000, 0x20))])
    assert list(merged.table) == [function(0x1000, 0x20)]
    assert ranges(merged.duplicates) == [SharedRange(0x1000, 0x1020, 0, 1)]
    assert ranges(merged.conflicts) == []


def test_neighbours_and_one_function_over_both_are_one_duplicate() -> None:
    merged = merge([of(function(0x1000, 0x10), function(0x1010, 0x10)), of(function(0x1000, 0x20))])
    assert places(merged) == [(0x1000, 0x10), (0x1010, 0x10)]
    assert ranges(merged.duplicates) == [SharedRange(0x1000, 0x1020, 0, 1)]


def test_the_first_input_holds_where_two_contradict() -> None:
    for inputs, kept in (([function(0x1000, 0x20), function(0x1000, 0x20, OTHER)], 8), (None, 16)):
        inputs = inputs or [function(0x1000, 0x20, OTHER), function(0x1000, 0x20)]
        merged = merge([of(one) for one in inputs])
        (only,) = merged.table
        assert only.rows[0].cfa == sp(kept)
        assert ranges(merged.conflicts) == [SharedRange(0x1000, 0x1020, 0, 1)]
        assert len(merged.duplicates) == 0


def test_part_of_a_shared_range_can_be_contradicted() -> None:
    ours = function(0x1000, 0x20, row(0, sp(8), SAVED_RA), row(4, sp(16), SAVED_RA))
    theirs = function(0x1000, 0x20, row(0, sp(8), SAVED_RA), row(6, sp(16), SAVED_RA))
    merged = merge([of(ours), of(theirs)])
    assert list(merged.table) == [ours]
    assert ranges(merged.duplicates) == [SharedRange(0x1000, 0x1004, 0, 1), SharedRange(0x1006, 0x1020, 0, 1)]
    assert ranges(merged.conflicts) == [SharedRange(0x1004, 0x1006, 0, 1)]


def test_a_later_input_keeps_what_lies_around_the_first_ones_function() -> None:
    around = function(0x1000, 0x40, OTHER, row(0x14, sp(24), SAVED_RA), row(0x30, sp(32), SAVED_RA))
    merged = merge([of(function(0x1010, 0x10)), of(around)])
    assert list(merged.table) == [
        function(0x1000, 0x10, OTHER),
        function(0x1010, 0x10),
        function(0x1020, 0x20, row(0, sp(24), SAVED_RA), row(0x10, sp(32), SAVED_RA)),
    ]
    assert ranges(merged.conflicts) == [SharedRange(0x1010, 0x1020, 0, 1)]


def test_ranges_name_the_inputs_that_say_it() -> None:
    merged = merge([of(function(0x1000, 16)), of(function(0x2000, 16)), of(function(0x1000, 16), function(0x2008, 16))])
    assert ranges(merged.duplicates) == [SharedRange(0x1000, 0x1010, 0, 2), SharedRange(0x2008, 0x2010, 1, 2)]
    assert places(merged) == [(0x1000, 16), (0x2000, 16), (0x2010, 8)]


@pytest.mark.parametrize(
    "other",
    [
        replace(function(0x1000, 16), return_column=3),
        replace(function(0x1000, 16), flags=FunctionFlag.SIGNAL_FRAME),
        replace(function(0x1000, 16), flags=FunctionFlag.PAUTH_B_KEY),
        function(0x1000, 16, row(0, sp(8), at(6, -16), SAVED_RA)),
        function(0x1000, 16, row(0, sp(8))),
        function(0x1000, 16, row(0, on(6, 8), SAVED_RA)),
        function(0x1000, 16, row(0, NO_CFA)),
    ],
    ids=str,
)
def test_what_makes_a_contradiction(other: Function) -> None:
    merged = merge([of(function(0x1000, 16)), of(other)])
    assert (len(merged.duplicates), len(merged.conflicts)) == (0, 1)


def test_what_no_sframe_keeps_is_no_contradiction() -> None:
    saves_rbx = replace(function(0x1000, 16, row(0, sp(8), at(3, -16), SAVED_RA)), lsda=0x5000)
    merged = merge([of(saves_rbx), of(function(0x1000, 16))])
    assert (len(merged.duplicates), len(merged.conflicts)) == (1, 0)
    assert list(merged.table) == [saves_rbx]


def test_a_longer_plt_goes_on_behind_a_shorter_one() -> None:
    merged = merge([of(function(0x1000, 0x20, *PLT, repetition=16)), of(function(0x1000, 0x50, *PLT, repetition=16))])
    assert list(merged.table) == [
        function(0x1000, 0x20, *PLT, repetition=16),
        function(0x1020, 0x30, *PLT, repetition=16),
    ]
    assert ranges(merged.duplicates) == [SharedRange(0x1000, 0x1020, 0, 1)]


def test_inputs_without_functions() -> None:
    assert places(merge([of(), of(function(0x1000, 16)), of()])) == [(0x1000, 16)]
    assert places(merge([of(), of()])) == []


def test_nothing_to_merge() -> None:
    with pytest.raises(BuildError, match="no tables to merge"):
        merge([])


@pytest.mark.parametrize(("name", "order"), [("aarch64", "little"), ("x86_64", "big")])
def test_inputs_of_another_kind(name: str, order: ByteOrder) -> None:
    with pytest.raises(
        BuildError, match=f"architecture: is {name}, {order}-endian, that of the first input is x86_64, little"
    ):
        merge([of(), table_of(ARCHITECTURES[name], (), order)])


def test_a_function_past_the_address_space() -> None:
    with pytest.raises(ParseError, match="past the end of the address space"):
        merge([of(function((1 << 64) - 16, 32))])


def test_rows_are_laid_out_in_proportion() -> None:
    rows = tuple(row(number, sp(16 + number % 2), SAVED_RA) for number in range(2000))
    table = repeated(of(function(0, 0x1000, *rows)), [0x1000 * number for number in range(2000)])
    with pytest.raises(ParseError, match="have 4000000 rows"):
        merge([table])


# --- GNU ld ---------------------------------------------------------------------------------------------------

FRAME = """
    .globl {name}
    .type {name}, @function
{name}:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset 6, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register 6
    {body}
    pop %rbp
    .cfi_def_cfa 7, 8
    ret
    .cfi_endproc
    .size {name}, .-{name}
"""
LEAF = """
    .globl {name}
    .type {name}, @function
{name}:
    .cfi_startproc
    sub $24, %rsp
    .cfi_def_cfa_offset 32
    {body}
    add $24, %rsp
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .size {name}, .-{name}
"""
SOURCES = {
    "no PLT": (FRAME.format(name="f", body="nop"), LEAF.format(name="g", body="nop"), FRAME.format(name="h", body="")),
    "one PLT": (FRAME.format(name="f", body="call x@plt"), LEAF.format(name="g", body="call x@plt")),
    "a longer PLT": (
        LEAF.format(name="g", body="call x@plt"),
        FRAME.format(name="f", body="call x@plt; call y@plt; call z@plt"),
        FRAME.format(name="h", body="call y@plt"),
    ),
}
TEXT = 0x10000


def linked(folder: Path, sources: tuple[str, ...]) -> tuple[list[Path], Path]:
    """Each source's object linked alone, its code at the address it has in the link of all; and that link."""
    objects, single, address = [], [], TEXT
    for number, source in enumerate(sources):
        path = folder / f"{number}.s"
        path.write_text(source)
        objects.append(path.with_suffix(".o"))
        run_oracle("as", "--gsframe-3", path, "-o", objects[-1])
        single.append(path.with_suffix(".so"))
        run_oracle("ld", "-shared", f"-Ttext={address:#x}", objects[-1], "-o", single[-1])
        ends = read_elf(single[-1], ".sframe").functions
        address = int((ends.start + ends.size).max())
    joint = folder / "joint.so"
    run_oracle("ld", "-shared", f"-Ttext={TEXT:#x}", *objects, "-o", joint)
    return single, joint


@pytest.mark.oracle
@pytest.mark.parametrize("name", SOURCES)
def test_ld_merges_to_the_same_at_every_pc(name: str, tmp_path: Path) -> None:
    single, joint = linked(tmp_path, SOURCES[name])
    merged = merge([read_elf(path, ".sframe") for path in single])
    expected = by_pc(read_elf(joint, ".sframe"))
    assert len(expected.start) >= 3 * len(single)
    data, refusals = to_sframe(merged.table, 3, section_address=0x400)
    for found in (by_pc(merged.table), by_pc(from_sframe(data, 0x400))):
        assert found == expected, expected.differences(found)
    assert (len(refusals), len(merged.conflicts)) == (0, 0)
    assert bool(len(merged.duplicates)) == (name != "no PLT")


@pytest.mark.oracle
def test_readelf_shows_the_same_of_ours_and_of_ld_s(tmp_path: Path) -> None:
    single, joint = linked(tmp_path, SOURCES["no PLT"])
    merged = merge([read_elf(path, ".sframe") for path in reversed(single)])
    data, _ = to_sframe(merged.table, 3, section_address=0x400)
    ours, theirs = rows_of_bytes(tmp_path / "ours", data, 0x400, 62, "little"), sframe_rows(joint)
    for column in ("start", "end", "first_row", "pc"):
        assert getattr(ours, column).tolist() == getattr(theirs, column).tolist()
    assert [ours.texts[text] for text in ours.text] == [theirs.texts[text] for text in theirs.text]
