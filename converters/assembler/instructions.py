"""The directives of one function as call frame instructions, as GNU as encodes them.

Strategy: as as does, what comes before the first advance, `.cfi_remember_state` or `.cfi_escape` are the initial
instructions of the CIE, whose rules `.cfi_restore` restores (gas/dw2gencfi.c, select_cie_for_fde). Offsets are encoded
with the factors of the architecture's assembler, since the bytes of `.cfi_escape` are.
"""

from __future__ import annotations

from functools import lru_cache

from ...schemas.cfi import DW_CFA, INSTRUCTIONS, Instruction, Operand
from ...schemas.cfi_sections import build_instructions
from ...schemas.section import ByteOrder
from ...schemas.text_records import shortened
from ...schemas.wire import Leb128, sleb, uleb
from ..arch.registers import register_numbers
from ..arch.table import Architecture, assembler_of, unwind_registers
from ..rules import MAX_REGISTER
from .statements import Statement, StatementError, number

_MAX_OFFSET = 1 << 62
_WIDE_ADVANCE = 1 << 32  # from here on, DW_CFA_advance_loc4 is too narrow


class FunctionInstructions:
    """The instructions of a function, directive by directive: `initial` are those for the CIE, `rest` those of the FDE.

    `is_simple`: without the architecture's initial rules.
    """

    def __init__(self, architecture: Architecture, byte_order: ByteOrder, is_simple: bool) -> None:
        self.initial, self.rest = bytearray(), bytearray()
        self._architecture, self._byte_order = architecture, byte_order
        self._is_initial = True
        self._cfa_offset = 0
        self._remembered: list[int] = []
        if not is_simple:
            assembler, registers = assembler_of(architecture), unwind_registers(architecture)
            self._def_cfa(registers.sp, assembler.cfa_offset)
            if assembler.ra_offset is not None:
                self._offset(registers.ra, assembler.ra_offset)

    def advance(self, size: int) -> None:
        """Move to the row that starts `size` bytes later. Raises StatementError."""
        unit = assembler_of(self._architecture).code_alignment_factor
        if size % unit:
            raise StatementError(f"the distance from the directive before, {size} bytes, is no multiple of {unit}")
        self._is_initial = False
        opcode = DW_CFA.advance_loc4 if size // unit < _WIDE_ADVANCE else DW_CFA.MIPS_advance_loc8
        self._add(opcode, size // unit)

    def add(self, statement: Statement) -> None:
        """Add a directive. Raises StatementError."""
        match statement.name, statement.arguments:
            case ".cfi_def_cfa", (register, value):
                self._def_cfa(self._register(register), _integer(value))
            case ".cfi_def_cfa_register", (register,):
                self._add(DW_CFA.def_cfa_register, self._register(register))
            case ".cfi_def_cfa_offset", (value,):
                self._def_cfa_offset(_integer(value))
            case ".cfi_adjust_cfa_offset", (value,):
                self._def_cfa_offset(self._cfa_offset + _integer(value))
            case ".cfi_offset", (register, value):
                self._offset(self._register(register), _integer(value))
            case ".cfi_rel_offset", (register, value):
                self._offset(self._register(register), _integer(value) - self._cfa_offset)
            case ".cfi_val_offset", (register, value):
                self._add(DW_CFA.val_offset_sf, self._register(register), self._factored(_integer(value)))
            case ".cfi_register", (register, other):
                self._add(DW_CFA.register, self._register(register), self._register(other))
            case ".cfi_escape", values:
                self._escape(*values)
            case ".cfi_remember_state", ():
                self._remember()
            case ".cfi_restore_state", ():
                self._restore_state()
            case name, () if name in _PLAIN:
                self._add(_PLAIN[name])
            case name, (_, *_) as registers if name in _OF_REGISTERS:
                for register in registers:
                    self._add(_OF_REGISTERS[name], self._register(register))
            case name, arguments:
                if name in _NAMES:
                    raise StatementError(f"{name} does not take {len(arguments)} arguments")
                raise StatementError(f"{shortened(name)} is not supported")

    def _add(self, opcode: DW_CFA, *operands: int) -> None:
        (self.initial if self._is_initial else self.rest).extend(_encoded(self._byte_order, opcode, operands))

    def _register(self, text: str) -> int:
        return register_number(text, self._architecture)

    def _factored(self, value: int) -> int:
        unit = assembler_of(self._architecture).data_alignment_factor
        if value % unit:
            raise StatementError(f"the offset {value} is no multiple of {abs(unit)}")
        return value // unit

    def _def_cfa(self, register: int, value: int) -> None:
        self._cfa_offset = value
        if value < 0:
            self._add(DW_CFA.def_cfa_sf, register, self._factored(value))
        else:
            self._add(DW_CFA.def_cfa, register, value)

    def _def_cfa_offset(self, value: int) -> None:
        self._cfa_offset = value
        if value < 0:
            self._add(DW_CFA.def_cfa_offset_sf, self._factored(value))
        else:
            self._add(DW_CFA.def_cfa_offset, value)

    def _offset(self, register: int, value: int) -> None:
        self._add(DW_CFA.offset_extended_sf, register, self._factored(value))

    def _remember(self) -> None:
        self._is_initial = False
        self._remembered.append(self._cfa_offset)
        self._add(DW_CFA.remember_state)

    def _restore_state(self) -> None:
        if not self._remembered:
            raise StatementError("no .cfi_remember_state before it")
        self._cfa_offset = self._remembered.pop()
        self._add(DW_CFA.restore_state)

    def _escape(self, *values: str) -> None:
        self._is_initial = False
        for one in values:
            byte = number(one)
            if byte is None or not -0x80 <= byte <= 0xFF:
                raise StatementError(f"{shortened(one)} is not a byte")
            self.rest.append(byte & 0xFF)


def register_number(text: str, architecture: Architecture) -> int:
    """The DWARF number of a register, given as a number or by its name, with or without `%` or `$`. Raises
    StatementError."""
    word = text.lstrip("%$")
    found = number(word)
    if found is None:
        found = register_numbers(architecture.machine).get(word.lower())
    if found is None or not 0 <= found <= MAX_REGISTER:
        raise StatementError(f"{architecture.name} has no register {shortened(text)}")
    return found


def _integer(text: str) -> int:
    value = number(text)
    if value is None or abs(value) > _MAX_OFFSET:
        raise StatementError(f"{shortened(text)} is not an offset")
    return value


@lru_cache(1 << 16)
def _encoded(byte_order: ByteOrder, opcode: DW_CFA, operands: tuple[int, ...]) -> bytes:
    kinds = INSTRUCTIONS[opcode].operands
    stored = tuple(_stored(kind, value) for kind, value in zip(kinds, operands, strict=True))
    return build_instructions((Instruction(opcode, stored),), byte_order)


def _stored(kind: Operand, value: int) -> int | Leb128:
    if kind is Operand.SIGNED_FACTORED_OFFSET:
        return sleb(value)
    return value if kind in (Operand.DELTA4, Operand.DELTA8) else uleb(value)


_PLAIN = {
    ".cfi_window_save": DW_CFA.GNU_window_save,
    ".cfi_negate_ra_state": DW_CFA.AARCH64_negate_ra_state,
    ".cfi_negate_ra_state_with_pc": DW_CFA.AARCH64_negate_ra_state_with_pc,
}
_OF_REGISTERS = {
    ".cfi_undefined": DW_CFA.undefined,
    ".cfi_same_value": DW_CFA.same_value,
    ".cfi_restore": DW_CFA.restore_extended,
}
_NAMES = {
    ".cfi_def_cfa", ".cfi_def_cfa_register", ".cfi_def_cfa_offset", ".cfi_adjust_cfa_offset", ".cfi_offset",
    ".cfi_rel_offset", ".cfi_val_offset", ".cfi_register", ".cfi_remember_state", ".cfi_restore_state",
    *_PLAIN, *_OF_REGISTERS,
}  # fmt: skip
