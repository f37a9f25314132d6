"""The functions of a file with their inlined functions and line records: what symbol files and symbolizers need.

Strategy: each section is decompressed once. Functions and line records refer to the same whole paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.debug_info.range_lists import ADDRESSES, RANGE_LISTS, RANGES
from ...schemas.debug_info_roots import DEBUG_ABBREV, DEBUG_INFO, DEBUG_TYPES
from ..debug_info.functions import DebugSections, Found, SupplementarySections, functions_of_sections
from ..debug_info.table import FunctionTable
from ..dwarf.unit_strings import StringSections
from ..dwarf.units import NO_UNITS, units_of_sections
from ..elf.admission import refuse_relocatable
from ..elf.debug_files import (
    BY_LINKS,
    SUPPLEMENTARY_ABBREVIATIONS,
    SUPPLEMENTARY_INFO,
    SUPPLEMENTARY_STRINGS,
    DebugFiles,
    with_debug_file,
)
from ..elf.debug_sections import debug_section, debug_strings, lay_out_debug
from ..elf.image import ElfImage, open_elf
from ..elf.inputs import Input
from ..elf.relocation import LaidOut
from ..line.ranges import NO_FILES, LineRanges, line_programs, line_ranges
from ..line.read import LINE, string_sections

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class SourceMap:
    """Where the code of a file is from: its `functions`, and its `lines`, whose paths are `functions.files`."""

    functions: FunctionTable
    lines: LineRanges


def read_functions(path: Input, debug: DebugFiles = BY_LINKS) -> FunctionTable:
    """The functions with code of a linked ELF file: a path, bytes in memory, or a binary stream.

    `debug` chooses the debug file of a stripped file. Raises OSError, and ParseError if a section is malformed; units
    with a fault in their entries are skipped, and in the table's `skipped`.
    """
    return source_map(with_debug_file(open_elf(path), debug), has_lines=False).functions


def read_source_map(path: Input, debug: DebugFiles = BY_LINKS) -> SourceMap:
    """As `read_functions`, with the line records of the code."""
    return source_map(with_debug_file(open_elf(path), debug))


def source_map(image: ElfImage, has_lines: bool = True) -> SourceMap:
    """The functions and, if `has_lines`, the line records of a linked file. Raises ParseError."""
    refuse_relocatable(image)
    laid, code = lay_out_debug(image), executable(image)
    sections = DebugSections(
        debug_info=debug_section(laid, DEBUG_INFO),
        debug_abbrev=debug_section(laid, DEBUG_ABBREV),
        ranges=debug_section(laid, RANGES),
        range_lists=debug_section(laid, RANGE_LISTS),
        addresses=debug_section(laid, ADDRESSES),
        strings=debug_strings(laid),
        types=debug_section(laid, DEBUG_TYPES),
        supplementary=_supplementary(laid),
    )
    units = NO_UNITS
    if sections.debug_info is not None:
        units = units_of_sections(sections.debug_info, sections.debug_abbrev, sections.strings)
    section = debug_section(laid, LINE)
    if section is None:
        return SourceMap(functions_of_sections(sections, Found(units), NO_FILES, *code), LineRanges.empty(0))
    programs = line_programs(section, string_sections(laid), units)
    functions = functions_of_sections(sections, Found(units), programs.files, *code)
    return SourceMap(functions, line_ranges(programs, *code) if has_lines else LineRanges.empty(0))


def _supplementary(laid: LaidOut) -> SupplementarySections | None:
    """The sections of the supplementary file; None if there is none with entries. Raises ParseError."""
    debug_info = debug_section(laid, SUPPLEMENTARY_INFO)
    if debug_info is None:
        return None
    strings = StringSections(debug_section(laid, SUPPLEMENTARY_STRINGS))
    return SupplementarySections(debug_info, debug_section(laid, SUPPLEMENTARY_ABBREVIATIONS), strings)


def executable(image: ElfImage) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Start and end of the executable sections, ascending and disjoint."""
    found = sorted((one.address, one.address + one.size) for one in image.sections if one.is_code and one.size)
    start, end = np.array(found, np.uint64).reshape(-1, 2).T
    reach = np.maximum.accumulate(end)
    begin = np.maximum(start, np.concatenate([np.zeros(1, np.uint64), reach])[:-1])
    return begin[begin < end], end[begin < end]
