# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows as call frame instructions: the changes from each row to the next, in the fewest bytes (DWARF5 6.4.2).

Strategy: instruction_writer.py writes single instructions. A row that equals an earlier one of its run is written as
DW_CFA_restore_state where that is shorter or the only way. Pairs of remember and restore nest, so they are planned for
a run before it is written. Everything runs twice: without space it only counts.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import cfi
from ... import rules as kinds

if not cython.compiled:
    from ..array_types import I64, U8, ConstI64, ConstI64_2D, ConstU8, ConstU8_2D
    from ..shared.rows import Rows, Rules
    from .instruction_writer import Expressions, InstructionWriter

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
MAX_LOOKED_AT = cython.declare(cython.int, 256)  # rows in a bracket, so that the time is proportional to the rows
MAX_HOPS = cython.declare(cython.int, 3)  # earlier equal rows that are tried if later ones are in brackets


@cython.final
@cython.cclass
class Brackets:
    """Which rows are restored: pairs of DW_CFA_remember_state and DW_CFA_restore_state, one element per row.

    Given is `previous`: the last equal row before each one in its run (NOT: none). Planned are `restores`, the row that
    each one restores, or NOT, and `remembers`, how many later rows restore each one; the others are working memory.
    """

    def __init__(
        self, previous: ConstI64, restores: I64, remembers: I64, covered: I64, following: I64, saved: I64
    ) -> None:
        self.previous = previous
        self.restores = restores
        self.remembers = remembers
        self.covered = covered
        self.following = following
        self.saved = saved

    def clear(self, row: cython.longlong) -> None:
        """Restore and remember a row in no bracket; `following` is the next row that is equal."""
        self.restores[row] = self.following[row] = NOT
        self.remembers[row] = self.covered[row] = self.saved[row] = 0
        if self.previous[row] != NOT:
            self.following[self.previous[row]] = row

    def before(self, row: cython.longlong) -> cython.longlong:
        """The row to continue with when walking backwards from a row: brackets that end there are passed over."""
        return row - 1 if self.restores[row] == NOT else self.restores[row]

    def choose_start(self, row: cython.longlong) -> cython.longlong:
        """An earlier row equal to this one that no bracket covers; or NOT."""
        start: cython.longlong = self.previous[row]
        _hop: cython.int
        for _hop in range(MAX_HOPS):
            if start != NOT and self.covered[start]:
                start = self.previous[start]
        return NOT if start == NOT or self.covered[start] or self.hides_more(start, row) else start

    def hides_more(self, start: cython.longlong, row: cython.longlong) -> cython.int:
        """Whether a bracket from a row between the two to one after them would save more than theirs."""
        inside: cython.longlong = row - 1
        left: cython.int = MAX_LOOKED_AT
        while inside > start and left > 0:
            if self.following[inside] > row and self.saved[self.following[inside]] > self.saved[row]:
                return 1
            inside = self.before(inside)
            left -= 1
        return 0

    def add(self, start: cython.longlong, row: cython.longlong) -> None:
        """Add a bracket. Each row is covered once: the walk goes from the end of a bracket to its start."""
        inside: cython.longlong = row - 1
        self.restores[row] = start
        self.remembers[start] += 1
        while inside > start:
            self.covered[inside] = 1
            inside = self.before(inside)


