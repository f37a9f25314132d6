"""Text of many records at once: pieces of a pool of bytes, joined by a kernel.

Strategy: the lines of a dump are few distinct texts and many numbers. Both lie in one array of bytes, and a line is the
list of its pieces, so that no Python object is made per row. `headed_text` puts rows under headings, some thousand
items at a time. `Templates` (`"to {address:#x} and Line by {line_advance:d}"`) are words and numbers: fields are named
as the columns of the records; their formats are Python's, as far as C's printf has them: none (unsigned decimal), `d`
(signed), `#x` (with 0x, except for 0), `x` (digits), each after a width, and `w`, the word with that number.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from .kernels import engine, views
from .kernels.text.protocol import Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]


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


# Items that are put into text at once.
CHUNK = 1 << 15


def headed_text(
    first: I64, head: Callable[[int], bytes], add_rows: Callable[[Pool, slice], I64], chunk: int = CHUNK
) -> Iterator[bytes]:
    """The text, in pieces: before the rows first[i] up to first[i + 1], what `head(i)` says.

    `add_rows` puts what some rows say into a pool, and gives the numbers of the pieces of each, an array of a line a
    row.
    """
    heads = len(first) - 1
    head_item = first[:-1] + np.arange(heads)
    total = int(first[-1]) + heads
    for begin in range(0, total, chunk):
        end = min(begin + chunk, total)
        low, high = np.searchsorted(head_item, [begin, end]).tolist()
        pool = Pool([])
        head_pieces = pool.add_list([head(index) for index in range(low, high)]) + np.arange(high - low)
        row_pieces = add_rows(pool, slice(begin - low, end - high))
        is_head = np.zeros(end - begin, np.bool_)
        is_head[head_item[low:high] - begin] = True
        width = row_pieces.shape[1]
        size = np.where(is_head, 1, width)
        at = np.cumsum(size) - size
        pieces = np.zeros(int(size.sum()), np.int64)
        pieces[at[is_head]] = head_pieces
        pieces[at[~is_head][:, None] + np.arange(width)] = row_pieces
        yield pool.joined(pieces)


def add_hexadecimal(pool: Pool, values: U64, prefix: bytes = b"") -> I64:
    """Put values into the pool as C prints them for `%x`; the number of each. With the prefix `0x` 0 has none."""
    zeros = leading_zeros(values)
    if not prefix:
        return pool.add(hexadecimal(values), zeros) + np.arange(len(values))
    digits = lines(len(values), prefix, hexadecimal(values))
    # The prefix comes right before the digits, which start behind their leading zeros.
    row = np.flatnonzero(values)
    for index, byte in enumerate(prefix):
        digits[row, zeros[row] + index] = byte
    return pool.add(digits, zeros + np.where(values == 0, len(prefix), 0)) + np.arange(len(values))


def add_decimal(pool: Pool, values: U64) -> I64:
    """Put values into the pool as C prints them for `%u`; the number of each."""
    # As many digits as the largest has.
    digit_count = len(str(int(values.max(initial=0))))
    powers = np.uint64(10) ** np.arange(digit_count - 1, -1, -1, dtype=np.uint64)
    digits = (values[:, None] // powers % np.uint64(10)).astype(np.uint8)
    zeros = np.argmax(digits > 0, axis=1)
    zeros[values == 0] = len(powers) - 1
    return pool.add(digits + np.uint8(ord("0")), zeros) + np.arange(len(values))


def left_aligned(values: U64, width: int) -> I64:
    """How many spaces follow each value's hexadecimal digits to make `width` characters of them."""
    return np.maximum(0, width - (MAX_DIGITS - leading_zeros(values)))


_KINDS = {"": Step.UNSIGNED, "d": Step.SIGNED, "#x": Step.HEXADECIMAL, "x": Step.DIGITS, "w": Step.WORD_OF}
_FORMAT = re.compile(r"(#?)0?(\d*)([dxw]?)")


class Templates:
    """Templates and the words that they are filled with. `columns` names the values of a record, lower case."""

    def __init__(self, columns: type[IntEnum], templates: Sequence[str]) -> None:
        self._numbers = {member.name.lower(): int(member) for member in columns}
        self._words: list[bytes] = []
        self._steps: list[tuple[int, int, int]] = []
        self._first = [0]
        for template in templates:
            self._add(template)

    def _add(self, template: str) -> None:
        for text, name, form, _ in string.Formatter().parse(template):
            if text:
                self._steps.append((Step.WORD, len(self._words), 0))
                self._words.append(text.encode())
            if name is not None:
                found = _FORMAT.fullmatch(form or "")
                assert found is not None, template
                kind = _KINDS[found[1] + found[3]]
                self._steps.append((kind, self._numbers[name], int(found[2] or 0)))
        self._first.append(len(self._steps))

    @property
    def first_word(self) -> int:
        """The number of the first word that `fill` is given."""
        return len(self._words)

    def fill(self, template: NDArray[np.int64], values: NDArray[np.uint64], words: Iterable[bytes] = ()) -> bytes:
        """The text of records: their templates, their values, and the words that values name, from `first_word` on."""
        all_words = [*self._words, *words]
        sizes = np.array([len(word) for word in all_words], np.int64)
        steps = np.array(self._steps, np.int64).reshape(-1, 3).T.copy()
        fixed = (
            *(np.frombuffer(b"".join(all_words) or b"\0", np.uint8), np.cumsum(sizes) - sizes, sizes),
            *(np.array(self._first, np.int64), *steps, template, np.ascontiguousarray(values)),
        )
        size = engine.text.printf.fill(*views(*fixed, np.zeros(0, np.uint8)))
        out = np.empty(size, np.uint8)
        engine.text.printf.fill(*views(*fixed, out))
        return out.tobytes()
