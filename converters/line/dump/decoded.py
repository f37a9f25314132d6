"""`.debug_line` as in GNU readelf 2.47 with `--debug-dump=decodedline`: row by row, under file headings.

Strategy: rows are printed as the instructions emit them, like readelf does, from templates that a kernel fills. File
names are words of the templates: those of a chunk's rows, and the headings where the file changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.line import DW_LNCT, LineEffect
from ...bulk_text import Templates
from ...kernels.line.protocol import Event, UnitField
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


@dataclass(slots=True)
class _Files:
    """The directories and files of a unit, whose version decides if numbers start at 0 or 1; programs append files."""

    version: int
    directories: list[bytes]
    files: list[tuple[bytes | None, int]]

    def name(self, number: int) -> bytes:
        """The name of a row's file, cut or padded for its column."""
        index = number - (self.version < 5)
        name = b"<unknown>"
        if self.files:
            found = self.files[index][0] if 0 <= index < len(self.files) else b"<corrupt>"
            name = name if found is None else found
        return name[-_LONGEST:].ljust(_COLUMN)

    def heading(self, number: int) -> bytes:
        """The heading above the rows of a file that the program sets."""
        index = number - (self.version < 5)
        if not self.files:
            return f"\n [Use file table entry {index}]\n".encode()
        if not 0 <= index < len(self.files):
            return f"\n <over large file table index {index % (1 << 32)}>".encode()
        path, directory = self.files[index]
        name = b"unknown" if path is None else path
        if directory == 0 and self.version < 5:
            return b"\n./" + name + b":[++]\n"
        if not self.directories:
            return b"\n [Use file " + name + f" in directory table entry {directory}]\n".encode()
        directory -= self.version < 5
        if directory >= len(self.directories):
            return f"\n <over large directory table entry {directory}>\n".encode()
        return b"\n" + self.directories[directory] + b"/" + name + b":\n"

    def first_lines(self) -> bytes:
        """The first lines of a unit."""
        if not self.files:
            return b"CU: No directory table\nCU: Empty file name table\n"
        name = b"unknown" if self.files[0][0] is None else self.files[0][0]
        return (b"" if self.directories else b"CU: ") + name + b":\n" + _HEADING


def decoded_line_text(dump: LineDump) -> Iterator[bytes]:
    """The text, in chunks. Raises ParseError."""
    yield f"Contents of the {dump.section.listed_name} section:\n\n".encode(errors="surrogateescape")
    templates = Templates(Event, _TEMPLATES)
    for unit in range(len(dump.headers)):
        files = _files(dump, unit)
        yield files.first_lines()
        if dump.headers.field(UnitField.PROGRAM)[unit] < dump.headers.field(UnitField.END)[unit]:
            for events in events_of(dump.headers, unit):
                words = _words(dump, events, files, templates.first_word)
                has_view, is_stmt = (events.value(event) > 0 for event in (Event.VIEW, Event.IS_STMT))
                template = 8 * events.effect.astype(np.int64) + 4 * dump.is_vliw(unit) + 2 * has_view + is_stmt
                yield templates.fill(template, events.values, words)
        yield b"\n"


def _files(dump: LineDump, unit: int) -> _Files:
    paths = dump.paths
    directories = paths.directories.path[paths.first_directory[unit] : paths.first_directory[unit + 1]]
    files = slice(int(paths.first_file[unit]), int(paths.first_file[unit + 1]))
    has_path = paths.chosen.column[2 * unit + 1, DW_LNCT.path] >= 0
    entries = zip(paths.files.path[files].tolist(), paths.files.directory_index[files].tolist(), strict=True)
    return _Files(
        int(dump.headers.version[unit]),
        [paths.strings[path] for path in directories.tolist()],
        [(paths.strings[path] if has_path else None, directory) for path, directory in entries],
    )


def _words(dump: LineDump, events: Events, files: _Files, first_word: int) -> list[bytes]:
    """The words that the instructions' templates need; sets each instruction's WORD and appends files they define."""
    section = dump.section
    words: list[bytes] = []
    found = defined_in(section, events)
    defined = enumerate(found.directory_index.tolist())
    files.files.extend((found.path(section, number), directory) for number, directory in defined)

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
