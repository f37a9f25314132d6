"""`.eh_frame` and `.debug_frame` edited in place of records: what is not touched keeps its offset and its bytes.

Strategy: FDEs that go leave their room, in which a new one stands or a CIE that nothing points to, which every reader
passes over; what has no room is appended. The table is not asked for, so that personality, LSDA, unknown augmentation
and padding survive. Addresses come last, as for a whole section.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.cfi import EH_FRAME, Cie, Dialect, FdeFormat
from ....schemas.pointers import NO_BASES, PointerBases
from ....schemas.section import BuildError, ByteOrder, Section
from ....schemas.wire import LENGTH_RESERVED, DwarfFormat, sleb, uleb
from ...arch.table import Architecture
from ...arrays import put_integers, ranges, values_at
from ...refusals import Refusals
from ...table.merge import refuse_mixture
from ...table.model import FunctionColumns, UnwindTable, concatenate, table_of
from ..eh_frame_hdr import FdeAddresses
from ..layout import LENGTH_BYTES, AddressFields, put_addresses
from ..records import Records, read_records
from .new_records import NO_SLOT, plan_additions
from .relocate import add_to_fields, refuse_unmovable, relative_fields

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHOWN = 10  # addresses named in an error


@dataclass(frozen=True, slots=True)
class EditCounts:
    """What an edit did: FDEs that were dropped, functions that replace others (`in_place`: in the room of one), that
    were added; CIEs added; bytes of the section. `is_after_terminator`: what was appended stands behind a terminator
    in the section's middle, where only readers that have the header find it."""

    dropped: int
    replaced: int
    in_place: int
    added: int
    cies_added: int
    bytes_before: int
    bytes_after: int
    is_after_terminator: bool


@dataclass(frozen=True, slots=True, eq=False)
class EditedCfi:
    """A section after an edit. `records` are those before it, and `is_gone` marks their entries that something else
    has replaced. `data` are the section's bytes without the addresses in new records, which are in `address_fields`.
    `fdes` are those after the edit. `refusals` are of functions that cannot be encoded, those of `replace` first; what
    they were to replace is unchanged."""

    records: Records
    data: NDArray[np.uint8]
    address_fields: tuple[AddressFields, ...]
    is_gone: NDArray[np.bool_]
    fdes: FdeAddresses
    report: EditCounts
    refusals: Refusals

    @property
    def name(self) -> str:
        """Of the section."""
        return self.records.section.name

    @property
    def address(self) -> int:
        """The section's own."""
        return self.records.section.address

    @property
    def byte_order(self) -> ByteOrder:
        """Of the section."""
        return self.records.section.byte_order

    @property
    def address_size(self) -> int:
        """Bytes of an address."""
        return self.records.section.address_size

    def __len__(self) -> int:
        """Bytes of the section."""
        return len(self.data)

    def at(self, section_address: int) -> bytes:
        """The section for a virtual address: its own, or another, for which all that counts from its own place is
        changed. Raises BuildError where something is beyond its field's range, ParseError for broken instructions."""
        section = self.records.section
        if not 0 <= section_address < 1 << 8 * section.address_size:
            raise BuildError(self.name, None, "section_address", f"{section_address:#x} is no address")
        data = self.data.copy()
        if section_address != section.address:
            self._move(data, section_address - section.address)
        put_addresses(self.name, data, self.address_fields, section_address, section.byte_order, section.address_size)
        return data.tobytes()

    def _move(self, data: NDArray[np.uint8], moved_by: int) -> None:
        offset = self.records.entries.offset
        fields = []
        for one in relative_fields(self.records):
            entry = np.searchsorted(offset, one.offset, side="right") - 1
            fields.append(one.select(~self.is_gone[entry]))
        refuse_unmovable(self.records, fields, moved_by)
        add_to_fields(self.records, fields, data, moved_by, np.zeros(len(offset), np.int64))


def edit_cfi(
    section: Section,
    architecture: Architecture,
    drop: Sequence[int] = (),
    replace: UnwindTable | None = None,
    add: UnwindTable | None = None,
    dialect: Dialect = EH_FRAME,
    bases: PointerBases = NO_BASES,
) -> EditedCfi:
    """The section of a linked file without the FDEs that cover the PCs of `drop` (or start there), with the functions
    of `replace` instead of those FDEs that cover their starts, and with those of `add`.

    Raises ParseError for a broken section, BuildError where a PC is in no FDE, where a new function would share PCs
    with one that stays, or for what cannot be written.
    """
    return edit_records(read_records(section, dialect, architecture, bases), drop, replace, add)


