"""Room behind the program header table: which of the sections that stand there can move, and where.

Strategy: what begins right behind the table is mostly found through program headers (.interp, notes) or dynamic entries
(hash tables, .dynsym) alone, which are changed with it. Notes only step back, as crash reporters look for the build id
on the first page of a dumped process; all else, and the property note, goes away to the new PT_LOAD. Whatever else
stands there, and a symbol that names what would move, is a reason to leave the table alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader

import numpy as np

from ....schemas.section import BuildError
from ..tables import (
    DYNAMIC,
    DYNAMIC_SIZE,
    MIN_PAGE,
    POINTED_AT,
    PT,
    SECTION_SIZE,
    SEGMENT_SIZE,
    SHT,
    STT_SECTION,
    SYMBOL,
    SYMBOL_VALUE_OFFSET,
    SectionHeader,
    Segment,
    Tables,
    bytes_at,
)
from .plan import aligned


@dataclass(frozen=True, slots=True)
class Front:
    """What gives way to a longer program header table.

    `dropped` are the numbers of program headers that are no more needed; `near` has new file offsets by section index,
    in the PT_LOAD where they are; `away` are sections for the new one. `shown` says which program header stands for
    which of them; `data` has their bytes; `pointers` are file offsets of their addresses, in dynamic entries and
    symbols.
    """

    dropped: frozenset[int]
    near: Mapping[int, int]
    away: tuple[int, ...]
    shown: Mapping[int, int]
    data: Mapping[int, bytes]
    pointers: Mapping[int, int]

    @property
    def moved(self) -> tuple[int, ...]:
        """The sections that have another address then."""
        return tuple(sorted((*self.near, *self.away)))

    def patches(self, before: Tables, moved: tuple[SectionHeader, ...]) -> tuple[tuple[int, bytes], ...]:
        """File offsets and what is to be written: zeros where something was, the sections, their addresses.

        `moved` are all section headers as they are to be.
        """
        sections = before.sections
        cleared = [(sections[index].offset, bytes(sections[index].size)) for index in self.moved]
        written = [(moved[index].offset, self.data[index]) for index in self.moved]
        values = [
            (offset, struct.pack(before.order + "Q", moved[index].address)) for offset, index in self.pointers.items()
        ]
        return (*cleared, *written, *values)


def clear_front(source: BufferedReader, before: Tables, needed: int) -> Front:
    """Make room for `needed` program headers more. Raises BuildError that says what is in the way."""
    start = before.phoff + len(before.segments) * SEGMENT_SIZE
    holder = next((one for one in before.loads if one.offset <= before.phoff and start <= one.file_end), None)
    free = 0 if holder is None else _free_room(source, before, start, holder.file_end) // SEGMENT_SIZE
    dropped = frozenset(_droppable(before)[: max(0, needed - free)])
    end = start + (needed - len(dropped)) * SEGMENT_SIZE
    if end == start:
        return Front(dropped, {}, (), {}, {}, {})
    if holder is None:
        raise BuildError("", None, "e_phoff", "no PT_LOAD holds the program header table")
    near, away, shown, room_end = _giving_way(before, dropped, holder, start, end)
    _refuse_bytes_of_no_section(source, before, start, min(end, room_end), (*near, *away))
    pointers = dict(_section_symbols(source, before, (*near, *away))) | dict(_pointers(source, before, away))
    data = {
        index: bytes_at(source, before.names[index].decode(errors="replace"), one.offset, one.size)
        for index, one in ((index, before.sections[index]) for index in (*near, *away))
    }
    return Front(dropped, near, tuple(away), shown, data, pointers)


def _free_room(source: BufferedReader, before: Tables, start: int, end: int) -> int:
    """Zeros behind the table that no section has: what a section that was taken out has left."""
    stored = (one for one in before.sections if one.type not in (SHT.NULL, SHT.NOBITS) and one.size)
    end = min([end, *(max(start, one.offset) for one in stored if start < one.offset + one.size)])
    data = bytes_at(source, "e_phoff", start, end - start)
    return len(data) - len(data.lstrip(b"\0"))


def _droppable(before: Tables) -> list[int]:
    """Program headers that say nothing: unused ones, and a PT_NOTE that PT_GNU_PROPERTY repeats."""
    properties = {(one.offset, one.vaddr, one.filesz) for one in before.segments if one.type == PT.GNU_PROPERTY}
    unused = [number for number, one in enumerate(before.segments) if one.type == PT.NULL]
    repeated = (
        number
        for number, one in enumerate(before.segments)
        if one.type == PT.NOTE and (one.offset, one.vaddr, one.filesz) in properties
    )
    return unused + list(repeated)[:1]


def _giving_way(
    before: Tables, dropped: frozenset[int], holder: Segment, start: int, end: int
) -> tuple[dict[int, int], list[int], dict[int, int], int]:
    """Offsets of sections that step back, sections that go, segments that show them, and the end of the room."""
    near: dict[int, int] = {}
    away: list[int] = []
    shown: dict[int, int] = {}
    need, units = end, _units(before, dropped, holder, start)
    for unit, segments in units:
        first = before.sections[unit[0]]
        if need <= first.offset:
            return near, away, shown, first.offset
        _refuse_immovable(before, holder, unit, segments)
        shown |= dict.fromkeys(segments, unit[0])
        if _goes_away(before, unit):
            away += unit
            continue
        # The unit keeps what is between its sections; its first one's alignment is that of all.
        place = aligned(need, max(before.sections[index].addralign for index in unit))
        for index in unit:
            near[index] = place + before.sections[index].offset - first.offset
        need = near[unit[-1]] + before.sections[unit[-1]].size
    if need > holder.file_end:
        raise BuildError("", None, "e_phoff", "the PT_LOAD of the program headers ends behind them")
    return near, away, shown, holder.file_end


def _units(
    before: Tables, dropped: frozenset[int], holder: Segment, start: int
) -> Iterator[tuple[list[int], list[int]]]:
    """What begins behind the table, in the order of the file: sections that one program header shows, and which."""
    behind = sorted(
        (one.offset, index)
        for index, one in enumerate(before.sections)
        if one.type not in (SHT.NULL, SHT.NOBITS) and one.size and start < one.offset + one.size
    )
    taken: set[int] = set()
    for offset, index in behind:
        if index in taken or offset >= holder.file_end:
            continue
        reach = before.sections[index].offset + before.sections[index].size
        segments = [
            number
            for number, one in enumerate(before.segments)
            if number not in dropped
            and one.type not in (PT.LOAD, PT.PHDR)
            and one.offset < reach
            and offset < one.file_end
        ]
        reach = max([reach, *(before.segments[number].file_end for number in segments)])
        unit = [other for at, other in behind if offset <= at < reach and other not in taken]
        taken |= set(unit)
        yield unit, segments


MOVABLE = (SHT.NOTE, *POINTED_AT)
ABI_TAG = b".note.ABI-tag"  # glibc's crt1.o names its start (`__abi_tag`), which no code reads


def may_move(before: Tables, sections: Iterable[SectionHeader]) -> bool:
    """Whether all are of the kinds that move."""
    interps = [one.offset for one in before.segments if one.type == PT.INTERP]
    return all(one.type in MOVABLE or one.offset in interps for one in sections)


def _refuse_immovable(before: Tables, holder: Segment, unit: list[int], segments: list[int]) -> None:
    first, last = before.sections[unit[0]], before.sections[unit[-1]]
    for index in unit:
        one, name = before.sections[index], before.names[index].decode(errors="replace")
        can_move = one.is_loaded and may_move(before, [one]) and one.addralign <= MIN_PAGE
        if not can_move or not holder.holds(one):
            raise BuildError("", None, "e_phoff", f"{name or f'section [{index}]'} is in the way")
    for number in segments:
        shown = before.segments[number]
        if (shown.offset, shown.file_end) != (first.offset, last.offset + last.size):
            raise BuildError("", None, f"program header[{number}]", "shows part of what is in the way of another")


def _goes_away(before: Tables, unit: list[int]) -> bool:
    """All but notes; of them, the property note, which the loader looks for by its program header alone."""
    return any(before.sections[index].type != SHT.NOTE for index in unit) or (
        [before.names[index] for index in unit] == [b".note.gnu.property"]
    )


def _refuse_bytes_of_no_section(
    source: BufferedReader, before: Tables, start: int, end: int, moved: tuple[int, ...]
) -> None:
    """What no header describes is somebody's all the same; the old section header table is not."""
    known = np.zeros(end - start, np.bool_)
    places = [(before.sections[index].offset, before.sections[index].size) for index in moved]
    for offset, size in (*places, (before.shoff, len(before.sections) * SECTION_SIZE)):
        known[max(0, offset - start) : max(0, offset + size - start)] = True
    data = np.frombuffer(bytes_at(source, "e_phoff", start, end - start), np.uint8)
    if (data[~known] != 0).any():
        raise BuildError("", None, "e_phoff", "bytes of no section are in the way")


