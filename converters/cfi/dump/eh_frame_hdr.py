"""An `.eh_frame_hdr` as GNU readelf 2.47 prints it, and as plain data for JSON.

Strategy: a kernel reads the values as stored; readelf shows each as it is, in 64 bits, and what it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....schemas.eh_frame_hdr import POINTER_OFFSET, VERSION
from ....schemas.pointers import APPLICATION_MASK, APPLICATIONS, DW_EH_PE, FORMAT_MASK, FORMAT_SIZES
from ....schemas.section import ParseError, Section
from ...bulk_text import MAX_DIGITS, Pool, hexadecimal, leading_zeros, lines, prefixed
from ...kernels import engine, views
from ...kernels.calls import reader_of, refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Rows that are put into text at once.
CHUNK = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class _Header:
    """The section read. `eh_frame_ptr`, `location` and `fde` are as stored, in 64 bits, the `_address` ones resolved.

    `fde_count` is None where it is omitted; the columns, u64, have an element a row of the table.
    """

    encodings: tuple[int, int, int]
    eh_frame_ptr: int
    eh_frame_address: int
    fde_count: int | None
    location: NDArray[np.uint64]
    location_address: NDArray[np.uint64]
    fde: NDArray[np.uint64]
    fde_address: NDArray[np.uint64]


def _read(section: Section) -> _Header:
    """Read the section. Raises ParseError."""
    if len(section) < POINTER_OFFSET or section.data[0] != VERSION:
        found = f"{section.data[0]}" if len(section) else "nothing"
        raise ParseError(section, 0, "version", f"{found}, not {VERSION}")
    pointer_encoding, count_encoding, table_encoding = section.data[1:POINTER_OFFSET].tolist()
    (pointer,), place = _values(section, POINTER_OFFSET, pointer_encoding, 1, "eh_frame_ptr")
    count, size = None, 0
    if count_encoding != DW_EH_PE.omit:
        (number,), place = _values(section, place, count_encoding, 1, "fde_count")
        count = int(number)
        size = 2 * count if table_encoding != DW_EH_PE.omit else 0
    if size > len(section):
        raise ParseError(section, place, "fde_count", f"{count} rows do not fit {len(section) - place} bytes")
    values, end = _values(section, place, table_encoding, size, "table")
    # LEB128 rows have places of their own, which a relative application would count from; nobody writes such.
    places = place + (end - place) // max(1, size) * np.arange(size, dtype=np.uint64)
    addresses = _resolved(section, table_encoding, values, places)
    return _Header(
        (pointer_encoding, count_encoding, table_encoding),
        int(pointer),
        int(_resolved(section, pointer_encoding, np.array([pointer]), np.array([POINTER_OFFSET], np.uint64))[0]),
        count,
        values[::2],
        addresses[::2],
        values[1::2],
        addresses[1::2],
    )


def _values(section: Section, offset: int, encoding: int, count: int, record: str) -> tuple[NDArray[np.uint64], int]:
    """`count` values of an encoding's format, and the offset behind them."""
    values = np.empty(count, np.uint64)
    if not count:
        return values, offset
    if encoding & FORMAT_MASK not in FORMAT_SIZES:
        raise ParseError(section, offset, record, f"the encoding {encoding:#04x} has no format")
    reader = reader_of(section)
    end = engine.cfi.entries.values(reader, offset, encoding & FORMAT_MASK, section.address_size, *views(values))
    if reader.fault:
        refuse(section, record, reader)
    return values, end


