"""STACK CFI into the table: the document's examples, laws, which line is at fault and why.

Strategy: text that we write gives the same text again, and a table with the same rules for registers that Breakpad
names; postfix expressions are evaluated on both sides.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from unwindkit import BuildError, ParseError, by_pc, from_sframe, read_elf, to_sframe
from unwindkit.converters.arch.table import ARCHITECTURES, breakpad_names
from unwindkit.converters.breakpad.postfix.to_dwarf import PostfixError, expression_of
from unwindkit.converters.breakpad.stack_cfi.read import from_stack_cfi
from unwindkit.converters.breakpad.stack_cfi.write import to_stack_cfi
from unwindkit.converters.dwarf import expressions
from unwindkit.converters.rules import CfaKind, RuleKind
from unwindkit.converters.table.cut import trim
from unwindkit.converters.table.distinct import WITH_EXPRESSION
from unwindkit.converters.table.model import CfaRule, RegisterRule, Row, UnwindTable

from ..cfi.test_cfi_reading import NAMED_LIBRARIES, libc
from ..support.handmade import NO_CFA, at, octets, on, only, row, sp
from ..support.real_files import REAL_FILES
from ..support.texts.stack_cfi_text import value_of

UNDEFINED_RA = RegisterRule(16, RuleKind.UNDEFINED)


def test_the_documents_pair() -> None:
    """STACK CFI records, "For example"; the document names the return address $eip there."""
    text = """STACK CFI INIT 804c4b0 40 .cfa: $esp 4 + $eip: .cfa 4 - ^
STACK CFI 804c4b1 .cfa: $esp 8 + $ebp: .cfa 8 - ^
"""
    function = only(from_stack_cfi(text, "x86"))
    assert (function.start, function.size) == (0x804C4B0, 0x40)
    assert function.rows == (row(0, on(4, 4), at(8, -4)), row(1, on(4, 8), at(5, -8), at(8, -4)))


def test_the_documents_function() -> None:
    """func at 0x1000; its registers are not x86's: $ebx replaces its $r0. `.cfa ^` is the word at the CFA itself."""
    text = """STACK CFI INIT 1000 17 .cfa: $esp .ra: .cfa ^
STACK CFI      1001 .cfa: $esp 16 +
STACK CFI      1002 $ebx: .cfa 4 - ^
STACK CFI      100b .cfa: $esp 20 +
STACK CFI      1015 $ebx: $ebx
STACK CFI      1016 .cfa: $esp
"""
    saved, ra = at(3, -4), at(8, 0)
    assert only(from_stack_cfi(text, "x86")).rows == (
        row(0, on(4, 0), ra),
        row(1, on(4, 16), ra),
        row(2, on(4, 16), saved, ra),
        row(0xB, on(4, 20), saved, ra),
        row(0x15, on(4, 20), ra),
        row(0x16, on(4, 0), ra),
    )


def test_rules_of_every_kind() -> None:
    text = (
        b"MODULE Linux x86_64 0 name\nSTACK WIN 4 0 0 0 0 0 0 0 0 0 1\n"
        b"STACK CFI INIT 1000 20 .cfa: $rsp 8 + .ra: 0 $rbx: .cfa -16 + $r12: $r13 $rbp: $rbp\r\n"
        b"STACK CFI 1004 $rbx: .undef .cfa: $rsp 160 + ^ $rbp: $rsp 16 + ^\nPUBLIC 1000 0 name\n"
        b"STACK CFI INIT 2000 10 .cfa: $rbp -8 + .ra: .cfa -8 + ^"
    )
    first, second = from_stack_cfi(text, "x86_64", load_address=0x400000)
    assert (first.start, first.size, second.start, second.size) == (0x401000, 0x20, 0x402000, 0x10)
    in_r13 = RegisterRule(12, RuleKind.REGISTER, 13)
    cfa = CfaRule(CfaKind.EXPRESSION, 0, octets("77 00 10 a0 01 22 06"))  # breg7 0, constu 160, plus, deref
    saved = RegisterRule(6, RuleKind.EXPRESSION, octets("77 00 40 22"))  # breg7 0, lit16, plus
    assert first.rows == (
        row(0, sp(8), RegisterRule(3, RuleKind.VAL_OFFSET, -16), in_r13, UNDEFINED_RA),
        row(4, cfa, RegisterRule(3, RuleKind.UNDEFINED), saved, in_r13, UNDEFINED_RA),
    )
    assert second.rows == (row(0, on(6, -8), at(16, -8)),)


