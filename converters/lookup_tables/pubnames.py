"""`.debug_pubnames`, `.debug_pubtypes` and GNU's `.debug_gnu_` variants as columns: read, written and checked.

Strategy: a kernel finds sets and names. Names are not copied: a column has their offsets in the section's bytes.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_index, checked, instance_of, one_of, optional
from ...schemas.data_classes import dataclass
from ...schemas.derive import bit_position
from ...schemas.lookup_tables import NAME_SECTIONS, NamesHeader, SymbolAttributes
from ...schemas.section import BuildError, ByteOrder, Section, order_code
from ...schemas.wire import INITIAL_LENGTH_SIZES, DwarfFormat
from ..arrays import group_numbers, starts_of
from ..bulk_text import Pool
from ..dwarf.contributions import Sets, by_format, read_headers, row_dtype, scan_sets, write_headers
from ..findings import Findings, Problem, findings
from ..kernels import engine, views
from ..kernels.calls import reader_of, refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U8 = NDArray[np.uint8]
    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]

_check_field = one_of(*(one.name for one in fields(SymbolAttributes)))


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Names by compilation unit.

    Sets: `sets`; `version`, `debug_info_offset` (of the unit) and `debug_info_length` in bytes, u64; `is_terminated`;
    and `names_end` i64, the section offset after the names and their terminator; set s has the names first[s] up to
    first[s + 1] (i64). Names: `offset` u64, relative to the unit; `attributes` u8, the byte of `SymbolAttributes` (0
    if not `has_attributes`); the name is `text_size` bytes of `text` (u8) at `text_start` (i64).
    """

    name: str
    byte_order: ByteOrder
    has_attributes: bool
    sets: Sets
    version: U64
    debug_info_offset: U64
    debug_info_length: U64
    is_terminated: U8
    names_end: I64
    first: I64
    offset: U64
    attributes: U8
    text: U8
    text_start: I64
    text_size: I64

    def __len__(self) -> int:
        """The number of names."""
        return len(self.offset)

    @property
    def set(self) -> I64:
        """The set of each name."""
        return group_numbers(np.diff(self.first))

    def part(self, field: str, names: slice = slice(None)) -> U8:
        """One field of the attributes of a slice of names."""
        _check_field(field, "field")
        instance_of(slice)(names, "names")
        shift, mask = bit_position(SymbolAttributes, field)
        return self.attributes[names] >> np.uint8(shift) & np.uint8(mask)

    def name_of(self, index: int) -> bytes:
        """One name."""
        check_index(index, len(self), "index")
        start = int(self.text_start[index])
        return self.text[start : start + int(self.text_size[index])].tobytes()


@checked(section=Section)
def read_pubnames(section: Section) -> Names:
    """Read a section of NAME_SECTIONS; its name decides whether names have attributes. Raises ParseError."""
    has_attributes = NAME_SECTIONS[section.name]
    sets = scan_sets(section)
    header, body = read_headers(section, sets, NamesHeader)
    first, names_end = np.zeros(len(body) + 1, np.int64), np.zeros(len(body), np.int64)
    is_terminated = np.zeros(len(body), np.uint8)
    kernels = engine.dwarf.contributions
    count = 0
    for _ in ("count", "fill"):
        offset, attributes = np.zeros(count, np.uint64), np.zeros(count, np.uint8)
        start, size = np.zeros(count, np.int64), np.zeros(count, np.int64)
        reader = reader_of(section)
        by_set = kernels.Sets(*views(body, sets.end, sets.dwarf_format, first, names_end, is_terminated))
        by_name = kernels.Names(*views(offset, attributes, start, size))
        number = kernels.read_names(reader, has_attributes, by_set, by_name)
        count = by_name.count
        if reader.fault:
            refuse(section, f"set[{number}].name[{count - int(first[number])}]", reader)
    text = np.frombuffer(section.data, np.uint8)
    return Names(
        name=section.name,
        byte_order=section.byte_order,
        has_attributes=has_attributes,
        sets=sets,
        **header,
        is_terminated=is_terminated,
        names_end=names_end,
        first=first,
        offset=offset,
        attributes=attributes,
        text=text,
        text_start=start,
        text_size=size,
    )


@checked(table=Names)
def write_pubnames(table: Names) -> bytes:
    """The bytes of a section of names; each set is terminated. Raises BuildError."""
    number = table.set
    _refuse_unwritable(table)
    sets, body = _layout(table)
    header = {name: getattr(table, name) for name in ("version", "debug_info_offset", "debug_info_length")}
    headers = np.zeros(int(sets.end[-1]) if len(body) else 0, np.uint8)
    write_headers(headers, table.byte_order, sets, NamesHeader, header, table.name)
    # A name is its offset and attributes, its text, and a zero byte; a set is a header, names, and an offset of 0.
    pool = Pool([b"\0", bytes(DwarfFormat.DWARF32), bytes(DwarfFormat.DWARF64)])
    header_pieces = pool.add_slices(headers, sets.offset, body - sets.offset) + np.arange(len(body))
    text = pool.add_slices(table.text, table.text_start, table.text_size) + np.arange(len(table))
    prefix = np.zeros(len(table), np.int64)
    order = order_code(table.byte_order)
    for dwarf_format, _ in by_format(sets.dwarf_format):
        which = np.flatnonzero(sets.dwarf_format[number] == dwarf_format)
        offsets = table.offset[which].astype(f"{order}u{int(dwarf_format)}")
        lines = [offsets.view(np.uint8).reshape(len(which), int(dwarf_format))]
        lines += [table.attributes[which][:, None]] * table.has_attributes
        prefix[which] = pool.add(np.concatenate(lines, axis=1)) + np.arange(len(which))
    pieces = np.zeros(2 * len(body) + 3 * len(table), np.int64)
    at = 2 * number + 1 + 3 * np.arange(len(table))
    pieces[at], pieces[at + 1] = prefix, text
    set_at = 2 * np.arange(len(body)) + 3 * table.first[:-1]
    pieces[set_at] = header_pieces
    pieces[set_at + 1 + 3 * np.diff(table.first)] = np.where(sets.dwarf_format == DwarfFormat.DWARF64, 2, 1)
    return pool.join(pieces)


