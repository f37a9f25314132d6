# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Which blocks of FREs can use another's bytes: equal blocks, and in versions 1 and 2 those that another begins with.

Strategy: segments are hashed FRE by FRE, so that every beginning of a block has a hash; the hash table holds
whole blocks, and what a hash finds is compared. Nothing is encoded for it.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import I32, I64, U8, U32, ConstI32_2D, ConstI64, ConstU8, ConstU64

# A Mersenne prime: products of two numbers below it fit 64 bits.
PRIME = cython.declare(cython.ulonglong, 0x7FFFFFFF)
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
WORD = cython.declare(cython.longlong, 0xFFFFFFFF)


@cython.cclass
class Sharing:
    """Blocks by segment and group, and the hash table over them; fres.py documents the columns. Only blocks of
    one group can be shared: of one start width, and one set of attributes where these are part of a block.

    `keys` are odd numbers of 64 bits, two more than words, and one below 2**30, drawn anew for each use: an
    adversary cannot choose blocks that collide. `hashes` has an element an FRE. `slots`, all -1, is the open hash
    table: its length a power of two above twice the blocks; `marks`, all 0 and of such a length in bytes, a filter
    of bits before it. `host` is the result.
    """

    def __init__(
        self,
        segment: ConstI64,
        group: ConstI64,
        offset: ConstU64,
        info: ConstU8,
        words: ConstI32_2D,
        segment_start: ConstU64,
        segment_fres: ConstI64,
        fres: ConstI64,
        keys: ConstU64,
        hashes: U32,
        slots: I32,
        marks: U8,
        host: I64,
    ) -> None:
        self.segment = segment
        self.group = group
        self.offset = offset
        self.info = info
        self.words = words
        self.segment_start = segment_start
        self.segment_fres = segment_fres
        self.fres = fres
        self.keys = keys
        self.hashes = hashes
        self.slots = slots
        self.marks = marks
        self.host = host

    def hash_segments(self) -> cython.void:
        """Give each FRE the hash of its segment's beginning up to and with it."""
        number: cython.longlong
        index: cython.longlong = 0
        row: cython.longlong
        value: cython.ulonglong
        mixed: cython.ulonglong
        word: cython.int
        base: cython.ulonglong = self.keys[self.keys.shape[0] - 1]
        for number in range(self.segment_fres.shape[0]):
            value = 1
            while index < self.segment_fres[number]:
                row = self.fres[index]
                mixed = (
                    (self.offset[row] - self.segment_start[number]) * self.keys[0] + self.info[row] * self.keys[1]
                ) & ALL_ONES
                for word in range(self.words.shape[1]):
                    mixed = (mixed + (self.words[row, word] & WORD) * self.keys[2 + word]) & ALL_ONES
                value = (value * base + (mixed >> 34)) % PRIME
                self.hashes[index] = value
                index += 1

    def first(self, block: cython.longlong) -> cython.longlong:
        """The index of a block's first FRE in `fres`."""
        number: cython.longlong = self.segment[block]
        return self.segment_fres[number - 1] if number else 0

    def begins_with(self, block: cython.longlong, other: cython.longlong, count: cython.longlong) -> cython.int:
        """Whether the first `count` FREs of both are equal."""
        at: cython.longlong = self.first(block)
        other_at: cython.longlong = self.first(other)
        start: cython.ulonglong = self.segment_start[self.segment[block]]
        other_start: cython.ulonglong = self.segment_start[self.segment[other]]
        index: cython.longlong
        one: cython.longlong
        two: cython.longlong
        word: cython.int
        for index in range(count):
            one = self.fres[at + index]
            two = self.fres[other_at + index]
            if self.offset[one] - start != self.offset[two] - other_start or self.info[one] != self.info[two]:
                return 0
            for word in range(self.words.shape[1]):
                if self.words[one, word] != self.words[two, word]:
                    return 0
        return 1

    def find(self, block: cython.longlong, count: cython.longlong) -> cython.longlong:
        """The slot of the block that is the first `count` FREs of `block` and hosts itself, or a free one."""
        mask: cython.longlong = self.slots.shape[0] - 1
        value: cython.longlong = self.hashes[self.first(block) + count - 1]
        slot: cython.longlong = value & mask
        other: cython.longlong
        last: cython.longlong
        while self.slots[slot] >= 0:
            other = self.slots[slot]
            last = self.segment_fres[self.segment[other]] - 1
            if (
                self.hashes[last] == value
                and self.host[other] == other
                and self.group[other] == self.group[block]
                and last + 1 - self.first(other) == count
                and self.begins_with(block, other, count)
            ):
                break
            slot = slot + 1 & mask
        return slot

    def share(self, beginnings: cython.int) -> cython.void:
        """Give each block in `host` the block whose bytes it uses: itself, an equal one, or with `beginnings` also one
        that begins with it."""
        block: cython.longlong
        other: cython.longlong
        count: cython.longlong
        slot: cython.longlong
        first: cython.longlong
        last: cython.longlong
        index: cython.longlong
        value: cython.longlong
        mask: cython.longlong = self.marks.shape[0] - 1
        self.hash_segments()
        for block in range(self.segment.shape[0]):
            self.host[block] = block
            slot = self.find(block, self.segment_fres[self.segment[block]] - self.first(block))
            if self.slots[slot] < 0:
                self.slots[slot] = block
                value = self.hashes[self.segment_fres[self.segment[block]] - 1]
                self.marks[value >> 3 & mask] |= 1 << (value & 7)
            self.host[block] = self.slots[slot]
        if not beginnings:
            return
        for block in range(self.segment.shape[0]):
            if self.host[block] != block:
                continue
            first = self.first(block)
            last = self.segment_fres[self.segment[block]] - 1
            for index in range(first, last):
                # Nearly all beginnings are no block: the marks, which a cache holds, say so without a look-up.
                value = self.hashes[index]
                if self.marks[value >> 3 & mask] >> (value & 7) & 1:
                    count = index + 1 - first
                    other = self.slots[self.find(block, count)]
                    if other >= 0 and self.host[other] == other:
                        self.host[other] = block
        # A host may have found one itself: each step leads to a longer block.
        for block in range(self.segment.shape[0]):
            while self.host[self.host[block]] != self.host[block]:
                self.host[block] = self.host[self.host[block]]
