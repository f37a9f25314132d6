# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The interpreter of call frame instructions: run by run into rows and rules (DWARF5 6.4.2, 6.4.3).

Strategy: operands are decoded by the schema's operand table, factors applied, before an arm sees them.
What they change is the state of row_state.py. When a column is full, the run begun is undone and the caller
comes back with larger ones.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import cfi
from ... import rules as kinds
from ..protocol import Fault
from .protocol import NO_VALUE as NO_VALUE_MARK
from .protocol import Filled

if not cython.compiled:
    from ..array_types import I64, I64_2D, U8, ConstI64, ConstU8, ConstU8_2D, ConstU64
    from ..shared.reads import Reader
    from .operands import operand
    from .row_state import RowState

PRIMARY_MASK = cython.declare(cython.int, cfi.PRIMARY_MASK)

OP_NONE = cython.declare(cython.int, int(cfi.Operand.NONE))

DO_ADVANCE = cython.declare(cython.int, int(cfi.Effect.ADVANCE))
DO_SET_LOCATION = cython.declare(cython.int, int(cfi.Effect.SET_LOCATION))
DO_CFA = cython.declare(cython.int, int(cfi.Effect.CFA))
DO_CFA_REGISTER = cython.declare(cython.int, int(cfi.Effect.CFA_REGISTER))
DO_CFA_OFFSET = cython.declare(cython.int, int(cfi.Effect.CFA_OFFSET))
DO_CFA_EXPRESSION = cython.declare(cython.int, int(cfi.Effect.CFA_EXPRESSION))
DO_UNDEFINED = cython.declare(cython.int, int(cfi.Effect.UNDEFINED))
DO_SAME_VALUE = cython.declare(cython.int, int(cfi.Effect.SAME_VALUE))
DO_OFFSET = cython.declare(cython.int, int(cfi.Effect.OFFSET))
DO_VAL_OFFSET = cython.declare(cython.int, int(cfi.Effect.VAL_OFFSET))
DO_REGISTER = cython.declare(cython.int, int(cfi.Effect.REGISTER))
DO_EXPRESSION = cython.declare(cython.int, int(cfi.Effect.EXPRESSION))
DO_VAL_EXPRESSION = cython.declare(cython.int, int(cfi.Effect.VAL_EXPRESSION))
DO_RESTORE = cython.declare(cython.int, int(cfi.Effect.RESTORE))
DO_REMEMBER_STATE = cython.declare(cython.int, int(cfi.Effect.REMEMBER_STATE))
DO_RESTORE_STATE = cython.declare(cython.int, int(cfi.Effect.RESTORE_STATE))
DO_NEGATE_RA_STATE = cython.declare(cython.int, int(cfi.Effect.NEGATE_RA_STATE))
DO_NEGATE_RA_STATE_WITH_PC = cython.declare(cython.int, int(cfi.Effect.NEGATE_RA_STATE_WITH_PC))
DO_WINDOW_SAVE = cython.declare(cython.int, int(cfi.Effect.WINDOW_SAVE))
DO_UNKNOWN = cython.declare(cython.int, int(cfi.Effect.UNKNOWN))

CFA_REGISTER = cython.declare(cython.int, int(kinds.CfaKind.REGISTER))
CFA_EXPRESSION = cython.declare(cython.int, int(kinds.CfaKind.EXPRESSION))
RULE_UNDEFINED = cython.declare(cython.int, int(kinds.RuleKind.UNDEFINED))
RULE_SAME_VALUE = cython.declare(cython.int, int(kinds.RuleKind.SAME_VALUE))
RULE_OFFSET = cython.declare(cython.int, int(kinds.RuleKind.OFFSET))
RULE_VAL_OFFSET = cython.declare(cython.int, int(kinds.RuleKind.VAL_OFFSET))
RULE_REGISTER = cython.declare(cython.int, int(kinds.RuleKind.REGISTER))
RULE_EXPRESSION = cython.declare(cython.int, int(kinds.RuleKind.EXPRESSION))
RULE_VAL_EXPRESSION = cython.declare(cython.int, int(kinds.RuleKind.VAL_EXPRESSION))
SIGNED_RA = cython.declare(cython.int, int(kinds.RaState.SIGNED))
SIGNED_RA_WITH_PC = cython.declare(cython.int, int(kinds.RaState.SIGNED_WITH_PC))

