"""Contributions of DWARF sections: the bounds of all sets of a section, and records at many offsets as columns.

Strategy: a kernel walks the initial lengths. The field widths of a record depend on the DWARF format and on sizes in a
header; once those are known, the record is a NumPy dtype, and all records of equal dtype are read or written at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.section import BuildError, ByteOrder, ParseError, Section, order_code
from ...schemas.wire import (
    INITIAL_LENGTH_SIZES,
    LENGTH_DWARF64,
    LENGTH_RESERVED,
    DwarfFormat,
    Given,
    Integer,
    Kind,
    Variable,
    When,
    fields_of,
)
from ..columns import Columns, column_of, columns
from ..kernels import engine, views
from ..kernels.calls import reader_of, refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray


@columns
class Sets(Columns):
    """Contributions to a section."""

    offset: NDArray[np.int64] = column_of("section offset", "of the first byte")
    body: NDArray[np.int64] = column_of("section offset", "of the first byte after the initial length")
    end: NDArray[np.int64] = column_of("section offset", "of the end (exclusive)")

    @property
    def dwarf_format(self) -> NDArray[np.uint8]:
        """The size of a section offset in bytes: 4 or 8."""
        return np.where(self.body - self.offset == INITIAL_LENGTH_SIZES[DwarfFormat.DWARF64], 8, 4).astype(np.uint8)


def scan_sets(section: Section, record: str = "set") -> Sets:
    """Find all contributions, each of which starts with an initial length; zeros after the last are padding.

    `record` is their name in errors. Raises ParseError.
    """
    padding = _used_size(np.frombuffer(section.data, np.uint8))
    sets = Sets.empty(0)
    for _ in ("count", "fill"):
        reader = reader_of(section)
        count = engine.dwarf.contributions.scan(reader, padding, *views(sets.offset, sets.body, sets.end))
        if reader.fault:
            refuse(section, f"{record}[{count}].length", reader)
        sets = sets if len(sets) == count else Sets.empty(count)
    return sets


# Bytes in which the end of padding is looked for at once.
_CHUNK = 1 << 16


def _used_size(data: NDArray[np.uint8]) -> int:
    """The size of the data without the zeros at its end."""
    end = len(data)
    while end:
        begin = max(0, end - _CHUNK)
        used = np.flatnonzero(data[begin:end])
        if len(used):
            return begin + int(used[-1]) + 1
        end = begin
    return 0


def row_dtype(cls: type, order: ByteOrder, **params: Any) -> np.dtype[np.void]:
    """The packed dtype of a record of integers, given the parameters of its declaration. Fields without bytes are
    omitted.
    """
    this = SimpleNamespace(_params=SimpleNamespace(**params))
    prefix = order_code(order)
    sizes = ((field.name, _size(field.kind, this)) for field in fields_of(cls))
    return np.dtype([(name, f"{prefix}u{size}") for name, size in sizes if size])


def _size(kind: Kind, this: Any) -> int:
    match kind:
        case Integer(size=size):
            return size
        case Variable(size=size_of):
            return int(size_of(this))
        case When(kind=inner, condition=condition):
            return _size(inner, this) if condition(this) else 0
        case Given():
            return 0
        case _:
            raise TypeError(f"{kind} is not an integer")


def rows_at(section: Section, place: NDArray[np.int64], dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """The records at these section offsets, all of which must be inside the section."""
    data = np.frombuffer(section.data, np.uint8)
    found = data[place[:, None] + np.arange(dtype.itemsize)]
    return np.ascontiguousarray(found).view(dtype)[:, 0] if len(place) else np.zeros(0, dtype)


def put_rows(data: NDArray[np.uint8], place: NDArray[np.int64], rows: NDArray[np.void]) -> None:
    """Write records at these offsets of `data`."""
    data[place[:, None] + np.arange(rows.itemsize)] = rows.view(np.uint8).reshape(len(rows), rows.itemsize)


def read_headers(section: Section, sets: Sets, cls: type) -> tuple[dict[str, NDArray[np.uint64]], NDArray[np.int64]]:
    """The fields of every set's header, u64, by name, and the section offset after each header. Raises ParseError."""
    declared = [field for field in fields_of(cls) if not isinstance(field.kind, Given)]
    columns = {field.name: np.zeros(len(sets.offset), np.uint64) for field in declared}
    header_end = sets.body.copy()
    for dwarf_format, which in by_format(sets.dwarf_format):
        dtype = row_dtype(cls, section.byte_order, dwarf_format=dwarf_format)
        header_end[which] += dtype.itemsize
        for wrong in which[header_end[which] > sets.end[which]][:1]:
            reason = f"{sets.end[wrong] - sets.body[wrong]} bytes do not hold a header of {dtype.itemsize}"
            raise ParseError(section, int(sets.offset[wrong]), f"set[{wrong}].length", reason)
        rows = rows_at(section, sets.body[which], dtype)
        for name, column in columns.items():
            column[which] = rows[name]
    for field in declared:
        if isinstance(field.kind, Integer) and field.kind.allowed:
            for wrong in np.flatnonzero(~np.isin(columns[field.name], field.kind.allowed))[:1]:
                reason = f"{int(columns[field.name][wrong])} is not one of {', '.join(map(str, field.kind.allowed))}"
                raise ParseError(section, int(sets.offset[wrong]), f"set[{wrong}].{field.name}", reason)
    return columns, header_end


