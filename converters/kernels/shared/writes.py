# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Writes that kernels share: integers of fixed size and LEB128.

Strategy: a `Writer` without space only counts, so that a kernel that runs twice knows how many bytes it needs.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import U8


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def uleb_size(value: cython.ulonglong) -> cython.longlong:
    """Bytes of an unsigned LEB128."""
    size: cython.longlong = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def sleb_size(value: cython.longlong) -> cython.longlong:
    """Bytes of a signed LEB128."""
    size: cython.longlong = 1
    while value < -0x40 or value >= 0x40:
        value >>= 7
        size += 1
    return size


@cython.cclass
class Writer:
    """`at` counts the bytes; those below `limit` are written to `out`."""

    def __init__(self, big: cython.int, out: U8) -> None:
        self.big = big
        self.write_to(out)

    def write_to(self, out: U8) -> None:
        """Start again, in other memory."""
        self.out = out
        self.limit = out.shape[0]
        self.at = 0

    def put(self, byte: cython.int) -> None:
        """One byte."""
        if self.at < self.limit:
            self.out[self.at] = byte
        self.at += 1

    def put_uleb(self, value: cython.ulonglong) -> None:
        """An unsigned LEB128."""
        while value >= 0x80:
            self.put(cython.cast(cython.int, value & 0x7F) | 0x80)
            value >>= 7
        self.put(cython.cast(cython.int, value))

    def put_sleb(self, value: cython.longlong) -> None:
        """A signed LEB128."""
        while value < -0x40 or value >= 0x40:
            self.put(cython.cast(cython.int, value & 0x7F) | 0x80)
            value >>= 7
        self.put(cython.cast(cython.int, value & 0x7F))

    def put_fixed(self, value: cython.ulonglong, size: cython.int) -> None:
        """An integer of `size` bytes."""
        index: cython.int
        for index in range(size):
            self.put(cython.cast(cython.int, value >> 8 * (size - 1 - index if self.big else index) & 0xFF))
