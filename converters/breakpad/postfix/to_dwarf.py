"""Breakpad postfix expressions as DWARF expressions.

Strategy: word by word; both are stack machines. The CFA, which DWARF has on the stack before a register's rule, is
picked from there. Breakpad's numbers are unsigned, DWARF's quotients signed: division is by powers of two alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....schemas.breakpad import CFA_NAME
from ....schemas.expressions import Operation, build_expression
from ....schemas.section import ByteOrder, Section
from ...dwarf.expressions import literal, register_plus

_PLAIN = {"+": "plus", "-": "minus", "*": "mul"}


class PostfixError(Exception):
    """Words that are no expression, or that DWARF cannot say."""


def expression_of(
    words: list[str], numbers: Mapping[str, int], byte_order: ByteOrder, address_size: int, starts_with_cfa: bool
) -> bytes:
    """The bytes of a DWARF expression with the same value; `numbers` are DWARF's of the registers. Raises PostfixError.

    `starts_with_cfa`: it is a register's rule, with the CFA on the stack before it.
    """
    operations: list[Operation] = []
    depth = 0
    for index, word in enumerate(words):
        if word in _PLAIN or word in "/%@":
            if depth < 2:
                raise PostfixError(f"{word!r} finds too few values")
            depth -= 1
            operations += _binary(word, words[index - 1], operations)
        elif word == "^":
            if depth < 1:
                raise PostfixError("'^' finds no value")
            operations.append(Operation("deref"))
        else:
            operations.append(_value(word, numbers, depth, starts_with_cfa))
            depth += 1
    if depth != 1:
        raise PostfixError(f"leaves {depth} values")
    return build_expression(tuple(operations), Section.of("expression", b"", 0, byte_order, address_size))


def _value(word: str, numbers: Mapping[str, int], depth: int, starts_with_cfa: bool) -> Operation:
    if word == CFA_NAME:
        if not starts_with_cfa:
            raise PostfixError("the CFA is said by itself")
        return Operation("pick", (depth,))
    if word in numbers:
        return register_plus(numbers[word], 0)
    try:
        return _constant(int(word))
    except ValueError:
        raise PostfixError(f"{word!r} is no register and no number") from None


def _constant(value: int) -> Operation:
    if not -(1 << 63) <= value < 1 << 64:
        raise PostfixError(f"{value} has more than 64 bits")
    return literal(value)


def _binary(word: str, last: str, operations: list[Operation]) -> list[Operation]:
    """The operations for an operator; a divisor, the word before, is taken back and said otherwise."""
    if word in _PLAIN:
        return [Operation(_PLAIN[word])]
    if not last.isdecimal() or int(last) == 0:
        raise PostfixError(f"{word!r} by what is no number above 0")
    divisor = int(last)
    is_power = divisor & (divisor - 1) == 0
    if word == "%" and not is_power:
        return [Operation("mod")]
    if not is_power:
        raise PostfixError(f"{word!r} by {divisor}, which is no power of two")
    operations.pop()
    if word == "%":
        return [_constant(divisor - 1), Operation("and")]
    shift = _constant(divisor.bit_length() - 1)
    return [shift, Operation("shr")] if word == "/" else [_constant(-divisor), Operation("and")]
