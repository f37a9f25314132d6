# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The state machine of line number programs, and the rows that it makes (DWARF5 6.2.2, 6.2.5).

Strategy: `Machine.step` decodes one instruction by the schema's table and applies it to the registers; a row is there
where it says so. `run` runs the programs of a whole section, twice: to count, and to fill columns of that length.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas.line import EXTENDED_OPCODE as EXTENDED_VALUE
from ....schemas.line import LineEffect, RowFlag
from ..protocol import Fault
from .protocol import UnitField

if not cython.compiled:
    from ..array_types import I64, U8, U32, U64, ConstI64_2D, ConstU8
    from ..shared.reads import Reader

EXTENDED = cython.declare(cython.int, EXTENDED_VALUE)
LAST_OPCODE = cython.declare(cython.int, 255)

DO_NOTHING = cython.declare(cython.int, int(LineEffect.NOTHING))
DO_SPECIAL = cython.declare(cython.int, int(LineEffect.SPECIAL))
DO_COPY = cython.declare(cython.int, int(LineEffect.COPY))
DO_ADVANCE_PC = cython.declare(cython.int, int(LineEffect.ADVANCE_PC))
DO_ADVANCE_LINE = cython.declare(cython.int, int(LineEffect.ADVANCE_LINE))
DO_SET_FILE = cython.declare(cython.int, int(LineEffect.SET_FILE))
DO_SET_COLUMN = cython.declare(cython.int, int(LineEffect.SET_COLUMN))
DO_NEGATE_STMT = cython.declare(cython.int, int(LineEffect.NEGATE_STMT))
DO_SET_BASIC_BLOCK = cython.declare(cython.int, int(LineEffect.SET_BASIC_BLOCK))
DO_CONST_ADD_PC = cython.declare(cython.int, int(LineEffect.CONST_ADD_PC))
DO_FIXED_ADVANCE_PC = cython.declare(cython.int, int(LineEffect.FIXED_ADVANCE_PC))
DO_SET_PROLOGUE_END = cython.declare(cython.int, int(LineEffect.SET_PROLOGUE_END))
DO_SET_EPILOGUE_BEGIN = cython.declare(cython.int, int(LineEffect.SET_EPILOGUE_BEGIN))
DO_SET_ISA = cython.declare(cython.int, int(LineEffect.SET_ISA))
DO_END_SEQUENCE = cython.declare(cython.int, int(LineEffect.END_SEQUENCE))
DO_SET_ADDRESS = cython.declare(cython.int, int(LineEffect.SET_ADDRESS))
DO_DEFINE_FILE = cython.declare(cython.int, int(LineEffect.DEFINE_FILE))
DO_SET_DISCRIMINATOR = cython.declare(cython.int, int(LineEffect.SET_DISCRIMINATOR))

IS_STMT = cython.declare(cython.int, int(RowFlag.IS_STMT))
BASIC_BLOCK = cython.declare(cython.int, int(RowFlag.BASIC_BLOCK))
END_SEQUENCE = cython.declare(cython.int, int(RowFlag.END_SEQUENCE))
PROLOGUE_END = cython.declare(cython.int, int(RowFlag.PROLOGUE_END))
EPILOGUE_BEGIN = cython.declare(cython.int, int(RowFlag.EPILOGUE_BEGIN))

NO_OPCODE = cython.declare(cython.int, int(Fault.NO_OPCODE))
INSTRUCTION_PAST_END = cython.declare(cython.int, int(Fault.INSTRUCTION_PAST_END))
BAD_ADDRESS_SIZE = cython.declare(cython.int, int(Fault.BAD_ADDRESS_SIZE))
REGISTER_OVERFLOW = cython.declare(cython.int, int(Fault.REGISTER_OVERFLOW))
ADDRESS_DESCENDS = cython.declare(cython.int, int(Fault.ADDRESS_DESCENDS))
SEQUENCE_NOT_ENDED = cython.declare(cython.int, int(Fault.SEQUENCE_NOT_ENDED))
CUT = cython.declare(cython.int, int(Fault.CUT))

