"""CIEs, and the bounds of all entries, of `.eh_frame` and `.debug_frame` (DWARF5 6.4.1; LSB Core 10.6.1.1).

Strategy: an entry is an initial length, an id, and a body; the id distinguishes a CIE from an FDE. Every command that
reads call frame information parses CIEs, so that they are read without construct. The letters of an augmentation are
read here, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import direct
from .cfi import Cie, Dialect, FdeFormat, OpaqueCie, PersonalityPointer, is_readable
from .data_classes import dataclass
from .initial_length import parse_initial_length
from .pointers import DW_EH_PE, is_known
from .section import ParseError, Section
from .wire import DwarfFormat


@dataclass(frozen=True, slots=True)
class EntryBounds:
    """The section offsets of an entry's parts; `entry_id` is the id or CIE pointer as stored."""

    dwarf_format: DwarfFormat
    id_offset: int
    entry_id: int
    body: int
    end: int


@dataclass(frozen=True, slots=True)
class Augmentation:
    """A CIE's augmentation, up to the first unknown letter (LSB Core 10.6.1.1.1; 'B' and 'G' of AArch64).

    Encodings are DW_EH_PE bytes, DW_EH_PE_omit if the letter is absent. `personality_offset` is the section
    offset of the stored personality's first byte, which DW_EH_PE_pcrel is relative to.
    """

    fde_encoding: int = DW_EH_PE.absptr
    lsda_encoding: int = DW_EH_PE.omit
    personality_encoding: int = DW_EH_PE.omit
    personality: int | None = None
    personality_offset: int = 0
    is_signal_frame: bool = False
    has_b_key: bool = False
    has_memory_tagging: bool = False
    unknown: bytes = b""


def parse_bounds(section: Section, offset: int, dialect: Dialect, record: str) -> EntryBounds | None:
    """The bounds of the entry at `offset`; None for a terminator."""
    dwarf_format, length, start = parse_initial_length(section, offset, record)
    if length == 0 and dwarf_format is DwarfFormat.DWARF32:
        return None
    size = dialect.size_of_id(dwarf_format)
    if length < size:
        raise ParseError(section, offset, f"{record}.length", f"{length} bytes are too few for an id of {size}")
    entry_id = int.from_bytes(section.data[start : start + size], section.byte_order)
    return EntryBounds(dwarf_format, start, entry_id, start + size, start + length)


def parse_cie(
    section: Section, offset: int, dialect: Dialect, record: str = "CIE", known_only: bool = True
) -> Cie | OpaqueCie:
    """Parse the CIE at `offset` bytes into `section`.

    One with an unknown augmentation becomes an `OpaqueCie` or, unless `known_only`, is parsed as if it had no
    augmentation. Raises ParseError if no CIE is there.
    """
    bounds = parse_bounds(section, offset, dialect, record)
    if bounds is None or bounds.entry_id != dialect.cie_ids[bounds.dwarf_format]:
        found = "a terminator" if bounds is None else f"id {bounds.entry_id:#x}"
        raise ParseError(section, offset, f"{record}.id", f"{found}, which is not a CIE's")
    params = {"dwarf_format": bounds.dwarf_format}
    opaque = direct.parse(OpaqueCie, section, bounds.body, bounds.end, record, **params)[0]
    if known_only and not is_readable(opaque.augmentation):
        return opaque
    return direct.parse(Cie, section, bounds.body, bounds.end, record, **params)[0]


# What each letter of an augmentation announces (LSB Core 10.6.1.1.1; 'B' and 'G': AADWARF64).
AUGMENTATION_LETTERS = {
    "z": "augmentation data with a length",
    "R": "encoding of an FDE's addresses",
    "L": "encoding of an FDE's LSDA pointer",
    "P": "personality routine",
    "S": "a signal frame",
    "B": "return addresses are signed with key B",
    "G": "memory tagging",
}


