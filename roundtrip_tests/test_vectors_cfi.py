"""CIE, FDE and every call frame instruction, byte for byte (DWARF5 6.4, 7.24; LSB Core 10.6.1)."""

from __future__ import annotations

import pytest
from unwindkit import BuildError, ParseError
from unwindkit.schemas import entries
from unwindkit.schemas.callframe import (
    DEBUG_FRAME,
    DW_CFA,
    EH_FRAME,
    INSTRUCTIONS,
    Cie,
    Dialect,
    Fde,
    Instruction,
    Terminator,
)
from unwindkit.schemas.entries import Augmentation
from unwindkit.schemas.pointers import DW_EH_PE
from unwindkit.schemas.section import ByteOrder, Section
from unwindkit.schemas.wire import DwarfFormat, Leb128, LebBlock, leb_block, sleb, uleb

from .handmade import octets, place

DWARF32, DWARF64 = DwarfFormat.DWARF32, DwarfFormat.DWARF64


def holds(
    text: str, dialect: Dialect, *expected: tuple[int, object], order: ByteOrder = "little", address_size: int = 8
) -> None:
    """Both directions: the bytes parse to the entries, and the entries build to the bytes."""
    data = octets(text)
    section = Section.of(dialect.name, data, 0, order, address_size)
    found = entries.parse_section(section, dialect)
    assert found == expected
    assert entries.build_section(found, dialect, section) == data


def test_eh_frame_version_1_with_zr() -> None:
    cie = Cie(DWARF32, 1, b"zR", None, None, None, uleb(1), sleb(-8), 16, leb_block(b"\x1b"), octets("0c0708 9001 0000"))
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
    fde = Fde(DWARF32, 0x1C, None, 0x40, 0x20, leb_block(octets("80000000")), b"")
    text = """
        18000000     # length 24
        00000000     # CIE id
        01           # version
        7a504c5200   # "zPLR"
        01 78 10     # factors 1 and -8, return address register 16
        07           # seven bytes of augmentation data
        9b 10000000  # personality: indirect pcrel sdata4
        1b           # LSDA encoding
        1b           # address encoding
        11000000     # length 17
        20000000     # CIE pointer: 32 back from 32
        40000000     # initial location
        20000000     # address range
        04 80000000  # four bytes of augmentation data: the LSDA
        """.replace("18000000     # length 24", "17000000     # length 23").replace("20000000     # CIE", "1f000000     # CIE")
    fde = Fde(DWARF32, 0x1F, None, 0x40, 0x20, leb_block(octets("80000000")), b"")
    holds(text, EH_FRAME, (0, cie), (27, fde))
    section = Section.of(".eh_frame", octets(text), 0x1000)
    augmentation = entries.parse_augmentation(cie, section, 0)
    assert augmentation == Augmentation(
        fde_encoding=0x1B, lsda_encoding=0x1B, personality_encoding=0x9B, personality=0x10, personality_offset=21
    )
    lsda = entries.parse_lsda(fde, section, 27 + 17, entries.fde_format(cie, augmentation, section))
    assert lsda is not None
    assert lsda.lsda == 0x80
