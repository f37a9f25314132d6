"""Changed arguments of kernels: bytes, numbers, and rows of columns that belong together.

Strategy: numbers become those that kernels go wrong at: limits of their type, lengths of arrays, those of other places,
one more or less. Bytes are flipped, and words among them become such numbers, LEB128 extremes or telling bytes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from unwindkit.schemas.section import ByteOrder

from ..mutation import LEBS, TELLING
from .given import Array, Given, array

# No input grows beyond this many bytes, or this many rows.
MOST_BYTES = 4096
MOST_ROWS = 64
CHANGES = (1, 1, 1, 1, 1, 1, 2, 4)


class Mutator:
    """Changes some arguments: `data`, whose bytes may be any; `values`, whose numbers may; `groups`, columns that have
    an element for each of the same rows. The elements of `free` arguments may be any, whatever the others are."""

    def __init__(
        self, data: Sequence[str], values: Sequence[str], groups: Sequence[Sequence[str]], free: Sequence[str]
    ) -> None:
        self._free = list(free)
        # Bytes are what is untrusted most.
        self._names = [*values, *(list(data) * max(1, len(values) // max(1, len(data))))]
        self._data = frozenset(data)
        self._groups = list(groups)

    def mutate(self, random_: random.Random, given: Given, other: Given) -> tuple[Given, set[str]]:
        """A changed copy, and what has changed; `other` is one that may be mixed in."""
        found, changed = dict(given), set[str]()
        for _ in range(random_.choice(CHANGES)):
            if self._groups and random_.random() < 0.15:
                self._change_rows(random_, found, changed)
                continue
            name = random_.choice(self._names)
            one = found[name]
            if name in self._data:
                self._change_bytes(random_, found, name, other, changed)
            elif isinstance(one, np.ndarray):
                if one.size:
                    found[name] = _with_number(random_, one, found)
                    changed.add(name)
            else:
                found[name] = _number(random_, one, 64, found)
                changed.add(name)
        return found, changed

    def sibling(self, random_: random.Random, given: Given) -> Given:
        """The same with one element changed that may be any: it takes little time."""
        name = random_.choice(self._free) if self._free else ""
        one = given.get(name)
        if not isinstance(one, np.ndarray) or not one.size:
            return given
        if one.dtype != np.uint8:
            return {**given, name: _with_number(random_, one, given)}
        changed = one.copy()
        flat = changed.reshape(-1)
        where = int(random_.random() * len(flat))
        flat[where] = random_.choice(TELLING) if random_.random() < 0.5 else flat[where] ^ 1 << random_.getrandbits(3)
        return {**given, name: changed}

    def _change_bytes(self, random_: random.Random, found: Given, name: str, other: Given, changed: set[str]) -> None:
        data = array(found, name).tobytes()
        size = len(data)
        where, length = (random_.randrange(size + 1), random_.choice((1, 1, 2, 4, 8, 16)))
        match random_.randrange(10):
            case 0 | 1 | 2 if where < size:
                new = bytes([data[where] ^ 1 << random_.randrange(8)])
            case 3 | 4:
                new = bytes([random_.choice(TELLING)])
            case 5 if where < size:
                width = random_.choice((1, 2, 4, 8))
                old = int.from_bytes(data[where : where + width], "little")
                order: ByteOrder = random_.choice(("little", "big"))
                new = (_number(random_, old, 8 * width, found) & (1 << 8 * width) - 1).to_bytes(width, order)
            case 6:
                new = random_.choice(LEBS)
            case 7:
                new, length = b"", length
            case 8:
                begin = random_.randrange(size + 1)
                new = data[begin : begin + length] * random_.choice((1, 1, 4))
            case _:
                theirs = array(other, name).tobytes()
                begin = random_.randrange(len(theirs) + 1)
                new = theirs[begin : begin + 2 * length]
        # Half of the changes leave everything else in place.
        removed = len(new) if random_.random() < 0.5 else random_.choice((0, length))
        data = (data[:where] + new + data[where + removed :])[:MOST_BYTES]
        found[name] = np.frombuffer(data, np.uint8).copy()
        changed |= {name, f"#{name}"} if len(data) != size else {name}

    def _change_rows(self, random_: random.Random, found: Given, changed: set[str]) -> None:
        """Remove, repeat or swap a row of columns."""
        names = random_.choice(self._groups)
        count = len(array(found, names[0]))
        if not count:
            return
        one, two = random_.randrange(count), random_.randrange(count)
        rows = list(range(count))
        match random_.randrange(4):
            case 0 if count > 1:
                del rows[one]
            case 1 if count < MOST_ROWS:
                rows.insert(two, one)
            case 2:
                rows[one] = two
            case _:
                rows[one], rows[two] = two, one
        for name in names:
            found[name] = array(found, name)[rows]
            changed |= {name, f"#{name}"}


def _with_number(random_: random.Random, one: Array, given: Given) -> Array:
    """A copy with one element changed."""
    changed = one.copy()
    flat = changed.reshape(-1)
    where = random_.randrange(len(flat))
    bits = 8 * flat.itemsize
    value = _number(random_, int(flat[where]), bits, given)
    other = int(flat[random_.randrange(len(flat))])
    value = random_.choice((value, value, value, other)) & (1 << bits) - 1
    if flat.dtype.kind == "i" and value >> bits - 1:
        value -= 1 << bits
    flat[where] = value
    return changed


def _number(random_: random.Random, old: int, bits: int, given: Given) -> int:
    """A number that may be of interest where there is `old`."""
    match random_.randrange(12):
        case 0:
            return old + 1
        case 1:
            return old - 1
        case 2:
            return old + random_.randrange(-16, 17)
        case 3:
            return -old
        case 4:
            return old ^ 1 << random_.randrange(bits)
        case 5:
            return random_.choice((0, 1, 2, -1, -2, 1 << bits - 1, (1 << bits - 1) - 1))
        case 6:
            return random_.getrandbits(random_.randrange(1, bits + 1))
        case 7:
            return 2 * old
        case 8 | 9:
            return random_.randrange(16)
        case _:
            one = random_.choice(list(given.values()))
            return one if isinstance(one, int) else len(one) + random_.randrange(-1, 2)
