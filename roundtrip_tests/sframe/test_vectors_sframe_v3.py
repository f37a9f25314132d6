"""SFrame V3 by hand: each form's bytes as GNU as 2.47 writes them, with one comment per field, in both directions."""

from __future__ import annotations

import pytest
from unwindkit import FunctionFlag, Reason, from_sframe, project_sframe, to_sframe
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.table.model import CfaRule, Function, RegisterRule, Row, table_of

from ..support.handmade import at, octets, on, row

pytestmark = pytest.mark.usefixtures("kernels")

RA, FP = 16, 6
FIXED = at(RA, -8)
IN_MEMORY = CfaRule(CfaKind.EXPRESSION, 0, bytes.fromhex("7678 06"))  # breg6 -8; deref
UNDEFINED = RegisterRule(RA, RuleKind.UNDEFINED)


def amd64(fre: str, *, count: int = 1, info: int = 0, flex: int = 1, fde_size: str = "10000000") -> bytes:
    """One function of 16 bytes at 0x1000, the section at 0; `fre` is its FREs."""
    fres = octets(fre)
    return (
        octets(f"""
        e2de 03 05           # magic, version, sorted and PC-relative
        03 00 f8 00          # AMD64, fixed FP and RA offsets, no auxiliary header
        01000000 {count.to_bytes(4, "little").hex()}
        {(5 + len(fres)).to_bytes(4, "little").hex()}   # fre_len: the attributes count
        00000000 10000000    # fdeoff, freoff
        e40f000000000000     # func_start_offset, 64 bits: 0x1000 from the field at 28
        {fde_size} 00000000  # func_size, func_start_fre_off
        {count.to_bytes(2, "little").hex()} {info:02x} {flex:02x} 00  # func_num_fres, info, info2, rep_size
    """)
        + fres
    )


FORMS = [
    # 0: start; 04: one-byte words, two of them; 51: r10, a register; 00
    pytest.param("00 04 51 00", (on(10, 0), FIXED), id="CFA on any register"),
    # 33: r6, from memory, a register; f8: -8
    pytest.param("00 04 33 f8", (IN_MEMORY, FIXED), id="CFA from memory"),
    # 39 10: r7 + 16; 02 f0: in memory at CFA - 16
    pytest.param("00 08 39 10 02 f0", (on(7, 16), at(RA, -16)), id="RA elsewhere on the stack"),
    # 19 00: r3
    pytest.param("00 08 39 08 19 00", (on(7, 8), RegisterRule(RA, RuleKind.REGISTER, 3)), id="RA in a register"),
    # 00: no word for RA; 33 00: in memory at r6
    pytest.param(
        "00 0a 51 08 00 33 00",
        (on(10, 8), RegisterRule(FP, RuleKind.EXPRESSION, bytes.fromhex("7600")), FIXED),
        id="FP in memory at a register",
    ),
    # 01 02: register 64 needs a word of two bytes: 64 << 3 | 1
    pytest.param("00 24 0102 0000", (on(64, 0), FIXED), id="a control word of two bytes"),
    # d1: 26 << 3 | 1, above 127: unsigned
    pytest.param("00 04 d1 00", (on(26, 0), FIXED), id="a control word is unsigned"),
    # Offset words are signed; 04, 24, 44: two words of one, two, four bytes.
    pytest.param("00 04 51 7f", (on(10, 127), FIXED), id="127"),
    pytest.param("00 24 5100 8000", (on(10, 128), FIXED), id="128"),
    pytest.param("00 04 51 80", (on(10, -128), FIXED), id="-128"),
    pytest.param("00 24 5100 7fff", (on(10, -129), FIXED), id="-129"),
    pytest.param("00 24 5100 ff7f", (on(10, 32767), FIXED), id="32767"),
    pytest.param("00 44 51000000 00800000", (on(10, 32768), FIXED), id="32768"),
    pytest.param("00 24 5100 0080", (on(10, -32768), FIXED), id="-32768"),
    pytest.param("00 44 51000000 ff7fffff", (on(10, -32769), FIXED), id="-32769"),
    pytest.param("00 44 51000000 00000100", (on(10, 65536), FIXED), id="65536"),
]


@pytest.mark.parametrize(("fre", "said"), FORMS)
def test_flex_forms(fre: str, said: tuple[CfaRule, *tuple[RegisterRule, ...]]) -> None:
    data = amd64(fre)
    (function,) = from_sframe(data)
    assert (function.start, function.size, function.rows) == (0x1000, 16, (row(0, said[0], *said[1:]),))
    table = table_of(ARCHITECTURES["x86_64"], [Function(0x1000, 16, function.rows, return_column=RA)])
    written, refusals = to_sframe(table, 3)
    assert (written, len(refusals)) == (data, 0)


