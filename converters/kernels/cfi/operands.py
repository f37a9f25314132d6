# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Operands of call frame instructions, decoded by the schema's operand kinds with their factors applied."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import cfi
from ...rules import MAX_OFFSET as MAX_OFFSET_VALUE
from ...rules import MAX_REGISTER as MAX_REGISTER_VALUE
from ..protocol import Fault

if not cython.compiled:
    from ..shared.reads import Reader

INLINE_MASK = cython.declare(cython.int, cfi.INLINE_MASK)

OP_INLINE_DELTA = cython.declare(cython.int, int(cfi.Operand.INLINE_DELTA))
OP_INLINE_REGISTER = cython.declare(cython.int, int(cfi.Operand.INLINE_REGISTER))
OP_DELTA1 = cython.declare(cython.int, int(cfi.Operand.DELTA1))
OP_DELTA8 = cython.declare(cython.int, int(cfi.Operand.DELTA8))
OP_REGISTER = cython.declare(cython.int, int(cfi.Operand.REGISTER))
OP_OFFSET = cython.declare(cython.int, int(cfi.Operand.OFFSET))
OP_FACTORED = cython.declare(cython.int, int(cfi.Operand.FACTORED_OFFSET))
OP_SIGNED_FACTORED = cython.declare(cython.int, int(cfi.Operand.SIGNED_FACTORED_OFFSET))
OP_NEGATED_FACTORED = cython.declare(cython.int, int(cfi.Operand.NEGATED_FACTORED_OFFSET))
OP_BLOCK = cython.declare(cython.int, int(cfi.Operand.BLOCK))
OP_SIZE = cython.declare(cython.int, int(cfi.Operand.SIZE))

MAX_REGISTER = cython.declare(cython.ulonglong, MAX_REGISTER_VALUE)
MAX_OFFSET = cython.declare(cython.longlong, MAX_OFFSET_VALUE)
SIGNED_MAX = cython.declare(cython.ulonglong, (1 << 63) - 1)
UNSIGNED_MAX = cython.declare(cython.ulonglong, (1 << 64) - 1)
SMALL = cython.declare(cython.longlong, 1 << 30)  # products of smaller numbers need no check

BLOCK_PAST_END = cython.declare(cython.int, int(Fault.BLOCK_PAST_END))
OFFSET_TOO_LARGE = cython.declare(cython.int, int(Fault.OFFSET_TOO_LARGE))
REGISTER_TOO_LARGE = cython.declare(cython.int, int(Fault.REGISTER_TOO_LARGE))


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def factored(reader: Reader, value: cython.longlong, factor: cython.longlong) -> cython.longlong:
    """`value * factor`, where that is an offset."""
    size: cython.longlong
    unit: cython.longlong
    if -SMALL <= value <= SMALL and -SMALL <= factor <= SMALL:
        return value * factor
    if value < -MAX_OFFSET or value > MAX_OFFSET:
        reader.fault = OFFSET_TOO_LARGE
        return 0
    size = value if value >= 0 else -value
    unit = factor if factor >= 0 else -factor
    if unit > 1 and size > MAX_OFFSET // unit:
        reader.fault = OFFSET_TOO_LARGE
        return 0
    return value * factor


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def operand(
    reader: Reader, kind: cython.int, byte: cython.int, code_factor: cython.longlong, data_factor: cython.longlong
) -> cython.longlong:
    """One operand with its factor applied; for a block its size, with the reader after the block."""
    value: cython.ulonglong
    if kind == OP_INLINE_DELTA:
        return factored(reader, byte & INLINE_MASK, code_factor)
    if kind == OP_INLINE_REGISTER:
        return byte & INLINE_MASK
    if kind == OP_SIGNED_FACTORED:
        return factored(reader, reader.sleb(), data_factor)
    if OP_DELTA1 <= kind <= OP_DELTA8:
        value = reader.fixed(1 << (kind - OP_DELTA1))
    else:
        value = reader.uleb()
    if reader.fault:
        return 0
    if kind == OP_REGISTER:
        if value > MAX_REGISTER:
            reader.fault = REGISTER_TOO_LARGE
            return 0
        return cython.cast(cython.longlong, value)
    if kind == OP_BLOCK:
        if value > cython.cast(cython.ulonglong, reader.end - reader.offset):
            reader.fault = BLOCK_PAST_END
            return 0
        reader.offset += cython.cast(cython.longlong, value)
        return cython.cast(cython.longlong, value)
    if kind == OP_SIZE:
        # Any number of 64 bits, as the signed one with these bits: callers see it unsigned again.
        if value <= SIGNED_MAX:
            return cython.cast(cython.longlong, value)
        return -1 - cython.cast(cython.longlong, UNSIGNED_MAX - value)
    if value > cython.cast(cython.ulonglong, MAX_OFFSET):
        reader.fault = OFFSET_TOO_LARGE
        return 0
    if kind == OP_FACTORED:
        return factored(reader, cython.cast(cython.longlong, value), data_factor)
    if kind == OP_NEGATED_FACTORED:
        return factored(reader, -cython.cast(cython.longlong, value), data_factor)
    if kind == OP_OFFSET:
        return cython.cast(cython.longlong, value)
    return factored(reader, cython.cast(cython.longlong, value), code_factor)
