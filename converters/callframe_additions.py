"""Functions of a table as records of a section that is there already, in the room of an FDE or behind the others.

Strategy: as for a whole table, but for CIEs, of which the section has some: streams by a kernel, FDEs as columns,
addresses left for later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .callframe import Records
from .callframe_choice import NO_CIE, Choices, beginnings, best_known, choices_of, usable_cies, with_new
from .callframe_cies import CieChoice, choose_cies
from .callframe_encoding import refusals_of, sayable
from .callframe_heads import HeadFields, Heads, Places, fields_of, fill_heads, joined_fdes
from .callframe_layout import Layout, heads_of, laid_out_cies
from .callframe_streams import Streams, StreamWriter
from .contents import numbered
from .refusals import Reason, Refusals
from .unwind import UnwindTable, concatenate

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_ROOM = -1


@dataclass(frozen=True, slots=True, eq=False)
class Additions:
    """New records. The CIEs stand behind the section's; FDEs have an element each: `function`, the index in the table,
    `is_in_place`, whether it stands in its room, and `size`, of its bytes in `data`, which go where `fields` says.
    `places` are of the CIEs, `end` is the section offset behind all."""

    refusals: Refusals
    cies: bytes
    cie_count: int
    function: NDArray[np.int64]
    is_in_place: NDArray[np.bool_]
    data: NDArray[np.uint8]
    size: NDArray[np.int64]
    heads: Heads
    fields: HeadFields
    places: tuple[Places, ...]
    end: int

    def write(self, section: NDArray[np.uint8], first: int) -> tuple[Places, ...]:
        """Put them into a section in which all of their room is zero, the CIEs from `first` on. Returns where addresses
        have to go."""
        section[first : first + len(self.cies)] = np.frombuffer(self.cies, np.uint8)
        begin = np.cumsum(self.size) - self.size
        section[np.repeat(self.fields.offset - begin, self.size) + np.arange(len(self.data))] = self.data
        return (*self.places, *fill_heads(self.heads, self.fields, section))


def additions(
    records: Records, table: UnwindTable, room: NDArray[np.int64], first: int, pointer_size: int
) -> Additions:
    """The records of a table's functions: where they fit in the room of the FDE whose index `room` gives (or NO_ROOM),
    else from section offset `first` on. `pointer_size` is of addresses where a CIE is added."""
    table, reason = sayable(table, records.dialect, pointer_size)
    which = np.flatnonzero(reason == 0)
    known = usable_cies(records)[: None if len(which) else 0]
    writer = StreamWriter(concatenate(table, beginnings(records, known)))
    choice = choose_cies(writer, which)
    layout = _cie_layout(records, table, pointer_size, writer, choice)
    initial = writer.table.run_rows[len(table.run_rows) - 1 : -1]
    choices = choices_of(records, known, initial, choice, heads_of(layout))
    anywhere, inside = best_known(records, table.functions, writer, choices, which, room[which])
    is_in_place = inside.cie != NO_CIE
    cie = np.where(is_in_place, inside.cie, with_new(anywhere, choices, writer, choice, is_in_place, layout.alignment))
    is_said = cie != NO_CIE
    reason[which[~is_said]] = Reason.RULE_LOST
    which, cie, is_in_place = which[is_said], cie[is_said], is_in_place[is_said]
    refusals = refusals_of(table, reason)
    return _laid_out(records, layout, writer, choices, which, cie, is_in_place, room[which], first, refusals)


def _cie_layout(
    records: Records, table: UnwindTable, pointer_size: int, writer: StreamWriter, choice: CieChoice
) -> Layout:
    """The layout of the CIEs alone."""
    nothing = np.zeros(0, np.int64)
    streams = writer.write(Streams(nothing, nothing, nothing, nothing))
    own = writer.write(choice.cie_streams())
    return Layout(table, records.dialect, pointer_size, choice.shapes, nothing, nothing, nothing, streams, own)


def _laid_out(
    records: Records,
    layout: Layout,
    writer: StreamWriter,
    choices: Choices,
    which: NDArray[np.int64],
    cie: NDArray[np.int64],
    is_in_place: NDArray[np.bool_],
    room: NDArray[np.int64],
    first: int,
    refusals: Refusals,
) -> Additions:
    """The functions `which` on top of the CIEs chosen for them."""
    functions, known = layout.table.functions, choices.known
    added = np.unique(cie[cie >= len(known)]) - len(known)
    cies, at, places = laid_out_cies(_only(layout, added))
    offset = np.concatenate([records.cie_offset[known], np.zeros(len(layout.shapes), np.int64)])
    offset[len(known) + added] = first + at
    run = functions.run[which].astype(np.int64)
    job, of_job = numbered(run, cie)
    streams = writer.write(choices.streams(run[of_job], cie[of_job]))
    heads = choices.heads.select(cie)
    head = heads.size
    size = head + streams.size[job]
    size[~is_in_place] += -size[~is_in_place] % layout.alignment
    appended = np.where(is_in_place, 0, size)
    begin, end = (np.append(column, 0)[room] for column in (records.fdes.offset, records.fdes.end))
    place = np.where(is_in_place, begin, first + len(cies) + np.cumsum(appended) - appended)
    return Additions(
        refusals=refusals,
        cies=cies,
        cie_count=len(added),
        function=which,
        is_in_place=is_in_place,
        data=joined_fdes(streams, job, head, size),
        size=size,
        heads=heads,
        fields=fields_of(functions, which, place, np.where(is_in_place, end - begin, size), offset[cie]),
        places=tuple(replace(one, offset=one.offset + first) for one in places),
        end=first + len(cies) + int(appended.sum()),
    )


def _only(layout: Layout, which: NDArray[np.int64]) -> Layout:
    """The same with some of its CIEs."""
    own = layout.beginnings
    chosen = tuple(layout.shapes[index] for index in which.tolist())
    return replace(layout, shapes=chosen, beginnings=replace(own, start=own.start[which], size=own.size[which]))
