"""Text of many records at once, without a Python object per record; kernels copy the bytes.

Strategy: the lines of a dump consist of few distinct texts and many numbers. There are two ways to write them.
A `Pool` holds numbered texts, and a line is a list of their numbers; `headed_text` puts such lines under
headings. `Templates` are format strings such as `"to {address:#x} and Line by {line_advance:d}"`, whose fields are the
columns of the records. Formats are those that Python and C's printf share: none (unsigned decimal), `d` (signed), `#x`
(with 0x, except for 0) and `x` (digits), each with an optional width, for `x` also with zeros (`08x`); and `w`, the
word of that number.
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

from .arrays import starts_of
from .kernels import engine, views
from .kernels.text.protocol import Step
from .strings import PART, Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U8 = NDArray[np.uint8]
    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]


class Pool:
    """Numbered texts, to be joined; each `add` method continues the numbering."""

    def __init__(self, texts: Sequence[bytes] = ()) -> None:
        # Small texts are copied to one buffer; parts of other arrays stay where they are until they are joined.
        self._parts: list[U8] = []
        self._size = 0
        self._others: list[U8] = []
        self._buffers: list[NDArray[np.int32]] = []
        self._starts: list[I64] = []
        self._lengths: list[I64] = []
        self._count = 0
        self.add_list(texts)

    def _append(self, starts: I64, lengths: I64, buffer: NDArray[np.int32] | None = None) -> int:
        first = self._count
        self._buffers.append(np.zeros(len(lengths), np.int32) if buffer is None else buffer)
        self._starts.append(starts)
        self._lengths.append(lengths)
        self._count += len(lengths)
        return first

    def _append_part(self, part: U8, starts: I64, lengths: I64) -> int:
        first = self._append(starts + self._size, lengths)
        self._parts.append(part)
        self._size += len(part)
        return first

    def add_list(self, texts: Sequence[bytes]) -> int:
        """Add texts; returns the number of the first."""
        return self.add_texts(b"".join(texts), np.array([len(text) for text in texts], np.int64))

    def add_texts(self, joined: bytes, lengths: I64) -> int:
        """Add consecutive parts of `joined`, of these lengths; returns the number of the first."""
        return self._append_part(np.frombuffer(joined, np.uint8), np.cumsum(lengths) - lengths, lengths)

    def add(self, lines: U8, skip: I64 | int = 0) -> int:
        """Add lines of equal length (one per row), without the first `skip` bytes of each; returns the number of the
        first."""
        count, length = lines.shape
        starts = length * np.arange(count) + skip
        return self._append_part(lines.reshape(-1), starts, np.broadcast_to(np.int64(length) - skip, (count,)))

    def add_slices(self, data: U8, starts: I64, lengths: I64) -> int:
        """Add parts of an array of bytes, which must not change; returns the number of the first."""
        return self.add_strings(Strings.within(np.ascontiguousarray(data), starts, lengths))

    def add_strings(self, strings: Strings) -> int:
        """Add strings, which are not copied; returns the number of the first."""
        numbers = []
        for data in strings.buffers:
            known = [number for number, other in enumerate(self._others) if other is data]
            numbers.append(1 + (known[0] if known else len(self._others)))
            if not known:
                self._others.append(data)
        return self._append(strings.start, strings.size, np.array(numbers, np.int32)[strings.buffer])

    def lengths(self) -> I64:
        """The length in bytes of each text, by number."""
        return np.concatenate(self._lengths)

    def texts(self) -> Strings:
        """All texts."""
        buffers = (np.concatenate(self._parts), *self._others)
        return Strings(buffers, np.concatenate(self._buffers), np.concatenate(self._starts), self.lengths())

    def join(self, pieces: I64) -> bytes:
        """Concatenate the texts of these numbers."""
        return self.texts().join(pieces)


def in_parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join pieces of text to parts of at least PART bytes."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= PART:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


# Headings and rows per chunk of text.
CHUNK = 1 << 15


def headed_text(
    first: I64, heading: Callable[[int], bytes], add_rows: Callable[[Pool, slice], I64], chunk: int = CHUNK
) -> Iterator[bytes]:
    """Rows under headings, in parts of text: heading(i), then the rows first[i] up to first[i + 1].

    `add_rows` adds the texts of a slice of the rows to a pool and returns the piece numbers, one line of them per row.
    """
    headings = len(first) - 1
    heading_item = first[:-1] + np.arange(headings)
    total = int(first[-1]) + headings
    for begin in range(0, total, chunk):
        end = min(begin + chunk, total)
        low, high = np.searchsorted(heading_item, [begin, end]).tolist()
        pool = Pool([])
        heading_pieces = pool.add_list([heading(index) for index in range(low, high)]) + np.arange(high - low)
        row_pieces = add_rows(pool, slice(begin - low, end - high))
        is_heading = np.zeros(end - begin, np.bool_)
        is_heading[heading_item[low:high] - begin] = True
        width = row_pieces.shape[1]
        starts = starts_of(np.where(is_heading, 1, width))
        pieces = np.zeros(int(starts[-1]), np.int64)
        pieces[starts[:-1][is_heading]] = heading_pieces
        pieces[starts[:-1][~is_heading][:, None] + np.arange(width)] = row_pieces
        yield from pool.texts().join_parts(pieces)


_KINDS = {
    "": Step.UNSIGNED,
    "d": Step.SIGNED,
    "#x": Step.HEXADECIMAL,
    "0x": Step.DIGITS,
    "x": Step.SPACED_DIGITS,
    "w": Step.WORD_OF,
}
_FORMAT = re.compile(r"([#0]?)(\d*)([dxw]?)")


class Templates:
    """Format strings and their words. The members of `columns`, in lower case, are the names of a record's values."""

    def __init__(self, columns: type[IntEnum], templates: Sequence[str]) -> None:
        self._numbers = {member.name.lower(): int(member) for member in columns}
        self._words: list[bytes] = []
        self._steps: list[tuple[int, int, int]] = []
        self._first = [0]
        # Bytes a record: of those before, and more for some that are longer.
        self._record_size = 64.0
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
        """The number of the first of the words that are passed to `fill`."""
        return len(self._words)

    def fill(self, template: NDArray[np.int64], values: NDArray[np.uint64], words: Iterable[bytes] = ()) -> bytes:
        """The text of records, given the template number and the values of each.

        `words` are the words that `w` fields refer to, numbered from `first_word` on.
        """
        all_words = [*self._words, *words]
        text = np.frombuffer(b"".join(all_words) or b"\0", np.uint8)
        sizes = np.array([len(word) for word in all_words], np.int64)
        first = np.array(self._first, np.int64)
        kinds, arguments, widths = np.array(self._steps, np.int64).reshape(-1, 3).T.copy()
        records = template, np.ascontiguousarray(values)
        columns = text, np.cumsum(sizes) - sizes, sizes, first, kinds, arguments, widths, *records
        size = int(self._record_size * len(template))
        while True:
            out = np.empty(size, np.uint8)
            size = engine.text.printf.fill(*views(*columns, out))
            if size <= len(out):
                break
        self._record_size = 1.25 * size / max(1, len(template))
        return out[:size].tobytes()


