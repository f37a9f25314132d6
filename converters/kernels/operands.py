# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Operands of call frame instructions, decoded by the schema's operand kinds with their factors applied."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from . import pure as cython

from ...schemas import callframe
from ..rules import MAX_OFFSET as MAX_OFFSET_VALUE
from ..rules import MAX_REGISTER as MAX_REGISTER_VALUE
from .protocol import Fault

if not cython.compiled:
    from .reads import fixed, sleb, uleb

INLINE_MASK = cython.declare(cython.int, callframe.INLINE_MASK)

OP_INLINE_DELTA = cython.declare(cython.int, int(callframe.Operand.INLINE_DELTA))
OP_INLINE_REGISTER = cython.declare(cython.int, int(callframe.Operand.INLINE_REGISTER))
OP_DELTA1 = cython.declare(cython.int, int(callframe.Operand.DELTA1))
OP_DELTA8 = cython.declare(cython.int, int(callframe.Operand.DELTA8))
OP_REGISTER = cython.declare(cython.int, int(callframe.Operand.REGISTER))
OP_OFFSET = cython.declare(cython.int, int(callframe.Operand.OFFSET))
OP_FACTORED = cython.declare(cython.int, int(callframe.Operand.FACTORED_OFFSET))
OP_SIGNED_FACTORED = cython.declare(cython.int, int(callframe.Operand.SIGNED_FACTORED_OFFSET))
OP_NEGATED_FACTORED = cython.declare(cython.int, int(callframe.Operand.NEGATED_FACTORED_OFFSET))
OP_BLOCK = cython.declare(cython.int, int(callframe.Operand.BLOCK))
OP_SIZE = cython.declare(cython.int, int(callframe.Operand.SIZE))

MAX_REGISTER = cython.declare(cython.ulonglong, MAX_REGISTER_VALUE)
MAX_OFFSET = cython.declare(cython.longlong, MAX_OFFSET_VALUE)

BLOCK_PAST_END = cython.declare(cython.int, int(Fault.BLOCK_PAST_END))
OFFSET_TOO_LARGE = cython.declare(cython.int, int(Fault.OFFSET_TOO_LARGE))
REGISTER_TOO_LARGE = cython.declare(cython.int, int(Fault.REGISTER_TOO_LARGE))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def factored(value: cython.longlong, factor: cython.longlong, cursor: cython.longlong[::1]) -> cython.longlong:
    """`value * factor`, where that is an offset."""
    size: cython.longlong = value if value >= 0 else -value
    unit: cython.longlong = factor if factor >= 0 else -factor
    if value < -MAX_OFFSET or size > MAX_OFFSET or (unit > 1 and size > MAX_OFFSET // unit):
        cursor[1] = OFFSET_TOO_LARGE
        return 0
    return value * factor


@cython.cfunc
@cython.exceptval(check=False)
def operand(
    data: cython.const[cython.uchar][::1],
    cursor: cython.longlong[::1],
    end: cython.longlong,
    big: cython.int,
    kind: cython.int,
    byte: cython.int,
    code_factor: cython.longlong,
    data_factor: cython.longlong,
) -> cython.longlong:
    """One operand with its factor applied; for a block its size, with cursor[2] at its first byte."""
    value: cython.ulonglong
    if kind == OP_INLINE_DELTA:
        return factored(byte & INLINE_MASK, code_factor, cursor)
    if kind == OP_INLINE_REGISTER:
        return byte & INLINE_MASK
    if kind == OP_SIGNED_FACTORED:
        return factored(sleb(data, cursor, end), data_factor, cursor)
    if OP_DELTA1 <= kind <= OP_DELTA8:
        value = fixed(data, cursor, end, 1 << (kind - OP_DELTA1), big)
    else:
        value = uleb(data, cursor, end)
    if kind == OP_SIZE or cursor[1]:
        return 0
    if kind == OP_REGISTER:
        if value > MAX_REGISTER:
            cursor[1] = REGISTER_TOO_LARGE
            return 0
        return cython.cast(cython.longlong, value)
    if kind == OP_BLOCK:
        if value > cython.cast(cython.ulonglong, end - cursor[0]):
            cursor[1] = BLOCK_PAST_END
            return 0
        cursor[2] = cursor[0]
        cursor[0] += cython.cast(cython.longlong, value)
        return cython.cast(cython.longlong, value)
    if value > cython.cast(cython.ulonglong, MAX_OFFSET):
        cursor[1] = OFFSET_TOO_LARGE
        return 0
    if kind == OP_FACTORED:
        return factored(cython.cast(cython.longlong, value), data_factor, cursor)
    if kind == OP_NEGATED_FACTORED:
        return factored(-cython.cast(cython.longlong, value), data_factor, cursor)
    if kind == OP_OFFSET:
        return cython.cast(cython.longlong, value)
    return factored(cython.cast(cython.longlong, value), code_factor, cursor)
