"""Functions of a table as Breakpad's FUNC and INLINE records: disjoint ranges, each with the functions inlined into it.

Strategy: each address gets one function, the one whose range starts first. Ranges of inlined functions are cut to that
(inlines.py). Names are demangled once each. Everything stays in columns; function_text.py writes them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.section import BuildError
from ...schemas.text_records import bytes_from
from ..arrays import group_numbers, range_run_starts, ranges, run_ends, run_starts, values_at
from ..columns import Columns, column_of, columns
from ..debug_info.table import FunctionTable
from ..elf.function_symbols import FunctionSymbols
from ..line.ranges import LineRanges
from ..strings import Strings, concatenate
from ..table.lookup import range_owners
from ..threads import in_background
from .demangle import demangle_names, demangle_strings
from .inlines import InlineRecordColumns, InlineRecordRanges, inline_records
from .line_records import OMITTED
from .name_forms import MANGLED
from .public import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

SOURCE = "function records"
TOP = np.uint64((1 << 64) - 1)
# Bytes of a range, and its share of the inlined function that it is of.
RANGE_SIZE = 64
# What follows a mangled name in a symbol: a version, or the suffixes of clones.
_SUFFIX = re.compile(r"(?:\.(?:cold|part|isra|constprop|lto_priv|llvm)(?:\.\d+)?)*(?:@.*)?$")
# GCC's symbols that name types without a name (`10._anon_4`) cannot be demangled. Rust's legacy names have `..` inside.
_UNNAMED = re.compile(r"(?<!\.)\.(?!\.)")


@columns
class FuncColumns(Columns):
    """FUNC records, ascending and disjoint."""

    address: NDArray[np.uint64] = column_of("address", "absolute")
    size: NDArray[np.uint64] = column_of("bytes", "at least 1")
    m: NDArray[np.uint8] = column_of("", "1 if functions with several names start here")
    function: NDArray[np.int64] = column_of("index", "in the table; -1 for a symbol", fill=-1)
    name: NDArray[np.int64] = column_of("index", "in `FunctionRecords.names`")


@dataclass(frozen=True, slots=True, eq=False)
class FunctionRecords:
    """FUNC records in `functions`, the INLINE records of each in `inlines`, and the distinct `names` of both."""

    functions: FuncColumns
    inlines: InlineRecordColumns
    inline_ranges: InlineRecordRanges
    names: Strings


def function_records(
    table: FunctionTable, lines: LineRanges | None = None, symbols: FunctionSymbols | None = None
) -> FunctionRecords:
    """The FUNC and INLINE records of a table; with `lines` and `symbols` also a FUNC record for each symbol that covers
    line records where the table has no function (code of assemblers), and functions without a linkage name have that of
    their symbol.

    An address in several ranges belongs to the one that starts first, then to the first function. Raises BuildError for
    a table whose inlined functions are not inside their functions.
    """
    if symbols is not None:
        table = _with_symbol_names(table, symbols)
    functions, place = _func_records(table)
    # Names take Python's time, ranges that of NumPy, which releases its lock.
    columns = functions.function, functions.address, functions.size
    with in_background(lambda: inline_records(table, *columns), RANGE_SIZE * len(table.inline_ranges)) as read_inlines:
        number, names = _distinct_names(table.names, [table.functions.name, table.inlines.name])
        inlines, inline_ranges = read_inlines()
    functions = _named(functions, place, table, number)
    inlines = replace(inlines, name=number[inlines.name])
    if lines is not None and symbols is not None and len(lines) and len(symbols.name):
        functions, moved, names = _with_symbols(functions, lines, symbols, names)
        inlines = replace(inlines, function=moved[inlines.function])
    return FunctionRecords(functions, inlines, inline_ranges, names)


def _with_symbol_names(table: FunctionTable, symbols: FunctionSymbols) -> FunctionTable:
    """The table, where functions without a linkage name have the mangled name of the symbol at one of their starts:
    GCC gives none to functions with internal linkage, so lambdas would have the name of `operator()`.

    Where several functions start, or functions have the same code, it is not known whose name it is.
    """
    found = table.ranges
    _, number, count = np.unique(found.start, return_inverse=True, return_counts=True)
    place = np.searchsorted(symbols.address, found.start)
    is_own = (count[number] == 1) & ~values_at(symbols.has_others, place, True)
    is_own &= values_at(symbols.address, place, 0) == found.start
    is_own &= found.function < len(table)
    is_own[is_own] = ~_have_linkage_names(table, table.functions.name[found.function[is_own]])
    names: dict[int, str] = {}
    for function, symbol in zip(found.function[is_own].tolist(), place[is_own].tolist(), strict=True):
        if symbols.name[symbol].startswith(MANGLED):
            text = _SUFFIX.split(symbols.name[symbol], maxsplit=1)[0]
            if not _UNNAMED.search(text):
                names.setdefault(function, text)
    name, last = table.functions.name.copy(), len(table.names)
    if not names or int(name.max()) >= last:
        return table
    name[list(names)] = last + np.arange(len(names))
    texts = concatenate([Strings.of(table.names), Strings.of(map(bytes_from, names.values()))])
    return replace(table, functions=replace(table.functions, name=name), names=texts)


def _have_linkage_names(table: FunctionTable, name: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the names of these indices are mangled."""
    found, start = np.zeros(len(name), np.bool_), tuple(map(bytes_from, MANGLED))
    which = np.flatnonzero((name >= 0) & (name < len(table.names)))
    found[which] = [text.startswith(start) for text in Strings.of(table.names).select(name[which])]
    return found


