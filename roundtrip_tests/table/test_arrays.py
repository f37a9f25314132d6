"""The NumPy idioms of converters/arrays.py, on values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit.converters import arrays
from unwindkit.schemas.section import ByteOrder


def test_counts_become_starts_group_numbers_and_ranks() -> None:
    counts = np.array([2, 0, 3])
    assert arrays.starts_of(counts).tolist() == [0, 2, 2, 5]
    assert arrays.starts_of_ends(np.array([2, 2, 5])).tolist() == [0, 2, 2, 5]
    assert arrays.group_numbers(counts).tolist() == [0, 0, 2, 2, 2]
    assert arrays.ranks(counts).tolist() == [0, 1, 0, 1, 2]
    assert arrays.ranges(np.array([7, 1, 10]), counts).tolist() == [7, 8, 10, 11, 12]


def test_no_group_at_all_starts_at_0() -> None:
    nothing = np.zeros(0, np.int64)
    assert arrays.starts_of(nothing).tolist() == [0]
    assert [len(of(nothing)) for of in (arrays.group_numbers, arrays.ranks, arrays.run_starts)] == [0, 0, 0]


def test_a_run_starts_where_any_column_differs_from_its_neighbour() -> None:
    is_start = arrays.run_starts(np.array([1, 1, 1, 2, 2]), np.array([5, 5, 6, 6, 6]))
    assert is_start.tolist() == [True, False, True, True, False]
    assert arrays.run_ends(is_start).tolist() == [False, True, True, False, True]
    assert arrays.run_ends(np.zeros(0, np.bool_)).tolist() == []


def test_a_gap_between_ranges_starts_a_run_even_where_their_values_are_equal() -> None:
    start, end, value = np.array([0, 4, 9, 12]), np.array([4, 8, 12, 16]), np.array([1, 1, 1, 2])
    assert arrays.range_run_starts(start, end).tolist() == [True, False, True, False]
    assert arrays.range_run_starts(start, end, value).tolist() == [True, False, True, True]


def test_distinct_numbers_are_renumbered_in_their_order() -> None:
    used, number = arrays.renumbered(np.array([8, 3, 8, 5]))
    assert (used.tolist(), number.tolist()) == ([3, 5, 8], [2, 0, 2, 1])


def test_an_index_before_or_past_the_values_gives_the_default() -> None:
    found = arrays.values_at(np.array([10, 20], np.uint64), np.array([0, -1, 1, 2]), 7)
    assert (found.tolist(), found.dtype) == ([10, 7, 20, 7], np.dtype(np.uint64))


def test_each_bisection_stays_in_its_own_range() -> None:
    ascending = np.array([0, 10, 20, 0, 10, 20], np.uint64)
    begin, end = np.array([0, 0, 3, 3, 3, 5]), np.array([3, 3, 6, 6, 3, 6])
    wanted = np.array([9, 10, 99, 0, 5, 19], np.uint64)
    assert arrays.last_at_or_before(ascending, begin, end, wanted).tolist() == [0, 1, 5, 3, 2, 4]


def test_the_furthest_end_before_an_element_does_not_count_its_own() -> None:
    assert arrays.furthest_before(np.array([5, 3, 9, 4], np.uint64)).tolist() == [0, 5, 5, 9]


@pytest.mark.parametrize(
    ("order", "size", "signed", "expected"),
    [
        ("little", 2, False, [0x0201, 0xFE03]),
        ("big", 2, False, [0x0102, 0x03FE]),
        ("little", 3, True, [0x030201, 0xFFFFFFFFFF80FE03]),
        ("big", 1, True, [1, 3]),
    ],
)
def test_integers_are_gathered_and_stored_by_size_and_byte_order(
    order: ByteOrder, size: int, signed: bool, expected: list[int]
) -> None:
    data, offset = np.array([1, 2, 3, 0xFE, 0x80], np.uint8), np.array([0, 2])
    values = arrays.integers_at(data, offset, size, order, signed)
    assert values.tolist() == expected
    out = np.zeros_like(data)
    arrays.put_integers(out, offset, values, size, order)
    touched = sorted({at + step for at in (0, 2) for step in range(size)})
    assert out[touched].tolist() == data[touched].tolist()


def test_a_hash_table_has_two_slots_or_more_for_each_key() -> None:
    assert [len(arrays.hash_slots(keys)) for keys in (0, 1, 3, 4)] == [2, 4, 8, 16]
    assert set(arrays.hash_slots(3).tolist()) == {-1}


@given(st.lists(st.integers(-5, 5), max_size=12))
def test_distinct_values_ascend(values: list[int]) -> None:
    assert arrays.distinct_values(np.array(values, np.int64)).tolist() == sorted(set(values))
