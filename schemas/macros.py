"""Macro information: `.debug_macinfo` (DWARF4 6.3) and `.debug_macro` (DWARF5 6.3; version 4 is GNU's predecessor).

Strategy: a unit is entries up to an opcode of 0, preceded by a header in `.debug_macro`. `MACINFO_OPERANDS` and
`MACRO_OPERANDS` are their operand tables: construct, the kernel, the printers, the strategies and the manual use
them. A header may describe further opcodes by the forms of their operands.
"""

from __future__ import annotations

import io
from enum import IntEnum
from functools import cache
from typing import Any

from . import engine
from .data_classes import dataclass
from .forms import DW_FORM, FORM_KINDS, SECTION_OFFSET
from .section import BuildError, ByteOrder, ParseError, Section
from .wire import (
    U8,
    ULEB,
    BitField,
    Bits,
    DwarfFormat,
    Integer,
    Kind,
    Leb128,
    Many,
    Nested,
    NulTerminated,
    Variable,
    When,
    record,
    wire,
)

# The sections, and whether their units have headers.
MACRO_SECTIONS = {".debug_macinfo": False, ".debug_macro": True}


class DW_MACINFO(IntEnum):
    """Entry types of `.debug_macinfo` (DWARF4 7.22)."""

    define = 0x01
    undef = 0x02
    start_file = 0x03
    end_file = 0x04
    vendor_ext = 0xFF


class DW_MACRO(IntEnum):
    """Entry types of `.debug_macro` (DWARF5 7.23). GNU's version 4 has those up to 0x0a, under other names."""

    define = 0x01
    undef = 0x02
    start_file = 0x03
    end_file = 0x04
    define_strp = 0x05
    undef_strp = 0x06
    import_ = 0x07
    define_sup = 0x08
    undef_sup = 0x09
    import_sup = 0x0A
    define_strx = 0x0B
    undef_strx = 0x0C


END = 0


class MacroOperand(IntEnum):
    """What one operand of an entry is."""

    LINE = 1  # of the directive, in the file that is open
    FILE = 2  # an index into the file names of the line number table
    TEXT = 3  # a macro's name; in a definition also its parameters and body
    STRP = 4  # an offset of such a text in .debug_str
    SUP_STRP = 5  # its offset in the .debug_str of the supplementary file
    STRX = 6  # its index in .debug_str_offsets
    UNIT = 7  # the offset in this section of the unit to import
    SUP_UNIT = 8  # its offset in the .debug_macro of the supplementary file
    CONSTANT = 9  # vendor-defined
    VENDOR_TEXT = 10  # vendor-defined


MACRO_OPERAND_KINDS: dict[MacroOperand, Kind] = {
    MacroOperand.LINE: ULEB,
    MacroOperand.FILE: ULEB,
    MacroOperand.TEXT: NulTerminated(),
    MacroOperand.STRP: SECTION_OFFSET,
    MacroOperand.SUP_STRP: SECTION_OFFSET,
    MacroOperand.STRX: ULEB,
    MacroOperand.UNIT: SECTION_OFFSET,
    MacroOperand.SUP_UNIT: SECTION_OFFSET,
    MacroOperand.CONSTANT: ULEB,
    MacroOperand.VENDOR_TEXT: NulTerminated(),
}

# To add an entry type, add its number above and its row here; its operands decide how it is printed.
MACINFO_OPERANDS: dict[DW_MACINFO, tuple[MacroOperand, ...]] = {
    DW_MACINFO.define: (MacroOperand.LINE, MacroOperand.TEXT),
    DW_MACINFO.undef: (MacroOperand.LINE, MacroOperand.TEXT),
    DW_MACINFO.start_file: (MacroOperand.LINE, MacroOperand.FILE),
    DW_MACINFO.end_file: (),
    DW_MACINFO.vendor_ext: (MacroOperand.CONSTANT, MacroOperand.VENDOR_TEXT),
}
MACRO_OPERANDS: dict[DW_MACRO, tuple[MacroOperand, ...]] = {
    DW_MACRO.define: (MacroOperand.LINE, MacroOperand.TEXT),
    DW_MACRO.undef: (MacroOperand.LINE, MacroOperand.TEXT),
    DW_MACRO.start_file: (MacroOperand.LINE, MacroOperand.FILE),
    DW_MACRO.end_file: (),
    DW_MACRO.define_strp: (MacroOperand.LINE, MacroOperand.STRP),
    DW_MACRO.undef_strp: (MacroOperand.LINE, MacroOperand.STRP),
    DW_MACRO.import_: (MacroOperand.UNIT,),
    DW_MACRO.define_sup: (MacroOperand.LINE, MacroOperand.SUP_STRP),
    DW_MACRO.undef_sup: (MacroOperand.LINE, MacroOperand.SUP_STRP),
    DW_MACRO.import_sup: (MacroOperand.SUP_UNIT,),
    DW_MACRO.define_strx: (MacroOperand.LINE, MacroOperand.STRX),
    DW_MACRO.undef_strx: (MacroOperand.LINE, MacroOperand.STRX),
}