def by_format(dwarf_format: NDArray[np.uint8]) -> Iterator[tuple[DwarfFormat, NDArray[np.int64]]]:
    """The indices of the sets of each format, for the formats that occur."""
    for one in DwarfFormat:
        which = np.flatnonzero(dwarf_format == one)
        if len(which):
            yield one, which


def write_headers(
    data: NDArray[np.uint8],
    order: ByteOrder,
    sets: Sets,
    cls: type,
    columns: dict[str, NDArray[np.uint64]],
    section: str,
) -> None:
    """Write the initial lengths and headers of sets. Raises BuildError for a value that does not fit its field."""
    prefix = order_code(order)
    for dwarf_format, which in by_format(sets.dwarf_format):
        length = (sets.end - sets.body)[which]
        for wrong in which[(dwarf_format is DwarfFormat.DWARF32) & (length >= LENGTH_RESERVED)][:1]:
            raise BuildError(section, int(sets.offset[wrong]), f"set[{wrong}].length", "needs 64-bit DWARF")
        if dwarf_format is DwarfFormat.DWARF64:
            escape = np.full(len(which), LENGTH_DWARF64, f"{prefix}u4").view([("escape", f"{prefix}u4")])
            put_rows(data, sets.offset[which], escape)
        stored = length.astype(f"{prefix}u{int(dwarf_format)}").view([("length", f"{prefix}u{int(dwarf_format)}")])
        put_rows(data, sets.body[which] - int(dwarf_format), stored)
        dtype = row_dtype(cls, order, dwarf_format=dwarf_format)
        header = {name: column[which] for name, column in columns.items()}
        put_rows(data, sets.body[which], filled(header, dtype, f"{section}", which, "set"))


def filled(
    columns: dict[str, NDArray[np.uint64]],
    dtype: np.dtype[np.void],
    section: str,
    number: NDArray[np.int64],
    record: str,
) -> NDArray[np.void]:
    """Records from columns. Raises BuildError, with the record's `number`, for a value that does not fit its field."""
    rows = np.zeros(len(number), dtype)
    for name in dtype.names or ():
        rows[name] = columns[name]
        for wrong in np.flatnonzero(rows[name] != columns[name])[:1]:
            reason = f"{int(columns[name][wrong]):#x} does not fit {dtype[name].itemsize} bytes"
            raise BuildError(section, None, f"{record}[{number[wrong]}].{name}", reason)
    return rows
