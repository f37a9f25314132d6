"""Malformed entries, abbreviations, references and indices: a FormatError or a counted, skipped unit; never a hang or
memory out of proportion.

Strategy: the samples of hand-made units, broken one place at a time; mutations of a unit are drawn; amplification runs
in a process with limits.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import FormatError, ParseError, Section
from unwindkit.converters.debug_info.packages import read_index
from unwindkit.converters.kernels.protocol import Fault

from ..conftest import engine_in_use
from ..support.handmade import octets
from ..support.limited import compiled_only, run
from ..support.made.debug_entries import Layout, inlined_calls, named_ranges

LAYOUT = Layout(4)
# 1: DW_TAG_compile_unit; 2: DW_TAG_subprogram with DW_AT_name, DW_AT_low_pc and DW_AT_high_pc (data1); 3: the same with
# DW_AT_specification (ref4) for the name; 4: DW_TAG_namespace; 5: DW_TAG_subprogram with DW_AT_ranges (sec_offset);
# 6: as 2, with DW_AT_sibling (ref4), and children.
ABBREVIATIONS = """
    01 11 01 00 00
    02 2e 00 03 08 11 01 12 0b 00 00
    03 2e 00 47 13 11 01 12 0b 00 00
    04 39 01 03 08 00 00
    05 2e 00 03 08 55 17 00 00
    06 2e 01 01 13 03 08 11 01 12 0b 00 00
    00
"""


def function(offset: int, name: bytes = b"f") -> bytes:
    """An entry of abbreviation 2: 16 bytes of code."""
    return b"\x02" + name + b"\0" + LAYOUT.address(offset) + b"\x10"


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        pytest.param(b"\x01" + b"\x7f", Fault.NO_ABBREVIATION, id="an abbreviation that is not there"),
        pytest.param(b"\x01" + function(0x20)[:-1], Fault.CUT, id="an entry without its last byte"),
        pytest.param(b"\x01" + b"\x04a\0" * 5000, Fault.TOO_DEEP, id="entries 5,000 deep"),
    ],
)
def test_a_unit_with_a_fault_is_skipped_and_the_next_is_read(entries: bytes, fault: Fault) -> None:
    good = LAYOUT.unit(b"\x01" + function(0, b"g") + b"\0")
    table = LAYOUT.functions(LAYOUT.unit(entries) + good, ABBREVIATIONS)
    assert named_ranges(table) == [(b"g", LAYOUT.text, 16)]
    assert table.skipped.fault.tolist() == [fault]
    assert table.skipped.offset.tolist() == [0]


@pytest.mark.usefixtures("kernels")
def test_siblings_are_not_followed() -> None:
    # DW_AT_sibling leads back to the entry itself.
    entry = b"\x06" + LAYOUT.number(LAYOUT.header_size + 1, 4) + b"f\0" + LAYOUT.address(0) + b"\x10"
    table = LAYOUT.functions(LAYOUT.unit(b"\x01" + entry + b"\0\0"), ABBREVIATIONS)
    assert named_ranges(table) == [(b"f", LAYOUT.text, 16)]


@pytest.mark.usefixtures("kernels")
def test_a_cycle_of_specifications_has_no_name() -> None:
    first = LAYOUT.header_size + 1
    second = first + 1 + 4 + 8 + 1
    entries = b"".join(
        b"\x03" + LAYOUT.number(other, 4) + LAYOUT.address(offset) + b"\x10"
        for other, offset in ((second, 0), (first, 0x20))
    )
    table = LAYOUT.functions(LAYOUT.unit(b"\x01" + entries + b"\0"), ABBREVIATIONS)
    assert named_ranges(table) == [(None, LAYOUT.text, 16), (None, LAYOUT.text + 0x20, 16)]


@pytest.mark.usefixtures("kernels")
def test_the_first_of_equal_abbreviation_codes_is_used() -> None:
    table = LAYOUT.functions(LAYOUT.unit(b"\x01" + function(0) + b"\0"), ABBREVIATIONS[:-10] + "02 34 00 00 00  00")
    assert named_ranges(table) == [(b"f", LAYOUT.text, 16)]


@pytest.mark.usefixtures("kernels")
def test_a_range_list_without_an_end_gives_its_function_no_code() -> None:
    unit = LAYOUT.unit(b"\x01" + b"\x05f\0" + LAYOUT.offset(0) + function(0, b"g") + b"\0")
    table = LAYOUT.functions(unit, ABBREVIATIONS, debug_ranges=struct.pack("<QQ", LAYOUT.text, LAYOUT.text + 4) * 3)
    assert (b"g", LAYOUT.text, 16) in named_ranges(table)
    assert table.skipped.place.tolist() == [48]
    assert table.skipped.fault.tolist() == [Fault.CUT]


@pytest.mark.usefixtures("kernels")
def test_range_lists_that_are_not_there_give_their_functions_no_code() -> None:
    unit = LAYOUT.unit(
        b"\x01" + b"\x05f\0" + LAYOUT.offset(0) + function(0, b"g") + b"\x05h\0" + LAYOUT.offset(0) + b"\0"
    )
    table = LAYOUT.functions(unit, ABBREVIATIONS)
    assert named_ranges(table) == [(b"g", LAYOUT.text, 16)]
    assert table.skipped.place.tolist() == [LAYOUT.header_size + 1]
    assert table.skipped.fault.tolist() == [Fault.NO_RANGE_LISTS]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("length", ["ffffffff 0000000000000080", "ffffffff ffffffffffffffff", "f0ffffff", "ffffff7f"])
def test_the_length_of_a_unit_past_the_section_is_refused(length: str) -> None:
    with pytest.raises(ParseError, match=r"unit\[0\]\.length"):
        LAYOUT.functions(octets(length) + LAYOUT.unit(b"\x01" + function(0))[4:], ABBREVIATIONS)


@pytest.mark.usefixtures("kernels")
def test_a_string_offset_outside_is_refused() -> None:
    abbreviations = "01 11 01 00 00  02 2e 00 03 0e 11 01 12 0b 00 00  00"  # DW_AT_name, DW_FORM_strp
    unit = LAYOUT.unit(b"\x01\x02" + LAYOUT.offset(9) + LAYOUT.address(0) + b"\x10\0")
    with pytest.raises(ParseError, match="0x9 is outside a section of 0x2 bytes"):
        LAYOUT.functions(unit, abbreviations, debug_str=b"f\0")


# Version 5. 1: DW_TAG_compile_unit with DW_AT_low_pc, DW_AT_addr_base, DW_AT_rnglists_base; 2: DW_TAG_subprogram with
# DW_AT_name and DW_AT_ranges (rnglistx); 3: with DW_AT_low_pc and DW_AT_high_pc (data1); 4: DW_AT_low_pc is addrx; 5:
# DW_AT_ranges is sec_offset.
NEW = Layout(5)
NEW_ABBREVIATIONS = """
    01 11 01 11 01 73 17 74 17 00 00
    02 2e 00 03 08 55 23 00 00
    03 2e 00 03 08 11 01 12 0b 00 00
    04 2e 00 03 08 11 1b 12 0b 00 00
    05 2e 00 03 08 55 17 00 00
    00
