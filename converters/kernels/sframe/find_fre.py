# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The frame row entry in force at a PC, read from the section's bytes as an unwinder reads them.

Strategy: the caller has found the FDE; its FREs are decoded one by one up to the first one that starts after the PC.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import U8, ConstU64
    from ..shared.reads import Reader
    from .fres import Blocks, Fres


@cython.ccall
@cython.exceptval(-1, check=False)
def find(
    reader: Reader, minimum: cython.int, blocks: Blocks, target: ConstU64, found: U8, fres: Fres
) -> cython.longlong:
    """For each block the last FRE that starts at or before `target`; return how many blocks were searched.

    These are all, unless there is a fault: then the reader is at the FRE. `target` is relative to the same address as
    start addresses are. An FRE has `minimum` words or more. `found` is 0 where even the first FRE starts after the
    target. `fres` has one element more than there are blocks: space for the FRE that goes too far.
    """
    block: cython.longlong
    _index: cython.longlong
    at: cython.longlong
    last: cython.longlong = blocks.offset.shape[0]
    with cython.nogil:
        for block in range(last):
            reader.offset = blocks.offset[block]
            found[block] = 0
            for _index in range(blocks.count[block]):
                at = reader.offset
                fres.read(reader, blocks.start_size[block], minimum, blocks.most[block], last)
                if reader.fault:
                    reader.offset = at
                    return block
                if fres.start[last] > target[block]:
                    break
                found[block] = 1
                fres.copy(last, block)
        return last
