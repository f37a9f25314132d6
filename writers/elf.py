"""One loaded section added to, or replaced in, a finished ELF64 executable or shared library.

Strategy: no address may move, so lief (SEGMENT_GAP) puts the program headers into a gap between two PT_LOADs and the
section into a PT_LOAD of its own at the end. lief chooses the places, moves what is not loaded and renames; whatever
else it writes is unreliable (.gnu.hash, .bss, sh_info, p_align, section indices), so the loaded bytes and the header
tables are written once more from the input. An older section with enough room is overwritten instead, without lief.
`elf_check` judges the result by itself, and only a faultless file is renamed into place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from ..schemas.section import BuildError, ParseError
from .elf_check import ExpectedSection, check_added
from .elf_tables import (
    MAX_PAGE,
    MIN_PAGE,
    NULL_SECTION,
    PF,
    PT,
    SHF,
    SHT,
    SectionHeader,
    Segment,
    Tables,
    around_program_headers,
    is_alone,
    put,
    read_tables,
    refuse_unsuitable,
    write_tables,
)
from .files import rewriting, take_owner_and_mode


@dataclass(frozen=True, slots=True)
class LoadedSection:
    """A section that the program's loader maps, read-only.

    `segment_type` is that of the program header that names it; `size` is in bytes and `content(address)` must return
    exactly that many, given the section's final virtual address.
    """

    name: str
    section_type: int
    segment_type: int
    size: int
    content: Callable[[int], bytes]
    alignment: int = 8


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What was written.

    `engine` is "lief", or "in place" where an older section had room; `replaced` has the sizes in bytes of the older
    sections of that name, in the order of their headers.
    """

    engine: str
    address: int
    file_offset: int
    replaced: tuple[int, ...]


