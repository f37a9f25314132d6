"""The macros of compilation units: their texts, and the files and lines where they are defined.

Strategy: `.debug_info` refers to macros and to a line number program; that program's table of files, with whole paths,
gives the names of the files that macro entries start. One unit after the other is flattened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_item, checked
from ...schemas.data_classes import dataclass
from ...schemas.forms import DW_FORM
from ...schemas.macros import MacroKind, MacroOperand
from ...schemas.section import ParseError, Section
from ..arrays import values_at
from ..dwarf.unit_strings import StringSections, UnitStrings
from ..dwarf.units import DebugUnits, UnitAttributes
from ..elf.debug_files import BY_LINKS, DebugFiles, with_debug_file
from ..elf.debug_sections import debug_section, debug_strings, lay_out_debug, units_of_file
from ..elf.image import open_elf
from ..elf.inputs import Input
from ..line.paths import paths_of
from ..line.read import LINE, lines_of_file
from ..line.table import LineTable
from ..macro.flatten import FlatMacros, Imports, flatten_macros, imports_of
from ..macro.table import Macros, read_macros
from ..strings import Strings, number_together

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

NOTHING = -1
MACRO, MACINFO = ".debug_macro", ".debug_macinfo"
# What the text of an entry is, as a form of `UnitStrings`.
_TEXT_FORMS = {
    MacroOperand.TEXT: DW_FORM.string,
    MacroOperand.STRP: DW_FORM.strp,
    MacroOperand.STRX: DW_FORM.strx,
    MacroOperand.SUP_STRP: DW_FORM.strp_sup,
}


@dataclass(frozen=True, slots=True)
class Macro:
    """One entry. `text` is a macro's name; in a definition also its parameters and body. `file` is the whole path of
    the file that has the entry, or that it starts; b"" for one without a name, or outside of all files."""

    kind: MacroKind
    file: bytes
    line: int
    text: bytes


@dataclass(frozen=True, slots=True, eq=False)
class UnitMacros:
    """The macros of one unit of `.debug_info`, in the order in which the compiler met them.

    Entries, one element each: `kind` u8, `MacroKind`; `path` i64, the index in `paths` of the file that has the entry,
    or that it starts, -1 for none; `line` u64, in the file that has the entry; `text` i64, the index in `strings`, -1
    for none; `opener` i64, the index of the entry that starts the file which has the entry, -1 outside of all files.
    """

    unit: UnitAttributes
    kind: NDArray[np.uint8]
    path: I64
    line: NDArray[np.uint64]
    text: I64
    opener: I64
    paths: Sequence[bytes]
    strings: Strings

    def __len__(self) -> int:
        """The number of entries."""
        return len(self.kind)

    def __getitem__(self, index: int) -> Macro:
        """One entry."""
        index = check_item(index, len(self), "index")
        path, text = int(self.path[index]), int(self.text[index])
        file, said = self.paths[path] if path >= 0 else b"", self.strings[text] if text >= 0 else b""
        return Macro(MacroKind(int(self.kind[index])), file, int(self.line[index]), said)

    def __iter__(self) -> Iterator[Macro]:
        """The entries, one by one."""
        return map(self.__getitem__, range(len(self)))


@dataclass(frozen=True, slots=True, eq=False)
class _Paths:
    """Whole paths of the files of line number programs, by the program's offset and the file's number."""

    lines: LineTable | None
    number: I64
    paths: Sequence[bytes]

    def numbers_of(self, line_offset: NDArray[np.uint64], file: NDArray[np.uint64]) -> I64:
        """The index in `paths` of each file; -1 if there is no such program or file."""
        if self.lines is None or not self.lines.unit_count:
            return np.full(len(file), NOTHING)
        offsets = self.lines.units.offset.astype(np.uint64)
        unit = np.minimum(np.searchsorted(offsets, line_offset), len(offsets) - 1)
        # Up to version 4, the first file has the number 1.
        base = (self.lines.units.version[unit] < 5).astype(np.uint64)
        first, end = self.lines.first_file[unit], self.lines.first_file[unit + 1]
        is_file = (offsets[unit] == line_offset) & (file >= base) & (file - base < (end - first).astype(np.uint64))
        index = np.where(is_file, first + (file - base).astype(np.int64), NOTHING)
        return values_at(self.number, index, NOTHING)


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """One section of macros with everything that its entries refer to."""

    section: Section
    table: Macros
    imports: Imports
    strings: StringSections
    paths: _Paths


@checked(debug=DebugFiles)
def read_unit_macros(path: Input, debug: DebugFiles = BY_LINKS) -> Iterator[UnitMacros]:
    """Yield the macros of each unit of an ELF file that has some, from `.debug_macro` or `.debug_macinfo`.

    Imports are followed. Raises OSError, and ParseError if a section is malformed.
    """
    laid = lay_out_debug(with_debug_file(open_elf(path), debug))
    strings = debug_strings(laid)
    units = units_of_file(laid, strings)
    lines = lines_of_file(laid, units, strings) if laid.image.named(LINE) else None
    paths = _Paths(lines, *((np.zeros(0, np.int64), ()) if lines is None else paths_of(lines)))
    sources: dict[str, _Source | None] = {}
    for unit in range(len(units)):
        for name, offset in ((MACRO, units.columns.macro_offset[unit]), (MACINFO, units.columns.macinfo_offset[unit])):
            if offset < 0:
                continue
            if name not in sources:
                section = debug_section(laid, name)
                sources[name] = None if section is None else _source(section, strings, paths)
            source = sources[name]
            if source is None:
                raise ParseError(name, None, "", "the file has no such section")
            yield _unit_macros(source, units, unit, int(offset))


def _source(section: Section, strings: StringSections, paths: _Paths) -> _Source:
    table = read_macros(section)
    return _Source(section, table, imports_of(table), strings, paths)


def _unit_macros(source: _Source, units: DebugUnits, unit: int, offset: int) -> UnitMacros:
    table = source.table
    place = int(np.searchsorted(table.unit_offset, offset))
    if place == len(table.unit_offset) or table.unit_offset[place] != offset:
        reason = f"no macros start there, as the unit at {units[unit].offset:#x} of .debug_info has it"
        raise ParseError(table.name, offset, "unit", reason)
    flat = flatten_macros(table, place, source.imports)
    base = int(units.columns.string_offsets_base[unit])
    text, strings = _texts(source, flat, base)
    path = _paths_of_entries(source, flat, int(units.columns.line_offset[unit]))
    return UnitMacros(
        units[unit], flat.kind, path, table.line[flat.entry], text, flat.opener, source.paths.paths, strings
    )


def _paths_of_entries(source: _Source, flat: FlatMacros, line_offset: int) -> I64:
    """The path of the file that each entry starts, or that has it."""
    table = source.table
    starts = np.flatnonzero(flat.kind == MacroKind.START_FILE)
    entry = flat.entry[starts]
    unit = table.unit_of(entry)
    has_own = table.flag("debug_line_offset")[unit]
    of_unit = np.uint64(line_offset if line_offset >= 0 else (1 << 64) - 1)
    started = np.full(len(flat), NOTHING)
    started[starts] = source.paths.numbers_of(np.where(has_own, table.line_offset[unit], of_unit), table.value[entry])
    path = values_at(started, flat.opener, NOTHING)
    path[starts] = started[starts]
    return path


def _texts(source: _Source, flat: FlatMacros, base: int) -> tuple[I64, Strings]:
    """The number of each entry's text, and the distinct texts. `base` is the unit's DW_AT_str_offsets_base, or -1."""
    table, entry = source.table, flat.entry
    form = np.zeros(len(entry), np.uint64)
    number, start = table.value[entry].copy(), table.offset[entry].copy()
    is_own = table.has_operand(entry, MacroOperand.TEXT)
    number[is_own], start[is_own] = table.text_size[entry[is_own]], table.text_start[entry[is_own]]
    for operand, one in _TEXT_FORMS.items():
        form[table.has_operand(entry, operand)] = one
    is_64 = table.offset_size[table.unit_of(entry)] == 8
    strings = UnitStrings(source.section, source.strings, is_64, np.full(len(entry), base))
    distinct, (numbers,) = number_together(strings.strings_of(form, number, start, "entry.macro"))
    return numbers, distinct
