"""The units of `.debug_info` as columns: headers, and what their root entries say of files and of other sections.

Strategy: initial lengths are walked by a kernel, headers of equal layout are read as one array, and a kernel reads the
root entries by their abbreviations. Strings are resolved afterwards, because the base of string indices may follow
them; equal strings get one number.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_index, check_integers, check_item
from ...schemas.data_classes import dataclass
from ...schemas.debug_info.roots import (
    ADDRESS,
    DEBUG_TYPES,
    DW_AT,
    DW_UT,
    NEW_VERSIONS,
    OLD_VERSIONS,
    REF_ADDR,
    ROOT_FORM,
    ROOT_KINDS,
    UNIT_TYPE_FIELDS,
    OldUnitHeader,
    SplitUnitFields,
    TypeUnitFields,
    UnitHeader,
)
from ...schemas.forms import DW_FORM
from ...schemas.section import ParseError, Section
from ...schemas.wire import INITIAL_LENGTH_SIZES, DwarfFormat, Variable
from ..arrays import integers_at, run_starts, values_at
from ..columns import Columns, column_of, columns
from ..kernels import engine, views
from ..kernels.calls import reader_of, refuse, storage_of
from ..kernels.shared.protocol import Storage
from ..strings import NO_STRINGS, Strings, number_together
from .contributions import Sets, by_format, row_dtype, rows_at, scan_sets
from .unit_strings import STRING_OFFSETS_HEADER, StringSections, UnitStrings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]

NOTHING = -1
VERSION_SIZE = 2
# Tables of abbreviations are disjoint, unless the file is hostile.
OVERLAPS = 4


@columns
class UnitColumns(Columns):
    """The units of a `.debug_info`; -1 for an attribute that the root entry does not have."""

    offset: NDArray[np.int64] = column_of("section offset", "of the unit")
    size: NDArray[np.int64] = column_of("bytes", "of the unit, including its length")
    is_64: NDArray[np.bool_] = column_of(meaning="whether it is 64-bit DWARF")
    version: NDArray[np.uint16] = column_of(meaning="of DWARF; the root entries of 2 to 5 are read")
    unit_type: NDArray[np.uint8] = column_of("`DW_UT`", "from version 5 on, else 0")
    address_size: NDArray[np.uint8] = column_of("bytes")
    root: NDArray[np.int64] = column_of("section offset", "of the root entry, -1 if it is not read", fill=NOTHING)
    abbreviations: NDArray[np.uint64] = column_of("section offset", "of its abbreviations, in .debug_abbrev")
    tag: NDArray[np.int64] = column_of("`DW_TAG`", "of the root entry, 0 for none", fill=0)
    name: NDArray[np.int64] = column_of("index", "of DW_AT_name in `strings`, the primary source file", fill=NOTHING)
    comp_dir: NDArray[np.int64] = column_of("index", "of DW_AT_comp_dir in `strings`", fill=NOTHING)
    dwo_name: NDArray[np.int64] = column_of("index", "of DW_AT_dwo_name in `strings`", fill=NOTHING)
    line_offset: NDArray[np.int64] = column_of("section offset", "DW_AT_stmt_list, in .debug_line", fill=NOTHING)
    line_place: NDArray[np.int64] = column_of("section offset", "of the value of DW_AT_stmt_list", fill=NOTHING)
    line_size: NDArray[np.uint8] = column_of("bytes", "of that value; 0 if it cannot be changed")
    macro_offset: NDArray[np.int64] = column_of("section offset", "DW_AT_macros, in .debug_macro", fill=NOTHING)
    macinfo_offset: NDArray[np.int64] = column_of("section offset", "DW_AT_macro_info, in .debug_macinfo", fill=NOTHING)
    string_offsets_base: NDArray[np.int64] = column_of(
        "section offset", "DW_AT_str_offsets_base, in .debug_str_offsets", fill=NOTHING
    )
    entries_base: NDArray[np.int64] = column_of("section offset", "that DW_FORM_ref_addr is relative to")
    strings_base: NDArray[np.int64] = column_of("section offset", "of its strings, in .debug_str")


@columns
class Contributions(Columns):
    """What each .dwo file has in the sections of split units: in a package, or as if it were in one. Ascending."""

    start: NDArray[np.int64] = column_of("section offset", "of its units")
    end: NDArray[np.int64] = column_of("section offset", "of the end of its units (exclusive)")
    abbreviations: NDArray[np.int64] = column_of("section offset", "in .debug_abbrev.dwo")
    string_offsets: NDArray[np.int64] = column_of("section offset", "in .debug_str_offsets.dwo")
    strings: NDArray[np.int64] = column_of("section offset", "in .debug_str.dwo; 0 in a package")
    range_lists: NDArray[np.int64] = column_of("section offset", "in .debug_rnglists.dwo")
    file: NDArray[np.int64] = column_of("index", "of the .dwo file; 0 in a package")

    def at(self, units: UnitColumns) -> I64:
        """The index of the contribution that each unit is in; -1 for none."""
        index = np.searchsorted(self.start, units.offset, side="right") - 1
        return np.where(units.offset + units.size <= values_at(self.end, index, 0), index, NOTHING)


@dataclass(frozen=True, slots=True)
class UnitAttributes:
    """The root entry of one unit; b"" for a string that it does not have, -1 for an offset."""

    offset: int
    version: int
    tag: int
    name: bytes
    comp_dir: bytes
    dwo_name: bytes
    line_offset: int
    macro_offset: int
    macinfo_offset: int


@dataclass(frozen=True, slots=True, eq=False)
class DebugUnits:
    """The units of a `.debug_info`: `columns`, and the distinct `strings` of their root entries."""

    columns: UnitColumns
    strings: Strings

    def __post_init__(self) -> None:
        object.__setattr__(self, "strings", Strings.of(self.strings))

    def __len__(self) -> int:
        """The number of units."""
        return len(self.columns)

    def __getitem__(self, unit: int) -> UnitAttributes:
        """The root entry of one unit."""
        found = self.columns.record(check_item(unit, len(self), "unit"))
        texts = {name: self.text(found[name]) for name in ("name", "comp_dir", "dwo_name")}
        return UnitAttributes(**{name: found[name] for name in UnitAttributes.__slots__} | texts)

    def __iter__(self) -> Iterator[UnitAttributes]:
        """The root entries, unit by unit."""
        return map(self.__getitem__, range(len(self)))

    def text(self, number: int) -> bytes:
        """A string by its index; b"" for -1."""
        return b"" if number == NOTHING else self.strings[check_index(number, len(self.strings), "number")]

    def at(self, offset: NDArray[np.integer]) -> I64:
        """The index of the unit at each offset of `.debug_info`; -1 if none starts there."""
        check_integers(offset, "offset")
        wanted, known = np.asarray(offset).astype(np.int64), self.columns.offset
        place = np.searchsorted(known, wanted)
        found = np.append(known, NOTHING)[place] == wanted
        return np.where(found & (wanted >= 0), place, NOTHING)


NO_UNITS = DebugUnits(UnitColumns.empty(0), NO_STRINGS)


class _Attribute(IntEnum):
    """The columns of the kernel's values."""

    NAME = 0
    COMP_DIR = 1
    DWO_NAME = 2
    LINE = 3
    MACROS = 4
    MACINFO = 5
    STRING_OFFSETS = 6


