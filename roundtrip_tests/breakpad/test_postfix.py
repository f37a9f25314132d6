"""Breakpad's postfix language: values worked out by hand, what has no value, DWARF expressions translated to it."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import FormatError, ParseError
from unwindkit.converters.breakpad.postfix.evaluate import evaluate_postfix, run_postfix
from unwindkit.converters.dwarf import expressions

NAMES = {"$rsp": 0x1000, "$rip": 0x4010, "x0": 7, "sp": 0x2000, ".cfa": 0x3000, "$max": (1 << 64) - 1}
MAX_64, MAX_32 = (1 << 64) - 1, (1 << 32) - 1


def memory(address: int, size: int) -> int:
    """A word holds twice its address, and its size."""
    return address * 2 + size


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0", 0),
        ("17", 17),
        ("017", 17),
        ("-8", (1 << 64) - 8),
        ("-0", 0),
        ("18446744073709551615", MAX_64),
        ("-18446744073709551615", 1),
        ("000000000000000000000000000000007", 7),
        ("$rsp", 0x1000),
        ("x0", 7),
        ("$rsp 8 +", 0x1008),
        ("$rsp -8 +", 0xFF8),
        (".cfa 4 -", 0x2FFC),
        ("3 5 -", (1 << 64) - 2),
        ("$max 1 +", 0),
        ("4294967296 4294967296 *", 0),
        ("6 7 *", 42),
        ("17 5 /", 3),
        ("-1 2 /", MAX_64 >> 1),  # unsigned
        ("17 5 %", 2),
        ("-1 16 %", 15),
        ("4097 16 @", 4096),
        ("4096 16 @", 4096),
        ("15 16 @", 0),
        ("-1 8 @", (1 << 64) - 8),
        ("5 1 @", 5),
        (".cfa 8 - ^", 0x2FF8 * 2 + 8),
        ("1 ^ ^", (2 + 8) * 2 + 8),
        ("  1   2  + ", 3),
        ("10 2 3 + -", 5),
        ("$y 5 = $y $y +", 10),  # an assignment leaves nothing on the stack
        # The lazy PLT: 8, and from byte 11 of an entry of 16 on 16.
        ("$rsp 8 + $rip 16 % 5 + 16 / 8 * +", 0x1008),
    ],
)
def test_values_of_eight_bytes(expression: str, expected: int) -> None:
    assert evaluate_postfix(expression, NAMES, memory) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("4294967295", MAX_32),
        ("-8", (1 << 32) - 8),
        ("4294967295 1 +", 0),
        ("0 1 -", MAX_32),
        ("65536 65536 *", 0),
        ("-1 16 @", (1 << 32) - 16),
        ("8 ^", 8 * 2 + 4),
        ("$max", MAX_32),
    ],
)
def test_values_of_four_bytes(expression: str, expected: int) -> None:
    assert evaluate_postfix(expression, NAMES, memory, 4) == expected


@pytest.mark.parametrize(
    ("expression", "offset", "reason"),
    [
        ("", 0, "expected one value on the stack at the end, found 0"),
        ("1 2", 3, "expected one value on the stack at the end, found 2"),
        ("+", 0, "too few values on the stack for +"),
        ("1 +", 2, "too few values on the stack for +"),
        ("^", 0, "too few values on the stack for ^"),
        ("1 0 /", 4, "division by zero"),
        ("1 0 %", 4, "division by zero"),
        ("1 0 @", 4, "@ aligns to 0, expected a power of two"),
        ("1 12 @", 5, "@ aligns to 12, expected a power of two"),
        ("$rbx 8 +", 7, "$rbx has no value"),
        ("$rbx", 0, "$rbx has no value"),
        (".undef", 0, ".undef has no value"),
        ("0x10", 0, "0x10 has no value"),
        ("1.5", 0, "1.5 has no value"),
        ("- 1", 0, "too few values on the stack for -"),
        ("18446744073709551616", 0, "18446744073709551616 does not fit in 8 bytes"),
        ("1 " + "9" * 10_000 + " +", 10_003, f"{'9' * 40} does not fit in 8 bytes"),
        ("=", 0, "too few values on the stack for ="),
        ("5 =", 2, "too few values on the stack for ="),
        ("5 6 =", 4, "= assigns to 5, expected a name that begins with $"),
        (".cfa 6 =", 7, "= assigns to .cfa, expected a name that begins with $"),
        ("1 1 + 6 =", 8, "= assigns to 2, expected a name that begins with $"),
    ],
)
def test_what_has_no_value_says_where(expression: str, offset: int, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        evaluate_postfix(expression, NAMES, memory)
    assert (caught.value.section, caught.value.offset, caught.value.reason) == ("postfix", offset, reason)
    assert len(str(caught.value)) < 300


def test_literals_of_four_bytes_have_their_own_limit() -> None:
    with pytest.raises(ParseError, match="4294967296 does not fit in 4 bytes"):
        evaluate_postfix("4294967296", {}, memory, 4)


def test_program_strings_assign() -> None:
    names = {"$esp": 0x100, "$ebp": 0x200, ".cbParams": 8}
    assert run_postfix("$T0 $ebp = $eip $T0 4 + ^ = $ebp $T0 ^ = $esp $T0 8 + .cbParams + =", names, memory) == {
        "$T0": 0x200,
        "$eip": 0x204 * 2 + 4,
        "$ebp": 0x200 * 2 + 4,
        "$esp": 0x210,
    }
    assert names == {"$esp": 0x100, "$ebp": 0x200, ".cbParams": 8}
    # MSVC 2010 writes the operator without a space after it.
    assert run_postfix("$T0 $ebp 128 + =$eip $T0 4 + ^ =$ebp 5 =", names, memory) == {
        "$T0": 0x280,
        "$eip": 0x284 * 2 + 4,
        "$ebp": 5,
    }
    assert run_postfix("$eip 1 = $eip $eip 1 + =", {}, memory) == {"$eip": 2}
    assert run_postfix("", {}, memory) == {}
    assert run_postfix("$a -4 =", {}, memory) == {"$a": MAX_32 - 3}


def test_program_strings_leave_nothing() -> None:
    with pytest.raises(ParseError, match="expected no value on the stack at the end, found 1"):
        run_postfix("$eip 1 = 5", {}, memory)
    with pytest.raises(ParseError, match=r"^postfix\+0xe: \$eip 1 = 5 2  =: = assigns to 5, expected a name"):
        run_postfix("$eip 1 = 5 2  =", {}, memory)


def test_what_the_memory_raises_passes_through() -> None:
    with pytest.raises(KeyError):
        evaluate_postfix("8 ^", {}, lambda address, size: {}[address])


operands = st.sampled_from(["$a", "$b", "0", "1", "3", "255", "-1", "-16"])
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


@given(
    words=st.recursive(
        operands, lambda inner: st.tuples(inner, inner, st.sampled_from(list(OPERATIONS))).map(" ".join), max_leaves=8
    ),
    a=st.integers(0, MAX_64),
    b=st.integers(0, MAX_64),
)
def test_sums_and_products_are_python_s_cut_to_a_word(words: str, a: int, b: int) -> None:
    values = {"$a": a, "$b": b}
    stack: list[int] = []
    for word in words.split():
        if word in OPERATIONS:
            right, left = stack.pop(), stack.pop()
            stack.append(OPERATIONS[word](left, right))
        else:
            stack.append(values[word] if word in values else int(word))
    for size in (4, 8):
        assert evaluate_postfix(words, values, memory, size) == stack[-1] % (1 << 8 * size)


ANY_WORDS = ["$rsp", "x0", "1", "-1", "0", "=", "+", "-", "*", "/", "%", "@", "^", "=$y", "$y", "?"]


@given(words=st.lists(st.sampled_from(ANY_WORDS)))
def test_law_4_any_words(words: list[str]) -> None:
    for run in (evaluate_postfix, run_postfix):
        try:
            run(" ".join(words), NAMES, memory)
        except FormatError as error:
            assert error.section == "postfix"


def test_the_lazy_plt_says_what_its_dwarf_expression_says() -> None:
    # breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus
    operations = expressions.parse(bytes.fromhex("770880003f1a3b2a332422"))
    for address in range(0x4000, 0x4020):
        dwarf = expressions.evaluate(operations, {7: 0x1000, 16: address}.__getitem__, memory)
        postfix = evaluate_postfix("$rsp 8 + $rip 16 % 5 + 16 / 8 * +", {"$rsp": 0x1000, "$rip": address}, memory)
        assert postfix == dwarf == (0x1010 if address % 16 >= 11 else 0x1008)
