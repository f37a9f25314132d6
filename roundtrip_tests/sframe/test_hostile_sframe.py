"""Hostile `.sframe` sections: each fault gives ParseError with section, offset and record, on both engines."""

from __future__ import annotations

import pytest
from unwindkit import BuildError, ParseError, by_pc, from_sframe
from unwindkit.schemas import engine
from unwindkit.schemas.section import Section
from unwindkit.schemas.sframe import FrameRowEntry, Header, SframeSection

from ..support.handmade import NO_CFA, at, octets, place, row, sp, starts

pytestmark = pytest.mark.usefixtures("kernels")

# One function of 16 bytes at 0x1000 (section at 0) with two FREs; each case changes some of its bytes.
GOOD = octets("""
    e2de 02 05    # 0: magic, version, flags: sorted, PC-relative
    03 00 f8 00   # 4: AMD64, fixed FP and RA offsets, no auxiliary header
    01000000      # 8: num_fdes
    02000000      # 12: num_fres
    06000000      # 16: fre_len
    00000000      # 20: fdeoff
    14000000      # 24: freoff
    e40f0000      # 28: func_start_address
    10000000      # 32: func_size
    00000000      # 36: func_start_fre_off
    02000000      # 40: func_num_fres
    00 00 0000    # 44: func_info, func_rep_size, func_padding2
    00 03 08      # 48
    04 03 10      # 51
""")


def changed(offset: int, text: str) -> bytes:
    """The good section with some bytes replaced."""
    new = octets(text)
    return GOOD[:offset] + new + GOOD[offset + len(new) :]


def refused(data: bytes) -> ParseError:
    """The error that reading gives."""
    with pytest.raises(ParseError) as caught:
        from_sframe(data)
    return caught.value


def test_the_section_that_the_cases_change_is_good() -> None:
    (function,) = from_sframe(GOOD)
    assert function.rows == (row(0, sp(8), at(16, -8)), row(4, sp(16), at(16, -8)))


@pytest.mark.parametrize("size", range(len(GOOD)))
def test_section_cut_anywhere(size: int) -> None:
    error = refused(GOOD[:size])
    expected = (
        "preamble" if size < 4 else "header" if size < 28 else "header.num_fdes" if size < 48 else "header.fre_len"
    )
    assert place(error) == (".sframe", 0, expected)


HEADERS = [
    (0, "e2df", 0, "header.magic", "e2df is not 0xdee2"),
    (0, "0000", 0, "header.magic", "0000 is not 0xdee2"),
    (2, "00", 2, "header.version", "unknown version 0, expected one of 1, 2, 3"),
    (2, "04", 2, "header.version", "unknown version 4, expected one of 1, 2, 3"),
    (2, "ff", 2, "header.version", "unknown version 255, expected one of 1, 2, 3"),
    # Version 1 has no PC-relative starts.
    (2, "01", 3, "header.flags", "has the bits 0x4, which version 1 does not define"),
    (3, "0d", 3, "header.flags", "has the bits 0x8, which version 2 does not define"),
    (3, "85", 3, "header.flags", "has the bits 0x80, which version 2 does not define"),
    (4, "00", 4, "header.abi_arch", "unknown ABI 0"),
    (4, "05", 4, "header.abi_arch", "unknown ABI 5"),
    (4, "04", 4, "header.abi_arch", "is the ABI of s390x, but the section is little-endian"),
    (5, "f0", 5, "header.cfa_fixed_fp_offset", "is -16, expected 0 for x86_64"),
    (6, "00", 6, "header.cfa_fixed_ra_offset", "is 0, expected -8 for x86_64"),
    (7, "ff", 0, "header.num_fdes", "the sub-section ends at 0x12f, the section at 0x36"),
    (8, "ffffffff", 0, "header.num_fdes", "the sub-section ends at 0x1400000008, the section at 0x36"),
    # 20 * 0xcccccccd is 4 modulo 2**32
    (8, "cdcccccc", 0, "header.num_fdes", "the sub-section ends at 0x1000000020, the section at 0x36"),
    (16, "07000000", 0, "header.fre_len", "the sub-section ends at 0x37, the section at 0x36"),
    (16, "ffffffff", 0, "header.fre_len", "the sub-section ends at 0x10000002f, the section at 0x36"),
    (20, "ffffffff", 0, "header.num_fdes", "the sub-section ends at 0x10000002f, the section at 0x36"),
    (24, "ffffffff", 0, "header.fre_len", "the sub-section ends at 0x100000021, the section at 0x36"),
]


