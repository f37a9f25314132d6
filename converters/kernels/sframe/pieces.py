# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The segments of all functions as address ranges: those that can be encoded, and those that are refused."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ... import refusals

if not cython.compiled:
    from ..array_types import I64, U8, U64, ConstI64, ConstU8, ConstU32, ConstU64
    from .fres import Segments

ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
OVERLAP = cython.declare(cython.int, int(refusals.Reason.OVERLAP))


@cython.final
@cython.cclass
class Functions:
    """Functions, ascending by start: `index` in the table, `start`, `size` and `run` by that index; and the `reason`
    why none of it can be encoded (0: see its segments)."""

    def __init__(self, index: ConstI64, start: ConstU64, size: ConstU64, run: ConstU32, reason: ConstU8) -> None:
        self.index = index
        self.start = start
        self.size = size
        self.run = run
        self.reason = reason


@cython.final
@cython.cclass
class Ranges:
    """Ranges to fill, of encoded or of refused code: the function's index, the segment, start, size and reason."""

    def __init__(self, function: I64, segment: I64, start: U64, size: U64, reason: U8) -> None:
        self.function = function
        self.segment = segment
        self.start = start
        self.size = size
        self.reason = reason
        self.count = 0

    def add(
        self,
        function: cython.longlong,
        segment: cython.longlong,
        start: cython.ulonglong,
        size: cython.ulonglong,
        reason: cython.int,
    ) -> None:
        """Append a range, if there is space; count it."""
        if self.count < self.function.shape[0]:
            self.function[self.count] = function
            self.segment[self.count] = segment
            self.start[self.count] = start
            self.size[self.count] = size
            self.reason[self.count] = cython.cast(cython.uchar, reason)
        self.count += 1


@cython.ccall
@cython.exceptval(check=False)
def cut(functions: Functions, segments: Segments, encoded: Ranges, refused: Ranges) -> cython.void:
    """Append the ranges of all functions. A PC of several functions belongs to the one that starts first: what has a
    part inside earlier functions is refused."""
    place: cython.longlong
    function: cython.longlong
    segment: cython.longlong
    last: cython.longlong
    reason: cython.int
    start: cython.ulonglong
    size: cython.ulonglong
    begin: cython.ulonglong
    end: cython.ulonglong
    inside: cython.ulonglong  # bytes of the function in earlier ones
    reach: cython.ulonglong = 0
    with cython.nogil:
        for place in range(functions.index.shape[0]):
            function = functions.index[place]
            start, size = functions.start[function], functions.size[function]
            inside = 0 if reach <= start else size if reach - start > size else reach - start
            end = (start + size) & ALL_ONES
            reach = end if end > reach else reach
            if functions.reason[function]:
                reason = OVERLAP if inside else functions.reason[function]
                refused.add(function, 0, start, size, reason)
                continue
            last = segments.first[functions.run[function] + 1] - 1
            for segment in range(segments.first[functions.run[function]], last + 1):
                begin = segments.start[segment]
                end = size if segment == last else segments.start[segment + 1]
                reason = OVERLAP if begin < inside else segments.reason[segment]
                if reason:
                    refused.add(function, segment, (start + begin) & ALL_ONES, (end - begin) & ALL_ONES, reason)
                else:
                    encoded.add(function, segment, (start + begin) & ALL_ONES, (end - begin) & ALL_ONES, 0)
