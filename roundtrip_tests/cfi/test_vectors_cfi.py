"""CIE, FDE and every call frame instruction, byte for byte (DWARF5 6.4, 7.24; LSB Core 10.6.1)."""

from __future__ import annotations

import pytest
from unwindkit import BuildError, ParseError
from unwindkit.schemas import cfi_sections, cies
from unwindkit.schemas.cfi import (
    DEBUG_FRAME,
    DW_CFA,
    EH_FRAME,
    INSTRUCTIONS,
    Cie,
    Dialect,
    Entry,
    Fde,
    Instruction,
    Terminator,
)
from unwindkit.schemas.cies import Augmentation
from unwindkit.schemas.pointers import DW_EH_PE
from unwindkit.schemas.section import ByteOrder, Section
from unwindkit.schemas.wire import DwarfFormat, Leb128, LebBlock, leb_block, sleb, uleb

from ..support.handmade import octets, place

DWARF32, DWARF64 = DwarfFormat.DWARF32, DwarfFormat.DWARF64


def holds(
    text: str, dialect: Dialect, *expected: tuple[int, Entry], order: ByteOrder = "little", address_size: int = 8
) -> Section:
    """Both directions: the bytes parse to the entries, and the entries build to the bytes."""
    data = octets(text)
    section = Section.of(dialect.name, data, 0, order, address_size)
    found = cfi_sections.parse_section(section, dialect)
    assert found == expected
    assert cfi_sections.build_section(found, dialect, section) == data
    return section


def test_eh_frame_version_1_with_zr() -> None:
    start = octets("0c0708 9001 0000")
    cie = Cie(DWARF32, 1, b"zR", None, None, None, uleb(1), sleb(-8), 16, leb_block(b"\x1b"), start)
    fde = Fde(DWARF32, 0x1C, None, -0x100, 0x20, leb_block(b""), octets("41 0e10 00000000"))
    holds(
        """
        14000000     # length 20
        00000000     # CIE id
        01           # version
        7a5200       # "zR"
        01           # code alignment factor 1
        78           # data alignment factor -8
        10           # return address register 16
        01 1b        # one byte of augmentation data: pcrel sdata4
        0c0708       # def_cfa r7+8
        9001         # offset r16 1
        0000         # nop, nop
        14000000     # length 20
        1c000000     # CIE pointer: 28 back from 28
        00ffffff     # initial location -0x100
        20000000     # address range 32
        00           # no augmentation data
        41           # advance_loc 1
        0e10         # def_cfa_offset 16
        00000000     # four nops
        00000000     # terminator
        """,
        EH_FRAME,
        (0, cie),
        (24, fde),
        (48, Terminator()),
    )


def test_eh_frame_with_zplr() -> None:
    data = LebBlock(octets("9b 10000000 1b 1b"), 1)
    cie = Cie(DWARF32, 1, b"zPLR", None, None, None, uleb(1), sleb(-8), 16, data, b"")
    fde = Fde(DWARF32, 0x1D, None, 0x40, 0x20, leb_block(octets("80000000")), b"")
    section = holds(
        """
        15000000     # length 21
        00000000     # CIE id
        01           # version
        7a504c5200   # "zPLR"
        01 78 10     # factors 1 and -8, return address register 16
        07           # seven bytes of augmentation data
        9b 10000000  # personality: indirect pcrel sdata4
        1b           # LSDA encoding
        1b           # address encoding
        11000000     # length 17
        1d000000     # CIE pointer: 29 back from 29
        40000000     # initial location
        20000000     # address range
        04 80000000  # four bytes of augmentation data: the LSDA
        """,
        EH_FRAME,
        (0, cie),
        (25, fde),
    )
    augmentation = cies.parse_augmentation(cie, section, 0)
    assert augmentation == Augmentation(
        fde_encoding=0x1B, lsda_encoding=0x1B, personality_encoding=0x9B, personality=0x10, personality_offset=19
    )
    lsda = cfi_sections.parse_lsda(fde, section, 42, cies.fde_format(cie, augmentation, section))
    assert lsda is not None
    assert lsda.lsda == 0x80


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("7a525300", Augmentation(fde_encoding=0x1B, is_signal_frame=True)),  # "zRS"
        ("7a524200", Augmentation(fde_encoding=0x1B, has_b_key=True)),  # "zRB"
        ("7a524700", Augmentation(fde_encoding=0x1B, has_memory_tagging=True)),  # "zRG"
        ("7a527800", Augmentation(fde_encoding=0x1B, unknown=b"x")),  # "zRx": R was read, x is unknown
        ("7a785200", Augmentation(unknown=b"xR")),  # "zxR": the position of R's byte is unknown
    ],
)
def test_augmentation_letters(letters: str, expected: Augmentation) -> None:
    body = octets(f"00000000 01 {letters} 01 7c 1e 01 1b")
    section = Section.of(".eh_frame", len(body).to_bytes(4, "little") + body)
    assert cies.parse_augmentation(cies.parse_cie(section, 0, EH_FRAME), section, 0) == expected


