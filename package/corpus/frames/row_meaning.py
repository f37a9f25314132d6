"""The meaning of a drawn function: its rows, before there is any instruction.

Strategy: a row differs from the one before it in its CFA, in the rules of a few registers, in the state of the return
address or in the size of the arguments; or an earlier row recurs. Only what instructions can express is drawn: offsets
are multiples of the data alignment factor, row offsets multiples of the code alignment factor; a register with a rule
in the CIE always has one, and after the first CFA rule every row has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from ...converters.arch.table import Architecture
from ...converters.rules import CfaKind, RaState, RuleKind
from ...converters.table.model import CfaRule, RegisterRule, Row
from ...schemas.cfi import SPARC_EFFECTS, WINDOW_REGISTERS
from ...schemas.data_classes import dataclass
from ...schemas.section import ByteOrder
from ..choices import Choice, Draw, integers, one_of, sampled_from
from .expressions import draw_expression
from .features import Feature

NO_ROW = Row(0, CfaRule(CfaKind.NONE))
# In units of the data alignment factor, around the limits of LEB128 numbers of one, two and four bytes.
_FACTORED = one_of(
    integers(-16, 16), sampled_from([0, 63, 64, -64, -65, 127, 128, 8191, 8192, -8193, 1 << 20, -(1 << 20)])
)
# CFA offsets are mostly not factored.
_CFA_OFFSETS = one_of(integers(0, 40), sampled_from([0, 8, 16, 127, 128, 4096, 16384, 1 << 24]))
_ARGS_SIZES = sampled_from([0, 8, 16, 200, 1 << 20])
_CFA_CHOICES = integers(0, 7)
# Of bits: CFA, a rule, another, another with the return address, the state of it, arguments, an earlier row, windows.
_CHANGES = one_of(sampled_from([1, 1, 3, 6, 8, 9, 14, 17, 34, 34, 64, 64, 128]), integers(0, 255))
_INITIAL_CHANGES = sampled_from([1, 9, 9, 11, 13, 15, 0, 2, 3, 6, 17, 25, 31, 63, 129])
_CFA, _FIRST, _SECOND, _RETURN, _STATE, _ARGS, _EARLIER, _WINDOWS = (1 << bit for bit in range(8))
# Distances between rows in units of the code alignment factor: around the limits of each advance.
_SHORT_STEPS = sampled_from([1, 2, 4, 16, 63, 64, 65])
_ALL_STEPS = sampled_from([1, 2, 4, 16, 63, 64, 65, 255, 256, 257, 65535, 65536, 65537, 1 << 20])
MAX_ROWS = 6
HIGH_REGISTERS = [65, 72, 127, 128, 200]
MAX_SHORT_STEP, MAX_STEP = 65, 1 << 20


@dataclass(frozen=True, slots=True)
class RowChoices:
    """What rows may contain: registers that rules are for, kinds of rules, and optional parts."""

    architecture: Architecture
    registers: Choice[int]
    usual_registers: tuple[int, int, int]
    kinds: Choice[RuleKind]
    has_cfa_expressions: bool
    has_other_cfa_registers: bool
    has_args: bool
    has_windows: bool
    ra_states: tuple[RaState, ...]
    has_no_cfa: bool
    has_negative_cfa: bool
    has_restore: bool


@cache
def row_choices(architecture: Architecture, without: frozenset[Feature]) -> RowChoices:
    """What rows of an architecture may contain without these features."""
    kinds = [RuleKind.OFFSET] * 6 + [RuleKind.SAME_VALUE]
    more = ((RuleKind.UNDEFINED, Feature.UNDEFINED), (RuleKind.REGISTER, Feature.REGISTER))
    kinds += [kind for kind, feature in more if feature not in without]
    if Feature.VAL_OFFSET not in without:
        kinds.append(RuleKind.VAL_OFFSET)
    if Feature.EXPRESSION not in without:
        kinds += [RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION]
    states = [RaState.PLAIN]
    if architecture.signs_return_addresses:
        pairs = ((RaState.SIGNED, Feature.NEGATE_RA_STATE), (RaState.SIGNED_WITH_PC, Feature.NEGATE_RA_STATE_WITH_PC))
        states += [state for state, feature in pairs if feature not in without]
    # The table's numbers of a machine that it does not know are None.
    usual = [architecture.stack_pointer, architecture.frame_pointer, architecture.return_address]
    first, second, third = (index if number is None else number for index, number in enumerate(usual))
    high = HIGH_REGISTERS if Feature.HIGH_REGISTER not in without else []
    return RowChoices(
        architecture=architecture,
        # 34 is AArch64's RA_SIGN_STATE, whose rules contradict the instructions that sign return addresses.
        registers=sampled_from([first, second, *range(13), *range(28, 34), 63, 64, *high]),
        usual_registers=(first, second, third),
        kinds=sampled_from(kinds),
        has_cfa_expressions=Feature.CFA_EXPRESSION not in without,
        has_other_cfa_registers=Feature.OTHER_CFA_REGISTER not in without,
        has_args=Feature.ARGS_SIZE not in without,
        has_windows=architecture.instruction_effects == SPARC_EFFECTS and Feature.WINDOW_SAVE not in without,
        ra_states=tuple(states),
        has_no_cfa=Feature.NO_CFA not in without,
        has_negative_cfa=Feature.DEF_CFA_SF not in without,
        has_restore=Feature.RESTORE not in without,
    )


@dataclass(frozen=True, slots=True)
class RowContext:
    """What the rows of one CIE's functions depend on."""

    choices: RowChoices
    byte_order: ByteOrder
    address_size: int
    data_factor: int
    return_column: int


