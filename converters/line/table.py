"""The line table: the rows of the line number programs, by sequence, and the directories and files they refer to.

Strategy: everything is columns (NumPy), as in the unwind table. A *unit* is one contribution to `.debug_line`, with one
header; a *sequence* is a run of rows with ascending addresses, whose last row only marks the end. A path is an index
into `LineTable.strings`. `LineRow` and `LineFile` are an object view of single rows and files, for reading, tests and
messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...schemas.line import DW_LNCT, RowFlag
from ...schemas.section import ByteOrder

if TYPE_CHECKING:
    from numpy.typing import NDArray

C = TypeVar("C")


@dataclass(frozen=True, slots=True, eq=False)
class LineUnitColumns:
    """The header fields of each unit.

    `offset` i64, the section offset of the unit, for messages; `version` u8; `is_64` bool, 64-bit DWARF; `address_size`
    u8, the file's up to version 4; `segment_selector_size` u8; `minimum_instruction_length`, `maximum_operations` (1 up
    to version 3), `default_is_stmt` u8; `line_base` i8; `line_range`, `opcode_base` u8; `opcode_lengths` u8, the
    standard_opcode_lengths in a row of 255, of which the first opcode_base - 1 are used; `directory_contents` and
    `file_contents` u8, with bit n set if the entries have content type n (`DW_LNCT`); `first_directory` and
    `first_file` i64, the index of the unit's first directory and file, with one more element than there are units.
    """

    offset: NDArray[np.int64]
    version: NDArray[np.uint8]
    is_64: NDArray[np.bool_]
    address_size: NDArray[np.uint8]
    segment_selector_size: NDArray[np.uint8]
    minimum_instruction_length: NDArray[np.uint8]
    maximum_operations: NDArray[np.uint8]
    default_is_stmt: NDArray[np.uint8]
    line_base: NDArray[np.int8]
    line_range: NDArray[np.uint8]
    opcode_base: NDArray[np.uint8]
    opcode_lengths: NDArray[np.uint8]
    directory_contents: NDArray[np.uint8]
    file_contents: NDArray[np.uint8]
    first_directory: NDArray[np.int64]
    first_file: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PathColumns:
    """The directories, or the files, of all units; a value that an entry does not have is 0.

    `path` u32, the index in `LineTable.strings`; `directory_index`, `timestamp`, `size` (bytes) u64; `md5` u8, a row
    of 16.
    """

    path: NDArray[np.uint32]
    directory_index: NDArray[np.uint64]
    timestamp: NDArray[np.uint64]
    size: NDArray[np.uint64]
    md5: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.path)


@dataclass(frozen=True, slots=True, eq=False)
class LineRowColumns:
    """The registers of the state machine, by row (DWARF5 6.2.2).

    `address` u64; `op_index` u8; `file`, `line`, `column`, `isa`, `discriminator` u32; `flags` u8, `RowFlag`. In the
    row that ends a sequence only the address is meaningful.
    """

    address: NDArray[np.uint64]
    op_index: NDArray[np.uint8]
    file: NDArray[np.uint32]
    line: NDArray[np.uint32]
    column: NDArray[np.uint32]
    isa: NDArray[np.uint32]
    discriminator: NDArray[np.uint32]
    flags: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True, slots=True)
class LineRow:
    """One row."""

    address: int
    op_index: int
    file: int
    line: int
    column: int
    isa: int
    discriminator: int
    flags: RowFlag


@dataclass(frozen=True, slots=True)
class LineFile:
    """One directory or file."""

    path: bytes
    directory_index: int
    timestamp: int
    size: int
    md5: bytes


@dataclass(frozen=True, slots=True, eq=False)
class LineTable:
    """All line information of a file.

    Sequence s belongs to unit sequence_unit[s] (u32) and has the rows first_row[s] up to first_row[s + 1] (i64).
    Sequences are in section order, not sorted by address. `strings` are the distinct paths; `source` is the section's
    name, for messages.
    """

    byte_order: ByteOrder
    units: LineUnitColumns
    directories: PathColumns
    files: PathColumns
    strings: tuple[bytes, ...]
    sequence_unit: NDArray[np.uint32]
    first_row: NDArray[np.int64]
    rows: LineRowColumns
    source: str = ".debug_line"

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def unit_count(self) -> int:
        """The number of units."""
        return len(self.units.version)

    def row(self, number: int) -> LineRow:
        """One row."""
        values = _element(self.rows, number)
        return LineRow(**values | {"flags": RowFlag(values["flags"])})

    def sequence(self, number: int) -> Iterator[LineRow]:
        """The rows of a sequence."""
        return map(self.row, range(int(self.first_row[number]), int(self.first_row[number + 1])))

    def directories_of(self, unit: int) -> tuple[LineFile, ...]:
        """The directories of a unit; directory_index numbers them from 0 (version 5) or 1."""
        first = self.units.first_directory
        return self._paths(self.directories, int(first[unit]), int(first[unit + 1]))

    def files_of(self, unit: int) -> tuple[LineFile, ...]:
        """The files of a unit; the file register numbers them from 0 (version 5) or 1."""
        first = self.units.first_file
        return self._paths(self.files, int(first[unit]), int(first[unit + 1]))

    def _paths(self, columns: PathColumns, begin: int, end: int) -> tuple[LineFile, ...]:
        """Directories or files `begin` to `end`."""
        return tuple(
            LineFile(**_element(columns, number) | {
                "path": self.strings[columns.path[number]], "md5": columns.md5[number].tobytes()
            })
            for number in range(begin, end)
        )  # fmt: skip

    def row_units(self) -> NDArray[np.int64]:
        """The unit of each row."""
        return np.repeat(self.sequence_unit.astype(np.int64), np.diff(self.first_row))

    def file_numbers(self) -> NDArray[np.int64]:
        """The index in `files` of each row's file; -1 if its unit has no file of that number."""
        unit = self.row_units()
        first, end = self.units.first_file[unit], self.units.first_file[unit + 1]
        number = first + self.rows.file - (self.units.version[unit] < 5)
        return np.where((number >= first) & (number < end), number, -1)


