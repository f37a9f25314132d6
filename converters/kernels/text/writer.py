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
        byte: cython.longlong
        if self.at + size <= self.limit:
            if cython.compiled:
                for byte in range(size):
                    self.out[self.at + byte] = self.words[first + byte]
            else:
                self.out[self.at : self.at + size] = self.words[first : first + size]
        self.at += size

    def put_number(self, value: cython.ulonglong, base: cython.int, after: cython.int) -> None:
        """A number in base 10 or 16, and the character after it."""
        digits: cython.longlong = 1
        rest: cython.ulonglong = value
        digit: cython.int
        place: cython.longlong
        if base == HEXADECIMAL:
            while digits < 16 and value >> 4 * digits:
                digits += 1
        else:
            while rest > 9:
                rest = rest // 10
                digits += 1
        place = self.at + digits
        self.at = place + 1
        if place >= self.limit:
            return
        self.out[place] = after
        while digits:
            if base == HEXADECIMAL:
                digit = cython.cast(cython.int, value & 0xF)
                value >>= 4
            else:
                rest = value // 10
                digit = cython.cast(cython.int, value - rest * 10)
                value = rest
            place -= 1
            self.out[place] = digit + (48 if digit < 10 else 87)
            digits -= 1
