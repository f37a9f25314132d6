# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""STACK CFI lines of functions, from the text of their rows' rules: addresses alone differ (Breakpad, STACK CFI).

Strategy: runs twice, without room only to count. No line is looked at as an object.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from . import pure as cython

from .protocol import TextRow

IS_SKIPPED = cython.declare(cython.int, int(TextRow.SKIPPED))
IS_SAME = cython.declare(cython.int, int(TextRow.SAME))
IS_INIT = cython.declare(cython.int, int(TextRow.INIT))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put(
    words: cython.const[cython.uchar][::1],
    start: cython.longlong,
    size: cython.longlong,
    out: cython.uchar[::1],
    at: cython.longlong,
) -> cython.longlong:
    """Copy a word, where there is room; return where the next one goes."""
    byte: cython.longlong
    if at + size <= out.shape[0]:
        if cython.compiled:
            for byte in range(size):
                out[at + byte] = words[start + byte]
        else:
            out[at : at + size] = words[start : start + size]
    return at + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_hexadecimal(value: cython.ulonglong, out: cython.uchar[::1], at: cython.longlong) -> cython.longlong:
    """A number without leading zeros."""
    digits: cython.longlong = 1
    index: cython.longlong
    digit: cython.int
    while digits < 16 and value >> 4 * digits:
        digits += 1
    if at + digits <= out.shape[0]:
        for index in range(digits):
            digit = value >> 4 * (digits - 1 - index) & 0xF
            out[at + index] = digit + (48 if digit < 10 else 87)
    return at + digits


@cython.ccall
@cython.exceptval(-1, check=False)
def lines(
    words: cython.const[cython.uchar][::1],
    word_start: cython.const[cython.longlong][::1],
    word_size: cython.const[cython.longlong][::1],
    init: cython.const[cython.longlong][::1],
    delta: cython.const[cython.longlong][::1],
    address: cython.const[cython.ulonglong][::1],
    size: cython.const[cython.ulonglong][::1],
    job: cython.const[cython.longlong][::1],
    job_first: cython.const[cython.longlong][::1],
    row_offset: cython.const[cython.ulonglong][::1],
    row_kind: cython.const[cython.uchar][::1],
    row_word: cython.const[cython.longlong][::1],
    row_stop: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> cython.longlong:
    """The lines of functions, as far as `out` has room; return how many bytes they are.

    Function f is `size[f]` bytes from `address[f]` on, with the rows job_first[job[f]] up to the next job's: of each
    its offset, its kind, the number of its word (which ends a line), and, of an INIT, the row that ends its range.
    `init` and `delta` are the start and size of what their lines begin with.
    """
    function: cython.longlong
    row: cython.longlong
    last: cython.longlong
    end: cython.ulonglong
    at: cython.longlong = 0
    for function in range(address.shape[0]):
        last = job_first[job[function] + 1]
        for row in range(job_first[job[function]], last):
            if row_kind[row] == IS_SKIPPED or row_kind[row] == IS_SAME:
                continue
            if row_kind[row] == IS_INIT:
                end = size[function] if row_stop[row] >= last else row_offset[row_stop[row]]
                at = put(words, init[0], init[1], out, at)
                at = put_hexadecimal(address[function] + row_offset[row], out, at)
                at = put(words, init[2], 1, out, at)
                at = put_hexadecimal(end - row_offset[row], out, at)
            else:
                at = put(words, delta[0], delta[1], out, at)
                at = put_hexadecimal(address[function] + row_offset[row], out, at)
            at = put(words, word_start[row_word[row]], word_size[row_word[row]], out, at)
    return at
