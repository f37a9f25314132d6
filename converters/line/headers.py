"""The headers of a `.debug_line` as columns: fixed fields, directories and files, value by value.

Strategy: initial lengths are walked; the fields at a header's start stand where the declaration has them, so that all
units of one version and format are read at once; a kernel walks the tables of directories and files by their forms.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...schemas import engine as reference
from ...schemas.derive import Place, leading_places
from ...schemas.forms import DW_FORM, FORM_KINDS
from ...schemas.line import DW_LNCT, VERSIONS, FileName, LineProgramHeader, LineUnitHead
from ...schemas.section import ParseError, Section
from ...schemas.wire import Block, DwarfFormat, Integer, SizedBlock, fields_of
from ..kernels import engine, views
from ..kernels.calls import form_storages, reader_of, refuse
from ..kernels.line.protocol import UnitField

if TYPE_CHECKING:
    from numpy.typing import NDArray

MD5_SIZE = 16
# A byte counts them.
MAX_FORMATS = 256


@dataclass(frozen=True, slots=True, eq=False)
class LineHeads:
    """The units of a section. `fields` i64 has a row of `UnitField`s a unit, for kernels; `offset` i64 is where units
    start, `version`, `is_64`, `segment_selector_size` and `header_length` are as stored."""

    section: Section
    fields: NDArray[np.int64]
    offset: NDArray[np.int64]
    version: NDArray[np.int64]
    is_64: NDArray[np.bool_]
    segment_selector_size: NDArray[np.int64]
    header_length: NDArray[np.int64]

    def field(self, name: UnitField) -> NDArray[np.int64]:
        """One field of all units."""
        return self.fields[:, name]

    def __len__(self) -> int:
        return len(self.offset)


def line_heads(section: Section) -> LineHeads:
    """Read the fixed part of all headers. Raises ParseError."""
    # Four numbers a unit, of which a hostile section may have one for each few bytes.
    bounds = array("q")
    offset = 0
    while offset < len(section):
        dwarf_format, length, start = reference.parse_initial_length(section, offset, f"unit[{len(bounds) // 4}]")
        if length == 0:
            raise ParseError(section, start, f"unit[{len(bounds) // 4}].version", "the unit ends before it")
        bounds.extend((offset, start, start + length, dwarf_format))
        offset = start + length
    columns = np.array(bounds, np.int64).reshape(-1, 4)
    heads = LineHeads(
        section,
        np.zeros((len(columns), len(UnitField)), np.int64),
        columns[:, 0].copy(),
        _versions(section, columns),
        columns[:, 3] == DwarfFormat.DWARF64,
        *(np.zeros(len(columns), np.int64) for _ in range(2)),
    )
    heads.field(UnitField.END)[:] = columns[:, 2]
    heads.field(UnitField.OFFSET_SIZE)[:] = columns[:, 3]
    for dwarf_format in DwarfFormat:
        for version in VERSIONS:
            which = np.flatnonzero((heads.version == version) & (columns[:, 3] == dwarf_format))
            if len(which):
                _read_heads(heads, which, columns[which, 1], version, dwarf_format)
    return heads


def _versions(section: Section, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The versions of units. Raises ParseError where one is not known."""
    size = leading_places(LineUnitHead, {"version": 0})[0]["version"].size
    start, end = bounds[:, 1], bounds[:, 2]
    _check(section, start + size <= end, start, "version", "the unit ends before it")
    found = _gather(section, start, Place(0, size, False))
    for unit in np.flatnonzero(~np.isin(found, VERSIONS))[:1]:
        known = f"{VERSIONS[0]} to {VERSIONS[-1]} are known"
        raise ParseError(section, int(start[unit]), f"unit[{unit}].version", f"{found[unit]}; {known}")
    return found


def _read_heads(
    heads: LineHeads, which: NDArray[np.int64], start: NDArray[np.int64], version: int, dwarf_format: DwarfFormat
) -> None:
    """Fill in the fields of some units of one version and format, whose lengths end at `start`."""
    section, end = heads.section, heads.field(UnitField.END)[which]
    first, size = leading_places(LineUnitHead, {"version": version})
    second, second_size = leading_places(LineProgramHeader, {}, version=version)
    header = start + size + dwarf_format
    _check(section, header + second_size <= end, start, "header", "the unit ends inside it", which)
    length = _gather(section, start + size, Place(0, dwarf_format, False))
    is_inside = (length >= second_size) & (length <= end - header)
    _check(section, is_inside, start + size, "header_length", "is not within the unit, or too small", which)
    heads.header_length[which] = length
    found = {name: _gather(section, start, place) for name, place in first.items()}
    found |= {name: _gather(section, header, place) for name, place in second.items()}
    _refuse_others(section, which, found, {LineUnitHead: (start, first), LineProgramHeader: (header, second)})
    heads.segment_selector_size[which] = found.get("segment_selector_size", 0)
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
    _check(section, is_inside, header, "standard_opcode_lengths", "they reach past the header", which)
    for name, value in values.items():
        heads.fields[which, name] = value


Starts = dict[type, tuple["NDArray[np.int64]", dict[str, Place]]]


def _refuse_others(
    section: Section, which: NDArray[np.int64], found: dict[str, NDArray[np.int64]], starts: Starts
) -> None:
    """ParseError where a field has a value that its declaration does not allow."""
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
    """ParseError at the first unit where something does not hold."""
    for wrong in np.flatnonzero(~is_right)[:1]:
        unit = wrong if which is None else which[wrong]
        raise ParseError(section, int(offset[wrong]), f"unit[{unit}].{name}", reason)


