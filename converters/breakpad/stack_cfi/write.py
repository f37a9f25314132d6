"""The table as Breakpad's STACK CFI lines (the symbol file document, STACK CFI records).

Strategy: what a row says is text once for each distinct content; what changes once for each distinct step from one
content to the next; a kernel puts addresses to them, function by function. Rows that cannot be said end a range, and
the next that can begins another: a rule that no longer holds is never left in force.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.breakpad import NAMES, StackCfi, StackCfiInit
from ....schemas.section import BuildError
from ...arrays import ranges, starts_of
from ...bulk_text import fill_bytes
from ...kernels import engine, views
from ...kernels.breakpad.protocol import TextRow
from ...refusals import Reason, Refusals
from ...table.cut import trim, without_blocks
from ...table.distinct import contents_of, number_distinct
from ...table.model import UnwindTable
from .rule_text import SORTS, RowEncoder, RowWords, changed_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

INIT, DELTA = (f"{NAMES[record]} ".encode() for record in (StackCfiInit, StackCfi))
PIECE = 4096  # functions


def to_stack_cfi(table: UnwindTable) -> tuple[bytes, Refusals]:
    """The table as STACK CFI INIT and STACK CFI lines, in the order of addresses, which are relative to the load
    address; and the ranges without a line, because their CFA or return address cannot be expressed.

    Functions are cut where they overlap: the first one keeps the PC. Rules of other registers that the language cannot
    express are left out or withdrawn. Raises BuildError for a table of a relocatable file.
    """
    lines = lay_out_text(table)
    size = lines.fill(0, len(lines), np.empty(0, np.uint8))
    return fill_bytes(size, lambda buffer: lines.fill(0, len(lines), buffer)), lines.refusals


@dataclass(frozen=True, slots=True, eq=False)
class StackCfiText:
    """All that lines are made of: `start` u64 from the load address and `size` u64 in bytes of functions in the order
    of addresses, of each the number of its `rows`; of steps from row to row their text."""

    start: NDArray[np.uint64]
    size: NDArray[np.uint64]
    row_run: NDArray[np.int64]
    rows: _Rows
    steps: _Steps
    refusals: Refusals

    def __len__(self) -> int:
        """The number of functions."""
        return len(self.start)

    def fill(self, first: int, last: int, buffer: NDArray[np.uint8]) -> int:
        """Write the lines of functions `first` up to `last` as far as there is room; return how many bytes they are."""
        functions = (self.start[first:last], self.size[first:last], self.row_run[first:last])
        rows, steps = self.rows, self.steps
        fixed = (steps.pool, steps.start, steps.length, steps.kind, steps.prefixes)
        return engine.breakpad.stack_cfi.lines(*views(*fixed, *functions, rows.first, rows.offset, rows.step, buffer))

    def pieces(self) -> Iterator[memoryview]:
        """All lines, some functions at a time; each piece stands only until the next is asked for."""
        buffer = np.empty(1 << 20, np.uint8)
        for first in range(0, len(self), PIECE):
            last = min(first + PIECE, len(self))
            size = self.fill(first, last, buffer)
            if size > len(buffer):
                buffer = np.empty(2 * size, np.uint8)
                self.fill(first, last, buffer)
            yield buffer[:size].data


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of runs, those of number n from first[n] up to first[n + 1]: u64 offset from the function's start, the
    number of the step from the row before, and why it cannot be said (0: it can)."""

    first: NDArray[np.int64]
    offset: NDArray[np.uint64]
    step: NDArray[np.int64]
    reason: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Of each step its kind, `TextRow`, and where its text is in `pool`; where there is what lines begin with."""

    kind: NDArray[np.uint8]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    pool: NDArray[np.uint8]
    prefixes: NDArray[np.int64]


def lay_out_text(table: UnwindTable) -> StackCfiText:
    """As `to_stack_cfi`, with the lines still to be written."""
    if table.functions.section.any():
        raise BuildError("STACK CFI", None, "functions", "are of a relocatable file: their addresses are not known yet")
    table = trim(without_blocks(table))
    functions = table.functions
    order = np.argsort(functions.start, kind="stable")
    order = order[functions.size[order] > 0]
    run, column = functions.run[order].astype(np.int64), functions.return_column[order]
    row_run, first, row, columns = _row_runs(table, run, column)
    rows, steps = _rows_and_steps(table, first, row, columns)
    start = functions.start[order] - np.uint64(table.load_address)
    refusals = _refusals(table, order, row_run, rows)
    return StackCfiText(start, functions.size[order], row_run, rows, steps, refusals)


def _row_runs(
    table: UnwindTable, run: NDArray[np.int64], column: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | slice, NDArray[np.uint32]]:
    """A number for each function, equal where run and return column are; where the rows of each number begin, which of
    the table's they are, and with what return column."""
    if len(column) and (column == column[0]).all():
        # In nearly every file: the runs are what is to be said.
        return run, table.run_rows, slice(None), np.full(len(table.rows.offset), column[0])
    row_run, one = number_distinct(run, column)
    count = np.diff(table.run_rows)[run[one]]
    first = starts_of(count)
    return row_run, first, ranges(table.run_rows[run[one]], count), np.repeat(column[one], count)


