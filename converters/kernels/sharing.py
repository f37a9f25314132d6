# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Which blocks of FREs can use another's bytes: equal blocks, and those that another begins with.

Strategy: blocks are hashed FRE by FRE, so that every beginning of a block has a hash; the hash table holds
whole blocks, and what a hash finds is compared. Nothing is encoded for it.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from . import pure as cython

# A Mersenne prime: products of two numbers below it fit 64 bits.
PRIME = cython.declare(cython.ulonglong, 0x7FFFFFFF)


@cython.cclass
class Sharing:
    """Blocks by segment and start width (kernels/fres.py says what the columns hold), and the hash table over them.

    `slots`, all -1, is the open hash table: its length a power of two above twice the blocks. `base`, below
    2**31, is drawn anew for each use: an adversary cannot choose blocks that collide.
    """

    def __init__(
        self,
        segment: cython.const[cython.longlong][::1],
        width: cython.const[cython.uchar][::1],
        offset: cython.const[cython.ulonglong][::1],
        info: cython.const[cython.uchar][::1],
        words: cython.const[cython.int][:, ::1],
        segment_start: cython.const[cython.ulonglong][::1],
        segment_fres: cython.const[cython.longlong][::1],
        fres: cython.const[cython.longlong][::1],
        base: cython.ulonglong,
        slots: cython.longlong[::1],
        hashes: cython.ulonglong[::1],
        host: cython.longlong[::1],
    ) -> None:
        self.segment = segment
        self.width = width
        self.offset = offset
        self.info = info
        self.words = words
        self.segment_start = segment_start
        self.segment_fres = segment_fres
        self.fres = fres
        self.base = base
        self.slots = slots
        self.hashes = hashes
        self.host = host

    def first(self, block: cython.longlong) -> cython.longlong:
        """The index of a block's first FRE in `fres`."""
        number: cython.longlong = self.segment[block]
        return self.segment_fres[number - 1] if number else 0

    def count(self, block: cython.longlong) -> cython.longlong:
        """FREs of a block."""
        return self.segment_fres[self.segment[block]] - self.first(block)

    def mix(self, value: cython.ulonglong, block: cython.longlong, index: cython.longlong) -> cython.ulonglong:
        """A hash with one FRE more."""
        row: cython.longlong = self.fres[self.first(block) + index]
        start: cython.ulonglong = self.offset[row] - self.segment_start[self.segment[block]]
        word: cython.ulonglong = cython.cast(cython.ulonglong, self.words[row, 0] & 0xFFFFFFFF)
        value = (value * self.base + (start & 0x3FFFFFFF) + 1) % PRIME
        value = (value * self.base + (word << 8 | self.info[row]) % PRIME) % PRIME
        word = cython.cast(cython.ulonglong, self.words[row, 1] & 0xFFFFFFFF)
        return (value * self.base + (word ^ (self.words[row, 2] & 0xFFFF) << 16) % PRIME) % PRIME

    def begins_with(self, block: cython.longlong, other: cython.longlong, count: cython.longlong) -> cython.int:
        """Whether the first `count` FREs of both are equal."""
        index: cython.longlong
        one: cython.longlong
        two: cython.longlong
        for index in range(count):
            one = self.fres[self.first(block) + index]
            two = self.fres[self.first(other) + index]
            if (
                self.offset[one] - self.segment_start[self.segment[block]]
                != self.offset[two] - self.segment_start[self.segment[other]]
                or self.info[one] != self.info[two]
                or self.words[one, 0] != self.words[two, 0]
                or self.words[one, 1] != self.words[two, 1]
                or self.words[one, 2] != self.words[two, 2]
            ):
                return 0
        return 1

    def find(self, value: cython.ulonglong, block: cython.longlong, count: cython.longlong) -> cython.longlong:
        """The slot of the block that is the first `count` FREs of `block`, or the free one where it would be."""
        mask: cython.longlong = self.slots.shape[0] - 1
        slot: cython.longlong = cython.cast(cython.longlong, value) & mask
        other: cython.longlong
        while self.slots[slot] >= 0:
            other = self.slots[slot]
            if (
                self.hashes[other] == value
                and self.width[other] == self.width[block]
                and self.count(other) == count
                and self.begins_with(block, other, count)
            ):
                break
            slot = slot + 1 & mask
        return slot

    def share(self) -> cython.void:
        """Give each block in `host` the block whose bytes it uses: itself, or one that is equal or begins with it."""
        block: cython.longlong
        index: cython.longlong
        slot: cython.longlong
        value: cython.ulonglong
        for block in range(self.segment.shape[0]):
            value = self.width[block]
            for index in range(self.count(block)):
                value = self.mix(value, block, index)
            self.hashes[block] = value
            slot = self.find(value, block, self.count(block))
            if self.slots[slot] < 0:
                self.slots[slot] = block
            self.host[block] = self.slots[slot]
        for block in range(self.segment.shape[0]):
            if self.host[block] != block:
                continue
            value = self.width[block]
            for index in range(self.count(block) - 1):
                value = self.mix(value, block, index)
                slot = self.find(value, block, index + 1)
                if self.slots[slot] >= 0 and self.host[self.slots[slot]] == self.slots[slot]:
                    self.host[self.slots[slot]] = block
        # A host may have found one itself: each step leads to a longer block.
        for block in range(self.segment.shape[0]):
            while self.host[self.host[block]] != self.host[block]:
                self.host[block] = self.host[self.host[block]]
