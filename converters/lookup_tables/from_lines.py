"""`.debug_aranges` from a line table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_offsets, checked
from ...schemas.wire import DwarfFormat
from ..arrays import range_run_starts, run_ends
from ..line.lookup import sequence_ranges
from ..line.table import LineTable
from ..table.lookup import range_owners
from .aranges import AddressRanges, address_ranges_of_units, write_address_ranges

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

DWARF32_LIMIT = 1 << 32


@checked(table=LineTable, debug_info_offset=check_offsets)
def to_debug_aranges(
    table: LineTable, debug_info_offset: ArrayLike = 0, sequences: NDArray[np.bool_] | None = None
) -> bytes:
    """A `.debug_aranges` of the code that has lines in the table of a linked file.

    `debug_info_offset` is the offset in `.debug_info` of the unit that has all of it, or one for each unit of the
    table, -1 for none; `sequences`: those to include, None for all. An address in several sequences belongs to the one
    that starts first; adjacent ranges of a unit become one. Raises BuildError.
    """
    return write_address_ranges(address_ranges_of_lines(table, debug_info_offset, sequences))


def address_ranges_of_lines(
    table: LineTable, debug_info_offset: ArrayLike = 0, sequences: NDArray[np.bool_] | None = None
) -> AddressRanges:
    """As `to_debug_aranges`, as columns: one set for each unit of `.debug_info` that has code, by ascending offset."""
    offset = np.broadcast_to(np.asarray(debug_info_offset, np.int64), (table.unit_count,))
    start, size = sequence_ranges(table)
    of_sequence = offset[table.sequence_unit]
    which = np.flatnonzero(of_sequence >= 0 if sequences is None else (of_sequence >= 0) & sequences)
    start, size, of_sequence = start[which], size[which], of_sequence[which]
    owner, begin = range_owners(start, size)
    end, unit = start[owner] + size[owner], of_sequence[owner]
    order = np.lexsort((begin, unit))
    begin, end, unit = begin[order], end[order], unit[order]
    is_first = range_run_starts(begin, end, unit)
    begin, end, unit = begin[is_first], end[run_ends(is_first)], unit[is_first]
    units, count = np.unique(unit, return_counts=True)
    address_size = int(table.units.address_size.max(initial=0)) or 8
    is_64 = bool(table.units.is_64.any()) or bool((units >= DWARF32_LIMIT).any())
    dwarf_format = DwarfFormat.DWARF64 if is_64 else DwarfFormat.DWARF32
    return address_ranges_of_units(
        units.astype(np.uint64), count, begin, end - begin, table.byte_order, address_size, dwarf_format
    )
