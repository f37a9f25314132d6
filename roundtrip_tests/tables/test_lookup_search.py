"""Look-up of names and addresses: by hand, as a slow search finds them, and in programs.

Strategy: hypothesis draws sections and what is looked for, close to what is there; in programs of compilers, the entry
of a name is the one with that name, and the unit of an address is the one whose line number program has it.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import (
    AddressRanges,
    NameAt,
    Names,
    Section,
    find_address_ranges,
    find_names,
    open_elf,
    read_address_ranges,
    read_lines,
    read_pubnames,
    read_units,
)
from unwindkit.converters.line.lookup import sequence_ranges
from unwindkit.schemas.lookup_tables import NAME_SECTIONS, SymbolKind

from ..conftest import fewer
from ..support.handmade import octets
from ..support.oracles import oracle_root, run_oracle
from ..support.programs.debug_programs import EVERY_VARIANT, Variant, built
from ..support.work import at_most_calls

# --- names ------------------------------------------------------------------------------------------------------------

GNU_NAMES = """
    1f000000 0200 00010000 80000000     # length, version, the unit at 0x100 with 0x80 bytes
    2a000000 30 6d61696e00              # the entry at 0x2a: a global function "main"
    30000000 a0 7300                    # at 0x30: a static variable "s"
    00000000
    1a000000 0200 00030000 80000000     # the unit at 0x300
    2b000000 b0 6d61696e00              # a static function "main"
    00000000 0000
