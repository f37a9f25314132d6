# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`.debug_macinfo` and `.debug_macro` in bulk: units and their entries, as columns.

Strategy: what each opcode's operands are, and how an operand is stored, are tables made of the schema's. A unit's
header may describe opcodes: their descriptions are found by opcode, and marked with the unit that they are of. Columns
without room are not filled, so that a first call counts.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import macros
from ....schemas.derive import bit_position
from ..protocol import Fault
from ..shared.protocol import Storage

if not cython.compiled:
    from ..array_types import I64, I64_2D, U8, U16, U64, ConstU8, ConstU8_3D
    from ..shared.reads import Reader
    from ..shared.values import stored_value

LINE = cython.declare(cython.int, int(macros.MacroOperand.LINE))
END = cython.declare(cython.int, macros.END)
HAS_WIDE_OFFSETS = cython.declare(cython.int, 1 << bit_position(macros.MacroFlags, "offset_size")[0])
HAS_LINE_OFFSET = cython.declare(cython.int, 1 << bit_position(macros.MacroFlags, "debug_line_offset")[0])
HAS_OPCODES = cython.declare(cython.int, 1 << bit_position(macros.MacroFlags, "opcode_operands_table")[0])

UNKNOWN = cython.declare(cython.int, int(Storage.UNKNOWN))
STRING = cython.declare(cython.int, int(Storage.STRING))

UNKNOWN_OPCODE = cython.declare(cython.int, int(Fault.UNKNOWN_OPCODE))
UNDEFINED_FORM = cython.declare(cython.int, int(Fault.UNDEFINED_FORM))
UNDEFINED_VERSION = cython.declare(cython.int, int(Fault.UNDEFINED_VERSION))
NOT_ENDED = cython.declare(cython.int, int(Fault.NOT_ENDED))


@cython.cfunc
@cython.exceptval(check=False)
def describe(
    reader: Reader,
    unit: cython.longlong,
    form_storage: ConstU8,
    described: I64_2D,
) -> cython.int:
    """Read the opcodes that a unit's header describes: mark each with the unit, and note where its operands stand."""
    left: cython.int = cython.cast(cython.int, reader.fixed(1))
    opcode: cython.int
    forms: cython.ulonglong
    while left > 0 and not reader.fault:
        opcode = cython.cast(cython.int, reader.fixed(1))
        described[opcode, 0] = unit
        described[opcode, 1] = reader.offset
        forms = reader.uleb()
        while forms > 0 and not reader.fault:
            if form_storage[cython.cast(cython.int, reader.fixed(1))] == UNKNOWN and not reader.fault:
                reader.fault = UNDEFINED_FORM
            forms -= 1
        left -= 1
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def skip(reader: Reader, description: cython.longlong, form_storage: ConstU8, offset_size: cython.int) -> cython.int:
    """Read the operands that a description, at that place, says."""
    place: cython.longlong = reader.offset
    forms: cython.ulonglong
    reader.offset = description
    forms = reader.uleb()
    description = reader.offset
    reader.offset = place
    while forms > 0 and not reader.fault:
        stored_value(reader, form_storage[reader.data[description]], offset_size)
        description += 1
        forms -= 1
    return 0


@cython.ccall
@cython.exceptval(-1, check=False)
def scan(
    reader: Reader,
    operands: ConstU8_3D,
    operand_storage: ConstU8,
    form_storage: ConstU8,
    described: I64_2D,
    unit_offset: I64,
    version: U16,
    flags: U8,
    line_offset: U64,
    body: I64,
    first: I64,
    offset: I64,
    opcode: U8,
    line: U64,
    value: U64,
    text_start: I64,
    text_size: I64,
    filled: I64,
) -> cython.longlong:
    """Walk the units; `filled` tells how many units and entries there are, and in which unit and entry a fault is.

    `operands` by version, opcode and number, a first one of UNKNOWN where the version has no such opcode; in the row of
    version 0, which has no headers, those of `.debug_macinfo`. `described` is room for 256 opcodes, all -1. `first` is
    the number of a unit's first entry, `body` where it stands. An operand is `line`, a text, or else `value`; the text
    of an opcode that only a header describes are the bytes of all its operands. Returns how many entries there are.
    """
    units: cython.longlong = 0
    count: cython.longlong = 0
    has_headers: cython.int = operands.shape[0] > 1
    number: cython.int
    bits: cython.int
    index: cython.int
    byte: cython.int
    kind: cython.int
    how: cython.int
    offset_size: cython.int
    at: cython.longlong
    lines: cython.ulonglong
    word: cython.ulonglong
    found_line: cython.ulonglong
    found_value: cython.ulonglong
    found_start: cython.longlong
    found_text: cython.longlong
    found_size: cython.longlong
    while reader.offset < reader.end:
        at = reader.offset
        filled[0] = units
        filled[1] = -1
        number = 0
        bits = 0
        lines = 0
        offset_size = 4
        if has_headers:
            number = cython.cast(cython.int, reader.fixed(2))
            if not reader.fault and (number >= operands.shape[0] or operands[number, 0, 0] == 0):
                reader.offset = at
                reader.fault = UNDEFINED_VERSION
                return count
            bits = cython.cast(cython.int, reader.fixed(1))
            if bits & HAS_WIDE_OFFSETS:
                offset_size = 8
            if bits & HAS_LINE_OFFSET:
                lines = reader.fixed(offset_size)
            if bits & HAS_OPCODES:
                describe(reader, units, form_storage, described)
            if reader.fault:
                return count
        if units < unit_offset.shape[0]:
            unit_offset[units] = at
            version[units] = number
            flags[units] = bits
            line_offset[units] = lines
            body[units] = reader.offset
            first[units] = count
        while True:
            filled[1] = count
            at = reader.offset
            if at >= reader.end:
                reader.fault = NOT_ENDED
                return count
            byte = cython.cast(cython.int, reader.fixed(1))
            if byte == END:
                break
            found_line = 0
            found_value = 0
            found_text = reader.offset
            found_size = 0
            if operands[number, byte, 0] != UNKNOWN:
                for index in range(operands.shape[2]):
                    kind = operands[number, byte, index]
                    if kind == 0:
                        break
                    how = operand_storage[kind]
                    found_start = reader.offset
                    word = stored_value(reader, how, offset_size)
                    if how == STRING:
                        found_text = found_start
                        found_size = cython.cast(cython.longlong, word)
                    elif kind == LINE:
                        found_line = word
                    else:
                        found_value = word
            elif described[byte, 0] == units:
                skip(reader, described[byte, 1], form_storage, offset_size)
                found_size = reader.offset - found_text
            else:
                reader.offset = at
                reader.fault = UNKNOWN_OPCODE
            if reader.fault:
                return count
            if count < offset.shape[0]:
                offset[count] = at
                opcode[count] = byte
                line[count] = found_line
                value[count] = found_value
                text_start[count] = found_text
                text_size[count] = found_size
            count += 1
        units += 1
    filled[0] = units
    filled[1] = count
    return count
