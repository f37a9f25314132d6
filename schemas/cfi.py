"""Call frame information: CIE, FDE, and the whole instruction set (DWARF5 6.4 and 7.24; LSB Core, .eh_frame).

Strategy: `.debug_frame` and `.eh_frame` differ only in a `Dialect`. `INSTRUCTIONS` is the only operand
table: construct, the row kernel, the encoder, the strategies and the manual all use it.
An entry is kept as stored: its instructions as bytes, its addresses as encoded.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from .data_classes import dataclass
from .pointers import DW_EH_PE
from .wire import (
    SLEB,
    U8,
    ULEB,
    Block,
    DwarfFormat,
    Either,
    Given,
    Integer,
    Kind,
    Leb128,
    LebBlock,
    NulTerminated,
    Pointer,
    Rest,
    Variable,
    When,
    record,
    wire,
)


class DW_CFA(IntEnum):
    """Call frame instruction opcodes (DWARF5 table 7.29, and the vendor opcodes in use)."""

    advance_loc = 0x40
    offset = 0x80
    restore = 0xC0
    nop = 0x00
    set_loc = 0x01
    advance_loc1 = 0x02
    advance_loc2 = 0x03
    advance_loc4 = 0x04
    offset_extended = 0x05
    restore_extended = 0x06
    undefined = 0x07
    same_value = 0x08
    register = 0x09
    remember_state = 0x0A
    restore_state = 0x0B
    def_cfa = 0x0C
    def_cfa_register = 0x0D
    def_cfa_offset = 0x0E
    def_cfa_expression = 0x0F
    expression = 0x10
    offset_extended_sf = 0x11
    def_cfa_sf = 0x12
    def_cfa_offset_sf = 0x13
    val_offset = 0x14
    val_offset_sf = 0x15
    val_expression = 0x16
    MIPS_advance_loc8 = 0x1D
    AARCH64_negate_ra_state_with_pc = 0x2C
    # One number with two names; the architecture decides which (GNU_window_save on SPARC).
    AARCH64_negate_ra_state = 0x2D
    GNU_window_save = 0x2D
    GNU_args_size = 0x2E
    GNU_negative_offset_extended = 0x2F


# Opcodes in this range belong to vendors (DWARF5 7.24, table 7.29).
LO_USER, HI_USER = 0x1C, 0x3F

# Three opcodes have an operand in their low six bits (DWARF5 7.24).
PRIMARY_MASK = 0xC0
INLINE_MASK = 0x3F


class Operand(IntEnum):
    """How an operand of a call frame instruction is stored, and its unit."""

    NONE = 0
    INLINE_DELTA = 1  # low six bits, in code_alignment_factor units
    INLINE_REGISTER = 2  # low six bits
    DELTA1 = 3  # fixed width, in code_alignment_factor units
    DELTA2 = 4
    DELTA4 = 5
    DELTA8 = 6
    ADDRESS = 7  # as the CIE encodes addresses
    REGISTER = 8  # unsigned LEB128
    OFFSET = 9  # unsigned LEB128, bytes
    FACTORED_OFFSET = 10  # unsigned LEB128, in data_alignment_factor units
    SIGNED_FACTORED_OFFSET = 11  # signed LEB128, in data_alignment_factor units
    NEGATED_FACTORED_OFFSET = 12  # unsigned LEB128, negated, in data_alignment_factor units
    BLOCK = 13  # a DWARF expression: unsigned LEB128 length and bytes
    SIZE = 14  # unsigned LEB128, bytes


class Effect(IntEnum):
    """What an instruction does to the row under construction (DWARF5 6.4.2)."""

    NOTHING = 0
    ADVANCE = 1  # a new row, at the current location plus the operand
    SET_LOCATION = 2  # a new row at an address
    CFA = 3  # register and offset
    CFA_REGISTER = 4  # the offset stays
    CFA_OFFSET = 5  # the register stays
    CFA_EXPRESSION = 6
    UNDEFINED = 7
    SAME_VALUE = 8
    OFFSET = 9
    VAL_OFFSET = 10
    REGISTER = 11
    EXPRESSION = 12
    VAL_EXPRESSION = 13
    RESTORE = 14  # the rule set by the CIE's initial instructions
    REMEMBER_STATE = 15
    RESTORE_STATE = 16
    NEGATE_RA_STATE = 17
    NEGATE_RA_STATE_WITH_PC = 18
    ARGS_SIZE = 19  # bytes of arguments on the stack
    WINDOW_SAVE = 20  # WINDOW_REGISTERS are saved in order from the CFA on (libgcc, unwind-dw2.c)
    UNKNOWN = 255


@dataclass(frozen=True, slots=True)
class InstructionSpec:
    """One row of the instruction table."""

    effect: Effect
    operands: tuple[Operand, ...] = ()


# To add an instruction, add its number above and its row here; a new effect also needs a case in the row kernel.
INSTRUCTIONS: dict[DW_CFA, InstructionSpec] = {
    DW_CFA.advance_loc: InstructionSpec(Effect.ADVANCE, (Operand.INLINE_DELTA,)),
    DW_CFA.offset: InstructionSpec(Effect.OFFSET, (Operand.INLINE_REGISTER, Operand.FACTORED_OFFSET)),
    DW_CFA.restore: InstructionSpec(Effect.RESTORE, (Operand.INLINE_REGISTER,)),
    DW_CFA.nop: InstructionSpec(Effect.NOTHING),
    DW_CFA.set_loc: InstructionSpec(Effect.SET_LOCATION, (Operand.ADDRESS,)),
    DW_CFA.advance_loc1: InstructionSpec(Effect.ADVANCE, (Operand.DELTA1,)),
    DW_CFA.advance_loc2: InstructionSpec(Effect.ADVANCE, (Operand.DELTA2,)),
    DW_CFA.advance_loc4: InstructionSpec(Effect.ADVANCE, (Operand.DELTA4,)),
    DW_CFA.offset_extended: InstructionSpec(Effect.OFFSET, (Operand.REGISTER, Operand.FACTORED_OFFSET)),
    DW_CFA.restore_extended: InstructionSpec(Effect.RESTORE, (Operand.REGISTER,)),
    DW_CFA.undefined: InstructionSpec(Effect.UNDEFINED, (Operand.REGISTER,)),
    DW_CFA.same_value: InstructionSpec(Effect.SAME_VALUE, (Operand.REGISTER,)),
    DW_CFA.register: InstructionSpec(Effect.REGISTER, (Operand.REGISTER, Operand.REGISTER)),
    DW_CFA.remember_state: InstructionSpec(Effect.REMEMBER_STATE),
    DW_CFA.restore_state: InstructionSpec(Effect.RESTORE_STATE),
    DW_CFA.def_cfa: InstructionSpec(Effect.CFA, (Operand.REGISTER, Operand.OFFSET)),
    DW_CFA.def_cfa_register: InstructionSpec(Effect.CFA_REGISTER, (Operand.REGISTER,)),
    DW_CFA.def_cfa_offset: InstructionSpec(Effect.CFA_OFFSET, (Operand.OFFSET,)),
    DW_CFA.def_cfa_expression: InstructionSpec(Effect.CFA_EXPRESSION, (Operand.BLOCK,)),
    DW_CFA.expression: InstructionSpec(Effect.EXPRESSION, (Operand.REGISTER, Operand.BLOCK)),
    DW_CFA.offset_extended_sf: InstructionSpec(Effect.OFFSET, (Operand.REGISTER, Operand.SIGNED_FACTORED_OFFSET)),
    DW_CFA.def_cfa_sf: InstructionSpec(Effect.CFA, (Operand.REGISTER, Operand.SIGNED_FACTORED_OFFSET)),
    DW_CFA.def_cfa_offset_sf: InstructionSpec(Effect.CFA_OFFSET, (Operand.SIGNED_FACTORED_OFFSET,)),
    DW_CFA.val_offset: InstructionSpec(Effect.VAL_OFFSET, (Operand.REGISTER, Operand.FACTORED_OFFSET)),
    DW_CFA.val_offset_sf: InstructionSpec(Effect.VAL_OFFSET, (Operand.REGISTER, Operand.SIGNED_FACTORED_OFFSET)),
    DW_CFA.val_expression: InstructionSpec(Effect.VAL_EXPRESSION, (Operand.REGISTER, Operand.BLOCK)),
    DW_CFA.MIPS_advance_loc8: InstructionSpec(Effect.ADVANCE, (Operand.DELTA8,)),
    # The machine decides what these two do: see MachineEffects.
    DW_CFA.AARCH64_negate_ra_state_with_pc: InstructionSpec(Effect.NOTHING),
    DW_CFA.AARCH64_negate_ra_state: InstructionSpec(Effect.NOTHING),
    DW_CFA.GNU_args_size: InstructionSpec(Effect.ARGS_SIZE, (Operand.SIZE,)),
    DW_CFA.GNU_negative_offset_extended: InstructionSpec(
        Effect.OFFSET, (Operand.REGISTER, Operand.NEGATED_FACTORED_OFFSET)
    ),
}

# Instructions that set one value of the row to their operand, with the column of the table that holds it. These values
# are no rules: DW_CFA_remember_state ignores them (libgcc, unwind-dw2.c).
ROW_VALUES: dict[DW_CFA, str] = {DW_CFA.GNU_args_size: "args_size"}

# Instructions that have an effect on some machines only, each with that effect.
MachineEffects = tuple[tuple[DW_CFA, Effect], ...]
NO_EFFECTS: MachineEffects = ()
AARCH64_EFFECTS: MachineEffects = (
    (DW_CFA.AARCH64_negate_ra_state_with_pc, Effect.NEGATE_RA_STATE_WITH_PC),
    (DW_CFA.AARCH64_negate_ra_state, Effect.NEGATE_RA_STATE),
)
SPARC_EFFECTS: MachineEffects = ((DW_CFA.GNU_window_save, Effect.WINDOW_SAVE),)
# %l0 to %l7 and %i0 to %i7.
WINDOW_REGISTERS = range(16, 32)

# How each operand is stored. Inline operands are part of the opcode byte.
OPERAND_KINDS: dict[Operand, Kind] = {
    Operand.DELTA1: Integer(1),
    Operand.DELTA2: Integer(2),
    Operand.DELTA4: Integer(4),
    Operand.DELTA8: Integer(8),
    Operand.ADDRESS: Pointer(lambda this: this._params.address_encoding),
    Operand.REGISTER: ULEB,
    Operand.OFFSET: ULEB,
    Operand.FACTORED_OFFSET: ULEB,
    Operand.SIGNED_FACTORED_OFFSET: SLEB,
    Operand.NEGATED_FACTORED_OFFSET: ULEB,
    Operand.BLOCK: Block(),
    Operand.SIZE: ULEB,
}

INLINE_OPERANDS = (Operand.INLINE_DELTA, Operand.INLINE_REGISTER)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One call frame instruction. `operands` are as stored: int, `Leb128` or `LebBlock`; factors are not applied."""

    opcode: DW_CFA
    operands: tuple[int | Leb128 | LebBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a section distinguishes a CIE from an FDE, and where an FDE's CIE is.

    `cie_ids` is by DWARF format; `id_size` is the width of the id and of the CIE pointer (None: that of a
    section offset); if `relative`, the pointer is the distance back from its own field.
    """

    name: str
    cie_ids: dict[DwarfFormat, int]
    id_size: int | None
    relative: bool
    versions: tuple[int, ...]

    def size_of_id(self, dwarf_format: DwarfFormat) -> int:
        """The size in bytes of an entry's id field."""
        return self.id_size or dwarf_format

    def cie_offset(self, field_offset: int, cie_pointer: int) -> int:
        """The section offset of an FDE's CIE; `field_offset` is that of the pointer's first byte."""
        return field_offset - cie_pointer if self.relative else cie_pointer


# LSB Core 10.6.1: the id is 4 bytes and 0. LLVM reads 4 bytes after a 64-bit length too; readelf 2.47 reads 8.
EH_FRAME = Dialect(
    ".eh_frame", {DwarfFormat.DWARF32: 0, DwarfFormat.DWARF64: 0}, id_size=4, relative=True, versions=(1, 3, 4)
)
# DWARF5 7.24, table 7.28.
DEBUG_FRAME = Dialect(
    ".debug_frame",
    {DwarfFormat.DWARF32: 0xFFFFFFFF, DwarfFormat.DWARF64: 0xFFFFFFFFFFFFFFFF},
    id_size=None,
    relative=False,
    versions=(1, 3, 4),
)


def _is_augmented(this: Any) -> bool:
    """Whether augmentation data with a length follows: the first letter is 'z' (LSB Core 10.6.1.1.1)."""
    return bool(this.augmentation[:1] == b"z")


def _address_size(this: Any) -> int:
    """The caller's address size in bytes; the CIE's own, from version 4 on, is a later field."""
    return int(this._params.address_size)


@record
class Cie:
    """Common Information Entry (DWARF5 6.4.1; LSB Core 10.6.1.1), after its length and id."""

    dwarf_format: DwarfFormat = wire(Given(lambda this: this._params.dwarf_format), "32- or 64-bit DWARF")
    version: int = wire(Integer(1, allowed=(1, 3, 4)), "1 in .eh_frame and DWARF 2, 3 in DWARF 3, 4 in DWARF 4 and 5")
    augmentation: bytes = wire(NulTerminated(), "what extends this CIE and its FDEs; NUL-terminated")
    eh_data: int | None = wire(
        When(Variable(_address_size), lambda this: this.augmentation == b"eh"), 'an address, for augmentation "eh"'
    )
    address_size: int | None = wire(
        When(Integer(1, allowed=(2, 4, 8)), lambda this: this.version >= 4), "bytes of an address, from version 4 on"
    )
    segment_selector_size: int | None = wire(
        When(Integer(1, allowed=(0, 1, 2, 4, 8)), lambda this: this.version >= 4),
        "bytes of a segment selector, from version 4 on",
    )
    code_alignment_factor: Leb128 = wire(ULEB, "unit of location advances, in bytes")
    data_alignment_factor: Leb128 = wire(SLEB, "unit of factored offsets, in bytes")
    return_address_register: int | Leb128 = wire(
        Either(lambda this: this.version == 1, U8, ULEB), "column of the return address; one byte in version 1"
    )
    augmentation_data: LebBlock | None = wire(When(Block(), _is_augmented), "length and data, for augmentation 'z'")
    initial_instructions: bytes = wire(Rest(), "instructions that make the first row, including DW_CFA_nop padding")


# Augmentations without 'z' that need nothing more: the pointer of gcc 2's "eh" is a field; ARM's compiler marks
# sections with correct CFA offsets.
KNOWN_AUGMENTATIONS = (b"", b"eh", b"armcc+")


def is_readable(augmentation: bytes) -> bool:
    """Whether the fields after an augmentation can be found: it is known, or starts with 'z' and has a size."""
    return augmentation[:1] == b"z" or augmentation in KNOWN_AUGMENTATIONS


@record
class OpaqueCie:
    """A CIE with an unknown augmentation: only the fields before it can be read (DWARF5 6.4.1)."""

    dwarf_format: DwarfFormat = wire(Given(lambda this: this._params.dwarf_format), "32- or 64-bit DWARF")
    version: int = wire(Integer(1, allowed=(1, 3, 4)), "as a CIE's")
    augmentation: bytes = wire(NulTerminated(), "what extends this CIE and its FDEs; NUL-terminated")
    rest: bytes = wire(Rest(), "bytes whose meaning depends on the augmentation")


@record
class Fde:
    """Frame Description Entry (DWARF5 6.4.1; LSB Core 10.6.1.2), after its length and CIE pointer.

    Parsing and building take `cie_format`, the `FdeFormat` that its CIE prescribes.
    """

    dwarf_format: DwarfFormat = wire(Given(lambda this: this._params.dwarf_format), "32- or 64-bit DWARF")
    cie_pointer: int = wire(Given(lambda this: this._params.cie_pointer), "to the CIE, as stored")
    segment_selector: int | None = wire(
        When(
            Variable(lambda this: this._params.cie_format.segment_selector_size),
            lambda this: this._params.cie_format.segment_selector_size > 0,
        ),
        "segment of the initial location, if the CIE gives selectors a size",
    )
    initial_location: int | Leb128 = wire(
        Pointer(lambda this: this._params.cie_format.address_encoding), "first address covered, as stored"
    )
    address_range: int | Leb128 = wire(
        Pointer(lambda this: this._params.cie_format.address_encoding, always_unsigned=True), "bytes covered"
    )
    augmentation_data: LebBlock | None = wire(
        When(Block(), lambda this: this._params.cie_format.is_augmented), "length and data, for augmentation 'z'"
    )
    instructions: bytes = wire(Rest(), "call frame instructions, including DW_CFA_nop padding")


@record
class Terminator:
    """A length of zero: the end of an `.eh_frame` contribution (LSB Core 10.6.1)."""


Entry = Cie | OpaqueCie | Fde | Terminator


@record
class LsdaPointer:
    """The part of an FDE's augmentation data for 'L'."""

    lsda: int | Leb128 | None = wire(
        Pointer(lambda this: this._params.lsda_encoding), "language-specific data, as stored"
    )


@record
class PersonalityPointer:
    """The part of a CIE's augmentation data for 'P'."""

    encoding: int = wire(U8, "DW_EH_PE byte of the pointer")
    personality: int | Leb128 | None = wire(Pointer(lambda this: this.encoding), "personality routine, as stored")


@dataclass(frozen=True, slots=True)
class FdeFormat:
    """The layout that a CIE prescribes for its FDEs. Sizes are in bytes; encodings are DW_EH_PE bytes."""

    address_size: int
    segment_selector_size: int = 0
    address_encoding: int = DW_EH_PE.absptr
    lsda_encoding: int = DW_EH_PE.omit
    is_augmented: bool = False
