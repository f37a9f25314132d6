# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The interpreter of call frame instructions: run by run into rows and rules (DWARF5 6.4.2, 6.4.3).

Strategy: operands are decoded by the schema's operand table, factors applied, before an arm sees them.
Rules are only ever appended: a row, a remembered state and a CIE's initial state each name a slice of
them, so a row whose rules did not change shares its predecessor's slice and `restore_state` costs a
reload. When a column is full, the run begun is undone and the caller comes back with larger ones.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from . import pure as cython

from ...schemas import callframe
from .. import rules as kinds
from .protocol import STATE_SIZE as STATE_WIDTH
from .protocol import Fault, Filled, State

if not cython.compiled:
    from .entries import pointer
    from .operands import operand

PRIMARY_MASK = cython.declare(cython.int, callframe.PRIMARY_MASK)

OP_NONE = cython.declare(cython.int, int(callframe.Operand.NONE))
OP_ADDRESS = cython.declare(cython.int, int(callframe.Operand.ADDRESS))

DO_ADVANCE = cython.declare(cython.int, int(callframe.Effect.ADVANCE))
DO_SET_LOCATION = cython.declare(cython.int, int(callframe.Effect.SET_LOCATION))
DO_CFA = cython.declare(cython.int, int(callframe.Effect.CFA))
DO_CFA_REGISTER = cython.declare(cython.int, int(callframe.Effect.CFA_REGISTER))
DO_CFA_OFFSET = cython.declare(cython.int, int(callframe.Effect.CFA_OFFSET))
DO_CFA_EXPRESSION = cython.declare(cython.int, int(callframe.Effect.CFA_EXPRESSION))
DO_UNDEFINED = cython.declare(cython.int, int(callframe.Effect.UNDEFINED))
DO_SAME_VALUE = cython.declare(cython.int, int(callframe.Effect.SAME_VALUE))
DO_OFFSET = cython.declare(cython.int, int(callframe.Effect.OFFSET))
DO_VAL_OFFSET = cython.declare(cython.int, int(callframe.Effect.VAL_OFFSET))
DO_REGISTER = cython.declare(cython.int, int(callframe.Effect.REGISTER))
DO_EXPRESSION = cython.declare(cython.int, int(callframe.Effect.EXPRESSION))
DO_VAL_EXPRESSION = cython.declare(cython.int, int(callframe.Effect.VAL_EXPRESSION))
DO_RESTORE = cython.declare(cython.int, int(callframe.Effect.RESTORE))
DO_REMEMBER_STATE = cython.declare(cython.int, int(callframe.Effect.REMEMBER_STATE))
DO_RESTORE_STATE = cython.declare(cython.int, int(callframe.Effect.RESTORE_STATE))
DO_NEGATE_RA_STATE = cython.declare(cython.int, int(callframe.Effect.NEGATE_RA_STATE))
DO_NEGATE_RA_STATE_WITH_PC = cython.declare(cython.int, int(callframe.Effect.NEGATE_RA_STATE_WITH_PC))
DO_UNKNOWN = cython.declare(cython.int, int(callframe.Effect.UNKNOWN))

CFA_NONE = cython.declare(cython.int, int(kinds.CfaKind.NONE))
CFA_REGISTER = cython.declare(cython.int, int(kinds.CfaKind.REGISTER))
CFA_EXPRESSION = cython.declare(cython.int, int(kinds.CfaKind.EXPRESSION))
RULE_UNSPECIFIED = cython.declare(cython.int, int(kinds.RuleKind.UNSPECIFIED))
RULE_UNDEFINED = cython.declare(cython.int, int(kinds.RuleKind.UNDEFINED))
RULE_SAME_VALUE = cython.declare(cython.int, int(kinds.RuleKind.SAME_VALUE))
RULE_OFFSET = cython.declare(cython.int, int(kinds.RuleKind.OFFSET))
RULE_VAL_OFFSET = cython.declare(cython.int, int(kinds.RuleKind.VAL_OFFSET))
RULE_REGISTER = cython.declare(cython.int, int(kinds.RuleKind.REGISTER))
RULE_EXPRESSION = cython.declare(cython.int, int(kinds.RuleKind.EXPRESSION))
RULE_VAL_EXPRESSION = cython.declare(cython.int, int(kinds.RuleKind.VAL_EXPRESSION))
SIGNED_RA = cython.declare(cython.int, int(kinds.RaState.SIGNED))
SIGNED_RA_WITH_PC = cython.declare(cython.int, int(kinds.RaState.SIGNED_WITH_PC))