def test_lines_without_a_cfa_say_the_rest() -> None:
    assert only(from_stack_cfi("STACK CFI INIT 0 1 .ra: .cfa -8 + ^", "x86_64")).rows == (row(0, NO_CFA, at(16, -8)),)
    assert len(from_stack_cfi("", "x86_64")) == 0
    # Numbers may have odd spellings that readers of symbol files accept.
    (function,) = from_stack_cfi("STACK CFI INIT 0x00FF 2 .cfa:  $rsp 8 +", "x86_64")
    assert (function.start, function.rows) == (0xFF, (row(0, sp(8)),))


# --- laws ---------------------------------------------------------------------------------------------------------


def project(table: UnwindTable) -> UnwindTable:
    """What STACK CFI keeps of a table: rules other than "same value" of registers with a name; no marks."""
    rules, rows = table.rules, table.rows
    names = breakpad_names(table.architecture)
    column = table.architecture.return_address
    is_lost = (rules.kind == RuleKind.UNDEFINED) & (rules.register != column)
    kept = np.isin(rules.register, [*names, column]) & (rules.kind != RuleKind.SAME_VALUE) & ~is_lost
    place = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    first, last = place[rows.first_rule], place[rows.first_rule + rows.rule_count]
    nothing = np.zeros_like(table.functions.flags)
    return replace(
        table,
        functions=replace(table.functions, flags=nothing),
        rows=replace(
            rows,
            first_rule=first,
            rule_count=(last - first).astype(np.uint16),
            ra_state=np.zeros_like(rows.ra_state),
            args_size=np.zeros_like(rows.args_size),
        ),
        rules=rules.select(kept),
    )


@pytest.mark.oracle(*NAMED_LIBRARIES)
@pytest.mark.parametrize("suite", NAMED_LIBRARIES)
def test_text_comes_back_and_so_do_rules(suite: str) -> None:
    table = trim(read_elf(libc(suite)))
    text = to_stack_cfi(table)[0]
    read = from_stack_cfi(text, table.architecture.name, table.load_address)
    assert to_stack_cfi(read)[0] == text
    if suite == "sid-s390x":
        # Functions with another return address column get a column of their own for it.
        assert (read.functions.return_column != table.architecture.return_address).sum() < 5
        return
    if not np.isin(table.rules.kind, WITH_EXPRESSION).any() and not (table.rows.cfa_kind == CfaKind.EXPRESSION).any():
        expected = by_pc(project(table))
        found = by_pc(read)
        assert [one for one in found.differences(expected) if "UNDEFINED" not in one] == []


def test_a_symbol_file_as_sframe() -> None:
    """The lazy PLT's expression is read back as the rows that it means."""
    table = read_elf(REAL_FILES[0])
    read = from_stack_cfi(to_stack_cfi(table)[0], "x86_64", table.load_address)
    one, other = (by_pc(from_sframe(to_sframe(some)[0])) for some in (table, read))
    assert one.differences(other) == []


# --- expressions ------------------------------------------------------------------------------------------------------

WORDS = [
    "$rsp 8 + $rip 16 % 5 + 16 / 8 * +",
    "$rsp 160 + ^",
    "$rsp 128 + ^ $rbp -",
    ".cfa $rsp - 16 @",
    "$rax 3 * .cfa +",
    "-1 $rax -",
    "18446744073709551615 $rbx +",
    "$rax .cfa .cfa + +",
    "$r15 1 % 64 +",
]


