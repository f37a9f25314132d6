"""`.debug_aranges` as columns: read, written and checked (DWARF4 6.1.2).

Strategy: a kernel finds the sets; the ranges of all sets with equal address and segment sizes are read as one array.
The range of zeros that terminates a set is a row like any other, so that nothing is lost; `is_end` marks it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_address_size, check_byte_order, check_integers, checked, optional
from ...schemas.data_classes import dataclass
from ...schemas.lookup_tables import ARANGES, AddressRange, AddressRangesHeader
from ...schemas.section import ByteOrder, Section
from ...schemas.wire import INITIAL_LENGTH_SIZES, DwarfFormat
from ..arrays import group_numbers, ranges, run_starts, starts_of
from ..dwarf.contributions import (
    Sets,
    by_format,
    filled,
    put_rows,
    read_headers,
    row_dtype,
    rows_at,
    scan_sets,
    write_headers,
)
from ..findings import Findings, Problem, findings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U8 = NDArray[np.uint8]
    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class AddressRanges:
    """Address ranges by compilation unit.

    Sets: `sets`; `begin` i64, the section offset of the first range; `version`, `debug_info_offset` (of the unit),
    `address_size` and `segment_size` in bytes, all u64; set s has the ranges first[s] up to first[s + 1] (i64).
    Ranges: `segment`, `address` and `length` in bytes, u64.
    """

    byte_order: ByteOrder
    sets: Sets
    begin: I64
    version: U64
    debug_info_offset: U64
    address_size: U64
    segment_size: U64
    first: I64
    segment: U64
    address: U64
    length: U64

    def __len__(self) -> int:
        """The number of ranges, terminators included."""
        return len(self.address)

    @property
    def set(self) -> I64:
        """The set of each range."""
        return group_numbers(np.diff(self.first))

    @property
    def is_end(self) -> NDArray[np.bool_]:
        """Whether a range is all zeros, which terminates its set."""
        is_end: NDArray[np.bool_] = np.equal(self.segment | self.address | self.length, 0)
        return is_end

    @property
    def range_size(self) -> I64:
        """The size of a range in bytes, by set."""
        return _range_size(self.address_size, self.segment_size)

    @property
    def place(self) -> I64:
        """The section offset of each range."""
        number = self.set
        return self.begin[number] + (np.arange(len(self)) - self.first[number]) * self.range_size[number]


def _range_size(address_size: U64, segment_size: U64) -> I64:
    return (2 * address_size + segment_size).astype(np.int64)


@checked(section=Section)
def read_address_ranges(section: Section) -> AddressRanges:
    """Read a `.debug_aranges`. Raises ParseError."""
    sets = scan_sets(section)
    header, header_end = read_headers(section, sets, AddressRangesHeader)
    size = _range_size(header["address_size"], header["segment_size"])
    # The first range is at a multiple of its size, relative to the set.
    begin = np.minimum(sets.end, sets.offset + -(-(header_end - sets.offset) // size) * size)
    count = (sets.end - begin) // size
    first = starts_of(count)
    columns = {name: np.zeros(int(first[-1]), np.uint64) for name in ("segment", "address", "length")}
    for which, dtype in _by_sizes(header, section.byte_order):
        rows = ranges(first[which], count[which])
        owner = np.repeat(which, count[which])
        found = rows_at(section, begin[owner] + (rows - first[owner]) * dtype.itemsize, dtype)
        for name in dtype.names or ():
            columns[name][rows] = found[name]
    return AddressRanges(section.byte_order, sets, begin, **header, first=first, **columns)


def _by_sizes(header: dict[str, U64], order: ByteOrder) -> list[tuple[I64, np.dtype[np.void]]]:
    """Sets grouped by the sizes of addresses and segment selectors, with the dtype of their ranges."""
    pairs, number = np.unique(header["address_size"] << np.uint64(8) | header["segment_size"], return_inverse=True)
    return [
        (
            np.flatnonzero(number == index),
            row_dtype(AddressRange, order, address_size=pair >> 8, segment_size=pair & 0xFF),
        )
        for index, pair in enumerate(pairs.tolist())
    ]


@checked(
    debug_info_offset=check_integers,
    count=check_integers,
    address=check_integers,
    length=check_integers,
    byte_order=check_byte_order,
    address_size=check_address_size,
    dwarf_format=DwarfFormat,
)
def address_ranges_of_units(
    debug_info_offset: U64,
    count: I64,
    address: U64,
    length: U64,
    byte_order: ByteOrder = "little",
    address_size: int = 8,
    dwarf_format: DwarfFormat = DwarfFormat.DWARF32,
) -> AddressRanges:
    """A table with one terminated set for each unit at `debug_info_offset`; unit u has the next count[u] ranges."""
    units = len(debug_info_offset)
    first = starts_of(count + 1)
    columns = {name: np.zeros(int(first[-1]), np.uint64) for name in ("segment", "address", "length")}
    rows = ranges(first[:-1], count)
    columns["address"][rows], columns["length"][rows] = address, length
    header = {
        "version": np.full(units, 2, np.uint64),
        "debug_info_offset": debug_info_offset,
        "address_size": np.full(units, address_size, np.uint64),
        "segment_size": np.zeros(units, np.uint64),
    }
    sets, begin = _layout(header, first, np.full(units, dwarf_format, np.uint8))
    return AddressRanges(byte_order, sets, begin, **header, first=first, **columns)


def _layout(header: dict[str, U64], first: I64, dwarf_format: U8) -> tuple[Sets, I64]:
    """The offsets of consecutive sets, and those of their first ranges."""
    sizes = {one: row_dtype(AddressRangesHeader, "little", dwarf_format=one).itemsize for one in DwarfFormat}
    length_size, header_size = np.zeros(len(dwarf_format), np.int64), np.zeros(len(dwarf_format), np.int64)
    for one, which in by_format(dwarf_format):
        length_size[which], header_size[which] = INITIAL_LENGTH_SIZES[one], INITIAL_LENGTH_SIZES[one] + sizes[one]
    size = _range_size(header["address_size"], header["segment_size"])
    begin: I64 = header_size + -header_size % size
    whole: I64 = begin + (first[1:] - first[:-1]) * size
    offset: I64 = np.cumsum(whole) - whole
    return Sets(offset, offset + length_size, offset + whole), offset + begin


@checked(table=AddressRanges)
def write_address_ranges(table: AddressRanges) -> bytes:
    """The bytes of a `.debug_aranges`; padding is zero. Raises BuildError."""
    header = {name: getattr(table, name) for name in ("version", "debug_info_offset", "address_size", "segment_size")}
    sets, begin = _layout(header, table.first, table.sets.dwarf_format)
    data = np.zeros(int(sets.end[-1]) if len(begin) else 0, np.uint8)
    write_headers(data, table.byte_order, sets, AddressRangesHeader, header, ARANGES)
    count = np.diff(table.first)
    for which, dtype in _by_sizes(header, table.byte_order):
        rows = ranges(table.first[which], count[which])
        owner = np.repeat(which, count[which])
        columns = {name: getattr(table, name)[rows] for name in ("segment", "address", "length")}
        place = begin[owner] + (rows - table.first[owner]) * dtype.itemsize
        put_rows(data, place, filled(columns, dtype, ARANGES, rows, "range"))
    return data.tobytes()


class RangeProblem(Problem):
    """What may be wrong with a `.debug_aranges`. A finding's value is the address; for NO_UNIT and SAME_UNIT it is the
    unit's offset."""

    NO_END = 1, "set is not terminated by zeros", "sets are not terminated by zeros"
    AFTER_END = 2, "range is after its set's terminator", "ranges are after their sets' terminators"
    LEFT_OVER = 3, "set ends inside a range", "sets end inside a range"
    EMPTY = 4, "range is empty", "ranges are empty"
    WRAPS = 5, "range reaches past the last address", "ranges reach past the last address"
    UNSORTED = 6, "range starts below the previous one of its set", "ranges start below the previous one of their set"
    OVERLAP = 7, "range overlaps another", "ranges overlap others"
    NO_UNIT = 8, "set is for an offset without a unit", "sets are for offsets without a unit"
    SAME_UNIT = 9, "set is for a unit that already has one", "sets are for units that already have one"