def _rows_and_steps(
    table: UnwindTable, first: NDArray[np.int64], row: NDArray[np.int64] | slice, column: NDArray[np.uint32]
) -> tuple[_Rows, _Steps]:
    contents = contents_of(table)
    content, columns = contents.number[row], column[:1]
    if isinstance(row, slice):
        at = np.arange(len(contents.cfa))
        columns = np.repeat(columns, len(at))
    else:
        content, place = number_distinct(content, column)
        at, columns = contents.number[row][place], column[place]
    encoder = RowEncoder(table, contents)
    pairs = zip(at.tolist(), columns.tolist(), strict=True)
    rules = [encoder.encode(number, return_column) for number, return_column in pairs]
    reasons = np.array([one if isinstance(one, Reason) else 0 for one in rules], np.uint8)
    before = np.full(len(content), -1, np.int64)
    before[1:] = content[:-1]
    before[first[:-1][first[:-1] < len(content)]] = -1
    if reasons.any():
        before[np.flatnonzero(reasons[before] > 0)] = -1
    # A step is from nothing, for an INIT, or from another row; of few it matters what was said before that.
    earlier, sets = _mentioned_before(content, before, rules)
    step, at = number_distinct(((before + 1) * len(rules) + content) * len(sets) + earlier)
    mentioned = [sets[number] for number in np.broadcast_to(earlier, len(content))[at].tolist()]
    steps = _steps(rules, before[at].tolist(), content[at].tolist(), mentioned)
    return _Rows(first, table.rows.offset[row], step, reasons[content]), steps


def _steps(
    rules: list[RowWords | Reason], before: list[int], content: list[int], earlier: list[frozenset[str]]
) -> _Steps:
    """The kind of each step, and its text up to the end of its line."""
    kinds, lines = [], []
    for old, new, mentioned in zip(before, content, earlier, strict=True):
        after, former = rules[new], rules[old]
        if isinstance(after, Reason):
            kind, words = TextRow.SKIPPED, []
        elif old < 0 or isinstance(former, Reason):
            kind, words = TextRow.INIT, list(after.words)
        else:
            words = changed_words(former, after, mentioned)
            kind = TextRow.DELTA if words else TextRow.SAME
        kinds.append(kind)
        words.sort()
        lines.append("".join(words))
    prefixes = np.array([0, len(INIT), len(INIT), len(DELTA)], np.int64)
    text = "\n".join([*lines, ""]).replace(SORTS, ":").encode()
    pool = np.frombuffer(INIT + DELTA + text, np.uint8)
    length = np.fromiter(map(len, lines), np.int64, len(lines)) + 1
    start = prefixes[1] + prefixes[3] + starts_of(length)[:-1]
    return _Steps(np.array(kinds, np.uint8), start, length, pool, prefixes)


def _mentioned_before(
    content: NDArray[np.int64], before: NDArray[np.int64], rules: list[RowWords | Reason]
) -> tuple[NDArray[np.int64], list[frozenset[str]]]:
    """For each row (or once for all) a number, and for each number registers: those that are lost in the row or in the
    one before, of which the range has said something before."""
    numbers = {frozenset[str](): 0}
    lost = [frozenset[str]() if isinstance(one, Reason) else one.lost for one in rules]
    loses = np.array([len(one) > 0 for one in lost], np.bool_)
    if not loses.any():
        return np.zeros(1, np.int64), list(numbers)
    earlier = np.zeros(len(content), np.int64)
    # Undefined registers beside the return address are rare; ranges with one are walked.
    mentioned: set[str] = set()
    group = np.cumsum(before < 0)
    walked = np.isin(group, group[loses[content]])
    for index in np.flatnonzero(walked).tolist():
        now, old = content[index], before[index]
        mentioned = set() if old < 0 else mentioned
        matters = (lost[now] | lost[old] if old >= 0 else lost[now]) & mentioned
        earlier[index] = numbers.setdefault(matters, len(numbers))
        found = rules[now]
        if not isinstance(found, Reason):
            mentioned |= found.names - lost[now]
    return earlier, list(numbers)


def _refusals(table: UnwindTable, order: NDArray[np.int64], row_run: NDArray[np.int64], rows: _Rows) -> Refusals:
    """The rows without a line, function by function."""
    count = np.diff(rows.first)
    before = starts_of(rows.reason > 0)
    has_any = before[rows.first[1:]] > before[rows.first[:-1]]
    which = np.flatnonzero(has_any[row_run])
    owner = np.repeat(which, count[row_run[which]])
    place = ranges(rows.first[:-1][row_run[which]], count[row_run[which]])
    function = order[owner]
    offset, size = rows.offset[place], table.functions.size[function]
    is_last = place == rows.first[1:][row_run[owner]] - 1
    following = rows.offset[np.where(is_last, place, place + 1)]
    end = np.where(is_last, size, following)
    start = table.functions.start[function]
    refused = rows.reason[place] > 0
    begin, stop = (start + offset)[refused], (start + end)[refused]
    return Refusals(function[refused], begin, stop, rows.reason[place][refused])
