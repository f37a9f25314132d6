# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The interpreter of call frame instructions: run by run into rows and rules (DWARF5 6.4.2, 6.4.3).

Strategy: operands are decoded by the schema's operand table, with factors applied, before an instruction takes effect
on the state in row_state.py. When a column is full, the current run is undone and the caller comes back with larger
columns.
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
    from ..array_types import I64, I64_2D, U8, ConstU8, ConstU8_2D
    from ..shared.reads import Reader
    from .operands import operand
    from .records import Cies, Streams
    from .row_state import RowState

PRIMARY_MASK = cython.declare(cython.int, cfi.PRIMARY_MASK)

OP_NONE = cython.declare(cython.int, int(cfi.Operand.NONE))
OP_INLINE_DELTA = cython.declare(cython.int, int(cfi.Operand.INLINE_DELTA))
OP_INLINE_REGISTER = cython.declare(cython.int, int(cfi.Operand.INLINE_REGISTER))
OP_REGISTER = cython.declare(cython.int, int(cfi.Operand.REGISTER))
OP_OFFSET = cython.declare(cython.int, int(cfi.Operand.OFFSET))
OP_FACTORED = cython.declare(cython.int, int(cfi.Operand.FACTORED_OFFSET))
INLINE_MASK = cython.declare(cython.int, cfi.INLINE_MASK)

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


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def short_operand(
    reader: Reader, kind: cython.int, byte: cython.int, code_factor: cython.longlong, data_factor: cython.longlong
) -> cython.longlong:
    """As `operand`, without a call for those of one byte or less: nearly all. Their products with factors are small."""
    value: cython.longlong
    if kind == OP_INLINE_REGISTER:
        return byte & INLINE_MASK
    if kind == OP_INLINE_DELTA:
        return (byte & INLINE_MASK) * code_factor
    if kind == OP_FACTORED or kind == OP_OFFSET or kind == OP_REGISTER:
        if reader.offset < reader.end and reader.data[reader.offset] < 0x80:
            value = reader.data[reader.offset]
            reader.offset += 1
            return value * data_factor if kind == OP_FACTORED else value
    return operand(reader, kind, byte, code_factor, data_factor)


@cython.final
@cython.cclass
class Interpreter(RowState):
    """Instruction streams into rows. Use: the constructor, `set_columns`, `interpret`; the latter two again when
    columns have grown.

    `table` has the effect and the operand kinds of each opcode; `value_of` the index of the value that each effect
    sets, or NO_VALUE. `keeps_empty`: an advance by 0 ends a row, too.
    """

    def __init__(
        self,
        reader: Reader,
        cies: Cies,
        keeps_empty: cython.int,
        table: ConstU8_2D,
        value_of: ConstU8,
        live: I64_2D,
        values: I64,
        filled: I64,
    ) -> None:
        RowState.__init__(self, reader, live, values, filled)
        self.cies = cies
        self.table = table
        self.value_of = value_of
        self.keeps_empty = keeps_empty
        self.depth = 0
        self.is_absolute = 0

    def apply(
        self, effect: cython.int, first: cython.longlong, second: cython.longlong, cie: cython.longlong
    ) -> cython.int:
        """Apply an instruction that does not change the location; return 0 if a column is full."""
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
            self.restore_rule(self.initial, cie, first)
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
                self.set_rule(FIRST_WINDOW_REGISTER + index, RULE_OFFSET, index * self.cies.address_size[cie])
        elif effect == DO_UNKNOWN:
            self.reader.fault = UNKNOWN_OPCODE
        elif self.value_of[effect] != NO_VALUE:
            self.values[self.value_of[effect]] = first
            self.has_values = 1
        return 1

    def interpret(
        self,
        first_run: cython.longlong,
        streams: Streams,
        initial: I64_2D,
        final: I64_2D,
        last_row: I64,
        is_absolute: U8,
    ) -> cython.longlong:
        """Interpret runs from `first_run` on; return the next run to interpret, or the number of runs.

        A run is a stream, on top of the state `initial[cie]`. `last_row` gets the number of rows up to its end,
        `is_absolute` whether it has DW_CFA_set_loc, `final` (if it has space) the state in which it ends. A row
        replaces one with the same location. If a column is full, the run is undone and returned. At a fault the reader
        is at the instruction.
        """
        run: cython.longlong
        cie: cython.longlong
        rows: cython.longlong
        rules: cython.longlong
        expressions: cython.longlong
        self.initial = initial
        with cython.nogil:
            for run in range(first_run, streams.start.shape[0]):
                rows, rules, expressions = self.filled[ROWS], self.filled[RULES], self.filled[EXPRESSIONS]
                cie = streams.cie[run]
                self.load_state(initial, cie)
                self.load_values(initial, cie)
                self.reader.offset = streams.start[run]
                self.reader.end = streams.end[run]
                self.depth = 0
                self.is_absolute = 0
                if not self.interpret_run(self.reader, streams.location[run], cie):
                    self.filled[ROWS], self.filled[RULES], self.filled[EXPRESSIONS] = rows, rules, expressions
                    return run
                is_absolute[run] = self.is_absolute
                if final.shape[0]:
                    self.save_state(final, run)
                last_row[run] = self.filled[ROWS]
            return streams.start.shape[0]

    def interpret_run(self, reader: Reader, location: cython.ulonglong, cie: cython.longlong) -> cython.int:
        """Interpret the instructions up to the reader's end; return 0 at a fault or if a column is full."""
        code_factor: cython.longlong = self.cies.code_factor[cie]
        data_factor: cython.longlong = self.cies.data_factor[cie]
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
            effect = self.table[opcode, 0]
            first = second = 0
            if effect == DO_SET_LOCATION:
                next_pc = self.set_location(location, cie)
            elif self.table[opcode, 1] != OP_NONE:
                first = short_operand(reader, self.table[opcode, 1], byte, code_factor, data_factor)
                if self.table[opcode, 2] != OP_NONE and not reader.fault:
                    second = short_operand(reader, self.table[opcode, 2], byte, code_factor, data_factor)
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
            elif not self.apply(effect, first, second, cie):
                return 0
            if reader.fault:
                reader.offset = at
                return 0
        return self.store_row(pc)

    def set_location(self, location: cython.ulonglong, cie: cython.longlong) -> cython.longlong:
        """The operand of DW_CFA_set_loc, as an offset from the function's start; a fault if it is before that."""
        size: cython.int = self.cies.address_size[cie]
        address: cython.ulonglong = self.reader.pointer(self.cies.address_encoding[cie], size)
        if size < 8:
            address &= (cython.cast(cython.ulonglong, 1) << 8 * size) - 1
        self.is_absolute = 1
        if self.reader.fault:
            return 0
        if address < location or address - location > cython.cast(cython.ulonglong, MAX_OFFSET):
            self.reader.fault = MOVES_BACK
            return 0
        return cython.cast(cython.longlong, address - location)
