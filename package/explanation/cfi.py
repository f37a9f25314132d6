"""A CIE and an FDE, byte by byte (DWARF5 6.4.1; LSB Core 10.6.1), with the rows that the instructions make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby, takewhile
from types import SimpleNamespace
from typing import Any, NamedTuple

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
    OpaqueCie,
    Operand,
    PersonalityPointer,
)
from ..schemas.cfi_sections import parse_instructions
from ..schemas.cies import (
    AUGMENTATION_LETTERS,
    EntryBounds,
    augmentation_parts,
    fde_format_at,
    parse_bounds,
    parse_cie,
)
from ..schemas.data_classes import dataclass
from ..schemas.pointers import DW_EH_PE, PointerBases, encoding_text, resolve
from ..schemas.section import ParseError, Section
from ..schemas.wire import LebBlock
from .fields import field_of, text_of, value_text
from .model import ExplainedField, ExplainedRecord
from .spans import FieldSpan, spans_of, width_of

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
# The text of the row with the largest offset up to this many bytes from the function's start.
RowAt = Callable[[int], str]


class FunctionPlace(NamedTuple):
    """A function: the section offset of its FDE, its address, its start as it is shown, and the texts of its rows."""

    offset: int
    address: int
    start: int
    row_at: RowAt


@dataclass(frozen=True, slots=True)
class Layout:
    """What instructions of one CIE need: its section, with the CIE's size of addresses; its factors, its FDEs' format,
    the machine, and the bases of pointers. `cie` is the CIE, None if its augmentation is unknown."""

    section: Section
    architecture: Architecture
    format: FdeFormat
    bases: PointerBases
    cie: Cie | None
    code_factor: int = 1
    data_factor: int = 1


def explain_entries(
    section: Section, dialect: Dialect, architecture: Architecture, bases: PointerBases, place: FunctionPlace
) -> tuple[ExplainedRecord, ...]:
    """The CIE and the FDE of a function. Raises ParseError."""
    bounds = _bounds(section, dialect, place.offset)
    target = dialect.cie_offset(bounds.id_offset, bounds.entry_id)
    cie = parse_cie(section, target, dialect)
    form = fde_format_at(section, target, dialect, "FDE.cie_pointer")
    sized = replace(section, address_size=form.address_size)
    layout = Layout(sized, architecture, form, bases, None)
    if isinstance(cie, Cie):
        factors = int(cie.code_alignment_factor), int(cie.data_alignment_factor)
        layout = Layout(sized, architecture, form, bases, cie, *factors)
    return _cie_record(layout, dialect, target), _fde_record(layout, dialect, target, place)


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


def _cie_record(layout: Layout, dialect: Dialect, offset: int) -> ExplainedRecord:
    section = layout.section
    cls: type = OpaqueCie if layout.cie is None else Cie
    bounds = _bounds(section, dialect, offset)
    fields = _head(section, offset, bounds, "CIE_id", f"{bounds.entry_id:#x}", "a CIE")
    _, spans = spans_of(cls, section, bounds.body, bounds.end, "CIE", dwarf_format=bounds.dwarf_format)
    for span in spans:
        match span.name:
            case "augmentation":
                meaning = _letters_text(span.value) if layout.cie is not None else span.doc
                fields.append(field_of(section, span.start, span.end, span.name, value_text(span), meaning or span.doc))
            case "return_address_register":
                register = register_text(layout.architecture.machine, int(span.value))
                fields.append(field_of(section, span.start, span.end, span.name, register, span.doc))
            case "augmentation_data":
                fields += _cie_augmentation(layout, offset, span)
            case "initial_instructions":
                fields += (one for one, _ in _instructions(layout, span, 0))
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


def _letters_text(augmentation: bytes) -> str:
    if augmentation[:1] != b"z":
        return ""
    known = takewhile(AUGMENTATION_LETTERS.__contains__, augmentation.decode("latin-1"))
    return "; ".join(f"{letter}: {AUGMENTATION_LETTERS[letter]}" for letter in known)


def _cie_augmentation(layout: Layout, offset: int, span: FieldSpan) -> list[ExplainedField]:
    section, cie = layout.section, layout.cie
    assert cie is not None
    length, at, end = _length_field(section, span)
    fields = [length]
    for letter, start, after, value in augmentation_parts(cie, section, offset):
        if isinstance(value, int):
            meaning = AUGMENTATION_LETTERS[letter]
            fields.append(field_of(section, start, after, f"{letter}: encoding", encoding_text(value), meaning))
        elif value is not None:
            params = {"address_size": section.address_size}
            for one in spans_of(PersonalityPointer, section, start, after, "CIE.augmentation_data", **params)[1]:
                text = encoding_text(one.value) if one.name == "encoding" else _pointer_text(one.value)
                fields.append(field_of(section, one.start, one.end, f"{letter}: {one.name}", text, one.doc))
        if letter in AUGMENTATION_LETTERS:
            at = after
    return [*fields, *_remainder(section, at, end, "augmentation_data")]


def _remainder(section: Section, at: int, end: int, name: str) -> Iterator[ExplainedField]:
    if at < end:
        yield field_of(section, at, end, name, section.data[at:end].hex(), "bytes without a known meaning")


def _fde_record(layout: Layout, dialect: Dialect, target: int, place: FunctionPlace) -> ExplainedRecord:
    section, form = layout.section, layout.format
    bounds = _bounds(section, dialect, place.offset)
    back = "distance back to it, from this field" if dialect.relative else "section offset"
    meaning = f"CIE at {target:#x}: {back}"
    fields = _head(section, place.offset, bounds, "CIE_pointer", f"{bounds.entry_id:#x}", meaning)
    params = {
        "dwarf_format": bounds.dwarf_format,
        "cie_pointer": bounds.entry_id,
        "cie_format": form,
        "address_size": form.address_size,
    }
    for span in spans_of(Fde, section, bounds.body, bounds.end, "FDE", **params)[1]:
        match span.name:
            case "initial_location":
                meaning = f"{place.start:#x}; {span.doc}, {encoding_text(form.address_encoding)}"
                fields.append(field_of(section, span.start, span.end, span.name, _pointer_text(span.value), meaning))
            case "address_range":
                value = _pointer_text(span.value)
                fields.append(field_of(section, span.start, span.end, span.name, value, span.doc))
            case "augmentation_data":
                fields += _fde_augmentation(section, form, span)
            case "instructions" if layout.cie is None:
                fields += _remainder(section, span.start, span.end, "rest")
            case "instructions":
                first_row, instructions = _with_rows(list(_instructions(layout, span, place.address)), place.row_at)
                fields[-1] = replace(fields[-1], row=first_row)
                fields += instructions
            case _:
                fields.append(field_of(section, span.start, span.end, span.name, value_text(span), span.doc))
    if layout.cie is not None and not any(field.row for field in fields):
        fields[-1] = replace(fields[-1], row=place.row_at(0))  # it has no instructions at all
    return ExplainedRecord(section.name, f"FDE at {place.offset:#x}", text_of(Fde), tuple(fields))


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


def _instructions(layout: Layout, span: FieldSpan, address: int) -> Iterator[tuple[ExplainedField, int]]:
    """Each instruction, and the location after it, in bytes from the function's start (`address`); padding is one
    field."""
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
        elif effect is Effect.SET_LOCATION:
            location = _address(layout, _number(one.operands[0]), at + 1, address) - address
        value = f"{count} times" if count > 1 else ", ".join(_operand_texts(layout, one))
        yield field_of(section, at, end, f"DW_CFA_{one.opcode.name}", value, MEANINGS[effect]), location
        at = end


def _address(layout: Layout, stored: int, at: int, function: int) -> int:
    """The address that an operand at a section offset encodes."""
    bases = replace(layout.bases, function=function)
    section, encoding = layout.section, layout.format.address_encoding
    return resolve(stored, encoding, section.address + at, bases, section.address_size)


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
