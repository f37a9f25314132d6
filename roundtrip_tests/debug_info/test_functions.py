"""Functions and inlined functions of entries made by hand: every layout, every form, names and scopes, range lists.

Strategy: bytes are worked out from DWARF5 7.5 and DWARF4 7.5; each test runs on both engines.
"""

from __future__ import annotations

import itertools

import pytest

from ..support.made.debug_entries import Layout, inlined_calls, named_ranges

LAYOUTS = [
    Layout(version, order, address_size, offset_size)
    for version, order, address_size, offset_size in itertools.product((2, 3, 4, 5), "<>", (4, 8), (4, 8))
    if version > 2 or offset_size == 4
]
pytestmark = pytest.mark.usefixtures("kernels")

# A function, the function inlined into it, and the abstract instance of that.
ABBREVIATIONS = """
    01 11 01                # 1: DW_TAG_compile_unit, has children
       00 00
    02 2e 01                # 2: DW_TAG_subprogram, has children
       03 08                # DW_AT_name, DW_FORM_string
       11 01  12 01         # DW_AT_low_pc, DW_AT_high_pc: DW_FORM_addr
       00 00
    03 1d 00                # 3: DW_TAG_inlined_subroutine
       31 13                # DW_AT_abstract_origin, DW_FORM_ref4
       11 01  12 01         # DW_AT_low_pc, DW_AT_high_pc: DW_FORM_addr
       59 0f                # DW_AT_call_line, DW_FORM_udata
       00 00
    04 2e 00                # 4: DW_TAG_subprogram
       03 08                # DW_AT_name, DW_FORM_string
       00 00
    00
"""


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_function_with_an_inlined_one_in_every_layout(layout: Layout) -> None:
    abstract = layout.header_size + 1
    entries = (
        b"\x01"
        + b"\x04in\0"
        + b"\x02out\0"
        + layout.address(0x10)
        + layout.address(0x30)
        + b"\x03"
        + layout.number(abstract, 4)
        + layout.address(0x18)
        + layout.address(0x20)
        + b"\xc8\x01"  # line 200
        + b"\x00\x00"
    )
    table = layout.functions(layout.unit(entries), ABBREVIATIONS)
    assert named_ranges(table) == [(b"out", layout.text + 0x10, 0x20)]
    assert inlined_calls(table) == [(layout.text + 0x18, 8, 0, b"in", None, 200)]
    assert len(table.skipped) == 0


# Each form, the bytes that its value may have in 32-bit DWARF, and whether DWARF 5 has it.
FORMS = [
    *((0x03, "0200 aabb"), (0x04, "01000000 aa"), (0x05, "aabb"), (0x06, "aabbccdd"), (0x07, "0011223344556677")),
    *((0x08, "7800"), (0x09, "01aa"), (0x0A, "01aa"), (0x0B, "aa"), (0x0C, "01"), (0x0D, "ff7f"), (0x0E, "00000000")),
    *((0x0F, "8001"), (0x10, "00000000"), (0x11, "00"), (0x12, "0000"), (0x13, "00000000"), (0x14, "00" * 8)),
    *((0x15, "8000"), (0x16, "0b aa"), (0x17, "00000000"), (0x18, "019c"), (0x19, ""), (0x1A, "8001"), (0x1B, "8001")),
    *((0x1C, "00000000"), (0x1D, "00000000"), (0x1E, "aa" * 16), (0x1F, "00000000"), (0x20, "00" * 8)),
    *((0x22, "8001"), (0x23, "8001"), (0x24, "00" * 8), (0x25, "00"), (0x26, "0000"), (0x27, "000000")),
    *((0x28, "00000000"), (0x29, "00"), (0x2A, "0000"), (0x2B, "000000"), (0x2C, "00000000"), (0x01, "00" * 8)),
    *((0x1F01, "8001"), (0x1F02, "8001"), (0x1F20, "00000000"), (0x1F21, "00000000")),
]


