"""The FILE, FUNC and line records of an ELF file: its line table, with the names of its symbols.

Strategy: a function is from a symbol of the symbol table up to its size, or to the next symbol. Code with lines that no
symbol covers is a function without a name, so that no line is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..arrays import distinct_values, range_run_starts, run_ends
from ..breakpad.demangle import demangle_names
from ..breakpad.line_records import OMITTED, LineRecords, line_records, to_line_records
from ..breakpad.public import printable_names
from ..elf.function_symbols import function_symbols
from ..elf.image import ElfImage
from ..line.table import LineTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U64 = NDArray[np.uint64]


def line_text(image: ElfImage, table: LineTable) -> tuple[bytes, int]:
    """The text of a linked file's line table, relative to the load address, and the number of line records. Raises
    ParseError for a malformed symbol table."""
    records = line_records(table)
    start, size, names = _functions(image)
    has_lines = _overlaps(records, start, size)
    start, size = start[has_lines], size[has_lines]
    names = [name for name, is_used in zip(names, has_lines.tolist(), strict=True) if is_used]
    gap_start, gap_size = _uncovered(records, start, size)
    start, size = np.append(start, gap_start), np.append(size, gap_size)
    text = to_line_records(table, start, size, [*names, *[OMITTED] * len(gap_start)], image.load_address)
    return text, _record_count(records, start, size)


def _functions(image: ElfImage) -> tuple[U64, U64, list[str]]:
    """Start, size and demangled name of the functions of the symbol table, disjoint and ascending."""
    symbols = function_symbols(image)
    kept = symbols.size > 0
    names = [name for name, is_kept in zip(symbols.name, kept.tolist(), strict=True) if is_kept]
    return symbols.address[kept], symbols.size[kept], printable_names(demangle_names(names))


def _overlaps(records: LineRecords, start: U64, size: U64) -> NDArray[np.bool_]:
    """Which of the ranges have a line record."""
    first = np.searchsorted(records.address + records.size, start, side="right")
    return np.append(records.address, np.uint64((1 << 64) - 1))[first] < start + size


def _uncovered(records: LineRecords, start: U64, size: U64) -> tuple[U64, U64]:
    """The ranges with line records outside all functions: start and size."""
    end = records.address + records.size
    is_new = range_run_starts(records.address, end)
    begin, stop = records.address[is_new], end[run_ends(is_new)]
    # Functions, which come first, own their addresses; the rest of each range is what they leave.
    points = distinct_values(np.concatenate([begin, stop, start, start + size]))
    pieces, sizes = points[:-1], np.diff(points)
    inside = _is_inside(pieces, begin, stop) & ~_is_inside(pieces, start, start + size)
    pieces, sizes = pieces[inside], sizes[inside]
    joined = range_run_starts(pieces, pieces + sizes)
    first = pieces[joined]
    return first, (pieces + sizes)[run_ends(joined)] - first


def _is_inside(address: U64, begin: U64, end: U64) -> NDArray[np.bool_]:
    """Which addresses are in one of the ranges, which are disjoint and ascending."""
    place = np.searchsorted(begin, address, side="right") - 1
    return (place >= 0) & (address < np.append(end, np.uint64(0))[place])


def _record_count(records: LineRecords, start: U64, size: U64) -> int:
    """The number of line records after functions have cut them."""
    order = np.argsort(start)
    end = (start + size)[order]
    first = np.searchsorted(end, records.address, side="right")
    last = np.searchsorted(start[order], records.address + records.size, side="left")
    return int(np.maximum(last - first, 0).sum())