@pytest.mark.parametrize(("where", "text", "offset", "record", "reason"), HEADERS)
def test_header_that_lies(where: int, text: str, offset: int, record: str, reason: str) -> None:
    error = refused(changed(where, text))
    assert place(error) == (".sframe", offset, record)
    assert error.reason == reason


FDES = [
    pytest.param(
        36,
        "06000000",
        "func_start_fre_off",
        "is past the end of the FRE sub-section of 0x6 bytes",
        id="FREs at the end",
    ),
    pytest.param(
        36, "ffffffff", "func_start_fre_off", "is past the end of the FRE sub-section of 0x6 bytes", id="FREs far out"
    ),
    pytest.param(44, "03", "func_info.fretype", "unknown FRE type", id="FRE type 3"),
    pytest.param(44, "0f", "func_info.fretype", "unknown FRE type", id="FRE type 15"),
    pytest.param(44, "10", "func_rep_size", "the repetitive block has no bytes", id="PCMASK without a block"),
]


@pytest.mark.parametrize(("where", "text", "field", "reason"), FDES)
def test_fde_that_lies(where: int, text: str, field: str, reason: str) -> None:
    error = refused(changed(where, text))
    assert place(error) == (".sframe", 28, f"FDE[0].{field}")
    assert error.reason == reason


def test_function_that_reaches_past_the_address_space() -> None:
    address = 0xFFFFFFFFFFFFFFF0 - 0x1000
    assert from_sframe(changed(32, "0f000000"), address).function(0).start == 0xFFFFFFFFFFFFFFF0
    with pytest.raises(ParseError) as caught:
        from_sframe(changed(32, "10000000"), address)
    assert place(caught.value) == (".sframe", 28, "FDE[0].func_size")


FRES = [
    pytest.param(40, "03000000", 54, "the record ends inside a value", id="one FRE more than there is"),
    pytest.param(44, "02", 54, "the record ends inside a value", id="wider starts than written"),
    pytest.param(49, "00", 48, "this version does not allow this number of data words", id="no offsets"),
    # Offsets after the third have no meaning, and are read over.
    pytest.param(49, "09", 54, "the record ends inside a value", id="four offsets, which take the next FRE's bytes"),
    pytest.param(49, "1f", 48, "the record ends inside a value", id="fifteen offsets"),
    pytest.param(49, "63", 48, "3 is not a valid size of stack offsets", id="size 3"),
    pytest.param(52, "43", 51, "the record ends inside a value", id="offset of four bytes in one"),
    pytest.param(51, "00", 51, "the start address is not above that of the previous FRE", id="the same start twice"),
    pytest.param(48, "05", 51, "the start address is not above that of the previous FRE", id="descending starts"),
]


@pytest.mark.parametrize(("where", "text", "offset", "reason"), FRES)
def test_fre_that_lies(where: int, text: str, offset: int, reason: str) -> None:
    error = refused(changed(where, text))
    assert place(error) == (".sframe", offset, "FDE[0].FRE")
    assert error.reason == reason


def test_more_fres_than_bytes() -> None:
    error = refused(changed(40, "ffffffff"))
    assert place(error) == (".sframe", None, "header.num_fdes")
    assert error.reason == "FDEs refer to 4294967295 FREs in a sub-section of 6 bytes (--raise-limits)"


