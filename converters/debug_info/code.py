"""Where the code of entries is: addresses, and lists of address ranges (DWARF5 2.17).

Strategy: forms are told apart by columns; a kernel reads lists. Ranges outside executable sections are of code that the
linker discarded, and are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.debug_info.range_lists import ADDRESSES
from ...schemas.debug_info.roots import NEW_VERSIONS, ROOT_FORM
from ...schemas.section import ParseError, Section
from ...schemas.wire import INITIAL_LENGTH_SIZES, LENGTH_DWARF64, DwarfFormat
from ..arrays import distinct_values, integers_at, values_at
from ..columns import Columns, column_of, columns
from ..dwarf.units import OVERLAPS
from ..kernels import engine, views
from ..kernels.calls import reader_of
from ..kernels.protocol import Fault
from ..limits import exceeded, raised
from .attributes import Attribute, DecodedUnits
from .entries import NOTHING, Rows, read_entries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U64 = NDArray[np.uint64]
    I64 = NDArray[np.int64]

ADDRESS_INDEX_FORMS = (
    *(ROOT_FORM.addrx, ROOT_FORM.addrx1, ROOT_FORM.addrx2, ROOT_FORM.addrx3, ROOT_FORM.addrx4),
    ROOT_FORM.GNU_addr_index,
)
# The size of a header of .debug_rnglists or .debug_addr after the initial length.
_LISTS_HEADER = 8


@dataclass(frozen=True, slots=True)
class CodeSections:
    """The sections that entries refer to for addresses; None for one that the file does not have."""

    ranges: Section | None = None
    range_lists: Section | None = None
    addresses: Section | None = None


@columns
class Ranges(Columns):
    """Address ranges of entries, disjoint and ascending for each one."""

    owner: NDArray[np.int64] = column_of("index", "of the entry; ascending")
    start: NDArray[np.uint64] = column_of("address")
    end: NDArray[np.uint64] = column_of("address", "after the last byte")


@columns
class Skeletons(Columns):
    """What split units take from their skeleton units (DWARF5 3.1.3), by split unit; and the ranges that a package or
    a .dwo file has for them."""

    base: NDArray[np.uint64] = column_of("address", "DW_AT_low_pc")
    addresses: NDArray[np.int64] = column_of("section offset", "DW_AT_addr_base, in .debug_addr; -1")
    ranges: NDArray[np.int64] = column_of("section offset", "DW_AT_GNU_ranges_base, in .debug_ranges", fill=0)
    range_lists: NDArray[np.int64] = column_of("section offset", "of the contribution to .debug_rnglists.dwo")


UNIT_ATTRIBUTES = (
    *(Attribute.LOW_PC, Attribute.ADDR_BASE, Attribute.RNGLISTS_BASE, Attribute.LANGUAGE),
    Attribute.DWO_ID,
)


class UnitCode:
    """Addresses and ranges as the entries of each unit give them: relative to the unit's `base` address, and to its
    contributions to `.debug_addr` and `.debug_rnglists`."""

    def __init__(self, decoded: DecodedUnits, sections: CodeSections) -> None:
        headers = decoded.units.columns
        self.decoded = decoded
        self.sections = sections
        self.version = headers.version
        self.address_size = headers.address_size
        self.offset_size = np.where(headers.is_64, 8, 4)
        roots = self._roots()
        self.address_base = _offsets(roots, Attribute.ADDR_BASE)
        self.lists_base = _offsets(roots, Attribute.RNGLISTS_BASE)
        self.language = np.where(roots.form_of(Attribute.LANGUAGE) > 0, roots.number_of(Attribute.LANGUAGE), 0)
        every = np.arange(len(headers), dtype=np.uint32)
        self.ranges_base = np.zeros(len(headers), np.int64)
        self.dwo_id = np.where(roots.form_of(Attribute.DWO_ID) > 0, roots.number_of(Attribute.DWO_ID), np.uint64(0))
        self.has_dwo_id = roots.form_of(Attribute.DWO_ID) > 0
        self._low_pc = roots.form_of(Attribute.LOW_PC), roots.number_of(Attribute.LOW_PC), every
        self.base, _ = self.addresses(*self._low_pc)

    def inherit(self, skeletons: Skeletons) -> None:
        """Take from skeleton units what these split units do not have themselves."""
        section, is_new = self.sections.range_lists, np.isin(self.version, NEW_VERSIONS)
        self.address_base = skeletons.addresses
        self.ranges_base = np.where(is_new, skeletons.range_lists, skeletons.ranges)
        if section is not None:
            self.lists_base = _after_headers(section, skeletons.range_lists)
        own, has_base = self.addresses(*self._low_pc)
        self.base = np.where(has_base, own, skeletons.base)

    def _roots(self) -> Rows:
        """The root entries, by unit; one without attributes for a unit that is not read."""
        headers = self.decoded.units.columns
        is_read = (headers.root >= 0) & (headers.tag > 0)
        found = Rows.of(UNIT_ATTRIBUTES, len(headers))
        some = read_entries(self.decoded, headers.root[is_read], UNIT_ATTRIBUTES)
        found.form[is_read], found.number[is_read] = some.form, some.number
        return found

    def addresses(
        self, form: NDArray[np.uint32], number: U64, unit: NDArray[np.uint32]
    ) -> tuple[U64, NDArray[np.bool_]]:
        """The addresses of values of these forms, in these units, and which of them are known."""
        is_index = np.isin(form, ADDRESS_INDEX_FORMS)
        is_known = form == ROOT_FORM.addr
        found = np.where(is_known, number, np.uint64(0))
        which, section = np.flatnonzero(is_index), self.sections.addresses
        if not len(which) or section is None:
            return found, is_known
        of_unit = unit[which]
        base, size = self.address_base[of_unit], self.address_size[of_unit].astype(np.int64)
        limit = np.where(base >= 0, np.maximum(len(section) - base, 0) // size, 0).astype(np.uint64)
        is_inside = number[which] < limit
        data = np.frombuffer(section.data, np.uint8)
        for one in distinct_values(size[is_inside]).tolist():
            of_size = is_inside & (size == one)
            place = base[of_size] + number[which][of_size].astype(np.int64) * one
            found[which[of_size]] = integers_at(data, place, one, section.byte_order)
        is_known[which] = is_inside
        return found, is_known

    def ranges_of(self, rows: Rows, notes: list[tuple[int, int, int]]) -> Ranges:
        """The ranges of entries, whose indices are the owners. `notes` gets the unit, the section offset and the fault
        of each list that cannot be read, whose entry then has no ranges."""
        is_list = rows.form_of(Attribute.RANGES) > 0
        low_form, high_form = rows.form_of(Attribute.LOW_PC), rows.form_of(Attribute.HIGH_PC)
        plain = np.flatnonzero(~is_list & (low_form > 0) & (high_form > 0))
        start, is_known = self.addresses(low_form[plain], rows.number_of(Attribute.LOW_PC)[plain], rows.unit[plain])
        end, is_address = self.addresses(high_form[plain], rows.number_of(Attribute.HIGH_PC)[plain], rows.unit[plain])
        # A constant is the size of the code.
        is_size = ~np.isin(high_form[plain], (ROOT_FORM.addr, *ADDRESS_INDEX_FORMS))
        end = np.where(is_size, start + rows.number_of(Attribute.HIGH_PC)[plain], end)
        kept = is_known & (is_size | is_address) & (end > start)
        parts = [Ranges(plain[kept], start[kept], end[kept])]
        for is_new in (False, True):
            which = np.flatnonzero(is_list & (np.isin(self.version[rows.unit], NEW_VERSIONS) == is_new))
            if len(which):
                parts.append(self._listed(rows, which, is_new, notes))
        return disjoint(Ranges.concatenate(parts))

    def _listed(self, rows: Rows, which: I64, is_new: bool, notes: list[tuple[int, int, int]]) -> Ranges:
        """The ranges of entries that have a list."""
        section = self.sections.range_lists if is_new else self.sections.ranges
        unit = rows.unit[which]
        if section is None:
            offset = rows.offset[which].tolist()
            notes += ((one, at, Fault.NO_RANGE_LISTS) for one, at in zip(unit.tolist(), offset, strict=True))
            return Ranges.empty(0)
        place = self._places(
            section, rows.form_of(Attribute.RANGES)[which], rows.number_of(Attribute.RANGES)[which], unit
        )
        kernel, addresses = engine.dwarf.range_lists, self.sections.addresses
        lists = kernel.Lists(
            *views(place, self.base[unit], self.address_size[unit], self.address_base[unit]), int(is_new)
        )
        limit = raised(OVERLAPS * (len(section) + len(which)))
        nothing = Section(ADDRESSES, memoryview(b""), 0, None, section.byte_order, section.address_size)
        of_addresses = reader_of(nothing if addresses is None else addresses)
        faults: list[tuple[int, int, int]] = []
        found = Ranges.empty(0)
        for count in ("count", "fill"):
            reader, done, faults = reader_of(section), 0, []
            filled = kernel.Ranges(*views(found.owner, found.start, found.end), limit)
            while (done := kernel.read(reader, of_addresses, lists, filled, done)) < len(which):
                if reader.fault == Fault.RANGES_OVERLAP:
                    raise ParseError(section, reader.offset, "range list", exceeded(Fault.RANGES_OVERLAP.sentence))
                faults.append((int(unit[done]), reader.offset, reader.fault))
                reader.fault = of_addresses.fault = 0
                done += 1
            if count == "count":
                found = Ranges.empty(filled.count)
        notes += faults
        return Ranges(which[found.owner], found.start, found.end)

    def _places(self, section: Section, form: NDArray[np.uint32], number: U64, unit: NDArray[np.uint32]) -> I64:
        """The section offsets of lists; the section's size for one outside."""
        size = np.uint64(len(section))
        place = np.clip(self.ranges_base[unit] + np.minimum(number, size).astype(np.int64), 0, len(section))
        which = np.flatnonzero(form == ROOT_FORM.rnglistx)
        if not len(which):
            return place
        of_unit, data = unit[which], np.frombuffer(section.data, np.uint8)
        base, width = self.lists_base[of_unit], self.offset_size[of_unit]
        # Without the attribute, lists are in the only contribution.
        base = np.where(base >= 0, base, _after_headers(section, np.zeros(1, np.int64)))
        at = base + np.minimum(number[which], size).astype(np.int64) * width
        is_inside = (at >= 0) & (at + width <= len(section))
        place[which] = len(section)
        for one in distinct_values(width[is_inside]).tolist():
            of_width = is_inside & (width == one)
            offset = np.minimum(integers_at(data, at[of_width], one, section.byte_order), size).astype(np.int64)
            place[which[of_width]] = np.minimum(base[of_width] + offset, len(section))
        return place


