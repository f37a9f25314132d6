"""`.debug_macinfo` and `.debug_macro`: vectors with one comment per field, and laws 1 and 2 of the wire.

Strategy: each vector is parsed into records written out here, and built back; hypothesis does the rest.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import BuildError, ParseError
from unwindkit.schemas import strategies
from unwindkit.schemas.forms import DW_FORM
from unwindkit.schemas.macros import (
    DW_MACINFO,
    DW_MACRO,
    MacroEntry,
    MacroFlags,
    MacroHeader,
    MacroUnit,
    OpcodeOperands,
    build_macros,
    parse_macros,
)
from unwindkit.schemas.section import ByteOrder, Section
from unwindkit.schemas.wire import Leb128, uleb

from ..conftest import fewer
from ..support.handmade import octets

orders = st.sampled_from(["little", "big"])

MACINFO = """
    01 00 41203100              # define, line 0, "A 1"
    03 8000 01                  # start_file, line 0 in two bytes, file 1
    02 05 4100                  # undef, line 5, "A"
    04                          # end_file
    ff 07 787900                # vendor_ext, 7, "xy"
    00                          # the end
    00                          # a unit of nothing
"""
MACRO = """
    0500                        # version
    02                          # flags: debug_line_offset
    44330000                    # debug_line_offset
    01 01 4200                  # define, line 1, "B"
    02 02 4200                  # undef
    03 00 01                    # start_file, line 0, file 1
    04                          # end_file
    05 03 78560000              # define_strp, line 3, 0x5678
    06 04 78560000              # undef_strp
    07 09000000                 # import, 0x9
    08 05 11000000              # define_sup, line 5, 0x11
    09 06 12000000              # undef_sup
    0a 13000000                 # import_sup, 0x13
    0b 07 02                    # define_strx, line 7, index 2
    0c 08 8302                  # undef_strx, line 8, index 0x103
    00                          # the end
"""
VENDORS_BIG_64 = """
    0004                        # version
    05                          # flags: offsets of 8 bytes, opcode_operands_table
    03                          # 3 opcodes
    e0 8000                     # 0xe0: no operands, counted in two bytes
    e1 03 0b 0a 0e              # 0xe1: data1, block1, strp
    05 02 0f 0e                 # define_strp, which is as it always is: udata, strp
    e0
    e1 07 02aabb 0000000000000123
    05 01 0000000000000456
    00                          # the end