@checked(section=Section, debug_info=optional(Section))
def check_address_ranges(section: Section, debug_info: Section | None = None) -> Findings[RangeProblem]:
    """Everything wrong with a readable `.debug_aranges`. Raises ParseError if it, or `debug_info`, cannot be read."""
    table = read_address_ranges(section)
    number, place, is_end = table.set, table.place, table.is_end
    # The terminators before each range in its set: readers stop at the first.
    ends: I64 = np.cumsum(is_end) - is_end.astype(np.int64)
    ends = ends - ends[table.first[number]]
    has_end = np.zeros(len(table.begin), np.bool_)
    has_end[number[is_end]] = True
    offset = table.sets.offset
    left_over = (table.sets.end - table.begin) % table.range_size
    used = np.flatnonzero((ends == 0) & ~is_end)
    found: list[tuple[RangeProblem, I64, U64 | None]] = [
        (RangeProblem.NO_END, offset[~has_end], None),
        (RangeProblem.AFTER_END, place[(ends > 0) & ~is_end], table.address[(ends > 0) & ~is_end]),
        (RangeProblem.LEFT_OVER, offset[left_over > 0], None),
        *_unit_problems(table, debug_info),
        *((problem, place[used[which]], table.address[used[which]]) for problem, which in _used_problems(table, used)),
    ]
    return findings(RangeProblem, found)


