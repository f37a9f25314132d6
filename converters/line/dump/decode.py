"""What a dump of `.debug_line` is made from: headers, paths, and the instructions of each unit with what they do.

Strategy: instructions are run some thousand at a time, so that a large program is never whole in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.line import LineEffect
from ....schemas.section import Section
from ...kernels import engine, views
from ...kernels.line.protocol import Event, UnitField
from ..headers import DefinedFiles, LineHeads, PathValues, defined_files, line_heads, path_values, refuse_unit
from ..read import LinePaths, line_paths, machine_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Instructions that are run at once: some megabytes of working memory.
CHUNK = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class LineDump:
    """A `.debug_line` to print, and the sections of strings that it names."""

    section: Section
    strings: dict[str, Section]
    heads: LineHeads
    values: PathValues
    paths: LinePaths

    def is_vliw(self, unit: int) -> bool:
        """Whether its instructions hold several operations."""
        return bool(self.heads.field(UnitField.MAXIMUM_OPERATIONS)[unit] != 1)


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Instructions: the `effect` u8 of each, and `values` u64, a row of `Event`s."""

    effect: NDArray[np.uint8]
    values: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.effect)

    def having(self, *effects: LineEffect) -> NDArray[np.int64]:
        """The numbers of those with one of these effects."""
        return np.flatnonzero(np.isin(self.effect, effects))

    def value(self, event: Event) -> NDArray[np.uint64]:
        """One value of each."""
        return self.values[:, event]


def line_dump(section: Section, strings: dict[str, Section]) -> LineDump:
    """Read the headers. Raises ParseError."""
    heads = line_heads(section)
    values = path_values(heads)
    nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    return LineDump(section, strings, heads, values, line_paths(heads, values, strings, nothing))


def events_of(heads: LineHeads, unit: int) -> Iterator[Events]:
    """Run the program of a unit, some instructions at a time. Raises ParseError at what cannot be decoded."""
    machine = machine_of(heads)
    machine.enter(*views(heads.fields), unit)
    size = int(heads.field(UnitField.END)[unit] - heads.field(UnitField.PROGRAM)[unit])
    while machine.reader.offset < machine.end:
        effect = np.zeros(min(CHUNK, size), np.uint8)
        values = np.zeros((len(effect), len(Event)), np.uint64)
        count = engine.line.decoder.decode(machine, *views(effect, values))
        if machine.reader.fault:
            refuse_unit(heads, unit, "program", machine.reader)
        yield Events(effect[:count], values[:count])


def defined_in(section: Section, events: Events) -> DefinedFiles:
    """The files that some instructions define."""
    place = events.value(Event.BEGIN)[events.having(LineEffect.DEFINE_FILE)].astype(np.int64)
    return defined_files(section, np.zeros(len(place), np.int64), place)
