"""An `.eh_frame_hdr` as GNU readelf 2.47 prints it, and as JSON values.

Strategy: readelf shows each value as stored, in 64 bits, and the address that it encodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np

from ....schemas.pointers import APPLICATIONS, DW_EH_PE, FORMAT_MASK, FORMAT_SIZES
from ....schemas.section import ParseError, Section
from ...bulk_text import Templates, prefixed
from ..eh_frame_hdr import EhFrameHdrColumns, read_eh_frame_hdr

# The number of rows formatted at once.
CHUNK = 1 << 14


class _Row(IntEnum):
    """The numbers of a row: its two values as stored, and what they encode."""

    LOCATION = 0
    LOCATION_ADDRESS = 1
    FDE = 2
    DISTANCE = 3


_ROW = "  {location:#x} (offset: {location_address:#x}) -> {fde:#x} fde=[ {distance:5x}]\n"


def _read(section: Section) -> EhFrameHdrColumns:
    """Read the section. Raises ParseError, also for a table that is cut off."""
    header = read_eh_frame_hdr(section)
    count = header.fde_count
    if count is not None and header.table_enc != DW_EH_PE.omit and len(header.fde) != count:
        left = len(section) - header.table_offset
        raise ParseError(section, header.table_offset, "fde_count", f"{count} rows do not fit {left} bytes")
    return header


def eh_frame_hdr_text(section: Section) -> Iterator[bytes]:
    """Yield the text in pieces of some thousand lines. Raises ParseError."""
    header = _read(section)
    text = [
        f"Contents of the {section.name} section:\n",
        f"  Version:                 {header.version}",
        f"  Pointer Encoding Format: {_encoding_text(header.eh_frame_ptr_enc)}",
        f"  Count Encoding Format:   {_encoding_text(header.fde_count_enc)}",
        f"  Table Encoding Format:   {_encoding_text(header.table_enc)}",
    ]
    if header.eh_frame_ptr is None:
        yield ("\n".join(text) + "\n\n").encode(errors="surrogateescape")
        return
    pointer = prefixed(header.eh_frame_ptr)
    if header.eh_frame_address != header.eh_frame_ptr:
        pointer += f" (offset: {prefixed(header.eh_frame_address)})"
    text.append(f"  Start of frame section:  {pointer}")
    if header.fde_count is not None:
        text.append(f"  Entries in search table: {prefixed(header.fde_count)}")
    yield ("\n".join(text) + "\n").encode(errors="surrogateescape")
    templates = Templates(_Row, [_ROW])
    for begin in range(0, len(header.fde), CHUNK):
        rows = slice(begin, begin + CHUNK)
        distance = header.fde_address[rows] - np.uint64(header.eh_frame_address)
        values = np.stack([header.location[rows], header.location_address[rows], header.fde[rows], distance], axis=1)
        yield templates.fill(np.zeros(len(values), np.int64), values)
    if header.fde_count is not None and (not header.fde_count or header.table_enc != DW_EH_PE.omit):
        yield b"\n"


_FORMAT_NAMES = {form.value: form.name for form, size in FORMAT_SIZES.items() if size != 0}
_APPLICATION_NAMES = {one.value: one.name for one in (*APPLICATIONS, DW_EH_PE.indirect)} | {0: "absolute"}


def _encoding_text(encoding: int) -> str:
    """An encoding as `0x1b (sdata4, pcrel)`. readelf has no names for the format absptr and for two applications."""
    if encoding == DW_EH_PE.omit:
        return f"{prefixed(encoding)} ({DW_EH_PE.omit.name})"
    form = _FORMAT_NAMES.get(encoding & FORMAT_MASK, "<unknown format>")
    application = _APPLICATION_NAMES.get(encoding & ~FORMAT_MASK, "<unknown application method>")
    return f"{prefixed(encoding)} ({form}, {application})"


def eh_frame_hdr_json(section: Section) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """The header's fields, and an iterator over the rows of its table, as JSON values: addresses. Raises ParseError."""
    header = _read(section)
    fields = {
        "section": section.name,
        "address": section.address,
        "version": header.version,
        "eh_frame_ptr_enc": header.eh_frame_ptr_enc,
        "fde_count_enc": header.fde_count_enc,
        "table_enc": header.table_enc,
        "eh_frame_ptr": None if header.eh_frame_ptr is None else header.eh_frame_address,
        "fde_count": header.fde_count,
    }
    rows = zip(header.location_address.tolist(), header.fde_address.tolist(), strict=True)
    return fields, ({"initial_location": location, "fde": fde} for location, fde in rows)
