# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows into call frame instructions: what leads from each row to the next, in the fewest bytes (DWARF5 6.4.2).

Strategy: instruction_writer.py writes single instructions. A row that an earlier one of its run equals is reached by
DW_CFA_restore_state, where that is shorter or the only way; pairs of remember and restore nest, so each row is looked
at once before any is written. Everything runs twice: without room it only counts.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import cfi
from ... import rules as kinds

if not cython.compiled:
    from ..array_types import I64, U8, ConstI64, ConstI64_2D, ConstU8, ConstU8_2D, ConstU16, ConstU64
    from .instruction_writer import OpcodeWriter

DO_ADVANCE = cython.declare(cython.int, int(cfi.Effect.ADVANCE))
DO_CFA = cython.declare(cython.int, int(cfi.Effect.CFA))
DO_CFA_REGISTER = cython.declare(cython.int, int(cfi.Effect.CFA_REGISTER))
DO_CFA_OFFSET = cython.declare(cython.int, int(cfi.Effect.CFA_OFFSET))
DO_CFA_EXPRESSION = cython.declare(cython.int, int(cfi.Effect.CFA_EXPRESSION))
DO_RESTORE = cython.declare(cython.int, int(cfi.Effect.RESTORE))
DO_REMEMBER_STATE = cython.declare(cython.int, int(cfi.Effect.REMEMBER_STATE))
DO_RESTORE_STATE = cython.declare(cython.int, int(cfi.Effect.RESTORE_STATE))
DO_NEGATE_RA_STATE = cython.declare(cython.int, int(cfi.Effect.NEGATE_RA_STATE))
DO_NEGATE_RA_STATE_WITH_PC = cython.declare(cython.int, int(cfi.Effect.NEGATE_RA_STATE_WITH_PC))
DO_WINDOW_SAVE = cython.declare(cython.int, int(cfi.Effect.WINDOW_SAVE))

CFA_NONE = cython.declare(cython.int, int(kinds.CfaKind.NONE))
CFA_REGISTER = cython.declare(cython.int, int(kinds.CfaKind.REGISTER))
CFA_EXPRESSION = cython.declare(cython.int, int(kinds.CfaKind.EXPRESSION))
RULE_OFFSET = cython.declare(cython.int, int(kinds.RuleKind.OFFSET))
RA_PLAIN = cython.declare(cython.int, int(kinds.RaState.PLAIN))
SIGNED_RA = cython.declare(cython.int, int(kinds.RaState.SIGNED))

FIRST_WINDOW_REGISTER = cython.declare(cython.longlong, cfi.WINDOW_REGISTERS.start)
WINDOW_SIZE = cython.declare(cython.longlong, len(cfi.WINDOW_REGISTERS))

NOT = cython.declare(cython.longlong, -1)  # no row, no rule, no size
REMEMBER_AND_RESTORE = cython.declare(cython.longlong, 2)  # bytes of both
INEXPRESSIBLE = cython.declare(cython.longlong, 1 << 40)  # more than any bytes
MAX_LOOKED_AT = cython.declare(cython.int, 256)  # rows inside a bracket, so that a run takes time as it is long
MAX_HOPS = cython.declare(cython.int, 3)  # so many earlier equal rows are tried, if those behind are in brackets


