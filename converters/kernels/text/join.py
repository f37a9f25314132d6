# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Pieces of one array of bytes, joined in another; and the ends of strings in it."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import I64, U8, ConstI64, ConstU8
    from ..raw_text import copy_bytes


@cython.ccall
@cython.exceptval(-1, check=False)
def join(
    data: ConstU8,
    start: ConstI64,
    size: ConstI64,
    pieces: ConstI64,
    joined: U8,
) -> cython.longlong:
    """Copy the pieces with these numbers into `joined` as far as it has space; return their size in bytes.

    Piece p is the `size[p]` bytes of `data` from `start[p]` on.
    """
    index: cython.longlong
    source: cython.longlong
    length: cython.longlong
    at: cython.longlong = 0
    with cython.nogil:
        for index in range(pieces.shape[0]):
            source = start[pieces[index]]
            length = size[pieces[index]]
            if length > joined.shape[0] - at:
                break
            at = copy_bytes(data, source, length, joined, at)
        return at


@cython.ccall
@cython.exceptval(-1, check=False)
def place(
    data: ConstU8,
    start: ConstI64,
    size: ConstI64,
    where: ConstI64,
    placed: U8,
) -> cython.longlong:
    """Copy the `size[i]` bytes of `data` from `start[i]` on to `placed` at `where[i]`, as far as they fit there; return
    how many pieces were copied."""
    index: cython.longlong
    source: cython.longlong
    target: cython.longlong
    length: cython.longlong
    with cython.nogil:
        for index in range(start.shape[0]):
            source = start[index]
            target = where[index]
            length = size[index]
            if length < 0 or source < 0 or target < 0:
                return index
            if length > data.shape[0] - source or length > placed.shape[0] - target:
                return index
            copy_bytes(data, source, length, placed, target)
        return start.shape[0]


@cython.ccall
@cython.exceptval(-1, check=False)
def find_ends(data: ConstU8, start: ConstI64, end: I64) -> cython.longlong:
    """Set `end` to the offset of the first zero byte of `data` at or after each start; to -1 where there is none.

    Starts ascend, so that no byte is read twice. Returns how many have an end.
    """
    index: cython.longlong
    at: cython.longlong = 0
    with cython.nogil:
        for index in range(start.shape[0]):
            end[index] = -1
        for index in range(start.shape[0]):
            if start[index] > at:
                at = start[index]
            while at < data.shape[0] and data[at] != 0:
                at += 1
            if at >= data.shape[0]:
                return index
            end[index] = at
        return start.shape[0]
