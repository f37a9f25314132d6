"""`.eh_frame` edited in place of records: untouched records keep their bytes, edited ones encode the requested rows.

Strategy: bytes worked out by hand. Laws: test_callframe_edits_laws.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from unwindkit import BuildError, FormatError, FunctionFlag, Reason, UnwindTable
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.edit.edit import edit_cfi
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.elf.symbols import addresses_of_names
from unwindkit.converters.table.model import Function, table_of
from unwindkit.schemas.cfi import EH_FRAME
from unwindkit.schemas.pointers import DW_EH_PE
from unwindkit.schemas.section import ParseError, Section

from ..support.handmade import ENCODED_CIE, PLAIN_CIE, X86_64_START, Fde, at, eh_frame, entry, octets, place, row, sp
from ..support.made.edited_frames import all_of, changed_entries, eh_frame_of, entries, moved_to, read, starts_of
from ..support.tiny_elf import CODE, SYMTAB, Content, patched, tiny_elf
from .test_cfi_reading import libc

ADDRESS = 0x8000
X86_64 = ARCHITECTURES["x86_64"]
SAVED_RA = at(16, -8)


def of_bytes(data: bytes, address: int = ADDRESS) -> Section:
    return Section.of(".eh_frame", data, address)


def function(start: int, size: int, *offsets: int) -> Function:
    """A function that pushes at each of the offsets."""
    rows = [row(0, sp(8), SAVED_RA)]
    rows += [row(offset, sp(16 + 8 * number), SAVED_RA) for number, offset in enumerate(offsets)]
    return Function(start, size, tuple(rows), return_column=16)


def table(*functions: Function) -> UnwindTable:
    return table_of(X86_64, functions)


# --- bytes by hand --------------------------------------------------------------------------------------------

ONE = eh_frame(ENCODED_CIE + "00" + X86_64_START, Fde(0x1000, 0x10, "00 41 0e10 00000000"), Fde(0x1010, 0x10, "00"))


def test_a_dropped_fde_leaves_a_cie_that_nothing_points_to() -> None:
    section = of_bytes(ONE)
    frames = edit_cfi(section, X86_64, drop=[0x1005])
    (offset,) = changed_entries(frames)
    assert entries(moved_to(frames, ADDRESS))[offset] == octets("""
        1c000000        # length: as it was
        00000000        # a CIE
        01 00           # version, no augmentation
        01 78 10        # factors 1 and -8, return address in register 16
        00000000 00000000 00000000 00000000 000000
    """)
    assert starts_of(read(frames)) == [0x1010]
    assert (frames.report.dropped, frames.report.bytes_after) == (1, len(ONE))


def test_the_shortest_fde_that_can_be_dropped_has_13_bytes() -> None:
    """As many as a CIE without instructions. A shorter one cannot be dropped: the next entry would be overwritten."""
    cie = octets(f"12000000 00000000 {ENCODED_CIE} 01 {X86_64_START}")  # 22 bytes; addresses are uleb128
    second = octets("08000000 27000000 9020 10 00")
    # Length, distance to the CIE, 0x1000, 0x10 in two bytes, no augmentation data.
    enough = octets("09000000 1a000000 8020 9000 00")
    frames = edit_cfi(of_bytes(cie + enough + second), X86_64, drop=[0x1000])
    assert frames.at(ADDRESS) == cie + octets("09000000 00000000 01 00 01 78 10") + second
    short = octets("08000000 1a000000 8020 10 00")
    section = of_bytes(cie + short + octets("08000000 26000000 9020 10 00"))
    assert starts_of(read(edit_cfi(section, X86_64))) == [0x1000, 0x1010]
    with pytest.raises(BuildError) as caught:
        edit_cfi(section, X86_64, drop=[0x1000])
    assert place(caught.value) == (".eh_frame", len(cie), "FDE[0]")
    assert caught.value.reason == "has 12 bytes, too few for the CIE of 13 bytes that would replace it"


def test_a_replacement_stands_in_its_place_with_nops_behind() -> None:
    frames = edit_cfi(of_bytes(ONE), X86_64, replace=table(function(0x1000, 8, 2)))
    (offset,) = changed_entries(frames)
    assert entries(moved_to(frames, ADDRESS))[offset] == octets("""
        1c000000
        1a000000        # back to the CIE at 0
        0010000000000000 0800000000000000
        00
        42 0e 10        # advance_loc 2, def_cfa_offset 16
        00 00 00 00
    """)
    assert (frames.report.in_place, frames.report.replaced, frames.report.cies_added) == (1, 1, 0)


def test_a_replacement_that_needs_more_room_is_appended() -> None:
    wanted = function(0x1000, 0x10, 1, 2, 3, 4)
    frames = edit_cfi(of_bytes(ONE + bytes(4)), X86_64, replace=table(wanted))
    assert all_of([read(frames)]) == all_of([table(wanted, function(0x1010, 0x10))])
    assert (frames.report.in_place, frames.report.replaced, frames.report.dropped) == (0, 1, 0)
    assert frames.at(ADDRESS)[-4:] == bytes(4)
    found = list(entries(moved_to(frames, ADDRESS)).items())
    assert found[1][1][4:9] == octets("00000000 01")
    # The section's own CIE: 4 + 4 + 8 + 8 + 1 + 12 bytes, padded to 40.
    assert found[3] == (
        len(ONE),
        octets("""
        24000000 53000000 0010000000000000 1000000000000000 00
        41 0e10  41 0e18  41 0e20  41 0e28  000000
    """),
    )


def test_one_fde_is_replaced_by_two() -> None:
    wanted = table(function(0x1008, 8, 4), function(0x1000, 8))
    frames = edit_cfi(of_bytes(ONE), X86_64, replace=wanted)
    assert all_of([read(frames)]) == all_of([wanted, table(function(0x1010, 0x10))])
    # The function with the start address of the old FDE takes its slot.
    assert (frames.report.in_place, frames.report.replaced) == (1, 2)
    assert starts_of(read(frames)) == [0x1000, 0x1010, 0x1008]


@pytest.mark.parametrize(("offsets", "fits"), [((1, 2), True), ((1, 2, 3), False)])
def test_a_room_of_seven_bytes_for_instructions_holds_six_and_not_nine(offsets: tuple[int, ...], fits: bool) -> None:
    wanted = function(0x1000, 0x10, *offsets)
    frames = edit_cfi(of_bytes(ONE), X86_64, replace=table(wanted))
    assert frames.report.in_place == fits
    assert all_of([read(frames)])[0] == wanted


@pytest.mark.parametrize(
    ("change", "shares"),
    [
        (lambda one: one, True),
        (lambda one: replace(one, flags=FunctionFlag.HAS_LSDA | FunctionFlag.SIGNAL_FRAME), False),
        (lambda one: replace(one, personality=0x4444), False),
        (lambda one: replace(one, personality_encoding=DW_EH_PE.pcrel | DW_EH_PE.sdata4), False),
        (lambda one: replace(one, personality_encoding=DW_EH_PE.omit, personality=0), False),
        (lambda one: replace(one, lsda=0, flags=FunctionFlag(0)), True),
    ],
)
def test_only_a_cie_that_says_the_same_is_shared(change: Callable[[Function], Function], shares: bool) -> None:
    """In a section whose CIE has a personality and LSDAs; a function without an LSDA can share it, too."""
    section = of_bytes(EVERYWHERE)
    (old, other) = table_from_cfi(section, EH_FRAME, X86_64)
    wanted = change(replace(old, origin=0, rows=old.rows[:1]))
    frames = edit_cfi(section, X86_64, replace=table_of(X86_64, [wanted]))
    assert all_of([read(frames)]) == [wanted, replace(other, origin=0)]
    assert (frames.report.in_place, frames.report.cies_added) == ((1, 0) if shares else (0, 1))


def test_an_lsda_needs_a_cie_that_has_room_for_it() -> None:
    wanted = replace(function(0x1000, 0x10), flags=FunctionFlag.HAS_LSDA, lsda=0x7777)
    frames = edit_cfi(of_bytes(ONE), X86_64, replace=table(wanted))
    assert all_of([read(frames)])[0] == wanted
    assert (frames.report.in_place, frames.report.cies_added) == (0, 1)


def test_a_replacement_goes_behind_where_its_cie_stands_behind() -> None:
    """CIE pointers in .eh_frame are unsigned and point backwards: an FDE cannot precede its CIE."""
    signal = replace(function(0x1000, 8, 2), return_column=3)
    first = eh_frame(PLAIN_CIE + X86_64_START, Fde(0x1000, 0x10, "00" * 60))
    other = eh_frame("01 00 01 78 03" + X86_64_START, Fde(0x2000, 0x10))
    frames = edit_cfi(of_bytes(first + other), X86_64, replace=table(signal))
    assert (frames.report.in_place, frames.report.replaced, frames.report.cies_added) == (0, 1, 0)
    assert all_of([read(frames)])[0] == signal


def test_functions_added_to_an_empty_section() -> None:
    for data in (b"", bytes(4), bytes(8)):
        frames = edit_cfi(of_bytes(data), X86_64, add=table(function(0x1000, 8), function(0x2000, 8, 4)))
        assert starts_of(read(frames)) == [0x1000, 0x2000]
        assert (frames.report.added, frames.report.cies_added) == (2, 1)
        assert frames.at(ADDRESS).endswith(data)
        # A CIE of 24 bytes and FDEs of 20 and 20: no terminator is added where there was none.
        assert len(frames) == 24 + 20 + 20 + len(data)
        assert not frames.report.is_after_terminator


@pytest.mark.parametrize(("distance", "size"), [(1 << 31, 4), ((1 << 31) + 1, 8), (1 << 40, 8)])
def test_a_new_fde_has_addresses_of_8_bytes_where_4_do_not_reach(distance: int, size: int) -> None:
    # A CIE of 24 bytes; the field is 8 bytes into the FDE after it, and the function before it.
    field = (1 << 41) + 24 + 8
    wanted = table(function(field - distance, 8))
    frames = edit_cfi(of_bytes(b"", 1 << 41), X86_64, add=wanted)
    data = frames.at(1 << 41)
    assert data[24 + 8 :][:size] == (-distance).to_bytes(size, "little", signed=True)
    assert len(data) == 24 + 4 + 4 + 2 * size + 4  # the size of the augmentation data, and padding
    assert all_of([read(frames)]) == all_of([wanted])


def test_what_is_behind_a_terminator_stays_where_it_is() -> None:
    data = ONE + bytes(4) + eh_frame(PLAIN_CIE + X86_64_START, Fde(0x3000, 8)) + bytes(8)
    frames = edit_cfi(of_bytes(data), X86_64, drop=[0x3000], add=table(function(0x2000, 8)))
    after = frames.at(ADDRESS)
    assert after[: len(ONE) + 4] == data[: len(ONE) + 4]
    assert after[-8:] == bytes(8)
    assert starts_of(read(frames)) == [0x1000, 0x1010, 0x2000]
    assert frames.report.is_after_terminator


def test_only_a_function_that_can_be_said_goes_into_place_of_another() -> None:
    unknown = replace(function(0x1000, 8), flags=FunctionFlag.UNKNOWN_AUGMENTATION)
    frames = edit_cfi(of_bytes(ONE), X86_64, replace=table(unknown), add=table(function(0x4000, 4)))
    assert [(one.function, one.reason) for one in frames.refusals] == [(0, Reason.AUGMENTATION)]
    assert changed_entries(frames) == []
    assert starts_of(read(frames)) == [0x1000, 0x1010, 0x4000]


# --- moving ---------------------------------------------------------------------------------------------------

# All PC-relative fields: a personality (4 bytes), start, LSDA (8 bytes), DW_CFA_set_loc.
EVERYWHERE = (
    entry(octets("00000000 01 7a504c5200 01 78 10 07  9b 00030000  1c  1b  0c0708 9001 0000"))
    + entry(octets("24000000 00100000 20000000 08 0020000000000000 01 fe0f0000 0000"))
    + entry(octets("44000000 00100000 20000000 08 0000000000000000 00000000"))
)


def test_all_that_counts_from_its_place_is_changed() -> None:
    section = of_bytes(EVERYWHERE)
    frames = edit_cfi(section, X86_64)
    before, after = bytes(section.data), frames.at(ADDRESS + 0x100)
    # The second bytes of the personality, a start, its LSDA, DW_CFA_set_loc, the other start. An LSDA pointer of 0
    # means no LSDA.
    assert {at: after[at] for at in range(len(before)) if before[at] != after[at]} == {
        0x14: 0x02, 0x29: 0x0F, 0x32: 0x1F, 0x3B: 0x0E, 0x49: 0x0F,
    }  # fmt: skip
    assert all_of([read(frames, ADDRESS + 0x100)]) == all_of([read(frames)])


def test_of_what_is_gone_nothing_moves() -> None:
    frames = edit_cfi(of_bytes(EVERYWHERE), X86_64, drop=[0x9028])
    (offset,) = changed_entries(frames)
    here, there = (entries(moved_to(frames, address))[offset] for address in (ADDRESS, ADDRESS + 0x100))
    assert (offset, here) == (0x20, there)


def test_what_does_not_reach_is_an_error() -> None:
    section = of_bytes(EVERYWHERE)
    with pytest.raises(BuildError) as caught:
        edit_cfi(section, X86_64).at(ADDRESS + (1 << 31) + 0x2000)
    assert place(caught.value) == (".eh_frame", 0x28, "FDE.initial_location")
    with pytest.raises(BuildError, match="is not a 64-bit address"):
        edit_cfi(section, X86_64).at(1 << 64)


@pytest.mark.parametrize(
    ("encoding", "tail", "said"),
    [
        (0x11, "80 20 10 00 00 00 00", "is a PC-relative LEB128 number"),
        (0x19, "80 20 10 00 00 00 00", "is a PC-relative LEB128 number"),
        (0x50, "00 0010000000000000 1000000000000000 00000000", "aligns addresses to their size"),
    ],
)
def test_what_would_change_its_size_does_not_move(encoding: int, tail: str, said: str) -> None:
    cie = entry(octets(f"00000000 {ENCODED_CIE} {encoding:02x} {X86_64_START} 00"))
    data = cie + entry((len(cie) + 4).to_bytes(4, "little") + octets(tail))
    frames = edit_cfi(of_bytes(data), X86_64)
    assert frames.at(ADDRESS) == data
    with pytest.raises(BuildError, match=said):
        frames.at(ADDRESS + 4)


def test_an_aligned_personality_moves_by_whole_addresses() -> None:
    # Augmentation data: the encoding 0x50 at offset 17, padding up to 24, the pointer, the encoding of starts.
    cie = entry(octets("00000000 01 7a505200 01 78 10 10  50 000000000000 0070000000000000  1b  0c0708 9001 0000"))
    data = cie + entry((len(cie) + 4).to_bytes(4, "little") + octets("00100000 20000000 00 000000"))
    frames = edit_cfi(of_bytes(data), X86_64)
    start = len(cie) + 8
    assert frames.at(ADDRESS + 8) == data[:start] + octets("f80f0000") + data[start + 4 :]
    with pytest.raises(BuildError) as caught:
        frames.at(ADDRESS + 4)
    assert place(caught.value) == (".eh_frame", 0, "CIE[0].augmentation")
    assert caught.value.reason == "aligns addresses to their size, and a move by 0x4 bytes is not a multiple of it"


def test_unsigned_starts_reach_from_0_to_32_bits() -> None:
    """DW_EH_PE_pcrel and DW_EH_PE_udata4: a move by n subtracts n."""
    cie = entry(octets(f"00000000 {ENCODED_CIE} 13 {X86_64_START}"))
    start = len(cie) + 8
    for stored, moved_by, after in (("00100000", 0x1000, "00000000"), ("feffffff", -1, "ffffffff")):
        data = cie + entry((len(cie) + 4).to_bytes(4, "little") + octets(f"{stored} 20000000 00"))
        frames = edit_cfi(of_bytes(data), X86_64)
        assert frames.at(ADDRESS + moved_by)[start : start + 4] == octets(after)
        further = moved_by + (1 if moved_by > 0 else -1)
        with pytest.raises(BuildError) as caught:
            frames.at(ADDRESS + further)
        assert place(caught.value) == (".eh_frame", start, "FDE.initial_location")
        assert caught.value.reason == "the offset from the record's new address does not fit 4 bytes"


def test_starts_of_the_size_of_an_address_wrap() -> None:
    """A 32-bit section that moves from 0x8000 to 0x90000000: 0x1000 - 0x8fff8000 modulo 2**32."""
    cie = entry(octets("00000000 01 7a5200 01 7c 08 01 1b 0c0404 8801 00"))
    data = cie + entry((len(cie) + 4).to_bytes(4, "little") + octets("00100000 20000000 00 000000"))
    frames = edit_cfi(Section.of(".eh_frame", data, ADDRESS, "little", 4), ARCHITECTURES["x86"])
    start = len(cie) + 8
    assert frames.at(0x90000000) == data[:start] + octets("00900070") + data[start + 4 :]


def test_a_start_behind_a_segment_selector_moves() -> None:
    cie = entry(octets(f"00000000 04 7a5200 08 02 01 78 10 01 1b {X86_64_START}"))
    data = cie + entry((len(cie) + 4).to_bytes(4, "little") + octets("0700 00100000 20000000 00"))
    frames = edit_cfi(of_bytes(data), X86_64)
    (one,) = read(frames, ADDRESS + 0x4000)
    assert (one.start, one.size, one.segment) == (ADDRESS + len(cie) + 10 + 0x1000, 0x20, 7)


# --- which functions ------------------------------------------------------------------------------------------


def test_a_pc_inside_names_every_fde_that_covers_it() -> None:
    data = eh_frame(PLAIN_CIE + X86_64_START, Fde(0x1000, 0x20), Fde(0x1010, 8), Fde(0x1018, 0), Fde(0x2000, 1))
    section = of_bytes(data)
    assert starts_of(read(edit_cfi(section, X86_64, drop=[0x1017]))) == [0x1018, 0x2000]
    assert starts_of(read(edit_cfi(section, X86_64, drop=[0x101F]))) == [0x1010, 0x1018, 0x2000]
    assert starts_of(read(edit_cfi(section, X86_64, drop=[0x1018, 0x2000]))) == [0x1010]


@pytest.mark.parametrize(
    ("drop", "said"),
    [
        ([0x1000, 0xFFF, 0x1020], "no FDE covers 0xfff, 0x1020"),
        (list(range(20)), r"no FDE covers 0x0, .*0x9 and 10 more"),
        ([-1], "-0x1 is not a 64-bit address"),
        ([1 << 64], "is not a 64-bit address"),
    ],
)
def test_pcs_without_an_fde_are_listed(drop: list[int], said: str) -> None:
    with pytest.raises(BuildError, match=said):
        edit_cfi(of_bytes(ONE), X86_64, drop=drop)


def test_a_replacement_for_nothing_is_an_error() -> None:
    with pytest.raises(BuildError, match="no FDE covers 0x1020"):
        edit_cfi(of_bytes(ONE), X86_64, replace=table(function(0x1020, 8)))


@pytest.mark.parametrize(("start", "size"), [(0xFF8, 9), (0x101F, 1), (0x900, 0x1000), (0x1004, 2)])
def test_a_new_function_shares_no_pc_with_one_that_stays(start: int, size: int) -> None:
    with pytest.raises(BuildError, match=r"overlaps the FDE of 0x10.0") as caught:
        edit_cfi(of_bytes(ONE), X86_64, add=table(function(start, size)))
    assert caught.value.offset is not None
    for beside in (function(0xFF8, 8), function(0x1020, 1)):
        assert len(read(edit_cfi(of_bytes(ONE), X86_64, add=table(beside)))) == 3


def test_pcs_behind_a_function_that_lies_inside_another_are_covered() -> None:
    data = eh_frame(PLAIN_CIE + X86_64_START, Fde(0x1000, 0x100), Fde(0x1010, 8))
    with pytest.raises(BuildError, match=r"0x1080\.\.0x1083 overlaps the FDE of 0x1000"):
        edit_cfi(of_bytes(data), X86_64, add=table(function(0x1080, 4)))


def test_tables_of_another_machine_are_refused() -> None:
    other = table_of(ARCHITECTURES["aarch64"], [function(0x9000, 4)])
    with pytest.raises(BuildError, match="architecture"):
        edit_cfi(of_bytes(ONE), X86_64, add=other)


@pytest.mark.oracle("sid-amd64")
def test_functions_of_a_name() -> None:
    path = libc("sid-amd64")
    found = addresses_of_names(open_elf(path), ["qsort", "malloc"])
    section, old = eh_frame_of(str(path))
    (pc,) = found["qsort"]
    frames = edit_cfi(section, X86_64, drop=[pc])
    assert len(read(frames)) == len(old) - 1
    with pytest.raises(ParseError, match="no function is called no_such_function"):
        addresses_of_names(open_elf(path), ["malloc", "no_such_function"])


@pytest.mark.parametrize("link", [0, 1, 4])
def test_functions_of_a_symbol_table_without_names(link: int, tmp_path: Path) -> None:
    """The sections are .text, .symtab and .shstrtab."""
    path = tmp_path / "file"
    file = tiny_elf(CODE, Content(".symtab", bytes(24), SYMTAB, 0))
    path.write_bytes(patched(file, 2, sh_entsize=24, sh_link=link))
    with pytest.raises(ParseError, match=rf"\.symtab: sh_link: section {link} is not a string table"):
        addresses_of_names(open_elf(path), ["main"])


# --- hostile input --------------------------------------------------------------------------------------------


def test_damaged_sections_cause_nothing_but_format_errors() -> None:
    chance = random.Random(20260)
    whole = ONE + EVERYWHERE + bytes(4) + ONE
    wanted = table(function(0x1000, 8, 2), function(0x5000, 8, 2))
    done = 0
    for _ in range(3000):
        data = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.choice([1, 1, 2, 4])):
            if data:
                data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        try:
            frames = edit_cfi(of_bytes(bytes(data)), X86_64, [0x1010], wanted.select([0]), wanted.select([1]))
            frames.at(ADDRESS)
            frames.at(ADDRESS + 0x777)
            done += 1
        except FormatError:
            pass
    assert done > 300
