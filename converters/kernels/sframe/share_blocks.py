# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Which blocks of FREs can use another's bytes: equal blocks, and in versions 1 and 2 those that another begins with.

Strategy: segments are hashed FRE by FRE, so that every prefix of a block has a hash; the hash table holds whole blocks,
and what a hash finds is compared. Nothing is encoded.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import I32, I64, U8, U32, ConstI64, ConstU64
    from .fres import FreRows, Segments

# A Mersenne prime: products of two numbers below it fit 64 bits.
PRIME = cython.declare(cython.ulonglong, 0x7FFFFFFF)
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
WORD = cython.declare(cython.longlong, 0xFFFFFFFF)


@cython.cclass
class Sharing:
    """Blocks by segment and group, and the hash table of them. Only blocks of the same group can be shared: they have
    the same size of start addresses, and the same attributes where these are part of a block.

    `keys` are odd 64-bit numbers, two more than words, then one below 2**30; all are drawn anew for each use, so that
    an adversary cannot choose blocks that collide. `hashes` has one element per FRE. `slots`, all -1, is the open hash
    table: its length is a power of two above twice the number of blocks. `marks`, all 0 and of the same length in
    bytes, is a filter of bits before it. `host` is the result.
    """

    def __init__(
        self,
        rows: FreRows,
        segments: Segments,
        segment: ConstI64,
        group: ConstI64,
        keys: ConstU64,
        hashes: U32,
        slots: I32,
        marks: U8,
        host: I64,
    ) -> None:
        self.rows = rows
        self.segments = segments
        self.segment = segment
        self.group = group
        self.keys = keys
        self.hashes = hashes
        self.slots = slots
        self.marks = marks
        self.host = host

    def hash_segments(self, rows: FreRows, begin: cython.longlong, end: cython.longlong) -> cython.void:
        """Give each FRE of the segments `begin` up to `end` the hash of its segment up to and including it."""
        number: cython.longlong
        index: cython.longlong = self.segments.first_fre(begin)
        row: cython.longlong
        value: cython.ulonglong
        mixed: cython.ulonglong
        word: cython.int
        base: cython.ulonglong = self.keys[self.keys.shape[0] - 1]
        with cython.nogil:
            for number in range(begin, end):
                value = 1
                while index < self.segments.fres[number]:
                    row = self.segments.rows[index]
                    mixed = (
                        (rows.offset[row] - self.segments.start[number]) * self.keys[0] + rows.info[row] * self.keys[1]
                    ) & ALL_ONES
                    for word in range(rows.words.shape[1]):
                        mixed = (mixed + (rows.words[row, word] & WORD) * self.keys[2 + word]) & ALL_ONES
                    value = value * base + (mixed >> 34)
                    # Congruent modulo the prime, and below 2**32 again, without a division.
                    value = (value & PRIME) + (value >> 31)
                    self.hashes[index] = value
                    index += 1

    def first(self, block: cython.longlong) -> cython.longlong:
        """The index of a block's first FRE in the rows of segments."""
        return self.segments.first_fre(self.segment[block])

    def begins_with(
        self, rows: FreRows, block: cython.longlong, other: cython.longlong, count: cython.longlong
    ) -> cython.int:
        """Whether the first `count` FREs of two blocks are equal."""
        at: cython.longlong = self.first(block)
        other_at: cython.longlong = self.first(other)
        start: cython.ulonglong = self.segments.start[self.segment[block]]
        other_start: cython.ulonglong = self.segments.start[self.segment[other]]
        index: cython.longlong
        one: cython.longlong
        two: cython.longlong
        word: cython.int
        for index in range(count):
            one = self.segments.rows[at + index]
            two = self.segments.rows[other_at + index]
            if rows.offset[one] - start != rows.offset[two] - other_start or rows.info[one] != rows.info[two]:
                return 0
            for word in range(rows.words.shape[1]):
                if rows.words[one, word] != rows.words[two, word]:
                    return 0
        return 1

    def find(self, block: cython.longlong, count: cython.longlong) -> cython.longlong:
        """The slot of the block that equals the first `count` FREs of `block` and hosts itself, or a free slot."""
        mask: cython.longlong = self.slots.shape[0] - 1
        value: cython.longlong = self.hashes[self.first(block) + count - 1]
        slot: cython.longlong = value & mask
        other: cython.longlong
        last: cython.longlong
        while self.slots[slot] >= 0:
            other = self.slots[slot]
            last = self.segments.fres[self.segment[other]] - 1
            if (
                self.hashes[last] == value
                and self.host[other] == other
                and self.group[other] == self.group[block]
                and last + 1 - self.first(other) == count
                and self.begins_with(self.rows, block, other, count)
            ):
                break
            slot = slot + 1 & mask
        return slot

    def share(self, prefixes: cython.int) -> cython.void:
        """Give each block in `host` the block whose bytes it uses: itself, an equal one or, with `prefixes`, one that
        begins with it. All segments have been hashed."""
        block: cython.longlong
        other: cython.longlong
        count: cython.longlong
        slot: cython.longlong
        first: cython.longlong
        last: cython.longlong
        index: cython.longlong
        value: cython.longlong
        mask: cython.longlong = self.marks.shape[0] - 1
        with cython.nogil:
            for block in range(self.segment.shape[0]):
                self.host[block] = block
                slot = self.find(block, self.segments.fres[self.segment[block]] - self.first(block))
                if self.slots[slot] < 0:
                    self.slots[slot] = block
                    value = self.hashes[self.segments.fres[self.segment[block]] - 1]
                    self.marks[value >> 3 & mask] |= 1 << (value & 7)
                self.host[block] = self.slots[slot]
            if not prefixes:
                return
            for block in range(self.segment.shape[0]):
                if self.host[block] != block:
                    continue
                first = self.first(block)
                last = self.segments.fres[self.segment[block]] - 1
                for index in range(first, last):
                    # Nearly no prefix is a block. The marks, which fit a cache, tell so without a look-up.
                    value = self.hashes[index]
                    if self.marks[value >> 3 & mask] >> (value & 7) & 1:
                        count = index + 1 - first
                        other = self.slots[self.find(block, count)]
                        if other >= 0 and self.host[other] == other:
                            self.host[other] = block
            # A host may itself use another block: each step leads to a longer one.
            for block in range(self.segment.shape[0]):
                while self.host[self.host[block]] != self.host[block]:
                    self.host[block] = self.host[self.host[block]]
