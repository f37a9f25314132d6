"""Breakpad's FILE and line records from a line table, and back (Breakpad, docs/symbol_files.md).

Strategy: rows become disjoint address ranges with a line, and ranges become rows. Kernels write and read the numbers,
without an object per record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_address, check_byte_order, check_integers, checked, optional, text_argument
from ...schemas.breakpad.files import build_lines, parse_record
from ...schemas.breakpad.records import File, Func, Line
from ...schemas.data_classes import dataclass
from ...schemas.line import DW_LNCT, STANDARD_OPCODE_LENGTHS, RowFlag
from ...schemas.section import BuildError, ByteOrder, ParseError
from ...schemas.text_records import Number, bytes_from, parts_of, text_from
from ..arrays import group_numbers, range_run_starts, ranges, renumbered, run_ends, starts_of, starts_of_ends, values_at
from ..bulk_text import fill_bytes
from ..kernels import engine, views
from ..line.lookup import sequence_ranges
from ..line.paths import Paths, paths_of
from ..line.table import LineRowColumns, LineTable, LineUnitColumns, PathColumns, contents_bit
from ..strings import Strings
from ..table.lookup import range_owners

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray


SOURCE = "line records"
BASES = tuple(kind.base for _, kind in parts_of(Line) if isinstance(kind, Number))
OMITTED = "<name omitted>"  # dump_syms's name for a function without one
WORD_LIMIT = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class LineRecords:
    """Line records, ascending and disjoint: `address` u64, absolute; `size` u64 in bytes; `line` u32; `filenum` i64, an
    index into the paths `files`.
    """

    address: NDArray[np.uint64]
    size: NDArray[np.uint64]
    line: NDArray[np.uint32]
    filenum: NDArray[np.int64]
    files: Paths

    def __len__(self) -> int:
        """The number of records."""
        return len(self.address)


def line_records(table: LineTable) -> LineRecords:
    """The line records of a linked file's table.

    An address in several sequences belongs to the one that starts first. Rows of a file that the table does not name
    get no record. Line 0 is code without a source line. Adjacent ranges with the same file and line become one record.
    """
    start, size = sequence_ranges(table)
    owner, begin = range_owners(start, size)
    first, count = table.first_row[:-1][owner], np.diff(table.first_row)[owner] - 1
    row = ranges(first, count)
    address = np.maximum(table.rows.address[row], np.repeat(begin, count))
    end = table.rows.address[row + 1]
    number, paths = paths_of(table)
    file = table.file_numbers()[row]
    path = values_at(number, file, -1)
    kept = np.flatnonzero((end > address) & (path >= 0))
    address, end, path, line = address[kept], end[kept], path[kept], table.rows.line[row[kept]]
    is_new = range_run_starts(address, end, path, line)
    address, end, path, line = address[is_new], end[run_ends(is_new)], path[is_new], line[is_new]
    used, filenum = renumbered(path)
    return LineRecords(address, end - address, line, filenum, paths.select(used))


@checked(table=LineTable, start=optional(check_integers), size=optional(check_integers), load_address=check_address)
def to_line_records(
    table: LineTable,
    start: ArrayLike | None = None,
    size: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    load_address: int = 0,
) -> bytes:
    """The FILE, FUNC and line records of a line table. Addresses in the text are relative to `load_address`.

    `start`, `size` and `names` are those of the functions, which must be disjoint; line records are clipped to them.
    Without `start` and `size` each contiguous range of line records is a FUNC without a name. Raises BuildError.
    """
    records = line_records(table)
    if start is None or size is None:
        start, size = _contiguous_ranges(records)
    begin, extent = np.array(start, np.uint64, ndmin=1), np.array(size, np.uint64, ndmin=1)
    order = np.argsort(begin, kind="stable")
    called = [OMITTED] * len(order) if names is None else [names[index] for index in order.tolist()]
    begin, extent = begin[order], extent[order]
    if (begin[1:] < begin[:-1] + extent[:-1]).any():
        raise BuildError(SOURCE, None, "functions", "overlap")
    columns = _clip(records, begin, begin + extent)
    origin = np.uint64(load_address)
    nothing = [0] * len(order)
    functions = build_lines(Func, [False] * len(order), (begin - origin).tolist(), extent.tolist(), nothing, called)
    numbers = list(range(len(records.files)))
    files = build_lines(File, numbers, [text_from(path) for path in records.files.whole(SOURCE)])
    return files + _build_text(functions, begin, columns, origin)


def _contiguous_ranges(records: LineRecords) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Start and size of the ranges that records cover without a gap."""
    end = records.address + records.size
    is_new = range_run_starts(records.address, end)
    start = records.address[is_new]
    return start, end[run_ends(is_new)] - start


