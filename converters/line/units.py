"""The compilation directory and the primary source file of line number programs, which `.debug_info` has.

Strategy: the units whose DW_AT_stmt_list is the offset of a program are searched once, for all programs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.debug_info.roots import DW_TAG
from ..arrays import run_starts, values_at
from ..dwarf.units import NOTHING, DebugUnits
from ..strings import Numbered
from .table import LineTable, with_strings

if TYPE_CHECKING:
    from numpy.typing import NDArray


def units_of_programs(program_offset: NDArray[np.int64], units: DebugUnits) -> NDArray[np.int64]:
    """The unit of the line number program at each offset; -1 for none. Of several units with one program, a whole
    compilation unit wins, then the first."""
    found = units.columns
    which = np.flatnonzero(found.line_offset >= 0)
    if not len(which):
        return np.full(len(program_offset), NOTHING)
    is_part = ~np.isin(found.tag[which], (DW_TAG.compile_unit, DW_TAG.skeleton_unit))
    which = which[np.lexsort((which, is_part, found.line_offset[which]))]
    which = which[run_starts(found.line_offset[which])]
    offset = found.line_offset[which]
    place = np.minimum(np.searchsorted(offset, program_offset), len(which) - 1)
    return np.where(offset[place] == program_offset, which[place], NOTHING)


def with_units(table: LineTable, units: DebugUnits) -> LineTable:
    """The table with the compilation directory and name of each program's unit."""
    found, unit = units.columns, units_of_programs(table.units.offset, units)
    columns = (found.comp_dir, found.name)
    values = (Numbered(values_at(column, unit, NOTHING), units.strings) for column in columns)
    table, (comp_dir, name) = with_strings(table, *values)
    return replace(table, units=replace(table.units, comp_dir=comp_dir, name=name))