# The two digits of each byte.
_DIGITS = np.frombuffer(bytes(range(256)).hex().encode(), np.uint16)
MAX_DIGITS = 16


def hexadecimal(values: NDArray[np.uint64] | NDArray[np.int64], digits: int = MAX_DIGITS) -> NDArray[np.uint8]:
    """The last `digits` hexadecimal digits of each value (an even number of them), one line per value."""
    most_significant_first = values.astype(">u8").view(np.uint8).reshape(len(values), 8)
    return _DIGITS[most_significant_first[:, 8 - digits // 2 :]].view(np.uint8)


def leading_zeros(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The number of leading zeros among the sixteen hexadecimal digits of each value; 15 for 0."""
    powers = np.uint64(1) << np.arange(4, 64, 4, dtype=np.uint64)
    return MAX_DIGITS - 1 - np.searchsorted(powers, values, side="right")


def prefixed(number: int) -> str:
    """The number as C's printf writes it for `%#x`: 0 has no prefix."""
    return f"{number:#x}" if number else "0"


def lines(count: int, *parts: bytes | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """`count` lines of equal length, one per row. A part is the same bytes in every line, or an array of one row per
    line."""
    columns = (np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part for part in parts)
    return np.concatenate([np.broadcast_to(column, (count, column.shape[-1])) for column in columns], axis=1)


def add_hexadecimal(pool: Pool, values: U64, prefix: bytes = b"") -> I64:
    """Add values to the pool as in C's `%x`; returns the number of each. 0 is written without the prefix."""
    zeros = leading_zeros(values)
    if not prefix:
        return pool.add(hexadecimal(values), zeros) + np.arange(len(values))
    digits = lines(len(values), prefix, hexadecimal(values))
    # The prefix goes right before the first digit that is not a leading zero.
    row = np.flatnonzero(values)
    for index, byte in enumerate(prefix):
        digits[row, zeros[row] + index] = byte
    return pool.add(digits, zeros + np.where(values == 0, len(prefix), 0)) + np.arange(len(values))


def add_decimal(pool: Pool, values: U64) -> I64:
    """Add values to the pool as in C's `%u`; returns the number of each."""
    digit_count = len(str(int(values.max(initial=0))))
    powers = np.uint64(10) ** np.arange(digit_count - 1, -1, -1, dtype=np.uint64)
    digits = (values[:, None] // powers % np.uint64(10)).astype(np.uint8)
    zeros = np.argmax(digits > 0, axis=1)
    zeros[values == 0] = len(powers) - 1
    return pool.add(digits + np.uint8(ord("0")), zeros) + np.arange(len(values))


def left_aligned(values: U64, width: int) -> I64:
    """The number of spaces that pad each value's hexadecimal digits on the right to `width` characters."""
    return np.maximum(0, width - (MAX_DIGITS - leading_zeros(values)))


def fill_bytes(size: int, fill: Callable[[NDArray[np.uint8]], object]) -> bytes:
    """`size` bytes, all of which `fill` writes in place, without a copy.

    The memory is in large pages where the system has them: for many megabytes, page faults take longer than `fill`.
    """
    if not size:
        return b""
    stream = BytesIO(bytes(size))
    with stream.getbuffer() as view:
        buffer = np.frombuffer(view, np.uint8)
        _request_large_pages(buffer)
        fill(buffer)
        del buffer  # a view that is still referenced cannot be released
    return stream.getvalue()


def _request_large_pages(buffer: NDArray[np.uint8]) -> None:
    """Advise the kernel as NumPy does for its own arrays."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        begin = -(-buffer.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
        whole = (buffer.ctypes.data + len(buffer) - begin) // mmap.PAGESIZE * mmap.PAGESIZE
        if whole > 0:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(whole), mmap.MADV_HUGEPAGE)