@cython.final
@cython.cclass
class RowWriter(InstructionWriter):
    """Runs of rows as instruction streams. Use: the constructor, then `write` without space and with it.

    `rule_effects` has the effect that gives a rule of each kind, 0 if none does; `value_effects` the effect that sets
    each of the schema's `ROW_VALUES`, which `values` has by row.
    """

    def __init__(
        self,
        big: cython.int,
        address_size: cython.longlong,
        rows: Rows,
        rules: Rules,
        expressions: Expressions,
        brackets: Brackets,
        table: ConstU8_2D,
        choices: ConstU8_2D,
        rule_effects: ConstU8,
        value_effects: ConstU8,
        values: ConstI64_2D,
        out: U8,
    ) -> None:
        InstructionWriter.__init__(self, big, expressions, table, choices, out)
        self.address_size = address_size
        self.rows = rows
        self.rules = rules
        self.brackets = brackets
        self.rule_effects = rule_effects
        self.value_effects = value_effects
        self.values = values

    def change_cfa(self, before: cython.longlong, row: cython.longlong) -> cython.void:
        """Change the CFA from one row's to another's."""
        kind: cython.int = self.rows.cfa_kind[row]
        had: cython.int = CFA_NONE if before == NOT else self.rows.cfa_kind[before]
        register: cython.longlong = self.rows.cfa_register[row]
        offset: cython.longlong = self.rows.cfa_offset[row]
        same_register: cython.int = had == CFA_REGISTER and self.rows.cfa_register[before] == register
        same_offset: cython.int = had != CFA_NONE and self.rows.cfa_offset[before] == offset
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
        """The index of a register's rule in a row, or NOT."""
        low: cython.longlong
        high: cython.longlong
        middle: cython.longlong
        end: cython.longlong
        if row == NOT:
            return NOT
        low = self.rows.first_rule[row]
        high = end = low + self.rows.rule_count[row]
        while low < high:
            middle = (low + high) // 2
            if self.rules.register[middle] < register:
                low = middle + 1
            else:
                high = middle
        return low if low < end and self.rules.register[low] == register else NOT

    def is_same_rule(self, one: cython.longlong, other: cython.longlong) -> cython.int:
        """Whether two rules of one register are equal."""
        return self.rules.kind[one] == self.rules.kind[other] and self.rules.value[one] == self.rules.value[other]

    def give_rule(self, rule: cython.longlong, initial: cython.longlong) -> cython.void:
        """Give a register its rule; by DW_CFA_restore if the CIE has the same."""
        register: cython.longlong = self.rules.register[rule]
        effect: cython.int = self.rule_effects[self.rules.kind[rule]]
        first: cython.longlong = self.rule_at(initial, register)
        direct: cython.longlong = NOT
        if effect:
            self.choose(effect, register, self.rules.value[rule])
            direct = self.size
        if first != NOT and self.is_same_rule(first, rule):
            self.choose(DO_RESTORE, register, 0)
            if direct == NOT or self.size <= direct:
                self.instruct(DO_RESTORE, register, 0)
                return
        if direct == NOT:
            self.fault = 1
        else:
            self.instruct(effect, register, self.rules.value[rule])

    def window_at(self, row: cython.longlong) -> cython.longlong:
        """The index of the first of the rules that DW_CFA_GNU_window_save gives; NOT if the row lacks one of them, or
        the machine has no such instruction."""
        first: cython.longlong = self.rule_at(row, FIRST_WINDOW_REGISTER)
        index: cython.longlong
        if first == NOT or first + WINDOW_SIZE > self.rows.first_rule[row] + self.rows.rule_count[row]:
            return NOT
        self.choose(DO_WINDOW_SAVE, 0, 0)
        if self.size == NOT:
            return NOT
        for index in range(WINDOW_SIZE):
            if (
                self.rules.register[first + index] != FIRST_WINDOW_REGISTER + index
                or self.rules.kind[first + index] != RULE_OFFSET
                or self.rules.value[first + index] != index * self.address_size
            ):
                return NOT
        return first

    def change_rules(self, before: cython.longlong, row: cython.longlong, initial: cython.longlong) -> cython.void:
        """Change the register rules from one row's to another's, given the CIE's; both are sorted by register."""
        old: cython.longlong = 0
        old_end: cython.longlong = 0
        new: cython.longlong = self.rows.first_rule[row]
        new_end: cython.longlong = new + self.rows.rule_count[row]
        window: cython.longlong  # the first of the rules that one instruction gives
        if before != NOT:
            old = self.rows.first_rule[before]
            old_end = old + self.rows.rule_count[before]
        if old == new and old_end == new_end:
            return
        window = self.window_at(row)
        if window != NOT and self.window_at(before) == NOT:
            self.instruct(DO_WINDOW_SAVE, 0, 0)
        else:
            window = new_end
        while old < old_end or new < new_end:
            if new == new_end or (old < old_end and self.rules.register[old] < self.rules.register[new]):
                # DW_CFA_restore would give it the CIE's rule.
                if self.rule_at(initial, self.rules.register[old]) != NOT:
                    self.fault = 1
                self.instruct(DO_RESTORE, self.rules.register[old], 0)
                old += 1
            elif old == old_end or self.rules.register[new] < self.rules.register[old]:
                if not window <= new < window + WINDOW_SIZE:
                    self.give_rule(new, initial)
                new += 1
            else:
                if not self.is_same_rule(old, new) and not window <= new < window + WINDOW_SIZE:
                    self.give_rule(new, initial)
                old += 1
                new += 1

    def change_ra_state(self, before: cython.int, now: cython.int) -> cython.void:
        """Change the state of the return address; from one way of signing to another by way of PLAIN."""
        if before == now:
            return
        if before != RA_PLAIN:
            self.instruct(DO_NEGATE_RA_STATE if before == SIGNED_RA else DO_NEGATE_RA_STATE_WITH_PC, 0, 0)
        if now != RA_PLAIN:
            self.instruct(DO_NEGATE_RA_STATE if now == SIGNED_RA else DO_NEGATE_RA_STATE_WITH_PC, 0, 0)

    def change(self, before: cython.longlong, row: cython.longlong, initial: cython.longlong) -> cython.void:
        """Change everything from one row to the next."""
        self.change_cfa(before, row)
        self.change_rules(before, row, initial)
        self.change_ra_state(self.rows.ra_state[before], self.rows.ra_state[row])
        self.change_values(before, row)

    def change_values(self, before: cython.longlong, row: cython.longlong) -> cython.void:
        """Change the values from one row's to another's; without a row before it, each is 0."""
        index: cython.longlong
        value: cython.longlong
        for index in range(self.value_effects.shape[0]):
            value = self.values[row, index]
            if value != (0 if before == NOT else self.values[before, index]):
                self.instruct(self.value_effects[index], value, 0)

    def begin(self, row: cython.longlong, initial: cython.longlong) -> cython.void:
        """Change the CIE's row to a first row. No CIE begins with a signed return address or with values."""
        self.change_cfa(initial, row)
        self.change_rules(initial, row, initial)
        self.change_ra_state(RA_PLAIN, self.rows.ra_state[row])
        self.change_values(NOT, row)

    def saving(self, before: cython.longlong, row: cython.longlong, initial: cython.longlong) -> cython.longlong:
        """Bytes saved by restoring a row instead of changing the one before; INEXPRESSIBLE if that is the only way."""
        at: cython.longlong = self.at
        limit: cython.longlong = self.limit
        direct: cython.longlong
        fault: cython.int
        self.limit = 0
        self.change(before, row, initial)
        direct, fault = self.at - at, self.fault
        # Readers disagree on whether DW_CFA_restore_state restores the values, so they are written again.
        self.at, self.fault = at, 0
        self.change_values(before, row)
        direct -= self.at - at
        self.at, self.fault, self.limit = at, 0, limit
        return INEXPRESSIBLE if fault else direct - REMEMBER_AND_RESTORE

    def plan(self, first: cython.longlong, last: cython.longlong, initial: cython.longlong) -> cython.void:
        """Choose the rows that are restored.

        Brackets nest: none begins inside another that ends before it. A bracket is left out for one from inside it that
        saves more.
        """
        row: cython.longlong
        start: cython.longlong
        for row in range(first, last):
            self.brackets.clear(row)
            if self.brackets.previous[row] != NOT and self.brackets.previous[row] != row - 1:
                self.brackets.saved[row] = self.saving(row - 1, row, initial)
        for row in range(first + 2, last):
            if self.brackets.saved[row] > 0:
                start = self.brackets.choose_start(row)
                if start != NOT:
                    self.brackets.add(start, row)

    def write_run(self, first: cython.longlong, last: cython.longlong, initial: cython.longlong) -> cython.void:
        """Write rows first up to last, on top of the row that the CIE begins with (NOT: no row)."""
        row: cython.longlong
        _count: cython.longlong
        self.plan(first, last, initial)
        for row in range(first, last):
            if row == first:
                self.begin(row, initial)
            else:
                self.instruct(
                    DO_ADVANCE, cython.cast(cython.longlong, self.rows.offset[row] - self.rows.offset[row - 1]), 0
                )
                if self.brackets.restores[row] == NOT:
                    self.change(row - 1, row, initial)
                else:
                    self.instruct(DO_RESTORE_STATE, 0, 0)
                    self.change_values(row - 1, row)
            for _count in range(self.brackets.remembers[row]):
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
        """Write streams one after the other, as far as they fit `out`; return the size of all.

        Stream s has the rows first[s] up to last[s], on top of the row initial[s] (-1: no row); without rows it is a
        CIE's, and leads to the row initial[s]. `end` gets where each ends; where that is below 0 (-1 - end),
        instructions cannot express it, and it has no bytes.
        """
        stream: cython.longlong
        at: cython.longlong
        self.write_to(out)
        with cython.nogil:
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
                    self.write_run(first[stream], last[stream], initial[stream])
                if self.fault:
                    self.at = at
                    end[stream] = -1 - at
                else:
                    end[stream] = self.at
            return self.at
