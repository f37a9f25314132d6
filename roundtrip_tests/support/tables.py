"""Hypothesis strategies for unwind tables, the input of tests of converters.

Strategy: the parts of a table are drawn number by number, from strategies that are made once: a strategy made for an
example has to be validated for it, which takes longer than drawing from it and converting the result.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, product

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from unwindkit.converters.arch.table import Architecture
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.table.model import CfaRule, Function, FunctionFlag, RegisterRule, Row, UnwindTable, table_of
from unwindkit.schemas.pointers import DW_EH_PE

from .stepping.machines import MACHINES

# Around the limits of every width that an encoder can choose.
EDGES = [0, -8, 8, 16, -16, 160, 127, 128, -128, -129, 32767, 32768, -32768, -32769, 2**31 - 8, 2**31, -(2**31) - 8]
OFFSETS = st.one_of(st.sampled_from(EDGES), st.integers(-40, 40).map(lambda n: 8 * n), st.integers(-(2**33), 2**33))
SIZES = st.one_of(st.sampled_from([1, 2, 255, 256, 257, 65535, 65536, 65537]), st.integers(0, 300), st.just(2**32))
# Sizes of repetitive functions: they are unrolled block by block when compared, so gigabytes are too much.
SHORT_SIZES = st.one_of(st.sampled_from([1, 2, 255, 256, 257]), st.integers(0, 300), st.just(4095))
REPETITIONS = st.sampled_from([0, 0, 0, 8, 16, 32])
MAX_ADDRESS = (1 << 64) - 1
ADDRESSES = st.integers(0, 1 << 20)
EXPRESSIONS = st.binary(min_size=1, max_size=3)

# Mostly on a register, and that mostly the SP or FP, which are 0 and 1 here.
CFA_KINDS = st.sampled_from([CfaKind.REGISTER] * 6 + [CfaKind.NONE, CfaKind.EXPRESSION])
STACK_OR_FRAME = st.integers(0, 7)
CFA_REGISTERS = st.integers(0, 40)
# Half of them are the usual ones.
RULE_KINDS = st.sampled_from([RuleKind.OFFSET] * 21 + [RuleKind.SAME_VALUE] * 7 + list(RuleKind)[1:-1] * 4)
RULE_VALUES: dict[RuleKind, SearchStrategy[int] | SearchStrategy[bytes]] = {
    RuleKind.OFFSET: OFFSETS,
    RuleKind.VAL_OFFSET: OFFSETS,
    RuleKind.REGISTER: st.integers(0, 70),
    RuleKind.EXPRESSION: EXPRESSIONS,
    RuleKind.VAL_EXPRESSION: EXPRESSIONS,
}
# Three registers, each with a rule or none, as digits in base 4; 0 of 0 to 5, and of 0 and 1: none.
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
        register = architecture.frame_pointer if usual % 2 else architecture.stack_pointer
    else:
        register = draw(CFA_REGISTERS)
    return CfaRule(kind, register, draw(OFFSETS))


def draw_rule(draw: DrawFn, register: int) -> RegisterRule:
    """Any rule for a register, mostly an offset."""
    kind = draw(RULE_KINDS)
    return RegisterRule(register, kind, draw(RULE_VALUES[kind]) if kind in RULE_VALUES else 0)


def draw_row(draw: DrawFn, architecture: Architecture, offset: int) -> Row:
    """A row with rules for some of the registers that matter and for one other."""
    abi = architecture.sframe
    registers = []
    present = draw(PRESENT)
    for digit, register in enumerate(sorted({architecture.stack_pointer, architecture.frame_pointer, 3})):
        if present >> 2 * digit & 3 == 0:
            registers.append(draw_rule(draw, register))
    fixed = abi.fixed_ra_offset if abi is not None else None
    if fixed is not None and draw(UP_TO_FIVE):
        registers.append(RegisterRule(architecture.return_address, RuleKind.OFFSET, fixed))
    elif draw(EITHER):
        registers.append(draw_rule(draw, architecture.return_address))
    state = draw(RA_STATES) if architecture.signs_return_addresses else RaState.PLAIN
    return Row(offset, draw_cfa(draw, architecture), tuple(sorted(registers)), state)


# Of a function: whether its return column is another, its flags, its segment.
MARKS = st.sampled_from(
    list(product([0] * 5 + [3], [FunctionFlag(0), FunctionFlag.SIGNAL_FRAME, FunctionFlag.PAUTH_B_KEY], [0] * 9 + [1]))
)
UP_TO_FOUR = st.integers(0, 4)


def draw_function(draw: DrawFn, architecture: Architecture, start: int) -> Function:
    """A function of up to five rows inside it, now and then repetitive."""
    repetition = draw(REPETITIONS)
    size = draw(SHORT_SIZES if repetition else SIZES)
    reach = min(repetition or size, size)
    starts = {draw(st.integers(1, reach - 1)) for _ in range(draw(UP_TO_FOUR))} if reach > 1 else set()
    found = tuple(draw_row(draw, architecture, offset) for offset in sorted({0} | starts))
    column, flags, segment = draw(MARKS)
    return Function(
        start=start,
        size=size,
        rows=found,
        return_column=column or architecture.return_address,
        repetition=repetition if size else 0,
        flags=flags,
        segment=segment,
    )


GAPS = st.sampled_from([0, 0, 1, 16, 4096, -1, -20])


@st.composite
def tables(draw: DrawFn, architecture: Architecture) -> UnwindTable:
    """A table of up to six functions in any order, adjacent, separate, or overlapping."""
    found: list[Function] = []
    address = draw(ADDRESSES)
    for _ in range(draw(UP_TO_SIX)):
        function = draw_function(draw, architecture, address)
        found.insert(draw(st.integers(0, len(found))), function)
        address = max(0, address + min(function.size, 1 << 20) + draw(GAPS))
    return table_of(architecture, found)


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


def draw_returning_function(draw: DrawFn, architecture: Architecture, start: int, pool: tuple[Row, ...]) -> Function:
    """A function with few distinct rows, so that earlier ones recur, and with everything that a CIE encodes."""
    one = st.integers(0, len(pool) - 1)
    chosen = [pool[draw(one)] for _ in range(1 + draw(UP_TO_ELEVEN))]
    offsets = [0, *accumulate(draw(STEPS) for _ in chosen)]
    column, flags, (encoding, personality), lsda = draw(RICH_MARKS)
    return Function(
        start=start,
        size=offsets[-1],
        rows=tuple(replace(one, offset=offset) for one, offset in zip(chosen, offsets, strict=False)),
        return_column=column or architecture.return_address,
        flags=flags | (FunctionFlag(0) if lsda is None else FunctionFlag.HAS_LSDA),
        personality_encoding=encoding,
        personality=personality,
        lsda=lsda or 0,
    )


@st.composite
def rich_tables(draw: DrawFn, architecture: Architecture) -> UnwindTable:
    """A table of all that call frame information can express except segments and repetition, its functions disjoint."""
    pool = tuple(draw_rich_row(draw, architecture) for _ in range(1 + draw(UP_TO_FOUR)))
    found: list[Function] = []
    address = draw(ADDRESSES)
    for _ in range(draw(UP_TO_SIX)):
        found.append(draw_returning_function(draw, architecture, address, pool))
        address += found[-1].size + 16 * draw(EITHER)
    return table_of(architecture, found)


def with_sp(table: UnwindTable) -> UnwindTable:
    """The table with SP as read from STACK CFI: always with a rule where readers of call frame information need one,
    elsewhere without one for the ABI's default."""
    machine = MACHINES[table.architecture.name]
    number, implied = machine.sp, -machine.bias

    def row_with_sp(row: Row) -> Row:
        rules = {rule.register: rule for rule in row.registers}
        default = RegisterRule(number, RuleKind.VAL_OFFSET, implied)
        if rules.setdefault(number, default) == default and not machine.keeps_sp:
            del rules[number]
        return replace(row, registers=tuple(sorted(rules.values())))

    functions = [replace(one, rows=tuple(map(row_with_sp, one.rows))) for one in table]
    return table_of(table.architecture, functions, table.byte_order)


def telling_pcs(table: UnwindTable) -> list[int]:
    """Every PC where a look-up could err by one: starts and ends of functions, blocks and rows, and their neighbours.

    In a repetitive function, the first two blocks and the last.
    """
    found = {0, 1, MAX_ADDRESS - 1, MAX_ADDRESS}
    for function in table:
        size, block = function.size, function.repetition or function.size
        bases = {0, block, size - size % block if block else 0}
        places = {0, size} | {base + row.offset for base in bases for row in function.rows} | bases
        for place in places:
            found |= {function.start + place + beside for beside in (-1, 0, 1)}
    return sorted(pc for pc in found if 0 <= pc <= MAX_ADDRESS)
