"""Give equal items the same number: values, and ranges of bytes.

Strategy: hash tables in kernels, with random keys, so that no input can be made to collide.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import hash_size
from .kernels import engine, views

if TYPE_CHECKING:
    from numpy.typing import NDArray

    HashTable = tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]


def number_distinct(*columns: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the elements of columns, in order of first occurrence: elements that are equal in every column get the
    same number. Returns also the first element of each number."""
    if len(columns) == 1:
        return _number_values(np.ascontiguousarray(columns[0], np.int64).view(np.uint64))
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column, key in zip(columns, random_keys(len(columns)), strict=False):
        hashes = (hashes ^ column.astype(np.int64, copy=False).view(np.uint64)) * key
        hashes ^= hashes >> np.uint64(31)
    number, first = _number_values(hashes)
    if not all(np.array_equal(column, column[first][number]) for column in columns):
        # A collision, by chance: other keys are drawn.
        return number_distinct(*columns)
    return number, first


def _number_values(values: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    columns, number, first = hash_table(len(values))
    distinct = engine.shared.numbering.DistinctValues(*columns)
    distinct.number_all(*views(values))
    return number, first[: distinct.count]


def hash_table(count: int) -> tuple[HashTable, NDArray[np.int64], NDArray[np.int64]]:
    """A hash table of `count` items as kernels take it, and two of its columns: numbers, and the first item of each."""
    number, first = np.empty(count, np.int64), np.empty(count, np.int64)
    slots, hashes = np.empty(hash_size(count), np.int32), np.empty(count, np.uint64)
    return views(random_keys(2), slots, hashes, number, first), number, first


def intern(
    data: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64], kind: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Number the byte ranges data[start:end]: equal ranges of equal `kind` get the same number. Returns also the first
    range of each number."""
    columns, number, first = hash_table(len(start))
    distinct = engine.shared.numbering.DistinctBytes(*columns)
    distinct.number_all(*views(data, start, end, kind))
    return number.astype(np.uint32), first[: distinct.count]


def random_base() -> int:
    """A random base for hashes, below 2**31: unpredictable, so that no input can be chosen to collide."""
    return int.from_bytes(os.urandom(3), "little") + (1 << 29)


def random_keys(count: int) -> NDArray[np.uint64]:
    """`count` random odd 64-bit numbers and a `random_base`, for hashes of several columns."""
    odd = np.frombuffer(os.urandom(8 * count), np.uint64) | np.uint64(1)
    return np.append(odd, np.uint64(random_base()))
