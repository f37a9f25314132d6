"""DWARF expressions as Breakpad postfix expressions (unsigned words; `+ - * / % @ ^`).

Strategy: the simplified tree is written out. What Breakpad has no operator for is said by those it has where that is
exact for every value: masks and shifts by powers of two, comparisons of a number whose largest value is known.
Anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....schemas.breakpad import CFA_NAME
from ....schemas.section import ByteOrder, ParseError
from ...dwarf.expressions import Binary, Constant, ExpressionError, Memory, Node, Register, Unary, parse, simplify

CFA = -1  # the register number that stands for the CFA


def postfix_of(
    expression: bytes, names: Mapping[int, str], byte_order: ByteOrder, address_size: int, starts_with_cfa: bool
) -> str | None:
    """The expression's words; None where the language cannot say it. `names` has the registers by DWARF number.

    `starts_with_cfa`: the CFA is on the stack before it, as for a register's rule (DWARF5 6.4.2.3).
    """
    known = {**names, CFA: CFA_NAME}
    initial = Register(CFA) if starts_with_cfa else None
    try:
        tree = simplify(parse(expression, byte_order, address_size), address_size, initial)
        return _written(tree, known, (1 << 8 * address_size) - 1)
    except (ParseError, ExpressionError):
        return None


def _written(node: Node, names: Mapping[int, str], mask: int) -> str:
    """The words of a tree. Raises ExpressionError where there are none."""
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
            return f"{_written(address, names, mask)} ^"
        case Unary("neg", operand):
            return f"0 {_written(operand, names, mask)} -"
        case Unary("not", operand):
            return f"-1 {_written(operand, names, mask)} -"
        case Binary(operator, left, Constant(value)) if operator in _BY_CONSTANT:
            return _BY_CONSTANT[operator](left, value, names, mask)
        case Binary(operator, Constant(value), right) if operator in _MIRRORED:
            return _BY_CONSTANT[_MIRRORED[operator]](right, value, names, mask)
        case Binary(operator, left, right) if operator in _PLAIN:
            return f"{_written(left, names, mask)} {_written(right, names, mask)} {_PLAIN[operator]}"
    raise ExpressionError("no operator says it")


def _plus(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    return f"{_written(left, names, mask)} {_written(Constant(value), names, mask)} +"


def _masked(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    """A run of ones at the bottom is a remainder, at the top an alignment, in the middle both."""
    low = value & -value
    if value == 0 or (value + low) & mask & value:
        raise ExpressionError(f"the mask {value:#x} is no run of ones")
    words = _written(left, names, mask)
    if value + low <= mask:
        words = f"{words} {value + low} %"
    return words if low == 1 else f"{words} {low} @"


def _shifted_left(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    return f"{_written(left, names, mask)} {_power(value, mask)} *"


def _shifted_right(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    return f"{_written(left, names, mask)} {_power(value, mask)} /"


def _power(shift: int, mask: int) -> int:
    if shift >= mask.bit_length():
        raise ExpressionError(f"a shift by {shift}")
    return 1 << shift


def _divided(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    """DWARF divides signed numbers: of two that are not negative it is the same."""
    if _largest(left, mask) > mask >> 1 or not 0 < value <= mask >> 1:
        raise ExpressionError("a division of a number that may be negative")
    return f"{_written(left, names, mask)} {value} /"


def _remainder(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    if value == 0:
        raise ExpressionError("a remainder by zero")
    return f"{_written(left, names, mask)} {value} %"


def _at_least(left: Node, value: int, names: Mapping[int, str], mask: int) -> str:
    """1 where the number is `value` or more: its sum with what is missing to a power of two above reaches that."""
    largest = _largest(left, mask)
    if largest > mask >> 1 or value > mask >> 1:
        raise ExpressionError("a comparison of a number that may be negative")
    if not 0 < value <= largest:
        return str(int(value == 0))
    power = 1 << largest.bit_length()
    return f"{_written(left, names, mask)} {power - value} + {power} /"


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


_PLAIN = {"plus": "+", "minus": "-", "mul": "*"}
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
# With the constant first, those that mean the same with it last.
_MIRRORED = {"plus": "plus", "and": "and", "eq": "eq", "ne": "ne", "ge": "le", "le": "ge", "gt": "lt", "lt": "gt"}