class MacroKind(IntEnum):
    """What an entry does, in whatever form its text is stored."""

    OTHER = 0  # a vendor's entry, or the import of a unit of a supplementary file
    DEFINE = 1
    UNDEF = 2
    START_FILE = 3
    END_FILE = 4
    IMPORT = 5


MACRO_KINDS: dict[DW_MACRO, MacroKind] = {
    DW_MACRO.define: MacroKind.DEFINE,
    DW_MACRO.undef: MacroKind.UNDEF,
    DW_MACRO.start_file: MacroKind.START_FILE,
    DW_MACRO.end_file: MacroKind.END_FILE,
    DW_MACRO.define_strp: MacroKind.DEFINE,
    DW_MACRO.undef_strp: MacroKind.UNDEF,
    DW_MACRO.import_: MacroKind.IMPORT,
    DW_MACRO.define_sup: MacroKind.DEFINE,
    DW_MACRO.undef_sup: MacroKind.UNDEF,
    DW_MACRO.define_strx: MacroKind.DEFINE,
    DW_MACRO.undef_strx: MacroKind.UNDEF,
}
# GNU's version 4 has no string offsets.
SINCE_VERSION = {DW_MACRO.define_strx: 5, DW_MACRO.undef_strx: 5}
VERSIONS = (4, 5)


@record
class MacroFlags:
    """The flags of a `.debug_macro` header (DWARF5 6.3.1)."""

    reserved: int = wire(BitField(5), "0")
    opcode_operands_table: int = wire(BitField(1), "1: opcodes are described")
    debug_line_offset: int = wire(BitField(1), "1: the field of that name is present")
    offset_size: int = wire(BitField(1), "1: section offsets have 8 bytes, 0: 4")


@record
class OpcodeOperands:
    """One opcode as a header describes it."""

    opcode: int = wire(U8, "the opcode")
    operand_count: Leb128 = wire(ULEB, "number of operands")
    forms: tuple[int, ...] = wire(Many(U8, lambda this: int(this.operand_count)), "DW_FORM of each operand")


def _offset_size(this: Any) -> DwarfFormat:
    """The size of a section offset, from the header's flags."""
    return DwarfFormat.DWARF64 if this.flags.offset_size else DwarfFormat.DWARF32


@record
class MacroHeader:
    """The header of a unit in `.debug_macro` (DWARF5 6.3.1)."""

    version: int = wire(Integer(2, allowed=VERSIONS), "5, or 4 for GNU's extension to DWARF 4")
    flags: MacroFlags = wire(Bits(MacroFlags), "which fields follow, and the size of offsets")
    debug_line_offset: int | None = wire(
        When(Variable(_offset_size), lambda this: this.flags.debug_line_offset),
        "of the line number program, in .debug_line",
    )
    opcode_operands_count: int | None = wire(
        When(U8, lambda this: this.flags.opcode_operands_table), "number of described opcodes"
    )
    opcode_operands: tuple[OpcodeOperands, ...] | None = wire(
        When(
            Many(Nested(OpcodeOperands), lambda this: this.opcode_operands_count),
            lambda this: this.flags.opcode_operands_table,
        ),
        "the described opcodes, at least those of vendors",
    )

    @property
    def dwarf_format(self) -> DwarfFormat:
        """The DWARF format with that size of offsets."""
        return _offset_size(self)


