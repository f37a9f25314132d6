"""The input of a dump of `.debug_line`: headers, paths, and the decoded instructions of each unit.

Strategy: instructions are run in chunks, so that a large program is never in memory as a whole. A chunk goes on from
one unit to the next: most programs are small. A unit has an entry of its own for the heading before its program, and
one for what follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.data_classes import dataclass
from ....schemas.line import LineEffect
from ....schemas.section import Section
from ...kernels import engine, views
from ...kernels.line.protocol import Event, UnitField
from ..headers import (
    DefinedFiles,
    LineHeaders,
    PathValues,
    defined_files,
    read_line_headers,
    read_path_values,
    refuse_unit,
)
from ..read import LinePaths, no_programs, read_line_paths, state_machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Entries per chunk: a few megabytes of working memory.
CHUNK = 1 << 14
# The effects of entries that are no instructions: before the program of a unit, and after it.
HEADING, ENDING = len(LineEffect), len(LineEffect) + 1
EFFECTS = range(len(LineEffect) + 2)


@dataclass(frozen=True, slots=True, eq=False)
class LineDump:
    """A `.debug_line` to print, and the string sections that it refers to; `texts` are the strings of `paths`, of which
    the longest has `longest` bytes."""

    section: Section
    strings: dict[str, Section]
    headers: LineHeaders
    values: PathValues
    paths: LinePaths
    texts: Sequence[bytes]
    longest: int

    def is_vliw(self) -> NDArray[np.bool_]:
        """Whether an instruction may hold several operations (VLIW), by unit."""
        return np.not_equal(self.headers.field(UnitField.MAXIMUM_OPERATIONS), 1)


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Executed instructions, headings and endings of units: the `effect` of each, u8; `values`, u64, indexed by
    `Event`; and its `unit`, i64. A unit without a program has no ending."""

    effect: NDArray[np.uint8]
    values: NDArray[np.uint64]
    unit: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.effect)

    def having(self, *effects: int) -> NDArray[np.int64]:
        """The indices of the entries with one of these effects."""
        is_one = np.zeros(len(EFFECTS), np.bool_)
        is_one[list(effects)] = True
        return np.flatnonzero(is_one[self.effect])

    def value(self, event: Event) -> NDArray[np.uint64]:
        """One value, by entry."""
        return self.values[:, event]

    def part(self, begin: int, end: int) -> Events:
        """Some of the entries."""
        return Events(self.effect[begin:end], self.values[begin:end], self.unit[begin:end])


def read_line_dump(section: Section, strings: dict[str, Section]) -> LineDump:
    """Read the headers. Raises ParseError."""
    headers = read_line_headers(section)
    values = read_path_values(headers)
    # The programs are run later, in chunks; the files that they define are printed where they are defined.
    paths = read_line_paths(headers, values, strings, no_programs())
    longest = int(paths.strings.size.max(initial=0))
    return LineDump(section, strings, headers, values, paths, paths.strings.texts(), longest)


def events_of(headers: LineHeaders, units: range) -> Iterator[Events]:
    """Run the programs of units, a chunk of entries at a time. Raises ParseError at a malformed instruction, after what
    comes before it."""
    machine = state_machine(headers)
    run, fields = engine.line.decoder.decode, views(headers.fields)
    programs = headers.field(UnitField.PROGRAM).tolist()
    chunk = _Chunk(min(CHUNK, len(headers.section.data) + 2 * len(units)))
    for unit in units:
        yield from chunk.add(unit, HEADING)
        machine.enter(*fields, unit)
        while machine.reader.offset < machine.end:
            yield from chunk.given_if_full()
            chunk.append(unit, run(machine, *views(*chunk.free())))
            if machine.reader.fault:
                yield chunk.given()
                refuse_unit(headers, unit, "program", machine.reader)
        if programs[unit] < machine.end:
            yield from chunk.add(unit, ENDING)
    yield chunk.given()


class _Chunk:
    """Entries of consecutive units, up to a fixed number of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._begin()

    def _begin(self) -> None:
        self._effect = np.zeros(self._size, np.uint8)
        self._values = np.zeros((self._size, len(Event)), np.uint64)
        self._units: list[int] = []
        self._counts: list[int] = []
        self._used = 0

    def free(self) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """The columns of the entries that are free."""
        return self._effect[self._used :], self._values[self._used :]

    def append(self, unit: int, count: int) -> None:
        """Take that many entries, which are filled, for a unit."""
        self._units.append(unit)
        self._counts.append(count)
        self._used += count

    def add(self, unit: int, effect: int) -> Iterator[Events]:
        """Append an entry of that effect; before it, what the chunk holds if it is full."""
        yield from self.given_if_full()
        self._effect[self._used] = effect
        self.append(unit, 1)

    def given_if_full(self) -> Iterator[Events]:
        """What the chunk holds, if it is full; it is empty afterwards."""
        if self._used == self._size:
            yield self.given()

    def given(self) -> Events:
        """What the chunk holds; it is empty afterwards."""
        unit = np.repeat(np.array(self._units, np.int64), self._counts)
        events = Events(self._effect[: self._used], self._values[: self._used], unit)
        self._begin()
        return events


def defined_in(section: Section, events: Events) -> DefinedFiles:
    """The files that instructions define (DW_LNE_define_file)."""
    place = events.value(Event.BEGIN)[events.having(LineEffect.DEFINE_FILE)].astype(np.int64)
    return defined_files(section, np.zeros(len(place), np.int64), place)
