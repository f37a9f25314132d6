"""`.debug_line` as in GNU readelf 2.47 with `--debug-dump=decodedline`: row by row, under file headings.

Strategy: rows are printed as the instructions emit them, like readelf does, from templates that a kernel fills. File
names are words of the templates: those of a chunk's rows, and the headings where the file changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.data_classes import dataclass
from ....schemas.line import DW_LNCT, LineEffect
from ....schemas.section import Section
from ...bulk_text import Templates
from ...kernels.line.protocol import Event, UnitField
from ...strings import PART, Strings, parts_of
from .decode import Events, LineDump, defined_in, events_of
from .raw import unknown_standard

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS = (LineEffect.SPECIAL, LineEffect.COPY, LineEffect.END_SEQUENCE)
_ROW = "{word:w}  {line:11d}  {address:#18x}INDEXVIEWSTMT\n"
_TEXTS = {
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
    for effect in LineEffect
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
    No path is longer than `longest` bytes."""

    version: int
    longest: int
    directories: list[_Path]
    files: list[tuple[_Path | None, int]]

    def name(self, number: int) -> bytes:
        """The name of a row's file, cut or padded for its column."""
        index = number - (self.version < 5)
        name = b"<unknown>"
        if self.files:
            name = b"<corrupt>"
            if 0 <= index < len(self.files):
                path = self.files[index][0]
                name = b"<unknown>" if path is None else _text(path, _LONGEST)
        return name[-_LONGEST:].ljust(_COLUMN)

    def heading_size(self, number: int) -> int:
        """The size in bytes of the paths in a heading, as far as they count."""
        index = number - (self.version < 5)
        if not 0 <= index < len(self.files):
            return 0
        path, directory = self.files[index]
        directory -= self.version < 5
        paths = [path] if path is not None else []
        paths += self.directories[directory : directory + 1] if directory >= 0 else []
        return sum(_size(*path) for path in paths)

    def heading(self, number: int) -> bytes:
        """The heading above the rows of a file that the program sets."""
        index = number - (self.version < 5)
        if not self.files:
            return f"\n [Use file table entry {index}]\n".encode()
        if not 0 <= index < len(self.files):
            return f"\n <over large file table index {index % (1 << 32)}>".encode()
        path, directory = self.files[index]
        name = _text(path)
        if directory == 0 and self.version < 5:
            return b"\n./" + name + b":[++]\n"
        if not self.directories:
            return b"\n [Use file " + name + f" in directory table entry {directory}]\n".encode()
        directory -= self.version < 5
        if directory >= len(self.directories):
            return f"\n <over large directory table entry {directory}>\n".encode()
        return b"\n" + _text(self.directories[directory]) + b"/" + name + b":\n"

    def first_lines(self) -> bytes:
        """The first lines of a unit."""
        if not self.files:
            return b"CU: No directory table\nCU: Empty file name table\n"
        return (b"" if self.directories else b"CU: ") + _text(self.files[0][0]) + b":\n" + _HEADING


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
    for unit in range(len(dump.headers)):
        files = _files(dump, unit)
        yield files.first_lines()
        if dump.headers.field(UnitField.PROGRAM)[unit] < dump.headers.field(UnitField.END)[unit]:
            for events in events_of(dump.headers, unit):
                for part in _parts(dump.section, events, files):
                    words = _words(dump.section, part, files, templates.first_word)
                    has_view, is_stmt = (part.value(event) > 0 for event in (Event.VIEW, Event.IS_STMT))
                    template = 8 * part.effect.astype(np.int64) + 4 * dump.is_vliw(unit) + 2 * has_view + is_stmt
                    yield templates.fill(template, part.values, words)
        yield b"\n"


def _files(dump: LineDump, unit: int) -> _Files:
    paths = dump.paths
    directories = paths.directories.path[paths.first_directory[unit] : paths.first_directory[unit + 1]]
    files = slice(int(paths.first_file[unit]), int(paths.first_file[unit + 1]))
    has_path = paths.chosen.column[2 * unit + 1, DW_LNCT.path] >= 0
    entries = zip(paths.files.path[files].tolist(), paths.files.directory_index[files].tolist(), strict=True)
    return _Files(
        int(dump.headers.version[unit]),
        dump.longest,
        [(dump.texts, path) for path in directories.tolist()],
        [((dump.texts, path) if has_path else None, directory) for path, directory in entries],
    )


def _parts(section: Section, events: Events, files: _Files) -> Iterator[Events]:
    """The instructions in parts whose headings have a bounded size; appends the files that they define."""
    if np.count_nonzero(events.effect == LineEffect.DEFINE_FILE):
        found = defined_in(section, events)
        paths, directories = found.paths(section), enumerate(found.directory_index.tolist())
        files.files.extend(((paths, number), directory) for number, directory in directories)
        files.longest = max(files.longest, int(found.path_size.max()))
    if 2 * files.longest * np.count_nonzero(events.effect == LineEffect.SET_FILE) <= PART:
        return iter([events])
    which = events.having(LineEffect.SET_FILE)
    numbers, inverse = np.unique(events.value(Event.FILE)[which], return_inverse=True)
    size = np.zeros(len(events), np.int64)
    size[which] = np.array([files.heading_size(number) for number in numbers.tolist()], np.int64)[inverse]
    return (Events(events.effect[part], events.values[part]) for part in parts_of(size))


def _words(section: Section, events: Events, files: _Files, first_word: int) -> list[bytes]:
    """The words that the instructions' templates need; sets each instruction's WORD."""
    words: list[bytes] = []

    def add(which: NDArray[np.int64], text: Callable[[int], bytes]) -> None:
        """Set the WORD of instructions `which` to the text of their file numbers."""
        numbers, inverse = np.unique(events.value(Event.FILE)[which], return_inverse=True)
        events.values[which, Event.WORD] = first_word + len(words) + inverse
        words.extend(map(text, numbers.tolist()))

    add(events.having(*_ROWS), files.name)
    add(events.having(LineEffect.SET_FILE), files.heading)
    for number in events.having(LineEffect.NOTHING).tolist():
        at, begin, end = (int(events.values[number, event]) for event in (Event.OFFSET, Event.BEGIN, Event.END))
        opcode = int(events.values[number, Event.OPCODE])
        if not events.values[number, Event.IS_EXTENDED]:
            text = unknown_standard(section, opcode, begin, end)
        else:
            text = b"" if opcode == _SILENT else f"UNKNOWN ({opcode}): length {begin - at - 1}\n".encode()
        events.values[number, Event.WORD] = first_word + len(words)
        words.append(text)
    return words
