"""SFrame V3 by hand: each form's bytes as GNU as 2.47 writes them, with one comment per field, in both directions."""

from __future__ import annotations

import pytest
from unwindkit import FunctionFlag, Reason, from_sframe, to_sframe
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.rules import CfaKind, RuleKind
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
