"""What kernels of text and their callers agree on."""

from __future__ import annotations

from enum import IntEnum


class Step(IntEnum):
    """A piece of a template: a word, the word that a value names, or a value as a number."""

    WORD = 0
    WORD_OF = 1
    UNSIGNED = 2
    SIGNED = 3
    HEXADECIMAL = 4  # with 0x, but for 0
    DIGITS = 5  # hexadecimal digits, zeros in front of them
    SPACED_DIGITS = 6  # hexadecimal digits, spaces in front of them
