"""Move records of call frame information: find their PC-relative fields and update them.

Strategy: the CIEs define which fields are PC-relative; they are found as columns. When a field moves by n bytes, n is
subtracted from the stored value. Nothing else changes, so a move by 0 bytes changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.cfi import Effect
from ....schemas.data_classes import dataclass
from ....schemas.pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_MASK, FORMAT_SIZES
from ....schemas.section import BuildError, Section
from ...arch.table import default_return_column
from ...arrays import group_numbers, integers_at, put_integers, ranges
from ...distinct import intern
from ...table.model import FunctionFlag
from ..dump.entries import decode, with_twins
from ..interpreter import InstructionRanges
from ..layout import encoded_sizes, is_beyond
from ..records import Records, cie_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEB_FORMATS = [form for form, size in FORMAT_SIZES.items() if size is None]


@dataclass(frozen=True, slots=True, eq=False)
class Relative:
    """PC-relative fields, one element each: `offset`, i64, in the section; `encoding`, u8, DW_EH_PE; `address_size`,
    u8, in bytes. `name` is for messages."""

    name: str
    offset: NDArray[np.int64]
    encoding: NDArray[np.uint8]
    address_size: NDArray[np.uint8]

    def select(self, which: NDArray[np.bool_]) -> Relative:
        """Some of the fields."""
        return replace(
            self,
            offset=self.offset[which],
            encoding=self.encoding[which],
            address_size=self.address_size[which],
        )


def relative_fields(records: Records) -> tuple[Relative, ...]:
    """All PC-relative fields of the records, except stored zeros that mean "none".

    The instructions of CIEs without FDEs are not examined. Raises ParseError for malformed records."""
    fdes, layout, of_fde = records.fdes, records.cies.columns, records.cie
    width = layout.address_size[of_fde]
    has_lsda = records.functions.flags & FunctionFlag.HAS_LSDA > 0
    start = fdes.body + layout.segment_size[of_fde]
    found = (
        Relative("FDE.initial_location", start, layout.address_encoding[of_fde], width),
        Relative("FDE.lsda", records.data, layout.lsda_encoding[of_fde], width).select(has_lsda),
        _personalities(records),
        _set_locations(records),
    )
    return tuple(one.select(_is_relative(one.encoding)) for one in found)


def _is_relative(encoding: NDArray[np.uint8]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = encoding & APPLICATION_MASK == DW_EH_PE.pcrel
    return found


def _personalities(records: Records) -> Relative:
    """The personality fields of all CIEs, used or not. The encoding is DW_EH_PE_omit if zero is stored."""
    entries = records.entries
    all_cies = entries.select(entries.is_cie)
    cies = cie_columns(
        records.section,
        records.dialect,
        all_cies.offset,
        all_cies.end,
        records.bases,
        default_return_column(records.architecture),
    )
    found = [
        (index, augmentation.personality_offset)
        for index, (_, augmentation) in enumerate(cies.parsed)
        if augmentation is not None
    ]
    which, offset = np.array(found, np.int64).reshape(-1, 2).T
    columns = cies.columns.select(which)
    return Relative("CIE.personality", offset, columns.personality_encoding, columns.address_size)


def _set_locations(records: Records) -> Relative:
    """The operands of DW_CFA_set_loc, which have the encoding of FDE addresses."""
    section, layout = records.section, records.cies.columns
    count = len(layout.start)
    begin = np.concatenate([records.instructions, layout.start])
    end = np.concatenate([records.fdes.end, layout.end])
    cie = np.concatenate([records.cie, np.arange(count)])
    index = np.concatenate([np.arange(len(records.cie)), np.arange(count)])
    is_fde = np.arange(len(cie)) < len(records.cie)
    some = np.flatnonzero(_is_relative(layout.address_encoding)[cie] & (begin < end))
    begin, end, cie, index, is_fde = begin[some], end[some], cie[some], index[some], is_fde[some]
    run, first = intern(np.frombuffer(section.data, np.uint8), begin, end, cie)
    # The instructions of a CIE itself run on its twin.
    location, twin = np.zeros(len(cie), np.uint64), np.where(is_fde, cie, cie + count)
    streams = InstructionRanges(begin, end, location, twin, index).select(first)
    decoded = decode(section, with_twins(layout), streams)
    found = np.flatnonzero(decoded.has_effect(Effect.SET_LOCATION))
    # Each stream of a run with such an operand has it at the same offset, after the opcode.
    of_run = np.searchsorted(decoded.first_of, found, side="right") - 1
    inside = decoded.begin[found] + 1 - begin[first[of_run]]
    by_run = np.argsort(run, kind="stable")
    users, before = np.bincount(run, minlength=len(first)), np.searchsorted(run[by_run], of_run)
    each = group_numbers(users[of_run])
    stream = by_run[ranges(before, users[of_run])]
    which = cie[stream]
    return Relative(
        "DW_CFA_set_loc", begin[stream] + inside[each], layout.address_encoding[which], layout.address_size[which]
    )


def refuse_unmovable(records: Records, fields: Iterable[Relative], delta: int) -> None:
    """Raise BuildError if a move by `delta` bytes may change the size of LEB128 numbers or of padding of addresses."""
    section = records.section
    for one in fields:
        for wrong in np.flatnonzero(np.isin(one.encoding & FORMAT_MASK, _LEB_FORMATS))[:1].tolist():
            reason = "is a PC-relative LEB128 number, whose size would change"
            raise BuildError(section, int(one.offset[wrong]), one.name, reason)
    layout = records.cies.columns
    encodings = (layout.address_encoding, layout.lsda_encoding, layout.personality_encoding)
    for encoding in encodings:
        is_aligned = encoding & APPLICATION_MASK == DW_EH_PE.aligned
        for cie in np.flatnonzero(is_aligned & (delta % layout.address_size.astype(np.int64) > 0))[:1].tolist():
            reason = f"aligns addresses to their size, and a move by {delta:#x} bytes is not a multiple of it"
            raise BuildError(section, int(records.cie_offset[cie]), f"CIE[{cie}].augmentation", reason)


def add_to_fields(
    records: Records, fields: Iterable[Relative], data: NDArray[np.uint8], moved_by: int, shift: NDArray[np.int64]
) -> None:
    """Update fields of moved records so that they encode the same addresses. `moved_by` is the increase of the
    section's address in bytes; `shift`, i64, the increase of the offset of each entry, whose copy is in `data`.

    Raises BuildError if a value does not fit its field.
    """
    for one in fields:
        moved = shift[np.searchsorted(records.entries.offset, one.offset, side="right") - 1]
        for encoding, width in sorted(set(zip(one.encoding.tolist(), one.address_size.tolist(), strict=True))):
            which = (one.encoding == encoding) & (one.address_size == width)
            _add(records.section, one.select(which), data, moved_by, moved[which])


def _add(section: Section, some: Relative, data: NDArray[np.uint8], moved_by: int, shift: NDArray[np.int64]) -> None:
    """As `add_to_fields`, for fields of one encoding and address size."""
    encoding, width = some.encoding[:1], int(some.address_size[0])
    size, is_signed = int(encoded_sizes(encoding, width)[0]), bool(encoding[0] & DW_EH_PE.signed)
    stored = integers_at(np.frombuffer(section.data, np.uint8), some.offset, size, section.byte_order, is_signed)
    values = stored - (shift.astype(np.uint64) + np.uint64(moved_by % (1 << 64)))
    far = np.flatnonzero(is_beyond(values, size, is_signed))
    # Fields of the size of an address wrap around.
    if len(far) and size < width:
        reason = f"the offset from the record's new address does not fit {size} bytes"
        raise BuildError(section, int(some.offset[far[0]]), some.name, reason)
    put_integers(data, some.offset + shift, values, size, section.byte_order)
