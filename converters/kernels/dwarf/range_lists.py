# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Lists of address ranges: those of `.debug_ranges` (DWARF4 2.17.3), and of `.debug_rnglists` (DWARF5 2.17.3).

Strategy: each list becomes rows of owner, start and end; empty ranges and those of addresses that linkers give to
discarded code are left out. The number of rows is bounded, because lists may share their bytes.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas.debug_info.range_lists import DW_RLE
from ..protocol import Fault

if not cython.compiled:
    from ..array_types import I64, U64, ConstI64, ConstU8, ConstU64
    from ..shared.reads import Reader

RANGES_OVERLAP = cython.declare(cython.int, int(Fault.RANGES_OVERLAP))
UNKNOWN_RANGE = cython.declare(cython.int, int(Fault.UNKNOWN_RANGE))
NO_ADDRESS = cython.declare(cython.int, int(Fault.NO_ADDRESS))

END_OF_LIST = cython.declare(cython.int, int(DW_RLE.end_of_list))
BASE_ADDRESSX = cython.declare(cython.int, int(DW_RLE.base_addressx))
STARTX_ENDX = cython.declare(cython.int, int(DW_RLE.startx_endx))
STARTX_LENGTH = cython.declare(cython.int, int(DW_RLE.startx_length))
OFFSET_PAIR = cython.declare(cython.int, int(DW_RLE.offset_pair))
BASE_ADDRESS = cython.declare(cython.int, int(DW_RLE.base_address))
START_END = cython.declare(cython.int, int(DW_RLE.start_end))
START_LENGTH = cython.declare(cython.int, int(DW_RLE.start_length))
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Lists:
    """The lists to be read: the offset in their section, `place`; the `base` address and the `address_size` of the
    unit; and the offset of the unit's first address in `.debug_addr`, -1 if there is none. `is_new` for
    `.debug_rnglists`."""

    def __init__(
        self, place: ConstI64, base: ConstU64, address_size: ConstU8, addresses: ConstI64, is_new: cython.int
    ) -> None:
        self.place = place
        self.base = base
        self.address_size = address_size
        self.addresses = addresses
        self.is_new = is_new


@cython.final
@cython.cclass
class Ranges:
    """The ranges that are not empty: the number of the list, `owner`; `start`; and `end`, after the last byte. All are
    counted, at most `limit`, and as many filled in as the arrays have elements."""

    def __init__(self, owner: I64, start: U64, end: U64, limit: cython.longlong) -> None:
        self.owner = owner
        self.start = start
        self.end = end
        self.limit = limit
        self.count = 0

    def put(
        self,
        reader: Reader,
        owner: cython.longlong,
        start: cython.ulonglong,
        end: cython.ulonglong,
        top: cython.ulonglong,
    ) -> None:
        """Add a range, modulo the size of an address; linkers give discarded code the two largest addresses."""
        start &= top
        end &= top
        if start >= end or start >= top - 1:
            return
        if self.count >= self.limit:
            reader.fault = RANGES_OVERLAP
            return
        if self.count < self.owner.shape[0]:
            self.owner[self.count] = owner
            self.start[self.count] = start
            self.end[self.count] = end
        self.count += 1

    def address(self, reader: Reader, addresses: Reader, lists: Lists, owner: cython.longlong) -> cython.ulonglong:
        """The address whose index is next, in `.debug_addr`."""
        index: cython.ulonglong = reader.uleb()
        size: cython.int = lists.address_size[owner]
        begin: cython.longlong = lists.addresses[owner]
        if reader.fault:
            return 0
        if (
            begin < 0
            or begin > addresses.end
            or index >= cython.cast(cython.ulonglong, (addresses.end - begin) // size)
        ):
            reader.fault = NO_ADDRESS
            return 0
        addresses.offset = begin + cython.cast(cython.longlong, index) * size
        return addresses.fixed(size)

    def read_old(self, reader: Reader, lists: Lists, owner: cython.longlong, top: cython.ulonglong) -> None:
        """Read one list of `.debug_ranges`."""
        size: cython.int = lists.address_size[owner]
        base: cython.ulonglong = lists.base[owner]
        start: cython.ulonglong
        end: cython.ulonglong
        while True:
            start = reader.fixed(size)
            end = reader.fixed(size)
            if reader.fault or (start == 0 and end == 0):
                return
            if start == top:
                base = end
            elif start != end:
                self.put(reader, owner, base + start & ALL_ONES, base + end & ALL_ONES, top)

    def read_new(
        self, reader: Reader, addresses: Reader, lists: Lists, owner: cython.longlong, top: cython.ulonglong
    ) -> None:
        """Read one list of `.debug_rnglists`."""
        size: cython.int = lists.address_size[owner]
        base: cython.ulonglong = lists.base[owner]
        kind: cython.int
        start: cython.ulonglong
        end: cython.ulonglong
        while not reader.fault:
            kind = cython.cast(cython.int, reader.fixed(1))
            if reader.fault or kind == END_OF_LIST:
                return
            if kind == BASE_ADDRESSX:
                base = self.address(reader, addresses, lists, owner)
                continue
            if kind == BASE_ADDRESS:
                base = reader.fixed(size)
                continue
            if kind == STARTX_ENDX:
                start = self.address(reader, addresses, lists, owner)
                end = self.address(reader, addresses, lists, owner)
            elif kind == STARTX_LENGTH:
                start = self.address(reader, addresses, lists, owner)
                end = start + reader.uleb() & ALL_ONES
            elif kind == OFFSET_PAIR:
                start = base + reader.uleb() & ALL_ONES
                end = base + reader.uleb() & ALL_ONES
            elif kind == START_END:
                start = reader.fixed(size)
                end = reader.fixed(size)
            elif kind == START_LENGTH:
                start = reader.fixed(size)
                end = start + reader.uleb() & ALL_ONES
            else:
                reader.fault = UNKNOWN_RANGE
                return
            # Offsets from the base of discarded code lead nowhere.
            if not reader.fault and (kind != OFFSET_PAIR or base < top - 1):
                self.put(reader, owner, start, end, top)


@cython.ccall
@cython.exceptval(-1, check=False)
def read(reader: Reader, addresses: Reader, lists: Lists, found: Ranges, first: cython.longlong) -> cython.longlong:
    """Read the lists from `first` on; return how many were read: all, unless there is a fault in the next one."""
    owner: cython.longlong
    top: cython.ulonglong
    with cython.nogil:
        for owner in range(first, lists.place.shape[0]):
            top = ALL_ONES >> (64 - 8 * cython.cast(cython.ulonglong, lists.address_size[owner]))
            reader.offset = lists.place[owner]
            if lists.is_new:
                found.read_new(reader, addresses, lists, owner, top)
            else:
                found.read_old(reader, lists, owner, top)
            if reader.fault:
                return owner
        return lists.place.shape[0]
