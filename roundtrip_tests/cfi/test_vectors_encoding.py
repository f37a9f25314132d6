"""Rows as the bytes of instructions, each by the tables of DWARF5 7.24; whole sections with one comment per field.

Strategy: a round trip cannot detect opcodes that are wrong in both directions; here they are spelled out as in the
specification.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from unwindkit import BuildError, ParseError, Reason, Row, UnwindTable, to_debug_frame, to_eh_frame, to_eh_frame_hdr
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.eh_frame_hdr import FdeAddresses, build_eh_frame_hdr, eh_frame_hdr_size
from unwindkit.converters.cfi.read import from_eh_frame
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.table.distinct import row_contents
from unwindkit.converters.table.model import CfaRule, Function, FunctionFlag, RegisterRule, table_of
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Cie, Fde
from unwindkit.schemas.cfi_sections import parse_section
from unwindkit.schemas.pointers import DW_EH_PE
from unwindkit.schemas.section import Section

from ..support.handmade import NO_CFA, at, octets, on, only, place, row, sp, table_of_bytes

RA = at(16, -8)
START = row(0, sp(8), RA)
SAVED = row(1, sp(24), at(3, -16), at(6, -24), RA)
EXPRESSION = bytes.fromhex("7708 06")  # breg7 8, deref


def of(*rows: Row, architecture: str = "x86_64", size: int = 0x2_0000_0000, **fields: int) -> UnwindTable:
    """One function with these rows, plus three others that determine the CIE's initial instructions: the first row."""
    column = ARCHITECTURES[architecture].return_address
    usual = [Function(start, 16, (replace(rows[0], offset=0),), return_column=column) for start in (0x10, 0x20, 0x30)]
    return table_of(ARCHITECTURES[architecture], [Function(0x1000, size, rows, return_column=column, **fields), *usual])


def instructions(table: UnwindTable) -> bytes:
    """The instructions of the first function, after those of its CIE and a bar; no padding."""
    data, refusals = to_debug_frame(table)
    assert len(refusals) == 0
    section = Section.of(".debug_frame", data, 0, table.byte_order, table.address_size)

    entries = dict(parse_section(section, DEBUG_FRAME))
    fde = next(one for one in entries.values() if isinstance(one, Fde))
    cie = entries[fde.cie_pointer]
    assert isinstance(cie, Cie)
    return cie.initial_instructions.rstrip(b"\0") + b"|" + fde.instructions.rstrip(b"\0")


