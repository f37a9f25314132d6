"""NumPy idioms, once each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def ranges(begin: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """begin[0] up to begin[0] + count[0], begin[1] up to ..., behind one another."""
    return np.repeat(begin - np.cumsum(count) + count, count) + np.arange(int(count.sum()))


def renumbered(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different ones of some numbers from 0 on, ascending; and for each number its index among them."""
    is_used = np.zeros(int(numbers.max(initial=-1)) + 1, np.bool_)
    is_used[numbers] = True
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[numbers]
