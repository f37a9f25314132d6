"""`.debug_aranges` from a line table."""

from __future__ import annotations

import numpy as np

from ..arrays import range_run_starts, run_ends
from ..line.lookup import sequence_ranges
from ..line.table import LineTable
from ..table.lookup import range_owners
from .aranges import address_ranges_of_units, write_address_ranges


def to_debug_aranges(table: LineTable, debug_info_offset: int = 0) -> bytes:
    """A `.debug_aranges` of the code that has lines in the table of a linked file, as one compilation unit.

    `debug_info_offset` is the offset of that unit in `.debug_info`. Adjacent ranges become one. Raises BuildError.
    """
    start, size = sequence_ranges(table)
    owner, begin = range_owners(start, size)
    end = start[owner] + size[owner]
    is_first = range_run_starts(begin, end)
    begin, end = begin[is_first], end[run_ends(is_first)]
    address_size = int(table.units.address_size.max(initial=0)) or 8
    offset, count = np.array([debug_info_offset], np.uint64), np.array([len(begin)], np.int64)
    return write_address_ranges(
        address_ranges_of_units(offset, count, begin, end - begin, table.byte_order, address_size)
    )
