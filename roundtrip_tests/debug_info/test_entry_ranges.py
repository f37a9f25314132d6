"""The ranges of entries: joined, and cut to those of what contains them; held against sets of addresses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit.converters.arrays import starts_of
from unwindkit.converters.debug_info.code import Ranges, disjoint
from unwindkit.converters.kernels import engine, views

from ..conftest import engine_in_use

TOP = (1 << 64) - 1
Owned = list[tuple[int, int, int]]  # owner, start, end
RANGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 24), st.integers(1, 8)), max_size=14)


def ranges_of(found: Owned) -> Ranges:
    """As columns."""
    columns = zip(*found, strict=True) if found else ((), (), ())
    return Ranges(*(np.array(one, kind) for one, kind in zip(columns, (np.int64, np.uint64, np.uint64), strict=True)))


def listed(found: Ranges) -> Owned:
    """As tuples."""
    return list(zip(found.owner.tolist(), found.start.tolist(), found.end.tolist(), strict=True))


def addresses(found: Owned, owner: int) -> set[int]:
    """The addresses of an owner."""
    return {address for one, start, end in found if one == owner for address in range(start, end)}


def runs(owner: int, some: set[int]) -> Owned:
    """Addresses as the fewest ranges."""
    starts = sorted(one for one in some if one - 1 not in some)
    ends = sorted(one + 1 for one in some if one + 1 not in some)
    return [(owner, start, end) for start, end in zip(starts, ends, strict=True)]


@given(RANGES, st.sampled_from(["pure", "compiled"]))
def test_ranges_of_an_owner_are_joined_where_they_touch(found: Owned, name: str) -> None:
    found = [(owner, start, start + size) for owner, start, size in found]
    with engine_in_use(name):
        joined = listed(disjoint(ranges_of(found)))
    assert joined == [one for owner in range(6) for one in runs(owner, addresses(found, owner))]


@pytest.mark.parametrize("owner", [[0, 0], [0, 1], [1, 0]])
def test_the_input_is_left_as_it_is(owner: list[int], kernels: str) -> None:
    found = ranges_of([(owner[0], 8, 16), (owner[1], 4, 8)])
    before = listed(found)
    disjoint(found)
    assert listed(found) == before


def clip(parent: list[int], found: Owned, space: int) -> tuple[int, Owned, list[int], list[bool]]:
    """What the kernel returns; ranges, depths and which entries are cut."""
    given_ranges, clipped = ranges_of(found), Ranges.empty(space)
    own = starts_of(np.bincount(given_ranges.owner, minlength=len(parent)))
    first, depth = np.zeros(len(parent) + 1, np.int64), np.full(len(parent), 7, np.uint16)
    is_cut, kernel = np.full(len(parent), 7, np.uint8), engine.dwarf.entry_ranges
    space_of = kernel.Clipped(*views(clipped.owner, clipped.start, clipped.end, first, depth, is_cut))
    columns = views(np.array(parent, np.int64), own, given_ranges.start, given_ranges.end)
    count = kernel.clip(*columns, space_of)
    return count, listed(clipped.select(slice(max(count, 0)))), depth.tolist(), (is_cut == 1).tolist()


@given(RANGES, st.lists(st.integers(0, 9), min_size=6, max_size=6), st.sampled_from(["pure", "compiled"]))
def test_entries_keep_what_is_inside_their_parents(found: Owned, above: list[int], name: str) -> None:
    parent = [chosen % (entry + 1) - 1 for entry, chosen in enumerate(above)]
    found = [(owner, start, start + size) for owner, start, size in found]
    found = [one for owner in range(6) for one in runs(owner, addresses(found, owner))]
    with engine_in_use(name):
        count, clipped, depth, is_cut = clip(parent, found, 64)
    left: list[set[int]] = []
    for entry, one in enumerate(parent):
        own = addresses(found, entry)
        left.append(own & left[one] if one >= 0 else own)
        assert depth[entry] == (0 if one < 0 or parent[one] < 0 else depth[one] + 1)
        assert is_cut[entry] == (left[entry] < own)
        # Ranges that touch each other in the parent are one there.
        assert [each for each in clipped if each[0] == entry] == runs(entry, left[entry])
    assert count == len(clipped)


def test_without_space_nothing_is_written_behind_it(kernels: str) -> None:
    parent, found = [-1, 0], [(0, 0, 4), (0, 8, 12), (0, 16, TOP), (1, 2, TOP)]
    assert [clip(parent, found, space)[0] for space in range(8)] == [-1, -1, -1, -1, -1, -1, 6, 6]
    assert clip(parent, found, 6)[1] == [*found[:3], (1, 2, 4), (1, 8, 12), (1, 16, TOP)]