_COLUMNS = {
    DW_AT.name_: _Attribute.NAME,
    DW_AT.comp_dir: _Attribute.COMP_DIR,
    DW_AT.dwo_name: _Attribute.DWO_NAME,
    DW_AT.GNU_dwo_name: _Attribute.DWO_NAME,
    DW_AT.stmt_list: _Attribute.LINE,
    DW_AT.macros: _Attribute.MACROS,
    DW_AT.GNU_macros: _Attribute.MACROS,
    DW_AT.macro_info: _Attribute.MACINFO,
    DW_AT.str_offsets_base: _Attribute.STRING_OFFSETS,
}


@cache
def form_storages_of_units() -> NDArray[np.uint8]:
    """The storage of each form in `.debug_info`, by its number."""
    special = {ROOT_FORM.indirect: Storage.INDIRECT, ROOT_FORM.implicit_const: Storage.IMPLICIT_CONST}
    storages = np.full(max(*ROOT_KINDS, *special) + 1, Storage.UNKNOWN, np.uint8)
    for form, kind in ROOT_KINDS.items():
        if isinstance(kind, Variable) and kind in (ADDRESS, REF_ADDR):
            storages[form] = Storage.ADDRESS if kind is ADDRESS else Storage.REF_ADDR
        else:
            storages[form] = storage_of(kind)
    for form, storage in special.items():
        storages[form] = storage
    return storages


