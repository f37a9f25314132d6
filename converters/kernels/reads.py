# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reads that every kernel shares: fixed integers and LEB128, each bounded by `end`.

Strategy: a `cursor` of two elements carries the offset and, once something is wrong, a fault; readers
move the first and set the second. Values are those that the reference engine gives.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from . import pure as cython

from .protocol import Fault

CUT = cython.declare(cython.int, int(Fault.CUT))
LEB_TOO_LARGE = cython.declare(cython.int, int(Fault.LEB_TOO_LARGE))


@cython.cfunc
@cython.exceptval(check=False)
def fixed(
    data: cython.const[cython.uchar][::1],
    cursor: cython.longlong[::1],
    end: cython.longlong,
    size: cython.int,
    big: cython.int,
) -> cython.ulonglong:
    """An unsigned integer of `size` bytes at the cursor; 0 and a fault where `end` cuts it."""
    offset: cython.longlong = cursor[0]
    value: cython.ulonglong = 0
    index: cython.int
    if offset < 0 or size > end - offset:
        cursor[1] = CUT
        return 0
    if big:
        for index in range(size):
            value = value << 8 | data[offset + index]
    else:
        for index in range(size - 1, -1, -1):
            value = value << 8 | data[offset + index]
    cursor[0] = offset + size
    return value


@cython.cfunc
@cython.exceptval(check=False)
def uleb(data: cython.const[cython.uchar][::1], cursor: cython.longlong[::1], end: cython.longlong) -> cython.ulonglong:
    """An unsigned LEB128 that fits 64 bits, padded or not."""
    offset: cython.longlong = cursor[0]
    value: cython.ulonglong = 0
    shift: cython.int = 0
    byte: cython.ulonglong = 0x80
    while byte >= 0x80:
        if offset < 0 or offset >= end:
            cursor[1] = CUT
            return 0
        byte = data[offset]
        offset += 1
        if shift < 63:
            value |= (byte & 0x7F) << shift
            shift += 7
        elif shift == 63 and byte & 0x7F <= 1:
            value |= (byte & 0x7F) << 63
            shift += 7
        elif shift == 63 or byte & 0x7F:
            cursor[1] = LEB_TOO_LARGE
            return 0
    cursor[0] = offset
    return value


@cython.cfunc
@cython.exceptval(check=False)
def sleb(data: cython.const[cython.uchar][::1], cursor: cython.longlong[::1], end: cython.longlong) -> cython.longlong:
    """A signed LEB128 that fits 64 bits, padded or not."""
    offset: cython.longlong = cursor[0]
    value: cython.longlong = 0
    half: cython.longlong
    shift: cython.int = 0
    byte: cython.longlong = 0x80
    sign: cython.longlong = -1
    while byte >= 0x80:
        if offset < 0 or offset >= end:
            cursor[1] = CUT
            return 0
        byte = data[offset]
        offset += 1
        if shift < 63:
            value |= (byte & 0x7F) << shift
            shift += 7
        elif sign < 0 and (byte & 0x7F == 0 or byte & 0x7F == 0x7F):
            # The tenth group is bit 63 and beyond: all equal; what follows only repeats it.
            sign = byte & 0x7F
        elif byte & 0x7F != sign:
            cursor[1] = LEB_TOO_LARGE
            return 0
    cursor[0] = offset
    if byte & 0x40:
        # Subtracted in two halves: 1 << 63 is no signed 64-bit number.
        half = cython.cast(cython.longlong, 1) << (shift - 1)
        return value - half - half
    return value
