"""Replace and add sections that are not loaded, in a copy of an ELF file of either class.

Strategy: everything up to the first changed section is copied. If only sections that are not loaded, the section
headers and data that no header describes come after it, all of these move up or down, so that no space is lost.
Otherwise a section stays in its place if it fits, and is appended to the file if not. The result is compared with the
input before it is renamed into place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BufferedRandom, BufferedReader
from pathlib import Path

from ...schemas.data_classes import dataclass
from ...schemas.elf.numbers import SHF, SHT
from ...schemas.section import BuildError
from ..files import copy_range, rewriting, size_of, take_attributes, take_owner_and_mode
from .checks.unloaded import ExpectedUnloaded, check_unloaded
from .engines.plan import align_up
from .section_table import SectionTable, has_bytes, read_section_table
from .tables import MAX_SECTIONS, SectionHeader, put

TABLE_ALIGNMENT = 8
NULL_BYTE = b"\0"
# Linkers and debug file tools leave at most padding between sections.
MAX_GAP = 1 << 16


@dataclass(frozen=True, slots=True)
class AddedSection:
    """A section to add: its name, and its bytes."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class UnloadedReport:
    """The sizes of the whole file in bytes."""

    size_before: int
    size_after: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """The new section headers and their file offset; `kept` bytes at the start of the file stay where they are, then
    follow pieces: bytes, or a range of the input, each at its file offset. `size` is that of the new file."""

    sections: list[SectionHeader]
    table_offset: int
    kept: int
    pieces: list[tuple[int, bytes | range]]
    size: int


def write_unloaded(
    path: Path,
    out_path: Path,
    replaced: Mapping[int, bytes],
    added: Sequence[AddedSection] = (),
    preserve_dates: bool = False,
) -> UnloadedReport:
    """Write `path` to `out_path` (which may be `path`) with other bytes in some sections, by index as stored, and with
    further sections at the end of the section table.

    Links in `out_path` are followed; owner and mode are the input's, and the times if `preserve_dates`. Raises
    ParseError if the input is not complete ELF, BuildError for a loaded section or a faulty result; `out_path` is then
    unchanged.
    """
    with path.open("rb") as source:
        before = read_section_table(source)
        for index in replaced:
            if before.sections[index].is_loaded:
                raise BuildError(
                    before.names[index].decode(errors="replace"), None, "sh_flags", "the section is loaded"
                )
        contents, new = _with_names(source, before, replaced, added)
        layout = _lay_out(source, before, contents, new)
        with rewriting(out_path) as temporary:
            with temporary.open("w+b") as out:
                _write(source, out, before, layout)
                take_owner_and_mode(source, out)
            expected = ExpectedUnloaded(dict(replaced), tuple((one.name, one.data) for one in added))
            if faults := check_unloaded(path, temporary, expected):
                raise BuildError("", None, "check", f"faults found: {'; '.join(faults)}")
            take_attributes(source, temporary, preserve_dates)
        return UnloadedReport(size_of(source), layout.size)


def _write(source: BufferedReader, out: BufferedRandom, before: SectionTable, layout: _Layout) -> None:
    copy_range(source, out, 0, layout.kept)
    for offset, piece in layout.pieces:
        out.seek(offset)
        if isinstance(piece, range):
            copy_range(source, out, piece.start, len(piece))
        else:
            out.write(piece)
    put(out, layout.table_offset, before.pack_sections(layout.sections))
    put(out, 0, before.pack_header(layout.table_offset, len(layout.sections)))
    out.truncate(layout.size)


def _with_names(
    source: BufferedReader, before: SectionTable, replaced: Mapping[int, bytes], added: Sequence[AddedSection]
) -> tuple[dict[int, bytes], list[tuple[SectionHeader, bytes]]]:
    """All changed contents by index, those of the section names included, and the added sections."""
    contents = dict(replaced)
    index = before.names_index
    header = before.sections[index]
    source.seek(header.offset)
    names = source.read(header.size)
    longer, new = names, []
    for one in added:
        stored = one.name.encode() + NULL_BYTE
        if NULL_BYTE + stored not in longer:
            longer += stored if longer.endswith(NULL_BYTE) else NULL_BYTE + stored
        place = longer.index(NULL_BYTE + stored) + 1
        new.append((SectionHeader(place, SHT.PROGBITS, 0, 0, 0, len(one.data), 0, 0, 1, 0), one.data))
    if len(before.sections) + len(new) >= MAX_SECTIONS > len(before.sections):
        raise BuildError("", None, "e_shnum", f"the file has {len(before.sections)} sections already")
    if longer != names:
        if header.is_loaded:
            raise BuildError("", None, "e_shstrndx", "the section names are loaded: no section can be added")
        contents[index] = longer
    return contents, new


