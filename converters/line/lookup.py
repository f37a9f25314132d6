"""Find the line row in force at each of many PCs, and its file, line, column and discriminator.

Strategy: sequences become disjoint, sorted address ranges, which are searched once for all PCs; then the rows of each
PC's sequence are bisected, for all PCs in step. Only the paths of files that are found are numbered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_item, checked
from ...schemas.data_classes import dataclass
from ..arrays import last_at_or_before, renumbered, values_at
from ..elf.debug_files import BY_LINKS, DebugFiles
from ..elf.inputs import Input
from ..table.lookup import NOTHING, addresses, ranges_at
from .paths import Paths, paths_of
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
    paths: Paths

    def __len__(self) -> int:
        """The number of PCs."""
        return len(self.row)

    def __getitem__(self, index: int) -> LineAt | None:
        """The source position of one PC; None if no row is in force there."""
        index = check_item(index, len(self), "index")
        if self.row[index] < 0:
            return None
        path = int(self.path[index])
        values = (int(column[index]) for column in (self.line, self.column, self.discriminator))
        return LineAt(self.paths[path] if path >= 0 else b"", *values)

    def __iter__(self) -> Iterator[LineAt | None]:
        """The source positions, PC by PC."""
        return (self[index] for index in range(len(self)))


@checked(debug=DebugFiles)
def find_lines(source: LineTable | Input, pcs: ArrayLike, debug: DebugFiles = BY_LINKS) -> LinesAt:
    """Whole path, line, column and discriminator of each PC, from a line table or an ELF file (as `read_lines`).

    PCs are absolute addresses of a linked file, in any order. Where sequences overlap, the one that starts first wins;
    of several rows at one address, the last. Raises as `read_lines`.
    """
    table = source if isinstance(source, LineTable) else read_lines(source, debug)
    row = _rows_at(table, addresses(pcs))
    file = np.full(len(row), NOTHING, np.int64)
    file[row >= 0] = table.file_numbers(row[row >= 0])
    used, index = renumbered(file[file >= 0])
    number, paths = paths_of(table, used)
    path = np.full(len(row), NOTHING, np.int64)
    path[file >= 0] = number[index]
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
