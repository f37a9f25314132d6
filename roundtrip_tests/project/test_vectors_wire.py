"""Numbers, lengths and pointers on the wire: bytes worked out by hand from the texts.

DWARF5 7.6 (LEB128, tables 7.7 and 7.8), 7.4 (initial lengths); LSB Core, Exception Frames (DW_EH_PE).
"""

from __future__ import annotations

import pytest
from unwindkit import BuildError, ParseError
from unwindkit.schemas import cfi_sections, engine
from unwindkit.schemas.cfi import EH_FRAME, Fde, PersonalityPointer
from unwindkit.schemas.eh_frame_hdr import EhFrameHdr
from unwindkit.schemas.initial_length import build_initial_length, parse_initial_length
from unwindkit.schemas.pointers import DW_EH_PE, PointerBases, resolve, store
from unwindkit.schemas.section import ByteOrder, Section
from unwindkit.schemas.wire import SLEB, ULEB, DwarfFormat, Leb128, leb_block, record, sleb, uleb, wire

from ..support import handmade
from ..support.handmade import ENCODED_CIE, PLAIN_CIE, octets, only, place, rows_of, table_of_bytes


@record
class Unsigned:
    value: Leb128 = wire(ULEB, "an unsigned LEB128")


@record
class Signed:
    value: Leb128 = wire(SLEB, "a signed LEB128")


UNSIGNED = [
    # DWARF5 table 7.7
    (2, "02"),
    (127, "7f"),
    (128, "80 01"),
    (129, "81 01"),
    (130, "82 01"),
    (12857, "b9 64"),
    (0, "00"),
    (0xFFFF_FFFF_FFFF_FFFF, "ff ff ff ff ff ff ff ff ff 01"),  # the longest that is not padded
]
SIGNED = [
    # DWARF5 table 7.8
    (2, "02"),
    (-2, "7e"),
    (127, "ff 00"),
    (-127, "81 7f"),
    (128, "80 01"),
    (-128, "80 7f"),
    (129, "81 01"),
    (-129, "ff 7e"),
    (0, "00"),
    (-1, "7f"),
    (63, "3f"),
    (64, "c0 00"),
    (-64, "40"),
    (-65, "bf 7f"),
    (0x7FFF_FFFF_FFFF_FFFF, "ff ff ff ff ff ff ff ff ff 00"),
    (-0x8000_0000_0000_0000, "80 80 80 80 80 80 80 80 80 7f"),
]
PADDED = [
    (Unsigned, 0, "80 80 00"),
    (Unsigned, 5, "85 80 80 80 80 80 80 80 80 80 80 00"),  # twelve bytes, of which five hold the value
    (Signed, 0, "80 80 00"),
    (Signed, -1, "ff ff 7f"),
    (Signed, -2, "fe ff ff ff ff ff ff ff ff ff ff 7f"),
    (Signed, 1, "81 00"),
]
TOO_LONG = [
    (Unsigned, "80 80 80 80 80 80 80 80 80 02"),  # 2**64
    (Unsigned, "80 80 80 80 80 80 80 80 80 80 01"),  # 2**70
    (Signed, "80 80 80 80 80 80 80 80 80 01"),  # 2**63
    (Signed, "ff ff ff ff ff ff ff ff ff 7e"),  # below -2**63
    (Signed, "80 80 80 80 80 80 80 80 80 80 7f"),  # eleven groups, the eleventh is no sign of the tenth
    (Unsigned, "80"),  # cut
    (Signed, "ff ff"),
    (Unsigned, ""),
]


@pytest.mark.parametrize(("value", "text"), UNSIGNED)
def test_unsigned_leb128_of_the_table(value: int, text: str) -> None:
    data = octets(text)
    assert engine.parse(Unsigned, Section.of("test", data), 0, len(data)) == (Unsigned(uleb(value)), len(data))
    assert engine.build(Unsigned(uleb(value))) == data


@pytest.mark.parametrize(("value", "text"), SIGNED)
def test_signed_leb128_of_the_table(value: int, text: str) -> None:
    data = octets(text)
    assert engine.parse(Signed, Section.of("test", data), 0, len(data)) == (Signed(sleb(value)), len(data))
    assert engine.build(Signed(sleb(value))) == data


@pytest.mark.parametrize(("cls", "value", "text"), PADDED)
def test_padded_leb128_keeps_its_width(cls: type[Unsigned] | type[Signed], value: int, text: str) -> None:
    data = octets(text)
    number = cls(Leb128(value, len(data)))
    assert engine.parse(cls, Section.of("test", data), 0, len(data)) == (number, len(data))
    assert engine.build(number) == data


