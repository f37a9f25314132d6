"""Line records: which file and line each piece of code is from, without the rows of the whole section in memory.

Strategy: threads run parts of the programs, and rows become records at once: merged where file and line are equal, and
without what is outside the executable sections. Linkers place discarded code at 0 or at the largest addresses, also in
the middle of a sequence, so that each row is judged by its own address. Files get their paths at the end: these need
the units of `.debug_info`, which takes longest to decompress.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.section import Section
from ..arrays import range_run_starts, run_ends, run_starts, values_at
from ..columns import Columns, column_of, columns
from ..dwarf.units import NOTHING, DebugUnits
from ..kernels.line.protocol import UnitField
from ..threads import in_threads
from .headers import LineHeaders
from .paths import Paths, paths_of
from .read import no_programs, run_programs, table_of_programs
from .table import LISTS_ZERO
from .units import units_of_programs, with_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U64 = NDArray[np.uint64]
    I64 = NDArray[np.int64]

# Bytes of programs that are run at once; one program may be larger.
PART = 1 << 18
WORD_MAX = (1 << 32) - 1


@columns
class LineRanges(Columns):
    """Line records, ascending and disjoint."""

    address: NDArray[np.uint64] = column_of("address")
    size: NDArray[np.uint32] = column_of("bytes")
    line: NDArray[np.uint32] = column_of("line", "from 1; 0 for none")
    path: NDArray[np.uint32] = column_of("index", "of the whole path")


@dataclass(frozen=True, slots=True, eq=False)
class SourceFiles:
    """The files of line number programs: the section `offset` of each program, ascending; its files, in the numbers
    `path` from first[p] on, which are indices in `paths`; and `base`, the number of its first file, 0 or 1."""

    offset: I64
    first: I64
    base: I64
    path: I64
    paths: Paths

    def numbers_of(self, program: I64, file: I64) -> I64:
        """The index in `paths` of some files, as their programs number them; -1 for an unknown file, or program -1."""
        base = values_at(self.base, program, 0)
        place = self.first[program] + file - base
        is_known = (program >= 0) & (file >= base) & (place < self.first[program + 1])
        return np.where(is_known, values_at(self.path, np.where(is_known, place, NOTHING), NOTHING), NOTHING)

    def programs_at(self, line_offset: I64) -> I64:
        """The index of the program at each section offset; -1 for none."""
        place = np.searchsorted(self.offset, line_offset)
        is_known = (line_offset >= 0) & (values_at(self.offset, place, NOTHING) == line_offset)
        return np.where(is_known, place, NOTHING)


_NOTHING = np.zeros(0, np.int64)
NO_FILES = SourceFiles(_NOTHING, np.zeros(1, np.int64), _NOTHING, _NOTHING, Paths.empty())


def source_files(headers: LineHeaders, strings: dict[str, Section], units: DebugUnits) -> SourceFiles:
    """The files of the programs of a `.debug_line`, whose units are those of the file. Raises ParseError.

    Files that a program defines itself (DW_LNE_define_file, which compilers do not use) are not known."""
    base = values_at(units.columns.string_offsets_base, units_of_programs(headers.offset, units), NOTHING)
    table = with_units(table_of_programs(headers, no_programs(), strings, base), units)
    number, paths = paths_of(table)
    first_number = (table.units.version < LISTS_ZERO).astype(np.int64)
    return SourceFiles(headers.offset, table.first_file, first_number, number, paths)


@columns
class _Runs(Columns):
    """Runs of rows with one file and line, in the order of the rows."""

    address: NDArray[np.uint64] = column_of("address")
    end: NDArray[np.uint64] = column_of("address", "after the last byte")
    line: NDArray[np.uint32] = column_of("line")
    file: NDArray[np.uint32] = column_of("", "as the program numbers its files")
    sequence: NDArray[np.uint32] = column_of("index", "in the sequences of the part")


@columns
class _Sequences(Columns):
    """The sequences of some programs."""

    start: NDArray[np.uint64] = column_of("address", "of the first row")
    end: NDArray[np.uint64] = column_of("address", "of the last row")
    program: NDArray[np.int64] = column_of("index")


@dataclass(frozen=True, slots=True)
class RowRuns:
    """The rows of all programs: of each part of the programs its runs of rows and its sequences; and the executable
    sections, from `start` up to `end`."""

    parts: list[tuple[_Runs, _Sequences]]
    start: U64
    end: U64


def run_in_parts(headers: LineHeaders, start: U64, end: U64) -> RowRuns:
    """Run the programs of a section, for code in the sections from `start` up to `end`. Raises ParseError."""
    return RowRuns(in_threads(lambda part: _run(part, start, end), list(_parts(headers))), start, end)


def line_ranges(rows: RowRuns, files: SourceFiles) -> LineRanges:
    """The line records of rows, ascending and disjoint.

    Of sequences for the same code, which units share, the first is used. Where records overlap otherwise, the one that
    starts last wins; of those that start at one address, the first. Line 0 is code that the compiler attributes to no
    line. Rows of an unknown file get no record.
    """
    parts = in_threads(lambda part: _with_paths(*part, files), rows.parts)
    found = LineRanges.concatenate([one for one, _ in parts]) if parts else LineRanges.empty(0)
    if np.any(found.address[1:] < found.address[:-1] + found.size[:-1]):
        sequences = _Sequences.concatenate([one for _, one in rows.parts])
        found = _without_copies(found, sequences, np.concatenate([count for _, count in parts]), rows)
        found = found.select(np.argsort(found.address, kind="stable"))
        found = found.select(run_starts(found.address))
        found.size[:-1] = np.minimum(found.size[:-1], found.address[1:] - found.address[:-1])
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Headers of some programs, from number `first` on."""

    headers: LineHeaders
    first: int