def place(register: int, offset: int) -> bytes:
    """DW_OP_breg and DW_OP_deref: what is in memory at a register plus a small offset."""
    return bytes([0x70 + register, offset, 0x06])


@pytest.mark.parametrize(
    ("sp_rule", "cfa", "fits"),
    [
        (place(FP, 16)[:2], CfaRule(CfaKind.EXPRESSION, 0, place(FP, 16)), True),
        (place(FP, 24)[:2], CfaRule(CfaKind.EXPRESSION, 0, place(FP, 16)), False),
        (place(3, 16)[:2], CfaRule(CfaKind.EXPRESSION, 0, place(FP, 16)), False),
        (place(10, 16)[:2], on(10, 16), False),  # r10: FLEX, too
    ],
    ids=["there", "another offset", "another register", "the CFA is not in memory"],
)
def test_sp_may_be_read_only_from_where_the_cfa_is_read(sp_rule: bytes, cfa: CfaRule, fits: bool) -> None:
    rows = (row(0, cfa, RegisterRule(7, RuleKind.EXPRESSION, sp_rule), FIXED),)
    data, refusals = to_sframe(table_of(ARCHITECTURES["x86_64"], [Function(0x1000, 16, rows, return_column=RA)]), 3)
    assert refusals.reason.tolist() == ([] if fits else [Reason.SP_RULE])
    # 33: r6, from memory, a register; 10: 16
    assert not fits or data == amd64("00 04 33 10")


def test_signal_frame_is_bit_7_of_the_first_info_byte() -> None:
    # 03: SP, one word of one byte
    data = amd64("00 03 08", info=0x80, flex=0)
    table = from_sframe(data)
    assert table.function(0).flags == FunctionFlag.SIGNAL_FRAME
    assert to_sframe(table, 3)[0] == data


def test_outermost_frame_is_an_fre_without_words() -> None:
    data = amd64("00 00  04 03 08", count=2, flex=0)
    (function,) = from_sframe(data)
    assert function.rows == (Row(0, CfaRule(CfaKind.NONE), (UNDEFINED,)), row(4, on(7, 8), FIXED))
    assert to_sframe(from_sframe(data), 3)[0] == data


def test_function_without_fres_is_an_outermost_frame() -> None:
    (function,) = from_sframe(amd64("", count=0, flex=0))
    assert function.rows == (Row(0, CfaRule(CfaKind.NONE), (UNDEFINED,)),)


def test_rule_of_sp_that_is_the_cfa_in_other_words_is_left_out() -> None:
    same = RegisterRule(7, RuleKind.VAL_EXPRESSION, bytes.fromhex("2300"))  # the CFA plus_uconst 0
    one = Function(0x1000, 0x10, (Row(0, on(7, 8), (same, FIXED)),), return_column=RA)
    data, refusals = to_sframe(table_of(ARCHITECTURES["x86_64"], [one]), 3)
    assert data == amd64("00 04 39 08")  # 39 08: r7 + 8
    assert len(refusals) == 0


def test_s390x_registers_are_flex_and_the_cfa_is_scaled() -> None:
    architecture = ARCHITECTURES["s390x"]
    # SP = CFA + SFRAME_S390X_SP_VAL_OFFSET in FLEX FDEs, too.
    sp_of_caller = RegisterRule(15, RuleKind.VAL_OFFSET, -160)
    rows = (row(0, on(15, 320), RegisterRule(14, RuleKind.REGISTER, 16), sp_of_caller),)
    table = table_of(architecture, [Function(0x1000, 16, rows, return_column=14)])
    written, refusals = to_sframe(table, 3)
    assert len(refusals) == 0
    # 0001: one FRE; 00 01 00: PCINC and ADDR1, FLEX, no block; 79 14: r15 + 160 + 8 * 20; 81 00: f0, register 16
    assert written[44:] == octets("0001 00 01 00  00 08 79 14 81 00")
    assert from_sframe(written).function(0).rows == rows


def test_an_odd_slot_of_s390x_is_an_offset() -> None:
    """In version 2 an odd slot names a register."""
    data = octets("""
        dee2 03 05           # magic, version, sorted and PC-relative
        04 00 00 00          # s390x, no fixed offsets, no auxiliary header
        00000001 00000001 00000009
        00000000 00000010    # fdeoff, freoff
        0000000000000fe4     # func_start_offset: 0x1000 from the field at 28
        00000010 00000000    # func_size, func_start_fre_off
        0001 00 00 00        # one FRE; not FLEX
        00 05 00 d1          # SP, two words of one byte: CFA = r15 + 160, RA at CFA - 47
    """)
    rows = (row(0, on(15, 160), at(14, -47), RegisterRule(15, RuleKind.VAL_OFFSET, -160)),)
    (function,) = from_sframe(data)
    assert function.rows == rows
    written, refusals = to_sframe(from_sframe(data), 3)
    assert (written, len(refusals)) == (data, 0)


