"""Read the entries of an `.eh_frame` or `.debug_frame` into columns for a dump.

Strategy: the functions that read the table read every entry of the section, in order. CIEs and FDEs both have a stream
of instructions; equal streams of equal CIEs are one run, which is decoded, interpreted and formatted once. The stream
of a CIE itself starts from an empty state: it is interpreted with a twin of the CIE that has no instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from ....schemas.cfi import NO_EFFECTS, Cie, Dialect, Effect
from ....schemas.data_classes import dataclass
from ....schemas.section import Section
from ....schemas.wire import LENGTH_DWARF64, DwarfFormat
from ...arrays import group_numbers, holds_any
from ...distinct import intern
from ...kernels import engine, views
from ...kernels.calls import reader_of, refuse
from ...table.lookup import ChosenPcs
from ..interpreter import CieColumns, InstructionRanges, instruction_table, separate_absolute
from ..records import cie_columns, numbers_of_cies, read_functions, scan

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Decoded(Protocol):
    """What the instructions of streams are decoded to."""

    def is_absolute(self) -> NDArray[np.bool_]:
        """Which streams contain DW_CFA_set_loc, an absolute address."""


D = TypeVar("D", bound=Decoded)
# From a section, CIEs with twins, and streams.
Decode = Callable[[Section, CieColumns, InstructionRanges], D]


@dataclass(frozen=True, slots=True, eq=False)
class Instructions:
    """The instructions of runs: those of run r are first_of[r] up to first_of[r + 1].

    `cie`: i64, the index of the CIE whose factors and sizes apply. `opcode`: u8, `DW_CFA`. `begin` and `end`: i64,
    section offsets. `first` and `second`: i64, the operands with factors applied; that of a block is its size, and the
    block ends at `end`. `pc`: u64, the PC after the instruction, relative to the function's start.
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
        """Which instructions have one of these effects."""
        return np.isin(instruction_table(NO_EFFECTS)[:, 0], effects)[self.opcode]

    def is_absolute(self) -> NDArray[np.bool_]:
        """Which streams contain DW_CFA_set_loc, an absolute address."""
        owner = group_numbers(np.diff(self.first_of))
        return np.bincount(owner[self.has_effect(Effect.SET_LOCATION)], minlength=len(self.first_of) - 1) > 0


