"""The functions of a file with their inlined functions and line records: what symbol files and symbolizers need.

Strategy: each section is decompressed once, the largest one in a thread of its own. Functions and line records refer to
the same whole paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...schemas.arguments import checked
from ...schemas.data_classes import dataclass
from ...schemas.debug_info.range_lists import ADDRESSES, RANGE_LISTS, RANGES
from ...schemas.debug_info.roots import DEBUG_ABBREV, DEBUG_INFO, DEBUG_TYPES
from ...schemas.steps import Step
from ..debug_info.code import CodeSections
from ..debug_info.functions import (
    DebugSections,
    NamedCode,
    SupplementarySections,
    code_of_units,
    table_of_code,
    table_of_nothing,
    unit_source,
)
from ..debug_info.table import FunctionTable, concatenate
from ..dwarf.unit_strings import StringSections
from ..dwarf.units import NO_UNITS, units_of_sections
from ..elf.admission import refuse_relocatable
from ..elf.debug_files import BY_LINKS, DebugFiles, with_debug_file
from ..elf.debug_sections import debug_section, debug_strings, lay_out_debug
from ..elf.image import ElfImage, open_elf
from ..elf.inputs import Input
from ..elf.relocation import LaidOut
from ..elf.supplementary import SUPPLEMENTARY_ABBREVIATIONS, SUPPLEMENTARY_INFO, SUPPLEMENTARY_STRINGS
from ..line.headers import read_line_headers
from ..line.ranges import NO_FILES, LineRanges, SourceFiles, line_ranges, run_in_parts, source_files
from ..line.read import LINE
from ..threads import in_background
from .split_units import with_split_units
from .symbol_names import executable

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class SourceMap:
    """Where the code of a file is from: its `functions`, and its `lines`, whose paths are `functions.files`.
    `notes` are sentences about units that are missing."""

    functions: FunctionTable
    lines: LineRanges
    notes: tuple[str, ...] = ()


@checked(debug=DebugFiles)
def read_functions(path: Input, debug: DebugFiles = BY_LINKS) -> FunctionTable:
    """The functions with code of a linked ELF file: a path, bytes in memory, or a binary stream.

    `debug` chooses the debug file of a stripped file, and where files of split DWARF are looked up. Raises OSError, and
    ParseError if a section is malformed. Units of which functions are left out, because of a fault in their entries,
    are in the table's `skipped`.
    """
    return source_map(with_debug_file(open_elf(path), debug), has_lines=False, debug=debug).functions


@checked(debug=DebugFiles)
def read_source_map(path: Input, debug: DebugFiles = BY_LINKS) -> SourceMap:
    """As `read_functions`, with the line records of the code."""
    return source_map(with_debug_file(open_elf(path), debug), debug=debug)


def source_map(image: ElfImage, has_lines: bool = True, debug: DebugFiles = BY_LINKS) -> SourceMap:
    """The functions and, if `has_lines`, the line records of a linked file; `debug` is for files of split DWARF. Raises
    ParseError."""
    refuse_relocatable(image)
    # The sections, which take most memory, are freed before the tables are made.
    read = _read(image, has_lines, debug)
    if not read.code:
        return SourceMap(table_of_nothing(read.files), read.lines, read.notes)
    return SourceMap(concatenate([table_of_code(one, read.files.paths) for one in read.code]), read.lines, read.notes)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """What is read of a file: its source files, line records, and the code of its units, of each part of them."""

    files: SourceFiles
    lines: LineRanges
    code: tuple[NamedCode, ...] = ()
    notes: tuple[str, ...] = ()


def _read(image: ElfImage, has_lines: bool, debug: DebugFiles) -> _Read:
    """Read the debugging sections. Raises ParseError."""
    with Step(f"debugging information of {image.debug_file or image.path}") as step:
        found = _read_sections(image, has_lines, debug)
        step.count(len(found.lines), "line ranges")
    return found


def _read_sections(image: ElfImage, has_lines: bool, debug: DebugFiles) -> _Read:
    laid, code = lay_out_debug(image), executable(image)
    # Most of the bytes of a debug file are in this section; line programs are run while it is decompressed.
    size = sum(one.size for one in image.named(DEBUG_INFO))
    with in_background(lambda: debug_section(laid, DEBUG_INFO), size) as read_debug_info:
        sections, section = _sections(laid), debug_section(laid, LINE)
        headers = None if section is None else read_line_headers(section)
        rows = None if headers is None or not has_lines else run_in_parts(headers, *code)
        debug_info = read_debug_info()
    units = NO_UNITS
    if debug_info is not None:
        units = units_of_sections(debug_info, sections.debug_abbrev, sections.strings)
    files = NO_FILES if headers is None else source_files(headers, sections.strings.by_name(), units)
    lines = LineRanges.empty(0) if rows is None else line_ranges(rows, files)
    if debug_info is None:
        return _Read(files, lines)
    sources, notes = with_split_units(image, unit_source(sections, debug_info, units), debug)
    return _Read(files, lines, tuple(code_of_units(one, files, *code) for one in sources), notes)


def _sections(laid: LaidOut) -> DebugSections:
    """The sections that entries and what they refer to are in. Raises ParseError."""
    return DebugSections(
        debug_abbrev=debug_section(laid, DEBUG_ABBREV),
        code=CodeSections(*(debug_section(laid, name) for name in (RANGES, RANGE_LISTS, ADDRESSES))),
        strings=debug_strings(laid),
        types=debug_section(laid, DEBUG_TYPES),
        supplementary=_supplementary(laid),
    )


def _supplementary(laid: LaidOut) -> SupplementarySections | None:
    """The sections of the supplementary file; None if there is none with entries. Raises ParseError."""
    debug_info = debug_section(laid, SUPPLEMENTARY_INFO)
    if debug_info is None:
        return None
    strings = StringSections(debug_section(laid, SUPPLEMENTARY_STRINGS))
    return SupplementarySections(debug_info, debug_section(laid, SUPPLEMENTARY_ABBREVIATIONS), strings)