MAX_LIVE_RULES = cython.declare(cython.longlong, kinds.MAX_LIVE_RULES)
MAX_OFFSET = cython.declare(cython.longlong, kinds.MAX_OFFSET)

UNKNOWN_OPCODE = cython.declare(cython.int, int(Fault.UNKNOWN_OPCODE))
OFFSET_TOO_LARGE = cython.declare(cython.int, int(Fault.OFFSET_TOO_LARGE))
TOO_MANY_RULES = cython.declare(cython.int, int(Fault.TOO_MANY_RULES))
NOTHING_REMEMBERED = cython.declare(cython.int, int(Fault.NOTHING_REMEMBERED))
MOVES_BACK = cython.declare(cython.int, int(Fault.MOVES_BACK))
MIXED_RA_STATES = cython.declare(cython.int, int(Fault.MIXED_RA_STATES))

CFA_KIND = cython.declare(cython.int, int(State.CFA_KIND))
CFA_REGISTER_NUMBER = cython.declare(cython.int, int(State.CFA_REGISTER))
CFA_OFFSET_BYTES = cython.declare(cython.int, int(State.CFA_OFFSET))
CFA_EXPRESSION_INDEX = cython.declare(cython.int, int(State.CFA_EXPRESSION))
RA_STATE = cython.declare(cython.int, int(State.RA_STATE))
FIRST_RULE = cython.declare(cython.int, int(State.FIRST_RULE))
RULE_COUNT = cython.declare(cython.int, int(State.RULE_COUNT))
CHANGED = cython.declare(cython.int, int(State.CHANGED))
STATE_SIZE = cython.declare(cython.int, STATE_WIDTH)

ROWS = cython.declare(cython.int, int(Filled.ROWS))
RULES = cython.declare(cython.int, int(Filled.RULES))
EXPRESSIONS = cython.declare(cython.int, int(Filled.EXPRESSIONS))
REMEMBERED = cython.declare(cython.int, int(Filled.REMEMBERED))
FULL = cython.declare(cython.int, int(Filled.FULL))


@cython.cfunc
@cython.exceptval(check=False)
def set_rule(
    state: cython.longlong[::1],
    live: cython.longlong[:, ::1],
    register: cython.longlong,
    kind: cython.longlong,
    value: cython.longlong,
    cursor: cython.longlong[::1],
) -> cython.void:
    """Give a register a rule among the live ones, which are sorted by register; UNSPECIFIED takes its rule away."""
    count: cython.longlong = state[RULE_COUNT]
    at: cython.longlong = count
    index: cython.longlong
    while at > 0 and live[at - 1, 0] >= register:
        at -= 1
    state[CHANGED] = 1
    if at < count and live[at, 0] == register:
        if kind == RULE_UNSPECIFIED:
            for index in range(at, count - 1):
                live[index, 0] = live[index + 1, 0]
                live[index, 1] = live[index + 1, 1]
                live[index, 2] = live[index + 1, 2]
            state[RULE_COUNT] = count - 1
            return
    elif kind == RULE_UNSPECIFIED:
        return
    else:
        if count >= MAX_LIVE_RULES:
            cursor[1] = TOO_MANY_RULES
            return
        for index in range(count, at, -1):
            live[index, 0] = live[index - 1, 0]
            live[index, 1] = live[index - 1, 1]
            live[index, 2] = live[index - 1, 2]
        state[RULE_COUNT] = count + 1
    live[at, 0] = register
    live[at, 1] = kind
    live[at, 2] = value