CASES: dict[str, tuple[tuple[Row, ...], str]] = {
    # DW_CFA_def_cfa r7 8, DW_CFA_offset r16 1; no other instruction
    "the CIE's row": ((START,), "0c 07 08 90 01 |"),
    # advance_loc 1, def_cfa_offset 16
    "an offset": ((START, row(1, sp(16), RA)), "0c 07 08 90 01 | 41 0e 10"),
    # def_cfa_register r6; def_cfa r3 24
    "a register": ((START, row(4, on(6, 8), RA)), "0c 07 08 90 01 | 44 0d 06"),
    "both": ((START, row(4, on(3, 24), RA)), "0c 07 08 90 01 | 44 0c 03 18"),
    # def_cfa_offset_sf 2, in units of -8
    "a negative offset": ((START, row(4, sp(-16), RA)), "0c 07 08 90 01 | 44 13 02"),
    # def_cfa_sf r6 2
    "a negative one of another register": ((START, row(4, on(6, -16), RA)), "0c 07 08 90 01 | 44 12 06 02"),
    # def_cfa_expression of 3 bytes
    "an expression": (
        (START, Row(4, CfaRule(CfaKind.EXPRESSION, 0, EXPRESSION), (RA,))), "0c 07 08 90 01 | 44 0f 03 7708 06",
    ),
    # 63: in the opcode; 64: advance_loc1; 256: advance_loc2; 65536: advance_loc4
    "advances": (
        (START, row(63, sp(16), RA), row(127, sp(24), RA), row(383, sp(16), RA), row(65919, sp(24), RA)),
        "0c 07 08 90 01 | 7f 0e 10  02 40 0e 18  03 0001 0e 10  04 00000100 0e 18",
    ),
    # offset r3 2 (0x80 + 3), offset_extended r64 2, offset_extended_sf r3 -1 (above the CFA)
    "saved registers": (
        (START, row(4, sp(8), at(3, -16), RA), row(8, sp(8), at(3, 8), RA, at(64, -16))),
        "0c 07 08 90 01 | 44 83 02  44 11 03 7f 05 40 02",
    ),
    # offset_extended_sf r3 -65: GNU_negative_offset_extended would be shorter, but no standard defines it
    "far above the CFA": ((START, row(4, sp(8), at(3, 520), RA)), "0c 07 08 90 01 | 44 11 03 bf 7f"),
    # val_offset r3 2, val_offset_sf r3 -2, register r3 r12
    "values and registers": (
        (
            START,
            row(1, sp(8), RegisterRule(3, RuleKind.VAL_OFFSET, -16), RA),
            row(2, sp(8), RegisterRule(3, RuleKind.VAL_OFFSET, 16), RA),
            row(3, sp(8), RegisterRule(3, RuleKind.REGISTER, 12), RA),
        ),
        "0c 07 08 90 01 | 41 14 03 02  41 15 03 7e  41 09 03 0c",
    ),
    # undefined r3, same_value r3, expression r3, val_expression r3
    "the others": (
        (
            START,
            row(1, sp(8), RegisterRule(3, RuleKind.UNDEFINED), RA),
            row(2, sp(8), RegisterRule(3, RuleKind.SAME_VALUE), RA),
            row(3, sp(8), RegisterRule(3, RuleKind.EXPRESSION, EXPRESSION), RA),
            row(4, sp(8), RegisterRule(3, RuleKind.VAL_EXPRESSION, EXPRESSION), RA),
        ),
        "0c 07 08 90 01 | 41 07 03  41 08 03  41 10 03 03 770806  41 16 03 03 770806",
    ),
    # restore r3 (0xc0 + 3); restore_extended r64
    "no rule any more": (
        (START, row(1, sp(8), at(3, -16), RA, at(64, -24)), row(2, sp(16), RA)),
        "0c 07 08 90 01 | 41 83 02 05 40 03  41 0e 10 c3 06 40",
    ),
    # undefined r16; restore r16: the CIE's rule again, in one byte instead of two
    "the CIE's rule again": (
        (START, row(1, sp(8), RegisterRule(16, RuleKind.UNDEFINED)), row(2, sp(8), RA)),
        "0c 07 08 90 01 | 41 07 10  41 d0",
    ),
    # remember_state after the second row; restore_state for the fourth
    "a row that comes back": (
        (START, SAVED, row(2, sp(8), RA), replace(SAVED, offset=3)),
        "0c 07 08 90 01 | 41 0e 18 83 02 86 03 0a  41 0e 08 c3 c6  41 0b",
    ),
    # remember_state, def_cfa r7 8; only restore_state can go back to having no CFA
    "a CFA that goes and had not been": ((row(0, NO_CFA), row(1, sp(8)), row(2, NO_CFA)), "| 0a 41 0c 07 08  41 0b"),
    # GNU_args_size 16, and 0
    "arguments": (
        (START, Row(1, sp(8), (RA,), args_size=16), Row(2, sp(8), (RA,))), "0c 07 08 90 01 | 41 2e 10  41 2e 00",
    ),
    # r16 has no rule again: a separate CIE without one
    "a rule of the CIE's goes": ((START, row(1, sp(8))), "| 0c 07 08 90 01  41 d0"),
}  # fmt: skip


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", CASES)
def test_rows_as_instructions(name: str) -> None:
    rows, text = CASES[name]
    cie, _, fde = text.partition("|")
    assert instructions(of(*rows)) == octets(cie) + b"|" + octets(fde).rstrip(b"\0")


@pytest.mark.usefixtures("kernels")
def test_signed_return_addresses() -> None:
    rows = (
        row(0, on(31, 0)),
        row(4, on(31, 0), ra_state=RaState.SIGNED),
        row(8, on(31, 0), ra_state=RaState.SIGNED_WITH_PC),
        row(12, on(31, 0)),
    )
    # def_cfa r31 0, whose last byte looks like padding; advances in units of 4; negate_ra_state; negate_ra_state and
    # negate_ra_state_with_pc; both again
    assert instructions(of(*rows, architecture="aarch64")) == octets("0c 1f") + b"|" + octets("41 2d 41 2d 2c 41 2c")


