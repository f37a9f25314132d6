"""Our own engine: one PT_LOAD more behind all that the file has, in two layouts.

Strategy: nothing that is there moves, whether it is loaded or not; what is new follows it in the file, and then the
section names and the section header table. Headers kept: the program header table grows where it stands, into the
room of the few sections behind it, which move (`elf_front`); strip and objcopy see an ordinary file. Headers moved: a
longer copy of the table goes into the new PT_LOAD, which any file can be given.
"""

from __future__ import annotations

import os
from dataclasses import replace
from io import BufferedReader
from pathlib import Path

from ....schemas.section import BuildError
from ...files import copy_range, size_of
from ..tables import (
    ADDRESS_LIMIT,
    MAX_SECTIONS,
    PF,
    PN_XNUM,
    PT,
    SECTION_SIZE,
    SEGMENT_SIZE,
    SHF,
    SHT,
    SectionHeader,
    Segment,
    Tables,
    bytes_at,
)
from .make_room import Front, clear_front, may_move
from .plan import LoadedSection, Plan, aligned, page_of

MAX_HOLE = 1 << 32  # bytes; whoever copies the file may fill it


def write_headers_kept(source: BufferedReader, out_path: Path, before: Tables, section: LoadedSection) -> Plan:
    """Let the program header table grow where it is. Raises BuildError where its neighbours cannot make room."""
    _refuse_full_tables(before)
    more = _names_more(before, section)
    room = _spare_room(source, before, section, more)
    if room is not None:
        front = clear_front(source, before, more)
        if not front.away:
            load, place = room
            return _kept_plan(source, out_path, before, section, front, load, place, dict(front.near))
    front = clear_front(source, before, 1 + more)
    alignment = max([section.alignment, *(before.sections[index].addralign for index in front.away)])
    offset = aligned(_contents_end(before), alignment)
    page = page_of(before)
    address = aligned(_memory_end(before), page) + offset % page
    places, end = _behind_one_another(front, before, offset)
    place = aligned(end, section.alignment)
    load = _read_only(offset, address, place + section.size - offset, page)
    return _kept_plan(source, out_path, before, section, front, load, place, places)


def _kept_plan(
    source: BufferedReader,
    out_path: Path,
    before: Tables,
    section: LoadedSection,
    front: Front,
    load: Segment,
    place: int,
    places: dict[int, int],
) -> Plan:
    """The plan with the section at file offset `place` in `load`, which may be one of the file's."""
    shift = load.vaddr - load.offset
    tables = _moved(before, front, places, shift)
    plan = _placed(before, tables if load in before.loads else _with_load(tables, load), section, place, shift)
    patches = front.patches(before, tables.sections)
    return _lay_out(source, out_path, before, replace(plan, moved=front.moved, patches=patches))


def _spare_room(
    source: BufferedReader, before: Tables, section: LoadedSection, more: int
) -> tuple[Segment, int] | None:
    """Zeros behind what we once moved into the last PT_LOAD, where a section was taken out; and their offset."""
    load = max(before.loads, key=lambda one: one.vaddr)
    inside = [one for one in before.sections if one.is_loaded and one.size and load.holds(one)]
    ends = [one.offset + one.size for one in inside]
    if load.offset == before.phoff:
        ends.append(before.phoff + (len(before.segments) + more) * SEGMENT_SIZE)
    is_ours = ends and (load.flags, load.memsz) == (PF.R, load.filesz) and may_move(before, inside)
    place = aligned(max(ends, default=0), section.alignment)
    if not is_ours or place + section.size > load.file_end:
        return None
    source.seek(place)
    return None if any(source.read(load.file_end - place)) else (load, place)


def write_headers_moved(source: BufferedReader, out_path: Path, before: Tables, section: LoadedSection) -> Plan:
    """Put a longer program header table before the section. Raises BuildError where the address space ends."""
    _refuse_full_tables(before)
    page, first = page_of(before), before.loads[0]
    # Kernels before 5.18 give AT_PHDR as e_phoff plus this difference of the first PT_LOAD.
    shift = first.vaddr - first.offset
    if shift % page:
        raise BuildError(section.name, None, "PT_LOAD", "the first one's p_vaddr and p_offset differ within a page")
    alignment = max(section.alignment, 8)
    phoff = max(aligned(_contents_end(before), alignment), aligned(_memory_end(before), page) - shift)
    if phoff > size_of(source) + MAX_HOLE:
        raise BuildError(section.name, None, "PT_LOAD", f"the file would need a hole up to {phoff:#x}")
    count = len(before.segments) + 1 + _names_more(before, section)
    place = aligned(phoff + count * SEGMENT_SIZE, alignment)
    load = _read_only(phoff, phoff + shift, place + section.size - phoff, page)
    plan = _placed(before, replace(_with_load(before, load), phoff=phoff), section, place, shift)
    return _lay_out(source, out_path, before, plan)


def _read_only(offset: int, address: int, size: int, page: int) -> Segment:
    return Segment(PT.LOAD, PF.R, offset, address, address, size, size, page)


def _names_more(before: Tables, section: LoadedSection) -> int:
    """Whether the program header that names the section is one more."""
    return int(all(one.type != section.segment_type for one in before.segments))


