"""The table as Breakpad's STACK CFI records (Breakpad, docs/symbol_files.md, STACK CFI records).

Strategy: rules are formatted once per distinct row, and changes once per distinct step from a row to the next; a kernel
adds the addresses, function by function. A row that cannot be expressed ends its range, and the next one that can
starts another, so that no rule stays in force after its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.arguments import checked
from ....schemas.breakpad.records import NAMES, StackCfi, StackCfiInit
from ....schemas.data_classes import dataclass
from ....schemas.section import BuildError
from ....schemas.steps import Step
from ...arrays import ranges, starts_of
from ...bulk_text import fill_bytes
from ...distinct import number_distinct
from ...kernels import engine, views
from ...kernels.breakpad.protocol import TextRow
from ...refusals import Reason, Refusals
from ...table.cut import trim, without_blocks
from ...table.distinct import contents_of
from ...table.model import UnwindTable
from ...threads import in_threads, in_turn
from .rule_text import COLON, RowEncoder, RowWords, changed_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

INIT, DELTA = (f"{NAMES[record]} ".encode() for record in (StackCfiInit, StackCfi))
CHUNK = 4096  # functions
PART = 1 << 15  # functions whose text one thread writes, where it is not written in chunks
# Chunks for which threads are worth their start.
LEAST_CHUNKS = 8


@checked(table=UnwindTable)
def to_stack_cfi(table: UnwindTable) -> tuple[bytes, Refusals]:
    """The table as STACK CFI INIT and STACK CFI records, by ascending address, relative to the load address; and the
    ranges without a record, because their CFA or return address cannot be expressed.

    Overlapping functions are cut: a PC belongs to the one that starts first. Rules of other registers that the language
    cannot express are omitted or withdrawn. Raises BuildError for a table of a relocatable file.
    """
    lines = lay_out_text(table)
    return lines.text(), lines.refusals


@dataclass(frozen=True, slots=True, eq=False)
class StackCfiText:
    """Everything that records are written from. Functions are in ascending order: `start` u64, relative to the load
    address; `size` u64 in bytes; `row_run`, the number of the function's run in `rows`.
    """

    start: NDArray[np.uint64]
    size: NDArray[np.uint64]
    row_run: NDArray[np.int64]
    rows: _RowRuns
    steps: _Steps
    refusals: Refusals

    def __len__(self) -> int:
        """The number of functions."""
        return len(self.start)

    def fill(self, first: int, last: int, out: NDArray[np.uint8]) -> int:
        """Write the records of functions `first` up to `last` to `out`; return their size in bytes.

        Words that do not fit `out` are not written, but counted.
        """
        functions = (self.start[first:last], self.size[first:last], self.row_run[first:last])
        rows, steps = self.rows, self.steps
        fixed = (steps.pool, steps.start, steps.length, steps.kind, steps.prefixes)
        return engine.breakpad.stack_cfi.lines(*views(*fixed, *functions, rows.first, rows.offset, rows.step, out))

    def text(self) -> bytes:
        """All records."""
        firsts, nothing = range(0, len(self), PART), np.empty(0, np.uint8)

        def fill(first: int, out: NDArray[np.uint8]) -> int:
            return self.fill(first, min(first + PART, len(self)), out)

        starts = starts_of(np.array(in_threads(lambda first: fill(first, nothing), firsts), np.int64)).tolist()

        def fill_all(out: NDArray[np.uint8]) -> int:
            in_threads(lambda part: fill(firsts[part], out[starts[part] : starts[part + 1]]), range(len(firsts)))
            return int(starts[-1])

        return fill_bytes(starts[-1], fill_all)

    def chunks(self) -> Iterator[memoryview]:
        """All records, a few thousand functions at a time; a chunk is valid until the next one is requested."""
        free: list[NDArray[np.uint8]] = []  # buffers whose chunk has been used

        def fill(first: int) -> tuple[NDArray[np.uint8], int]:
            last = min(first + CHUNK, len(self))
            out = _take(free)
            size = self.fill(first, last, out)
            if size > len(out):
                out = np.empty(2 * size, np.uint8)
                self.fill(first, last, out)
            return out, size

        parts = range(0, len(self), CHUNK)
        for out, size in (map if len(parts) < LEAST_CHUNKS else in_turn)(fill, parts):
            yield out[:size].data
            free.append(out)


def _take(free: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """One of the free buffers, or a new one. Another thread may take the last one at the same time."""
    try:
        return free.pop()
    except IndexError:
        return np.empty(1 << 20, np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class _RowRuns:
    """Runs of rows; run n is first[n] up to first[n + 1]. Of each row: `offset` u64 from the function's start,
    `step`, the number of the step from the row before, and `reason`: why it cannot be expressed (0: it can).
    """

    first: NDArray[np.int64]
    offset: NDArray[np.uint64]
    step: NDArray[np.int64]
    reason: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Steps from row to row: the `kind` (TextRow) of each, and where its text is in `pool`, up to the end of the line.

    `prefixes`: start and length in `pool` of "STACK CFI INIT ", then those of "STACK CFI ".
    """

    kind: NDArray[np.uint8]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    pool: NDArray[np.uint8]
    prefixes: NDArray[np.int64]