@cython.cclass
class Writer(OpcodeWriter):
    """Runs of rows into instruction streams. Use: the constructor, `set_rows`, then `write` without room and with it.

    `rule_effects` has the effect that gives a rule of each kind, 0 where none does; `value_effects` the effect that
    sets each of the schema's `ROW_VALUES`.
    """

    def __init__(
        self,
        address_size: cython.longlong,
        big: cython.int,
        instructions: ConstU8_2D,
        choices: ConstU8_2D,
        rule_effects: ConstU8,
        value_effects: ConstU8,
        rule_register: ConstU16,
        rule_kind: ConstU8,
        rule_value: ConstI64,
        expressions: ConstU8,
        expression_start: ConstI64,
        expression_size: ConstI64,
    ) -> None:
        OpcodeWriter.__init__(self, instructions, choices, big, expressions, expression_start, expression_size)
        self.rule_effects = rule_effects
        self.value_effects = value_effects
        self.address_size = address_size
        self.rule_register = rule_register
        self.rule_kind = rule_kind
        self.rule_value = rule_value

    def set_rows(
        self,
        row_offset: ConstU64,
        row_cfa_kind: ConstU8,
        row_cfa_register: ConstU16,
        row_cfa_offset: ConstI64,
        row_ra_state: ConstU8,
        row_first_rule: ConstI64,
        row_rule_count: ConstU16,
        row_values: ConstI64_2D,
        previous: ConstI64,
        restores: I64,
        remembers: I64,
        covered: I64,
        following: I64,
        saved: I64,
    ) -> None:
        """The columns of the rows. `previous` is the last equal row before each, of the same run (-1: none). What comes
        after it, one element per row, is space to work in."""
        self.row_offset = row_offset
        self.row_cfa_kind = row_cfa_kind
        self.row_cfa_register = row_cfa_register
        self.row_cfa_offset = row_cfa_offset
        self.row_ra_state = row_ra_state
        self.row_first_rule = row_first_rule
        self.row_rule_count = row_rule_count
        self.row_values = row_values
        self.previous = previous
        self.restores = restores
        self.remembers = remembers
        self.covered = covered
        self.following = following
        self.saved = saved

    def change_cfa(self, before: cython.longlong, row: cython.longlong) -> cython.void:
        """From one row's CFA to another's."""
        kind: cython.int = self.row_cfa_kind[row]
        had: cython.int = CFA_NONE if before == NOT else self.row_cfa_kind[before]
        register: cython.longlong = self.row_cfa_register[row]
        offset: cython.longlong = self.row_cfa_offset[row]
        same_register: cython.int = had == CFA_REGISTER and self.row_cfa_register[before] == register
        same_offset: cython.int = had != CFA_NONE and self.row_cfa_offset[before] == offset
        if kind == CFA_NONE:
            self.fault |= had != CFA_NONE
        elif kind == CFA_EXPRESSION:
            if had != CFA_EXPRESSION or not same_offset:
                self.instruct(DO_CFA_EXPRESSION, offset, 0)
        elif same_register:
            if not same_offset:
                self.instruct(DO_CFA_OFFSET, offset, 0)
        elif had == CFA_REGISTER and same_offset:
            self.instruct(DO_CFA_REGISTER, register, 0)
        else:
            self.instruct(DO_CFA, register, offset)

    def rule_at(self, row: cython.longlong, register: cython.longlong) -> cython.longlong:
        """The index of a register's rule in a row; NOT where it has none."""
        low: cython.longlong
        high: cython.longlong
        middle: cython.longlong
        end: cython.longlong
        if row == NOT:
            return NOT
        low = self.row_first_rule[row]
        high = end = low + self.row_rule_count[row]
        while low < high:
            middle = (low + high) // 2
            if self.rule_register[middle] < register:
                low = middle + 1
            else:
                high = middle
        return low if low < end and self.rule_register[low] == register else NOT

    def says_same(self, one: cython.longlong, other: cython.longlong) -> cython.int:
        """Whether two rules of one register are equal."""
        return self.rule_kind[one] == self.rule_kind[other] and self.rule_value[one] == self.rule_value[other]

    def give_rule(self, rule: cython.longlong, initial: cython.longlong) -> cython.void:
        """Give a register its rule, by DW_CFA_restore where the CIE has it too."""
        register: cython.longlong = self.rule_register[rule]
        effect: cython.int = self.rule_effects[self.rule_kind[rule]]
        first: cython.longlong = self.rule_at(initial, register)
        direct: cython.longlong = NOT
        if effect:
            self.choose(effect, register, self.rule_value[rule])
            direct = self.size
        if first != NOT and self.says_same(first, rule):
            self.choose(DO_RESTORE, register, 0)
            if direct == NOT or self.size <= direct:
                self.instruct(DO_RESTORE, register, 0)
                return
        if direct == NOT:
            self.fault = 1
        else:
            self.instruct(effect, register, self.rule_value[rule])

    def window_at(self, row: cython.longlong) -> cython.longlong:
        """The index of the first of a row's rules that DW_CFA_GNU_window_save gives; NOT where it has not all of them,
        or the machine has no such instruction."""
        first: cython.longlong = self.rule_at(row, FIRST_WINDOW_REGISTER)
        index: cython.longlong
        if first == NOT or first + WINDOW_SIZE > self.row_first_rule[row] + self.row_rule_count[row]:
            return NOT
        self.choose(DO_WINDOW_SAVE, 0, 0)
        if self.size == NOT:
            return NOT
        for index in range(WINDOW_SIZE):
            if (
                self.rule_register[first + index] != FIRST_WINDOW_REGISTER + index
                or self.rule_kind[first + index] != RULE_OFFSET
                or self.rule_value[first + index] != index * self.address_size
            ):
                return NOT
        return first

    def change_rules(self, before: cython.longlong, row: cython.longlong, initial: cython.longlong) -> cython.void:
        """From one row's register rules to another's, on top of the CIE's; both are sorted by register."""
        old: cython.longlong = 0
        old_end: cython.longlong = 0
        new: cython.longlong = self.row_first_rule[row]
        new_end: cython.longlong = new + self.row_rule_count[row]
        window: cython.longlong  # the first of the rules that are given at once
        if before != NOT:
            old = self.row_first_rule[before]
            old_end = old + self.row_rule_count[before]
        if old == new and old_end == new_end:
            return
        window = self.window_at(row)
        if window != NOT and self.window_at(before) == NOT:
            self.instruct(DO_WINDOW_SAVE, 0, 0)
        else:
            window = new_end
        while old < old_end or new < new_end:
            if new == new_end or (old < old_end and self.rule_register[old] < self.rule_register[new]):
                # The CIE's own rule would come back.
                if self.rule_at(initial, self.rule_register[old]) != NOT:
                    self.fault = 1
                self.instruct(DO_RESTORE, self.rule_register[old], 0)
                old += 1
            elif old == old_end or self.rule_register[new] < self.rule_register[old]:
                if not window <= new < window + WINDOW_SIZE:
                    self.give_rule(new, initial)
                new += 1
            else:
                if not self.says_same(old, new) and not window <= new < window + WINDOW_SIZE:
                    self.give_rule(new, initial)
                old += 1
                new += 1

    def change_ra_state(self, before: cython.int, now: cython.int) -> cython.void:
        """From one state of the return address to another; between two ways of signing it is plain."""
        if before == now:
            return
        if before != RA_PLAIN:
            self.instruct(DO_NEGATE_RA_STATE if before == SIGNED_RA else DO_NEGATE_RA_STATE_WITH_PC, 0, 0)
        if now != RA_PLAIN:
            self.instruct(DO_NEGATE_RA_STATE if now == SIGNED_RA else DO_NEGATE_RA_STATE_WITH_PC, 0, 0)

    def change(self, before: cython.longlong, row: cython.longlong, initial: cython.longlong) -> cython.void:
        """All that leads from one row to the next."""
        self.change_cfa(before, row)
        self.change_rules(before, row, initial)
        self.change_ra_state(self.row_ra_state[before], self.row_ra_state[row])
        self.change_values(before, row)

    def change_values(self, before: cython.longlong, row: cython.longlong) -> cython.void:
        """From one row's values to another's; without a row before, each is 0."""
        index: cython.longlong
        value: cython.longlong
        for index in range(self.value_effects.shape[0]):
            value = self.row_values[row, index]
            if value != (0 if before == NOT else self.row_values[before, index]):
                self.instruct(self.value_effects[index], value, 0)

    def begin(self, row: cython.longlong, initial: cython.longlong) -> cython.void:
        """From what the CIE says to a first row; of no CIE are a signed return address and values."""
        self.change_cfa(initial, row)
        self.change_rules(initial, row, initial)
        self.change_ra_state(RA_PLAIN, self.row_ra_state[row])
        self.change_values(NOT, row)

    def saving(self, before: cython.longlong, row: cython.longlong, initial: cython.longlong) -> cython.longlong:
        """Bytes that restoring a row saves over the way from the one before it; a lot where there is no such way."""
        at: cython.longlong = self.at
        direct: cython.longlong
        fault: cython.int
        self.is_dry = 1
        self.change(before, row, initial)
        direct, fault = self.at - at, self.fault
        # Readers disagree whether a state has the row's values, so they are written again.
        self.at, self.fault = at, 0
        self.change_values(before, row)
        direct -= self.at - at
        self.at, self.fault, self.is_dry = at, 0, 0
        return INEXPRESSIBLE if fault else direct - REMEMBER_AND_RESTORE

    def plan(self, first: cython.longlong, last: cython.longlong, initial: cython.longlong) -> cython.void:
        """Choose the rows that are restored, and how often each is remembered: as brackets they nest.

        `covered` are the rows inside a bracket, which a later one may not begin at. Each is covered once: the walk
        leads from the end of a bracket to its start. A bracket is left out for a row inside that is worth more.
        """
        row: cython.longlong
        start: cython.longlong
        inside: cython.longlong
        _hop: cython.int
        for row in range(first, last):
            self.restores[row] = self.following[row] = NOT
            self.remembers[row] = self.covered[row] = self.saved[row] = 0
            start = self.previous[row]
            if start != NOT:
                self.following[start] = row
                if start != row - 1:
                    self.saved[row] = self.saving(row - 1, row, initial)
        for row in range(first + 2, last):
            start = self.previous[row]
            if self.saved[row] <= 0:
                continue
            for _hop in range(MAX_HOPS):
                if start != NOT and self.covered[start]:
                    start = self.previous[start]
            if start == NOT or self.covered[start] or self.hides_more(start, row):
                continue
            self.restores[row] = start
            self.remembers[start] += 1
            inside = row - 1
            while inside > start:
                self.covered[inside] = 1
                inside = inside - 1 if self.restores[inside] == NOT else self.restores[inside]

    def hides_more(self, start: cython.longlong, row: cython.longlong) -> cython.int:
        """Whether a row between the two is the start of a bracket, ending behind, that saves more than theirs."""
        inside: cython.longlong = row - 1
        left: cython.int = MAX_LOOKED_AT
        while inside > start and left > 0:
            if self.following[inside] > row and self.saved[self.following[inside]] > self.saved[row]:
                return 1
            inside = inside - 1 if self.restores[inside] == NOT else self.restores[inside]
            left -= 1
        return 0

    def one_run(self, first: cython.longlong, last: cython.longlong, initial: cython.longlong) -> cython.void:
        """The instructions of rows first to last, on top of the row that the CIE begins with (NOT: of nothing)."""
        row: cython.longlong
        _count: cython.longlong
        self.plan(first, last, initial)
        for row in range(first, last):
            if row == first:
                self.begin(row, initial)
            else:
                self.instruct(
                    DO_ADVANCE, cython.cast(cython.longlong, self.row_offset[row] - self.row_offset[row - 1]), 0
                )
                if self.restores[row] == NOT:
                    self.change(row - 1, row, initial)
                else:
                    self.instruct(DO_RESTORE_STATE, 0, 0)
                    self.change_values(row - 1, row)
            for _count in range(self.remembers[row]):
                self.instruct(DO_REMEMBER_STATE, 0, 0)

    def write(
        self,
        first: ConstI64,
        last: ConstI64,
        initial: ConstI64,
        code_factor: ConstI64,
        data_factor: ConstI64,
        out: U8,
        end: I64,
    ) -> cython.longlong:
        """Write the streams one behind the other, as far as `out` has room; return the bytes of all.

        Stream s is of the rows first[s] to last[s] on top of the row initial[s] (-1: of nothing); where it is of no
        row, it is a CIE's that leads to the row initial[s]. `end` gets where each ends, below 0 (as -1 - end) where
        it cannot be said, and then has no bytes.
        """
        stream: cython.longlong
        at: cython.longlong
        self.write_to(out)
        for stream in range(first.shape[0]):
            self.code_factor = code_factor[stream]
            self.data_factor = data_factor[stream]
            self.fault = 0
            at = self.at
            if first[stream] == last[stream]:
                if initial[stream] != NOT:
                    self.change_cfa(NOT, initial[stream])
                    self.change_rules(NOT, initial[stream], NOT)
            else:
                self.one_run(first[stream], last[stream], initial[stream])
            if self.fault:
                self.at = at
                end[stream] = -1 - at
            else:
                end[stream] = self.at
        return self.at
