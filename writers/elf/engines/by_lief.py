"""The engine that uses lief: lief adds a PT_LOAD, and no address changes.

Strategy: lief (SEGMENT_GAP) moves the program headers into a gap between two PT_LOADs and the section into its own
PT_LOAD at the end. lief chooses the addresses and offsets and moves what is not loaded; whatever else it writes is
unreliable (.gnu.hash, .bss, sh_info, p_align, section indices), so the loaded bytes and the header tables are written
again from the input.
"""

from __future__ import annotations

from dataclasses import replace
from io import BufferedReader
from pathlib import Path

from ....schemas.elf.numbers import PF, PT, SHF
from ....schemas.section import BuildError, ParseError
from ...files import copy_range
from ..tables import SectionHeader, Segment, Tables, read_tables
from .plan import LoadedSection, Plan, page_of


def write_by_lief(source: BufferedReader, out_path: Path, before: Tables, section: LoadedSection) -> Plan:
    """Have lief add a PT_LOAD and move what is not loaded; the loaded bytes are the input's."""
    page = page_of(before)
    address, offset = _place_by_lief(source, out_path, section, page)
    with out_path.open("r+b") as out:
        try:
            after = read_tables(out)
        except ParseError as fault:
            raise BuildError(section.name, None, fault.record, f"lief's result is not an ELF file: {fault}") from fault
        for load in before.loads:
            out.seek(load.offset)
            copy_range(source, out, load.offset, load.filesz)
    places = {(load.offset, load.vaddr) for load in before.loads}
    if {(load.offset, load.vaddr) for load in after.loads if load.vaddr != address} != places:
        raise BuildError(section.name, None, "PT_LOAD", "lief did not keep the loadable segments where they were")
    added = Segment(PT.LOAD, PF.R, offset, address, address, section.span, section.span, page)
    last = max(index for index, one in enumerate(before.segments) if one.type == PT.LOAD)
    segments = (*before.segments[: last + 1], added, *before.segments[last + 1 :])
    sections, names = _sections_by_lief(before, after, section, address)
    tables = replace(before, phoff=after.phoff, shoff=after.shoff, segments=segments, sections=sections, names=names)
    return Plan(tuple(tables.indices_of(name)[0] for name in section.names), tables)


def _place_by_lief(source: BufferedReader, out_path: Path, section: LoadedSection, page: int) -> tuple[int, int]:
    """Write `out_path` with lief; returns the virtual address and the file offset of the section."""
    try:
        import lief  # costs 275 ms
    except ImportError as fault:  # distributions have no package of it, and free-threaded Python 3.13 no wheel
        raise BuildError(section.name, None, "writer", "lief is not installed (pip install lief)") from fault
    try:
        str(out_path).encode()
    except UnicodeEncodeError as fault:
        raise BuildError(section.name, None, "", "the directory's path is not UTF-8, which lief needs") from fault
    elf = lief.ELF
    config = elf.ParserConfig()
    # Without symbol versions, lief would drop .gnu.version_r; the rest is not rebuilt and need not be parsed.
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
        # 0: lief would shift the whole file instead.
        if binary.relocate_phdr_table(elf.Binary.PHDR_RELOC.SEGMENT_GAP) == 0:
            reason = f"no gap between loadable segments holds twice the {len(binary.segments)} program headers"
            raise BuildError(
                section.name, None, "PT_PHDR", f"{reason}, which lief needs; addresses would have to change"
            )
        wanted = elf.Section(section.name)
        wanted.flags = int(SHF.ALLOC)
        wanted.alignment = section.span_alignment
        wanted.content = memoryview(bytes(section.span))
        added = binary.add(wanted, loaded=True)
        if added is None:
            raise BuildError(section.name, None, "PT_LOAD", "lief cannot add a loadable segment")
        if section.following is not None:
            # Only for its header and name: its bytes go after those of the first section.
            named = elf.Section(section.following.name)
            named.content = memoryview(bytes(1))
            binary.add(named, loaded=False)
        binary.write(str(out_path), build)
    return added.virtual_address, added.file_offset


def _sections_by_lief(
    before: Tables, after: Tables, section: LoadedSection, address: int
) -> tuple[tuple[SectionHeader, ...], tuple[bytes, ...]]:
    """The input's section headers and names, with lief's offsets for what is not loaded. An added section replaces the
    first of its name, or is at the end: no index may change, because symbols hold section indices."""
    added = _headers_by_lief(after, section, address)
    # Matched by name, because lief may put .shstrtab last; equal names keep their order.
    moved: dict[bytes, list[SectionHeader]] = {found: [] for found in before.names}
    for index, found in enumerate(after.names):
        if index not in added and found in moved:
            moved[found].append(after.sections[index])
    sections, names = [], list(before.names)
    for index, (old, kept) in enumerate(zip(before.sections, before.names, strict=True)):
        if not moved[kept]:
            lost = f"lief lost the section {kept.decode(errors='replace')}"
            raise BuildError(section.name, None, "section header", lost)
        new = moved[kept].pop(0)
        offset = old.offset if old.is_loaded else new.offset
        size = new.size if index == before.shstrndx else old.size
        sections.append(replace(old, name_offset=new.name_offset, offset=offset, size=size))
    for name, header in zip(section.names, added.values(), strict=True):
        if olds := before.indices_of(name):
            sections[olds[0]] = header
        else:
            sections.append(header)
            names.append(name.encode())
    return tuple(sections), tuple(names)


def _headers_by_lief(after: Tables, section: LoadedSection, address: int) -> dict[int, SectionHeader]:
    """The headers of the parts, by their index in lief's result; a following section is placed after the first."""
    first = next((index for index in after.indices_of(section.name) if after.sections[index].address == address), None)
    if first is None:
        raise BuildError(section.name, None, "section header", "lief lost the new section")
    found = {first: after.sections[first]}
    if section.following is not None:
        name, inside = section.following.name, section.offsets[1]
        added = [index for index in after.indices_of(name) if not after.sections[index].is_loaded]
        if not added:
            raise BuildError(name, None, "section header", "lief lost the new section")
        place = {"address": address + inside, "offset": after.sections[first].offset + inside}
        found[added[-1]] = replace(after.sections[added[-1]], **place)
    return found