@cache
def _column_numbers() -> NDArray[np.uint8]:
    """For each DW_AT the number of its column plus 1."""
    numbers = np.zeros(max(_COLUMNS) + 1, np.uint8)
    for name, column in _COLUMNS.items():
        numbers[name] = column + 1
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """The attributes of all root entries, by unit and `_Attribute`: `form`, 0 for an absent one; `number`; and the
    section offset `start`."""

    form: U64
    number: U64
    start: I64


def units_of_sections(
    debug_info: Section,
    debug_abbrev: Section | None,
    strings: StringSections | None = None,
    contributions: Contributions | None = None,
) -> DebugUnits:
    """The units of a `.debug_info`; `strings` are the sections that it refers to, without which strings are not read.
    Split units are in `contributions`; those that are in none are not read.

    The root entries of units of unknown version or type are not read. Raises ParseError."""
    sets = scan_sets(debug_info, "unit")
    found = UnitColumns.defaults(
        len(sets), offset=sets.offset, size=sets.end - sets.offset, is_64=sets.dwarf_format == 8
    )
    _read_headers(debug_info, sets, found)
    if contributions is not None:
        _place_in_contributions(found, contributions)
    values = _read_roots(debug_info, debug_abbrev, sets, found)
    for name, attribute in (
        ("line_offset", _Attribute.LINE),
        ("macro_offset", _Attribute.MACROS),
        ("macinfo_offset", _Attribute.MACINFO),
        ("string_offsets_base", _Attribute.STRING_OFFSETS),
    ):
        getattr(found, name)[:] = _offsets(values, attribute)
    found.line_place[:], found.line_size[:] = _places_of_lines(values, sets)
    if contributions is not None:
        _find_string_offsets(found, contributions)
    if strings is None:
        return DebugUnits(found, NO_STRINGS)
    resolved = UnitStrings(debug_info, strings, found.is_64, found.string_offsets_base)
    attributes = {"name": _Attribute.NAME, "comp_dir": _Attribute.COMP_DIR, "dwo_name": _Attribute.DWO_NAME}
    texts = [
        resolved.strings_of(values.form[:, one], values.number[:, one], values.start[:, one], f"DW_AT_{name}")
        for name, one in attributes.items()
    ]
    distinct, numbers = number_together(*texts)
    for name, number in zip(attributes, numbers, strict=True):
        getattr(found, name)[:] = number
    return DebugUnits(found, distinct)


def _place_in_contributions(found: UnitColumns, contributions: Contributions) -> None:
    """Make offsets that are relative to a contribution those of sections."""
    at = contributions.at(found)
    found.root[at < 0] = NOTHING
    found.abbreviations[:] += values_at(contributions.abbreviations, at, 0).astype(np.uint64)
    found.entries_base[:] = values_at(contributions.start, at, 0)
    found.strings_base[:] = values_at(contributions.strings, at, 0)


def _find_string_offsets(found: UnitColumns, contributions: Contributions) -> None:
    """Fill in where the string offsets of split units begin: after a header in DWARF 5."""
    header = np.where(found.is_64, *(INITIAL_LENGTH_SIZES[one] for one in (DwarfFormat.DWARF64, DwarfFormat.DWARF32)))
    size = np.where(np.isin(found.version, NEW_VERSIONS), header + STRING_OFFSETS_HEADER, 0)
    found.string_offsets_base[:] = values_at(contributions.string_offsets, contributions.at(found), 0) + size


def ids_of_units(section: Section, units: UnitColumns) -> tuple[I64, U64]:
    """The indices of skeleton units and split compilation units of version 5, and the dwo_id of each."""
    which = np.flatnonzero(np.isin(units.unit_type, (DW_UT.skeleton, DW_UT.split_compile)) & (units.root >= 0))
    return which, _header_fields(section, units, which, SplitUnitFields)["dwo_id"]


