"""Rows at the limits of what SFrame can express: each rule in turn takes every kind and every offset near a limit; or
several rules at once, drawn.

Strategy: a plain row of each architecture, which every version can express, and the rules that replace one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from unwindkit.converters.arch.table import Architecture
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.table.model import CfaRule, Function, FunctionFlag, RegisterRule, Row, UnwindTable, table_of
from unwindkit.schemas.wire import leb_size

from ..stepping.machines import MACHINES

# Both sides of the limits of every width, for words in bytes and (s390x, the CFA) in units of 8 bytes from 160 on.
_LIMITS = [sign * (1 << bits) for bits in (7, 8, 15, 16, 31, 32, 34) for sign in (1, -1)]
_NEAR = [limit + step for limit in _LIMITS for step in (-16, -8, -2, -1, 0, 1, 2, 8)]
_SCALED = [8 * word + 160 for word in (-129, -128, 127, 128, -32769, -32768, 32767, 32768, 0x0FFFFFEB, 0x0FFFFFEC)]
OFFSETS = [*range(-24, 25), *(8 * step for step in range(4, 48)), 161, *_NEAR, *_SCALED, -160, 1 << 60, -(1 << 60)]
REGISTERS = [0, 3, 15, 16, 31, 32, 127, 128, 0x1FFF, 0xFFFF]


def leb(value: int, *, signed: bool) -> bytes:
    """A LEB128 number."""
    size = leb_size(value, signed=signed)
    groups = [value >> 7 * index & 0x7F for index in range(size)]
    return bytes(group | 0x80 for group in groups[:-1]) + bytes(groups[-1:])


def based(register: int, offset: int) -> bytes:
    """DW_OP_breg of a register, bregx above 31."""
    base = bytes([0x70 + register]) if register < 32 else b"\x92" + leb(register, signed=False)
    return base + leb(offset, signed=True)


DEREF, PLUS_8, MUL_2, MINUS_8 = b"\x06", b"\x23\x08", b"\x32\x1e", b"\x38\x1c"


def expressions(register: int, offset: int) -> list[bytes]:
    """Expressions of a register and an offset: those that have a form, and some that have none."""
    base = based(register, offset)
    return [
        base,
        base + PLUS_8,
        base + MINUS_8,
        base + DEREF,
        base + PLUS_8 + DEREF,
        base + MUL_2,
        base + DEREF + PLUS_8,
        base + DEREF + DEREF,
        base + based(3, 0) + b"\x22",  # plus: of two registers
        b"\x30" + DEREF,
        b"\x22",
        b"\xff",
    ]


def cfa_expressions(offset: int) -> list[bytes]:
    """Expressions of the CFA, which is on the stack at the start of a register's rule."""
    plus = b"\x23" + leb(offset, signed=False) if offset >= 0 else b"\x11" + leb(offset, signed=True) + b"\x22"
    return [plus, plus + DEREF, plus + DEREF + DEREF, plus + MUL_2]


def rules_of(register: int, offsets: list[int], numbers: list[int]) -> Iterator[RegisterRule]:
    """A register's rules of every kind, the offsets with all kinds that have one."""
    for kind in (RuleKind.UNSPECIFIED, RuleKind.UNDEFINED, RuleKind.SAME_VALUE, RuleKind.ARCHITECTURAL):
        yield RegisterRule(register, kind)
    for offset in offsets:
        yield RegisterRule(register, RuleKind.OFFSET, offset)
        yield RegisterRule(register, RuleKind.VAL_OFFSET, offset)
    for number in numbers:
        yield RegisterRule(register, RuleKind.REGISTER, number)
    places = [(3, offset) for offset in offsets[::4]] + [(number, -8) for number in numbers]
    found = [one for place in places for one in expressions(*place)]
    found += [one for offset in offsets[::3] for one in cfa_expressions(offset)]
    for expression in found:
        yield RegisterRule(register, RuleKind.EXPRESSION, expression)
        yield RegisterRule(register, RuleKind.VAL_EXPRESSION, expression)


def cfa_rules(registers: list[int], offsets: list[int], numbers: list[int]) -> Iterator[CfaRule]:
    """CFA rules of every kind, all offsets on each of `registers`."""
    yield CfaRule(CfaKind.NONE)
    for register in registers:
        for offset in offsets:
            yield CfaRule(CfaKind.REGISTER, register, offset)
    for number in numbers:
        yield CfaRule(CfaKind.REGISTER, number, 160)
    places = [(registers[0], offset) for offset in offsets[::4]] + [(number, 160) for number in numbers]
    for expression in (one for place in places for one in expressions(*place)):
        yield CfaRule(CfaKind.EXPRESSION, 0, expression)
    for expression in cfa_expressions(8):
        yield CfaRule(CfaKind.EXPRESSION, 0, expression)


def numbers_of(architecture: Architecture) -> tuple[int, int, int]:
    """SP, FP and RA."""
    machine = MACHINES[architecture.name]
    return machine.sp, machine.fp, machine.ra


def plain_row(architecture: Architecture, *rules: RegisterRule, cfa: int = 160) -> Row:
    """A row of SP + `cfa` that every version can express: RA and FP are saved, except those with another rule."""
    sp, fp, ra = numbers_of(architecture)
    saved = {one: RegisterRule(one, RuleKind.OFFSET, value) for one, value in ((ra, -8), (fp, -16))}
    registers = saved | {rule.register: rule for rule in rules}
    return Row(0, CfaRule(CfaKind.REGISTER, sp, cfa), tuple(sorted(registers.values())))


