"""Evaluation of Breakpad's postfix language: STACK CFI expressions and STACK WIN program strings.

Strategy: one stack machine over unsigned words of 4 or 8 bytes (Breakpad, processor/postfix_evaluator.h). The stack
holds numbers and names. A name is looked up only when an operator pops it, because `=` needs the name itself.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from ....schemas.postfix import ASSIGN, LOAD, postfix_words
from ....schemas.section import ParseError
from ...dwarf.expressions import ReadMemory

_LITERAL = re.compile("-?[0-9]+")
# The largest 64-bit number has this many digits. int() takes quadratic time for very long literals.
_MAX_DIGITS = 20


class _WordError(Exception):
    """A word that cannot be evaluated; the caller adds its offset."""


def evaluate_postfix(expression: str, names: Mapping[str, int], memory: ReadMemory, word_size: int = 8) -> int:
    """The one value that an expression leaves on the stack, unsigned.

    `names` maps registers and pseudoregisters to values; `memory(address, size)` reads an unsigned number. Raises
    ParseError, whose offset is in characters, and whatever `memory` raises.
    """
    stack, assigned = _run(expression, names, memory, word_size)
    if len(stack) != 1:
        raise _error(expression, len(expression), f"expected one value on the stack at the end, found {len(stack)}")
    try:
        return _value(stack[0], {**names, **assigned}, word_size)
    except _WordError as fault:
        raise _error(expression, 0, str(fault)) from None


def run_postfix(program: str, names: Mapping[str, int], memory: ReadMemory, word_size: int = 4) -> dict[str, int]:
    """The variables that a program string assigns, with their final values. Raises as `evaluate_postfix` does."""
    stack, assigned = _run(program, names, memory, word_size)
    if stack:
        raise _error(program, len(program), f"expected no value on the stack at the end, found {len(stack)}")
    return assigned


def _run(
    text: str, names: Mapping[str, int], memory: ReadMemory, word_size: int
) -> tuple[list[int | str], dict[str, int]]:
    """The final stack, and the assigned variables."""
    stack: list[int | str] = []
    known = dict(names)
    assigned: dict[str, int] = {}
    for word, offset in postfix_words(text):
        try:
            if word == ASSIGN:
                name, value = _assignment(stack, known, word_size)
                known[name] = assigned[name] = value
            else:
                _apply(word, stack, known, memory, word_size)
        except _WordError as fault:
            raise _error(text, offset, str(fault)) from None
    return stack, assigned


def _error(text: str, offset: int, reason: str) -> ParseError:
    return ParseError("postfix", offset, text if len(text) <= 80 else f"{text[:80]}...", reason)


def _apply(word: str, stack: list[int | str], names: Mapping[str, int], memory: ReadMemory, word_size: int) -> None:
    if word in _OPERATORS:
        right = _pop(word, stack, names, word_size)
        left = _pop(word, stack, names, word_size)
        stack.append(_OPERATORS[word](left, right) % (1 << 8 * word_size))
    elif word == LOAD:
        stack.append(memory(_pop(word, stack, names, word_size), word_size))
    else:
        stack.append(word)


def _assignment(stack: list[int | str], names: Mapping[str, int], word_size: int) -> tuple[str, int]:
    value = _pop(ASSIGN, stack, names, word_size)
    name = stack.pop() if stack else None
    if name is None:
        raise _WordError("too few values on the stack for =")
    if not isinstance(name, str) or not name.startswith("$"):
        raise _WordError(f"= assigns to {name}, expected a name that begins with $")
    return name, value


def _pop(word: str, stack: list[int | str], names: Mapping[str, int], word_size: int) -> int:
    if not stack:
        raise _WordError(f"too few values on the stack for {word}")
    return _value(stack.pop(), names, word_size)


def _value(item: int | str, names: Mapping[str, int], word_size: int) -> int:
    """The number that a stack item denotes: a number, a decimal literal or a name."""
    if isinstance(item, int):
        return item
    if _LITERAL.fullmatch(item):
        digits = item.lstrip("-").lstrip("0") or "0"
        limit = 1 << 8 * word_size
        number = int(digits) if len(digits) <= _MAX_DIGITS else limit
        if number >= limit:
            raise _WordError(f"{item[:40]} does not fit in {word_size} bytes")
        return -number % limit if item[0] == "-" else number
    if item not in names:
        raise _WordError(f"{item[:40]} has no value")
    return names[item] % (1 << 8 * word_size)


def _divisor(value: int) -> int:
    if value == 0:
        raise _WordError("division by zero")
    return value


def _align(value: int, size: int) -> int:
    """`value` rounded down to a multiple of `size`."""
    if size == 0 or size & size - 1:
        # Breakpad masks with -size, which rounds only for a power of two; rust-minidump refuses.
        raise _WordError(f"@ aligns to {size}, expected a power of two")
    return value & -size


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left // _divisor(right),
    "%": lambda left, right: left % _divisor(right),
    "@": _align,
}
