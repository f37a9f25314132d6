"""Make room after the program header table, by moving the sections that follow it.

Strategy: the sections right after the table are mostly referred to only by program headers (.interp, notes) or dynamic
entries (hash tables, .dynsym), which can be updated. Notes are moved only a little, since crash reporters look for the
build id on the first page of a dumped process; all others, and the property note, go to the new PT_LOAD. Any other kind
of section, or a symbol in a section that would move, is a reason to leave the table where it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader
from itertools import takewhile

import numpy as np

from ....schemas.data_classes import dataclass
from ....schemas.elf.numbers import PT, SHT, STT
from ....schemas.section import BuildError
from ..tables import (
    DYNAMIC,
    DYNAMIC_SIZE,
    MIN_PAGE,
    POINTED_AT,
    SECTION_SIZE,
    SEGMENT_SIZE,
    SYMBOL,
    SYMBOL_VALUE_OFFSET,
    SectionHeader,
    Segment,
    Tables,
    bytes_at,
)
from .plan import align_up


@dataclass(frozen=True, slots=True)
class Displaced:
    """What a longer program header table displaces.

    `dropped` are the indices of program headers that are no longer needed. `near` has the new file offset of each
    section that stays in its PT_LOAD, by section index; `away` are the sections for the new PT_LOAD. `shown` maps the
    index of a program header to the section that it refers to; `data` has the bytes of sections; `pointers` maps file
    offsets of addresses, in dynamic entries and symbols, to sections.
    """

    dropped: frozenset[int]
    near: Mapping[int, int]
    away: tuple[int, ...]
    shown: Mapping[int, int]
    data: Mapping[int, bytes]
    pointers: Mapping[int, int]

    @property
    def moved(self) -> tuple[int, ...]:
        """The indices of the sections whose address changes."""
        return tuple(sorted((*self.near, *self.away)))

    def patches(self, before: Tables, moved: tuple[SectionHeader, ...]) -> tuple[tuple[int, bytes], ...]:
        """File offsets and the bytes to write there: zeros over the old sections, the moved sections, their addresses.

        `moved` are all section headers of the result.
        """
        sections = before.sections
        cleared = [(sections[index].offset, bytes(sections[index].size)) for index in self.moved]
        written = [(moved[index].offset, self.data[index]) for index in self.moved]
        values = [
            (offset, struct.pack(before.order + "Q", moved[index].address)) for offset, index in self.pointers.items()
        ]
        return (*cleared, *written, *values)


def displace_sections(source: BufferedReader, before: Tables, needed: int) -> Displaced:
    """Make room for `needed` more program headers. Raises BuildError with what is in the way."""
    start = before.phoff + len(before.segments) * SEGMENT_SIZE
    holder = next((one for one in before.loads if one.offset <= before.phoff and start <= one.file_end), None)
    free = 0 if holder is None else _free_bytes(source, before, start, holder.file_end) // SEGMENT_SIZE
    dropped = frozenset(_droppable(before)[: max(0, needed - free)])
    end = start + (needed - len(dropped)) * SEGMENT_SIZE
    if end == start:
        return Displaced(dropped, {}, (), {}, {}, {})
    if holder is None:
        raise BuildError("", None, "e_phoff", "no PT_LOAD contains the program header table")
    near, away, shown, space_end = _new_places(before, dropped, holder, start, end)
    _refuse_bytes_of_no_section(source, before, start, min(end, space_end), (*near, *away))
    pointers = dict(section_symbols(source, before, (*near, *away))) | dict(dynamic_pointers(source, before, away))
    data = {
        index: bytes_at(source, before.names[index].decode(errors="replace"), one.offset, one.size)
        for index, one in ((index, before.sections[index]) for index in (*near, *away))
    }
    return Displaced(dropped, near, tuple(away), shown, data, pointers)


def _free_bytes(source: BufferedReader, before: Tables, start: int, end: int) -> int:
    """The number of zeros after the table that belong to no section: the space of a removed section."""
    stored = (one for one in before.sections if one.type not in (SHT.NULL, SHT.NOBITS) and one.size)
    end = min([end, *(max(start, one.offset) for one in stored if start < one.offset + one.size)])
    data = bytes_at(source, "e_phoff", start, end - start)
    return len(data) - len(data.lstrip(b"\0"))


def _droppable(before: Tables) -> list[int]:
    """The indices of redundant program headers: unused ones, and a PT_NOTE that PT_GNU_PROPERTY repeats."""
    properties = {(one.offset, one.vaddr, one.filesz) for one in before.segments if one.type == PT.GNU_PROPERTY}
    unused = [number for number, one in enumerate(before.segments) if one.type == PT.NULL]
    repeated = (
        number
        for number, one in enumerate(before.segments)
        if one.type == PT.NOTE and (one.offset, one.vaddr, one.filesz) in properties
    )
    return unused + list(repeated)[:1]


def _new_places(
    before: Tables, dropped: frozenset[int], holder: Segment, start: int, end: int
) -> tuple[dict[int, int], list[int], dict[int, int], int]:
    """The new offsets of sections that stay near, the sections that go away, the program headers that refer to them,
    and the end of the space that this makes."""
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
        # The distances between the sections of a unit stay; it is aligned for all of them.
        place = align_up(need, max(before.sections[index].addralign for index in unit))
        for index in unit:
            near[index] = place + before.sections[index].offset - first.offset
        need = near[unit[-1]] + before.sections[unit[-1]].size
    if need > holder.file_end:
        raise BuildError("", None, "e_phoff", "the PT_LOAD of the program headers ends right after them")
    return near, away, shown, holder.file_end


def _units(
    before: Tables, dropped: frozenset[int], holder: Segment, start: int
) -> Iterator[tuple[list[int], list[int]]]:
    """What follows the table, in file order: groups of sections that share a program header, and these headers."""
    following = sorted(
        (one.offset, index)
        for index, one in enumerate(before.sections)
        if one.type not in (SHT.NULL, SHT.NOBITS) and one.size and start < one.offset + one.size
    )
    taken: set[int] = set()
    for offset, index in following:
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
        unit = [other for at, other in following if offset <= at < reach and other not in taken]
        taken |= set(unit)
        yield unit, segments


MOVABLE = (SHT.NOTE, *POINTED_AT)
ABI_TAG = b".note.ABI-tag"  # glibc's crt1.o has a symbol at its start (`__abi_tag`), which no code reads


def may_move(before: Tables, sections: Iterable[SectionHeader]) -> bool:
    """Whether all sections are of kinds that can be moved."""
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
            raise BuildError(
                "", None, f"program header[{number}]", "covers only part of the sections that are in the way"
            )


def _goes_away(before: Tables, unit: list[int]) -> bool:
    """Whether the sections go to the new PT_LOAD: all but notes, and the property note, which the loader finds only by
    its program header."""
    return any(before.sections[index].type != SHT.NOTE for index in unit) or (
        [before.names[index] for index in unit] == [b".note.gnu.property"]
    )


def _refuse_bytes_of_no_section(
    source: BufferedReader, before: Tables, start: int, end: int, moved: tuple[int, ...]
) -> None:
    """Raise BuildError for bytes in the way that no header describes, except those of the old section header table."""
    known = np.zeros(end - start, np.bool_)
    places = [(before.sections[index].offset, before.sections[index].size) for index in moved]
    for offset, size in (*places, (before.shoff, len(before.sections) * SECTION_SIZE)):
        known[max(0, offset - start) : max(0, offset + size - start)] = True
    data = np.frombuffer(bytes_at(source, "e_phoff", start, end - start), np.uint8)
    if (data[~known] != 0).any():
        raise BuildError("", None, "e_phoff", "bytes that belong to no section are in the way")


def section_symbols(source: BufferedReader, before: Tables, moved: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The file offsets of the values of section symbols, with the section of each.

    Raises BuildError for any other symbol in a moved section: the program's code may contain its value.
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
            is_own = symbols["f1"][number] == STT.SECTION or (before.names[index] == ABI_TAG and inside == 0)
            if not (is_own or 0 <= inside < before.sections[index].size):
                continue  # __ehdr_start has a section index, but is before that section.
            if table in moved or not is_own:
                name = before.names[index].decode(errors="replace")
                raise BuildError("", None, f"symbol[{number}]", f"is in {name}, which is in the way")
            yield one.offset + number * layout.itemsize + SYMBOL_VALUE_OFFSET, index


def dynamic_pointers(source: BufferedReader, before: Tables, away: list[int]) -> Iterator[tuple[int, int]]:
    """The file offsets of the values of dynamic entries that refer to a section, with that section."""
    types = {index: before.sections[index].type for index in away}
    tags = {index: POINTED_AT[SHT(kind)] for index, kind in types.items() if kind in tuple(POINTED_AT)}
    if not tags:
        return
    dynamic = next((one for one in before.segments if one.type == PT.DYNAMIC), None)
    size = 0 if dynamic is None else dynamic.filesz // DYNAMIC_SIZE * DYNAMIC_SIZE
    data = b"" if dynamic is None else bytes_at(source, "PT_DYNAMIC", dynamic.offset, size)
    # DT_NULL, which is 0, ends the entries.
    entries = list(takewhile(lambda entry: entry[0], struct.iter_unpack(before.order + DYNAMIC, data)))
    for index, tag in tags.items():
        found = [number for number, entry in enumerate(entries) if entry[0] == tag]
        if dynamic is None or len(found) != 1 or entries[found[0]][1] != before.sections[index].address:
            name = before.names[index].decode(errors="replace")
            raise BuildError("", None, "PT_DYNAMIC", f"does not refer to {name}, which is in the way")
        yield dynamic.offset + found[0] * DYNAMIC_SIZE + 8, index