TWO = octets("""
    e2de 02 05 03 00 f8 00  02000000 01000000 03000000 00000000 28000000
    e40f0000 10000000 00000000 01000000 00 00 0000   # 0x1000
    cf0f0000 10000000 00000000 01000000 00 00 0000   # 0xfff: from 0x30
    00 03 08
""")


def test_unsorted_under_the_sorted_flag() -> None:
    error = refused(TWO)
    assert place(error) == (".sframe", 48, "FDE[1].func_start_address")
    assert error.reason == "is below the one before, but the section is flagged as sorted"
    unflagged = TWO[:3] + b"\x04" + TWO[4:]
    assert [function.start for function in from_sframe(unflagged)] == [0x1000, 0xFFF]


def test_overlapping_fdes_belong_to_the_first() -> None:
    found = by_pc(from_sframe(TWO[:3] + b"\x04" + TWO[4:]))
    assert [(int(start), int(end)) for start, end in zip(found.start, found.end, strict=True)] == [(0xFFF, 0x1010)]


def test_function_of_size_0_covers_nothing() -> None:
    table = from_sframe(changed(32, "00000000"))
    assert [starts(function.rows) for function in table] == [[0]]
    assert len(by_pc(table).start) == 0


def test_fre_past_the_function_is_cut() -> None:
    (function,) = from_sframe(changed(51, "ff"))
    assert starts(function.rows) == [0]


def test_pcs_before_the_first_fre_have_no_rules() -> None:
    (function,) = from_sframe(changed(48, "02"))
    assert function.rows[0] == row(0, NO_CFA)
    assert by_pc(from_sframe(changed(48, "02"))).start.tolist() == [0x1002, 0x1004]


def test_repetitive_block_over_gigabytes_is_not_laid_out() -> None:
    table = from_sframe(changed(32, "ffffffff 00000000 02000000 10 01"))
    assert table.function(0).repetition == 1
    with pytest.raises(ParseError, match="repetitive blocks"):
        by_pc(table)


@pytest.mark.parametrize("address", [-1, 1 << 64])
def test_section_address_that_is_none(address: int) -> None:
    with pytest.raises(ParseError, match="is not an address"):
        from_sframe(GOOD, address)


@pytest.mark.parametrize(
    ("where", "text", "field"),
    [
        (0, "0000", "header.magic"),
        (2, "04", "header.version"),
        (4, "09", "header.abi_arch"),
        (8, "ffffffff", "fdes.func_size"),
        (7, "ff", "auxiliary_header"),
        (16, "ffffffff", "fres"),
        (20, "ffffffff", "before_fdes"),
        (24, "00000000", "before_fres"),
    ],
)
def test_reference_engine_names_the_field(where: int, text: str, field: str) -> None:
    data = changed(where, text)
    with pytest.raises(ParseError) as caught:
        engine.parse(SframeSection, Section.of(".sframe", data), 0, len(data))
    assert caught.value.record == f"SframeSection.{field}"


@pytest.mark.parametrize(
    ("text", "field"), [("00 63", "offsets"), ("00 43 000000", "offsets"), ("00", "info"), ("", "start_address")]
)
def test_reference_engine_refuses_a_broken_fre(text: str, field: str) -> None:
    data = octets(text)
    with pytest.raises(ParseError) as caught:
        engine.parse(FrameRowEntry, Section.of(".sframe", data), 0, len(data), fretype=0)
    assert caught.value.record == f"FrameRowEntry.{field}"


@pytest.mark.parametrize("value", [-129, 128])
def test_value_beyond_its_field_is_not_built(value: int) -> None:
    with pytest.raises(BuildError) as caught:
        engine.build(Header(0xDEE2, 2, 0, 3, value, -8, 0, 0, 0, 0, 0, 0))
    assert caught.value.record == "Header.cfa_fixed_fp_offset"