def edit_records(
    records: Records, drop: Sequence[int] = (), replace: UnwindTable | None = None, add: UnwindTable | None = None
) -> EditedCfi:
    """As `edit_cfi`, for a section that was read."""
    nothing = table_of(records.architecture, (), records.section.byte_order)
    replace, add = replace or nothing, add or nothing
    for table in (replace, add):
        refuse_mixture(table, nothing)
    pcs = _addresses(records, drop)
    is_dropped, missing = covering(records.functions, pcs)
    _refuse_missing(records, "drop", pcs[missing])
    _, missing = covering(records.functions, replace.functions.start)
    _refuse_missing(records, "replace", replace.functions.start[missing])
    slot = np.concatenate([_slots(records.functions, replace.functions.start), np.full(len(add), NO_SLOT)])
    return change_records(records, is_dropped, concatenate([replace, add]), slot, len(replace))


def covering(functions: FunctionColumns, pcs: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which functions cover one of some PCs or start there, and which PCs are in none."""
    order = np.argsort(pcs, kind="stable")
    last = functions.start + (np.maximum(functions.size, np.uint64(1)) - np.uint64(1))
    first = np.searchsorted(pcs, functions.start, sorter=order)
    behind = np.searchsorted(pcs, last, side="right", sorter=order)
    # How many functions begin and end at each PC, summed up: how many have it.
    has_some = behind > first
    change = np.bincount(first[has_some], minlength=len(pcs) + 1) - np.bincount(
        behind[has_some], minlength=len(pcs) + 1
    )
    missing = np.ones(len(pcs), np.bool_)
    missing[order] = np.cumsum(change)[:-1] == 0
    return has_some, missing


def _addresses(records: Records, pcs: Sequence[int]) -> NDArray[np.uint64]:
    """PCs as a column; BuildError where one is no address."""
    for pc in pcs:
        if not 0 <= pc < 1 << 8 * records.section.address_size:
            raise BuildError(records.section, None, "drop", f"{pc:#x} is no address")
    return np.array(pcs, np.uint64)


def _refuse_missing(records: Records, record: str, pcs: NDArray[np.uint64]) -> None:
    """BuildError where there are PCs without an FDE."""
    if len(pcs):
        named = ", ".join(f"{pc:#x}" for pc in pcs[:SHOWN].tolist())
        more = f" and {len(pcs) - SHOWN} more" if len(pcs) > SHOWN else ""
        raise BuildError(records.section, None, record, f"no FDE covers {named}{more}")


def _slots(functions: FunctionColumns, starts: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each start the FDE whose slot a new one may have: the first that starts there, or the last that starts before
    and reaches it, each FDE for one of them; else NO_SLOT."""
    order = np.argsort(functions.start, kind="stable")
    ascending = functions.start[order]
    exact = np.searchsorted(ascending, starts)
    before = np.searchsorted(ascending, starts, side="right") - 1
    is_exact = values_at(ascending, exact, 0) == starts
    is_exact &= exact < len(order)
    slot = values_at(order, np.where(is_exact, exact, before), NO_SLOT)
    found = np.flatnonzero(slot != NO_SLOT)
    reaches = starts[found] - functions.start[slot[found]] < functions.size[slot[found]]
    slot[found[~reaches & ~is_exact[found]]] = NO_SLOT
    # Those that start where the FDE does come first.
    rank = np.lexsort((np.arange(len(starts)), ~is_exact))
    _, first = np.unique(slot[rank], return_index=True)
    is_first = np.zeros(len(starts), np.bool_)
    is_first[rank[first]] = True
    return np.where(is_first, slot, NO_SLOT)


def change_records(
    records: Records, is_dropped: NDArray[np.bool_], table: UnwindTable, slot: NDArray[np.int64], replacing: int
) -> EditedCfi:
    """The records without some FDEs, with the functions of a table, the first `replacing` of which replace what covers
    their starts and may take the slot of the FDE whose index `slot` gives (or NO_SLOT)."""
    address = records.section.address
    frames = _change_records(records, is_dropped, table, slot, replacing, 4)
    try:
        frames.at(address)
    except BuildError:
        if records.section.address_size <= 4:
            raise
        # Addresses of new CIEs' FDEs that four bytes do not reach.
        frames = _change_records(records, is_dropped, table, slot, replacing, 8)
    return frames


def _change_records(
    records: Records,
    is_dropped: NDArray[np.bool_],
    table: UnwindTable,
    slot: NDArray[np.int64],
    replacing: int,
    pointer_size: int,
) -> EditedCfi:
    """As `change_records`, with new CIEs' addresses of `pointer_size` bytes."""
    section, entries = records.section, records.entries
    first = int(entries.end[~entries.is_terminator].max(initial=0))
    width = min(pointer_size, section.address_size) if records.dialect is EH_FRAME else section.address_size
    new, refusals = plan_additions(records, table, slot, first, width)
    replaces = new.function < replacing
    is_replaced, _ = covering(records.functions, table.functions.start[new.function[replaces]])
    is_gone = is_dropped | is_replaced
    _refuse_shared(records, np.flatnonzero(~is_gone), table.functions, new.function)
    if len(section) - first + new.end >= LENGTH_RESERVED:
        raise BuildError(section, None, "FDE.cie_pointer", "the section would be larger than 4 GiB")
    is_taken = np.zeros(len(is_gone), np.bool_)
    is_taken[slot[new.function[new.is_in_place]]] = True
    data = _with_space(records, is_gone, is_taken, first, new.end)
    address_fields = tuple(one for one in new.write(data, first) if len(one.offset))
    report = EditCounts(
        dropped=int((is_gone & ~is_replaced).sum()),
        replaced=int(replaces.sum()),
        in_place=int(is_taken.sum()),
        added=int((~replaces).sum()),
        cies_added=new.cie_count,
        bytes_before=len(section),
        bytes_after=len(data),
        is_after_terminator=new.end > first and bool((entries.offset[entries.is_terminator] < first).any()),
    )
    gone = np.zeros(len(entries.offset), np.bool_)
    gone[np.searchsorted(entries.offset, records.fdes.offset[is_gone])] = True
    # What is appended comes after the last entry: FDEs that stay keep their offsets.
    kept = FdeAddresses.of_functions(records.functions).select(~is_gone)
    added = FdeAddresses(new.fields.offset, new.fields.start, new.fields.length)
    fdes = FdeAddresses.concatenate([kept, added])
    return EditedCfi(records, data, address_fields, gone, fdes, report, refusals)


def _refuse_shared(
    records: Records, kept: NDArray[np.int64], functions: FunctionColumns, said: NDArray[np.int64]
) -> None:
    """BuildError where a new function has a PC that an FDE which stays has, too."""
    old = records.functions
    kept = kept[old.size[kept] > 0]
    kept = kept[np.argsort(old.start[kept], kind="stable")]
    reach = np.maximum.accumulate(old.start[kept] + (old.size[kept] - np.uint64(1)))
    said = said[functions.size[said] > 0]
    start = functions.start[said]
    last = start + (functions.size[said] - np.uint64(1))
    # The FDEs that start before the function's end: one of them reaches its start, or none does.
    before = np.searchsorted(old.start[kept], last, side="right") - 1
    shares = values_at(reach, before, 0) >= start
    for wrong in np.flatnonzero(shares & (before >= 0))[:1]:
        fde = kept[np.flatnonzero(reach[: before[wrong] + 1] >= start[wrong])[0]]
        reason = f"of {int(start[wrong]):#x}..{int(last[wrong]):#x} the FDE of {int(old.start[fde]):#x} has some PCs"
        raise BuildError(records.section, int(records.fdes.offset[fde]), "functions", reason)


def _with_space(
    records: Records, is_gone: NDArray[np.bool_], is_taken: NDArray[np.bool_], first: int, end: int
) -> NDArray[np.uint8]:
    """The section with room from `first` up to `end`, and in those FDEs that are taken; all of it is zero. Others that
    are gone become CIEs."""
    old = np.frombuffer(records.section.data, np.uint8)
    data = np.concatenate([old[:first], np.zeros(end - first, np.uint8), old[first:]])
    begin, size = records.fdes.offset[is_gone], (records.fdes.end - records.fdes.offset)[is_gone]
    data[ranges(begin, size)] = 0
    blank = np.frombuffer(_unused_cie(records), np.uint8)
    left = np.flatnonzero(is_gone & ~is_taken)
    offset, size = records.fdes.offset[left], (records.fdes.end - records.fdes.offset)[left]
    for small in np.flatnonzero(size < len(blank))[:1]:
        reason = f"has {size[small]} bytes, where the CIE that takes its place has {len(blank)}"
        raise BuildError(records.section, int(offset[small]), f"FDE[{left[small]}]", reason)
    data[offset[:, None] + np.arange(len(blank))] = blank
    put_integers(data, offset, size - LENGTH_BYTES, LENGTH_BYTES, records.section.byte_order)
    return data


def _unused_cie(records: Records) -> bytes:
    """A CIE that says nothing: DW_CFA_nop may follow up to any size. Of 32-bit DWARF, on whose id all readers agree."""
    from ....schemas import cfi_sections

    size = records.section.address_size
    cie = Cie(
        dwarf_format=DwarfFormat.DWARF32,
        version=1,
        augmentation=b"",
        eh_data=None,
        address_size=None,
        segment_selector_size=None,
        code_alignment_factor=uleb(1),
        data_alignment_factor=sleb(-size),
        return_address_register=records.architecture.return_address,
        augmentation_data=None,
        initial_instructions=b"",
    )
    return cfi_sections.build_entry(cie, records.dialect, records.section.byte_order, FdeFormat(size))
