"""`.eh_frame` and `.debug_frame` as entries: whole sections parsed and built by the reference engine.

Strategy: an entry is an initial length, an id, and a body. The id distinguishes a CIE from an FDE. An FDE's
layout depends on its CIE, so a CIE is also parsed when an FDE first points to it. Instructions are parsed
separately, so that an entry with an unknown opcode can still be read.
"""

from __future__ import annotations

import io
from typing import Any

from . import engine
from .cfi import (
    DW_CFA,
    INLINE_MASK,
    INLINE_OPERANDS,
    INSTRUCTIONS,
    OPERAND_KINDS,
    PRIMARY_MASK,
    Cie,
    Dialect,
    Entry,
    Fde,
    FdeFormat,
    Instruction,
    LsdaPointer,
    OpaqueCie,
    PersonalityPointer,
    Terminator,
    is_readable,
)
from .data_classes import dataclass
from .pointers import DW_EH_PE, is_known
from .section import BuildError, ByteOrder, ParseError, Section
from .wire import INITIAL_LENGTH_SIZES, DwarfFormat, LebBlock


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
    dwarf_format, length, start = engine.parse_initial_length(section, offset, record)
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
    opaque = engine.parse(OpaqueCie, section, bounds.body, bounds.end, record, **params)[0]
    if known_only and not is_readable(opaque.augmentation):
        return opaque
    return engine.parse(Cie, section, bounds.body, bounds.end, record, **params)[0]


def parse_augmentation(cie: Cie, section: Section, offset: int, record: str = "CIE") -> Augmentation:
    """Read the augmentation of the CIE at section offset `offset`.

    Letters after an unknown one are not read, since the size of the unknown one's data is unknown too.
    """
    if cie.augmentation_data is None:
        return Augmentation()
    values: dict[str, Any] = {}
    # The data ends where the instructions start, and those end where the entry does.
    start = _end_of(section, offset) - len(cie.initial_instructions) - len(cie.augmentation_data.data)
    at, end = start, start + len(cie.augmentation_data.data)
    for index, letter in enumerate(cie.augmentation[1:], 1):
        # Two values for one letter would contradict each other, and repeated reading takes quadratic time.
        if letter in cie.augmentation[1:index]:
            raise ParseError(
                section, offset, f"{record}.augmentation", f"{cie.augmentation!r}: {chr(letter)!r} occurs twice"
            )
        match chr(letter):
            case "R" | "L":
                if at >= end:
                    raise ParseError(section, at, f"{record}.augmentation_data", f"no byte left for {chr(letter)!r}")
                values["fde_encoding" if letter == ord("R") else "lsda_encoding"] = section.data[at]
                at += 1
            case "P":
                name = f"{record}.augmentation_data"
                size = cie.address_size or section.address_size
                pointer, at_end = engine.parse(PersonalityPointer, section, at, end, name, address_size=size)
                values |= {
                    "personality_encoding": pointer.encoding,
                    "personality": None if pointer.personality is None else int(pointer.personality),
                    "personality_offset": at + 1,
                }
                at = at_end
            case "S":
                values["is_signal_frame"] = True
            case "B":
                values["has_b_key"] = True
            case "G":
                values["has_memory_tagging"] = True
            case _:
                values["unknown"] = cie.augmentation[index:]
                break
    for name in ("fde_encoding", "lsda_encoding"):
        if not is_known(values.get(name, 0)):
            raise ParseError(section, start, f"{record}.{name}", f"{values[name]:#04x} is not a defined encoding")
    return Augmentation(**values)


def _end_of(section: Section, offset: int) -> int:
    """The section offset after the entry at `offset`."""
    _, length, start = engine.parse_initial_length(section, offset, "CIE")
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


def parse_section(section: Section, dialect: Dialect) -> tuple[tuple[int, Entry], ...]:
    """All entries of a section, each with its section offset (law 2: `build_section` gives the bytes back)."""
    formats: dict[int, FdeFormat] = {}

    def parse_one(section: Section, offset: int, index: int) -> tuple[Entry, int]:
        name = f"entry[{index}]"
        bounds = parse_bounds(section, offset, dialect, name)
        if bounds is None:
            return Terminator(), offset + 4
        if bounds.entry_id == dialect.cie_ids[bounds.dwarf_format]:
            return parse_cie(section, offset, dialect, f"{name} CIE"), bounds.end
        target = dialect.cie_offset(bounds.id_offset, bounds.entry_id)
        if target not in formats:
            if not 0 <= target < len(section):
                reason = f"points to {target:#x}, outside the section"
                raise ParseError(section, bounds.id_offset, f"{name}.cie_pointer", reason)
            formats[target] = fde_format_at(section, target, dialect, f"{name}.cie_pointer")
        return _parse_fde(section, bounds, formats[target], f"{name} FDE"), bounds.end

    return tuple(engine.parse_records(section, parse_one))


def _parse_fde(section: Section, bounds: EntryBounds, cie_format: FdeFormat, record: str) -> Fde:
    return engine.parse(
        Fde,
        section,
        bounds.body,
        bounds.end,
        record,
        dwarf_format=bounds.dwarf_format,
        cie_pointer=bounds.entry_id,
        cie_format=cie_format,
        address_size=cie_format.address_size,
    )[0]


