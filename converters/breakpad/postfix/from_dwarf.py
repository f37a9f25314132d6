"""DWARF expressions as Breakpad postfix expressions (unsigned words; `+ - * / % @ ^`).

Strategy: write out the simplified expression tree. An operation that Breakpad lacks is expressed with other operators
if the result is exact for every value: masks and shifts with powers of two, comparisons of a number whose largest
value is known. Anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....schemas.breakpad.records import CFA_NAME
from ....schemas.section import ByteOrder, ParseError
from ...dwarf.expressions import Binary, Constant, ExpressionError, Memory, Node, Register, Unary, parse, simplify

CFA = -1  # represents the CFA among register numbers


def postfix_of(
    expression: bytes, names: Mapping[int, str], byte_order: ByteOrder, address_size: int, starts_with_cfa: bool
) -> str | None:
    """The expression in postfix; None if the language cannot express it. `names`: register names by DWARF number.

    `starts_with_cfa`: the CFA is on the stack initially, as for a register's rule (DWARF5 6.4.2.3).
    """
    known = {**names, CFA: CFA_NAME}
    initial = Register(CFA) if starts_with_cfa else None
    try:
        tree = simplify(parse(expression, byte_order, address_size), address_size, initial)
        return _postfix(tree, known, (1 << 8 * address_size) - 1)
    except (ParseError, ExpressionError):
        return None


def _postfix(node: Node, names: Mapping[int, str], mask: int) -> str:
    """A tree in postfix. Raises ExpressionError if it cannot be expressed."""
    match node:
        case Register(number):
            if number not in names:
                raise ExpressionError(f"register {number} has no name")
            return names[number]
        case Constant(value):
            return str(value if value <= mask >> 1 else value - mask - 1)
        case Memory(address, size):
            if 8 * size != mask.bit_length():
                raise ExpressionError(f"reads {size} bytes")
            return f"{_postfix(address, names, mask)} ^"
        case Unary("neg", operand):
            return f"0 {_postfix(operand, names, mask)} -"
        case Unary("not", operand):
            return f"-1 {_postfix(operand, names, mask)} -"
        case Binary(operator, left, Constant(value)) if operator in _BY_CONSTANT:
            return _BY_CONSTANT[operator](left, value, names, mask)
        case Binary(operator, Constant(value), right) if operator in _MIRRORED:
            return _BY_CONSTANT[_MIRRORED[operator]](right, value, names, mask)
        case Binary(operator, left, right) if operator in _OPERATORS:
            return f"{_postfix(left, names, mask)} {_postfix(right, names, mask)} {_OPERATORS[operator]}"
    raise ExpressionError("no operator can express it")


def _plus(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    return f"{_postfix(left, names, mask)} {_postfix(Constant(value), names, mask)} +"


def _masked(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    """A mask of low ones is a remainder, one of high ones an alignment, one of ones in the middle both."""
    low = value & -value
    if value == 0 or (value + low) & mask & value:
        raise ExpressionError(f"the ones of the mask {value:#x} are not contiguous")
    words = _postfix(left, names, mask)
    if value + low <= mask:
        words = f"{words} {value + low} %"
    return words if low == 1 else f"{words} {low} @"


def _shifted_left(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    return f"{_postfix(left, names, mask)} {_power(value, mask)} *"


def _shifted_right(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    return f"{_postfix(left, names, mask)} {_power(value, mask)} /"


def _power(shift: int, mask: int) -> int:
    if shift >= mask.bit_length():
        raise ExpressionError(f"shifts by {shift}")
    return 1 << shift


def _divided(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    """DWARF's division is signed, Breakpad's unsigned: they agree if neither operand is negative."""
    if _largest(left, mask) > mask >> 1 or not 0 < value <= mask >> 1:
        raise ExpressionError("divides a number that may be negative")
    return f"{_postfix(left, names, mask)} {value} /"


def _remainder(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    if value == 0:
        raise ExpressionError("takes a remainder by zero")
    return f"{_postfix(left, names, mask)} {value} %"


def _at_least(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    """1 if the number is at least `value`, else 0.

    Let P be a power of two above the largest number: number + (P - value) reaches P exactly if number >= value.
    """
    largest = _largest(left, mask)
    if largest > mask >> 1 or value > mask >> 1:
        raise ExpressionError("compares a number that may be negative")
    if not 0 < value <= largest:
        return str(int(value == 0))
    power = 1 << largest.bit_length()
    return f"{_postfix(left, names, mask)} {power - value} + {power} /"


def _equal(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    return f"{_at_least(left, value, names, mask)} {_at_least(left, value + 1, names, mask)} -"


def _more(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    return _at_least(left, value + 1, names, mask)


def _less(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    return f"1 {_at_least(left, value, names, mask)} -"


def _at_most(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    return f"1 {_more(left, value, names, mask)} -"


def _unequal(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    return f"1 {_equal(left, value, names, mask)} -"


def _largest(node: Node, mask: int) -> int:
    """The largest value that a tree can have."""
    match node:
        case Constant(value):
            return value
        case Binary("and", left, right):
            return min(_largest(left, mask), _largest(right, mask))
        case Binary("shr", left, Constant(value)):
            return _largest(left, mask) >> value
        case Binary("mod", _, Constant(value)) if value:
            return value - 1
        case Binary("plus", left, right):
            total = _largest(left, mask) + _largest(right, mask)
            return total if total <= mask else mask
        case Binary("eq" | "ge" | "gt" | "le" | "lt" | "ne", _, _):
            return 1
    return mask


_OPERATORS = {"plus": "+", "minus": "-", "mul": "*"}
_BY_CONSTANT: dict[str, Callable[[Node, int, Mapping[int, str], int], str]] = {
    "plus": _plus,
    "and": _masked,
    "shl": _shifted_left,
    "shr": _shifted_right,
    "div": _divided,
    "mod": _remainder,
    "ge": _at_least,
    "gt": _more,
    "lt": _less,
    "le": _at_most,
    "eq": _equal,
    "ne": _unequal,
}
# An operator with the constant as its left operand -> the equivalent operator with it as its right operand.
_MIRRORED = {"plus": "plus", "and": "and", "eq": "eq", "ne": "ne", "ge": "le", "le": "ge", "gt": "lt", "lt": "gt"}
