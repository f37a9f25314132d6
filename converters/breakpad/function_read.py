"""A function table and line records from the FUNC, INLINE, FILE, INLINE_ORIGIN and line records of a symbol file.

Strategy: kernels find the lines and read their numbers; only names, and lines that are not spelled canonically, become
objects. Each FUNC record is a function with one range. One with `m` is followed by another function of the same range.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_address, text_argument
from ...schemas.breakpad.files import parse_record
from ...schemas.breakpad.records import NAMES, File, Func, Inline, InlineOrigin
from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError
from ...schemas.text_records import bytes_from
from ..arrays import group_numbers, ranks, run_starts, starts_of
from ..debug_info.table import FunctionColumns, FunctionRanges, FunctionTable, InlineColumns, InlineRanges, SkippedUnits
from ..kernels import engine, views
from ..kernels.breakpad.protocol import LineKind
from ..line.ranges import LineRanges
from .function_text import UNKNOWN_FILE, first_words
from .line_records import OMITTED, ReadLines, read_line_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOURCE = "function records"
# The name of the function that represents all others at the address of a FUNC record with `m`.
OTHER_NAMES = b"<other names>"
FUNC_NUMBERS, INLINE_DECIMALS = 3, 4
LEVEL_LIMIT, WORD_LIMIT = 1 << 16, 1 << 32


def from_function_records(text: bytes | str, load_address: int = 0) -> tuple[FunctionTable, LineRanges]:
    """The functions and line records of a symbol file, whose addresses are relative to `load_address`.

    Names and files are those of the records, in their order; `<name omitted>` and `<unknown>` are none. Other records
    are ignored. Where line records overlap, the one that starts first wins. Raises ParseError whose record names the
    line.
    """
    data = text_argument(text)
    check_address(load_address, "load_address")
    records = read_line_records(data, load_address)
    for index in np.flatnonzero(records.size >= WORD_LIMIT)[:1]:
        reason = f"it does not fit 32 bits: {int(records.size[index]):#x}"
        raise ParseError(SOURCE, None, f"line record at {int(records.address[index]):#x}: size", reason)
    funcs = _funcs(data)
    names: dict[bytes, int] = {OMITTED.encode(): -1}
    functions, spans = _functions(data, funcs, load_address, names)
    fields = _inline_fields(data)
    inlines = _inlines(data, fields, funcs, names, records)
    parts = _inline_ranges(fields, load_address)
    skipped = SkippedUnits.defaults(0)
    table = FunctionTable(
        functions, spans, inlines, parts, tuple(names)[1:], tuple(records.files), skipped, "symbol file"
    )
    path = records.file.astype(np.uint32)
    return table, LineRanges(records.address, records.size.astype(np.uint32), records.line, path)


@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """The lines with a prefix: the index of each in the file, `line`; where it is in the text, from `begin` to `end`,
    and what follows the prefix and its numbers, from `rest`; the `kind` of prefix; and the numbers, one row per line.
    """

    line: NDArray[np.int64]
    begin: NDArray[np.int64]
    rest: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.uint8]
    values: NDArray[np.uint64]

    def __len__(self) -> int:
        """The number of lines."""
        return len(self.line)


def _scan(data: bytes, longer: bytes, shorter: bytes, numbers: int) -> _Lines:
    """The lines that begin with one of two prefixes, of which `longer` begins with `shorter`."""
    # Each line is at least as long as its prefix.
    capacity = min(data.count(b"\n") + 1, len(data) // len(shorter) + 1)
    line, begin, rest, end = np.empty((4, capacity), np.int64)
    kind, values = np.empty(capacity, np.uint8), np.zeros((capacity, max(1, numbers)), np.uint64)
    text, first, second = (np.frombuffer(part, np.uint8) for part in (data, longer, shorter))
    columns = line, begin, kind, values, rest, end
    count = engine.breakpad.symbol_lines.scan(*views(text, first, second, np.full(2, numbers), *columns))
    return _Lines(line[:count], begin[:count], rest[:count], end[:count], kind[:count], values[:count])


def _funcs(data: bytes) -> _Lines:
    """The FUNC lines. A line of unusual spelling gets its values and its kind from its record."""
    func, func_m, _ = first_words()
    found = _scan(data, func_m, func, FUNC_NUMBERS)
    _strip_carriage_returns(data, found)
    for index in np.flatnonzero(found.kind == LineKind.ODD).tolist():
        record = _record(data, found, index)
        assert isinstance(record, Func)
        found.values[index] = record.address, record.size, record.parameter_size
        found.kind[index] = LineKind.LONGER if record.m else LineKind.SHORTER
        # The name is at the end of the line, whatever is before it.
        found.rest[index] = found.end[index] - len(bytes_from(record.name))
    return found


def _strip_carriage_returns(data: bytes, lines: _Lines) -> None:
    """Move the ends of lines before the carriage returns that they end in."""
    text = np.frombuffer(data, np.uint8)
    left = np.arange(len(lines))
    while len(left := left[text[lines.end[left] - 1] == ord("\r")]):
        lines.end[left] -= 1


def _record(data: bytes, lines: _Lines, index: int) -> object:
    line = data[lines.begin[index] : lines.end[index]]
    return parse_record(line + b"\n", int(lines.line[index]) + 1)


def _functions(
    data: bytes, funcs: _Lines, load_address: int, names: dict[bytes, int]
) -> tuple[FunctionColumns, FunctionRanges]:
    """The functions and their ranges. New names are added to `names`."""
    texts = (data[a:b] for a, b in zip(funcs.rest.tolist(), funcs.end.tolist(), strict=True))
    name = [names.setdefault(text, len(names) - 1) for text in texts]
    is_shared = funcs.kind == LineKind.LONGER
    if is_shared.any():
        name += [names.setdefault(OTHER_NAMES, len(names) - 1)] * int(is_shared.sum())
    # The others follow all functions, so that indices of functions are those of FUNC records.
    func = np.append(np.arange(len(funcs)), np.flatnonzero(is_shared))
    start, size = funcs.values[func, 0], funcs.values[func, 1]
    start = _absolute(start, size, load_address, funcs.line[func], NAMES[Func])
    order = np.argsort(start, kind="stable")
    order = order[size[order] > 0]
    columns = FunctionColumns.defaults(len(func), name=np.array(name, np.int64), offset=funcs.begin[func])
    return columns, FunctionRanges(start[order], size[order], order.astype(np.uint32))


def _absolute(
    start: NDArray[np.uint64], size: NDArray[np.uint64], load_address: int, line: NDArray[np.int64], record: str
) -> NDArray[np.uint64]:
    """The absolute start addresses of ranges. Raises ParseError for one that reaches past the address space."""
    begin = start + np.uint64(load_address)
    wrong = (begin < start) | (begin + (np.maximum(size, np.uint64(1)) - np.uint64(1)) < begin)
    for index in np.flatnonzero(wrong)[:1]:
        reason = "the record reaches past the address space"
        raise ParseError(SOURCE, None, f"line {line[index] + 1}: {record}.size", reason)
    return begin


@dataclass(frozen=True, slots=True, eq=False)
class _Fields:
    """The INLINE lines and their numbers: `count` of each in `values`, from `first`. An even number has a file."""

    lines: _Lines
    values: NDArray[np.uint64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]

    @property
    def has_file(self) -> NDArray[np.bool_]:
        """Which lines have the file of the call site."""
        return np.asarray(self.count % 2 == 0)


def _inline_fields(data: bytes) -> _Fields:
    """The INLINE lines of a file, whose first words may be parsed by the kernel or by the declared record."""
    prefix = first_words()[2]
    lines = _scan(data, prefix, prefix, 0)
    values, count = (
        np.empty(int((lines.end - lines.rest).sum()) + len(lines), np.uint64),
        np.empty(len(lines), np.int64),
    )
    columns = views(np.frombuffer(data, np.uint8), lines.rest, lines.end)
    size = engine.breakpad.symbol_lines.numbers(*columns, INLINE_DECIMALS, *views(values, count))
    first = starts_of(count)[:-1]
    others: list[int] = []
    for index in np.flatnonzero(count == 0).tolist():
        record = _record(data, lines, index)
        assert isinstance(record, Inline)
        file = () if record.call_site_file_num is None else (record.call_site_file_num,)
        found = (record.inline_nest_level, record.call_site_line, *file, record.origin_num)
        first[index], count[index] = size + len(others), len(found) + 2 * len(record.ranges)
        others += [*found, *chain.from_iterable(record.ranges)]
    return _Fields(lines, np.append(values[:size], np.array(others, np.uint64)), first, count)


def _inlines(data: bytes, fields: _Fields, funcs: _Lines, names: dict[bytes, int], found: ReadLines) -> InlineColumns:
    """The inlined functions. New names are added to `names`."""
    lines, first, has_file = fields.lines, fields.first, fields.has_file
    level, call_line, origin = (fields.values[first + at] for at in (0, 1, 2 + has_file))
    _refuse(lines, call_line >= WORD_LIMIT, "call_site_line", "it does not fit 32 bits")
    function = np.searchsorted(funcs.line, lines.line) - 1
    parent = _parents(lines, function, level)
    place = _places(lines, found.number, fields.values[first + 2], has_file, "call_site_file_num", NAMES[File])
    is_known = np.array([*(path != UNKNOWN_FILE for path in found.files), False])[place]
    origin_number, origin_name = _origins(data, names)
    named = _places(lines, origin_number, origin, np.ones(len(lines), np.bool_), "origin_num", NAMES[InlineOrigin])
    return InlineColumns.defaults(
        len(lines),
        offset=lines.begin,
        function=function.astype(np.uint32),
        parent=parent,
        depth=level.astype(np.uint16),
        name=origin_name[named],
        call_file=np.where(is_known, place, -1),
        call_line=call_line.astype(np.uint32),
    )


def _inline_ranges(fields: _Fields, load_address: int) -> InlineRanges:
    """The ranges of the inlined functions."""
    before = 3 + fields.has_file
    count = (fields.count - before) // 2
    at = np.repeat(fields.first + before, count) + 2 * ranks(count)
    inline, start, size = group_numbers(count), fields.values[at], fields.values[at + 1]
    start = _absolute(start, size, load_address, fields.lines.line[inline], NAMES[Inline])
    order = np.lexsort((start, inline))
    order = order[size[order] > 0]
    return InlineRanges(start[order], size[order], inline[order].astype(np.uint32))


def _refuse(lines: _Lines, wrong: NDArray[np.bool_], field: str, reason: str) -> None:
    """Raise ParseError for the first wrong INLINE line."""
    for index in np.flatnonzero(wrong)[:1]:
        raise ParseError(SOURCE, None, f"line {lines.line[index] + 1}: {NAMES[Inline]}.{field}", reason)


def _parents(lines: _Lines, function: NDArray[np.int64], level: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The index of the record that each INLINE record is inside: the last of the level before; -1 for none."""
    _refuse(lines, function < 0, "inline_nest_level", "no FUNC before it")
    is_first = run_starts(function)
    above = np.append(np.uint64(0), level[:-1])[: len(level)]
    wrong = np.where(is_first, level > 0, level > above + np.uint64(1)) | (level >= LEVEL_LIMIT)
    _refuse(lines, wrong, "inline_nest_level", "no INLINE record of the level before it")
    count = np.uint64(len(level))
    index = np.arange(len(level), dtype=np.uint64)
    key = np.sort(level * count + index)
    found = key[np.searchsorted(key, (np.maximum(level, np.uint64(1)) - np.uint64(1)) * count + index) - 1] % count
    return np.where(level > 0, found.astype(np.int64), -1)


