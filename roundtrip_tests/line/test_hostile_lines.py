"""Malformed line number programs: each gives an error with its location, promptly, on both engines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unwindkit import BuildError, ParseError, from_debug_line, to_debug_line
from unwindkit.converters.line.dump.decode import read_line_dump
from unwindkit.converters.line.dump.raw import raw_line_text
from unwindkit.converters.line.read import LINE_STR, table_of_lines
from unwindkit.converters.line.table import same_lines
from unwindkit.schemas.line import RowFlag
from unwindkit.schemas.line_sections import parse_line_section
from unwindkit.schemas.section import Section

from ..support.made.line_bytes import Unit
from ..support.made.line_tables import line_section
from .test_vectors_lines import END, PROGRAM_BYTES, set_address, table_of

pytestmark = pytest.mark.usefixtures("kernels")

PLAIN = Unit(f"01 {END}")
# Offsets in version 4: 4 unit_length, 2 version, 4 header_length, and the header.
HEADER = 10
PROGRAM = len(PLAIN.data()) - 4
# The count of directories in version 5, which has no formats: header, 12 lengths, the format count.
COUNT_V5 = 12 + 6 + 12 + 1


def refused(data: bytes, offset: int, record: str, reason: str, strings: dict[str, Section] | None = None) -> None:
    with pytest.raises(ParseError) as caught:
        table_of_lines(line_section(data), strings)
    error = caught.value
    assert (error.section, error.offset, error.record) == (".debug_line", offset, record)
    assert reason in error.reason


@pytest.mark.parametrize("field", ["minimum_instruction_length", "maximum_operations", "line_range", "opcode_base"])
def test_fields_that_may_not_be_0(field: str) -> None:
    order = ("minimum_instruction_length", "maximum_operations", "", "", "line_range", "opcode_base")
    place = HEADER + order.index(field)
    name = field + "_per_instruction" * (field == "maximum_operations")
    unit = replace(PLAIN, **{field: 0}, lengths=(0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
    refused(unit.data(), place, f"unit[0].{name}", "0 is not allowed")
    with pytest.raises(ParseError, match=name):
        parse_line_section(line_section(unit.data()))


@pytest.mark.parametrize("count", ["ffffffffffffffff0f", "ffffffffffffffffff01", "ff7f"])
@pytest.mark.parametrize("table", ["directories", "files"])
def test_counts_of_entries_that_are_not_there(count: str, table: str) -> None:
    """0x0fffffffffffffff, and 2**64 - 1: with a format, reading stops at the end of the header; without one,
    immediately."""
    before = "" if table == "directories" else "00 00"
    with_format = Unit(END, 5, tables=f"{before} 01 01 08 {count} 2f00")
    end = len(with_format.data()) - 3
    refused(with_format.data(), end, f"unit[0].{table}", "the string has no terminating zero byte")
    without = Unit(END, 5, tables=f"{before} 00 {count}")
    refused(without.data(), len(without.data()) - 3, f"unit[0].{table}", "entries without a format")
    for unit in (with_format, without):
        with pytest.raises(ParseError, match="header"):
            parse_line_section(line_section(unit.data()))


def test_forms() -> None:
    unknown = Unit(END, 5, tables="01 01 7f 01 00")
    refused(unknown.data(), COUNT_V5 + 3, "unit[0].directories", "unknown form of a value")
    # No value is stored, so the form need not be known.
    no_value = Unit(END, 5, tables="01 01 7f 00 00 00")
    assert table_of(no_value).directories_of(0) == ()
    assert len(parse_line_section(line_section(no_value.data()))) == 1
    not_a_path = Unit(END, 5, tables="01 01 0f 01 05 00 00")
    refused(
        not_a_path.data(), COUNT_V5 + 3, "DW_LNCT_path", "DW_FORM_udata refers to a section or file that is not read"
    )
    not_a_number = Unit(END, 5, tables="01 02 08 01 6100 00 00")
    refused(
        not_a_number.data(),
        COUNT_V5 + 3,
        "DW_LNCT_directory_index",
        "DW_FORM_string is not allowed for this content type",
    )
    not_16_bytes = Unit(END, 5, tables="01 05 0b 01 01 00 00")
    refused(not_16_bytes.data(), COUNT_V5 + 3, "DW_LNCT_MD5", "DW_FORM_data1 is not allowed for this content type")


def test_strings_that_are_not_there() -> None:
    unit = Unit(END, 5, tables="01 01 1f 01 03000000 00 00")
    refused(unit.data(), COUNT_V5 + 3, "DW_LNCT_path", "refers to .debug_line_str, which the file does not have")
    for text, reason in (
        (b"ab\0", "0x3 is outside a section of 0x3 bytes"),
        (b"abcdef", "is not terminated by a zero byte"),
    ):
        with pytest.raises(ParseError, match=reason):
            table_of_lines(line_section(unit.data()), {LINE_STR: Section.of(LINE_STR, text)})


def test_lengths_that_lie() -> None:
    data = PLAIN.data()
    refused((len(data) - 3).to_bytes(4, "little") + data[4:], 0, "unit[0].length", "past the section's end")
    refused(b"\xf0\xff\xff\xff" + data[4:], 0, "unit[0].length", "reserved")
    refused(b"\0" * 4, 4, "unit[0].version", "ends before")
    refused(data[:4] + b"\x06\0" + data[6:], 4, "unit[0].version", "6; 2 to 5 are known")
    for length in (0, 5, 0x7FFFFFFF, 0xFFFFFFFF):
        refused(
            data[:6] + length.to_bytes(4, "little") + data[10:],
            6,
            "unit[0].header_length",
            "is too small or reaches past the unit",
        )
    wide = Unit(END, is_64=True).data()
    refused(wide[:14] + b"\xff" * 8 + wide[22:], 14, "unit[0].header_length", "is too small or reaches past the unit")
    # Truncated anywhere, except where the program begins: a unit may have no program.
    for size in {*range(5, len(data))} - {PROGRAM}:
        with pytest.raises(ParseError):
            table_of_lines(line_section((size - 4).to_bytes(4, "little") + data[4:size]))


def test_standard_opcode_lengths_behind_the_header() -> None:
    unit = replace(PLAIN, opcode_base=255, lengths=(0, 1, 1))
    refused(unit.data(), HEADER, "unit[0].standard_opcode_lengths", "past the header")


def refused_program(program: str, at: int, reason: str, **fields: object) -> None:
    """Check that the instruction at byte `at` of the program is refused."""
    unit = replace(PLAIN, program=program, **fields)
    start = len(unit.data()) - len(bytes.fromhex(program))
    refused(unit.data(), start + at, "unit[0].program", reason)


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        ("00", "holds no opcode"),
        ("ffffffff0f", "past the program's end"),
        ("ffffffffffffffffff01", "past the program's end"),
        ("ffffffffffffffffff7f", "does not fit 64 bits"),
        ("80808080808080", "ends inside a value"),
        ("80" * 5000 + "00", "holds no opcode"),
    ],
)
def test_lengths_of_extended_instructions(length: str, reason: str) -> None:
    refused_program(f"01 00 {length}", 1, reason)
    section = line_section(replace(PLAIN, program=f"01 00 {length}").data())
    with pytest.raises(ParseError, match="program"):
        [*raw_line_text(read_line_dump(section, {}))]


def test_operands_that_are_cut() -> None:
    for program in ("02", "02 80", "03 ff", "04", "09 01", "00 01 04", "00 02 04 80", "00 03 03 6100", "00 02 03 61"):
        refused_program(f"01 {program}", 1, "ends inside a value")
    refused_program("01 0d 80", 1, "ends inside a value", opcode_base=14)
    for program in ("00 01 02", "00 0a 02 000000000000000000"):
        refused_program(program, 0, "an address size of 0 or above 8")


def test_registers_of_more_than_32_bits() -> None:
    for program in ("04 8080808010 01", "05 8080808010 01", "03 7e 01", "03 ffffffff0f 03 01 01", "0f 0d"):
        at = len(bytes.fromhex(program)) - 1
        refused_program(f"{program} {END}", at, "does not fit 32 bits")
    refused_program(f"03 8080808080808001 01 {END}", 0, "does not fit 32 bits")


def test_addresses_that_go_down() -> None:
    first = set_address(0x2000, PLAIN)
    refused_program(f"{first} 01 02 ffffffffffffffffff01 01 {END}", 23, "decreases")
    # A sequence may begin at any address.
    table = table_of(replace(PLAIN, program=f"{first} 01 {END} {set_address(0x1000, PLAIN)} 01 {END}"))
    assert table.rows.address.tolist() == [0x2000, 0x2000, 0x1000, 0x1000]
    # DW_LNE_set_address may go down: linkers place discarded code at 0. The last row before it ends a sequence.
    table = table_of(replace(PLAIN, program=f"{first} 01 02 04 01 {set_address(0x1FFF, PLAIN)} 01 02 04 {END}"))
    assert table.rows.address.tolist() == [0x2000, 0x2004, 0x1FFF, 0x2003]
    assert (table.rows.flags & RowFlag.END_SEQUENCE > 0).tolist() == [False, True, False, True]
    assert table.first_row.tolist() == [0, 2, 4]
    assert same_lines(table, from_debug_line(*to_debug_line(table)))
    # op_index is reset to 0 while the address is unchanged.
    refused_program(f"02 01 01 09 0000 01 {END}", 6, "decreases", maximum_operations=4)


def test_a_sequence_without_its_end() -> None:
    refused_program("01 14", 2, "ends inside a sequence")


def test_advances_by_anything_end() -> None:
    """Products and sums are modulo the size of an address; nothing loops."""
    program = f"02 ffffffffffffffffff01 {END}"
    table = table_of(replace(PLAIN, program=program, minimum_instruction_length=255, maximum_operations=7))
    assert len(table) == 1


def test_tables_that_cannot_be_written() -> None:
    table = table_of(replace(PLAIN, program=PROGRAM_BYTES))
    with pytest.raises(BuildError, match=r"row\[1\]: the address decreases"):
        to_debug_line(replace(table, rows=replace(table.rows, address=table.rows.address[[1, 0, 2, 3]])))
    with pytest.raises(BuildError, match=r"row\[0\].end_sequence: is set before the last row of the sequence"):
        to_debug_line(replace(table, rows=replace(table.rows, flags=table.rows.flags | 4)))
    with pytest.raises(BuildError, match=r"row\[0\]: needs a standard opcode"):
        to_debug_line(replace(table, units=replace(table.units, opcode_base=table.units.opcode_base - 3)))
    with pytest.raises(BuildError, match=r"unit\[0\].line_range: is 0"):
        to_debug_line(replace(table, units=replace(table.units, line_range=table.units.line_range * 0)))
    with pytest.raises(BuildError, match=r"row\[0\]: an address does not fit"):
        to_debug_line(replace(table, units=replace(table.units, address_size=table.units.address_size // 8)))
