"""Interpret instruction streams into row runs: the caller of the row kernel, with the growing columns that it fills.

Strategy: when a column is full, the kernel undoes the current run; the column is doubled and the kernel continues with
that run, so no pass is needed to count rows first. CIEs are interpreted first, from an empty state; FDEs start from the
final states of their CIEs.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas import cfi
from ...schemas.cfi import MachineEffects
from ...schemas.pointers import DW_EH_PE, NO_BASES, PointerBases
from ...schemas.section import ParseError, Section
from ..columns import Columns, column_of, columns
from ..kernels import engine, views
from ..kernels.calls import reader_of, refuse
from ..kernels.cfi.protocol import NO_VALUE, STATE_SIZE, Filled
from ..limits import exceeded, raised
from ..rules import MAX_LIVE_RULES, CfaKind, RuleKind
from ..table.model import ROW_VALUES, RowColumns, RuleColumns
from ..threads import in_threads, thread_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..kernels.cfi.records import Cies as KernelCies
    from ..kernels.cfi.records import Streams as KernelStreams

    # The row count after each stream, and whether it has DW_CFA_set_loc.
    _Interpreted = tuple[NDArray[np.int64], NDArray[np.uint8]]


# A limit against attacks, per byte of the section: real files have at most three.
RULES_PER_BYTE = 64
FREE_RULES = 1 << 16
# Bytes of instructions that are worth a second thread.
PART = 1 << 18
# What a builder appends.
APPENDED = Filled.ROWS, Filled.RULES, Filled.EXPRESSIONS
EXPRESSION_KINDS = RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION


# The effects that set a register's rule, and its kind: they have the same names.
RULE_KINDS = {cfi.Effect[kind.name]: kind for kind in RuleKind if kind.name in cfi.Effect.__members__}


@cache
def instruction_table(effects: MachineEffects) -> NDArray[np.uint8]:
    """The effect and operand kinds of each opcode, as kernels take them: the schema's, with a machine's effects."""
    table = np.zeros((256, 3), np.uint8)
    table[:, 0] = cfi.Effect.UNKNOWN
    for opcode, spec in cfi.INSTRUCTIONS.items():
        table[opcode, 0] = spec.effect
        table[opcode, 1 : 1 + len(spec.operands)] = spec.operands
    for opcode, effect in effects:
        table[opcode, 0] = effect
    return table


@cache
def _value_of_effects() -> NDArray[np.uint8]:
    """The index in `ROW_VALUES` of the value that each effect sets, as kernels take it."""
    value_of = np.full(256, NO_VALUE, np.uint8)
    for index, opcode in enumerate(cfi.ROW_VALUES):
        value_of[cfi.INSTRUCTIONS[opcode].effect] = index
    return value_of


@columns
class CieColumns(Columns):
    """What each CIE defines for its FDEs, and where its initial instructions are."""

    kind: NDArray[np.int64] = column_of("number", "equal for CIEs that give equal instructions equal rows")
    code_factor: NDArray[np.int64] = column_of("bytes")
    data_factor: NDArray[np.int64] = column_of("bytes")
    address_encoding: NDArray[np.uint8] = column_of(DW_EH_PE)
    lsda_encoding: NDArray[np.uint8] = column_of(DW_EH_PE, "omit where there is none")
    is_augmented: NDArray[np.uint8] = column_of("0 or 1", "whether FDEs have augmentation data")
    address_size: NDArray[np.uint8] = column_of("bytes")
    segment_size: NDArray[np.uint8] = column_of("bytes")
    start: NDArray[np.int64] = column_of("section offset", "of the initial instructions")
    end: NDArray[np.int64] = column_of("section offset", "of the end of the initial instructions")
    return_column: NDArray[np.uint32] = column_of("DWARF register", "whose rule gives the return address")
    flags: NDArray[np.uint8] = column_of("`FunctionFlag`")
    personality_encoding: NDArray[np.uint8] = column_of(DW_EH_PE, "omit where there is none")
    personality: NDArray[np.uint64] = column_of("address")

    def for_kernels(self) -> KernelCies:
        """The columns that kernels take."""
        return engine.cfi.records.Cies(
            *views(
                self.code_factor,
                self.data_factor,
                self.address_encoding,
                self.lsda_encoding,
                self.is_augmented,
                self.address_size,
                self.segment_size,
            )
        )


@columns
class InstructionRanges(Columns):
    """Instructions to interpret, data[start:end], from the final state of a CIE."""

    start: NDArray[np.int64] = column_of("section offset")
    end: NDArray[np.int64] = column_of("section offset")
    location: NDArray[np.uint64] = column_of("address", "of the function")
    cie: NDArray[np.int64] = column_of("index", "of the CIE")
    index: NDArray[np.int64] = column_of("index", "of the entry, for errors")

    def for_kernels(self) -> KernelStreams:
        """The columns that kernels take."""
        return engine.cfi.records.Streams(*views(self.start, self.end, self.location, self.cie))


def separate_absolute(
    run: NDArray[Any], first: NDArray[np.int64], is_absolute: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Give each function whose instructions contain DW_CFA_set_loc, an absolute address, a run of its own.

    `run` is the run of each function, `first` the function that each run was interpreted for. Returns `run` with a new
    run for every other function of such a run, numbered after the existing ones; and these functions.
    """
    own = np.flatnonzero(is_absolute[run] & (first[run] != np.arange(len(run))))
    run = run.copy()
    run[own] = len(first) + np.arange(len(own))
    return run, own


