"""What the look-up tables share: where a section's sets stand, and declared records at many places as columns.

Strategy: a kernel walks the lengths. A record of integers, whose widths depend on the DWARF format or on sizes that a
header gives, is a NumPy dtype once those are known; the places that agree on them are read, and written, at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.section import BuildError, ByteOrder, ParseError, Section
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

# Bytes of an initial length, by format.


@columns
class Sets(Columns):
    """Contributions to a section."""

    offset: NDArray[np.int64] = column_of("section offset", "of the first byte")
    body: NDArray[np.int64] = column_of("section offset", "of what follows the length")
    end: NDArray[np.int64] = column_of("section offset")

    @property
    def dwarf_format(self) -> NDArray[np.uint8]:
        """4 or 8, the size of a section offset."""
        return np.where(self.body - self.offset == INITIAL_LENGTH_SIZES[DwarfFormat.DWARF64], 8, 4).astype(np.uint8)


def scan_sets(section: Section, record: str = "set") -> Sets:
    """Find what begins with an initial length; zeros behind the last are padding. Raises ParseError."""
    used = np.flatnonzero(np.frombuffer(section.data, np.uint8))
    padding = int(used[-1]) + 1 if len(used) else 0
    sets = Sets.empty(0)
    for _ in ("count", "fill"):
        reader = reader_of(section)
        count = engine.dwarf.contributions.scan(reader, padding, *views(sets.offset, sets.body, sets.end))
        if reader.fault:
            refuse(section, f"{record}[{count}].length", reader)
        sets = sets if len(sets) == count else Sets.empty(count)
    return sets


def row_dtype(cls: type, order: ByteOrder, **params: Any) -> np.dtype[np.void]:
    """The packed dtype of a record of integers once `this._params` is known; what has no bytes is left out."""
    this = SimpleNamespace(_params=SimpleNamespace(**params))
    prefix = "<" if order == "little" else ">"
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
            raise TypeError(f"{kind} is no integer")


def rows_at(section: Section, place: NDArray[np.int64], dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """The records that stand at these section offsets, all inside the section."""
    data = np.frombuffer(section.data, np.uint8)
    found = data[place[:, None] + np.arange(dtype.itemsize)]
    return np.ascontiguousarray(found).view(dtype)[:, 0] if len(place) else np.zeros(0, dtype)


def put_rows(data: NDArray[np.uint8], place: NDArray[np.int64], rows: NDArray[np.void]) -> None:
    """Write records to these places."""
    data[place[:, None] + np.arange(rows.itemsize)] = rows.view(np.uint8).reshape(len(rows), rows.itemsize)


def read_headers(section: Section, sets: Sets, cls: type) -> tuple[dict[str, NDArray[np.uint64]], NDArray[np.int64]]:
    """The fields of every set's header, u64, by name, and the places behind the headers. Raises ParseError."""
    declared = [field for field in fields_of(cls) if not isinstance(field.kind, Given)]
    columns = {field.name: np.zeros(len(sets.offset), np.uint64) for field in declared}
    behind = sets.body.copy()
    for dwarf_format, which in by_format(sets.dwarf_format):
        dtype = row_dtype(cls, section.byte_order, dwarf_format=dwarf_format)
        behind[which] += dtype.itemsize
        for wrong in which[behind[which] > sets.end[which]][:1]:
            reason = f"{sets.end[wrong] - sets.body[wrong]} bytes do not hold a header of {dtype.itemsize}"
            raise ParseError(section, int(sets.offset[wrong]), f"set[{wrong}].length", reason)
        rows = rows_at(section, sets.body[which], dtype)
        for name, column in columns.items():
            column[which] = rows[name]
    for field in declared:
        if isinstance(field.kind, Integer) and field.kind.allowed:
            for wrong in np.flatnonzero(~np.isin(columns[field.name], field.kind.allowed))[:1]:
                reason = f"{int(columns[field.name][wrong])} is none of {', '.join(map(str, field.kind.allowed))}"
                raise ParseError(section, int(sets.offset[wrong]), f"set[{wrong}].{field.name}", reason)
    return columns, behind


def by_format(dwarf_format: NDArray[np.uint8]) -> Iterator[tuple[DwarfFormat, NDArray[np.int64]]]:
    """The numbers of the sets of each format that there is."""
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
    """Write the lengths and the headers of sets. Raises BuildError for a value that its field cannot hold."""
    prefix = "<" if order == "little" else ">"
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
    """Records of these columns. Raises BuildError, naming the record's `number`, where a value has no room."""
    rows = np.zeros(len(number), dtype)
    for name in dtype.names or ():
        rows[name] = columns[name]
        for wrong in np.flatnonzero(rows[name] != columns[name])[:1]:
            reason = f"{int(columns[name][wrong]):#x} does not fit {dtype[name].itemsize} bytes"
            raise BuildError(section, None, f"{record}[{number[wrong]}].{name}", reason)
    return rows
