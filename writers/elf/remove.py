"""Remove a loaded section from an ELF64 executable or shared library.

Strategy: if one of our engines added the section, that is undone (`undo`), and the file is as before. Otherwise nothing
moves, and nothing else changes: the section's bytes become zero; its program headers are removed, and so is a PT_LOAD
that contains nothing else (as adding creates it). Its section header becomes unused, or is removed if it is the last:
symbols hold section indices. The result is checked before it is renamed into place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import BufferedReader
from pathlib import Path

from ...schemas.data_classes import dataclass
from ...schemas.elf.numbers import SHT
from ...schemas.section import BuildError, ParseError
from ..files import copy_range, rewriting, size_of, take_attributes, take_owner_and_mode
from .checks.removed import check_removed
from .tables import (
    HEADER_SIZE,
    NULL_SECTION,
    SECTION_SIZE,
    SEGMENT_SIZE,
    SectionHeader,
    Tables,
    bytes_at,
    enclose_program_headers,
    is_alone,
    pack_segments,
    put,
    read_tables,
    refuse_unsuitable,
    write_tables,
)
from .undo import undo_addition


@dataclass(frozen=True, slots=True)
class RemoveReport:
    """What was removed: the sizes in bytes of the sections, in header order, and the number of segments; and by how
    many bytes the file is smaller."""

    removed: tuple[int, ...]
    segments: int
    file_bytes: int = 0


def remove_sections(
    path: Path, out_path: Path, name: str, segment_type: int, preserve_dates: bool = False
) -> RemoveReport:
    """Write `path` to `out_path` without any section of that name and without segments of that type.

    `out_path` may be `path`; links in it are followed. Raises ParseError if there is nothing to remove or the input is
    not complete ELF, BuildError if the result has faults; `out_path` is then unchanged.
    """
    with path.open("rb") as source:
        before = read_tables(source)
        refuse_unsuitable(before, size_of(source), name)
        gone = _indices_of(before, _names_of(name))
        if not gone and all(one.type != segment_type for one in before.segments):
            raise ParseError(name, None, "", "the file has no such section")
        with rewriting(out_path) as temporary:
            after = undo_addition(path, temporary, before, name, segment_type)
            if after is None:
                after = _restore_headers(source, _remove(before, gone, segment_type))
                _write_in_place(source, temporary, before, after, gone)
                if faults := check_removed(path, temporary, name, segment_type):
                    raise BuildError(name, None, "check", f"faults found: {'; '.join(faults)}")
            take_attributes(source, temporary, preserve_dates)
            smaller = size_of(source) - temporary.stat().st_size
    sizes = tuple(before.sections[index].size for index in before.indices_of(name))
    return RemoveReport(sizes, len(before.segments) - len(after.segments), smaller)


def _write_in_place(
    source: BufferedReader, out_path: Path, before: Tables, after: Tables, gone: tuple[int, ...]
) -> None:
    """Write a copy with the tables `after`, and zeros in place of the sections."""
    with out_path.open("w+b") as out:
        copy_range(source, out, 0, size_of(source))
        out.truncate(size_of(source))
        for old in _stored(before, gone):
            put(out, old.offset, bytes(old.size))
        put(out, before.phoff, bytes(len(before.segments) * SEGMENT_SIZE))
        put(out, before.shoff, bytes(len(before.sections) * SECTION_SIZE))
        write_tables(source, out, after)
        if _table_end(before) == size_of(source):
            out.truncate(_table_end(after))  # otherwise the removed header would be left as undescribed data
        take_owner_and_mode(source, out)


def _names_of(name: str) -> tuple[str, ...]:
    """The section and the relocations that `ld --emit-relocs` keeps for it: objcopy fails on those of a missing one."""
    return name, f".rela{name}", f".rel{name}"


def _table_end(tables: Tables) -> int:
    return tables.shoff + len(tables.sections) * SECTION_SIZE


def _indices_of(before: Tables, names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(sorted(index for name in names for index in before.indices_of(name)))


def _stored(before: Tables, gone: tuple[int, ...]) -> Iterator[SectionHeader]:
    return (before.sections[index] for index in gone if before.sections[index].type != SHT.NOBITS)


def _remove(before: Tables, gone: tuple[int, ...], segment_type: int) -> Tables:
    alone = [load for load in before.loads if any(is_alone(before, load, index) for index in gone)]
    segments = [one for one in before.segments if one.type != segment_type and one not in alone]
    sections = [NULL_SECTION if index in gone else one for index, one in enumerate(before.sections)]
    if gone and gone[-1] == len(sections) - 1:
        sections.pop()
    tables = replace(before, segments=tuple(segments), sections=tuple(sections))
    return replace(tables, segments=enclose_program_headers(segments, before.phoff))


def _restore_headers(source: BufferedReader, tables: Tables) -> Tables:
    """The tables with the program headers after the file header again, if adding had moved them into a PT_LOAD that
    contains nothing else now, and the bytes after the file header still are that table."""
    moved = next((one for one in tables.loads if one.offset == tables.phoff > HEADER_SIZE), None)
    if moved is None or any(one.is_loaded and one.size and moved.holds(one) for one in tables.sections):
        return tables
    segments = [one for one in tables.segments if one != moved]
    back = replace(tables, phoff=HEADER_SIZE, segments=enclose_program_headers(segments, HEADER_SIZE))
    stored = pack_segments(back)
    return back if bytes_at(source, "e_phoff", HEADER_SIZE, len(stored)) == stored else tables