WINDOW = tuple(at(16 + index, 8 * index) for index in range(16))


@pytest.mark.usefixtures("kernels")
def test_a_register_window_is_one_byte() -> None:
    start, inside = row(0, on(14, 2047)), on(30, 2047)
    whole = row(4, inside, RegisterRule(15, RuleKind.REGISTER, 31), *WINDOW)
    # def_cfa r14 2047; def_cfa_register r30, GNU_window_save, register r15 in r31
    assert instructions(of(start, whole, architecture="sparc64")) == octets("0c 0e ff0f") + b"|" + octets(
        "41 0d 1e 2d 09 0f 1f"
    )
    # Unchanged rules are not repeated; restore r16 removes a rule, offset r31 at CFA-8 moves another.
    part = row(4, on(14, 2047), WINDOW[0])
    rows = (start, part, row(8, on(14, 2047), *WINDOW), row(12, on(14, 2047), *WINDOW[1:15], at(31, -8)))
    assert instructions(of(*rows, architecture="sparc64")).partition(b"|")[2] == octets("41 90 00  41 2d  41 d0 9f 01")


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("architecture", "count"), [("sparc64", 15), ("mips64", 16)])
def test_a_window_that_is_not_whole_or_of_another_machine(architecture: str, count: int) -> None:
    start = row(0, on(14, 2047))
    found = instructions(of(start, row(4, on(14, 2047), *WINDOW[:count]), architecture=architecture))
    # offset r16 at CFA; offset_extended_sf r17 at CFA+8, ...
    each = "".join(f" 11 {16 + index:02x} {0x80 - index:02x}" for index in range(1, count))
    assert found.partition(b"|")[2][1:] == octets(f"90 00 {each}")


@pytest.mark.usefixtures("kernels")
def test_units_of_one_where_nothing_larger_divides() -> None:
    table = of(row(0, on(31, 0)), row(6, on(31, 0), at(3, -12)), architecture="aarch64")
    # A separate CIE: code_alignment_factor 1, data_alignment_factor -4.
    assert instructions(table) == octets("0c 1f") + b"|" + octets("46 83 03")


def test_a_cfa_that_goes_is_refused() -> None:
    _, refusals = to_eh_frame(of(START, row(4, NO_CFA, RA), size=16))
    assert [(one.function, one.start, one.end, one.reason) for one in refusals] == [
        (0, 0x1000, 0x1010, Reason.RULE_LOST)
    ]


def test_whole_eh_frame() -> None:
    personality = DW_EH_PE.indirect | DW_EH_PE.pcrel | DW_EH_PE.sdata4
    function = Function(
        0x1000, 0x20, (START, row(1, sp(16), RA)), return_column=16,
        flags=FunctionFlag.HAS_LSDA | FunctionFlag.SIGNAL_FRAME,
        personality_encoding=personality, personality=0x5000, lsda=0x6000,
    )  # fmt: skip
    data, refusals = to_eh_frame(table_of(ARCHITECTURES["x86_64"], [function]), 0x2000)
    assert len(refusals) == 0
    assert data.hex(" ") == octets("""
        1c000000 00000000   # length, CIE id
        01                  # version
        7a504c5253 00       # "zPLRS"
        01 78 10            # code_alignment_factor, data_alignment_factor -8, return_address_register
        07                  # bytes of augmentation data
        9b ec2f0000         # P: indirect, pcrel, sdata4; 0x5000 - 0x2014
        1b 1b               # L, R: pcrel, sdata4
        0c 07 08  90 01 00  # def_cfa r7 8, offset r16 1, padding
        14000000 24000000   # length, distance to the CIE
        d8efffff 20000000   # 0x1000 - 0x2028, size
        04 cf3f0000         # bytes of augmentation data, LSDA: 0x6000 - 0x2031
        41 0e 10            # advance_loc 1, def_cfa_offset 16
        00000000            # terminator
    """).hex(" ")  # fmt: skip


