"""Our own engines: they append a PT_LOAD after everything in the file, in two layouts.

Strategy: nothing moves, loaded or not; the new bytes follow it in the file, then the section names and the section
header table. Headers kept: the program header table grows in place, over the few sections after it, which move
(`make_room`); strip and objcopy see an ordinary file. Headers moved: a longer copy of the table goes into the new
PT_LOAD, which is possible in any file.
"""

from __future__ import annotations

import os
from dataclasses import replace
from io import BufferedReader
from pathlib import Path

from ....schemas.elf.headers import PN_XNUM
from ....schemas.elf.numbers import PF, PT, SHF, SHT
from ....schemas.section import BuildError
from ...files import copy_range, size_of
from ..tables import ADDRESS_LIMIT, MAX_SECTIONS, SECTION_SIZE, SEGMENT_SIZE, SectionHeader, Segment, Tables, bytes_at
from .make_room import Displaced, displace_sections, may_move
from .plan import LoadedSection, Plan, align_up, page_of

MAX_HOLE = 1 << 32  # bytes; a copy of the file may not be sparse


def write_headers_kept(source: BufferedReader, out_path: Path, before: Tables, section: LoadedSection) -> Plan:
    """Let the program header table grow in place. Raises BuildError if the sections after it cannot move."""
    _refuse_full_tables(before)
    more = _headers_to_add(before, section)
    spare = _spare_space(source, before, section, more)
    if spare is not None:
        displaced = displace_sections(source, before, more)
        if not displaced.away:
            load, place = spare
            plan = _kept_plan(before, section, displaced, load, place, dict(displaced.near))
            return _lay_out(source, out_path, before, plan)
    displaced = displace_sections(source, before, 1 + more)
    alignment = max([section.span_alignment] + [before.sections[index].addralign for index in displaced.away])
    offset = align_up(contents_end(before), alignment)
    page = page_of(before)
    address = align_up(_memory_end(before), page) + offset % page
    places, end = _moved_offsets(displaced, before, offset)
    place = align_up(end, section.span_alignment)
    load = _read_only(offset, address, place + section.span - offset, page)
    return _lay_out(source, out_path, before, _kept_plan(before, section, displaced, load, place, places))


def _kept_plan(
    before: Tables, section: LoadedSection, displaced: Displaced, load: Segment, place: int, places: dict[int, int]
) -> Plan:
    """The plan with the section at file offset `place` in `load`, which may be new, and moved sections at `places`."""
    shift = load.vaddr - load.offset
    tables = _move_sections(before, displaced, places, shift)
    plan = _add_parts(before, tables if load in before.loads else _add_load(tables, load), section, place, shift)
    return replace(plan, moved=displaced.moved, patches=displaced.patches(before, tables.sections))


def _spare_space(
    source: BufferedReader, before: Tables, section: LoadedSection, more: int
) -> tuple[Segment, int] | None:
    """The last PT_LOAD, if it is one of ours from which a section was removed, and the offset of that space."""
    load = max(before.loads, key=lambda one: one.vaddr)
    inside = [one for one in before.sections if one.is_loaded and one.size and load.holds(one)]
    ends = [one.offset + one.size for one in inside]
    if load.offset == before.phoff:
        ends.append(before.phoff + (len(before.segments) + more) * SEGMENT_SIZE)
    is_ours = ends and (load.flags, load.memsz) == (PF.R, load.filesz) and may_move(before, inside)
    place = align_up(max(ends, default=0), section.span_alignment)
    if not is_ours or place + section.span > load.file_end:
        return None
    source.seek(place)
    return None if any(source.read(load.file_end - place)) else (load, place)


def write_headers_moved(source: BufferedReader, out_path: Path, before: Tables, section: LoadedSection) -> Plan:
    """Put a longer program header table before the section. Raises BuildError at the end of the address space."""
    _refuse_full_tables(before)
    page, first = page_of(before), before.loads[0]
    # Kernels before 5.18 set AT_PHDR to e_phoff plus this difference of the first PT_LOAD.
    shift = first.vaddr - first.offset
    if shift % page:
        raise BuildError(section.name, None, "PT_LOAD", "p_vaddr and p_offset of the first one differ within a page")
    alignment = max(section.span_alignment, 8)
    phoff = max(align_up(contents_end(before), alignment), align_up(_memory_end(before), page) - shift)
    if phoff > size_of(source) + MAX_HOLE:
        raise BuildError(section.name, None, "PT_LOAD", f"the file would need a hole up to {phoff:#x}")
    count = len(before.segments) + 1 + _headers_to_add(before, section)
    place = align_up(phoff + count * SEGMENT_SIZE, alignment)
    load = _read_only(phoff, phoff + shift, place + section.span - phoff, page)
    plan = _add_parts(before, replace(_add_load(before, load), phoff=phoff), section, place, shift)
    return _lay_out(source, out_path, before, plan)


def _read_only(offset: int, address: int, size: int, page: int) -> Segment:
    return Segment(PT.LOAD, PF.R, offset, address, address, size, size, page)


def _headers_to_add(before: Tables, section: LoadedSection) -> int:
    """How many program headers of the section's own types are missing."""
    return len(set(section.segment_types) - {one.type for one in before.segments})


def _refuse_full_tables(before: Tables) -> None:
    if len(before.segments) + 2 >= PN_XNUM or len(before.sections) + 2 >= MAX_SECTIONS:
        raise BuildError("", None, "e_shnum", "the tables have as many headers as the ELF header can count")


