"""Read the records of `.eh_frame` and `.debug_frame`: CIEs and FDEs (DWARF5 6.4; LSB Core, .eh_frame).

Strategy: a kernel walks the entries; the few CIEs are parsed by the reference engine, equal bytes only once; a kernel
reads all FDEs in the format that their CIEs define. Instructions are not interpreted here (`interpreter`, `read`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ...schemas.cfi import Cie, Dialect, OpaqueCie
from ...schemas.cies import fde_format, parse_augmentation, parse_cie
from ...schemas.data_classes import dataclass
from ...schemas.pointers import DW_EH_PE, NO_BASES, PointerBases, resolve
from ...schemas.section import ParseError, Section
from ...schemas.steps import Step
from ...schemas.wire import DwarfFormat
from ..arch.table import Architecture, default_return_column
from ..arrays import renumbered, values_at
from ..columns import Columns, column_of, columns
from ..kernels import engine, views
from ..kernels.calls import reader_of, refuse
from ..kernels.cfi.protocol import EntryMark
from ..rules import MAX_REGISTER
from ..table.model import FunctionColumns, FunctionFlag
from .interpreter import CieColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...schemas.cies import Augmentation

    ParsedCie = tuple[Cie | OpaqueCie, Augmentation | None]

Value = TypeVar("Value", bound=np.generic)


@columns
class EntryOffsets(Columns):
    """The entries of a section: CIEs, FDEs and terminators, one record per entry; adjacent terminators are one."""

    offset: NDArray[np.int64] = column_of("section offset", "of the length")
    body: NDArray[np.int64] = column_of("section offset", "of the byte after the id")
    end: NDArray[np.int64] = column_of("section offset")
    cie: NDArray[np.int64] = column_of(
        "section offset", "that the CIE pointer of an FDE leads to; otherwise an `EntryMark`"
    )

    @property
    def is_cie(self) -> NDArray[np.bool_]:
        """Which entries are CIEs."""
        return np.equal(self.cie, EntryMark.IS_CIE)

    @property
    def is_terminator(self) -> NDArray[np.bool_]:
        """Which entries are terminators."""
        return np.equal(self.cie, EntryMark.IS_TERMINATOR)

    @property
    def is_fde(self) -> NDArray[np.bool_]:
        """Which entries are FDEs; their CIE pointers are not checked."""
        return ~(self.is_cie | self.is_terminator)


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """The records of a section. `entries` are all entries, `fdes` the FDEs among them. `cies` are the CIEs that FDEs
    point to, `cie_offset` their section offsets. Per FDE: `cie`, i64, the index of its CIE in `cies`; `functions`, its
    addresses; `data` and `instructions`, i64, the section offsets of its augmentation data and its instructions."""

    section: Section
    dialect: Dialect
    architecture: Architecture
    bases: PointerBases
    entries: EntryOffsets
    fdes: EntryOffsets
    cies: Cies
    cie_offset: NDArray[np.int64]
    cie: NDArray[np.int64]
    functions: FunctionColumns
    data: NDArray[np.int64]
    instructions: NDArray[np.int64]


def read_records(
    section: Section,
    dialect: Dialect,
    architecture: Architecture,
    bases: PointerBases = NO_BASES,
    keeps_entries: bool = True,
) -> Records:
    """Read all records of a section, except for instructions. Raises ParseError as `table_from_cfi`.

    Without `keeps_entries` the records have no `entries`, which take as much memory as the FDEs.
    """
    with Step(f"entries of {section.name}") as step:
        found = scan(section, dialect)
        fdes, all_cies = found.select(found.is_fde), found.select(found.is_cie)
        if not keeps_entries:
            found = EntryOffsets.empty(0)
        cies, cie_offset, cie = _read_cies(section, dialect, all_cies, fdes, architecture, bases)
        functions, data, instructions = read_functions(section, fdes, cie, cies, bases)
        _check_ends(section, fdes, functions, cies.columns.address_size, cie)
        step.count(len(all_cies), "CIEs")
        step.count(len(fdes), "FDEs")
    return Records(
        section, dialect, architecture, bases, found, fdes, cies, cie_offset, cie, functions, data, instructions
    )


def scan(section: Section, dialect: Dialect) -> EntryOffsets:
    """Walk the entries of a section."""
    found = EntryOffsets.empty(len(section) // 4 + 1)
    reader = reader_of(section)
    kernels, cie_ids = engine.cfi.entries, dialect.cie_ids
    how = kernels.Dialect(
        dialect.id_size or 0, dialect.relative, cie_ids[DwarfFormat.DWARF32], cie_ids[DwarfFormat.DWARF64]
    )
    count = kernels.scan(reader, how, kernels.Entries(**found.views()))
    if reader.fault:
        refuse(section, f"entry[{count}].length", reader)
    return found.select(slice(count))


def _read_cies(
    section: Section,
    dialect: Dialect,
    all_cies: EntryOffsets,
    fdes: EntryOffsets,
    architecture: Architecture,
    bases: PointerBases,
) -> tuple[Cies, NDArray[np.int64], NDArray[np.int64]]:
    """Parse the CIEs that FDEs point to. Returns also their offsets, and the index of each FDE's CIE."""
    number = numbers_of_cies(section, all_cies.offset, fdes)
    used, number = renumbered(number)
    offsets, ends = all_cies.offset[used], all_cies.end[used]
    cies = cie_columns(section, dialect, offsets, ends, bases, default_return_column(architecture))
    for index, offset in enumerate(offsets.tolist()):
        check_augmentation(section, offset, f"CIE[{index}]", cies.parsed[index])
    return cies, offsets, number