def test_a_personality_in_debug_frame_is_absolute() -> None:
    """Nothing loads the section, so nothing can be relative to it; DW_EH_PE_indirect stays."""
    for encoding, written in ((DW_EH_PE.pcrel | DW_EH_PE.sdata4, "00"), (DW_EH_PE.indirect | 0x1B, "80")):
        function = Function(
            0x1000, 0x20, (START,), return_column=16, flags=FunctionFlag.HAS_LSDA,
            personality_encoding=encoding, personality=0x5000, lsda=0x6000,
        )  # fmt: skip
        data, refusals = to_debug_frame(table_of(ARCHITECTURES["x86_64"], [function]))
        assert len(refusals) == 0
        assert data.hex(" ") == octets(f"""
            1c000000 ffffffff       # length, CIE id
            03                      # version
            7a504c 00               # "zPL"
            01 78 10                # factors 1 and -8, return_address_register
            0a                      # bytes of augmentation data
            {written} 0050000000000000  # P: absptr
            00                      # L: absptr
            0c 07 08  90 01         # def_cfa r7 8, offset r16 1: to a multiple of eight without padding
            24000000 00000000       # length, CIE_pointer
            0010000000000000 2000000000000000
            08 0060000000000000     # bytes of augmentation data, LSDA
            00000000000000          # padding
        """).hex(" ")


def test_whole_debug_frame_with_a_segment() -> None:
    function = Function(0x1000, 0x20, (row(0, on(4, 4), at(8, -4)),), return_column=8, segment=0x1234)
    data, refusals = to_debug_frame(table_of(ARCHITECTURES["x86"], [function]))
    assert len(refusals) == 0
    assert data.hex(" ") == octets("""
        10000000 ffffffff   # length, CIE id
        04 00 04 02         # version, augmentation "", address_size, segment_selector_size
        01 7c 08            # code_alignment_factor, data_alignment_factor -4, return_address_register
        0c 04 04  88 01     # def_cfa r4 4, offset r8 1: to a multiple of four without padding
        10000000 00000000   # length, CIE_pointer
        3412                # segment_selector
        00100000 20000000   # initial_location, address_range
        0000                # padding
    """).hex(" ")  # fmt: skip


@pytest.mark.parametrize(
    ("segment", "stored"),
    [
        (0xFF, "ff"),
        (0x100, "0001"),
        (0xFFFF, "ffff"),
        (0x10000, "00000100"),
        (0xFFFFFFFF, "ffffffff"),
        (0x100000000, "0000000001000000"),
        ((1 << 64) - 1, "ffffffffffffffff"),
    ],
)
def test_a_segment_selector_has_1_2_4_or_8_bytes(segment: int, stored: str) -> None:
    function = Function(0x1000, 0x20, (START,), return_column=16, segment=segment)
    data, refusals = to_debug_frame(table_of(ARCHITECTURES["x86_64"], [function]))
    assert len(refusals) == 0
    # A CIE of 24 bytes: version 4, no augmentation, addresses of 8 bytes, the size of a selector.
    assert data[8:12] == octets("04 00 08") + bytes([len(octets(stored))])
    assert data[24 + 8 :].startswith(octets(f"{stored} 0010000000000000 2000000000000000"))


@pytest.mark.parametrize(
    ("column", "version", "stored"), [(255, "01", "ff"), (256, "03", "8002"), (0xFFFF, "03", "ffff03")]
)
def test_a_return_column_above_255_needs_version_3(column: int, version: str, stored: str) -> None:
    """Version 1 has one byte for it, version 3 an unsigned LEB128 number."""
    function = Function(0x1000, 0x20, (row(0, sp(8)),), return_column=column)
    data, refusals = to_eh_frame(table_of(ARCHITECTURES["x86_64"], [function]))
    assert len(refusals) == 0
    # "zR", factors 1 and -8, the column, one byte of augmentation data, def_cfa r7 8
    assert data[8:].startswith(octets(f"{version} 7a5200 01 78 {stored} 01 1b 0c 07 08"))


def test_starts_in_a_32_bit_section_wrap_around() -> None:
    function = Function(0xFFFFF000, 0x20, (row(0, on(4, 4), at(8, -4)),), return_column=8)
    data, refusals = to_eh_frame(table_of(ARCHITECTURES["x86"], [function]), 0x1000)
    assert len(refusals) == 0
    # A CIE of 24 bytes; 0xfffff000 - 0x1020
    assert data[0x18:] == octets("10000000 1c000000 e0dfffff 20000000 00 000000 00000000")


