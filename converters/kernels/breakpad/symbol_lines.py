# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Lines of symbol files that begin with numbers, found among all others (Breakpad, symbol files).

Strategy: a line is told by its head or its first digit, its numbers are read as they are written canonically, what
follows is left where it is. A line whose numbers are written otherwise is marked, for others to look at.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from .protocol import LineKind

if not cython.compiled:
    from ..array_types import I64, I64_2D, U8, U64, U64_2D, ConstI64, ConstU8, ConstU64_2D

IS_ODD = cython.declare(cython.int, int(LineKind.ODD))
HEXADECIMAL = cython.declare(cython.int, 16)
NEWLINE = cython.declare(cython.int, ord("\n"))
SPACE = cython.declare(cython.int, ord(" "))


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def begins_with(
    data: ConstU8,
    at: cython.longlong,
    end: cython.longlong,
    head: ConstU8,
) -> cython.int:
    index: cython.longlong
    if end - at < head.shape[0]:
        return 0
    for index in range(head.shape[0]):
        if data[at + index] != head[index]:
            return 0
    return 1


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def digits_of(data: ConstU8, at: cython.longlong, end: cython.longlong, base: cython.int) -> cython.longlong:
    """The number of digits of a canonical number here, up to a space or the line's end; 0 if there is none."""
    count: cython.longlong = 0
    while at + count < end and (48 <= data[at + count] <= 57 or (base == 16 and 97 <= data[at + count] <= 102)):
        count += 1
    # No number of 19 decimal digits is too large.
    if count > (16 if base == 16 else 19) or (count > 1 and data[at] == 48):
        return 0
    return count if at + count == end or data[at + count] == SPACE else 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def number_at(data: ConstU8, at: cython.longlong, count: cython.longlong, base: cython.int) -> cython.ulonglong:
    """The value of `count` digits."""
    value: cython.ulonglong = 0
    index: cython.longlong
    for index in range(at, at + count):
        value = value * base + (data[index] - 48 if data[index] < 58 else data[index] - 87)
    return value


@cython.ccall
@cython.exceptval(-1, check=False)
def scan(
    data: ConstU8,
    longer: ConstU8,
    shorter: ConstU8,
    numbers: ConstI64,
    line: I64,
    begin: I64,
    kind: U8,
    values: U64_2D,
    rest: I64,
    end: I64,
) -> cython.longlong:
    """Find the lines that begin with one of two prefixes, of which `longer` begins with `shorter`; return their count.

    Of each its index among all lines, where it begins, its `LineKind`, as many hexadecimal numbers as `numbers` says of
    that, and where what follows their space begins and ends. Columns have an element for each line there may be.
    """
    found: cython.longlong = 0
    index: cython.longlong = 0
    at: cython.longlong = 0
    stop: cython.longlong
    place: cython.longlong
    size: cython.longlong
    which: cython.int
    column: cython.longlong
    with cython.nogil:
        while at < data.shape[0]:
            stop = at
            while stop < data.shape[0] and data[stop] != NEWLINE:
                stop += 1
            if begins_with(data, at, stop, shorter):
                which = 0 if begins_with(data, at, stop, longer) else 1
                place = at + (longer.shape[0] if which == 0 else shorter.shape[0])
                line[found] = index
                begin[found] = at
                kind[found] = which
                end[found] = stop
                for column in range(numbers[which]):
                    size = digits_of(data, place, stop, HEXADECIMAL)
                    # Something follows.
                    if size == 0 or place + size == stop:
                        kind[found] = IS_ODD
                        break
                    values[found, column] = number_at(data, place, size, HEXADECIMAL)
                    place += size + 1
                rest[found] = place
                found += 1
            index += 1
            at = stop + 1
        return found


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def may_be_number(data: ConstU8, at: cython.longlong, end: cython.longlong) -> cython.int:
    """Whether the first word is of hexadecimal digits, however they are spelled."""
    while at < end and data[at] == SPACE:
        at += 1
    if at + 1 < end and data[at] == 48 and (data[at + 1] == 88 or data[at + 1] == 120):
        at += 2
    if at >= end or data[at] == SPACE:
        return 0
    while at < end and (48 <= data[at] <= 57 or 65 <= data[at] <= 70 or 97 <= data[at] <= 102):
        at += 1
    return at == end or data[at] == SPACE


