"""DWARF expressions as trees, and those that are a register and a function of the PC modulo a power of two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from unwindkit.converters.dwarf import expressions
from unwindkit.converters.dwarf.expressions import (
    Binary,
    Constant,
    ExpressionError,
    Memory,
    Register,
    Unary,
    by_residue,
    masked_offsets,
    register_offset,
    simplify,
)

from ..support.handmade import octets
from ..support.judges import rpn
from ..support.work import at_most_calls

SP, PC = 7, 16
LAZY_PLT = octets(
    "77 08  80 00  3f  1a  3b  2a  33  24  22"
)  # breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus
IBT_PLT = octets("77 08  80 00  3f  1a  39  2a  33  24  22")  # the same with lit9


def tree(data: str, initial: Register | None = None) -> expressions.Node:
    return simplify(expressions.parse(octets(data)), initial=initial)


@pytest.mark.parametrize(
    ("data", "register", "offset"),
    [
        ("77 08", 7, 8),  # breg7 8
        ("77 00", 7, 0),
        ("77 08 23 10", 7, 24),  # plus_uconst
        ("77 08 38 1c 31 1c", 7, -1),  # minus 8, minus 1
        ("38 76 10 22", 6, 24),  # constant + register
        ("92 21 7e 32 32 1e 22", 33, 2),  # bregx 33 -2, 2 * 2, plus
        ("77 00 0f f8ffffffffffffff 22", 7, -8),
    ],
)
def test_sums_with_constants_become_a_register_and_an_offset(data: str, register: int, offset: int) -> None:
    assert register_offset(tree(data)) == (register, offset)


def test_trees_keep_what_is_not_known() -> None:
    assert tree("76 78 06") == Memory(Binary("plus", Register(6), Constant(2**64 - 8)), 8)  # *(r6 - 8), the DRAP's
    assert tree("77 08 06 06 23 10") == Binary(
        "plus", Memory(Memory(Binary("plus", Register(7), Constant(8)), 8), 8), Constant(16)
    )
    assert tree("77 00 94 04") == Memory(Register(7), 4)
    assert tree("77 00 40 1f 1a") == Binary("and", Register(7), Constant(2**64 - 16))  # sp & -16
    assert tree("77 00 20") == Unary("not", Register(7))
    assert [register_offset(tree(data)) for data in ("76 78 06", "77 00 20", "31")] == [None] * 3


def test_the_cfa_pushed_before_is_part_of_the_tree() -> None:
    assert register_offset(tree("23 10", initial=Register(SP))) == (SP, 16)
    assert tree("", initial=Register(SP)) == Register(SP)


def test_branches_on_constants_are_followed_and_on_registers_refused() -> None:
    assert register_offset(tree("77 00 31 28 0200 23 08")) == (SP, 0)  # bra over plus_uconst
    with pytest.raises(ExpressionError, match="DW_OP_bra on an unknown value"):
        tree("77 00 12 28 0000")


@pytest.mark.parametrize("step", ["12 1e", "12 22", "14 21", "1f", "06"], ids=["mul", "plus", "or", "neg", "deref"])
def test_a_tree_that_grows_without_end_is_refused_in_bounded_time(step: str) -> None:
    with at_most_calls(500_000):
        pushes = "77 00 77 00" + step * 5000
        with pytest.raises(ExpressionError, match="nodes"):
            tree(pushes)
        assert masked_offsets(octets(pushes), PC) is None


# --- functions of the PC ------------------------------------------------------------------------------------


def steps(at: int, size: int = 16) -> tuple[int, ...]:
    return (8,) * at + (16,) * (size - at)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (LAZY_PLT.hex(), steps(11)),
        (IBT_PLT.hex(), steps(9)),
        ("77 08 80 00 37 1a 33 2a 33 24 22", steps(3, 8)),  # mask 7, ge 3
        ("77 08 80 00 4f 1a 44 2d 33 24 22", (16,) * 20 + (8,) * 12),  # mask 31, lt 20
        ("77 08 80 00 08 ff 1a 08 c8 2a 33 24 22", steps(200, 256)),  # mask 255, ge 200
        ("77 08 80 01 3f 1a 3b 2a 33 24 22", (8,) * 10 + (16,) * 5 + (8,)),  # PC + 1
        ("77 08 80 7f 3f 1a 3b 2a 33 24 22", (16,) + (8,) * 11 + (16,) * 4),  # PC - 1: residue 0 counts as 15
        ("77 08 80 00 23 05 3f 1a 3b 2a 33 24 22", (8,) * 6 + (16,) * 5 + (8,) * 5),  # plus_uconst 5
        ("77 08 80 00 3f 1a 3b 2e 33 24 22", (16,) * 11 + (8,) + (16,) * 4),  # ne 11
        ("77 08 80 00 3f 1a 3b 2c 33 24 22", (16,) * 12 + (8,) * 4),  # le 11
        ("77 08 80 00 3f 1a 3b 2b 33 24 22", steps(12)),  # gt 11
        ("77 00 3f 80 00 1a 1c", tuple(-n for n in range(16))),  # minus (15 & PC): the mask may come first
        ("80 00 3f 1a 37 1a 77 00 22", tuple(range(8))),  # two masks; f + register
        ("77 08 80 00 3f 1a 38 2a 80 00 37 1a 30 2a 22 22", (9,) * 8 + (10,) * 8),  # masks 15 and 7 side by side
        ("77 08 80 00 08 ff 1a 37 1a 34 2a 33 24 22", steps(4, 8)),  # only as many offsets as needed
        ("77 08 80 00 30 1a 22", (8,)),  # mask 0
    ],
)
def test_an_offset_for_each_residue_of_the_pc(data: str, expected: tuple[int, ...]) -> None:
    assert by_residue(tree(data), PC) == (SP, expected)
    assert masked_offsets(octets(data), PC) == (SP, expected)


@pytest.mark.parametrize(
    "data",
    [
        "77 08",  # no PC
        "77 08 80 00 3b 2a 33 24 22",  # no mask
        "77 08 80 00 3f 1a 80 00 22 22",  # once without
        "77 00 76 00 80 00 3f 1a 22 22",  # two registers
        "80 00 3f 1a",  # none
        "80 00 80 00 3f 1a 22",  # on the PC itself
        "77 08 80 00 3e 1a 3b 2a 33 24 22",  # mask 14
        "77 08 80 00 0a ff01 1a 3b 2a 33 24 22",  # mask 511
        "77 08 80 00 34 1e 3f 1a 22",  # (PC * 4) & 15 is no sum
        "77 08 80 00 77 00 22 3f 1a 22",  # (PC + SP) & 15
        "77 08 80 00 3f 1a 06 22",  # PC inside a dereference
        "77 08 80 00 06 3f 1a 22",
        "77 08 06 80 00 3f 1a 22",  # on memory
        "77 08 80 00 3f 1a 1e",  # register times f
        "77 08 31 80 00 37 1a 1b 22",  # 1 div (PC & 7): no value at residue 0
        "77 08 80",  # cut
        "77 08 80 00 3f 1a e0 22",  # unknown
    ],
)
def test_what_is_no_register_and_function_of_the_masked_pc_is_left_alone(data: str) -> None:
    assert masked_offsets(octets(data), PC) is None


def test_a_function_of_the_pc_in_32_bits() -> None:
    # CFA = r4 - ((r8 & 7) >= 4) * 2**31, the sign bit of an offset there
    data = octets("74 00 78 00 37 1a 34 2a 4f 24 22")
    assert masked_offsets(data, 8, "little", 4) == (4, (0,) * 4 + (-(2**31),) * 4)


MASKS = st.sampled_from([1, 3, 7, 15, 31, 63, 127, 255]).map(lambda mask: bytes([0x08, mask]))
CONSTANTS = st.one_of(
    st.integers(0x30, 0x4F).map(lambda opcode: bytes([opcode])), st.binary(min_size=1, max_size=1).map(b"\x09".__add__)
)
MASKED_PC = st.builds(lambda more, mask: bytes([0x80, more]) + mask + b"\x1a", st.integers(0, 0x7F), MASKS)
TWO = st.sampled_from(sorted(rpn.TWO)).map(lambda opcode: bytes([opcode]))
ONE = st.sampled_from(sorted(rpn.ONE)).map(lambda opcode: bytes([opcode]))


def _grown(inner: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    pairs = st.one_of(st.tuples(inner, CONSTANTS, TWO), st.tuples(CONSTANTS, inner, TWO), st.tuples(inner, inner, TWO))
    return st.one_of(pairs, st.tuples(inner, ONE)).map(b"".join)


FUNCTIONS_OF_PC = st.recursive(MASKED_PC, _grown, max_leaves=4)


@given(FUNCTIONS_OF_PC, st.integers(-64, 63), st.booleans(), st.integers(0, 2**56))
def test_any_function_of_the_masked_pc_is_what_a_second_evaluator_says(
    function: bytes, offset: int, register_first: bool, page: int
) -> None:
    base = bytes([0x77, offset & 0x7F])
    expression = (base + function if register_first else function + base) + b"\x22"
    found = masked_offsets(expression, PC)
    assert found is not None
    assert found[0] == SP
    offsets, sp = found[1], 0x7FFD00001230
    for pc in range(page << 8, (page << 8) + 256):
        expected = rpn.run(expression, {SP: sp, PC: pc & rpn.WRAP})
        assert (sp + offsets[pc % len(offsets)]) & rpn.WRAP == expected, hex(pc)
