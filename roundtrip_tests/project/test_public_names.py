"""The public functions that read bytes: each is the mirror of one that writes them.

Strategy: bytes worked out by hand first, then a real file through both directions, in both byte orders.
"""

from __future__ import annotations

import pytest
import unwindkit
from unwindkit import BuildError, CfaKind, CfaRule, Function, ParseError, RegisterRule, Row, RuleKind, by_pc

from ..support.handmade import octets
from ..support.made.line_bytes import Unit
from ..support.real_files import REAL_FILES

# DW_CFA_def_cfa r7+8, offset r16 at cfa-8, which is row 0; advance 1, def_cfa_offset 16.
CIE = "0c 07 08  90 01"
ROWS = (
    Row(0, CfaRule(CfaKind.REGISTER, 7, 8), (RegisterRule(16, RuleKind.OFFSET, -8),)),
    Row(1, CfaRule(CfaKind.REGISTER, 7, 16), (RegisterRule(16, RuleKind.OFFSET, -8),)),
)

EH_FRAME = octets(f"""
    14000000 00000000          # CIE: length, ID
    01 7a5200 01 78 10 01 1b   # version, "zR", factors 1 and -8, column 16; 1 byte: pcrel sdata4
    {CIE} 0000
    14000000 1c000000          # FDE: length, distance to the CIE
    e00f0000 10000000 00       # 0x3000 - 0x2020; 16 bytes; no augmentation data
    41 0e10 00000000
    00000000
""")
DEBUG_FRAME = octets(f"""
    10000000 ffffffff          # CIE: length, ID
    04 00 08 00 01 78 10       # version 4, no augmentation, addresses of 8 bytes, no segments, factors, column 16
    {CIE}
    18000000 00000000          # FDE: length, offset of the CIE
    0030000000000000 1000000000000000
    41 0e10 00
""")


def only(table: unwindkit.UnwindTable) -> tuple[int, int, tuple[Row, ...]]:
    (function,) = table
    return function.start, function.size, function.rows


def test_from_eh_frame_resolves_starts_relative_to_the_section() -> None:
    assert only(unwindkit.from_eh_frame(EH_FRAME, 0x2000, "x86_64")) == (0x3000, 16, ROWS)
    assert only(unwindkit.from_eh_frame(EH_FRAME, 0x12000, "x86_64")) == (0x13000, 16, ROWS)


def test_from_debug_frame_takes_starts_as_they_are() -> None:
    assert only(unwindkit.from_debug_frame(DEBUG_FRAME, "x86_64")) == (0x3000, 16, ROWS)


def test_a_section_of_the_other_byte_order() -> None:
    """MIPS is big-endian here, unless the caller knows better."""
    table = unwindkit.table_of(unwindkit.ARCHITECTURES["mips"], [Function(0x1000, 8, (ROWS[0],))], "little")
    data, refusals = unwindkit.to_debug_frame(table)
    assert len(refusals) == 0
    assert by_pc(unwindkit.from_debug_frame(data, "mips", "little")) == by_pc(table)
    with pytest.raises(ParseError):
        unwindkit.from_debug_frame(data, "mips")


def test_from_debug_line_finds_paths_in_both_sections_of_strings() -> None:
    tables = octets("""
        01 01 1f  01 02000000                  # a directory: DW_LNCT_path, DW_FORM_line_strp
        02 01 0e 02 0b  01 03000000 00         # a file: DW_LNCT_path, DW_FORM_strp; its directory, DW_FORM_data1
    """)
    # set_file 0, set_address, copy, advance_pc 4, end_sequence
    row = "04 00  00 09 02 0010000000000000  01  02 04  00 01 01"
    unit = Unit(row, version=5, tables=tables.hex())
    table = unwindkit.from_debug_line(unit.data(), b"-\0/src\0", debug_str=b"no\0a.c\0")
    found = unwindkit.find_lines(table, [0x1000, 0x1003, 0x1004])
    assert [None if one is None else (one.file, one.line) for one in found] == [(b"/src/a.c", 1)] * 2 + [None]


def test_what_is_no_section() -> None:
    with pytest.raises(BuildError, match="'vax' is not one of x86"):
        unwindkit.from_eh_frame(EH_FRAME, 0, "vax")
    with pytest.raises(BuildError, match="section_address"):
        unwindkit.from_eh_frame(EH_FRAME, 1 << 64, "x86_64")
    with pytest.raises(ParseError):
        unwindkit.from_eh_frame(EH_FRAME[:-6], 0x2000, "x86_64")
    with pytest.raises(ParseError):
        unwindkit.from_debug_frame(DEBUG_FRAME[:-1], "x86_64")
    with pytest.raises(ParseError):
        unwindkit.from_debug_line(b"\x10\0\0\0\2")


def test_each_reads_what_its_mirror_has_written() -> None:
    table = unwindkit.read_elf(REAL_FILES[0])
    data, refusals = unwindkit.to_eh_frame(table, 0x30000)
    assert len(refusals) == 0
    assert by_pc(unwindkit.from_eh_frame(data, 0x30000, "x86_64")) == by_pc(table)
    data, refusals = unwindkit.to_debug_frame(table)
    assert by_pc(unwindkit.from_debug_frame(data, "x86_64")) == by_pc(table, without=refusals)
