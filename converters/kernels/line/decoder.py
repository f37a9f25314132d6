# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Line number instructions one by one, for printing: what each does, and the registers after it.

Strategy: the machine of `lines` keeps its place, so that a caller with space for some instructions can continue
after them.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas.line import LineEffect
from .protocol import Event

if not cython.compiled:
    from ..array_types import U8, U64_2D
    from ..shared.reads import Reader
    from .machine import Machine

DO_SPECIAL = cython.declare(cython.int, int(LineEffect.SPECIAL))
DO_COPY = cython.declare(cython.int, int(LineEffect.COPY))
DO_ADVANCE_LINE = cython.declare(cython.int, int(LineEffect.ADVANCE_LINE))
DO_END_SEQUENCE = cython.declare(cython.int, int(LineEffect.END_SEQUENCE))
DO_SET_ADDRESS = cython.declare(cython.int, int(LineEffect.SET_ADDRESS))
DO_FIXED_ADVANCE_PC = cython.declare(cython.int, int(LineEffect.FIXED_ADVANCE_PC))

OFFSET = cython.declare(cython.int, int(Event.OFFSET))
OPCODE = cython.declare(cython.int, int(Event.OPCODE))
OPERAND = cython.declare(cython.int, int(Event.OPERAND))
ADVANCE = cython.declare(cython.int, int(Event.ADVANCE))
ADDRESS = cython.declare(cython.int, int(Event.ADDRESS))
OP_INDEX = cython.declare(cython.int, int(Event.OP_INDEX))
LINE_ADVANCE = cython.declare(cython.int, int(Event.LINE_ADVANCE))
LINE = cython.declare(cython.int, int(Event.LINE))
FILE = cython.declare(cython.int, int(Event.FILE))
VIEW = cython.declare(cython.int, int(Event.VIEW))
BEGIN = cython.declare(cython.int, int(Event.BEGIN))
IS_STMT = cython.declare(cython.int, int(Event.IS_STMT))
IS_EXTENDED = cython.declare(cython.int, int(Event.IS_EXTENDED))
END = cython.declare(cython.int, int(Event.END))

ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.ccall
@cython.exceptval(-1, check=False)
def decode(
    machine: Machine,
    effects: U8,
    values: U64_2D,
) -> cython.longlong:
    """Run instructions from the machine's position, as many as there is space for; return how many were run.

    Of each the effect and a row of `Event`s. At a fault the reader is at the instruction. Nothing is asked of the
    registers: addresses may go down.
    """
    reader: Reader = machine.reader
    count: cython.longlong = 0
    effect: cython.int
    address: cython.ulonglong
    line: cython.longlong
    with cython.nogil:
        while count < effects.shape[0] and reader.offset < machine.end:
            address = machine.address
            line = machine.line
            effect = machine.step(reader)
            if reader.fault:
                reader.offset = machine.at
                return count
            if effect == DO_SET_ADDRESS or (machine.address != address and effect != DO_FIXED_ADVANCE_PC):
                machine.view = 0
            effects[count] = effect
            values[count, IS_STMT] = 1 if machine.is_stmt else 0
            values[count, IS_EXTENDED] = machine.is_extended
            values[count, OFFSET] = machine.at
            values[count, OPCODE] = machine.opcode
            values[count, OPERAND] = machine.operand
            if machine.maximum_operations == 1:
                values[count, ADVANCE] = machine.advance * machine.minimum_length & ALL_ONES
            else:
                values[count, ADVANCE] = machine.advance
            values[count, ADDRESS] = machine.address
            values[count, OP_INDEX] = machine.op_index
            if effect == DO_ADVANCE_LINE or effect == DO_SPECIAL:
                values[count, LINE_ADVANCE] = cython.cast(cython.ulonglong, machine.line - line & ALL_ONES)
            values[count, LINE] = cython.cast(cython.ulonglong, machine.line & ALL_ONES)
            values[count, FILE] = machine.file
            values[count, VIEW] = machine.view
            values[count, BEGIN] = machine.begin
            values[count, END] = machine.stop
            if effect == DO_SPECIAL or effect == DO_COPY:
                machine.view += 1
                machine.begin_row()
            elif effect == DO_END_SEQUENCE:
                machine.begin_sequence()
            count += 1
        return count
