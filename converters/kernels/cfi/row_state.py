# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The row under construction: stored in columns, saved and loaded.

Strategy: rules are only ever appended. A row, a remembered state and a CIE's initial state each refer to a slice of
them, so a row whose rules did not change shares the slice of the row before, and DW_CFA_restore_state is a reload. If a
column is full, nothing is stored and the caller is informed.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ... import rules as kinds
from ..protocol import Fault
from .protocol import STATE_SIZE, Filled, State

if not cython.compiled:
    from ..array_types import I64, I64_2D
    from ..shared.reads import Reader
    from ..shared.rows import NewRows, NewRules

CFA_EXPRESSION = cython.declare(cython.int, int(kinds.CfaKind.EXPRESSION))
RULE_UNSPECIFIED = cython.declare(cython.int, int(kinds.RuleKind.UNSPECIFIED))

MAX_LIVE_RULES = cython.declare(cython.longlong, kinds.MAX_LIVE_RULES)
TOO_MANY_RULES = cython.declare(cython.int, int(Fault.TOO_MANY_RULES))

CFA_KIND = cython.declare(cython.int, int(State.CFA_KIND))
CFA_REGISTER_NUMBER = cython.declare(cython.int, int(State.CFA_REGISTER))
CFA_OFFSET_BYTES = cython.declare(cython.int, int(State.CFA_OFFSET))
CFA_EXPRESSION_INDEX = cython.declare(cython.int, int(State.CFA_EXPRESSION))
RA_STATE = cython.declare(cython.int, int(State.RA_STATE))
FIRST_RULE = cython.declare(cython.int, int(State.FIRST_RULE))
RULE_COUNT = cython.declare(cython.int, int(State.RULE_COUNT))
FIRST_VALUE = cython.declare(cython.int, len(State))
VALUES = cython.declare(cython.int, STATE_SIZE - len(State))

ROWS = cython.declare(cython.int, int(Filled.ROWS))
RULES = cython.declare(cython.int, int(Filled.RULES))
EXPRESSIONS = cython.declare(cython.int, int(Filled.EXPRESSIONS))
FULL = cython.declare(cython.int, int(Filled.FULL))


@cython.final
@cython.cclass
class NewExpressions:
    """The section offset and size of each expression, to be filled."""

    def __init__(self, start: I64, size: I64) -> None:
        self.start = start
        self.size = size


