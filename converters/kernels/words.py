# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Words that kernels put into text."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from . import pure as cython


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_word(
    words: cython.const[cython.uchar][::1],
    start: cython.longlong,
    size: cython.longlong,
    out: cython.uchar[::1],
    at: cython.longlong,
) -> cython.longlong:
    """Copy a word, where there is room; return where the next piece goes."""
    byte: cython.longlong
    if at + size <= out.shape[0]:
        if cython.compiled:
            for byte in range(size):
                out[at + byte] = words[start + byte]
        else:
            out[at : at + size] = words[start : start + size]
    return at + size
