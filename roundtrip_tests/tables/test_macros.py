"""Macro information as columns: the kernel reads the same as the reference engine; written back; findings.

Strategy: hypothesis draws whole sections for both engines to read; each rule of DWARF4 6.3 has an example that breaks
it alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import BuildError, ParseError
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.macro.check import MacroProblem, check_macros
from unwindkit.converters.macro.strings import macro_sources
from unwindkit.converters.macro.table import Macros, read_macros, write_macros
from unwindkit.converters.macro.vendor_opcodes import operands_of
from unwindkit.schemas import strategies
from unwindkit.schemas.forms import DW_FORM
from unwindkit.schemas.macros import (
    MACRO_SECTIONS,
    MacroEntry,
    MacroOperand,
    MacroUnit,
    build_macros,
    parse_macros,
    standard_operands,
)
from unwindkit.schemas.section import ByteOrder, Section
from unwindkit.schemas.wire import Leb128, leb_size

from ..conftest import engine_in_use, fewer
from ..support.handmade import octets, place
from ..support.programs.debug_programs import EVERY_VARIANT, Variant, built
from .test_vectors_macros import MACINFO, MACRO, VENDORS_BIG_64

orders = st.sampled_from(["little", "big"])
engines = st.sampled_from(["pure", "compiled"])


def section(data: str | bytes, name: str = ".debug_macro", order: ByteOrder = "little") -> Section:
    return Section.of(name, octets(data) if isinstance(data, str) else data, 0, order)


# --- columns ----------------------------------------------------------------------------------------------------------


def test_columns_of_macinfo(kernels: str) -> None:
    table = read_macros(section(MACINFO, ".debug_macinfo"))
    assert (table.unit_offset.tolist(), table.first.tolist()) == ([0, 21], [0, 5, 5])
    assert table.opcode.tolist() == [1, 3, 2, 4, 0xFF]
    assert table.line.tolist() == [0, 0, 5, 0, 0]
    assert table.value.tolist() == [0, 1, 0, 0, 7]
    assert [table.text_of(index) for index in range(5)] == [b"A 1", b"", b"A", b"", b"xy"]
    assert table.offset.tolist() == [0, 6, 10, 14, 15]


def test_columns_of_every_opcode(kernels: str) -> None:
    table = read_macros(section(MACRO + MACRO))
    assert (table.version.tolist(), table.line_offset.tolist()) == ([5, 5], [0x3344] * 2)
    assert table.opcode.tolist() == [*range(1, 13)] * 2
    assert table.line[:12].tolist() == [1, 2, 0, 0, 3, 4, 0, 5, 6, 0, 7, 8]
    assert table.value[12:].tolist() == [0, 0, 1, 0, 0x5678, 0x5678, 9, 0x11, 0x12, 0x13, 2, 0x103]


def test_columns_of_described_opcodes(kernels: str) -> None:
    table = read_macros(section(VENDORS_BIG_64, order="big"))
    assert table.is_described(np.arange(3)).tolist() == [True, True, False]
    assert [table.text_of(index) for index in range(2)] == [b"", octets("07 02aabb 0000000000000123")]
    assert (table.line.tolist(), table.value.tolist()) == ([0, 0, 1], [0, 0, 0x456])


def test_offsets_are_written_in_4_bytes_or_refused(kernels: str) -> None:
    table = read_macros(section("0500 02 44330000 05 01 00000000 00"))
    largest, large = np.array([(1 << 32) - 1], np.uint64), np.array([1 << 32], np.uint64)
    written = write_macros(replace(table, line_offset=largest, value=largest))
    assert written == octets("0500 02 ffffffff 05 01 ffffffff 00")
    with pytest.raises(BuildError, match=r"unit\[0\].debug_line_offset: 0x100000000 does not fit 4 bytes"):
        write_macros(replace(table, line_offset=large))
    with pytest.raises(BuildError, match=r"entry\[0\].value: 0x100000000 does not fit 4 bytes"):
        write_macros(replace(table, value=large))


# Units, and the offset, record and reason of the error.
UNREADABLE = {
    "an opcode that only the previous unit describes": (
        "0500 04 01 e0 00  e0 00   0500 00  e0 00", 11, "unit[1].entry[0]", "the opcode is not defined",
    ),
    "an opcode that nobody describes": ("0500 00  04  e0 00", 4, "unit[0].entry[1]", "the opcode is not defined"),
    "the version after the last": ("0600 00  00", 0, "unit[0].header", "unknown version"),
    "the version before the first": ("0300 00  00", 0, "unit[0].header", "unknown version"),
    "the largest version": ("ffff 00  00", 0, "unit[0].header", "unknown version"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_units_that_cannot_be_read(name: str, kernels: str) -> None:
    units, offset, record, reason = UNREADABLE[name]
    with pytest.raises(ParseError) as caught:
        read_macros(section(units))
    assert (place(caught.value), caught.value.reason) == ((".debug_macro", offset, record), reason)


def test_wide_constants_have_the_byte_order_of_the_file() -> None:
    """DW_FORM_data16 is 0x1e."""
    for order, version in (("little", "0500"), ("big", "0005")):
        one = section(f"{version} 04 01 e0 01 1e  e0 000102030405060708090a0b0c0d0e0f 00", order=order)
        [(form, value)] = operands_of(one, read_macros(one), 0)
        assert form is DW_FORM.data16
        assert f"{value:032x}" == {
            "little": "0f0e0d0c0b0a09080706050403020100", "big": "000102030405060708090a0b0c0d0e0f",
        }[order]  # fmt: skip


# Version 4 without standard opcodes.
FILE_NAMES = """
    27000000 0400 21000000      # unit_length, version, header_length
    01 01 01 fb 0e 01           # minimum_instruction_length to opcode_base
    696e6300 00                 # directory 1: "inc"
    612e6800 01 00 00           # file 1: "a.h" in directory 1
    622e6800 02 00 00           # file 2: "b.h" in directory 2, which is missing
    632e6800 00 00 00 00        # file 3: "c.h" in the compilation directory
