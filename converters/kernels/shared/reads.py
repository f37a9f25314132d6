# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reads that every kernel shares: fixed integers, LEB128 and DW_EH_PE values, each bounded by the record's end.

Strategy: a `Reader` is a kernel's position. Once something is wrong it holds a fault and does not move;
kernels look at the fault once a record. Values are those that the reference engine gives.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import pointers
from ..protocol import Fault

if not cython.compiled:
    from ..array_types import U64, ConstU8

CUT = cython.declare(cython.int, int(Fault.CUT))
LEB_TOO_LARGE = cython.declare(cython.int, int(Fault.LEB_TOO_LARGE))

FORMAT_MASK = cython.declare(cython.int, pointers.FORMAT_MASK)
APPLICATION_MASK = cython.declare(cython.int, pointers.APPLICATION_MASK)
APPLICATION_SHIFT = cython.declare(cython.int, 4)
ULEB128 = cython.declare(cython.int, int(pointers.DW_EH_PE.uleb128))
SLEB128 = cython.declare(cython.int, int(pointers.DW_EH_PE.sleb128))
SIGNED = cython.declare(cython.int, int(pointers.DW_EH_PE.signed))
PCREL = cython.declare(cython.int, int(pointers.DW_EH_PE.pcrel))
ALIGNED = cython.declare(cython.int, int(pointers.DW_EH_PE.aligned))
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Reader:
    """A place in `data`: `offset`, the `end` of the record it is in, and the fault met there (0: none).

    For DW_EH_PE values: the section's `address`, `sizes` of the formats (0 an address, 255 a LEB128), and
    `bases`, an address for each application but pcrel.
    """

    def __init__(
        self,
        big: cython.int,
        address: cython.ulonglong,
        data: ConstU8,
        sizes: ConstU8,
        bases: U64,
    ) -> None:
        self.data = data
        self.big = big
        self.address = address
        self.sizes = sizes
        self.bases = bases
        self.offset = 0
        self.end = data.shape[0]
        self.fault = 0
        self.was_zero = 0

    def fixed(self, size: cython.int) -> cython.ulonglong:
        """An unsigned integer of `size` bytes; 0 and a fault where the record ends before."""
        value: cython.ulonglong = 0
        index: cython.int
        if self.offset < 0 or size > self.end - self.offset:
            self.fault = CUT
            return 0
        if self.big:
            for index in range(size):
                value = value << 8 | self.data[self.offset + index]
        else:
            for index in range(size - 1, -1, -1):
                value = value << 8 | self.data[self.offset + index]
        self.offset += size
        return value

    def uleb(self) -> cython.ulonglong:
        """An unsigned LEB128 that fits 64 bits, padded or not."""
        offset: cython.longlong = self.offset
        value: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.ulonglong = 0x80
        while byte >= 0x80:
            if offset < 0 or offset >= self.end:
                self.fault = CUT
                return 0
            byte = self.data[offset]
            offset += 1
            if shift < 63:
                value |= (byte & 0x7F) << shift
                shift += 7
            elif shift == 63 and byte & 0x7F <= 1:
                value |= (byte & 0x7F) << 63
                shift += 7
            elif shift == 63 or byte & 0x7F:
                self.fault = LEB_TOO_LARGE
                return 0
        self.offset = offset
        return value

    def sleb(self) -> cython.longlong:
        """A signed LEB128 that fits 64 bits, padded or not."""
        offset: cython.longlong = self.offset
        value: cython.longlong = 0
        half: cython.longlong
        shift: cython.int = 0
        byte: cython.longlong = 0x80
        sign: cython.longlong = -1
        while byte >= 0x80:
            if offset < 0 or offset >= self.end:
                self.fault = CUT
                return 0
            byte = self.data[offset]
            offset += 1
            if shift < 63:
                value |= (byte & 0x7F) << shift
                shift += 7
            elif sign < 0 and (byte & 0x7F == 0 or byte & 0x7F == 0x7F):
                # The tenth group is bit 63 and beyond: all equal; what follows only repeats it.
                sign = byte & 0x7F
            elif byte & 0x7F != sign:
                self.fault = LEB_TOO_LARGE
                return 0
        self.offset = offset
        if byte & 0x40:
            # Subtracted in two halves: 1 << 63 is no signed 64-bit number.
            half = cython.cast(cython.longlong, 1) << (shift - 1)
            return value - half - half
        return value

    def pointer(self, encoding: cython.int, address_size: cython.int) -> cython.ulonglong:
        """The address that a DW_EH_PE value encodes, modulo 2**64; callers cut it to the address size.

        A stored 0 means no address, whatever its application: `was_zero` is then set.
        """
        application: cython.int = encoding & APPLICATION_MASK
        size: cython.int
        place: cython.longlong = self.offset
        value: cython.ulonglong = 0
        sign: cython.ulonglong
        if application == ALIGNED:
            place += (address_size - 1) - cython.cast(
                cython.longlong, (self.address + cython.cast(cython.ulonglong, place + address_size - 1)) % address_size
            )
            self.offset = place
            size = address_size
            encoding = 0
        else:
            size = self.sizes[encoding & FORMAT_MASK] or address_size
        if encoding & FORMAT_MASK == ULEB128:
            value = self.uleb()
        elif encoding & FORMAT_MASK == SLEB128:
            value = cython.cast(cython.ulonglong, self.sleb() & ALL_ONES)
        else:
            value = self.fixed(size)
            if encoding & SIGNED and size < 8:
                sign = cython.cast(cython.ulonglong, 1) << (8 * size - 1)
                value = (value ^ sign) + (ALL_ONES - sign + 1) & ALL_ONES
        self.was_zero = value == 0
        if application == PCREL:
            return value + self.address + cython.cast(cython.ulonglong, place) & ALL_ONES
        return value + self.bases[application >> APPLICATION_SHIFT] & ALL_ONES
