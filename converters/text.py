"""Text of many records at once: pieces of a pool of bytes, put behind one another by NumPy.

Strategy: a dump's lines are few different texts and many addresses; both lie in one array, and a line is the
pieces of it that it is made of. No Python object a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def hexadecimal(values: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Each value as sixteen digits: an array of one line a value."""
    shifts = np.arange(60, -4, -4, dtype=np.uint64)
    return _DIGITS[(values[:, None] >> shifts & np.uint64(15)).astype(np.intp)]


class Pool:
    """Texts that pieces are taken from; `add` numbers them on."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._parts = [np.frombuffer(b"".join(texts), np.uint8)]
        self._lengths = [np.array([len(text) for text in texts], np.int64)]

    def add(self, lines: NDArray[np.uint8]) -> int:
        """Add lines of one length, an array of one line a row; returns the number of the first."""
        first = sum(map(len, self._lengths))
        self._parts.append(lines.reshape(-1))
        self._lengths.append(np.full(len(lines), lines.shape[1], np.int64))
        return first

    def joined(self, pieces: NDArray[np.int64]) -> bytes:
        """The texts of these numbers behind one another."""
        data, lengths = np.concatenate(self._parts), np.concatenate(self._lengths)
        start = np.cumsum(lengths) - lengths
        size = lengths[pieces]
        begin = np.cumsum(size) - size
        # For each byte of the result its place in the pool.
        place = np.arange(int(size.sum())) + np.repeat(start[pieces] - begin, size)
        return bytes(data[place].tobytes())
