# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Text of many records by templates: words and numbers in a row, in the formats of C's printf.

Strategy: text for which there is no space is only counted, so that a caller without enough can come again. No record
becomes an object.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from .protocol import Step

if not cython.compiled:
    from ..array_types import U8, ConstI64, ConstU8, ConstU64_2D
    from ..raw_text import copy_bytes, decimal_digits, hexadecimal_digits, write_decimal, write_digits

IS_WORD = cython.declare(cython.int, int(Step.WORD))
IS_WORD_OF = cython.declare(cython.int, int(Step.WORD_OF))
IS_UNSIGNED = cython.declare(cython.int, int(Step.UNSIGNED))
IS_SIGNED = cython.declare(cython.int, int(Step.SIGNED))
IS_HEXADECIMAL = cython.declare(cython.int, int(Step.HEXADECIMAL))
IS_DIGITS = cython.declare(cython.int, int(Step.DIGITS))

SIGN = cython.declare(cython.ulonglong, 1 << 63)
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def put_word(
    words: ConstU8,
    start: cython.longlong,
    size: cython.longlong,
    out: U8,
    at: cython.longlong,
) -> cython.longlong:
    """Copy a word if there is space; return where the next piece goes."""
    if at + size <= out.shape[0]:
        copy_bytes(words, start, size, out, at)
    return at + size


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def put_number(
    kind: cython.int, value: cython.ulonglong, width: cython.longlong, out: U8, at: cython.longlong
) -> cython.longlong:
    """A number as `kind` has it, of at least `width` characters; return where the next piece goes."""
    is_negative: cython.int = kind == IS_SIGNED and value & SIGN != 0
    digits: cython.longlong
    prefix: cython.longlong = 0
    index: cython.longlong
    if is_negative:
        value = ALL_ONES - value + 1
        prefix = 1
    elif kind == IS_HEXADECIMAL and value:
        prefix = 2
    digits = hexadecimal_digits(value) if kind >= IS_HEXADECIMAL else decimal_digits(value)
    if kind == IS_DIGITS and digits < width:
        digits = width
    index = at
    at += max(digits + prefix, width)
    if at > out.shape[0]:
        return at
    while index < at - digits - prefix:
        out[index] = 32
        index += 1
    if prefix:
        out[index] = 45 if is_negative else 48
        if prefix > 1:
            out[index + 1] = 120
    if kind >= IS_HEXADECIMAL:
        return write_digits(value, digits, out, at - digits)
    return write_decimal(value, digits, out, at - digits)


@cython.ccall
@cython.exceptval(-1, check=False)
def fill(
    words: ConstU8,
    word_start: ConstI64,
    word_size: ConstI64,
    first_step: ConstI64,
    step_kind: ConstI64,
    step_argument: ConstI64,
    step_width: ConstI64,
    template: ConstI64,
    values: ConstU64_2D,
    out: U8,
) -> cython.longlong:
    """Write the text of records as far as `out` has space; return its size in bytes.

    Record r is template[r] with a row of values. A template has the steps first_step[t] up to the next one's: of each
    a `Step`, its argument (the number of a word, or of a value of the row), and the least width of a number.
    """
    record: cython.longlong
    step: cython.longlong
    word: cython.longlong
    kind: cython.int
    at: cython.longlong = 0
    with cython.nogil:
        for record in range(template.shape[0]):
            for step in range(first_step[template[record]], first_step[template[record] + 1]):
                kind = cython.cast(cython.int, step_kind[step])
                if kind == IS_WORD or kind == IS_WORD_OF:
                    word = step_argument[step]
                    if kind == IS_WORD_OF:
                        word = cython.cast(cython.longlong, values[record, word])
                    at = put_word(words, word_start[word], word_size[word], out, at)
                else:
                    at = put_number(kind, values[record, step_argument[step]], step_width[step], out, at)
        return at
