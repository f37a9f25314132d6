"""Several `.eh_frame` or `.debug_frame` sections as one, in place of records.

Strategy: records are copied one behind the other without terminators, with what leads from one to another or to an
address brought up to date; then it is an edit of that section. What two inputs cover is found on their tables; FDEs of
a later one that lose PCs to one before go, and what is left of them is added again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.cfi import EH_FRAME, Dialect
from ....schemas.pointers import NO_BASES, PointerBases
from ....schemas.section import BuildError, Section
from ....schemas.wire import LENGTH_RESERVED
from ...arch.table import Architecture
from ...arrays import put_integers, values_at
from ...table.merge import SharedRanges, merge
from ...table.model import FunctionFlag, UnwindTable
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
    """Sections as one, and the PCs that two of them cover: where they say the same, and where they do not."""

    frames: EditedCfi
    duplicates: SharedRanges
    conflicts: SharedRanges


def merge_cfi(
    sections: Sequence[Section],
    architecture: Architecture,
    dialect: Dialect = EH_FRAME,
    bases: PointerBases = NO_BASES,
    address: int | None = None,
) -> MergedCfi:
    """The records of sections of linked code as one section at `address` (None: the first one's).

    A PC belongs to the first section that has an FDE there. An FDE of a later one that has none for itself is dropped,
    one that has some is replaced by what is left of it. Raises ParseError for a broken section, BuildError for none at
    all, for inputs that do not go together, and for an FDE with an LSDA whose beginning another has.
    """
    if not sections:
        raise BuildError(dialect.name, None, "", "there is nothing to merge")
    for one in sections[1:]:
        if (one.byte_order, one.address_size) != (sections[0].byte_order, sections[0].address_size):
            raise BuildError(one, None, "byte order", "and size of addresses are not the first input's")
    inputs = [read_records(section, dialect, architecture, bases) for section in sections]
    section, shifts = _joined(inputs, sections[0].address if address is None else address)
    records = read_records(section, dialect, architecture, bases)
    tables = [_with_origin(table_of_records(one), one, shift) for one, shift in zip(inputs, shifts, strict=True)]
    merged = merge(tables)
    touched = _touched(tables, merged.duplicates, merged.conflicts)
    pieces = _pieces(records, merged.table, touched)
    frames = change_records(records, touched, pieces, np.full(len(pieces), NO_SLOT), 0)
    return MergedCfi(frames, merged.duplicates, merged.conflicts)


def _joined(inputs: Sequence[Records], address: int) -> tuple[Section, list[NDArray[np.int64]]]:
    """The records of all inputs behind one another as a section at that address, and for each input how much farther
    each of its entries stands there. A terminator is at the end where an input had one."""
    kept, shifts, end = [], [], 0
    for one in inputs:
        size = np.diff(np.append(one.entries.offset, len(one.section)))
        is_kept = ~one.entries.is_terminator
        place = end + np.cumsum(np.where(is_kept, size, 0)) - np.where(is_kept, size, 0)
        shifts.append(place - one.entries.offset)
        kept.append(np.frombuffer(one.section.data, np.uint8)[np.repeat(is_kept, size)])
        end += len(kept[-1])
    has_terminator = any(one.entries.is_terminator.any() for one in inputs)
    if end >= LENGTH_RESERVED:
        raise BuildError(inputs[0].section, None, "FDE.cie_pointer", "the section would be larger than 4 GiB")
    data = np.concatenate([*kept, np.frombuffer(TERMINATOR if has_terminator else b"", np.uint8)])
    for one, shift in zip(inputs, shifts, strict=True):
        _follow(one, data, address, shift)
    return replace(inputs[0].section, data=memoryview(data.tobytes()), address=address, file_offset=None), shifts


def _follow(records: Records, data: NDArray[np.uint8], address: int, shift: NDArray[np.int64]) -> None:
    """Bring up to date what in copied records leads to their CIEs, and what counts from its own place."""
    entries, fdes, dialect = records.entries, records.fdes, records.dialect
    of_fde = shift[np.searchsorted(entries.offset, fdes.offset)]
    cie = fdes.cie + shift[np.searchsorted(entries.offset, fdes.cie)]
    id_size = dialect.id_size or 4
    is_64 = fdes.body - fdes.offset > 4 + id_size
    size = np.where(is_64, 8, 4) if dialect.id_size is None else np.full(len(is_64), id_size)
    field = fdes.body - size + of_fde
    for width in np.unique(size).tolist():
        which = size == width
        pointer = field[which] - cie[which] if dialect.relative else cie[which]
        put_integers(data, field[which], pointer, width, records.section.byte_order)
    moved_by = address - records.section.address
    fields_ = relative_fields(records)
    for delta in np.unique(shift).tolist():
        refuse_unmovable(records, fields_, moved_by + delta)
    add_to_fields(records, fields_, data, moved_by, shift)


def _with_origin(table: UnwindTable, records: Records, shift: NDArray[np.int64]) -> UnwindTable:
    """The table with its functions' places in the joined section."""
    offset = records.fdes.offset + shift[np.searchsorted(records.entries.offset, records.fdes.offset)]
    return replace(table, functions=replace(table.functions, origin=offset.astype(np.uint64)))


def _touched(tables: Sequence[UnwindTable], *shared: SharedRanges) -> NDArray[np.bool_]:
    """Which FDEs, in order of the joined section, have PCs that a section before theirs has."""
    found = []
    for index, table in enumerate(tables):
        start = np.concatenate([one.start[one.second == index] for one in shared])
        end = np.concatenate([one.end[one.second == index] for one in shared])
        order = np.argsort(start)
        functions = table.functions
        # Ranges that one table shares are disjoint: the last that starts before the function's end has it, or none.
        last = functions.start + (functions.size - np.uint64(1))
        before = np.searchsorted(start[order], last, side="right") - 1
        reaches = values_at(end[order], before, 0) > functions.start
        found.append(reaches & (before >= 0) & (functions.size > 0))
    return np.concatenate(found)


def _pieces(records: Records, merged: UnwindTable, touched: NDArray[np.bool_]) -> UnwindTable:
    """Of the merged table what is left of FDEs that lose PCs."""
    functions, old = merged.functions, records.functions
    fde = np.searchsorted(records.fdes.offset, functions.origin.astype(np.int64))
    which = np.flatnonzero(touched[fde]) if len(touched) else np.zeros(0, np.int64)
    is_begun = functions.start[which] != old.start[fde[which]]
    for wrong in which[is_begun & (functions.flags[which] & FunctionFlag.HAS_LSDA > 0)][:1]:
        at = int(functions.origin[wrong])
        reason = f"another FDE has the PCs before {int(functions.start[wrong]):#x}, but the LSDA counts from the start"
        raise BuildError(records.section, at, f"FDE[{fde[wrong]}].lsda", reason)
    return merged.select(which)
