"""The input of a dump of `.debug_line`: headers, paths, and the decoded instructions of each unit.

Strategy: instructions are run in chunks, so that a large program is never in memory as a whole.
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

# Instructions per chunk: a few megabytes of working memory.
CHUNK = 1 << 14


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

    def is_vliw(self, unit: int) -> bool:
        """Whether an instruction of this unit may hold several operations (VLIW)."""
        return bool(self.headers.field(UnitField.MAXIMUM_OPERATIONS)[unit] != 1)


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Executed instructions: the `effect` of each, u8, and `values`, u64, indexed by `Event`."""

    effect: NDArray[np.uint8]
    values: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.effect)

    def having(self, *effects: LineEffect) -> NDArray[np.int64]:
        """The indices of the instructions with one of these effects."""
        return np.flatnonzero(np.isin(self.effect, effects))

    def value(self, event: Event) -> NDArray[np.uint64]:
        """One value, by instruction."""
        return self.values[:, event]


def read_line_dump(section: Section, strings: dict[str, Section]) -> LineDump:
    """Read the headers. Raises ParseError."""
    headers = read_line_headers(section)
    values = read_path_values(headers)
    # The programs are run later, in chunks; the files that they define are printed where they are defined.
    paths = read_line_paths(headers, values, strings, no_programs())
    longest = int(paths.strings.size.max(initial=0))
    return LineDump(section, strings, headers, values, paths, paths.strings.texts(), longest)


def events_of(headers: LineHeaders, unit: int) -> Iterator[Events]:
    """Run the program of a unit, a chunk of instructions at a time. Raises ParseError at a malformed instruction."""
    machine = state_machine(headers)
    machine.enter(*views(headers.fields), unit)
    size = int(headers.field(UnitField.END)[unit] - headers.field(UnitField.PROGRAM)[unit])
    while machine.reader.offset < machine.end:
        effect = np.zeros(min(CHUNK, size), np.uint8)
        values = np.zeros((len(effect), len(Event)), np.uint64)
        count = engine.line.decoder.decode(machine, *views(effect, values))
        if machine.reader.fault:
            refuse_unit(headers, unit, "program", machine.reader)
        yield Events(effect[:count], values[:count])


def defined_in(section: Section, events: Events) -> DefinedFiles:
    """The files that instructions define (DW_LNE_define_file)."""
    place = events.value(Event.BEGIN)[events.having(LineEffect.DEFINE_FILE)].astype(np.int64)
    return defined_files(section, np.zeros(len(place), np.int64), place)
