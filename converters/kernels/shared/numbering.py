# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Numbers for equal items, in the order in which they first occur: keys, byte ranges, rules of rows, contents of rows.

Strategy: an open hash table (`Distinct`) for all kinds of items; a subclass tells how an item is hashed and when two
are equal. Keys of the hashes are drawn anew for each use, so that no input can be chosen to collide; even then, items
with equal hashes are compared.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ... import rules as kinds

if not cython.compiled:
    from ..array_types import I32, I64, U64, ConstI64, ConstU8, ConstU64
    from .rows import Rows, Rules

ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
FIRST_SLOTS = cython.declare(cython.longlong, 1 << 12)
GROWTH = cython.declare(cython.longlong, 4)
CFA_NONE = cython.declare(cython.int, int(kinds.CfaKind.NONE))
CFA_REGISTER = cython.declare(cython.int, int(kinds.CfaKind.REGISTER))


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def mixed(value: cython.ulonglong, part: cython.longlong, key: cython.ulonglong) -> cython.ulonglong:
    """A hash with one more part. `key` is odd."""
    value = ((value ^ (part & ALL_ONES)) * key) & ALL_ONES
    return value ^ value >> 32


@cython.cclass
class Distinct:
    """`number` gets the number of each item, `first` the item that each number first occurs with; `count` is how many
    numbers there are.

    `slots` is memory for the hash table: its length is a power of two above twice the number of items. Most items are
    equal to an earlier one, so only as many slots are used as the numbers need, first FIRST_SLOTS: `mask` is one less.
    `hashes` is working memory, one element per item. `keys` are two odd numbers.
    """

    def __init__(self, keys: ConstU64, slots: I32, hashes: U64, number: I64, first: I64) -> None:
        self.keys = keys
        self.slots = slots
        self.hashes = hashes
        self.number = number
        self.first = first
        self.count = 0
        self.use_slots(min(FIRST_SLOTS, self.slots.shape[0]))

    def use_slots(self, slots: cython.longlong) -> cython.void:
        """Use that many slots: put the numbers into them again."""
        number: cython.longlong
        slot: cython.longlong
        self.mask = slots - 1
        for slot in range(slots):
            self.slots[slot] = -1
        for number in range(self.count):
            slot = cython.cast(cython.longlong, self.hashes[number] & cython.cast(cython.ulonglong, self.mask))
            while self.slots[slot] >= 0:
                slot = slot + 1 & self.mask
            self.slots[slot] = cython.cast(cython.int, number)

    def is_same(self, item: cython.longlong, other: cython.longlong) -> cython.int:
        """Whether two items with equal hashes are equal; for subclasses to override."""
        return item == other

    def add(self, item: cython.longlong, value: cython.ulonglong) -> cython.void:
        """Give the next item its number; `value` is its hash."""
        mask: cython.longlong = self.mask
        slot: cython.longlong = cython.cast(cython.longlong, value & cython.cast(cython.ulonglong, mask))
        known: cython.longlong = self.slots[slot]
        while known >= 0 and not (self.hashes[known] == value and self.is_same(item, self.first[known])):
            slot = slot + 1 & mask
            known = self.slots[slot]
        if known < 0:
            known = self.count
            self.slots[slot] = cython.cast(cython.int, known)
            self.hashes[known] = value
            self.first[known] = item
            self.count += 1
            if 2 * self.count > mask:
                self.use_slots(min(GROWTH * (mask + 1), self.slots.shape[0]))
        self.number[item] = known


@cython.final
@cython.cclass
class DistinctValues(Distinct):
    """Numbers for equal values."""

    def number_all(self, values: ConstU64) -> None:
        """Give each value its number."""
        index: cython.longlong
        self.values = values
        with cython.nogil:
            for index in range(values.shape[0]):
                self.add(index, mixed(values[index], 0, self.keys[0]))

    def is_same(self, item: cython.longlong, other: cython.longlong) -> cython.int:
        """Whether two values are equal."""
        return self.values[item] == self.values[other]


