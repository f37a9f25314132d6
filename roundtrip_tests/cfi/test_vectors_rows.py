"""Worked examples of call frame instructions becoming rows, on both engines (DWARF5 6.4.2, 6.4.3, appendix D.6)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unwindkit import ParseError
from unwindkit.converters.rules import CfaKind, RuleKind
from unwindkit.converters.table.model import CfaRule, RegisterRule, Row

from ..support.handmade import (
    NO_CFA,
    PLAIN_CIE,
    X86_64_START,
    at,
    debug_frame_table,
    octets,
    on,
    only,
    row,
    rows_of,
    sp,
    table_of_bytes,
)

pytestmark = pytest.mark.usefixtures("kernels")

SAVED_RA = at(16, -8)
SAME, UNDEFINED = RuleKind.SAME_VALUE, RuleKind.UNDEFINED

# Code alignment factor 4, data alignment factor -8: swapped, every number below is another.
FACTORS_CIE = "01 00 04 78 10"


def test_the_eight_register_machine_of_the_dwarf_text() -> None:
    """DWARF5 appendix D.6: <fs> = 12, code alignment factor 4, data alignment factor -4."""
    cie = """
        00000024        # length 36
        ffffffff        # CIE id
        04 00           # version 4, no augmentation
        04 00           # address size 4, segment size 0
        04 7c           # factors 4 and -4
        08              # R8 is the return address
        0c 07 00        # def_cfa R7+0
        08 00           # same_value R0
        07 01  07 02  07 03
        08 04  08 05  08 06
        09 08 01        # register R8 in R1
        00 00 00 00 00  # nop
    """
    fde = """
        00000028        # length 40
        00000000        # CIE at 0
        00001000        # initial location: foo
        00000054        # address range 84
        41  0e 0c       # advance_loc 1, def_cfa_offset 12
        41  88 01       # advance_loc 1, offset R8 1
        41  86 02       # advance_loc 1, offset R6 2
        41  0d 06       # advance_loc 1, def_cfa_register R6
        41  84 03       # advance_loc 1, offset R4 3
        4c  c4          # advance_loc 12, restore R4
        41  c6  0d 07   # advance_loc 1, restore R6, def_cfa_register R7
        41  c8          # advance_loc 1, restore R8
        41  0e 00       # advance_loc 1, def_cfa_offset 0
        00 00           # nop
    """
    function = only(debug_frame_table(octets(cie) + octets(fde), "mips", "big", 4))
    assert (function.start, function.size, function.return_column) == (0x1000, 84, 8)
    before = [RegisterRule(0, SAME), *(RegisterRule(number, UNDEFINED) for number in (1, 2, 3))]
    r4, r5, r6 = (RegisterRule(number, SAME) for number in (4, 5, 6))
    in_r1 = RegisterRule(8, RuleKind.REGISTER, 1)
    assert function.rows == (
        row(0, on(7, 0), *before, r4, r5, r6, in_r1),  # s u u u s s s a r1
        row(4, on(7, 12), *before, r4, r5, r6, in_r1),
        row(8, on(7, 12), *before, r4, r5, r6, at(8, -4)),  # ... a c-4
        row(12, on(7, 12), *before, r4, r5, at(6, -8), at(8, -4)),
        row(16, on(6, 12), *before, r4, r5, at(6, -8), at(8, -4)),
        row(20, on(6, 12), *before, at(4, -12), r5, at(6, -8), at(8, -4)),
        row(68, on(6, 12), *before, r4, r5, at(6, -8), at(8, -4)),
        row(72, on(7, 12), *before, r4, r5, r6, at(8, -4)),
        row(76, on(7, 12), *before, r4, r5, r6, in_r1),
        row(80, on(7, 0), *before, r4, r5, r6, in_r1),
    )


def test_foo_3_of_the_riscv_text() -> None:
    """Stack Unwinding by CFI (RISC-V), table 1 and the dump after it; sp is r2, ra is r1."""
    cie = "10000000 00000000 03 7a5200 01 7c 01 01 1b  0d 02  00"  # zR, factors 1 and -4, def_cfa_register sp
    fde = """
        18000000  18000000  # length 24, CIE pointer
        e4feffff  14000000  # location 0, pcrel from 0x11c; 20 bytes
        00                  # no augmentation data
        42  0e 10           # advance_loc 2, def_cfa_offset 16
        42  81 02           # advance_loc 2, offset ra 2
        4c  c1              # advance_loc 12, restore ra
        42  0e 00           # advance_loc 2, def_cfa_offset 0
    """
    function = only(table_of_bytes(octets(cie) + octets(fde), "riscv64", address=0x100))
    assert (function.start, function.size) == (0, 0x14)
    assert function.rows == (
        row(0x00, on(2, 0)),
        row(0x02, on(2, 16)),
        row(0x04, on(2, 16), at(1, -8)),
        row(0x10, on(2, 16)),
        row(0x12, on(2, 0)),
    )


def test_code_factor_scales_advances_and_data_factor_scales_offsets() -> None:
    rows = rows_of("0c 07 08  86 02  41  0e 10  02 05  12 06 7e  03 0100  13 7f", FACTORS_CIE)
    assert rows == (
        row(0, sp(8), at(6, -16)),
        row(4, sp(16), at(6, -16)),
        row(4 + 20, on(6, 16), at(6, -16)),
        row(4 + 20 + 4, on(6, 8), at(6, -16)),
    )


LIMIT = 1 << 61
LARGEST, TOO_LARGE = "80 80 80 80 80 80 80 80 20", "81 80 80 80 80 80 80 80 20"  # LEB128: 2**61, and 1 more
LEAST, TOO_SMALL = "80 80 80 80 80 80 80 80 60", "ff ff ff ff ff ff ff ff 5f"  # -2**61, and 1 less
EIGHTH, MORE = "80 80 80 80 80 80 80 80 04", "81 80 80 80 80 80 80 80 04"  # 2**58, and 1 more


@pytest.mark.parametrize(
    ("accepted", "refused", "factor", "offset"),
    [
        (f"0e {LARGEST}", f"0e {TOO_LARGE}", "01", LIMIT),  # def_cfa_offset
        (f"13 {LARGEST}", f"13 {TOO_LARGE}", "01", LIMIT),  # def_cfa_offset_sf
        (f"13 {LEAST}", f"13 {TOO_SMALL}", "01", -LIMIT),
        (f"13 {EIGHTH}", f"13 {MORE}", "08", LIMIT),
        (f"13 {EIGHTH}", f"13 {MORE}", "78", -LIMIT),
    ],
)
def test_the_largest_offsets(accepted: str, refused: str, factor: str, offset: int) -> None:
    cie = f"01 00 01 {factor} 10  0c 07 08"
    assert rows_of(accepted, cie) == (row(0, sp(offset)),)
    with pytest.raises(ParseError, match="an offset is too large for an address"):
        rows_of(refused, cie)


def test_the_largest_advances() -> None:
    # MIPS_advance_loc8; set_loc, from 0x1000
    for advance in ("1d 0000000000000020", "41  1d ffffffffffffff1f", "01 0010000000000020"):
        rows = rows_of(f"0c 07 08  {advance}  0e 10", size=1 << 62)
        assert rows[-1] == row(LIMIT, sp(16))
    for advance, reason in (
        ("1d 0100000000000020", "an offset is too large for an address"),
        ("41  1d 0000000000000020", "an offset is too large for an address"),
        ("01 0110000000000020", "the location moves backwards"),
    ):
        with pytest.raises(ParseError, match=reason):
            rows_of(f"0c 07 08  {advance}  0e 10", size=1 << 62)


def test_offsets_that_are_not_factored() -> None:
    assert rows_of("0c 07 03  41  0e 05", FACTORS_CIE) == (row(0, sp(3)), row(4, sp(5)))


def test_signed_factored_offsets_may_be_negative() -> None:
    rows = rows_of("0c 07 08  11 06 7e  11 03 02  12 07 01", FACTORS_CIE)
    assert rows == (row(0, sp(-8), at(3, -16), at(6, 16)),)


def test_gnu_negative_offset_extended_negates_before_factoring() -> None:
    assert rows_of("0c 07 08  2f 06 02", FACTORS_CIE)[0].registers == (at(6, 16),)


@pytest.mark.parametrize(
    ("instruction", "rule"),
    [
        ("86 02", at(6, -16)),
        ("05 06 02", at(6, -16)),
        ("05 8001 8001", at(128, -1024)),
        ("07 06", RegisterRule(6, RuleKind.UNDEFINED)),
        ("08 06", RegisterRule(6, RuleKind.SAME_VALUE)),
        ("09 06 03", RegisterRule(6, RuleKind.REGISTER, 3)),
        ("10 06 02 7610", RegisterRule(6, RuleKind.EXPRESSION, b"\x76\x10")),
        ("16 06 02 7610", RegisterRule(6, RuleKind.VAL_EXPRESSION, b"\x76\x10")),
        ("10 06 00", RegisterRule(6, RuleKind.EXPRESSION, b"")),
        ("14 06 02", RegisterRule(6, RuleKind.VAL_OFFSET, -16)),
        ("15 06 7e", RegisterRule(6, RuleKind.VAL_OFFSET, 16)),
    ],
)
def test_rule_of_each_register_instruction(instruction: str, rule: RegisterRule) -> None:
    assert rows_of(f"0c 07 08  {instruction}", FACTORS_CIE) == (row(0, sp(8), rule),)


def test_a_later_rule_takes_the_place_of_an_earlier_one() -> None:
    assert rows_of("86 02  86 03  08 06  41  86 01")[0].registers == (RegisterRule(6, RuleKind.SAME_VALUE),)


def test_rules_are_in_order_of_registers_not_of_instructions() -> None:
    assert [rule.register for rule in rows_of("8f 01  83 02  8c 03  90 04  85 05")[0].registers] == [3, 5, 12, 15, 16]


def test_cfa_expression_and_back() -> None:
    rows = rows_of("0c 07 08  41  0f 02 7708  41  0d 06  41  0c 07 10")
    expression = CfaRule(CfaKind.EXPRESSION, 0, b"\x77\x08")
    # def_cfa_register needs a register rule before it (6.4.2.2); as in readelf, the last offset is used.
    assert rows == (row(0, sp(8)), row(1, expression), row(2, on(6, 8)), row(3, sp(16)))


def test_def_cfa_register_before_any_cfa_is_register_plus_0() -> None:
    assert rows_of("0d 07")[0].cfa == sp(0)


def test_def_cfa_offset_before_any_cfa_gives_no_cfa() -> None:
    assert rows_of("0e 10  41  0d 07") == (row(0, NO_CFA), row(1, sp(16)))


def test_no_instructions_at_all_are_one_row_without_rules() -> None:
    assert rows_of("") == (row(0, NO_CFA),)


def test_nop_changes_nothing() -> None:
    assert rows_of("00 0c 07 08 00 41 00 00") == (row(0, sp(8)), row(1, sp(8)))


def test_args_size_holds_until_the_next_and_is_not_remembered() -> None:
    """libgcc's unwinder keeps it outside the rules that remember_state saves."""
    # DW_CFA_GNU_args_size 32, remember_state, args_size 16, restore_state, args_size 0
    rows = rows_of("0c 07 08 41 2e 20 0a 41 2e 10 41 0b 41 2e 00")
    assert rows == tuple(replace(row(at, sp(8)), args_size=size) for at, size in enumerate((0, 32, 16, 16, 0)))
    assert rows_of("41", f"{PLAIN_CIE} {X86_64_START} 2e 08")[1].args_size == 8