def types_of_units(section: Section, units: UnitColumns) -> tuple[U64, I64]:
    """The signature of each type unit, and the section offset of the type's entry."""
    is_type = np.isin(units.unit_type, (DW_UT.type, DW_UT.split_type))
    if section.name.startswith(DEBUG_TYPES):
        is_type = np.isin(units.version, OLD_VERSIONS)
    which = np.flatnonzero(is_type & (units.root >= 0))
    found = _header_fields(section, units, which, TypeUnitFields)
    is_inside = found["type_offset"] < units.size[which].astype(np.uint64)
    offset = units.offset[which][is_inside] + found["type_offset"][is_inside].astype(np.int64)
    return found["type_signature"][is_inside], offset


def _header_fields(section: Section, units: UnitColumns, which: I64, cls: type) -> dict[str, U64]:
    """The fields of a record that ends the headers of some units, by name."""
    found: dict[str, U64] = {}
    for dwarf_format, chosen in by_format(np.where(units.is_64[which], 8, 4).astype(np.uint8)):
        dtype = row_dtype(cls, section.byte_order, dwarf_format=dwarf_format)
        rows = rows_at(section, units.root[which[chosen]] - dtype.itemsize, dtype)
        for name in dtype.names or ():
            found.setdefault(name, np.zeros(len(which), np.uint64))[chosen] = rows[name]
    names = row_dtype(cls, section.byte_order, dwarf_format=4).names or ()
    return {name: found.get(name, np.zeros(0, np.uint64)) for name in names}


# The forms of a section offset: data4 and data8 up to version 3; the others are accepted.
_NUMBERS = (
    *(DW_FORM.sec_offset, DW_FORM.data4, DW_FORM.data8, DW_FORM.data1, DW_FORM.data2, DW_FORM.udata),
    ROOT_FORM.implicit_const,
)
_MAX_OFFSET = np.uint64(np.iinfo(np.int64).max)


def _places_of_lines(values: _Values, sets: Sets) -> tuple[I64, NDArray[np.uint8]]:
    """The section offset and the size of the value of DW_AT_stmt_list, by unit."""
    form, size = values.form[:, _Attribute.LINE], np.zeros(len(sets), np.uint8)
    for one, width in ((DW_FORM.sec_offset, sets.dwarf_format), (DW_FORM.data4, 4), (DW_FORM.data8, 8)):
        size = np.where(form == one, width, size).astype(np.uint8)
    return np.where(form > 0, values.start[:, _Attribute.LINE], NOTHING), size


def _offsets(values: _Values, attribute: _Attribute) -> I64:
    """An attribute that is a section offset, at most 2**63 - 1; -1 where it is absent."""
    number = np.minimum(values.number[:, attribute], _MAX_OFFSET).astype(np.int64)
    return np.where(np.isin(values.form[:, attribute], _NUMBERS), number, NOTHING)


def _read_headers(section: Section, sets: Sets, found: UnitColumns) -> None:
    """Fill in what headers have."""
    place, abbreviations = found.root, found.abbreviations
    for short in np.flatnonzero(sets.end - sets.body < VERSION_SIZE)[:1]:
        raise ParseError(section, int(sets.offset[short]), f"unit[{short}].length", "does not hold the version")
    data = np.frombuffer(section.data, np.uint8)
    found.version[:] = integers_at(data, sets.body, VERSION_SIZE, section.byte_order)
    for cls, versions in ((OldUnitHeader, OLD_VERSIONS), (UnitHeader, NEW_VERSIONS)):
        for dwarf_format, of_format in by_format(sets.dwarf_format):
            which = of_format[np.isin(found.version[of_format], versions)]
            dtype = row_dtype(cls, section.byte_order, dwarf_format=dwarf_format)
            after = sets.body[which] + dtype.itemsize
            if cls is OldUnitHeader and section.name.startswith(DEBUG_TYPES):
                after += row_dtype(TypeUnitFields, section.byte_order, dwarf_format=dwarf_format).itemsize
            for wrong in which[after > sets.end[which]][:1]:
                reason = f"does not hold a header of {dtype.itemsize} bytes"
                raise ParseError(section, int(sets.offset[wrong]), f"unit[{wrong}].length", reason)
            rows = rows_at(section, sets.body[which], dtype)
            found.address_size[which] = rows["address_size"]
            abbreviations[which] = rows["debug_abbrev_offset"]
            if "unit_type" in (dtype.names or ()):
                found.unit_type[which] = rows["unit_type"]
                after += _sizes_after(rows["unit_type"], dwarf_format, section)
                is_known = np.isin(rows["unit_type"], tuple(DW_UT))
                which, after = which[is_known], after[is_known]
            place[which] = after
    is_wrong = (place >= 0) & ~np.isin(found.address_size, (1, 2, 4, 8))
    for wrong in np.flatnonzero(is_wrong)[:1]:
        reason = f"{found.address_size[wrong]} is not one of 1, 2, 4, 8"
        raise ParseError(section, int(sets.offset[wrong]), f"unit[{wrong}].address_size", reason)