def _lay_out(
    source: BufferedReader,
    before: SectionTable,
    contents: dict[int, bytes],
    new: list[tuple[SectionHeader, bytes]],
) -> _Layout:
    size = size_of(source)
    start = min((before.sections[index].offset for index in contents), default=size)
    if (end := _end_of_tail(source, before, start)) is not None:
        return _shifted(before, contents, new, (start, end, size))
    return _appended(before, contents, new, size)


def _end_of_tail(source: BufferedReader, before: SectionTable, start: int) -> int | None:
    """Where what headers describe ends, if from `start` on there are only sections that are not loaded, the section
    headers, and padding; else None."""
    stored = [one for one in before.sections if has_bytes(one)]
    is_debug_file = any(one.type == SHT.NOBITS and one.flags & SHF.EXECINSTR for one in before.sections)
    # The program headers of a separate debug file may describe the file that it was made from.
    segments = () if is_debug_file else before.segments
    if any(end > start for _, end in segments) or before.fields[5] >= start:
        return None
    if any(one.offset + one.size > start for one in stored if one.is_loaded):
        return None
    ranges = [(one.offset, one.offset + one.size) for one in stored if one.offset + one.size > start]
    if before.offset + before.size > start:
        ranges.append((before.offset, before.offset + before.size))
    end = start
    for begin, stop in sorted(ranges):
        if begin < end or begin - end > MAX_GAP:
            return None
        source.seek(end)
        if any(source.read(begin - end)):
            return None
        end = stop
    return end


def _shifted(
    before: SectionTable,
    contents: dict[int, bytes],
    new: list[tuple[SectionHeader, bytes]],
    bounds: tuple[int, int, int],
) -> _Layout:
    """Everything from `start` to `end` of the input one after another, in the same order; what follows stays last."""
    start, end, size = bounds
    sections, pieces, at = list(before.sections), list[tuple[int, bytes | range]](), start
    moving = [
        (one.offset, index)
        for index, one in enumerate(before.sections)
        if one.offset >= start and (has_bytes(one) or index in contents)
    ]
    for offset, index in sorted(moving):
        old = before.sections[index]
        piece = contents.get(index, range(offset, offset + old.size))
        at = align_up(at, _alignment(old))
        pieces.append((at, piece))
        sections[index] = replace(old, offset=at, size=len(piece))
        at += len(piece)
    at = _append_new(sections, pieces, new, at)
    table = before.offset
    if new or table >= start:
        table = align_up(at, TABLE_ALIGNMENT)
        at = table + len(before.pack_sections(sections))
        if before.offset < start:
            pieces.append((before.offset, bytes(before.size)))
    pieces.append((at, range(end, size)))
    return _Layout(_with_count(sections), table, start, pieces, at + size - end)


def _appended(
    before: SectionTable, contents: dict[int, bytes], new: list[tuple[SectionHeader, bytes]], size: int
) -> _Layout:
    """Each section in its place if it fits, otherwise at the end of the file; unused bytes become zero."""
    sections, pieces, at = list(before.sections), list[tuple[int, bytes | range]](), size
    for index, data in contents.items():
        old = before.sections[index]
        pieces.append((old.offset, bytes(old.size)))
        offset = old.offset
        if len(data) > old.size:
            at = offset = align_up(at, max(1, old.addralign))
            at += len(data)
        pieces.append((offset, data))
        sections[index] = replace(old, offset=offset, size=len(data))
    at = _append_new(sections, pieces, new, at)
    table = before.offset
    if new:
        pieces.append((table, bytes(before.size)))
        table = align_up(at, TABLE_ALIGNMENT)
        at = table + len(before.pack_sections(sections))
    return _Layout(_with_count(sections), table, size, pieces, at)


def _append_new(
    sections: list[SectionHeader],
    pieces: list[tuple[int, bytes | range]],
    new: list[tuple[SectionHeader, bytes]],
    at: int,
) -> int:
    for header, data in new:
        sections.append(replace(header, offset=at))
        pieces.append((at, data))
        at += len(data)
    return at


def _with_count(sections: list[SectionHeader]) -> list[SectionHeader]:
    """The headers with their number in the first one, if the ELF header cannot hold it (gABI)."""
    if len(sections) >= MAX_SECTIONS:
        sections[0] = replace(sections[0], size=len(sections))
    return sections


def _alignment(one: SectionHeader) -> int:
    """The alignment in the header, if the section has it."""
    align = one.addralign
    return align if align and align & (align - 1) == 0 and one.offset % align == 0 else 1
