"""Breakpad's postfix language: its words, and the faults that show without evaluation (processor/postfix_evaluator.h).

Strategy: every word has a fixed effect on the height of the stack, so one pass finds a program that lacks an operand.
"""

from __future__ import annotations

import re

BINARY_OPERATORS = ("+", "-", "*", "/", "%", "@")
LOAD = "^"
ASSIGN = "="


def postfix_words(text: str) -> list[tuple[str, int]]:
    """The words with their offsets. MSVC omits the space after `=`; it is still a word of its own."""
    found: list[tuple[str, int]] = []
    for match in re.finditer(r"[^ ]+", text):
        word, offset = match[0], match.start()
        if word[0] == ASSIGN and len(word) > 1:
            found.append((ASSIGN, offset))
            word, offset = word[1:], offset + 1
        found.append((word, offset))
    return found


def postfix_fault(text: str, results: int) -> str | None:
    """Why a text cannot be evaluated with `results` values left: 1 for an expression, 0 for a program string. None if
    no fault shows without evaluation."""
    height = 0
    for word, _ in postfix_words(text):
        operands = 2 if word in BINARY_OPERATORS or word == ASSIGN else 1 if word == LOAD else 0
        if word == ASSIGN and results:
            return "an expression assigns nothing"
        if height < operands:
            return f"too few values on the stack for {word}"
        height += (0 if word == ASSIGN else 1) - operands
    return None if height == results else f"expected {results} values on the stack at the end, found {height}"