def _distinct_names(names: Sequence[bytes], used: Iterable[NDArray[np.int64]]) -> tuple[NDArray[np.int64], Strings]:
    """The number of each name in use among the distinct demangled names, and these; the last number is that of
    functions without a name, which have index -1."""
    is_used = np.zeros(len(names) + 1, np.bool_)
    for index in used:
        if len(index) and not (int(index.min()) >= -1 and int(index.max()) < len(names)):
            raise BuildError(SOURCE, None, "name", f"an index is not below {len(names)}, the number of names")
        is_used[index] = True
    chosen = np.flatnonzero(is_used[:-1])
    texts = printable(demangle_strings(Strings.of(names).select(chosen)))
    # What has no name gets the last one.
    place = np.full(int(is_used.sum()), len(texts))
    place[: len(texts)][texts.size > 0] = np.flatnonzero(texts.size > 0)
    distinct, found = concatenate([texts, Strings.of([OMITTED.encode()])]).select(place).distinct()
    number = np.full(len(names) + 1, -1, np.int64)
    number[is_used] = found
    return number, distinct


def _func_records(table: FunctionTable) -> tuple[FuncColumns, NDArray[np.int64]]:
    """The FUNC records of the table's functions, not yet named, and for each the index of its range in the table."""
    found = table.ranges
    if len(found) and int(found.function.max()) >= len(table):
        raise BuildError(SOURCE, None, "ranges", f"one is of none of the {len(table)} functions")
    order = np.lexsort((found.function, found.start))
    start, function = found.start[order], found.function[order].astype(np.int64)
    size = np.minimum(found.size[order], TOP - start)
    owner, begin = range_owners(start, size)
    end = start[owner] + size[owner]
    is_new = range_run_starts(begin, end, function[owner])
    first = owner[is_new]
    begin, end = begin[is_new], end[run_ends(is_new)]
    none = np.zeros(len(first), np.int64)
    return FuncColumns(begin, end - begin, none.astype(np.uint8), function[first], none), order[first]


def _named(
    functions: FuncColumns, place: NDArray[np.int64], table: FunctionTable, number: NDArray[np.int64]
) -> FuncColumns:
    """FUNC records of the ranges at these indices, with the names that have these numbers."""
    found, name = table.ranges, number[table.functions.name]
    order = np.argsort(found.start, kind="stable")
    is_shared = np.zeros(len(found), np.bool_)
    is_shared[order] = _has_several(found.start[order], name[found.function[order]])
    m = (is_shared[place] & (functions.address == found.start[place])).astype(np.uint8)
    return replace(functions, m=m, name=name[functions.function])


def _has_several(start: NDArray[np.uint64], name: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the ascending ranges start where one with another name does."""
    is_new = run_starts(start)
    group = np.cumsum(is_new) - 1
    differs = name != name[is_new][group]
    several = np.zeros(int(is_new.sum()), np.bool_)
    several[group[differs]] = True
    found: NDArray[np.bool_] = several[group]
    return found


def _with_symbols(
    functions: FuncColumns, lines: LineRanges, symbols: FunctionSymbols, names: Strings
) -> tuple[FuncColumns, NDArray[np.int64], Strings]:
    """The FUNC records and those of symbols with line records between them, ascending; the new index of each of the
    former; and the names, which are distinct, with those of the symbols."""
    start, size, symbol = _between(functions, symbols)
    has_lines = _have_lines(start, start + size, lines)
    start, size, symbol = start[has_lines], size[has_lines], symbol[has_lines]
    used, which = np.unique(symbol, return_inverse=True)
    texts = map(bytes_from, demangle_names([symbols.name[index] for index in used.tolist()]))
    together, number = concatenate([names, printable(Strings.of(texts))]).distinct()
    number = number[len(names) :][which]
    m = (symbols.m[symbol] & (start == symbols.address[symbol])).astype(np.uint8)
    none = np.full(len(start), -1, np.int64)
    both = FuncColumns.concatenate([functions, FuncColumns(start, size, m, none, number)])
    order = np.argsort(both.address, kind="stable")
    moved = np.empty(len(order), np.int64)
    moved[order] = np.arange(len(order))
    return both.select(order), moved, together


def _between(
    functions: FuncColumns, symbols: FunctionSymbols
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    """The parts of symbols outside all functions: start, size and the index of the symbol."""
    low = np.append(np.uint64(0), functions.address + functions.size)
    high = np.append(functions.address, TOP)
    end = symbols.address + np.minimum(symbols.size, TOP - symbols.address)
    first = np.searchsorted(high, symbols.address, side="right")
    count = np.maximum(np.searchsorted(low, end, side="left") - first, 0)
    symbol = group_numbers(count)
    gap = ranges(first, count)
    start = np.maximum(low[gap], symbols.address[symbol])
    stop = np.minimum(high[gap], end[symbol])
    kept = stop > start
    return start[kept], (stop - start)[kept], symbol[kept]


def _have_lines(start: NDArray[np.uint64], end: NDArray[np.uint64], lines: LineRanges) -> NDArray[np.bool_]:
    """Which of the ranges have a line record."""
    last = np.searchsorted(lines.address, end, side="left") - 1
    return np.asarray(values_at(lines.address + lines.size, last, 0) > start)
