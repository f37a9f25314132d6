"""Call frame information into the table: `.eh_frame` and `.debug_frame` (DWARF5 6.4; LSB Core, .eh_frame).

Strategy: a kernel walks the entries; the few CIEs are parsed by the reference engine, once for equal
bytes; a kernel reads all FDEs by what their CIEs say; FDEs with equal instructions and equal CIEs become
one run, which is interpreted once. Rows at or past a function's end are cut afterwards, by giving such
functions a shorter run over the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from ..schemas.cfi import Dialect
from ..schemas.pointers import NO_BASES, PointerBases
from ..schemas.section import ParseError, Section
from ..schemas.wire import DwarfFormat
from .arch.table import Architecture
from .cies import Cies, check_augmentation, cie_columns
from .interning import intern
from .kernels import engine, views
from .kernels.cfi.protocol import EntryMark
from .runs import RowBuilder, Streams, cut_runs, reader_of, refuse
from .unwind import FunctionColumns, FunctionFlag, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Section offsets, an element an entry: its start, what follows its id, its end, its CIE (below 0: no FDE)."""

    offset: NDArray[np.int64]
    body: NDArray[np.int64]
    end: NDArray[np.int64]
    cie: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """The records of a section. `entries` are all, `fdes` the FDEs of them; of each FDE `cie` i64 is the index of its
    CIE in `cies`, those that FDEs point to, which stand at the section offsets `cie_offset`; `functions` its addresses,
    `data` and `instructions` i64 the section offsets of its augmentation data and of what follows that."""

    section: Section
    dialect: Dialect
    architecture: Architecture
    bases: PointerBases
    entries: Entries
    fdes: Entries
    cies: Cies
    cie_offset: NDArray[np.int64]
    cie: NDArray[np.int64]
    functions: FunctionColumns
    data: NDArray[np.int64]
    instructions: NDArray[np.int64]


def table_from_cfi(
    section: Section,
    dialect: Dialect,
    architecture: Architecture,
    load_address: int = 0,
    bases: PointerBases = NO_BASES,
) -> UnwindTable:
    """Read all functions of an `.eh_frame` or `.debug_frame` section. Raises ParseError.

    An entry that cannot be read as the text says is an error, not a gap: a lying length or pointer, an unknown
    opcode or version, DW_CFA_restore_state without a state to restore. Where a CIE's augmentation is unknown its
    functions have their addresses and a row without rules. `bases` are for encoded addresses.
    """
    return table_of_records(read_records(section, dialect, architecture, bases), load_address)


def read_records(
    section: Section, dialect: Dialect, architecture: Architecture, bases: PointerBases = NO_BASES
) -> Records:
    """As `table_from_cfi`, but for instructions, which are not looked at."""
    found = scan(section, dialect)
    is_fde = (found.cie >= 0) | (found.cie == EntryMark.CIE_OUTSIDE)
    fdes = Entries(found.offset[is_fde], found.body[is_fde], found.end[is_fde], found.cie[is_fde])
    cies, cie_offset, cie = _read_cies(section, dialect, found, fdes, architecture, bases)
    functions, data, instructions = read_functions(section, fdes, cie, cies, bases)
    _check_ends(section, fdes, functions, cies.columns.address_size[cie])
    return Records(
        section, dialect, architecture, bases, found, fdes, cies, cie_offset, cie, functions, data, instructions
    )


def table_of_records(records: Records, load_address: int = 0) -> UnwindTable:
    """The table that they make. Raises ParseError."""
    section, architecture, bases = records.section, records.architecture, records.bases
    fdes, cies, cie = records.fdes, records.cies, records.cie
    functions, instructions = records.functions, records.instructions
    run, first = intern(np.frombuffer(section.data, np.uint8), instructions, fdes.end, cies.kind[cie])
    streams = Streams(instructions, fdes.end, functions.start, cie, np.arange(len(cie)))
    builder = RowBuilder(section, cies.columns, architecture.signs_return_addresses, bases)
    last_row, is_absolute = builder.interpret(streams.select(first))
    run_rows = np.concatenate([np.zeros(1, np.int64), last_row])
    # DW_CFA_set_loc names an address: such a run serves the one function that it was interpreted for.
    own = np.flatnonzero(is_absolute[run] & (first[run] != np.arange(len(run))))
    if len(own):
        run[own] = len(first) + np.arange(len(own), dtype=np.uint32)
        run_rows = np.concatenate([run_rows, builder.interpret(streams.select(own))[0]])
    run, run_rows, repeated = cut_runs(section, run, functions.size, run_rows, builder.rows().offset)
    builder.repeat_rows(repeated)
    columns = {field.name: getattr(functions, field.name) for field in fields(FunctionColumns)} | {"run": run}
    return UnwindTable(
        architecture=architecture,
        byte_order=section.byte_order,
        functions=FunctionColumns(**columns),
        run_rows=run_rows,
        rows=builder.rows(),
        rules=builder.rules(),
        expressions=builder.expressions(),
        load_address=load_address,
        source=section.name,
    )