@dataclass(frozen=True, slots=True, eq=False)
class DecodedEntries(Generic[D]):
    """The entries of a section, in order: CIEs, FDEs, terminators.

    `offset` and `end`: i64, section offsets. `is_64`: whether it is 64-bit DWARF. `cie`: i64, the index in `cies` of an
    FDE's CIE or of the CIE itself, -1 for a terminator. `start`, `size` and `segment`: u64, of an FDE's function.
    `data` and `instructions`: i64, the section offsets of the augmentation data and of the instructions. `run`: i64, -1
    for a terminator. `layout` has the columns of the CIEs, followed by those of their twins without instructions.
    `streams` has one stream per run, `decoded` the instructions of each; CIEs and FDEs never share a run.
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
    decoded: D

    @property
    def is_terminator(self) -> NDArray[np.bool_]:
        """Which entries are terminators."""
        return self.cie < 0

    def at(self, pcs: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The FDEs that cover one of these PCs, and their CIEs."""
        is_fde = self.is_fde & holds_any(self.start, self.size, pcs)
        is_cie = ~self.is_fde & ~self.is_terminator & np.isin(self.cie, self.cie[is_fde])
        return np.flatnonzero(is_fde | is_cie)

    def address_size(self, entry: NDArray[np.int64]) -> NDArray[np.int64]:
        """The size of an address in these entries."""
        return self.layout.address_size[self.cie[entry]].astype(np.int64)

    def segment_size(self, entry: NDArray[np.int64]) -> NDArray[np.int64]:
        """The size of a segment selector in these entries."""
        return self.layout.segment_size[self.cie[entry]].astype(np.int64)

    def id_offset(self, entry: NDArray[np.int64]) -> NDArray[np.int64]:
        """The section offset after the length of these entries."""
        return self.offset[entry] + np.where(self.is_64[entry], 12, 4)

    def length(self, entry: NDArray[np.int64]) -> NDArray[np.int64]:
        """The length of these entries, as stored."""
        return self.end[entry] - self.id_offset(entry)

    def id_size(self, entry: NDArray[np.int64]) -> NDArray[np.int64]:
        """The size of the id of these entries."""
        sizes = [self.dialect.size_of_id(form) for form in (DwarfFormat.DWARF32, DwarfFormat.DWARF64)]
        return np.array(sizes)[self.is_64[entry].astype(np.intp)]

    def entry_id(self, entry: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The id or CIE pointer of these entries, as stored."""
        target = self.cie_offset[self.cie[entry]]
        pointer = (self.id_offset(entry) - target if self.dialect.relative else target).astype(np.uint64)
        ids = [self.dialect.cie_ids[form] for form in (DwarfFormat.DWARF32, DwarfFormat.DWARF64)]
        return np.where(self.is_fde[entry], pointer, np.array(ids, np.uint64)[self.is_64[entry].astype(np.intp)])


def entries_at(entries: DecodedEntries[D], dialect: Dialect, at: ChosenPcs | None) -> NDArray[np.int64]:
    """Which entries to show: all, or those for some PCs."""
    if at is None:
        return np.arange(len(entries.offset))
    return entries.at(at.pcs) if at.located is None else decode_entries(at.located, dialect).at(at.pcs)


def decode_entries(section: Section, dialect: Dialect) -> DecodedEntries[Instructions]:
    """Read all entries, with their instructions as columns. Raises ParseError."""
    return read_entries(section, dialect, decode)


def read_entries(section: Section, dialect: Dialect, decode: Decode[D]) -> DecodedEntries[D]:
    """Read all entries, and `decode` their instructions. Raises ParseError. An unknown augmentation is read as if there
    were none, as in readelf."""
    found = scan(section, dialect)
    is_cie, is_fde = found.is_cie, found.is_fde
    all_cies, fdes = found.select(is_cie), found.select(is_fde)
    cies = cie_columns(section, dialect, all_cies.offset, all_cies.end)
    of_fdes = numbers_of_cies(section, all_cies.offset, fdes)
    functions, data, instructions = read_functions(section, fdes, of_fdes, cies)
    parsed = tuple(one for one, _ in cies.parsed if isinstance(one, Cie))  # all of them: none is opaque
    data_sizes = [len(one.augmentation_data.data) if one.augmentation_data else 0 for one in parsed]

    spread = partial(_spread, is_cie, is_fde)
    layout = with_twins(cies.columns)
    cie = spread(np.arange(len(cies.columns)), of_fdes, "i8")
    begin = spread(cies.columns.start, instructions, "i8")
    start = spread(0, functions.start, "u8")
    index = np.where(is_fde, np.cumsum(is_fde), np.cumsum(is_cie)) - 1
    streams = InstructionRanges(begin, found.end, start, np.where(is_fde, cie, cie + len(cies.columns)), index)
    run, streams, decoded = _runs(section, layout, streams, np.flatnonzero(cie >= 0), decode)
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
    """A column of all entries, from one of the CIEs and one of the FDEs; for a terminator 0, or -1 if signed."""
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
    """The CIEs, followed by a twin of each without instructions and of another kind, for the CIE's own stream."""
    return CieColumns.concatenate([cies, replace(cies, kind=~cies.kind, end=cies.start)])


def _runs(
    section: Section,
    layout: CieColumns,
    ranges: InstructionRanges,
    present: NDArray[np.int64],
    decode: Decode[D],
) -> tuple[NDArray[np.int64], InstructionRanges, D]:
    """The run of each entry (-1 for one that is not `present`), the streams of the runs, and their instructions."""
    streams = ranges.select(present)
    kind = layout.kind[streams.cie]
    number, first = intern(np.frombuffer(section.data, np.uint8), streams.start, streams.end, kind)
    run = number.astype(np.int64)
    decoded = decode(section, layout, streams.select(first))
    is_absolute = decoded.is_absolute()
    if is_absolute.any():
        run, own = separate_absolute(run, first, is_absolute)
        first = np.concatenate([first, own])
        decoded = decode(section, layout, streams.select(first))
    run_of_entry = np.full(len(ranges.start), -1, np.int64)
    run_of_entry[present] = run
    return run_of_entry, streams.select(first), decoded


def record_of(layout: CieColumns, streams: InstructionRanges, stream: int) -> str:
    """The path of a stream's record, for messages."""
    kind = "CIE" if streams.cie[stream] >= len(layout.start) // 2 else "FDE"
    return f"{kind}[{streams.index[stream]}].instructions"


def decode(section: Section, layout: CieColumns, streams: InstructionRanges) -> Instructions:
    """Decode the instructions of streams; `layout` is that of CIEs with twins."""
    reader = reader_of(section)
    last = np.zeros(len(streams.start) + 1, np.int64)
    # One element per byte, the size of the shortest instruction. Untouched pages take no memory.
    capacity = int((streams.end - streams.start).sum())
    opcode, pc = np.empty(capacity, np.uint8), np.empty(capacity, np.uint64)
    begin, end, first, second = (np.empty(capacity, np.int64) for _ in range(4))
    columns = views(instruction_table(NO_EFFECTS), opcode, begin, end, first, second, pc)
    found = engine.cfi.decoder.Instructions(*columns)
    done = engine.cfi.decoder.decode(reader, layout.for_kernels(), streams.for_kernels(), *views(last[1:]), found)
    if reader.fault:
        refuse(section, record_of(layout, streams, done), reader)
    count = int(last[-1])
    cie = np.repeat(streams.cie, np.diff(last))
    ranges, operands = (begin[:count], end[:count]), (first[:count], second[:count])
    return Instructions(last, cie, opcode[:count], *ranges, *operands, pc[:count])