@cython.cfunc
@cython.exceptval(check=False)
def store_rules(
    state: cython.longlong[::1],
    live: cython.longlong[:, ::1],
    filled: cython.longlong[::1],
    rule_register: cython.ushort[::1],
    rule_kind: cython.uchar[::1],
    rule_value: cython.longlong[::1],
) -> cython.int:
    """Append the live rules, if they changed, and let the state name the slice; 0 where they do not fit."""
    at: cython.longlong = filled[RULES]
    index: cython.longlong
    if not state[CHANGED]:
        return 1
    if at + state[RULE_COUNT] > rule_register.shape[0]:
        filled[FULL] = RULES
        return 0
    for index in range(state[RULE_COUNT]):
        rule_register[at + index] = cython.cast(cython.ushort, live[index, 0])
        rule_kind[at + index] = cython.cast(cython.uchar, live[index, 1])
        rule_value[at + index] = live[index, 2]
    state[FIRST_RULE] = at
    state[CHANGED] = 0
    filled[RULES] = at + state[RULE_COUNT]
    return 1


@cython.cfunc
@cython.exceptval(check=False)
def load_state(
    saved: cython.longlong[:, ::1],
    number: cython.longlong,
    state: cython.longlong[::1],
    live: cython.longlong[:, ::1],
    rule_register: cython.ushort[::1],
    rule_kind: cython.uchar[::1],
    rule_value: cython.longlong[::1],
) -> cython.void:
    """Make a saved state the one under construction."""
    index: cython.longlong
    first: cython.longlong
    for index in range(STATE_SIZE):
        state[index] = saved[number, index]
    first = state[FIRST_RULE]
    for index in range(state[RULE_COUNT]):
        live[index, 0] = rule_register[first + index]
        live[index, 1] = rule_kind[first + index]
        live[index, 2] = rule_value[first + index]


@cython.cfunc
@cython.exceptval(check=False)
def initial_rule(
    initial: cython.longlong[:, ::1],
    number: cython.longlong,
    register: cython.longlong,
    rule_register: cython.ushort[::1],
) -> cython.longlong:
    """The index of the rule that a CIE's initial instructions gave a register; -1 for none."""
    index: cython.longlong
    first: cython.longlong = initial[number, FIRST_RULE]
    for index in range(first, first + initial[number, RULE_COUNT]):
        if rule_register[index] == register:
            return index
    return -1


