"""Two tables compared at every PC: do they recover the same caller?

Strategy: both tables in their canonical form (`by_pc`), each cut at the other's boundaries, so that a range has one
rule set of each. A pair of rule sets is compared once. Between formats that express the same, rules are compared as
they are. Otherwise each rule set is evaluated (`caller_by_row`) on random registers and memory, and the CFA, the return
address and the registers that both formats describe are compared: this shares no code with any encoder or projection.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.section import ByteOrder
from ..arch.table import Architecture, unwind_registers
from ..arrays import distinct_values, range_run_starts, run_ends, run_starts, values_at
from ..columns import Columns, column_of, columns
from ..distinct import number_distinct
from ..refusals import Reason, Refusals
from ..rules import CfaKind, RaState, RuleKind
from ..table.by_pc import RulesByPc, RuleSet, by_pc
from ..table.lookup import NOTHING, ranges_at
from ..table.model import NO_FLAGS, FunctionColumns, FunctionFlag, RegisterRule, UnwindTable
from ..table.pcmask import unroll
from .caller import Abi, Caller, Frame, WalkEnd, caller_by_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_REASON = 0
# Random states per rule set; a set with an expression gets more, because expressions may have cases.
STATES, STATES_OF_EXPRESSIONS = 1, 8
_EXPRESSIONS = (RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION)
_LAST_REGISTER = 256
_STACK = 1 << 46  # a random SP is a multiple of 16 below this

Signature: TypeAlias = tuple[object, ...]


class Relation(IntEnum):
    """How two tables are related at a PC."""

    EQUAL = 0
    DIFFERENT = 1
    ONLY_FIRST = 2
    ONLY_SECOND = 3


@dataclass(frozen=True, slots=True)
class Scope:
    """What is compared. `registers`: the caller's registers by DWARF number, beside CFA and return address; None: the
    rules as they are, and the LSDA and personality. `ra_state`: whether return addresses are signed. `flags`: those of
    functions. `marks_undefined`: whether both formats can express that a register other than RA is undefined.
    `has_sp_rule`: whether both can say where SP was saved; if not, a saved SP is taken to have the value that the ABI
    gives it, a fixed distance from the CFA."""

    registers: tuple[int, ...] | None = None
    ra_state: bool = True
    flags: FunctionFlag = ~(FunctionFlag.HAS_LSDA | FunctionFlag.UNKNOWN_AUGMENTATION)
    marks_undefined: bool = True
    has_sp_rule: bool = True


EVERYTHING = Scope()


def sframe_scope(architecture: Architecture, has_signal_frames: bool) -> Scope:
    """What SFrame describes: CFA, RA, SP, FP, and whether the RA is signed; signal frames from version 3 on."""
    registers = unwind_registers(architecture)
    flags = FunctionFlag.PAUTH_B_KEY | (FunctionFlag.SIGNAL_FRAME if has_signal_frames else NO_FLAGS)
    return Scope((registers.sp, registers.fp), flags=flags, has_sp_rule=False)


def stack_cfi_scope(registers: Mapping[int, str], architecture: Architecture) -> Scope:
    """What STACK CFI describes: CFA, RA and the registers that have a name."""
    kept = tuple(number for number in sorted(registers) if number != architecture.return_address)
    return Scope(kept, ra_state=False, flags=NO_FLAGS, marks_undefined=False)


def common_scope(one: Scope, other: Scope) -> Scope:
    """What two formats both describe."""
    registers = one.registers if other.registers is None else other.registers
    if one.registers is not None and other.registers is not None:
        registers = tuple(number for number in one.registers if number in other.registers)
    return Scope(
        registers,
        one.ra_state and other.ra_state,
        one.flags & other.flags,
        one.marks_undefined and other.marks_undefined,
        one.has_sp_rule and other.has_sp_rule,
    )


@columns
class ComparedRanges(Columns):
    """Disjoint PC ranges, ascending, each with one rule set of each table."""

    section: NDArray[np.uint32] = column_of("index", "of the ELF section in a relocatable file; 0 in other files")
    start: NDArray[np.uint64] = column_of("address", "of the first PC")
    end: NDArray[np.uint64] = column_of("address", "after the last PC")
    relation: NDArray[np.uint8] = column_of(Relation)
    first: NDArray[np.int64] = column_of("index", "of the first table's rule set, -1 for none")
    second: NDArray[np.int64] = column_of("index", "of the second table's rule set, -1 for none")
    reason: NDArray[np.uint8] = column_of(Reason, "why the other table lacks the range; 0 if there is no reason")


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The ranges in which at least one of two tables has rules, and the rule sets that they refer to."""

    ranges: ComparedRanges
    first_sets: tuple[RuleSet, ...]
    second_sets: tuple[RuleSet, ...]

    def select(self, relation: Relation) -> ComparedRanges:
        """The ranges of one relation."""
        return self.ranges.select(self.ranges.relation == relation)

    @property
    def is_equal(self) -> bool:
        """Whether the tables are equal, except for ranges that a format cannot express."""
        ranges = self.ranges
        return not bool(((ranges.relation != Relation.EQUAL) & (ranges.reason == NO_REASON)).any())


