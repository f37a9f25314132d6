"""The bytes of drawn sections: integers, LEB128 numbers, encoded pointers, and any operand that the schemas declare."""

from __future__ import annotations

from dataclasses import field

from ..schemas.data_classes import dataclass
from ..schemas.pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_SIZES, NO_BASES, PointerBases, store, value_format
from ..schemas.section import ByteOrder
from ..schemas.wire import Block, Integer, Kind, Leb, Variable


def leb(value: int, *, signed: bool, padding: int = 0) -> bytes:
    """A LEB128 number (DWARF5 7.6) that is `padding` bytes longer than necessary."""
    groups = [value & 0x7F]
    # A signed number ends with its sign in bit 6 of the last group.
    while not (-0x40 <= value < 0x40 if signed else value < 0x80):
        value >>= 7
        groups.append(value & 0x7F)
    groups += [0x7F if value < 0 else 0] * padding
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


@dataclass(slots=True)
class ByteStream:
    """Bytes that grow. `address` is that of the first one; `padding` is the number of bytes by which each LEB128 number
    is longer than necessary."""

    byte_order: ByteOrder
    address_size: int
    address: int = 0
    padding: int = 0
    data: bytearray = field(default_factory=bytearray)

    @property
    def here(self) -> int:
        """The address of the next byte."""
        return self.address + len(self.data)

    def put_integer(self, value: int, size: int) -> None:
        """Append an integer of `size` bytes; a negative one in two's complement."""
        self.data += value.to_bytes(size, self.byte_order, signed=value < 0)

    def put_leb(self, value: int, *, signed: bool) -> None:
        """Append a LEB128 number."""
        self.data += leb(value, signed=signed, padding=self.padding)

    def put_block(self, block: bytes) -> None:
        """Append a block with its length in LEB128."""
        self.put_leb(len(block), signed=False)
        self.data += block

    def begin_block(self) -> ByteStream:
        """The contents of a block of less than 128 bytes that is to be appended next."""
        return ByteStream(self.byte_order, self.address_size, self.here + 1 + self.padding, self.padding)

    def put_value(self, kind: Kind, value: int | bytes) -> None:
        """Append an operand of a declared kind."""
        match kind, value:
            case Integer(size, _, _), int():
                self.put_integer(value, size)
            case Leb(signed), int():
                self.put_leb(value, signed=signed)
            case Block(), bytes():
                self.put_block(value)
            case Variable(), int():
                self.put_integer(value, self.address_size)
            case _:
                raise TypeError(f"{kind} does not store {value!r}")

    def put_pointer(self, address: int, encoding: int, bases: PointerBases = NO_BASES) -> None:
        """Append an encoded address (LSB Core, DWARF extensions)."""
        if encoding & APPLICATION_MASK == DW_EH_PE.aligned:
            self.data += bytes(-self.here % self.address_size)
        self.put_format(store(address, encoding, self.here, bases, self.address_size), encoding)

    def put_format(self, value: int, encoding: int) -> None:
        """Append a value in the format of an encoded address, whose application is ignored."""
        form = value_format(encoding)
        size = FORMAT_SIZES[form]
        if size is None:
            self.put_leb(value, signed=bool(form & DW_EH_PE.signed))
        else:
            self.put_integer(value, size or self.address_size)


def fits(value: int, encoding: int, address_size: int) -> bool:
    """Whether the format of an encoding can hold a stored value."""
    form = value_format(encoding)
    size = FORMAT_SIZES[form]
    bits = 64 if size is None else 8 * (size or address_size)
    if form & DW_EH_PE.signed:
        return -(1 << bits - 1) <= value < 1 << bits - 1
    return 0 <= value < 1 << bits
