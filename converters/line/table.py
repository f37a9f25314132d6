"""The line table: the rows of the line number programs, by sequence, and the directories and files they refer to.

Strategy: everything is columns (NumPy), as in the unwind table. A *unit* is one contribution to `.debug_line`, with one
header; a *sequence* is a run of rows with ascending addresses, whose last row only marks the end. A path is an index
into `LineTable.strings`. `LineRow` and `LineFile` are an object view of single rows and files, for reading, tests and
messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.arguments import check_index, check_indices, checked
from ...schemas.data_classes import dataclass
from ...schemas.line import DW_LNCT, RowFlag
from ...schemas.section import ByteOrder
from ..arrays import values_at
from ..columns import Columns, column_of, columns
from ..strings import NOTHING, Numbered, Strings, number_together

if TYPE_CHECKING:
    from numpy.typing import NDArray


@columns
class LineUnitColumns(Columns):
    """The header fields of each unit."""

    offset: NDArray[np.int64] = column_of("section offset", "of the unit, for messages")
    version: NDArray[np.uint8] = column_of()
    is_64: NDArray[np.bool_] = column_of(meaning="whether it is 64-bit DWARF")
    address_size: NDArray[np.uint8] = column_of("bytes", "the file's up to version 4")
    segment_selector_size: NDArray[np.uint8] = column_of("bytes")
    minimum_instruction_length: NDArray[np.uint8] = column_of("bytes")
    maximum_operations: NDArray[np.uint8] = column_of("operations", "per instruction, 1 up to version 3")
    default_is_stmt: NDArray[np.uint8] = column_of("0 or 1")
    line_base: NDArray[np.int8] = column_of("lines")
    line_range: NDArray[np.uint8] = column_of("lines")
    opcode_base: NDArray[np.uint8] = column_of("opcode", "the first special one")
    opcode_lengths: NDArray[np.uint8] = column_of(
        "operands", "the standard_opcode_lengths, of which the first opcode_base - 1 are used", items=255
    )
    directory_contents: NDArray[np.uint8] = column_of("bits", "bit n: directories have content type n (`DW_LNCT`)")
    file_contents: NDArray[np.uint8] = column_of("bits", "bit n: files have content type n (`DW_LNCT`)")
    comp_dir: NDArray[np.int64] = column_of(
        "index", "in `LineTable.strings`, of the unit's DW_AT_comp_dir; -1 if it is unknown", fill=-1
    )
    name: NDArray[np.int64] = column_of(
        "index", "in `LineTable.strings`, of the unit's DW_AT_name; -1 if it is unknown", fill=-1
    )


# The first version that lists the compilation directory and the primary source file, as number 0.
LISTS_ZERO = 5
# What only `.debug_info` has.
OF_DEBUG_INFO = ("comp_dir", "name")


@columns
class PathColumns(Columns):
    """The directories, or the files, of all units; a value that an entry does not have is 0."""

    path: NDArray[np.uint32] = column_of("index", "in `LineTable.strings`")
    directory_index: NDArray[np.uint64] = column_of("index", "of the directory, as its unit numbers them")
    timestamp: NDArray[np.uint64] = column_of()
    size: NDArray[np.uint64] = column_of("bytes")
    md5: NDArray[np.uint8] = column_of("bytes", items=16)


@columns
class LineRowColumns(Columns):
    """The registers of the state machine in each row (DWARF5 6.2.2). In the last row of a sequence only the address
    and the flags are meaningful."""

    address: NDArray[np.uint64] = column_of("address")
    op_index: NDArray[np.uint8] = column_of("index", "of the operation in a VLIW instruction")
    file: NDArray[np.uint32] = column_of("index", "of the file, as its unit numbers them")
    line: NDArray[np.uint32] = column_of("line", "from 1; 0 for none")
    column: NDArray[np.uint32] = column_of("column", "from 1; 0 for the start of the line")
    isa: NDArray[np.uint32] = column_of("instruction set")
    discriminator: NDArray[np.uint32] = column_of()
    flags: NDArray[np.uint8] = column_of(RowFlag)


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

    Unit u has the directories first_directory[u] up to first_directory[u + 1] (i64), and its files likewise.
    Sequence s belongs to unit sequence_unit[s] (u32) and has the rows first_row[s] up to first_row[s + 1] (i64).
    Sequences are in section order, not sorted by address. `strings` are the distinct paths, made from any sequence of
    bytes; `source` is the section's name, for messages.
    """

    byte_order: ByteOrder
    units: LineUnitColumns
    first_directory: NDArray[np.int64]
    directories: PathColumns
    first_file: NDArray[np.int64]
    files: PathColumns
    strings: Strings
    sequence_unit: NDArray[np.uint32]
    first_row: NDArray[np.int64]
    rows: LineRowColumns
    source: str = ".debug_line"

    def __post_init__(self) -> None:
        object.__setattr__(self, "strings", Strings.of(self.strings))

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def unit_count(self) -> int:
        """The number of units."""
        return len(self.units)

    def row(self, number: int) -> LineRow:
        """One row."""
        values = self.rows.record(check_index(number, len(self), "number"))
        return LineRow(**values | {"flags": RowFlag(values["flags"])})

    def sequence(self, number: int) -> Iterator[LineRow]:
        """The rows of a sequence."""
        check_index(number, len(self.first_row) - 1, "number")
        return map(self.row, range(int(self.first_row[number]), int(self.first_row[number + 1])))

    def comp_dir_of(self, unit: int) -> bytes:
        """The compilation directory of a unit (DW_AT_comp_dir); empty if it is unknown."""
        return self._text(int(self.units.comp_dir[self._checked(unit)]))

    def name_of(self, unit: int) -> bytes:
        """The primary source file of a unit (DW_AT_name); empty if it is unknown."""
        return self._text(int(self.units.name[self._checked(unit)]))

    def _checked(self, unit: int) -> int:
        return check_index(unit, self.unit_count, "unit")

    def _text(self, number: int) -> bytes:
        return self.strings[number] if number >= 0 else b""

    def directories_of(self, unit: int) -> tuple[LineFile, ...]:
        """The directories of a unit; directory_index numbers them from 0 (version 5) or 1."""
        first = self.first_directory[self._checked(unit) :]
        return self._paths(self.directories, int(first[0]), int(first[1]))

    def files_of(self, unit: int) -> tuple[LineFile, ...]:
        """The files of a unit; the file register numbers them from 0 (version 5) or 1."""
        first = self.first_file[self._checked(unit) :]
        return self._paths(self.files, int(first[0]), int(first[1]))

    def _paths(self, columns: PathColumns, begin: int, end: int) -> tuple[LineFile, ...]:
        """Directories or files `begin` to `end`."""
        return tuple(
            LineFile(**columns.record(number) | {
                "path": self.strings[columns.path[number]], "md5": columns.md5[number].tobytes()
            })
            for number in range(begin, end)
        )  # fmt: skip

    def row_units(self) -> NDArray[np.int64]:
        """The unit of each row."""
        return np.repeat(self.sequence_unit.astype(np.int64), np.diff(self.first_row))

    def file_numbers(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The index in `files` of each row's file, or of those of `rows`; -1 if its unit has no file of that number."""
        if rows is None:
            unit, file = self.row_units(), self.rows.file
        else:
            rows = check_indices(rows, len(self), "rows")
            sequence = np.searchsorted(self.first_row, rows, side="right") - 1
            unit, file = self.sequence_unit[sequence].astype(np.int64), self.rows.file[rows]
        first, end = self.first_file[unit], self.first_file[unit + 1]
        number = first + file - (self.units.version[unit] < 5)
        return np.where((number >= first) & (number < end), number, -1)


def with_strings(table: LineTable, *values: Numbered) -> tuple[LineTable, list[NDArray[np.int64]]]:
    """The table with the strings of some values, and the numbers of these values. Equal strings have one number."""
    own = Numbered(np.arange(len(table.strings)), table.strings)
    strings, (number, *numbers) = number_together(own, *(one.used() for one in values))
    comp_dir, name = (values_at(number, one, NOTHING) for one in (table.units.comp_dir, table.units.name))
    directories, files = (
        replace(columns, path=number[columns.path].astype(np.uint32)) for columns in (table.directories, table.files)
    )
    found = replace(
        table,
        units=replace(table.units, comp_dir=comp_dir, name=name),
        directories=directories,
        files=files,
        strings=strings.compact(),
    )
    return found, numbers


def contents_bit(content: DW_LNCT) -> int:
    """The bit of a content type in `directory_contents` and `file_contents`."""
    return 1 << content


# The content types of entries up to version 4.
OLD_DIRECTORY_CONTENTS = contents_bit(DW_LNCT.path)
OLD_FILE_CONTENTS = sum(
    contents_bit(content) for content in (DW_LNCT.path, DW_LNCT.directory_index, DW_LNCT.timestamp, DW_LNCT.size)
)


@checked(one=LineTable, other=LineTable)
def same_lines(one: LineTable, other: LineTable) -> bool:
    """Whether two tables are equal, apart from the section offsets of units, the numbering of paths, and what
    `.debug_info` has of a unit."""
    pairs: list[tuple[Any, Any]] = [
        (one.byte_order, other.byte_order),
        (one.sequence_unit, other.sequence_unit),
        (one.first_row, other.first_row),
        (one.first_directory, other.first_directory),
        (one.first_file, other.first_file),
        *_pairs(one.rows, other.rows),
        *_pairs(one.units, other.units, without=("offset", *OF_DEBUG_INFO)),
    ]
    for mine, theirs in ((one.directories, other.directories), (one.files, other.files)):
        pairs += _pairs(mine, theirs, without=("path",))
        pairs.append((one.strings.select(mine.path), other.strings.select(theirs.path)))
    return all(np.array_equal(*pair) if isinstance(pair[0], np.ndarray) else pair[0] == pair[1] for pair in pairs)


def _pairs(one: Columns, other: Columns, without: tuple[str, ...] = ()) -> list[tuple[Any, Any]]:
    """The columns of both, pair by pair, but for some names."""
    pairs = zip(one.declared, one.arrays(), other.arrays(), strict=True)
    return [(mine, theirs) for column, mine, theirs in pairs if column.name not in without]
