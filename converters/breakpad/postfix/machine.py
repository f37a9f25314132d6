"""The stack machine of Breakpad's postfix language, for values of any type (Breakpad, processor/postfix_evaluator.h).

Strategy: the stack holds values and names. A name is looked up only when an operator pops it, because `=` needs the
name itself. What values are is an `Algebra`: numbers when a rule is evaluated, sums of registers when it is translated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from ....schemas.breakpad.values import ASSIGN, BINARY_OPERATORS, LOAD, postfix_words
from ....schemas.data_classes import dataclass
from ....schemas.section import ParseError

V = TypeVar("V")
_LITERAL = re.compile("-?[0-9]+")
# The largest 64-bit number has this many digits. int() takes quadratic time for long literals, and refuses more than
# 4300 digits.
_MAX_DIGITS = 20


class WordError(Exception):
    """A word that cannot be evaluated; the caller adds its offset."""


@dataclass(frozen=True, slots=True)
class Algebra(Generic[V]):
    """The values of a machine with words of `word_size` bytes; the operations raise WordError.

    `number` makes a value from a number of that size, `binary` applies an operator, `load` reads the word at an
    address. Values are not strings.
    """

    word_size: int
    number: Callable[[int], V]
    binary: Callable[[str, V, V], V]
    load: Callable[[V], V]


def run_words(text: str, names: Mapping[str, V], algebra: Algebra[V]) -> tuple[list[V | str], dict[str, V]]:
    """The final stack, and the assigned variables. Raises ParseError, whose offset is in characters."""
    stack: list[V | str] = []
    known = dict(names)
    assigned: dict[str, V] = {}
    for word, offset in postfix_words(text):
        try:
            if word == ASSIGN:
                name, value = _assignment(stack, known, algebra)
                known[name] = assigned[name] = value
            else:
                _apply(word, stack, known, algebra)
        except WordError as fault:
            raise postfix_error(text, offset, str(fault)) from None
    return stack, assigned


def postfix_error(text: str, offset: int, reason: str) -> ParseError:
    """The error for a word of a text."""
    return ParseError("postfix", offset, text if len(text) <= 80 else f"{text[:80]}...", reason)


def _apply(word: str, stack: list[V | str], names: Mapping[str, V], algebra: Algebra[V]) -> None:
    if word in BINARY_OPERATORS:
        right = _pop(word, stack, names, algebra)
        left = _pop(word, stack, names, algebra)
        stack.append(algebra.binary(word, left, right))
    elif word == LOAD:
        stack.append(algebra.load(_pop(word, stack, names, algebra)))
    else:
        stack.append(word)


def _assignment(stack: list[V | str], names: Mapping[str, V], algebra: Algebra[V]) -> tuple[str, V]:
    value = _pop(ASSIGN, stack, names, algebra)
    name = stack.pop() if stack else None
    if name is None:
        raise WordError("too few values on the stack for =")
    if not isinstance(name, str) or not name.startswith("$"):
        raise WordError(f"= assigns to {str(name)[:40]}, expected a name that begins with $")
    return name, value


def _pop(word: str, stack: list[V | str], names: Mapping[str, V], algebra: Algebra[V]) -> V:
    if not stack:
        raise WordError(f"too few values on the stack for {word}")
    return value_of_item(stack.pop(), names, algebra)


def literal_of(word: str) -> int | None:
    """The value of a decimal literal, 2**64 or -2**64 if its magnitude is larger; None for any other word."""
    if not _LITERAL.fullmatch(word):
        return None
    digits = word.lstrip("-").lstrip("0") or "0"
    magnitude = min(int(digits), 1 << 64) if len(digits) <= _MAX_DIGITS else 1 << 64
    return -magnitude if word[0] == "-" else magnitude


def value_of_item(item: V | str, names: Mapping[str, V], algebra: Algebra[V]) -> V:
    """The value that a stack item denotes: a value, a decimal literal or a name. Raises WordError."""
    if not isinstance(item, str):
        return item
    number = literal_of(item)
    if number is not None:
        limit = 1 << 8 * algebra.word_size
        if abs(number) >= limit:
            raise WordError(f"{item[:40]} does not fit in {algebra.word_size} bytes")
        return algebra.number(number % limit)
    if item not in names:
        raise WordError(f"{item[:40]} has no value")
    return names[item]
