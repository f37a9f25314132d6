"""`.debug_aranges` and the sections of names: vectors with one comment per field, and laws 1 and 2 of the wire.

Strategy: each vector is parsed into records written out here, and built back; hypothesis does the rest.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import BuildError, ParseError
from unwindkit.schemas import strategies
from unwindkit.schemas.lookup_tables import (
    AddressRange,
    AddressRangeSet,
    AddressRangesHeader,
    Name,
    NameSet,
    NamesHeader,
    SymbolAttributes,
    build_address_ranges,
    build_names,
    parse_address_ranges,
    parse_names,
)
from unwindkit.schemas.section import ByteOrder, Section
from unwindkit.schemas.wire import DwarfFormat

from ..conftest import fewer
from ..support.handmade import octets

D32, D64 = DwarfFormat.DWARF32, DwarfFormat.DWARF64
orders = st.sampled_from(["little", "big"])

RANGES = """
    2c000000                            # unit_length: 44
    0200                                # version
    34120000                            # debug_info_offset
    08                                  # address_size
    00                                  # segment_size
    00000000                            # padding: 12 bytes so far, ranges have 16
    0010000000000000 2000000000000000   # 0x1000, 32 bytes
    0000000000000000 0000000000000000   # the end
"""
RANGES_BIG_64 = """
    ffffffff 0000000000000022           # unit_length: 34, of 64-bit DWARF
    0002                                # version
    0000000000001234                    # debug_info_offset
    04                                  # address_size
    02                                  # segment_size
    000000000000                        # padding: 24 bytes so far, ranges have 10
    0007 00001000 00000020              # segment 7, 0x1000, 32 bytes
    aabbccddeeff                        # less than a range
"""
NAMES = """
    22000000                            # unit_length: 34
    0200                                # version
    10000000                            # debug_info_offset
    5f000000                            # debug_info_length
    2a000000 6d61696e 00                # 0x2a, "main"
    40000000 613a3a62 00                # 0x40, "a::b"
    00000000                            # the end
    01 02                               # bytes that the length counts
"""
GNU_NAMES_BIG = """
    00000018                            # unit_length: 24
    0002                                # version
    00000010                            # debug_info_offset
    0000005f                            # debug_info_length
    0000002a                            # offset
    b0                                  # static, kind 3: a function
    6d61696e 00                         # "main"
    00000000                            # the end
"""


def section(text: str, order: ByteOrder = "little") -> Section:
    return Section.of(".debug_test", octets(text), 0, order)


def test_ranges() -> None:
    expected = AddressRangeSet(
        AddressRangesHeader(D32, 2, 0x1234, 8, 0),
        bytes(4),
        (AddressRange(None, 0x1000, 32), AddressRange(None, 0, 0)),
    )
    assert parse_address_ranges(section(RANGES)) == (expected,)
    assert build_address_ranges((expected, expected), "little") == octets(RANGES + RANGES)


def test_ranges_with_segments_in_big_endian_64_bit_dwarf() -> None:
    header = AddressRangesHeader(D64, 2, 0x1234, 4, 2)
    expected = AddressRangeSet(header, bytes(6), (AddressRange(7, 0x1000, 32),), octets("aabbccddeeff"))
    assert parse_address_ranges(section(RANGES_BIG_64, "big")) == (expected,)
    assert build_address_ranges((expected,), "big") == octets(RANGES_BIG_64)


def test_zeros_behind_the_last_set_are_padding() -> None:
    """As gold leaves them after an incremental link."""
    assert parse_address_ranges(section(RANGES + "00" * 32)) == parse_address_ranges(section(RANGES))
    assert parse_names(section("00" * 7), is_gnu=False) == ()


def test_names() -> None:
    names = (Name(0x2A, None, b"main"), Name(0x40, None, b"a::b"))
    expected = NameSet(NamesHeader(D32, 2, 0x10, 0x5F), names, True, b"\1\2")
    assert parse_names(section(NAMES), is_gnu=False) == (expected,)
    assert build_names((expected, expected), False, "little") == octets(NAMES + NAMES)


def test_gnu_names() -> None:
    main = Name(0x2A, SymbolAttributes(is_static=1, kind=3, reserved=0), b"main")
    expected = NameSet(NamesHeader(D32, 2, 0x10, 0x5F), (main,))
    assert parse_names(section(GNU_NAMES_BIG, "big"), is_gnu=True) == (expected,)
    assert build_names((expected,), True, "big") == octets(GNU_NAMES_BIG)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2d000000" + RANGES[RANGES.index("0200") :], r"\+0x0: set\[0\].length: 0x2d bytes reach past"),
        (RANGES.replace("0200 ", "0400 "), r"set\[0\].version: "),
        (RANGES.replace("\n    08 ", "\n    03 "), r"set\[0\].address_size: "),
        ("f0ffffff", r"set\[0\].length: 0xfffffff0 is a reserved initial length"),
        ("ffffffff 0000", r"set\[0\].length: 12 bytes needed, 6 left"),
        ("00000000 00000001", r"set\[0\]"),
    ],
)
def test_what_is_no_set_of_ranges(text: str, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        parse_address_ranges(section(text))


def test_a_name_without_an_end() -> None:
    with pytest.raises(ParseError, match=r"\+0x15: set\[0\].name\[0\].name: no zero byte in the remaining 3 bytes"):
        parse_names(section("11000000 0200 00000000 00000000 2a000000 616263"), is_gnu=False)


def test_a_name_at_offset_0_cannot_be_built() -> None:
    with pytest.raises(BuildError, match=r"set\[0\].name\[0\].offset: is 0, which ends the set"):
        build_names((NameSet(NamesHeader(D32, 2, 0, 0), (Name(0, None, b"a"),)),), False, "little")


# --- the laws ---------------------------------------------------------------------------------------------------------


@fewer(5)
@given(order=orders, sets=st.lists(strategies.address_range_sets(), max_size=3).map(tuple))
def test_laws_1_and_2_ranges(order: ByteOrder, sets: tuple[AddressRangeSet, ...]) -> None:
    data = build_address_ranges(sets, order)
    parsed = parse_address_ranges(Section.of(".debug_aranges", data, 0, order))
    assert parsed == sets
    assert build_address_ranges(parsed, order) == data


@pytest.mark.parametrize("is_gnu", [False, True])
@fewer(5)
@given(order=orders, data=st.data())
def test_laws_1_and_2_names(is_gnu: bool, order: ByteOrder, data: st.DataObject) -> None:
    sets = tuple(data.draw(st.lists(strategies.name_sets(is_gnu), max_size=3)))
    built = build_names(sets, is_gnu, order)
    parsed = parse_names(Section.of(".debug_pubnames", built, 0, order), is_gnu)
    assert parsed == sets
    assert build_names(parsed, is_gnu, order) == built
