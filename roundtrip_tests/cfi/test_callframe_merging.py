"""Several `.eh_frame` or `.debug_frame` sections merged into one: which FDE wins, and what each pointer leads to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import BuildError, ParseError, RulesByPc, UnwindTable, by_pc
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.edit.merge import MergedCfi, merge_cfi
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.converters.cfi.write import to_debug_frame, to_eh_frame
from unwindkit.converters.rules import RuleKind
from unwindkit.converters.table.by_pc import RuleSet
from unwindkit.converters.table.merge import SharedRange
from unwindkit.converters.table.model import RegisterRule
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from unwindkit.schemas.section import Section

from ..conftest import fewer
from ..support.handmade import ENCODED_CIE, PLAIN_CIE, X86_64_START, Fde, eh_frame, entry, octets, place
from ..support.made.edited_frames import all_of, eh_frame_of, entries, moved_to, read, starts_of
from ..support.real_files import REAL_FILES
from ..support.tables import rich_tables
from .test_callframe_edits import ADDRESS, EVERYWHERE, X86_64, function, table

EITHER = pytest.mark.parametrize("dialect", [EH_FRAME, DEBUG_FRAME], ids=lambda one: one.name)


def section_of(some: UnwindTable, dialect: Dialect, address: int) -> Section:
    data, refusals = to_eh_frame(some, address) if dialect is EH_FRAME else to_debug_frame(some)
    assert len(refusals) == 0
    at = address if dialect is EH_FRAME else 0
    return Section.of(dialect.name, data, at, some.byte_order, some.address_size)


def of_tables(*tables: UnwindTable, dialect: Dialect = EH_FRAME) -> MergedCfi:
    """Tables as sections at different addresses, merged."""
    sections = [section_of(one, dialect, ADDRESS + 0x10000 * index) for index, one in enumerate(tables)]
    return merge_cfi(sections, tables[0].architecture, dialect)


def shared(merged: MergedCfi) -> tuple[list[SharedRange], list[SharedRange]]:
    both = (merged.duplicates, merged.conflicts)
    duplicates, conflicts = ([found[index] for index in range(len(found))] for found in both)
    return duplicates, conflicts


@pytest.mark.usefixtures("kernels")
@EITHER
@pytest.mark.parametrize("name", ["x86_64", "aarch64_be", "mips", "s390x"])
@fewer(30)
@given(data=st.data())
def test_a_table_in_parts_merges_to_itself(name: str, dialect: Dialect, data: st.DataObject) -> None:
    drawn = data.draw(rich_tables(ARCHITECTURES[name]))
    first, _ = to_eh_frame(drawn)
    whole = table_from_cfi(
        Section.of(".eh_frame", first, 0, drawn.byte_order, drawn.address_size), EH_FRAME, drawn.architecture
    )
    of_part = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(whole), max_size=len(whole))), np.int64)
    merged = of_tables(*(whole.select(of_part == number) for number in range(3)), dialect=dialect)
    assert by_pc(read(merged.frames)) == by_pc(whole)
    assert (len(merged.duplicates), len(merged.conflicts), merged.frames.report.dropped) == (0, 0, 0)


@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_halves_of_a_real_file(path: str) -> None:
    section, whole = eh_frame_of(path)
    parts = [whole.select(slice(first, None, 2)) for first in (0, 1)]
    sections = [section_of(one, EH_FRAME, section.address + 0x100000 * index) for index, one in enumerate(parts)]
    merged = merge_cfi(sections, whole.architecture)
    assert all_of([read(merged.frames)]) == all_of([whole])
    assert all_of([read(merged.frames, section.address + 0x3000)]) == all_of([whole])
    # One terminator fewer; the records of the first are unchanged.
    assert len(merged.frames) == sum(map(len, sections)) - 4
    assert merged.frames.at(section.address).startswith(bytes(sections[0].data)[:-4])


def test_a_section_twice_is_the_section_and_unused_cies() -> None:
    one, two = table(function(0x1000, 8), function(0x2000, 8, 4)), table(function(0x2000, 8, 4))
    merged = of_tables(one, two)
    assert shared(merged) == ([SharedRange(0x2000, 0x2008, 0, 1)], [])
    assert all_of([read(merged.frames)]) == all_of([one])
    assert merged.frames.report.dropped == 1


def test_the_first_one_holds_where_two_contradict() -> None:
    one, two = table(function(0x1000, 8, 2)), table(function(0x1000, 8, 4), function(0x1008, 8))
    merged = of_tables(one, two)
    # The two agree where neither has pushed and where both have.
    assert shared(merged)[1] == [SharedRange(0x1002, 0x1004, 0, 1)]
    assert all_of([read(merged.frames)]) == all_of([one, two.select([1])])


def test_rules_of_every_register_are_compared() -> None:
    one = function(0x1000, 8)
    rules = (RegisterRule(3, RuleKind.SAME_VALUE), *one.rows[0].registers)
    other = replace(one, rows=(replace(one.rows[0], registers=rules),))
    merged = of_tables(table(one), table(other))
    assert shared(merged) == ([], [SharedRange(0x1000, 0x1008, 0, 1)])


def test_what_is_left_of_a_function_stays() -> None:
    one, two = table(function(0x1008, 8)), table(function(0x1000, 0x20, 4, 0x18))
    merged = of_tables(one, two)
    after = read(merged.frames)
    assert sorted(starts_of(after)) == [0x1000, 0x1008, 0x1010]
    assert by_pc(after.select([0])) == by_pc(one)
    whole = by_pc(two)
    for start, end in ((0x1000, 0x1008), (0x1010, 0x1020)):
        for pc in range(start, end):
            assert rules_at(by_pc(after), pc) == rules_at(whole, pc)


def rules_at(rules: RulesByPc, pc: int) -> RuleSet:
    (which,) = np.flatnonzero((rules.start <= pc) & (pc < rules.end))
    return rules.sets[rules.rules[which]]


def test_an_lsda_keeps_the_start_that_it_counts_from() -> None:
    start = 0x9028
    section = Section.of(".eh_frame", EVERYWHERE, ADDRESS)
    behind = section_of(table(function(start + 0x10, 0x10)), EH_FRAME, ADDRESS + 0x1000)
    merged = merge_cfi([behind, section], X86_64)
    assert sorted((one.start, one.size, one.lsda) for one in read(merged.frames)) == [
        (start, 0x10, 0x8031 + 0x2000), (start + 0x10, 0x10, 0), (start + 0x20, 0x20, 0)
    ]  # fmt: skip
    before = section_of(table(function(start, 0x10)), EH_FRAME, ADDRESS + 0x1000)
    with pytest.raises(BuildError, match="which the LSDA is relative to"):
        merge_cfi([before, section], X86_64)


def test_terminators_go_and_pointers_across_them_are_right() -> None:
    cie = eh_frame(PLAIN_CIE + X86_64_START)
    assert len(cie) == 0x12
    # After a terminator the FDE's pointer is at 0x1a, without it at 0x16.
    data = cie + bytes(4) + octets("14000000 1a000000 0010000000000000 0400000000000000") + bytes(8)
    other = cie + octets("14000000 16000000 0020000000000000 0400000000000000")
    merged = merge_cfi([Section.of(".eh_frame", one) for one in (data, other, b"", bytes(4))], X86_64)
    without = cie + octets("14000000 16000000 0010000000000000 0400000000000000")
    assert merged.frames.at(0) == without + other + bytes(4)


def test_absolute_cie_pointers_are_of_the_whole() -> None:
    one, two = table(function(0x1000, 8)), table(function(0x2000, 8))
    merged = of_tables(one, two, dialect=DEBUG_FRAME)
    first, second = (section_of(some, DEBUG_FRAME, 0) for some in (one, two))
    before, after = entries(second, DEBUG_FRAME), entries(moved_to(merged.frames, 0), DEBUG_FRAME)
    cie, fde = before
    assert after[cie + len(first)] == before[cie]
    pointer = len(first).to_bytes(4, "little")
    assert after[fde + len(first)] == before[fde][:4] + pointer + before[fde][8:]


def test_sections_that_do_not_go_together() -> None:
    one = section_of(table(function(0x1000, 8)), EH_FRAME, ADDRESS)
    with pytest.raises(BuildError, match="no sections to merge"):
        merge_cfi([], X86_64)
    with pytest.raises(BuildError, match="byte order"):
        merge_cfi([one, replace(one, byte_order="big")], X86_64)
    with pytest.raises(BuildError, match="address size differs from that of the first input"):
        merge_cfi([one, replace(one, address_size=4)], X86_64)
    with pytest.raises(ParseError):
        merge_cfi([one, Section.of(".eh_frame", b"\1\0\0\0\0")], X86_64)
    with pytest.raises(BuildError, match=r"FDE\.initial_location"):
        merge_cfi([one, replace(one, address=1 << 40)], X86_64)


def test_a_terminator_of_any_input_ends_the_section() -> None:
    one = eh_frame(PLAIN_CIE + X86_64_START, Fde(0x1000, 4))
    other = eh_frame(PLAIN_CIE + X86_64_START, Fde(0x2000, 4))
    for first, second in ((one + bytes(4), other), (one, other + bytes(4))):
        assert merge_cfi([Section.of(".eh_frame", data) for data in (first, second)], X86_64).frames.at(0) == (
            one + other + bytes(4)
        )


def test_cie_pointers_of_64_bit_dwarf() -> None:
    cie = octets(f"ffffffff 1200000000000000 ffffffffffffffff {PLAIN_CIE} {X86_64_START}")
    assert len(cie) == 0x1E
    first, second = (
        octets(f"ffffffff 1800000000000000 0000000000000000 {start}0000 1000000000000000")
        for start in ("001000000000", "002000000000")
    )
    merged = merge_cfi([Section.of(".debug_frame", cie + fde) for fde in (first, second)], X86_64, DEBUG_FRAME)
    # The second CIE is at 0x42.
    assert merged.frames.at(0) == cie + first + cie + second[:12] + octets("4200000000000000") + second[20:]


def test_an_fde_without_bytes_loses_no_pc() -> None:
    one, two = table(function(0x1000, 0x20)), table(function(0x1008, 0), function(0x1000, 0x20))
    merged = of_tables(one, two)
    assert merged.frames.report.dropped == 1
    assert sorted(starts_of(read(merged.frames))) == [0x1000, 0x1008]


@pytest.mark.parametrize(("size", "fits"), [(0x14, False), (0x18, True)])
def test_aligned_addresses_after_records_of_other_inputs(size: int, fits: bool) -> None:
    """DW_EH_PE_aligned: the second section is moved by the size of the first."""
    first = entry(bytes(4) + octets(PLAIN_CIE + X86_64_START).ljust(size - 8, b"\0"))
    cie = entry(octets(f"00000000 {ENCODED_CIE} 50 {X86_64_START} 0000"))
    # The start is at 0x20, and needs no padding.
    assert len(cie) == 0x18
    second = cie + entry(octets("1c000000 0010000000000000 1000000000000000 00000000"))
    sections = [Section.of(".eh_frame", data, ADDRESS) for data in (first, second)]
    if fits:
        assert starts_of(read(merge_cfi(sections, X86_64).frames)) == [0x1000]
        return
    with pytest.raises(BuildError) as caught:
        merge_cfi(sections, X86_64)
    assert place(caught.value) == (".eh_frame", 0, "CIE[0].augmentation")
    assert caught.value.reason == "aligns addresses to their size, and a move by 0x14 bytes is not a multiple of it"
