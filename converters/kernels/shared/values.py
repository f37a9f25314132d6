# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""One value of a form, by how the form is stored: of line number program headers and of macro entries.

Strategy: values are not interpreted; texts and blocks are skipped, and given by their size.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ..protocol import Fault
from .protocol import Storage

if not cython.compiled:
    from .reads import Reader

CUT = cython.declare(cython.int, int(Fault.CUT))
UNKNOWN_FORM = cython.declare(cython.int, int(Fault.UNKNOWN_FORM))
BLOCK_PAST_END = cython.declare(cython.int, int(Fault.BLOCK_PAST_END))
NO_ZERO_BYTE = cython.declare(cython.int, int(Fault.NO_ZERO_BYTE))

WORD = cython.declare(cython.int, 8)
FIXED_MAX = cython.declare(cython.int, 16)
IS_UNKNOWN = cython.declare(cython.int, int(Storage.UNKNOWN))
IS_ULEB = cython.declare(cython.int, int(Storage.ULEB))
IS_SLEB = cython.declare(cython.int, int(Storage.SLEB))
IS_STRING = cython.declare(cython.int, int(Storage.STRING))
IS_SECTION_OFFSET = cython.declare(cython.int, int(Storage.SECTION_OFFSET))
IS_BLOCK = cython.declare(cython.int, int(Storage.BLOCK))

ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def skip_bytes(reader: Reader, size: cython.ulonglong, fault: cython.int) -> cython.void:
    """Pass over some bytes, which have to be there."""
    if reader.fault:
        return
    if reader.offset > reader.end or size > cython.cast(cython.ulonglong, reader.end - reader.offset):
        reader.fault = fault
    else:
        reader.offset += cython.cast(cython.longlong, size)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stored_value(reader: Reader, storage: cython.int, offset_size: cython.int) -> cython.ulonglong:
    """One value: a number, or the size in bytes of a string, a block or 16 bytes; the reader is then after it."""
    at: cython.longlong
    start: cython.longlong = reader.offset
    size: cython.ulonglong
    if storage == IS_ULEB:
        return reader.uleb()
    if storage == IS_SECTION_OFFSET:
        return reader.fixed(offset_size)
    if storage == IS_STRING:
        at = start
        while at < reader.end and reader.data[at]:
            at += 1
        if at >= reader.end and not reader.fault:
            reader.fault = NO_ZERO_BYTE
        if not reader.fault:
            reader.offset = at + 1
        return cython.cast(cython.ulonglong, at - start)
    if storage == IS_UNKNOWN:
        reader.fault = UNKNOWN_FORM
        return 0
    if storage <= WORD:
        return reader.fixed(storage)
    if storage <= FIXED_MAX:
        skip_bytes(reader, cython.cast(cython.ulonglong, storage), CUT)
        return cython.cast(cython.ulonglong, storage)
    if storage == IS_SLEB:
        return cython.cast(cython.ulonglong, reader.sleb() & ALL_ONES)
    size = reader.uleb() if storage == IS_BLOCK else reader.fixed(storage - IS_BLOCK)
    skip_bytes(reader, size, BLOCK_PAST_END)
    return size
