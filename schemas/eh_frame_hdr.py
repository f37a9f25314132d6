"""`.eh_frame_hdr`: the look-up table that PT_GNU_EH_FRAME names (LSB Core 10.6.2).

Strategy: the header's three encodings come first and tell the layout of the rest. Values stay as stored;
DW_EH_PE_datarel counts from the section's own start here.
"""

from __future__ import annotations

from typing import Any

from .pointers import DW_EH_PE
from .wire import U8, Integer, Leb128, Many, Pointer, Rest, record, wire


def _values(this: Any) -> int:
    """Values in the table: two a row; none where the count or the table is omitted."""
    if this.fde_count is None or this.table_enc == DW_EH_PE.omit:
        return 0
    return 2 * int(this.fde_count)


@record
class EhFrameHdrHead:
    """What stands before the table."""

    version: int = wire(Integer(1, allowed=(1,)), "1")
    eh_frame_ptr_enc: int = wire(U8, "encoding of eh_frame_ptr")
    fde_count_enc: int = wire(U8, "encoding of fde_count")
    table_enc: int = wire(U8, "encoding of the table's values")
    eh_frame_ptr: int | Leb128 | None = wire(Pointer(lambda this: this.eh_frame_ptr_enc), "address of .eh_frame")
    fde_count: int | Leb128 | None = wire(Pointer(lambda this: this.fde_count_enc), "rows in the table")


@record
class EhFrameHdr(EhFrameHdrHead):
    """The whole section."""

    table: tuple[int | Leb128, ...] = wire(
        Many(Pointer(lambda this: this.table_enc), _values), "initial location and FDE address of each row, in turn"
    )
    trailing: bytes = wire(Rest(), "bytes behind the table")
