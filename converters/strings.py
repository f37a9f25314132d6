"""Byte strings by reference: where each one is in an array of bytes. None is copied until it is asked for or written.

Strategy: a table may name one long string, or its tails, any number of times, so that the total of the lengths has no
proportion to the file. Strings are therefore columns of places. What takes time or memory by length is bounded here:
equal strings are found only while the total is in proportion to their number, else equal places are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from ..schemas.arguments import check_index, check_indices, check_integers, check_item, check_selection, check_size
from ..schemas.data_classes import dataclass
from .arrays import renumbered, starts_of, values_at
from .distinct import intern, number_distinct
from .kernels import engine, views
from .limits import raised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U8 = NDArray[np.uint8]
    I64 = NDArray[np.int64]

NOTHING = -1
# Equal strings are found up to this mean length in bytes. Paths and mangled names rarely have more than 200.
MEAN_COMPARED = 1024
# A text that repeats strings may take PROPORTION bytes for each byte that the strings have in common and for each of
# REFERENCE_SIZE bytes of every reference, and LEAST more. Line tables with whole paths need less than 10; more is a
# file that names one long string again and again.
PROPORTION, REFERENCE_SIZE, LEAST = 16, 8, 1 << 24
# The most that strings are joined to at a time, unless one alone is longer.
PART = 1 << 20


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Strings(Sequence[bytes]):
    """A sequence of byte strings: string i is the `size[i]` bytes (i64) of buffers[buffer[i]] (i32) from `start[i]`
    (i64) on.

    `buffers` are arrays of bytes, mostly whole sections. Two sequences are equal if their strings are.
    """

    buffers: tuple[U8, ...]
    buffer: NDArray[np.int32]
    start: I64
    size: I64

    @classmethod
    def of(cls, texts: Iterable[bytes]) -> Strings:
        """The strings of a sequence of bytes, in a buffer of their own."""
        if isinstance(texts, Strings):
            return texts
        listed = list(texts)
        for wrong in (one for one in listed if not isinstance(one, bytes)):
            raise TypeError(f"texts must be bytes, not {type(wrong).__name__}")
        size = np.array([len(text) for text in listed], np.int64)
        return cls.within(np.frombuffer(b"".join(listed), np.uint8), starts_of(size)[:-1], size)

    @classmethod
    def within(cls, data: U8, start: NDArray[np.integer[Any]], size: NDArray[np.integer[Any]]) -> Strings:
        """The strings at these places of one array of bytes. Raises ValueError for a place outside it."""
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 1:
            raise TypeError("data must be an array of bytes")
        check_integers(start, "start")
        check_integers(size, "size")
        start, size = np.asarray(start), np.asarray(size)
        if len(start) and (min(start.min(), size.min()) < 0 or (start + size).max() > len(data)):
            raise ValueError(f"a string is outside the {len(data)} bytes")
        return cls((data,), np.zeros(len(start), np.int32), start.astype(np.int64), size.astype(np.int64))

    def __len__(self) -> int:
        return len(self.size)

    def __repr__(self) -> str:
        return f"<{len(self)} strings of {self.total} bytes>"

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Strings: ...

    def __getitem__(self, index: int | slice) -> bytes | Strings:
        if isinstance(index, slice):
            return self.select(index)
        return self._bytes(check_item(index, len(self), "index")).tobytes()

    def __iter__(self) -> Iterator[bytes]:
        for part in parts_of(self.size, PART):
            end = np.cumsum(self.size[part])
            joined = self.join(np.arange(part.start, part.stop))
            pairs = zip((end - self.size[part]).tolist(), end.tolist(), strict=True)
            yield from [joined[begin:stop] for begin, stop in pairs]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        if not isinstance(other, Strings):
            return all(mine == theirs for mine, theirs in zip(self, other, strict=True))
        if not np.array_equal(self.size, other.size):
            return False
        return all(np.array_equal(self._bytes(one), other._bytes(one)) for one in _other_places(self, other))

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the bytes of the buffers that no string has."""
        small = self.compact()
        return Strings, (small.buffers, small.buffer, small.start, small.size)

    def _bytes(self, index: int) -> U8:
        data: U8 = self.buffers[self.buffer[index]]
        return data[int(self.start[index]) :][: int(self.size[index])]

    def first(self, index: int, count: int) -> bytes:
        """At most `count` bytes of a string, from its start."""
        check_size(count, "count")
        return self._bytes(check_index(index, len(self), "index"))[:count].tobytes()

    def last(self, index: int, count: int) -> bytes:
        """At most `count` bytes of a string, up to its end."""
        check_size(count, "count")
        data = self._bytes(check_index(index, len(self), "index"))
        return data[max(0, len(data) - count) :].tobytes()

    @property
    def total(self) -> int:
        """The total size in bytes."""
        return int(self.size.sum())

    def select(self, which: NDArray[np.integer[Any]] | NDArray[np.bool_] | slice) -> Strings:
        """Some of the strings, given by indices, a mask or a slice."""
        which = check_selection(which, len(self), "which")
        return Strings(self.buffers, self.buffer[which], self.start[which], self.size[which])

    def join(self, which: I64) -> bytes:
        """The strings of these indices, one after the other."""
        which = check_indices(which, len(self), "which").astype(np.int64, copy=False)
        size = self.size[which]
        out = np.empty(int(size.sum()), np.uint8)
        if len(self.buffers) == 1:
            start, lengths = np.ascontiguousarray(self.start), np.ascontiguousarray(self.size)
            engine.text.join.join(*views(self.buffers[0], start, lengths, np.ascontiguousarray(which), out))
        else:
            place_strings(self.select(which), out, starts_of(size)[:-1])
        return out.tobytes()

    def join_parts(self, which: I64) -> Iterator[bytes]:
        """As `join`, in parts of about PART bytes, so that memory does not depend on how often a string is repeated."""
        which = check_indices(which, len(self), "which").astype(np.int64, copy=False)
        return (self.join(which[part]) for part in parts_of(self.size[which], PART))

    def compact(self) -> Strings:
        """The same strings in one buffer, with only the bytes that some string has, each once. It is no larger than all
        buffers together."""
        order, is_new, place = _overlaps(self)
        first = order[is_new]
        reach = np.maximum.accumulate(place[order] + self.size[order]) if len(order) else place
        last = np.append(np.flatnonzero(is_new)[1:] - 1, len(order) - 1)[: len(first)]
        size = reach[last] - place[first]
        segments = Strings(self.buffers, self.buffer[first], self.start[first], size)
        data = np.frombuffer(segments.join(np.arange(len(first))), np.uint8)
        moved = starts_of(size)[:-1] - place[first]
        start = np.empty(len(self), np.int64)
        start[order] = place[order] + moved[np.cumsum(is_new) - 1]
        return Strings.within(data, start, self.size)

    def texts(self) -> Sequence[bytes]:
        """The same strings as objects, which are faster to index, if these take little more than the buffers do."""
        return list(self) if self.total <= 2 * sum(map(len, self.buffers)) else self

    def limit(self, references: int) -> int:
        """The most bytes that a text may take in which this many references repeat the strings (PROPORTION)."""
        check_size(references, "references")
        return raised(LEAST + PROPORTION * (sum(map(len, self.buffers)) + REFERENCE_SIZE * references))

    @property
    def is_compared(self) -> bool:
        """Whether the total is in proportion to the number of strings (MEAN_COMPARED) or to the buffers, so that equal
        ones are found."""
        return self.total <= max(MEAN_COMPARED * len(self), 2 * sum(map(len, self.buffers)))

    def distinct(self) -> tuple[Strings, I64]:
        """The distinct strings, in order of first occurrence, and the number of each string among them.

        If the total is out of proportion, strings are distinct if their places are."""
        if not self.is_compared:
            number, first = number_distinct(self.buffer, self.start, self.size)
            return self.select(first), number
        whole = self if len(self.buffers) == 1 else self.compact()
        # An empty array has no bytes to which a place can refer.
        data = whole.buffers[0] if len(whole.buffers[0]) else np.zeros(1, np.uint8)
        start = np.ascontiguousarray(whole.start)
        numbers, first = intern(data, start, start + whole.size, np.zeros(len(self), np.int64))
        return self.select(first), numbers.astype(np.int64)