@columns
class _Blocks(Columns):
    """The expressions of rules."""

    start: NDArray[np.int64] = column_of("section offset")
    size: NDArray[np.int64] = column_of("bytes")


class RowBuilder:
    """The growing rows, rules and expressions of one section. Call `interpret` once or more, then take the columns.

    `effects` are those of the machine. `keeps_empty`: an advance by 0 ends a row too, which then covers no bytes
    (readelf shows such rows).
    """

    def __init__(
        self,
        section: Section,
        cies: CieColumns,
        effects: MachineEffects,
        bases: PointerBases = NO_BASES,
        keeps_empty: bool = False,
    ) -> None:
        self._section, self._cies = section, cies
        self._how = effects, bases, keeps_empty
        self._begin(len(section))
        count = len(cies.start)
        everything = InstructionRanges(
            cies.start, cies.end, np.zeros(count, np.uint64), np.arange(count), np.arange(count)
        )
        self._initial = np.zeros((count, STATE_SIZE), np.int64)
        final = np.zeros_like(self._initial)
        self._interpret(everything, "CIE", final)
        self._initial = final
        self._filled[Filled.ROWS] = 0

    def _begin(self, size: int, rules: int = 0) -> None:
        """Make the columns for the rows of `size` bytes of instructions and `rules` more rules, and the kernel that
        fills them."""
        effects, bases, keeps_empty = self._how
        # Each row takes at least one byte of the section, so this never fills. Untouched pages take no memory.
        self._rows = RowColumns.empty(size + 1)
        self._values = np.zeros((len(self._rows), len(cfi.ROW_VALUES)), np.int64)
        self._rules = RuleColumns.empty(rules + size // 4 + 1024)
        self._expressions = _Blocks.empty(64)
        self._remembered = np.empty((16, STATE_SIZE), np.int64)
        self._filled = np.zeros(len(Filled), np.int64)
        self._reader = reader_of(self._section, bases=bases)
        self._kernel = engine.cfi.interpreter.Interpreter(
            self._reader,
            self._cies.for_kernels(),
            keeps_empty,
            *views(
                instruction_table(effects),
                _value_of_effects(),
                np.empty((MAX_LIVE_RULES + 1, 3), np.int64),
                np.empty(len(cfi.ROW_VALUES), np.int64),
                self._filled,
            ),
        )

    def interpret(self, streams: InstructionRanges) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Interpret the streams of FDEs. Returns the row count after each, and which contain DW_CFA_set_loc."""
        last_row, is_absolute = self._in_parts(streams) or self._interpret_fdes(streams)
        return last_row, is_absolute.astype(np.bool_)

    def _interpret_fdes(self, streams: InstructionRanges) -> _Interpreted:
        return self._interpret(streams, "FDE", np.empty((0, STATE_SIZE), np.int64))

    def _in_parts(self, streams: InstructionRanges) -> _Interpreted | None:
        """As `_interpret_fdes`, by several threads; the columns become the same. None with one thread, for few bytes,
        and where anything is wrong: one thread then finds what is wrong first."""
        ends = np.cumsum(streams.end - streams.start)
        size = int(ends[-1]) if len(ends) else 0
        count = thread_count() if size >= PART else 1
        if count == 1:
            return None
        bounds = [0, *np.searchsorted(ends, [size * part // count for part in range(1, count)]).tolist(), len(ends)]
        parts = [streams.select(slice(*pair)) for pair in pairwise(bounds)]
        builders = [self, *(self._branch(int((part.end - part.start).sum())) for part in parts[1:])]
        before = self._filled.copy()

        def fill(number: int) -> _Interpreted:
            return builders[number]._interpret_fdes(parts[number])

        try:
            found = in_threads(fill, range(count))
        except ParseError:
            found = []
        if not found or sum(len(builder.rules()) for builder in builders) > self._most_rules():
            self._filled[:], self._reader.fault = before, 0
            return None
        begins = [0, *(self._append(branch, before) for branch in builders[1:])]
        last = [last_row + begin for begin, (last_row, _) in zip(begins, found, strict=True)]
        return np.concatenate(last), np.concatenate([is_absolute for _, is_absolute in found])

    def _branch(self, size: int) -> RowBuilder:
        """A builder with the rules and expressions so far, for the rows of `size` bytes of instructions."""
        branch = copy(self)
        rules, expressions = self.rules(), self._expressions.select(slice(int(self._filled[Filled.EXPRESSIONS])))
        branch._begin(size, len(rules))
        branch._rules.put(slice(len(rules)), rules)
        branch._expressions = expressions.resized(len(expressions) + 64)
        branch._filled[[Filled.RULES, Filled.EXPRESSIONS]] = len(rules), len(expressions)
        return branch

    def _append(self, branch: RowBuilder, before: NDArray[np.int64]) -> int:
        """Append what a branch has that was not there `before`, as `filled`. Returns the number of rows until then."""
        row, rule, expression = (int(self._filled[one]) for one in APPENDED)
        _, known_rules, known_expressions = (int(before[one]) for one in APPENDED)
        rows, rules = branch._rows.select(slice(int(branch._filled[Filled.ROWS]))), branch.rules()
        rules = rules.select(slice(known_rules, None))
        expressions = branch._expressions.select(slice(known_expressions, int(branch._filled[Filled.EXPRESSIONS])))
        # A branch numbers its own rules and expressions after those that it began with.
        is_cfa, is_rule = rows.cfa_kind == CfaKind.EXPRESSION, np.isin(rules.kind, EXPRESSION_KINDS)
        for numbers, which, known, shift in (
            (rows.first_rule, True, known_rules, rule - known_rules),
            (rows.cfa_offset, is_cfa, known_expressions, expression - known_expressions),
            (rules.value, is_rule, known_expressions, expression - known_expressions),
        ):
            np.add(numbers, shift, out=numbers, where=which & (numbers >= known))
        ends = row + len(rows), rule + len(rules), expression + len(expressions)
        while ends[0] > len(self._rows):
            self._grow_rows()
        if ends[1] > len(self._rules):
            self._rules = self._rules.resized(max(ends[1], 2 * len(self._rules)))
        if ends[2] > len(self._expressions):
            self._expressions = self._expressions.resized(max(ends[2], 2 * len(self._expressions)))
        for name in (one.name for one in rows.declared if one.name not in ROW_VALUES):
            getattr(self._rows, name)[row : ends[0]] = getattr(rows, name)
        if (values := branch._values[: len(rows)]).any():
            self._values[row : ends[0]] = values
        self._rules.put(slice(rule, ends[1]), rules)
        self._expressions.put(slice(expression, ends[2]), expressions)
        self._filled[list(APPENDED)] = ends
        return row

    def _interpret(self, streams: InstructionRanges, record: str, final: NDArray[np.int64]) -> _Interpreted:
        count = len(streams.start)
        last_row = np.empty(count, np.int64)
        is_absolute = np.zeros(count, np.uint8)
        to_run = streams.for_kernels()
        columns = views(self._initial, final, last_row, is_absolute)
        done = 0
        while done < count:
            self._set_columns()
            done = self._kernel.interpret(done, to_run, *columns)
            if self._reader.fault:
                refuse(self._section, f"{record}[{streams.index[done]}].instructions", self._reader)
            if done < count:
                self._grow(f"{record}[{streams.index[done]}].instructions")
        return last_row, is_absolute

    def _set_columns(self) -> None:
        """Give the kernel the columns to fill."""
        rows = engine.shared.rows.NewRows(**self._rows.views(without=ROW_VALUES))
        rules = engine.shared.rows.NewRules(**self._rules.views())
        expressions = engine.cfi.row_state.NewExpressions(**self._expressions.views())
        self._kernel.set_columns(rows, rules, expressions, *views(self._values, self._remembered))

    def _grow(self, record: str) -> None:
        """Double the columns that are full."""
        match Filled(self._filled[Filled.FULL]):
            case Filled.ROWS:
                self._grow_rows()
            case Filled.RULES:
                most = self._most_rules()
                if len(self._rules) >= most:
                    reason = f"more than {raised(RULES_PER_BYTE)} register rules for each byte of the section"
                    raise ParseError(self._section, None, record, exceeded(reason))
                self._rules = self._rules.resized(min(2 * len(self._rules), most))
            case Filled.EXPRESSIONS:
                self._expressions = self._expressions.resized(2 * len(self._expressions))
            case Filled.REMEMBERED:
                self._remembered = np.concatenate([self._remembered, np.empty_like(self._remembered)])

    def _most_rules(self) -> int:
        return raised(RULES_PER_BYTE * len(self._section) + FREE_RULES)

    def _grow_rows(self) -> None:
        self._rows = self._rows.resized(2 * len(self._rows))
        self._values = np.concatenate([self._values, np.zeros_like(self._values)])

    def repeat_rows(self, which: NDArray[np.int64]) -> None:
        """Append copies of these rows, in the spare capacity of the columns if they fit."""
        count = int(self._filled[Filled.ROWS])
        end = count + len(which)
        while end > len(self._rows):
            self._grow_rows()
        for column in (*self._rows.arrays(), self._values):
            column[count:end] = column[which]
        self._filled[Filled.ROWS] = end

    def rows(self) -> RowColumns:
        """The rows so far."""
        count = int(self._filled[Filled.ROWS])
        rows = self._rows.select(slice(count))
        for index, name in enumerate(cfi.ROW_VALUES.values()):
            column = np.ascontiguousarray(self._values[:count, index])
            rows = replace(rows, **{name: column.view(getattr(rows, name).dtype)})
        return rows

    def rules(self) -> RuleColumns:
        """The rules so far."""
        return self._rules.select(slice(int(self._filled[Filled.RULES])))

    def expressions(self) -> tuple[bytes, ...]:
        """The expressions so far, by index."""
        found = self._expressions.select(slice(int(self._filled[Filled.EXPRESSIONS])))
        pairs = zip(found.start.tolist(), found.size.tolist(), strict=True)
        return tuple(bytes(self._section.data[start : start + size]) for start, size in pairs)
