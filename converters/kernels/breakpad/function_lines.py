# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""FUNC records with their INLINE and line records, as lines of a symbol file (Breakpad, symbol files).

Strategy: line records are cut to their function, and equal ones joined, while they are read; no record becomes an
object, and no copy of the line records is made.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from .protocol import FunctionWord

if not cython.compiled:
    from ..array_types import I64, ConstI64, ConstU8, ConstU16, ConstU32, ConstU64
    from ..text.writer import TextWriter

FUNC = cython.declare(cython.int, int(FunctionWord.FUNC))
FUNC_M = cython.declare(cython.int, int(FunctionWord.FUNC_M))
INLINE = cython.declare(cython.int, int(FunctionWord.INLINE))
NEWLINE = cython.declare(cython.int, ord("\n"))
SPACE = cython.declare(cython.int, ord(" "))
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Functions:
    """FUNC records, ascending and disjoint. `m`: there is an `m`; `name`: the number of a word, which ends the line;
    `first_inline` has one more element: the INLINE records of each; `first_line`: no line record before it is in the
    function."""

    def __init__(
        self,
        address: ConstU64,
        size: ConstU64,
        m: ConstU8,
        name: ConstI64,
        first_inline: ConstI64,
        first_line: ConstI64,
    ) -> None:
        self.address = address
        self.size = size
        self.m = m
        self.name = name
        self.first_inline = first_inline
        self.first_line = first_line


@cython.final
@cython.cclass
class Inlines:
    """INLINE records, and their ranges: those of each from `first_range`, which has one more element."""

    def __init__(
        self,
        level: ConstU16,
        call_line: ConstU32,
        call_file: ConstI64,
        origin: ConstI64,
        first_range: ConstI64,
        start: ConstU64,
        size: ConstU64,
    ) -> None:
        self.level = level
        self.call_line = call_line
        self.call_file = call_file
        self.origin = origin
        self.first_range = first_range
        self.start = start
        self.size = size


@cython.final
@cython.cclass
class Lines:
    """Line records, ascending and disjoint, and the number of the path of each file. `next` finds those of a function:
    `start`, `end`, `line`, `path`."""

    def __init__(self, address: ConstU64, size: ConstU32, number: ConstU32, file: ConstU32, path_of: ConstI64) -> None:
        self.address = address
        self.size = size
        self.number = number
        self.file = file
        self.path_of = path_of
        self.index = 0
        self.low = self.high = self.start = self.end = self.line = 0
        self.path = 0

    def begin(self, index: cython.longlong, low: cython.ulonglong, high: cython.ulonglong) -> None:
        """Go to the record `index`, from which on those between two addresses are wanted."""
        self.index = index
        self.low = low
        self.high = high

    def next(self) -> cython.int:
        """Find the next record of the function, joined with equal ones that follow without a gap; 0 for none."""
        has_any: cython.int = 0
        start: cython.ulonglong
        end: cython.ulonglong
        while self.index < self.address.shape[0] and self.address[self.index] < self.high:
            start = self.address[self.index]
            end = start + self.size[self.index]
            # The last byte of a record may be that of the address space.
            if end > self.high or end < start:
                end = self.high
            if start < self.low:
                start = self.low
            if start < end:
                if not has_any:
                    has_any = 1
                    self.start = start
                    self.line = self.number[self.index]
                    self.path = self.path_of[self.file[self.index]]
                elif (
                    start != self.end
                    or self.number[self.index] != self.line
                    or self.path_of[self.file[self.index]] != self.path
                ):
                    break
                self.end = end
            self.index += 1
        return has_any


@cython.ccall
@cython.exceptval(-1, check=False)
def number_files(functions: Functions, inlines: Inlines, lines: Lines, number: I64) -> cython.longlong:
    """Number the paths in the order of their first use; `number` is all -1 and stays so for unused ones. Returns the
    number of line records."""
    count: cython.longlong = 0
    found: cython.longlong = 0
    function: cython.longlong
    record: cython.longlong
    path: cython.longlong
    with cython.nogil:
        for function in range(functions.address.shape[0]):
            for record in range(functions.first_inline[function], functions.first_inline[function + 1]):
                path = lines.path_of[inlines.call_file[record]]
                if number[path] < 0:
                    number[path] = found
                    found += 1
            lines.begin(
                functions.first_line[function],
                functions.address[function],
                functions.address[function] + functions.size[function],
            )
            while lines.next():
                count += 1
                if number[lines.path] < 0:
                    number[lines.path] = found
                    found += 1
        return count


@cython.ccall
@cython.exceptval(check=False)
def write(
    functions: Functions,
    inlines: Inlines,
    lines: Lines,
    number: ConstI64,
    bases: ConstU8,
    first: cython.longlong,
    last: cython.longlong,
    origin: cython.ulonglong,
    text: TextWriter,
) -> cython.void:
    """Write functions `first` up to `last`. Addresses are relative to `origin`, modulo 2**64; `number` is that of each
    path's file; `bases` are those of the first numbers of FUNC (three), INLINE (four) and line records (four), and of
    ranges."""
    function: cython.longlong
    with cython.nogil:
        for function in range(first, last):
            text.put_word(FUNC_M if functions.m[function] else FUNC)
            text.put_number(functions.address[function] - origin & ALL_ONES, bases[0], SPACE)
            text.put_number(functions.size[function], bases[1], SPACE)
            text.put_number(0, bases[2], SPACE)
            text.put_word(functions.name[function])
            put_inlines(functions, inlines, lines, number, bases, function, origin, text)
            lines.begin(
                functions.first_line[function],
                functions.address[function],
                functions.address[function] + functions.size[function],
            )
            while lines.next():
                text.put_number(lines.start - origin & ALL_ONES, bases[7], SPACE)
                text.put_number(lines.end - lines.start, bases[8], SPACE)
                text.put_number(lines.line, bases[9], SPACE)
                text.put_number(number[lines.path], bases[10], NEWLINE)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_inlines(
    functions: Functions,
    inlines: Inlines,
    lines: Lines,
    number: ConstI64,
    bases: ConstU8,
    function: cython.longlong,
    origin: cython.ulonglong,
    text: TextWriter,
) -> cython.void:
    """The INLINE records of a function."""
    record: cython.longlong
    part: cython.longlong
    last: cython.longlong
    for record in range(functions.first_inline[function], functions.first_inline[function + 1]):
        text.put_word(INLINE)
        text.put_number(inlines.level[record], bases[3], SPACE)
        text.put_number(inlines.call_line[record], bases[4], SPACE)
        text.put_number(number[lines.path_of[inlines.call_file[record]]], bases[5], SPACE)
        text.put_number(inlines.origin[record], bases[6], SPACE)
        last = inlines.first_range[record + 1] - 1
        for part in range(inlines.first_range[record], last + 1):
            text.put_number(inlines.start[part] - origin & ALL_ONES, bases[11], SPACE)
            text.put_number(inlines.size[part], bases[11], NEWLINE if part == last else SPACE)