def build_entry(entry: Entry, dialect: Dialect, order: ByteOrder, cie_format: FdeFormat, address: int = 0) -> bytes:
    """The bytes of one entry with its length and id.

    `cie_format` is the layout that the FDE's CIE prescribes (of which a CIE uses only the address size);
    `address` is the entry's future address, for DW_EH_PE_aligned.
    """
    if isinstance(entry, Terminator):
        return bytes(4)
    size = dialect.size_of_id(entry.dwarf_format)
    entry_id = entry.cie_pointer if isinstance(entry, Fde) else dialect.cie_ids[entry.dwarf_format]
    if entry_id >= 1 << 8 * size:
        raise BuildError(dialect.name, None, "cie_pointer", f"{entry_id:#x} does not fit {size} bytes")
    body = engine.build(
        entry,
        order,
        address_size=cie_format.address_size,
        address=address + INITIAL_LENGTH_SIZES[entry.dwarf_format] + size,
        cie_format=cie_format,
        dwarf_format=entry.dwarf_format,
        cie_pointer=entry_id,
    )
    return (
        engine.build_initial_length(entry.dwarf_format, size + len(body), order) + entry_id.to_bytes(size, order) + body
    )


def build_section(entries: tuple[tuple[int, Entry], ...], dialect: Dialect, like: Section) -> bytes:
    """The bytes of entries at the offsets they were parsed from, with the address size and byte order of `like`."""
    formats: dict[int, FdeFormat] = {}
    plain = FdeFormat(like.address_size)
    data = bytearray()
    for offset, entry in entries:
        if offset != len(data):
            raise BuildError(like, len(data), "entry", f"expected at {offset:#x}")
        layout = plain
        if isinstance(entry, Fde):
            field_offset = offset + INITIAL_LENGTH_SIZES[entry.dwarf_format]
            target = dialect.cie_offset(field_offset, entry.cie_pointer)
            if target not in formats:
                formats[target] = fde_format_at(like, target, dialect, "cie_pointer")
            layout = formats[target]
        data += build_entry(entry, dialect, like.byte_order, layout, like.address + offset)
    return bytes(data)


def parse_lsda(fde: Fde, section: Section, data_offset: int, layout: FdeFormat) -> LsdaPointer | None:
    """The LSDA pointer in an FDE's augmentation data, which starts at section offset `data_offset`."""
    if fde.augmentation_data is None or layout.lsda_encoding == DW_EH_PE.omit:
        return None
    end = data_offset + len(fde.augmentation_data.data)
    params = {"lsda_encoding": layout.lsda_encoding, "address_size": layout.address_size}
    return engine.parse(LsdaPointer, section, data_offset, end, "FDE", **params)[0]


def parse_instructions(
    section: Section, start: int, end: int, address_encoding: int = DW_EH_PE.absptr, record: str = "instructions"
) -> tuple[Instruction, ...]:
    """The instructions between two section offsets. Raises ParseError at an unknown opcode or a truncated operand."""
    found: list[Instruction] = []
    stream = io.BytesIO(section.data[start:end])
    params = {"address_encoding": address_encoding}
    offset = start
    while offset < end:
        byte = section.data[offset]
        name = f"{record}[{len(found)}]"
        number = byte & PRIMARY_MASK or byte
        if number not in INSTRUCTIONS:
            raise ParseError(section, offset, name, f"the opcode {byte:#04x} is not defined")
        opcode = DW_CFA(number)
        offset += 1
        operands: list[int | Any | LebBlock] = []
        for operand in INSTRUCTIONS[opcode].operands:
            if operand in INLINE_OPERANDS:
                operands.append(byte & INLINE_MASK)
            else:
                stream.seek(offset - start)
                kind = OPERAND_KINDS[operand]
                value, offset = engine.parse_value(kind, section, stream, start, name, **params)
                operands.append(value)
        found.append(Instruction(opcode, tuple(operands)))
    return tuple(found)


def build_instructions(
    instructions: tuple[Instruction, ...],
    byte_order: ByteOrder = "little",
    address_size: int = 8,
    address_encoding: int = DW_EH_PE.absptr,
) -> bytes:
    """The bytes of call frame instructions. Raises BuildError if an operand does not fit."""
    data = bytearray()
    for index, instruction in enumerate(instructions):
        name = f"instructions[{index}]"
        declared = INSTRUCTIONS[instruction.opcode].operands
        if len(declared) != len(instruction.operands):
            raise BuildError("", None, name, f"found {len(instruction.operands)} operands, expected {len(declared)}")
        head: int = instruction.opcode
        tail = b""
        for operand, value in zip(declared, instruction.operands, strict=True):
            if operand in INLINE_OPERANDS:
                if not isinstance(value, int) or not 0 <= value <= INLINE_MASK:
                    raise BuildError("", None, name, f"{value} does not fit the low six bits of an opcode")
                head |= value
            else:
                params = {"address_encoding": address_encoding, "address_size": address_size}
                tail += engine.build_value(OPERAND_KINDS[operand], value, byte_order, name, **params)
        data += bytes([head]) + tail
    return bytes(data)