"""
NEW_UNIT = b"\x01" + NEW.address(0) + NEW.offset(8) + NEW.offset(12)
GOOD = b"\x03g\0" + NEW.address(0x80) + b"\x10"
GOOD_RANGE = (b"g", NEW.text + 0x80, 16)
ADDRESSES = NEW.contribution(NEW.number(5, 2) + b"\x08\0" + NEW.address(0x10) + NEW.address(0x14))


def range_lists(body: bytes) -> bytes:
    """A `.debug_rnglists` with one list, at 0x10."""
    return NEW.contribution(NEW.number(5, 2) + b"\x08\0" + NEW.number(1, 4) + NEW.offset(4) + body)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("body", "fault", "place"),
    [
        pytest.param("08 00", Fault.UNKNOWN_RANGE, 0x11, id="an unknown kind"),
        pytest.param("03 09 04 00", Fault.NO_ADDRESS, 0x13, id="an index outside .debug_addr"),
        pytest.param("04" + " 80" * 12, Fault.CUT, 0x11, id="a LEB128 without an end"),
        pytest.param("07 01 02", Fault.CUT, 0x12, id="an address that is cut"),
    ],
)
def test_a_malformed_range_list_gives_its_function_no_code(body: str, fault: Fault, place: int) -> None:
    info = NEW.unit(NEW_UNIT + b"\x02f\0\0" + GOOD + b"\0")
    lists = range_lists(octets(body))
    table = NEW.functions(info, NEW_ABBREVIATIONS, debug_rnglists=lists, debug_addr=ADDRESSES)
    assert named_ranges(table) == [GOOD_RANGE]
    assert (table.skipped.fault.tolist(), table.skipped.place.tolist()) == ([fault], [place])


@pytest.mark.usefixtures("kernels")
def test_a_range_list_of_version_5_without_an_end_is_read_up_to_the_sections() -> None:
    info = NEW.unit(NEW_UNIT + b"\x02f\0\0" + GOOD + b"\0")
    lists = range_lists(octets("04 00 04"))
    table = NEW.functions(info, NEW_ABBREVIATIONS, debug_rnglists=lists, debug_addr=ADDRESSES)
    assert named_ranges(table) == [(b"f", NEW.text, 4), GOOD_RANGE]
    assert (table.skipped.fault.tolist(), table.skipped.place.tolist()) == ([Fault.CUT], [len(lists)])


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        pytest.param(b"\x02f\0\x05", [Fault.CUT], id="an index of a list that is not there"),
        pytest.param(b"\x05f\0" + NEW.offset(0x7FFFFFFF), [Fault.CUT], id="an offset outside .debug_rnglists"),
        pytest.param(b"\x04f\0\x09\x04", [], id="an index outside .debug_addr"),
    ],
)
def test_a_function_whose_addresses_are_not_there_has_no_code(entry: bytes, fault: list[Fault]) -> None:
    lists = range_lists(octets("04 00 04 00"))
    info = NEW.unit(NEW_UNIT + entry + GOOD + b"\0")
    table = NEW.functions(info, NEW_ABBREVIATIONS, debug_rnglists=lists, debug_addr=ADDRESSES)
    assert named_ranges(table) == [GOOD_RANGE]
    assert table.skipped.fault.tolist() == fault


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("abbreviation", "value", "fault"),
    [
        pytest.param("03 02", b"", Fault.UNKNOWN_FORM, id="a form that is not defined"),
        pytest.param("03 16", b"\x21", Fault.UNKNOWN_FORM, id="DW_FORM_indirect of DW_FORM_implicit_const"),
        pytest.param("03 16", b"\x16" * 100_000, Fault.UNKNOWN_FORM, id="a hundred thousand DW_FORM_indirect"),
        pytest.param("40 18", b"\xff" * 9 + b"\x01", Fault.BLOCK_PAST_END, id="a block of 2**64 - 1 bytes"),
    ],
)
def test_a_value_that_cannot_be_passed_over_is_a_fault_of_its_unit(
    abbreviation: str, value: bytes, fault: Fault
) -> None:
    abbreviations = f"01 11 01 00 00  02 2e 00 {abbreviation} 00 00  03 2e 00 03 08 11 01 12 0b 00 00  00"
    good = NEW.unit(b"\x01" + GOOD + b"\0")
    table = NEW.functions(NEW.unit(b"\x01\x02" + value + b"\0") + good, abbreviations)
    assert named_ranges(table) == [GOOD_RANGE]
    assert table.skipped.fault.tolist() == [fault]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("form", "value"),
    [
        pytest.param("47 13", b"\xff" * 4, id="ref4 outside the unit"),
        pytest.param("47 14", b"\xff" * 8, id="ref8 of 2**64 - 1"),
        pytest.param("47 10", NEW.offset(0x7FFFFFFF), id="ref_addr outside the section"),
        pytest.param("47 20", b"\xff" * 8, id="a signature that no type has"),
        pytest.param("47 1c", NEW.number(7, 4), id="ref_sup4 without a supplementary file"),
        pytest.param("47 a03e", NEW.offset(7), id="GNU_ref_alt without one"),
        pytest.param("03 1d", NEW.offset(7), id="strp_sup without one"),
    ],
)
def test_a_reference_that_leads_nowhere_gives_no_name(form: str, value: bytes) -> None:
    abbreviations = f"01 11 01 00 00  02 2e 00 {form} 11 01 12 0b 00 00  03 2e 00 03 08 11 01 12 0b 00 00  00"
    table = NEW.functions(NEW.unit(b"\x01\x02" + value + NEW.address(0) + b"\x10" + GOOD + b"\0"), abbreviations)
    assert named_ranges(table) == [(None, NEW.text, 16), GOOD_RANGE]


@pytest.mark.usefixtures("kernels")
def test_an_inlined_function_that_is_its_own_abstract_origin_has_no_name() -> None:
    # 2: DW_TAG_subprogram, has children; 3: DW_TAG_inlined_subroutine with DW_AT_abstract_origin (ref4).
    abbreviations = "01 11 01 00 00  02 2e 01 03 08 11 01 12 0b 00 00  03 1d 00 31 13 11 01 12 0b 00 00  00"
    before = b"\x01\x02f\0" + NEW.address(0) + b"\x20"
    inline = b"\x03" + NEW.number(NEW.header_size + len(before), 4) + NEW.address(4) + b"\x04"
    table = NEW.functions(NEW.unit(before + inline + b"\0\0"), abbreviations)
    assert inlined_calls(table) == [(NEW.text + 4, 4, 0, None, None, 0)]


@pytest.mark.usefixtures("kernels")
def test_a_function_that_ends_past_the_last_address_has_no_code() -> None:
    # DW_AT_high_pc, DW_FORM_data8
    abbreviations = "01 11 01 00 00  02 2e 00 03 08 11 01 12 07 00 00  03 2e 00 03 08 11 01 12 0b 00 00  00"
    table = NEW.functions(NEW.unit(b"\x01\x02f\0" + NEW.address(0) + b"\xff" * 8 + GOOD + b"\0"), abbreviations)
    assert named_ranges(table) == [GOOD_RANGE]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("abbreviations", "reason"),
    [
        ("01 11 01 00 00  02 2e 00 03 08 11", "the record ends inside a value"),
        (f"01 11 01 00 00  {'ff ' * 10} 01 2e 00 00 00  00", "a LEB128 does not fit 64 bits"),
    ],
)
def test_abbreviations_that_cannot_be_read_are_refused(abbreviations: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        NEW.functions(NEW.unit(b"\x01\0"), abbreviations)


ENTRIES = b"\x01\x04n\0" + function(0) + b"\0" + b"\x03\x0f\0\0\0" + LAYOUT.address(0x20) + b"\x10" + b"\0"


@given(st.integers(0, len(LAYOUT.unit(ENTRIES)) - 1), st.integers(0, 255), st.integers(0, 56), st.integers(0, 255))
def test_mutations_are_read_or_refused_alike_on_both_engines(at: int, value: int, place: int, other: int) -> None:
    info, abbreviations = bytearray(LAYOUT.unit(ENTRIES)), bytearray(octets(ABBREVIATIONS))
    info[at] = value
    abbreviations[place % len(abbreviations)] = other
    found = []
    for name in ("pure", "compiled"):
        with engine_in_use(name):
            try:
                table = LAYOUT.functions(bytes(info), bytes(abbreviations), debug_str=b"a\0", debug_ranges=bytes(16))
                found.append(f"{named_ranges(table)} {table.skipped.fault.tolist()} {table.skipped.place.tolist()}")
            except FormatError as error:
                found.append(str(error))
    assert found[0] == found[1]


# --- indices of packages ----------------------------------------------------------------------------------------------

INDEX = """
    05000000                # version 5, padding
    02000000                # sections
    01000000                # units
    02000000                # slots
    8877665544332211 0000000000000000    # signatures
    01000000 00000000       # rows, from 1
    01000000 03000000       # DW_SECT_INFO, DW_SECT_ABBREV
    10000000 20000000       # offsets
    30000000 40000000       # sizes