def _refuse_full_tables(before: Tables) -> None:
    if len(before.segments) + 2 >= PN_XNUM or len(before.sections) + 1 >= MAX_SECTIONS:
        raise BuildError("", None, "e_shnum", "the tables have as many headers as the ELF header can count")


def _memory_end(before: Tables) -> int:
    return max(load.vaddr + load.memsz for load in before.loads)


def _contents_end(before: Tables) -> int:
    """The file offset behind all that stays where it is: not the section names and their table, which are rewritten."""
    kept = (one for index, one in enumerate(before.sections) if index != before.shstrndx or _names_are_loaded(before))
    ends = [one.offset + one.size for one in kept if one.type not in (SHT.NULL, SHT.NOBITS) and one.size]
    ends += [one.file_end for one in before.segments]
    return max(*ends, before.phoff + len(before.segments) * SEGMENT_SIZE)


def _names_are_loaded(before: Tables) -> bool:
    return before.sections[before.shstrndx].is_loaded


def described_end(before: Tables) -> int:
    """The file offset behind all that headers describe; what follows (an archive, a signature) must end the file."""
    names = before.sections[before.shstrndx]
    table_end = before.shoff + len(before.sections) * SECTION_SIZE
    return max(_contents_end(before), names.offset + names.size, table_end)


def _behind_one_another(front: Front, before: Tables, offset: int) -> tuple[dict[int, int], int]:
    """The offsets that the sections which move get, from `offset` on, and the end."""
    places = dict(front.near)
    for index in front.away:
        places[index] = aligned(offset, before.sections[index].addralign)
        offset = places[index] + before.sections[index].size
    return places, offset


def _moved(before: Tables, front: Front, places: dict[int, int], shift: int) -> Tables:
    """The sections that move, and the segments that show them, at their new places."""
    sections, segments = list(before.sections), list(before.segments)
    for index, offset in places.items():
        # Those that stay near keep the first PT_LOAD's distance.
        added = shift if index in front.away else before.sections[index].address - before.sections[index].offset
        sections[index] = replace(sections[index], offset=offset, address=offset + added)
    for number, index in front.shown.items():
        new, old = sections[index], before.segments[number]
        segments[number] = replace(old, offset=new.offset, vaddr=new.address, paddr=new.address)
    left = tuple(one for number, one in enumerate(segments) if number not in front.dropped)
    return replace(before, sections=tuple(sections), segments=left)


def _with_load(tables: Tables, load: Segment) -> Tables:
    """One PT_LOAD more, behind the others: they are in the order of their addresses."""
    if load.vaddr + load.memsz > ADDRESS_LIMIT:
        raise BuildError("", None, "PT_LOAD", "the address space has no room behind the last one")
    last = max(index for index, one in enumerate(tables.segments) if one.type == PT.LOAD)
    return replace(tables, segments=(*tables.segments[: last + 1], load, *tables.segments[last + 1 :]))


def _placed(before: Tables, tables: Tables, section: LoadedSection, offset: int, shift: int) -> Plan:
    """The section's header: the first of its name, or one more at the end; no index may change, symbols hold them."""
    header = SectionHeader(0, section.section_type, SHF.ALLOC, offset + shift, offset, section.size, 0, 0, 0, 0)
    if olds := before.indices_of(section.name):
        index, sections = olds[0], list(tables.sections)
        sections[index] = replace(header, name_offset=sections[index].name_offset)
        return Plan(index, replace(tables, sections=tuple(sections)))
    added = replace(tables, sections=(*tables.sections, header), names=(*tables.names, section.name.encode()))
    return Plan(len(tables.sections), added)


def _lay_out(source: BufferedReader, out_path: Path, before: Tables, plan: Plan) -> Plan:
    """Copy what stays; behind the section come the names, the section header table, and what no header describes."""
    sections = list(plan.tables.sections)
    end = max(_contents_end(before), plan.place.offset + plan.place.size)
    patches = plan.patches
    if not _names_are_loaded(before):
        text, sections[plan.index] = _names_with(source, before, plan)
        sections[before.shstrndx] = replace(before.sections[before.shstrndx], offset=end, size=len(text))
        patches = (*patches, (end, text))
        end += len(text)
    elif len(sections) > len(before.sections):
        raise BuildError("", None, "e_shstrndx", "the section names are loaded and have no room for one more")
    shoff, trailer = aligned(end, 8), described_end(before)
    with out_path.open("wb") as out:
        copy_range(source, out, 0, _contents_end(before))
        out.truncate(shoff + len(sections) * SECTION_SIZE)
        out.seek(0, os.SEEK_END)
        copy_range(source, out, trailer, size_of(source) - trailer)
    return replace(plan, tables=replace(plan.tables, shoff=shoff, sections=tuple(sections)), patches=patches)


def _names_with(source: BufferedReader, before: Tables, plan: Plan) -> tuple[bytes, SectionHeader]:
    """The section names, longer by the section's if it is a new one, and its header with the place of its name."""
    names = before.sections[before.shstrndx]
    text = bytes_at(source, "e_shstrndx", names.offset, names.size)
    if len(plan.tables.sections) == len(before.sections):
        return text, plan.place
    name = plan.tables.names[-1] + b"\0"
    found = text.find(name)  # the end of another name serves as well
    return (
        (text, replace(plan.place, name_offset=found))
        if found >= 0
        else (
            text + name,
            replace(plan.place, name_offset=len(text)),
        )
    )