@pytest.mark.parametrize(("form", "value"), FORMS, ids=lambda one: f"{one:#x}" if isinstance(one, int) else "")
def test_the_value_of_an_attribute_that_is_not_read_is_passed_over(form: int, value: str) -> None:
    layout = Layout(5)
    number = bytes([form]) if form < 0x80 else bytes([form & 0x7F | 0x80, form >> 7])
    # DW_AT_lo_user + 1, which is not read, before the name; also of an entry that does not matter.
    abbreviations = (
        bytes.fromhex("01 11 01 00 00  02 2e 00 8140") + number + bytes.fromhex("03 08 11 01 12 0b 00 00")
        + bytes.fromhex("03 34 00 8140") + number + bytes.fromhex("00 00  00")
    )  # fmt: skip
    entries = b"\x01" + b"\x03" + bytes.fromhex(value) + b"\x02" + bytes.fromhex(value) + b"f\0" + layout.address(0)
    table = layout.functions(layout.unit(entries + b"\x08\x00"), abbreviations)
    assert named_ranges(table) == [(b"f", layout.text, 8)]


def test_a_table_prints_as_two_lines() -> None:
    layout = Layout(5)
    abbreviations = "01 11 01 00 00  02 2e 00 03 08 11 01 12 0b 00 00  00"
    table = layout.functions(layout.unit(b"\x01\x02f\0" + layout.address(4) + b"\x10\x00"), abbreviations)
    assert repr(table).splitlines() == [
        "<FunctionTable of .debug_info: 0 units skipped",
        " 1 functions, 1 ranges, 0 inlined functions>",
    ]


def test_the_value_of_an_implicit_constant_is_in_the_abbreviation() -> None:
    layout = Layout(5)
    # DW_AT_high_pc, DW_FORM_implicit_const 24
    abbreviations = "01 11 01 00 00  02 2e 00 03 08 11 01 12 21 18 00 00  00"
    table = layout.functions(layout.unit(b"\x01\x02f\0" + layout.address(4) + b"\x00"), abbreviations)
    assert named_ranges(table) == [(b"f", layout.text + 4, 24)]


SCOPES = """
    01 11 01 00 00          # 1: DW_TAG_compile_unit, has children
    02 39 01 03 08 00 00    # 2: DW_TAG_namespace: DW_AT_name, DW_FORM_string
    03 39 01 00 00          # 3: DW_TAG_namespace without a name
    04 13 01 03 08 00 00    # 4: DW_TAG_structure_type: DW_AT_name
    05 2e 00 03 08 00 00    # 5: DW_TAG_subprogram: DW_AT_name
    06 2e 00                # 6: DW_TAG_subprogram: DW_AT_specification, ref1; DW_AT_low_pc; DW_AT_high_pc, data1
       47 11 11 01 12 0b 00 00
    07 13 01 69 20 00 00    # 7: DW_TAG_structure_type: DW_AT_signature, DW_FORM_ref_sig8
    08 41 01 00 00          # 8: DW_TAG_type_unit
    00
"""


def test_a_definition_has_the_scopes_of_its_declaration() -> None:
    layout = Layout(4)
    before = b"\x01" + b"\x02n\0" + b"\x03" + b"\x04S\0"
    declaration = layout.header_size + len(before)
    entries = before + b"\x05f\0" + bytes(3) + b"\x06" + bytes([declaration]) + layout.address(0) + b"\x08" + b"\0"
    table = layout.functions(layout.unit(entries), SCOPES)
    assert named_ranges(table) == [(b"n::(anonymous namespace)::S::f", layout.text, 8)]


def test_a_definition_may_have_the_linkage_name_that_its_declaration_lacks() -> None:
    # As clang describes a lambda: 6 has DW_AT_linkage_name, DW_FORM_string, before DW_AT_specification.
    abbreviations = SCOPES.replace("47 11 11 01 12 0b", "6e 08 47 11 11 01 12 0b")
    layout = Layout(4)
    before = b"\x01" + b"\x04S\0"
    declaration = layout.header_size + len(before)
    definition = b"\x06_ZN1S1fEv\0" + bytes([declaration]) + layout.address(0) + b"\x08"
    table = layout.functions(layout.unit(before + b"\x05f\0" + b"\0" + definition + b"\0"), abbreviations)
    assert named_ranges(table) == [(b"_ZN1S1fEv", layout.text, 8)]