@cython.ccall
@cython.exceptval(-1, check=False)
def interpret(
    data: cython.const[cython.uchar][::1],
    big: cython.int,
    sizes: cython.const[cython.uchar][::1],
    bases: cython.ulonglong[::1],
    instructions: cython.const[cython.uchar][:, ::1],
    tracks_ra_state: cython.int,
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    location: cython.const[cython.ulonglong][::1],
    cie: cython.const[cython.longlong][::1],
    code_factor: cython.const[cython.longlong][::1],
    data_factor: cython.const[cython.longlong][::1],
    address_encoding: cython.const[cython.uchar][::1],
    address_size: cython.const[cython.uchar][::1],
    initial: cython.longlong[:, ::1],
    final: cython.longlong[:, ::1],
    remembered: cython.longlong[:, ::1],
    first_run: cython.longlong,
    last_row: cython.longlong[::1],
    is_absolute: cython.uchar[::1],
    row_offset: cython.ulonglong[::1],
    row_cfa_kind: cython.uchar[::1],
    row_cfa_register: cython.ushort[::1],
    row_cfa_offset: cython.longlong[::1],
    row_ra_state: cython.uchar[::1],
    row_first_rule: cython.longlong[::1],
    row_rule_count: cython.ushort[::1],
    rule_register: cython.ushort[::1],
    rule_kind: cython.uchar[::1],
    rule_value: cython.longlong[::1],
    expression_start: cython.longlong[::1],
    expression_size: cython.longlong[::1],
    live: cython.longlong[:, ::1],
    state: cython.longlong[::1],
    filled: cython.longlong[::1],
    cursor: cython.longlong[::1],
) -> cython.longlong:
    """Interpret runs from `first_run` on; return the next one to do (all done: how many there are).

    A run is the instructions data[start:end] on top of the state `initial[cie]`, for a function at
    `location`. `last_row` gets the row count behind each run, `is_absolute` whether DW_CFA_set_loc
    occurred, `final` (where it has rows: one a run) the state it ends in. Rows that would start where
    another does replace it. Where a column is full, the run is undone and returned. At a fault cursor[1]
    names it, cursor[0] is the instruction's offset in `data`.
    """
    run: cython.longlong
    at: cython.longlong
    limit: cython.longlong
    number: cython.longlong
    depth: cython.longlong
    pc: cython.longlong  # offset from the function's start
    next_pc: cython.longlong
    first: cython.longlong
    second: cython.longlong
    index: cython.longlong
    address: cython.ulonglong
    byte: cython.int
    opcode: cython.int
    effect: cython.int
    rows_before: cython.longlong
    rules_before: cython.longlong
    expressions_before: cython.longlong
    row: cython.longlong
    is_last: cython.int
    for run in range(first_run, start.shape[0]):
        rows_before, rules_before, expressions_before = filled[ROWS], filled[RULES], filled[EXPRESSIONS]
        number = cie[run]
        load_state(initial, number, state, live, rule_register, rule_kind, rule_value)
        limit = end[run]
        cursor[0] = start[run]
        is_absolute[run] = 0
        depth = pc = next_pc = 0
        is_last = 0
        while True:
            at = cursor[0]
            first = second = 0
            if at >= limit:
                is_last = 1
                effect = DO_ADVANCE
            else:
                byte = data[at]
                opcode = byte & PRIMARY_MASK
                if opcode == 0:
                    opcode = byte
                cursor[0] = at + 1
                effect = instructions[opcode, 0]
                if instructions[opcode, 1] == OP_ADDRESS:
                    address = pointer(
                        data, cursor, limit, address_encoding[number], sizes, address_size[number], big, bases
                    )
                    if address_size[number] < 8:
                        address &= (cython.cast(cython.ulonglong, 1) << 8 * address_size[number]) - 1
                    if address < location[run] or address - location[run] > cython.cast(cython.ulonglong, MAX_OFFSET):
                        cursor[1] = cursor[1] or MOVES_BACK
                    else:
                        first = cython.cast(cython.longlong, address - location[run])
                elif instructions[opcode, 1] != OP_NONE:
                    first = operand(
                        data,
                        cursor,
                        limit,
                        big,
                        instructions[opcode, 1],
                        byte,
                        code_factor[number],
                        data_factor[number],
                    )
                    if instructions[opcode, 2] != OP_NONE and not cursor[1]:
                        second = operand(
                            data, cursor, limit, big, instructions[opcode, 2], byte,
                            code_factor[number], data_factor[number],
                        )  # fmt: skip

                if cursor[1]:
                    cursor[0] = at
                    return run

            # Arms, the frequent ones first.
            if effect == DO_ADVANCE or effect == DO_SET_LOCATION:
                if effect == DO_SET_LOCATION:
                    is_absolute[run] = 1
                    next_pc = first
                else:
                    next_pc = pc + first
                if next_pc < pc:
                    cursor[1] = MOVES_BACK
                elif next_pc > MAX_OFFSET:
                    cursor[1] = OFFSET_TOO_LARGE
                elif next_pc > pc or is_last:
                    row = filled[ROWS]
                    filled[FULL] = ROWS
                    if row >= row_offset.shape[0] or not store_rules(
                        state, live, filled, rule_register, rule_kind, rule_value
                    ):
                        filled[ROWS], filled[RULES], filled[EXPRESSIONS] = rows_before, rules_before, expressions_before
                        return run
                    row_offset[row] = cython.cast(cython.ulonglong, pc)
                    row_cfa_kind[row] = cython.cast(cython.uchar, state[CFA_KIND])
                    row_cfa_register[row] = cython.cast(cython.ushort, state[CFA_REGISTER_NUMBER])
                    row_cfa_offset[row] = (
                        state[CFA_EXPRESSION_INDEX] if state[CFA_KIND] == CFA_EXPRESSION else state[CFA_OFFSET_BYTES]
                    )
                    row_ra_state[row] = cython.cast(cython.uchar, state[RA_STATE])
                    row_first_rule[row] = state[FIRST_RULE]
                    row_rule_count[row] = cython.cast(cython.ushort, state[RULE_COUNT])
                    filled[ROWS] = row + 1
                    pc = next_pc
            elif effect == DO_CFA_OFFSET:
                state[CFA_OFFSET_BYTES] = first
            elif effect == DO_OFFSET:
                set_rule(state, live, first, RULE_OFFSET, second, cursor)
            elif effect == DO_CFA_REGISTER:
                # Before any CFA rule the offset is 0.
                state[CFA_KIND] = CFA_REGISTER
                state[CFA_REGISTER_NUMBER] = first
            elif effect == DO_CFA:
                state[CFA_KIND] = CFA_REGISTER
                state[CFA_REGISTER_NUMBER] = first
                state[CFA_OFFSET_BYTES] = second
            elif effect == DO_RESTORE:
                index = initial_rule(initial, number, first, rule_register)
                if index < 0:
                    set_rule(state, live, first, RULE_UNSPECIFIED, 0, cursor)
                else:
                    set_rule(state, live, first, rule_kind[index], rule_value[index], cursor)
            elif effect == DO_REMEMBER_STATE:
                filled[FULL] = REMEMBERED
                if depth >= remembered.shape[0] or not store_rules(
                    state, live, filled, rule_register, rule_kind, rule_value
                ):
                    filled[ROWS], filled[RULES], filled[EXPRESSIONS] = rows_before, rules_before, expressions_before
                    return run
                for index in range(STATE_SIZE):
                    remembered[depth, index] = state[index]
                depth += 1
            elif effect == DO_RESTORE_STATE:
                if depth == 0:
                    cursor[1] = NOTHING_REMEMBERED
                else:
                    depth -= 1
                    load_state(remembered, depth, state, live, rule_register, rule_kind, rule_value)
            elif effect == DO_UNDEFINED:
                set_rule(state, live, first, RULE_UNDEFINED, 0, cursor)
            elif effect == DO_SAME_VALUE:
                set_rule(state, live, first, RULE_SAME_VALUE, 0, cursor)
            elif effect == DO_REGISTER:
                set_rule(state, live, first, RULE_REGISTER, second, cursor)
            elif effect == DO_VAL_OFFSET:
                set_rule(state, live, first, RULE_VAL_OFFSET, second, cursor)
            elif effect == DO_EXPRESSION or effect == DO_VAL_EXPRESSION or effect == DO_CFA_EXPRESSION:
                index = filled[EXPRESSIONS]
                filled[FULL] = EXPRESSIONS
                if index >= expression_start.shape[0]:
                    filled[ROWS], filled[RULES], filled[EXPRESSIONS] = rows_before, rules_before, expressions_before
                    return run
                expression_start[index] = cursor[2]
                expression_size[index] = cursor[0] - cursor[2]
                filled[EXPRESSIONS] = index + 1
                if effect == DO_CFA_EXPRESSION:
                    state[CFA_KIND] = CFA_EXPRESSION
                    state[CFA_EXPRESSION_INDEX] = index
                else:
                    set_rule(
                        state, live, first,
                        RULE_EXPRESSION if effect == DO_EXPRESSION else RULE_VAL_EXPRESSION, index, cursor,
                    )  # fmt: skip
            elif effect == DO_NEGATE_RA_STATE or effect == DO_NEGATE_RA_STATE_WITH_PC:
                if tracks_ra_state:
                    first = SIGNED_RA if effect == DO_NEGATE_RA_STATE else SIGNED_RA_WITH_PC
                    if state[RA_STATE] and state[RA_STATE] != first:
                        cursor[1] = MIXED_RA_STATES
                    state[RA_STATE] ^= first
            elif effect == DO_UNKNOWN:
                cursor[1] = UNKNOWN_OPCODE
            if cursor[1]:
                cursor[0] = at
                return run
            if is_last:
                break
        if final.shape[0]:
            for index in range(STATE_SIZE):
                final[run, index] = state[index]
        last_row[run] = filled[ROWS]
    return start.shape[0]
