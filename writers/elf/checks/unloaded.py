"""Check a file in which sections that are not loaded were replaced or added: they are as requested, and nothing else
has changed.

Strategy: both files are read with pyelftools and compared table by table. Allowed are the file offsets and sizes of
sections that are not loaded, e_shoff and e_shnum, and names appended to the section name table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS

from ....schemas.data_classes import dataclass
from .compare import (
    KEPT_HEADER_FIELDS,
    ElfTables,
    difference,
    field_faults,
    mode_faults,
    read_elf_tables,
    read_input_tables,
)

KEPT_FIELDS = ("sh_type", "sh_flags", "sh_addr", "sh_link", "sh_info", "sh_addralign", "sh_entsize")
ADDED_FIELDS = {
    "sh_type": "SHT_PROGBITS", "sh_flags": 0, "sh_addr": 0, "sh_link": 0, "sh_info": 0, "sh_addralign": 1,
    "sh_entsize": 0,
}  # fmt: skip
NOT_STORED = ("SHT_NOBITS", "SHT_NULL")


@dataclass(frozen=True, slots=True)
class ExpectedUnloaded:
    """What the result must have: the bytes of sections by index, as stored, and names and bytes of added sections."""

    replaced: Mapping[int, bytes]
    added: tuple[tuple[str, bytes], ...]


def check_unloaded(before: Path, after: Path, expected: ExpectedUnloaded) -> tuple[str, ...]:
    """Every fault of `after` as the file `before` with these sections, a sentence each."""
    try:
        with before.open("rb") as first, after.open("rb") as second:
            old, new = read_input_tables(first), read_elf_tables(second)
            faults = [*mode_faults(before, after)]
            for field in (*KEPT_HEADER_FIELDS, "e_phoff", "e_phnum"):
                faults += field_faults("ELF header", field, old.header, new.header)
            faults += _segment_faults(old, new)
            faults += _section_faults(old, new, expected)
            faults += _added_faults(old, new, expected)
            faults += sorted(set(_place_faults(new)) - set(_place_faults(old)))
            faults += _trailer_faults(old, new)
    except (ELFError, KeyError) as fault:
        return (f"the result cannot be read: {fault}",)
    return tuple(faults)


def _segment_faults(old: ElfTables, new: ElfTables) -> Iterator[str]:
    """The program headers are the same, and so are their bytes, unless the file is not the one that they describe."""
    if [dict(one) for one in old.segments] != [dict(one) for one in new.segments]:
        yield "the program headers have changed"
        return
    if any(one["sh_type"] == "SHT_NOBITS" and one["sh_flags"] & SH_FLAGS.SHF_EXECINSTR for _, one in old.sections):
        return
    # Only the section headers, which no program needs, may be in a segment and have changed.
    start = old.header["e_shoff"]
    table = range(start, start + len(old.sections) * old.header["e_shentsize"])
    for index, one in enumerate(old.segments):
        offset, size = one["p_offset"], min(one["p_filesz"], len(old.data) - one["p_offset"])
        place = difference(old.data, offset, new.data, offset, size) if size > 0 else None
        is_header = place is not None and offset + place < old.header["e_ehsize"]
        if place is not None and not is_header and offset + place not in table:
            yield f"program header [{index}]: the bytes have changed at {offset + place:#x}"


def _section_faults(old: ElfTables, new: ElfTables, expected: ExpectedUnloaded) -> Iterator[str]:
    names = old.header["e_shstrndx"]
    for index, (name, header) in enumerate(old.sections):
        title = f"section [{index}] {name}"
        if index >= len(new.sections):
            yield f"{title}: is missing"
            continue
        new_name, new_header = new.sections[index]
        if new_name != name:
            yield f"{title}: is now {new_name}"
        for field in KEPT_FIELDS:
            yield from field_faults(title, field, header, new_header)
        if header["sh_flags"] & SH_FLAGS.SHF_ALLOC:
            yield from field_faults(title, "sh_offset", header, new_header)
        if index in expected.replaced:
            if _bytes(new, new_header) != expected.replaced[index]:
                yield f"{title}: differs from what was requested"
        elif index == names and expected.added:
            if _bytes(new, new_header) != _names_with(_bytes(old, header), expected):
                yield f"{title}: names have changed"
        elif index or new.header["e_shnum"]:  # otherwise the first section header has the number of sections
            yield from _kept_faults(old, new, title, header, new_header)


def _names_with(names: bytes, expected: ExpectedUnloaded) -> bytes:
    """The section names with those of added sections, each at the end if it is not there yet."""
    for name, _ in expected.added:
        stored = name.encode() + b"\0"
        if b"\0" + stored not in names:
            names += stored if names.endswith(b"\0") else b"\0" + stored
    return names


def _kept_faults(
    old: ElfTables, new: ElfTables, title: str, header: Mapping[str, Any], new_header: Mapping[str, Any]
) -> Iterator[str]:
    """The faults of a section whose bytes must be unchanged."""
    yield from field_faults(title, "sh_size", header, new_header)
    if header["sh_type"] in NOT_STORED or header["sh_size"] != new_header["sh_size"]:
        return
    align = header["sh_addralign"]
    if align > 1 and header["sh_offset"] % align == 0 and new_header["sh_offset"] % align:
        yield f"{title}: is no longer aligned to {align}"
    place = difference(old.data, header["sh_offset"], new.data, new_header["sh_offset"], header["sh_size"])
    if place is not None:
        yield f"{title}: the bytes have changed at {place:#x}"


def _bytes(elf: ElfTables, header: Mapping[str, Any]) -> bytes:
    return elf.data[header["sh_offset"] : header["sh_offset"] + header["sh_size"]]


def _added_faults(old: ElfTables, new: ElfTables, expected: ExpectedUnloaded) -> Iterator[str]:
    added = new.sections[len(old.sections) :]
    if [name for name, _ in added] != [name for name, _ in expected.added]:
        yield f"the added sections are {', '.join(name for name, _ in added) or 'none'}"
        return
    for (name, header), (_, data) in zip(added, expected.added, strict=True):
        if _bytes(new, header) != data:
            yield f"{name}: differs from what was requested"
        for field, value in ADDED_FIELDS.items():
            if header[field] != value:
                yield f"{name}: {field} is {header[field]}, should be {value}"


def _ends(elf: ElfTables) -> list[tuple[int, int, str]]:
    """The file ranges of headers and sections with their names."""
    start = elf.header["e_shoff"]
    table = start, start + len(elf.sections) * elf.header["e_shentsize"], "the section headers"
    return [(0, elf.header["e_ehsize"], "the ELF header"), table] + [
        (header["sh_offset"], header["sh_offset"] + header["sh_size"], name)
        for name, header in elf.sections
        if header["sh_type"] not in NOT_STORED and header["sh_size"]
    ]


def _place_faults(new: ElfTables) -> Iterator[str]:
    """Sections and section headers that overlap or are outside the file; program headers may be anywhere."""
    ranges = sorted(_ends(new))
    for (_, end, name), (start, _, other) in pairwise([*ranges, (len(new.data), 0, "the file's end")]):
        if end > start:
            yield f"{name}: overlaps {other}"


def _trailer_faults(old: ElfTables, new: ElfTables) -> Iterator[str]:
    """Data that no header describes must still be there, after everything else or at its old place."""
    end = max(end for _, end, _ in _ends(old))
    trailer = len(old.data) - end
    if trailer and not any(
        len(new.data) - start >= trailer and difference(old.data, end, new.data, start, trailer) is None
        for start in (end, max(end for _, end, _ in _ends(new)))
    ):
        yield "the data after the last section has changed"
