"""A CIE and an FDE, byte by byte (DWARF5 6.4.1; LSB Core 10.6.1), with the rows that the instructions make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from types import SimpleNamespace
from typing import Any

from ..converters.arch.registers import register_text
from ..converters.arch.table import Architecture
from ..schemas.cfi import (
    DW_CFA,
    INLINE_OPERANDS,
    INSTRUCTIONS,
    OPERAND_KINDS,
    Cie,
    Dialect,
    Effect,
    Fde,
    FdeFormat,
    Instruction,
    LsdaPointer,
    Operand,
    PersonalityPointer,
)
from ..schemas.cfi_sections import parse_instructions
from ..schemas.cies import EntryBounds, fde_format_at, parse_bounds, parse_cie
from ..schemas.data_classes import dataclass
from ..schemas.pointers import DW_EH_PE, encoding_text
from ..schemas.section import ParseError, Section
from ..schemas.spans import FieldSpan, spans_of, width_of
from ..schemas.wire import LebBlock
from .fields import field_of, text_of, value_text
from .model import ExplainedField, ExplainedRecord

# What the instructions do, by effect, and the section that says so.
MEANINGS: dict[Effect, str] = {
    Effect.NOTHING: "no effect; padding (DWARF5 6.4.2.5)",
    Effect.ADVANCE: "a new row, this many bytes on (DWARF5 6.4.2.1)",
    Effect.SET_LOCATION: "a new row at this address (DWARF5 6.4.2.1)",
    Effect.CFA: "CFA = register + offset (DWARF5 6.4.2.2)",
    Effect.CFA_REGISTER: "CFA from this register, with the same offset (DWARF5 6.4.2.2)",
    Effect.CFA_OFFSET: "CFA at this offset from the same register (DWARF5 6.4.2.2)",
    Effect.CFA_EXPRESSION: "CFA = the value of an expression (DWARF5 6.4.2.2)",
    Effect.UNDEFINED: "the caller's value is lost (DWARF5 6.4.2.3)",
    Effect.SAME_VALUE: "the register was not changed (DWARF5 6.4.2.3)",
    Effect.OFFSET: "saved at CFA + offset (DWARF5 6.4.2.3)",
    Effect.VAL_OFFSET: "the value is CFA + offset (DWARF5 6.4.2.3)",
    Effect.REGISTER: "saved in the second register (DWARF5 6.4.2.3)",
    Effect.EXPRESSION: "saved at the address that an expression gives (DWARF5 6.4.2.3)",
    Effect.VAL_EXPRESSION: "the value of an expression (DWARF5 6.4.2.3)",
    Effect.RESTORE: "the CIE's rule again (DWARF5 6.4.2.3)",
    Effect.REMEMBER_STATE: "the row is put on a stack (DWARF5 6.4.2.4)",
    Effect.RESTORE_STATE: "the row on top of the stack again (DWARF5 6.4.2.4)",
    Effect.NEGATE_RA_STATE: "from here on, the return address is signed, or no longer (AADWARF64)",
    Effect.NEGATE_RA_STATE_WITH_PC: "the same, signed with the PC (AADWARF64)",
    Effect.ARGS_SIZE: "bytes of arguments on the stack (LSB Core 10.6.1)",
    Effect.WINDOW_SAVE: "the register window is saved from the CFA on (SPARC)",
}
LETTERS = {
    "z": "augmentation data with a length",
    "R": "encoding of an FDE's addresses",
    "L": "encoding of an FDE's LSDA pointer",
    "P": "personality routine",
    "S": "a signal frame",
    "B": "return addresses are signed with key B",
    "G": "memory tagging",
}
# The text of a row that starts at most this many bytes after the function's start.
RowAt = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Layout:
    """What instructions of one CIE need: its section, its factors, its FDEs' format, the machine."""

    section: Section
    architecture: Architecture
    format: FdeFormat
    code_factor: int = 1
    data_factor: int = 1


def explain_entries(
    section: Section, dialect: Dialect, offset: int, architecture: Architecture, start: int, row_at: RowAt
) -> tuple[ExplainedRecord, ...]:
    """The CIE and the FDE of the FDE at a section offset, whose function starts at `start`. Raises ParseError."""
    bounds = _bounds(section, dialect, offset)
    target = dialect.cie_offset(bounds.id_offset, bounds.entry_id)
    cie = parse_cie(section, target, dialect)
    form = fde_format_at(section, target, dialect, "FDE.cie_pointer")
    layout = Layout(section, architecture, form)
    if isinstance(cie, Cie):
        factors = int(cie.code_alignment_factor), int(cie.data_alignment_factor)
        layout = Layout(section, architecture, form, *factors)
    return _cie_record(layout, dialect, target, type(cie)), _fde_record(layout, dialect, offset, target, start, row_at)