@pytest.mark.parametrize(
    ("encoding", "personality", "section_address", "reason"),
    [
        (0x1B, 1 << 40, 0x2000, "0x10000000000 is more than 2 GiB from the section at 0x2000"),
        (0x13, 0x1000, 0x2000, "0x1000 is more than 4 GiB from the section at 0x2000"),  # pcrel, udata4: only upwards
        (0x0B, 0x80000000, 0x2000, "0x80000000 does not fit 4 bytes"),
        (0x03, 0x100000000, 0x2000, "0x100000000 does not fit 4 bytes"),
    ],
)
def test_a_personality_that_its_encoding_does_not_reach(
    encoding: int, personality: int, section_address: int, reason: str
) -> None:
    function = Function(
        0x1000, 0x20, (START,), return_column=16, personality_encoding=encoding, personality=personality
    )  # fmt: skip
    with pytest.raises(BuildError) as caught:
        to_eh_frame(table_of(ARCHITECTURES["x86_64"], [function]), section_address)
    # Length, id, version, "zPR", factors, return column, the size of the data, the encoding: 18 bytes.
    assert place(caught.value) == (".eh_frame", 0x12, "CIE[0].personality")
    assert caught.value.reason == reason


@pytest.mark.parametrize(("others", "cies"), [(2, 1), (30, 2)])
def test_a_cie_of_their_own_where_that_is_shorter(others: int, cies: int) -> None:
    """Each function with other initial rules needs two extra bytes to set them, which enlarge its entry by four."""
    rest = (row(1, sp(24), RA), row(2, sp(32), RA))
    usual = [Function(0x40 * index, 0x40, (START, *rest), return_column=16) for index in range(40)]
    rare = [replace(one, start=one.start + 0x10000, rows=(row(0, sp(16), RA), *rest)) for one in usual[:others]]
    data, _ = to_eh_frame(table_of(ARCHITECTURES["x86_64"], [*usual, *rare]))
    entries = [one for _, one in parse_section(Section.of(".eh_frame", data), EH_FRAME)]
    assert sum(isinstance(one, Cie) for one in entries) == cies


def plt(start: int, *rows: Row) -> UnwindTable:
    return table_of(ARCHITECTURES["x86_64"], [Function(start, 0x40, rows, return_column=16, repetition=16)])


def cfas(table: UnwindTable) -> list[CfaRule]:
    data, refusals = to_eh_frame(table)
    assert len(refusals) == 0
    return [one.cfa for one in only(table_of_bytes(data)).rows]


LAZY = (row(0, sp(8), RA), row(11, sp(16), RA))


def test_repetition_is_the_linkers_expression_where_that_counts_alike() -> None:
    # breg7 8, breg16 0, lit15, and, lit11, ge, lit3, shl, plus
    assert cfas(plt(0x1000, *LAZY)) == [CfaRule(CfaKind.EXPRESSION, 0, octets("77 08 80 00 3f 1a 3b 2a 33 24 22"))]
    # Register 40 needs DW_OP_bregx: 92, its number, the offset.
    high = plt(0x1000, row(0, on(40, 8), RA), row(11, on(40, 16), RA))
    assert cfas(high) == [CfaRule(CfaKind.EXPRESSION, 0, octets("92 28 08 80 00 3f 1a 3b 2a 33 24 22"))]
    # The expression is relative to multiples of 16; a factor of three is not a shift; a different register is not a
    # sum.
    rows = [sp(8), sp(16)] * 4
    assert cfas(plt(0x1008, *LAZY)) == rows
    assert cfas(plt(0x1000, LAZY[0], row(11, sp(32), RA))) == [sp(8), sp(32)] * 4
    assert cfas(plt(0x1000, LAZY[0], row(11, on(6, 16), RA))) == [sp(8), on(6, 16)] * 4
    assert cfas(plt(0x1000, LAZY[0], row(11, sp(16)))) == rows
    assert cfas(plt(0x1000, *LAZY, row(13, sp(8), RA))) == [sp(8), sp(16), sp(8)] * 4


