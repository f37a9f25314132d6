"""A `.debug_aranges` as in GNU readelf 2.47 (`-wNr`), and as plain data for JSON.

Strategy: headers of sets are headings, ranges are rows, the terminator of a set included.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.section import Section
from ..bulk_text import MAX_DIGITS, Pool, headed_text, hexadecimal, lines, prefixed
from .aranges import AddressRanges, read_address_ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Up to this size of a range in bytes, readelf's columns are narrow.
_NARROW = 8


def address_ranges_text(section: Section) -> Iterator[bytes]:
    """The text, in chunks of some thousand lines. Raises ParseError."""
    table = read_address_ranges(section)
    range_size = table.range_size
    yield f"Contents of the {section.listed_name} section:\n\n".encode(errors="surrogateescape")

    def heading(index: int) -> bytes:
        columns = "Address            Length" if range_size[index] > _NARROW else "Address    Length"
        return (
            f"  Length:                   {int(table.sets.end[index] - table.sets.body[index])}\n"
            f"  Version:                  {int(table.version[index])}\n"
            f"  Offset into .debug_info:  {prefixed(int(table.debug_info_offset[index]))}\n"
            f"  Address size:             {int(table.address_size[index])}\n"
            f"  Segment size:             {int(table.segment_size[index])}\n\n    {columns}\n"
        ).encode()

    yield from headed_text(table.first, heading, lambda pool, rows: _add_rows(pool, table, rows))
    yield b"\n"


def _add_rows(pool: Pool, table: AddressRanges, rows: slice) -> NDArray[np.int64]:
    """Add a line for each of a slice of ranges to the pool; returns their piece numbers."""
    address, length = table.address[rows], table.length[rows]
    count = np.arange(len(address))
    number = np.searchsorted(table.first, np.arange(rows.start, rows.start + len(address)), side="right") - 1
    skip = MAX_DIGITS - 2 * table.address_size[number].astype(np.int64)
    segment_digits = 2 * table.segment_size[number].astype(np.int64)
    segment = pool.add(lines(len(address), hexadecimal(table.segment[rows]), b":"), MAX_DIGITS - segment_digits) + count
    nothing, indent = pool.add_list([b"", b"    "]) + np.arange(2)
    pieces = [
        np.full_like(count, indent),
        np.where(segment_digits > 0, segment, nothing),
        pool.add(lines(len(address), hexadecimal(address), b" "), skip) + count,
        pool.add(lines(len(address), hexadecimal(length), b"\n"), skip) + count,
    ]
    return np.stack(pieces, axis=1)


def address_ranges_json(section: Section) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """The section, and an iterator over its sets with their ranges. Raises ParseError."""
    table = read_address_ranges(section)
    return {"section": section.name}, (_plain_set(table, index) for index in range(len(table.begin)))


def _plain_set(table: AddressRanges, index: int) -> dict[str, Any]:
    rows = slice(table.first[index], table.first[index + 1])
    columns = (table.segment[rows].tolist(), table.address[rows].tolist(), table.length[rows].tolist())
    has_segment = bool(table.segment_size[index])
    return {
        "offset": int(table.sets.offset[index]),
        "unit_length": int(table.sets.end[index] - table.sets.body[index]),
        "version": int(table.version[index]),
        "debug_info_offset": int(table.debug_info_offset[index]),
        "address_size": int(table.address_size[index]),
        "segment_size": int(table.segment_size[index]),
        "ranges": [
            ({"segment": segment} if has_segment else {}) | {"address": address, "length": length}
            for segment, address, length in zip(*columns, strict=True)
        ],
    }