@pytest.mark.parametrize(("cls", "text"), TOO_LONG)
def test_leb128_that_is_cut_or_beyond_64_bits_is_refused(cls: type, text: str) -> None:
    data = octets(text)
    with pytest.raises(ParseError) as caught:
        engine.parse(cls, Section.of("test", data), 0, len(data))
    assert caught.value.record == f"{cls.__name__}.value"


def test_leb128_too_wide_for_its_width_is_not_built() -> None:
    for number in (Unsigned(Leb128(128, 1)), Unsigned(Leb128(-1, 1)), Signed(Leb128(64, 1)), Signed(Leb128(-65, 1))):
        with pytest.raises(BuildError):
            engine.build(number)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("value", "text"),
    [case for case in UNSIGNED if case[0] < 1 << 61] + [(v, t) for c, v, t in PADDED if c is Unsigned],
)
def test_kernels_read_unsigned_leb128(value: int, text: str) -> None:
    (row,) = rows_of(f"0d 07  0e {text}")  # def_cfa_register r7, def_cfa_offset
    assert row.cfa == handmade.sp(value)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("value", "text"),
    [case for case in SIGNED if abs(case[0]) < 1 << 61] + [(v, t) for c, v, t in PADDED if c is Signed],
)
def test_kernels_read_signed_leb128(value: int, text: str) -> None:
    (row,) = rows_of(f"0d 07  13 {text}")  # def_cfa_register r7, def_cfa_offset_sf in units of -8
    assert row.cfa == handmade.sp(-8 * value)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("cls", "text"), TOO_LONG)
def test_kernels_refuse_what_the_reference_engine_refuses(cls: type, text: str) -> None:
    opcode = "2e" if cls is Unsigned else "13"
    with pytest.raises(ParseError) as caught:
        rows_of(f"00 {opcode} {text}")
    # CIE 4 + 4 + 5 bytes, FDE header 4 + 4 + 8 + 8, one nop
    assert place(caught.value) == (".eh_frame", 38, "FDE[0].instructions")


LENGTHS = [
    ("little", "05000000  0000000000", DwarfFormat.DWARF32, 5, 4),
    ("big", "00000005  0000000000", DwarfFormat.DWARF32, 5, 4),
    ("little", "ffffffff 0300000000000000  000000", DwarfFormat.DWARF64, 3, 12),
    ("big", "ffffffff 0000000000000003  000000", DwarfFormat.DWARF64, 3, 12),
    ("little", "00000000", DwarfFormat.DWARF32, 0, 4),
]