def compare(
    first: UnwindTable,
    second: UnwindTable,
    scope: Scope = EVERYTHING,
    refused_of_first: Refusals | None = None,
    refused_of_second: Refusals | None = None,
) -> Comparison:
    """Compare two tables of one architecture at every PC. `refused_of_first`: what the second's format cannot express
    of the first table, for the reasons of ranges that the second lacks; `refused_of_second` the other way round.

    A PC that two functions of a table cover belongs to the one that starts first. Raises ParseError if a table has too
    many repetition blocks to expand.
    """
    tables = unroll(first), unroll(second)
    forms = tuple(by_pc(table) for table in tables)
    refused = refused_of_first, refused_of_second
    further = [place for one in refused if one is not None for place in (one.start, one.end)]
    if scope.registers is None:
        further += [place for one in tables for place in _borders(one.functions)]
    parts = [_cut(int(section), forms[0], forms[1], further) for section in _sections(forms)]
    ranges = ComparedRanges.concatenate([ComparedRanges.defaults(0), *parts])
    _relate(ranges, _Evaluator(first.architecture, first.byte_order, scope, forms))
    if scope.registers is None:
        _relate_handlers(ranges, first.functions, second.functions)
    for relation, source, one in zip((Relation.ONLY_FIRST, Relation.ONLY_SECOND), tables, refused, strict=True):
        if one is not None and len(one):
            _give_reasons(ranges, relation, source.functions, one)
    return Comparison(_join(ranges), forms[0].sets, forms[1].sets)


def _borders(functions: FunctionColumns) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    return functions.start, functions.start + functions.size


def _sections(forms: tuple[RulesByPc, ...]) -> NDArray[np.uint32]:
    return distinct_values(np.concatenate([one.section for one in forms]))


def _cut(section: int, first: RulesByPc, second: RulesByPc, further: list[NDArray[np.uint64]]) -> ComparedRanges:
    """The ranges of one section, cut at the boundaries of both tables, and at `further` ones."""
    slices = [np.searchsorted(one.section, [section, section + 1]) for one in (first, second)]
    sides = [
        (one.start[begin:end], one.end[begin:end], one.rules[begin:end])
        for one, (begin, end) in zip((first, second), slices, strict=True)
    ]
    # All columns but the refusals' are ascending, which this sort makes use of.
    places = np.sort(
        np.concatenate([*(place for start, end, _ in sides for place in (start, end)), *further]), kind="stable"
    )
    places = places[run_starts(places)]
    start, end = places[:-1], places[1:]
    found = [_rules_at(*side, start) for side in sides]
    ranges = ComparedRanges.defaults(
        len(start),
        section=np.full(len(start), section, np.uint32),
        start=start,
        end=end,
        first=found[0],
        second=found[1],
    )
    return ranges.select((found[0] != NOTHING) | (found[1] != NOTHING))


def _rules_at(
    start: NDArray[np.uint64], end: NDArray[np.uint64], rules: NDArray[np.int64], pc: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """The rule set of the range that holds each PC, or NOTHING."""
    place = np.searchsorted(start, pc, side="right") - 1
    is_inside = values_at(end, place, 0) > pc
    return np.where(is_inside, values_at(rules, place, NOTHING), NOTHING)


def _relate(ranges: ComparedRanges, evaluator: _Evaluator) -> None:
    """Fill in the relation of each range."""
    first, second = ranges.first, ranges.second
    both = (first != NOTHING) & (second != NOTHING)
    number, one = number_distinct(first[both], second[both])
    pairs = zip(first[both][one].tolist(), second[both][one].tolist(), strict=True)
    is_equal = np.array([evaluator.is_equal(*pair) for pair in pairs], np.bool_)
    ranges.relation[both] = np.where(is_equal[number], Relation.EQUAL, Relation.DIFFERENT)
    ranges.relation[second == NOTHING] = Relation.ONLY_FIRST
    ranges.relation[first == NOTHING] = Relation.ONLY_SECOND


def _relate_handlers(ranges: ComparedRanges, first: FunctionColumns, second: FunctionColumns) -> None:
    """Ranges with equal rules, but another personality or LSDA, are different."""
    where = np.flatnonzero(ranges.relation == Relation.EQUAL)
    wrong = np.zeros(len(where), np.bool_)
    handlers = [_handlers_at(one, ranges.section[where], ranges.start[where]) for one in (first, second)]
    for one, other in zip(*handlers, strict=True):
        wrong |= one != other
    ranges.relation[where[wrong]] = Relation.DIFFERENT


def _handlers_at(
    functions: FunctionColumns, section: NDArray[np.uint32], pc: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], ...]:
    """Personality and LSDA at each PC, each with whether there is one."""
    function = np.full(len(pc), NOTHING, np.int64)
    for one in distinct_values(section):
        there, here = np.flatnonzero(functions.section == one), section == one
        function[here] = values_at(there, ranges_at(functions.start[there], functions.size[there], pc[here]), NOTHING)
    found = functions.select(function)
    has_lsda = (found.flags & FunctionFlag.HAS_LSDA) > 0
    has_personality = found.personality_encoding != FunctionColumns.defaults(1).personality_encoding[0]
    return (
        has_lsda.astype(np.uint64),
        np.where(has_lsda, found.lsda, 0),
        has_personality.astype(np.uint64),
        np.where(has_personality, found.personality, 0),
    )


