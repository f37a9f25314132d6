"""The instructions of drawn sequences: each row in one of the ways that produce it.

Strategy: a way is a list of instructions for an advance of the operations and of the line; it is drawn among those that
are possible in the unit.
"""

from __future__ import annotations

from typing import NamedTuple

from ...schemas.line import DW_LNE, DW_LNS, EXTENDED_OPCODE
from ...schemas.line import STANDARD as STANDARD_OPCODES
from ..byte_stream import leb
from ..choices import Draw, binary, integers, sampled_from
from ..wire_writer import WireWriter
from .meaning import (
    HAS_FORMATS,
    SET_INSIDE,
    UNKNOWN_EXTENDED,
    UNKNOWN_STANDARD,
    LineProgram,
    LineRow,
    LineSequence,
    Setting,
)

_HABITS = integers(0, 15)
_UNKNOWN_OPCODES = sampled_from([0x80, 0x21, 0xFE])
_UNKNOWN_OPERANDS = binary(max_size=9)
_OPERANDS = sampled_from([0, 1, 127, 128, 70000])
_MAX_FIXED = 0xFFFF
_FIRST_UNKNOWN = len(STANDARD_OPCODES) + 1


class Instruction(NamedTuple):
    """A standard or extended instruction and its operand; a special opcode is a plain integer."""

    opcode: int
    operand: int | bytes | None = None


Way = list[Instruction]


class ProgramWriter:
    """The program of a unit as it is written. `used` are features in it."""

    def __init__(self, setting: Setting, program: LineProgram, name: str) -> None:
        self.setting, self.program = setting, program
        self.writer = WireWriter(setting.byte_order)
        self.used: set[str] = set()
        self._name, self._prefix, self._count = name, name, 0
        # In the registers, files are indices in `paths`.
        self.initial = LineRow(0, 1 if setting.version >= HAS_FORMATS else 0, 1, 0)

    def start(self, sequence: int) -> None:
        """Name the fields of a sequence."""
        self._prefix, self._count = f"{self._name}.sequence[{sequence}]", 0

    def next_name(self) -> str:
        """The name of the next instruction."""
        self._count += 1
        return f"{self._prefix}.instruction[{self._count - 1}]"

    def put(self, *instructions: Instruction) -> None:
        """Append instructions."""
        for opcode, operand in instructions:
            if isinstance(opcode, DW_LNE):
                self.put_extended(opcode, operand if isinstance(operand, bytes) else b"")
                continue
            name = self.next_name()
            self.writer.put(f"{name}.opcode", opcode, 1)
            if opcode == DW_LNS.fixed_advance_pc and isinstance(operand, int):
                self.writer.put(f"{name}.operand", operand, 2)
            elif isinstance(operand, int):
                signed = opcode == DW_LNS.advance_line
                self.writer.put_leb(f"{name}.operand", operand, signed=signed, padding=self.program.padding)
            elif operand is not None:
                self.writer.put_bytes(f"{name}.operands", operand)

    def put_extended(self, opcode: int, operand: bytes) -> None:
        """Append an extended instruction."""
        name = self.next_name()
        self.writer.put(f"{name}.escape", EXTENDED_OPCODE, 1)
        self.writer.put_leb(f"{name}.length", 1 + len(operand), padding=self.program.padding)
        self.writer.put(f"{name}.opcode", opcode, 1)
        self.writer.put_bytes(f"{name}.operand", operand)

    def set_address(self, address: int) -> Instruction:
        """DW_LNE_set_address."""
        size = self.setting.architecture.address_size
        return Instruction(DW_LNE.set_address, address.to_bytes(size, self.setting.byte_order))

    def special(self, operations: int, lines: int) -> Way | None:
        """The special opcode of an advance, if there is one (DWARF5 6.2.5.1)."""
        one = self.program
        opcode = lines - one.line_base + one.line_range * operations + one.opcode_base
        is_possible = operations >= 0 and 0 <= lines - one.line_base < one.line_range and opcode <= 255
        return [Instruction(opcode)] if is_possible else None


def write_sequence(draw: Draw, out: ProgramWriter, index: int) -> None:
    """Append the instructions of a sequence."""
    sequence = out.program.sequences[index]
    out.start(index)
    out.put(out.set_address(sequence.start))
    if index == 0:
        _define_files(out)
    state = out.initial
    for row in sequence.rows:
        _write_noise(draw, out)
        _write_registers(draw, out, state, row)
        ways = _dividing_ways(out, state, row)
        if not ways or draw(_HABITS) < 4:
            ways = _plain_ways(out, sequence, state, row)
        _put_way(out, draw(sampled_from(ways)))
        state = row
    _put_way(out, draw(sampled_from(_advances(out, sequence, state.operations, sequence.operations))))
    out.put(Instruction(DW_LNE.end_sequence))