@pytest.mark.parametrize(("order", "text", "dwarf_format", "length", "start"), LENGTHS)
def test_initial_length(order: ByteOrder, text: str, dwarf_format: DwarfFormat, length: int, start: int) -> None:
    data = octets(text)
    section = Section.of("test", data, 0, order)
    assert parse_initial_length(section, 0, "entry") == (dwarf_format, length, start)
    assert build_initial_length(dwarf_format, length, order) == data[:start]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("f0ffffff", "0xfffffff0 is a reserved initial length"),
        ("feffffff", "0xfffffffe is a reserved initial length"),
        ("0100", "4 bytes needed, 2 left"),
        ("ffffffff 01000000", "12 bytes needed, 8 left"),
        ("05000000 00000000", "0x5 bytes reach past the section's end at 0x8"),
        ("ffffffff ffffffffffffffff 00", "0xffffffffffffffff bytes reach past the section's end at 0xd"),
    ],
)
def test_initial_length_that_lies(text: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_initial_length(Section.of("test", octets(text)), 0, "entry")
    assert str(caught.value) == f"test+0x0: entry.length: {reason}"


def test_length_beyond_32_bits_needs_64_bit_dwarf() -> None:
    assert build_initial_length(DwarfFormat.DWARF32, 0xFFFFFFEF, "little") == octets("ef ff ff ff")
    with pytest.raises(BuildError, match="0xfffffff0 needs 64-bit DWARF"):
        build_initial_length(DwarfFormat.DWARF32, 0xFFFFFFF0, "little")


FORMATS = [
    (DW_EH_PE.absptr, "8877665544332211", 0x1122334455667788),
    (DW_EH_PE.uleb128, "b964", Leb128(12857, 2)),
    (DW_EH_PE.udata2, "feff", 0xFFFE),
    (DW_EH_PE.udata4, "feffffff", 0xFFFFFFFE),
    (DW_EH_PE.udata8, "feffffffffffffff", 0xFFFFFFFFFFFFFFFE),
    (DW_EH_PE.signed, "feffffffffffffff", -2),
    (DW_EH_PE.sleb128, "ff7e", Leb128(-129, 2)),
    (DW_EH_PE.sdata2, "feff", -2),
    (DW_EH_PE.sdata4, "feffffff", -2),
    (DW_EH_PE.sdata8, "feffffffffffffff", -2),
    (DW_EH_PE.omit, "", None),
    (DW_EH_PE.indirect | DW_EH_PE.pcrel | DW_EH_PE.sdata4, "01000000", 1),  # as stored: nothing is added
]


@pytest.mark.parametrize(("encoding", "text", "stored"), FORMATS)
def test_pointer_format(encoding: int, text: str, stored: int | Leb128 | None) -> None:
    data = bytes([encoding]) + octets(text)
    pointer = PersonalityPointer(encoding, stored)
    assert engine.parse(PersonalityPointer, Section.of("test", data), 0, len(data)) == (pointer, len(data))
    assert engine.build(pointer) == data


@pytest.mark.parametrize("encoding", [0x05, 0x07, 0x0D, 0x0F, 0x60, 0x70, 0x7B])
def test_pointer_encoding_that_no_text_defines(encoding: int) -> None:
    with pytest.raises(ParseError, match=f"the pointer encoding {encoding:#04x} is not defined"):
        engine.parse(PersonalityPointer, Section.of("test", bytes([encoding]) + bytes(16)), 0, 17)


@pytest.mark.parametrize(
    ("encoding", "stored", "address"),
    [
        (DW_EH_PE.absptr, 0x40, 0x40),
        (DW_EH_PE.pcrel | DW_EH_PE.sdata4, -0x40, 0x2000 - 0x40),
        (DW_EH_PE.textrel | DW_EH_PE.udata4, 0x40, 0x100040),
        (DW_EH_PE.datarel | DW_EH_PE.sdata4, -0x40, 0x200000 - 0x40),
        (DW_EH_PE.funcrel | DW_EH_PE.uleb128, 0x40, 0x300040),
        (DW_EH_PE.aligned, 0x40, 0x40),
        (DW_EH_PE.pcrel | DW_EH_PE.sdata4, -0x2001, 0xFFFFFFFF),  # modulo the address size
    ],
)
def test_pointer_application(encoding: int, stored: int, address: int) -> None:
    bases = PointerBases(text=0x100000, data=0x200000, function=0x300000)
    assert resolve(stored, encoding, 0x2000, bases, 4) == address
    assert store(address, encoding, 0x2000, bases, 4) == stored


# An FDE after a CIE of 20 bytes, in a section at 0x10000: the location is at 0x1001c. Each line: the
# encoding, the location as stored, the range as stored (unsigned, nothing added), the start that it means.
LOCATIONS = [
    (0x00, "0040000000000000", "1000000000000000", 0x4000),
    (0x01, "808001", "10", 0x4000),
    (0x02, "0040", "f0ff", 0x4000),
    (0x03, "00400000", "10000000", 0x4000),
    (0x04, "0040000000000000", "1000000000000000", 0x4000),
    (0x08, "00f0ffffffffffff", "1000000000000000", 0xFFFFFFFFFFFFF000),
    (0x09, "8060", "10", 0xFFFFFFFFFFFFF000),
    (0x0A, "00f0", "1000", 0xFFFFFFFFFFFFF000),
    (0x0B, "00f0ffff", "10000000", 0xFFFFFFFFFFFFF000),
    (0x0C, "00f0ffffffffffff", "1000000000000000", 0xFFFFFFFFFFFFF000),
    (0x10, "0040000000000000", "1000000000000000", 0x1401C),
    (0x1B, "00f0ffff", "10000000", 0xF01C),
    (0x1A, "00f0", "1000", 0xF01C),
    (0x19, "8060", "10", 0xF01C),
    (0x11, "808001", "10", 0x1401C),
    (0x23, "00400000", "10000000", 0x4000),  # textrel and datarel are relative to 0, as in readelf
    (0x3B, "00400000", "10000000", 0x4000),
    (0x43, "00400000", "10000000", 0x4000),  # funcrel: no function yet
    (0x50, "00000000 0040000000000000", "1000000000000000", 0x4000),  # aligned: four bytes up to 0x10020
]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("encoding", "location", "size", "start"), LOCATIONS)
def test_location_of_an_fde_in_every_encoding(encoding: int, location: str, size: str, start: int) -> None:
    cie = octets(f"10000000 00000000 {ENCODED_CIE} {encoding:02x} 000000")  # length 16, id; three nops
    fde = octets(f"18000000  {location} {size} 00")  # CIE pointer, no augmentation data
    data = cie + handmade.entry(fde)
    function = only(table_of_bytes(data, address=0x10000))
    assert (function.start, function.size) == (start, 0xFFF0 if size == "f0ff" else 0x10)
    section = Section.of(".eh_frame", data, 0x10000)
    assert cfi_sections.build_section(cfi_sections.parse_section(section, EH_FRAME), EH_FRAME, section) == data