def test_a_size_that_has_no_room_is_refused() -> None:
    function = Function(0, 1 << 32, (row(0, on(4, 4)),), return_column=8)
    for encode in (to_eh_frame, to_debug_frame):
        _, refusals = encode(table_of(ARCHITECTURES["x86"], [function]))
        assert refusals.reason.tolist() == [Reason.TOO_LARGE]


def test_rows_that_differ_in_anything_are_not_one() -> None:
    rules = [(RA,), (), (at(16, -16),), (at(3, -8),), (RegisterRule(16, RuleKind.VAL_OFFSET, -8),)]
    rows = [row(0, sp(8), *some) for some in rules]
    rows += [row(0, cfa, RA) for cfa in (sp(16), on(6, 8), NO_CFA, CfaRule(CfaKind.EXPRESSION, 0, b"\x77\x08"))]
    rows += [row(0, CfaRule(CfaKind.EXPRESSION, 0, b"\x77\x10"), RA), replace(rows[0], ra_state=RaState.SIGNED)]
    rows += [replace(rows[0], args_size=16)]
    twice = [replace(one, offset=offset) for offset, one in enumerate([*rows, *rows])]
    table = table_of(ARCHITECTURES["aarch64"], [Function(0, 100, tuple(twice))])
    number, contents = row_contents(table)
    assert number.tolist() == [*range(len(rows)), *range(len(rows))]
    assert [one.cfa for one in contents] == [one.cfa for one in rows]


def test_header_names_the_largest_function_of_a_start() -> None:
    """An empty function inside a larger one would hide it from a search; of two sizes the smaller would be found."""
    functions = [
        Function(start, size, (START,), return_column=16)
        for start, size in ((0x1000, 8), (0x1000, 0x20), (0x1000, 0x10), (0x1010, 0), (0x1000, 0x20))
    ]
    data, _ = to_eh_frame(table_of(ARCHITECTURES["x86_64"], functions), 0x2000)
    # A header of 12 bytes and one row of 8.
    assert eh_frame_hdr_size(FdeAddresses.of_functions(from_eh_frame(data, 0x2000, "x86_64").functions)) == 20
    # A CIE of 24 bytes, FDEs of 20: the second FDE, the first of the largest ones, is at 0x2000 + 24 + 20.
    assert to_eh_frame_hdr(data, 0x2000, 0x5000, "x86_64").hex(" ") == octets("""
        01 1b 03 3b
        fccfffff 01000000   # 0x2000 - 0x5004; rows
        00c0ffff 2cd0ffff   # 0x1000 - 0x5000; 0x202c - 0x5000
    """).hex(" ")  # fmt: skip


@pytest.mark.parametrize(("architecture", "bits"), [("x86_64", 64), ("x86", 32)])
def test_distances_from_a_header_wrap_around_the_largest_address(architecture: str, bits: int) -> None:
    function = Function(0x1000, 16, (row(0, on(4, 4)),), return_column=ARCHITECTURES[architecture].return_address)
    data, _ = to_eh_frame(table_of(ARCHITECTURES[architecture], [function]), 0x2000)
    fde = 0x2000 + 4 + data[0]
    # The header is 8 bytes before the end: 0x2000 is 0x2004 after its byte 4, and 0x1000 is 0x1008 after its byte 0.
    assert to_eh_frame_hdr(data, 0x2000, (1 << bits) - 8, architecture) == octets(
        f"01 1b 03 3b 04200000 01000000 08100000 {(fde + 8).to_bytes(4, 'little').hex()}"
    )


FAR = 1 << 31


def header_of(start: int, offset: int, eh_frame: int) -> bytes:
    """The `.eh_frame_hdr` at 2**40 for one FDE, at a section offset."""
    fdes = FdeAddresses(np.array([offset], np.int64), np.array([start], np.uint64), np.array([16], np.uint64))
    return build_eh_frame_hdr(fdes, "little", 8, eh_frame, 1 << 40)