def _after_headers(section: Section, offset: I64) -> I64:
    """The offsets after the headers of the contributions to a `.debug_rnglists` at some offsets; the section's size for
    one outside."""
    length_size = INITIAL_LENGTH_SIZES[DwarfFormat.DWARF32]
    is_inside = (offset >= 0) & (offset + length_size <= len(section))
    length = np.zeros(len(offset), np.uint64)
    data = np.frombuffer(section.data, np.uint8)
    length[is_inside] = integers_at(data, offset[is_inside], length_size, section.byte_order)
    size = np.where(length == LENGTH_DWARF64, INITIAL_LENGTH_SIZES[DwarfFormat.DWARF64], length_size)
    return np.where(is_inside, np.minimum(offset + size + _LISTS_HEADER, len(section)), len(section))


def _offsets(rows: Rows, attribute: Attribute) -> I64:
    """An attribute that is a section offset, at most 2**63 - 1; -1 where it is absent."""
    top = np.uint64(np.iinfo(np.int64).max)
    number = np.minimum(rows.number_of(attribute), top).astype(np.int64)
    return np.where(rows.form_of(attribute) > 0, number, NOTHING)


def disjoint(found: Ranges) -> Ranges:
    """The ranges of each owner as disjoint ones, ascending; adjacent ones are joined."""
    found = _ascending(found)
    if not np.any((found.owner[1:] == found.owner[:-1]) & (found.start[1:] <= found.end[:-1])):
        return found
    found = Ranges(found.owner.copy(), found.start.copy(), found.end.copy())
    count = engine.dwarf.entry_ranges.join(*views(found.owner, found.start, found.end))
    return found.select(slice(count))


def _ascending(found: Ranges) -> Ranges:
    """The ranges by owner and start. Most are in that order: only the owners whose starts descend are sorted."""
    if np.any(found.owner[1:] < found.owner[:-1]):
        found = found.select(np.argsort(found.owner, kind="stable"))
    descends = (found.owner[1:] == found.owner[:-1]) & (found.start[1:] < found.start[:-1])
    if not descends.any():
        return found
    is_of = np.zeros(int(found.owner[-1]) + 1, np.bool_)
    is_of[found.owner[1:][descends]] = True
    which, order = np.flatnonzero(is_of[found.owner]), np.arange(len(found))
    order[which] = which[np.lexsort((found.start[which], found.owner[which]))]
    return found.select(order)


def inside(found: Ranges, start: U64, end: U64) -> Ranges:
    """The parts of ranges inside disjoint, ascending ones, such as the executable sections; a range is cut at the end
    of the one that it starts in, and left out if it starts in none."""
    index = np.searchsorted(start, found.start, side="right") - 1
    limit = values_at(end, index, 0)
    kept = (index >= 0) & (found.start < limit)
    return Ranges(found.owner[kept], found.start[kept], np.minimum(found.end, limit)[kept])
