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
from .protocol import Fault, Filled, State

if not cython.compiled:
    from .operands import operand
    from .reads import Reader

PRIMARY_MASK = cython.declare(cython.int, callframe.PRIMARY_MASK)

OP_NONE = cython.declare(cython.int, int(callframe.Operand.NONE))

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
DO_ARGS_SIZE = cython.declare(cython.int, int(callframe.Effect.ARGS_SIZE))
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
ARGS_SIZE = cython.declare(cython.int, int(State.ARGS_SIZE))

ROWS = cython.declare(cython.int, int(Filled.ROWS))
RULES = cython.declare(cython.int, int(Filled.RULES))
EXPRESSIONS = cython.declare(cython.int, int(Filled.EXPRESSIONS))
REMEMBERED = cython.declare(cython.int, int(Filled.REMEMBERED))
FULL = cython.declare(cython.int, int(Filled.FULL))


@cython.cclass
class Interpreter:
    """Instruction streams into rows. Use: the constructor, `set_columns`, `interpret`, and again as columns grow.

    `instructions` has effect and operand kinds for each opcode (`Operand.NONE`: none); the factor and encoding
    columns are indexed by CIE. `filled` counts what the columns hold; `filled[FULL]` says which had no room.
    `keeps_empty`: an advance by nothing ends a row, too.
    """

    def __init__(
        self,
        reader: Reader,
        instructions: cython.const[cython.uchar][:, ::1],
        tracks_ra_state: cython.int,
        keeps_empty: cython.int,
        code_factor: cython.const[cython.longlong][::1],
        data_factor: cython.const[cython.longlong][::1],
        address_encoding: cython.const[cython.uchar][::1],
        address_size: cython.const[cython.uchar][::1],
        live: cython.longlong[:, ::1],
        filled: cython.longlong[::1],
    ) -> None:
        self.reader = reader
        self.instructions = instructions
        self.tracks_ra_state = tracks_ra_state
        self.keeps_empty = keeps_empty
        self.code_factor = code_factor
        self.data_factor = data_factor
        self.address_encoding = address_encoding
        self.address_size = address_size
        self.live = live
        self.filled = filled
        self.depth = 0
        self.is_absolute = 0
        self.cfa_kind = self.cfa_register = self.cfa_offset = self.cfa_expression = 0
        self.ra_state = self.args_size = self.first_rule = self.rule_count = self.changed = 0

    def set_columns(
        self,
        row_offset: cython.ulonglong[::1],
        row_cfa_kind: cython.uchar[::1],
        row_cfa_register: cython.ushort[::1],
        row_cfa_offset: cython.longlong[::1],
        row_ra_state: cython.uchar[::1],
        row_first_rule: cython.longlong[::1],
        row_rule_count: cython.ushort[::1],
        row_args_size: cython.longlong[::1],
        rule_register: cython.ushort[::1],
        rule_kind: cython.uchar[::1],
        rule_value: cython.longlong[::1],
        expression_start: cython.longlong[::1],
        expression_size: cython.longlong[::1],
        remembered: cython.longlong[:, ::1],
    ) -> None:
        """The columns to fill; called anew whenever they have grown."""
        self.row_offset = row_offset
        self.row_cfa_kind = row_cfa_kind
        self.row_cfa_register = row_cfa_register
        self.row_cfa_offset = row_cfa_offset
        self.row_ra_state = row_ra_state
        self.row_first_rule = row_first_rule
        self.row_rule_count = row_rule_count
        self.row_args_size = row_args_size
        self.rule_register = rule_register
        self.rule_kind = rule_kind
        self.rule_value = rule_value
        self.expression_start = expression_start
        self.expression_size = expression_size
        self.remembered = remembered

    def set_rule(self, register: cython.longlong, kind: cython.longlong, value: cython.longlong) -> cython.void:
        """Give a register a rule among the live ones, which are sorted by register; UNSPECIFIED takes its rule away."""
        count: cython.longlong = self.rule_count
        at: cython.longlong = count
        index: cython.longlong
        while at > 0 and self.live[at - 1, 0] >= register:
            at -= 1
        self.changed = 1
        if at < count and self.live[at, 0] == register:
            if kind == RULE_UNSPECIFIED:
                for index in range(at, count - 1):
                    self.live[index, 0] = self.live[index + 1, 0]
                    self.live[index, 1] = self.live[index + 1, 1]
                    self.live[index, 2] = self.live[index + 1, 2]
                self.rule_count = count - 1
                return
        elif kind == RULE_UNSPECIFIED:
            return
        else:
            if count >= MAX_LIVE_RULES:
                self.reader.fault = TOO_MANY_RULES
                return
            for index in range(count, at, -1):
                self.live[index, 0] = self.live[index - 1, 0]
                self.live[index, 1] = self.live[index - 1, 1]
                self.live[index, 2] = self.live[index - 1, 2]
            self.rule_count = count + 1
        self.live[at, 0] = register
        self.live[at, 1] = kind
        self.live[at, 2] = value

    def store_rules(self) -> cython.int:
        """Append the live rules, if they changed, and let the state name the slice; 0 where they do not fit."""
        at: cython.longlong = self.filled[RULES]
        index: cython.longlong
        if not self.changed:
            return 1
        if at + self.rule_count > self.rule_register.shape[0]:
            self.filled[FULL] = RULES
            return 0
        for index in range(self.rule_count):
            self.rule_register[at + index] = self.live[index, 0]
            self.rule_kind[at + index] = self.live[index, 1]
            self.rule_value[at + index] = self.live[index, 2]
        self.first_rule = at
        self.changed = 0
        self.filled[RULES] = at + self.rule_count
        return 1

    def load_state(self, saved: cython.longlong[:, ::1], number: cython.longlong) -> cython.void:
        """Make a saved state the one under construction."""
        index: cython.longlong
        first: cython.longlong
        self.cfa_kind = saved[number, CFA_KIND]
        self.cfa_register = saved[number, CFA_REGISTER_NUMBER]
        self.cfa_offset = saved[number, CFA_OFFSET_BYTES]
        self.cfa_expression = saved[number, CFA_EXPRESSION_INDEX]
        self.ra_state = saved[number, RA_STATE]
        self.args_size = saved[number, ARGS_SIZE]
        self.rule_count = saved[number, RULE_COUNT]
        self.changed = 0
        self.first_rule = first = saved[number, FIRST_RULE]
        for index in range(self.rule_count):
            self.live[index, 0] = self.rule_register[first + index]
            self.live[index, 1] = self.rule_kind[first + index]
            self.live[index, 2] = self.rule_value[first + index]

    def save_state(self, saved: cython.longlong[:, ::1], number: cython.longlong) -> cython.void:
        """Save the state under construction, whose rules are stored."""
        saved[number, CFA_KIND] = self.cfa_kind
        saved[number, CFA_REGISTER_NUMBER] = self.cfa_register
        saved[number, CFA_OFFSET_BYTES] = self.cfa_offset
        saved[number, CFA_EXPRESSION_INDEX] = self.cfa_expression
        saved[number, RA_STATE] = self.ra_state
        saved[number, ARGS_SIZE] = self.args_size
        saved[number, FIRST_RULE] = self.first_rule
        saved[number, RULE_COUNT] = self.rule_count

    def restore_rule(self, number: cython.longlong, register: cython.longlong) -> cython.void:
        """Give a register the rule that the CIE's initial instructions gave it, or none."""
        index: cython.longlong
        first: cython.longlong = self.initial[number, FIRST_RULE]
        for index in range(first, first + self.initial[number, RULE_COUNT]):
            if self.rule_register[index] == register:
                self.set_rule(register, self.rule_kind[index], self.rule_value[index])
                return
        self.set_rule(register, RULE_UNSPECIFIED, 0)

    def store_row(self, pc: cython.longlong) -> cython.int:
        """Append the row that starts at `pc`; 0 where a column is full."""
        row: cython.longlong = self.filled[ROWS]
        if row >= self.row_offset.shape[0]:
            self.filled[FULL] = ROWS
            return 0
        if not self.store_rules():
            return 0
        self.row_offset[row] = cython.cast(cython.ulonglong, pc)
        self.row_cfa_kind[row] = self.cfa_kind
        self.row_cfa_register[row] = self.cfa_register
        self.row_cfa_offset[row] = self.cfa_expression if self.cfa_kind == CFA_EXPRESSION else self.cfa_offset
        self.row_ra_state[row] = self.ra_state
        self.row_first_rule[row] = self.first_rule
        self.row_rule_count[row] = self.rule_count
        self.row_args_size[row] = self.args_size
        self.filled[ROWS] = row + 1
        return 1

    def store_expression(self, size: cython.longlong) -> cython.longlong:
        """Note the block of `size` bytes that ends where the reader stands; its index, or -1 where none fits."""
        index: cython.longlong = self.filled[EXPRESSIONS]
        if index >= self.expression_start.shape[0]:
            self.filled[FULL] = EXPRESSIONS
            return -1
        self.expression_start[index] = self.reader.offset - size
        self.expression_size[index] = size
        self.filled[EXPRESSIONS] = index + 1
        return index

    def apply(
        self, effect: cython.int, first: cython.longlong, second: cython.longlong, number: cython.longlong
    ) -> cython.int:
        """Change the row under construction, its location apart; 0 where a column is full. `number` is the CIE's."""
        index: cython.longlong
        if effect == DO_CFA_OFFSET:
            self.cfa_offset = first
        elif effect == DO_OFFSET:
            self.set_rule(first, RULE_OFFSET, second)
        elif effect == DO_CFA_REGISTER:
            # Before any CFA rule the offset is 0.
            self.cfa_kind = CFA_REGISTER
            self.cfa_register = first
        elif effect == DO_CFA:
            self.cfa_kind = CFA_REGISTER
            self.cfa_register = first
            self.cfa_offset = second
        elif effect == DO_RESTORE:
            self.restore_rule(number, first)
        elif effect == DO_REMEMBER_STATE:
            if self.depth >= self.remembered.shape[0]:
                self.filled[FULL] = REMEMBERED
                return 0
            if not self.store_rules():
                return 0
            self.save_state(self.remembered, self.depth)
            self.depth += 1
        elif effect == DO_RESTORE_STATE:
            if self.depth == 0:
                self.reader.fault = NOTHING_REMEMBERED
            else:
                self.depth -= 1
                first = self.args_size
                self.load_state(self.remembered, self.depth)
                self.args_size = first
        elif effect == DO_UNDEFINED:
            self.set_rule(first, RULE_UNDEFINED, 0)
        elif effect == DO_SAME_VALUE:
            self.set_rule(first, RULE_SAME_VALUE, 0)
        elif effect == DO_REGISTER:
            self.set_rule(first, RULE_REGISTER, second)
        elif effect == DO_VAL_OFFSET:
            self.set_rule(first, RULE_VAL_OFFSET, second)
        elif effect == DO_EXPRESSION or effect == DO_VAL_EXPRESSION:
            index = self.store_expression(second)
            if index < 0:
                return 0
            self.set_rule(first, RULE_EXPRESSION if effect == DO_EXPRESSION else RULE_VAL_EXPRESSION, index)
        elif effect == DO_CFA_EXPRESSION:
            index = self.store_expression(first)
            if index < 0:
                return 0
            self.cfa_kind = CFA_EXPRESSION
            self.cfa_expression = index
        elif effect == DO_NEGATE_RA_STATE or effect == DO_NEGATE_RA_STATE_WITH_PC:
            if self.tracks_ra_state:
                first = SIGNED_RA if effect == DO_NEGATE_RA_STATE else SIGNED_RA_WITH_PC
                if self.ra_state and self.ra_state != first:
                    self.reader.fault = MIXED_RA_STATES
                self.ra_state ^= first
        elif effect == DO_ARGS_SIZE:
            self.args_size = first
        elif effect == DO_UNKNOWN:
            self.reader.fault = UNKNOWN_OPCODE
        return 1

    def interpret(
        self,
        start: cython.const[cython.longlong][::1],
        end: cython.const[cython.longlong][::1],
        location: cython.const[cython.ulonglong][::1],
        cie: cython.const[cython.longlong][::1],
        initial: cython.longlong[:, ::1],
        final: cython.longlong[:, ::1],
        first_run: cython.longlong,
        last_row: cython.longlong[::1],
        is_absolute: cython.uchar[::1],
    ) -> cython.longlong:
        """Interpret runs from `first_run` on; return the next one to do (all done: how many there are).

        A run is the instructions data[start:end] on top of the state `initial[cie]`, for a function at
        `location`. `last_row` gets the row count behind each run, `is_absolute` whether DW_CFA_set_loc
        occurred, `final` (where it has rows: one a run) the state it ends in. A row that starts where
        another does replaces it. Where a column is full, the run is undone and returned. At a fault the
        reader stands at the instruction.
        """
        run: cython.longlong
        number: cython.longlong
        rows: cython.longlong
        rules: cython.longlong
        expressions: cython.longlong
        self.initial = initial
        for run in range(first_run, start.shape[0]):
            rows, rules, expressions = self.filled[ROWS], self.filled[RULES], self.filled[EXPRESSIONS]
            number = cie[run]
            self.load_state(initial, number)
            self.reader.offset = start[run]
            self.reader.end = end[run]
            self.depth = 0
            self.is_absolute = 0
            if not self.one_run(location[run], number):
                self.filled[ROWS], self.filled[RULES], self.filled[EXPRESSIONS] = rows, rules, expressions
                return run
            is_absolute[run] = self.is_absolute
            if final.shape[0]:
                self.save_state(final, run)
            last_row[run] = self.filled[ROWS]
        return start.shape[0]

    def one_run(self, location: cython.ulonglong, number: cython.longlong) -> cython.int:
        """Interpret the instructions between the reader and its end; 0 at a fault or where a column is full."""
        reader: Reader = self.reader
        code_factor: cython.longlong = self.code_factor[number]
        data_factor: cython.longlong = self.data_factor[number]
        at: cython.longlong
        pc: cython.longlong = 0  # offset from the function's start
        next_pc: cython.longlong = 0
        first: cython.longlong
        second: cython.longlong
        byte: cython.int
        opcode: cython.int
        effect: cython.int
        while reader.offset < reader.end:
            at = reader.offset
            byte = reader.data[at]
            opcode = byte & PRIMARY_MASK or byte
            reader.offset = at + 1
            effect = self.instructions[opcode, 0]
            first = second = 0
            if effect == DO_SET_LOCATION:
                next_pc = self.set_location(location, number)
            elif self.instructions[opcode, 1] != OP_NONE:
                first = operand(reader, self.instructions[opcode, 1], byte, code_factor, data_factor)
                if self.instructions[opcode, 2] != OP_NONE and not reader.fault:
                    second = operand(reader, self.instructions[opcode, 2], byte, code_factor, data_factor)
            if reader.fault:
                reader.offset = at
                return 0
            if effect == DO_ADVANCE or effect == DO_SET_LOCATION:
                if effect == DO_ADVANCE:
                    next_pc = pc + first
                if next_pc < pc:
                    reader.fault = MOVES_BACK
                elif next_pc > MAX_OFFSET:
                    reader.fault = OFFSET_TOO_LARGE
                elif next_pc > pc or self.keeps_empty:
                    if not self.store_row(pc):
                        return 0
                    pc = next_pc
            elif not self.apply(effect, first, second, number):
                return 0
            if reader.fault:
                reader.offset = at
                return 0
        return self.store_row(pc)

    def set_location(self, location: cython.ulonglong, number: cython.longlong) -> cython.longlong:
        """The operand of DW_CFA_set_loc, counted from the function's start; a fault where it is not behind that."""
        size: cython.int = self.address_size[number]
        address: cython.ulonglong = self.reader.pointer(self.address_encoding[number], size)
        if size < 8:
            address &= (cython.cast(cython.ulonglong, 1) << 8 * size) - 1
        self.is_absolute = 1
        if self.reader.fault:
            return 0
        if address < location or address - location > cython.cast(cython.ulonglong, MAX_OFFSET):
            self.reader.fault = MOVES_BACK
            return 0
        return cython.cast(cython.longlong, address - location)
