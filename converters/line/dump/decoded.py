"""`.debug_line` as in GNU readelf 2.47 with `--debug-dump=decodedline`: row by row, under file headings.

Strategy: rows are printed as the instructions emit them, like readelf does, from templates that a kernel fills. File
names are words of the templates: those of a chunk's rows, and the headings where a unit begins or the file changes.
Rows with one file come in runs; a run's word is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.data_classes import dataclass
from ....schemas.line import DW_LNCT, LineEffect
from ...bulk_text import Templates
from ...kernels.line.protocol import Event, UnitField
from ...strings import PART, Strings, parts_of
from .decode import EFFECTS, ENDING, HEADING, Events, LineDump, defined_in, events_of
from .raw import unknown_standard

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS = (LineEffect.SPECIAL, LineEffect.COPY, LineEffect.END_SEQUENCE)
_ROW = "{word:w}  {line:11d}  {address:#18x}INDEXVIEWSTMT\n"
_TEXTS = {
    HEADING: "{word:w}",
    ENDING: "\n",
    LineEffect.NOTHING: "{word:w}",
    LineEffect.SPECIAL: _ROW,
    LineEffect.COPY: _ROW,
    LineEffect.END_SEQUENCE: "{word:w}            -  {address:#18x}INDEX\n\n",
    LineEffect.SET_FILE: "{word:w}",
    LineEffect.SET_ISA: "  Set ISA to {operand}\n",
}
# A template for each effect, with and without op_index, view number and is_stmt.
_TEMPLATES = [
    _TEXTS.get(effect, "").replace("INDEX", index).replace("VIEW", view).replace("STMT", stmt)
    for effect in EFFECTS
    for index in ("", "[{op_index}]")
    for view in ("        ", "  {view:6}")
    for stmt in ("", "       x")
]
_HEADING = b"File name                        Line number    Starting address    View    Stmt\n"
# A longer name loses its beginning; a shorter one is padded.
_LONGEST, _COLUMN = 35, 31
# DW_LNE_HP_set_sequence, an opcode that readelf skips silently.
_SILENT = 0x16


# A path: one of some strings, which is copied when it is written; None for a file without one.
_Path = tuple[Sequence[bytes], int]


@dataclass(slots=True)
class _Files:
    """The directories and files of a unit, whose version decides if numbers start at 0 or 1; programs append files.

    `directories` and `paths` are numbers of `texts`, and `directory_index` belongs to `paths`."""

    version: int
    texts: Sequence[bytes]
    directories: NDArray[np.uint32]
    paths: NDArray[np.uint32]
    directory_index: NDArray[np.uint64]
    has_path: bool
    defined: list[tuple[_Path, int]]

    def _file(self, index: int) -> tuple[_Path | None, int] | None:
        """The path of a file and its directory; None if there is no such file."""
        if 0 <= index < len(self.paths):
            path = (self.texts, int(self.paths[index])) if self.has_path else None
            return path, int(self.directory_index[index])
        rest = index - len(self.paths)
        return self.defined[rest] if 0 <= rest < len(self.defined) else None

    def _directory(self, index: int) -> _Path:
        return self.texts, int(self.directories[index])

    def _is_empty(self) -> bool:
        return not len(self.paths) and not self.defined

    def name(self, number: int) -> bytes:
        """The name of a row's file, cut or padded for its column."""
        file = self._file(number - (self.version < 5))
        name = b"<unknown>"
        if file is None and not self._is_empty():
            name = b"<corrupt>"
        elif file is not None and file[0] is not None:
            name = _text(file[0], _LONGEST)
        return name[-_LONGEST:].ljust(_COLUMN)

    def heading_size(self, number: int) -> int:
        """The size in bytes of the paths in a heading, as far as they count."""
        file = self._file(number - (self.version < 5))
        if file is None:
            return 0
        path, directory = file[0], file[1] - (self.version < 5)
        paths = [path] if path is not None else []
        paths += [self._directory(directory)] if 0 <= directory < len(self.directories) else []
        return sum(_size(*path) for path in paths)

    def heading(self, number: int) -> bytes:
        """The heading above the rows of a file that the program sets."""
        index = number - (self.version < 5)
        if self._is_empty():
            return f"\n [Use file table entry {index}]\n".encode()
        file = self._file(index)
        if file is None:
            return f"\n <over large file table index {index % (1 << 32)}>".encode()
        name, directory = _text(file[0]), file[1]
        if directory == 0 and self.version < 5:
            return b"\n./" + name + b":[++]\n"
        if not len(self.directories):
            return b"\n [Use file " + name + f" in directory table entry {directory}]\n".encode()
        directory -= self.version < 5
        if directory >= len(self.directories):
            return f"\n <over large directory table entry {directory}>\n".encode()
        return b"\n" + _text(self._directory(directory)) + b"/" + name + b":\n"

    def first_size(self) -> int:
        """The size in bytes of the path in the first lines."""
        file = self._file(0)
        return _size(*file[0]) if file and file[0] else 0

    def first_lines(self) -> bytes:
        """The first lines of a unit."""
        file = self._file(0)
        if file is None:
            return b"CU: No directory table\nCU: Empty file name table\n"
        return (b"" if len(self.directories) else b"CU: ") + _text(file[0]) + b":\n" + _HEADING


def _text(path: _Path | None, most: int | None = None) -> bytes:
    """A path, or the end of a longer one, of a limited size."""
    if path is None:
        return b"unknown"
    texts, number = path
    if most is not None and isinstance(texts, Strings):
        return texts.last(number, most)
    return texts[number]


def _size(texts: Sequence[bytes], number: int) -> int:
    return int(texts.size[number]) if isinstance(texts, Strings) else len(texts[number])


