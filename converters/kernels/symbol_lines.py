# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Lines of symbol files that begin with numbers, found among all others (Breakpad, symbol files).

Strategy: a line is told by its head, its numbers are read as they are written canonically, what follows is left where
it is. A line whose numbers are written otherwise is marked, for others to look at.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from . import pure as cython

from .protocol import LineKind

IS_ODD = cython.declare(cython.int, int(LineKind.ODD))
NEWLINE = cython.declare(cython.int, ord("\n"))
SPACE = cython.declare(cython.int, ord(" "))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def begins_with(
    data: cython.const[cython.uchar][::1],
    at: cython.longlong,
    end: cython.longlong,
    head: cython.const[cython.uchar][::1],
) -> cython.int:
    index: cython.longlong
    if end - at < head.shape[0]:
        return 0
    for index in range(head.shape[0]):
        if data[at + index] != head[index]:
            return 0
    return 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def digits(data: cython.const[cython.uchar][::1], at: cython.longlong, end: cython.longlong) -> cython.longlong:
    """How many small hexadecimal digits stand there; 0 where they are no canonical number with a space behind it."""
    count: cython.longlong = 0
    while at + count < end and (48 <= data[at + count] <= 57 or 97 <= data[at + count] <= 102):
        count += 1
    if count > 16 or (count > 1 and data[at] == 48) or at + count >= end or data[at + count] != SPACE:
        return 0
    return count


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def number(data: cython.const[cython.uchar][::1], at: cython.longlong, count: cython.longlong) -> cython.ulonglong:
    """The value of hexadecimal digits."""
    value: cython.ulonglong = 0
    index: cython.longlong
    for index in range(at, at + count):
        value = value << 4 | (data[index] - 48 if data[index] < 58 else data[index] - 87)
    return value


@cython.ccall
@cython.exceptval(-1, check=False)
def scan(
    data: cython.const[cython.uchar][::1],
    longer: cython.const[cython.uchar][::1],
    shorter: cython.const[cython.uchar][::1],
    numbers: cython.const[cython.longlong][::1],
    line: cython.longlong[::1],
    begin: cython.longlong[::1],
    kind: cython.uchar[::1],
    values: cython.ulonglong[:, ::1],
    rest: cython.longlong[::1],
    end: cython.longlong[::1],
) -> cython.longlong:
    """The lines that begin with one of two heads, of which `longer` begins with `shorter`; return how many.

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
                size = digits(data, place, stop)
                if size == 0:
                    kind[found] = IS_ODD
                    break
                values[found, column] = number(data, place, size)
                place += size + 1
            rest[found] = place
            found += 1
        index += 1
        at = stop + 1
    return found