def test_eh_augmentation_has_an_address_before_the_factors() -> None:
    cie = Cie(DWARF32, 1, b"eh", 0x11223344, None, None, uleb(1), sleb(-4), 8, None, b"")
    holds(
        """
        0f000000     # length 15
        00000000 01  # CIE id, version
        656800       # "eh"
        44332211     # EH data
        01 7c 08     # factors 1 and -4, return address register 8
        """,
        EH_FRAME,
        (0, cie),
        address_size=4,
    )


def test_debug_frame_version_3_has_a_leb_return_register() -> None:
    cie = Cie(DWARF32, 3, b"", None, None, None, uleb(4), sleb(-8), Leb128(200, 2), None, octets("00"))
    fde = Fde(DWARF32, 0, None, 0x1000, 0x10, None, octets("41"))
    holds(
        """
        0000000b     # length 11
        ffffffff     # CIE id
        03 00        # version, no augmentation
        04 78        # factors 4 and -8
        c801         # return address register 200
        00           # nop
        0000000d     # length 13
        00000000     # CIE pointer: a section offset
        00001000     # initial location
        00000010     # address range
        41           # advance_loc 1
        """,
        DEBUG_FRAME,
        (0, cie),
        (15, fde),
        order="big",
        address_size=4,
    )


def test_debug_frame_version_4_has_address_and_selector_sizes() -> None:
    cie = Cie(DWARF32, 4, b"", None, 4, 2, uleb(1), sleb(-8), uleb(16), None, b"")
    fde = Fde(DWARF32, 4, 0x1234, 0x1000, 0x10, None, b"")
    holds(
        """
        00000000     # terminator (padding between units)
        0b000000     # length 11
        ffffffff     # CIE id
        04 00        # version, no augmentation
        04 02        # addresses of 4 bytes, selectors of 2
        01 78 10     # factors 1 and -8, return address register 16
        0e000000     # length 14
        04000000     # CIE pointer
        3412         # segment selector
        00100000     # initial location
        10000000     # address range
        """,
        DEBUG_FRAME,
        (0, Terminator()),
        (4, cie),
        (19, fde),
    )


def test_64_bit_dwarf_in_debug_frame() -> None:
    cie = Cie(DWARF64, 3, b"", None, None, None, uleb(1), sleb(-8), uleb(16), None, b"")
    fde = Fde(DWARF64, 0, None, 0x1000, 0x10, None, b"")
    holds(
        """
        ffffffff 0d00000000000000  # 64-bit DWARF, length 13
        ffffffffffffffff           # CIE id of eight bytes
        03 00 01 78 10             # version, no augmentation, factors 1 and -8, return address register 16
        ffffffff 1800000000000000  # length 24
        0000000000000000           # CIE pointer
        0010000000000000           # initial location
        1000000000000000           # address range
        """,
        DEBUG_FRAME,
        (0, cie),
        (25, fde),
    )


def test_64_bit_length_in_eh_frame_keeps_an_id_of_four_bytes() -> None:
    cie = Cie(DWARF64, 1, b"", None, None, None, uleb(1), sleb(-8), 16, None, b"")
    fde = Fde(DWARF64, 0x21, None, 0x1000, 0x10, None, b"")
    holds(
        """
        ffffffff 0900000000000000  # 64-bit DWARF, length 9
        00000000                   # CIE id of four bytes
        01 00 01 78 10             # version, no augmentation, factors 1 and -8, return address register 16
        ffffffff 1400000000000000  # length 20
        21000000                   # CIE pointer: 33 back from 33
        0010000000000000           # initial location
        1000000000000000           # address range
        """,
        EH_FRAME,
        (0, cie),
        (21, fde),
    )


def test_padded_leb128_of_a_cie_survive() -> None:
    data = LebBlock(b"\x1b", 3)
    cie = Cie(DWARF32, 3, b"zR", None, None, None, Leb128(1, 2), Leb128(-8, 2), Leb128(16, 3), data, b"")
    holds("13000000 00000000 03 7a5200 8100 f87f 908000 818000 1b", EH_FRAME, (0, cie))


