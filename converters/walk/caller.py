"""The caller of a frame: its PC and registers, by the row in force, the frame's registers and memory (DWARF5 6.4.4).

Strategy: rules of every format are rules of the table, so that one function applies them all. A register without a rule
follows the psABI: callee-saved ones keep their values, SP is derived from the CFA, all others are unknown. What cannot
be recovered is left out; only a missing CFA or return address ends a walk, with its reason as a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...schemas.arguments import check_address, check_callable, check_integer, checked, each, optional
from ...schemas.data_classes import dataclass
from ...schemas.section import ByteOrder, ParseError
from ..arch.table import Architecture
from ..dwarf.expressions import ExpressionError, ReadMemory, evaluate, parse
from ..findings import Worded
from ..rules import CfaKind, RuleKind
from ..table.lookup import NOTHING, RowIndex
from ..table.model import CfaRule, FunctionFlag, RegisterRule, Row, UnwindTable

ADDRESS_MASK = (1 << 64) - 1
# AArch64: bit 55 selects the half of the address space; a signature takes the bits above the address but for that one.
HALF_BIT = 1 << 55
SIGNATURE_BITS = ADDRESS_MASK & ~((1 << 48) - 1) & ~HALF_BIT


class WalkEnd(Worded):
    """Why a walk ends at a frame."""

    OUTERMOST = 1, "the return address is undefined (outermost frame)"
    NO_FUNCTION = 2, "no function covers the PC"
    NO_ROW = 3, "the function has no row for the PC"
    NO_CFA = 4, "the row has no CFA rule"
    UNKNOWN_REGISTER = 5, "a rule needs a register whose value is not known"
    NO_MEMORY = 6, "memory cannot be read"
    BAD_EXPRESSION = 7, "an expression has no value"
    NO_RETURN_ADDRESS = 8, "the row has no rule for the return address"
    NULL_RETURN_ADDRESS = 9, "the return address is 0"
    LOOP = 10, "the caller's PC and CFA are those of an earlier frame"
    LIMIT = 11, "the limit on frames is reached"


@dataclass(frozen=True, slots=True)
class Frame:
    """The state of a call frame. `registers` are unsigned values by DWARF number; one that is not there is unknown.

    `is_after_call`: the PC is a return address, which may be the first address after its function, so that rows are
    looked up for the address before it.
    """

    pc: int
    registers: Mapping[int, int]
    is_after_call: bool = False

    @property
    def lookup_pc(self) -> int:
        """The address whose row, name and line are the frame's."""
        return (self.pc - self.is_after_call) & ADDRESS_MASK


@dataclass(frozen=True, slots=True)
class Caller:
    """The result for one frame: its CFA, None if that is not known, and the `frame` of its caller, or why there is
    none: `end`, with the register or address at fault in `detail`. `is_signal_frame` is about the frame itself;
    `source` names what had the rules."""

    cfa: int | None = None
    frame: Frame | None = None
    end: WalkEnd | None = None
    detail: str = ""
    is_signal_frame: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class Abi:
    """Properties of rows that the row itself does not contain. `kept`: the registers that keep their values without a
    rule. `signature_bits`: the bits of a signed return address that are not part of it."""

    architecture: Architecture
    byte_order: ByteOrder
    kept: tuple[int, ...]
    signature_bits: int = SIGNATURE_BITS


class _UnrecoverableError(Exception):
    """A rule has no value."""

    def __init__(self, end: WalkEnd, detail: str) -> None:
        super().__init__(end, detail)
        self.end, self.detail = end, detail


@checked(
    table=UnwindTable,
    frame=Frame,
    memory=check_callable,
    load_bias=check_integer,
    kept=optional(each(check_integer)),
    signature_bits=check_address,
)
def caller_frame(
    table: UnwindTable,
    frame: Frame,
    memory: ReadMemory,
    *,
    load_bias: int = 0,
    kept: Sequence[int] | None = None,
    signature_bits: int = SIGNATURE_BITS,
) -> Caller:
    """The caller of a frame, by the row that a table has for its PC.

    `memory(address, size)` reads an unsigned number, and raises LookupError where there is none. PCs are `load_bias`
    higher than in the table. `kept`: the registers that keep their values in rows without a rule for them; by default
    the psABI's callee-saved ones. It is the frame pointer alone for a table from SFrame, which describes no others.
    `signature_bits`: of a return address with pointer authentication (AArch64).
    """
    architecture = table.architecture
    abi = Abi(
        architecture,
        table.byte_order,
        architecture.callee_saved if kept is None else tuple(kept),
        signature_bits,
    )
    return caller_by_index(abi, RowIndex(table), frame, memory, load_bias)


def caller_by_index(abi: Abi, index: RowIndex, frame: Frame, memory: ReadMemory, load_bias: int) -> Caller:
    """As `caller_frame`, for many frames of one table."""
    table = index.table
    function, row = index.row_at((frame.lookup_pc - load_bias) & ADDRESS_MASK)
    if function == NOTHING:
        return Caller(end=WalkEnd.NO_FUNCTION, source=table.source)
    flags = FunctionFlag(int(table.functions.flags[function]))
    is_signal_frame = bool(flags & FunctionFlag.SIGNAL_FRAME)
    if row == NOTHING:
        return Caller(end=WalkEnd.NO_ROW, is_signal_frame=is_signal_frame, source=table.source)
    return_column = int(table.functions.return_column[function])
    caller = caller_by_row(abi, table.row(row), return_column, frame, memory, is_signal_frame)
    return replace(caller, source=table.source)


