# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The frame row entry in force at a PC, read from the section's bytes as an unwinder reads them.

Strategy: the caller has found the FDE; its FREs are decoded one by one until one starts behind the PC.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import I32_2D, U8, U64, ConstI64, ConstU8, ConstU64
    from ..shared.reads import Reader
    from .fres import decode_one


@cython.ccall
@cython.exceptval(-1, check=False)
def find(
    reader: Reader,
    least: cython.int,
    block_offset: ConstI64,
    block_fres: ConstI64,
    start_size: ConstU8,
    target: ConstU64,
    found: U8,
    start: U64,
    info: U8,
    words: I32_2D,
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
