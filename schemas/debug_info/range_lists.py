"""`.debug_ranges`, `.debug_rnglists` and `.debug_addr`: the address ranges of entries that are not contiguous.

Strategy: lists of version 5 are entries of different lengths, read by a kernel; this declares their kinds and operands
(DWARF5 7.25), and the headers of contributions, whose fields are read as columns.
"""

from __future__ import annotations

from enum import IntEnum

from ..wire import U32, DwarfFormat, Given, Integer, record, wire

RANGES, RANGE_LISTS, ADDRESSES = ".debug_ranges", ".debug_rnglists", ".debug_addr"


class DW_RLE(IntEnum):
    """Kinds of entries of range lists (DWARF5 table 7.30)."""

    end_of_list = 0
    base_addressx = 1
    startx_endx = 2
    startx_length = 3
    offset_pair = 4
    base_address = 5
    start_end = 6
    start_length = 7


@record
class RangeListsHeader:
    """The header of a contribution to `.debug_rnglists` (DWARF5 7.28), after its length."""

    dwarf_format: DwarfFormat = wire(Given(lambda this: this._params.dwarf_format), "32- or 64-bit DWARF")
    version: int = wire(Integer(2, allowed=(5,)), "5")
    address_size: int = wire(Integer(1, allowed=(1, 2, 4, 8)), "bytes of an address")
    segment_selector_size: int = wire(Integer(1, allowed=(0,)), "0: no segments")
    offset_entry_count: int = wire(U32, "of the array of offsets after the header")


@record
class AddressesHeader:
    """The header of a contribution to `.debug_addr` (DWARF5 7.27), after its length."""

    dwarf_format: DwarfFormat = wire(Given(lambda this: this._params.dwarf_format), "32- or 64-bit DWARF")
    version: int = wire(Integer(2, allowed=(5,)), "5")
    address_size: int = wire(Integer(1, allowed=(1, 2, 4, 8)), "bytes of an address")
    segment_selector_size: int = wire(Integer(1, allowed=(0,)), "0: no segments")