def without(row: Row, register: int) -> Row:
    """The row without a rule for a register."""
    return replace(row, registers=tuple(rule for rule in row.registers if rule.register != register))


def single_changes(architecture: Architecture) -> Iterator[Row]:
    """The plain row with one rule changed; rules of FP also where RA has none, those of SP also where the CFA is read
    from memory."""
    plain, numbers = plain_row(architecture), REGISTERS
    sp, fp, ra = numbers_of(architecture)
    yield from (replace(plain, cfa=cfa) for cfa in cfa_rules([sp, fp, 3], OFFSETS, numbers))
    for rule in rules_of(fp, OFFSETS, numbers):
        changed = plain_row(architecture, rule)
        yield from (changed, without(changed, ra))
    for rule in rules_of(ra, OFFSETS, numbers):
        changed = plain_row(architecture, rule)
        yield from (changed, without(changed, fp), replace(changed, cfa=CfaRule(CfaKind.NONE)))
    in_memory = CfaRule(CfaKind.EXPRESSION, 0, based(3, -8) + DEREF)
    for rule in rules_of(sp, [*range(-24, 25, 4), -152, -160, -168], numbers):
        changed = plain_row(architecture, rule)
        yield from (changed, replace(changed, cfa=in_memory))
    if architecture.signs_return_addresses:
        for row in (plain, without(plain, fp), without(without(plain, fp), ra), plain_row(architecture, cfa=1 << 31)):
            yield from (replace(row, ra_state=state) for state in RaState)


def functions_of(rows: Iterator[Row], architecture: Architecture) -> list[Function]:
    """Functions of one row each."""
    _, _, ra = numbers_of(architecture)
    return [Function(16 * number, 16, (row,), return_column=ra) for number, row in enumerate(rows)]


# --- several at once, drawn -------------------------------------------------------------------------------------------

USUAL = [-16, -8, 0, 8, 16, 160, 168, 320]
AN_OFFSET = st.one_of(st.sampled_from(USUAL), st.sampled_from(USUAL), st.sampled_from(OFFSETS))
# Most rows have one rule or none that is not plain, so that it alone decides.
ONE_IN_FOUR, ONE_IN_TEN = st.integers(0, 3), st.integers(0, 9)
A_REGISTER = st.sampled_from(REGISTERS)
STATES = st.sampled_from([RaState.PLAIN, RaState.SIGNED, RaState.SIGNED, RaState.SIGNED_WITH_PC])
SIZES = st.sampled_from([0, 1, 2, 3, 16, 255, 256, 257, 65535, 65536])
BLOCKS = st.sampled_from([1, 8, 16, 64, 128, 255, 256])
STEPS = st.sampled_from([0, 0, 0, 1, 8, 4096])
BACK = st.sampled_from([1, 3, 15, 250])
COUNT = st.integers(0, 4)


def draw_limit_rule(draw: DrawFn, register: int) -> RegisterRule:
    """Any rule of a register."""
    few = list(rules_of(register, [draw(AN_OFFSET)], [draw(A_REGISTER)]))
    return few[draw(st.integers(0, len(few) - 1))]


def draw_limit_row(draw: DrawFn, architecture: Architecture) -> Row:
    """The plain row with each rule changed now and then."""
    sp, fp, ra = numbers_of(architecture)
    row = plain_row(architecture, cfa=draw(AN_OFFSET))
    if draw(ONE_IN_FOUR) == 0:
        rules = list(cfa_rules([fp, draw(A_REGISTER)], [draw(AN_OFFSET)], []))
        row = replace(row, cfa=rules[draw(st.integers(0, len(rules) - 1))])
    for register in (sp, fp, ra):
        chance = draw(ONE_IN_TEN)
        if chance < 2:
            row = without(row, register)
        if chance == 0:
            row = replace(row, registers=tuple(sorted((*row.registers, draw_limit_rule(draw, register)))))
    return replace(row, ra_state=draw(STATES)) if architecture.signs_return_addresses else row


def draw_limit_function(draw: DrawFn, architecture: Architecture, start: int) -> Function:
    """A function of some rows; now and then one that is refused as a whole, repetitive, or marked."""
    size, whole = draw(SIZES), draw(st.integers(0, 15))
    repetition = draw(BLOCKS) if whole in (0, 1, 2) and 0 < size < 1024 else 0
    reach = min(repetition or size, size)
    offsets = sorted({0, *(draw(st.integers(1, reach - 1)) for _ in range(draw(COUNT)) if reach > 1)})
    rows = tuple(replace(draw_limit_row(draw, architecture), offset=offset) for offset in offsets)
    _, _, ra = numbers_of(architecture)
    return Function(
        start=start,
        size=draw(st.sampled_from([0xFFFFFFFF, 1 << 32])) if whole == 3 else size,
        rows=rows,
        return_column=ra + 1 if whole == 4 else ra,
        segment=int(whole == 5),
        repetition=repetition,
        flags=draw(st.sampled_from([FunctionFlag(0), *FunctionFlag]) if whole > 8 else st.just(FunctionFlag(0))),
    )


@st.composite
def limit_tables(draw: DrawFn, architecture: Architecture) -> UnwindTable:
    """Functions in any order, some of which share PCs."""
    found: list[Function] = []
    address = 1 << 16
    for _ in range(1 + draw(COUNT)):
        one = draw_limit_function(draw, architecture, address)
        found.insert(draw(st.integers(0, len(found))), one)
        address += min(one.size, 1 << 20) + draw(STEPS)
        if draw(ONE_IN_TEN) == 0:
            address -= draw(BACK)
    return table_of(architecture, found)
