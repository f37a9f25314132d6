"""Evaluation of Breakpad's postfix language: STACK CFI expressions and STACK WIN program strings.

Strategy: the stack machine over unsigned words of 4 or 8 bytes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from ....schemas.arguments import check_address_size, check_callable, checked
from ...dwarf.expressions import ReadMemory
from .machine import Algebra, WordError, postfix_error, run_words, value_of_item


@checked(names=Mapping, memory=check_callable, word_size=check_address_size)
def evaluate_postfix(expression: str, names: Mapping[str, int], memory: ReadMemory, word_size: int = 8) -> int:
    """The one value that an expression leaves on the stack, unsigned.

    `names` maps registers and pseudoregisters to values; `memory(address, size)` reads an unsigned number. Raises
    ParseError, whose offset is in characters, and whatever `memory` raises.
    """
    algebra, known = _words(memory, word_size), _truncated(names, word_size)
    stack, assigned = run_words(expression, known, algebra)
    if len(stack) != 1:
        raise postfix_error(
            expression, len(expression), f"expected one value on the stack at the end, found {len(stack)}"
        )
    try:
        return value_of_item(stack[0], {**known, **assigned}, algebra)
    except WordError as fault:
        raise postfix_error(expression, 0, str(fault)) from None


@checked(names=Mapping, memory=check_callable, word_size=check_address_size)
def run_postfix(program: str, names: Mapping[str, int], memory: ReadMemory, word_size: int = 4) -> dict[str, int]:
    """The variables that a program string assigns, with their final values. Raises as `evaluate_postfix` does."""
    stack, assigned = run_words(program, _truncated(names, word_size), _words(memory, word_size))
    if stack:
        raise postfix_error(program, len(program), f"expected no value on the stack at the end, found {len(stack)}")
    return assigned


def _truncated(names: Mapping[str, int], word_size: int) -> dict[str, int]:
    return {name: value % (1 << 8 * word_size) for name, value in names.items()}


def _words(memory: ReadMemory, word_size: int) -> Algebra[int]:
    """Values are unsigned words."""
    limit = 1 << 8 * word_size
    return Algebra(
        word_size,
        number=int,
        binary=lambda word, left, right: OPERATORS[word](left, right) % limit,
        load=lambda address: memory(address, word_size),
    )


def _divisor(value: int) -> int:
    if value == 0:
        raise WordError("division by zero")
    return value


def _align(value: int, size: int) -> int:
    """`value` rounded down to a multiple of `size`."""
    if size == 0 or size & size - 1:
        # Breakpad masks with -size, which rounds only for a power of two; rust-minidump refuses.
        raise WordError(f"@ aligns to {size}, expected a power of two")
    return value & -size


# The result is still to be truncated to a word.
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left // _divisor(right),
    "%": lambda left, right: left % _divisor(right),
    "@": _align,
}
