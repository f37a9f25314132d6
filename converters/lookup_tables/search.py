"""Search look-up tables: names, and the address ranges that hold addresses; for many at once.

Strategy: the names of the table and those asked for are numbered together in a hash table, so that equal names have
equal numbers; address ranges become disjoint and sorted, and are searched once for all addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_address, check_item, checked, text_argument
from ...schemas.data_classes import dataclass
from ...schemas.lookup_tables import SymbolKind
from ..arrays import ranges, starts_of, values_at
from ..columns import Columns, column_of, columns
from ..distinct import intern
from ..table.lookup import NOTHING, addresses, ranges_at
from .aranges import AddressRanges
from .pubnames import Names

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NameAt:
    """One occurrence of a name: the offsets in `.debug_info` of its unit and of its entry. `kind` and `is_static` are
    those of GNU's sections, elsewhere SymbolKind.NONE and False; a `kind` that is not defined is a number."""

    name: bytes
    unit_offset: int
    entry_offset: int
    kind: SymbolKind | int
    is_static: bool


@dataclass(frozen=True, slots=True, eq=False)
class FoundNames:
    """Where names occur in a table: name w of those asked for is the names `name[first[w]:first[w + 1]]` of `table`
    (`first`, `name`: i64), in their order. `unit_offset` and `entry_offset` (u64, as many as in `name`) are the offsets
    in `.debug_info` of the unit and of the entry."""

    table: Names
    first: I64
    name: I64
    unit_offset: NDArray[np.uint64]
    entry_offset: NDArray[np.uint64]

    def __len__(self) -> int:
        """The number of names asked for."""
        return len(self.first) - 1

    def __getitem__(self, wanted: int) -> tuple[NameAt, ...]:
        """The occurrences of one of the names asked for."""
        wanted = check_item(wanted, len(self), "wanted")
        return tuple(map(self._at, range(int(self.first[wanted]), int(self.first[wanted + 1]))))

    def __iter__(self) -> Iterator[tuple[NameAt, ...]]:
        """The occurrences of each of the names asked for."""
        return map(self.__getitem__, range(len(self)))

    def _at(self, index: int) -> NameAt:
        name = int(self.name[index])
        kind, is_static = (int(self.table.part(field, slice(name, name + 1))[0]) for field in ("kind", "is_static"))
        known = SymbolKind(kind) if kind in set(SymbolKind) else kind
        offsets = int(self.unit_offset[index]), int(self.entry_offset[index])
        return NameAt(self.table.name_of(name), *offsets, known, bool(is_static))


@checked(table=Names)
def find_names(table: Names, wanted: str | bytes | Sequence[str | bytes]) -> FoundNames:
    """Find whole names, in any order, in a table of `read_pubnames`. Text is UTF-8."""
    asked = [wanted] if isinstance(wanted, str | bytes) else wanted
    texts = [text_argument(one) for one in asked]
    size = np.array([len(text) for text in texts], np.int64)
    end = len(table.text) + np.cumsum(size)
    begins = np.concatenate([table.text_start, end - size])
    ends = np.concatenate([table.text_start + table.text_size, end])
    data = np.concatenate([table.text, np.frombuffer(b"".join(texts), np.uint8)])
    number = intern(data, begins, ends, np.zeros(len(begins), np.int64))[0].astype(np.int64)
    known, asked_for = number[: len(table)], number[len(table) :]
    order = np.argsort(known, kind="stable")
    low, high = (np.searchsorted(known[order], asked_for, side=side) for side in ("left", "right"))
    name = order[ranges(low, high - low)]
    unit_offset = table.debug_info_offset[table.set[name]]
    return FoundNames(table, starts_of(high - low), name, unit_offset, unit_offset + table.offset[name])


@columns
class RangesAt(Columns):
    """One record per address."""

    range: NDArray[np.int64] = column_of("index", "of the address range in the table, -1 for none")
    unit_offset: NDArray[np.int64] = column_of("section offset", "of its unit, in .debug_info, -1 for none")


@checked(table=AddressRanges, segment=check_address)
def find_address_ranges(table: AddressRanges, pcs: ArrayLike, segment: int = 0) -> RangesAt:
    """The range of a table of `read_address_ranges` that covers each address of a segment, and its unit.

    An address in several ranges belongs to the one that starts first. Ranges after the terminator of their set do not
    count, as in other readers.
    """
    number, is_end = table.set, table.is_end
    ends = np.cumsum(is_end)
    has_end = ends > (ends - is_end)[table.first[number]]
    which = np.flatnonzero(~has_end & (table.segment == np.uint64(segment)) & (table.length > 0))
    start = table.address[which]
    # A range cannot reach past the last address.
    size = np.minimum(table.length[which] - np.uint64(1), ~start) + np.uint64(1)
    found = values_at(which, ranges_at(start, size, addresses(pcs)), NOTHING)
    unit = table.debug_info_offset.astype(np.int64)[number]
    return RangesAt(found, values_at(unit, found, NOTHING))
