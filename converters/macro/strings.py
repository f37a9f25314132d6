"""What macro entries refer to: texts in `.debug_str`, directly or by index, and file names in `.debug_line`.

Strategy: strings are found for many offsets at a time, and stay in their section until they are printed (`Strings`).
The file names of a line number program are parsed once; those of version 5 are not shown, as in readelf 2.47.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_integer, checked, optional
from ...schemas.data_classes import dataclass
from ...schemas.initial_length import parse_initial_length
from ...schemas.line_sections import parse_unit
from ...schemas.section import ParseError, Section, order_code
from ..dwarf.contributions import scan_sets
from ..dwarf.unit_strings import first_string_offset
from ..dwarf.units import units_of_sections
from ..strings import Strings, terminated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..bulk_text import Pool

    U8 = NDArray[np.uint8]
    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]

# readelf's texts in place of a missing string.
NO_STRINGS = b"<no .debug_str section>"
NO_LINE_STRINGS = b"<no .debug_line_str section>"
TOO_LARGE = b"<offset is too big>"
NO_STRING_OFFSETS = b"<no .debug_str_offsets section>"
INDEX_TOO_LARGE = b"<string index too big>"
INDEXED_TOO_LARGE = b"<indirect index offset is too big>"
NO_END_INDEXED = b"<no NUL byte at end of section>"
# Several units have string offsets, and .debug_info does not assign any to this one.
UNKNOWN_BASE = b"<string index of an unknown unit>"

# The last version of line number programs whose file names are shown.
_LAST_NAMED = 4


@dataclass(frozen=True, slots=True, eq=False)
class StringSection:
    """A section of strings: its name and its bytes."""

    name: str
    data: U8

    def add(self, pool: Pool, offset: U64, too_large: bytes = TOO_LARGE, no_end: bytes | None = None) -> I64:
        """Add the strings at these offsets to the pool; returns the number of each."""
        end = f"<no NUL byte at end of {self.name} section>".encode()
        for_too_large, for_no_end = pool.add_list([too_large, end if no_end is None else no_end]) + np.arange(2)
        found = terminated(self.data, offset)
        numbers = pool.add_strings(found.strings) + found.number
        numbers[found.number < 0] = for_no_end
        numbers[offset >= np.uint64(len(self.data))] = for_too_large
        return numbers


def string_section(section: Section | None) -> StringSection | None:
    """The bytes of a section of strings; None for no section."""
    return None if section is None else StringSection(section.name, np.frombuffer(section.data, np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class FileNames:
    """The file names of a line number program. `texts` are an empty one, a separator, the directories, of which there
    are `directory_count`, and the files; `directory` is the number of each file's directory, 0 for none."""

    texts: Strings
    directory_count: int
    directory: list[int]

    def pieces(self, file: int) -> tuple[int, int, int] | None:
        """The texts whose sequence is the path of a file; None if there is no such file, or its directory is
        missing."""
        if not 0 < file <= len(self.directory) or self.directory[file - 1] > self.directory_count:
            return None
        directory = self.directory[file - 1]
        name = 1 + self.directory_count + file
        return (1 + directory, 1, name) if directory else (0, 0, name)


NO_NAMES = FileNames(Strings.of(()), 0, [])