@pytest.mark.parametrize("version", [4, 5])
def test_a_scope_that_is_a_signature_has_the_name_in_its_type_unit(version: int) -> None:
    layout = Layout(version)
    signature = bytes(range(8))
    before = b"\x01" + b"\x02n\0" + b"\x07" + signature
    declaration = layout.header_size + len(before)
    entries = before + b"\x05f\0" + bytes(2) + b"\x06" + bytes([declaration]) + layout.address(0) + b"\x08" + b"\0"
    # DW_UT_type: the signature, and the offset of the type: after the header, the unit and the namespace.
    start = len(layout.unit(b"", 2, signature + layout.offset(0))) + 1 + 3
    types = layout.unit(b"\x08\x02n\0\x04S\0" + bytes(3), 2, signature + layout.offset(start))
    unit = layout.unit(entries)
    table = (
        layout.functions(unit + types, SCOPES) if version == 5 else layout.functions(unit, SCOPES, debug_types=types)
    )
    assert named_ranges(table) == [(b"n::S::f", layout.text, 8)]


RANGES = """
    01 11 01 11 01 00 00    # 1: DW_TAG_compile_unit, has children: DW_AT_low_pc
    02 2e 00 03 08 55 17    # 2: DW_TAG_subprogram: DW_AT_name; DW_AT_ranges, DW_FORM_sec_offset
       00 00
    00
"""


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("address_size", [4, 8])
def test_ranges_of_version_4_are_relative_to_the_unit_or_a_base(order: str, address_size: int) -> None:
    layout = Layout(4, order, address_size)
    unit = layout.unit(b"\x01" + layout.address(0x10) + b"\x02f\0" + layout.offset(0) + b"\0")
    pairs = [(0, 4), (8, 8), ((1 << 8 * address_size) - 1, layout.text + 0x40), (0, 4), (0, 0)]
    lists = b"".join(layout.number(value, address_size) for pair in pairs for value in pair)
    table = layout.functions(unit, RANGES, debug_ranges=lists)
    assert named_ranges(table) == [(b"f", layout.text + 0x10, 4), (b"f", layout.text + 0x40, 4)]


def test_an_inlined_function_without_code_has_that_of_what_it_contains() -> None:
    """As GCC 12 writes one whose first range is empty and at the base address of the unit: 0, 0 ends its list."""
    abbreviations = (
        RANGES
        + """
        03 2e 01 03 08 11 01 12 0b 00 00    # 3: DW_TAG_subprogram, has children: DW_AT_name, low_pc, high_pc
        04 1d 01 03 08 55 17 00 00          # 4: DW_TAG_inlined_subroutine, has children: DW_AT_name; DW_AT_ranges
        05 1d 00 03 08 11 01 12 0b 00 00    # 5: DW_TAG_inlined_subroutine: DW_AT_name, DW_AT_low_pc, DW_AT_high_pc
        00
    """
    )
    layout = Layout(4)
    abbreviations = abbreviations.replace("       00 00\n    00\n", "       00 00\n", 1)
    entries = b"\x01" + layout.address(0) + b"\x03f\0" + layout.address(0x10) + b"\x20"
    entries += b"\x04a\0" + layout.offset(0) + b"\x04b\0" + layout.offset(0)
    entries += b"\x05c\0" + layout.address(0x14) + b"\x04" + b"\x05d\0" + layout.address(0x1C) + b"\x04"
    entries += b"\0\0\0\0"
    lists = b"".join(layout.number(value, 8) for value in (0, 0, 2, 6, 0, 0))
    table = layout.functions(layout.unit(entries), abbreviations, debug_ranges=lists)
    assert named_ranges(table) == [(b"f", layout.text + 0x10, 0x20)]
    assert inlined_calls(table) == [
        *((layout.text + 0x14, 4, depth, name, None, 0) for depth, name in enumerate((b"a", b"b", b"c"))),
        *((layout.text + 0x1C, 4, depth, name, None, 0) for depth, name in enumerate((b"a", b"b", b"d"))),
    ]