"""


def names(data: str | bytes, name: str = ".debug_gnu_pubnames") -> Names:
    return read_pubnames(Section.of(name, octets(data) if isinstance(data, str) else data))


def test_names_by_hand(kernels: str) -> None:
    found = find_names(names(GNU_NAMES), ["s", b"main", "mai", "", "main"])
    both = (
        NameAt(b"main", 0x100, 0x12A, SymbolKind.FUNCTION, is_static=False),
        NameAt(b"main", 0x300, 0x32B, SymbolKind.FUNCTION, is_static=True),
    )
    assert list(found) == [(NameAt(b"s", 0x100, 0x130, SymbolKind.VARIABLE, is_static=True),), both, (), (), both]
    assert (found.first.tolist(), found.name.tolist()) == ([0, 1, 3, 3, 3, 5], [1, 0, 2, 0, 2])


def test_one_name_without_a_list() -> None:
    assert [one.entry_offset for one in find_names(names(GNU_NAMES), "main")[0]] == [0x12A, 0x32B]


def test_names_without_attributes_and_an_unknown_kind() -> None:
    plain = names("15000000 0200 00000000 00010000 2a000000 c3a400 00000000", ".debug_pubnames")
    assert find_names(plain, "\u00e4")[0] == (NameAt("\u00e4".encode(), 0, 0x2A, SymbolKind.NONE, is_static=False),)
    odd = names("14000000 0200 00000000 00010000 2a000000 70 00 00000000")
    assert find_names(odd, "")[0] == (NameAt(b"", 0, 0x2A, 7, is_static=False),)


def test_nothing_is_found_in_an_empty_section() -> None:
    assert list(find_names(names(b""), ["a", "b"])) == [(), ()]
    assert list(find_names(names(GNU_NAMES), [])) == []


@fewer(2)
@given(
    sets=st.lists(
        st.lists(st.sampled_from([b"", b"a", b"ab", b"ba", b"a" * 8, b"a" * 9, b"a" * 16]), max_size=6), max_size=3
    ),
    wanted=st.lists(st.sampled_from([b"", b"a", b"ab", b"aa", b"a" * 8, b"a" * 16, b"a" * 17]), max_size=4),
)
def test_names_as_a_slow_search_finds_them(sets: list[list[bytes]], wanted: list[bytes]) -> None:
    data = b""
    for number, texts in enumerate(sets):
        body = octets("0200") + number.to_bytes(4, "little") + bytes(4)
        body += b"".join((index + 1).to_bytes(4, "little") + text + b"\0" for index, text in enumerate(texts)) + bytes(
            4
        )
        data += len(body).to_bytes(4, "little") + body
    found = find_names(names(data, ".debug_pubnames"), wanted)
    everything = [(text, unit, unit + index + 1) for unit, texts in enumerate(sets) for index, text in enumerate(texts)]
    expected = [[one for one in everything if one[0] == text] for text in wanted]
    assert [[(one.name, one.unit_offset, one.entry_offset) for one in group] for group in found] == expected


def test_many_names_take_no_square() -> None:
    texts = [f"name{number % 50_000}".encode() for number in range(100_000)]
    body = octets("0200") + bytes(8) + b"".join(b"\1\0\0\0" + text + b"\0" for text in texts) + bytes(4)
    table = names(len(body).to_bytes(4, "little") + body, ".debug_pubnames")
    with at_most_calls(60_000_000):
        found = find_names(table, texts[:50_000])
        assert (np.diff(found.first) == 2).all()


@pytest.mark.oracle("sid-llvm")
@EVERY_VARIANT
def test_entries_of_names_in_programs(variant: Variant, debug_folder: Path) -> None:
    """llvm-dwarfdump prints the entry at each offset: it has that name, and its unit is the one found."""
    path = built(debug_folder, variant)[1]
    image, units = open_elf(path), read_units(path)
    wanted = ("global", "hidden", "cold", "other", "_start", "number", "pair", "int", "absent")
    found = {}
    for header in (header for name in NAME_SECTIONS for header in image.named(name)):
        for group in find_names(read_pubnames(image.contents(header)), wanted):
            found.update({one.entry_offset: one for one in group})
    assert {b"_start", b"global", b"other", b"number"} <= {one.name for one in found.values()}
    text = run_oracle("llvm-dwarfdump-22", "--debug-info", path, suite="sid-llvm")
    entries = re.findall(r'^0x(\w+):  .*\n(?: {15,}.*\n)*? +DW_AT_name\t\("(.*)"\)', text, re.M)
    theirs = {int(offset, 16): name for offset, name in entries}
    for one in found.values():
        assert theirs[one.entry_offset] == one.name.decode()
        unit = units.columns.record(int(units.at(np.array([one.unit_offset]))[0]))
        assert 0 < one.entry_offset - unit["offset"] < unit["size"]


# --- addresses --------------------------------------------------------------------------------------------------------


def address_ranges(*sets: tuple[int, list[tuple[int, int]]], segments: int = 0) -> AddressRanges:
    """A table of sets: the unit's offset, and ranges of 8-byte addresses, with segment selectors 0, 1, 2, ... of
    `segments` bytes."""
    data = b""
    for unit, pairs in sets:
        body = octets("0200") + unit.to_bytes(4, "little") + bytes([8, segments])
        body += bytes(-(len(body) + 4) % (16 + segments))
        for number, (start, size) in enumerate(pairs):
            body += (number.to_bytes(segments, "little") if segments else b"") + start.to_bytes(8, "little")
            body += size.to_bytes(8, "little")
        data += len(body).to_bytes(4, "little") + body
    return read_address_ranges(Section.of(".debug_aranges", data))


LAST = (1 << 64) - 1


def test_address_ranges_by_hand(kernels: str) -> None:
    table = address_ranges(
        (0x40, [(0x1000, 0x10), (0x2000, 1), (0, 0), (0x5000, 0x10)]),
        (0x90, [(0x1008, 0x20), (LAST - 1, 0x10), (0x3000, 0), (0, 0)]),
    )
    pcs = [0xFFF, 0x1000, 0x100F, 0x1010, 0x1027, 0x1028, 0x2000, 0x2001, 0x3000, 0x5000, LAST, 0]
    found = find_address_ranges(table, pcs)
    assert found.range.tolist() == [-1, 0, 0, 4, 4, -1, 1, -1, -1, -1, 5, -1]
    assert found.unit_offset.tolist() == [-1, 0x40, 0x40, 0x90, 0x90, -1, 0x40, -1, -1, -1, 0x90, -1]


def test_a_segment_is_searched_alone() -> None:
    table = address_ranges((0x40, [(0x1000, 0x10), (0x1004, 0x10), (0, 0)]), segments=8)
    assert find_address_ranges(table, 0x1008).range.tolist() == [0]
    assert find_address_ranges(table, [0x1008, 0x1013, 0x1002], segment=1).range.tolist() == [1, 1, -1]
    assert find_address_ranges(table, 0x1008, segment=3).unit_offset.tolist() == [-1]


def test_no_range_is_found_in_an_empty_section() -> None:
    assert find_address_ranges(address_ranges(), [0, 1, LAST]).range.tolist() == [-1, -1, -1]


POINTS = st.one_of(st.integers(0, 40), st.integers(LAST - 40, LAST))
SETS = st.lists(st.lists(st.tuples(POINTS, st.integers(0, 45)), max_size=4), max_size=3)


@given(sets=SETS, pcs=st.lists(POINTS, min_size=1, max_size=8))
def test_address_ranges_as_a_slow_search_finds_them(sets: list[list[tuple[int, int]]], pcs: list[int]) -> None:
    table = address_ranges(*((100 * (unit + 1), pairs) for unit, pairs in enumerate(sets)))
    used = []
    for unit, pairs in enumerate(sets):
        for start, size in pairs:
            if (start, size) == (0, 0):
                break
            used.append((start, size, 100 * (unit + 1)))
    found = find_address_ranges(table, pcs)
    for pc, unit_offset in zip(pcs, found.unit_offset.tolist(), strict=True):
        covering = [one for one in used if one[0] <= pc < one[0] + one[1]]
        assert unit_offset == (min(covering, key=lambda one: one[0])[2] if covering else -1)


@pytest.mark.oracle("bookworm-dbg")
def test_units_of_addresses_in_libc() -> None:
    """The unit of each sequence of rows is the one whose line number program has the sequence."""
    path = max(
        oracle_root("bookworm-dbg").glob("usr/lib/debug/.build-id/*/*.debug"), key=lambda one: one.stat().st_size
    )
    image, units, lines = open_elf(path), read_units(path), read_lines(path)
    table = read_address_ranges(image.contents(image.named(".debug_aranges")[0]))
    start, size = sequence_ranges(lines)
    unit = units.at(find_address_ranges(table, start[size > 0]).unit_offset)
    assert units.columns.line_offset[unit].tolist() == lines.units.offset[lines.sequence_unit[size > 0]].tolist()
    assert len(unit) > 2000
