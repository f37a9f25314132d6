"""The line table in another version of DWARF: directories and files as that version lists and numbers them.

Strategy: directory n is the same in all versions, because version 5 lists as number 0 what earlier versions mean by it:
the compilation directory. Files keep their numbers, to which DW_AT_decl_file and macros refer; only number 0, the
primary source file, exists from version 5 on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ...schemas.line import DW_LNCT, VERSIONS
from ...schemas.section import BuildError
from ..arrays import distinct_values, group_numbers, ranks, starts_of, values_at
from ..columns import Columns
from ..strings import NOTHING, Numbered, Strings
from .paths import number_paths, references_of
from .table import (
    LISTS_ZERO,
    OLD_DIRECTORY_CONTENTS,
    OLD_FILE_CONTENTS,
    LineTable,
    PathColumns,
    contents_bit,
    with_strings,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

C = TypeVar("C", bound=Columns)

# The first version with maximum_operations_per_instruction.
HAS_OPERATIONS = 4
UNKNOWN_DIRECTORY = b"."


def in_version(table: LineTable, version: int) -> LineTable:
    """The table with all units of DWARF version `version`, 2 to 5.

    Up to version 4, files have no MD5 sums. To version 5, the compilation directory and the primary source file are
    those of `.debug_info`; without them the directory is "." and the file the first one. Raises BuildError for an
    unknown version, and for a VLIW table in version 2 or 3.
    """
    if version not in VERSIONS:
        raise BuildError(table.source, None, "version", f"{version} is not one of {', '.join(map(str, VERSIONS))}")
    if version < HAS_OPERATIONS:
        for unit in np.flatnonzero(table.units.maximum_operations > 1)[:1]:
            reason = f"{table.units.maximum_operations[unit]} operations cannot be expressed in version {version}"
            raise BuildError(table.source, None, f"unit[{unit}].maximum_operations", reason)
    lists = table.units.version >= LISTS_ZERO
    if version >= LISTS_ZERO:
        table = _with_number_zero(table, np.flatnonzero(~lists))
    else:
        table = _without_number_zero(table, np.flatnonzero(lists))
    units = _copied(table.units)
    units.version[:] = version
    return replace(table, units=units)


def _copied(columns: C) -> C:
    """The same records in arrays of their own."""
    return columns.select(np.arange(len(columns)))


def _without_number_zero(table: LineTable, which: NDArray[np.int64]) -> LineTable:
    """The table in which units `which` do not list number 0."""
    is_changed = np.zeros(table.unit_count, np.bool_)
    is_changed[which] = True
    table = _rows_without_file_zero(table, is_changed)
    directories, first_directory = _drop_first(table.directories, table.first_directory, is_changed)
    files, first_file = _drop_first(table.files, table.first_file, is_changed)
    files.md5[is_changed[group_numbers(np.diff(first_file))]] = 0
    units = _copied(table.units)
    units.directory_contents[which], units.file_contents[which] = OLD_DIRECTORY_CONTENTS, OLD_FILE_CONTENTS
    units.segment_selector_size[which] = 0
    return replace(
        table,
        units=units,
        directories=directories,
        first_directory=first_directory,
        files=files,
        first_file=first_file,
    )


def _rows_without_file_zero(table: LineTable, is_changed: NDArray[np.bool_]) -> LineTable:
    """The table in which no row of the changed units has file 0: it gets the number of an equal file, which is
    appended if there is none."""
    unit_of_row = table.row_units()
    uses_zero = np.flatnonzero(is_changed[unit_of_row] & (table.rows.file == 0))
    needed = distinct_values(unit_of_row[uses_zero])
    needed = needed[np.diff(table.first_file)[needed] > 0]
    number = np.zeros(table.unit_count, np.uint32)
    appended: list[int] = []
    for unit in needed.tolist():
        first, end = table.first_file[unit : unit + 2].tolist()
        is_equal = table.files.path[first + 1 : end] == table.files.path[first]
        is_equal &= table.files.directory_index[first + 1 : end] == table.files.directory_index[first]
        same = np.flatnonzero(is_equal)
        number[unit] = same[0] + 1 if len(same) else end - first
        if not len(same):
            appended.append(unit)
    rows = _copied(table.rows)
    rows.file[uses_zero] = number[unit_of_row[uses_zero]]
    units = np.array(appended, np.int64)
    files = table.files.insert(table.first_file[1:][units], table.files.select(table.first_file[:-1][units]))
    counts = np.diff(table.first_file)
    counts[units] += 1
    return replace(table, rows=rows, files=files, first_file=starts_of(counts))


def _drop_first(
    columns: PathColumns, first: NDArray[np.int64], is_changed: NDArray[np.bool_]
) -> tuple[PathColumns, NDArray[np.int64]]:
    """The entries without the first one of each changed unit."""
    counts = np.diff(first)
    dropped = is_changed[group_numbers(counts)] & (ranks(counts) == 0)
    return columns.select(~dropped), starts_of(counts - (is_changed & (counts > 0)))


def _with_number_zero(table: LineTable, which: NDArray[np.int64]) -> LineTable:
    """The table in which units `which` list number 0."""
    added = Numbered(np.arange(2), Strings.of([UNKNOWN_DIRECTORY, b""]))
    table, (others,) = with_strings(table, added)
    comp_dir = table.units.comp_dir[which]
    comp_dir = np.where(comp_dir < 0, others[0], comp_dir)
    directories = PathColumns.defaults(len(which), path=comp_dir.astype(np.uint32))
    primary = _primary_files(table, which, int(others[1]))
    unit_of_file = group_numbers(np.diff(table.first_file))
    bits = np.full(len(which), contents_bit(DW_LNCT.path) | contents_bit(DW_LNCT.directory_index), np.uint8)
    for content in (DW_LNCT.timestamp, DW_LNCT.size):
        used = distinct_values(unit_of_file[getattr(table.files, content.name) != 0])
        bits[np.isin(which, used)] |= contents_bit(content)
    units = _copied(table.units)
    units.directory_contents[which], units.file_contents[which] = contents_bit(DW_LNCT.path), bits
    one_more = np.zeros(table.unit_count, np.int64)
    one_more[which] = 1
    return replace(
        table,
        units=units,
        directories=table.directories.insert(table.first_directory[:-1][which], directories),
        first_directory=starts_of(np.diff(table.first_directory) + one_more),
        files=table.files.insert(table.first_file[:-1][which], primary),
        first_file=starts_of(np.diff(table.first_file) + one_more),
    )


def _primary_files(table: LineTable, which: NDArray[np.int64], empty: int) -> PathColumns:
    """File 0 of units that do not list one: a copy of the file that DW_AT_name names, or else of the first file; if
    there is no such file, DW_AT_name itself. `empty` is the number of the empty path."""
    name, nowhere = table.units.name[which], np.full(len(which), NOTHING)
    of_files = references_of(table, np.arange(len(table.files)))
    of_units = table.units.comp_dir[which], nowhere, name
    number, _ = number_paths(table, *(np.concatenate(pair) for pair in zip(of_files, of_units, strict=True)))
    whole, wanted = number[: len(table.files)], number[len(table.files) :].tolist()
    chosen = PathColumns.defaults(len(which), path=np.where(name < 0, empty, name).astype(np.uint32))
    has_name = ((name >= 0) & (values_at(table.strings.size, name, 0) > 0)).tolist()
    for index, unit in enumerate(which.tolist()):
        first, end = table.first_file[unit : unit + 2].tolist()
        same = np.flatnonzero(whole[first:end] == wanted[index]) if has_name[index] else np.zeros(0, np.int64)
        if len(same) or (end > first and not has_name[index]):
            copied = first + (int(same[0]) if len(same) else 0)
            chosen.put(slice(index, index + 1), table.files.select(slice(copied, copied + 1)))
    return chosen
