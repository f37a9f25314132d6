"""Line records: which file and line each piece of code is from, without the rows of the whole section in memory.

Strategy: threads run parts of the programs, and rows become records at once: merged where file and line are equal, and
without what is outside the executable sections. Linkers place discarded code at 0 or at the largest addresses, also in
the middle of a sequence, so that each row is judged by its own address.
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
from .headers import LineHeaders, read_line_headers
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


@dataclass(frozen=True, slots=True, eq=False)
class LinePrograms:
    """The line number programs of a file, not yet run: their headers and `files`."""

    headers: LineHeaders
    files: SourceFiles


def line_programs(section: Section, strings: dict[str, Section], units: DebugUnits) -> LinePrograms:
    """Read the headers of a `.debug_line`, whose units are those of the file. Raises ParseError.

    Files that a program defines itself (DW_LNE_define_file, which compilers do not use) are not known."""
    headers = read_line_headers(section)
    base = values_at(units.columns.string_offsets_base, units_of_programs(headers.offset, units), NOTHING)
    table = with_units(table_of_programs(headers, no_programs(), strings, base), units)
    number, paths = paths_of(table)
    first_number = (table.units.version < LISTS_ZERO).astype(np.int64)
    files = SourceFiles(headers.offset, table.first_file, first_number, number, paths)
    return LinePrograms(headers, files)


def line_ranges(programs: LinePrograms, start: U64, end: U64) -> LineRanges:
    """The line records of code in the sections from `start` up to `end`, ascending and disjoint.

    Of sequences for the same code, which units share, the first is used. Where records overlap otherwise, the one that
    starts last wins; of those that start at one address, the first. Line 0 is code that the compiler attributes to no
    line. Rows of an unknown file get no record. Raises ParseError.
    """
    parts = in_threads(lambda part: _records(part, programs, start, end), list(_parts(programs.headers)))
    found = LineRanges.concatenate([one for one, _ in parts]) if parts else LineRanges.empty(0)
    if np.any(found.address[1:] < found.address[:-1] + found.size[:-1]):
        found = _without_copies(found, _Sequences.concatenate([one for _, one in parts]), start, end)
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


@columns
class _Sequences(Columns):
    """The sequences of some programs."""

    start: NDArray[np.uint64] = column_of("address", "of the first row")
    end: NDArray[np.uint64] = column_of("address", "of the last row")
    count: NDArray[np.int64] = column_of("", "of its line records")


def _without_copies(found: LineRanges, sequences: _Sequences, start: U64, end: U64) -> LineRanges:
    """The records without those of a sequence that begins and ends where an earlier one does: code of COMDAT groups, or
    folded code. Each unit has its own lines for it, which would be mixed."""
    # Sequences in which discarded code is first have one start.
    is_code = sequences.start < values_at(end, np.searchsorted(start, sequences.start, side="right") - 1, 0)
    used = np.flatnonzero(is_code & (sequences.count > 0))
    order = used[np.lexsort((sequences.end[used], sequences.start[used]))]
    is_copy = np.zeros(len(sequences), np.bool_)
    is_copy[order[~run_starts(sequences.start[order], sequences.end[order])]] = True
    return found.select(np.repeat(~is_copy, sequences.count))


def _records(part: _Part, programs: LinePrograms, start: U64, end: U64) -> tuple[LineRanges, _Sequences]:
    """The line records of some programs, in the order of their rows, and their sequences."""
    ran = run_programs(part.headers)
    rows = ran.rows
    limit = values_at(end, np.searchsorted(start, rows.address, side="right") - 1, 0)
    is_last = np.zeros(len(rows), np.bool_)
    is_last[ran.first_row[1:] - 1] = True
    stop = np.minimum(np.append(rows.address[1:], rows.address[-1:]), limit)
    kept = np.flatnonzero(~is_last & (stop > rows.address))
    sequence = np.searchsorted(ran.first_row, kept, side="right") - 1
    unit = ran.sequence_unit[sequence].astype(np.int64) + part.first
    path = programs.files.numbers_of(unit, rows.file[kept].astype(np.int64))
    address, stop, line = rows.address[kept], stop[kept], rows.line[kept]
    is_known = path >= 0
    address, stop, line, path = address[is_known], stop[is_known], line[is_known], path[is_known]
    bounds = rows.address[ran.first_row[:-1]], rows.address[ran.first_row[1:] - 1]
    is_new = range_run_starts(address, stop, line, path)
    size = np.minimum(stop[run_ends(is_new)] - address[is_new], np.uint64(WORD_MAX)).astype(np.uint32)
    count = np.bincount(sequence[is_known][is_new], minlength=len(ran.first_row) - 1)
    found = LineRanges(address[is_new], size, line[is_new], path[is_new].astype(np.uint32))
    return found, _Sequences(*bounds, count)
