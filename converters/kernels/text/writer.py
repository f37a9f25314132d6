# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Text written word by word and number by number, for kernels whose lines are not templates.

Strategy: a `TextWriter` without space only counts, so that its user knows how many bytes it needs.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import U8, ConstI64, ConstU8
    from ..raw_text import copy_bytes, decimal_digits, hexadecimal_digits, write_decimal, write_digits

HEXADECIMAL = cython.declare(cython.int, 16)


@cython.final
@cython.cclass
class TextWriter:
    """`at` counts the bytes; what does not fit `out` is not written. Word w is `words` from start[w] up to
    start[w + 1]."""

    def __init__(self, words: ConstU8, start: ConstI64, out: U8) -> None:
        self.words = words
        self.start = start
        self.out = out
        self.limit = out.shape[0]
        self.at = 0

    def put_word(self, word: cython.longlong) -> None:
        """A word."""
        first: cython.longlong = self.start[word]
        size: cython.longlong = self.start[word + 1] - first
        if self.at + size <= self.limit:
            copy_bytes(self.words, first, size, self.out, self.at)
        self.at += size

    def put_number(self, value: cython.ulonglong, base: cython.int, after: cython.int) -> None:
        """A number in base 10 or 16, and the character after it."""
        digits: cython.longlong = hexadecimal_digits(value) if base == HEXADECIMAL else decimal_digits(value)
        begin: cython.longlong = self.at
        self.at += digits + 1
        if self.at > self.limit:
            return
        if base == HEXADECIMAL:
            write_digits(value, digits, self.out, begin)
        else:
            write_decimal(value, digits, self.out, begin)
        self.out[begin + digits] = after
