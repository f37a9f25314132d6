"""Breakpad postfix expressions as DWARF expressions.

Strategy: translate word by word, since both are stack machines. In a register's rule DWARF starts with the CFA on the
stack; DW_OP_pick fetches it. Breakpad's division is unsigned, DWARF's signed: only powers of two can be divisors.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....schemas.breakpad.records import CFA_NAME
from ....schemas.expressions import Operation, build_expression
from ....schemas.section import ByteOrder, Section
from ....schemas.text_records import shortened
from ...dwarf.expressions import literal, register_plus
from .machine import literal_of

_OPERATORS = {"+": "plus", "-": "minus", "*": "mul"}


class PostfixError(Exception):
    """Words that are not an expression, or that DWARF cannot express."""


def expression_of(
    words: list[str], numbers: Mapping[str, int], byte_order: ByteOrder, address_size: int, starts_with_cfa: bool
) -> bytes:
    """A DWARF expression with the same value. `numbers`: DWARF register numbers by name. Raises PostfixError.

    `starts_with_cfa`: it is a register's rule, evaluated with the CFA on the stack initially.
    """
    operations: list[Operation] = []
    depth = 0
    for index, word in enumerate(words):
        if word in _OPERATORS or word in "/%@":
            if depth < 2:
                raise PostfixError(f"too few values for {word!r}")
            depth -= 1
            operations += _binary(word, words[index - 1], operations)
        elif word == "^":
            if depth < 1:
                raise PostfixError("no value for '^'")
            operations.append(Operation("deref"))
        else:
            operations.append(_value(word, numbers, depth, starts_with_cfa))
            depth += 1
    if depth != 1:
        raise PostfixError(f"expected one value on the stack at the end, found {depth}")
    return build_expression(tuple(operations), Section.of("expression", b"", 0, byte_order, address_size))


def _value(word: str, numbers: Mapping[str, int], depth: int, starts_with_cfa: bool) -> Operation:
    if word == CFA_NAME:
        if not starts_with_cfa:
            raise PostfixError("the rule for the CFA uses the CFA")
        return Operation("pick", (depth,))
    if word in numbers:
        return register_plus(numbers[word], 0)
    number = literal_of(word)
    if number is None:
        raise PostfixError(f"{shortened(word)} is neither a register nor a number")
    if not -(1 << 63) <= number < 1 << 64:
        raise PostfixError(f"{shortened(word)} has more than 64 bits")
    return literal(number)


def _binary(word: str, last: str, operations: list[Operation]) -> list[Operation]:
    """The operations for an operator. `last` is the word before it; if it is a divisor that becomes a mask or a shift,
    its operation is removed from `operations`.
    """
    if word in _OPERATORS:
        return [Operation(_OPERATORS[word])]
    divisor = literal_of(last) or 0
    if divisor <= 0:
        raise PostfixError(f"the divisor of {word!r} is not a positive number")
    is_power = divisor & (divisor - 1) == 0
    if word == "%" and not is_power:
        return [Operation("mod")]
    if not is_power:
        raise PostfixError(f"the divisor of {word!r} is {divisor}, expected a power of two")
    operations.pop()
    if word == "%":
        return [literal(divisor - 1), Operation("and")]
    shift = literal(divisor.bit_length() - 1)
    return [shift, Operation("shr")] if word == "/" else [literal(-divisor), Operation("and")]
