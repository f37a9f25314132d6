"""Breakpad's postfix language, evaluated: STACK CFI expressions and STACK WIN program strings.

Strategy: one stack machine over unsigned words of 4 or 8 bytes (Breakpad, processor/postfix_evaluator.h). The stack
holds numbers and names; a name is looked up when an operator takes it, since `=` takes it as a name.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from ....schemas.section import ParseError
from ...dwarf.expressions import ReadMemory

_LITERAL = re.compile("-?[0-9]+")
# Digits of the largest 64-bit number: int() of many more takes quadratic time.
_MAX_DIGITS = 20


class _WordError(Exception):
    """What is wrong with a word, before its place is known."""


def evaluate_postfix(expression: str, names: Mapping[str, int], memory: ReadMemory, word_size: int = 8) -> int:
    """The one value that an expression leaves, unsigned. `names` gives registers and pseudoregisters their values;
    `memory(address, size)` reads an unsigned number.

    Raises ParseError, whose offset counts characters, and whatever `memory` raises.
    """
    stack, assigned = _run(expression, names, memory, word_size)
    if len(stack) != 1:
        raise _error(expression, len(expression), f"{len(stack)} values are left, expected one")
    try:
        return _value(stack[0], {**names, **assigned}, word_size)
    except _WordError as fault:
        raise _error(expression, 0, str(fault)) from None


def run_postfix(program: str, names: Mapping[str, int], memory: ReadMemory, word_size: int = 4) -> dict[str, int]:
    """The variables that a program string assigns, with their last values. Raises as `evaluate_postfix` does."""
    stack, assigned = _run(program, names, memory, word_size)
    if stack:
        raise _error(program, len(program), f"{len(stack)} values are left, expected none")
    return assigned


def _run(
    text: str, names: Mapping[str, int], memory: ReadMemory, word_size: int
) -> tuple[list[int | str], dict[str, int]]:
    """The stack at the end, and what was assigned."""
    stack: list[int | str] = []
    known = dict(names)
    assigned: dict[str, int] = {}
    for word, offset in _words(text):
        try:
            if word == "=":
                name, value = _assignment(stack, known, word_size)
                known[name] = assigned[name] = value
            else:
                _apply(word, stack, known, memory, word_size)
        except _WordError as fault:
            raise _error(text, offset, str(fault)) from None
    return stack, assigned


def _error(text: str, offset: int, reason: str) -> ParseError:
    return ParseError("postfix", offset, text if len(text) <= 80 else f"{text[:80]}...", reason)


def _words(text: str) -> list[tuple[str, int]]:
    """The words with their offsets. An `=` that the next word sticks to is one of its own, as MSVC writes it."""
    found: list[tuple[str, int]] = []
    for match in re.finditer(r"[^ ]+", text):
        word, offset = match[0], match.start()
        if word[0] == "=" and len(word) > 1:
            found.append(("=", offset))
            word, offset = word[1:], offset + 1
        found.append((word, offset))
    return found


def _apply(word: str, stack: list[int | str], names: Mapping[str, int], memory: ReadMemory, word_size: int) -> None:
    if word in _OPERATORS:
        right = _pop(word, stack, names, word_size)
        left = _pop(word, stack, names, word_size)
        stack.append(_OPERATORS[word](left, right) % (1 << 8 * word_size))
    elif word == "^":
        stack.append(memory(_pop(word, stack, names, word_size), word_size))
    else:
        stack.append(word)


def _assignment(stack: list[int | str], names: Mapping[str, int], word_size: int) -> tuple[str, int]:
    value = _pop("=", stack, names, word_size)
    name = stack.pop() if stack else None
    if name is None:
        raise _WordError("= finds too few values on the stack")
    if not isinstance(name, str) or not name.startswith("$"):
        raise _WordError(f"= to {name}, expected a name that begins with $")
    return name, value


def _pop(word: str, stack: list[int | str], names: Mapping[str, int], word_size: int) -> int:
    if not stack:
        raise _WordError(f"{word} finds too few values on the stack")
    return _value(stack.pop(), names, word_size)


def _value(item: int | str, names: Mapping[str, int], word_size: int) -> int:
    """The number that stands on the stack, as such, in decimal or by name."""
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
        raise _WordError("a division by zero")
    return value


def _align(value: int, size: int) -> int:
    """`value` down to a multiple of `size`."""
    if size == 0 or size & size - 1:
        # Breakpad masks with -size, which is no multiple then; rust-minidump refuses.
        raise _WordError(f"@ to {size}, expected a power of two")
    return value & -size


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left // _divisor(right),
    "%": lambda left, right: left % _divisor(right),
    "@": _align,
}
