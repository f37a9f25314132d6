# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""STACK CFI lines of functions, from the text of their rows' rules: addresses alone differ (Breakpad, STACK CFI).

Strategy: runs twice; without space it only counts. No line becomes an object.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from .protocol import TextRow

if not cython.compiled:
    from ..array_types import U8, ConstI64, ConstU8, ConstU64
    from ..raw_text import copy_bytes, write_digits

IS_SKIPPED = cython.declare(cython.int, int(TextRow.SKIPPED))
IS_SAME = cython.declare(cython.int, int(TextRow.SAME))
IS_INIT = cython.declare(cython.int, int(TextRow.INIT))


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
    """Copy a word if there is space; return where the next one goes."""
    if at + size <= out.shape[0]:
        copy_bytes(words, start, size, out, at)
    return at + size


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def put_hexadecimal(value: cython.ulonglong, digits: cython.longlong, out: U8, at: cython.longlong) -> cython.longlong:
    """So many digits of a number; return where the next goes."""
    if at + digits <= out.shape[0]:
        write_digits(value, digits, out, at)
    return at + digits


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def digits_of(value: cython.ulonglong, digits: cython.longlong) -> cython.longlong:
    """How many digits a number has without leading zeros, if it has no fewer than `digits`."""
    while digits < 16 and value >> 4 * digits:
        digits += 1
    return digits


@cython.ccall
@cython.exceptval(-1, check=False)
def lines(
    words: ConstU8,
    step_start: ConstI64,
    step_length: ConstI64,
    step_kind: ConstU8,
    heads: ConstI64,
    address: ConstU64,
    size: ConstU64,
    job: ConstI64,
    job_first: ConstI64,
    row_offset: ConstU64,
    row_step: ConstI64,
    out: U8,
) -> cython.longlong:
    """Write the lines of functions as far as `out` has space; return their size in bytes.

    Function f is `size[f]` bytes from `address[f]` on, with the rows job_first[job[f]] up to the next job's: of each
    its offset, and its step from the row before. A step has a kind and, in `words`, the rest of its line. `heads` is
    where there is what lines begin with, start and length: those of an INIT, then those of others.
    """
    function: cython.longlong
    row: cython.longlong
    other: cython.longlong
    step: cython.longlong
    last: cython.longlong
    end: cython.ulonglong
    pc: cython.ulonglong
    digits: cython.longlong
    at: cython.longlong = 0
    with cython.nogil:
        for function in range(address.shape[0]):
            last = job_first[job[function] + 1]
            digits = 1
            for row in range(job_first[job[function]], last):
                step = row_step[row]
                if step_kind[step] == IS_SKIPPED or step_kind[step] == IS_SAME:
                    continue
                # Addresses ascend: each has at least as many digits as the one before.
                pc = address[function] + row_offset[row]
                digits = digits_of(pc, digits)
                if step_kind[step] == IS_INIT:
                    other = row + 1
                    while other < last and step_kind[row_step[other]] != IS_SKIPPED:
                        other += 1
                    end = size[function] if other == last else row_offset[other]
                    at = put_word(words, heads[0], heads[1], out, at)
                    at = put_hexadecimal(pc, digits, out, at)
                    # What they begin with ends in a space.
                    at = put_word(words, heads[0] + heads[1] - 1, 1, out, at)
                    at = put_hexadecimal(end - row_offset[row], digits_of(end - row_offset[row], 1), out, at)
                else:
                    at = put_word(words, heads[2], heads[3], out, at)
                    at = put_hexadecimal(pc, digits, out, at)
                at = put_word(words, step_start[step], step_length[step], out, at)
        return at
