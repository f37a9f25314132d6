# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The address ranges of entries: joined where they touch, and cut to those of the entry that contains the entry."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import I64, U8, U16, U64, ConstI64, ConstU64


@cython.ccall
@cython.exceptval(check=False)
def join(owner: I64, start: U64, end: U64) -> cython.longlong:
    """Join the ranges of an owner that touch or overlap, in place; returns how many are left. Owners ascend, and so do
    the starts of each."""
    index: cython.longlong
    last: cython.longlong = 0
    if not owner.shape[0]:
        return 0
    with cython.nogil:
        for index in range(1, owner.shape[0]):
            if owner[index] == owner[last] and start[index] <= end[last]:
                if end[index] > end[last]:
                    end[last] = end[index]
            else:
                last += 1
                owner[last] = owner[index]
                start[last] = start[index]
                end[last] = end[index]
    return last + 1


@cython.final
@cython.cclass
class Clipped:
    """Space for the ranges that are left: those of entry e are `first[e]` up to `first[e + 1]`. `depth` is how many
    inlined functions contain an inlined one; `is_cut`, whether an entry has lost bytes."""

    def __init__(self, owner: I64, start: U64, end: U64, first: I64, depth: U16, is_cut: U8) -> None:
        self.owner = owner
        self.start = start
        self.end = end
        self.first = first
        self.depth = depth
        self.is_cut = is_cut


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def first_beyond(
    end: ConstU64, low: cython.longlong, high: cython.longlong, address: cython.ulonglong
) -> cython.longlong:
    """The first of the ranges from `low` up to `high` that ends after an address; `high` if there is none."""
    middle: cython.longlong
    while low < high:
        middle = (low + high) >> 1
        if end[middle] > address:
            high = middle
        else:
            low = middle + 1
    return low


@cython.ccall
@cython.exceptval(check=False)
def clip(parent: ConstI64, own: ConstI64, start: ConstU64, end: ConstU64, found: Clipped) -> cython.longlong:
    """The ranges of each entry inside those of its parent, and the number of all; -1 if there is no space for them.

    Parents (-1: none) precede what they contain. Entry e has the ranges own[e] up to own[e + 1]; those of an entry are
    disjoint and ascend.
    """
    entry: cython.longlong
    above: cython.longlong
    index: cython.longlong
    place: cython.longlong
    count: cython.longlong = 0
    lost: cython.ulonglong
    low: cython.ulonglong
    high: cython.ulonglong
    with cython.nogil:
        for entry in range(parent.shape[0]):
            found.first[entry] = count
            above = parent[entry]
            lost = 0
            for index in range(own[entry], own[entry + 1]):
                if above < 0:
                    if count == found.owner.shape[0]:
                        return -1
                    found.owner[count] = entry
                    found.start[count] = start[index]
                    found.end[count] = end[index]
                    count += 1
                    continue
                lost += end[index] - start[index]
                place = first_beyond(found.end, found.first[above], found.first[above + 1], start[index])
                while place < found.first[above + 1] and found.start[place] < end[index]:
                    if count == found.owner.shape[0]:
                        return -1
                    low = found.start[place] if found.start[place] > start[index] else start[index]
                    high = found.end[place] if found.end[place] < end[index] else end[index]
                    found.owner[count] = entry
                    found.start[count] = low
                    found.end[count] = high
                    lost -= high - low
                    count += 1
                    place += 1
            found.is_cut[entry] = lost > 0
            found.depth[entry] = 0 if above < 0 or parent[above] < 0 else found.depth[above] + 1
            found.first[entry + 1] = count
    return count
