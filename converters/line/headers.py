"""The headers of a `.debug_line` as columns: fixed fields, directories and files, value by value.

Strategy: initial lengths are walked one by one. The leading fields of a header have fixed offsets by declaration, so
all units of one version and DWARF format are read at once. A kernel walks the tables of directories and files by their
forms.
"""

from __future__ import annotations

from array import array
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.derive import Place, leading_places
from ...schemas.forms import DW_FORM, FORM_KINDS
from ...schemas.initial_length import parse_initial_length
from ...schemas.line import DW_LNCT, VERSIONS, FileName, LineProgramHeader, LineUnitHead
from ...schemas.section import ParseError, Section
from ...schemas.wire import Block, DwarfFormat, Integer, SizedBlock, fields_of
from ..arrays import integers_at
from ..kernels import engine, views
from ..kernels.calls import form_storages, reader_of, refuse
from ..kernels.line.protocol import UnitField
from ..strings import Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

MD5_SIZE = 16
# directory_entry_format_count and file_name_entry_format_count are one byte.
MAX_FORMATS = 256


@dataclass(frozen=True, slots=True, eq=False)
class LineHeaders:
    """The units of a section. `fields` i64 has a row of `UnitField`s for each unit, for kernels; `offset` i64 is the
    section offset of each unit; `version`, `is_64`, `segment_selector_size` and `header_length` are as stored."""

    section: Section
    fields: NDArray[np.int64]
    offset: NDArray[np.int64]
    version: NDArray[np.int64]
    is_64: NDArray[np.bool_]
    segment_selector_size: NDArray[np.int64]
    header_length: NDArray[np.int64]

    def field(self, name: UnitField) -> NDArray[np.int64]:
        """One field, by unit."""
        return self.fields[:, name]

    def __len__(self) -> int:
        return len(self.offset)


def read_line_headers(section: Section) -> LineHeaders:
    """Read the fixed part of all headers. Raises ParseError."""
    # Four numbers per unit in an array, not a list: a hostile section may have a unit every few bytes.
    bounds = array("q")
    offset = 0
    while offset < len(section):
        dwarf_format, length, start = parse_initial_length(section, offset, f"unit[{len(bounds) // 4}]")
        if length == 0:
            raise ParseError(section, start, f"unit[{len(bounds) // 4}].version", "the unit ends before this field")
        bounds.extend((offset, start, start + length, dwarf_format))
        offset = start + length
    columns = np.array(bounds, np.int64).reshape(-1, 4)
    headers = LineHeaders(
        section=section,
        fields=np.zeros((len(columns), len(UnitField)), np.int64),
        offset=columns[:, 0].copy(),
        version=_versions(section, columns),
        is_64=columns[:, 3] == DwarfFormat.DWARF64,
        segment_selector_size=np.zeros(len(columns), np.int64),
        header_length=np.zeros(len(columns), np.int64),
    )
    headers.field(UnitField.END)[:] = columns[:, 2]
    headers.field(UnitField.OFFSET_SIZE)[:] = columns[:, 3]
    for dwarf_format in DwarfFormat:
        for version in VERSIONS:
            which = np.flatnonzero((headers.version == version) & (columns[:, 3] == dwarf_format))
            if len(which):
                _fill_headers(headers, which, columns[which, 1], version, dwarf_format)
    return headers