def _section_symbols(source: BufferedReader, before: Tables, moved: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """File offsets of the values of symbols that stand for a section, and which section.

    Any other symbol's value may be in the program's code too: BuildError.
    """
    layout = np.dtype([(f"f{number}", before.order + kind) for number, kind in enumerate(SYMBOL)])
    for table, one in enumerate(before.sections):
        if one.type not in (SHT.SYMTAB, SHT.DYNSYM):
            continue
        count = one.size // layout.itemsize
        symbols = np.frombuffer(bytes_at(source, "sh_type", one.offset, count * layout.itemsize), layout)
        for number in np.flatnonzero(np.isin(symbols["f3"], moved)).tolist():
            index = int(symbols["f3"][number])
            inside = int(symbols["f4"][number]) - before.sections[index].address
            is_own = symbols["f1"][number] == STT_SECTION or (before.names[index] == ABI_TAG and inside == 0)
            if not (is_own or 0 <= inside < before.sections[index].size):
                continue  # __ehdr_start is said to be in some section, and is before it.
            if table in moved or not is_own:
                name = before.names[index].decode(errors="replace")
                raise BuildError("", None, f"symbol[{number}]", f"is in {name}, which is in the way")
            yield one.offset + number * layout.itemsize + SYMBOL_VALUE_OFFSET, index


def _pointers(source: BufferedReader, before: Tables, away: list[int]) -> Iterator[tuple[int, int]]:
    """File offsets of the values of dynamic entries that name a section, and which section."""
    types = {index: before.sections[index].type for index in away}
    tags = {index: POINTED_AT[SHT(kind)] for index, kind in types.items() if kind in tuple(POINTED_AT)}
    if not tags:
        return
    dynamic = next((one for one in before.segments if one.type == PT.DYNAMIC), None)
    size = 0 if dynamic is None else dynamic.filesz // DYNAMIC_SIZE * DYNAMIC_SIZE
    data = b"" if dynamic is None else bytes_at(source, "PT_DYNAMIC", dynamic.offset, size)
    entries = list(struct.iter_unpack(before.order + DYNAMIC, data))
    for index, tag in tags.items():
        found = [number for number, entry in enumerate(entries) if entry[0] == tag]
        if dynamic is None or len(found) != 1 or entries[found[0]][1] != before.sections[index].address:
            name = before.names[index].decode(errors="replace")
            raise BuildError("", None, "PT_DYNAMIC", f"does not name {name}, which is in the way")
        yield dynamic.offset + found[0] * DYNAMIC_SIZE + 8, index
