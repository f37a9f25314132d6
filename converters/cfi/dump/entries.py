"""The entries of an `.eh_frame` or `.debug_frame` as columns: what a dump shows of the records themselves.

Strategy: the table's readers, asked for every entry of the section in its order. CIEs and FDEs alike have a stream of
instructions; equal streams of equal CIEs are one run, which is decoded, interpreted and made into text once. A CIE's
own stream starts from nothing: it runs on a twin of the CIE that has no instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....schemas.cfi import NO_EFFECTS, Cie, Dialect, Effect
from ....schemas.section import Section
from ....schemas.wire import LENGTH_DWARF64, DwarfFormat
from ...arrays import group_numbers, holds_any
from ...kernels import engine, views
from ...kernels.calls import reader_of, refuse
from ...table.distinct import intern
from ..interpreter import CieColumns, InstructionRanges, instruction_table, separate_absolute
from ..records import cie_columns, numbers_of_cies, read_functions, scan

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Instructions:
    """Instructions of runs: those of run r are first_of[r] up to first_of[r + 1].

    `cie` i64, whose factors and sizes apply; `opcode` u8, `DW_CFA`; `begin` and `end` i64, section offsets; `first` and
    `second` i64, the operands with factors applied (a block's is its size; the block is at the end); `pc` u64, that
    behind it, in bytes from the start of the function.
    """

    first_of: NDArray[np.int64]
    cie: NDArray[np.int64]
    opcode: NDArray[np.uint8]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    pc: NDArray[np.uint64]

    def has_effect(self, *effects: Effect) -> NDArray[np.bool_]:
        """Which of them have one of these effects."""
        return np.isin(instruction_table(NO_EFFECTS)[:, 0], effects)[self.opcode]


@dataclass(frozen=True, slots=True, eq=False)
class DecodedEntries:
    """The entries of a section, in its order: CIEs, FDEs, terminators.

    `offset` and `end` i64, section offsets; `is_64`, the DWARF format; `is_fde`; `cie` i64, the index in `cies` of its
    CIE, a CIE's own, -1 of a terminator; `start`, `size`, `segment` u64, of an FDE; `data` i64, the section offset of
    the augmentation data, and `instructions` i64 of what follows it; `run` i64, -1 of a terminator. `layout` has the
    CIEs' columns, behind them those of their twins without instructions; `streams` is a stream a run, which CIEs and
    FDEs never share.
    """

    section: Section
    dialect: Dialect
    offset: NDArray[np.int64]
    end: NDArray[np.int64]
    is_64: NDArray[np.bool_]
    is_fde: NDArray[np.bool_]
    cie: NDArray[np.int64]
    start: NDArray[np.uint64]
    size: NDArray[np.uint64]
    segment: NDArray[np.uint64]
    data: NDArray[np.int64]
    instructions: NDArray[np.int64]
    run: NDArray[np.int64]
    cies: tuple[Cie, ...]
    cie_offset: NDArray[np.int64]
    layout: CieColumns
    streams: InstructionRanges
    decoded: Instructions

    @property
    def is_terminator(self) -> NDArray[np.bool_]:
        """Which entries are terminators."""
        return self.cie < 0

    def at(self, pcs: NDArray[np.uint64] | None) -> NDArray[np.int64]:
        """The FDEs that cover one of some PCs, and their CIEs; None: every entry."""
        if pcs is None:
            return np.arange(len(self.offset))
        is_fde = self.is_fde & holds_any(self.start, self.size, pcs)
        is_cie = ~self.is_fde & ~self.is_terminator & np.isin(self.cie, self.cie[is_fde])
        return np.flatnonzero(is_fde | is_cie)

    def address_size(self, entry: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes of an address in some entries."""
        return self.layout.address_size[self.cie[entry]].astype(np.int64)

    def segment_size(self, entry: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes of a segment selector in some entries."""
        return self.layout.segment_size[self.cie[entry]].astype(np.int64)

    def id_offset(self, entry: NDArray[np.int64]) -> NDArray[np.int64]:
        """The section offset behind the length of some entries."""
        return self.offset[entry] + np.where(self.is_64[entry], 12, 4)

    def length(self, entry: NDArray[np.int64]) -> NDArray[np.int64]:
        """The length of some entries, as stored."""
        return self.end[entry] - self.id_offset(entry)

    def id_size(self, entry: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes of the id of some entries."""
        sizes = [self.dialect.size_of_id(form) for form in (DwarfFormat.DWARF32, DwarfFormat.DWARF64)]
        return np.array(sizes)[self.is_64[entry].astype(np.intp)]

    def entry_id(self, entry: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The id or CIE pointer of some entries, as stored."""
        target = self.cie_offset[self.cie[entry]]
        pointer = (self.id_offset(entry) - target if self.dialect.relative else target).astype(np.uint64)
        ids = [self.dialect.cie_ids[form] for form in (DwarfFormat.DWARF32, DwarfFormat.DWARF64)]
        return np.where(self.is_fde[entry], pointer, np.array(ids, np.uint64)[self.is_64[entry].astype(np.intp)])


def decode_entries(section: Section, dialect: Dialect) -> DecodedEntries:
    """Read all entries. Raises ParseError; an augmentation that is not known is none, as for readelf."""
    found = scan(section, dialect)
    is_cie, is_fde = found.is_cie, found.is_fde
    all_cies, fdes = found.select(is_cie), found.select(is_fde)
    cies = cie_columns(section, dialect, all_cies.offset, all_cies.end)
    of_fdes = numbers_of_cies(section, all_cies.offset, fdes)
    functions, data, instructions = read_functions(section, fdes, of_fdes, cies)
    parsed = tuple(one for one, _ in cies.parsed if isinstance(one, Cie))  # which all are: none is opaque
    data_sizes = [len(one.augmentation_data.data) if one.augmentation_data else 0 for one in parsed]

    spread = partial(_spread, is_cie, is_fde)
    layout = with_twins(cies.columns)
    cie = spread(np.arange(len(cies.columns)), of_fdes, "i8")
    begin = spread(cies.columns.start, instructions, "i8")
    start = spread(0, functions.start, "u8")
    index = np.where(is_fde, np.cumsum(is_fde), np.cumsum(is_cie)) - 1
    streams = InstructionRanges(begin, found.end, start, np.where(is_fde, cie, cie + len(cies.columns)), index)
    run, streams, decoded = _runs(section, layout, streams, np.flatnonzero(cie >= 0))
    is_64 = _is_64(section, found.offset)
    return DecodedEntries(
        section=section,
        dialect=dialect,
        offset=found.offset,
        end=found.end,
        is_64=is_64,
        is_fde=is_fde,
        cie=cie,
        start=start,
        size=spread(0, functions.size, "u8"),
        segment=spread(0, functions.segment, "u8"),
        data=spread(cies.columns.start - np.array(data_sizes, np.int64), data, "i8"),
        instructions=begin,
        run=run,
        cies=parsed,
        cie_offset=all_cies.offset,
        layout=layout,
        streams=streams,
        decoded=decoded,
    )


def _spread(
    is_cie: NDArray[np.bool_], is_fde: NDArray[np.bool_], of_cies: object, of_fdes: object, code: str
) -> NDArray[Any]:
    """A column of all entries, from one of the CIEs and one of the FDEs; of a terminator 0, or -1 if signed."""
    column = np.full(len(is_cie), -1 if code == "i8" else 0, code)
    column[is_cie], column[is_fde] = of_cies, of_fdes
    return column


def _is_64(section: Section, offset: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which entries have a 64-bit length."""
    data = np.frombuffer(section.data, np.uint8)
    escape = LENGTH_DWARF64.to_bytes(4, section.byte_order)
    found = np.ones(len(offset), np.bool_)
    for index, byte in enumerate(escape):
        found &= data[offset + index] == byte
    return found


def with_twins(cies: CieColumns) -> CieColumns:
    """The CIEs, then each once more without instructions and of another kind: its own instructions run on that."""
    return CieColumns.concatenate([cies, replace(cies, kind=~cies.kind, end=cies.start)])


def _runs(
    section: Section,
    layout: CieColumns,
    ranges: InstructionRanges,
    present: NDArray[np.int64],
) -> tuple[NDArray[np.int64], InstructionRanges, Instructions]:
    """The run of each entry (-1 of one that is not `present`), the runs' streams, and these decoded."""
    streams = ranges.select(present)
    kind = layout.kind[streams.cie]
    number, first = intern(np.frombuffer(section.data, np.uint8), streams.start, streams.end, kind)
    run = number.astype(np.int64)
    decoded = decode(section, layout, streams.select(first))
    moves = decoded.has_effect(Effect.SET_LOCATION)
    if moves.any():
        owner = group_numbers(np.diff(decoded.first_of))
        is_absolute = np.bincount(owner[moves], minlength=len(first)) > 0
        run, own = separate_absolute(run, first, is_absolute)
        first = np.concatenate([first, own])
        decoded = decode(section, layout, streams.select(first))
    run_of_entry = np.full(len(ranges.start), -1, np.int64)
    run_of_entry[present] = run
    return run_of_entry, streams.select(first), decoded


def decode(section: Section, layout: CieColumns, streams: InstructionRanges) -> Instructions:
    """The instructions of some streams, whose CIEs have twins."""
    reader = reader_of(section)
    last = np.zeros(len(streams.start) + 1, np.int64)
    # An element a byte, as no instruction is shorter; what is not touched costs no memory.
    room = int((streams.end - streams.start).sum())
    opcode, pc = np.empty(room, np.uint8), np.empty(room, np.uint64)
    begin, end, first, second = (np.empty(room, np.int64) for _ in range(4))
    columns = views(instruction_table(NO_EFFECTS), opcode, begin, end, first, second, pc)
    found = engine.cfi.decoder.Instructions(*columns)
    done = engine.cfi.decoder.decode(reader, layout.for_kernels(), streams.for_kernels(), *views(last[1:]), found)
    if reader.fault:
        kind = "CIE" if streams.cie[done] >= len(layout.start) // 2 else "FDE"
        refuse(section, f"{kind}[{streams.index[done]}].instructions", reader)
    count = int(last[-1])
    cie = np.repeat(streams.cie, np.diff(last))
    ranges, operands = (begin[:count], end[:count]), (first[:count], second[:count])
    return Instructions(last, cie, opcode[:count], *ranges, *operands, pc[:count])