def _clip(records: LineRecords, begin: NDArray[np.uint64], end: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Address, size, line and file number of the parts of records inside the given ranges: one row per part."""
    stop = records.address + records.size
    first = np.searchsorted(end, records.address, side="right")
    count = np.maximum(np.searchsorted(begin, stop, side="left") - first, 0)
    record = group_numbers(count)
    function = ranges(first, count)
    address = np.maximum(records.address[record], begin[function])
    size = np.minimum(stop[record], end[function]) - address
    kept = size > 0
    others = (column[record].astype(np.uint64) for column in (records.line, records.filenum))
    found: NDArray[np.uint64] = np.column_stack([address, size, *others])[kept]
    return found


def _build_text(functions: bytes, begin: NDArray[np.uint64], columns: NDArray[np.uint64], origin: np.uint64) -> bytes:
    """The text: each FUNC record, followed by its line records."""
    pool = np.frombuffer(functions, np.uint8)
    ends = starts_of_ends(np.flatnonzero(pool == ord("\n")) + 1)
    before = starts_of_ends(np.searchsorted(begin, columns[:, 0], side="right"))
    places = ends[before]
    values = columns.copy()
    values[:, 0] -= origin
    fixed = views(pool, places, np.array(BASES, np.uint8), np.ascontiguousarray(values))
    size = engine.breakpad.symbol_lines.write(*fixed, *views(np.empty(0, np.uint8)))
    text = fill_bytes(size, lambda out: engine.breakpad.symbol_lines.write(*fixed, *views(out)))
    return text + functions[places[-1] :]


@checked(byte_order=check_byte_order)
def from_line_records(
    text: bytes | str, load_address: int = 0, byte_order: ByteOrder = "little", address_size: int = 8
) -> LineTable:
    """The line table of the FILE and line records of a symbol file; other records are ignored.

    Addresses in the text are relative to `load_address`. One unit of version 5 holds all files; each contiguous range
    is a sequence. Where records overlap, the one that starts first wins. Raises ParseError whose record names the line.
    """
    found = read_line_records(text, load_address, address_size)
    columns = _rows(found.address, found.address + found.size, found.line, found.file)
    return _one_unit(columns, found.files, byte_order, address_size)


@dataclass(frozen=True, slots=True, eq=False)
class ReadLines:
    """The line records of a symbol file, ascending and disjoint, with absolute addresses: `file` is an index in
    `files`, which are those of all FILE records, in the order of their `number`."""

    address: NDArray[np.uint64]
    size: NDArray[np.uint64]
    line: NDArray[np.uint32]
    file: NDArray[np.int64]
    files: list[bytes]
    number: NDArray[np.uint64]


def read_line_records(text: bytes | str, load_address: int = 0, address_size: int = 8) -> ReadLines:
    """As `from_line_records`, as records."""
    data = text_argument(text)
    check_address(load_address, "load_address")
    if address_size not in (4, 8):
        raise ValueError(f"address_size is {address_size}, expected 4 or 8")
    values, number, files = _read(data)
    numbers = np.array(sorted(files), np.uint64)
    place = np.searchsorted(numbers, values[:, 3])
    wrong = np.flatnonzero(values_at(numbers, place, 0) != values[:, 3])
    wrong = wrong if len(numbers) else np.arange(len(values))
    for index in wrong[:1]:
        raise ParseError(SOURCE, None, f"line {number[index]}: filenum", f"there is no FILE {int(values[index, 3])}")
    last = values[:, 0] + np.maximum(values[:, 1], np.uint64(1)) - np.uint64(1)
    # The row that ends a sequence is at the first address after the record, which must also fit the address space.
    top = (1 << 8 * address_size) - 1 - load_address
    for index in np.flatnonzero((last < values[:, 0]) | (last >= top))[:1]:
        raise ParseError(SOURCE, None, f"line {number[index]}: size", "the record reaches past the address space")
    for index in np.flatnonzero(values[:, 2] >= WORD_LIMIT)[:1]:
        raise ParseError(SOURCE, None, f"line {number[index]}: line", f"{int(values[index, 2])} does not fit 32 bits")
    owner, begin = range_owners(values[:, 0], values[:, 1])
    end = values[owner, 0] + values[owner, 1]
    names = [files[one] for one in numbers.tolist()]
    line = values[owner, 2].astype(np.uint32)
    return ReadLines(begin + np.uint64(load_address), end - begin, line, place[owner], names, numbers)


def _read(data: bytes) -> tuple[NDArray[np.uint64], NDArray[np.int64], dict[int, bytes]]:
    """The fields of line records, one row per record; the number of the line of each; and file names by number."""
    capacity = data.count(b"\n") + 1
    values, number = np.zeros((capacity, len(BASES)), np.uint64), np.empty(capacity, np.int64)
    # Start and line number of each line that the declared records must parse: FILE, and unusual spellings.
    others = np.empty((capacity, 2), np.int64)
    prefix = np.frombuffer(b"FILE ", np.uint8)
    fixed = (np.frombuffer(data, np.uint8), prefix, np.array(BASES, np.uint8))
    filled = np.zeros(2, np.int64)
    engine.breakpad.symbol_lines.records(*views(*fixed, values, number, others, filled))
    count, rest = filled.tolist()
    files: dict[int, bytes] = {}
    odd: list[tuple[int, Line]] = []
    for begin, line in others[:rest].tolist():
        end = data.find(b"\n", begin)
        record = parse_record(data[begin : len(data) if end < 0 else end] + b"\n", line)
        if isinstance(record, File):
            if files.setdefault(record.number, bytes_from(record.name)) != bytes_from(record.name):
                raise ParseError(SOURCE, None, f"line {line}: number", f"FILE {record.number} has two names")
        elif isinstance(record, Line):
            odd.append((line, record))
    if odd:
        fields = [(one.address, one.size, one.line, one.filenum) for _, one in odd]
        values = np.concatenate([values[:count], np.array(fields, np.uint64)])
        number = np.concatenate([number[:count], np.array([line for line, _ in odd])])
        count = len(number)
    return values[:count], number[:count], files


def _rows(
    begin: NDArray[np.uint64],
    end: NDArray[np.uint64],
    line: NDArray[np.uint32],
    file: NDArray[np.int64],
) -> tuple[LineRowColumns, NDArray[np.int64]]:
    """The rows of ascending, disjoint ranges, and where each sequence begins: one row per range and one that ends each
    sequence, before a gap.
    """
    is_last = run_ends(range_run_starts(begin, end))
    place = np.arange(len(begin)) + starts_of(is_last)[:-1]
    stops = place[is_last] + 1
    count = len(begin) + int(is_last.sum())
    rows = LineRowColumns.defaults(count)
    rows.address[place], rows.line[place], rows.file[place] = begin, line, file
    rows.flags[place] = RowFlag.IS_STMT
    rows.address[stops], rows.flags[stops] = end[is_last], RowFlag.END_SEQUENCE
    return rows, starts_of_ends(stops + 1)


# What GNU as writes.
LINE_BASE, LINE_RANGE, VERSION = -5, 14, 5


def _one_unit(
    found: tuple[LineRowColumns, NDArray[np.int64]], files: list[bytes], byte_order: ByteOrder, address_size: int
) -> LineTable:
    """A table of one unit with all files, in one directory: the compilation's, whose name is unknown (empty)."""
    rows, first_row = found
    strings, number = Strings.of([b"", *files]).distinct()
    lengths = np.zeros((1, 255), np.uint8)
    lengths[0, : len(STANDARD_OPCODE_LENGTHS)] = STANDARD_OPCODE_LENGTHS

    units = LineUnitColumns.defaults(
        1,
        version=np.array([VERSION], np.uint8),
        address_size=np.array([address_size], np.uint8),
        minimum_instruction_length=np.ones(1, np.uint8),
        maximum_operations=np.ones(1, np.uint8),
        default_is_stmt=np.ones(1, np.uint8),
        line_base=np.array([LINE_BASE], np.int8),
        line_range=np.array([LINE_RANGE], np.uint8),
        opcode_base=np.array([len(STANDARD_OPCODE_LENGTHS) + 1], np.uint8),
        opcode_lengths=lengths,
        directory_contents=np.array([contents_bit(DW_LNCT.path)], np.uint8),
        file_contents=np.array([contents_bit(DW_LNCT.path) | contents_bit(DW_LNCT.directory_index)], np.uint8),
    )
    sequences = np.zeros(len(first_row) - 1, np.uint32)
    return LineTable(
        byte_order=byte_order,
        units=units,
        first_directory=np.array([0, 1]),
        directories=PathColumns.defaults(1),
        first_file=np.array([0, len(files)]),
        files=PathColumns.defaults(len(files), path=number[1:].astype(np.uint32)),
        strings=strings,
        sequence_unit=sequences,
        first_row=first_row,
        rows=rows,
    )
