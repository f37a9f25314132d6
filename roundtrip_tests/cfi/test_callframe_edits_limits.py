"""Edits of call frame sections at their limits: which CIEs a new FDE may use, overlaps, 32-bit addresses, reports.

Strategy: both sides of each limit. Sections are written here in hex; a CIE that a new FDE cannot use is seen in the
number of CIEs that are added.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from unwindkit import BuildError, FunctionFlag
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.choose_cies import CieKey
from unwindkit.converters.cfi.edit.edit import EditedCfi, change_records, edit_cfi
from unwindkit.converters.cfi.edit.merge import concatenate_records
from unwindkit.converters.cfi.edit.new_records import NO_SLOT
from unwindkit.converters.cfi.layout import FrameLayout, lay_out_fdes, refuse_large
from unwindkit.converters.cfi.records import read_records
from unwindkit.converters.cfi.write_instructions import EncodedStreams
from unwindkit.converters.table.model import Function, table_of
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from unwindkit.schemas.pointers import DW_EH_PE
from unwindkit.schemas.section import Section

from ..support.handmade import ENCODED_CIE, PLAIN_CIE, X86_64_START, Fde, at, eh_frame, entry, octets, on, place, row
from ..support.made.edited_frames import all_of, entries, moved_to, read, starts_of
from ..support.work import at_most_allocated
from .test_callframe_edits import ADDRESS, ONE, X86_64, function, of_bytes, table


def adds(data: bytes, wanted: Function, dialect: Dialect = EH_FRAME) -> EditedCfi:
    """A function added to a section; what is read afterwards includes it."""
    section = Section.of(dialect.name, data, ADDRESS if dialect is EH_FRAME else 0)
    frames = edit_cfi(section, X86_64, add=table(wanted), dialect=dialect)
    assert wanted in all_of([read(frames)])
    return frames


# --- which CIEs -----------------------------------------------------------------------------------------------


def with_encoding(encoding: str, fde: str) -> bytes:
    """A CIE with the encoding of starts and sizes `encoding`, and an FDE with these addresses."""
    cie = entry(octets(f"00000000 {ENCODED_CIE} {encoding} {X86_64_START}"))
    return cie + entry((len(cie) + 4).to_bytes(4, "little") + octets(fde))


@pytest.mark.parametrize(("size", "added"), [(0xFFFF, 0), (0x10000, 1)])
def test_a_size_has_to_fit_its_field(size: int, added: int) -> None:
    # 02: udata2
    assert adds(with_encoding("02", "0010 1000 00"), function(0x4000, size)).report.cies_added == added


@pytest.mark.parametrize(
    ("encoding", "start", "added"),
    [
        ("0b", 0x7FFFFFFF, 0),  # sdata4
        ("0b", 0x80000000, 1),
        ("0b", 0xFFFFFFFF7FFFFFFF, 1),
        ("0b", 0xFFFFFFFF80000000, 0),
        ("03", 0xFFFFFFFF, 0),  # udata4
        ("03", 0x100000000, 1),
    ],
)
def test_a_start_has_to_fit_its_field(encoding: str, start: int, added: int) -> None:
    frames = adds(with_encoding(encoding, "00100000 10000000 00"), function(start, 8))
    assert frames.report.cies_added == added


GIB = 1 << 30


@pytest.mark.parametrize(
    ("distance", "added", "size"),
    [(GIB, 0, 4), (2 * GIB - 0x100, 0, 4), (2 * GIB + 0x100, 1, 8), (-2 * GIB - 0x100, 1, 8), (1 << 50, 1, 8)],
)
def test_a_start_out_of_reach_of_the_existing_cie_gets_a_new_one(distance: int, added: int, size: int) -> None:
    """pcrel, sdata4: the existing CIE is still used for a function nearby."""
    address = 1 << 41
    data = with_encoding("1b", "00100000 10000000 00")
    wanted = [function(address + distance, 8), function(address + 0x8000, 8)]
    frames = edit_cfi(of_bytes(data, address), X86_64, add=table(*wanted))
    assert frames.report.cies_added == added
    assert all_of([read(frames).select([1, 2])]) == all_of([table(*wanted)])
    fde_sizes = [len(one) for one in list(entries(moved_to(frames, address)).values())[2 + added :]]
    # Length, CIE pointer, start, size, augmentation data of no bytes: to a multiple of four.
    assert fde_sizes == [8 + 2 * size + 4, 8 + 2 * 4 + 4]


def with_lsda(encoding: str, lsda: str) -> bytes:
    """A CIE with the augmentation "zLR", whose LSDAs have this encoding, and an FDE with this augmentation data."""
    cie = entry(octets(f"00000000 01 7a4c5200 01 78 10 02 {encoding} 1b {X86_64_START}"))
    data = octets(lsda)
    body = (len(cie) + 4).to_bytes(4, "little") + octets("00100000 20000000") + bytes([len(data)]) + data
    return cie + entry(body)


@pytest.mark.parametrize(
    ("encoding", "stored", "lsda", "added"),
    [
        ("1b", "00000000", 0x7000, 0),  # pcrel, sdata4
        ("9b", "00000000", 0x7000, 1),  # indirect: the address of a slot with the address
        ("3b", "00000000", 0x7000, 1),  # datarel
        ("00", "0000000000000000", 0x7000, 0),  # absptr, where 0 means that there is none
        ("00", "0000000000000000", 0, 1),
        ("02", "0000", 0xFFFF, 0),  # udata2
        ("02", "0000", 0x10000, 1),
    ],
)
def test_an_lsda_has_to_be_expressible(encoding: str, stored: str, lsda: int, added: int) -> None:
    wanted = replace(function(0x2000, 8), flags=FunctionFlag.HAS_LSDA, lsda=lsda)
    assert adds(with_lsda(encoding, stored), wanted).report.cies_added == added


@pytest.mark.parametrize(
    ("dialect", "data"),
    [
        (
            EH_FRAME,
            f"""
            ffffffff 0e00000000000000 00000000 {PLAIN_CIE} {X86_64_START}          # the id has 4 bytes
            ffffffff 1400000000000000 26000000 0010000000000000 1000000000000000   # back to 0 from 0x26
            """,
        ),
        (
            DEBUG_FRAME,
            f"""
            ffffffff 1200000000000000 ffffffffffffffff {PLAIN_CIE} {X86_64_START}
            ffffffff 1800000000000000 0000000000000000 0010000000000000 1000000000000000
            """,
        ),
    ],
    ids=["eh_frame", "debug_frame"],
)
def test_an_fde_of_32_bit_dwarf_has_a_cie_of_32_bit_dwarf(dialect: Dialect, data: str) -> None:
    frames = adds(octets(data), function(0x2000, 8), dialect)
    assert frames.report.cies_added == 1
    assert frames.at(frames.address).startswith(octets(data))


def test_a_segment_selector_needs_a_cie_with_one() -> None:
    wanted = replace(function(0x2000, 8), segment=7)
    without = octets(f"""
        0e000000 ffffffff {PLAIN_CIE} {X86_64_START}
        14000000 00000000 0010000000000000 1000000000000000
    """)
    assert adds(without, wanted, DEBUG_FRAME).report.cies_added == 1


# --- which functions ------------------------------------------------------------------------------------------


def test_an_fde_that_ends_where_a_replacement_starts_keeps_its_slot() -> None:
    outer, inner = Fde(0x1000, 0x100, "00000000"), Fde(0x1010, 8, "00000000")
    section = of_bytes(eh_frame(PLAIN_CIE + X86_64_START, outer, inner))
    frames = edit_cfi(section, X86_64, replace=table(function(0x1018, 8)))
    assert (frames.report.in_place, frames.report.replaced) == (0, 1)
    assert starts_of(read(frames)) == [0x1010, 0x1018]
    before, after = entries(section), entries(moved_to(frames, ADDRESS))
    last = max(before)
    assert after[last] == before[last]


def test_functions_without_bytes_share_no_pc() -> None:
    section = of_bytes(eh_frame(PLAIN_CIE + X86_64_START, Fde(0x1004, 0), Fde(0x2000, 0x10)))
    assert starts_of(read(edit_cfi(section, X86_64, add=table(function(0x1000, 8))))) == [0x1004, 0x2000, 0x1000]
    assert starts_of(read(edit_cfi(section, X86_64, add=table(function(0x2004, 0))))) == [0x1004, 0x2000, 0x2004]
    first = of_bytes(eh_frame(PLAIN_CIE + X86_64_START, Fde(0, 0), Fde(0x2000, 0x10)))
    assert starts_of(read(edit_cfi(first, X86_64, add=table(function(0x1000, 8))))) == [0, 0x2000, 0x1000]


def test_an_fde_that_is_dropped_and_replaced_counts_as_replaced() -> None:
    frames = edit_cfi(of_bytes(ONE), X86_64, drop=[0x1000, 0x1010], replace=table(function(0x1000, 8)))
    assert (frames.report.dropped, frames.report.replaced) == (1, 1)
    assert starts_of(read(frames)) == [0x1000]


def test_only_new_records_are_after_a_terminator() -> None:
    data = ONE + bytes(4) + eh_frame(PLAIN_CIE + X86_64_START, Fde(0x3000, 8, "00000000"))
    for in_place in ({"drop": [0x1000]}, {"replace": table(function(0x3000, 8))}):
        frames = edit_cfi(of_bytes(data), X86_64, **in_place)
        assert (len(frames), frames.report.is_after_terminator) == (len(data), False)
    assert edit_cfi(of_bytes(data), X86_64, add=table(function(0x2000, 8))).report.is_after_terminator


@pytest.mark.parametrize(("missing", "said"), [(10, "0x9"), (11, "0x9 and 1 more")])
def test_ten_pcs_without_an_fde_are_listed(missing: int, said: str) -> None:
    with pytest.raises(BuildError) as caught:
        edit_cfi(of_bytes(ONE), X86_64, drop=range(missing))
    assert caught.value.reason == f"no FDE covers {', '.join(f'{pc:#x}' for pc in range(9))}, {said}"


# --- addresses ------------------------------------------------------------------------------------------------


def x86_section(stored: str, address: int) -> Section:
    """A CIE with "zR": pcrel, sdata4; def_cfa r4 4, offset r8 1. The start of its FDE is stored at 0x20."""
    cie = entry(octets("00000000 01 7a5200 01 7c 08 01 1b 0c0404 8801 0000"))
    assert len(cie) == 0x18
    return Section.of(".eh_frame", cie + entry(octets(f"1c000000 {stored} 10000000 00 000000")), address, "little", 4)


def test_an_address_of_a_32_bit_section_has_32_bits() -> None:
    section, x86 = x86_section("00000000", 0x1000), ARCHITECTURES["x86"]
    frames = edit_cfi(section, x86)
    assert len(frames.at((1 << 32) - 1)) == len(section)
    with pytest.raises(BuildError) as caught:
        frames.at(1 << 32)
    assert place(caught.value) == (".eh_frame", None, "section_address")
    assert caught.value.reason == "0x100000000 is not a 32-bit address"
    with pytest.raises(BuildError, match=r"drop: 0x100000000 is not a 32-bit address"):
        edit_cfi(section, x86, drop=[1 << 32])


def test_starts_of_a_32_bit_section_wrap_around_when_it_moves() -> None:
    """2 GiB after their place is 2 GiB before it."""
    x86 = ARCHITECTURES["x86"]
    frames = edit_cfi(x86_section("00000080", 0x1000), x86)
    (one,) = read(frames)
    assert one.start == 0x1020 + 0x80000000
    assert frames.at(0x1010)[0x20:0x24] == octets("f0ffff7f")
    assert read(frames, 0x1010).function(0).start == one.start
    # A new function, too: -4 GiB and more is within reach.
    added = table_of(x86, [Function(0xFFFFF000, 8, (row(0, on(4, 4), at(8, -4)),), return_column=8)])
    assert starts_of(read(edit_cfi(x86_section("00000000", 0x1000), x86, add=added))) == [0x1020, 0xFFFFF000]


@pytest.mark.parametrize(("stored", "moved"), [("00000000", "00000000"), ("04000000", "fcffffff")])
def test_a_stored_personality_of_0_stays_0(stored: str, moved: str) -> None:
    """It means that there is none."""
    cie = entry(octets(f"00000000 01 7a505200 01 78 10 06 1b {stored} 1b {X86_64_START}"))
    data = cie + entry((len(cie) + 4).to_bytes(4, "little") + octets("00100000 20000000 00"))
    # "zPR": the personality is at 0x12.
    assert edit_cfi(of_bytes(data), X86_64).at(ADDRESS + 8)[0x12:0x16] == octets(moved)


def test_an_aligned_lsda_moves_by_whole_addresses() -> None:
    # The LSDA is at 48, after 7 bytes of padding from 41 on.
    data = with_lsda("50", "00000000000000 0070000000000000")
    frames = edit_cfi(of_bytes(data), X86_64)
    (one,) = read(frames, ADDRESS + 8)
    assert one.lsda == 0x7000
    with pytest.raises(BuildError) as caught:
        frames.at(ADDRESS + 4)
    assert place(caught.value) == (".eh_frame", 0, "CIE[0].augmentation")


# --- 4 GiB ----------------------------------------------------------------------------------------------------

# Lengths from 0xfffffff0 on are reserved (DWARF5 7.4).
LARGEST = 0xFFFFFFEF
TOO_LARGE = "32-bit DWARF reaches 4,294,967,279"


def of_zeros(section: Section, size: int) -> Section:
    """A copy of the section with this many zeros, which take one byte of memory: a view that is not contiguous, which
    no caller may pass."""
    large = replace(section)
    object.__setattr__(large, "data", memoryview(np.broadcast_to(np.zeros(1, np.uint8), size)))
    return large


def test_a_section_holds_less_than_4_gib() -> None:
    refuse_large(".eh_frame", LARGEST)
    with pytest.raises(BuildError) as caught:
        refuse_large(".eh_frame", LARGEST + 1)
    assert place(caught.value) == (".eh_frame", None, "FDE.cie_pointer")
    assert caught.value.reason == f"the section would have 4,294,967,280 bytes, and {TOO_LARGE}"


@pytest.mark.parametrize("dialect", [EH_FRAME, DEBUG_FRAME], ids=lambda one: one.name)
@pytest.mark.parametrize("count", [1, 2])
def test_instructions_of_4_gib_are_refused(count: int, dialect: Dialect) -> None:
    """In one FDE, or together in two. Nothing is allocated for them."""
    nothing, zeros = np.zeros(0, np.uint8), np.zeros(count, np.int64)
    layout = FrameLayout(
        table(*(function(0x1000 * index, 8) for index in range(count))),
        dialect,
        pointer_size=8,
        keys=(CieKey(16, FunctionFlag(0), DW_EH_PE.omit, 0, 0, 1, -8),),
        function=np.arange(count),
        cie=zeros,
        stream=np.arange(count),
        streams=EncodedStreams(nothing, zeros, zeros + (LARGEST + 1) // count),
        initial_instructions=EncodedStreams(nothing, zeros[:1], zeros[:1]),
    )
    with at_most_allocated(1 << 24), pytest.raises(BuildError) as caught:
        lay_out_fdes(layout, 24, np.zeros(1, np.int64))
    assert place(caught.value) == (dialect.name, None, "FDE.cie_pointer")
    assert caught.value.reason.endswith(TOO_LARGE)


def test_an_edited_section_does_not_grow_to_4_gib() -> None:
    records = read_records(of_bytes(b""), EH_FRAME, X86_64)
    # A CIE of 24 bytes and an FDE of 20.
    large = replace(records, section=of_zeros(records.section, LARGEST + 1 - 44))
    with at_most_allocated(1 << 24), pytest.raises(BuildError, match="would have 4,294,967,280 bytes"):
        change_records(large, np.zeros(0, np.bool_), table(function(0x9000, 4)), np.array([NO_SLOT]), 0)


def test_merged_sections_do_not_grow_to_4_gib() -> None:
    data = eh_frame(PLAIN_CIE + X86_64_START)
    records = read_records(of_bytes(data), EH_FRAME, X86_64)
    # One record up to the end of the section.
    large = replace(records, section=of_zeros(records.section, LARGEST + 1 - len(data)))
    with at_most_allocated(1 << 24), pytest.raises(BuildError, match="would have 4,294,967,280 bytes") as caught:
        concatenate_records([records, large], ADDRESS)
    assert place(caught.value) == (".eh_frame", None, "FDE.cie_pointer")
