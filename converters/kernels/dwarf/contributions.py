# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Look-up tables in bulk: where sets stand, and the names in them (`.debug_aranges`, `.debug_pubnames` and the like).

Strategy: `scan` walks the lengths; `names` walks each set's names, told where they begin. Columns without room are not
filled, so that a first call counts.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import wire
from ..protocol import Fault

if not cython.compiled:
    from ..array_types import I64, U8, U64, ConstI64, ConstU8
    from ..shared.reads import Reader

LENGTH_RESERVED = cython.declare(cython.ulonglong, wire.LENGTH_RESERVED)
LENGTH_DWARF64 = cython.declare(cython.ulonglong, wire.LENGTH_DWARF64)

CUT = cython.declare(cython.int, int(Fault.CUT))
RESERVED_LENGTH = cython.declare(cython.int, int(Fault.RESERVED_LENGTH))
LENGTH_PAST_END = cython.declare(cython.int, int(Fault.LENGTH_PAST_END))
NO_ZERO_BYTE = cython.declare(cython.int, int(Fault.NO_ZERO_BYTE))


@cython.ccall
@cython.exceptval(-1, check=False)
def scan(
    reader: Reader,
    padding: cython.longlong,
    offset: I64,
    body: I64,
    end: I64,
) -> cython.longlong:
    """Fill the three columns, an element a set; return how many there are before `padding`, where only zeros follow.

    `body` is behind the initial length, which has 12 bytes in 64-bit DWARF, else 4. At a fault the reader stands where
    the set starts.
    """
    size: cython.longlong = reader.end
    at: cython.longlong = 0
    start: cython.longlong
    length: cython.ulonglong
    count: cython.longlong = 0
    while at < padding:
        reader.offset = at
        length = reader.fixed(4)
        if length == LENGTH_DWARF64:
            length = reader.fixed(8)
        elif length >= LENGTH_RESERVED:
            reader.fault = RESERVED_LENGTH
        elif length == 0 and not reader.fault:
            reader.fault = CUT
        start = reader.offset
        if not reader.fault and length > cython.cast(cython.ulonglong, size - start):
            reader.fault = LENGTH_PAST_END
        if reader.fault:
            reader.offset = at
            return count
        if count < offset.shape[0]:
            offset[count] = at
            body[count] = start
            end[count] = start + cython.cast(cython.longlong, length)
        at = start + cython.cast(cython.longlong, length)
        count += 1
    return count


@cython.ccall
@cython.exceptval(-1, check=False)
def names(
    reader: Reader,
    has_attributes: cython.int,
    body: ConstI64,
    end: ConstI64,
    offset_size: ConstU8,
    first: I64,
    behind: I64,
    is_terminated: U8,
    offset: U64,
    attributes: U8,
    start: I64,
    size: I64,
) -> cython.longlong:
    """Walk the names of each set from its `body` to its `end`; return how many there are.

    Filled for each set: the number of its `first` name (and, last, how many there are), `is_terminated` if an offset of
    0 ends it, and the place `behind` it all. Filled for each name, where there is room: `offset` as stored, the byte of
    `attributes`, where its text starts and the text's size. At a fault the last element of `first` is the set's number.
    """
    index: cython.longlong
    value: cython.ulonglong
    byte: cython.int = 0
    text: cython.longlong
    count: cython.longlong = 0
    for index in range(body.shape[0]):
        reader.offset = body[index]
        reader.end = end[index]
        first[index] = count
        is_terminated[index] = 0
        while reader.offset < reader.end:
            value = reader.fixed(offset_size[index])
            if value == 0 and not reader.fault:
                is_terminated[index] = 1
                break
            if has_attributes:
                byte = cython.cast(cython.int, reader.fixed(1))
            text = reader.offset
            while text < reader.end and reader.data[text]:
                text += 1
            if text >= reader.end and not reader.fault:
                reader.fault = NO_ZERO_BYTE
            if reader.fault:
                first[body.shape[0]] = index
                return count
            if count < offset.shape[0]:
                offset[count] = value
                attributes[count] = byte
                start[count] = reader.offset
                size[count] = text - reader.offset
            reader.offset = text + 1
            count += 1
        behind[index] = reader.offset
    first[body.shape[0]] = count
    return count
