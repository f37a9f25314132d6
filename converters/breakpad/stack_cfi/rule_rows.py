"""Rules of STACK CFI records as rows of the table (Breakpad, docs/symbol_files.md, STACK CFI records).

Strategy: the forms that compilers need have a rule of their own; any other postfix expression becomes a DWARF one.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....schemas.breakpad.records import CFA_NAME, RA_NAME, UNDEFINED
from ....schemas.text_records import shortened
from ...arch.table import Architecture, assembler_of, unwind_registers
from ...rules import MAX_OFFSET, CfaKind, RuleKind
from ...table.model import CfaRule, RegisterRule, Row
from ..postfix.machine import literal_of
from ..postfix.to_dwarf import PostfixError, expression_of
from .rule_text import OUTERMOST


def row_of_rules(
    rules: Mapping[str, str], numbers: Mapping[str, int], architecture: Architecture, ra_column: int
) -> Row:
    """The row, at offset 0, with these rules in force. `numbers`: register numbers by name; `.ra` is in `ra_column`.

    Raises PostfixError for an unknown register, and for an expression that DWARF cannot express.
    """
    cfa = CfaRule(CfaKind.NONE)
    registers: dict[int, RegisterRule] = {}
    for name, rule in rules.items():
        if name not in numbers and name not in (CFA_NAME, RA_NAME):
            raise PostfixError(f"{architecture.name} has no register {shortened(name)}")
        try:
            if name == CFA_NAME:
                cfa = _cfa(rule.split(), numbers, architecture)
                continue
            number = ra_column if name == RA_NAME else numbers[name]
            found = _rule(number, rule.split(), numbers, architecture, name == RA_NAME)
        except PostfixError as error:
            raise PostfixError(f"{name}: {error}") from error
        if found is not None:
            registers[number] = found
    stack_pointer = unwind_registers(architecture).sp
    if cfa.kind is not CfaKind.NONE:
        # Without a rule SP is the CFA.
        registers.setdefault(stack_pointer, RegisterRule(stack_pointer, RuleKind.VAL_OFFSET, 0))
    default = RegisterRule(stack_pointer, RuleKind.VAL_OFFSET, architecture.caller_sp_offset)
    if registers.get(stack_pointer) == default and not architecture.needs_sp_rule:
        del registers[stack_pointer]
    return Row(0, cfa, tuple(sorted(registers.values())))


def _cfa(words: list[str], numbers: Mapping[str, int], architecture: Architecture) -> CfaRule:
    match words:
        case [name, offset, "+"] if name in numbers and (value := _offset(offset)) is not None:
            return CfaRule(CfaKind.REGISTER, numbers[name], value)
        case [name] if name in numbers:
            return CfaRule(CfaKind.REGISTER, numbers[name], 0)
    return CfaRule(CfaKind.EXPRESSION, 0, _expression(words, numbers, architecture, starts_with_cfa=False))


def _rule(
    number: int, words: list[str], numbers: Mapping[str, int], architecture: Architecture, is_ra: bool
) -> RegisterRule | None:
    """The rule of a register; None if it keeps its value."""
    is_pushed = assembler_of(architecture).ra_offset is not None
    match words:
        case [word] if word == UNDEFINED or (word == OUTERMOST and is_ra):
            return RegisterRule(number, RuleKind.UNDEFINED)
        case [name] if name in numbers:
            if numbers[name] != number:
                return RegisterRule(number, RuleKind.REGISTER, numbers[name])
            # Without a rule SP is the CFA, and a return address that calls push is undefined.
            needs_rule = number == architecture.stack_pointer or (is_ra and is_pushed)
            return RegisterRule(number, RuleKind.SAME_VALUE) if needs_rule else None
        case [name] if name == CFA_NAME:
            return RegisterRule(number, RuleKind.VAL_OFFSET, 0)
        case [name, "^"] if name == CFA_NAME:
            return RegisterRule(number, RuleKind.OFFSET, 0)
        case [name, offset, "+", "^"] if name == CFA_NAME and (value := _offset(offset)) is not None:
            return RegisterRule(number, RuleKind.OFFSET, value)
        case [name, offset, "+"] if name == CFA_NAME and (value := _offset(offset)) is not None:
            return RegisterRule(number, RuleKind.VAL_OFFSET, value)
        case [name, offset, "-", "^"] if name == CFA_NAME and (value := _offset(offset)) is not None:
            return RegisterRule(number, RuleKind.OFFSET, -value)
        case [name, offset, "-"] if name == CFA_NAME and (value := _offset(offset)) is not None:
            return RegisterRule(number, RuleKind.VAL_OFFSET, -value)
    is_memory = words[-1] == "^"
    kind = RuleKind.EXPRESSION if is_memory else RuleKind.VAL_EXPRESSION
    computed = words[:-1] if is_memory else words
    return RegisterRule(number, kind, _expression(computed, numbers, architecture, starts_with_cfa=True))


def _expression(
    words: list[str], numbers: Mapping[str, int], architecture: Architecture, starts_with_cfa: bool
) -> bytes:
    size = architecture.address_size
    if size != architecture.register_size:
        raise PostfixError(f"no DWARF expression of {architecture.name} computes with words of a register's size")
    return expression_of(words, numbers, architecture.byte_order, size, starts_with_cfa)


def _offset(word: str) -> int | None:
    """The value of a decimal number in the range of offsets; None for any other word."""
    value = literal_of(word)
    return value if value is not None and abs(value) <= MAX_OFFSET else None