def _memory_end(before: Tables) -> int:
    return max(load.vaddr + load.memsz for load in before.loads)


def contents_end(before: Tables) -> int:
    """The file offset after everything that stays: all but section names and section headers, which are rewritten."""
    kept = (one for index, one in enumerate(before.sections) if index != before.shstrndx or _names_are_loaded(before))
    ends = [one.offset + one.size for one in kept if one.type not in (SHT.NULL, SHT.NOBITS) and one.size]
    ends += [one.file_end for one in before.segments]
    return max(*ends, before.phoff + len(before.segments) * SEGMENT_SIZE)


def _names_are_loaded(before: Tables) -> bool:
    return before.sections[before.shstrndx].is_loaded


def described_end(before: Tables) -> int:
    """The file offset after everything that headers describe; what follows (an archive, a signature) must stay last."""
    names = before.sections[before.shstrndx]
    table_end = before.shoff + len(before.sections) * SECTION_SIZE
    return max(contents_end(before), names.offset + names.size, table_end)


def _moved_offsets(displaced: Displaced, before: Tables, offset: int) -> tuple[dict[int, int], int]:
    """The new offsets of sections that move, those that go away consecutively from `offset` on, and their end."""
    places = dict(displaced.near)
    for index in displaced.away:
        places[index] = align_up(offset, before.sections[index].addralign)
        offset = places[index] + before.sections[index].size
    return places, offset


def _move_sections(before: Tables, displaced: Displaced, places: dict[int, int], shift: int) -> Tables:
    """The tables with moved sections at their new offsets, and the program headers that refer to them updated."""
    sections, segments = list(before.sections), list(before.segments)
    for index, offset in places.items():
        # Sections that stay near keep the difference of their PT_LOAD.
        added = shift if index in displaced.away else before.sections[index].address - before.sections[index].offset
        sections[index] = replace(sections[index], offset=offset, address=offset + added)
    for number, index in displaced.shown.items():
        new, old = sections[index], before.segments[number]
        segments[number] = replace(old, offset=new.offset, vaddr=new.address, paddr=new.address)
    left = tuple(one for number, one in enumerate(segments) if number not in displaced.dropped)
    return replace(before, sections=tuple(sections), segments=left)


def _add_load(tables: Tables, load: Segment) -> Tables:
    """The tables with a new PT_LOAD after the others, since they are sorted by address."""
    if load.vaddr + load.memsz > ADDRESS_LIMIT:
        raise BuildError("", None, "PT_LOAD", "no address space is left after the last one")
    last = max(index for index, one in enumerate(tables.segments) if one.type == PT.LOAD)
    return replace(tables, segments=(*tables.segments[: last + 1], load, *tables.segments[last + 1 :]))


def _add_parts(before: Tables, tables: Tables, section: LoadedSection, offset: int, shift: int) -> Plan:
    """The plan with each part's header in place of the first of its name, or at the end: symbols hold indices."""
    sections, names, indices = list(tables.sections), list(tables.names), []
    for part, inside in zip(section.parts, section.offsets, strict=True):
        place = offset + inside
        header = SectionHeader(0, part.section_type, SHF.ALLOC, place + shift, place, part.size, 0, 0, 0, 0)
        if olds := before.indices_of(part.name):
            sections[olds[0]] = replace(header, name_offset=sections[olds[0]].name_offset)
        else:
            sections.append(header)
            names.append(part.name.encode())
        indices.append(olds[0] if olds else len(sections) - 1)
    return Plan(tuple(indices), replace(tables, sections=tuple(sections), names=tuple(names)))


def _lay_out(source: BufferedReader, out_path: Path, before: Tables, plan: Plan) -> Plan:
    """Copy what stays; after the section come the names, the section header table, and what no header describes."""
    sections = list(plan.tables.sections)
    end = max(contents_end(before), *(header.offset + header.size for header in plan.headers))
    patches = plan.patches
    if not _names_are_loaded(before):
        text = _name_new_sections(source, before, plan, sections)
        sections[before.shstrndx] = replace(before.sections[before.shstrndx], offset=end, size=len(text))
        patches = (*patches, (end, text))
        end += len(text)
    elif len(sections) > len(before.sections):
        raise BuildError("", None, "e_shstrndx", "the section name table is loaded and cannot grow")
    shoff, trailer = align_up(end, 8), described_end(before)
    with out_path.open("wb") as out:
        copy_range(source, out, 0, contents_end(before))
        out.truncate(shoff + len(sections) * SECTION_SIZE)
        out.seek(0, os.SEEK_END)
        copy_range(source, out, trailer, size_of(source) - trailer)
    return replace(plan, tables=replace(plan.tables, shoff=shoff, sections=tuple(sections)), patches=patches)


def _name_new_sections(source: BufferedReader, before: Tables, plan: Plan, sections: list[SectionHeader]) -> bytes:
    """The section names, extended by those of new sections, whose headers get the offsets of their names."""
    names = before.sections[before.shstrndx]
    text = bytes_at(source, "e_shstrndx", names.offset, names.size)
    for index in range(len(before.sections), len(sections)):
        name = plan.tables.names[index] + b"\0"
        found = text.find(name)  # the tail of another name will do
        if found < 0:
            found, text = len(text), text + name
        sections[index] = replace(sections[index], name_offset=found)
    return text
