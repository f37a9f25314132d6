# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Call frame instructions as columns: their operands and the PC after each, without their effects on rows.

Strategy: operands are decoded by the schema's operand table, with factors applied, as in interpreter.py.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import cfi
from ..protocol import Fault

if not cython.compiled:
    from ..array_types import I64, U8, U64, ConstU8_2D
    from ..shared.reads import Reader
    from .operands import operand
    from .records import Cies, Streams

PRIMARY_MASK = cython.declare(cython.int, cfi.PRIMARY_MASK)
OP_NONE = cython.declare(cython.int, int(cfi.Operand.NONE))
OP_ADDRESS = cython.declare(cython.int, int(cfi.Operand.ADDRESS))
DO_ADVANCE = cython.declare(cython.int, int(cfi.Effect.ADVANCE))
DO_UNKNOWN = cython.declare(cython.int, int(cfi.Effect.UNKNOWN))

UNKNOWN_OPCODE = cython.declare(cython.int, int(Fault.UNKNOWN_OPCODE))
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Instructions:
    """Instructions, `count` of them: bounds, operands (of a block its size: the block is at the end), and the PC after
    each, in bytes from the `location` of its stream. `table` has the effect and operand kinds of each opcode."""

    def __init__(self, table: ConstU8_2D, opcode: U8, begin: I64, end: I64, first: I64, second: I64, pc: U64) -> None:
        self.table = table
        self.opcode = opcode
        self.begin = begin
        self.end = end
        self.first = first
        self.second = second
        self.pc = pc
        self.count = 0

    def read(
        self, reader: Reader, cies: Cies, cie: cython.longlong, location: cython.ulonglong, pc: cython.ulonglong
    ) -> cython.ulonglong:
        """Read the next instruction, at `pc`; return the PC after it."""
        byte: cython.int = reader.data[reader.offset]
        opcode: cython.int = byte & PRIMARY_MASK or byte
        kind: cython.int
        index: cython.int
        value: cython.longlong
        self.opcode[self.count] = opcode
        self.begin[self.count] = reader.offset
        reader.offset += 1
        for index in range(2):
            kind = self.table[opcode, 1 + index]
            value = 0
            if kind == OP_ADDRESS:
                pc = reader.pointer(cies.address_encoding[cie], cies.address_size[cie]) - location & ALL_ONES
            elif kind != OP_NONE and not reader.fault:
                value = operand(reader, kind, byte, cies.code_factor[cie], cies.data_factor[cie])
            if index == 0:
                self.first[self.count] = value
            else:
                self.second[self.count] = value
        if self.table[opcode, 0] == DO_ADVANCE:
            pc = pc + cython.cast(cython.ulonglong, self.first[self.count]) & ALL_ONES
        elif self.table[opcode, 0] == DO_UNKNOWN:
            reader.fault = UNKNOWN_OPCODE
        self.end[self.count] = reader.offset
        self.pc[self.count] = pc
        self.count += 1
        return pc


@cython.ccall
@cython.exceptval(-1, check=False)
def decode(reader: Reader, cies: Cies, streams: Streams, last: I64, instructions: Instructions) -> cython.longlong:
    """Decode streams; return how many were decoded: all, unless the reader is at an instruction with a fault.

    `last` gets the number of instructions up to the end of each stream. `instructions` needs space for one per byte.
    """
    stream: cython.longlong
    at: cython.longlong
    pc: cython.ulonglong
    with cython.nogil:
        for stream in range(streams.start.shape[0]):
            reader.offset = streams.start[stream]
            reader.end = streams.end[stream]
            pc = 0
            while reader.offset < reader.end:
                at = reader.offset
                pc = instructions.read(reader, cies, streams.cie[stream], streams.location[stream], pc)
                if reader.fault:
                    reader.offset = at
                    return stream
            last[stream] = instructions.count
        return streams.start.shape[0]
