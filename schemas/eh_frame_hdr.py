"""`.eh_frame_hdr`: the look-up table that PT_GNU_EH_FRAME names (LSB Core 10.6.2).

Strategy: the header's three encodings come first and decide the layout of the rest. Values stay as stored;
DW_EH_PE_datarel is relative to the start of this section.
"""

from __future__ import annotations

from typing import Any

from .pointers import DW_EH_PE
from .wire import U8, Integer, Leb128, Many, Pointer, Rest, fixed_size, record, wire

VERSION = 1


def _value_count(this: Any) -> int:
    """Values in the table: two per row; none if the count or the table is omitted."""
    if this.fde_count is None or this.table_enc == DW_EH_PE.omit:
        return 0
    return 2 * int(this.fde_count)


@record
class EhFrameHdrPrefix:
    """The version and the encodings of what follows."""

    version: int = wire(Integer(1, allowed=(VERSION,)), f"{VERSION}")
    eh_frame_ptr_enc: int = wire(U8, "encoding of eh_frame_ptr")
    fde_count_enc: int = wire(U8, "encoding of fde_count")
    table_enc: int = wire(U8, "encoding of the table's values")


# The section offset of eh_frame_ptr.
POINTER_OFFSET = fixed_size(EhFrameHdrPrefix)


@record
class EhFrameHdrHead(EhFrameHdrPrefix):
    """The fields before the table."""

    eh_frame_ptr: int | Leb128 | None = wire(Pointer(lambda this: this.eh_frame_ptr_enc), "address of .eh_frame")
    fde_count: int | Leb128 | None = wire(Pointer(lambda this: this.fde_count_enc), "rows in the table")


@record
class EhFrameHdr(EhFrameHdrHead):
    """The whole section."""

    table: tuple[int | Leb128, ...] = wire(
        Many(Pointer(lambda this: this.table_enc), _value_count),
        "each row's initial location and FDE address",
    )
    trailing: bytes = wire(Rest(), "bytes after the table")
