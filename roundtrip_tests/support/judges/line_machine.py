"""The line number state machine of the specification (DWARF5 6.2.2, 6.2.5), over records of the reference engine: slow,
and written independently of the kernel that it is compared with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from unwindkit.schemas.line import DW_LNE, DW_LNS, ExtendedInstruction, LineProgramHeader, LineUnit
from unwindkit.schemas.line_sections import parse_program
from unwindkit.schemas.section import ByteOrder, Section


@dataclass(frozen=True, slots=True)
class Registers:
    address: int = 0
    op_index: int = 0
    file: int = 1
    line: int = 1
    column: int = 0
    is_stmt: bool = False
    basic_block: bool = False
    end_sequence: bool = False
    prologue_end: bool = False
    epilogue_begin: bool = False
    isa: int = 0
    discriminator: int = 0


def advanced(registers: Registers, header: LineProgramHeader, operation_advance: int, mask: int) -> Registers:
    operations = header.maximum_operations_per_instruction or 1
    total = registers.op_index + operation_advance
    address = registers.address + header.minimum_instruction_length * (total // operations)
    return replace(registers, address=address & mask, op_index=total % operations)


def after_row(registers: Registers) -> Registers:
    return replace(registers, basic_block=False, prologue_end=False, epilogue_begin=False, discriminator=0)


def rows_of_unit(unit: LineUnit, byte_order: ByteOrder = "little", address_size: int = 8) -> list[list[Registers]]:
    """The rows of each sequence."""
    section = Section.of(".debug_line", unit.program, 0, byte_order, unit.head.address_size or address_size)
    mask = (1 << 8 * section.address_size) - 1
    header = unit.header
    begin = Registers(is_stmt=bool(header.default_is_stmt))
    now, rows, sequences = begin, list[Registers](), list[list[Registers]]()
    for _, instruction in parse_program(section, 0, len(unit.program), header):
        opcode = instruction.opcode
        if isinstance(instruction, ExtendedInstruction):
            if opcode == DW_LNE.end_sequence:
                sequences.append([*rows, replace(now, end_sequence=True)])
                now, rows = begin, []
            elif opcode == DW_LNE.set_address:
                (address,) = instruction.operands
                assert isinstance(address, bytes)
                now = replace(now, address=int.from_bytes(address, byte_order) & mask, op_index=0)
            elif opcode == DW_LNE.set_discriminator:
                (number,) = instruction.operands
                now = replace(now, discriminator=int(number))
            continue
        operands = [int(operand) for operand in instruction.operands]
        if opcode >= header.opcode_base:
            adjusted = opcode - header.opcode_base
            now = advanced(now, header, adjusted // header.line_range, mask)
            now = replace(now, line=now.line + header.line_base + adjusted % header.line_range)
            rows.append(now)
            now = after_row(now)
            continue
        match opcode:
            case DW_LNS.copy:
                rows.append(now)
                now = after_row(now)
            case DW_LNS.advance_pc:
                now = advanced(now, header, operands[0], mask)
            case DW_LNS.advance_line:
                now = replace(now, line=now.line + operands[0])
            case DW_LNS.set_file:
                now = replace(now, file=operands[0])
            case DW_LNS.set_column:
                now = replace(now, column=operands[0])
            case DW_LNS.negate_stmt:
                now = replace(now, is_stmt=not now.is_stmt)
            case DW_LNS.set_basic_block:
                now = replace(now, basic_block=True)
            case DW_LNS.const_add_pc:
                now = advanced(now, header, (255 - header.opcode_base) // header.line_range, mask)
            case DW_LNS.fixed_advance_pc:
                now = replace(now, address=now.address + operands[0] & mask, op_index=0)
            case DW_LNS.set_prologue_end:
                now = replace(now, prologue_end=True)
            case DW_LNS.set_epilogue_begin:
                now = replace(now, epilogue_begin=True)
            case DW_LNS.set_isa:
                now = replace(now, isa=operands[0])
    assert not rows
    return sequences