"""


def test_names_of_files_by_number() -> None:
    sources = macro_sources(line=section(FILE_NAMES, ".debug_line"))
    names = [sources.file_name(0, number) for number in range(5)]
    assert names == [None, b"inc/a.h", None, b"c.h", None]
    assert sources.file_name(1, 1) is None


def matches(table: Macros, index: int, entry: MacroEntry, unit: MacroUnit) -> bool:
    """Whether a row of the columns equals an entry of the reference engine."""
    operands = standard_operands(0 if unit.header is None else unit.header.version).get(entry.opcode)
    if operands is None:
        return bool(table.opcode[index] == entry.opcode)
    for operand, value in zip(operands, entry.operands, strict=True):
        if operand in (MacroOperand.TEXT, MacroOperand.VENDOR_TEXT):
            found: object = table.text_of(index)
        else:
            found = int((table.line if operand is MacroOperand.LINE else table.value)[index])
        if found != (value if isinstance(value, bytes) else int(value)):
            return False
    return bool(table.opcode[index] == entry.opcode)


def shortest(unit: MacroUnit) -> MacroUnit:
    """The unit with no padded number where the standards define operands."""

    def cut(value: object) -> object:
        return Leb128(value.value, leb_size(value.value, signed=False)) if isinstance(value, Leb128) else value

    known = standard_operands(0 if unit.header is None else unit.header.version)
    entries = (
        MacroEntry(one.opcode, tuple(map(cut, one.operands)) if one.opcode in known else one.operands)
        for one in unit.entries
    )
    return MacroUnit(unit.header, tuple(entries))


@pytest.mark.parametrize("name", MACRO_SECTIONS)
@fewer(5)
@given(order=orders, engine=engines, data=st.data())
def test_units_as_the_reference_engine_reads_them(
    name: str, order: ByteOrder, engine: str, data: st.DataObject
) -> None:
    units = data.draw(st.lists(strategies.macro_units(MACRO_SECTIONS[name]), max_size=3))
    built_bytes = build_macros(tuple(units), order)
    with engine_in_use(engine):
        table = read_macros(section(built_bytes, name, order))
        written = write_macros(table)
    assert np.diff(table.first).tolist() == [len(unit.entries) for unit in units]
    entries = [(entry, unit) for unit in units for entry in unit.entries]
    assert all(matches(table, index, *one) for index, one in enumerate(entries))
    assert written == build_macros(tuple(map(shortest, units)), order)


@EVERY_VARIANT
def test_sections_of_gcc_are_written_as_they_were(variant: Variant, debug_folder: Path) -> None:
    """Law 2, on the wire and for columns; and there are no findings."""
    image = open_elf(built(debug_folder, variant)[1])
    strings = next((image.contents(one) for one in image.named(".debug_str")), None)
    found = [image.contents(header) for name in MACRO_SECTIONS for header in image.named(name)]
    assert found
    for one in found:
        units = parse_macros(one, MACRO_SECTIONS[one.name])
        assert build_macros(units, one.byte_order) == bytes(one.data)
        table = read_macros(one)
        assert len(table) == sum(len(unit.entries) for unit in units) > 300
        assert write_macros(table) == bytes(one.data)
        assert check_macros(one, macro_sources(strings)).sentences() == ()


# --- findings ---------------------------------------------------------------------------------------------------------

BASE, END = "03 00 01 ", "04 "


def entry(kind: int, line: int, text: str) -> str:
    return f"{kind:02x} {line:02x} {text.encode().hex()}00 "


A = entry(1, 3, "A 1")


@pytest.mark.parametrize(
    ("entries", "problem", "offset"),
    [
        (A, MacroProblem.NO_BASE, 0),
        ("03 01 01 " + END, MacroProblem.BASE_LINE, 0),
        (BASE + END + "03 00 02 " + END, MacroProblem.SEVERAL_BASES, 4),
        (A + BASE + END, MacroProblem.COMMAND_LINE, 0),
        (BASE + END + entry(1, 0, "A 1"), MacroProblem.AFTER_BASE, 4),
        (BASE + END + END, MacroProblem.NOT_BEGUN, 4),
        (END + BASE + END, MacroProblem.NOT_BEGUN, 0),
        (BASE + "03 01 02 " + END, MacroProblem.NOT_ENDED, 0),
        (BASE + entry(1, 0, "A 1") + END, MacroProblem.NO_LINE, 3),
        (BASE + A + entry(2, 2, "A") + END, MacroProblem.DESCENDS, 9),
        (BASE + A + "03 02 02 " + END + END, MacroProblem.DESCENDS, 9),
        (BASE + A + "03 04 02 " + entry(1, 1, "B ") + END + entry(1, 3, "C ") + END, MacroProblem.DESCENDS, 18),
        (BASE + entry(1, 3, "1A 1") + END, MacroProblem.NAME, 3),
        (BASE + entry(1, 3, "") + END, MacroProblem.NAME, 3),
        (BASE + entry(2, 3, "A 1") + END, MacroProblem.NAME, 3),
        (BASE + entry(2, 3, "") + END, MacroProblem.NAME, 3),
        (BASE + entry(1, 3, "A") + END, MacroProblem.SPACE, 3),
        (BASE + entry(1, 3, "A  1") + END, MacroProblem.SPACE, 3),
        (BASE + entry(1, 3, "A=1") + END, MacroProblem.SPACE, 3),
        (BASE + entry(1, 3, "A(x)x") + END, MacroProblem.SPACE, 3),
        (BASE + entry(1, 3, "A(x)") + END, MacroProblem.SPACE, 3),
        (BASE + entry(1, 3, "A(x, y) x") + END, MacroProblem.PARAMETERS, 3),
        (BASE + entry(1, 3, "A(x") + END, MacroProblem.PARAMETERS, 3),
    ],
)
def test_each_rule_of_macinfo(entries: str, problem: MacroProblem, offset: int) -> None:
    right = BASE + A + END + "00 "
    for before, after in (("", ""), (right, right)):
        found = check_macros(section(before + entries + "00" + after, ".debug_macinfo"))
        assert [MacroProblem(number) for number in found.problem] == [problem]
        assert found.of(problem) == [offset + len(octets(before))]


@pytest.mark.parametrize(
    "entries",
    [
        "",
        entry(1, 0, "A 1") + entry(2, 0, "A") + BASE + END,
        BASE + entry(1, 1, "A ") + entry(1, 1, "B(x,y,...) x") + entry(1, 2, "_$\u00e4()  ".rstrip() + " ") + END,
        BASE + "03 05 02 " + entry(1, 1, "A 1") + END + "03 06 03 " + entry(1, 1, "B 1") + END + entry(2, 7, "A") + END,
        # A file included from the command line.
        BASE + "03 00 02 " + A + END + END,
        "ff 07 787900 " + BASE + END,
    ],
)
def test_what_is_right_in_macinfo(entries: str) -> None:
    assert check_macros(section(entries + "00", ".debug_macinfo")).sentences() == ()


def imports(*targets: int) -> str:
    """Units of 9 bytes that each import another."""
    return "".join(f"0500 00 07 {target.to_bytes(4, 'little').hex()} 00 " for target in targets)


def test_imports() -> None:
    """Units at 0, 9, 18, 27 and 36: 0 imports 9, which imports 18, which imports 9; 27 imports 0; 36 imports 37, which
    is not a unit."""
    found = check_macros(section(imports(9, 18, 9, 0, 37)))
    assert found.of(MacroProblem.CYCLE) == [9 + 3, 18 + 3]
    assert found.of(MacroProblem.NO_UNIT) == [36 + 3]
    assert len(found) == 3
    assert check_macros(section(imports(0))).of(MacroProblem.CYCLE) == [3]
    assert len(check_macros(section(imports(9, 18) + "0500 00 00"))) == 0


def test_an_import_out_of_a_cycle_is_right() -> None:
    """The units at 0 and 14 import each other; the first one also imports the one at 23, which imports nothing."""
    found = check_macros(section("0500 00 07 0e000000 07 17000000 00  0500 00 07 00000000 00  0500 00 00"))
    assert found.of(MacroProblem.CYCLE) == [3, 14 + 3]
    assert len(found) == 2


def test_surplus_ends_do_not_reach_into_the_next_unit() -> None:
    found = check_macros(section(BASE + END * 4 + "00" + BASE + A + END + "00", ".debug_macinfo"))
    assert found.of(MacroProblem.NOT_BEGUN) == [4, 5, 6]
    assert len(found) == 3


def test_texts_in_debug_str() -> None:
    unit = "0500 00 05 01 00000000 05 01 04000000 06 01 07000000 05 01 0a000000 00"
    sources = macro_sources(Section.of(".debug_str", b"A 1\0B2\0C\0D "))
    found = check_macros(section(unit), sources)
    assert found.of(MacroProblem.SPACE) == [3 + 6]
    assert found.of(MacroProblem.NO_STRING) == [3 + 18]
    assert len(found) == 2


def test_an_empty_last_text_of_debug_str_is_inside_the_section() -> None:
    found = check_macros(section("0500 00 06 01 02000000 00"), macro_sources(Section.of(".debug_str", b"A\0\0")))
    assert found.of(MacroProblem.NAME) == [3]
    assert len(found) == 1


def test_entries_outside_of_files_are_right_where_a_unit_is_to_be_imported() -> None:
    assert len(check_macros(section("0500 00 " + A + A + "00"))) == 0
    assert check_macros(section("0500 00 " + A + entry(1, 2, "B ") + "00")).of(MacroProblem.DESCENDS) == [3 + 6]