def _parts(headers: LineHeaders) -> Iterator[_Part]:
    """The programs, in parts of about PART bytes."""
    end = headers.field(UnitField.END)
    begin, offset = 0, 0
    while begin < len(headers):
        stop = max(begin + 1, int(np.searchsorted(end, offset + PART, side="right")))
        yield _Part(replace(headers, fields=headers.fields[begin:stop], offset=headers.offset[begin:stop]), begin)
        offset, begin = int(end[stop - 1]), stop


def _without_copies(found: LineRanges, sequences: _Sequences, count: I64, rows: RowRuns) -> LineRanges:
    """The records without those of a sequence that begins and ends where an earlier one does: code of COMDAT groups, or
    folded code. Each unit has its own lines for it, which would be mixed. `count` is that of the records of each."""
    # Sequences in which discarded code is first have one start.
    place = np.searchsorted(rows.start, sequences.start, side="right") - 1
    used = np.flatnonzero((sequences.start < values_at(rows.end, place, 0)) & (count > 0))
    order = used[np.lexsort((sequences.end[used], sequences.start[used]))]
    is_copy = np.zeros(len(sequences), np.bool_)
    is_copy[order[~run_starts(sequences.start[order], sequences.end[order])]] = True
    return found.select(np.repeat(~is_copy, count))


def _run(part: _Part, start: U64, end: U64) -> tuple[_Runs, _Sequences]:
    """The rows of some programs, and their sequences."""
    ran = run_programs(part.headers)
    rows = ran.rows
    limit = values_at(end, np.searchsorted(start, rows.address, side="right") - 1, 0)
    is_last = np.zeros(len(rows), np.bool_)
    is_last[ran.first_row[1:] - 1] = True
    stop = np.minimum(np.append(rows.address[1:], rows.address[-1:]), limit)
    kept = np.flatnonzero(~is_last & (stop > rows.address))
    sequence = (np.searchsorted(ran.first_row, kept, side="right") - 1).astype(np.uint32)
    address, stop, line, file = rows.address[kept], stop[kept], rows.line[kept], rows.file[kept]
    is_new = range_run_starts(address, stop, line, file, sequence)
    found = _Runs(address[is_new], stop[run_ends(is_new)], line[is_new], file[is_new], sequence[is_new])
    bounds = rows.address[ran.first_row[:-1]], rows.address[ran.first_row[1:] - 1]
    return found, _Sequences(*bounds, ran.sequence_unit.astype(np.int64) + part.first)


def _with_paths(runs: _Runs, sequences: _Sequences, files: SourceFiles) -> tuple[LineRanges, I64]:
    """The line records of runs of rows, and how many each sequence has."""
    path = files.numbers_of(sequences.program[runs.sequence], runs.file.astype(np.int64))
    is_known = path >= 0
    if not is_known.all():
        runs, path = runs.select(is_known), path[is_known]
    is_new = range_run_starts(runs.address, runs.end, runs.line, path)
    address = runs.address[is_new]
    size = np.minimum(runs.end[run_ends(is_new)] - address, np.uint64(WORD_MAX)).astype(np.uint32)
    count = np.bincount(runs.sequence[is_new], minlength=len(sequences))
    return LineRanges(address, size, runs.line[is_new], path[is_new].astype(np.uint32)), count