F_PROGRAM = cython.declare(cython.int, int(UnitField.PROGRAM))
F_END = cython.declare(cython.int, int(UnitField.END))
F_OPCODE_LENGTHS = cython.declare(cython.int, int(UnitField.OPCODE_LENGTHS))
F_ADDRESS_SIZE = cython.declare(cython.int, int(UnitField.ADDRESS_SIZE))
F_MINIMUM = cython.declare(cython.int, int(UnitField.MINIMUM_INSTRUCTION_LENGTH))
F_MAXIMUM = cython.declare(cython.int, int(UnitField.MAXIMUM_OPERATIONS))
F_DEFAULT_IS_STMT = cython.declare(cython.int, int(UnitField.DEFAULT_IS_STMT))
F_LINE_BASE = cython.declare(cython.int, int(UnitField.LINE_BASE))
F_LINE_RANGE = cython.declare(cython.int, int(UnitField.LINE_RANGE))
F_OPCODE_BASE = cython.declare(cython.int, int(UnitField.OPCODE_BASE))


ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
REGISTER_MAX = cython.declare(cython.longlong, 0xFFFFFFFF)


@cython.final
@cython.cclass
class Machine:
    """The registers, the header's parameters, and the instruction decoded last.

    `standard` and `extended` have the effect of each opcode. Of the instruction: `at`, where it starts; `opcode`, the
    adjusted one of a special opcode, the second one of an extended instruction; `is_extended`; `advance`, what the
    operation pointer was advanced by; `operand`, as unsigned 64 bits; `begin` and `stop`, the section offsets of the
    operands. `view` is for who prints. Line, file and so on have 64 bits; only rows have to fit 32.
    """

    def __init__(
        self,
        reader: Reader,
        standard: ConstU8,
        extended: ConstU8,
    ) -> None:
        self.reader = reader
        self.standard = standard
        self.extended = extended
        self.operand = self.view = 0
        self.begin = self.stop = 0

    def enter(self, unit: ConstI64_2D, number: cython.longlong) -> None:
        """Stand at the beginning of a unit's program."""
        size: cython.int = cython.cast(cython.int, unit[number, F_ADDRESS_SIZE])
        self.reader.offset = unit[number, F_PROGRAM]
        self.reader.end = unit[number, F_END]
        self.end = unit[number, F_END]
        self.opcode_lengths = unit[number, F_OPCODE_LENGTHS]
        self.minimum_length = cython.cast(cython.ulonglong, unit[number, F_MINIMUM])
        self.maximum_operations = cython.cast(cython.ulonglong, unit[number, F_MAXIMUM])
        self.default_is_stmt = unit[number, F_DEFAULT_IS_STMT] != 0
        self.line_base = unit[number, F_LINE_BASE]
        self.line_range = cython.cast(cython.int, unit[number, F_LINE_RANGE])
        self.opcode_base = cython.cast(cython.int, unit[number, F_OPCODE_BASE])
        self.const_add = cython.cast(cython.ulonglong, (LAST_OPCODE - self.opcode_base) // self.line_range)
        self.mask = ALL_ONES if size >= 8 else (cython.cast(cython.ulonglong, 1) << 8 * size) - 1
        self.begin_sequence()

    def begin_sequence(self) -> None:
        """The registers at the beginning of a sequence."""
        self.address = self.op_index = 0
        self.file = self.line = 1
        self.column = self.isa = self.discriminator = 0
        self.is_stmt = self.default_is_stmt
        self.marks = 0
        self.view = 0

    def begin_row(self) -> None:
        """The registers after a row."""
        self.discriminator = 0
        self.marks = 0
        self.is_placed = 0

    def advance_by(self, advance: cython.ulonglong) -> None:
        """Advance the operation pointer (DWARF5 6.2.5.1)."""
        total: cython.ulonglong
        self.advance = advance
        if self.maximum_operations == 1:
            self.address = self.address + self.minimum_length * advance & self.mask
        else:
            total = self.op_index + advance & ALL_ONES
            self.address = self.address + self.minimum_length * (total // self.maximum_operations) & self.mask
            self.op_index = total % self.maximum_operations

    def step(self, reader: Reader) -> cython.int:
        """Decode the next instruction and apply it; return its effect. At a fault the reader's place has no meaning.

        After a row the caller calls `begin_row`, after the row of an end of sequence `begin_sequence`.
        """
        self.at = reader.offset
        self.opcode = reader.data[reader.offset]
        reader.offset += 1
        self.is_extended = 0
        self.advance = 0
        if self.opcode >= self.opcode_base:
            self.opcode -= self.opcode_base
            self.line += self.line_base + self.opcode % self.line_range
            self.advance_by(cython.cast(cython.ulonglong, self.opcode // self.line_range))
            return DO_SPECIAL
        self.begin = reader.offset
        return self.step_extended(reader) if self.opcode == EXTENDED else self.step_standard(reader)

    def step_standard(self, reader: Reader) -> cython.int:
        """A standard instruction, whose operands are next."""
        effect: cython.int = self.standard[self.opcode]
        if effect == DO_NOTHING:
            for _ in range(reader.data[self.opcode_lengths + self.opcode - 1]):
                reader.uleb()
        elif effect == DO_ADVANCE_PC:
            self.operand = reader.uleb()
            self.advance_by(self.operand)
        elif effect == DO_ADVANCE_LINE:
            self.line_advance = reader.sleb()
            self.add_to_line()
        elif effect == DO_SET_FILE:
            self.operand = self.file = reader.uleb()
        elif effect == DO_SET_COLUMN:
            self.operand = self.column = reader.uleb()
        elif effect == DO_SET_ISA:
            self.operand = self.isa = reader.uleb()
        elif effect == DO_NEGATE_STMT:
            self.is_stmt = not self.is_stmt
        elif effect == DO_SET_BASIC_BLOCK:
            self.marks |= BASIC_BLOCK
        elif effect == DO_CONST_ADD_PC:
            self.advance_by(self.const_add)
        elif effect == DO_FIXED_ADVANCE_PC:
            self.operand = reader.fixed(2)
            self.address = self.address + self.operand & self.mask
            self.op_index = 0
        elif effect == DO_SET_PROLOGUE_END:
            self.marks |= PROLOGUE_END
        elif effect == DO_SET_EPILOGUE_BEGIN:
            self.marks |= EPILOGUE_BEGIN
        self.stop = reader.offset
        return effect

    def add_to_line(self) -> None:
        """Add `line_advance`; a sum outside 32 bits is a fault of the row that has it, not before."""
        # No sum of two such numbers leaves 64 bits.
        if self.line_advance > 2 * REGISTER_MAX or self.line_advance < -2 * REGISTER_MAX:
            self.reader.fault = REGISTER_OVERFLOW
        elif -2 * REGISTER_MAX <= self.line <= 2 * REGISTER_MAX:
            self.line += self.line_advance
        else:
            self.reader.fault = REGISTER_OVERFLOW

    def step_extended(self, reader: Reader) -> cython.int:
        """An extended instruction, whose length is next."""
        length: cython.ulonglong = reader.uleb()
        effect: cython.int
        self.is_extended = 1
        if reader.fault:
            return DO_NOTHING
        if length == 0:
            reader.fault = NO_OPCODE
            return DO_NOTHING
        if length > cython.cast(cython.ulonglong, self.end - reader.offset):
            reader.fault = INSTRUCTION_PAST_END
            return DO_NOTHING
        self.opcode = reader.data[reader.offset]
        self.begin = reader.offset + 1
        self.stop = reader.offset + cython.cast(cython.longlong, length)
        reader.offset = self.begin
        reader.end = self.stop
        effect = self.extended[self.opcode]
        if effect == DO_SET_ADDRESS:
            if length < 2 or length > 9:
                reader.fault = BAD_ADDRESS_SIZE
                return effect
            self.operand = reader.fixed(cython.cast(cython.int, length - 1))
            self.address = self.operand & self.mask
            self.op_index = 0
            self.is_placed = 1
        elif effect == DO_SET_DISCRIMINATOR:
            self.operand = self.discriminator = reader.uleb()
        elif effect == DO_DEFINE_FILE:
            while reader.offset < reader.end and reader.data[reader.offset]:
                reader.offset += 1
            if reader.offset >= reader.end:
                reader.fault = CUT
                return effect
            reader.offset += 1
            for _ in range(3):
                reader.uleb()
        reader.offset = self.stop
        reader.end = self.end
        return effect


@cython.final
@cython.cclass
class Rows:
    """The columns for rows, sequences and files that programs define, or, where these have no space, their counts
    alone: `row`, `sequence`, `defined`.

    A sequence has its unit and the number of the row after its last; a defined file its unit and the offset of its
    name.
    """

    def __init__(
        self,
        address: U64,
        op_index: U8,
        file: U32,
        line: U32,
        column: U32,
        isa: U32,
        discriminator: U32,
        flags: U8,
        sequence_unit: U32,
        sequence_end: I64,
        defined_unit: I64,
        defined_at: I64,
    ) -> None:
        self.address = address
        self.op_index = op_index
        self.file = file
        self.line = line
        self.column = column
        self.isa = isa
        self.discriminator = discriminator
        self.flags = flags
        self.sequence_unit = sequence_unit
        self.sequence_end = sequence_end
        self.defined_unit = defined_unit
        self.defined_at = defined_at
        self.row = self.first_row = self.sequence = self.defined = 0
        self.last_address = self.last_op_index = 0

    def check(self, machine: Machine) -> cython.int:
        """The fault of the row that the registers make; 0 for none."""
        if (
            machine.file > REGISTER_MAX
            or machine.column > REGISTER_MAX
            or machine.isa > REGISTER_MAX
            or machine.discriminator > REGISTER_MAX
            or machine.line < 0
            or machine.line > REGISTER_MAX
        ):
            return REGISTER_OVERFLOW
        if self.row > self.first_row:
            if machine.address < self.last_address:
                # A small step past the largest address is no way down: linkers put there what they drop.
                if machine.address - self.last_address & machine.mask > machine.mask >> 1:
                    return ADDRESS_DESCENDS
            elif machine.address == self.last_address and machine.op_index < self.last_op_index:
                return ADDRESS_DESCENDS
        return 0

    def put(self, machine: Machine, mark: cython.int) -> None:
        """The row that the registers make; `mark` is END_SEQUENCE or 0."""
        row: cython.longlong = self.row
        if row < self.address.shape[0]:
            self.address[row] = machine.address
            self.op_index[row] = machine.op_index
            self.file[row] = machine.file
            self.line[row] = machine.line
            self.column[row] = machine.column
            self.isa[row] = machine.isa
            self.discriminator[row] = machine.discriminator
            self.flags[row] = machine.marks | (IS_STMT if machine.is_stmt else 0) | mark
        self.last_address = machine.address
        self.last_op_index = machine.op_index
        self.row += 1

    def put_end(self, number: cython.longlong) -> None:
        """The end of a sequence of a unit."""
        if self.sequence < self.sequence_end.shape[0]:
            self.sequence_unit[self.sequence] = number
            self.sequence_end[self.sequence] = self.row
        self.sequence += 1
        self.first_row = self.row

    def put_break(self, number: cython.longlong) -> None:
        """The end of a sequence at its last row, because the next one is placed below it."""
        if self.row <= self.address.shape[0]:
            self.flags[self.row - 1] |= END_SEQUENCE
        self.put_end(number)

    def put_file(self, number: cython.longlong, at: cython.longlong) -> None:
        """A file that a unit's program defines."""
        if self.defined < self.defined_at.shape[0]:
            self.defined_unit[self.defined] = number
            self.defined_at[self.defined] = at
        self.defined += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_unit(machine: Machine, reader: Reader, rows: Rows, number: cython.longlong) -> cython.void:
    """Run the program that the machine is in, up to its end or a fault."""
    effect: cython.int
    is_end: cython.int
    while reader.offset < machine.end:
        effect = machine.step(reader)
        is_end = effect == DO_END_SEQUENCE
        if is_end or effect == DO_SPECIAL or effect == DO_COPY:
            if not reader.fault:
                reader.fault = rows.check(machine)
            if reader.fault == ADDRESS_DESCENDS and machine.is_placed:
                # Linkers place discarded code at 0, also when it continues a sequence.
                reader.fault = 0
                rows.put_break(number)
            if not reader.fault:
                rows.put(machine, END_SEQUENCE if is_end else 0)
                if is_end:
                    rows.put_end(number)
                    machine.begin_sequence()
                else:
                    machine.begin_row()
        elif effect == DO_DEFINE_FILE and not reader.fault:
            rows.put_file(number, machine.begin)
        if reader.fault:
            reader.offset = machine.at
            return
    if rows.row > rows.first_row:
        reader.fault = SEQUENCE_NOT_ENDED


@cython.ccall
@cython.exceptval(-1, check=False)
def run(machine: Machine, unit: ConstI64_2D, rows: Rows) -> cython.longlong:
    """Run the programs of all units; return how many were run (all, but for a fault in the next one). At a fault the
    reader is at the instruction."""
    number: cython.longlong
    with cython.nogil:
        for number in range(unit.shape[0]):
            machine.enter(unit, number)
            run_unit(machine, machine.reader, rows, number)
            if machine.reader.fault:
                return number
        return unit.shape[0]
