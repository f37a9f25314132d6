"""Find the line row in force at each of many PCs, and its file, line, column and discriminator.

Strategy: sequences become disjoint, sorted address ranges, which are searched once for all PCs; then the rows of each
PC's sequence are bisected, for all PCs in step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import group_numbers, last_at_or_before, run_starts, values_at
from ..elf.debug_files import BY_LINKS, DebugFiles
from ..elf.inputs import Input
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


def find_lines(source: LineTable | Input, pcs: ArrayLike, debug: DebugFiles = BY_LINKS) -> LinesAt:
    """Whole path, line, column and discriminator of each PC, from a line table or an ELF file (as `read_lines`).

    PCs are absolute addresses of a linked file, in any order. Where sequences overlap, the one that starts first wins;
    of several rows at one address, the last. Raises as `read_lines`.
    """
    table = source if isinstance(source, LineTable) else read_lines(source, debug)
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
    """The whole path of each of the table's files: the number of its path (i64), and the distinct paths.

    A file's path is relative to its directory, and that to the compilation directory, which up to version 4 only
    `.debug_info` has, as it has the table's `comp_dir`. A path stays relative if that is not known, or is relative.
    """
    units, files, directories = table.units, table.files, table.directories
    unit = group_numbers(np.diff(table.first_file))
    first, end = table.first_directory[unit], table.first_directory[unit + 1]
    is_new = units.version[unit] >= 5
    # Up to version 4, directory 0 is the compilation directory, which is not listed.
    index = files.directory_index.astype(np.int64) + first - ~is_new
    has_directory = (index >= first) & (index < end) & (is_new | (files.directory_index > 0))
    text_of = np.append(directories.path.astype(np.int64), NOTHING)
    directory = text_of[np.where(has_directory, index, NOTHING)]
    base = units.comp_dir[unit]
    listed = text_of[np.where(is_new & (end > first), first, NOTHING)]
    base = np.where(base < 0, listed, base)
    base[is_new & has_directory & (index == first)] = NOTHING
    columns = base, directory, files.path.astype(np.int64)
    order = np.lexsort(columns)
    is_new = run_starts(*(column[order] for column in columns))
    kept = np.sort(order[is_new])
    numbers: dict[bytes, int] = {}
    found = np.zeros(len(files), np.int64)
    for file, key in zip(kept.tolist(), zip(*(column[kept].tolist() for column in columns), strict=True), strict=True):
        path = join_path(*(table.strings[one] for one in key if one >= 0))
        found[file] = numbers.setdefault(path, len(numbers))
    found[order] = found[order[is_new]][np.cumsum(is_new) - 1]
    return found, tuple(numbers)


# A path of Windows with a drive, or one of a server.
_WINDOWS = re.compile(rb"[A-Za-z]:[/\\]|\\\\")


def join_path(*pieces: bytes) -> bytes:
    """A path from directories, outermost first, and a file; each may be empty. An absolute one replaces those before
    it."""
    found = b""
    for piece in pieces:
        if not found or piece[:1] == b"/" or _WINDOWS.match(piece):
            found = piece or found
        elif piece:
            found += piece if found[-1:] == b"/" else b"/" + piece
    return found
