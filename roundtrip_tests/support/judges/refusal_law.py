"""Law 3 at its sharpest: a PC is refused exactly where SFrame cannot express its row, for a reason that holds there;
and elsewhere the section has the row that SFrame can express.

Strategy: both sides become address ranges with what is in force there, in one canonical form: the source by the limits
(sframe_limits.py) and the refusals, the section by its rows as read back. No projection of the product takes part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from unwindkit.converters.refusals import Reason
from unwindkit.converters.rules import RuleKind
from unwindkit.converters.table.model import FunctionFlag

from ..texts.readelf_text import SframeText
from .sframe_limits import OUTERMOST, Causes, Format

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unwindkit.converters.refusals import Refusal
    from unwindkit.converters.table.model import Function, Row


class Content(NamedTuple):
    """What is in force at a PC: the row, the value of SP relative to the CFA (None: no rule), and the marks."""

    row: SframeText
    sp: int | None
    flags: FunctionFlag


@dataclass(frozen=True, slots=True)
class Piece:
    """Addresses of a function, `end` exclusive, and what SFrame can express there, or why it cannot."""

    start: int
    end: int
    function: int
    content: Content | Causes


def expected_pieces(functions: list[Function], to: Format) -> Iterator[Piece]:
    """Every PC of every function; those of functions that start earlier are an overlap."""
    reach = 0
    for index in sorted(range(len(functions)), key=lambda index: functions[index].start):
        function = functions[index]
        own = max(function.start, min(reach, function.start + function.size))
        yield from _pieces_of(function, index, own, to)
        reach = max(reach, function.start + function.size)


def _pieces_of(function: Function, index: int, own: int, to: Format) -> Iterator[Piece]:
    """The PCs of one function, of which those below `own` belong to others.

    FDEs are not cut inside a stretch of rows: the rest of the stretch that begins below `own` is refused with it.
    """
    judged = [to.judge(row) for row in function.rows]
    whole = to.function_causes(function, all(isinstance(one, SframeText) for one in judged))
    overlap, cut = frozenset({Reason.OVERLAP}), None
    for start, end, row in _ranges(function):
        found = whole or judged[row]
        is_refused = isinstance(found, frozenset)
        if start < own:
            cut = is_refused
            yield Piece(start, min(end, own), index, overlap)
        if own < end:
            content = found if isinstance(found, frozenset) else content_of(function, found, to)
            cut = cut if cut is is_refused else None
            if cut is not None:
                content = overlap | content if isinstance(content, frozenset) else overlap
            yield Piece(max(start, own), end, index, content)


def _ranges(function: Function) -> Iterator[tuple[int, int, int]]:
    """Start, end and row of each range of equal rules, block by block."""
    if not function.size:
        return
    block = function.repetition or function.size
    ends = [*(row.offset for row in function.rows[1:]), block]
    for base in range(0, function.size, block):
        for index, (row, end) in enumerate(zip(function.rows, ends, strict=True)):
            start, stop = base + row.offset, min(base + end, function.size)
            if start < stop:
                yield function.start + start, function.start + stop, index


def content_of(function: Function, row: SframeText, to: Format) -> Content:
    """A row with the function's marks, of which version 2 has only the key."""
    marks = FunctionFlag.PAUTH_B_KEY | (FunctionFlag.SIGNAL_FRAME if to.is_v3 else FunctionFlag(0))
    # Where SP is not simply the CFA, a reader has to give its rule.
    sp = None if row == OUTERMOST or to.sp_value == 0 else to.sp_value
    return Content(row, sp, function.flags & marks)


def read_pieces(functions: list[Function], to: Format) -> Iterator[tuple[int, int, Content]]:
    """The ranges of a section that was read."""
    for function in functions:
        assert (function.return_column, function.segment) == (to.architecture.ra[0], 0)
        for start, end, number in _ranges(function):
            row = function.rows[number]
            text = to.judge(row)
            assert isinstance(text, SframeText), (text, row)
            yield start, end, Content(text, _sp_of(row, to), function.flags)


def _sp_of(row: Row, to: Format) -> int | None:
    found = [rule for rule in row.registers if rule.register == to.architecture.sp[0]]
    assert all(rule.kind is RuleKind.VAL_OFFSET for rule in found), row
    return int(found[0].value) if found else None


def joined(ranges: Iterable[tuple[int, int, Content]]) -> list[tuple[int, int, Content]]:
    """Ascending ranges, of which neighbours with equal content are one."""
    found: list[tuple[int, int, Content]] = []
    for start, end, content in sorted(ranges, key=lambda one: one[:2]):
        if found and (found[-1][1], found[-1][2]) == (start, content):
            found[-1] = (found[-1][0], end, content)
        else:
            found.append((start, end, content))
    return found


def faults(source: list[Function], read: list[Function], refusals: Iterable[Refusal], to: Format) -> list[str]:
    """Everything that breaks the law, as sentences."""
    pieces = list(expected_pieces(source, to))
    found = list(_wrong_refusals(pieces, refusals))
    expected = joined((one.start, one.end, one.content) for one in pieces if isinstance(one.content, Content))
    actual = joined(read_pieces(read, to))
    there, expressible = set(actual), set(expected)
    found += [f"expressible, but not there: {_text(one)}" for one in expected if one not in there][:10]
    return found + [f"there, but not the source's: {_text(one)}" for one in actual if one not in expressible][:10]


def _text(piece: tuple[int, int, Content]) -> str:
    start, end, (row, sp, flags) = piece
    return f"{start:#x}..{end:#x}: {row}, SP {sp}, {flags!r}"


def _wrong_refusals(pieces: list[Piece], refusals: Iterable[Refusal]) -> Iterator[str]:
    """At each PC of each function: refused without a cause, for another cause, or not refused."""
    by_function: dict[int, list[Refusal]] = {}
    for one in sorted(refusals, key=lambda one: (one.function, one.start)):
        assert one.start < one.end, one
        by_function.setdefault(one.function, []).append(one)
    for piece in pieces:
        mine = by_function.get(piece.function, [])
        starts = [one.start for one in mine]
        for start in sorted({piece.start, *(at for one in mine for at in (one.start, one.end))}):
            if not piece.start <= start < piece.end:
                continue
            index = bisect_right(starts, start) - 1
            reason = mine[index].reason if index >= 0 and start < mine[index].end else None
            causes = piece.content if isinstance(piece.content, frozenset) else frozenset[Reason]()
            if reason not in (causes or {None}):
                wanted = sorted(one.name for one in causes) or piece.content
                yield f"function {piece.function} at {start:#x}: refused as {reason!r}, expected {wanted}"
