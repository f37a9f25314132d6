# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Writes that kernels share: fixed integers and LEB128, behind one another.

Strategy: a `Writer` may have no room: then bytes are counted alone, so that a kernel that runs twice knows how many.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import U8


@cython.cfunc
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
    """Bytes that were written, or counted where `out` has no room for them; `at` is how many."""

    def __init__(self, out: U8, big: cython.int) -> None:
        self.out = out
        self.big = big
        self.at = 0

    def put(self, byte: cython.int) -> None:
        """One byte."""
        if self.at < self.out.shape[0]:
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
