# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows of a line table as a line number program: for each row the shortest instructions there are.

Strategy: the registers after a row are the row's own values, so that the shortest way to each row is the shortest
program. Marks and registers cost what they cost; of line and address all ways are tried whose last instruction, a
special opcode or DW_LNS_copy, makes the row. Operation advances are tried after DW_LNS_fixed_advance_pc only: it sets
op_index to 0. Runs twice; without space it only counts.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas.line import DW_LNE, DW_LNS, RowFlag
from ....schemas.line import EXTENDED_OPCODE as EXTENDED_VALUE
from ..protocol import Fault
from .protocol import UnitField

if not cython.compiled:
    from ..array_types import I64, ConstI64, ConstI64_2D, ConstU8, ConstU32, ConstU64
    from ..shared.writes import Writer, sleb_size, uleb_size

COPY = cython.declare(cython.int, int(DW_LNS.copy))
ADVANCE_PC = cython.declare(cython.int, int(DW_LNS.advance_pc))
ADVANCE_LINE = cython.declare(cython.int, int(DW_LNS.advance_line))
SET_FILE = cython.declare(cython.int, int(DW_LNS.set_file))
SET_COLUMN = cython.declare(cython.int, int(DW_LNS.set_column))
NEGATE_STMT = cython.declare(cython.int, int(DW_LNS.negate_stmt))
SET_BASIC_BLOCK = cython.declare(cython.int, int(DW_LNS.set_basic_block))
CONST_ADD_PC = cython.declare(cython.int, int(DW_LNS.const_add_pc))
FIXED_ADVANCE_PC = cython.declare(cython.int, int(DW_LNS.fixed_advance_pc))
SET_PROLOGUE_END = cython.declare(cython.int, int(DW_LNS.set_prologue_end))
SET_EPILOGUE_BEGIN = cython.declare(cython.int, int(DW_LNS.set_epilogue_begin))
SET_ISA = cython.declare(cython.int, int(DW_LNS.set_isa))
END_OPCODE = cython.declare(cython.int, int(DW_LNE.end_sequence))
ADDRESS_OPCODE = cython.declare(cython.int, int(DW_LNE.set_address))
DISCRIMINATOR_OPCODE = cython.declare(cython.int, int(DW_LNE.set_discriminator))
EXTENDED = cython.declare(cython.int, EXTENDED_VALUE)

IS_STMT = cython.declare(cython.int, int(RowFlag.IS_STMT))
BASIC_BLOCK = cython.declare(cython.int, int(RowFlag.BASIC_BLOCK))
END_SEQUENCE = cython.declare(cython.int, int(RowFlag.END_SEQUENCE))
PROLOGUE_END = cython.declare(cython.int, int(RowFlag.PROLOGUE_END))
EPILOGUE_BEGIN = cython.declare(cython.int, int(RowFlag.EPILOGUE_BEGIN))

F_ADDRESS_SIZE = cython.declare(cython.int, int(UnitField.ADDRESS_SIZE))
F_MINIMUM = cython.declare(cython.int, int(UnitField.MINIMUM_INSTRUCTION_LENGTH))
F_MAXIMUM = cython.declare(cython.int, int(UnitField.MAXIMUM_OPERATIONS))
F_DEFAULT_IS_STMT = cython.declare(cython.int, int(UnitField.DEFAULT_IS_STMT))
F_LINE_BASE = cython.declare(cython.int, int(UnitField.LINE_BASE))
F_LINE_RANGE = cython.declare(cython.int, int(UnitField.LINE_RANGE))
F_OPCODE_BASE = cython.declare(cython.int, int(UnitField.OPCODE_BASE))

