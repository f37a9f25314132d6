"""Find the line row in force at each of many PCs, and its file, line, column and discriminator.

Strategy: sequences become disjoint, sorted address ranges, which are searched once for all PCs; then the rows of each
PC's sequence are bisected, for all PCs in step.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import group_numbers, last_at_or_before, values_at
from ..table.lookup import NOTHING, addresses, ranges_at
from .read import read_lines
from .table import LineTable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class LineAt:
    """The source position of one address; `file` is empty if the table does not name it."""

    file: bytes
    line: int
    column: int
    discriminator: int


@dataclass(frozen=True, slots=True, eq=False)
class LinesAt:
    """The source position of each PC: `row` i64, the index in the table, -1 if no row is in force; `path` i64, the
    index of the file's path in `paths`, -1 if there is none; `line`, `column` and `discriminator` u32, 0 if no row is
    in force."""

    row: NDArray[np.int64]
    path: NDArray[np.int64]
    line: NDArray[np.uint32]
    column: NDArray[np.uint32]
    discriminator: NDArray[np.uint32]
    paths: tuple[bytes, ...]

    def __len__(self) -> int:
        """The number of PCs."""
        return len(self.row)

    def __getitem__(self, index: int) -> LineAt | None:
        """The source position of one PC; None if no row is in force there."""
        if self.row[index] < 0:
            return None
        path = int(self.path[index])
        values = (int(column[index]) for column in (self.line, self.column, self.discriminator))
        return LineAt(self.paths[path] if path >= 0 else b"", *values)

    def __iter__(self) -> Iterator[LineAt | None]:
        """The source positions, PC by PC."""
        return (self[index] for index in range(len(self)))


def find_lines(source: LineTable | str | os.PathLike[str], pcs: ArrayLike) -> LinesAt:
    """File, line, column and discriminator of each PC, from a line table or the `.debug_line` of an ELF file.

    PCs are absolute addresses of a linked file, in any order. Where sequences overlap, the one that starts first wins;
    of several rows at one address, the last. Raises as `read_lines`.
    """
    table = source if isinstance(source, LineTable) else read_lines(source)
    row = _rows_at(table, addresses(pcs))
    number, paths = paths_of(table)
    path = values_at(number, values_at(table.file_numbers(), row, NOTHING), NOTHING)
    line, column = values_at(table.rows.line, row, 0), values_at(table.rows.column, row, 0)
    return LinesAt(row, path, line, column, values_at(table.rows.discriminator, row, 0), paths)


def _rows_at(table: LineTable, pc: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The index of the row in force at each PC; -1 if there is none."""
    sequence = ranges_at(*sequence_ranges(table), pc)
    found = np.flatnonzero(sequence != NOTHING)
    row = np.full(len(pc), NOTHING, np.int64)
    first, end = table.first_row[:-1][sequence[found]], table.first_row[1:][sequence[found]]
    row[found] = last_at_or_before(table.rows.address, first, end, pc[found])
    return row


def sequence_ranges(table: LineTable) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The start address and the size in bytes of each sequence."""
    start = table.rows.address[table.first_row[:-1]]
    return start, table.rows.address[table.first_row[1:] - 1] - start


def paths_of(table: LineTable) -> tuple[NDArray[np.int64], tuple[bytes, ...]]:
    """The path number of each of the table's files, and the distinct paths, joined with their directories as far as the
    table has them. Up to version 4 the compilation directory is not in the table, so it is not in the path."""
    units, files, directories = table.units, table.files, table.directories
    unit = group_numbers(np.diff(table.first_file))
    first, end = table.first_directory[unit], table.first_directory[unit + 1]
    is_new = units.version[unit] >= 5
    # Directory 0 is the compilation directory, which only version 5 lists.
    index = files.directory_index.astype(np.int64) + first - ~is_new
    has_directory = (index >= first) & (index < end) & (is_new | (files.directory_index > 0))
    directory = np.where(has_directory, index, NOTHING)
    base = np.where(is_new & (end > first) & (directory != first), first, NOTHING)
    known: dict[tuple[int, int, int], int] = {}
    numbers: dict[bytes, int] = {}
    number = np.empty(len(files), np.int64)
    keys = zip(files.path.tolist(), directory.tolist(), base.tolist(), strict=True)
    strings, of_directory = table.strings, directories.path.tolist()
    for file, key in enumerate(keys):
        if key not in known:
            path = strings[key[0]]
            for above in key[1:]:
                path = path if above < 0 else _join_path(strings[of_directory[above]], path)
            known[key] = numbers.setdefault(path, len(numbers))
        number[file] = known[key]
    return number, tuple(numbers)


def _join_path(directory: bytes, path: bytes) -> bytes:
    return path if path[:1] == b"/" or not directory else directory.rstrip(b"/") + b"/" + path
