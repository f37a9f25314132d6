# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Pieces of one array of bytes, joined in another."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import U8, ConstI64, ConstU8


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
    byte: cython.longlong
    source: cython.longlong
    length: cython.longlong
    at: cython.longlong = 0
    for index in range(pieces.shape[0]):
        source = start[pieces[index]]
        length = size[pieces[index]]
        if length > joined.shape[0] - at:
            break
        if cython.compiled:
            for byte in range(length):
                joined[at + byte] = data[source + byte]
        else:
            joined[at : at + length] = data[source : source + length]
        at += length
    return at
