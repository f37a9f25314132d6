"""A loaded section taken out of an ELF64 executable or shared library: nothing moves, nothing else changes.

Strategy: the section's bytes become zero, the segments that name it go, and so does a PT_LOAD that holds nothing else
(what adding leaves). Its header becomes an unused one, or goes where it is the last: symbols hold indices. The result
is compared with the input byte for byte before it is renamed into place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.enums import ENUM_P_TYPE_BASE

from ..schemas.section import BuildError, ParseError
from .elf_compare import (
    KEPT_HEADER_FIELDS,
    ElfTables,
    changed,
    difference,
    difference_outside,
    is_zero_outside,
    mode_faults,
    read_elf_tables,
    type_name,
)
from .elf_tables import (
    HEADER_SIZE,
    NULL_SECTION,
    SECTION_SIZE,
    SEGMENT_SIZE,
    SHT,
    SectionHeader,
    Tables,
    around_program_headers,
    bytes_at,
    is_alone,
    packed_segments,
    put,
    read_tables,
    refuse_unsuitable,
    write_tables,
)
from .files import copy_range, rewriting, size_of, take_owner_and_mode, take_times


@dataclass(frozen=True, slots=True)
class RemoveReport:
    """What was taken out: the sizes in bytes of the sections, in the order of their headers, and the segments."""

    removed: tuple[int, ...]
    segments: int


def remove_sections(
    path: Path, out_path: Path, name: str, segment_type: int, preserve_dates: bool = False
) -> RemoveReport:
    """Write `path` without any section of that name, and without segments of that type, to `out_path`.

    `out_path` may be `path`; links in it are followed. Raises ParseError where there is nothing to take out or the
    input is not whole ELF, BuildError where the result is not what it should be; `out_path` is then as it was.
    """
    with path.open("rb") as source:
        before = read_tables(source)
        refuse_unsuitable(before, size_of(source), name)
        gone = _indices_of(before, _names_of(name))
        if not gone and all(one.type != segment_type for one in before.segments):
            raise ParseError(name, None, "", "the file has no such section")
        after = _with_old_table(source, _without(before, gone, segment_type))
        with rewriting(out_path) as temporary:
            with temporary.open("w+b") as out:
                copy_range(source, out, 0, size_of(source))
                out.truncate(size_of(source))
                for old in _stored(before, gone):
                    put(out, old.offset, bytes(old.size))
                put(out, before.phoff, bytes(len(before.segments) * SEGMENT_SIZE))
                put(out, before.shoff, bytes(len(before.sections) * SECTION_SIZE))
                write_tables(source, out, after)
                if _table_end(before) == size_of(source):
                    out.truncate(_table_end(after))  # else the lost header would be data that nothing describes
                take_owner_and_mode(source, out)
            if faults := check_removed(path, temporary, name, segment_type):
                raise BuildError(name, None, "check", f"faults found: {'; '.join(faults)}")
            if preserve_dates:
                take_times(source, temporary)
    sizes = tuple(before.sections[index].size for index in before.indices_of(name))
    return RemoveReport(sizes, len(before.segments) - len(after.segments))


def _names_of(name: str) -> tuple[str, ...]:
    """The section and what `ld --emit-relocs` keeps for it: relocations of a section that is gone end objcopy."""
    return name, f".rela{name}", f".rel{name}"


def _table_end(tables: Tables) -> int:
    return tables.shoff + len(tables.sections) * SECTION_SIZE


def _indices_of(before: Tables, names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(sorted(index for name in names for index in before.indices_of(name)))


def _stored(before: Tables, gone: tuple[int, ...]) -> Iterator[SectionHeader]:
    return (before.sections[index] for index in gone if before.sections[index].type != SHT.NOBITS)


def _without(before: Tables, gone: tuple[int, ...], segment_type: int) -> Tables:
    alone = [load for load in before.loads if any(is_alone(before, load, index) for index in gone)]
    segments = [one for one in before.segments if one.type != segment_type and one not in alone]
    sections = [NULL_SECTION if index in gone else one for index, one in enumerate(before.sections)]
    if gone and gone[-1] == len(sections) - 1:
        sections.pop()
    tables = replace(before, segments=tuple(segments), sections=tuple(sections))
    return replace(tables, segments=around_program_headers(segments, before.phoff))


def _with_old_table(source: BufferedReader, tables: Tables) -> Tables:
    """The program header table where it was, if it had been moved into a PT_LOAD that has nothing else now: what
    stands right behind the file header is then still the table that is to be."""
    moved = next((one for one in tables.loads if one.offset == tables.phoff > HEADER_SIZE), None)
    if moved is None or any(one.is_loaded and one.size and moved.holds(one) for one in tables.sections):
        return tables
    segments = [one for one in tables.segments if one != moved]
    back = replace(tables, phoff=HEADER_SIZE, segments=around_program_headers(segments, HEADER_SIZE))
    stored = packed_segments(back)
    return back if bytes_at(source, "e_phoff", HEADER_SIZE, len(stored)) == stored else tables


def check_removed(before: Path, after: Path, name: str, segment_type: int) -> tuple[str, ...]:
    """Every fault of `after` as the file `before` without its sections of that name, a sentence each."""
    try:
        with before.open("rb") as first, after.open("rb") as second:
            old, new = read_elf_tables(first), read_elf_tables(second)
            faults = [*mode_faults(before, after)]
            for field in (*KEPT_HEADER_FIELDS, "e_shoff"):
                faults += changed("ELF header", field, old.header, new.header)
            faults += _section_faults(old, new, name)
            faults += _segment_faults(old, new, name, type_name(ENUM_P_TYPE_BASE, segment_type))
            faults += _byte_faults(old, new, name)
    except ELFError as fault:
        return (f"the result cannot be read: {fault}",)
    return tuple(faults)


def _section_faults(old: ElfTables, new: ElfTables, name: str) -> Iterator[str]:
    for index, (old_name, header) in enumerate(old.sections):
        title = f"section [{index}] {old_name}"
        found = new.sections[index] if index < len(new.sections) else ("", {"sh_type": "SHT_NULL"})
        if old_name in _names_of(name):
            if found[1]["sh_type"] != "SHT_NULL":
                yield f"{title}: is still there"
            continue
        if (old_name, header) != found:
            yield f"{title}: has changed"
        elif header["sh_type"] != "SHT_NOBITS":
            offset = header["sh_offset"]
            if difference(old.data, offset, new.data, offset, header["sh_size"]) is not None:
                yield f"{title}: its bytes have changed"


def _segment_faults(old: ElfTables, new: ElfTables, name: str, segment_type: int | str) -> Iterator[str]:
    """All segments in their order but those of the type, and a PT_LOAD of the section alone; PT_PHDR is shorter."""
    left = [one for one in new.segments if one["p_type"] != "PT_PHDR"]
    for one in old.segments:
        if left and one == left[0]:
            left.pop(0)
        elif one["p_type"] not in ("PT_PHDR", segment_type) and not (
            _held_it_alone(one, old, name) or _held_the_table(one, old, new, name)
        ):
            yield f"{one['p_type']} at {one['p_vaddr']:#x}: is missing or has changed"
    for one in left:
        yield f"{one['p_type']} at {one['p_vaddr']:#x}: is new"
    if new.of_type(segment_type):
        yield f"a segment still names {name}"
    expected = [{**table, **_table_place(old, new)} for table in old.of_type("PT_PHDR")]
    if expected != [{**table} for table in new.of_type("PT_PHDR")]:
        yield "PT_PHDR: is not the program header table"


def _table_place(old: ElfTables, new: ElfTables) -> dict[str, int | None]:
    """What PT_PHDR must say: the table's size, and its place if that is another."""
    start, end = new.table_range()
    place: dict[str, int | None] = {"p_filesz": end - start, "p_memsz": end - start}
    if start == old.header["e_phoff"]:
        return place
    loads = new.of_type("PT_LOAD")
    holders = [one for one in loads if one["p_offset"] <= start and end <= one["p_offset"] + one["p_filesz"]]
    address = start + holders[0]["p_vaddr"] - holders[0]["p_offset"] if holders else None
    return place | {"p_offset": start, "p_vaddr": address, "p_paddr": address}


