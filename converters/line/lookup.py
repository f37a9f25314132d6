"""Lines of addresses: which row of a line table is in force at a PC, and what it says; many PCs at once.

Strategy: sequences become disjoint ranges in order of addresses, searched once for all PCs; then a bisection of each
PC's sequence, all of them in step.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..table.lookup import NOTHING, addresses, range_owners
from .read import read_lines
from .table import LineTable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class LineAt:
    """Where one address comes from; `file` is empty where the table names none."""

    file: bytes
    line: int
    column: int
    discriminator: int


@dataclass(frozen=True, slots=True, eq=False)
class LinesAt:
    """One element a PC: `row` i64, the index in the table, and `path` i64, that of the file's path in `paths`: -1 where
    there is none; `line`, `column` and `discriminator` u32, 0 then."""

    row: NDArray[np.int64]
    path: NDArray[np.int64]
    line: NDArray[np.uint32]
    column: NDArray[np.uint32]
    discriminator: NDArray[np.uint32]
    paths: tuple[bytes, ...]

    def __len__(self) -> int:
        """How many PCs there are."""
        return len(self.row)

    def __getitem__(self, index: int) -> LineAt | None:
        """What is said of one PC; None where nothing is."""
        if self.row[index] < 0:
            return None
        path = int(self.path[index])
        values = (int(column[index]) for column in (self.line, self.column, self.discriminator))
        return LineAt(self.paths[path] if path >= 0 else b"", *values)

    def __iter__(self) -> Iterator[LineAt | None]:
        """As `[]`, PC by PC."""
        return (self[index] for index in range(len(self)))


def lines(source: LineTable | str | os.PathLike[str], pcs: ArrayLike) -> LinesAt:
    """File, line, column and discriminator of each PC, by a line table or the line programs of an ELF file.

    PCs are absolute, in any order, of a linked file. One that several sequences claim belongs to the one that starts
    first; of rows at one address the last counts. Raises as `read_lines`.
    """
    table = source if isinstance(source, LineTable) else read_lines(source)
    row = _rows_at(table, addresses(pcs))
    at = np.maximum(row, 0)
    is_found = row >= 0
    number, paths = paths_of(table)
    file = np.append(table.file_numbers(), NOTHING)[at]
    path = np.where(is_found & (file >= 0), np.append(number, NOTHING)[file], NOTHING)

    def said(column: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return np.where(is_found, np.append(column, np.uint32(0))[at], np.uint32(0))

    rows = table.rows
    return LinesAt(row, path, said(rows.line), said(rows.column), said(rows.discriminator), paths)


def _rows_at(table: LineTable, pc: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The row in force at each PC; -1 where there is none."""
    start, size = sequence_ranges(table)
    owner, begin = range_owners(start, size)
    place = np.searchsorted(begin, pc, side="right") - 1
    sequence = np.append(owner, NOTHING)[place]
    found = np.flatnonzero(sequence >= 0)
    found = found[pc[found] - start[sequence[found]] < size[sequence[found]]]
    row = np.full(len(pc), NOTHING, np.int64)
    low, high = table.first_row[:-1][sequence[found]].copy(), table.first_row[1:][sequence[found]].copy()
    address, wanted = table.rows.address, pc[found]
    while len(open_ones := np.flatnonzero(low < high)):
        middle = (low[open_ones] + high[open_ones]) >> 1
        is_before = address[middle] <= wanted[open_ones]
        low[open_ones[is_before]] = middle[is_before] + 1
        high[open_ones[~is_before]] = middle[~is_before]
    row[found] = low - 1
    return row


def sequence_ranges(table: LineTable) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The start and the bytes of each sequence."""
    start = table.rows.address[table.first_row[:-1]]
    return start, table.rows.address[table.first_row[1:] - 1] - start


def paths_of(table: LineTable) -> tuple[NDArray[np.int64], tuple[bytes, ...]]:
    """For each of the table's files the number of its path, and the different paths: with their directories, as far as
    the table names these. Up to version 4 the compilation's directory is no part of it."""
    units, files, directories = table.units, table.files, table.directories
    unit = np.repeat(np.arange(table.unit_count), np.diff(units.first_file))
    first, behind = units.first_directory[unit], units.first_directory[unit + 1]
    is_new = units.version[unit] >= 5
    # Directory 0 is the compilation's, which only version 5 lists.
    index = files.directory_index.astype(np.int64) + first - ~is_new
    has_directory = (index >= first) & (index < behind) & (is_new | (files.directory_index > 0))
    directory = np.where(has_directory, index, NOTHING)
    base = np.where(is_new & (behind > first) & (directory != first), first, NOTHING)
    known: dict[tuple[int, int, int], int] = {}
    numbers: dict[bytes, int] = {}
    number = np.empty(len(files), np.int64)
    said = zip(files.path.tolist(), directory.tolist(), base.tolist(), strict=True)
    strings, of_directory = table.strings, directories.path.tolist()
    for place, one in enumerate(said):
        if one not in known:
            path = strings[one[0]]
            for above in one[1:]:
                path = path if above < 0 else _joined(strings[of_directory[above]], path)
            known[one] = numbers.setdefault(path, len(numbers))
        number[place] = known[one]
    return number, tuple(numbers)


def _joined(directory: bytes, path: bytes) -> bytes:
    return path if path[:1] == b"/" or not directory else directory.rstrip(b"/") + b"/" + path
