# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Neighbouring ranges as one FDE where that is smaller: the bytes between them, and the cheapest grouping.

Strategy: a gap is walked instruction by instruction, and is padding only if each one is known to do nothing. The
grouping is a dynamic program: the cheapest way to write the ranges up to each one, by where its group begins.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from .protocol import PaddingCode

if not cython.compiled:
    from ..array_types import I64, U8, ConstI64, ConstU8, ConstU64

X86_64 = cython.declare(cython.int, int(PaddingCode.X86_64))
AARCH64 = cython.declare(cython.int, int(PaddingCode.AARCH64))

AARCH64_NOP = cython.declare(cython.ulonglong, 0xD503201F)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def x86_64_nop(code: ConstU8, at: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Bytes of the nop (with its prefixes), int3 or zero byte at an offset; 0 for any other instruction."""
    begin: cython.longlong = at
    mode: cython.int
    if code[at] == 0x00 or code[at] == 0xCC:
        return 1
    while at < end and (code[at] == 0x66 or code[at] == 0x2E):
        at += 1
    if at < end and code[at] == 0x90:
        return at + 1 - begin
    if at + 2 >= end or code[at] != 0x0F or code[at + 1] != 0x1F or code[at + 2] >> 3 & 7:
        return 0
    # nopw /0: a ModRM byte, a SIB byte if that requires one, a displacement.
    mode = code[at + 2]
    at += 3
    if mode >> 6 != 3 and mode & 7 == 4:
        if at >= end or (mode >> 6 == 0 and code[at] & 7 == 5):
            return 0
        at += 1
    if mode >> 6 == 1:
        at += 1
    elif mode >> 6 == 2 or (mode >> 6 == 0 and mode & 7 == 5):
        at += 4
    return at - begin if at <= end else 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def aarch64_nop(code: ConstU8, at: cython.longlong, end: cython.longlong) -> cython.longlong:
    """4 for a nop or four zero bytes at an offset; 0 for anything else."""
    word: cython.ulonglong
    if at + 4 > end:
        return 0
    word = code[at] | code[at + 1] << 8 | code[at + 2] << 16 | cython.cast(cython.ulonglong, code[at + 3]) << 24
    return 4 if word == AARCH64_NOP or word == 0 else 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def s390x_nop(code: ConstU8, at: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Bytes of a branch on no condition (nopr, nop, jnop, jgnop) or of two zero bytes; 0 for anything else."""
    size: cython.longlong = 0
    if at + 2 > end:
        return 0
    if code[at] == 0x00 and code[at + 1] == 0x00:
        size = 2
    elif code[at] == 0x07 and code[at + 1] >> 4 == 0:
        size = 2
    elif code[at] == 0x47 and code[at + 1] >> 4 == 0:
        size = 4
    elif code[at] == 0xA7 and code[at + 1] == 0x04:
        size = 4
    elif code[at] == 0xC0 and code[at + 1] == 0x04:
        size = 6
    return size if at + size <= end else 0


@cython.ccall
@cython.exceptval(check=False)
def padding(
    instructions: cython.int,
    code: ConstU8,
    gap_start: ConstI64,
    gap_end: ConstI64,
    is_padding: U8,
) -> cython.void:
    """Whether each gap, given by offsets in `code`, holds only nops, traps and zeros."""
    gap: cython.longlong
    at: cython.longlong
    size: cython.longlong
    with cython.nogil:
        for gap in range(gap_start.shape[0]):
            at = gap_start[gap]
            while at < gap_end[gap]:
                if instructions == X86_64:
                    size = x86_64_nop(code, at, gap_end[gap])
                elif instructions == AARCH64:
                    size = aarch64_nop(code, at, gap_end[gap])
                else:
                    size = s390x_nop(code, at, gap_end[gap])
                if not size:
                    break
                at += size
            is_padding[gap] = at == gap_end[gap]


@cython.final
@cython.cclass
class Ranges:
    """Ranges of addresses, ascending. Each has `rows` FREs, which take `size` bytes without their start addresses.

    `joins`: it may share an FDE with the range before it; `repeated` is the size of its first FRE if the range before
    it ends with an equal one, else 0. `single_cost` is its cost in an FDE of its own; `last` is where its last FRE
    starts.
    """

    def __init__(
        self,
        start: ConstU64,
        last: ConstU64,
        joins: ConstU8,
        rows: ConstI64,
        size: ConstI64,
        repeated: ConstI64,
        single_cost: ConstI64,
    ) -> None:
        self.start = start
        self.last = last
        self.joins = joins
        self.rows = rows
        self.size = size
        self.repeated = repeated
        self.single_cost = single_cost

    def bytes_of_starts(self, first: cython.longlong, last: cython.longlong) -> cython.longlong:
        """The size of the start addresses in an FDE of some ranges."""
        reach: cython.ulonglong = self.last[last] - self.start[first]
        return 1 if reach < 0x100 else 2 if reach < 0x10000 else 4


@cython.ccall
@cython.exceptval(check=False)
def group(
    max_rows: cython.longlong,
    window: cython.longlong,
    scale: cython.longlong,
    fde_cost: cython.longlong,
    ranges: Ranges,
    best: I64,
    begin: I64,
) -> cython.void:
    """For each range the cheapest grouping of it and all before it: `begin` is the first range of its last group.

    A group costs `fde_cost` and its FREs. A cost of `scale` is one byte. `best[n]` is the cost of the first n ranges:
    it has one element more than there are ranges.
    """
    last: cython.longlong
    first: cython.longlong
    count: cython.longlong
    size: cython.longlong
    cost: cython.longlong
    with cython.nogil:
        best[0] = 0
        for last in range(ranges.start.shape[0]):
            best[last + 1] = best[last] + ranges.single_cost[last]
            begin[last] = last
            count = ranges.rows[last]
            size = ranges.size[last]
            first = last
            while first > 0 and ranges.joins[first] and last - first + 1 < window:
                if ranges.repeated[first]:
                    count -= 1
                    size -= ranges.repeated[first]
                first -= 1
                count += ranges.rows[first]
                size += ranges.size[first]
                if count > max_rows:
                    break
                cost = best[first] + fde_cost + scale * (size + count * ranges.bytes_of_starts(first, last))
                if cost < best[last + 1]:
                    best[last + 1] = cost
                    begin[last] = first
