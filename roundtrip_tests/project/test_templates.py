"""Text by templates: numbers formatted as by Python and C's printf, words in their places."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from unwindkit.converters.bulk_text import Templates

from ..conftest import engine_in_use, fewer

NUMBERS = st.one_of(st.integers(0, 20), st.integers(0, (1 << 64) - 1), st.integers(0, 63).map(lambda bit: 1 << bit))


class Column(IntEnum):
    FIRST = 0
    SECOND = 1


TEMPLATES = [
    "",
    "plain\n",
    "{first} and {second:d}|",
    "{first:#x}{second:#18x}",
    "[{first:08x}] {second:6}.",
    "{first:02x}{first:5x}{second:11d}",
]


def signed(number: int) -> int:
    return number - (number >> 63 << 64)


def expected(template: int, first: int, second: int) -> str:
    def c_hexadecimal(number: int) -> str:
        return f"{number:#x}" if number else "0"

    return [
        "",
        "plain\n",
        f"{first} and {signed(second)}|",
        f"{c_hexadecimal(first)}{c_hexadecimal(second):>18}",
        f"[{first:08x}] {second:6}.",
        f"{first:02x}{first:5x}{signed(second):11d}",
    ][template]


@fewer(4)
@given(
    engine=st.sampled_from(["pure", "compiled"]),
    records=st.lists(st.tuples(st.integers(0, len(TEMPLATES) - 1), NUMBERS, NUMBERS), max_size=8),
)
def test_numbers(engine: str, records: list[tuple[int, int, int]]) -> None:
    which = np.array([record[0] for record in records], np.int64)
    values = np.array([record[1:] for record in records], np.uint64).reshape(-1, 2)
    with engine_in_use(engine):
        text = Templates(Column, TEMPLATES).fill(which, values)
    assert text.decode() == "".join(expected(*record) for record in records)


def test_words(kernels: str) -> None:
    templates = Templates(Column, ["<{second:w}>{first:w}"])
    first = templates.first_word
    values = np.array([[first, first + 1], [first + 2, first]], np.uint64)
    assert templates.fill(np.zeros(2, np.int64), values, [b"a", b"", b"long\xff"]) == b"<>a<a>long\xff"