@dataclass(frozen=True, slots=True)
class MacroEntry:
    """One entry. `operands` are as stored: int, `Leb128`, bytes, or a form's value."""

    opcode: int
    operands: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class MacroUnit:
    """Entries up to an opcode of 0. `header` is None in `.debug_macinfo`."""

    header: MacroHeader | None
    entries: tuple[MacroEntry, ...]


@cache
def standard_operands(version: int) -> dict[int, tuple[MacroOperand, ...]]:
    """The operands of each opcode that a version defines; version 0 is `.debug_macinfo`, which has no versions."""
    if not version:
        return {int(opcode): operands for opcode, operands in MACINFO_OPERANDS.items()}
    return {
        int(opcode): operands for opcode, operands in MACRO_OPERANDS.items() if version >= SINCE_VERSION.get(opcode, 0)
    }


def kinds_of(header: MacroHeader | None) -> dict[int, tuple[Kind, ...]]:
    """How the operands of each opcode of a unit are stored. Raises ValueError at an undefined form."""
    described = {} if header is None else {one.opcode: one.forms for one in header.opcode_operands or ()}
    # A header may describe standard opcodes too (DWARF5 6.3.1), but cannot change them.
    standard = standard_operands(0 if header is None else header.version)
    return {opcode: tuple(FORM_KINDS[DW_FORM(form)] for form in forms) for opcode, forms in described.items()} | {
        opcode: tuple(MACRO_OPERAND_KINDS[one] for one in operands) for opcode, operands in standard.items()
    }


def parse_macros(section: Section, has_headers: bool) -> tuple[MacroUnit, ...]:
    """The units of a `.debug_macro`, which have headers, or of a `.debug_macinfo` (law 2: `build_macros` gives the
    bytes back).

    Raises ParseError.
    """
    units: list[MacroUnit] = []
    stream, at = io.BytesIO(section.data), 0
    while at < len(section):
        name = f"unit[{len(units)}]"
        header, begin = None, at
        if has_headers:
            header, at = engine.parse_stream(MacroHeader, section, stream, 0, f"{name}.header")
        try:
            kinds = kinds_of(header)
        except ValueError as error:
            raise ParseError(section, begin, f"{name}.header.opcode_operands", str(error)) from error
        dwarf_format = DwarfFormat.DWARF32 if header is None else header.dwarf_format
        entries: list[MacroEntry] = []
        while True:
            if at >= len(section):
                raise ParseError(section, at, name, "the unit has no terminating opcode 0")
            opcode, path = section.data[at], f"{name}.entry[{len(entries)}]"
            if opcode == END:
                break
            if opcode not in kinds:
                raise ParseError(section, at, path, f"the opcode {opcode:#04x} is not defined")
            stream.seek(at + 1)
            operands, at = [], at + 1
            for kind in kinds[opcode]:
                value, at = engine.parse_value(kind, section, stream, 0, path, dwarf_format=dwarf_format)
                operands.append(value)
            entries.append(MacroEntry(opcode, tuple(operands)))
        at += 1
        stream.seek(at)
        units.append(MacroUnit(header, tuple(entries)))
    return tuple(units)


def build_macros(units: tuple[MacroUnit, ...], byte_order: ByteOrder) -> bytes:
    """The bytes of consecutive units. Raises BuildError."""
    data = bytearray()
    for index, unit in enumerate(units):
        name = f"unit[{index}]"
        if unit.header is not None:
            data += engine.build(unit.header, byte_order, f"{name}.header")
        dwarf_format = DwarfFormat.DWARF32 if unit.header is None else unit.header.dwarf_format
        try:
            kinds = kinds_of(unit.header)
        except ValueError as error:
            raise BuildError("", None, f"{name}.header.opcode_operands", str(error)) from error
        for number, entry in enumerate(unit.entries):
            path, declared = f"{name}.entry[{number}]", kinds.get(entry.opcode)
            if declared is None or entry.opcode == END or len(declared) != len(entry.operands):
                raise BuildError(
                    "", None, path, f"the opcode {entry.opcode:#04x} does not have {len(entry.operands)} operands"
                )
            data.append(entry.opcode)
            for kind, value in zip(declared, entry.operands, strict=True):
                data += engine.build_value(kind, value, byte_order, path, dwarf_format=dwarf_format)
        data.append(END)
    return bytes(data)
