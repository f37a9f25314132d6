"""`.eh_frame` and `.debug_frame` as entries: whole sections parsed and built by the reference engine.

Strategy: an FDE's layout depends on its CIE, so a CIE is also parsed when an FDE first points to it (`cies`).
Instructions are parsed separately, so that an entry with an unknown opcode can still be read.
"""

from __future__ import annotations

import io
from typing import Any

from . import direct, engine
from .cfi import (
    DW_CFA,
    INLINE_MASK,
    INLINE_OPERANDS,
    INSTRUCTIONS,
    OPERAND_KINDS,
    PRIMARY_MASK,
    Dialect,
    Entry,
    Fde,
    FdeFormat,
    Instruction,
    LsdaPointer,
    Terminator,
)
from .cies import EntryBounds, fde_format_at, parse_bounds, parse_cie
from .initial_length import build_initial_length
from .pointers import DW_EH_PE
from .section import BuildError, ByteOrder, ParseError, Section
from .wire import INITIAL_LENGTH_SIZES, LebBlock


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
    body = direct.build(
        entry,
        order,
        address_size=cie_format.address_size,
        address=address + INITIAL_LENGTH_SIZES[entry.dwarf_format] + size,
        cie_format=cie_format,
        dwarf_format=entry.dwarf_format,
        cie_pointer=entry_id,
    )
    return build_initial_length(entry.dwarf_format, size + len(body), order) + entry_id.to_bytes(size, order) + body


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
