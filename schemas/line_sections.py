"""`.debug_line` by the reference engine: whole sections, and the instructions of a program, parsed and built.

Strategy: a unit is an initial length, a head, header_length, the header, and a program up to the unit's end.
Instructions are parsed separately, by the operand table. Lengths are not kept, but computed when building.
"""

from __future__ import annotations

import io
from typing import Any

from . import engine
from .initial_length import build_initial_length, parse_initial_length
from .line import (
    DW_LNS,
    EXTENDED,
    EXTENDED_OPCODE,
    LINE_OPERAND_KINDS,
    STANDARD,
    ExtendedInstruction,
    LineInstruction,
    LineOperand,
    LineProgramHeader,
    LineUnit,
    LineUnitHead,
    Program,
)
from .section import BuildError, ByteOrder, ParseError, Section
from .wire import ULEB, DwarfFormat, Kind, Leb128

NAME = ".debug_line"


def parse_unit(section: Section, offset: int, name: str = "unit") -> tuple[LineUnit, int]:
    """The unit at `offset` bytes into the section, and the offset after it. Raises ParseError."""
    dwarf_format, length, start = parse_initial_length(section, offset, name)
    end = start + length
    head, at = engine.parse(LineUnitHead, section, start, end, name, dwarf_format=dwarf_format)
    program = _program_start(section, at, end, dwarf_format, name)
    params = {"dwarf_format": dwarf_format, "version": head.version}
    header, _ = engine.parse(LineProgramHeader, section, at + dwarf_format, program, f"{name} header", **params)
    return LineUnit(head, header, bytes(section.data[program:end])), end


def _program_start(section: Section, at: int, end: int, dwarf_format: DwarfFormat, name: str) -> int:
    """The section offset of the program, from the header_length at `at`."""
    start = at + dwarf_format
    if start > end:
        raise ParseError(section, at, f"{name}.header_length", f"{dwarf_format:d} bytes needed, {end - at} left")
    length = int.from_bytes(section.data[at:start], section.byte_order)
    if length > end - start:
        raise ParseError(section, at, f"{name}.header_length", f"{length:#x} bytes reach past the unit's end")
    return start + length


def build_unit(unit: LineUnit, byte_order: ByteOrder = "little") -> bytes:
    """The bytes of a unit with its lengths. Raises BuildError."""
    dwarf_format = unit.head.dwarf_format
    head = engine.build(unit.head, byte_order, dwarf_format=dwarf_format)
    header = engine.build(unit.header, byte_order, dwarf_format=dwarf_format, version=unit.head.version)
    if len(header) >> 8 * dwarf_format:
        raise BuildError(NAME, None, "header_length", f"{len(header):#x} needs 64-bit DWARF")
    body = b"".join((head, len(header).to_bytes(dwarf_format, byte_order), header, unit.program))
    return build_initial_length(dwarf_format, len(body), byte_order) + body


def parse_line_section(section: Section) -> tuple[LineUnit, ...]:
    """All units of a `.debug_line`. Raises ParseError."""

    def parse_one(section: Section, offset: int, index: int) -> tuple[LineUnit, int]:
        return parse_unit(section, offset, f"unit[{index}]")

    return tuple(unit for _, unit in engine.parse_records(section, parse_one))


def build_line_section(units: tuple[LineUnit, ...], byte_order: ByteOrder = "little") -> bytes:
    """The bytes of consecutive units. Raises BuildError."""
    return b"".join(build_unit(unit, byte_order) for unit in units)


def parse_program(
    section: Section, start: int, end: int, header: LineProgramHeader, name: str = "program"
) -> tuple[tuple[int, LineInstruction | ExtendedInstruction], ...]:
    """The instructions between two section offsets, each with its offset. Raises ParseError at a truncated one."""
    found: list[tuple[int, LineInstruction | ExtendedInstruction]] = []
    offset = start
    while offset < end:
        opcode = section.data[offset]
        where = f"{name}[{len(found)}]"
        instruction: LineInstruction | ExtendedInstruction
        if opcode == EXTENDED_OPCODE:
            instruction, next_offset = _parse_extended(section, offset + 1, end, where)
        else:
            values: list[Any] = []
            next_offset = offset + 1
            for kind in operand_kinds(opcode, header):
                value, next_offset = _parse_value(kind, section, next_offset, end, where)
                values.append(value)
            instruction = LineInstruction(opcode, tuple(values))
        found.append((offset, instruction))
        offset = next_offset
    return tuple(found)


