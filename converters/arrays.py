"""NumPy idioms, once each: groups of items, runs of equal neighbours, look-ups with a default, integers in bytes.

Strategy: groups of items are stored one after the other; n counts give n + 1 starts, and group i is the items from
starts[i] up to starts[i + 1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..schemas.section import ByteOrder

Item = TypeVar("Item", bound=np.generic)


def starts_of(counts: NDArray[Any]) -> NDArray[np.int64]:
    """The index at which each group of `counts` items starts, and the one at which the last group ends."""
    return starts_of_ends(np.cumsum(counts))


def starts_of_ends(ends: NDArray[Any]) -> NDArray[np.int64]:
    """As `starts_of`, for groups given by the index at which each one ends."""
    starts = np.zeros(len(ends) + 1, np.int64)
    starts[1:] = ends
    return starts


def group_numbers(counts: NDArray[Any]) -> NDArray[np.int64]:
    """The number of the group of each item, for groups of `counts` items: 0, 0, 0, 1, 1, ..."""
    return np.repeat(np.arange(len(counts)), counts)


def ranges(begin: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """begin[0] up to begin[0] + count[0], then begin[1] up to begin[1] + count[1], and so on."""
    return np.repeat(begin - np.cumsum(count) + count, count) + np.arange(int(count.sum()))


def ranks(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of each item within its group, for groups of `counts` items: 0, 1, 2, 0, 1, ..."""
    return ranges(np.zeros_like(counts), counts)


def run_starts(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Which elements start a run: the first one, and each that differs from its predecessor in any of the columns."""
    is_start = np.zeros(len(columns[0]), np.bool_)
    is_start[:1] = True
    for column in columns:
        is_start[1:] |= column[1:] != column[:-1]
    return is_start


def range_run_starts(start: NDArray[Any], end: NDArray[Any], *columns: NDArray[Any]) -> NDArray[np.bool_]:
    """As `run_starts`, for ascending ranges: a gap after the preceding range also starts a run."""
    is_start = run_starts(*columns) if columns else np.arange(len(start)) == 0
    is_start[1:] |= start[1:] != end[:-1]
    return is_start


def distinct_values(values: NDArray[Item]) -> NDArray[Item]:
    """The distinct values, ascending. np.unique imports numpy.ma, and hashes, which is slow for millions."""
    ascending = np.sort(values)
    return ascending[run_starts(ascending)]


def run_ends(is_start: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which elements end a run, given which elements start one."""
    return np.append(is_start[1:], True)[: len(is_start)]


def renumbered(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct numbers, ascending, and for each number its index among them. Numbers are at least 0."""
    is_used = np.zeros(int(numbers.max(initial=-1)) + 1, np.bool_)
    is_used[numbers] = True
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[numbers]


def values_at(values: NDArray[Item], index: NDArray[Any], default: int) -> NDArray[Item]:
    """values[index], or `default` where the index is -1 or len(values)."""
    found: NDArray[Item] = np.append(values, values.dtype.type(default))[index]
    return found


def last_at_or_before(
    ascending: NDArray[np.uint64], begin: NDArray[np.int64], end: NDArray[np.int64], wanted: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """For each wanted value the index of the last value <= it in ascending[begin:end]; begin - 1 if there is none.

    All bisections run in step. (np.searchsorted searches a single range only.)
    """
    low, high = begin.astype(np.int64), end.astype(np.int64)
    while len(open_ones := np.flatnonzero(low < high)):
        middle = (low[open_ones] + high[open_ones]) >> 1
        is_before = ascending[middle] <= wanted[open_ones]
        low[open_ones[is_before]] = middle[is_before] + 1
        high[open_ones[~is_before]] = middle[~is_before]
    return low - 1


def holds_any(start: NDArray[np.uint64], size: NDArray[np.uint64], addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of the ranges hold one of some addresses."""
    ascending = np.sort(addresses)
    last = start + (np.maximum(size, np.uint64(1)) - np.uint64(1))
    first, after = np.searchsorted(ascending, start), np.searchsorted(ascending, last, side="right")
    return (after > first) & (size > 0)


def furthest_before(ends: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """For each element the maximum of those before it; 0 for the first."""
    return np.maximum.accumulate(np.concatenate([np.zeros(1, np.uint64), ends]))[:-1]


def least_covering(begin: NDArray[np.int64], end: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """For each of `count` places the number of the first range begin[i]:end[i] that covers it; -1 for none. No range is
    empty."""
    # A range is the union of two blocks of 2**level places; a block passes its number on to its two halves.
    none = len(begin)
    level = np.frexp((end - begin).astype(np.float64))[1] - 1
    found = np.full(count, none, np.int64)
    for step in range(int(level.max(initial=0)), -1, -1):
        here = np.flatnonzero(level == step)
        np.minimum.at(found, begin[here], here)
        np.minimum.at(found, end[here] - (1 << step), here)
        if step:
            half = 1 << step - 1
            found[half:] = np.minimum(found[half:], found.copy()[:-half])
    return np.where(found == none, -1, found)


def integers_at(
    data: NDArray[np.uint8], offset: NDArray[np.int64], size: int, order: ByteOrder, signed: bool = False
) -> NDArray[np.uint64]:
    """The integers of `size` bytes at these offsets of `data`, modulo 2**64; signed ones are extended to 64 bits."""
    stored = data[_places(offset, size, order)].astype(np.uint64)
    values: NDArray[np.uint64] = np.bitwise_or.reduce(stored << np.arange(0, 8 * size, 8, dtype=np.uint64), axis=1)
    return sign_extended(values, 8 * size) if signed else values


def sign_extended(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """Extend signed integers of `bits` bits to 64 bits, modulo 2**64."""
    sign = np.uint64(1 << bits - 1)
    return (values ^ sign) - sign


def put_integers(
    data: NDArray[np.uint8],
    offset: NDArray[np.int64],
    values: NDArray[np.int64] | NDArray[np.uint64],
    size: int,
    order: ByteOrder,
) -> None:
    """Store the low `size` bytes of each value at its offset in `data`."""
    data[_places(offset, size, order)] = values.astype("<u8").view(np.uint8).reshape(len(values), 8)[:, :size]


def _places(offset: NDArray[np.int64], size: int, order: ByteOrder) -> NDArray[np.int64]:
    """The indices of the bytes of each integer, least significant byte first: one row per integer."""
    step = np.arange(size) if order == "little" else np.arange(size)[::-1]
    return offset[:, None] + step


def hash_slots(keys: int) -> NDArray[np.int32]:
    """The slots of an empty hash table for this many keys, as kernels take it: all -1."""
    return np.full(hash_size(keys), -1, np.int32)


def hash_size(keys: int) -> int:
    """The number of slots of a hash table for this many keys: a power of two, more than twice the number of keys."""
    return 1 << (2 * keys + 1).bit_length()


def stable_order(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices that sort numbers from 0 to 2**32 - 1; those of equal numbers ascend.

    NumPy sorts integers of 16 bits by radix, several times as fast as larger ones.
    """
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    high = numbers >> 16
    return order[np.argsort(high.astype(np.uint16)[order], kind="stable")] if high.any() else order