# --- limits, and what has no form ---------------------------------------------------------------------------------


def encoded(*rows: Row, architecture: str = "x86_64") -> tuple[bytes, list[Reason]]:
    """A function of 16 bytes at 0x1000 in version 3, and the reasons of its refusals."""
    column = ARCHITECTURES[architecture].return_address
    table = table_of(ARCHITECTURES[architecture], [Function(0x1000, 16, rows, return_column=column)])
    data, refusals = to_sframe(table, 3)
    return data, [Reason(one) for one in refusals.reason.tolist()]


def saved_fp(kind: RuleKind, expression: str) -> Row:
    """A row with FLEX words whatever the rule of FP is."""
    return row(0, on(10, 8), RegisterRule(FP, kind, octets(expression)), FIXED)


FP_FORMS = [
    # 4095 << 3 | 1, 4096 << 3 | 1, 8191 << 3 | 1: two bytes, unsigned; 8192 << 3 | 1: four
    pytest.param(on(4095, 8), (), "00 24 f97f 0800", id="register 4095"),
    pytest.param(on(4096, 8), (), "00 24 0180 0800", id="register 4096"),
    pytest.param(on(8191, 8), (), "00 24 f9ff 0800", id="register 8191"),
    pytest.param(on(8192, 8), (), "00 44 01000100 08000000", id="register 8192"),
    # 51 08: r10 + 8; 00: no word for RA; 19 08: r3 + 8, not from memory; 19 00: r3
    pytest.param(on(10, 8), (RuleKind.VAL_EXPRESSION, "73 08"), "00 0a 51 08 00 19 08", id="FP is r3 + 8"),
    pytest.param(on(10, 8), (RuleKind.VAL_EXPRESSION, "73 00"), "00 0a 51 08 00 19 00", id="FP is r3"),
    # breg3 2**31 - 1 and -2**31
    pytest.param(
        on(10, 8),
        (RuleKind.EXPRESSION, "73 ffffffff07"),
        "00 4a 51000000 08000000 00000000 1b000000 ffffff7f",
        id="FP in memory at r3 + 2**31 - 1",
    ),
    pytest.param(
        on(10, 8),
        (RuleKind.EXPRESSION, "73 8080808078"),
        "00 4a 51000000 08000000 00000000 1b000000 00000080",
        id="FP in memory at r3 - 2**31",
    ),
    # bregx 65535 0: 65535 << 3 | 3
    pytest.param(
        on(10, 8),
        (RuleKind.EXPRESSION, "92 ffff03 00"),
        "00 4a 51000000 08000000 00000000 fbff0700 00000000",
        id="FP in memory at r65535",
    ),
    # breg7 8, 21 nops, deref: 24 bytes
    pytest.param(
        CfaRule(CfaKind.EXPRESSION, 0, b"\x77\x08" + b"\x96" * 21 + b"\x06"), (), "00 04 3b 08", id="24 bytes"
    ),
]


@pytest.mark.parametrize(("cfa", "rule", "fre"), FP_FORMS)
def test_forms_at_their_limits(cfa: CfaRule, rule: tuple[()] | tuple[RuleKind, str], fre: str) -> None:
    rules = (RegisterRule(FP, rule[0], octets(rule[1])), FIXED) if rule else (FIXED,)
    assert encoded(row(0, cfa, *rules)) == (amd64(fre), [])


FORMLESS = [
    # One byte more than the longest expression that is examined.
    pytest.param(
        row(0, CfaRule(CfaKind.EXPRESSION, 0, b"\x77\x08" + b"\x96" * 22 + b"\x06"), FIXED), Reason.CFA_EXPRESSION,
        id="25 bytes",
    ),
    # breg7 8, deref_size 4: half of an address
    pytest.param(
        row(0, CfaRule(CfaKind.EXPRESSION, 0, octets("77 08 94 04")), FIXED), Reason.CFA_EXPRESSION, id="deref_size"
    ),
    # plus_uconst 8: the CFA is not on the stack of its own expression.
    pytest.param(
        row(0, CfaRule(CfaKind.EXPRESSION, 0, octets("23 08")), FIXED), Reason.CFA_EXPRESSION, id="the CFA from itself"
    ),
    pytest.param(saved_fp(RuleKind.VAL_EXPRESSION, "76 08 94 04"), Reason.FP_RULE, id="FP by deref_size"),
    # Saved at an address that is in memory: two reads.
    pytest.param(saved_fp(RuleKind.EXPRESSION, "76 00 06"), Reason.FP_RULE, id="FP read twice"),
    pytest.param(saved_fp(RuleKind.EXPRESSION, "73 8080808008"), Reason.FP_RULE, id="FP in memory at r3 + 2**31"),
    pytest.param(saved_fp(RuleKind.EXPRESSION, "73 ffffffff77"), Reason.FP_RULE, id="FP in memory at r3 - 2**31 - 1"),
    pytest.param(saved_fp(RuleKind.EXPRESSION, "92 808004 00"), Reason.FP_RULE, id="FP in memory at r65536"),
    # Where no rule tells where RA is, it is not at CFA - 8.
    pytest.param(row(0, on(10, 8)), Reason.RA_RULE, id="RA without a rule"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "reason"), FORMLESS)
