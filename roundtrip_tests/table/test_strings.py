"""Strings by reference against a list of bytes: whatever their places, they are the same sequence."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit.converters import strings as module
from unwindkit.converters.strings import Numbered, Strings, concatenate, number_together, parts_of, terminated

TEXTS = st.lists(st.binary(max_size=6), max_size=12)


@st.composite
def places(draw: st.DrawFn) -> tuple[Strings, list[bytes]]:
    """Strings at any places, which may overlap, of up to three buffers; and what they are."""
    data = draw(st.lists(st.binary(max_size=12), min_size=1, max_size=3))
    found = []
    for _ in range(draw(st.integers(0, 12))):
        buffer = draw(st.integers(0, len(data) - 1))
        start = draw(st.integers(0, len(data[buffer])))
        found.append((buffer, start, draw(st.integers(0, len(data[buffer]) - start))))
    columns = np.array(found, np.int64).reshape(-1, 3).T
    buffers = tuple(np.frombuffer(one, np.uint8) for one in data)
    strings = Strings(buffers, columns[0].astype(np.int32), columns[1], columns[2])
    return strings, [data[buffer][start : start + size] for buffer, start, size in found]


@given(places())
def test_they_are_a_sequence_of_bytes(made: tuple[Strings, list[bytes]]) -> None:
    strings, expected = made
    assert len(strings) == len(expected)
    assert [strings[index] for index in range(len(strings))] == list(strings) == expected
    assert [strings[-1 - index] for index in range(len(strings))] == expected[::-1]
    assert strings == expected
    assert list(strings[1:3]) == expected[1:3]
    assert list(strings.texts()) == expected
    assert strings.total == sum(map(len, expected))
    assert strings == Strings.of(expected)
    assert strings != [*expected, b""]
    assert [strings.last(index, 3) for index in range(len(strings))] == [one[-3:] for one in expected]
    with pytest.raises(IndexError):
        strings[len(expected)]


@given(places(), places())
def test_they_are_equal_if_their_bytes_are(
    one: tuple[Strings, list[bytes]], other: tuple[Strings, list[bytes]]
) -> None:
    assert (one[0] == other[0]) == (one[1] == other[1])


@given(places())
def test_a_compact_copy_has_each_byte_once(made: tuple[Strings, list[bytes]]) -> None:
    strings, expected = made
    for small in (strings.compact(), pickle.loads(pickle.dumps(strings))):
        assert list(small) == expected
        (data,) = small.buffers
        used = {(buffer, at) for buffer, start, size in zip(strings.buffer, strings.start, strings.size, strict=True)
                for at in range(start, start + size)}  # fmt: skip
        assert len(data) == len(used)


@given(places(), st.data())
def test_they_are_joined_in_any_order(made: tuple[Strings, list[bytes]], data: st.DataObject) -> None:
    strings, texts = made
    which = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=20) if texts else st.just([]))
    numbers = np.array(which, np.int64)
    assert strings.join(numbers) == b"".join(strings.join_parts(numbers)) == b"".join(texts[one] for one in which)


def test_joined_parts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART", 10)
    strings = Strings.of([b"a" * 4, b"b" * 25, b""])
    found = list(strings.join_parts(np.array([0, 0, 0, 1, 2, 0, 2])))
    assert found == [b"a" * 8, b"a" * 4, b"b" * 25, b"a" * 4]
    assert list(parts_of(np.array([4, 4, 4, 25, 0, 4, 0]), 10)) == [slice(0, 2), slice(2, 3), slice(3, 4), slice(4, 7)]
    assert list(parts_of(np.zeros(0, np.int64), 10)) == []


@given(TEXTS, TEXTS)
def test_equal_strings_get_one_number(one: list[bytes], other: list[bytes]) -> None:
    parts = [Numbered(np.arange(len(texts)), Strings.of(texts)) for texts in (one, other)]
    distinct, numbers = number_together(*parts)
    assert list(distinct) == list(dict.fromkeys(one + other))
    assert [[distinct[number] for number in column] for column in numbers] == [one, other]


def test_of_long_strings_equal_places_get_one_number() -> None:
    # 3000 bytes of the same letter: tails of other lengths, then the first one again, then its equal elsewhere.
    data = np.frombuffer(b"x" * 3000, np.uint8)
    strings = Strings.within(data, np.array([0, 100, 0, 100]), np.array([2000, 2000, 2000, 1900]))
    distinct, number = strings.distinct()
    assert number.tolist() == [0, 1, 0, 2]
    assert [len(one) for one in distinct] == [2000, 2000, 1900]
    # In proportion again, with short ones beside it.
    many = concatenate([strings, Strings.of([b"y"] * 8)])
    assert many.distinct()[1].tolist() == [0, 0, 0, 1, *[2] * 8]


def test_values_that_are_no_string_have_no_number() -> None:
    values = Numbered(np.array([2, -1, 0]), Strings.of([b"a", b"b", b"c"]))
    assert values.used().number.tolist() == [1, -1, 0]
    assert list(values.used().strings) == [b"a", b"c"]
    assert number_together(values)[1][0].tolist() == [2, -1, 0]


@given(st.binary(max_size=20).map(lambda data: data.replace(b"\x01", b"\0")), st.data())
def test_strings_end_before_the_next_zero_byte(data: bytes, draw: st.DataObject) -> None:
    offsets = draw.draw(st.lists(st.integers(0, len(data) + 3), max_size=8))
    found = terminated(np.frombuffer(data, np.uint8), np.array(offsets, np.uint64))
    for offset, number in zip(offsets, found.number.tolist(), strict=True):
        text, zero, _ = data[offset:].partition(b"\0")
        assert (found.strings[number] if number >= 0 else None) == (text if zero else None)
    assert len(found.strings) == len({offset for offset in offsets if b"\0" in data[offset:]})


def test_a_limit_grows_with_strings_and_references() -> None:
    # 16 bytes for each byte of the strings, and for each of 8 bytes of a reference, above 16 MB.
    assert Strings.of([b"abc"]).limit(2) - Strings.of([]).limit(0) == 16 * 3 + 16 * 8 * 2
    assert Strings.of([]).limit(0) == 16 << 20
