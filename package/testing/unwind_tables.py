"""Unwind tables: the input of everything that writes a format.

Strategy: the parts of a table are drawn number by number, from strategies that are made once: a strategy made for an
example has to be validated for it, which takes longer than drawing from it and converting the result.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, product
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ..converters.arch.table import Architecture, architecture_named, check_architecture, unwind_registers
from ..converters.rules import CfaKind, RaState, RuleKind
from ..converters.table.model import CfaRule, Function, FunctionFlag, RegisterRule, Row, UnwindTable, table_of
from ..schemas.arguments import check_byte_order, checked, optional
from ..schemas.pointers import DW_EH_PE
from ..schemas.section import ByteOrder

# Around the limits of every width that an encoder can choose.
EDGES = [0, -8, 8, 16, -16, 160, 127, 128, -128, -129, 32767, 32768, -32768, -32769, 2**31 - 8, 2**31, -(2**31) - 8]
OFFSETS = st.one_of(st.sampled_from(EDGES), st.integers(-40, 40).map(lambda n: 8 * n), st.integers(-(2**33), 2**33))
ADDRESSES = st.integers(0, 1 << 20)
EXPRESSIONS = st.binary(min_size=1, max_size=3)

# Mostly on a register, and that mostly the SP or FP, which are 0 and 1 here.
CFA_KINDS = st.sampled_from([CfaKind.REGISTER] * 6 + [CfaKind.NONE, CfaKind.EXPRESSION])
STACK_OR_FRAME = st.integers(0, 7)
CFA_REGISTERS = st.integers(0, 40)
# Half of them are the usual ones.
RULE_KINDS = st.sampled_from([RuleKind.OFFSET] * 21 + [RuleKind.SAME_VALUE] * 7 + list(RuleKind)[1:-1] * 4)
RULE_VALUES: dict[RuleKind, SearchStrategy[Any]] = {
    RuleKind.OFFSET: OFFSETS,
    RuleKind.VAL_OFFSET: OFFSETS,
    RuleKind.REGISTER: st.integers(0, 70),
    RuleKind.EXPRESSION: EXPRESSIONS,
    RuleKind.VAL_EXPRESSION: EXPRESSIONS,
}
# Three registers, each with a rule (3) or none, as digits in base 4; 0 of 0 to 5, and of 0 and 1: none.
PRESENT = st.integers(0, 63)
UP_TO_FIVE, UP_TO_SIX, EITHER = st.integers(0, 5), st.integers(0, 6), st.integers(0, 1)
RA_STATES = st.sampled_from([RaState.PLAIN, RaState.SIGNED, RaState.SIGNED_WITH_PC])


def draw_cfa(draw: DrawFn, architecture: Architecture) -> CfaRule:
    """Any CFA rule, mostly on SP and FP."""
    kind = draw(CFA_KINDS)
    if kind is CfaKind.NONE:
        return CfaRule(kind)
    if kind is CfaKind.EXPRESSION:
        return CfaRule(kind, 0, draw(EXPRESSIONS))
    usual = draw(STACK_OR_FRAME)
    if usual < 6:
        usual_registers = unwind_registers(architecture)
        register = usual_registers.fp if usual % 2 else usual_registers.sp
    else:
        register = draw(CFA_REGISTERS)
    return CfaRule(kind, register, draw(OFFSETS))


def draw_rule(draw: DrawFn, register: int) -> RegisterRule:
    """Any rule for a register, mostly an offset."""
    kind = draw(RULE_KINDS)
    return RegisterRule(register, kind, draw(RULE_VALUES[kind]) if kind in RULE_VALUES else 0)


def draw_row(draw: DrawFn, architecture: Architecture, offset: int) -> Row:
    """A row with rules for some of the registers that matter and for one other."""
    abi, usual = architecture.sframe, unwind_registers(architecture)
    registers = []
    present = draw(PRESENT)
    for digit, register in enumerate(sorted({usual.sp, usual.fp, 3})):
        if present >> 2 * digit & 3 == 3:
            registers.append(draw_rule(draw, register))
    fixed = abi.fixed_ra_offset if abi is not None else None
    if fixed is not None and draw(UP_TO_FIVE):
        registers.append(RegisterRule(usual.ra, RuleKind.OFFSET, fixed))
    elif draw(EITHER):
        registers.append(draw_rule(draw, usual.ra))
    state = draw(RA_STATES) if architecture.signs_return_addresses else RaState.PLAIN
    return Row(offset, draw_cfa(draw, architecture), tuple(sorted(registers)), state)


UP_TO_FOUR = st.integers(0, 4)
ARGS_SIZES = st.sampled_from([0, 0, 0, 8, 16, 200, (1 << 64) - 1])
REGISTER_SETS = st.sets(st.one_of(st.integers(0, 40), st.integers(0, 0xFFFF)), max_size=6)


def draw_rich_row(draw: DrawFn, architecture: Architecture) -> Row:
    """A row with rules of any kind for some registers of any number, and arguments on the stack."""
    plain = draw_row(draw, architecture, 0)
    others = draw(REGISTER_SETS) - {rule.register for rule in plain.registers}
    rules = [*plain.registers, *(draw_rule(draw, number) for number in sorted(others))]
    return replace(plain, registers=tuple(sorted(rules)), args_size=draw(ARGS_SIZES))


UP_TO_ELEVEN = st.integers(0, 11)
STEPS = st.sampled_from([1, 2, 4, 63, 64, 256, 65536])
INDIRECT = DW_EH_PE.indirect | DW_EH_PE.pcrel | DW_EH_PE.sdata4
# Of a function: whether its return column is another, its flags, its personality, its LSDA.
RICH_MARKS = st.sampled_from(
    list(
        product(
            [0] * 5 + [3, 300],
            [FunctionFlag(0), FunctionFlag.SIGNAL_FRAME, FunctionFlag.PAUTH_B_KEY, FunctionFlag.MEMORY_TAGGING],
            [(DW_EH_PE.omit, 0), (DW_EH_PE.udata4, 0x4321), (INDIRECT, 0x8000)],
            [None, None, 0, 0x1234],
        )
    )
)


# Of a function: its segment, and into how many blocks it repeats its rows (0: it does not).
PLACES = st.sampled_from(list(product([0] * 5 + [1, 0xFFFF], [0] * 5 + [1, 3])))
MAX_BLOCK = 4096  # a function is compared block by block


def draw_returning_function(
    draw: DrawFn,
    architecture: Architecture,
    start: int,
    pool: tuple[Row, ...],
    *,
    has_segments: bool,
    has_repetition: bool,
) -> Function:
    """A function with few distinct rows, so that earlier ones recur, and with everything that a CIE encodes."""
    one = st.integers(0, len(pool) - 1)
    chosen = [pool[draw(one)] for _ in range(1 + draw(UP_TO_ELEVEN))]
    offsets = [0, *accumulate(draw(STEPS) for _ in chosen)]
    column, flags, (encoding, personality), lsda = draw(RICH_MARKS)
    segment, blocks = draw(PLACES) if has_segments or has_repetition else (0, 0)
    size = offsets[-1]
    repeats = has_repetition and blocks > 0 and size <= MAX_BLOCK
    return Function(
        start=start,
        size=size * blocks if repeats else size,
        rows=tuple(replace(one, offset=offset) for one, offset in zip(chosen, offsets, strict=False)),
        segment=segment if has_segments else 0,
        return_column=column or unwind_registers(architecture).ra,
        repetition=size if repeats else 0,
        flags=flags | (FunctionFlag(0) if lsda is None else FunctionFlag.HAS_LSDA),
        personality_encoding=encoding,
        personality=personality,
        lsda=lsda or 0,
    )


@checked(arch=check_architecture, byte_order=optional(check_byte_order))
@st.composite
def unwind_tables(
    draw: DrawFn,
    arch: str = "x86_64",
    byte_order: ByteOrder | None = None,
    *,
    has_segments: bool = True,
    has_repetition: bool = True,
) -> UnwindTable:
    """Tables of up to six disjoint functions with all that a table can hold; expressions are any bytes.

    `byte_order` None is the default of the architecture. `has_segments`: some functions have a segment selector;
    `has_repetition`: some repeat their rows block by block, as PLTs do in SFrame.
    """
    architecture = architecture_named(arch, "table")
    pool = tuple(draw_rich_row(draw, architecture) for _ in range(1 + draw(UP_TO_FOUR)))
    found: list[Function] = []
    address = draw(ADDRESSES)
    for _ in range(draw(UP_TO_SIX)):
        found.append(
            draw_returning_function(
                draw, architecture, address, pool, has_segments=has_segments, has_repetition=has_repetition
            )
        )
        address += found[-1].size + 16 * draw(EITHER)
    return table_of(architecture, found, byte_order)