def _bounds(section: Section, dialect: Dialect, offset: int) -> EntryBounds:
    bounds = parse_bounds(section, offset, dialect, "entry")
    if bounds is None:
        raise ParseError(section, offset, "entry", "is a terminator")
    return bounds


def _head(
    section: Section, offset: int, bounds: EntryBounds, name: str, value: str, meaning: str
) -> list[ExplainedField]:
    """The length and the id."""
    length = field_of(
        section, offset, bounds.id_offset, "length", str(bounds.end - bounds.id_offset), "bytes that follow"
    )
    return [length, field_of(section, bounds.id_offset, bounds.body, name, value, meaning)]


def _cie_record(layout: Layout, dialect: Dialect, offset: int, cls: type) -> ExplainedRecord:
    section = layout.section
    bounds = _bounds(section, dialect, offset)
    fields = _head(section, offset, bounds, "CIE_id", f"{bounds.entry_id:#x}", "a CIE")
    cie: Any
    cie, spans = spans_of(cls, section, bounds.body, bounds.end, "CIE", dwarf_format=bounds.dwarf_format)
    for span in spans:
        match span.name:
            case "augmentation":
                letters = "; ".join(
                    f"{one}: {LETTERS[one]}" for one in cie.augmentation.decode("latin-1") if one in LETTERS
                )
                fields.append(field_of(section, span.start, span.end, span.name, value_text(span), letters or span.doc))
            case "return_address_register":
                register = register_text(layout.architecture.machine, int(span.value))
                fields.append(field_of(section, span.start, span.end, span.name, register, span.doc))
            case "augmentation_data":
                fields += _cie_augmentation(layout, cie, span)
            case "initial_instructions":
                fields += (one for one, _ in _instructions(layout, span))
            case _:
                fields.append(field_of(section, span.start, span.end, span.name, value_text(span), span.doc))
    return ExplainedRecord(section.name, f"CIE at {offset:#x}", text_of(cls), tuple(fields))


def _length_field(section: Section, span: FieldSpan) -> tuple[ExplainedField, int, int]:
    """The length of a block, and the section offsets of its data."""
    start = span.start + span.value.length_size
    return (
        field_of(section, span.start, start, f"{span.name} length", str(len(span.value.data)), "bytes that follow"),
        start,
        span.end,
    )


def _cie_augmentation(layout: Layout, cie: Cie, span: FieldSpan) -> list[ExplainedField]:
    section = layout.section
    length, at, end = _length_field(section, span)
    fields = [length]
    for letter in cie.augmentation[1:].decode("latin-1"):
        if letter not in LETTERS:
            break
        if letter in "RL":
            encoding = encoding_text(section.data[at])
            fields.append(field_of(section, at, at + 1, f"{letter}: encoding", encoding, LETTERS[letter]))
            at += 1
        elif letter == "P":
            size = cie.address_size or section.address_size
            for one in spans_of(PersonalityPointer, section, at, end, "CIE.augmentation_data", address_size=size)[1]:
                value = encoding_text(one.value) if one.name == "encoding" else _pointer_text(one.value)
                fields.append(field_of(section, one.start, one.end, f"P: {one.name}", value, one.doc))
                at = one.end
    return [*fields, *_remainder(section, at, end, "augmentation_data")]


def _remainder(section: Section, at: int, end: int, name: str) -> Iterator[ExplainedField]:
    if at < end:
        yield field_of(section, at, end, name, section.data[at:end].hex(), "bytes without a known meaning")


def _fde_record(
    layout: Layout, dialect: Dialect, offset: int, target: int, start: int, row_at: RowAt
) -> ExplainedRecord:
    section, form = layout.section, layout.format
    bounds = _bounds(section, dialect, offset)
    back = "distance back to it, from this field" if dialect.relative else "section offset"
    fields = _head(section, offset, bounds, "CIE_pointer", f"{bounds.entry_id:#x}", f"CIE at {target:#x}: {back}")
    params = {
        "dwarf_format": bounds.dwarf_format,
        "cie_pointer": bounds.entry_id,
        "cie_format": form,
        "address_size": form.address_size,
    }
    first_row = ""
    for span in spans_of(Fde, section, bounds.body, bounds.end, "FDE", **params)[1]:
        match span.name:
            case "initial_location":
                meaning = f"{start:#x}; {span.doc}, {encoding_text(form.address_encoding)}"
                fields.append(field_of(section, span.start, span.end, span.name, _pointer_text(span.value), meaning))
            case "address_range":
                value = _pointer_text(span.value)
                fields.append(field_of(section, span.start, span.end, span.name, value, span.doc))
            case "augmentation_data":
                fields += _fde_augmentation(section, form, span)
            case "instructions":
                first_row, instructions = _with_rows(list(_instructions(layout, span)), row_at)
                fields += instructions
            case _:
                fields.append(field_of(section, span.start, span.end, span.name, value_text(span), span.doc))
    return ExplainedRecord(section.name, f"FDE at {offset:#x}", text_of(Fde), tuple(fields), first_row)