def _unit_problems(table: AddressRanges, debug_info: Section | None) -> list[tuple[RangeProblem, I64, U64 | None]]:
    unit, offset = table.debug_info_offset, table.sets.offset
    order = np.argsort(unit, kind="stable")
    again = np.sort(order[1:][unit[order[1:]] == unit[order[:-1]]])
    found: list[tuple[RangeProblem, I64, U64 | None]] = [(RangeProblem.SAME_UNIT, offset[again], unit[again])]
    if debug_info is not None:
        units = scan_sets(debug_info, "unit").offset.astype(np.uint64)
        nowhere = ~np.isin(unit, units)
        found.append((RangeProblem.NO_UNIT, offset[nowhere], unit[nowhere]))
    return found


def _used_problems(table: AddressRanges, used: I64) -> list[tuple[RangeProblem, I64]]:
    """Everything wrong with the ranges that readers reach, as indices in `used`."""
    number, start, length = table.set[used], table.address[used], table.length[used]
    segment = table.segment[used]
    last = start + length - np.uint64(1)
    width = np.uint64(8) * table.address_size[number]
    limit = ((np.uint64(1) << width - np.uint64(1)) - np.uint64(1)) * np.uint64(2) + np.uint64(1)
    is_empty = length == 0
    wraps = ~is_empty & ((last < start) | (last > limit))
    unsorted = (number[1:] == number[:-1]) & (segment[1:] == segment[:-1]) & (start[1:] < start[:-1])
    order = np.lexsort((start, segment))
    order = order[~is_empty[order] & ~wraps[order]]
    # The largest last address of the previous ranges of the same segment.
    reach = _running_maximum(segment[order], last[order])
    overlaps = (segment[order][1:] == segment[order][:-1]) & (start[order][1:] <= reach[:-1])
    return [
        (RangeProblem.EMPTY, np.flatnonzero(is_empty)),
        (RangeProblem.WRAPS, np.flatnonzero(wraps)),
        (RangeProblem.UNSORTED, np.flatnonzero(unsorted) + 1),
        (RangeProblem.OVERLAP, np.sort(order[1:][overlaps])),
    ]


def _running_maximum(group: U64, values: U64) -> U64:
    """The largest value up to each one, within runs of equal groups."""
    reach = values.copy()
    bounds = np.flatnonzero(run_starts(group))
    for begin, end in pairwise([*bounds.tolist(), len(values)]):
        np.maximum.accumulate(reach[begin:end], out=reach[begin:end])
    return reach