@dataclass(frozen=True, slots=True, eq=False)
class MacroSources:
    """The sections that macro entries refer to; None for one that the file does not have.

    `bases` is the result of `string_offsets_bases`; `line_units` are the offsets of the units in `line`, and `names`
    caches their file names.
    """

    strings: StringSection | None
    line_strings: StringSection | None
    string_offsets: Section | None
    bases: dict[int | None, int]
    line: Section | None
    line_units: frozenset[int]
    names: dict[int, FileNames] = field(default_factory=dict)

    def add_strings(self, pool: Pool, offset: U64) -> I64:
        """Add the strings at these offsets in .debug_str to the pool; returns the number of each."""
        if self.strings is None:
            return np.full(len(offset), pool.add_list([NO_STRINGS]))
        return self.strings.add(pool, offset)

    def add_line_strings(self, pool: Pool, offset: U64) -> I64:
        """As `add_strings`, for .debug_line_str."""
        if self.line_strings is None:
            return np.full(len(offset), pool.add_list([NO_LINE_STRINGS]))
        return self.line_strings.add(pool, offset)

    def add_indexed(self, pool: Pool, index: U64, offset_size: int, unit_offset: int) -> I64:
        """Add the strings with these indices to the pool; returns the number of each.

        The indices are from the macro unit at `unit_offset`, whose section offsets have `offset_size` bytes.
        """
        section = self.string_offsets
        if section is None or self.strings is None:
            return np.full(len(index), pool.add_list([NO_STRING_OFFSETS if section is None else NO_STRINGS]))
        base = self.bases.get(unit_offset, self.bases.get(None, len(section) + 1))
        if base > len(section):
            return np.full(len(index), pool.add_list([UNKNOWN_BASE]))
        count = (len(section) - base) // offset_size
        offsets = np.frombuffer(section.data, f"{order_code(section.byte_order)}u{offset_size}", count, base)
        numbers = np.full(len(index), pool.add_list([INDEX_TOO_LARGE]))
        which = np.flatnonzero(index < np.uint64(count))
        found = offsets[index[which].astype(np.int64)].astype(np.uint64)
        numbers[which] = self.strings.add(pool, found, INDEXED_TOO_LARGE, NO_END_INDEXED)
        return numbers

    def file_names(self, line_offset: int) -> FileNames:
        """The file names of the line number program at `line_offset`; none if there is no such program."""
        check_integer(line_offset, "line_offset")
        # Only offsets of units are parsed, so that each byte is parsed at most once, whatever macros refer to.
        if self.line is None or line_offset not in self.line_units:
            return NO_NAMES
        if line_offset not in self.names:
            self.names[line_offset] = _file_names(self.line, line_offset)
        return self.names[line_offset]

    def file_name(self, line_offset: int, file: int) -> bytes | None:
        """The path of a file of the line number program at `line_offset`; None if it has no such file."""
        check_integer(file, "file")
        names = self.file_names(line_offset)
        pieces = names.pieces(file)
        return None if pieces is None else b"".join(names.texts[number] for number in pieces)


@checked(
    strings=optional(Section),
    line_strings=optional(Section),
    string_offsets=optional(Section),
    line=optional(Section),
    bases=optional(dict),
)
def macro_sources(
    strings: Section | None = None,
    line_strings: Section | None = None,
    string_offsets: Section | None = None,
    line: Section | None = None,
    bases: dict[int | None, int] | None = None,
) -> MacroSources:
    """Sources from .debug_str, .debug_line_str, .debug_str_offsets and .debug_line. `bases` is the result of
    `string_offsets_bases`; by default it is called without .debug_info."""
    units: frozenset[int] = frozenset()
    if line is not None:
        # A malformed section has no names, as in readelf.
        with suppress(ParseError):
            units = frozenset(scan_sets(line, "unit").offset.tolist())
    if bases is None:
        bases = {} if string_offsets is None else string_offsets_bases(string_offsets)
    return MacroSources(string_section(strings), string_section(line_strings), string_offsets, bases, line, units)


def string_offsets_bases(
    string_offsets: Section, debug_info: Section | None = None, debug_abbrev: Section | None = None
) -> dict[int | None, int]:
    """The offset of the first string offset of a unit, by the section offset of its macros; the key None is any unit.

    A section with one contribution, or without a header (before DWARF 5), serves every unit; otherwise the root DIEs of
    .debug_info decide (DW_AT_macros, DW_AT_str_offsets_base).
    """
    try:
        sets = scan_sets(string_offsets, "unit")
    except ParseError:
        return {None: 0}
    if len(sets.offset) <= 1:
        return {None: first_string_offset(string_offsets)} if len(sets.body) else {}
    if debug_info is None or debug_abbrev is None:
        return {}
    with suppress(ParseError):
        units = units_of_sections(debug_info, debug_abbrev).columns
        pairs = zip(units.macro_offset.tolist(), units.string_offsets_base.tolist(), strict=True)
        return {macros: base for macros, base in pairs if macros >= 0 and base >= 0}
    return {}


def _file_names(line: Section, offset: int) -> FileNames:
    """The names of one program's files."""
    try:
        _, _, start = parse_initial_length(line, offset, "unit")
        if int.from_bytes(line.data[start : start + 2], line.byte_order) > _LAST_NAMED:
            return NO_NAMES
        header = parse_unit(line, offset)[0].header
    except ParseError:
        # Macro entries are still printed, as in readelf.
        return NO_NAMES
    directories, files = header.include_directories or (), header.file_names or ()
    texts = Strings.of([b"", b"/", *directories, *(one.path for one in files)])
    return FileNames(texts, len(directories), [int(one.directory_index) for one in files])