@pytest.mark.parametrize("words", WORDS)
def test_translated_expressions_give_the_same_value(words: str) -> None:
    names = breakpad_names(ARCHITECTURES["x86_64"])
    numbers = {name: number for number, name in names.items()}
    operations = expressions.parse(expression_of(words.split(), numbers, "little", 8, starts_with_cfa=True))
    mask, draw = (1 << 64) - 1, random.Random(words)
    for trial in range(100):
        registers = {number: draw.getrandbits(draw.choice([8, 48, 64])) for number in range(17)}
        cfa = draw.getrandbits(48)

        def read(address: int, salt: int = trial) -> int:
            return hash((address, salt)) & mask

        found = expressions.evaluate(operations, registers.__getitem__, lambda address, _: read(address), 8, cfa)
        variables = {names[number]: value for number, value in registers.items()} | {".cfa": cfa}
        assert found == value_of(words, mask, variables, read)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("$rsp 8", "expected one value on the stack at the end, found 2"),
        ("+", "too few values for '\\+'"),
        ("^", "no value for '\\^'"),
        ("$rsp $rbp /", "the divisor of '/' is not a positive number"),
        ("$rsp 0 %", "the divisor of '%' is not a positive number"),
        ("$rsp 12 /", "the divisor of '/' is 12, expected a power of two"),
        ("$rsp 12 @", "the divisor of '@' is 12, expected a power of two"),
        (".ra", "'.ra' is neither a register nor a number"),
        ("$nothing", "'\\$nothing' is neither a register nor a number"),
        ("18446744073709551616 $rsp +", "has more than 64 bits"),
    ],
)
def test_expressions_that_are_none(words: str, says: str) -> None:
    numbers = {name: number for number, name in breakpad_names(ARCHITECTURES["x86_64"]).items()}
    with pytest.raises(PostfixError, match=says):
        expression_of(words.split(), numbers, "little", 8, starts_with_cfa=True)


INIT = "STACK CFI INIT 1000 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("STACK CFI 1000 .cfa: $rsp", "STACK CFI: line 1: no STACK CFI INIT before it"),
        (
            INIT + "STACK CFI 1004 .cfa: $rsp\nSTACK CFI 1003 .cfa: $rsp 16 +",
            "STACK CFI: line 3: the address is before that of the previous record",
        ),
        (
            INIT + "STACK CFI 1020 .cfa: $rsp 16 +",
            "STACK CFI: line 2: the address is before that of the previous record",
        ),
        (
            INIT + "STACK CFI fff .cfa: $rsp 16 +",
            "STACK CFI: line 2: the address is before that of the previous record",
        ),
        ("\n\nSTACK CFI INIT 1000 20", "line 3: STACK CFI INIT.rules: the line ends before it"),
        (
            "STACK CFI INIT x 20 .cfa: $rsp",
            "line 1: STACK CFI INIT.address: found 'x 20 ",
        ),
        ("STACK CFI INIT -1 20 .cfa: $rsp", "line 1: STACK CFI INIT.address: found '-1 20 "),
        ("STACK CFI INIT 1_0 20 .cfa: $rsp", "line 1: STACK CFI INIT.address: found '1_0 20 "),
        (
            "STACK CFI INIT 10000000000000000 20 .cfa: $rsp",
            "line 1: STACK CFI INIT.address: '10000000000000000' does not ",
        ),
        ("STACK CFI INIT ffffffffffffffff 2 .cfa: $rsp", "STACK CFI: line 1: the range reaches past the address space"),
        ("STACK CFI INIT 10 20 $rsp", "line 1: STACK CFI INIT.rules: '\\$rsp' precedes the first register"),
        ("STACK CFI INIT 10 20 .cfa: .ra: 0", "line 1: STACK CFI INIT.rules: '.cfa' has no expression"),
        ("STACK CFI INIT 10 20 .cfa: $rsp .cfa: $rsp", "STACK CFI: line 1: a register has two rules"),
        ("STACK CFI INIT 10 20 .cfa: $esp 4 +", "STACK CFI: line 1: .cfa: '\\$esp' is neither a register nor a number"),
        ("STACK CFI INIT 10 20 x0: .cfa 8 +", "STACK CFI: line 1: x86_64 has no register 'x0'"),
        ("STACK CFI INIT 10 20 .cfa: .cfa 8 +", "STACK CFI: line 1: .cfa: the rule for the CFA uses the CFA"),
        (
            "STACK CFI INIT 10 20 .cfa: $rsp\u00e9",
            "STACK CFI: line 1: .cfa: '\\$rsp\u00e9' is neither a register nor a number",
        ),
    ],
)
def test_malformed_lines(text: str, says: str) -> None:
    with pytest.raises(ParseError, match=f"^{says}"):
        from_stack_cfi(text, "x86_64")


