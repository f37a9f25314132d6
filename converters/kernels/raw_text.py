"""Bytes and digits, written to memory that has space for them: the innermost steps of kernels that write text.

Strategy: compiled kernels take these functions from raw_text.pxd, where they are inline and in C. This module has the
same ones for kernels that run uncompiled.
"""

from __future__ import annotations

from .array_types import U8, ConstU8


def copy_bytes(data: ConstU8, start: int, size: int, out: U8, at: int) -> int:
    """Copy bytes; return where they end in `out`."""
    out[at : at + size] = data[start : start + size]
    return at + size


def write_digits(value: int, digits: int, out: U8, at: int) -> int:
    """Write the last `digits` hexadecimal digits of a number; return their end."""
    text = b"%0*x" % (digits, value & (1 << 4 * digits) - 1)
    for index in range(digits):
        out[at + index] = text[index]
    return at + digits


def write_decimal(value: int, digits: int, out: U8, at: int) -> int:
    """Write a number of that many decimal digits; return their end."""
    text = b"%d" % value
    for index in range(digits):
        out[at + index] = text[index]
    return at + digits


def hexadecimal_digits(value: int) -> int:
    """How many hexadecimal digits a number has, 1 for 0."""
    return max(1, value.bit_length() + 3 >> 2)


def decimal_digits(value: int) -> int:
    """How many decimal digits a number has, 1 for 0."""
    return len(str(value))
