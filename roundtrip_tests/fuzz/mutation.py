"""Changed inputs: a field off by one, at its limit, negative or huge; bytes flipped, moved, repeated, cut or mixed.

Strategy: half of the changes are of a field whose place is known, because readers go wrong at lengths, counts and
offsets. Changes that insert or remove bytes move the places after them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from .seeds import Place, Seed

# Bytes that mean something in these formats: lengths, ends of LEB128, opcodes, extremes.
TELLING = bytes.fromhex("00 01 02 04 08 0a 0b 0c 0f 10 16 1b 2d 40 41 7f 80 9b ff")
# Extremes of LEB128: 2**63, 2**64 - 1, -2**63, one beyond 64 bits, and a padded 0.
LEBS = [bytes.fromhex(text) for text in ("80808080808080808001", "ffffffffffffffffff01", "8080808080808080807f",
                                         "80808080808080808002", "80808000", "ffffffff0f", "ffff7f")]  # fmt: skip
# Words of the text formats.
TOKENS = [
    word.encode()
    for word in (
        *(
            "FUNC",
            "PUBLIC",
            "FILE",
            "INLINE",
            "INLINE_ORIGIN",
            "STACK CFI INIT",
            "STACK CFI",
            "STACK WIN",
            "MODULE",
            "m",
        ),
        *(".cfa:", ".ra:", "$rsp", "$eip", "$esp", "$T0", "^", "@", "+", "-", "*", "/", "%", "=", "-1", "0", "1", "8"),
        *(
            "7fffffffffffffff",
            "8000000000000000",
            "ffffffffffffffff",
            "10000000000000000",
            "4294967296",
            "\n",
            " ",
            "\t",
        ),
        *(
            "\r\n",
            "\0",
            ".cfi_startproc\n",
            ".cfi_endproc\n",
            ".cfi_escape 0x16",
            ".cfi_def_cfa",
            ".cfi_remember_state",
        ),
        *(
            ".cfi_restore_state",
            ".p2align 60",
            ".skip 0x7fffffffffffffff",
            ".uleb128",
            "S_",
            "S0_",
            "T_",
            "I",
            "E",
            "B_",
        ),
    )
]
LARGEST = 1 << 16


def mutate(random_: random.Random, seed: Seed, pool: Sequence[Seed]) -> Seed:
    """A changed copy of `seed`; `pool` has others whose bytes may be mixed in. At most 64 KiB."""
    changed = seed
    for _ in range(random_.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        if not changed.data:
            return replace(changed, data=bytes(random_.choices(TELLING, k=8)))
        if changed.places and random_.random() < 0.5:
            changed = _change_field(random_, changed)
        else:
            changed = _change_bytes(random_, changed, pool)
    return changed if len(changed.data) <= LARGEST else replace(changed, data=changed.data[:LARGEST])


def _change_field(random_: random.Random, seed: Seed) -> Seed:
    """The same, with one field changed as a number."""
    offset, size = random_.choice(seed.places)
    bits = 8 * size
    old = int.from_bytes(seed.data[offset : offset + size], seed.byte_order)
    other, other_size = random_.choice(seed.places)
    value = random_.choice((
        old + 1, old - 1, old + random_.randrange(-16, 17), -old, 2 * old, old // 2, 0, 1, -1, -2, 1 << bits - 1,
        (1 << bits - 1) - 1, len(seed.data), len(seed.data) - offset, len(seed.data) + 1, offset,
        int.from_bytes(seed.data[other : other + other_size], seed.byte_order), random_.getrandbits(bits),
        old ^ 1 << random_.randrange(bits),
    ))  # fmt: skip
    stored = (value & (1 << bits) - 1).to_bytes(size, seed.byte_order)
    data = seed.data[:offset] + stored + seed.data[offset + size :]
    return replace(seed, data=data)


def _change_bytes(random_: random.Random, seed: Seed, pool: Sequence[Seed]) -> Seed:
    """The same, with some bytes changed, inserted, removed, repeated or copied."""
    data = seed.data
    where = random_.randrange(len(data))
    size = random_.choice((1, 1, 2, 4, 8, 16, 32))
    other = random_.randrange(len(data))
    match random_.randrange(10):
        case 0 | 1:
            return _put(seed, where, bytes([data[where] ^ 1 << random_.randrange(8)]))
        case 2 | 3:
            return _put(seed, where, bytes([random_.choice(TELLING)]))
        case 4:
            return _put(seed, where, data[other : other + size])
        case 5:
            return _splice(seed, where, size, b"")
        case 6:
            return _splice(seed, where, 0, bytes(random_.choices(TELLING, k=size)))
        case 7:
            return _splice(seed, where, 0, data[other : other + size] * random_.choice((1, 2, 8)))
        case 8:
            return _splice(seed, where, random_.randrange(3), random_.choice(LEBS if seed.places else TOKENS))
        case _:
            theirs = random_.choice(pool).data
            begin = random_.randrange(len(theirs) + 1)
            return _splice(seed, where, size, theirs[begin : begin + 2 * size])


def _put(seed: Seed, where: int, stored: bytes) -> Seed:
    """The same, with bytes overwritten."""
    stored = stored[: len(seed.data) - where]
    return replace(seed, data=seed.data[:where] + stored + seed.data[where + len(stored) :])


def _splice(seed: Seed, where: int, removed: int, added: bytes) -> Seed:
    """The same, with bytes replaced by a different number of bytes."""
    data = seed.data[:where] + added + seed.data[where + removed :]
    shift = len(data) - len(seed.data)
    places = tuple(
        Place(place.offset if place.offset < where else place.offset + shift, place.size)
        for place in seed.places
        if place.offset + place.size <= where or place.offset >= where + removed
    )
    return replace(seed, data=data, places=tuple(one for one in places if one.offset + one.size <= len(data)))