"""


def test_an_index_as_columns() -> None:
    for version in ("05000000", "02000000"):
        found = read_index(Section.of(".debug_cu_index", octets(INDEX.replace("05000000", version, 1))))
        assert {one: (found.offset[one].tolist(), found.size[one].tolist()) for one in found.offset} == {
            1: ([0x10], [0x30]),
            3: ([0x20], [0x40]),
        }


@pytest.mark.parametrize("field", [4, 8, 12])
@pytest.mark.parametrize("count", [0x10, 0x7FFFFFFF, 0xFFFFFFFF])
def test_wild_counts_of_an_index_are_refused(field: int, count: int) -> None:
    data = bytearray(octets(INDEX))
    data[field : field + 4] = count.to_bytes(4, "little")
    with pytest.raises(ParseError, match="but the section has 0x40"):
        read_index(Section.of(".debug_cu_index", bytes(data)))


@pytest.mark.parametrize("data", ["", "05000000", INDEX.replace("05000000", "06000000", 1)])
def test_a_header_that_is_short_or_of_another_version_is_refused(data: str) -> None:
    with pytest.raises(ParseError, match=r"header|version"):
        read_index(Section.of(".debug_cu_index", octets(data)))


# --- amplification ----------------------------------------------------------------------------------------------------

PRELUDE = """
from roundtrip_tests.support.made.debug_entries import Layout, named_ranges
from roundtrip_tests.support.handmade import octets
layout = Layout(4)
def functions(entries, abbreviations, **sections):
    return layout.functions(layout.unit(entries), octets(abbreviations), **sections)
