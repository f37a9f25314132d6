# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Call frame instructions as columns: what each is given and where it leads, without what it does to a row.

Strategy: operands are decoded by the schema's operand table, factors applied, as the row kernel has them.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import cfi
from ..protocol import Fault

if not cython.compiled:
    from ..array_types import I64, U8, U64, ConstI64, ConstU8, ConstU8_2D, ConstU64
    from ..shared.reads import Reader
    from .operands import operand

PRIMARY_MASK = cython.declare(cython.int, cfi.PRIMARY_MASK)
OP_NONE = cython.declare(cython.int, int(cfi.Operand.NONE))
OP_ADDRESS = cython.declare(cython.int, int(cfi.Operand.ADDRESS))
DO_ADVANCE = cython.declare(cython.int, int(cfi.Effect.ADVANCE))
DO_UNKNOWN = cython.declare(cython.int, int(cfi.Effect.UNKNOWN))

UNKNOWN_OPCODE = cython.declare(cython.int, int(Fault.UNKNOWN_OPCODE))
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.ccall
@cython.exceptval(-1, check=False)
def decode(
    reader: Reader,
    instructions: ConstU8_2D,
    code_factor: ConstI64,
    data_factor: ConstI64,
    address_encoding: ConstU8,
    address_size: ConstU8,
    start: ConstI64,
    end: ConstI64,
    location: ConstU64,
    cie: ConstI64,
    last: I64,
    opcode: U8,
    begin: I64,
    behind: I64,
    first: I64,
    second: I64,
    pc: U64,
) -> cython.longlong:
    """Decode the streams data[start:end]; return how many were decoded (all, but for a fault in the next one).

    `last` gets the instruction count behind each stream; the six columns behind it, which have an element for each
    byte of the streams, what an instruction is: its section offsets, its operands (a block's is its size, with the
    block at the end), and the PC behind it, in bytes from the stream's `location`. At a fault the reader stands at
    the instruction.
    """
    stream: cython.longlong
    number: cython.longlong
    count: cython.longlong = 0
    at: cython.longlong
    here: cython.ulonglong
    one: cython.longlong
    two: cython.longlong
    value: cython.longlong
    byte: cython.int
    code: cython.int
    kind: cython.int
    index: cython.int
    for stream in range(start.shape[0]):
        number = cie[stream]
        reader.offset = start[stream]
        reader.end = end[stream]
        here = 0
        while reader.offset < reader.end:
            at = reader.offset
            byte = reader.data[at]
            code = byte & PRIMARY_MASK or byte
            reader.offset = at + 1
            one = two = 0
            for index in range(2):
                kind = instructions[code, 1 + index]
                value = 0
                if kind == OP_ADDRESS:
                    here = reader.pointer(address_encoding[number], address_size[number]) - location[stream] & ALL_ONES
                elif kind != OP_NONE and not reader.fault:
                    value = operand(reader, kind, byte, code_factor[number], data_factor[number])
                if index == 0:
                    one = value
                else:
                    two = value
            if instructions[code, 0] == DO_UNKNOWN:
                reader.fault = UNKNOWN_OPCODE
            if reader.fault:
                reader.offset = at
                return stream
            if instructions[code, 0] == DO_ADVANCE:
                here = here + cython.cast(cython.ulonglong, one) & ALL_ONES
            opcode[count] = code
            begin[count] = at
            behind[count] = reader.offset
            first[count] = one
            second[count] = two
            pc[count] = here
            count += 1
        last[stream] = count
    return start.shape[0]
