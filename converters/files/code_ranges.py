"""The `.debug_aranges` of a file, made from its line table.

Strategy: a sequence of the line table is the code of one section of a compilation unit, which is what compilers list. A
sequence outside the file's code is that of a function that the linker has discarded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.debug_info.roots import DEBUG_INFO, DW_TAG
from ...schemas.section import ParseError
from ..arrays import run_starts
from ..elf.image import ElfImage
from ..line.lookup import sequence_ranges
from ..line.table import LineTable
from ..lookup_tables.aranges import write_address_ranges
from ..lookup_tables.from_lines import address_ranges_of_lines
from .rewrite_lines import read_line_section, units_of_lines

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class CodeRanges:
    """A `.debug_aranges`: its bytes, the line table that it is made from, its sets and ranges, and the number of
    sequences that it leaves out because no unit refers to them, or because the file does not have their code."""

    data: bytes
    table: LineTable
    sets: int
    ranges: int
    left_out: int


def code_ranges(image: ElfImage) -> CodeRanges:
    """The `.debug_aranges` of a linked file. Raises ParseError."""
    table, _ = read_line_section(image)
    offset = _unit_offsets(image, table)
    start, size = sequence_ranges(table)
    kept = _is_code(image, start)
    made = address_ranges_of_lines(table, offset, kept)
    used = kept & (offset[table.sequence_unit] >= 0)
    ranges = len(made) - len(made.begin)
    return CodeRanges(write_address_ranges(made), table, len(made.begin), ranges, int((~used & (size > 0)).sum()))


def _unit_offsets(image: ElfImage, table: LineTable) -> NDArray[np.int64]:
    """The offset of the compilation unit that uses each unit of the line table; -1 for none. Of several the first."""
    offset = np.full(table.unit_count, -1, np.int64)
    found = [units for index, units in units_of_lines(image).items() if image.sections[index].name == DEBUG_INFO]
    if not found:
        raise ParseError(DEBUG_INFO, None, "", "the file has no such section, whose units the ranges are for")
    columns = found[0].columns
    which = np.flatnonzero(
        (columns.line_offset >= 0) & np.isin(columns.tag, (DW_TAG.compile_unit, DW_TAG.skeleton_unit))
    )
    which = which[np.argsort(columns.line_offset[which], kind="stable")]
    which = which[run_starts(columns.line_offset[which])]
    place = np.searchsorted(table.units.offset, columns.line_offset[which])
    known = np.append(table.units.offset, -1)[place] == columns.line_offset[which]
    offset[place[known]] = columns.offset[which[known]]
    return offset


def _is_code(image: ElfImage, address: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which addresses are in a section of code."""
    found = np.zeros(len(address), np.bool_)
    for section in image.sections:
        if section.is_code:
            found |= address - np.uint64(section.address) < np.uint64(section.size)
    return found