"""


def section(text: str, order: ByteOrder = "little") -> Section:
    return Section.of(".debug_test", octets(text), 0, order)


def test_macinfo() -> None:
    entries = (
        MacroEntry(DW_MACINFO.define, (uleb(0), b"A 1")),
        MacroEntry(DW_MACINFO.start_file, (Leb128(0, 2), uleb(1))),
        MacroEntry(DW_MACINFO.undef, (uleb(5), b"A")),
        MacroEntry(DW_MACINFO.end_file),
        MacroEntry(DW_MACINFO.vendor_ext, (uleb(7), b"xy")),
    )
    expected = (MacroUnit(None, entries), MacroUnit(None, ()))
    assert parse_macros(section(MACINFO), has_headers=False) == expected
    assert build_macros(expected, "little") == octets(MACINFO)


def test_every_opcode_of_version_5() -> None:
    flags = MacroFlags(reserved=0, opcode_operands_table=0, debug_line_offset=1, offset_size=0)
    entries = (
        MacroEntry(DW_MACRO.define, (uleb(1), b"B")),
        MacroEntry(DW_MACRO.undef, (uleb(2), b"B")),
        MacroEntry(DW_MACRO.start_file, (uleb(0), uleb(1))),
        MacroEntry(DW_MACRO.end_file),
        MacroEntry(DW_MACRO.define_strp, (uleb(3), 0x5678)),
        MacroEntry(DW_MACRO.undef_strp, (uleb(4), 0x5678)),
        MacroEntry(DW_MACRO.import_, (9,)),
        MacroEntry(DW_MACRO.define_sup, (uleb(5), 0x11)),
        MacroEntry(DW_MACRO.undef_sup, (uleb(6), 0x12)),
        MacroEntry(DW_MACRO.import_sup, (0x13,)),
        MacroEntry(DW_MACRO.define_strx, (uleb(7), uleb(2))),
        MacroEntry(DW_MACRO.undef_strx, (uleb(8), uleb(0x103))),
    )
    assert {entry.opcode for entry in entries} == set(DW_MACRO)
    expected = MacroUnit(MacroHeader(5, flags, 0x3344, None, None), entries)
    assert parse_macros(section(MACRO), has_headers=True) == (expected,)
    assert build_macros((expected, expected), "little") == octets(MACRO + MACRO)


def test_opcodes_that_a_header_describes() -> None:
    flags = MacroFlags(reserved=0, opcode_operands_table=1, debug_line_offset=0, offset_size=1)
    table = (
        OpcodeOperands(0xE0, Leb128(0, 2), ()),
        OpcodeOperands(0xE1, uleb(3), (DW_FORM.data1, DW_FORM.block1, DW_FORM.strp)),
        OpcodeOperands(DW_MACRO.define_strp, uleb(2), (DW_FORM.udata, DW_FORM.strp)),
    )
    entries = (
        MacroEntry(0xE0),
        MacroEntry(0xE1, (7, octets("aabb"), 0x123)),
        MacroEntry(DW_MACRO.define_strp, (uleb(1), 0x456)),
    )
    expected = MacroUnit(MacroHeader(4, flags, None, 3, table), entries)
    assert parse_macros(section(VENDORS_BIG_64, "big"), has_headers=True) == (expected,)
    assert build_macros((expected,), "big") == octets(VENDORS_BIG_64)


def test_a_header_does_not_change_the_operands_of_a_standard_opcode() -> None:
    """It describes define_strp, 0x05, as one DW_FORM_data1; the entry has a line and an offset of 4 bytes."""
    (unit,) = parse_macros(section("0500 04 01 05 01 0b  05 01 04000000  00"), has_headers=True)
    assert unit.entries == (MacroEntry(DW_MACRO.define_strp, (uleb(1), 4)),)


@pytest.mark.parametrize(
    ("text", "has_headers", "said"),
    [
        ("01 00 4100", False, r"\+0x4: unit\[0\]: the unit has no terminating opcode 0"),
        ("01 00 4142", False, r"\+0x4: unit\[0\].entry\[0\].value: no zero byte in the remaining 2 bytes"),
        ("00 05 00", False, r"\+0x1: unit\[1\].entry\[0\]: the opcode 0x05 is not defined"),
        ("0600 00 00", True, r"unit\[0\].header.version"),
        ("0400 00 0b 01 02 00", True, r"\+0x3: unit\[0\].entry\[0\]: the opcode 0x0b is not defined"),
        ("0500 00 e0 00", True, r"\+0x3: unit\[0\].entry\[0\]: the opcode 0xe0 is not defined"),
        ("0500 04 01 e0 01 02 00", True, r"\+0x0: unit\[0\].header.opcode_operands: 2 is not a valid DW_FORM"),
        ("0500 04 01 e0 ffffffff0f 0b", True, r"unit\[0\].header.opcode_operands.forms"),
        ("0500 00 07 0100", True, r"unit\[0\].entry\[0\].value"),
    ],
)
def test_what_is_no_unit(text: str, has_headers: bool, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        parse_macros(section(text), has_headers)


@pytest.mark.parametrize(
    "entry",
    [
        MacroEntry(0x05, (uleb(1), b"A")),
        MacroEntry(0x00),
        MacroEntry(DW_MACINFO.end_file, (uleb(1),)),
        MacroEntry(DW_MACINFO.undef, (uleb(1), b"A\0B")),
        MacroEntry(DW_MACINFO.undef, (Leb128(300, 1), b"A")),
    ],
)
def test_what_cannot_be_built(entry: MacroEntry) -> None:
    with pytest.raises(BuildError, match=r"unit\[0\].entry\[0\]"):
        build_macros((MacroUnit(None, (entry,)),), "little")


# --- the laws ---


@pytest.mark.parametrize("has_headers", [False, True])
@fewer(5)
@given(order=orders, data=st.data())
def test_laws_1_and_2(has_headers: bool, order: ByteOrder, data: st.DataObject) -> None:
    units = tuple(data.draw(st.lists(strategies.macro_units(has_headers), max_size=3)))
    built = build_macros(units, order)
    parsed = parse_macros(Section.of(".debug_macro", built, 0, order), has_headers)
    assert parsed == units
    assert build_macros(parsed, order) == built
