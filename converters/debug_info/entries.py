"""Entries of `.debug_info`: those of code and what qualifies their names, by a walk; and any, at given offsets.

Strategy: a kernel walks unit by unit and fills rows of fixed capacity, which are made columns before it goes on, so
that memory depends on what is kept and not on the number of entries. Units are cut into parts of equal size, which
threads walk over. A unit with a fault is skipped, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.debug_info.entries import MAX_DEPTH
from ..arrays import starts_of
from ..columns import Columns, column_of, columns
from ..kernels import engine, views
from ..kernels.calls import reader_of
from ..threads import in_threads
from .attributes import Attribute, DecodedUnits, wanted
from .table import SkippedUnits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..kernels.dwarf.entries import Entries

NOTHING = -1
# Entries that are read before they are made columns.
CAPACITY = 1 << 16
# Bytes of units that are walked over in one part; one unit may have more.
PART = 1 << 23
# Entries that are read in one part.
ROWS = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Entries as a kernel reads them: `offset` i64, `tag` u16, `unit` u32, `parent` and `function` i64; and by
    column of `attributes` the `form` u32, 0 for an absent one, and the `number` u64 of each.

    The number of a DW_FORM_string is its section offset. `parent` is the index of the innermost row that contains an
    inlined function, and `function` that of the outermost one; of others they are -1 and the row's own.
    """

    attributes: tuple[Attribute, ...]
    offset: NDArray[np.int64]
    tag: NDArray[np.uint16]
    unit: NDArray[np.uint32]
    parent: NDArray[np.int64]
    function: NDArray[np.int64]
    form: NDArray[np.uint32]
    number: NDArray[np.uint64]

    @classmethod
    def of(cls, attributes: tuple[Attribute, ...], capacity: int) -> Rows:
        """Space for `capacity` entries."""
        shape = (capacity, len(attributes))
        return cls(
            attributes,
            offset=np.zeros(capacity, np.int64),
            tag=np.zeros(capacity, np.uint16),
            unit=np.zeros(capacity, np.uint32),
            parent=np.zeros(capacity, np.int64),
            function=np.zeros(capacity, np.int64),
            form=np.zeros(shape, np.uint32),
            number=np.zeros(shape, np.uint64),
        )

    def kernel(self) -> Entries:
        """As a kernel takes them."""
        names = (one.name for one in fields(self)[1:])
        arrays: dict[str, Any] = {name: getattr(self, name).data for name in names}
        chosen: dict[str, Any] = {"wanted": wanted(*self.attributes).data}
        return engine.dwarf.entries.Entries(**arrays, **chosen)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays, in order."""
        return self.offset, self.tag, self.unit, self.parent, self.function, self.form, self.number

    def part(self, first: int, end: int) -> Rows:
        """The rows from `first` up to `end`."""
        return Rows(self.attributes, *(array[first:end] for array in self.arrays()))

    def form_of(self, attribute: Attribute) -> NDArray[np.uint32]:
        """The form of an attribute, by row."""
        found: NDArray[np.uint32] = self.form[:, self.attributes.index(attribute)]
        return found

    def number_of(self, attribute: Attribute) -> NDArray[np.uint64]:
        """The number of an attribute, by row; undefined where the attribute is absent."""
        found: NDArray[np.uint64] = self.number[:, self.attributes.index(attribute)]
        return found


@columns
class ScopeColumns(Columns):
    """Entries whose names qualify those of others, ascending by offset."""

    offset: NDArray[np.int64] = column_of("section offset")
    end: NDArray[np.int64] = column_of("section offset", "after the last child")
    parent: NDArray[np.int64] = column_of("index", "of the innermost scope that contains it; -1 for none")


CODE_ATTRIBUTES = (
    *(Attribute.LOW_PC, Attribute.HIGH_PC, Attribute.RANGES),
    *(Attribute.ABSTRACT_ORIGIN, Attribute.SPECIFICATION, Attribute.CALL_FILE, Attribute.CALL_LINE),
)


class EntryWalk:
    """A walk over the entries of the units from `first` up to `end`; `scopes` and `faults` are complete when it has
    ended. `faults` are the unit, the section offset and the fault of what is left out."""

    def __init__(self, decoded: DecodedUnits, first: int, end: int) -> None:
        self.decoded = decoded
        self.first = first
        self.end = end
        self.scopes: list[ScopeColumns] = []
        self.faults: list[tuple[int, int, int]] = []

    def rows(self) -> Iterator[Rows]:
        """Functions and inlined functions with code, in section order; rows are valid until the next ones are asked
        for. `parent` and `function` are indices among these rows."""
        count, capacity, unit = self.end, CAPACITY, self.first
        reader = reader_of(self.decoded.section)
        stack = np.zeros((MAX_DEPTH, 3), np.int64)
        kernel = engine.dwarf.entries
        found, scopes = Rows.of(CODE_ATTRIBUTES, capacity), ScopeColumns.empty(capacity)
        while unit < count:
            entries, kernel_scopes = found.kernel(), kernel.Scopes(*views(*scopes.arrays()))
            parts = self.decoded.kernel_units, self.decoded.attributes, entries, kernel_scopes
            walk = kernel.Walk(*parts, *views(stack))
            first = unit
            unit = kernel.walk(reader, walk, unit, count)
            while reader.fault:
                self.faults.append((unit, reader.offset, reader.fault))
                reader.fault = 0
                unit = kernel.walk(reader, walk, unit + 1, count)
            if entries.is_full and unit == first:
                capacity *= 2
                found, scopes = Rows.of(CODE_ATTRIBUTES, capacity), ScopeColumns.empty(capacity)
                continue
            yield found.part(0, entries.count)
            self.scopes.append(scopes.select(np.arange(kernel_scopes.count)))


def walks_of(decoded: DecodedUnits) -> list[EntryWalk]:
    """Walks over all units, of about PART bytes each."""
    headers = decoded.units.columns
    place = starts_of(headers.size) // PART
    cut = np.append(np.flatnonzero(place[1:-1] != place[:-2]) + 1, len(headers)).tolist()
    return [EntryWalk(decoded, first, end) for first, end in zip([0, *cut], cut, strict=False) if end > first]


def scopes_of(walks: Sequence[EntryWalk]) -> ScopeColumns:
    """The scopes that ended walks have passed."""
    parts = [part for walk in walks for part in walk.scopes]
    before = 0
    for part in parts:
        np.add(part.parent, before, out=part.parent, where=part.parent >= 0)
        before += len(part)
    return ScopeColumns.concatenate(parts) if parts else ScopeColumns.empty(0)


def skipped_units(decoded: DecodedUnits, walks: Sequence[EntryWalk]) -> SkippedUnits:
    """The units with faults; of each unit the first one."""
    found = np.array([fault for walk in walks for fault in walk.faults], np.int64).reshape(-1, 3)
    unit, first = np.unique(found[:, 0], return_index=True)
    place, fault = found[first, 1:].T
    return SkippedUnits(decoded.units.columns.offset[unit], place, fault.astype(np.uint8))


def read_entries(decoded: DecodedUnits, offset: NDArray[np.int64], attributes: tuple[Attribute, ...]) -> Rows:
    """The entries at some section offsets, with some attributes; one that cannot be read is a row without attributes,
    whose tag is 0."""
    found = Rows.of(attributes, len(offset))
    found.offset[:] = offset
    found.parent[:] = NOTHING
    starts = decoded.units.columns.offset
    found.unit[:] = np.maximum(np.searchsorted(starts, offset, side="right") - 1, 0)
    cuts = range(0, len(offset), ROWS)
    in_threads(lambda cut: _read_rows(decoded, found.part(cut, cut + ROWS)), cuts)
    return found


def _read_rows(decoded: DecodedUnits, found: Rows) -> None:
    """Read the entries at the offsets of some rows."""
    reader, unit, first = reader_of(decoded.section), found.unit.astype(np.int64), 0
    while first < len(unit):
        rest = found.part(first, len(unit)).kernel()
        done = engine.dwarf.entries.read_at(
            reader, decoded.kernel_units, decoded.attributes, rest, *views(unit[first:])
        )
        if not reader.fault:
            break
        first += done
        found.tag[first], found.form[first] = 0, 0
        first, reader.fault = first + 1, 0