def _element(columns: Any, number: int) -> dict[str, Any]:
    """One element of each column; a row of bytes as a list."""
    return {field.name: getattr(columns, field.name)[number].tolist() for field in fields(columns)}


def contents_bit(content: DW_LNCT) -> int:
    """The bit of a content type in `directory_contents` and `file_contents`."""
    return 1 << content


# The content types of entries up to version 4.
OLD_DIRECTORY_CONTENTS = contents_bit(DW_LNCT.path)
OLD_FILE_CONTENTS = sum(
    contents_bit(content) for content in (DW_LNCT.path, DW_LNCT.directory_index, DW_LNCT.timestamp, DW_LNCT.size)
)


def same_lines(one: LineTable, other: LineTable) -> bool:
    """Whether two tables are equal, apart from the section offsets of units and the numbering of paths."""
    pairs: list[tuple[Any, Any]] = [
        (one.byte_order, other.byte_order),
        (one.sequence_unit, other.sequence_unit),
        (one.first_row, other.first_row),
        *_pairs(one.rows, other.rows),
        *_pairs(one.units, other.units, without="offset"),
    ]
    for mine, theirs in ((one.directories, other.directories), (one.files, other.files)):
        pairs += _pairs(mine, theirs, without="path")
        pairs.append(([one.strings[path] for path in mine.path], [other.strings[path] for path in theirs.path]))
    return all(np.array_equal(*pair) if isinstance(pair[0], np.ndarray) else pair[0] == pair[1] for pair in pairs)


def _pairs(one: Any, other: Any, without: str = "") -> list[tuple[Any, Any]]:
    """The columns of both, pair by pair, but for one name."""
    names = [field.name for field in fields(one) if field.name != without]
    return [(getattr(one, name), getattr(other, name)) for name in names]
