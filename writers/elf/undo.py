"""The file that one of our engines added a section to, made again from the result.

Strategy: an engine leaves no record of what it changed. So candidates are made: the section and its headers go away,
what the engine had moved goes back to where linkers place it, and the file ends where it would without the section. A
candidate is right if the engine, run on it, writes the given file again, byte for byte: then nothing else was lost.
"""

from __future__ import annotations

import filecmp
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from io import BufferedReader
from pathlib import Path

from ...schemas.data_classes import dataclass
from ...schemas.elf.numbers import PF, PT, SHF, SHT
from ...schemas.section import BuildError
from ..files import copy_range, size_of, take_owner_and_mode
from .add import HEADERS_KEPT, HEADERS_MOVED, LIEF, write_by_engines
from .engines.make_room import dynamic_pointers, section_symbols
from .engines.native import contents_end, described_end
from .engines.plan import LoadedSection, align_up
from .tables import (
    HEADER_SIZE,
    SECTION_SIZE,
    SEGMENT_SIZE,
    SectionHeader,
    Segment,
    Tables,
    bytes_at,
    enclose_program_headers,
    pack_segments,
    put,
    write_tables,
)

MAX_CANDIDATES = 16


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Tables without the section, and the `engine` that would add it; `patches` are file offsets and bytes to write."""

    engine: str
    tables: Tables
    patches: tuple[tuple[int, bytes], ...] = ()


def undo_addition(path: Path, out_path: Path, before: Tables, name: str, segment_type: int) -> Tables | None:
    """Write the file that a native engine had added the section `name` to, to `out_path`, and return its tables; None
    if there is no such file. The result is checked like any that the engine writes."""
    found = before.indices_of(name, f".rela{name}", f".rel{name}")
    types = [one.type for one in before.segments]
    if found != (len(before.sections) - 1,) or types.count(segment_type) != 1:
        return None
    header, load = before.sections[-1], max(before.loads, key=lambda one: one.vaddr)
    is_ours = load.holds(header) and (load.flags, load.memsz, header.flags) == (PF.R, load.filesz, SHF.ALLOC)
    if not is_ours or not header.size or before.shstrndx in found:
        return None
    again = out_path.with_name(f"{out_path.name}.again")
    try:
        with path.open("rb") as source:
            data = bytes_at(source, name, header.offset, header.size)
            section = LoadedSection(name, header.type, segment_type, header.size, lambda _: data, header.addralign)
            for number, one in enumerate(_candidates(source, before, load, segment_type)):
                if number == MAX_CANDIDATES:
                    return None
                tables = _write(source, out_path, before, one)
                if _is_made_again(path, out_path, again, section, one.engine):
                    return tables
    finally:
        again.unlink(missing_ok=True)
    return None


def _is_made_again(path: Path, candidate: Path, again: Path, section: LoadedSection, engine: str) -> bool:
    try:
        write_by_engines(candidate, again, section, (engine,))
    except BuildError:
        return False
    return filecmp.cmp(path, again, shallow=False)


def _candidates(source: BufferedReader, before: Tables, load: Segment, segment_type: int) -> Iterator[_Candidate]:
    segments = [one for one in before.segments if one != load and one.type != segment_type]
    tables = replace(before, sections=before.sections[:-1], names=before.names[:-1])
    for one in _with_program_headers(source, tables, load, segments):
        yield from _with_names(source, before, one)


def _with_program_headers(
    source: BufferedReader, tables: Tables, load: Segment, segments: list[Segment]
) -> Iterator[_Candidate]:
    """Candidates with the program headers, and what their growth had displaced, where they were."""
    if load.offset == tables.phoff > HEADER_SIZE:
        enclosed = enclose_program_headers(segments, HEADER_SIZE)
        back = replace(tables, phoff=HEADER_SIZE, segments=enclosed)
        if bytes_at(source, "e_phoff", HEADER_SIZE, len(segments) * SEGMENT_SIZE) == pack_segments(back):
            yield _Candidate(HEADERS_MOVED, back)
        return
    inside = [index for index, one in enumerate(tables.sections) if one.is_loaded and one.size and load.holds(one)]
    holder = next((one for one in segments if one.type == PT.LOAD and one.offset <= tables.phoff < one.file_end), None)
    if holder is None:
        return
    if tables.phoff > HEADER_SIZE:
        yield from _by_lief(source, tables, load, holder, segments)
        return
    movable = _movable(tables, holder, inside)
    has_note = any(one.type == PT.GNU_PROPERTY for one in segments)
    for with_note in (True, False) if has_note else (False,):
        for count in range(len(movable) + 1):
            if set(inside) <= set(movable[:count]):
                with_one = _moved_back(source, tables, holder, segments, movable[:count], inside, with_note)
                if with_one is not None:
                    yield with_one


def _by_lief(
    source: BufferedReader, tables: Tables, load: Segment, holder: Segment, segments: list[Segment]
) -> Iterator[_Candidate]:
    """The candidate with the program headers where they were before lief moved them into a gap after the sections of
    `holder`, and the sections that are not loaded one after the other."""
    stored = [one for one in tables.sections if one.type not in (SHT.NULL, SHT.NOBITS)]
    end = max((one.offset + one.size for one in stored if holder.holds(one)), default=holder.offset)
    shorter = replace(holder, filesz=end - holder.offset, memsz=end - holder.offset)
    enclosed = enclose_program_headers([shorter if one == holder else one for one in segments], HEADER_SIZE)
    size = len(segments) * SEGMENT_SIZE
    if bytes_at(source, "e_phoff", HEADER_SIZE, size) != pack_segments(replace(tables, segments=enclosed)):
        return
    sections, patches = list(tables.sections), [(end, bytes(holder.file_end - end))]
    back = replace(tables, phoff=HEADER_SIZE, segments=enclosed)
    indices = [index for index, one in enumerate(sections) if not one.is_loaded and one.offset >= load.file_end]
    moved = [index for index in indices if index != tables.shstrndx]
    taken = [(one.offset, one.file_end) for one in enclosed]
    loaded_end = max(one.file_end for one in enclosed if one.type == PT.LOAD)
    taken += [(one.offset, one.offset + one.size) for one in stored if one.offset < load.file_end]
    for index in sorted(moved, key=lambda index: tables.sections[index].offset):
        one = sections[index]
        place = _first_free(sorted(taken), loaded_end, one.size, one.addralign)
        before = max(stop for _, stop in taken if stop <= place)
        taken.append((place, place + one.size))
        patches.append((before, bytes(place - before)))
        sections[index] = replace(one, offset=place)
        patches.append((place, _bytes_of(source, tables, index)))
    yield _Candidate(LIEF, replace(back, sections=tuple(sections)), tuple(patches))


def _first_free(taken: list[tuple[int, int]], start: int, size: int, alignment: int) -> int:
    """The first offset from `start` on at which none of the ascending ranges is in the way."""
    place = align_up(start, alignment)
    for begin, stop in taken:
        if place + size <= begin:
            break
        if stop > place:
            place = align_up(stop, alignment)
    return place


def _movable(tables: Tables, holder: Segment, inside: list[int]) -> list[int]:
    """The first sections, as far as each is in the added segment, or a note that may have been moved in its own."""
    found = []
    for index, one in enumerate(tables.sections[1:], 1):
        if index not in inside and not (one.type == SHT.NOTE and holder.holds(one)):
            break
        found.append(index)
    return found


def _moved_back(
    source: BufferedReader,
    tables: Tables,
    holder: Segment,
    segments: list[Segment],
    moved: list[int],
    inside: list[int],
    with_note: bool,
) -> _Candidate | None:
    """The candidate with the `moved` sections one after the other behind the program headers, as linkers place them;
    with the PT_NOTE that PT_GNU_PROPERTY repeats, if `with_note`. None if they do not fit there."""
    start = end = tables.phoff + (len(segments) + with_note) * SEGMENT_SIZE
    sections, shift = list(tables.sections), holder.vaddr - holder.offset
    for index in moved:
        offset = align_up(end, sections[index].addralign)
        sections[index] = replace(sections[index], offset=offset, address=offset + shift)
        end = offset + sections[index].size
    others = (
        one for index, one in enumerate(sections) if index not in moved and one.type not in (SHT.NULL, SHT.NOBITS)
    )
    limit = min((one.offset for one in others if one.size and one.offset > tables.phoff), default=holder.file_end)
    if end > limit:
        return None
    places = {tables.sections[index].offset: sections[index] for index in moved}
    shown = [_shown_at(one, places) for one in segments]
    if with_note:
        shown = _with_property_note(shown)
    try:
        pointers = dict(section_symbols(source, tables, tuple(moved))) | dict(dynamic_pointers(source, tables, inside))
    except BuildError:
        return None
    data = [(sections[index].offset, _bytes_of(source, tables, index)) for index in moved]
    values = [(offset, struct.pack(f"{tables.order}Q", sections[index].address)) for offset, index in pointers.items()]
    patches = ((start, bytes(limit - start)), *data, *values)
    back = replace(tables, segments=enclose_program_headers(shown, tables.phoff), sections=tuple(sections))
    return _Candidate(HEADERS_KEPT, back, patches)


def _bytes_of(source: BufferedReader, tables: Tables, index: int) -> bytes:
    one = tables.sections[index]
    return bytes_at(source, tables.names[index].decode(errors="replace"), one.offset, one.size)


def _shown_at(segment: Segment, places: dict[int, SectionHeader]) -> Segment:
    """A program header that refers to moved sections, with their new place."""
    if segment.type in (PT.LOAD, PT.PHDR) or segment.offset not in places:
        return segment
    first = places[segment.offset]
    return replace(segment, offset=first.offset, vaddr=first.address, paddr=first.address)


def _with_property_note(segments: list[Segment]) -> list[Segment]:
    """With a PT_NOTE for what PT_GNU_PROPERTY refers to: by address among the others, as linkers write them, or after
    PT_LOAD and PT_DYNAMIC."""
    note = next(replace(one, type=PT.NOTE) for one in segments if one.type == PT.GNU_PROPERTY)
    notes = [index for index, one in enumerate(segments) if one.type == PT.NOTE]
    earlier = [index for index in notes if segments[index].vaddr < note.vaddr]
    first = [index for index, one in enumerate(segments) if one.type in (PT.PHDR, PT.INTERP, PT.LOAD, PT.DYNAMIC)]
    place = earlier[-1] + 1 if earlier else notes[0] if notes else first[-1] + 1
    return [*segments[:place], note, *segments[place:]]


def _with_names(source: BufferedReader, before: Tables, one: _Candidate) -> Iterator[_Candidate]:
    """Candidates with the section names without that of the section, and the section headers after everything."""
    tables = one.tables
    names, header = before.sections[before.shstrndx], before.sections[-1]
    if names.is_loaded:
        yield replace(one, tables=replace(tables, shoff=align_up(contents_end(tables), 8)))
        return
    text = bytes_at(source, "e_shstrndx", names.offset, names.size)
    if one.engine == LIEF:
        text, tables = _named_in_order(tables)
    own = before.names[-1] + b"\0"
    is_used = any(section.name_offset >= header.name_offset for section in tables.sections)
    if one.engine != LIEF and text[header.name_offset :] == own and not is_used:
        text = text[: header.name_offset]
    end = contents_end(tables)
    for offset in (*_gaps_with(source, tables, text, end), end):
        sections = list(tables.sections)
        sections[before.shstrndx] = replace(sections[before.shstrndx], offset=offset, size=len(text))
        shoff = align_up(max(end, offset + len(text)), 8)
        patches = (*one.patches, (offset, text))
        yield replace(one, tables=replace(tables, shoff=shoff, sections=tuple(sections)), patches=patches)


def _named_in_order(tables: Tables) -> tuple[bytes, Tables]:
    """The section names as GNU ld writes them: a name that another one ends with is not repeated."""
    first = [name for name in (b".symtab", b".strtab", b".shstrtab") if name in tables.names]
    wanted = dict.fromkeys([*first, *filter(None, tables.names)])
    kept = [name for name in wanted if not any(other != name and other.endswith(name) for other in wanted)]
    text = b"\0" + b"".join(name + b"\0" for name in kept)
    places = [text.index(name + b"\0") if name else 0 for name in tables.names]
    sections = (replace(one, name_offset=place) for one, place in zip(tables.sections, places, strict=True))
    return text, replace(tables, sections=tuple(sections))


def _gaps_with(source: BufferedReader, tables: Tables, text: bytes, end: int) -> Iterator[int]:
    """The file offset of this text between the sections: linkers other than GNU ld put the names there, and our engines
    leave them."""
    with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = data.find(text, 0, end)
    stored = (one for one in tables.sections if one.type not in (SHT.NULL, SHT.NOBITS))
    ranges = [(one.offset, one.offset + one.size) for index, one in enumerate(stored) if one.size]
    ranges += [(one.offset, one.file_end) for one in tables.segments]
    if text and found >= 0 and not any(start < found + len(text) and found < stop for start, stop in ranges):
        yield found


def _write(source: BufferedReader, out_path: Path, before: Tables, one: _Candidate) -> Tables:
    """Write a candidate; what follows everything that headers describe stays last."""
    trailer = described_end(before)
    with out_path.open("wb") as out:
        copy_range(source, out, 0, contents_end(one.tables))
        out.truncate(one.tables.shoff + len(one.tables.sections) * SECTION_SIZE)
        out.seek(0, os.SEEK_END)
        copy_range(source, out, trailer, size_of(source) - trailer)
    with out_path.open("r+b") as out:
        for offset, patch in one.patches:
            put(out, offset, patch)
        write_tables(source, out, one.tables)
        take_owner_and_mode(source, out)
    return one.tables