def _resolved(
    section: Section, encoding: int, values: NDArray[np.uint64], places: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """What values stand for, in 64 bits: `places` are section offsets, data-relative is to the section's start."""
    match encoding & APPLICATION_MASK:
        case DW_EH_PE.pcrel:
            return values + np.uint64(section.address) + places
        case DW_EH_PE.datarel:
            return values + np.uint64(section.address)
        case _:
            return values


def eh_frame_hdr_text(section: Section) -> Iterator[bytes]:
    """The text, in pieces of some thousand lines. Raises ParseError."""
    header = _read(section)
    pointer = prefixed(header.eh_frame_ptr)
    if header.eh_frame_address != header.eh_frame_ptr:
        pointer += f" (offset: {prefixed(header.eh_frame_address)})"
    names = ("Pointer Encoding Format: ", "Count Encoding Format:   ", "Table Encoding Format:   ")
    text = [
        f"Contents of the {section.name} section:\n",
        f"  Version:                 {VERSION}",
        *(f"  {name}{_encoding_text(byte)}" for name, byte in zip(names, header.encodings, strict=True)),
        f"  Start of frame section:  {pointer}",
    ]
    if header.fde_count is not None:
        text.append(f"  Entries in search table: {prefixed(header.fde_count)}")
    yield ("\n".join(text) + "\n").encode(errors="surrogateescape")
    for begin in range(0, len(header.fde), CHUNK):
        yield _rows_text(header, slice(begin, begin + CHUNK))
    if header.fde_count is not None and (not header.fde_count or header.encodings[2] != DW_EH_PE.omit):
        yield b"\n"


def _rows_text(header: _Header, rows: slice) -> bytes:
    """A line for each of some rows of the table."""
    pool = Pool([b"  ", b" (offset: ", b") -> ", b" fde=[ ", b"]\n"])
    distance = header.fde_address[rows] - np.uint64(header.eh_frame_address)
    numbers = [
        pool.add(*_prefixed_lines(header.location[rows])),
        pool.add(*_prefixed_lines(header.location_address[rows])),
        pool.add(*_prefixed_lines(header.fde[rows])),
        pool.add(*_padded_lines(distance, 5)),
    ]
    row = np.arange(len(distance))
    pieces = [piece for index, first in enumerate(numbers) for piece in (np.full_like(row, index), first + row)]
    return pool.join(np.stack([*pieces, np.full_like(row, 4)], axis=1).reshape(-1))


def _prefixed_lines(values: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """`prefixed` of each value, at the end of its line, and the bytes before it."""
    zeros = leading_zeros(values)
    digits = lines(len(values), b"0x", hexadecimal(values))
    # The prefix comes right before the digits, which start behind their leading zeros.
    row = np.flatnonzero(values)
    digits[row, zeros[row]], digits[row, zeros[row] + 1] = ord("0"), ord("x")
    return digits, zeros + np.where(values == 0, 2, 0)


def _padded_lines(values: NDArray[np.uint64], width: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Each value's digits behind spaces, `width` characters at least, at the end of its line; as above."""
    zeros = leading_zeros(values)
    digits = hexadecimal(values)
    digits[np.arange(MAX_DIGITS) < zeros[:, None]] = ord(" ")
    return digits, np.minimum(zeros, MAX_DIGITS - width)


_FORMAT_NAMES = {form.value: form.name for form, size in FORMAT_SIZES.items() if size != 0}
_APPLICATION_NAMES = {one.value: one.name for one in (*APPLICATIONS, DW_EH_PE.indirect)} | {0: "absolute"}


def _encoding_text(encoding: int) -> str:
    """As `0x1b (sdata4, pcrel)`; readelf has no name for a format that is an address, nor for two applications."""
    if encoding == DW_EH_PE.omit:
        return f"{prefixed(encoding)} ({DW_EH_PE.omit.name})"
    form = _FORMAT_NAMES.get(encoding & FORMAT_MASK, "<unknown format>")
    application = _APPLICATION_NAMES.get(encoding & ~FORMAT_MASK, "<unknown application method>")
    return f"{prefixed(encoding)} ({form}, {application})"


def eh_frame_hdr_plain(section: Section) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """The header's fields, and one by one the rows of its table, as JSON has them: addresses. Raises ParseError."""
    header = _read(section)
    names = ("eh_frame_ptr_enc", "fde_count_enc", "table_enc")
    fields = {
        "section": section.name,
        "address": section.address,
        "version": VERSION,
        **dict(zip(names, header.encodings, strict=True)),
        "eh_frame_ptr": header.eh_frame_address,
        "fde_count": header.fde_count,
    }
    rows = zip(header.location_address.tolist(), header.fde_address.tolist(), strict=True)
    return fields, ({"initial_location": location, "fde": fde} for location, fde in rows)