NO_STRINGS = Strings.of(())


def place_strings(strings: Strings, out: U8, where: I64) -> None:
    """Copy strings to `out`, each to its place there."""
    for number, data in enumerate(strings.buffers):
        here = np.flatnonzero(strings.buffer == number)
        engine.text.join.place(*views(data, strings.start[here], strings.size[here], where[here], out))


def parts_of(size: I64, most: int) -> Iterator[slice]:
    """Slices of items of these sizes in bytes: each slice is at most `most` bytes, or one item."""
    end = np.cumsum(size)
    begin = 0
    while begin < len(end):
        before = int(end[begin - 1]) if begin else 0
        stop = max(begin + 1, int(np.searchsorted(end, before + most, side="right")))
        yield slice(begin, stop)
        begin = stop


def _overlaps(strings: Strings) -> tuple[I64, NDArray[np.bool_], I64]:
    """The strings in the order of their places, which of these start beyond the end of all before, and the place of
    each string: as if buffers followed each other, with a gap."""
    gaps = starts_of(np.array([len(data) + 1 for data in strings.buffers], np.int64))
    place = gaps[strings.buffer] + strings.start
    order = np.argsort(place, kind="stable")
    reach = np.maximum.accumulate((place + strings.size)[order]) if len(order) else place
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = place[order][1:] > reach[:-1]
    return order, is_new, place


