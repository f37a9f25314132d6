"""Entries of `.debug_info`: those of code and what qualifies their names, by a walk; and any, at given offsets.

Strategy: a kernel walks unit by unit and fills rows of fixed capacity, which are made columns before it goes on, so
that memory depends on what is kept and not on the number of entries. A unit with a fault is skipped, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.debug_info.entries import MAX_DEPTH
from ...schemas.section import ParseError
from ..columns import Columns, column_of, columns
from ..kernels import engine, views
from ..kernels.calls import reader_of
from ..kernels.protocol import Fault
from .attributes import Attribute, DecodedUnits, wanted
from .table import SkippedUnits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..kernels.dwarf.entries import Entries

NOTHING = -1
# Entries that are read before they are made columns.
CAPACITY = 1 << 16


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

    def first(self, count: int) -> Rows:
        """The first rows."""
        return Rows(self.attributes, *(array[:count] for array in self.arrays()))

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
    """A walk over the entries of all units; `scopes` and `skipped` are complete when it has ended. `faults` are the
    unit, the section offset and the fault of what is left out."""

    def __init__(self, decoded: DecodedUnits) -> None:
        self.decoded = decoded
        self._scopes: list[ScopeColumns] = []
        self.faults: list[tuple[int, int, int]] = []

    def rows(self) -> Iterator[Rows]:
        """Functions and inlined functions with code, in section order; rows are valid until the next ones are asked
        for. `parent` and `function` are indices among these rows."""
        count, capacity, unit = len(self.decoded.units), CAPACITY, 0
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
            yield found.first(entries.count)
            self._keep_scopes(scopes.select(slice(kernel_scopes.count)))

    def _keep_scopes(self, found: ScopeColumns) -> None:
        before = sum(map(len, self._scopes))
        np.add(found.parent, before, out=found.parent, where=found.parent >= 0)
        self._scopes.append(found.select(np.arange(len(found))))

    @property
    def scopes(self) -> ScopeColumns:
        """The scopes that were passed."""
        return ScopeColumns.concatenate(self._scopes) if self._scopes else ScopeColumns.empty(0)

    @property
    def skipped(self) -> SkippedUnits:
        """The units with faults; of each unit the first one."""
        found = np.array(self.faults, np.int64).reshape(-1, 3)
        unit, first = np.unique(found[:, 0], return_index=True)
        place, fault = found[first, 1:].T
        return SkippedUnits(self.decoded.units.columns.offset[unit], place, fault.astype(np.uint8))


def read_entries(
    decoded: DecodedUnits,
    offset: NDArray[np.int64],
    attributes: tuple[Attribute, ...],
    record: str,
    refuse: Callable[[ParseError], None] | None = None,
) -> Rows:
    """The entries at some section offsets, with some attributes. Raises ParseError for one that cannot be read, or
    calls `refuse` with it; it is then a row without attributes, whose tag is 0."""
    found = Rows.of(attributes, len(offset))
    found.offset[:] = offset
    found.parent[:] = NOTHING
    starts = decoded.units.columns.offset
    unit = np.maximum(np.searchsorted(starts, offset, side="right") - 1, 0)
    found.unit[:] = unit
    reader, first = reader_of(decoded.section), 0
    while first < len(offset):
        rest = Rows(attributes, *(array[first:] for array in found.arrays()))
        done = engine.dwarf.entries.read_at(
            reader, decoded.kernel_units, decoded.attributes, rest.kernel(), *views(unit[first:])
        )
        if not reader.fault:
            break
        error = ParseError(decoded.section, reader.offset, record, Fault(reader.fault).sentence)
        if refuse is None:
            raise error
        refuse(error)
        first += done
        found.tag[first], found.form[first] = 0, 0
        first, reader.fault = first + 1, 0
    return found
