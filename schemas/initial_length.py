"""Initial lengths: how long a unit or an entry is, and whether it is 32- or 64-bit DWARF (DWARF5 7.4)."""

from __future__ import annotations

from .section import BuildError, ByteOrder, ParseError, Section
from .wire import INITIAL_LENGTH_SIZES, LENGTH_DWARF64, LENGTH_RESERVED, DwarfFormat


def parse_initial_length(section: Section, offset: int, record: str) -> tuple[DwarfFormat, int, int]:
    """The format, the length, and the offset after the length field (DWARF5 7.4).

    Raises ParseError also where the length reaches past the section's end.
    """
    data, order = section.data, section.byte_order
    if offset + 4 > len(data):
        raise ParseError(section, offset, f"{record}.length", f"4 bytes needed, {len(data) - offset} left")
    length = int.from_bytes(data[offset : offset + 4], order)
    dwarf_format = DwarfFormat.DWARF32
    if length == LENGTH_DWARF64:
        if offset + 12 > len(data):
            raise ParseError(section, offset, f"{record}.length", f"12 bytes needed, {len(data) - offset} left")
        length = int.from_bytes(data[offset + 4 : offset + 12], order)
        dwarf_format = DwarfFormat.DWARF64
    elif length >= LENGTH_RESERVED:
        raise ParseError(section, offset, f"{record}.length", f"{length:#x} is a reserved initial length")
    start = offset + INITIAL_LENGTH_SIZES[dwarf_format]
    if length > len(data) - start:
        reason = f"{length:#x} bytes reach past the section's end at {len(data):#x}"
        raise ParseError(section, offset, f"{record}.length", reason)
    return dwarf_format, length, start


def build_initial_length(dwarf_format: DwarfFormat, length: int, byte_order: ByteOrder) -> bytes:
    """An initial length; raises BuildError if it does not fit 32-bit DWARF."""
    if dwarf_format is DwarfFormat.DWARF64:
        return LENGTH_DWARF64.to_bytes(4, byte_order) + length.to_bytes(8, byte_order)
    if length >= LENGTH_RESERVED:
        raise BuildError("", None, "length", f"{length:#x} needs 64-bit DWARF")
    return length.to_bytes(4, byte_order)