def augmentation_parts(
    cie: Cie, section: Section, offset: int, record: str = "CIE"
) -> Iterator[tuple[str, int, int, int | PersonalityPointer | None]]:
    """The letters after 'z' in the augmentation of the CIE at section offset `offset`, each with the section offsets of
    its data and its value: a DW_EH_PE byte for R and L, None for a letter without data. The first unknown letter is the
    last one, with all that is left. Raises ParseError."""
    if cie.augmentation_data is None:
        return
    # The data ends where the instructions start, and those end where the entry does.
    at = _end_of(section, offset) - len(cie.initial_instructions) - len(cie.augmentation_data.data)
    end = at + len(cie.augmentation_data.data)
    for index, number in enumerate(cie.augmentation[1:], 1):
        letter, start = chr(number), at
        value: int | PersonalityPointer | None = None
        # Two values for one letter would contradict each other, and repeated reading takes quadratic time.
        if number in cie.augmentation[1:index]:
            raise ParseError(
                section, offset, f"{record}.augmentation", f"{cie.augmentation!r}: {letter!r} occurs twice"
            )
        match letter:
            case "R" | "L":
                if at >= end:
                    raise ParseError(section, at, f"{record}.augmentation_data", f"no byte left for {letter!r}")
                value, at = section.data[at], at + 1
            case "P":
                name, size = f"{record}.augmentation_data", cie.address_size or section.address_size
                value, at = direct.parse(PersonalityPointer, section, at, end, name, address_size=size)
        if letter not in AUGMENTATION_LETTERS:
            yield letter, at, end, None
            return
        yield letter, start, at, value


def parse_augmentation(cie: Cie, section: Section, offset: int, record: str = "CIE") -> Augmentation:
    """Read the augmentation of the CIE at section offset `offset`.

    Letters after an unknown one are not read, since the size of the unknown one's data is unknown too.
    """
    values: dict[str, Any] = {}
    for index, (letter, at, _, value) in enumerate(augmentation_parts(cie, section, offset, record), 1):
        match letter, value:
            case "R" | "L", int(encoding):
                name = "fde_encoding" if letter == "R" else "lsda_encoding"
                if not is_known(encoding):
                    raise ParseError(section, at, f"{record}.{name}", f"{encoding:#04x} is not a defined encoding")
                values[name] = encoding
            case "P", PersonalityPointer():
                values |= {
                    "personality_encoding": value.encoding,
                    "personality": None if value.personality is None else int(value.personality),
                    "personality_offset": at + 1,
                }
            case "S", _:
                values["is_signal_frame"] = True
            case "B", _:
                values["has_b_key"] = True
            case "G", _:
                values["has_memory_tagging"] = True
            case _ if letter not in AUGMENTATION_LETTERS:
                values["unknown"] = cie.augmentation[index:]
    return Augmentation(**values)


def _end_of(section: Section, offset: int) -> int:
    """The section offset after the entry at `offset`."""
    _, length, start = parse_initial_length(section, offset, "CIE")
    return start + length


def fde_format(cie: Cie, augmentation: Augmentation, section: Section) -> FdeFormat:
    """The layout that a CIE prescribes for its FDEs."""
    return FdeFormat(
        address_size=cie.address_size or section.address_size,
        segment_selector_size=cie.segment_selector_size or 0,
        address_encoding=augmentation.fde_encoding,
        lsda_encoding=augmentation.lsda_encoding,
        is_augmented=cie.augmentation_data is not None,
    )


def fde_format_at(section: Section, cie_offset: int, dialect: Dialect, record: str) -> FdeFormat:
    """The `FdeFormat` of the CIE at `cie_offset`."""
    cie = parse_cie(section, cie_offset, dialect, record)
    if isinstance(cie, OpaqueCie):
        # DWARF5 6.4.1: then initial_location and address_range can be read, and nothing after them.
        return FdeFormat(section.address_size)
    return fde_format(cie, parse_augmentation(cie, section, cie_offset, record), section)