NO_STANDARD_OPCODE = cython.declare(cython.int, int(Fault.NO_STANDARD_OPCODE))
UNREACHABLE = cython.declare(cython.int, int(Fault.UNREACHABLE))
ADDRESS_DESCENDS = cython.declare(cython.int, int(Fault.ADDRESS_DESCENDS))
ADDRESS_TOO_LARGE = cython.declare(cython.int, int(Fault.ADDRESS_TOO_LARGE))

ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
NEVER = cython.declare(cython.longlong, 1 << 20)  # more bytes than any way takes
FAR_BITS = cython.declare(cython.int, 48)
FIXED_MOST = cython.declare(cython.ulonglong, 0xFFFF)
# A third one takes no fewer bytes than DW_LNS_advance_pc.
FIXED_ADVANCES = cython.declare(cython.int, 2)


@cython.final
@cython.cclass
class Encoder:
    """The registers, and what is written so far.

    `fault` is not 0 if a row cannot be encoded. `way_*` is the shortest way found for line and address: `way_line`, by
    DW_LNS_advance_line; `way_fixed`, how many bytes by DW_LNS_fixed_advance_pc, -1 for none; then `way_adds`, how many
    DW_LNS_const_add_pc; `way_advance`, by DW_LNS_advance_pc; `way_opcode`, what makes the row.
    """

    def __init__(self, writer: Writer, fixed_only: cython.int) -> None:
        self.writer = writer
        self.fixed_only = fixed_only
        self.fault = 0
        self.way_size = 0

    def put_standard(self, opcode: cython.int) -> None:
        """A standard opcode; a fault where the header makes its number a special one."""
        if opcode >= self.opcode_base:
            self.fault = NO_STANDARD_OPCODE
        self.writer.put(opcode)

    def put_extended(self, opcode: cython.int, size: cython.ulonglong) -> None:
        """The header of an extended instruction with `size` bytes of operands."""
        self.writer.put(EXTENDED)
        self.writer.put_uleb(size + 1)
        self.writer.put(opcode)

    def set_address(self, address: cython.ulonglong) -> None:
        """DW_LNE_set_address."""
        if address & self.mask != address:
            self.fault = ADDRESS_TOO_LARGE
        self.put_extended(ADDRESS_OPCODE, cython.cast(cython.ulonglong, self.address_size))
        self.writer.put_fixed(address, self.address_size)
        self.address = address
        self.op_index = 0

    def enter(self, unit: ConstI64_2D, number: cython.longlong) -> None:
        """Take the parameters of a unit."""
        self.address_size = cython.cast(cython.int, unit[number, F_ADDRESS_SIZE])
        self.minimum_length = cython.cast(cython.ulonglong, unit[number, F_MINIMUM])
        self.maximum_operations = cython.cast(cython.ulonglong, unit[number, F_MAXIMUM])
        self.default_is_stmt = unit[number, F_DEFAULT_IS_STMT] != 0
        self.line_base = unit[number, F_LINE_BASE]
        self.line_range = unit[number, F_LINE_RANGE]
        self.opcode_base = cython.cast(cython.int, unit[number, F_OPCODE_BASE])
        if self.address_size >= 8:
            self.mask = ALL_ONES
        else:
            self.mask = (cython.cast(cython.ulonglong, 1) << 8 * self.address_size) - 1

    def begin_sequence(self, address: cython.ulonglong) -> None:
        """The registers at the beginning of a sequence, and the address, which is always written: linkers and readers
        look for it there."""
        self.file = self.line = 1
        self.column = self.isa = 0
        self.is_stmt = self.default_is_stmt
        self.set_address(address)

    def set_registers(
        self,
        file: cython.ulonglong,
        column: cython.ulonglong,
        isa: cython.ulonglong,
        discriminator: cython.ulonglong,
        flags: cython.int,
    ) -> None:
        """All registers but line and address."""
        if file != self.file:
            self.put_standard(SET_FILE)
            self.writer.put_uleb(file)
            self.file = file
        if column != self.column:
            self.put_standard(SET_COLUMN)
            self.writer.put_uleb(column)
            self.column = column
        if isa != self.isa:
            self.put_standard(SET_ISA)
            self.writer.put_uleb(isa)
            self.isa = isa
        if (flags & IS_STMT != 0) != (self.is_stmt != 0):
            self.put_standard(NEGATE_STMT)
            self.is_stmt = not self.is_stmt
        if flags & BASIC_BLOCK:
            self.put_standard(SET_BASIC_BLOCK)
        if flags & PROLOGUE_END:
            self.put_standard(SET_PROLOGUE_END)
        if flags & EPILOGUE_BEGIN:
            self.put_standard(SET_EPILOGUE_BEGIN)
        if discriminator:
            self.put_extended(DISCRIMINATOR_OPCODE, cython.cast(cython.ulonglong, uleb_size(discriminator)))
            self.writer.put_uleb(discriminator)

    def consider(
        self,
        size: cython.longlong,
        line: cython.longlong,
        adds: cython.longlong,
        advance: cython.ulonglong,
        fixed: cython.longlong,
        opcode: cython.int,
    ) -> None:
        """Keep a way if it is shorter."""
        if size < self.way_size:
            self.way_size = size
            self.way_line = line
            self.way_adds = adds
            self.way_advance = advance
            self.way_fixed = fixed
            self.way_opcode = opcode

    def advance_size(self, advance: cython.ulonglong) -> cython.longlong:
        """Bytes of DW_LNS_advance_pc; none for nothing."""
        if advance == 0:
            return 0
        return 1 + uleb_size(advance) if self.opcode_base > ADVANCE_PC else NEVER

    def try_last(
        self, line: cython.longlong, opcode: cython.int, room: cython.longlong, delta: cython.ulonglong
    ) -> None:
        """The ways that end in `opcode`, which may take up to `room` operation advances of `delta` bytes, after a line
        advance of `line`. `opcode` is DW_LNS_copy, or the special opcode without an operation advance."""
        size: cython.longlong = 1
        free: cython.ulonglong = cython.cast(cython.ulonglong, room)
        if line:
            size += 1 + sleb_size(line) if self.opcode_base > ADVANCE_LINE else NEVER
        # Products of more bits would leave 64: such rows are far away, and DW_LNE_set_address is as short.
        if delta % self.minimum_length == 0 and (self.maximum_operations == 1 or delta >> FAR_BITS == 0):
            self.try_operations(size, line, opcode, free, self.operations(delta), -1)
        if self.opcode_base > FIXED_ADVANCE_PC:
            self.try_fixed(size, line, opcode, free, delta)

    def operations(self, delta: cython.ulonglong) -> cython.ulonglong:
        """How many operations a row `delta` bytes on is away: the operation pointer counts them, and op_index is part
        of it."""
        instructions: cython.ulonglong = delta // self.minimum_length
        return instructions * self.maximum_operations + self.target_op_index - self.op_index & ALL_ONES

    def try_operations(
        self,
        size: cython.longlong,
        line: cython.longlong,
        opcode: cython.int,
        free: cython.ulonglong,
        operations: cython.ulonglong,
        fixed: cython.longlong,
    ) -> None:
        """The ways by `operations` operation advances, of which the opcode takes up to `free`."""
        step: cython.int = cython.cast(cython.int, self.line_range)
        by_constant: cython.ulonglong = cython.cast(cython.ulonglong, (255 - self.opcode_base) // step)
        adds: cython.ulonglong
        rest: cython.ulonglong
        if operations <= free and not (self.fixed_only and operations):
            self.consider(size, line, 0, 0, fixed, opcode + step * cython.cast(cython.int, operations))
            return
        if self.fixed_only:
            return
        for adds in range(1, 3 if self.opcode_base > CONST_ADD_PC else 1):
            if operations >= adds * by_constant and operations - adds * by_constant <= free:
                rest = operations - adds * by_constant
                self.consider(
                    size + cython.cast(cython.longlong, adds),
                    line,
                    cython.cast(cython.longlong, adds),
                    0,
                    fixed,
                    opcode + step * cython.cast(cython.int, rest),
                )
        self.consider(size + self.advance_size(operations), line, 0, operations, fixed, opcode)
        rest = operations - free
        opcode += step * cython.cast(cython.int, free)
        self.consider(size + self.advance_size(rest), line, 0, rest, fixed, opcode)

    def try_fixed(
        self,
        size: cython.longlong,
        line: cython.longlong,
        opcode: cython.int,
        free: cython.ulonglong,
        delta: cython.ulonglong,
    ) -> None:
        """The ways by DW_LNS_fixed_advance_pc, then operation advances: bytes beyond its range, and op_index."""
        count: cython.ulonglong
        adds: cython.ulonglong
        by_constant: cython.ulonglong = cython.cast(
            cython.ulonglong, (255 - self.opcode_base) // cython.cast(cython.int, self.line_range)
        )
        instructions: cython.ulonglong = 0
        if delta >> FAR_BITS:
            return
        for count in range(1, 2 if self.fixed_only else FIXED_ADVANCES + 1):
            size += 3
            if size >= self.way_size:
                return
            instructions = 0
            if delta > count * FIXED_MOST:
                instructions = (delta - count * FIXED_MOST - 1) // self.minimum_length + 1
            for adds in range(3):
                # At least as many instructions as `adds` times DW_LNS_const_add_pc advances by.
                if instructions * self.maximum_operations + self.target_op_index < adds * by_constant:
                    instructions = (
                        adds * by_constant - self.target_op_index + self.maximum_operations - 1
                    ) // self.maximum_operations
                if instructions * self.minimum_length <= delta:
                    self.try_operations(
                        size,
                        line,
                        opcode,
                        free,
                        instructions * self.maximum_operations + self.target_op_index,
                        cython.cast(cython.longlong, delta - instructions * self.minimum_length),
                    )
            if delta <= count * FIXED_MOST:
                return

    def find_way(self, line: cython.longlong, delta: cython.ulonglong) -> None:
        """The shortest way to a row `line` lines and `delta` bytes on, which may be none."""
        special: cython.longlong
        opcode: cython.longlong
        self.way_size = NEVER
        if self.opcode_base > COPY:
            self.try_last(line, COPY, 0, delta)
        if self.line_base <= line < self.line_base + self.line_range:
            opcode = self.opcode_base + line - self.line_base
            if opcode <= 255:
                self.try_last(0, cython.cast(cython.int, opcode), (255 - opcode) // self.line_range, delta)
                # A line advance and an opcode for the row are three bytes at least.
                if self.way_size <= 3:
                    return
        for special in range(self.line_range):
            opcode = self.opcode_base + special
            if opcode > 255:
                break
            if line - self.line_base - special:
                self.try_last(
                    line - self.line_base - special,
                    cython.cast(cython.int, opcode),
                    (255 - opcode) // self.line_range,
                    delta,
                )

    def find_end(self, delta: cython.ulonglong) -> None:
        """The shortest way to the end of a sequence `delta` bytes on: that to a row whose opcode takes nothing."""
        self.way_size = NEVER
        if delta % self.minimum_length == 0 and (self.maximum_operations == 1 or delta >> FAR_BITS == 0):
            self.try_operations(0, 0, 0, 0, self.operations(delta), -1)
        if self.opcode_base > FIXED_ADVANCE_PC:
            self.try_fixed(0, 0, 0, 0, delta)

    def find(self, line: cython.longlong, delta: cython.ulonglong, is_end: cython.int) -> None:
        """The shortest way without DW_LNE_set_address."""
        if is_end:
            self.find_end(delta)
        else:
            self.find_way(line, delta)

    def choose_way(
        self, line: cython.longlong, address: cython.ulonglong, op_index: cython.ulonglong, is_end: cython.int
    ) -> None:
        """The shortest way to a row. Writes DW_LNE_set_address where that begins it: back, across a fraction of an
        instruction, far away."""
        delta: cython.ulonglong = address - self.address & self.mask
        before: cython.ulonglong = self.op_index
        direct: cython.longlong
        size: cython.longlong = 3 + self.address_size
        self.target_op_index = op_index
        self.check_order(address, op_index)
        self.find(line, delta, is_end)
        direct = self.way_size
        if direct <= size + (not is_end) and address & self.mask == address:
            return
        self.op_index = 0
        self.find(line, 0, is_end)
        if size + self.way_size < direct or direct >= NEVER or address & self.mask != address:
            self.set_address(address)
            if self.way_size >= NEVER:
                self.fault = UNREACHABLE
        else:
            self.op_index = before
            self.find(line, delta, is_end)

    def put_row(self, line: cython.longlong, address: cython.ulonglong, op_index: cython.ulonglong) -> None:
        """Line and address of a row, and the row."""
        self.choose_way(line - self.line, address, op_index, 0)
        if self.way_size >= NEVER:
            return
        if self.way_line:
            self.put_standard(ADVANCE_LINE)
            self.writer.put_sleb(self.way_line)
        self.put_advance()
        self.writer.put(self.way_opcode)
        self.line = line
        self.address = address
        self.op_index = op_index

    def check_order(self, address: cython.ulonglong, op_index: cython.ulonglong) -> None:
        """A fault if the operation pointer that readers compute would decrease, or does not exist."""
        if op_index >= self.maximum_operations:
            self.fault = UNREACHABLE
        elif address == self.address:
            if op_index < self.op_index:
                self.fault = ADDRESS_DESCENDS
        elif address < self.address and address - self.address & self.mask > self.mask >> 1:
            self.fault = ADDRESS_DESCENDS

    def put_advance(self) -> None:
        """The advances of the way that was found."""
        fixed: cython.ulonglong
        part: cython.ulonglong
        if self.way_fixed >= 0:
            fixed = cython.cast(cython.ulonglong, self.way_fixed)
            while True:
                part = min(fixed, FIXED_MOST)
                self.put_standard(FIXED_ADVANCE_PC)
                self.writer.put_fixed(part, 2)
                fixed -= part
                if fixed == 0:
                    break
        for _ in range(self.way_adds):
            self.put_standard(CONST_ADD_PC)
        if self.way_advance:
            self.put_standard(ADVANCE_PC)
            self.writer.put_uleb(self.way_advance)

    def put_end(self, line: cython.longlong, address: cython.ulonglong, op_index: cython.ulonglong) -> None:
        """Line and address of the row that ends a sequence, and the end."""
        if line != self.line:
            self.put_standard(ADVANCE_LINE)
            self.writer.put_sleb(line - self.line)
        self.choose_way(0, address, op_index, 1)
        if self.way_size < NEVER:
            self.put_advance()
        self.put_extended(END_OPCODE, 0)


@cython.ccall
@cython.exceptval(-1, check=False)
def programs(
    encoder: Encoder,
    unit: ConstI64_2D,
    sequence_first: ConstI64,
    sequences: ConstI64,
    first_row: ConstI64,
    address: ConstU64,
    op_index: ConstU8,
    file: ConstU32,
    line: ConstU32,
    column: ConstU32,
    isa: ConstU32,
    discriminator: ConstU32,
    flags: ConstU8,
    end: I64,
) -> cython.longlong:
    """Write the programs of all units one after the other; return how many rows were written (all, unless at a fault).

    Unit u has the sequences sequences[sequence_first[u]] up to the next unit's, of each the rows from its `first_row`
    up to the next one's. `end` gets where each unit's program ends.
    """
    number: cython.longlong
    which: cython.longlong
    row: cython.longlong
    begin: cython.longlong
    stop: cython.longlong
    with cython.nogil:
        for number in range(unit.shape[0]):
            encoder.enter(unit, number)
            for which in range(sequence_first[number], sequence_first[number + 1]):
                begin = first_row[sequences[which]]
                stop = first_row[sequences[which] + 1]
                if begin < stop:
                    encoder.begin_sequence(address[begin])
                for row in range(begin, stop):
                    encoder.set_registers(file[row], column[row], isa[row], discriminator[row], flags[row])
                    if flags[row] & END_SEQUENCE:
                        encoder.put_end(line[row], address[row], op_index[row])
                    else:
                        encoder.put_row(line[row], address[row], op_index[row])
                    if encoder.fault:
                        return row
            end[number] = encoder.writer.at
        return address.shape[0]