FIRST_WINDOW_REGISTER = cython.declare(cython.longlong, cfi.WINDOW_REGISTERS.start)
WINDOW_SIZE = cython.declare(cython.longlong, len(cfi.WINDOW_REGISTERS))
MAX_OFFSET = cython.declare(cython.longlong, kinds.MAX_OFFSET)

UNKNOWN_OPCODE = cython.declare(cython.int, int(Fault.UNKNOWN_OPCODE))
OFFSET_TOO_LARGE = cython.declare(cython.int, int(Fault.OFFSET_TOO_LARGE))
NOTHING_REMEMBERED = cython.declare(cython.int, int(Fault.NOTHING_REMEMBERED))
MOVES_BACK = cython.declare(cython.int, int(Fault.MOVES_BACK))
MIXED_RA_STATES = cython.declare(cython.int, int(Fault.MIXED_RA_STATES))

NO_VALUE = cython.declare(cython.int, NO_VALUE_MARK)

ROWS = cython.declare(cython.int, int(Filled.ROWS))
RULES = cython.declare(cython.int, int(Filled.RULES))
EXPRESSIONS = cython.declare(cython.int, int(Filled.EXPRESSIONS))
REMEMBERED = cython.declare(cython.int, int(Filled.REMEMBERED))
FULL = cython.declare(cython.int, int(Filled.FULL))


@cython.cclass
class Interpreter(RowState):
    """Instruction streams into rows. Use: the constructor, `set_columns`, `interpret`, and again as columns grow.

    `instructions` has effect and operand kinds for each opcode (`Operand.NONE`: none); the factor and encoding
    columns are indexed by CIE. `value_of` has the index of the row value that each effect sets, or NO_VALUE.
    `keeps_empty`: an advance by nothing ends a row, too.
    """

    def __init__(
        self,
        reader: Reader,
        keeps_empty: cython.int,
        instructions: ConstU8_2D,
        value_of: ConstU8,
        code_factor: ConstI64,
        data_factor: ConstI64,
        address_encoding: ConstU8,
        address_size: ConstU8,
        live: I64_2D,
        values: I64,
        filled: I64,
    ) -> None:
        RowState.__init__(self, reader, live, values, filled)
        self.instructions = instructions
        self.value_of = value_of
        self.keeps_empty = keeps_empty
        self.code_factor = code_factor
        self.data_factor = data_factor
        self.address_encoding = address_encoding
        self.address_size = address_size
        self.depth = 0
        self.is_absolute = 0

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
            self.restore_rule(self.initial, number, first)
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
                self.load_state(self.remembered, self.depth)
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
            first = SIGNED_RA if effect == DO_NEGATE_RA_STATE else SIGNED_RA_WITH_PC
            if self.ra_state and self.ra_state != first:
                self.reader.fault = MIXED_RA_STATES
            self.ra_state ^= first
        elif effect == DO_WINDOW_SAVE:
            for index in range(WINDOW_SIZE):
                self.set_rule(FIRST_WINDOW_REGISTER + index, RULE_OFFSET, index * self.address_size[number])
        elif effect == DO_UNKNOWN:
            self.reader.fault = UNKNOWN_OPCODE
        elif self.value_of[effect] != NO_VALUE:
            self.values[self.value_of[effect]] = first
        return 1

    def interpret(
        self,
        start: ConstI64,
        end: ConstI64,
        location: ConstU64,
        cie: ConstI64,
        initial: I64_2D,
        final: I64_2D,
        first_run: cython.longlong,
        last_row: I64,
        is_absolute: U8,
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
            self.load_values(initial, number)
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