def lay_out_text(table: UnwindTable) -> StackCfiText:
    """As `to_stack_cfi`, with the records not yet written."""
    if table.functions.section.any():
        raise BuildError("STACK CFI", None, "functions", "the file is relocatable: addresses are not final")
    with Step("STACK CFI") as step:
        table = trim(without_blocks(table))
        functions = table.functions
        order = np.argsort(functions.start, kind="stable")
        order = order[functions.size[order] > 0]
        run, column = functions.run[order].astype(np.int64), functions.return_column[order]
        row_run, first, row, columns = _row_runs(table, run, column)
        rows, steps = _rows_and_steps(table, first, row, columns)
        start = functions.start[order] - np.uint64(table.load_address)
        refusals = _refusals(table, order, row_run, rows)
        step.count(len(start), "functions")
        step.count(len(refusals), "ranges refused")
    return StackCfiText(start, functions.size[order], row_run, rows, steps, refusals)


def _row_runs(
    table: UnwindTable, run: NDArray[np.int64], column: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | slice, NDArray[np.uint32]]:
    """The number of each function's run of rows: functions with the same table run and return address column share one.

    Then where each run starts, the indices of its rows in the table, and the return address column of each row.
    """
    if len(column) and (column == column[0]).all():
        # True of nearly every file: the runs are the table's.
        return run, table.run_rows, slice(None), np.full(len(table.rows.offset), column[0])
    row_run, one = number_distinct(run, column)
    count = np.diff(table.run_rows)[run[one]]
    return row_run, starts_of(count), ranges(table.run_rows[run[one]], count), np.repeat(column[one], count)


def _rows_and_steps(
    table: UnwindTable, first: NDArray[np.int64], row: NDArray[np.int64] | slice, column: NDArray[np.uint32]
) -> tuple[_RowRuns, _Steps]:
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
    # A step starts from nothing (INIT) or from the row before. A few also depend on the rules of earlier rows.
    earlier, sets = _mentioned_earlier(content, before, rules)
    step, at = number_distinct(((before + 1) * len(rules) + content) * len(sets) + earlier)
    mentioned = [sets[number] for number in np.broadcast_to(earlier, len(content))[at].tolist()]
    steps = _steps(rules, before[at].tolist(), content[at].tolist(), mentioned, encoder.implied)
    return _RowRuns(first, table.rows.offset[row], step, reasons[content]), steps


def _steps(
    rules: list[RowWords | Reason], before: list[int], content: list[int], earlier: list[frozenset[str]], implied: str
) -> _Steps:
    """The kind and text of each step from a row `before` (-1: from nothing) to `content`: indices of `rules`.

    `implied`: the rule in force without a record.
    """
    kinds, lines = [], []
    for old, new, mentioned in zip(before, content, earlier, strict=True):
        after, former = rules[new], rules[old]
        if isinstance(after, Reason):
            kind, words = TextRow.SKIPPED, []
        elif old < 0 or isinstance(former, Reason):
            kind, words = TextRow.INIT, list(after.words - {implied})
        else:
            words = changed_words(former, after, mentioned)
            kind = TextRow.DELTA if words else TextRow.SAME
        kinds.append(kind)
        words.sort()
        lines.append("".join(words))
    prefixes = np.array([0, len(INIT), len(INIT), len(DELTA)], np.int64)
    text = "\n".join([*lines, ""]).replace(COLON, ":").encode()
    pool = np.frombuffer(INIT + DELTA + text, np.uint8)
    length = np.fromiter(map(len, lines), np.int64, len(lines)) + 1
    start = prefixes[1] + prefixes[3] + starts_of(length)[:-1]
    return _Steps(np.array(kinds, np.uint8), start, length, pool, prefixes)


def _mentioned_earlier(
    content: NDArray[np.int64], before: NDArray[np.int64], rules: list[RowWords | Reason]
) -> tuple[NDArray[np.int64], list[frozenset[str]]]:
    """The registers that are lost in a row or in the one before, and had a rule earlier in the range.

    Returns the number of each row's set of registers (one element for all rows if no row has any), and the sets.
    """
    numbers = {frozenset[str](): 0}
    lost = [frozenset[str]() if isinstance(one, Reason) else one.lost for one in rules]
    loses = np.array([len(one) > 0 for one in lost], np.bool_)
    if not loses.any():
        return np.zeros(1, np.int64), list(numbers)
    earlier = np.zeros(len(content), np.int64)
    # Lost registers are rare: only ranges with one are walked row by row.
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


def _refusals(table: UnwindTable, order: NDArray[np.int64], row_run: NDArray[np.int64], rows: _RowRuns) -> Refusals:
    """The rows without a record, function by function."""
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
