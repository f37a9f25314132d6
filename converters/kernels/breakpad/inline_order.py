# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The order of inlined functions, and whether they nest as INLINE records must (Breakpad, symbol files, INLINE)."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import I64, U8, ConstI64, ConstU64


@cython.ccall
@cython.exceptval(check=False)
def preorder(parent: ConstI64, size: I64, following: I64, rank: I64) -> cython.void:
    """The rank of each item when all that it contains come right after it. Parents (-1: none) precede what they
    contain. `size`, all 1, and `following`, of one more element, are working memory."""
    item: cython.longlong
    above: cython.longlong
    last: cython.longlong = parent.shape[0]
    with cython.nogil:
        for item in range(last - 1, -1, -1):
            if parent[item] >= 0:
                size[parent[item]] += size[item]
        following[last] = 0
        for item in range(last):
            above = parent[item] if parent[item] >= 0 else last
            rank[item] = following[above]
            following[above] += size[item]
            following[item] = rank[item] + 1


@cython.ccall
@cython.exceptval(check=False)
def mark_faults(
    order: ConstI64,
    start: ConstU64,
    end: ConstU64,
    function: ConstI64,
    level: ConstI64,
    item: ConstI64,
    parent: ConstI64,
    last_of: I64,
    faulty: U8,
) -> cython.void:
    """Mark the functions in which ranges of one level overlap, or a range is not inside one of its parent.

    `order` is ascending by start, and of equal starts by level. Of a range: `function`, `level`, the inlined function
    `item`, and the one that contains that, `parent`. `last_of`, all -1, is working memory, by level.
    """
    index: cython.longlong
    place: cython.longlong
    here: cython.longlong
    before: cython.longlong
    above: cython.longlong
    with cython.nogil:
        for index in range(order.shape[0]):
            place = order[index]
            here = level[place]
            before = last_of[here]
            if before >= 0 and function[before] == function[place] and end[before] > start[place]:
                faulty[function[place]] = 1
            if here > 0:
                above = last_of[here - 1]
                if (
                    above < 0
                    or function[above] != function[place]
                    or item[above] != parent[place]
                    or end[above] < end[place]
                ):
                    faulty[function[place]] = 1
            last_of[here] = place