def _versions(section: Section, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The version of each unit. Raises ParseError if one is unknown."""
    size = leading_places(LineUnitHead, {"version": 0})[0]["version"].size
    start, end = bounds[:, 1], bounds[:, 2]
    _check(section, start + size <= end, start, "version", "the unit ends before this field")
    found = _gather(section, start, Place(0, size, False))
    for unit in np.flatnonzero(~np.isin(found, VERSIONS))[:1]:
        known = f"{VERSIONS[0]} to {VERSIONS[-1]} are known"
        raise ParseError(section, int(start[unit]), f"unit[{unit}].version", f"{found[unit]}; {known}")
    return found


def _fill_headers(
    headers: LineHeaders, which: NDArray[np.int64], start: NDArray[np.int64], version: int, dwarf_format: DwarfFormat
) -> None:
    """Fill in the fields of units `which`, all of one version and format; `start` is the offset after unit_length."""
    section, end = headers.section, headers.field(UnitField.END)[which]
    first, size = leading_places(LineUnitHead, {"version": version})
    second, second_size = leading_places(LineProgramHeader, {}, version=version)
    header = start + size + dwarf_format
    _check(section, header + second_size <= end, start, "header", "the unit ends inside the header", which)
    length = _gather(section, start + size, Place(0, dwarf_format, False))
    is_inside = (length >= second_size) & (length <= end - header)
    _check(section, is_inside, start + size, "header_length", "is too small or reaches past the unit", which)
    headers.header_length[which] = length
    found = {name: _gather(section, start, place) for name, place in first.items()}
    found |= {name: _gather(section, header, place) for name, place in second.items()}
    _refuse_disallowed(section, which, found, {LineUnitHead: (start, first), LineProgramHeader: (header, second)})
    headers.segment_selector_size[which] = found.get("segment_selector_size", 0)
    values = {
        UnitField.HEADER: header + second_size + found["opcode_base"] - 1,
        UnitField.PROGRAM: header + length,
        UnitField.OPCODE_LENGTHS: header + second_size,
        UnitField.HAS_FORMATS: np.full(len(which), version >= 5),
        UnitField.ADDRESS_SIZE: found.get("address_size", np.full(len(which), section.address_size)),
        UnitField.MINIMUM_INSTRUCTION_LENGTH: found["minimum_instruction_length"],
        UnitField.MAXIMUM_OPERATIONS: found.get("maximum_operations_per_instruction", np.ones(len(which), np.int64)),
        UnitField.DEFAULT_IS_STMT: found["default_is_stmt"],
        UnitField.LINE_BASE: found["line_base"],
        UnitField.LINE_RANGE: found["line_range"],
        UnitField.OPCODE_BASE: found["opcode_base"],
    }
    is_inside = values[UnitField.HEADER] <= values[UnitField.PROGRAM]
    _check(section, is_inside, header, "standard_opcode_lengths", "reach past the header", which)
    for name, value in values.items():
        headers.fields[which, name] = value


Starts = dict[type, tuple["NDArray[np.int64]", dict[str, Place]]]


def _refuse_disallowed(
    section: Section, which: NDArray[np.int64], found: dict[str, NDArray[np.int64]], starts: Starts
) -> None:
    """Raise ParseError if a field has a value that its declaration does not allow."""
    for cls, (start, places) in starts.items():
        for field in fields_of(cls):
            kind = getattr(field.kind, "kind", field.kind)
            if field.name in places and isinstance(kind, Integer) and kind.allowed:
                value = found[field.name]
                for wrong in np.flatnonzero(~np.isin(value, kind.allowed))[:1]:
                    place = int(start[wrong]) + places[field.name].offset
                    reason = f"{value[wrong]} is not allowed"
                    raise ParseError(section, place, f"unit[{which[wrong]}].{field.name}", reason)


def _check(
    section: Section,
    is_right: NDArray[np.bool_],
    offset: NDArray[np.int64],
    name: str,
    reason: str,
    which: NDArray[np.int64] | None = None,
) -> None:
    """Raise ParseError at the first unit for which `is_right` is false."""
    for wrong in np.flatnonzero(~is_right)[:1]:
        unit = wrong if which is None else which[wrong]
        raise ParseError(section, int(offset[wrong]), f"unit[{unit}].{name}", reason)


def _gather(section: Section, start: NDArray[np.int64], place: Place) -> NDArray[np.int64]:
    """The integer at `place` relative to each start, all inside the section. Unsigned 64-bit values saturate at
    2**63 - 1, which no valid field reaches."""
    data = np.frombuffer(section.data, np.uint8)
    value = integers_at(data, start + place.offset, place.size, section.byte_order, place.signed)
    if place.signed:
        return value.view(np.int64)
    return np.minimum(value, np.uint64((1 << 63) - 1)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PathValues:
    """Directories and files, value by value. Unit u has its directories in table 2u, its files in table 2u + 1.

    Table t starts at section offset `place[t]` and has the entry formats first_format[t] up to first_format[t + 1],
    each with its `content` type and `form`, u64. Its values, one per format and entry, start at first_value[t]: the
    `number` u64 (for a string, a block or a data16 its size in bytes) and the section offset `start` i64.
    """

    place: NDArray[np.int64]
    first_format: NDArray[np.int64]
    first_value: NDArray[np.int64]
    content: NDArray[np.uint64]
    form: NDArray[np.uint64]
    number: NDArray[np.uint64]
    start: NDArray[np.int64]

    def format_counts(self) -> NDArray[np.int64]:
        """The number of values per entry, by table."""
        return np.diff(self.first_format)

    def entry_counts(self) -> NDArray[np.int64]:
        """The number of entries, by table."""
        return np.diff(self.first_value) // np.maximum(self.format_counts(), 1)


@cache
def old_formats() -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
    """The implied entry formats of versions 2 to 4, directories then files: counts, content types, forms."""
    forms = {kind: form for form, kind in FORM_KINDS.items() if form in (DW_FORM.string, DW_FORM.udata)}
    file = [(int(DW_LNCT[field.name]), int(forms[field.kind])) for field in fields_of(FileName)]
    found = [(int(DW_LNCT.path), int(DW_FORM.string)), *file]
    columns = np.array(found, np.uint64).T.copy()
    return np.array([1, len(file)]), columns[0], columns[1]


@dataclass(frozen=True, slots=True, eq=False)
class DefinedFiles:
    """Files defined by DW_LNE_define_file: `unit` i64, `start` i64 (section offset of the path), `path_size` i64 in
    bytes, and the other fields of `FileName`, u64."""

    unit: NDArray[np.int64]
    start: NDArray[np.int64]
    path_size: NDArray[np.int64]
    directory_index: NDArray[np.uint64]
    timestamp: NDArray[np.uint64]
    size: NDArray[np.uint64]

    def paths(self, section: Section) -> Strings:
        """The path of each file."""
        return Strings.within(np.frombuffer(section.data, np.uint8), self.start, self.path_size)


def defined_files(section: Section, unit: NDArray[np.int64], place: NDArray[np.int64]) -> DefinedFiles:
    """The files whose DW_LNE_define_file operands are at section offsets `place`. Raises ParseError.

    The places must come from running the programs, which checks their bounds.
    """
    forms = old_formats()[2][1:].astype(np.int64)
    storages = form_storages()[forms]
    number = np.zeros((len(place), len(forms)), np.uint64)
    start = np.zeros((len(place), len(forms)), np.int64)
    reader = reader_of(section)
    done = engine.line.path_tables.entries(reader, *views(np.ascontiguousarray(place), storages, number, start))
    if reader.fault:
        refuse(section, f"DW_LNE_define_file[{done}]", reader)
    return DefinedFiles(unit, start[:, 0], number[:, 0].astype(np.int64), *number[:, 1:].T)


def read_path_values(headers: LineHeaders) -> PathValues:
    """Read the directories and files of all units. Raises ParseError."""
    reader = reader_of(headers.section)
    formats = values = tables = 0
    for _ in range(2):
        place, first_format, first_value = (np.zeros(tables, np.int64) for _ in range(3))
        content, form = np.zeros(formats, np.uint64), np.zeros(formats, np.uint64)
        number, start = np.zeros(values, np.uint64), np.zeros(values, np.int64)
        columns = (place, first_format, first_value, content, form, number, start)
        given = (form_storages(), np.zeros(MAX_FORMATS, np.uint8), *old_formats(), *columns)
        filled = engine.line.path_tables.Tables(*views(*given))
        done = engine.line.path_tables.read(reader, *views(headers.fields), filled)
        if reader.fault:
            refuse_unit(headers, done // 2, ("directories", "files")[done % 2], reader)
        # One more table than there are: it holds where the last one ends.
        formats, values, tables = filled.formats, filled.values, 2 * len(headers) + 1
    return PathValues(place[:-1], *columns[1:])


def refuse_unit(headers: LineHeaders, unit: int, name: str, reader: Any) -> NoReturn:
    """Raise the fault that a kernel found in a unit."""
    refuse(headers.section, f"unit[{unit}].{name}", reader)


def block_at(section: Section, kind: Block | SizedBlock, start: int, size: int) -> bytes:
    """The `size` bytes of a block whose length field is at section offset `start`."""
    if isinstance(kind, SizedBlock):
        start += kind.size
    else:
        while section.data[start] >= 0x80:
            start += 1
        start += 1
    return bytes(section.data[start : start + size])