def _fde_augmentation(section: Section, form: FdeFormat, span: FieldSpan) -> list[ExplainedField]:
    length, at, end = _length_field(section, span)
    fields = [length]
    if form.lsda_encoding != DW_EH_PE.omit and at < end:
        params = {"lsda_encoding": form.lsda_encoding, "address_size": form.address_size}
        for one in spans_of(LsdaPointer, section, at, end, "FDE", **params)[1]:
            fields.append(field_of(section, one.start, one.end, one.name, _pointer_text(one.value), one.doc))
            at = one.end
    return [*fields, *_remainder(section, at, end, "augmentation_data")]


def _with_rows(found: list[tuple[ExplainedField, int]], row_at: RowAt) -> tuple[str, list[ExplainedField]]:
    """The row that the CIE alone makes, "" if the FDE changes it, and the fields, each with the row that is complete
    after it: what follows advances, or nothing but padding follows."""
    fields = [field for field, _ in found]
    working = [index for index, field in enumerate(fields) if not _is_padding(field)]
    for index, after in zip(working, [*working, None][1:], strict=True):
        location = found[index][1]
        if after is None or found[after][1] != location:
            fields[index] = replace(fields[index], row=row_at(location))
    from_cie = not working or found[working[0]][1] > 0
    return row_at(0) if from_cie else "", fields


def _is_padding(field: ExplainedField) -> bool:
    return field.name == f"DW_CFA_{DW_CFA.nop.name}"


def _instructions(layout: Layout, span: FieldSpan) -> Iterator[tuple[ExplainedField, int]]:
    """Each instruction, and the location after it, in bytes from the function's start; padding is one field."""
    section, at, location = layout.section, span.start, 0
    effects = dict(layout.architecture.instruction_effects)
    found = parse_instructions(section, span.start, span.end, layout.format.address_encoding)
    for _, group in groupby(enumerate(found), lambda one: -1 if one[1].opcode is DW_CFA.nop else one[0]):
        same = [one for _, one in group]
        one, count = same[0], len(same)
        effect = effects.get(one.opcode, INSTRUCTIONS[one.opcode].effect)
        end = at + count * (1 + _operands_size(layout, one, at + 1))
        if effect is Effect.ADVANCE:
            location += _number(one.operands[0]) * layout.code_factor
        value = f"{count} times" if count > 1 else ", ".join(_operand_texts(layout, one))
        yield field_of(section, at, end, f"DW_CFA_{one.opcode.name}", value, MEANINGS[effect]), location
        at = end


def _operands_size(layout: Layout, instruction: Instruction, at: int) -> int:
    this = SimpleNamespace(
        _params=SimpleNamespace(
            address_encoding=layout.format.address_encoding, address_size=layout.section.address_size
        )
    )
    size = 0
    for operand, value in zip(INSTRUCTIONS[instruction.opcode].operands, instruction.operands, strict=True):
        if operand not in INLINE_OPERANDS:
            size += width_of(OPERAND_KINDS[operand], value, this, layout.section.address + at + size)
    return size


def _operand_texts(layout: Layout, instruction: Instruction) -> Iterator[str]:
    for operand, value in zip(INSTRUCTIONS[instruction.opcode].operands, instruction.operands, strict=True):
        match operand:
            case Operand.REGISTER | Operand.INLINE_REGISTER:
                yield register_text(layout.architecture.machine, _number(value))
            case Operand.FACTORED_OFFSET | Operand.SIGNED_FACTORED_OFFSET:
                yield _factored(_number(value), layout.data_factor)
            case Operand.NEGATED_FACTORED_OFFSET:
                yield _factored(-_number(value), layout.data_factor)
            case Operand.INLINE_DELTA | Operand.DELTA1 | Operand.DELTA2 | Operand.DELTA4 | Operand.DELTA8:
                yield _factored(_number(value), layout.code_factor)
            case Operand.BLOCK:
                assert isinstance(value, LebBlock)
                yield f"{len(value.data)} bytes: {value.data.hex(' ')}"
            case Operand.ADDRESS:
                yield _pointer_text(value)
            case _:
                yield str(_number(value))


def _factored(value: int, factor: int) -> str:
    return str(value) if factor == 1 else f"{value} * {factor} = {value * factor}"


def _number(value: Any) -> int:
    return int(value)


def _pointer_text(value: Any) -> str:
    return "none" if value is None else f"{int(value):#x}"