def test_args_size_of_any_64_bits() -> None:
    assert rows_of("2e ff ff ff ff ff ff ff ff ff 01")[0].args_size == (1 << 64) - 1
    assert rows_of("2e ff ff ff ff ff ff ff ff 7f")[0].args_size == (1 << 63) - 1


def test_nested_remember_and_restore() -> None:
    cie = f"{PLAIN_CIE} {X86_64_START}"
    rows = rows_of("0a 41 0e10 8602 0a 41 0e18 8303 0a 41 0d06 c6 41 0b 41 0b 41 0b", cie)
    outer = row(0, sp(8), SAVED_RA)
    middle = row(1, sp(16), at(6, -16), SAVED_RA)
    inner = row(2, sp(24), at(3, -24), at(6, -16), SAVED_RA)
    assert rows == (
        outer,
        middle,
        inner,
        row(3, on(6, 24), at(3, -24), SAVED_RA),
        Row(4, inner.cfa, inner.registers),
        Row(5, middle.cfa, middle.registers),
        Row(6, outer.cfa, outer.registers),
    )


def test_restored_state_includes_a_cfa_expression() -> None:
    rows = rows_of("0f 01 30  0a  41  0c 07 08  41  0b")
    assert [row.cfa for row in rows] == [
        CfaRule(CfaKind.EXPRESSION, 0, b"0"),
        sp(8),
        CfaRule(CfaKind.EXPRESSION, 0, b"0"),
    ]


def test_restore_takes_the_initial_rule_not_the_one_before() -> None:
    rows = rows_of("90 02  41  90 03  41  d0", f"{PLAIN_CIE} {X86_64_START}")
    assert [row.registers for row in rows] == [(at(16, -16),), (at(16, -24),), (SAVED_RA,)]


@pytest.mark.parametrize("restore", ["c6", "06 06", "06 8600"])
def test_restore_of_a_register_without_initial_rule_takes_its_rule_away(restore: str) -> None:
    rows = rows_of(f"86 02  41  {restore}", f"{PLAIN_CIE} {X86_64_START}")
    assert [row.registers for row in rows] == [(at(6, -16), SAVED_RA), (SAVED_RA,)]


def test_restore_of_a_register_that_has_no_rule_changes_nothing() -> None:
    assert rows_of("c3", f"{PLAIN_CIE} {X86_64_START}") == (row(0, sp(8), SAVED_RA),)