def _places(
    lines: _Lines,
    known: NDArray[np.uint64],
    wanted: NDArray[np.uint64],
    matters: NDArray[np.bool_],
    field: str,
    record: str,
) -> NDArray[np.int64]:
    """The place of each number among those known, which ascend; -1 where it does not matter."""
    place = np.searchsorted(known, wanted)
    is_there = place < len(known)
    is_there[is_there] = known[place[is_there]] == wanted[is_there]
    for index in np.flatnonzero(matters & ~is_there)[:1]:
        _refuse(lines, np.arange(len(lines)) == index, field, f"there is no {record} {int(wanted[index])}")
    return np.where(matters, place, -1)


def _origins(data: bytes, names: dict[bytes, int]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The numbers of INLINE_ORIGIN records, ascending, and the index of the name of each; adds names to `names`."""
    prefix = f"{NAMES[InlineOrigin]} ".encode()
    lines = _scan(data, prefix, prefix, 0)
    found: dict[int, int] = {}
    for index in range(len(lines)):
        record = _record(data, lines, index)
        assert isinstance(record, InlineOrigin)
        name = names.setdefault(bytes_from(record.name), len(names) - 1)
        if found.setdefault(record.number, name) != name:
            reason = f"{NAMES[InlineOrigin]} {record.number} has two names"
            raise ParseError(SOURCE, None, f"line {lines.line[index] + 1}: {NAMES[InlineOrigin]}.number", reason)
    numbers = sorted(found)
    return np.array(numbers, np.uint64), np.array([found[number] for number in numbers], np.int64)
