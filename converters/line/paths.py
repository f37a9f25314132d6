"""Whole paths of the files of a line table: the compilation directory, the file's directory, and its name, joined.

Strategy: a whole path is three references to the table's strings, and is joined when it is asked for: a file may name
one long directory a thousand times. Equal paths get one number, which takes the joined paths, if these are in
proportion to the table; if not, equal references get one number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ...schemas.arguments import check_integers, check_item, check_selection, checked, instance_of, optional
from ...schemas.data_classes import dataclass
from ...schemas.section import BuildError
from ..arrays import group_numbers, starts_of, values_at
from ..distinct import number_distinct
from ..limits import exceeded
from ..strings import NOTHING, Strings, concatenate
from .table import LineTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]
    Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Paths(Sequence[bytes]):
    """Whole paths, each joined when it is asked for: `base`, `directory` and `file` (i64) are indices in `strings`, -1
    for none. `limit` is the most bytes that all of them together may take."""

    strings: Strings
    base: I64
    directory: I64
    file: I64
    limit: int

    @classmethod
    def empty(cls) -> Paths:
        """No paths."""
        nothing = np.zeros(0, np.int64)
        return cls(Strings.of(()), nothing, nothing, nothing, 0)

    def __len__(self) -> int:
        return len(self.file)

    def __repr__(self) -> str:
        return f"<{len(self)} paths>"

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Paths: ...

    def __getitem__(self, index: int | slice) -> bytes | Paths:
        if isinstance(index, slice):
            return self.select(index)
        index = check_item(index, len(self), "index")
        numbers = (int(column[index]) for column in self._columns())
        return join_path(*(self.strings[number] for number in numbers if number >= 0))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def _columns(self) -> tuple[I64, I64, I64]:
        return self.base, self.directory, self.file

    def select(self, which: NDArray[np.integer[Any]] | slice) -> Paths:
        """Some of the paths, given by indices, a mask or a slice."""
        which = check_selection(which, len(self), "which")
        return Paths(self.strings, self.base[which], self.directory[which], self.file[which], self.limit)

    def pieces(self) -> tuple[Strings, I64]:
        """The texts of which the paths are joined, and for each path the numbers of its five texts."""
        texts = concatenate([self.strings, Strings.of([b"", b"/"])])
        empty, separator = len(self.strings), len(self.strings) + 1
        size = np.append(self.strings.size, 0)
        is_absolute, ends = _absolute(self.strings)
        base, directory, file = self._columns()
        is_final = is_absolute[file]
        has_file, has_directory = size[file] > 0, (size[directory] > 0) & ~is_final
        has_base = (size[base] > 0) & ~is_final & ~is_absolute[directory]
        columns = (
            np.where(has_base, base, empty),
            np.where(has_base & (has_directory | has_file) & ~ends[base], separator, empty),
            np.where(has_directory, directory, empty),
            np.where(has_directory & has_file & ~ends[directory], separator, empty),
            np.where(has_file, file, empty),
        )
        return texts, np.stack(columns, axis=1)

    def joined(self) -> Strings | None:
        """All paths, joined; None if they take more than `limit` bytes."""
        texts, pieces = self.pieces()
        size = texts.size[pieces].sum(axis=1)
        if int(size.sum()) > self.limit:
            return None
        return Strings.within(np.frombuffer(texts.join(pieces.reshape(-1)), np.uint8), starts_of(size)[:-1], size)

    def whole(self, source: str) -> Strings:
        """All paths, joined, to be written to `source`. Raises BuildError if they take more than `limit` bytes."""
        instance_of(str)(source, "source")
        found = self.joined()
        if found is None:
            reason = f"the whole paths take more than {self.limit} bytes, which is out of proportion to the line table"
            raise BuildError(source, None, "files", exceeded(reason))
        return found


@checked(table=LineTable, files=optional(check_integers))
def paths_of(table: LineTable, files: I64 | None = None) -> tuple[I64, Paths]:
    """The whole path of each of the table's files, or of those of these indices: the number of its path (i64), and the
    distinct paths.

    A file's path is relative to its directory, and that to the compilation directory, which up to version 4 only
    `.debug_info` has, as it has the table's `comp_dir`. A path stays relative if that is not known, or is relative.
    """
    which = np.arange(len(table.files)) if files is None else files
    return number_paths(table, *references_of(table, which))


def references_of(table: LineTable, which: I64) -> tuple[I64, I64, I64]:
    """The compilation directory, directory and name of files `which`, as indices in the table's strings; -1 for
    none."""
    units, directories, files = table.units, table.directories, table.files.select(which)
    unit = group_numbers(np.diff(table.first_file))[which]
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
    return base, directory, files.path.astype(np.int64)


def number_paths(table: LineTable, base: I64, directory: I64, file: I64) -> tuple[I64, Paths]:
    """Number the whole paths of these references to the table's strings. Returns also the distinct paths."""
    limit = table.strings.limit(len(table.files))
    number, first = number_distinct(base, directory, file)
    paths = Paths(table.strings, base[first], directory[first], file[first], limit)
    joined = paths.joined()
    if joined is None:
        return number, paths
    of_path = joined.distinct()[1]
    kept = np.unique(of_path, return_index=True)[1]
    return values_at(of_path, number, NOTHING), paths.select(kept)


def _absolute(strings: Strings) -> tuple[Bools, Bools]:
    """Which of the strings are absolute paths, and which end with a separator; and that index -1 is neither."""
    found = np.zeros((2, len(strings) + 1), np.bool_)
    one = strings if len(strings.buffers) == 1 else strings.compact()
    data = np.append(one.buffers[0], np.zeros(3, np.uint8))
    first, second, third = (
        np.where(one.size > place, data[one.start + np.minimum(place, one.size)], 0) for place in range(3)
    )
    has_drive = ((first | 0x20) >= ord("a")) & ((first | 0x20) <= ord("z")) & (second == ord(":"))
    has_drive &= (third == ord("/")) | (third == ord("\\"))
    found[0, :-1] = (first == ord("/")) | has_drive | ((first == ord("\\")) & (second == ord("\\")))
    found[1, :-1] = (one.size > 0) & (data[one.start + np.maximum(one.size, 1) - 1] == ord("/"))
    return found[0], found[1]


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