def test_rows_without_a_form_are_refused(one: Row, reason: Reason) -> None:
    data, reasons = encoded(one)
    assert (reasons, data[8:12]) == ([reason], bytes(4))


@pytest.mark.parametrize(
    ("value", "fits"), [(-(1 << 31), True), (-(1 << 31) - 1, False), ((1 << 31) - 1, True), (1 << 31, False)]
)
def test_an_ra_on_the_stack_within_32_bits(value: int, fits: bool) -> None:
    stored = (value % (1 << 32)).to_bytes(4, "little").hex()
    data, reasons = encoded(row(0, on(7, 16), at(RA, value)))
    # 39: r7; 02: in memory at the CFA plus an offset
    assert reasons == ([] if fits else [Reason.RA_RULE])
    assert not fits or data == amd64(f"00 48 39000000 10000000 02000000 {stored}")


def test_sp_as_an_expression_of_the_cfa() -> None:
    """DW_CFA_val_expression with plus_uconst 0 is the CFA; with plus_uconst 8 it is 8 bytes more."""
    for offset, reasons in (("00", []), ("08", [Reason.SP_RULE])):
        rule = RegisterRule(7, RuleKind.VAL_EXPRESSION, octets(f"23 {offset}"))
        assert encoded(row(0, on(10, 16), rule, FIXED))[1] == reasons


def test_sp_of_s390x_is_not_where_the_cfa_is_read() -> None:
    """There, the SP is 160 bytes below the CFA. breg15 160, deref; breg15 160."""
    cfa = CfaRule(CfaKind.EXPRESSION, 0, octets("7f a001 06"))
    assert encoded(row(0, cfa), architecture="s390x")[1] == []
    rule = RegisterRule(15, RuleKind.EXPRESSION, octets("7f a001"))
    assert encoded(row(0, cfa, rule), architecture="s390x")[1] == [Reason.SP_RULE]


def test_an_ra_signed_with_the_pc_has_no_flex_form() -> None:
    signed = [row(0, on(9, 16), ra_state=state) for state in (RaState.SIGNED, RaState.SIGNED_WITH_PC)]
    assert [encoded(one, architecture="aarch64")[1] for one in signed] == [[], [Reason.RA_SIGNED_WITH_PC]]


def test_fp_without_ra_is_flex() -> None:
    data, reasons = encoded(row(0, on(31, 16), at(29, -16)), architecture="aarch64")
    assert reasons == []
    # Attributes: one FRE, PCINC, FLEX. 0a: five words; f9 10: r31 + 16; 00: no RA; 02 f0: in memory at CFA - 16
    assert data[44:] == octets("0100 00 01 00  00 0a f9 10 00 02 f0")


def test_only_the_segments_that_need_it_are_flex() -> None:
    data, reasons = encoded(row(0, on(7, 8), FIXED), row(4, CfaRule(CfaKind.NONE)), row(8, on(10, 0), FIXED))
    assert reasons == [Reason.NO_CFA]
    # Two FDEs of 16 bytes from 28 on. Attributes, then SP + 8; attributes with FLEX, then r10 + 0.
    assert data[60:] == octets("0100 00 00 00  00 03 08") + octets("0100 00 01 00  00 04 51 00")


def test_an_outermost_frame_has_no_other_rules() -> None:
    """Neither the state of a return address that nobody reads, nor an SP of s390x without a CFA."""
    undefined = RegisterRule(30, RuleKind.UNDEFINED)
    rows = (row(0, on(31, 16), undefined, ra_state=RaState.SIGNED),)
    table = table_of(ARCHITECTURES["aarch64"], [Function(0x1000, 16, rows, return_column=30)])
    alone = (Row(0, CfaRule(CfaKind.NONE), (undefined,)),)
    assert project_sframe(table, 3).function(0).rows == alone
    assert from_sframe(to_sframe(table, 3)[0]).function(0).rows == alone
    undefined = RegisterRule(14, RuleKind.UNDEFINED)
    data, reasons = encoded(row(0, on(15, 160), undefined), architecture="s390x")
    assert reasons == []
    assert from_sframe(data).function(0).rows == (Row(0, CfaRule(CfaKind.NONE), (undefined,)),)
