"""Edit `.eh_frame` and `.debug_frame` record by record: untouched records keep their offsets and bytes.

Strategy: the slot of a removed FDE is filled by a new FDE, or by a CIE that nothing points to, which every reader
skips. New FDEs that do not fit a slot are appended. Untouched records are never re-encoded, so personalities, LSDAs,
unknown augmentations and padding are preserved. Addresses are filled in last, as for a whole section.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.arguments import check_integer, checked, optional
from ....schemas.cfi import EH_FRAME, Cie, Dialect, FdeFormat
from ....schemas.data_classes import dataclass
from ....schemas.pointers import NO_BASES, PointerBases
from ....schemas.section import BuildError, ByteOrder, Section
from ....schemas.wire import DwarfFormat, sleb, uleb
from ...arch.table import Architecture, default_return_column
from ...arrays import put_integers, ranges, values_at
from ...refusals import Refusals
from ...table.merge import refuse_mixture
from ...table.model import FunctionColumns, UnwindTable, concatenate, table_of
from ..eh_frame_hdr import FdeAddresses
from ..layout import LENGTH_BYTES, AddressFields, put_addresses, refuse_large
from ..records import Records, read_records
from .new_records import NO_SLOT, plan_additions
from .relocate import add_to_fields, refuse_unmovable, relative_fields

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHOWN = 10  # addresses named in an error


@dataclass(frozen=True, slots=True)
class EditCounts:
    """What an edit did: the numbers of FDEs `dropped`, of functions `replaced` (`in_place`: in the slot of an FDE) and
    `added`, of CIEs added; the sizes of the section. `is_after_terminator`: the appended records are after a
    terminator in the middle of the section, where only readers that use the `.eh_frame_hdr` find them."""

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
    """A section after an edit. `records` are those before the edit; `is_gone` marks their entries that are overwritten.
    `data` are the bytes of the section without the addresses in new records, which are in `address_fields`. `fdes` are
    those after the edit. `refusals` are for functions that cannot be encoded, those of `replace` first; the FDEs that
    they would replace are unchanged."""

    records: Records
    data: NDArray[np.uint8]
    address_fields: tuple[AddressFields, ...]
    is_gone: NDArray[np.bool_]
    fdes: FdeAddresses
    report: EditCounts
    refusals: Refusals

    @property
    def name(self) -> str:
        """The name of the section."""
        return self.records.section.name

    @property
    def address(self) -> int:
        """The virtual address of the section before the edit."""
        return self.records.section.address

    @property
    def byte_order(self) -> ByteOrder:
        """The byte order of the section."""
        return self.records.section.byte_order

    @property
    def address_size(self) -> int:
        """The size of an address in bytes."""
        return self.records.section.address_size

    def __len__(self) -> int:
        """The size of the section in bytes."""
        return len(self.data)

    def at(self, section_address: int) -> bytes:
        """The section for a virtual address: for an address other than its own, all PC-relative fields are changed.
        Raises BuildError if a value does not fit its field, ParseError for malformed instructions."""
        check_integer(section_address, "section_address")
        section = self.records.section
        if not 0 <= section_address < 1 << 8 * section.address_size:
            raise BuildError(
                self.name,
                None,
                "section_address",
                f"{section_address:#x} is not a {8 * section.address_size}-bit address",
            )
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


@checked(
    section=Section,
    architecture=Architecture,
    replace=optional(UnwindTable),
    add=optional(UnwindTable),
    dialect=Dialect,
    bases=PointerBases,
)
def edit_cfi(
    section: Section,
    architecture: Architecture,
    drop: Sequence[int] = (),
    replace: UnwindTable | None = None,
    add: UnwindTable | None = None,
    dialect: Dialect = EH_FRAME,
    bases: PointerBases = NO_BASES,
) -> EditedCfi:
    """Edit the section of a linked file: remove the FDEs that cover a PC of `drop` (or start there), replace the FDEs
    that cover the starts of functions of `replace` by these functions, and add the functions of `add`.

    Raises ParseError for a malformed section, BuildError if a PC has no FDE, if a new function would share PCs with a
    remaining one, and for what cannot be written.
    """
    return edit_records(read_records(section, dialect, architecture, bases), drop, replace, add)


def edit_records(
    records: Records, drop: Sequence[int] = (), replace: UnwindTable | None = None, add: UnwindTable | None = None
) -> EditedCfi:
    """As `edit_cfi`, for a section that has been read."""
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
    """Which functions cover a PC of `pcs` or start at one, and which PCs are in no function."""
    order = np.argsort(pcs, kind="stable")
    last = functions.start + (np.maximum(functions.size, np.uint64(1)) - np.uint64(1))
    first = np.searchsorted(pcs, functions.start, sorter=order)
    after = np.searchsorted(pcs, last, side="right", sorter=order)
    # The sum of the functions that start minus those that end, up to each PC, is the number that cover it.
    has_some = after > first
    change = np.bincount(first[has_some], minlength=len(pcs) + 1) - np.bincount(after[has_some], minlength=len(pcs) + 1)
    missing = np.ones(len(pcs), np.bool_)
    missing[order] = np.cumsum(change)[:-1] == 0
    return has_some, missing


def _addresses(records: Records, pcs: Sequence[int]) -> NDArray[np.uint64]:
    """PCs as a column. Raises BuildError if one is not an address."""
    for pc in pcs:
        if not 0 <= pc < 1 << 8 * records.section.address_size:
            raise BuildError(
                records.section, None, "drop", f"{pc:#x} is not a {8 * records.section.address_size}-bit address"
            )
    return np.array(pcs, np.uint64)


def _refuse_missing(records: Records, record: str, pcs: NDArray[np.uint64]) -> None:
    """Raise BuildError if there are PCs without an FDE."""
    if len(pcs):
        named = ", ".join(f"{pc:#x}" for pc in pcs[:SHOWN].tolist())
        more = f" and {len(pcs) - SHOWN} more" if len(pcs) > SHOWN else ""
        raise BuildError(records.section, None, record, f"no FDE covers {named}{more}")


def _slots(functions: FunctionColumns, starts: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each start the FDE whose slot a new FDE may take: the first that starts there, or the last that starts before
    and covers it. Each slot is given to only one start; the others get NO_SLOT."""
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
    # Exact matches have precedence.
    rank = np.lexsort((np.arange(len(starts)), ~is_exact))
    _, first = np.unique(slot[rank], return_index=True)
    is_first = np.zeros(len(starts), np.bool_)
    is_first[rank[first]] = True
    return np.where(is_first, slot, NO_SLOT)