def caller_by_row(
    abi: Abi, row: Row, return_column: int, frame: Frame, memory: ReadMemory, is_signal_frame: bool = False
) -> Caller:
    """As `caller_frame`, by a row of a function with that return address column."""
    machine = _Machine(abi, frame, memory)
    cfa = None
    try:
        cfa = machine.cfa(row.cfa)
        pc = machine.return_address(row, return_column, cfa)
    except _UnrecoverableError as fault:
        # SFrame marks an outermost frame by a row without any rule but for the return address.
        is_outermost = RegisterRule(return_column, RuleKind.UNDEFINED) in row.registers
        end, detail = (WalkEnd.OUTERMOST, "") if is_outermost else (fault.end, fault.detail)
        return Caller(cfa, None, end, detail, is_signal_frame)
    registers = machine.caller_registers(row, cfa)
    registers[return_column] = pc
    return Caller(cfa, Frame(pc, registers, not is_signal_frame), is_signal_frame=is_signal_frame)


@dataclass(frozen=True, slots=True)
class _Machine:
    """What rules are applied to."""

    abi: Abi
    frame: Frame
    memory: ReadMemory

    @property
    def address_mask(self) -> int:
        return (1 << 8 * self.abi.architecture.address_size) - 1

    def register(self, number: int) -> int:
        """The frame's value of a register. Raises _UnrecoverableError."""
        if number == self.abi.architecture.program_counter:
            return self.frame.pc
        if number not in self.frame.registers:
            raise _UnrecoverableError(WalkEnd.UNKNOWN_REGISTER, f"register {number}")
        return self.frame.registers[number]

    def read(self, address: int, size: int) -> int:
        """The number in memory. Raises _UnrecoverableError."""
        try:
            return self.memory(address & self.address_mask, size)
        except LookupError:
            raise _UnrecoverableError(WalkEnd.NO_MEMORY, f"{size} bytes at {address & self.address_mask:#x}") from None

    def evaluate(self, expression: bytes, initial: int | None) -> int:
        """The value of a DWARF expression. Raises _UnrecoverableError."""
        size = self.abi.architecture.address_size
        try:
            operations = parse(expression, self.abi.byte_order, size)
            return evaluate(operations, self.register, self.read, size, initial)
        except (ParseError, ExpressionError) as error:
            raise _UnrecoverableError(WalkEnd.BAD_EXPRESSION, str(error)) from None

    def cfa(self, rule: CfaRule) -> int:
        """The CFA. Raises _UnrecoverableError."""
        match rule.kind, rule.value:
            case CfaKind.REGISTER, int(offset):
                return (self.register(rule.register) + offset) & self.address_mask
            case CfaKind.EXPRESSION, bytes(expression):
                return self.evaluate(expression, None)
        raise _UnrecoverableError(WalkEnd.NO_CFA, "")

    def value(self, rule: RegisterRule, cfa: int) -> int | None:
        """The caller's value of a register; None if the rule is that it has none. Raises _UnrecoverableError."""
        size = self.abi.architecture.register_size
        match rule.kind, rule.value:
            case RuleKind.SAME_VALUE, _:
                return self.register(rule.register)
            case RuleKind.OFFSET, int(offset):
                return self.read(cfa + offset, size)
            case RuleKind.VAL_OFFSET, int(offset):
                return (cfa + offset) & self.address_mask
            case RuleKind.REGISTER, int(number):
                return self.register(number)
            case RuleKind.EXPRESSION, bytes(expression):
                return self.read(self.evaluate(expression, cfa), size)
            case RuleKind.VAL_EXPRESSION, bytes(expression):
                return self.evaluate(expression, cfa)
        return None

    def return_address(self, row: Row, return_column: int, cfa: int) -> int:
        """The caller's PC. Raises _UnrecoverableError."""
        architecture = self.abi.architecture
        rule = next((one for one in row.registers if one.register == return_column), RegisterRule(return_column, _NONE))
        if rule.kind is RuleKind.UNDEFINED:
            raise _UnrecoverableError(WalkEnd.OUTERMOST, "")
        if rule.kind in _BY_ABI:
            if return_column == architecture.program_counter:
                raise _UnrecoverableError(WalkEnd.NO_RETURN_ADDRESS, "")
            rule = RegisterRule(return_column, RuleKind.SAME_VALUE)
        found = self.value(rule, cfa)
        assert found is not None
        if architecture.signs_return_addresses and architecture.address_size == 8:
            bits = self.abi.signature_bits
            found = found | bits if found & HALF_BIT else found & ~bits
        if architecture.marks_code:
            found &= ~1
        found &= self.address_mask
        if not found:
            raise _UnrecoverableError(WalkEnd.NULL_RETURN_ADDRESS, "")
        return found

    def caller_registers(self, row: Row, cfa: int) -> dict[int, int]:
        """The registers of the caller that can be recovered."""
        abi = self.abi
        rules = {one.register: one for one in row.registers if one.kind not in _BY_ABI}
        known = self.frame.registers
        registers = {number: known[number] for number in abi.kept if number in known}
        stack_pointer = abi.architecture.stack_pointer
        if stack_pointer is not None:
            registers[stack_pointer] = (cfa + abi.architecture.caller_sp_offset) & self.address_mask
        for rule in rules.values():
            registers.pop(rule.register, None)
            try:
                value = self.value(rule, cfa)
            except _UnrecoverableError:
                continue
            if value is not None:
                registers[rule.register] = value
        return registers


_NONE = RuleKind.UNSPECIFIED
# Kinds without a rule: the architecture's psABI defines the value.
_BY_ABI = (RuleKind.UNSPECIFIED, RuleKind.ARCHITECTURAL)