def operand_kinds(opcode: int, header: LineProgramHeader) -> tuple[Kind, ...]:
    """The kinds of the operands of a special or standard opcode.

    A known opcode has those of the specification, whatever the header says; for others, the header has the number of
    LEB128 operands.
    """
    if opcode >= header.opcode_base:
        return ()
    if opcode not in STANDARD:
        return (ULEB,) * header.standard_opcode_lengths[opcode - 1]
    operand = STANDARD[DW_LNS(opcode)].operand
    return () if operand is LineOperand.NONE else (LINE_OPERAND_KINDS[operand],)


def _parse_value(kind: Kind, section: Section, offset: int, end: int, name: str) -> tuple[Any, int]:
    # Only a file's name or a padded LEB128 may be longer than 64 bytes, so that few bytes are copied.
    for reach in (min(end, offset + 64), end):
        stream = io.BytesIO(section.data[offset:reach])
        try:
            return engine.parse_value(kind, section, stream, offset, name)
        except ParseError:
            if reach == end:
                raise
    raise AssertionError


def _parse_extended(section: Section, offset: int, end: int, name: str) -> tuple[ExtendedInstruction, int]:
    """The instruction whose length is at `offset`, and the offset after it."""
    length: Leb128
    length, start = _parse_value(ULEB, section, offset, end, f"{name}.length")
    if length.value > end - start:
        reason = f"{length.value:#x} bytes, but only {end - start:#x} are left"
        raise ParseError(section, offset, f"{name}.length", reason)
    if length.value == 0:
        raise ParseError(section, offset, f"{name}.length", "is 0, so there is no opcode")
    opcode, stop = section.data[start], start + length.value
    operands: tuple[Any, ...] = ()
    at = start + 1
    for known, spec in EXTENDED.items():
        if known == opcode and spec.operand is not LineOperand.NONE:
            stream = io.BytesIO(section.data[at:stop])
            value, at = engine.parse_value(LINE_OPERAND_KINDS[spec.operand], section, stream, at, name)
            operands = (value,)
    return ExtendedInstruction(opcode, operands, bytes(section.data[at:stop]), length.size), stop


def build_program(program: Program, header: LineProgramHeader, byte_order: ByteOrder = "little") -> bytes:
    """The bytes of instructions. Raises BuildError if an operand does not fit."""
    data = bytearray()
    for index, instruction in enumerate(program):
        name = f"program[{index}]"
        if isinstance(instruction, ExtendedInstruction):
            data += _build_extended(instruction, byte_order, name)
            continue
        kinds = operand_kinds(instruction.opcode, header)
        if len(kinds) != len(instruction.operands):
            raise BuildError(NAME, None, name, f"found {len(instruction.operands)} operands, expected {len(kinds)}")
        data.append(instruction.opcode)
        for kind, value in zip(kinds, instruction.operands, strict=True):
            data += engine.build_value(kind, value, byte_order, name)
    return bytes(data)


def _build_extended(instruction: ExtendedInstruction, byte_order: ByteOrder, name: str) -> bytes:
    spec = next((spec for known, spec in EXTENDED.items() if known == instruction.opcode), None)
    has_operand = spec is not None and spec.operand is not LineOperand.NONE
    if len(instruction.operands) != has_operand:
        raise BuildError(NAME, None, name, f"found {len(instruction.operands)} operands, expected {has_operand:d}")
    body = bytes([instruction.opcode])
    if spec is not None and has_operand:
        (value,) = instruction.operands
        body += engine.build_value(LINE_OPERAND_KINDS[spec.operand], value, byte_order, name)
    body += instruction.rest
    length = Leb128(len(body), instruction.length_size)
    return bytes([EXTENDED_OPCODE]) + engine.build_value(ULEB, length, byte_order, f"{name}.length") + body