def attempt(*arguments, **sections):
    try:
        table = functions(*arguments, **sections)
        print(len(table), table.skipped.fault.tolist())
    except FormatError as error:
        print(error)
functions(b"\\x01\\x02f\\0" + layout.address(0) + b"\\x10\\0", "01 11 01 00 00 02 2e 00 03 08 11 01 12 0b 00 00 00")
"""


@pytest.mark.parametrize(
    ("code", "megabytes", "seconds", "expected"),
    [
        pytest.param(
            """
            LIMITS
            attempt(b"\\x01" + b"\\x02" * 1_000_000, "01 11 01 00 00  02 34 01 00 00  00")
            """,
            *(200, 4, f"0 [{int(Fault.TOO_DEEP)}]"),
            id="a million nested entries",
        ),
        pytest.param(
            """
            # Four thousand nested namespaces, each with the same long name.
            LIMITS
            entries = b"\\x01" + (b"\\x02" + bytes(4)) * 4000 + b"\\x03f\\0" + layout.address(0) + b"\\x10"
            attempt(entries, "01 11 01 00 00  02 39 01 03 0e 00 00  03 2e 00 03 08 11 01 12 0b 00 00  00",
                    debug_str=b"n" * 100_000 + b"\\0")
            """,
            *(400, 6, ".debug_info: names: qualified names take more than 4 bytes for each byte (--raise-limits)"),
            id="a long name of nested scopes",
        ),
        pytest.param(
            """
            # A hundred thousand functions whose ranges are tails of one long list.
            count = 100_000
            entries = b"\\x01" + b"".join(b"\\x02" + (16 * n).to_bytes(4, "little") for n in range(count)) + b"\\0"
            lists = (layout.address(0) + layout.address(1)) * count + bytes(16)
            LIMITS
            attempt(entries, "01 11 01 00 00  02 2e 00 55 17 00 00  00", debug_ranges=lists)
            """,
            *(1500, 6, ".debug_ranges"),
            id="range lists that share their bytes",
        ),
        pytest.param(
            """
            # Inlined functions without code, nested 4,000 deep, that contain 5,000 others.
            LIMITS
            leaves = b"".join(b"\\x04" + layout.address(2 * (n % 100)) + b"\\x01" for n in range(5000))
            entries = b"\\x01\\x02" + layout.address(0) + b"\\xf0" + b"\\x03\\0\\0\\0\\0" * 4000 + leaves
            attempt(entries, "01 11 01 00 00  02 2e 01 11 01 12 0b 00 00  03 1d 01 55 17 00 00"
                    "  04 1d 00 11 01 12 0b 00 00  00", debug_ranges=bytes(16))
            """,
            *(200, 4, ".debug_info+0xc (file 0x14c): ranges of nested entries: lists of address ranges repeat"),
            id="nested inlined functions without code",
        ),
        pytest.param(
            """
            # Inlined functions nested 4,000 deep, each with all code of a function in 100 parts.
            LIMITS
            lists = b"".join(layout.address(2 * n) + layout.address(2 * n + 1) for n in range(100)) + bytes(16)
            whole = layout.address(0) + b"\\xf0"
            entries = b"\\x01\\x02\\0\\0\\0\\0" + (b"\\x03" + whole) * 4000
            attempt(entries, "01 11 01 00 00  02 2e 01 55 17 00 00  03 1d 01 11 01 12 0b 00 00  00", debug_ranges=lists)
            """,
            *(200, 4, ".debug_info+0xc (file 0x14c): ranges of nested entries: lists of address ranges repeat"),
            id="nested inlined functions in many parts",
        ),
        pytest.param(
            """
            # Each specification leads to the next entry.
            count = 200_000
            size = 1 + 4 + 8 + 1
            entries = b"\\x01" + b"".join(
                b"\\x02" + (12 + size * (n + 1)).to_bytes(4, "little") + layout.address(0) + b"\\x10"
                for n in range(count)
            ) + b"\\0"
            LIMITS
            attempt(entries, "01 11 01 00 00  02 2e 00 47 13 11 01 12 0b 00 00  00")
            """,
            *(800, 8, "200000 []"),
            id="a chain of 200,000 specifications",
        ),
    ],
)
def test_amplification(code: str, megabytes: int, seconds: int, expected: str) -> None:
    compiled_only()
    limited = "\n".join(line.strip() if line.strip() == "LIMITS" else line for line in code.splitlines())
    assert run(_dedented(PRELUDE, limited), megabytes, seconds).startswith(expected)


def _dedented(prelude: str, code: str) -> str:
    lines = code.splitlines()
    return prelude + "\n".join(line.removeprefix(" " * 12) for line in lines)
