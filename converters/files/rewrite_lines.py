"""The `.debug_line` of a file, encoded again, and every section that refers to its units.

Strategy: units keep their order. If one moves, its new offset goes into all fields that had the old one:
DW_AT_stmt_list of root entries in `.debug_info` and `.debug_types`, and debug_line_offset of macro units. A file with
another kind of reference to the section is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.debug_info.roots import DEBUG_ABBREV, DEBUG_INFO, DEBUG_TYPES
from ...schemas.section import BuildError, ParseError, Section
from ..arrays import distinct_values, put_integers
from ..dwarf.unit_strings import LINE_STR, STR, STR_OFFSETS, StringSections
from ..dwarf.units import DebugUnits, units_of_sections
from ..elf.admission import only_section
from ..elf.image import ElfImage, ElfSection
from ..elf.relocation import TABLES
from ..line.read import LINE, table_of_lines
from ..line.table import LineTable, same_lines
from ..line.units import with_units
from ..line.versions import in_version
from ..line.write import to_debug_line
from ..macro.table import read_macros

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

# Split DWARF's sections have these names with a suffix.
SPLIT = ".dwo"
DEBUG_MACRO = ".debug_macro"
# The indices of a package of split DWARF, which have offsets of contributions to all its sections.
PACKAGE_INDICES = (".debug_cu_index", ".debug_tu_index")
# The offset in a macro unit of debug_line_offset, after version and flags.
MACRO_LINE_OFFSET = 3
# DW_AT_LLVM_stmt_sequence with DW_FORM_sec_offset, as an abbreviation has it: clang's offset of a function's sequence.
STMT_SEQUENCE = b"\x8c\x7c\x17"


@dataclass(frozen=True, slots=True, eq=False)
class RewrittenLines:
    """A `.debug_line` encoded again. `before` and `table` are its rows as read and as written; `contents` has the new
    content of each section that changes, by index; `references` counts the fields that have other offsets now."""

    name: str
    before: LineTable
    table: LineTable
    contents: dict[int, bytes]
    references: int
    size_before: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class _Fields:
    """Fields of a section that hold offsets of line number programs: `place` is their section offset, `size` in bytes,
    `value` the offset; all i64."""

    section: Section
    place: I64
    size: I64
    value: I64


def line_sections(image: ElfImage) -> tuple[str, ...]:
    """The suffixes of the `.debug_line` sections that the file has: "" and SPLIT. Raises ParseError for none."""
    found = tuple(suffix for suffix in ("", SPLIT) if image.named(LINE + suffix))
    if not found:
        raise ParseError(LINE, None, "", "the file has no such section")
    return found


def units_of_lines(image: ElfImage, suffix: str = "", has_strings: bool = False) -> dict[int, DebugUnits]:
    """The units of each `.debug_info` and `.debug_types`, by the index of the section; with the strings of root entries
    if `has_strings`. Raises ParseError."""
    abbreviations = _first_section(image, DEBUG_ABBREV + suffix)
    names = (STR + suffix, LINE_STR, STR_OFFSETS + suffix)
    strings = StringSections(*(_first_section(image, name) for name in names)) if has_strings else None
    return {
        header.index: units_of_sections(image.contents(header), abbreviations, strings)
        for name in (DEBUG_INFO, DEBUG_TYPES)
        for header in image.named(name + suffix)
        if header.size and not header.is_nobits
    }


def _first_section(image: ElfImage, name: str) -> Section | None:
    """The first section of that name that has bytes."""
    found = [one for one in image.named(name) if one.size and not one.is_nobits]
    return image.contents(found[0]) if found else None


def rewrite_lines(
    image: ElfImage,
    suffix: str = "",
    version: int | None = None,
    keep_size: bool = False,
    fixed_advance: bool = False,
) -> RewrittenLines:
    """Encode `.debug_line` + suffix again, with units of DWARF `version` (None: as they are).

    `keep_size` pads every unit to its old size, so that no offset changes. Raises ParseError; BuildError for a unit
    that cannot be encoded, and for a file in which not all references can be updated.
    """
    header = only_section(image, LINE + suffix)
    refuse_relocated(image, [header])
    before, strings = read_line_section(image, suffix)
    table = before if version is None else in_version(before, version)
    line_str = None if LINE_STR not in strings else bytes(strings[LINE_STR].data)
    sizes = np.diff(np.append(before.units.offset, image.content_size(header))) if keep_size else None
    data, new_strings = to_debug_line(table, line_str, fixed_advance, sizes)
    contents = {header.index: data}
    if line_str is not None and new_strings != line_str:
        contents[only_section(image, LINE_STR).index] = new_strings
    written = table_of_lines(_section_like(image, header, data), _strings_with(strings, new_strings))
    if not same_lines(table, written):
        raise BuildError(header.name, None, "check", "the rows have changed")
    changed, references = _follow(image, suffix, before.units.offset, written.units.offset)
    refuse_relocated(image, [image.sections[index] for index in changed])
    size = image.content_size(header)
    return RewrittenLines(header.name, before, table, contents | changed, references, size, len(data))


def read_line_section(image: ElfImage, suffix: str = "") -> tuple[LineTable, dict[str, Section]]:
    """The table of `.debug_line` + suffix, and the sections of strings that it needs, by name. Raises ParseError."""
    names = () if suffix else (LINE_STR, STR)
    found = {name: _first_section(image, name) for name in names}
    strings = {name: section for name, section in found.items() if section is not None}
    table = table_of_lines(image.contents(only_section(image, LINE + suffix)), strings)
    for index, units in units_of_lines(image, suffix, has_strings=True).items():
        if image.sections[index].name == DEBUG_INFO + suffix:
            return with_units(table, units), strings
    return table, strings


def _section_like(image: ElfImage, header: ElfSection, data: bytes) -> Section:
    return Section(header.name, memoryview(data), 0, None, image.byte_order, image.address_size)


def _strings_with(strings: dict[str, Section], line_str: bytes) -> dict[str, Section]:
    if LINE_STR not in strings:
        return strings
    return strings | {LINE_STR: replace(strings[LINE_STR], data=memoryview(line_str), file_offset=None)}


def refuse_relocated(image: ElfImage, headers: list[ElfSection]) -> None:
    """Raise BuildError if a linker would still change one of the sections, at places that are no longer right."""
    indices = {header.index for header in headers}
    for table in image.sections:
        if table.type in TABLES and table.info in indices and table.size:
            name = image.sections[table.info].name
            raise BuildError(name, None, "relocations", f"{table.name} has some for the section: link the file first")


def _follow(image: ElfImage, suffix: str, old: I64, new: I64) -> tuple[dict[int, bytes], int]:
    """The contents of all sections that refer to line number programs, with the offsets `new` for `old`, by index; and
    the number of changed fields."""
    abbreviations = image.named(DEBUG_ABBREV + suffix)
    if any(STMT_SEQUENCE in bytes(image.contents(one).data) for one in abbreviations):
        reason = "DW_AT_LLVM_stmt_sequence has offsets of single sequences, which cannot be updated"
        raise BuildError(abbreviations[0].name, None, "", reason)
    if np.array_equal(old, new):
        return {}, 0
    for name in PACKAGE_INDICES:
        if image.named(name):
            raise BuildError(name, None, "", "units of a package of split DWARF cannot move; keep their sizes")
    changed: dict[int, bytes] = {}
    count = 0
    for index, fields in _references(image, suffix):
        place = np.minimum(np.searchsorted(old, fields.value), len(old) - 1)
        for wrong in np.flatnonzero(old[place] != fields.value)[:1]:
            reason = f"{fields.value[wrong]:#x} is not the offset of a unit in {LINE}{suffix}"
            raise ParseError(fields.section, int(fields.place[wrong]), "reference", reason)
        moved = np.flatnonzero(new[place] != old[place])
        if len(moved):
            changed[index] = _patched(fields, moved, new[place])
            count += len(moved)
    return changed, count


def _references(image: ElfImage, suffix: str) -> list[tuple[int, _Fields]]:
    """The fields that refer to line number programs, with the index of their section."""
    found: list[tuple[int, _Fields]] = []
    for index, units in units_of_lines(image, suffix).items():
        columns = units.columns
        which = np.flatnonzero(columns.line_offset >= 0)
        section = image.contents(image.sections[index])
        for wrong in which[columns.line_size[which] == 0][:1]:
            at = int(columns.line_place[wrong])
            raise BuildError(section.name, at, f"unit[{wrong}].DW_AT_stmt_list", "has a form that cannot be changed")
        size = columns.line_size[which].astype(np.int64)
        found.append((index, _Fields(section, columns.line_place[which], size, columns.line_offset[which])))
    for header in image.named(DEBUG_MACRO + suffix):
        section = replace(image.contents(header), name=DEBUG_MACRO)
        macros = read_macros(section)
        which = np.flatnonzero(macros.flag("debug_line_offset"))
        values = macros.line_offset[which].astype(np.int64)
        places = macros.unit_offset[which] + MACRO_LINE_OFFSET
        found.append((header.index, _Fields(section, places, macros.offset_size[which], values)))
    return found


def _patched(fields: _Fields, moved: I64, value: I64) -> bytes:
    """The section with other values in some fields."""
    data = np.frombuffer(fields.section.data, np.uint8).copy()
    for size in distinct_values(fields.size[moved]).tolist():
        which = moved[fields.size[moved] == size]
        for wrong in which[value[which] >> (8 * size - 1) > 1][:1]:
            place = int(fields.place[wrong])
            raise BuildError(fields.section.name, place, "reference", f"{value[wrong]:#x} needs more than {size} bytes")
        put_integers(data, fields.place[which], value[which], size, fields.section.byte_order)
    return data.tobytes()