def scan(section: Section, dialect: Dialect) -> Entries:
    """Walk the entries of a section."""
    capacity = len(section) // 4 + 1
    columns = [np.empty(capacity, np.int64) for _ in range(4)]
    reader = reader_of(section)
    count = engine.cfi.entries.scan(
        reader,
        dialect.id_size or 0,
        int(dialect.relative),
        dialect.cie_ids[DwarfFormat.DWARF32],
        dialect.cie_ids[DwarfFormat.DWARF64],
        *views(*columns),
    )
    if reader.fault:
        refuse(section, f"entry[{count}].length", reader)
    return Entries(*(column[:count] for column in columns))


def _read_cies(
    section: Section, dialect: Dialect, found: Entries, fdes: Entries, architecture: Architecture, bases: PointerBases
) -> tuple[Cies, NDArray[np.int64], NDArray[np.int64]]:
    """Parse the CIEs that FDEs point to; with their offsets and the index of each FDE's."""
    is_cie = found.cie == EntryMark.IS_CIE
    all_offsets = found.offset[is_cie]
    number = numbers_of_cies(section, all_offsets, fdes)
    is_used = np.zeros(len(all_offsets), np.bool_)
    is_used[number] = True
    offsets, ends = all_offsets[is_used], found.end[is_cie][is_used]
    cies = cie_columns(section, dialect, offsets, ends, bases, architecture.return_address)
    for index, offset in enumerate(offsets.tolist()):
        check_augmentation(section, offset, f"CIE[{index}]", cies.parsed[index])
    return cies, offsets, (np.cumsum(is_used) - 1)[number]


def numbers_of_cies(section: Section, offsets: NDArray[np.int64], fdes: Entries) -> NDArray[np.int64]:
    """For each FDE the number of its CIE among those at `offsets`. Raises ParseError where it is none of them."""
    number = np.searchsorted(offsets, fdes.cie)
    wrong = np.flatnonzero(np.append(offsets, -1)[number] != fdes.cie)
    if len(wrong):
        fde, target = int(wrong[0]), int(fdes.cie[wrong[0]])
        said = f"points to {target:#x}, which is not a CIE" if target >= 0 else "points to outside the section"
        raise ParseError(section, int(fdes.offset[fde]), f"FDE[{fde}].cie_pointer", said)
    return number


def read_functions(
    section: Section, fdes: Entries, cie: NDArray[np.int64], cies: Cies, bases: PointerBases = NO_BASES
) -> tuple[FunctionColumns, NDArray[np.int64], NDArray[np.int64]]:
    """The functions, with `run` still to come, and the section offsets of their augmentation data and instructions."""
    count = len(cie)
    start, size, segment, lsda = (np.empty(count, np.uint64) for _ in range(4))
    has_lsda = np.empty(count, np.uint8)
    data, instructions = np.empty(count, np.int64), np.empty(count, np.int64)
    layout = cies.columns
    reader = reader_of(section, bases=bases)
    done = engine.cfi.entries.functions(
        reader,
        *views(fdes.body, fdes.end, cie, layout.address_encoding, layout.lsda_encoding, layout.is_augmented),
        *views(layout.address_size, layout.segment_size, start, size, segment, lsda, has_lsda, data, instructions),
    )
    if reader.fault:
        refuse(section, f"FDE[{done}]", reader)
    is_opaque = (cies.flags & FunctionFlag.UNKNOWN_AUGMENTATION > 0)[cie]
    instructions[is_opaque] = fdes.end[is_opaque]
    functions = FunctionColumns(
        start=start,
        size=size,
        run=np.zeros(count, np.uint32),
        section=np.zeros(count, np.uint32),
        segment=segment,
        return_column=cies.return_column[cie],
        repetition=np.zeros(count, np.uint16),
        flags=cies.flags[cie] | has_lsda * np.uint8(FunctionFlag.HAS_LSDA),
        personality_encoding=cies.personality_encoding[cie],
        personality=cies.personality[cie],
        lsda=lsda,
        origin=fdes.offset.astype(np.uint64),
    )
    return functions, data, instructions


def _check_ends(section: Section, fdes: Entries, functions: FunctionColumns, address_size: NDArray[np.uint8]) -> None:
    """Refuse a function that goes on where addresses end."""
    start, size = functions.start, functions.size
    top = (np.uint64(1) << (address_size.astype(np.uint64) * np.uint64(8) - np.uint64(1))) * np.uint64(2)
    # A top of 2**64 is 0 here; such an end would not fit the columns.
    past = np.flatnonzero(size > top - np.uint64(1) - start + (top > 0))
    if len(past):
        reason = f"{int(size[past[0]]):#x} bytes from {int(start[past[0]]):#x} reach past the address space"
        raise ParseError(section, int(fdes.offset[past[0]]), f"FDE[{past[0]}].address_range", reason)
