"""CIEs as columns: what they say of their FDEs, by the reference engine, once for equal bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..schemas.cfi import Cie, Dialect, OpaqueCie
from ..schemas.pointers import DW_EH_PE, NO_BASES, PointerBases, resolve
from ..schemas.section import ParseError, Section
from .rules import MAX_REGISTER
from .runs import CieColumns
from .unwind import FunctionFlag

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..schemas.cfi_sections import Augmentation

    # Of an unknown augmentation nothing is parsed.
    ParsedCie = tuple[Cie | OpaqueCie, Augmentation | None]

# A factor beyond this is no unit of anything.
MAX_FACTOR = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class Cies:
    """Some CIEs, in order of their offsets. `kind` is equal where all that shapes a row is equal."""

    parsed: tuple[ParsedCie, ...]
    kind: NDArray[np.int64]
    columns: CieColumns
    return_column: NDArray[np.uint32]
    flags: NDArray[np.uint8]
    personality_encoding: NDArray[np.uint8]
    personality: NDArray[np.uint64]


def cie_columns(
    section: Section,
    dialect: Dialect,
    offsets: NDArray[np.int64],
    ends: NDArray[np.int64],
    bases: PointerBases = NO_BASES,
    return_address: int | None = None,
) -> Cies:
    """What the CIEs at `offsets` say, as columns.

    One whose augmentation is not known has no instructions then, and `return_address` for its column; where that is
    None its fields are read as if it had none, which readelf does. Raises ParseError.
    """
    from ..schemas import cfi_sections

    parsed: dict[bytes, Cie | OpaqueCie] = {}
    kinds: dict[object, int] = {}
    rows = []
    for number, (offset, end) in enumerate(zip(offsets.tolist(), ends.tolist(), strict=True)):
        name = f"CIE[{number}]"
        raw = bytes(section.data[offset:end])
        known_only = return_address is not None
        cie = parsed.get(raw) or parsed.setdefault(
            raw, cfi_sections.parse_cie(section, offset, dialect, name, known_only)
        )
        if isinstance(cie, OpaqueCie):
            shape, *columns = _opaque_columns(section, end, return_address or 0)
            augmentation = None
        else:
            augmentation = cfi_sections.parse_augmentation(cie, section, offset, name)
            shape, *columns = _columns_of_cie(section, offset, end, name, cie, augmentation, bases)
        rows.append(((cie, augmentation), kinds.setdefault(shape, len(kinds)), *columns))
    both, kind, layouts, rest = zip(*rows, strict=True) if rows else ((), (), (), ())
    types = ("i8", "i8", "u1", "u1", "u1", "u1", "u1", "i8", "i8")
    return Cies(
        both,
        np.array(kind, np.int64),
        CieColumns(*(np.array([row[i] for row in layouts], code) for i, code in enumerate(types))),
        *(np.array([row[i] for row in rest], code) for i, code in enumerate(("u4", "u1", "u1", "u8"))),
    )


# What makes two CIEs equal to their FDEs, the elements of `CieColumns`, and those of `Cies` behind them.
_CieRow = tuple[object, tuple[int, ...], tuple[int, ...]]


def _columns_of_cie(
    section: Section, offset: int, end: int, name: str, cie: Cie, augmentation: Augmentation, bases: PointerBases
) -> _CieRow:
    from ..schemas import cfi_sections

    layout = cfi_sections.fde_format(cie, augmentation, section)
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
    return (
        (factors, register, cie.augmentation, layout, cie.initial_instructions),
        (
            *factors,
            *(layout.address_encoding, layout.lsda_encoding, layout.is_augmented),
            *(layout.address_size, layout.segment_selector_size, end - len(cie.initial_instructions), end),
        ),
        (
            register,
            flags,
            augmentation.personality_encoding if augmentation.personality else DW_EH_PE.omit,
            personality,
        ),
    )


def _opaque_columns(section: Section, end: int, return_address: int) -> _CieRow:
    """Of an unknown augmentation: plain addresses and no instructions."""
    layout = (1, 1, DW_EH_PE.absptr, DW_EH_PE.omit, False, section.address_size, 0, end, end)
    flags = FunctionFlag.UNKNOWN_AUGMENTATION
    return FunctionFlag.UNKNOWN_AUGMENTATION, layout, (return_address, flags, DW_EH_PE.omit, 0)


def check_augmentation(section: Section, offset: int, name: str, parsed: ParsedCie) -> None:
    """Refuse a CIE whose FDEs could only be guessed at."""
    cie, augmentation = parsed
    if augmentation is None:
        return
    # An unknown letter's data is skipped with all that follows it; FDEs then need nothing of it but how they begin.
    if b"R" in augmentation.unknown:
        reason = f"{cie.augmentation!r}: {chr(augmentation.unknown[0])!r} is not known"
        raise ParseError(section, offset, f"{name}.augmentation", reason)
    # An indirect location would have to be read from memory that only a running program has (omit says so, too).
    if augmentation.fde_encoding & DW_EH_PE.indirect:
        reason = f"R is {augmentation.fde_encoding:#04x}, which does not say where an FDE starts"
        raise ParseError(section, offset, f"{name}.augmentation", reason)


def _check_numbers(section: Section, offset: int, name: str, cie: Cie) -> None:
    """Refuse factors and registers that no column has room for."""
    for field in ("code_alignment_factor", "data_alignment_factor"):
        if abs(int(getattr(cie, field))) > MAX_FACTOR:
            raise ParseError(section, offset, f"{name}.{field}", f"{int(getattr(cie, field))} is no unit of bytes")
    if int(cie.return_address_register) > MAX_REGISTER:
        reason = f"{int(cie.return_address_register)} is no register"
        raise ParseError(section, offset, f"{name}.return_address_register", reason)
