"""Look-up tables as columns: the kernels read the same as the reference engine; written back; findings.

Strategy: hypothesis draws whole sections for both engines to read; each kind of finding has an example of its own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import BuildError, ParseError
from unwindkit.converters.dwarf.contributions import Sets, write_headers
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.lookup_tables.aranges import (
    RangeProblem,
    address_ranges_of_units,
    check_address_ranges,
    read_address_ranges,
    write_address_ranges,
)
from unwindkit.converters.lookup_tables.pubnames import NameProblem, check_pubnames, read_pubnames, write_pubnames
from unwindkit.schemas import strategies
from unwindkit.schemas.lookup_tables import (
    NAME_SECTIONS,
    AddressRange,
    AddressRangeSet,
    AddressRangesHeader,
    Name,
    NameSet,
    NamesHeader,
    SymbolAttributes,
    build_address_ranges,
    build_names,
    parse_address_ranges,
    parse_names,
)
from unwindkit.schemas.section import ByteOrder, Section
from unwindkit.schemas.wire import DwarfFormat

from ..conftest import engine_in_use, fewer
from ..support.handmade import octets
from ..support.programs.debug_programs import EVERY_VARIANT, Variant, built
from .test_vectors_lookup_tables import GNU_NAMES_BIG, NAMES, RANGES, RANGES_BIG_64

orders = st.sampled_from(["little", "big"])
engines = st.sampled_from(["pure", "compiled"])


def section(data: str | bytes, name: str = ".debug_aranges", order: ByteOrder = "little") -> Section:
    return Section.of(name, octets(data) if isinstance(data, str) else data, 0, order)


# --- columns ----------------------------------------------------------------------------------------------------------


def test_columns_of_ranges(kernels: str) -> None:
    table = read_address_ranges(section(RANGES + RANGES))
    assert table.sets.offset.tolist() == [0, 48]
    assert table.sets.end.tolist() == [48, 96]
    assert table.debug_info_offset.tolist() == [0x1234] * 2
    assert table.first.tolist() == [0, 2, 4]
    assert table.address.tolist() == [0x1000, 0] * 2
    assert table.length.tolist() == [32, 0] * 2
    assert table.is_end.tolist() == [False, True] * 2
    assert table.place.tolist() == [16, 32, 64, 80]


def test_columns_of_ranges_with_segments(kernels: str) -> None:
    table = read_address_ranges(section(RANGES_BIG_64, order="big"))
    assert (table.segment.tolist(), table.address.tolist(), table.length.tolist()) == ([7], [0x1000], [32])
    assert (table.address_size.tolist(), table.segment_size.tolist(), table.place.tolist()) == ([4], [2], [30])


def test_columns_of_names(kernels: str) -> None:
    table = read_pubnames(section(NAMES, ".debug_pubnames"))
    assert [table.name_of(index) for index in range(len(table))] == [b"main", b"a::b"]
    assert (table.offset.tolist(), table.is_terminated.tolist(), table.names_end.tolist()) == ([0x2A, 0x40], [1], [36])
    gnu = read_pubnames(section(GNU_NAMES_BIG, ".debug_gnu_pubnames", "big"))
    assert (gnu.part("is_static").tolist(), gnu.part("kind").tolist(), gnu.part("reserved").tolist()) == ([1], [3], [0])


@fewer(5)
@given(order=orders, engine=engines, sets=st.lists(strategies.address_range_sets(), max_size=3))
def test_ranges_as_the_reference_engine_reads_them(order: ByteOrder, engine: str, sets: list[AddressRangeSet]) -> None:
    data = build_address_ranges(tuple(sets), order)
    with engine_in_use(engine):
        table = read_address_ranges(section(data, order=order))
    assert np.diff(table.first).tolist() == [len(one.ranges) for one in sets]
    assert table.debug_info_offset.tolist() == [one.header.debug_info_offset for one in sets]
    ranges = [each for one in sets for each in one.ranges]
    assert table.segment.tolist() == [each.segment or 0 for each in ranges]
    assert table.address.tolist() == [each.address for each in ranges]
    assert table.length.tolist() == [each.length for each in ranges]
    # Written back unchanged, except for the contents of padding.
    expected = tuple(
        AddressRangeSet(one.header, bytes(len(one.padding)), one.ranges)
        for one in parse_address_ranges(section(data, order=order))
    )
    assert write_address_ranges(table) == build_address_ranges(expected, order)


@pytest.mark.parametrize("name", NAME_SECTIONS)
@fewer(8)
@given(order=orders, engine=engines, data=st.data())
def test_names_as_the_reference_engine_reads_them(
    name: str, order: ByteOrder, engine: str, data: st.DataObject
) -> None:
    sets = data.draw(st.lists(strategies.name_sets(NAME_SECTIONS[name]), max_size=3))
    built_bytes = build_names(tuple(sets), NAME_SECTIONS[name], order)
    with engine_in_use(engine):
        table = read_pubnames(section(built_bytes, name, order))
        written = write_pubnames(table)
    assert np.diff(table.first).tolist() == [len(one.names) for one in sets]
    assert table.is_terminated.tolist() == [one.is_terminated for one in sets]
    names = [each for one in sets for each in one.names]
    assert table.offset.tolist() == [each.offset for each in names]
    assert [table.name_of(index) for index in range(len(table))] == [each.name for each in names]
    expected = tuple(NameSet(one.header, one.names) for one in sets)
    assert written == build_names(expected, NAME_SECTIONS[name], order)


@EVERY_VARIANT
def test_sections_of_gcc_are_written_as_they_were(variant: Variant, debug_folder: Path) -> None:
    """Law 2, on the wire and for columns; and there are no findings."""
    image = open_elf(built(debug_folder, variant)[1])
    (debug_info,) = map(image.contents, image.named(".debug_info"))
    for one in map(image.contents, image.named(".debug_aranges")):
        assert build_address_ranges(parse_address_ranges(one), one.byte_order) == bytes(one.data)
        assert write_address_ranges(read_address_ranges(one)) == bytes(one.data)
        assert check_address_ranges(one, debug_info).sentences() == ()
    found = [image.contents(header) for name in NAME_SECTIONS for header in image.named(name)]
    assert found
    for one in found:
        is_gnu = NAME_SECTIONS[one.name]
        assert build_names(parse_names(one, is_gnu), is_gnu, one.byte_order) == bytes(one.data)
        assert write_pubnames(read_pubnames(one)) == bytes(one.data)
        assert check_pubnames(one, debug_info).sentences() == ()


def test_ranges_of_units_are_ended_and_aligned() -> None:
    units, count = np.array([0, 0x50], np.uint64), np.array([2, 0])
    starts, sizes = np.array([0x1000, 0x3000], np.uint64), np.array([0x10, 1], np.uint64)
    data = write_address_ranges(address_ranges_of_units(units, count, starts, sizes, "big", 4, DwarfFormat.DWARF64))
    header = AddressRangesHeader(DwarfFormat.DWARF64, 2, 0, 4, 0)
    end = AddressRange(None, 0, 0)
    assert parse_address_ranges(section(data, order="big")) == (
        AddressRangeSet(header, b"", (AddressRange(None, 0x1000, 0x10), AddressRange(None, 0x3000, 1), end)),
        AddressRangeSet(AddressRangesHeader(DwarfFormat.DWARF64, 2, 0x50, 4, 0), b"", (end,)),
    )


def test_values_without_room_are_refused() -> None:
    one = np.ones(1, np.uint64)
    large = address_ranges_of_units(one, np.ones(1, np.int64), one << np.uint64(32), one, address_size=4)
    with pytest.raises(BuildError, match=r"range\[0\].address: 0x100000000 does not fit 4 bytes"):
        write_address_ranges(large)
    large = address_ranges_of_units(one << np.uint64(32), np.ones(1, np.int64), one, one)
    with pytest.raises(BuildError, match=r"set\[0\].debug_info_offset: 0x100000000 does not fit 4 bytes"):
        write_address_ranges(large)


def test_a_length_that_32_bit_dwarf_reserves_is_refused() -> None:
    header = {name: np.zeros(1, np.uint64) for name in ("version", "debug_info_offset", "address_size", "segment_size")}
    data = np.zeros(12, np.uint8)
    sets = Sets(*(np.array([number]) for number in (0, 4, 4 + 0xFFFFFFEF)))
    write_headers(data, "little", sets, AddressRangesHeader, header, ".debug_aranges")
    assert data.tobytes() == octets("efffffff") + bytes(8)
    large = replace(sets, end=sets.end + 1)
    with pytest.raises(BuildError, match=r"set\[0\].length: needs 64-bit DWARF"):
        write_headers(data, "little", large, AddressRangesHeader, header, ".debug_aranges")


def test_a_reserved_length_is_not_read_as_a_size(kernels: str) -> None:
    with pytest.raises(ParseError, match=r"set\[0\].length: a reserved initial length"):
        read_address_ranges(section("f0ffffff"))
    with pytest.raises(ParseError, match=r"set\[0\].length: the length reaches past"):
        read_address_ranges(section("efffffff"))


# --- findings ---------------------------------------------------------------------------------------------------------


def ranges(*pairs: tuple[int, int], unit: int = 0, address_size: int = 8, trailing: bytes = b"") -> bytes:
    header = AddressRangesHeader(DwarfFormat.DWARF32, 2, unit, address_size, 0)
    padding = 4
    found = tuple(AddressRange(None, address, length) for address, length in pairs)
    return build_address_ranges((AddressRangeSet(header, bytes(padding), found, trailing),), "little")


def segments(*found: tuple[int, int, int]) -> bytes:
    """Ranges with segment selectors of 8 bytes."""
    header = AddressRangesHeader(DwarfFormat.DWARF32, 2, 0, 8, 8)
    each = tuple(AddressRange(*one) for one in found)
    return build_address_ranges((AddressRangeSet(header, bytes(12), each),), "little")


END = (0, 0)


@pytest.mark.parametrize(
    ("data", "problem", "offsets"),
    [
        (ranges((0x1000, 8)), RangeProblem.NO_END, [0]),
        (ranges(END, (0x1000, 8), END), RangeProblem.AFTER_END, [32]),
        (ranges(END, trailing=b"\1\2\3"), RangeProblem.LEFT_OVER, [0]),
        (ranges((0x1000, 8), (0x2000, 0), END), RangeProblem.EMPTY, [32]),
        (ranges(((1 << 64) - 4, 5), END), RangeProblem.WRAPS, [16]),
        (ranges(((1 << 32) - 4, 5), END, address_size=4), RangeProblem.WRAPS, [16]),
        (ranges((0x2000, 8), (0x1000, 8), END), RangeProblem.UNSORTED, [32]),
        (ranges((0x1000, 9), (0x1008, 8), END), RangeProblem.OVERLAP, [32]),
        (ranges((0x1000, 8), END) + ranges((0x1004, 1), END, unit=0x20), RangeProblem.OVERLAP, [64]),
        (ranges((0x1000, 0x100), (0x1008, 8), (0x1020, 8), END), RangeProblem.OVERLAP, [32, 48]),
        (ranges((0x1000, 8), END, unit=0x21), RangeProblem.NO_UNIT, [0]),
        (ranges((0x1000, 8), END) + ranges((0x2000, 8), END), RangeProblem.SAME_UNIT, [48]),
    ],
)
def test_what_is_wrong_with_ranges(data: bytes, problem: RangeProblem, offsets: list[int]) -> None:
    debug_info = section(("1c000000" + "00" * 28) * 2, ".debug_info")
    found = check_address_ranges(section(data), debug_info)
    assert [RangeProblem(number) for number in found.problem] == [problem] * len(offsets)
    assert found.of(problem) == offsets


@pytest.mark.parametrize(
    "data",
    [
        ranges((0x1000, 8), (0x1008, 8), END),
        ranges(((1 << 64) - 4, 4), END),
        ranges(((1 << 32) - 4, 4), END, address_size=4),
        # Ranges are sorted within a set, by segment.
        ranges((0x2000, 8), END) + ranges((0x1000, 8), END, unit=0x20),
        segments((1, 0x2000, 8), (2, 0x1000, 8), (0, 0, 0)),
        segments((1, 0x1000, 8), (2, 0x1000, 8), (0, 0, 0)),
    ],
)
def test_what_is_right_with_ranges(data: bytes) -> None:
    assert check_address_ranges(section(data)).sentences() == ()


def test_sentences() -> None:
    found = check_address_ranges(section(ranges((0x1000, 9), (0x1008, 8), (0x1008, 0))))
    assert found.sentences() == (
        "1 set is not terminated by zeros, at 0x0",
        "1 range is empty, at 0x30",
        "1 range overlaps another, at 0x20",
    )
    assert found.value.tolist() == [0, 0x1008, 0x1008]


def names(
    *found: tuple[int, int, bytes], unit: int = 0, length: int = 0x20, is_terminated: bool = True, trailing: bytes = b""
) -> bytes:
    header = NamesHeader(DwarfFormat.DWARF32, 2, unit, length)
    each = tuple(
        Name(offset, SymbolAttributes(byte >> 7, byte >> 4 & 7, byte & 15), name) for offset, byte, name in found
    )
    return build_names((NameSet(header, each, is_terminated, trailing),), True, "little")


@pytest.mark.parametrize(
    ("data", "problem", "offset"),
    [
        (names((0x1F, 0x30, b"a"), is_terminated=False), NameProblem.NO_END, 0),
        (names((0x1F, 0x30, b"a"), trailing=b"\0"), NameProblem.LEFT_OVER, 0),
        (names((0x1F, 0x30, b"a"), (0x1E, 0x30, b"")), NameProblem.EMPTY, 21),
        (names((0x20, 0x30, b"a")), NameProblem.OUTSIDE, 14),
        (names((0x0A, 0x30, b"a")), NameProblem.OUTSIDE, 14),
        (names((0x1F, 0x50, b"a")), NameProblem.RESERVED, 14),
        (names((0x1F, 0x31, b"a")), NameProblem.RESERVED, 14),
        (names((0x1F, 0xB0, b"a"), unit=0x21), NameProblem.NO_UNIT, 0),
        (names((0x1F, 0xB0, b"a"), unit=0x20, length=0x21), NameProblem.WRONG_LENGTH, 0),
    ],
)
def test_what_is_wrong_with_names(data: bytes, problem: NameProblem, offset: int) -> None:
    debug_info = section(("1c000000" + "00" * 28) * 2, ".debug_info")
    found = check_pubnames(section(data, ".debug_gnu_pubnames"), debug_info)
    assert [NameProblem(number) for number in found.problem] == [problem]
    assert found.of(problem) == [offset]
