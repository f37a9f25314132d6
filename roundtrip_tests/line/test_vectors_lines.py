"""Line number programs worked out by hand from the specification (DWARF5 6.2): every opcode, register and version."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unwindkit import ParseError
from unwindkit.converters.line.read import LINE_STR, STR, table_of_lines
from unwindkit.converters.line.table import LineFile, LineTable
from unwindkit.schemas.line import VERSIONS
from unwindkit.schemas.line_sections import build_unit, parse_line_section, parse_unit
from unwindkit.schemas.section import Section

from ..support.judges.line_machine import Registers
from ..support.made.line_bytes import TABLES, Unit
from ..support.made.line_tables import line_section, rows_of
from ..support.made.made_frames import uleb

pytestmark = pytest.mark.usefixtures("kernels")

END = "00 01 01"  # DW_LNE_end_sequence
NO_MD5 = bytes(16)


def table_of(*units: Unit, strings: dict[str, Section] | None = None) -> LineTable:
    one = units[0]
    data = b"".join(unit.data() for unit in units)
    return table_of_lines(line_section(data, one.byte_order, one.address_size), strings)


def rows_made(unit: Unit) -> list[Registers]:
    (rows,) = rows_of(table_of(unit))
    return rows


def set_address(address: int, unit: Unit) -> str:
    return f"00 {1 + unit.address_size:02x} 02 {unit.integer(address, unit.address_size).hex()}"


# The table of the specification (6.2.5.1): opcode_base 13, line_base -3, line_range 12; one row per operation advance.
SPECIAL_OPCODES = """
 0    13  14  15  16  17  18  19  20  21  22  23  24
 1    25  26  27  28  29  30  31  32  33  34  35  36
 2    37  38  39  40  41  42  43  44  45  46  47  48
 3    49  50  51  52  53  54  55  56  57  58  59  60
 4    61  62  63  64  65  66  67  68  69  70  71  72
 5    73  74  75  76  77  78  79  80  81  82  83  84
 6    85  86  87  88  89  90  91  92  93  94  95  96
 7    97  98  99 100 101 102 103 104 105 106 107 108
 8   109 110 111 112 113 114 115 116 117 118 119 120
 9   121 122 123 124 125 126 127 128 129 130 131 132
10   133 134 135 136 137 138 139 140 141 142 143 144
11   145 146 147 148 149 150 151 152 153 154 155 156
12   157 158 159 160 161 162 163 164 165 166 167 168
13   169 170 171 172 173 174 175 176 177 178 179 180
14   181 182 183 184 185 186 187 188 189 190 191 192
15   193 194 195 196 197 198 199 200 201 202 203 204
16   205 206 207 208 209 210 211 212 213 214 215 216
17   217 218 219 220 221 222 223 224 225 226 227 228
18   229 230 231 232 233 234 235 236 237 238 239 240
19   241 242 243 244 245 246 247 248 249 250 251 252
20   253 254 255
"""


def test_the_special_opcodes_of_the_text() -> None:
    """All 243, each after a line advance of 10 in a separate sequence."""
    expected = {}
    for line in SPECIAL_OPCODES.strip().splitlines():
        advance, *opcodes = map(int, line.split())
        expected |= {opcode: (advance, line_advance) for line_advance, opcode in enumerate(opcodes, -3)}
    assert sorted(expected) == list(range(13, 256))
    unit = Unit("".join(f"03 0a {opcode:02x} {END}" for opcode in expected))  # line 1 + 10
    sequences = rows_of(table_of(unit))
    assert len(sequences) == 243
    for (advance, line_advance), (row, end) in zip(expected.values(), sequences, strict=True):
        assert row == Registers(address=advance, line=11 + line_advance, is_stmt=True)
        assert end == Registers(address=advance, line=11 + line_advance, is_stmt=True, end_sequence=True)


PROGRAM = """
 00 09 02 0010000000000000  DW_LNE_set_address 0x1000
 03 e400                    DW_LNS_advance_line 100
 05 07                      DW_LNS_set_column 7
 0a                         DW_LNS_set_prologue_end
 01                         DW_LNS_copy
 04 02                      DW_LNS_set_file 2
 06                         DW_LNS_negate_stmt
 07                         DW_LNS_set_basic_block
 0b                         DW_LNS_set_epilogue_begin
 00 02 04 05                DW_LNE_set_discriminator 5
 02 03                      DW_LNS_advance_pc 3
 0c 01                      DW_LNS_set_isa 1
 1d                         special opcode 29: operations 1, line +1
 08                         DW_LNS_const_add_pc: 20
 09 3412                    DW_LNS_fixed_advance_pc 0x1234
 03 7f                      DW_LNS_advance_line -1
 06                         DW_LNS_negate_stmt
 01                         DW_LNS_copy
 02 02                      DW_LNS_advance_pc 2
 00 01 01                   DW_LNE_end_sequence