@pytest.mark.parametrize("operator", ["+", "-", "*", "@"])
@pytest.mark.parametrize("number", [str(1 << 64), "1" * 4301, "-" + "1" * 4301])
def test_numbers_beyond_64_bits(number: str, operator: str) -> None:
    """int() refuses 4,301 digits."""
    shown = repr(number[:40]) + "..." * (len(number) > 40)
    for rules, name in (
        (f".cfa: $rsp {number} {operator}", ".cfa"),
        (f".cfa: $rsp .ra: .cfa {number} {operator}", ".ra"),
        (f".cfa: $rsp .ra: .cfa {number} {operator} ^", ".ra"),
    ):
        with pytest.raises(ParseError) as caught:
            from_stack_cfi(f"STACK CFI INIT 0 9 {rules}", "x86_64")
        assert (caught.value.record, caught.value.reason) == ("line 1", f"{name}: {shown} has more than 64 bits")


def test_a_number_may_have_any_number_of_zeros_before_it() -> None:
    text = f"STACK CFI INIT 0 9 .cfa: $rsp {'0' * 5000}8 + .ra: .cfa {'0' * 5000}8 - ^"
    ((row,),) = (function.rows for function in from_stack_cfi(text, "x86_64"))
    assert row == Row(0, CfaRule(CfaKind.REGISTER, 7, 8), (RegisterRule(16, RuleKind.OFFSET, -8),))


def test_the_largest_offset_is_2_to_the_61() -> None:
    """A larger number is part of an expression."""
    text = f"STACK CFI INIT 0 9 .cfa: $rsp $rbx: .cfa {1 << 61} - ^ .ra: .cfa {(1 << 61) + 1} - ^"
    (function,) = from_stack_cfi(text, "x86_64")
    # pick 0; constu 2**61 + 1; minus
    expression = bytes.fromhex("15 00  10 818080808080808020  1c")
    assert function.rows[0].registers == (
        RegisterRule(3, RuleKind.OFFSET, -(1 << 61)),
        RegisterRule(16, RuleKind.EXPRESSION, expression),
    )


def test_records_at_one_address_are_one_row() -> None:
    """Breakpad's dump_syms writes this for Windows on x86-64 (pe_only_symbol_test.sym); the document rules it out."""
    text = (
        "STACK CFI INIT 1440 39 .cfa: $rsp .ra: .cfa 8 - ^\nSTACK CFI 1440 .cfa: $rsp 32 +\n"
        "STACK CFI INIT 1490 7f .cfa: $rsp .ra: .cfa 8 - ^\nSTACK CFI 1494 .cfa: $rsp 8 +\n"
        "STACK CFI 1498 $rbx: .cfa 16 - ^\nSTACK CFI 1498 .cfa: $rsp 16 +\nSTACK CFI 1498 .cfa: $rsp 24 +\n"
    )
    first, second = from_stack_cfi(text, "x86_64")
    ra, rbx = RegisterRule(16, RuleKind.OFFSET, -8), RegisterRule(3, RuleKind.OFFSET, -16)
    assert first.rows == (Row(0, CfaRule(CfaKind.REGISTER, 7, 32), (ra,)),)
    assert second.rows == (
        Row(0, CfaRule(CfaKind.REGISTER, 7, 0), (ra,)),
        Row(4, CfaRule(CfaKind.REGISTER, 7, 8), (ra,)),
        Row(8, CfaRule(CfaKind.REGISTER, 7, 24), (rbx, ra)),
    )


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ParseError, match="line 1: STACK CFI INIT\\.rules: found"):
        from_stack_cfi(b"STACK CFI INIT 10 20 .cfa: \xff\x00", "x86_64")
    with pytest.raises(BuildError, match="arch: 'vax' is not one of x86"):
        from_stack_cfi("", "vax")
