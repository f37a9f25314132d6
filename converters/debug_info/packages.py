"""Packages of split DWARF: `.debug_cu_index` and `.debug_tu_index` as columns, and .dwo files as if they were packaged.

Strategy: a *contribution* is what one .dwo file has in each section. In a package the index tells where it is; the
sections of several .dwo files are concatenated, so that one walk reads all. Bases by unit do the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.debug_info.packages import (
    DW_SECT,
    GNU_INDEX,
    INDEX,
    ROW,
    SIGNATURE,
    VERSION_SIZE,
    IndexHeader,
)
from ...schemas.section import ParseError, Section, order_code
from ..arrays import starts_of
from ..dwarf.contributions import row_dtype, rows_at
from ..dwarf.units import Contributions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PackageIndex:
    """An index: where the rows' contributions to each `DW_SECT` begin, and their size in bytes, i64."""

    version: int
    offset: dict[int, I64]
    size: dict[int, I64]

    def contributions(self, of_units: DW_SECT) -> Contributions:
        """The contributions with units in this section, ascending."""
        if of_units not in self.offset:
            return Contributions.empty(0)
        start, size = self.offset[of_units], self.size[of_units]
        nothing = np.zeros_like(start)
        found = Contributions.defaults(
            len(start),
            start=start,
            end=start + size,
            abbreviations=self.offset.get(DW_SECT.ABBREV, nothing),
            string_offsets=self.offset.get(DW_SECT.STR_OFFSETS, nothing),
            range_lists=self.offset.get(DW_SECT.RNGLISTS, nothing) if self.version == INDEX else nothing,
        )
        return found.select(np.argsort(start, kind="stable")).select(np.sort(start + size) > np.sort(start))


def read_index(section: Section) -> PackageIndex:
    """Read an index. Raises ParseError."""
    version, header = _header(section)
    row = ROW.size
    dtype = row_dtype(IndexHeader, section.byte_order)
    count = {name: int(header[name]) for name in dtype.names or ()}
    sections, units, slots = count["section_count"], count["unit_count"], count["slot_count"]
    ids_at = VERSION_SIZE + dtype.itemsize + slots * (SIGNATURE.size + row)
    needed = ids_at + row * sections * (1 + 2 * units)
    if needed > len(section):
        reason = f"{slots} slots, {units} units and {sections} sections need {needed:#x} bytes"
        raise ParseError(section, 0, "header", f"{reason}, but the section has {len(section):#x}")
    values = np.frombuffer(section.data, f"{order_code(section.byte_order)}u{row}", sections * (1 + 2 * units), ids_at)
    ids, tables = values[:sections].tolist(), values[sections:].astype(np.int64).reshape(2, units, sections)
    offset = {one: tables[0, :, column] for column, one in enumerate(ids)}
    return PackageIndex(version, offset, {one: tables[1, :, column] for column, one in enumerate(ids)})


def _header(section: Section) -> tuple[int, NDArray[np.void]]:
    """The version of an index and the rest of its header. Raises ParseError."""
    dtype = row_dtype(IndexHeader, section.byte_order)
    if len(section) < VERSION_SIZE + dtype.itemsize:
        raise ParseError(section, 0, "header", f"a section of {len(section):#x} bytes does not hold it")
    version = int.from_bytes(section.data[:VERSION_SIZE], section.byte_order)
    if version != GNU_INDEX:
        version = int.from_bytes(section.data[: VERSION_SIZE // 2], section.byte_order)
    if version not in (GNU_INDEX, INDEX):
        raise ParseError(section, 0, "version", f"{version} is not one of {GNU_INDEX}, {INDEX}")
    return version, rows_at(section, np.array([VERSION_SIZE]), dtype)[0]


@dataclass(frozen=True, slots=True, eq=False)
class Packaged:
    """The sections of split units, and the contributions to `.debug_info.dwo` and to `.debug_types.dwo`."""

    sections: dict[str, Section]
    units: Contributions
    types: Contributions


def packaged(files: Sequence[dict[str, Section]], units: str, types: str, bases: dict[str, str]) -> Packaged:
    """The sections of .dwo files, by name, as those of one package. `bases` has the name of the section that each base
    of a contribution is in."""
    sample = {name: one for sections in reversed(files) for name, one in sections.items()}
    pieces = {name: [one[name].data if name in one else memoryview(b"") for one in files] for name in sample}
    sizes = {name: np.array([len(one) for one in found], np.int64) for name, found in pieces.items()}
    places = {name: starts_of(size)[:-1] for name, size in sizes.items()}
    nothing = np.zeros(len(files), np.int64)

    def contributions(of_units: str) -> Contributions:
        start, size = places.get(of_units, nothing), sizes.get(of_units, nothing)
        columns = {base: places.get(name, nothing) for base, name in bases.items()}
        found = Contributions(start=start, end=start + size, **columns, file=np.arange(len(files)))
        return found.select(size > 0)

    sections = {name: _concatenated(sample[name], pieces[name]) for name in sample}
    return Packaged(sections, contributions(units), contributions(types))


def _concatenated(sample: Section, pieces: Sequence[memoryview]) -> Section:
    """The pieces as one section; not copied if there is only one."""
    used = [one for one in pieces if len(one)]
    data = used[0] if len(used) == 1 else memoryview(b"".join(used))
    return Section(sample.name, data, 0, None, sample.byte_order, sample.address_size)