@cython.cclass
class RowState:
    """The row under construction. `live` are its rules, sorted by register: register, kind and value; `values` its
    values by the schema's `ROW_VALUES`. `has_values`: a value was set, in this run or an earlier one; without, values
    are not stored: the columns for them are 0, and pages that nothing is written to take no memory.

    `filled`, by `Filled`, counts what the columns hold; `filled[FULL]` tells which column is full.
    """

    def __init__(self, reader: Reader, live: I64_2D, values: I64, filled: I64) -> None:
        self.reader = reader
        self.live = live
        self.values = values
        self.filled = filled
        self.cfa_kind = self.cfa_register = self.cfa_offset = self.cfa_expression = 0
        self.ra_state = self.first_rule = self.rule_count = self.changed = 0
        self.has_values = 0

    def set_columns(
        self, rows: NewRows, rules: NewRules, expressions: NewExpressions, row_values: I64_2D, remembered: I64_2D
    ) -> None:
        """Take the columns to fill; called again when they have grown."""
        self.rows = rows
        self.row_values = row_values
        self.rules = rules
        self.expressions = expressions
        self.remembered = remembered

    def set_rule(self, register: cython.longlong, kind: cython.longlong, value: cython.longlong) -> cython.void:
        """Give a register a rule among the live ones, which are sorted by register; UNSPECIFIED removes its rule."""
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
        """Append the live rules, if they changed, and refer to their slice; return 0 if they do not fit."""
        at: cython.longlong = self.filled[RULES]
        index: cython.longlong
        if not self.changed:
            return 1
        if at + self.rule_count > self.rules.register.shape[0]:
            self.filled[FULL] = RULES
            return 0
        for index in range(self.rule_count):
            self.rules.register[at + index] = self.live[index, 0]
            self.rules.kind[at + index] = self.live[index, 1]
            self.rules.value[at + index] = self.live[index, 2]
        self.first_rule = at
        self.changed = 0
        self.filled[RULES] = at + self.rule_count
        return 1

    def load_values(self, saved: I64_2D, number: cython.longlong) -> cython.void:
        """Load the values of a saved state."""
        index: cython.longlong
        for index in range(VALUES):
            self.values[index] = saved[number, FIRST_VALUE + index]
            if self.values[index]:
                self.has_values = 1

    def load_state(self, saved: I64_2D, number: cython.longlong) -> cython.void:
        """Load a saved state, without its values."""
        index: cython.longlong
        first: cython.longlong
        self.cfa_kind = saved[number, CFA_KIND]
        self.cfa_register = saved[number, CFA_REGISTER_NUMBER]
        self.cfa_offset = saved[number, CFA_OFFSET_BYTES]
        self.cfa_expression = saved[number, CFA_EXPRESSION_INDEX]
        self.ra_state = saved[number, RA_STATE]
        self.rule_count = saved[number, RULE_COUNT]
        self.changed = 0
        self.first_rule = first = saved[number, FIRST_RULE]
        for index in range(self.rule_count):
            self.live[index, 0] = self.rules.register[first + index]
            self.live[index, 1] = self.rules.kind[first + index]
            self.live[index, 2] = self.rules.value[first + index]

    def save_state(self, saved: I64_2D, number: cython.longlong) -> cython.void:
        """Save the state, whose rules are stored."""
        index: cython.longlong
        saved[number, CFA_KIND] = self.cfa_kind
        saved[number, CFA_REGISTER_NUMBER] = self.cfa_register
        saved[number, CFA_OFFSET_BYTES] = self.cfa_offset
        saved[number, CFA_EXPRESSION_INDEX] = self.cfa_expression
        saved[number, RA_STATE] = self.ra_state
        saved[number, FIRST_RULE] = self.first_rule
        saved[number, RULE_COUNT] = self.rule_count
        for index in range(VALUES):
            saved[number, FIRST_VALUE + index] = self.values[index]

    def restore_rule(self, saved: I64_2D, number: cython.longlong, register: cython.longlong) -> cython.void:
        """Give a register its rule in a saved state, or none."""
        index: cython.longlong
        first: cython.longlong = saved[number, FIRST_RULE]
        for index in range(first, first + saved[number, RULE_COUNT]):
            if self.rules.register[index] == register:
                self.set_rule(register, self.rules.kind[index], self.rules.value[index])
                return
        self.set_rule(register, RULE_UNSPECIFIED, 0)

    def store_row(self, pc: cython.longlong) -> cython.int:
        """Append the row that starts at `pc`; return 0 if a column is full."""
        row: cython.longlong = self.filled[ROWS]
        index: cython.longlong
        if row >= self.rows.offset.shape[0]:
            self.filled[FULL] = ROWS
            return 0
        if not self.store_rules():
            return 0
        self.rows.offset[row] = cython.cast(cython.ulonglong, pc)
        self.rows.cfa_kind[row] = self.cfa_kind
        self.rows.cfa_register[row] = self.cfa_register
        self.rows.cfa_offset[row] = self.cfa_expression if self.cfa_kind == CFA_EXPRESSION else self.cfa_offset
        self.rows.ra_state[row] = self.ra_state
        self.rows.first_rule[row] = self.first_rule
        self.rows.rule_count[row] = self.rule_count
        if self.has_values:
            for index in range(VALUES):
                self.row_values[row, index] = self.values[index]
        self.filled[ROWS] = row + 1
        return 1

    def store_expression(self, size: cython.longlong) -> cython.longlong:
        """Append the block of `size` bytes that ends at the reader; return its index, or -1 if a column is full."""
        index: cython.longlong = self.filled[EXPRESSIONS]
        if index >= self.expressions.start.shape[0]:
            self.filled[FULL] = EXPRESSIONS
            return -1
        self.expressions.start[index] = self.reader.offset - size
        self.expressions.size[index] = size
        self.filled[EXPRESSIONS] = index + 1
        return index