"""
# The text of each line, without the columns of bytes before it.
PROGRAM_BYTES = "".join(line.split("  ")[0].strip().replace(" ", "") for line in PROGRAM.strip().splitlines())
PROGRAM_ROWS = [
    Registers(0x1000, line=101, column=7, is_stmt=True, prologue_end=True),
    Registers(0x1004, file=2, line=102, column=7, basic_block=True, epilogue_begin=True, isa=1, discriminator=5),
    Registers(0x1004 + 20 + 0x1234, file=2, line=101, column=7, is_stmt=True, isa=1),
    Registers(0x1004 + 20 + 0x1234 + 2, file=2, line=101, column=7, is_stmt=True, isa=1, end_sequence=True),
]


@pytest.mark.parametrize("is_64", [False, True], ids=["32-bit DWARF", "64-bit DWARF"])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_standard_opcode_in_every_version(version: int, is_64: bool) -> None:
    assert rows_made(Unit(PROGRAM_BYTES, version, is_64=is_64)) == PROGRAM_ROWS


@pytest.mark.parametrize("version", VERSIONS)
def test_big_endian(version: int) -> None:
    swapped = PROGRAM_BYTES.replace("0010000000000000", "0000000000001000").replace("093412", "091234")
    assert rows_made(Unit(swapped, version, byte_order="big")) == PROGRAM_ROWS


def test_addresses_of_4_bytes() -> None:
    program = PROGRAM_BYTES.replace("0009020010000000000000", "00050200100000")
    for version in VERSIONS:
        assert rows_made(Unit(program, version, address_size=4)) == PROGRAM_ROWS


def test_registers_begin_anew_with_each_sequence() -> None:
    first, second = rows_of(table_of(Unit(f"05 09 04 02 06 0c 03 03 05 01 {END} 01 {END}", default_is_stmt=0)))
    assert first[0] == Registers(file=2, line=6, column=9, is_stmt=True, isa=3)
    assert second == [Registers(), Registers(end_sequence=True)]


def test_advances_count_minimum_instruction_lengths_but_for_the_fixed_one() -> None:
    rows = rows_made(Unit(f"02 03 01 08 01 09 0300 01 10 1c {END}", minimum_instruction_length=4))
    assert [row.address for row in rows] == [12, 92, 95, 95, 99, 99]


def test_constants_are_what_opcode_255_adds() -> None:
    """(255 - 13) / 11 = 22; for 254 it would be 21."""
    assert rows_made(Unit(f"08 01 {END}", line_range=11))[0] == Registers(22, is_stmt=True)


def test_operations_of_vliw_instructions() -> None:
    """maximum_operations_per_instruction 4: address + 16 * ((op_index + advance) / 4), op_index modulo 4."""
    unit = Unit(
        "1c"  # special opcode 28: operations 1, line +0
        "02 06 01"  # DW_LNS_advance_pc 6: from operation 1 to 7
        "34"  # special opcode 52: operations 3, line +0
        "08 01"  # DW_LNS_const_add_pc: 20
        "02 01 01"
        "09 0800 01"  # DW_LNS_fixed_advance_pc 8: op_index is 0 again
        f"{END}",
        minimum_instruction_length=16,
        maximum_operations=4,
    )
    assert [(row.address, row.op_index) for row in rows_made(unit)] == [
        (0, 1), (16, 3), (32, 2), (112, 2), (112, 3), (120, 0), (120, 0)
    ]  # fmt: skip


def test_opcode_base_10_makes_10_to_12_special() -> None:
    """10, 11 and 12 are special: lines -3, -2 and -1, no operation advance."""
    rows = rows_made(Unit(f"03 09 0a 0b 0c 0d {END}", opcode_base=10))
    assert [(row.line, row.prologue_end, row.epilogue_begin) for row in rows[:-1]] == [
        (7, False, False), (5, False, False), (4, False, False), (4, False, False)
    ]  # fmt: skip
    # (255 - 10) / 12 operations.
    assert rows_made(Unit(f"08 01 {END}", opcode_base=10))[0].address == 20


def test_opcode_base_14_leaves_one_opcode_to_who_knows_it() -> None:
    """13 has the number of LEB128 operands given in the header, here 3; 14 is the first special opcode."""
    unit = Unit(f"0d 818000 ff01 00 03 04 0e {END}", opcode_base=14, lengths=(0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 3))
    assert rows_made(unit)[0] == Registers(line=2, is_stmt=True)


def test_opcode_base_1_has_special_opcodes_alone() -> None:
    assert [row.line for row in rows_made(Unit(f"04 05 {END}", opcode_base=1))] == [1, 2, 2]


def test_lengths_of_known_opcodes_are_not_asked_for() -> None:
    """As in readelf and LLVM: the specification fixes the operands of DW_LNS_copy."""
    unit = Unit(f"01 02 04 01 {END}", lengths=(3, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
    assert [row.address for row in rows_made(unit)] == [0, 4, 4]


def test_unknown_extended_opcodes_are_passed_over() -> None:
    assert rows_made(Unit(f"00 04 80 01 02 03 00 81 00 77 14 {END}"))[0] == Registers(line=5, is_stmt=True)


def test_what_an_instruction_is_longer_than_its_operand_is_passed_over() -> None:
    unit = Unit(f"00 05 04 09 01 01 01 14 {END}")
    assert rows_made(unit)[0] == Registers(line=5, is_stmt=True, discriminator=9)


def test_addresses_may_pass_the_largest() -> None:
    """lld relocates dropped functions to the last address."""
    unit = Unit("")
    program = f"{set_address((1 << 64) - 1, unit)} 01 02 04 01 02 01 {END}"
    assert [row.address for row in rows_made(replace(unit, program=program))] == [(1 << 64) - 1, 3, 4]


@pytest.mark.parametrize("size", [4, 8])
def test_a_step_of_less_than_half_the_address_space_may_pass_the_largest(size: int) -> None:
    """A longer one is a step down. The specification says only that addresses never decrease (6.2.5)."""
    half, unit = 1 << 8 * size - 1, Unit("", address_size=size)
    start = set_address(half + 1, unit)
    passing = f"{start} 01 {set_address(0, unit)} 01 {END}"  # 2**(n-1) + 1 to 0: half - 1 on
    assert [row.address for row in rows_made(replace(unit, program=passing))] == [half + 1, 0, 0]
    half_on = f"{start} 01 02 {uleb(half).hex()} 01 {END}"
    with pytest.raises(ParseError, match="the address decreases within a sequence"):
        rows_made(replace(unit, program=half_on))


def file(path: str, directory_index: int = 0, timestamp: int = 0, size: int = 0, md5: bytes = NO_MD5) -> LineFile:
    return LineFile(path.encode(), directory_index, timestamp, size, md5)


def test_directories_and_files_up_to_version_4() -> None:
    tables = "2f6100 6200 00  782e6300 02 8001 05  00"  # /a and b; x.c in b, time 128, 5 bytes
    program = f"00 08 03 792e6300 01 00 07 14 {END}"  # DW_LNE_define_file y.c in /a, 7 bytes
    for version in (2, 3, 4):
        table = table_of(Unit(program, version, tables=tables), Unit(END, version))
        assert table.directories_of(0) == (file("/a"), file("b"))
        assert table.files_of(0) == (file("x.c", 2, 128, 5), file("y.c", 1, 0, 7))
        assert table.files_of(1) == (file("a.c"), file("b.c"))
        assert table.file_numbers().tolist() == [0, 0, 2]


def test_directories_and_files_of_version_5() -> None:
    md5 = bytes(range(16))
    tables = (
        "02 01 1f 02 0f"  # a directory: DW_LNCT_path, DW_FORM_line_strp; DW_LNCT_directory_index, DW_FORM_udata
        "01 03000000 00"
        "06 05 1e 01 0e 8140 08 04 05 03 06 02 0b"  # a file: MD5, path as DW_FORM_strp, a vendor's string, size, time
        f"01 {md5.hex()} 02000000 7a00 3412 78563412 09"
    )
    strings = {
        LINE_STR: Section.of(LINE_STR, b"no\0/line\0"),
        STR: Section.of(STR, b"x\0main.c\0"),
    }
    table = table_of(Unit(END, 5, tables=tables), strings=strings)
    assert table.directories_of(0) == (file("/line"),)
    assert table.files_of(0) == (file("main.c", 9, 0x12345678, 0x1234, md5),)


def test_offsets_of_strings_in_64_bit_dwarf() -> None:
    tables = "01 01 1f 01 0300000000000000 00 00"
    strings = {LINE_STR: Section.of(LINE_STR, b"no\0/line\0")}
    table = table_of(Unit(END, 5, tables=tables, is_64=True), strings=strings)
    assert (table.directories_of(0), table.files_of(0)) == ((file("/line"),), ())


def test_padded_numbers_and_padded_headers_are_built_back() -> None:
    unit = Unit(f"02 818000 03 ff7f 00 838000 80 01 02 {END}", 5, tables=TABLES[1] + "deadbeef")
    section = line_section(unit.data())
    record, end = parse_unit(section, 0)
    assert record.header.padding == bytes.fromhex("deadbeef")
    assert (build_unit(record), end) == (unit.data(), len(unit.data()))
    assert parse_line_section(section) == (record,)
    padded = replace(unit, program=f"02 818000 03 05 03 ff7f 01 {END}")  # advance_pc 1, advance_line 5 and -1
    assert rows_made(padded)[0] == Registers(1, line=5, is_stmt=True)