@pytest.mark.usefixtures("kernels")
def test_location_in_big_endian_bytes() -> None:
    data = handmade.eh_frame(PLAIN_CIE, handmade.Fde(0x1122334455667788, 0x10), byte_order="big")
    assert only(table_of_bytes(data, "s390x", byte_order="big")).start == 0x1122334455667788


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("address_size", "location", "start"),
    [(2, "00f0 1000", 0xF000), (4, "00f00000 10000000", 0xF000), (8, "00f0000000000000 1000000000000000", 0xF000)],
)
def test_addresses_have_the_size_that_a_version_4_cie_says(address_size: int, location: str, start: int) -> None:
    cie = handmade.entry(octets(f"00000000 04 00 {address_size:02x} 00 01 78 10"))  # version 4, no augmentation
    fde = octets(f"{len(cie) + 4:02x}000000 {location}")
    function = only(table_of_bytes(cie + handmade.entry(fde)))
    assert (function.start, function.size) == (start, 0x10)


def test_aligned_pointer_counts_from_the_address_not_from_the_section() -> None:
    fde = octets("18000000 0000 0040000000000000 1000000000000000 00")  # two bytes up to 0x10020
    data = octets(f"10000000 00000000 {ENCODED_CIE} 50 000000") + handmade.entry(fde)
    section = Section.of(".eh_frame", data, 0x10002)
    (_, _), (_, found) = cfi_sections.parse_section(section, EH_FRAME)
    assert isinstance(found, Fde)
    assert (found.initial_location, found.address_range) == (0x4000, 0x10)
    assert found.augmentation_data == leb_block(b"")
    assert cfi_sections.build_section(cfi_sections.parse_section(section, EH_FRAME), EH_FRAME, section) == data


def test_bytes_before_an_aligned_pointer_are_zero() -> None:
    fde = octets("18000000 0001 0040000000000000 1000000000000000 00")
    data = octets(f"10000000 00000000 {ENCODED_CIE} 50 000000") + handmade.entry(fde)
    with pytest.raises(ParseError, match="the padding of an aligned pointer is not zero"):
        cfi_sections.parse_section(Section.of(".eh_frame", data, 0x10002), EH_FRAME)


EH_FRAME_HDR = octets("""
    01           # version
    1b           # eh_frame_ptr_enc: pcrel sdata4
    03           # fde_count_enc: udata4
    3b           # table_enc: datarel sdata4
    34000000     # eh_frame_ptr
    02000000     # fde_count
    00f0ffff 4c000000  # initial location -0x1000, FDE at 0x4c, both from this section's start
    20000000 64000000
    0000         # behind the table
""")


def test_eh_frame_hdr() -> None:
    expected = EhFrameHdr(1, 0x1B, 0x03, 0x3B, 0x34, 2, (-0x1000, 0x4C, 0x20, 0x64), b"\0\0")
    section = Section.of(".eh_frame_hdr", EH_FRAME_HDR, 0x2000)
    assert engine.parse(EhFrameHdr, section, 0, len(section)) == (expected, len(EH_FRAME_HDR))
    assert engine.build(expected) == EH_FRAME_HDR


def test_eh_frame_hdr_without_a_table() -> None:
    data = octets("01 1b ff ff 34000000")  # count and table omitted, as ld does if it cannot sort
    expected = EhFrameHdr(1, 0x1B, 0xFF, 0xFF, 0x34, None, (), b"")
    assert engine.parse(EhFrameHdr, Section.of(".eh_frame_hdr", data), 0, 8) == (expected, 8)
    assert engine.build(expected) == data