def _held_it_alone(segment: Mapping[str, Any], old: ElfTables, name: str) -> bool:
    """Whether the segment is a PT_LOAD of the section and nothing else, but for zeros behind it."""
    start, end = segment["p_vaddr"], segment["p_vaddr"] + segment["p_memsz"]
    loaded = [(found, header) for found, header in old.sections if header["sh_flags"] & SH_FLAGS.SHF_ALLOC]
    inside = [one for one in loaded if one[1]["sh_addr"] < end and start < one[1]["sh_addr"] + one[1]["sh_size"]]
    match inside:
        case [(found, header)] if segment["p_type"] == "PT_LOAD" and found == name and header["sh_addr"] == start:
            offset = segment["p_offset"]
            return not any(old.data[offset + header["sh_size"] : offset + segment["p_filesz"]])
    return False


def _held_the_table(segment: Mapping[str, Any], old: ElfTables, new: ElfTables, name: str) -> bool:
    """Whether the segment is a PT_LOAD of the program header table, which is elsewhere now, and of the section."""
    start, end = segment["p_offset"], segment["p_offset"] + segment["p_filesz"]
    if segment["p_type"] != "PT_LOAD" or not start == old.header["e_phoff"] != new.header["e_phoff"]:
        return False
    loaded = [(found, header) for found, header in old.sections if header["sh_flags"] & SH_FLAGS.SHF_ALLOC]
    low, high = segment["p_vaddr"], segment["p_vaddr"] + segment["p_memsz"]
    inside = [one for one in loaded if one[1]["sh_addr"] < high and low < one[1]["sh_addr"] + one[1]["sh_size"]]
    own = [(header["sh_offset"], header["sh_offset"] + header["sh_size"]) for _, header in inside]
    return {found for found, _ in inside} <= {name} and is_zero_outside(old.data, start, end, [old.table_range(), *own])


def _byte_faults(old: ElfTables, new: ElfTables, name: str) -> Iterator[str]:
    """Every byte of the file but the tables, their counts, and the section."""
    shoff = old.header["e_shoff"]
    headers = shoff, shoff + old.header["e_shnum"] * old.header["e_shentsize"]
    skipped = [*CHANGED_FIELDS, old.table_range(), headers]
    for found, header in old.sections:
        if found in _names_of(name) and header["sh_type"] != "SHT_NOBITS":
            place = header["sh_offset"], header["sh_offset"] + header["sh_size"]
            skipped.append(place)
            if any(new.data[place[0] : place[1]]):
                yield f"{found}: its bytes are still there"
    lost = (old.header["e_shnum"] - new.header["e_shnum"]) * old.header["e_shentsize"]
    ended = shoff + old.header["e_shnum"] * old.header["e_shentsize"] == len(old.data)
    if len(old.data) - (lost if ended else 0) != len(new.data):
        yield f"the file has {len(new.data)} bytes, it had {len(old.data)}"
        return
    changed_at = difference_outside(old.data, new.data, 0, len(new.data), skipped)
    if changed_at is not None:
        yield f"the bytes have changed at {changed_at:#x}"


# ELF64: e_phoff, which may lead back to where the same bytes are already, e_phnum and e_shnum.
CHANGED_FIELDS = ((32, 40), (56, 58), (60, 62))