def _sizes_after(unit_type: NDArray[np.uint8], dwarf_format: int, section: Section) -> I64:
    """The size in bytes of what follows the header of each unit of version 5, by its type."""
    sizes = np.zeros(256, np.int64)
    for one, cls in UNIT_TYPE_FIELDS.items():
        sizes[one] = row_dtype(cls, section.byte_order, dwarf_format=dwarf_format).itemsize
    return sizes[unit_type]


def _read_roots(
    debug_info: Section,
    debug_abbrev: Section | None,
    sets: Sets,
    found: UnitColumns,
) -> _Values:
    """The attributes of all root entries; fills in their tags."""
    kernel, reader = engine.dwarf.unit_roots, reader_of(debug_info)
    code = np.zeros(len(sets), np.uint64)
    place = np.where(found.root < 0, sets.end, found.root)
    done = kernel.read_codes(reader, *views(place, sets.end, code))
    if reader.fault:
        refuse(debug_info, f"unit[{done}].root", reader)
    shape = (len(sets), len(_Attribute))
    values = _Values(np.zeros(shape, np.uint64), np.zeros(shape, np.uint64), np.zeros(shape, np.int64))
    which = np.flatnonzero(code)
    if not len(which):
        return values
    if debug_abbrev is None:
        raise ParseError(debug_info, int(sets.offset[which[0]]), f"unit[{which[0]}]", "there is no .debug_abbrev")
    attributes = np.full(len(sets), NOTHING)
    tag, attributes[which] = _find_abbreviations(debug_abbrev, found.abbreviations[which], code[which])
    found.tag[which] = np.minimum(tag, _MAX_OFFSET).astype(np.int64)
    offset_size = sets.dwarf_format
    ref_size = np.where(found.version == min(OLD_VERSIONS), found.address_size, offset_size)
    sizes = (found.address_size, offset_size, ref_size.astype(np.uint8))
    entries = kernel.Roots(*views(place, sets.end, attributes, *sizes))
    columns_of_values = kernel.Values(
        *views(form_storages_of_units(), _column_numbers(), values.form, values.number, values.start)
    )
    of_abbreviation = reader_of(debug_abbrev)
    done = kernel.read_roots(reader, of_abbreviation, entries, columns_of_values)
    if reader.fault:
        refuse(debug_info, f"unit[{done}].root", reader)
    if of_abbreviation.fault:
        refuse(debug_abbrev, f"abbreviation of unit[{done}]", of_abbreviation)
    return values


def _find_abbreviations(section: Section, offset: U64, code: U64) -> tuple[U64, I64]:
    """The tag of the abbreviation with each code in the table at each offset, and the section offset of its
    attributes."""
    offset = np.minimum(offset, np.uint64(len(section)))
    order = np.lexsort((code, offset))
    is_new = run_starts(offset[order], code[order])
    kept = order[is_new]
    starts_table = run_starts(offset[kept])
    first = np.append(np.flatnonzero(starts_table), len(kept))
    tables = offset[kept][starts_table].astype(np.int64)
    tag, attributes = np.zeros(len(kept), np.uint64), np.full(len(kept), NOTHING)
    kernel, reader = engine.dwarf.unit_roots, reader_of(section)
    wanted = kernel.Wanted(*views(first, np.ascontiguousarray(code[kept]), tag, attributes))
    done = kernel.find_abbreviations(reader, *views(tables), wanted, OVERLAPS * len(section))
    if reader.fault:
        refuse(section, f"abbreviations at {int(tables[done]):#x}", reader)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(is_new) - 1
    return tag[number], attributes[number]