def test_an_inlined_function_has_the_code_of_what_it_contains() -> None:
    """As GCC writes with -gstrict-dwarf, in version 2: of a function in several parts, only the first has an entry."""
    layout = Layout(2)
    abbreviations = """
        01 11 01 00 00
        02 2e 01 03 08 11 01 12 01 00 00    # DW_TAG_subprogram, has children: DW_AT_name, low_pc, high_pc (addr)
        03 1d 01 03 08 11 01 12 01 00 00    # DW_TAG_inlined_subroutine, has children
        04 1d 00 03 08 11 01 12 01 00 00    # DW_TAG_inlined_subroutine
        00
    """

    def entry(code: int, name: bytes, start: int, end: int) -> bytes:
        return bytes([code]) + name + b"\0" + layout.address(start) + layout.address(end)

    entries = (
        (b"\x01" + entry(2, b"f", 0x10, 0x50) + entry(3, b"a", 0x20, 0x24) + entry(3, b"b", 0x30, 0x40))
        + (entry(4, b"c", 0x34, 0x36) + entry(4, b"cold", 0x80, 0x88) + b"\0\0\0\0")
    )  # fmt: skip
    table = layout.functions(layout.unit(entries), abbreviations)
    assert named_ranges(table) == [(b"f", layout.text + 0x10, 0x40)]
    assert inlined_calls(table) == [
        (layout.text + 0x20, 4, 0, b"a", None, 0),
        (layout.text + 0x30, 0x10, 0, b"a", None, 0),
        (layout.text + 0x30, 0x10, 1, b"b", None, 0),
        (layout.text + 0x34, 2, 2, b"c", None, 0),
    ]


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_kind_of_entry_of_a_range_list_of_version_5(order: str) -> None:
    layout = Layout(5, order)
    abbreviations = """
        01 11 01 11 01          # 1: DW_TAG_compile_unit, has children: DW_AT_low_pc
           73 17                # DW_AT_addr_base, DW_FORM_sec_offset
           74 17 00 00          # DW_AT_rnglists_base, DW_FORM_sec_offset
        02 2e 00 03 08 55 23    # 2: DW_TAG_subprogram: DW_AT_name; DW_AT_ranges, DW_FORM_rnglistx
           00 00
        00
    """
    bases = layout.offset(8) + layout.offset(12)
    unit = layout.unit(b"\x01" + layout.address(0x80) + bases + b"\x02f\0\x00" + b"\0")
    addresses = layout.contribution(layout.number(5, 2) + b"\x08\0" + layout.address(0x10) + layout.address(0x14))
    body = (
        b"\x04\x00\x04"  # DW_RLE_offset_pair 0, 4: from DW_AT_low_pc
        + b"\x02\x00\x01"  # DW_RLE_startx_endx 0, 1
        + b"\x03\x01\x08"  # DW_RLE_startx_length 1, 8, adjacent to the one before
        + b"\x01\x00\x04\x20\x22"  # DW_RLE_base_addressx 0; DW_RLE_offset_pair 0x20, 0x22
        + (b"\x05" + layout.address(0x40) + b"\x04\x00\x01")  # DW_RLE_base_address; DW_RLE_offset_pair 0, 1
        + (b"\x06" + layout.address(0x50) + layout.address(0x51))  # DW_RLE_start_end
        + (b"\x07" + layout.address(0x60) + b"\x02")  # DW_RLE_start_length
        + b"\x00"  # DW_RLE_end_of_list
    )
    header = layout.number(5, 2) + b"\x08\0" + layout.number(1, 4)  # version, sizes, one offset
    lists = layout.contribution(header + layout.offset(4) + body)
    table = layout.functions(unit, abbreviations, debug_rnglists=lists, debug_addr=addresses)
    expected = [(0x10, 12), (0x30, 2), (0x40, 1), (0x50, 1), (0x60, 2), (0x80, 4)]
    assert named_ranges(table) == [(b"f", layout.text + start, size) for start, size in expected]