def numbers_of_cies(section: Section, offsets: NDArray[np.int64], fdes: EntryOffsets) -> NDArray[np.int64]:
    """For each FDE the index of its CIE among those at `offsets`. Raises ParseError if it is not one of them."""
    number = np.searchsorted(offsets, fdes.cie)
    wrong = np.flatnonzero(values_at(offsets, number, -1) != fdes.cie)
    if len(wrong):
        fde, target = int(wrong[0]), int(fdes.cie[wrong[0]])
        fault = f"points to {target:#x}, which is not a CIE" if target >= 0 else "points outside the section"
        raise ParseError(section, int(fdes.offset[fde]), f"FDE[{fde}].cie_pointer", fault)
    return number


@columns
class _FdeValues(Columns):
    """What the kernel reads of each FDE."""

    start: NDArray[np.uint64] = column_of("address")
    size: NDArray[np.uint64] = column_of("bytes")
    segment: NDArray[np.uint64] = column_of("segment selector")
    lsda: NDArray[np.uint64] = column_of("address")
    has_lsda: NDArray[np.uint8] = column_of(meaning="1 if it has an LSDA")
    data: NDArray[np.int64] = column_of("section offset", "of the augmentation data")
    instructions: NDArray[np.int64] = column_of("section offset")


def read_functions(
    section: Section, fdes: EntryOffsets, cie: NDArray[np.int64], cies: Cies, bases: PointerBases = NO_BASES
) -> tuple[FunctionColumns, NDArray[np.int64], NDArray[np.int64]]:
    """The functions, without `run`, and the section offsets of their augmentation data and instructions."""
    # Columns of zeros take memory only where something else is written.
    found, layout = _FdeValues.defaults(len(cie)), cies.columns
    reader = reader_of(section, bases=bases)
    to_fill, columns = engine.cfi.entries.Functions(**found.views()), views(fdes.body, fdes.end, cie)
    done = engine.cfi.entries.read_functions(reader, layout.for_kernels(), *columns, to_fill)
    if reader.fault:
        refuse(section, f"FDE[{done}]", reader)
    is_opaque = (layout.flags & FunctionFlag.UNKNOWN_AUGMENTATION > 0)[cie]
    found.instructions[is_opaque] = fdes.end[is_opaque]
    functions = FunctionColumns.defaults(
        len(cie),
        start=found.start,
        size=found.size,
        segment=found.segment,
        return_column=_of_cies(layout.return_column, cie),
        flags=_of_cies(layout.flags, cie) | found.has_lsda * np.uint8(FunctionFlag.HAS_LSDA),
        personality_encoding=_of_cies(layout.personality_encoding, cie),
        personality=_of_cies(layout.personality, cie),
        lsda=found.lsda,
        origin=fdes.offset.view(np.uint64),
    )
    return functions, found.data, found.instructions


def _of_cies(values: NDArray[Value], cie: NDArray[np.int64]) -> NDArray[Value]:
    """The value of each FDE's CIE. Nearly always all CIEs have the same one; 0 takes no memory."""
    if not len(values) or np.any(values != values[0]):
        return values[cie]
    return np.full(len(cie), values[0]) if values[0] else np.zeros(len(cie), values.dtype)


def _check_ends(
    section: Section,
    fdes: EntryOffsets,
    functions: FunctionColumns,
    address_size: NDArray[np.uint8],
    cie: NDArray[np.int64],
) -> None:
    """Refuse a function that extends past the end of the address space; `address_size` is that of each CIE."""
    start, size = functions.start, functions.size
    top = (np.uint64(1) << (address_size.astype(np.uint64) * np.uint64(8) - np.uint64(1))) * np.uint64(2)
    # A top of 2**64 is 0 here. A function may not end there either: its end would not fit the columns.
    past = np.flatnonzero(size > _of_cies(top - np.uint64(1) + (top > 0), cie) - start)
    if len(past):
        reason = f"{int(size[past[0]]):#x} bytes from {int(start[past[0]]):#x} extend past the end of the address space"
        raise ParseError(section, int(fdes.offset[past[0]]), f"FDE[{past[0]}].address_range", reason)


# Greater factors are not plausible.
MAX_FACTOR = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class Cies:
    """Some CIEs, in order of their offsets."""

    parsed: tuple[ParsedCie, ...]
    columns: CieColumns


