"""Hypothesis strategies for unwind tables: what converters are tested with."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from unwindkit.converters.arch import Architecture
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.unwind import CfaRule, Function, FunctionFlag, RegisterRule, Row, UnwindTable, table_of
from unwindkit.schemas.pointers import DW_EH_PE

# Around every width that an encoder chooses by.
EDGES = [0, -8, 8, 16, -16, 160, 127, 128, -128, -129, 32767, 32768, -32768, -32769, 2**31 - 8, 2**31, -(2**31) - 8]
OFFSETS = st.one_of(st.sampled_from(EDGES), st.integers(-40, 40).map(lambda n: 8 * n), st.integers(-(2**33), 2**33))
SIZES = st.one_of(st.sampled_from([1, 2, 255, 256, 257, 65535, 65536, 65537]), st.integers(0, 300), st.just(2**32))
MAX_ADDRESS = (1 << 64) - 1
EXPRESSIONS = st.binary(min_size=1, max_size=3)


def cfa_rules(architecture: Architecture) -> SearchStrategy[CfaRule]:
    """Any CFA rule, mostly on SP and FP."""
    usual = st.sampled_from([architecture.stack_pointer, architecture.frame_pointer])
    registers = st.one_of(usual, usual, usual, st.integers(0, 40))
    on_register = st.builds(CfaRule, st.just(CfaKind.REGISTER), registers, OFFSETS)
    rare = st.one_of(
        st.just(CfaRule(CfaKind.NONE)), st.builds(CfaRule, st.just(CfaKind.EXPRESSION), st.just(0), EXPRESSIONS)
    )
    return st.one_of(on_register, on_register, on_register, rare)


def register_rules(register: int) -> SearchStrategy[RegisterRule]:
    """Any rule for a register, mostly an offset."""

    def of(kind: RuleKind) -> SearchStrategy[RegisterRule]:
        values: SearchStrategy[int] | SearchStrategy[bytes] = st.just(0)
        if kind in (RuleKind.OFFSET, RuleKind.VAL_OFFSET):
            values = OFFSETS
        elif kind is RuleKind.REGISTER:
            values = st.integers(0, 70)
        elif kind in (RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION):
            values = EXPRESSIONS
        return st.builds(RegisterRule, st.just(register), st.just(kind), values)

    usual = st.sampled_from([RuleKind.OFFSET, RuleKind.OFFSET, RuleKind.OFFSET, RuleKind.SAME_VALUE])
    return st.one_of(usual, st.sampled_from(list(RuleKind)[1:-1])).flatmap(of)


@st.composite
def rows(draw: DrawFn, architecture: Architecture, offset: int) -> Row:
    """A row with rules for some of the registers that matter and for one that does not."""
    abi = architecture.sframe
    registers = []
    for register in sorted({architecture.stack_pointer, architecture.frame_pointer, 3}):
        if draw(st.integers(0, 3)) == 0:
            registers.append(draw(register_rules(register)))
    fixed = abi.fixed_ra_offset if abi is not None else None
    if fixed is not None and draw(st.integers(0, 5)):
        registers.append(RegisterRule(architecture.return_address, RuleKind.OFFSET, fixed))
    elif draw(st.booleans()):
        registers.append(draw(register_rules(architecture.return_address)))
    states = (
        [RaState.PLAIN, RaState.SIGNED, RaState.SIGNED_WITH_PC]
        if architecture.signs_return_addresses
        else [RaState.PLAIN]
    )
    return Row(offset, draw(cfa_rules(architecture)), tuple(sorted(registers)), draw(st.sampled_from(states)))


@st.composite
def functions(draw: DrawFn, architecture: Architecture, start: int) -> Function:
    """A function of up to five rows inside it, now and then repetitive."""
    repetition = draw(st.sampled_from([0, 0, 0, 8, 16, 32]))
    # Laid out block by block when compared: gigabytes would be so, too.
    size = draw(SIZES.filter(lambda size: not repetition or size < 1 << 12))
    reach = min(repetition or size, size)
    starts = draw(st.sets(st.integers(1, max(1, reach - 1)), max_size=4)) if reach > 1 else set()
    found = tuple(draw(rows(architecture, offset)) for offset in sorted({0} | starts))
    return Function(
        start=start,
        size=size,
        rows=found,
        return_column=draw(st.sampled_from([architecture.return_address] * 5 + [3])),
        repetition=repetition if size else 0,
        flags=draw(st.sampled_from([FunctionFlag(0), FunctionFlag.SIGNAL_FRAME, FunctionFlag.PAUTH_B_KEY])),
        segment=draw(st.sampled_from([0] * 9 + [1])),
    )


@st.composite
def tables(draw: DrawFn, architecture: Architecture) -> UnwindTable:
    """A table of up to six functions in any order, neighbours, apart, or overlapping."""
    found = []
    address = draw(st.integers(0, 1 << 20))
    for _ in range(draw(st.integers(0, 6))):
        function = draw(functions(architecture, address))
        found.append(function)
        address = max(0, address + min(function.size, 1 << 20) + draw(st.sampled_from([0, 0, 1, 16, 4096, -1, -20])))
    return table_of(architecture, draw(st.permutations(found)))


ARGS_SIZES = st.sampled_from([0, 0, 0, 8, 16, 200, (1 << 64) - 1])


@st.composite
def rich_rows(draw: DrawFn, architecture: Architecture) -> Row:
    """A row with rules of any kind for some registers of any number, and arguments on the stack."""
    numbers = draw(st.sets(st.one_of(st.integers(0, 40), st.integers(0, 0xFFFF)), max_size=6))
    plain = draw(rows(architecture, 0))
    others = numbers - {rule.register for rule in plain.registers}
    rules = [*plain.registers, *(draw(register_rules(number)) for number in others)]
    return replace(plain, registers=tuple(sorted(rules)), args_size=draw(ARGS_SIZES))


@st.composite
def returning_functions(draw: DrawFn, architecture: Architecture, start: int, pool: tuple[Row, ...]) -> Function:
    """A function whose rows come from a few, so that they come back to earlier ones, with all that a CIE says."""
    chosen = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=12))
    steps = draw(st.lists(st.sampled_from([1, 2, 4, 63, 64, 256, 65536]), min_size=len(chosen), max_size=len(chosen)))
    offsets = [0, *accumulate(steps)]
    lsda = draw(st.sampled_from([None, None, 0x1234]))
    indirect = DW_EH_PE.indirect | DW_EH_PE.pcrel | DW_EH_PE.sdata4
    personality = draw(st.sampled_from([(DW_EH_PE.omit, 0), (DW_EH_PE.udata4, 0x4321), (indirect, 0x8000)]))
    marks = (FunctionFlag.SIGNAL_FRAME, FunctionFlag.PAUTH_B_KEY, FunctionFlag.MEMORY_TAGGING)
    return Function(
        start=start,
        size=offsets[-1],
        rows=tuple(replace(one, offset=offset) for one, offset in zip(chosen, offsets, strict=False)),
        return_column=draw(st.sampled_from([architecture.return_address] * 5 + [3, 300])),
        flags=draw(st.sampled_from([FunctionFlag(0), *marks]))
        | (FunctionFlag(0) if lsda is None else FunctionFlag.HAS_LSDA),
        personality_encoding=personality[0],
        personality=personality[1],
        lsda=lsda or 0,
    )


@st.composite
def rich_tables(draw: DrawFn, architecture: Architecture) -> UnwindTable:
    """A table of all that call frame information can say but segments and repetition, its functions apart."""
    pool = tuple(draw(st.lists(rich_rows(architecture), min_size=1, max_size=5)))
    found: list[Function] = []
    address = draw(st.integers(0, 1 << 20))
    for _ in range(draw(st.integers(0, 6))):
        found.append(draw(returning_functions(architecture, address, pool)))
        address += found[-1].size + draw(st.sampled_from([0, 16]))
    return table_of(architecture, found)


def telling_pcs(table: UnwindTable) -> list[int]:
    """Every PC where a look-up could err by one: starts and ends of functions, of blocks and of rows, and beside them.

    Of a repetitive function, the first two blocks and the last.
    """
    found = {0, 1, MAX_ADDRESS - 1, MAX_ADDRESS}
    for function in table:
        size, block = function.size, function.repetition or function.size
        bases = {0, block, size - size % block if block else 0}
        places = {0, size} | {base + row.offset for base in bases for row in function.rows} | bases
        for place in places:
            found |= {function.start + place + beside for beside in (-1, 0, 1)}
    return sorted(pc for pc in found if 0 <= pc <= MAX_ADDRESS)
