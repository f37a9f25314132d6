# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The frame row entry in force at a PC, read from the section's bytes as an unwinder reads them.

Strategy: the caller has found the FDE; its FREs are decoded one by one until one starts behind the PC.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from .. import cython_shim as cython

if not cython.compiled:
    from ..shared.reads import Reader
    from .fres import decode_one


@cython.ccall
@cython.exceptval(-1, check=False)
def find(
    reader: Reader,
    least: cython.int,
    block_offset: cython.const[cython.longlong][::1],
    block_fres: cython.const[cython.longlong][::1],
    start_size: cython.const[cython.uchar][::1],
    target: cython.const[cython.ulonglong][::1],
    found: cython.uchar[::1],
    start: cython.ulonglong[::1],
    info: cython.uchar[::1],
    words: cython.int[:, ::1],
) -> cython.longlong:
    """For each look-up the last FRE that starts at or before `target`; return how many were done.

    A look-up has the FREs at `block_offset`, `block_fres` of them, each of `least` words or more, and a `target` in
    bytes from what their starts count from. `found` is 0 where the first FRE starts behind it. Columns have one
    element more than look-ups: room for the FRE that is one too many. At a fault the reader stands where the FRE
    starts.
    """
    lookup: cython.longlong
    _index: cython.longlong
    at: cython.longlong
    spare: cython.longlong = block_offset.shape[0]
    word: cython.int
    for lookup in range(spare):
        reader.offset = block_offset[lookup]
        found[lookup] = 0
        for _index in range(block_fres[lookup]):
            at = reader.offset
            decode_one(reader, start_size[lookup], least, spare, start, info, words)
            if reader.fault:
                reader.offset = at
                return lookup
            if start[spare] > target[lookup]:
                break
            found[lookup] = 1
            start[lookup] = start[spare]
            info[lookup] = info[spare]
            for word in range(words.shape[1]):
                words[lookup, word] = words[spare, word]
    return spare