def write_section(path: Path, out_path: Path, section: LoadedSection) -> WriteReport:
    """Write `path` with `section` added, or put for all those of its name, to `out_path` (which may be `path`).

    Links in `out_path` are followed; owner and mode are the input's. Raises ParseError if the input is not whole ELF,
    BuildError if it cannot be given the section; `out_path` is then as it was.
    """
    if out_path.exists() and not out_path.is_file():
        raise BuildError("", None, "", f"{out_path.resolve()} is not a regular file")
    if section.size <= 0:
        raise BuildError(section.name, None, "sh_size", f"is {section.size}: there is nothing to load")
    with path.open("rb") as source:
        before = read_tables(source)
        refuse_unsuitable(before, os.fstat(source.fileno()).st_size, section.name)
        with rewriting(out_path) as temporary:
            plan = _write_in_place(source, temporary, before, section)
            plan = plan or _write_by_lief(source, temporary, before, section)
            data = _finish(source, temporary, before, plan, section)
            expected = ExpectedSection(
                section.name, section.section_type, section.segment_type, plan.place.address, data, section.alignment
            )
            if faults := check_added(path, temporary, expected):
                raise BuildError(section.name, None, "check", f"{plan.engine}, faults found: {'; '.join(faults)}")
    replaced = tuple(before.sections[index].size for index in before.indices_of(section.name))
    return WriteReport(plan.engine, plan.place.address, plan.place.offset, replaced)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the section goes: `tables.sections[index]` has its name, address and offset, and nothing else yet."""

    engine: str
    index: int
    tables: Tables

    @property
    def place(self) -> SectionHeader:
        return self.tables.sections[self.index]


def _write_in_place(source: BufferedReader, out_path: Path, before: Tables, section: LoadedSection) -> _Plan | None:
    """Copy the input if an older section has room, or can grow because it is all of the last PT_LOAD; else None."""
    if all(segment.type != section.segment_type for segment in before.segments):
        return None  # One program header more is needed, and there is no room for it.
    for index in before.indices_of(section.name):
        old = before.sections[index]
        load = next((one for one in before.loads if one.holds(old)), None)
        if load is None or not old.is_loaded or old.type == SHT.NOBITS or old.address % section.alignment:
            continue
        alone = is_alone(before, load, index)
        excess = max(0, section.size - (load.filesz if alone else old.size))
        if load.flags & (PF.R | PF.W) != PF.R or (excess and not alone):
            continue
        growth = -(-excess // MIN_PAGE) * MIN_PAGE  # whole pages: what follows in the file stays aligned
        with out_path.open("wb") as out:
            _copy(source, out, 0, load.file_end)
            out.write(bytes(growth))
            source.seek(load.file_end)
            shutil.copyfileobj(source, out)
        grown = replace(load, filesz=load.filesz + growth, memsz=load.memsz + growth)
        tables = replace(
            before,
            shoff=before.shoff + (growth if before.shoff >= load.file_end else 0),
            segments=tuple(grown if one == load else one for one in before.segments),
            sections=tuple(
                replace(one, offset=one.offset + growth) if not one.is_loaded and one.offset >= load.file_end else one
                for one in before.sections
            ),
        )
        return _Plan("in place", index, tables)
    return None


def _write_by_lief(source: BufferedReader, out_path: Path, before: Tables, section: LoadedSection) -> _Plan:
    """Have lief make room for one PT_LOAD more and move what is not loaded; the loaded bytes are the input's."""
    # A p_align above the largest page (2 MiB on older x86-64) would only leave a hole in the file.
    page = max(MIN_PAGE, min(MAX_PAGE, max(load.align for load in before.loads)))
    address, offset = _place_by_lief(source, out_path, section, page)
    with out_path.open("r+b") as out:
        try:
            after = read_tables(out)
        except ParseError as fault:
            raise BuildError(section.name, None, fault.record, f"lief's result is no ELF file: {fault}") from fault
        for load in before.loads:
            out.seek(load.offset)
            _copy(source, out, load.offset, load.filesz)
    places = {(load.offset, load.vaddr) for load in before.loads}
    if {(load.offset, load.vaddr) for load in after.loads if load.vaddr != address} != places:
        raise BuildError(section.name, None, "PT_LOAD", "lief did not keep the loadable segments where they were")
    added = Segment(PT.LOAD, PF.R, offset, address, address, section.size, section.size, page)
    last = max(index for index, one in enumerate(before.segments) if one.type == PT.LOAD)
    segments = (*before.segments[: last + 1], added, *before.segments[last + 1 :])
    sections, names = _sections_by_lief(before, after, section.name, address)
    tables = replace(before, phoff=after.phoff, shoff=after.shoff, segments=segments, sections=sections, names=names)
    return _Plan("lief", tables.indices_of(section.name)[0], tables)


def _place_by_lief(source: BufferedReader, out_path: Path, section: LoadedSection, page: int) -> tuple[int, int]:
    """Write `out_path` through lief and return the virtual address and the file offset of the section."""
    import lief  # costs 275 ms

    try:
        str(out_path).encode()
    except UnicodeEncodeError as fault:
        raise BuildError(section.name, None, "", "the folder's path is not UTF-8, which lief needs") from fault
    elf = lief.ELF
    config = elf.ParserConfig()
    # Without the symbol versions lief drops .gnu.version_r; the rest is never rebuilt and need not be parsed.
    config.parse_relocations = config.parse_dyn_symbols = config.parse_symtab_symbols = config.parse_notes = False
    config.page_size = page
    build = elf.Builder.config_t()
    for flag in (name for name in dir(build) if not name.startswith("_")):
        setattr(build, flag, False)
    source.seek(0)
    with lief.logging.level_scope(lief.logging.LEVEL.OFF):
        binary = elf.parse(source, config)
        if binary is None:
            raise BuildError(section.name, None, "ELF", "lief cannot read the file")
        # 0: lief would now shift the whole file instead.
        if binary.relocate_phdr_table(elf.Binary.PHDR_RELOC.SEGMENT_GAP) == 0:
            reason = f"no gap between loadable segments has room for twice the {len(binary.segments)} program headers"
            raise BuildError(section.name, None, "PT_PHDR", f"{reason}, as lief asks; addresses would have to move")
        wanted = elf.Section(section.name)
        wanted.flags = int(SHF.ALLOC)
        wanted.alignment = section.alignment
        wanted.content = memoryview(bytes(section.size))
        added = binary.add(wanted, loaded=True)
        if added is None:
            raise BuildError(section.name, None, "PT_LOAD", "lief cannot add a loadable segment")
        binary.write(str(out_path), build)
    return added.virtual_address, added.file_offset


