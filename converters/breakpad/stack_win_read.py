"""The table from the STACK WIN records of a symbol file (Breakpad, docs/symbol_files.md, STACK WIN records).

Strategy: a kernel finds the lines and reads their numbers; each distinct content (sizes and program) is translated
once, through STACK CFI rules. Where records overlap, the row of each PC is that of the record that walkers use.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_address, checked, optional, text_argument
from ...schemas.breakpad.files import parse_record
from ...schemas.breakpad.records import StackWin
from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError
from ...schemas.text_records import Number, parts_of
from ..arch.table import ARCHITECTURES, breakpad_names
from ..arrays import distinct_values, least_covering, range_run_starts, ranges, run_ends, run_starts, starts_of
from ..columns import Columns, column_of, columns
from ..distinct import intern, number_distinct
from ..kernels import engine, views
from ..kernels.breakpad.protocol import LineKind
from ..refusals import Reason, RefusedRecords
from ..table.model import FunctionColumns, Row, UnwindTable, table_of_rows
from .postfix.to_dwarf import PostfixError
from .stack_cfi.rule_rows import row_of_rules
from .stack_win import EVALUATED
from .stack_win_rules import uses_callee, win_rules

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOURCE = "STACK WIN"
ARCHITECTURE = ARCHITECTURES["x86"]
PREFIX = b"STACK WIN "
_NUMBERS = [name for name, kind in parts_of(StackWin) if isinstance(kind, Number)]
_TYPE, _RVA, _CODE_SIZE = (_NUMBERS.index(name) for name in ("type", "rva", "code_size"))
# The fields that decide the rules, besides the last one.
_DECIDING = [
    _NUMBERS.index(name)
    for name in ("type", "parameter_size", "saved_register_size", "local_size", "has_program_string")
]
_REGISTERS = {name: number for number, name in breakpad_names(ARCHITECTURE).items()}
_RETURN_COLUMN = _REGISTERS["$eip"]
_NO_ROW = -1
# Any size of parameters other than 0 shows which records depend on it.
_OTHER_SIZE = 4


@checked(next_parameter_size=optional(check_address))
def from_stack_win(
    text: bytes | str, load_address: int = 0, next_parameter_size: int | None = None
) -> tuple[UnwindTable, RefusedRecords]:
    """The table of x86 from the STACK WIN records of a text, which may be a whole symbol file, and what it lacks.

    Addresses are relative to `load_address`. The return address and the CFA of a record without a program, and of one
    that uses `.raSearchStart`, are above the parameters of the called function, whose size no row knows: these records
    are refused, unless `next_parameter_size` gives the bytes for which the rows then hold (0: the innermost frame). A
    register that the program does not store has no rule. Raises ParseError, whose record names the line.
    """
    data = text_argument(text)
    check_address(load_address, "load_address")
    lines = _lines(data)
    content, first = number_distinct(intern(*lines.rest)[0].astype(np.int64), *lines.values[:, _DECIDING].T)
    translated = _Translated()
    for begin, end, number in zip(
        *(column[first].tolist() for column in (lines.begin, lines.rest[2], lines.number)), strict=True
    ):
        record = parse_record(data[begin:end] + b"\n", number)
        assert isinstance(record, StackWin)
        translated.add(record, next_parameter_size)
    segments = _segments(lines)
    row = np.array(translated.row, np.int64)[content]
    reason = np.array(translated.reason, np.uint8)[content]
    table = _table(segments, row, translated.rows, load_address)
    # The PCs of a refused record: those where it is used. One of an unknown type is used nowhere.
    without = segments.select((row == _NO_ROW)[segments.owner])
    start, end = (column + np.uint64(load_address) for column in (without.start, without.end))
    refused = RefusedRecords(lines.number[without.owner], start, end, reason[without.owner])
    ignored = np.flatnonzero(reason == Reason.WIN_TYPE)
    start = lines.address[ignored] + np.uint64(load_address)
    skipped = RefusedRecords(lines.number[ignored], start, start + lines.size[ignored], reason[ignored])
    return table, RefusedRecords.concatenate([refused, skipped])


@dataclass(slots=True)
class _Translated:
    """Distinct contents of records: the index of the row of each in `rows`, or _NO_ROW; and the `Reason`, 0 for a
    row."""

    rows: list[Row] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    reason: list[int] = field(default_factory=list)
    numbers: dict[Row, int] = field(default_factory=dict)
    by_rules: dict[tuple[tuple[str, str], ...], Row | Reason] = field(default_factory=dict)

    def add(self, record: StackWin, next_parameter_size: int | None) -> None:
        """Translate one more content."""
        size = next_parameter_size or 0
        found = self._row_of(record, size)
        is_open = next_parameter_size is None and uses_callee(record)
        if is_open and isinstance(found, Row) and found != self._row_of(record, _OTHER_SIZE):
            found = Reason.WIN_CALLEE
        if isinstance(found, Row):
            if found not in self.numbers:
                self.numbers[found] = len(self.rows)
                self.rows.append(found)
            self.row.append(self.numbers[found])
            self.reason.append(0)
        else:
            self.row.append(_NO_ROW)
            self.reason.append(found)

    def _row_of(self, record: StackWin, next_parameter_size: int) -> Row | Reason:
        """The row of a record, or why it has none."""
        rules = win_rules(record, _REGISTERS, next_parameter_size)
        if isinstance(rules, Reason):
            return rules
        key = tuple(rules.items())
        if key not in self.by_rules:
            try:
                self.by_rules[key] = row_of_rules(rules, _REGISTERS, ARCHITECTURE, _RETURN_COLUMN)
            except PostfixError:
                self.by_rules[key] = Reason.WIN_OPERATOR
        return self.by_rules[key]


@columns
class _Segments(Columns):
    """Disjoint ranges in ascending order, each with the record that is used there. Addresses are relative to the load
    address."""

    start: NDArray[np.uint64] = column_of("address", "of the first PC")
    end: NDArray[np.uint64] = column_of("address", "after the last PC")
    owner: NDArray[np.int64] = column_of("index", "of the record")
    is_inside: NDArray[np.bool_] = column_of("", "whether some record covers the PC before the first one, too")


def _segments(lines: _Lines) -> _Segments:
    """Where each record is used: FrameTypeFrameData before FrameTypeFPO, then the smaller range, then the first."""
    used = np.flatnonzero(np.isin(lines.type, np.array(EVALUATED, np.uint64)) & (lines.size > 0))
    used = used[np.lexsort((used, lines.size[used], ~lines.type[used]))]
    start, end = lines.address[used], lines.address[used] + lines.size[used]
    bound = distinct_values(np.concatenate([start, end]))
    begin, stop = np.searchsorted(bound, start), np.searchsorted(bound, end)
    count = max(0, len(bound) - 1)
    rank = least_covering(begin, stop, count)
    # How many records begin before each place and end after it.
    inner = np.bincount(begin + 1, minlength=count + 2) - np.bincount(stop, minlength=count + 2)
    covering = np.cumsum(inner)[:count]
    place = np.flatnonzero(rank >= 0)
    return _Segments(bound[place], bound[place + 1], used[rank[place]], covering[place] > 0)


def _table(segments: _Segments, row: NDArray[np.int64], rows: list[Row], load_address: int) -> UnwindTable:
    """The table of the segments whose records have a row. Records that overlap are one function."""
    kept = segments.select(row[segments.owner] != _NO_ROW)
    which = row[kept.owner]
    is_start = range_run_starts(kept.start, kept.end) | ~kept.is_inside
    is_row = is_start | run_starts(which)
    first, last = np.flatnonzero(is_start), np.flatnonzero(run_ends(is_start))
    start = kept.start[first]
    counts = np.diff(np.append(np.flatnonzero(is_start[is_row]), int(is_row.sum())))
    offset = kept.start[is_row] - np.repeat(start, counts)
    which = which[is_row]
    place = starts_of(counts)
    pairs = np.column_stack([offset.view(np.int64), which]).view(np.uint8).reshape(-1)
    run, one = intern(pairs, 16 * place[:-1], 16 * place[1:], np.zeros(len(counts), np.int64))
    functions = FunctionColumns.defaults(
        len(first),
        start=start + np.uint64(load_address),
        size=kept.end[last] - start,
        run=run,
        return_column=np.full(len(first), _RETURN_COLUMN, np.uint32),
    )
    chosen = ranges(place[:-1][one], counts[one])
    table = table_of_rows(ARCHITECTURE, functions, counts[one], offset[chosen], rows, which[chosen])
    return replace(table, source=SOURCE, load_address=load_address)


@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """STACK WIN lines: `number` in the file, from 1; `begin`, the offset in it; `values`, one row per line with its
    numbers; `rest`: the file, and where the last field of each line begins and ends (as `intern` takes it).
    """

    number: NDArray[np.int64]
    begin: NDArray[np.int64]
    values: NDArray[np.uint64]
    rest: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

    @property
    def type(self) -> NDArray[np.uint64]:
        """The type of each record."""
        return self.values[:, _TYPE]

    @property
    def address(self) -> NDArray[np.uint64]:
        """The first address that each record covers, relative to the load address."""
        return self.values[:, _RVA]

    @property
    def size(self) -> NDArray[np.uint64]:
        """The bytes that each record covers."""
        return self.values[:, _CODE_SIZE]


def _lines(data: bytes) -> _Lines:
    """The STACK WIN lines of a symbol file; others are ignored. Raises ParseError, whose record names the line."""
    # Each line is at least as long as its prefix.
    capacity = min(data.count(b"\n") + 1, len(data) // len(PREFIX) + 1)
    line, begin, rest, end = np.empty((4, capacity), np.int64)
    kind, values = np.empty(capacity, np.uint8), np.zeros((capacity, len(_NUMBERS)), np.uint64)
    text, prefix = np.frombuffer(data, np.uint8), np.frombuffer(PREFIX, np.uint8)
    counts = np.full(2, len(_NUMBERS))
    count = engine.breakpad.symbol_lines.scan(
        *views(text, prefix, prefix, counts, line, begin, kind, values, rest, end)
    )
    for index in np.flatnonzero(kind[:count] == LineKind.ODD).tolist():
        record = parse_record(data[begin[index] : end[index]] + b"\n", int(line[index]) + 1)
        assert isinstance(record, StackWin)
        values[index] = [getattr(record, name) for name in _NUMBERS]
        rest[index] = begin[index]  # equal contents are found only where the whole lines are equal
    values = values[:count]
    last = values[:, _RVA] + values[:, _CODE_SIZE]
    for index in np.flatnonzero(last < values[:, _RVA])[:1]:
        raise ParseError(SOURCE, None, f"line {line[index] + 1}", "the range reaches past the address space")
    fixed = np.zeros(count, np.int64)
    return _Lines(line[:count] + 1, begin[:count], values, (text, rest[:count], end[:count], fixed))