# Every opcode of table 7.29 and the vendors' in use. Operands are as stored: factors are not applied.
EXAMPLES = [
    ("40", DW_CFA.advance_loc, (0,)),
    ("7f", DW_CFA.advance_loc, (63,)),
    ("80 00", DW_CFA.offset, (0, uleb(0))),
    ("bf 8001", DW_CFA.offset, (63, uleb(128))),
    ("c0", DW_CFA.restore, (0,)),
    ("ff", DW_CFA.restore, (63,)),
    ("00", DW_CFA.nop, ()),
    ("01 8877665544332211", DW_CFA.set_loc, (0x1122334455667788,)),
    ("02 ff", DW_CFA.advance_loc1, (255,)),
    ("03 0201", DW_CFA.advance_loc2, (0x102,)),
    ("04 04030201", DW_CFA.advance_loc4, (0x1020304,)),
    ("05 8001 02", DW_CFA.offset_extended, (uleb(128), uleb(2))),
    ("06 8001", DW_CFA.restore_extended, (uleb(128),)),
    ("07 10", DW_CFA.undefined, (uleb(16),)),
    ("08 03", DW_CFA.same_value, (uleb(3),)),
    ("09 08 01", DW_CFA.register, (uleb(8), uleb(1))),
    ("0a", DW_CFA.remember_state, ()),
    ("0b", DW_CFA.restore_state, ()),
    ("0c 07 8001", DW_CFA.def_cfa, (uleb(7), uleb(128))),
    ("0d 06", DW_CFA.def_cfa_register, (uleb(6),)),
    ("0e 9001", DW_CFA.def_cfa_offset, (uleb(144),)),
    ("0f 02 7708", DW_CFA.def_cfa_expression, (leb_block(b"\x77\x08"),)),
    ("10 06 02 7600", DW_CFA.expression, (uleb(6), leb_block(b"\x76\x00"))),
    ("11 06 7e", DW_CFA.offset_extended_sf, (uleb(6), sleb(-2))),
    ("12 07 7f", DW_CFA.def_cfa_sf, (uleb(7), sleb(-1))),
    ("13 80 7f", DW_CFA.def_cfa_offset_sf, (sleb(-128),)),
    ("14 06 02", DW_CFA.val_offset, (uleb(6), uleb(2))),
    ("15 06 7e", DW_CFA.val_offset_sf, (uleb(6), sleb(-2))),
    ("16 06 01 30", DW_CFA.val_expression, (uleb(6), leb_block(b"\x30"))),
    ("1d 0807060504030201", DW_CFA.MIPS_advance_loc8, (0x102030405060708,)),
    ("2c", DW_CFA.AARCH64_negate_ra_state_with_pc, ()),
    ("2d", DW_CFA.AARCH64_negate_ra_state, ()),
    ("2e 20", DW_CFA.GNU_args_size, (uleb(32),)),
    ("2f 06 02", DW_CFA.GNU_negative_offset_extended, (uleb(6), uleb(2))),
    ("0e 908000", DW_CFA.def_cfa_offset, (Leb128(16, 3),)),  # padded
    ("0f 8200 7708", DW_CFA.def_cfa_expression, (LebBlock(b"\x77\x08", 2),)),
]


@pytest.mark.parametrize(("text", "opcode", "operands"), EXAMPLES)
def test_instruction(text: str, opcode: DW_CFA, operands: tuple[int | Leb128 | LebBlock, ...]) -> None:
    data = octets(text)
    expected = (Instruction(opcode, operands),)
    assert cfi_sections.parse_instructions(Section.of("test", data), 0, len(data)) == expected
    assert cfi_sections.build_instructions(expected) == data


def test_every_opcode_has_an_example() -> None:
    assert {opcode for _, opcode, _ in EXAMPLES} == set(INSTRUCTIONS)


def test_wide_operands_follow_the_byte_order() -> None:
    data = octets("03 0102  04 01020304  1d 0102030405060708  01 00001000")
    found = cfi_sections.parse_instructions(Section.of("test", data, 0, "big", 4), 0, len(data))
    assert [instruction.operands for instruction in found] == [(0x102,), (0x1020304,), (0x102030405060708,), (0x1000,)]
    assert cfi_sections.build_instructions(found, "big", 4) == data


def test_set_loc_is_encoded_as_the_cie_says() -> None:
    data = octets("01 f0ffffff")
    encoding = DW_EH_PE.pcrel | DW_EH_PE.sdata4
    found = cfi_sections.parse_instructions(Section.of("test", data), 0, len(data), encoding)
    assert found == (Instruction(DW_CFA.set_loc, (-16,)),)
    assert cfi_sections.build_instructions(found, address_encoding=encoding) == data


@pytest.mark.parametrize("opcode", [0x17, 0x1C, 0x1E, 0x2B, 0x30, 0x3F])
def test_opcode_that_no_text_defines(opcode: int) -> None:
    with pytest.raises(ParseError) as caught:
        cfi_sections.parse_instructions(Section.of("test", bytes([0, opcode])), 0, 2)
    assert place(caught.value) == ("test", 1, "instructions[1]")
    assert caught.value.reason == f"the opcode {opcode:#04x} is not defined"


@pytest.mark.parametrize("text", [text for text, _, operands in EXAMPLES if operands and len(text) > 2])
def test_cut_operand(text: str) -> None:
    data = octets(text)[:-1]
    with pytest.raises(ParseError):
        cfi_sections.parse_instructions(Section.of("test", data), 0, len(data))


@pytest.mark.parametrize(
    ("opcode", "operands"),
    [
        (DW_CFA.advance_loc, (64,)),
        (DW_CFA.advance_loc, (-1,)),
        (DW_CFA.advance_loc1, (256,)),
        (DW_CFA.advance_loc2, (-1,)),
        (DW_CFA.def_cfa, (uleb(7),)),
        (DW_CFA.nop, (uleb(0),)),
        (DW_CFA.def_cfa_offset, (Leb128(-1, 1),)),
    ],
)
def test_operand_that_does_not_fit_is_not_built(opcode: DW_CFA, operands: tuple[int | Leb128, ...]) -> None:
    with pytest.raises(BuildError):
        cfi_sections.build_instructions((Instruction(opcode, operands),))