@pytest.mark.parametrize(
    ("start", "offset", "eh_frame", "values"),
    [
        # eh_frame_ptr is relative to its own place, 4 bytes after the start of the header.
        ((1 << 40) - FAR, 0x18, 1 << 40, "fcffffff 01000000 00000080 18000000"),
        ((1 << 40) + FAR - 1, 0x18, 1 << 40, "fcffffff 01000000 ffffff7f 18000000"),
        (1 << 40, FAR - 1, 1 << 40, "fcffffff 01000000 00000000 ffffff7f"),
        (1 << 40, 0x18, (1 << 40) + 4 - FAR, "00000080 01000000 00000000 1c000080"),
    ],
)
def test_header_as_far_as_its_fields_reach(start: int, offset: int, eh_frame: int, values: str) -> None:
    assert header_of(start, offset, eh_frame) == octets(f"01 1b 03 3b {values}")


@pytest.mark.parametrize(
    ("start", "offset", "eh_frame", "record", "target"),
    [
        ((1 << 40) - FAR - 1, 0x18, 1 << 40, "table[0]", (1 << 40) - FAR - 1),
        ((1 << 40) + FAR, 0x18, 1 << 40, "table[0]", (1 << 40) + FAR),
        (1 << 40, FAR, 1 << 40, "table[0]", (1 << 40) + FAR),
        (1 << 40, 0x18, (1 << 40) + 3 - FAR, "eh_frame_ptr", (1 << 40) + 3 - FAR),
    ],
)
def test_header_one_byte_further_is_refused(start: int, offset: int, eh_frame: int, record: str, target: int) -> None:
    with pytest.raises(BuildError) as caught:
        header_of(start, offset, eh_frame)
    assert place(caught.value) == (".eh_frame_hdr", None, record)
    assert caught.value.reason == f"{target:#x} is more than 2 GiB from the header at {1 << 40:#x}"


def test_header_without_rows_as_far_as_eh_frame_ptr_reaches() -> None:
    """Only then is eh_frame_ptr further than the FDEs."""
    fdes = FdeAddresses.empty(0)
    assert build_eh_frame_hdr(fdes, "little", 8, 0x1000 + 4 + FAR - 1, 0x1000)[4:] == octets("ffffff7f 00000000")
    with pytest.raises(BuildError, match=r"eh_frame_ptr: 0x80001004 is more than 2 GiB from the header at 0x1000"):
        build_eh_frame_hdr(fdes, "little", 8, 0x1000 + 4 + FAR, 0x1000)


def test_header_of_a_section() -> None:
    """One row per start, for functions with bytes; sorted whatever the order of entries."""
    functions = [
        Function(start, size, (START,), return_column=16) for start, size in ((0x3000, 16), (0x1000, 0), (0x1000, 8))
    ]
    functions.append(Function(0x4000, 0, (START,), return_column=16))
    data, _ = to_eh_frame(table_of(ARCHITECTURES["x86_64"], functions), 0x2000)
    assert to_eh_frame_hdr(data, 0x2000, 0x5000, "x86_64").hex(" ") == octets("""
        01 1b 03 3b         # version; eh_frame_ptr pcrel sdata4, fde_count udata4, table datarel sdata4
        fccfffff 02000000   # 0x2000 - 0x5004; rows
        00c0ffff 40d0ffff   # 0x1000 - 0x5000; its FDE, the third: 0x2040 - 0x5000
        00e0ffff 18d0ffff   # 0x3000; the first FDE, after the CIE
    """).hex(" ")  # fmt: skip
    with pytest.raises(BuildError, match="0x1000 is more than 2 GiB from the header at 0x100000000"):
        to_eh_frame_hdr(data, 0x2000, 1 << 32, "x86_64")
    with pytest.raises(BuildError, match="eh_frame_ptr: 0x100002000 is more than 2 GiB from the header at 0x5000"):
        to_eh_frame_hdr(bytes(4), 0x1_0000_2000, 0x5000, "x86_64")
    for address in (-1, 1 << 64):
        with pytest.raises(BuildError, match=f"address: {address:#x} is not a 64-bit address"):
            to_eh_frame_hdr(data, 0x2000, address, "x86_64")
    with pytest.raises(BuildError, match="'vax' is not one of"):
        to_eh_frame_hdr(data, 0, 0, "vax")
    with pytest.raises(ParseError):
        to_eh_frame_hdr(data[:-5], 0, 0, "x86_64")
