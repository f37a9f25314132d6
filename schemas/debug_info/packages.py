"""Split DWARF: the sections of `.dwo` files, and the indices of packages, `.debug_cu_index` and `.debug_tu_index`
(DWARF5 7.3.5; version 2 is GNU's, for DWARF 4).

Strategy: after the header, an index is four arrays of integers, which are read as columns; this declares the header and
the numbers of sections.
"""

from __future__ import annotations

from enum import IntEnum

from ..wire import U32, Integer, record, wire

DWO = ".dwo"
CU_INDEX, TU_INDEX = ".debug_cu_index", ".debug_tu_index"
# DWARF 5 has a version of 2 bytes and padding; GNU's version 2 is one field of 4 bytes.
GNU_INDEX, INDEX = 2, 5


class DW_SECT(IntEnum):
    """Numbers of sections in an index (DWARF5 table 7.1). GNU's version 2 has the same ones for these, and TYPES."""

    INFO = 1
    TYPES = 2
    ABBREV = 3
    STR_OFFSETS = 6
    RNGLISTS = 8


@record
class IndexHeader:
    """The header of an index (DWARF5 7.3.5.3), after its version."""

    section_count: int = wire(U32, "columns of the tables of offsets and of sizes")
    unit_count: int = wire(U32, "rows of these tables")
    slot_count: int = wire(U32, "of the hash table; a power of 2")


VERSION_SIZE = 4
SIGNATURE, ROW = Integer(8), U32
