"""Declared records as bytes, with the place of every field.

Strategy: names, widths and bit positions are those of the declarations in schemas/.
"""

from __future__ import annotations

from typing import Any

from ..schemas.section import ByteOrder
from ..schemas.wire import Bits, Integer, bit_widths, fields_of
from .byte_stream import leb
from .case import WireField


class WireWriter:
    """Bytes that grow, and the fields in them."""

    def __init__(self, byte_order: ByteOrder) -> None:
        self.byte_order: ByteOrder = byte_order
        self.data = bytearray()
        self.fields: list[WireField] = []

    def put(self, name: str, value: int, size: int) -> None:
        """Append an integer; a negative one in two's complement."""
        self.fields.append(WireField(name, len(self.data), size, value))
        self.data += value.to_bytes(size, self.byte_order, signed=value < 0)

    def put_leb(self, name: str, value: int, *, signed: bool = False, padding: int = 0) -> None:
        """Append a LEB128 number."""
        self.put_bytes(name, leb(value, signed=signed, padding=padding), value)

    def put_bytes(self, name: str, data: bytes, value: int = 0) -> None:
        """Append a field that is not an integer of fixed size."""
        self.fields.append(WireField(name, len(self.data), len(data), value))
        self.data += data

    def put_all(self, other: WireWriter) -> None:
        """Append everything that another one has."""
        start = len(self.data)
        self.fields += [one._replace(offset=one.offset + start) for one in other.fields]
        self.data += other.data

    def put_bits(self, name: str, cls: type, values: dict[str, int]) -> None:
        """Append a byte of bit fields; those without a value are 0."""
        byte = 0
        for bits, width in bit_widths(cls).items():
            byte = byte << width | values.get(bits, 0)
        self.put(name, byte, 1)

    def put_record(self, name: str, cls: type, values: dict[str, Any]) -> None:
        """Append a record of integers and bit fields; a bit field's value is a dict of its parts."""
        for one in fields_of(cls):
            path = f"{name}.{one.name}"
            match one.kind:
                case Integer(size=size):
                    self.put(path, values[one.name], size)
                case Bits(record=inner):
                    self.put_bits(path, inner, values[one.name])
                case _:
                    raise TypeError(f"{path} is not of a fixed size")
