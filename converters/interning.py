"""Equal byte ranges get one number: how row runs and FRE blocks come to be shared."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from .kernels import engine, views

if TYPE_CHECKING:
    from numpy.typing import NDArray


def intern(
    data: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64], kind: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Number the byte ranges data[start:end], equal ones (of equal `kind`) alike, and give the first of each number."""
    count = len(start)
    slots = np.full(1 << (2 * count + 1).bit_length(), -1, np.int32)
    hashes = np.empty(count, np.uint64)
    run = np.empty(count, np.uint32)
    first = np.empty(count, np.int64)
    base = int(random_keys(1)[0])
    runs = engine.shared.numbering.intern(
        *views(data), *views(start, end, kind), base, *views(slots, hashes, run, first)
    )
    return run, first[:runs]


def random_base() -> int:
    """A base for hashes below 2**31 that nobody can foresee: no input can be chosen to collide."""
    return int.from_bytes(os.urandom(3), "little") + (1 << 29)


def random_keys(count: int) -> NDArray[np.uint64]:
    """`count` odd numbers of 64 bits and a `random_base`, for hashes of several columns."""
    odd = np.frombuffer(os.urandom(8 * count), np.uint64) | np.uint64(1)
    return np.append(odd, np.uint64(random_base()))
