"""Strategies for line number programs: headers, instructions, whole sections.

Strategy: `line_units`, with any value in any field, is for readers of records. `valid_line_units` is for readers that
run programs: addresses ascend, lines stay positive, sequences end, and paths exist. `line_sections.build_line_section`
encodes both.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ..forms import DW_FORM, FORM_KINDS
from ..line import (
    DW_LNCT,
    DW_LNE,
    DW_LNS,
    LNCT_HI_USER,
    LNCT_LO_USER,
    VERSIONS,
    EntryFormat,
    ExtendedInstruction,
    FileName,
    LineInstruction,
    LineProgramHeader,
    LineUnit,
    LineUnitHead,
    Program,
)
from ..line_sections import build_program, operand_kinds
from ..section import ByteOrder
from ..wire import DwarfFormat, Leb128, sleb, uleb
from .declarations import MAX_BYTES, lebs, records, values_of

MAX_ENTRIES = 3
MAX_INSTRUCTIONS = 10
# The contents of .debug_line_str and .debug_str for valid units, and the offsets that those use.
LINE_STRINGS = b"\0a.c\0include\0/usr/include\0b.h\0"
STRING_OFFSETS = (0, 1, 5, 13, 14, 26)

_FORMS = st.sampled_from(list(DW_FORM))
_CONTENTS = st.one_of(st.sampled_from(list(DW_LNCT)), st.integers(LNCT_LO_USER, LNCT_HI_USER))
_NUMBER_FORMS = st.sampled_from([DW_FORM.data1, DW_FORM.data2, DW_FORM.data4, DW_FORM.data8, DW_FORM.udata])
# The forms that suit each content; a vendor's contents may have any.
_FORMS_OF: dict[int, SearchStrategy[DW_FORM]] = {
    DW_LNCT.path: st.sampled_from([DW_FORM.string, DW_FORM.line_strp, DW_FORM.strp]),
    DW_LNCT.directory_index: _NUMBER_FORMS,
    DW_LNCT.timestamp: _NUMBER_FORMS,
    DW_LNCT.size: _NUMBER_FORMS,
    DW_LNCT.MD5: st.just(DW_FORM.data16),
}


def _format(content: int, form: DW_FORM) -> EntryFormat:
    return EntryFormat(uleb(content), uleb(int(form)))


@st.composite
def entry_formats(draw: DrawFn, *, valid: bool = False) -> tuple[EntryFormat, ...]:
    """Formats of entries; if `valid`, in suitable forms, without repetition, and with a path unless empty."""
    contents = draw(st.lists(_CONTENTS, max_size=4, unique=valid))
    if valid and contents and DW_LNCT.path not in contents:
        contents[0] = int(DW_LNCT.path)
    return tuple(_format(content, draw(_FORMS_OF.get(content, _FORMS) if valid else _FORMS)) for content in contents)


@st.composite
def _entries(draw: DrawFn, name: str, dwarf_format: DwarfFormat, valid: bool) -> dict[str, Any]:
    """The four fields of a table from version 5 on."""
    formats = draw(entry_formats(valid=valid))
    values: list[SearchStrategy[Any]] = []
    for one in formats:
        form = DW_FORM(one.form.value)
        if valid and form in (DW_FORM.line_strp, DW_FORM.strp):
            values.append(st.sampled_from(STRING_OFFSETS))
        else:
            values.append(values_of(FORM_KINDS[form], dwarf_format=dwarf_format))
    entries = tuple(draw(st.lists(st.tuples(*values), max_size=MAX_ENTRIES))) if formats else ()
    prefix, table = ("directory", "directories") if name == "directories" else ("file_name", "file_names")
    return {
        f"{prefix}_entry_format_count": len(formats),
        f"{prefix}_entry_format": formats,
        f"{table}_count": uleb(len(entries)),
        name: entries,
    }


@st.composite
def line_headers(
    draw: DrawFn, version: int, dwarf_format: DwarfFormat = DwarfFormat.DWARF32, *, valid: bool = False
) -> LineProgramHeader:
    """Headers of a version; if `valid`, for a program of `valid_programs` and with paths that exist."""
    overrides: dict[str, SearchStrategy[Any]] = {"padding": st.binary(max_size=4)}
    if version >= 5:
        for name in ("directories", "files"):
            for field, value in draw(_entries(name, dwarf_format, valid)).items():
                overrides[field] = st.just(value)
    if valid:
        overrides |= {
            "minimum_instruction_length": st.sampled_from([1, 1, 2, 4, 255]),
            "line_base": st.integers(-10, 3),
            "line_range": st.one_of(st.integers(1, 20), st.just(255)),
            "opcode_base": st.sampled_from([1, 4, 10, 13, 13, 14, 20, 255]),
        }
        if version >= 4:
            overrides["maximum_operations_per_instruction"] = st.sampled_from([1, 1, 1, 3, 4])
    return draw(records(LineProgramHeader, overrides, version=version, dwarf_format=dwarf_format))


def _heads(version: int, dwarf_format: DwarfFormat, address_size: int) -> SearchStrategy[LineUnitHead]:
    overrides = {"version": st.just(version)}
    if version >= 5:
        overrides["address_size"] = st.just(address_size)
    return records(LineUnitHead, overrides, dwarf_format=dwarf_format)


def _standard(opcode: int, header: LineProgramHeader) -> SearchStrategy[LineInstruction]:
    """An instruction of a special or standard opcode with any operands."""
    operands = st.tuples(*(values_of(kind) for kind in operand_kinds(opcode, header)))
    return st.builds(LineInstruction, st.just(opcode), operands)


def _unknown_extended() -> SearchStrategy[ExtendedInstruction]:
    known = set(DW_LNE)
    opcodes = st.integers(0, 255).filter(lambda opcode: opcode not in known)
    # A length of two or three bytes is padded, as the body has less than 127 bytes.
    return st.builds(
        ExtendedInstruction, opcodes, st.just(()), st.binary(max_size=MAX_BYTES), length_size=st.integers(1, 3)
    )


def extended_instructions(address_size: int = 8) -> SearchStrategy[ExtendedInstruction]:
    """Extended instructions with any operands, including unknown ones."""
    rest = st.binary(max_size=2)
    size = st.integers(1, 3)
    return st.one_of(
        st.builds(ExtendedInstruction, st.just(DW_LNE.end_sequence), st.just(()), rest, size),
        st.builds(
            ExtendedInstruction,
            st.just(DW_LNE.set_address),
            st.tuples(st.binary(min_size=address_size, max_size=address_size)),
        ),
        st.builds(ExtendedInstruction, st.just(DW_LNE.define_file), st.tuples(records(FileName)), rest, st.just(3)),
        st.builds(ExtendedInstruction, st.just(DW_LNE.set_discriminator), st.tuples(lebs(signed=False)), rest, size),
        _unknown_extended(),
    )


def line_programs(header: LineProgramHeader, address_size: int = 8) -> SearchStrategy[Program]:
    """Any instructions, whose effect may be meaningless."""
    opcodes = st.one_of(st.integers(1, 255), st.sampled_from(list(DW_LNS)).map(int))
    one = st.one_of(opcodes.flatmap(lambda opcode: _standard(opcode, header)), extended_instructions(address_size))
    return st.lists(one, max_size=MAX_INSTRUCTIONS).map(tuple)


@st.composite
def line_units(draw: DrawFn, byte_order: ByteOrder = "little") -> LineUnit:
    """Units of every version with any values in their fields."""
    version, dwarf_format = draw(st.sampled_from(VERSIONS)), draw(st.sampled_from(list(DwarfFormat)))
    head = draw(_heads(version, dwarf_format, draw(st.sampled_from([4, 8]))))
    header = draw(line_headers(version, dwarf_format))
    return LineUnit(head, header, build_program(draw(line_programs(header)), header, byte_order))


# The limit of one advance in valid programs, which keeps addresses within 32 bits.
_MAX_ADVANCE = 1 << 14
_FIRST_LINE = 10_000
_SMALL = st.integers(0, 1 << 17)


# Valid operands of the standard opcodes; not 0 for fixed_advance_pc, which would move op_index back.
_VALID_OPERANDS: dict[int, SearchStrategy[int | Leb128]] = {
    DW_LNS.advance_pc: st.integers(0, _MAX_ADVANCE).map(uleb),
    DW_LNS.advance_line: st.integers(-500, 500).map(sleb),
    DW_LNS.fixed_advance_pc: st.integers(1, 0xFFFF),
    DW_LNS.set_file: _SMALL.map(uleb),
    DW_LNS.set_column: _SMALL.map(uleb),
    DW_LNS.set_isa: _SMALL.map(uleb),
}


def _valid_standard(header: LineProgramHeader) -> list[SearchStrategy[LineInstruction]]:
    """Special and standard instructions that are valid inside a sequence."""
    can_go_back = header.opcode_base > DW_LNS.advance_line
    special = [
        LineInstruction(opcode)
        for opcode in range(header.opcode_base, 256)
        if can_go_back or header.line_base + (opcode - header.opcode_base) % header.line_range >= 0
    ]
    found: list[SearchStrategy[LineInstruction]] = [st.sampled_from(special)] * 3 if special else []
    plain: list[LineInstruction] = []
    for opcode in range(1, min(header.opcode_base, 24)):
        if opcode in _VALID_OPERANDS:
            found.append(st.builds(LineInstruction, st.just(opcode), st.tuples(_VALID_OPERANDS[opcode])))
        elif opcode in set(DW_LNS):
            plain.append(LineInstruction(opcode))
        elif header.standard_opcode_lengths[opcode - 1] < 8:
            found.append(_standard(opcode, header))
    return [*found, st.sampled_from(plain)] if plain else found


@st.composite
def valid_programs(
    draw: DrawFn, header: LineProgramHeader, version: int, byte_order: ByteOrder = "little", address_size: int = 8
) -> Program:
    """Programs that can be run: sequences that start with an address."""
    program: list[LineInstruction | ExtendedInstruction] = []
    instructions = st.lists(st.one_of(*_valid_standard(header), *_valid_extended(version)), max_size=MAX_INSTRUCTIONS)
    for _ in range(draw(st.integers(0, 2))):
        address = draw(st.integers(0, 1 << 28)).to_bytes(address_size, byte_order)
        program.append(ExtendedInstruction(DW_LNE.set_address, (address,)))
        if header.opcode_base > DW_LNS.advance_line:
            program.append(LineInstruction(DW_LNS.advance_line, (sleb(_FIRST_LINE),)))
        program += [*draw(instructions), ExtendedInstruction(DW_LNE.end_sequence)]
    return tuple(program)


def _valid_extended(version: int) -> list[SearchStrategy[ExtendedInstruction]]:
    discriminators = st.builds(ExtendedInstruction, st.just(DW_LNE.set_discriminator), st.tuples(_SMALL.map(uleb)))
    # A file without a name would end a table that a zero byte ends.
    names = st.binary(min_size=1, max_size=8).map(lambda path: path.replace(b"\0", b"/"))
    defined = st.tuples(records(FileName, {"path": names}))
    files = st.builds(ExtendedInstruction, st.just(DW_LNE.define_file), defined, length_size=st.just(2))
    found = [discriminators, _unknown_extended()]
    return found if version >= 5 else [*found, files]


@st.composite
def valid_line_units(draw: DrawFn, byte_order: ByteOrder = "little", address_size: int = 8) -> LineUnit:
    """Units of every version whose programs can be run."""
    version, dwarf_format = draw(st.sampled_from(VERSIONS)), draw(st.sampled_from(list(DwarfFormat)))
    head = draw(_heads(version, dwarf_format, address_size))
    header = draw(line_headers(version, dwarf_format, valid=True))
    program = draw(valid_programs(header, version, byte_order, address_size))
    return LineUnit(head, header, build_program(program, header, byte_order))