def _other_places(one: Strings, other: Strings) -> list[int]:
    """The indices at which two sequences have strings at different places, each pair of places once."""
    same = {_identity(data): number for number, data in enumerate(one.buffers)}
    buffer = np.array([same.get(_identity(data), NOTHING) for data in other.buffers], np.int32)[other.buffer]
    differs = np.flatnonzero((buffer != one.buffer) | (one.start != other.start))
    columns = (one.buffer, one.start, one.size, other.buffer, other.start)
    _, first = number_distinct(*(column[differs] for column in columns))
    found: list[int] = differs[first].tolist()
    return found


def _identity(data: U8) -> tuple[int, int]:
    """What arrays of the same bytes in memory have in common: address and size."""
    return data.ctypes.data, len(data)


def concatenate(parts: Sequence[Strings]) -> Strings:
    """The strings of several sequences. A buffer that several share is there once."""
    known: dict[tuple[int, int], int] = {}
    buffers: list[U8] = []
    columns = []
    for part in parts:
        for data in part.buffers:
            if known.setdefault(_identity(data), len(buffers)) == len(buffers):
                buffers.append(data)
        columns.append(np.array([known[_identity(data)] for data in part.buffers], np.int32)[part.buffer])
    start, size = (np.concatenate([getattr(part, name) for part in parts]) for name in ("start", "size"))
    return Strings(tuple(buffers), np.concatenate(columns), start, size)


class Numbered(NamedTuple):
    """Values that are strings: the `number` of each in `strings`, i64; -1 for a value that is none."""

    number: I64
    strings: Strings

    def used(self) -> Numbered:
        """The same values without the strings that none of them is."""
        number, has = self.number.copy(), np.flatnonzero(self.number >= 0)
        which, number[has] = renumbered(number[has])
        return Numbered(number, self.strings.select(which))

    def compact(self) -> Numbered:
        """The same values, with only the bytes that some string has."""
        return Numbered(self.number, self.strings.compact())


def number_together(*values: Numbered) -> tuple[Strings, list[I64]]:
    """The distinct strings of several columns, and the numbers of each column among them."""
    strings, number = concatenate([one.strings for one in values]).distinct()
    starts = starts_of(np.array([len(one.strings) for one in values]))[:-1].tolist()
    return strings, [
        values_at(number[first : first + len(one.strings)], one.number, NOTHING)
        for first, one in zip(starts, values, strict=True)
    ]


def terminated(data: U8, offset: NDArray[np.integer[Any]]) -> Numbered:
    """The strings from these offsets of `data` up to the next zero byte: each distinct offset once, ascending.

    The number is -1 for an offset after which there is no zero byte. No byte is read twice.
    """
    # Few of many references are distinct: only these are sorted.
    place, first = number_distinct(np.minimum(offset, len(data)))
    start = np.minimum(offset[first], len(data)).astype(np.int64)
    order = np.argsort(start)
    start, end = start[order], np.zeros(len(start), np.int64)
    count = engine.text.join.find_ends(*views(data, start, end))
    rank = np.full(len(start), NOTHING)
    rank[order[:count]] = np.arange(count)
    return Numbered(rank[place], Strings.within(data, start[:count], (end - start)[:count]))
