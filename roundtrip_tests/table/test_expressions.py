"""DWARF expressions: every operation both ways, and values worked out by hand (DWARF5 2.5.1)."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from unwindkit.converters.dwarf import expressions
from unwindkit.converters.dwarf.expressions import ExpressionError, evaluate, text
from unwindkit.schemas import strategies
from unwindkit.schemas.expressions import (
    FAMILIES,
    FAMILY_SIZE,
    OPERATIONS,
    Operation,
    build_expression,
    parse_expression,
)
from unwindkit.schemas.section import BuildError, ByteOrder, ParseError, Section
from unwindkit.schemas.wire import Leb128, LebBlock, uleb

from ..support.handmade import octets, place
from ..support.work import at_most_calls

SP, FP, PC = 7, 6, 16
LAZY_PLT = octets(
    "77 08  80 00  3f  1a  3b  2a  33  24  22"
)  # breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus

# --- bytes --------------------------------------------------------------------------------------------------

# Opcode, operands; little-endian, addresses of eight bytes. The printed text, without DW_OP_.
VECTORS = """
03 8877665544332211     # addr 1234605616436508552
06                      # deref
08 ff                   # const1u 255
09 ff                   # const1s -1
0a feff                 # const2u 65534
0b feff                 # const2s -2
0c fdffffff             # const4u 4294967293
0d fdffffff             # const4s -3
0e fcffffffffffffff     # const8u 18446744073709551612
0f fcffffffffffffff     # const8s -4
10 e58e26               # constu 624485
10 858000               # constu 5
11 c0bb78               # consts -123456
12                      # dup
13                      # drop
14                      # over
15 02                   # pick 2
16                      # swap
17                      # rot
18                      # xderef
19                      # abs
1a                      # and
1b                      # div
1c                      # minus
1d                      # mod
1e                      # mul
1f                      # neg
20                      # not
21                      # or
22                      # plus
23 8001                 # plus_uconst 128
24                      # shl
25                      # shr
26                      # shra
27                      # xor
28 fdff                 # bra -3
29                      # eq
2a                      # ge
2b                      # gt
2c                      # le
2d                      # lt
2e                      # ne
2f 0100                 # skip 1
30                      # lit0
4f                      # lit31
50                      # reg0
6f                      # reg31
70 7f                   # breg0 -1
8f 8001                 # breg31 128
90 21                   # regx 33
91 7e                   # fbreg -2
92 21 7e                # bregx 33 -2
93 08                   # piece 8
94 04                   # deref_size 4
95 04                   # xderef_size 4
96                      # nop
97                      # push_object_address
98 3412                 # call2 4660
99 78563412             # call4 305419896
9a 78563412             # call_ref 305419896
9b                      # form_tls_address
9c                      # call_frame_cfa
9d 08 10                # bit_piece 8 16
9e 02 c0de              # implicit_value c0de
9f                      # stack_value
a0 78563412 7f          # implicit_pointer 305419896 -1
a1 05                   # addrx 5
a2 06                   # constx 6
a3 01 55                # entry_value 55
a5 07 21                # regval_type 7 33
a6 04 21                # deref_type 4 33
a7 04 21                # xderef_type 4 33
a8 21                   # convert 33
a9 21                   # reinterpret 33
"""
CASES = [tuple(map(str.strip, line.split("#"))) for line in VECTORS.strip().splitlines()]


def section(data: bytes, byte_order: ByteOrder = "little", address_size: int = 8) -> Section:
    return Section.of("expression", data, 0, byte_order, address_size)


@pytest.mark.parametrize(("data", "printed"), CASES, ids=[f"{data} {name}" for data, name in CASES])
def test_an_operation_is_read_printed_and_written(data: str, printed: str) -> None:
    expression = section(octets(data))
    (operation,) = parse_expression(expression)
    assert str(operation) == f"DW_OP_{printed}"
    assert (operation.offset, operation.end) == (0, len(expression))
    assert build_expression((operation,), expression) == expression.data


def test_vectors_leave_no_operation_out() -> None:
    seen = {octets(data)[0] for data, _ in CASES}
    assert set(OPERATIONS) | set(FAMILIES) == {opcode for opcode in seen if opcode not in (0x4F, 0x6F, 0x8F)}


def test_fixed_width_operands_follow_byte_order_address_size_and_format() -> None:
    # addr 0x12345678; const2u 0x1234; call_ref 0x0102030405060708 of 64-bit DWARF
    data = octets("03 12345678  0a 1234  9a 0102030405060708")
    operations = parse_expression(section(data, "big", 4), offset_size=8)
    assert text(operations) == "DW_OP_addr 305419896; DW_OP_const2u 4660; DW_OP_call_ref 72623859790382856"
    assert build_expression(operations, section(b"", "big", 4), offset_size=8) == data


def test_the_listing_of_the_lazy_plt() -> None:
    names = "breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus"
    assert text(expressions.parse(LAZY_PLT)) == "; ".join(f"DW_OP_{name}" for name in names.split("; "))


@pytest.mark.parametrize(
    ("data", "offset", "record", "reason"),
    [
        ("30 00", 1, "operation[1]", "the opcode 0x00 is not defined"),
        ("30 30 e7", 2, "operation[2]", "the opcode 0xe7 is not defined"),  # a vendor opcode, unassigned
        ("30 0c 010203", 5, "operation[1].value", "4"),  # const4u of three bytes
        ("03 01020304050607", 8, "operation[0].value", "8"),  # addr of seven bytes
        ("77 80", 2, "operation[0].value", "1"),  # breg7, an unterminated SLEB128
        ("92 07", 2, "operation[0].value", "1"),  # bregx without its second operand
        ("9e 03 0102", 2, "operation[0].value", "a block of 3 bytes, but only 2 are left"),
    ],
)
def test_unknown_opcodes_and_cut_operands_are_refused_where_they_are(
    data: str, offset: int, record: str, reason: str
) -> None:
    with pytest.raises(ParseError) as caught:
        expressions.parse(octets(data))
    assert place(caught.value) == ("expression", offset, record)
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    "operation",
    [
        Operation("lit32"),
        Operation("lit1", (1,)),
        Operation("breg7"),
        Operation("const1u", (256,)),
        Operation("const1s", (128,)),
        Operation("addr", (1 << 32,)),
        Operation("constu", (Leb128(-1, 1),)),
    ],
    ids=str,
)
def test_what_has_no_encoding_is_not_built(operation: Operation) -> None:
    with pytest.raises(BuildError):
        build_expression((operation,), section(b"", address_size=4))


@functools.cache
def operations(address_size: int, offset_size: int) -> SearchStrategy[tuple[Operation, ...]]:
    """Any operations with any operands, LEB128 numbers of any width."""
    sizes = {"address_size": address_size, "offset_size": offset_size}
    all_kinds = dict(OPERATIONS.values()) | {
        f"{name}{number}": kinds for name, kinds in FAMILIES.values() for number in range(FAMILY_SIZE)
    }

    @functools.cache
    def of(name: str) -> SearchStrategy[Operation]:
        operands = st.tuples(*(strategies.values_of(kind, **sizes) for kind in all_kinds[name]))
        return operands.map(lambda drawn: Operation(name, drawn))

    return st.lists(st.sampled_from(sorted(all_kinds)).flatmap(of)).map(tuple)


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("address_size", [4, 8])
@given(data=st.data(), offset_size=st.sampled_from([4, 8]))
def test_law_1_any_operations_built_and_parsed_are_themselves(
    data: st.DataObject, byte_order: ByteOrder, address_size: int, offset_size: int
) -> None:
    drawn = data.draw(operations(address_size, offset_size))
    built = build_expression(drawn, section(b"", byte_order, address_size), offset_size)
    expression = section(built, byte_order, address_size)
    parsed = parse_expression(expression, offset_size)
    assert [(one.name, one.operands) for one in parsed] == [(one.name, one.operands) for one in drawn]
    assert build_expression(parsed, expression, offset_size) == built
    assert [one.offset for one in parsed] == [0, *(one.end for one in parsed)][: len(parsed)]


@given(st.binary(max_size=40), st.sampled_from([4, 8]))
def test_law_1_any_bytes_are_refused_or_kept(data: bytes, address_size: int) -> None:
    try:
        parsed = parse_expression(section(data, "little", address_size))
    except ParseError as error:
        assert 0 <= (error.offset or 0) <= len(data)
        return
    assert build_expression(parsed, section(b"", "little", address_size)) == data


def test_unused_operand_kinds_print_as_hex() -> None:
    assert str(Operation("entry_value", (LebBlock(b"\x55", 1),))) == "DW_OP_entry_value 55"
    assert str(Operation("constu", (uleb(7),))) == "DW_OP_constu 7"


# --- values -------------------------------------------------------------------------------------------------

REGISTERS = {SP: 0x7FFF0000, FP: 0x7FFF0100, PC: 0x40102B, 33: 0xFFFFFFFFFFFFFFFF}
U64, U32 = 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF


def value(data: str, address_size: int = 8, initial: int | None = None) -> int:
    """The value on top; memory holds at each address the address times 256 plus the size."""
    operations_read = expressions.parse(octets(data), "little", address_size)
    return evaluate(operations_read, REGISTERS.__getitem__, lambda at, size: at << 8 | size, address_size, initial)


# Stack before, written as pushes (lit n is 30 + n, const1s n is 09 nn); the operation; the value on top by hand.
VALUES = [
    ("4f", 31),  # lit31
    ("08 ff", 255),
    ("09 ff", U64),  # const1s -1
    ("0b 0080", U64 - 0x7FFF),  # const2s -32768
    ("0d 00000080", U64 - 0x7FFFFFFF),  # const4s -2**31
    ("0f ffffffffffffffff", U64),
    ("11 7f", U64),  # consts -1
    ("10 8001", 128),  # constu
    ("03 0807060504030201", 0x0102030405060708),  # addr
    ("77 7f", 0x7FFEFFFF),  # breg7 -1
    ("92 21 01", 0),  # bregx 33 1: all ones and one
    ("31 32 12 1e", 4),  # 1 2 dup mul
    ("31 32 13", 1),  # 1 2 drop
    ("31 32 14", 1),  # 1 2 over
    ("31 32 33 15 00", 3),  # pick 0
    ("31 32 33 15 02", 1),  # pick 2
    ("38 33 16 1c", U64 - 4),  # 8 3 swap minus: 3 - 8
    ("31 32 33 17", 2),  # rot: the second is on top,
    ("31 32 33 17 13", 1),  # the third below it,
    ("31 32 33 17 13 13", 3),  # the top third
    ("09 fb 19", 5),  # abs -5
    ("0f 0000000000000080 19", 1 << 63),  # abs of the least number wraps onto it
    ("3c 3a 1a", 8),  # 12 and 10
    ("09 f9 32 1b", U64 - 2),  # -7 div 2 is -3: towards zero
    ("37 09 fe 1b", U64 - 2),  # 7 div -2
    ("09 f9 09 fe 1b", 3),  # -7 div -2
    ("0f 0000000000000080 09 ff 1b", 1 << 63),  # the least number div -1 wraps
    ("33 35 1c", U64 - 1),  # 3 minus 5
    ("37 34 1d", 3),  # 7 mod 4
    ("09 ff 3a 1d", 5),  # mod is unsigned: 18446744073709551615 mod 10
    ("0e 0000000000000080 32 1e", 0),  # 2**63 mul 2
    ("31 1f", U64),  # neg
    ("30 20", U64),  # not 0
    ("3c 3a 21", 14),  # 12 or 10
    ("09 ff 31 22", 0),  # -1 plus 1
    ("09 ff 23 02", 1),  # -1 plus_uconst 2
    ("31 08 3f 24", 1 << 63),  # 1 shl 63
    ("31 08 40 24", 0),  # 1 shl 64
    ("31 09 ff 24", 0),  # by 2**64 - 1
    ("09 f8 31 25", 0x7FFFFFFFFFFFFFFC),  # -8 shr 1 is logical
    ("09 f8 09 ff 25", 0),
    ("09 f8 31 26", U64 - 3),  # -8 shra 1 is arithmetic
    ("09 f8 09 ff 26", U64),
    ("3c 3a 27", 6),  # 12 xor 10
    ("33 33 29", 1),  # eq
    ("33 34 29", 0),
    ("33 34 2e", 1),  # ne
    ("09 ff 31 2d", 1),  # -1 lt 1: comparisons are signed
    ("31 09 ff 2d", 0),
    ("33 33 2d", 0),
    ("09 ff 31 2c", 1),  # le
    ("33 33 2c", 1),
    ("34 33 2c", 0),
    ("31 09 ff 2b", 1),  # gt
    ("33 33 2b", 0),
    ("31 09 ff 2a", 1),  # ge
    ("33 33 2a", 1),
    ("09 ff 31 2a", 0),
    ("35 96", 5),  # nop
    ("3f 06", 0x0F08),  # deref reads eight bytes
    ("3f 94 02", 0x0F02),  # deref_size 2
    ("77 08 06", 0x7FFF000808),  # deref of SP + 8
    ("31 2f 0100 32 23 01", 2),  # skip over lit2: 1 + 1
    ("31 2f 0000", 1),  # to the very end
    ("31 31 28 0100 32", 1),  # bra taken, to the very end
    ("31 30 28 0100 32", 2),  # bra not taken
    ("30 38  16 23 02 16  31 1c  12  28 f6ff  13", 16),  # 0 8, then eight rounds of plus_uconst 2, back by 10
]


@pytest.mark.parametrize(("data", "expected"), VALUES, ids=[data for data, _ in VALUES])
def test_an_operator_gives_the_value_worked_out_by_hand(data: str, expected: int) -> None:
    assert value(data) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("09 ff", U32),
        ("0e 7856341278563412", 0x12345678),  # cut to the address size
        ("09 ff 31 22", 0),
        ("0c 00000080 32 1e", 0),  # 2**31 mul 2
        ("09 f8 31 25", 0x7FFFFFFC),
        ("09 f8 31 26", U32 - 3),
        ("31 4f 24", 1 << 31),
        ("31 08 20 24", 0),
        ("0c 00000080 31 2d", 1),  # 2**31 is negative
        ("09 f9 32 1b", U32 - 2),
        ("09 ff 3a 1d", 5),  # 4294967295 mod 10
        ("03 78563412", 0x12345678),
        ("92 21 01", 0),  # bregx of all ones and one
        ("3f 06", 0x0F04),
    ],
)
def test_numbers_of_32_bits_wrap_and_have_their_sign_there(data: str, expected: int) -> None:
    assert value(data, address_size=4) == expected


def test_what_is_pushed_before_is_the_operand() -> None:
    assert value("23 08", initial=0x1000) == 0x1008  # plus_uconst 8
    assert value("", initial=0x1000) == 0x1000


def test_operations_follow_at_most_1000_values() -> None:
    assert value("31" * 1000 + "96") == 1  # lit1, and a nop
    with pytest.raises(ExpressionError, match="more than 10000 steps or 1000 values"):
        value("31" * 1001 + "96")


def test_at_most_10000_steps_are_taken() -> None:
    assert value("31" + "96" * 9999) == 1
    with pytest.raises(ExpressionError, match="more than 10000 steps or 1000 values"):
        value("31" + "96" * 10000)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("31 2f 0100 08 01", "jumps to 0x5, where no operation starts"),  # into const1u
        ("31 31 28 0200 30", "jumps to 0x7, where no operation starts"),  # past the end
        ("31 2f f0ff", "where no operation starts"),  # before the start
        ("2f fdff", "more than"),  # skip onto itself
        ("30 2f fcff", "more than"),  # pushes forever
        ("31 12 28 fcff", "more than"),  # dup; bra back
        ("", "the stack is empty"),
        ("31 13", "the stack is empty"),
        ("22", "too few"),
        ("31 22", "too few"),
        ("12", "too few"),
        ("13", "too few"),
        ("31 14", "too few"),
        ("31 15 01", "too few"),
        ("31 16", "too few"),
        ("31 32 17", "too few"),
        ("28 0000", "too few"),
        ("06", "too few"),
        ("31 30 1b", "division by zero"),
        ("31 30 1d", "division by zero"),
        ("31 94 00", "deref_size of 0 bytes"),
        ("31 94 09", "deref_size of 9 bytes"),
        ("57", "no meaning"),  # reg7: a place, no value
        ("91 00", "no meaning"),  # fbreg
        ("9c", "no meaning"),  # call_frame_cfa (DWARF5 6.4.2 forbids it)
        ("9e 01 00", "no meaning"),  # implicit_value
        ("31 9f", "no meaning"),  # stack_value
    ],
)
def test_what_has_no_value_is_an_expression_error_in_bounded_time(data: str, reason: str) -> None:
    with at_most_calls(500_000), pytest.raises(ExpressionError, match=reason):
        value(data)