def _sections_by_lief(
    before: Tables, after: Tables, name: str, address: int
) -> tuple[tuple[SectionHeader, ...], tuple[bytes, ...]]:
    """The input's section headers and names, moved as lief moved what is not loaded; the added section is first of
    its name, or comes last: no index may change, since symbols hold them."""
    added = next((index for index in after.indices_of(name) if after.sections[index].address == address), None)
    if added is None:
        raise BuildError(name, None, "section header", "lief lost the new section")
    # lief may put .shstrtab last, so by name; equal names keep their order.
    moved: dict[bytes, list[SectionHeader]] = {found: [] for found in before.names}
    for index, found in enumerate(after.names):
        if index != added and found in moved:
            moved[found].append(after.sections[index])
    sections = []
    for index, (old, kept) in enumerate(zip(before.sections, before.names, strict=True)):
        if not moved[kept]:
            raise BuildError(name, None, "section header", f"lief lost the section {kept.decode(errors='replace')}")
        new = moved[kept].pop(0)
        offset = old.offset if old.is_loaded else new.offset
        size = new.size if index == before.shstrndx else old.size
        sections.append(replace(old, name_offset=new.name_offset, offset=offset, size=size))
    olds = before.indices_of(name)
    if not olds:
        return (*sections, after.sections[added]), (*before.names, name.encode())
    sections[olds[0]] = after.sections[added]
    return tuple(sections), before.names


def _finish(source: BufferedReader, out_path: Path, before: Tables, plan: _Plan, section: LoadedSection) -> bytes:
    """Write the tables and the section's bytes, which are returned; clear older sections, restore owner and mode."""
    data = section.content(plan.place.address)
    if len(data) != section.size:
        raise BuildError(section.name, None, "sh_size", f"{section.size} bytes were announced, {len(data)} came")
    tables = _tables_with(plan, section)
    with out_path.open("r+b") as out:
        for old in (before.sections[index] for index in before.indices_of(section.name)):
            if old.type != SHT.NOBITS and any(load.holds(old) for load in before.loads):
                put(out, old.offset, bytes(old.size))
        put(out, plan.place.offset, data)
        write_tables(source, out, tables)
        take_owner_and_mode(source, out)
    return data


def _tables_with(plan: _Plan, section: LoadedSection) -> Tables:
    """The plan's tables with the section's own headers; any other section or segment of its kind is dropped."""
    tables, place = plan.tables, plan.place
    size, align = section.size, section.alignment
    header = SectionHeader(
        place.name_offset, section.section_type, SHF.ALLOC, place.address, place.offset, size, 0, 0, align, 0
    )
    named = Segment(section.segment_type, PF.R, place.offset, place.address, place.address, size, size, align)
    sections = list(tables.sections)
    for index in tables.indices_of(section.name):
        sections[index] = header if index == plan.index else NULL_SECTION
    segments = [one for one in tables.segments if one.type != section.segment_type]
    at = next((i for i, one in enumerate(tables.segments) if one.type == section.segment_type), len(segments))
    segments.insert(at, named)
    return replace(tables, segments=around_program_headers(segments, tables.phoff), sections=tuple(sections))


def _copy(source: BufferedReader, out: BinaryIO, offset: int, size: int) -> None:
    """Copy `size` bytes at `offset` in `source` to where `out` stands."""
    source.seek(offset)
    while size and (piece := source.read(min(size, 1 << 20))):
        out.write(piece)
        size -= len(piece)