def _give_reasons(ranges: ComparedRanges, relation: Relation, functions: FunctionColumns, refused: Refusals) -> None:
    """Fill in why ranges of only one table are not in the other."""
    section = functions.section[refused.function]
    for one in distinct_values(section):
        there = section == one
        start, reason = refused.start[there], refused.reason[there]
        where = np.flatnonzero((ranges.relation == relation) & (ranges.section == one))
        found = ranges_at(start, refused.end[there] - start, ranges.start[where])
        ranges.reason[where] = values_at(reason, found, NO_REASON)


def _join(ranges: ComparedRanges) -> ComparedRanges:
    """Adjacent ranges that agree in everything become one."""
    others = (ranges.section, ranges.relation, ranges.first, ranges.second, ranges.reason)
    is_start = range_run_starts(ranges.start, ranges.end, *others)
    return replace(ranges.select(is_start), end=ranges.end[run_ends(is_start)])


class _Evaluator:
    """Compares rule sets of two tables by the callers that they recover; remembers what was evaluated."""

    def __init__(
        self, architecture: Architecture, byte_order: ByteOrder, scope: Scope, forms: tuple[RulesByPc, ...]
    ) -> None:
        self.abi = Abi(architecture, byte_order, architecture.callee_saved)
        self.scope, self.sets = scope, tuple(one.sets for one in forms)
        self.states = [_random_state(seed, architecture) for seed in range(STATES_OF_EXPRESSIONS)]
        self._known: tuple[dict[tuple[int, int], Signature], ...] = ({}, {})

    def is_equal(self, first: int, second: int) -> bool:
        """Whether two rule sets, one of each table, recover the same caller."""
        one, other = self.sets[0][first], self.sets[1][second]
        if self.scope.registers is None:
            return one == other
        states = STATES_OF_EXPRESSIONS if _has_expression(one) or _has_expression(other) else STATES
        return all(self._signature(0, first, state) == self._signature(1, second, state) for state in range(states))

    def _signature(self, side: int, number: int, state: int) -> Signature:
        known, key = self._known[side], (number, state)
        if key not in known:
            known[key] = self._evaluate(self.sets[side][number], self.states[state])
        return known[key]

    def _evaluate(self, rules: RuleSet, frame: Frame) -> Signature:
        """The values that the rule set gives in one state."""
        row, column = rules.row, rules.return_column
        kept = tuple(one for one in row.registers if one.register == column or not self._is_ignored(one))
        caller = caller_by_row(self.abi, replace(row, registers=kept), column, frame, _memory)
        flags = rules.flags & self.scope.flags
        if caller.end is WalkEnd.OUTERMOST:
            return caller.end, flags
        state = row.ra_state if self.scope.ra_state else RaState.PLAIN
        return caller.cfa, caller.end, flags, state, *self._values(caller, column)

    def _is_ignored(self, rule: RegisterRule) -> bool:
        """Whether a rule is replaced by the ABI's default, because one of the formats cannot express it."""
        if rule.kind is RuleKind.UNDEFINED:
            return not self.scope.marks_undefined
        is_saved = rule.kind in (RuleKind.OFFSET, RuleKind.REGISTER, RuleKind.EXPRESSION)
        return is_saved and rule.register == self.abi.architecture.stack_pointer and not self.scope.has_sp_rule

    def _values(self, caller: Caller, return_column: int) -> Signature:
        """The caller's PC and registers. One that is the return address column has no other value than the PC."""
        if caller.frame is None or self.scope.registers is None:
            return ()
        registers = {**caller.frame.registers, return_column: None}
        return caller.frame.pc, *(registers.get(number) for number in self.scope.registers)


def _has_expression(rules: RuleSet) -> bool:
    return rules.row.cfa.kind is CfaKind.EXPRESSION or any(one.kind in _EXPRESSIONS for one in rules.row.registers)


def _random_state(seed: int, architecture: Architecture) -> Frame:
    """A frame with a random value in every register; aligned, as a stack pointer is."""
    draw = random.Random(seed)
    values = {
        number: draw.randrange(1 << 20, _STACK >> (0 if architecture.address_size == 8 else 16)) & ~0xF
        for number in range(_LAST_REGISTER)
    }
    return Frame(draw.randrange(1 << 12, 1 << 30), values)


def _memory(address: int, size: int) -> int:
    """Memory in which every word is another number."""
    return int.from_bytes(blake2b(address.to_bytes(8, "little"), digest_size=size).digest(), "little")
