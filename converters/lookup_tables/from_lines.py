"""`.debug_aranges` from a line table."""

from __future__ import annotations

import numpy as np

from ..line.lookup import sequence_ranges
from ..line.table import LineTable
from ..table.lookup import range_owners
from .aranges import address_ranges_of_units, write_address_ranges


def to_debug_aranges(table: LineTable, debug_info_offset: int = 0) -> bytes:
    """A `.debug_aranges` with the code that a table of a linked file has lines of, as of one compilation unit.

    `debug_info_offset` is that unit's in `.debug_info`. Neighbouring ranges are one. Raises BuildError.
    """
    start, size = sequence_ranges(table)
    owner, begin = range_owners(start, size)
    end = start[owner] + size[owner]
    is_new = np.ones(len(begin), np.bool_)
    is_new[1:] = begin[1:] != end[:-1]
    at = np.flatnonzero(is_new)
    last = np.append(at[1:], len(begin))[: len(at)] - 1
    address_size = int(table.units.address_size.max(initial=0)) or 8
    offset, count = np.array([debug_info_offset], np.uint64), np.array([len(at)], np.int64)
    found = address_ranges_of_units(offset, count, begin[at], end[last] - begin[at], table.byte_order, address_size)
    return write_address_ranges(found)
