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

from ..schemas.callframe import Cie, Dialect
from ..schemas.pointers import DW_EH_PE, PointerBases, resolve
from ..schemas.section import ParseError, Section
from ..schemas.wire import DwarfFormat
from .arch import Architecture
from .interning import intern
from .kernels import engine, views
from .kernels.protocol import EntryMark
from .rules import MAX_REGISTER
from .runs import CieColumns, RowBuilder, Streams, cut_runs, reader_of, refuse
from .unwind import FunctionColumns, FunctionFlag, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..schemas.entries import Augmentation

# A factor beyond this is no unit of anything.
MAX_FACTOR = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """Section offsets, an element an entry: its start, what follows its id, its end, its CIE (below 0: no FDE)."""

    offset: NDArray[np.int64]
    body: NDArray[np.int64]
    end: NDArray[np.int64]
    cie: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Cies:
    """The CIEs that FDEs point to, in order of their offsets. `kind` is equal where all that shapes a row is equal."""

    kind: NDArray[np.int64]
    columns: CieColumns
    return_column: NDArray[np.uint32]
    flags: NDArray[np.uint8]
    personality_encoding: NDArray[np.uint8]
    personality: NDArray[np.uint64]


def table_from_cfi(
    section: Section, dialect: Dialect, architecture: Architecture, load_address: int = 0, source: str = ""
) -> UnwindTable:
    """Read all functions of an `.eh_frame` or `.debug_frame` section. Raises ParseError.

    An entry that cannot be read as the text says is an error, not a gap: a lying length or pointer, an unknown
    opcode, version or augmentation, DW_CFA_restore_state without a state to restore.
    """
    found = _scan(section, dialect)
    is_fde = (found.cie >= 0) | (found.cie == EntryMark.CIE_OUTSIDE)
    fdes = _Entries(found.offset[is_fde], found.body[is_fde], found.end[is_fde], found.cie[is_fde])
    cies, cie = _read_cies(section, dialect, found, fdes)
    functions, instructions = _read_functions(section, fdes, cie, cies)
    run, first = intern(np.frombuffer(section.data, np.uint8), instructions, fdes.end, cies.kind[cie])
    streams = Streams(instructions, fdes.end, functions.start, cie, np.arange(len(cie)))
    builder = RowBuilder(section, cies.columns, architecture.signs_return_addresses)
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
        source=source or section.name,
    )


def _scan(section: Section, dialect: Dialect) -> _Entries:
    """Walk the entries of a section."""
    capacity = len(section) // 4 + 1
    columns = [np.empty(capacity, np.int64) for _ in range(4)]
    reader = reader_of(section)
    count = engine().entries.scan(
        reader,
        dialect.id_size or 0,
        int(dialect.relative),
        dialect.cie_ids[DwarfFormat.DWARF32],
        dialect.cie_ids[DwarfFormat.DWARF64],
        *views(*columns),
    )
    if reader.fault:
        refuse(section, f"entry[{count}].length", reader)
    return _Entries(*(column[:count] for column in columns))


def _read_cies(section: Section, dialect: Dialect, found: _Entries, fdes: _Entries) -> tuple[_Cies, NDArray[np.int64]]:
    """Parse the CIEs that FDEs point to; with the index of each FDE's."""
    is_cie = found.cie == EntryMark.IS_CIE
    all_offsets = found.offset[is_cie]
    number = np.searchsorted(all_offsets, fdes.cie)
    wrong = np.flatnonzero(np.append(all_offsets, -1)[number] != fdes.cie)
    if len(wrong):
        fde, target = int(wrong[0]), int(fdes.cie[wrong[0]])
        said = f"points to {target:#x}, which is not a CIE" if target >= 0 else "points to outside the section"
        raise ParseError(section, int(fdes.offset[fde]), f"FDE[{fde}].cie_pointer", said)
    is_used = np.zeros(len(all_offsets), np.bool_)
    is_used[number] = True
    cies = _cie_columns(section, dialect, all_offsets[is_used], found.end[is_cie][is_used])
    return cies, (np.cumsum(is_used) - 1)[number]