@cython.ccall
@cython.exceptval(check=False)
def records(
    data: ConstU8,
    head: ConstU8,
    bases: ConstU8,
    values: U64_2D,
    number: I64,
    others: I64_2D,
    filled: I64,
) -> cython.void:
    """The lines of nothing but numbers in these bases, with their line numbers from 1; and where those lines begin, and
    their numbers, that have `head` or begin with a number and are not such. `filled` says how many of both."""
    index: cython.longlong = 0
    at: cython.longlong = 0
    stop: cython.longlong
    place: cython.longlong
    size: cython.longlong
    column: cython.int
    with cython.nogil:
        while at < data.shape[0]:
            stop = at
            while stop < data.shape[0] and data[stop] != NEWLINE:
                stop += 1
            index += 1
            place = at
            column = 0
            while column < bases.shape[0]:
                size = digits_of(data, place, stop, bases[column])
                if size == 0 or (place + size == stop) != (column + 1 == bases.shape[0]):
                    break
                values[filled[0], column] = number_at(data, place, size, bases[column])
                place += size + 1
                column += 1
            if column == bases.shape[0]:
                number[filled[0]] = index
                filled[0] += 1
            elif begins_with(data, at, stop, head) or may_be_number(data, at, stop):
                others[filled[1], 0] = at
                others[filled[1], 1] = index
                filled[1] += 1
            at = stop + 1


@cython.ccall
@cython.exceptval(-1, check=False)
def numbers(
    data: ConstU8,
    begin: ConstI64,
    end: ConstI64,
    decimals: cython.longlong,
    values: U64,
    count: I64,
) -> cython.longlong:
    """Read parts of lines that are nothing but numbers: `decimals` decimal ones, or one less if their number is then
    even, and hexadecimal ones. Returns how many there are in `values`; `count` is that of each line, 0 where they are
    not of this form, or not spelled canonically."""
    found: cython.longlong = 0
    line: cython.longlong
    place: cython.longlong
    words: cython.longlong
    left: cython.longlong
    size: cython.longlong
    base: cython.int
    with cython.nogil:
        for line in range(begin.shape[0]):
            words = 1
            for place in range(begin[line], end[line]):
                words += data[place] == SPACE
            left = decimals - ((words - decimals) & 1)
            place = begin[line]
            count[line] = 0
            while count[line] < words:
                base = 10 if count[line] < left else HEXADECIMAL
                size = digits_of(data, place, end[line], base)
                if size == 0:
                    break
                values[found + count[line]] = number_at(data, place, size, base)
                place += size + 1
                count[line] += 1
            if count[line] < words or words < left + 2:
                count[line] = 0
            found += count[line]
        return found


@cython.ccall
@cython.exceptval(-1, check=False)
def write(
    pool: ConstU8,
    before: ConstI64,
    bases: ConstU8,
    values: ConstU64_2D,
    out: U8,
) -> cython.longlong:
    """Write lines of numbers in these bases as far as `out` has space; return their size in bytes.

    Line n follows the text from before[n] up to before[n + 1] of `pool`.
    """
    at: cython.longlong = 0
    line: cython.longlong
    place: cython.longlong
    digit: cython.longlong
    column: cython.int
    count: cython.longlong
    value: cython.ulonglong
    rest: cython.ulonglong
    with cython.nogil:
        for line in range(values.shape[0]):
            for place in range(before[line], before[line + 1]):
                if at < out.shape[0]:
                    out[at] = pool[place]
                at += 1
            for column in range(bases.shape[0]):
                value = values[line, column]
                count = 1
                rest = value // bases[column]
                while rest:
                    count += 1
                    rest = rest // bases[column]
                if at + count < out.shape[0]:
                    for digit in range(count):
                        rest = value % bases[column]
                        out[at + count - 1 - digit] = rest + 48 if rest < 10 else rest + 87
                        value = value // bases[column]
                    out[at + count] = NEWLINE if column + 1 == bases.shape[0] else SPACE
                at += count + 1
        return at