def change_records(
    records: Records, is_dropped: NDArray[np.bool_], table: UnwindTable, slot: NDArray[np.int64], replacing: int
) -> EditedCfi:
    """Remove FDEs from the records and add the functions of `table`. The first `replacing` of these replace the FDEs
    that cover their starts. `slot` is the index of the FDE whose slot each function may take, or NO_SLOT."""
    address = records.section.address
    frames = _change_records(records, is_dropped, table, slot, replacing, 4)
    try:
        frames.at(address)
    except BuildError:
        if records.section.address_size <= 4:
            raise
        # An address in an FDE of a new CIE does not fit four bytes.
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
    """As `change_records`; new CIEs have addresses of `pointer_size` bytes."""
    section, entries = records.section, records.entries
    first = int(entries.end[~entries.is_terminator].max(initial=0))
    width = min(pointer_size, section.address_size) if records.dialect is EH_FRAME else section.address_size
    new, refusals = plan_additions(records, table, slot, first, width)
    replaces = new.function < replacing
    is_replaced, _ = covering(records.functions, table.functions.start[new.function[replaces]])
    is_gone = is_dropped | is_replaced
    _refuse_shared(records, np.flatnonzero(~is_gone), table.functions, new.function)
    refuse_large(section, len(section) - first + new.end)
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
    # New records are appended after the last entry, so remaining FDEs keep their offsets.
    kept = FdeAddresses.of_functions(records.functions).select(~is_gone)
    added = FdeAddresses(new.fields.offset, new.fields.start, new.fields.length)
    fdes = FdeAddresses.concatenate([kept, added])
    return EditedCfi(records, data, address_fields, gone, fdes, report, refusals)


def _refuse_shared(
    records: Records, kept: NDArray[np.int64], functions: FunctionColumns, new: NDArray[np.int64]
) -> None:
    """Raise BuildError if a new function shares a PC with a remaining FDE."""
    old = records.functions
    kept = kept[old.size[kept] > 0]
    kept = kept[np.argsort(old.start[kept], kind="stable")]
    reach = np.maximum.accumulate(old.start[kept] + (old.size[kept] - np.uint64(1)))
    new = new[functions.size[new] > 0]
    start = functions.start[new]
    last = start + (functions.size[new] - np.uint64(1))
    # A PC is shared if one of the FDEs that start before the function's end extends to its start.
    before = np.searchsorted(old.start[kept], last, side="right") - 1
    shares = values_at(reach, before, 0) >= start
    for wrong in np.flatnonzero(shares & (before >= 0))[:1]:
        fde = kept[np.flatnonzero(reach[: before[wrong] + 1] >= start[wrong])[0]]
        reason = f"{int(start[wrong]):#x}..{int(last[wrong]):#x} overlaps the FDE of {int(old.start[fde]):#x}"
        raise BuildError(records.section, int(records.fdes.offset[fde]), "functions", reason)


def _with_space(
    records: Records, is_gone: NDArray[np.bool_], is_taken: NDArray[np.bool_], first: int, end: int
) -> NDArray[np.uint8]:
    """The section with zeroed space from `first` up to `end` and in the slots that are taken. Other removed FDEs become
    CIEs."""
    old = np.frombuffer(records.section.data, np.uint8)
    data = np.concatenate([old[:first], np.zeros(end - first, np.uint8), old[first:]])
    begin, size = records.fdes.offset[is_gone], (records.fdes.end - records.fdes.offset)[is_gone]
    data[ranges(begin, size)] = 0
    blank = np.frombuffer(_unused_cie(records), np.uint8)
    left = np.flatnonzero(is_gone & ~is_taken)
    offset, size = records.fdes.offset[left], (records.fdes.end - records.fdes.offset)[left]
    for small in np.flatnonzero(size < len(blank))[:1]:
        reason = f"has {size[small]} bytes, too few for the CIE of {len(blank)} bytes that would replace it"
        raise BuildError(records.section, int(offset[small]), f"FDE[{left[small]}]", reason)
    data[offset[:, None] + np.arange(len(blank))] = blank
    put_integers(data, offset, size - LENGTH_BYTES, LENGTH_BYTES, records.section.byte_order)
    return data


def _unused_cie(records: Records) -> bytes:
    """A CIE without effect, which DW_CFA_nop can extend to any size. 32-bit DWARF, whose CIE id all readers know."""
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
        return_address_register=default_return_column(records.architecture),
        augmentation_data=None,
        initial_instructions=b"",
    )
    return cfi_sections.build_entry(cie, records.dialect, records.section.byte_order, FdeFormat(size))