def _gather(section: Section, start: NDArray[np.int64], place: Place) -> NDArray[np.int64]:
    """An integer at a place behind each start, all inside the section; one of 64 bits is cut to 63, which none is."""
    data = np.frombuffer(section.data, np.uint8)
    step = np.arange(place.size) if section.byte_order == "little" else np.arange(place.size)[::-1]
    raw = data[(start + place.offset)[:, None] + step].astype(np.uint64)
    value = np.bitwise_or.reduce(raw << np.arange(0, 8 * place.size, 8, dtype=np.uint64), axis=1)
    if place.signed:
        sign = np.uint64(1) << np.uint64(8 * place.size - 1)
        value = (value ^ sign) - sign
    else:
        value = np.minimum(value, np.uint64((1 << 63) - 1))
    found: NDArray[np.int64] = value.astype(np.int64)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class PathValues:
    """Directories and files, value by value. Table 2u of unit u has its directories, 2u + 1 its files.

    Table t starts at section offset `place[t]`, has the formats first_format[t] up to first_format[t + 1], of each its
    `content` and `form` u64, and as many values an entry, from first_value[t] on: of each its `number` u64 (of a
    string, a block and 16 bytes, how many bytes it has) and the section offset `start` i64.
    """

    place: NDArray[np.int64]
    first_format: NDArray[np.int64]
    first_value: NDArray[np.int64]
    content: NDArray[np.uint64]
    form: NDArray[np.uint64]
    number: NDArray[np.uint64]
    start: NDArray[np.int64]

    def format_counts(self) -> NDArray[np.int64]:
        """Values of an entry, by table."""
        return np.diff(self.first_format)

    def entry_counts(self) -> NDArray[np.int64]:
        """Entries, by table."""
        return np.diff(self.first_value) // np.maximum(self.format_counts(), 1)


@cache
def old_formats() -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
    """The formats of version 2 to 4, of directories and of files: how many, contents, forms."""
    forms = {kind: form for form, kind in FORM_KINDS.items() if form in (DW_FORM.string, DW_FORM.udata)}
    file = [(int(DW_LNCT[field.name]), int(forms[field.kind])) for field in fields_of(FileName)]
    found = [(int(DW_LNCT.path), int(DW_FORM.string)), *file]
    columns = np.array(found, np.uint64).T.copy()
    return np.array([1, len(file)]), columns[0], columns[1]


@dataclass(frozen=True, slots=True, eq=False)
class DefinedFiles:
    """Files that programs define, an element each: `unit` i64, and the fields of `FileName`, of the path the section
    offset `start` i64 and the size i64; the others u64."""

    unit: NDArray[np.int64]
    start: NDArray[np.int64]
    path_size: NDArray[np.int64]
    directory_index: NDArray[np.uint64]
    timestamp: NDArray[np.uint64]
    size: NDArray[np.uint64]

    def path(self, section: Section, number: int) -> bytes:
        """The path of one."""
        start = int(self.start[number])
        return bytes(section.data[start : start + int(self.path_size[number])])


def defined_files(section: Section, unit: NDArray[np.int64], place: NDArray[np.int64]) -> DefinedFiles:
    """Those whose operands stand at these section offsets, which a program was run over. Raises ParseError."""
    forms = old_formats()[2][1:].astype(np.int64)
    storages = form_storages()[forms]
    number = np.zeros((len(place), len(forms)), np.uint64)
    start = np.zeros((len(place), len(forms)), np.int64)
    reader = reader_of(section)
    done = engine.line.path_tables.entries(reader, *views(np.ascontiguousarray(place), storages, number, start))
    if reader.fault:
        refuse(section, f"DW_LNE_define_file[{done}]", reader)
    return DefinedFiles(unit, start[:, 0], number[:, 0].astype(np.int64), *number[:, 1:].T)


def path_values(heads: LineHeads) -> PathValues:
    """Read the directories and files of all units. Raises ParseError."""
    reader = reader_of(heads.section)
    formats = values = tables = 0
    for _ in range(2):
        columns: tuple[NDArray[Any], ...] = (
            *(np.zeros(tables, np.int64) for _ in range(3)),
            *(np.zeros(formats, np.uint64) for _ in range(2)),
            *(np.zeros(values, kind) for kind in (np.uint64, np.int64)),
        )
        fixed = (form_storages(), np.zeros(MAX_FORMATS, np.uint8), *old_formats())
        filled = engine.line.path_tables.Tables(*views(*chain(fixed, columns)))
        done = engine.line.path_tables.read(reader, *views(heads.fields), filled)
        if reader.fault:
            refuse_unit(heads, done // 2, ("directories", "files")[done % 2], reader)
        # One table more: where the last one ends.
        formats, values, tables = filled.formats, filled.values, 2 * len(heads) + 1
    return PathValues(columns[0][:-1], *columns[1:])


def refuse_unit(heads: LineHeads, unit: int, name: str, reader: Any) -> NoReturn:
    """Raise what a kernel found in a unit."""
    refuse(heads.section, f"unit[{unit}].{name}", reader)


def block_at(section: Section, kind: Block | SizedBlock, start: int, size: int) -> bytes:
    """The bytes of a block of that size, whose length is at `start`."""
    if isinstance(kind, SizedBlock):
        start += kind.size
    else:
        while section.data[start] >= 0x80:
            start += 1
        start += 1
    return bytes(section.data[start : start + size])