def _put_way(out: ProgramWriter, way: Way) -> None:
    if any(one.opcode is DW_LNE.set_address for one in way):
        out.used.add(SET_INSIDE)
    out.put(*way)


def _define_files(out: ProgramWriter) -> None:
    """DW_LNE_define_file of the last files, which are not in the header."""
    one = out.program
    for file in one.files[len(one.files) - one.defined :]:
        numbers = b"".join(leb(value, signed=False) for value in (file.directory, 0, 0))
        out.put(Instruction(DW_LNE.define_file, file.name.encode() + b"\0" + numbers))


def _advances(out: ProgramWriter, sequence: LineSequence, old: int, new: int) -> list[Way]:
    """The ways to advance the operations without a row."""
    one = out.program
    ways = [[Instruction(DW_LNS.advance_pc, new - old)] if new > old else []]
    if new % one.maximum_operations == 0:
        address = one.address(sequence, new)
        distance = address - one.address(sequence, old)
        if one.opcode_base > DW_LNS.fixed_advance_pc and distance <= _MAX_FIXED:
            ways.append([Instruction(DW_LNS.fixed_advance_pc, distance)])
        if out.setting.has(SET_INSIDE):
            ways.append([out.set_address(address)])
    return ways


def _plain_ways(out: ProgramWriter, sequence: LineSequence, state: LineRow, row: LineRow) -> list[Way]:
    """The ways to a row with DW_LNS_copy."""
    lines = row.line - state.line
    line = [Instruction(DW_LNS.advance_line, lines)] if lines else []
    copy = Instruction(DW_LNS.copy)
    return [[*way, *line, copy] for way in _advances(out, sequence, state.operations, row.operations)]


def _dividing_ways(out: ProgramWriter, state: LineRow, row: LineRow) -> list[Way]:
    """The ways to a row with a special opcode."""
    one, lines, advance = out.program, row.line - state.line, row.operations - state.operations
    pc, line = Instruction(DW_LNS.advance_pc, advance), Instruction(DW_LNS.advance_line, lines)
    const_advance = (255 - one.opcode_base) // one.line_range
    tried: list[tuple[Way, Way | None]] = [
        ([], out.special(advance, lines)),
        ([line], out.special(advance, 0)),
        ([pc], out.special(0, lines)),
        ([pc, line], out.special(0, 0)),
    ]
    if one.opcode_base > DW_LNS.const_add_pc:
        const = Instruction(DW_LNS.const_add_pc)
        tried += [
            ([const], out.special(advance - const_advance, lines)),
            ([line, const], out.special(advance - const_advance, 0)),
        ]
    return [[*before, *last] for before, last in tried if last is not None]


def _write_registers(draw: Draw, out: ProgramWriter, state: LineRow, row: LineRow) -> None:
    """Set the file and the column, sometimes to what they are."""
    habit = draw(_HABITS)
    if row.file != state.file or habit == 1:
        number = row.file if out.setting.version >= HAS_FORMATS else row.file + 1
        out.put(Instruction(DW_LNS.set_file, number))
    if row.column != state.column or habit == 2:
        out.put(Instruction(DW_LNS.set_column, row.column))


def _write_noise(draw: Draw, out: ProgramWriter) -> None:
    """Write an instruction that no answer depends on, or none."""
    habit, base = draw(_HABITS), out.program.opcode_base
    flags = {3: DW_LNS.negate_stmt, 4: DW_LNS.set_basic_block, 5: DW_LNS.set_prologue_end, 6: DW_LNS.set_epilogue_begin}
    if habit in flags and flags[habit] < base:
        out.put(Instruction(flags[habit]))
    elif habit == 7 and base > DW_LNS.set_isa:
        out.put(Instruction(DW_LNS.set_isa, draw(_OPERANDS)))
    elif habit == 8:
        out.put(Instruction(DW_LNE.set_discriminator, leb(draw(_OPERANDS), signed=False)))
    elif habit == 9 and out.setting.has(UNKNOWN_EXTENDED):
        out.used.add(UNKNOWN_EXTENDED)
        out.put_extended(draw(_UNKNOWN_OPCODES), draw(_UNKNOWN_OPERANDS))
    elif habit in (10, 11, 12) and base > _FIRST_UNKNOWN and out.setting.has(UNKNOWN_STANDARD):
        opcode = draw(integers(_FIRST_UNKNOWN, base - 1))
        out.used.add(UNKNOWN_STANDARD)
        count = out.program.opcode_lengths[opcode - 1]
        out.put(Instruction(opcode, b"".join(leb(draw(_OPERANDS), signed=False) for _ in range(count))))
