"""RPM packages: a lead, the signatures, the header, and the payload, a compressed cpio archive (rpm's format.md)."""

from __future__ import annotations

import struct

from ..section import ParseError

RPM = "rpm"
LEAD_MAGIC, LEAD_SIZE = b"\xed\xab\xee\xdb", 96
# magic and version, reserved, the number of index entries, the size of the data that they refer to; big-endian.
HEADER = struct.Struct(">4s4xII")
HEADER_MAGIC = b"\x8e\xad\xe8\x01"
INDEX_ENTRY_SIZE = 16
SIGNATURE_ALIGNMENT = 8


def payload_offset(data: memoryview) -> int:
    """Where the payload of a package starts. Raises ParseError."""
    if bytes(data[: len(LEAD_MAGIC)]) != LEAD_MAGIC:
        raise ParseError(RPM, 0, "lead.magic", f"is {bytes(data[:4]).hex()}, not {LEAD_MAGIC.hex()}")
    signatures = _header_end(data, LEAD_SIZE, "signature header")
    start = -(-signatures // SIGNATURE_ALIGNMENT) * SIGNATURE_ALIGNMENT
    return _header_end(data, start, "header")


def _header_end(data: memoryview, offset: int, record: str) -> int:
    """The end of the header structure at `offset`. Raises ParseError."""
    if offset + HEADER.size > len(data):
        raise ParseError(RPM, offset, record, f"reaches past the file's end at {len(data):#x}")
    magic, entries, size = HEADER.unpack_from(data, offset)
    if magic != HEADER_MAGIC:
        raise ParseError(RPM, offset, f"{record}.magic", f"is {magic.hex()}, not {HEADER_MAGIC.hex()}")
    end = offset + HEADER.size + INDEX_ENTRY_SIZE * entries + size
    if end > len(data):
        raise ParseError(RPM, offset, record, f"reaches to {end:#x}, past the file's end at {len(data):#x}")
    return int(end)