def _cie_columns(section: Section, dialect: Dialect, offsets: NDArray[np.int64], ends: NDArray[np.int64]) -> _Cies:
    """What the CIEs at `offsets` say, as columns."""
    from ..schemas import entries

    parsed: dict[bytes, Cie] = {}
    kinds: dict[object, int] = {}
    rows = []
    for number, (offset, end) in enumerate(zip(offsets.tolist(), ends.tolist(), strict=True)):
        name = f"CIE[{number}]"
        raw = bytes(section.data[offset:end])
        cie = parsed.get(raw) or parsed.setdefault(raw, entries.parse_cie(section, offset, dialect, name))
        augmentation = entries.parse_augmentation(cie, section, offset, name)
        layout = entries.fde_format(cie, augmentation, section)
        _check(section, offset, name, cie, augmentation)
        personality = 0
        if augmentation.personality:
            place = section.address + augmentation.personality_offset
            encoding = augmentation.personality_encoding
            personality = resolve(augmentation.personality, encoding, place, PointerBases(), layout.address_size)
        factors = int(cie.code_alignment_factor), int(cie.data_alignment_factor)
        register = int(cie.return_address_register)
        shape = (factors, register, cie.augmentation, layout, cie.initial_instructions)
        rows.append(
            (
                kinds.setdefault(shape, len(kinds)),
                (
                    *factors,
                    *(layout.address_encoding, layout.lsda_encoding, layout.is_augmented),
                    *(layout.address_size, layout.segment_selector_size, end - len(cie.initial_instructions), end),
                ),
                (
                    register,
                    FunctionFlag.SIGNAL_FRAME * augmentation.is_signal_frame
                    | FunctionFlag.PAUTH_B_KEY * augmentation.has_b_key
                    | FunctionFlag.MEMORY_TAGGING * augmentation.has_memory_tagging,
                    augmentation.personality_encoding if augmentation.personality else DW_EH_PE.omit,
                    personality,
                ),
            )
        )
    kind, layouts, rest = zip(*rows, strict=True) if rows else ((), (), ())
    types = ("i8", "i8", "u1", "u1", "u1", "u1", "u1", "i8", "i8")
    return _Cies(
        np.array(kind, np.int64),
        CieColumns(*(np.array([row[i] for row in layouts], code) for i, code in enumerate(types))),
        *(np.array([row[i] for row in rest], code) for i, code in enumerate(("u4", "u1", "u1", "u8"))),
    )


def _check(section: Section, offset: int, name: str, cie: Cie, augmentation: Augmentation) -> None:
    """Refuse a CIE whose FDEs could only be guessed at."""
    if augmentation.unknown:
        reason = f"{cie.augmentation!r}: {chr(augmentation.unknown[0])!r} is not known"
        raise ParseError(section, offset, f"{name}.augmentation", reason)
    # An indirect location would have to be read from memory that only a running program has (omit says so, too).
    if augmentation.fde_encoding & DW_EH_PE.indirect:
        reason = f"R is {augmentation.fde_encoding:#04x}, which does not say where an FDE starts"
        raise ParseError(section, offset, f"{name}.augmentation", reason)
    for field in ("code_alignment_factor", "data_alignment_factor"):
        if abs(int(getattr(cie, field))) > MAX_FACTOR:
            raise ParseError(section, offset, f"{name}.{field}", f"{int(getattr(cie, field))} is no unit of bytes")
    if int(cie.return_address_register) > MAX_REGISTER:
        reason = f"{int(cie.return_address_register)} is no register"
        raise ParseError(section, offset, f"{name}.return_address_register", reason)


def _read_functions(
    section: Section, fdes: _Entries, cie: NDArray[np.int64], cies: _Cies
) -> tuple[FunctionColumns, NDArray[np.int64]]:
    """The functions, with `run` still to come, and the section offsets of their instructions."""
    count = len(cie)
    start, size, segment, lsda = (np.empty(count, np.uint64) for _ in range(4))
    has_lsda = np.empty(count, np.uint8)
    instructions = np.empty(count, np.int64)
    layout = cies.columns
    reader = reader_of(section)
    done = engine().entries.functions(
        reader,
        *views(fdes.body, fdes.end, cie, layout.address_encoding, layout.lsda_encoding, layout.is_augmented),
        *views(layout.address_size, layout.segment_size, start, size, segment, lsda, has_lsda, instructions),
    )
    if reader.fault:
        refuse(section, f"FDE[{done}]", reader)
    top = (np.uint64(1) << (layout.address_size[cie].astype(np.uint64) * np.uint64(8) - np.uint64(1))) * np.uint64(2)
    # A top of 2**64 is 0 here; such an end would not fit the columns.
    past = np.flatnonzero(size > top - np.uint64(1) - start + (top > 0))
    if len(past):
        reason = f"{int(size[past[0]]):#x} bytes from {int(start[past[0]]):#x} reach past the address space"
        raise ParseError(section, int(fdes.offset[past[0]]), f"FDE[{past[0]}].address_range", reason)
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
    return functions, instructions