def cie_columns(
    section: Section,
    dialect: Dialect,
    offsets: NDArray[np.int64],
    ends: NDArray[np.int64],
    bases: PointerBases = NO_BASES,
    return_address: int | None = None,
) -> Cies:
    """Read the CIEs at `offsets` into columns. Raises ParseError.

    A CIE with an unknown augmentation gets no instructions and the return column `return_address`; if that is None, its
    fields are read as if it had no augmentation, as in readelf.
    """
    parsed: dict[bytes, Cie | OpaqueCie] = {}
    kinds: dict[object, int] = {}
    found: list[ParsedCie] = []
    records = []
    for number, (offset, end) in enumerate(zip(offsets.tolist(), ends.tolist(), strict=True)):
        name = f"CIE[{number}]"
        raw = bytes(section.data[offset:end])
        known_only = return_address is not None
        cie = parsed.get(raw) or parsed.setdefault(raw, parse_cie(section, offset, dialect, name, known_only))
        if isinstance(cie, OpaqueCie):
            key, values = _opaque_values(section, end, return_address or 0)
            augmentation = None
        else:
            augmentation = parse_augmentation(cie, section, offset, name)
            key, values = _values_of_cie(section, offset, end, name, cie, augmentation, bases)
        found.append((cie, augmentation))
        records.append({"kind": kinds.setdefault(key, len(kinds)), **values})
    return Cies(tuple(found), CieColumns.of_records(records))


# A key, equal for CIEs of one kind, and the other values of `CieColumns`.
_CieRow = tuple[object, dict[str, int]]


def _values_of_cie(
    section: Section, offset: int, end: int, name: str, cie: Cie, augmentation: Augmentation, bases: PointerBases
) -> _CieRow:
    layout = fde_format(cie, augmentation, section)
    _check_numbers(section, offset, name, cie)
    personality = 0
    if augmentation.personality:
        place = section.address + augmentation.personality_offset
        encoding = augmentation.personality_encoding
        personality = resolve(augmentation.personality, encoding, place, bases, layout.address_size)
    factors = int(cie.code_alignment_factor), int(cie.data_alignment_factor)
    register = int(cie.return_address_register)
    flags = (
        FunctionFlag.SIGNAL_FRAME * augmentation.is_signal_frame
        | FunctionFlag.PAUTH_B_KEY * augmentation.has_b_key
        | FunctionFlag.MEMORY_TAGGING * augmentation.has_memory_tagging
    )
    return (factors, register, cie.augmentation, layout, cie.initial_instructions), {
        "code_factor": factors[0],
        "data_factor": factors[1],
        "address_encoding": layout.address_encoding,
        "lsda_encoding": layout.lsda_encoding,
        "is_augmented": layout.is_augmented,
        "address_size": layout.address_size,
        "segment_size": layout.segment_selector_size,
        "start": end - len(cie.initial_instructions),
        "end": end,
        "return_column": register,
        "flags": flags,
        "personality_encoding": augmentation.personality_encoding if augmentation.personality else DW_EH_PE.omit,
        "personality": personality,
    }


def _opaque_values(section: Section, end: int, return_address: int) -> _CieRow:
    """The values for an unknown augmentation: plain addresses and no instructions."""
    return FunctionFlag.UNKNOWN_AUGMENTATION, {
        "code_factor": 1,
        "data_factor": 1,
        "address_encoding": DW_EH_PE.absptr,
        "lsda_encoding": DW_EH_PE.omit,
        "is_augmented": False,
        "address_size": section.address_size,
        "segment_size": 0,
        "start": end,
        "end": end,
        "return_column": return_address,
        "flags": FunctionFlag.UNKNOWN_AUGMENTATION,
        "personality_encoding": DW_EH_PE.omit,
        "personality": 0,
    }


def check_augmentation(section: Section, offset: int, name: str, parsed: ParsedCie) -> None:
    """Refuse a CIE whose FDEs cannot be read with certainty."""
    cie, augmentation = parsed
    if augmentation is None:
        return
    # An unknown letter's data and all that follows it is skipped. An R after it would be the encoding of FDE addresses.
    if b"R" in augmentation.unknown:
        reason = f"{cie.augmentation!r}: {chr(augmentation.unknown[0])!r} is unknown"
        raise ParseError(section, offset, f"{name}.augmentation", reason)
    # An indirect address is in the memory of a running program (DW_EH_PE_omit has the same bit).
    if augmentation.fde_encoding & DW_EH_PE.indirect:
        reason = f"R is {augmentation.fde_encoding:#04x}, which does not encode the start of an FDE"
        raise ParseError(section, offset, f"{name}.augmentation", reason)


def _check_numbers(section: Section, offset: int, name: str, cie: Cie) -> None:
    """Refuse factors and registers that do not fit the columns."""
    for field in ("code_alignment_factor", "data_alignment_factor"):
        if abs(int(getattr(cie, field))) > MAX_FACTOR:
            raise ParseError(section, offset, f"{name}.{field}", f"{int(getattr(cie, field))} is out of range")
    if int(cie.return_address_register) > MAX_REGISTER:
        reason = f"{int(cie.return_address_register)} is not a register number"
        raise ParseError(section, offset, f"{name}.return_address_register", reason)