def decoded_line_text(dump: LineDump) -> Iterator[bytes]:
    """The text, in chunks. Raises ParseError."""
    yield f"Contents of the {dump.section.listed_name} section:\n\n".encode(errors="surrogateescape")
    templates = Templates(Event, _TEMPLATES)
    units = _Units(dump)
    is_vliw = dump.is_vliw()
    for events in events_of(dump.headers, range(len(dump.headers))):
        for part in units.parts(events):
            words = units.words(part, templates.first_word)
            has_view, is_stmt = (part.value(event) > 0 for event in (Event.VIEW, Event.IS_STMT))
            template = 8 * part.effect.astype(np.int64) + 4 * is_vliw[part.unit] + 2 * has_view + is_stmt
            yield templates.fill(template, part.values, words)


# Instructions, the number of each one's text, and these texts.
_Words = tuple["NDArray[np.int64]", "NDArray[np.int64]", list[bytes]]


class _Units:
    """The files of the units of a chunk; programs append some."""

    def __init__(self, dump: LineDump) -> None:
        self._dump = dump
        self._longest = dump.longest
        self._files: dict[int, _Files] = {}

    def parts(self, events: Events) -> Iterator[Events]:
        """The instructions in parts whose headings have a bounded size; appends the files that they define."""
        self._files = {unit: files for unit, files in self._files.items() if unit in events.unit[:1]}
        self._define(events)
        if 2 * self._longest * len(events.having(HEADING, LineEffect.SET_FILE)) <= PART:
            return iter([events])
        size = np.zeros(len(events), np.int64)
        which = events.having(HEADING)
        size[which] = [self._of(unit).first_size() for unit in events.unit[which].tolist()]
        which = events.having(LineEffect.SET_FILE)
        changes = zip(events.unit[which].tolist(), events.value(Event.FILE)[which].tolist(), strict=True)
        size[which] = [self._of(unit).heading_size(number) for unit, number in changes]
        return (events.part(part.start, part.stop) for part in parts_of(size, PART))

    def _define(self, events: Events) -> None:
        """Append the files that the instructions define."""
        which = events.having(LineEffect.DEFINE_FILE)
        if not len(which):
            return
        found = defined_in(self._dump.section, events)
        paths = found.paths(self._dump.section)
        self._longest = max(self._longest, int(found.path_size.max()))
        columns = zip(events.unit[which].tolist(), found.directory_index.tolist(), strict=True)
        for number, (unit, directory) in enumerate(columns):
            self._of(unit).defined.append(((paths, number), directory))

    def _of(self, unit: int) -> _Files:
        if unit not in self._files:
            self._files[unit] = _files(self._dump, unit)
        return self._files[unit]

    def words(self, events: Events, first_word: int) -> list[bytes]:
        """The words that the instructions' templates need; sets each instruction's WORD."""
        words: list[bytes] = []
        rows = self._by_file(events, events.having(*_ROWS), _Files.name)
        changes = self._by_file(events, events.having(LineEffect.SET_FILE), _Files.heading)
        for which, number, texts in (self._headings(events), changes, rows, self._unknown(events)):
            events.values[which, Event.WORD] = first_word + len(words) + number
            words.extend(texts)
        return words

    def _headings(self, events: Events) -> _Words:
        """The first lines of units, and what follows them if there is no program."""
        which, fields = events.having(HEADING), self._dump.headers.field
        is_empty = fields(UnitField.PROGRAM) >= fields(UnitField.END)
        texts = [self._of(unit).first_lines() + b"\n" * int(is_empty[unit]) for unit in events.unit[which].tolist()]
        return which, np.arange(len(which)), texts

    def _by_file(self, events: Events, which: NDArray[np.int64], text: Callable[[_Files, int], bytes]) -> _Words:
        """Instructions, and the texts of their files."""
        unit, number = events.unit[which], events.value(Event.FILE)[which]
        is_new = np.ones(len(which), np.bool_)
        is_new[1:] = (unit[1:] != unit[:-1]) | (number[1:] != number[:-1])
        numbers: dict[tuple[int, int], int] = {}
        runs = list(zip(unit[is_new].tolist(), number[is_new].tolist(), strict=True))
        of_run = np.array([numbers.setdefault(file, len(numbers)) for file in runs], np.int64)
        return which, of_run[np.cumsum(is_new) - 1], [text(self._of(unit), number) for unit, number in numbers]

    def _unknown(self, events: Events) -> _Words:
        """The instructions with unknown opcodes, and the text of each."""
        which, section = events.having(LineEffect.NOTHING), self._dump.section
        texts: list[bytes] = []
        for number in which.tolist():
            at, begin, end = (int(events.values[number, event]) for event in (Event.OFFSET, Event.BEGIN, Event.END))
            opcode = int(events.values[number, Event.OPCODE])
            if not events.values[number, Event.IS_EXTENDED]:
                texts.append(unknown_standard(section, opcode, begin, end))
            elif opcode == _SILENT:
                texts.append(b"")
            else:
                texts.append(f"UNKNOWN ({opcode}): length {begin - at - 1}\n".encode())
        return which, np.arange(len(which)), texts


def _files(dump: LineDump, unit: int) -> _Files:
    paths = dump.paths
    directories = slice(int(paths.first_directory[unit]), int(paths.first_directory[unit + 1]))
    files = slice(int(paths.first_file[unit]), int(paths.first_file[unit + 1]))
    return _Files(
        int(dump.headers.version[unit]),
        dump.texts,
        paths.directories.path[directories],
        paths.files.path[files],
        paths.files.directory_index[files],
        bool(paths.chosen.column[2 * unit + 1, DW_LNCT.path] >= 0),
        [],
    )
