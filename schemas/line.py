"""Line number programs: the header of versions 2 to 5 and the instruction set (DWARF5 6.2 and 7.22).

Strategy: `STANDARD` and `EXTENDED` are the only operand tables: construct, the line kernel, the encoder, the strategies
and the manual all use them. Versions differ in which fields are present. Directory and file entries of version 5 are
tuples of form values, as the header's formats declare; file entries of earlier versions are `FileName` records.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Any

from .data_classes import dataclass
from .forms import DW_FORM, FORM_KINDS
from .wire import (
    I8,
    SLEB,
    U8,
    U16,
    ULEB,
    DwarfFormat,
    Entries,
    Given,
    Integer,
    Kind,
    Leb128,
    Many,
    Nested,
    NulTerminated,
    Rest,
    UntilZero,
    When,
    record,
    wire,
)


class DW_LNS(IntEnum):
    """Standard opcodes (DWARF5 table 7.25)."""

    copy = 1
    advance_pc = 2
    advance_line = 3
    set_file = 4
    set_column = 5
    negate_stmt = 6
    set_basic_block = 7
    const_add_pc = 8
    fixed_advance_pc = 9
    set_prologue_end = 10
    set_epilogue_begin = 11
    set_isa = 12


class DW_LNE(IntEnum):
    """Extended opcodes (DWARF5 table 7.26)."""

    end_sequence = 1
    set_address = 2
    define_file = 3  # up to version 4
    set_discriminator = 4  # from version 4 on; GNU and LLVM write it in earlier versions too


class DW_LNCT(IntEnum):
    """The content of a value of a directory or file entry (DWARF5 table 7.27, and LLVM's in use)."""

    path = 1
    directory_index = 2
    timestamp = 3
    size = 4
    MD5 = 5
    LLVM_source = 0x2001


# Numbers in these ranges belong to vendors (DWARF5 tables 7.26 and 7.27).
LNE_LO_USER, LNE_HI_USER = 0x80, 0xFF
LNCT_LO_USER, LNCT_HI_USER = 0x2000, 0x3FFF

# The byte that an extended instruction starts with.
EXTENDED_OPCODE = 0


class LineOperand(IntEnum):
    """What an operand of a line number instruction is; `LINE_OPERAND_KINDS` has how it is stored."""

    NONE = 0
    OPERATION_ADVANCE = 1
    LINE_ADVANCE = 2
    FILE = 3
    COLUMN = 4
    FIXED_ADVANCE = 5  # in bytes, not in units of minimum_instruction_length
    ISA = 6
    ADDRESS = 7  # all remaining bytes of the instruction
    FILE_NAME = 8
    DISCRIMINATOR = 9


class RowFlag(IntFlag):
    """The boolean registers of a row (DWARF5 6.2.2), as one column of a line table stores them."""

    IS_STMT = 0x1
    BASIC_BLOCK = 0x2
    END_SEQUENCE = 0x4
    PROLOGUE_END = 0x8
    EPILOGUE_BEGIN = 0x10


class LineEffect(IntEnum):
    """What an instruction does to the registers of the state machine (DWARF5 6.2.5)."""

    NOTHING = 0  # an unknown opcode
    SPECIAL = 1  # advances the line and the operation, and appends a row
    COPY = 2  # appends a row
    ADVANCE_PC = 3
    ADVANCE_LINE = 4
    SET_FILE = 5
    SET_COLUMN = 6
    NEGATE_STMT = 7
    SET_BASIC_BLOCK = 8
    CONST_ADD_PC = 9
    FIXED_ADVANCE_PC = 10
    SET_PROLOGUE_END = 11
    SET_EPILOGUE_BEGIN = 12
    SET_ISA = 13
    END_SEQUENCE = 14  # appends a row and resets the registers
    SET_ADDRESS = 15
    DEFINE_FILE = 16
    SET_DISCRIMINATOR = 17


@dataclass(frozen=True, slots=True)
class LineInstructionSpec:
    """One row of the instruction table."""

    effect: LineEffect
    operand: LineOperand = LineOperand.NONE


# To add an instruction, add its number above and its row here; a new effect also needs a case in the line kernel.
STANDARD: dict[DW_LNS, LineInstructionSpec] = {
    DW_LNS.copy: LineInstructionSpec(LineEffect.COPY),
    DW_LNS.advance_pc: LineInstructionSpec(LineEffect.ADVANCE_PC, LineOperand.OPERATION_ADVANCE),
    DW_LNS.advance_line: LineInstructionSpec(LineEffect.ADVANCE_LINE, LineOperand.LINE_ADVANCE),
    DW_LNS.set_file: LineInstructionSpec(LineEffect.SET_FILE, LineOperand.FILE),
    DW_LNS.set_column: LineInstructionSpec(LineEffect.SET_COLUMN, LineOperand.COLUMN),
    DW_LNS.negate_stmt: LineInstructionSpec(LineEffect.NEGATE_STMT),
    DW_LNS.set_basic_block: LineInstructionSpec(LineEffect.SET_BASIC_BLOCK),
    DW_LNS.const_add_pc: LineInstructionSpec(LineEffect.CONST_ADD_PC),
    DW_LNS.fixed_advance_pc: LineInstructionSpec(LineEffect.FIXED_ADVANCE_PC, LineOperand.FIXED_ADVANCE),
    DW_LNS.set_prologue_end: LineInstructionSpec(LineEffect.SET_PROLOGUE_END),
    DW_LNS.set_epilogue_begin: LineInstructionSpec(LineEffect.SET_EPILOGUE_BEGIN),
    DW_LNS.set_isa: LineInstructionSpec(LineEffect.SET_ISA, LineOperand.ISA),
}
# The standard_opcode_lengths of a header that knows all standard opcodes.
STANDARD_OPCODE_LENGTHS = tuple(int(spec.operand is not LineOperand.NONE) for spec in STANDARD.values())
EXTENDED: dict[DW_LNE, LineInstructionSpec] = {
    DW_LNE.end_sequence: LineInstructionSpec(LineEffect.END_SEQUENCE),
    DW_LNE.set_address: LineInstructionSpec(LineEffect.SET_ADDRESS, LineOperand.ADDRESS),
    DW_LNE.define_file: LineInstructionSpec(LineEffect.DEFINE_FILE, LineOperand.FILE_NAME),
    DW_LNE.set_discriminator: LineInstructionSpec(LineEffect.SET_DISCRIMINATOR, LineOperand.DISCRIMINATOR),
}


@record
class FileName:
    """A file of versions 2 to 4, in the header or defined by the program. The fields are `DW_LNCT`s."""

    path: bytes = wire(NulTerminated(), "full or relative; NUL-terminated")
    directory_index: Leb128 = wire(ULEB, "of include_directories from 1 on; 0 is the compilation's directory")
    timestamp: Leb128 = wire(ULEB, "time of the last modification, 0 if unknown")
    size: Leb128 = wire(ULEB, "bytes of the file, 0 if unknown")


# How each operand is stored; an address takes the remaining bytes of its instruction.
LINE_OPERAND_KINDS: dict[LineOperand, Kind] = {
    LineOperand.OPERATION_ADVANCE: ULEB,
    LineOperand.LINE_ADVANCE: SLEB,
    LineOperand.FILE: ULEB,
    LineOperand.COLUMN: ULEB,
    LineOperand.FIXED_ADVANCE: U16,
    LineOperand.ISA: ULEB,
    LineOperand.ADDRESS: Rest(),
    LineOperand.FILE_NAME: Nested(FileName),
    LineOperand.DISCRIMINATOR: ULEB,
}

VERSIONS = (2, 3, 4, 5)
# For fields in which 0 has no meaning: it would be a divisor, or nothing would ever advance.
_NOT_ZERO = tuple(range(1, 256))


def _has_formats(this: Any) -> bool:
    """Whether entries have formats: from version 5 on."""
    return bool(this._params.version >= 5)


def _has_no_formats(this: Any) -> bool:
    return not _has_formats(this)


@record
class LineUnitHead:
    """The fields between unit_length and header_length (DWARF5 6.2.4)."""

    dwarf_format: DwarfFormat = wire(Given(lambda this: this._params.dwarf_format), "32- or 64-bit DWARF")
    version: int = wire(Integer(2, allowed=VERSIONS), "of the line number information: 2 to 5")
    address_size: int | None = wire(
        When(Integer(1, allowed=(1, 2, 4, 8)), lambda this: this.version >= 5), "bytes of an address, from version 5 on"
    )
    segment_selector_size: int | None = wire(
        When(Integer(1, allowed=(0, 1, 2, 4, 8)), lambda this: this.version >= 5),
        "bytes of a segment selector, from version 5 on; no instruction uses it",
    )


@record
class EntryFormat:
    """The content and the form of one value of each entry (DWARF5 6.2.4.1)."""

    content_type: Leb128 = wire(ULEB, "`DW_LNCT`, or a vendor's")
    form: Leb128 = wire(ULEB, "`DW_FORM`")


def _kinds_of(formats: tuple[EntryFormat, ...]) -> tuple[Kind, ...]:
    """The kinds of an entry's values. Raises ValueError at an unknown form, since its size is unknown too."""
    return tuple(FORM_KINDS[DW_FORM(int(entry_format.form))] for entry_format in formats)


Values = tuple[Any, ...]


@record
class LineProgramHeader:
    """The header between header_length and the program (DWARF5 6.2.4). Parsing and building take `version`."""

    minimum_instruction_length: int = wire(Integer(1, allowed=_NOT_ZERO), "bytes; unit of address advances")
    maximum_operations_per_instruction: int | None = wire(
        When(Integer(1, allowed=_NOT_ZERO), lambda this: this._params.version >= 4),
        "1 except on VLIW architectures; from version 4 on",
    )
    default_is_stmt: int = wire(U8, "is_stmt at the start of each sequence; true if not 0")
    line_base: int = wire(I8, "the least that a special opcode adds to the line")
    line_range: int = wire(Integer(1, allowed=_NOT_ZERO), "number of different line advances of special opcodes")
    opcode_base: int = wire(Integer(1, allowed=_NOT_ZERO), "the first special opcode")
    standard_opcode_lengths: tuple[int, ...] = wire(
        Many(U8, lambda this: this.opcode_base - 1), "number of LEB128 operands of each standard opcode, from 1 on"
    )
    include_directories: tuple[bytes, ...] | None = wire(
        When(UntilZero(NulTerminated()), _has_no_formats),
        "paths, then a zero byte; up to version 4",
        default=None,
    )
    file_names: tuple[FileName, ...] | None = wire(
        When(UntilZero(Nested(FileName)), _has_no_formats),
        "`FileName`s, then a zero byte; up to version 4",
        default=None,
    )
    directory_entry_format_count: int | None = wire(
        When(U8, _has_formats), "number of values of a directory; from version 5 on", default=None
    )
    directory_entry_format: tuple[EntryFormat, ...] | None = wire(
        When(Many(Nested(EntryFormat), lambda this: this.directory_entry_format_count), _has_formats),
        "what they are; from version 5 on",
        default=None,
    )
    directories_count: Leb128 | None = wire(When(ULEB, _has_formats), "from version 5 on", default=None)
    directories: tuple[Values, ...] | None = wire(
        When(
            Entries(lambda this: _kinds_of(this.directory_entry_format), lambda this: int(this.directories_count)),
            _has_formats,
        ),
        "values of each, the compilation's directory first; from version 5 on",
        default=None,
    )
    file_name_entry_format_count: int | None = wire(
        When(U8, _has_formats), "number of values of a file; from version 5 on", default=None
    )
    file_name_entry_format: tuple[EntryFormat, ...] | None = wire(
        When(Many(Nested(EntryFormat), lambda this: this.file_name_entry_format_count), _has_formats),
        "what they are; from version 5 on",
        default=None,
    )
    file_names_count: Leb128 | None = wire(When(ULEB, _has_formats), "from version 5 on", default=None)
    files: tuple[Values, ...] | None = wire(
        When(
            Entries(lambda this: _kinds_of(this.file_name_entry_format), lambda this: int(this.file_names_count)),
            _has_formats,
        ),
        "values of each, the primary source file first; from version 5 on (the text calls it file_names too)",
        default=None,
    )
    padding: bytes = wire(Rest(), "the bytes that header_length counts after these fields", default=b"")


@dataclass(frozen=True, slots=True)
class LineUnit:
    """The line number information of one compilation unit; `program` is its instructions as stored."""

    head: LineUnitHead
    header: LineProgramHeader
    program: bytes


@dataclass(frozen=True, slots=True)
class LineInstruction:
    """A special or standard instruction. `operands` are as stored.

    An unknown opcode has as many LEB128 operands as the header says.
    """

    opcode: int
    operands: tuple[int | Leb128, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtendedInstruction:
    """An extended instruction. `length_size` is the width of its length in bytes.

    `operands` has an address's bytes or one value; it is empty for an unknown opcode. `rest` has the bytes that the
    length counts after them.
    """

    opcode: int
    operands: tuple[bytes | Leb128 | FileName, ...] = ()
    rest: bytes = b""
    length_size: int = 1


Program = tuple[LineInstruction | ExtendedInstruction, ...]
