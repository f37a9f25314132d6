"""Every truncation and every single-bit flip of a small input that each reader of a target reads.

Strategy: one input for each reader, a small one of the target's seeds that it reads; so there are few of them, and no
reader only ever refuses.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from .seeds import Place, Seed
from .target import Read, Target

# Smaller ones hold little: an `.eh_frame` of 4 bytes is a terminator.
LEAST = 100


def small_seeds(target: Target) -> list[Seed]:
    """For each reader the smallest seed of at least LEAST bytes that it reads, or the largest one below that."""
    seeds = sorted(target.seeds(), key=lambda seed: (len(seed.data) < LEAST, abs(len(seed.data) - LEAST)))
    found = (next((seed for seed in seeds if _is_read(target, read, seed)), None) for read in target.reads.values())
    return list(dict.fromkeys(seed for seed in found if seed is not None))


def _is_read(target: Target, read: Read, seed: Seed) -> bool:
    try:
        read(seed)
    except target.errors:
        return False
    return True


def damaged(seed: Seed) -> Iterator[Seed]:
    """The seed as it is, then each truncation, then each flip of a bit."""
    yield seed
    for end in range(len(seed.data)):
        yield replace(seed, data=seed.data[:end], places=_within(seed.places, end))
    for bit in range(8 * len(seed.data)):
        data = bytearray(seed.data)
        data[bit // 8] ^= 1 << bit % 8
        yield replace(seed, data=bytes(data))


def _within(places: tuple[Place, ...], end: int) -> tuple[Place, ...]:
    return tuple(place for place in places if place.offset + place.size <= end)


def damages(target: Target, seed: int, count: int | None) -> Iterator[Seed]:
    """All damaged inputs of a target, or `count` of them, drawn with this seed of the random numbers."""
    small = small_seeds(target)
    if count is None:
        yield from (one for each in small for one in damaged(each))
        return
    total = sum(1 + 9 * len(each.data) for each in small)
    chosen = set(random.Random(f"{seed} {target.name}").sample(range(total), min(count, total)))
    numbered = enumerate(one for each in small for one in damaged(each))
    yield from (one for number, one in numbered if number in chosen)