def _refuse_unwritable(table: Names) -> None:
    """Raise BuildError for an offset of 0, which would terminate the set, or one that does not fit."""
    limit = (np.uint64(1) << np.uint64(32)) - np.uint64(1)
    too_large = (table.offset > limit) & (table.sets.dwarf_format[table.set] == DwarfFormat.DWARF32)
    for wrong in np.flatnonzero((table.offset == 0) | too_large)[:1]:
        offset = int(table.offset[wrong])
        reason = "is 0, which ends the set" if not offset else f"{offset:#x} does not fit 4 bytes"
        raise BuildError(table.name, None, f"name[{wrong}].offset", reason)


def _layout(table: Names) -> tuple[Sets, I64]:
    """The offsets of consecutive sets, and those of their first names."""
    dwarf_format = table.sets.dwarf_format
    length_size, header_size = np.zeros(len(dwarf_format), np.int64), np.zeros(len(dwarf_format), np.int64)
    for one, which in by_format(dwarf_format):
        length_size[which] = INITIAL_LENGTH_SIZES[one]
        header_size[which] = INITIAL_LENGTH_SIZES[one] + row_dtype(NamesHeader, "little", dwarf_format=one).itemsize
    offset_size = dwarf_format.astype(np.int64)
    size = table.text_size + offset_size[table.set] + table.has_attributes + 1
    before = starts_of(size)[table.first]
    whole = header_size + np.diff(before) + offset_size
    offset = np.cumsum(whole) - whole
    return Sets(offset, offset + length_size, offset + whole), offset + header_size


class NameProblem(Problem):
    """What may be wrong with a section of names; a finding's value is the offset in question."""

    NO_END = 1, "set is not terminated by an offset of 0", "sets are not terminated by an offset of 0"
    LEFT_OVER = 2, "set has bytes after its terminator", "sets have bytes after their terminators"
    EMPTY = 3, "name is empty", "names are empty"
    OUTSIDE = 4, "name refers to an entry outside its unit", "names refer to entries outside their units"
    RESERVED = 5, "name has reserved bits or an unknown kind", "names have reserved bits or an unknown kind"
    NO_UNIT = 6, "set is for an offset without a unit", "sets are for offsets without a unit"
    WRONG_LENGTH = 7, "set has another length than its unit", "sets have other lengths than their units"


# A unit's header is never shorter (DWARF 2: length, version, abbreviations' offset, address size).
_LEAST_HEADER = 11
_KINDS = 4


@checked(section=Section, debug_info=optional(Section))
def check_pubnames(section: Section, debug_info: Section | None = None) -> Findings[NameProblem]:
    """Everything wrong with a readable section of names. Raises ParseError if it, or `debug_info`, cannot be read."""
    table = read_pubnames(section)
    number, offset = table.set, table.sets.offset
    place = table.text_start - table.has_attributes - table.sets.dwarf_format[number].astype(np.int64)
    is_outside = (table.offset < _LEAST_HEADER) | (table.offset >= table.debug_info_length[number])
    is_reserved = (table.part("kind") > _KINDS) | (table.part("reserved") > 0)
    found: list[tuple[NameProblem, I64, U64 | None]] = [
        (NameProblem.NO_END, offset[table.is_terminated == 0], None),
        (NameProblem.LEFT_OVER, offset[table.names_end < table.sets.end], None),
        (NameProblem.EMPTY, place[table.text_size == 0], table.offset[table.text_size == 0]),
        (NameProblem.OUTSIDE, place[is_outside], table.offset[is_outside]),
        (NameProblem.RESERVED, place[is_reserved], None),
    ]
    if debug_info is not None:
        units = scan_sets(debug_info, "unit")
        start = np.append(units.offset, -1).astype(np.uint64)
        which = np.searchsorted(units.offset.astype(np.uint64), table.debug_info_offset)
        is_unit = start[which] == table.debug_info_offset
        length = np.append(units.end - units.offset, 0).astype(np.uint64)[which]
        is_wrong = is_unit & (length != table.debug_info_length)
        found.append((NameProblem.NO_UNIT, offset[~is_unit], table.debug_info_offset[~is_unit]))
        found.append((NameProblem.WRONG_LENGTH, offset[is_wrong], table.debug_info_length[is_wrong]))
    return findings(NameProblem, found)
