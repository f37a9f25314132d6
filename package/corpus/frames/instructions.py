"""Call frame instructions that realise given rows, chosen among all that have the same effect (DWARF5 6.4.2).

Strategy: from the rules in force and those of the next row follow the changes; for each change the ways to encode it
are listed, the plainest first, and one is drawn. A drawn `Habit` adds remembered states and instructions without
effect. `INSTRUCTIONS` says how operands are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from enum import Enum

from ...converters.rules import CfaKind, RaState, RuleKind
from ...converters.table.model import CfaRule, RegisterRule, Row
from ...schemas.cfi import DW_CFA, INLINE_MASK, INLINE_OPERANDS, INSTRUCTIONS, OPERAND_KINDS, Operand
from ...schemas.data_classes import dataclass
from ...schemas.pointers import PointerBases
from ..byte_stream import ByteStream
from ..choices import Draw, integers, sampled_from
from .features import INSTRUCTION_FEATURES, Feature
from .row_meaning import window_rules

Way = tuple[DW_CFA, tuple[int | bytes, ...]]

MAX_WAYS = 12
_ONE_OF = [integers(0, count - 1) for count in range(1, MAX_WAYS + 1)]


class Habit(Enum):
    """What comes with a change of rows."""

    PLAIN = "nothing"
    SPLIT = "the location advances in two steps"
    REMEMBER = "the state before is remembered"
    RESTORE = "a remembered state is restored first"
    NOP = "an instruction without effect"
    ADVANCE_BY_0 = "an advance of the location by 0"
    DETOUR = "another state, which is forgotten"
    REPEAT = "an instruction a second time"


_HABITS = sampled_from([Habit.PLAIN] * 8 + [Habit.REMEMBER] * 2 + [Habit.RESTORE] * 3 + list(Habit)[1:])
_NEGATIONS = {
    RaState.SIGNED: DW_CFA.AARCH64_negate_ra_state,
    RaState.SIGNED_WITH_PC: DW_CFA.AARCH64_negate_ra_state_with_pc,
}


@dataclass(slots=True)
class InstructionWriter:
    """Instructions of one CIE or FDE: where they go, what their CIE prescribes, and the rules in force so far.

    `initial`: the row of the CIE, None in the CIE itself. `used` collects the features of what is written, `places` the
    offset of each instruction in the stream and the location where it is executed.
    """

    stream: ByteStream
    code_factor: int
    data_factor: int
    address_encoding: int
    bases: PointerBases
    without: frozenset[Feature]
    used: set[Feature]
    row: Row
    initial: Row | None = None
    remembered: list[Row] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)

    def put(self, opcode: DW_CFA, *operands: int | bytes) -> None:
        """Append an instruction. Offsets are factored; DW_CFA_set_loc has an address."""
        stream = self.stream
        at = len(stream.data)
        self.places.append((at, self.row.offset))
        stream.data.append(opcode)
        for kind, value in zip(INSTRUCTIONS[opcode].operands, operands, strict=True):
            if kind in INLINE_OPERANDS:
                stream.data[at] |= int(value)
            elif kind is Operand.ADDRESS:
                stream.put_pointer(int(value), self.address_encoding, self.bases)
            else:
                stream.put_value(OPERAND_KINDS[kind], value)
        if opcode in INSTRUCTION_FEATURES:
            self.used.add(INSTRUCTION_FEATURES[opcode])

    def put_one_of(self, draw: Draw, ways: Sequence[Way]) -> None:
        """Append one of these instructions that the section may contain."""
        if self.without:
            ways = [way for way in ways if INSTRUCTION_FEATURES.get(way[0]) not in self.without]
        opcode, operands = ways[draw(_ONE_OF[len(ways) - 1])] if len(ways) > 1 else ways[0]
        self.put(opcode, *operands)


def write_rows(draw: Draw, writer: InstructionWriter, rows: Sequence[Row], start: int) -> None:
    """Write the instructions of a function at `start` with these rows; the first one is at offset 0."""
    for row in rows:
        habit = draw(_HABITS)
        if row.offset > writer.row.offset:
            _advance(draw, writer, row.offset, start, habit)
        _follow(draw, writer, habit)
        write_changes(draw, writer, row)


def write_changes(draw: Draw, writer: InstructionWriter, row: Row) -> None:
    """Write what changes the rules in force to those of `row`."""
    if row.cfa != writer.row.cfa:
        writer.put_one_of(draw, cfa_ways(writer.row.cfa, row.cfa, writer.data_factor))
    if row.registers != writer.row.registers:
        _write_rules(draw, writer, row.registers)
    if row.ra_state is not writer.row.ra_state:
        for state in (writer.row.ra_state, row.ra_state):
            if state in _NEGATIONS:
                _negate(writer, state)
    if row.args_size != writer.row.args_size:
        writer.put(DW_CFA.GNU_args_size, row.args_size)
    writer.row = row


def _negate(writer: InstructionWriter, state: RaState) -> None:
    """Change between PLAIN and another state."""
    writer.put(_NEGATIONS[state])
    if state is RaState.SIGNED:
        # The opcode has another meaning elsewhere.
        writer.used.add(Feature.NEGATE_RA_STATE)


def _write_rules(draw: Draw, writer: InstructionWriter, rules: tuple[RegisterRule, ...]) -> None:
    """Write what changes the register rules in force to `rules`."""
    old = {rule.register: rule for rule in writer.row.registers}
    new = {rule.register: rule for rule in rules}
    initial = {} if writer.initial is None else {rule.register: rule for rule in writer.initial.registers}
    windows = window_rules(writer.stream.address_size)
    if Feature.WINDOW_SAVE not in writer.without and all(new.get(rule.register) == rule for rule in windows):
        if not all(old.get(rule.register) == rule for rule in windows):
            writer.put(DW_CFA.GNU_window_save)
            writer.used.add(Feature.WINDOW_SAVE)
        old |= {rule.register: rule for rule in windows}
    for register in sorted(old.keys() | new.keys()):
        if old.get(register) == new.get(register):
            continue
        ways: list[Way] = []
        if register in new:
            ways = rule_ways(new[register], writer.data_factor)
        if writer.initial is not None and new.get(register) == initial.get(register):
            ways += _ways_to_restore(register)
        writer.put_one_of(draw, ways)


def cfa_ways(old: CfaRule, new: CfaRule, data_factor: int) -> list[Way]:
    """The instructions that change the CFA rule `old` to `new`."""
    if isinstance(new.value, bytes):
        return [(DW_CFA.def_cfa_expression, (new.value,))]
    register, offset = new.register, new.value
    factored, rest = divmod(offset, data_factor)
    ways: list[Way] = []
    if offset >= 0:
        ways.append((DW_CFA.def_cfa, (register, offset)))
    if old.kind is CfaKind.REGISTER and old.register == register:
        if offset >= 0:
            ways.append((DW_CFA.def_cfa_offset, (offset,)))
        if not rest:
            ways.append((DW_CFA.def_cfa_offset_sf, (factored,)))
    if old.kind is CfaKind.REGISTER and old.value == offset:
        ways.append((DW_CFA.def_cfa_register, (register,)))
    if not rest:
        ways.append((DW_CFA.def_cfa_sf, (register, factored)))
    return ways


_OPERAND_RULES = {
    RuleKind.UNDEFINED: DW_CFA.undefined,
    RuleKind.SAME_VALUE: DW_CFA.same_value,
    RuleKind.REGISTER: DW_CFA.register,
    RuleKind.EXPRESSION: DW_CFA.expression,
    RuleKind.VAL_EXPRESSION: DW_CFA.val_expression,
}


def rule_ways(rule: RegisterRule, data_factor: int) -> list[Way]:
    """The instructions that give a register its rule."""
    register, kind, value = rule
    if kind in _OPERAND_RULES:
        has_value = kind not in (RuleKind.UNDEFINED, RuleKind.SAME_VALUE)
        return [(_OPERAND_RULES[kind], (register, value) if has_value else (register,))]
    factored = int(value) // data_factor
    if kind is RuleKind.VAL_OFFSET:
        signed: list[Way] = [(DW_CFA.val_offset_sf, (register, factored))]
        return [(DW_CFA.val_offset, (register, factored)), *signed] if factored >= 0 else signed
    ways: list[Way] = []
    if factored >= 0:
        if register <= INLINE_MASK:
            ways.append((DW_CFA.offset, (register, factored)))
        ways.append((DW_CFA.offset_extended, (register, factored)))
    ways.append((DW_CFA.offset_extended_sf, (register, factored)))
    if factored <= 0:
        ways.append((DW_CFA.GNU_negative_offset_extended, (register, -factored)))
    return ways


def _ways_to_restore(register: int) -> list[Way]:
    inline: list[Way] = [(DW_CFA.restore, (register,))] if register <= INLINE_MASK else []
    return [*inline, (DW_CFA.restore_extended, (register,))]


def _advance(draw: Draw, writer: InstructionWriter, offset: int, start: int, habit: Habit) -> None:
    """Advance the location to `offset` bytes after `start`."""
    distance = (offset - writer.row.offset) // writer.code_factor
    if habit is Habit.SPLIT and distance > 1:
        _advance_by(draw, writer, distance // 2, start)
        distance -= distance // 2
    _advance_by(draw, writer, distance, start)


def _advance_by(draw: Draw, writer: InstructionWriter, distance: int, start: int) -> None:
    """Advance the location by `distance` units."""
    offset = writer.row.offset + distance * writer.code_factor
    ways: list[Way] = [(DW_CFA.advance_loc, (distance,))] if distance <= INLINE_MASK else []
    sizes = (
        (1, DW_CFA.advance_loc1),
        (2, DW_CFA.advance_loc2),
        (4, DW_CFA.advance_loc4),
        (8, DW_CFA.MIPS_advance_loc8),
    )
    ways += [(opcode, (distance,)) for size, opcode in sizes if distance >> 8 * size == 0]
    ways.append((DW_CFA.set_loc, (start + offset,)))
    writer.put_one_of(draw, ways)
    writer.row = replace(writer.row, offset=offset)


def _remember(writer: InstructionWriter) -> bool:
    """Write DW_CFA_remember_state, if the section may contain it here."""
    if writer.remembered:
        if Feature.NESTED_STATES in writer.without:
            return False
        writer.used.add(Feature.NESTED_STATES)
    writer.put(DW_CFA.remember_state)
    return True


def _follow(draw: Draw, writer: InstructionWriter, habit: Habit) -> None:
    """Write what a habit adds before the change. Rules in force are replaced only by a remembered state."""
    match habit:
        case Habit.REMEMBER if _remember(writer):
            writer.remembered.append(writer.row)
        case Habit.RESTORE if writer.remembered:
            # All but the location and the size of the arguments.
            writer.put(DW_CFA.restore_state)
            now = writer.row
            writer.row = replace(writer.remembered.pop(), offset=now.offset, args_size=now.args_size)
        case Habit.NOP:
            writer.put(DW_CFA.nop)
        case Habit.ADVANCE_BY_0 if Feature.ADVANCE_BY_0 not in writer.without:
            writer.used.add(Feature.ADVANCE_BY_0)
            writer.put(DW_CFA.advance_loc, 0)
        case Habit.DETOUR if _remember(writer):
            writer.put(DW_CFA.same_value, 3)
            writer.put(DW_CFA.def_cfa, 5, 24)
            writer.put(DW_CFA.restore_state)
        case Habit.REPEAT:
            _repeat(draw, writer)
        case _:
            pass


def _repeat(draw: Draw, writer: InstructionWriter) -> None:
    """Write rules that are already in force; two negations of the return address' state."""
    if writer.row.registers:
        writer.put_one_of(draw, rule_ways(writer.row.registers[0], writer.data_factor))
    if writer.row.args_size:
        writer.put(DW_CFA.GNU_args_size, writer.row.args_size)
    if writer.row.ra_state in _NEGATIONS:
        for _ in range(2):
            _negate(writer, writer.row.ra_state)