@cython.final
@cython.cclass
class DistinctRules(Distinct):
    """Numbers for rows with equal register rules. Many rows refer to the same slice of rules: each is hashed once."""

    def number_all(self, rows: Rows, rules: Rules, known_count: I32, known_number: I64) -> None:
        """Give each row its number. `known_count`, all -1, and `known_number` are working memory: the size and the
        number of the last slice from each rule on. They have one element more than there are rules."""
        row: cython.longlong
        rule: cython.longlong
        first: cython.longlong
        count: cython.longlong
        value: cython.ulonglong
        self.rows = rows
        self.rules = rules
        with cython.nogil:
            for row in range(rows.first_rule.shape[0]):
                first = rows.first_rule[row]
                count = rows.rule_count[row]
                if known_count[first] == count:
                    self.number[row] = known_number[first]
                    continue
                value = count
                for rule in range(first, first + count):
                    value = mixed(value, rules.register[rule] | rules.kind[rule] << 16, self.keys[0])
                    value = mixed(value, rules.value[rule], self.keys[1])
                self.add(row, mixed(value, 0, self.keys[0]))
                known_count[first] = cython.cast(cython.int, count)
                known_number[first] = self.number[row]

    def is_same(self, item: cython.longlong, other: cython.longlong) -> cython.int:
        """Whether two rows have equal rules."""
        one: cython.longlong = self.rows.first_rule[item]
        two: cython.longlong = self.rows.first_rule[other]
        count: cython.longlong = self.rows.rule_count[item]
        rule: cython.longlong
        if self.rows.rule_count[other] != count:
            return 0
        for rule in range(count):
            if (
                self.rules.register[one + rule] != self.rules.register[two + rule]
                or self.rules.kind[one + rule] != self.rules.kind[two + rule]
                or self.rules.value[one + rule] != self.rules.value[two + rule]
            ):
                return 0
        return 1


@cython.final
@cython.cclass
class DistinctContents(Distinct):
    """Numbers for rows that differ in nothing but their offsets."""

    def number_all(self, rows: Rows, others: ConstI64) -> None:
        """Give each row its number. `others` is equal for rows that are equal but for their CFA and `ra_state`. A
        register counts only where the CFA has one, an offset only where there is a CFA."""
        row: cython.longlong
        register: cython.longlong
        state: cython.longlong
        value: cython.ulonglong
        self.rows = rows
        self.others = others
        with cython.nogil:
            for row in range(rows.cfa_kind.shape[0]):
                register = rows.cfa_register[row] if rows.cfa_kind[row] == CFA_REGISTER else 0
                state = rows.ra_state[row]
                value = mixed(others[row], register | rows.cfa_kind[row] << 16 | state << 24, self.keys[0])
                if rows.cfa_kind[row] != CFA_NONE:
                    value = mixed(value, rows.cfa_offset[row], self.keys[1])
                self.add(row, mixed(value, 0, self.keys[1]))

    def is_same(self, item: cython.longlong, other: cython.longlong) -> cython.int:
        """Whether two rows are equal."""
        kind: cython.int = self.rows.cfa_kind[item]
        return (
            self.others[item] == self.others[other]
            and self.rows.cfa_kind[other] == kind
            and (kind != CFA_REGISTER or self.rows.cfa_register[item] == self.rows.cfa_register[other])
            and (kind == CFA_NONE or self.rows.cfa_offset[item] == self.rows.cfa_offset[other])
            and self.rows.ra_state[item] == self.rows.ra_state[other]
        )


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def word_at(data: ConstU8, at: cython.longlong) -> cython.longlong:
    """Eight bytes as a number."""
    word: cython.ulonglong = 0
    place: cython.int
    for place in range(8):
        word = word | cython.cast(cython.ulonglong, data[at + place]) << 8 * place
    return cython.cast(cython.longlong, word)


@cython.final
@cython.cclass
class DistinctBytes(Distinct):
    """Numbers for equal byte ranges data[start:end] of equal `kind`."""

    def number_all(self, data: ConstU8, start: ConstI64, end: ConstI64, kind: ConstI64) -> None:
        """Give each range its number."""
        index: cython.longlong
        at: cython.longlong
        rest: cython.longlong
        value: cython.ulonglong
        key: cython.ulonglong = self.keys[0]
        self.data = data
        self.start = start
        self.end = end
        self.kind = kind
        with cython.nogil:
            for index in range(start.shape[0]):
                value = mixed(cython.cast(cython.ulonglong, kind[index]) & ALL_ONES, end[index] - start[index], key)
                at = start[index]
                while at + 8 <= end[index]:
                    value = mixed(value, word_at(data, at), key)
                    at += 8
                rest = 0
                while at < end[index]:
                    rest = rest << 8 | data[at]
                    at += 1
                self.add(index, mixed(value, rest, key))

    def is_same(self, item: cython.longlong, other: cython.longlong) -> cython.int:
        """Whether two ranges have equal bytes."""
        one: cython.longlong = self.start[item]
        two: cython.longlong = self.start[other]
        size: cython.longlong = self.end[item] - one
        byte: cython.longlong
        if self.kind[item] != self.kind[other] or self.end[other] - two != size:
            return 0
        for byte in range(size):
            if self.data[one + byte] != self.data[two + byte]:
                return 0
        return 1