def draw_cfa(draw: Draw, context: RowContext) -> CfaRule:
    """A CFA rule: mostly SP or FP and an offset, which is a multiple of the data alignment factor if negative."""
    choices, how = context.choices, draw(_CFA_CHOICES)
    if how == 7 and choices.has_cfa_expressions:
        return CfaRule(CfaKind.EXPRESSION, 0, draw_expression(draw, context.byte_order, context.address_size, 0).data)
    stack, frame, _ = choices.usual_registers
    is_other = how == 6 and choices.has_other_cfa_registers
    register = draw(choices.registers) if is_other else (frame if how & 1 else stack)
    offset = draw(_FACTORED) * context.data_factor if how == 5 else draw(_CFA_OFFSETS)
    return CfaRule(CfaKind.REGISTER, register, offset if choices.has_negative_cfa else abs(offset))


def draw_rule(draw: Draw, context: RowContext, register: int) -> RegisterRule:
    """A rule for a register, mostly an offset."""
    kind = draw(context.choices.kinds)
    match kind:
        case RuleKind.OFFSET | RuleKind.VAL_OFFSET:
            return RegisterRule(register, kind, draw(_FACTORED) * context.data_factor)
        case RuleKind.REGISTER:
            return RegisterRule(register, kind, draw(context.choices.registers))
        case RuleKind.EXPRESSION | RuleKind.VAL_EXPRESSION:
            drawn = draw_expression(draw, context.byte_order, context.address_size, 1)
            return RegisterRule(register, kind, drawn.data)
        case _:
            return RegisterRule(register, kind)


def draw_change(
    draw: Draw, context: RowContext, row: Row, initial: Row, earlier: Sequence[Row], changes: Choice[int]
) -> Row:
    """The contents of a row after `row`, whose offset it keeps; `initial` is the row of the CIE."""
    change = draw(changes)
    choices = context.choices
    # Without DW_CFA_restore, a register that has a rule keeps one.
    if change & _EARLIER and earlier and choices.has_restore:
        found = earlier[change % len(earlier)]
        cfa = row.cfa if found.cfa.kind is CfaKind.NONE else found.cfa
        return replace(found, offset=row.offset, cfa=cfa, args_size=row.args_size)
    rules = {rule.register: rule for rule in row.registers}
    for bit in (_FIRST, _SECOND, _RETURN):
        if change & bit:
            register = context.return_column if bit == _RETURN else draw(choices.registers)
            rules[register] = draw_rule(draw, context, register)
    if change & _ARGS and change & _SECOND and choices.has_restore:
        # Some registers as in the CIE, which may be without a rule.
        rules = {register: rule for register, rule in rules.items() if register & 1}
        rules |= {rule.register: rule for rule in initial.registers if rule.register not in rules}
    if change & _WINDOWS and choices.has_windows and context.address_size % context.data_factor == 0:
        rules |= {rule.register: rule for rule in window_rules(context.address_size)}
    needs_cfa = row.cfa.kind is CfaKind.NONE and not choices.has_no_cfa
    return Row(
        row.offset,
        draw_cfa(draw, context) if change & _CFA or needs_cfa else row.cfa,
        tuple(sorted(rules.values())),
        draw(_states(choices.ra_states)) if change & _STATE and len(choices.ra_states) > 1 else row.ra_state,
        draw(_ARGS_SIZES) if change & _ARGS and choices.has_args else row.args_size,
    )


def draw_initial_row(draw: Draw, context: RowContext) -> Row:
    """The row of a CIE: mostly with a CFA and the return address."""
    return draw_change(draw, context, NO_ROW, NO_ROW, (), _INITIAL_CHANGES)


def window_rules(address_size: int) -> tuple[RegisterRule, ...]:
    """The rules that DW_CFA_GNU_window_save sets: %l0 to %l7 and %i0 to %i7 are saved from the CFA on."""
    return tuple(
        RegisterRule(register, RuleKind.OFFSET, index * address_size) for index, register in enumerate(WINDOW_REGISTERS)
    )


@cache
def _states(states: tuple[RaState, ...]) -> Choice[RaState]:
    return sampled_from(states)


def draw_rows(draw: Draw, context: RowContext, initial: Row, count: int, unit: int, *, is_short: bool) -> list[Row]:
    """The `count` rows of a function from offset 0 on, at multiples of `unit` bytes; the last one is where it ends."""
    steps = _SHORT_STEPS if is_short else _ALL_STEPS
    row = draw_change(draw, context, initial, initial, (), _CHANGES)
    rows = [row]
    for _ in range(count - 1):
        row = replace(row, offset=row.offset + draw(steps) * unit)
        row = draw_change(draw, context, row, initial, [initial, *rows], _CHANGES)
        rows.append(row)
    return rows
