"""Merge several `.eh_frame` or `.debug_frame` sections into one, record by record.

Strategy: the records of all inputs are concatenated without terminators, and their CIE pointers and relative addresses
are updated; the rest is an edit of that section. PCs that two inputs cover are found in their tables. FDEs that lose
PCs to an earlier input are removed, and their remaining pieces added again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.arguments import check_address, checked, each, optional
from ....schemas.cfi import EH_FRAME, Dialect
from ....schemas.data_classes import dataclass
from ....schemas.pointers import NO_BASES, PointerBases
from ....schemas.section import BuildError, Section
from ...arch.table import Architecture
from ...arrays import distinct_values, put_integers, values_at
from ...table.merge import SharedRanges, merge
from ...table.model import FunctionFlag, UnwindTable
from ..layout import refuse_large
from ..read import table_of_records
from ..records import Records, read_records
from ..write import TERMINATOR
from .edit import EditedCfi, change_records
from .new_records import NO_SLOT
from .relocate import add_to_fields, refuse_unmovable, relative_fields

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class MergedCfi:
    """The merged section, and the PCs that two inputs cover: with equal rows, and with different ones."""

    frames: EditedCfi
    duplicates: SharedRanges
    conflicts: SharedRanges


@checked(
    sections=each(Section),
    architecture=Architecture,
    dialect=Dialect,
    bases=PointerBases,
    address=optional(check_address),
)
def merge_cfi(
    sections: Sequence[Section],
    architecture: Architecture,
    dialect: Dialect = EH_FRAME,
    bases: PointerBases = NO_BASES,
    address: int | None = None,
) -> MergedCfi:
    """Merge the records of sections of linked code into one section at `address` (None: that of the first section).

    A PC belongs to the first section with an FDE for it. An FDE of a later section is dropped if it has no PCs of its
    own, and replaced by its remaining pieces if it has only some. Raises ParseError for a malformed section, BuildError
    if there are no sections or they cannot be merged, and for an FDE with an LSDA that loses its start.
    """
    if not sections:
        raise BuildError(dialect.name, None, "", "there are no sections to merge")
    for one in sections[1:]:
        if (one.byte_order, one.address_size) != (sections[0].byte_order, sections[0].address_size):
            raise BuildError(one, None, "byte order", "or address size differs from that of the first input")
    inputs = [read_records(section, dialect, architecture, bases) for section in sections]
    section, shifts = concatenate_records(inputs, sections[0].address if address is None else address)
    records = read_records(section, dialect, architecture, bases)
    tables = [_with_origin(table_of_records(one), one, shift) for one, shift in zip(inputs, shifts, strict=True)]
    merged = merge(tables)
    touched = _touched(tables, merged.duplicates, merged.conflicts)
    pieces = _pieces(records, merged.table, touched)
    frames = change_records(records, touched, pieces, np.full(len(pieces), NO_SLOT), 0)
    return MergedCfi(frames, merged.duplicates, merged.conflicts)


def concatenate_records(inputs: Sequence[Records], address: int) -> tuple[Section, list[NDArray[np.int64]]]:
    """The records of all inputs as one section at this address, and for each input how many bytes each of its entries
    moved. The section ends with a terminator if any input has one. Raises BuildError if it would have 4 GiB."""
    kept, shifts, end = [], [], 0
    for one in inputs:
        size = np.diff(np.append(one.entries.offset, len(one.section)))
        is_kept = ~one.entries.is_terminator
        place = end + np.cumsum(np.where(is_kept, size, 0)) - np.where(is_kept, size, 0)
        shifts.append(place - one.entries.offset)
        end += int(size[is_kept].sum())
        refuse_large(inputs[0].section, end)
        kept.append(np.frombuffer(one.section.data, np.uint8)[np.repeat(is_kept, size)])
    has_terminator = any(one.entries.is_terminator.any() for one in inputs)
    data = np.concatenate([*kept, np.frombuffer(TERMINATOR if has_terminator else b"", np.uint8)])
    for one, shift in zip(inputs, shifts, strict=True):
        _update_pointers(one, data, address, shift)
    return replace(inputs[0].section, data=memoryview(data.tobytes()), address=address, file_offset=None), shifts


def _update_pointers(records: Records, data: NDArray[np.uint8], address: int, shift: NDArray[np.int64]) -> None:
    """Update the CIE pointers and PC-relative fields of copied records."""
    entries, fdes, dialect = records.entries, records.fdes, records.dialect
    of_fde = shift[np.searchsorted(entries.offset, fdes.offset)]
    cie = fdes.cie + shift[np.searchsorted(entries.offset, fdes.cie)]
    id_size = dialect.id_size or 4
    is_64 = fdes.body - fdes.offset > 4 + id_size
    size = np.where(is_64, 8, 4) if dialect.id_size is None else np.full(len(is_64), id_size)
    field = fdes.body - size + of_fde
    for width in distinct_values(size).tolist():
        which = size == width
        pointer = field[which] - cie[which] if dialect.relative else cie[which]
        put_integers(data, field[which], pointer, width, records.section.byte_order)
    moved_by = address - records.section.address
    fields_ = relative_fields(records)
    # Every entry may have a shift of its own, but only the remainder by an address size, at most 8, matters.
    _, first = np.unique(shift % 8, return_index=True)
    for delta in shift[first].tolist():
        refuse_unmovable(records, fields_, moved_by + delta)
    add_to_fields(records, fields_, data, moved_by, shift)


def _with_origin(table: UnwindTable, records: Records, shift: NDArray[np.int64]) -> UnwindTable:
    """The table with `origin` as offsets in the merged section."""
    offset = records.fdes.offset + shift[np.searchsorted(records.entries.offset, records.fdes.offset)]
    return replace(table, functions=replace(table.functions, origin=offset.astype(np.uint64)))


def _touched(tables: Sequence[UnwindTable], *shared: SharedRanges) -> NDArray[np.bool_]:
    """Which FDEs, in order of the merged section, have PCs that an earlier input covers."""
    found = []
    for index, table in enumerate(tables):
        start = np.concatenate([one.start[one.second == index] for one in shared])
        end = np.concatenate([one.end[one.second == index] for one in shared])
        order = np.argsort(start)
        functions = table.functions
        # Shared ranges of a table are disjoint: if any overlaps the function, the last that starts before its end does.
        last = functions.start + (functions.size - np.uint64(1))
        before = np.searchsorted(start[order], last, side="right") - 1
        reaches = values_at(end[order], before, 0) > functions.start
        found.append(reaches & (before >= 0) & (functions.size > 0))
    return np.concatenate(found)


def _pieces(records: Records, merged: UnwindTable, touched: NDArray[np.bool_]) -> UnwindTable:
    """The functions of the merged table that are remaining pieces of FDEs that lose PCs."""
    functions, old = merged.functions, records.functions
    fde = np.searchsorted(records.fdes.offset, functions.origin.astype(np.int64))
    which = np.flatnonzero(touched[fde]) if len(touched) else np.zeros(0, np.int64)
    is_begun = functions.start[which] != old.start[fde[which]]
    for wrong in which[is_begun & (functions.flags[which] & FunctionFlag.HAS_LSDA > 0)][:1]:
        at = int(functions.origin[wrong])
        reason = f"another FDE covers the start up to {int(functions.start[wrong]):#x}, which the LSDA is relative to"
        raise BuildError(records.section, at, f"FDE[{fde[wrong]}].lsda", reason)
    return merged.select(which)
