"""Text of many records at once: pieces of a pool of bytes, put behind one another by a kernel.

Strategy: a dump's lines are few different texts and many addresses; both lie in one array, and a line is the
pieces of it that it is made of. No Python object a row.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from .kernels import engine, views

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The two digits of each byte.
_DIGITS = np.frombuffer(bytes(range(256)).hex().encode(), np.uint16)
MAX_DIGITS = 16


def hexadecimal(values: NDArray[np.uint64] | NDArray[np.int64], digits: int = MAX_DIGITS) -> NDArray[np.uint8]:
    """The last digits of each value (an even number of them): an array of one line a value."""
    most_significant_first = values.astype(">u8").view(np.uint8).reshape(len(values), 8)
    return _DIGITS[most_significant_first[:, 8 - digits // 2 :]].view(np.uint8)


def leading_zeros(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many of the sixteen digits of each value are zeros before the first other one; 15 of 0."""
    powers = np.uint64(1) << np.arange(4, 64, 4, dtype=np.uint64)
    return MAX_DIGITS - 1 - np.searchsorted(powers, values, side="right")


def prefixed(number: int) -> str:
    """As C prints it for `%#x`."""
    return f"{number:#x}" if number else "0"


def lines(count: int, *parts: bytes | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """`count` lines of one length: each part is the same bytes for all of them, or an array of one line a row."""
    columns = (np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part for part in parts)
    return np.concatenate([np.broadcast_to(column, (count, column.shape[-1])) for column in columns], axis=1)


def ranges(begin: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """begin[0] up to begin[0] + count[0], begin[1] up to ..., behind one another."""
    return np.repeat(begin - np.cumsum(count) + count, count) + np.arange(int(count.sum()))


def renumbered(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different ones of some numbers from 0 on, ascending; and for each number its index among them."""
    is_used = np.zeros(int(numbers.max(initial=-1)) + 1, np.bool_)
    is_used[numbers] = True
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[numbers]


def bytes_filled(size: int, fill: Callable[[NDArray[np.uint8]], object]) -> bytes:
    """`size` bytes, all of which `fill` writes: not copied, and where that is possible in large pages, since of many
    megabytes the pages take longer than the text."""
    if not size:
        return b""
    stream = BytesIO(bytes(size))
    with stream.getbuffer() as view:
        room = np.frombuffer(view, np.uint8)
        _ask_for_large_pages(room)
        fill(room)
        del room  # which keeps the view from being given back
    return stream.getvalue()


def _ask_for_large_pages(room: NDArray[np.uint8]) -> None:
    """As NumPy does for its own arrays."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        begin = -(-room.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
        whole = (room.ctypes.data + len(room) - begin) // mmap.PAGESIZE * mmap.PAGESIZE
        if whole > 0:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(whole), mmap.MADV_HUGEPAGE)


class Pool:
    """Texts that pieces are taken from; the `add` methods number them on."""

    def __init__(self, texts: Sequence[bytes] = ()) -> None:
        self._parts: list[NDArray[np.uint8]] = []
        self._lengths: list[NDArray[np.int64]] = []
        self._starts: list[NDArray[np.int64]] = []
        self._count = self._size = 0
        self.add_list(texts)

    def _append(self, part: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> int:
        first = self._count
        self._parts.append(part)
        self._starts.append(starts + self._size)
        self._lengths.append(lengths)
        self._count += len(lengths)
        self._size += len(part)
        return first

    def add_list(self, texts: Sequence[bytes]) -> int:
        """Add texts; returns the number of the first."""
        return self.add_texts(b"".join(texts), np.array([len(text) for text in texts], np.int64))

    def add_texts(self, joined: bytes, lengths: NDArray[np.int64]) -> int:
        """Add texts of these lengths that stand behind one another; returns the number of the first."""
        return self._append(np.frombuffer(joined, np.uint8), np.cumsum(lengths) - lengths, lengths)

    def add(self, lines: NDArray[np.uint8], skip: NDArray[np.int64] | int = 0) -> int:
        """Add lines of one length, an array of one line a row, without the first `skip` bytes of each; as above."""
        count, length = lines.shape
        starts = length * np.arange(count) + skip
        return self._append(lines.reshape(-1), starts, np.broadcast_to(np.int64(length) - skip, (count,)))

    def add_slices(self, data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> int:
        """Add parts of an array of bytes, which are copied; returns the number of the first."""
        joined = np.empty(int(lengths.sum()), np.uint8)
        part = np.arange(len(lengths))
        engine.text.join.join(*views(*map(np.ascontiguousarray, (data, starts, lengths, part)), joined))
        return self._append(joined, np.cumsum(lengths) - lengths, lengths)

    def lengths(self) -> NDArray[np.int64]:
        """The texts' lengths in bytes, by number."""
        return np.concatenate(self._lengths)

    def joined(self, pieces: NDArray[np.int64]) -> bytes:
        """The texts of these numbers behind one another."""
        data, starts, lengths = np.concatenate(self._parts), np.concatenate(self._starts), self.lengths()
        joined = np.empty(int(lengths[pieces].sum()), np.uint8)
        engine.text.join.join(*views(data, starts, lengths, np.ascontiguousarray(pieces), joined))
        return joined.tobytes()
