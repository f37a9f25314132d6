"""Check a file from which sections were removed: everything else is unchanged.

Strategy: both files are read with pyelftools, and every byte is compared outside the removed sections and the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.enums import ENUM_P_TYPE_BASE

from .compare import (
    KEPT_HEADER_FIELDS,
    ElfTables,
    difference,
    difference_outside,
    field_faults,
    is_zero_outside,
    mode_faults,
    read_elf_tables,
    read_input_tables,
    type_name,
)


def _names_of(name: str) -> tuple[str, ...]:
    """The section and the relocations that `ld --emit-relocs` keeps for it."""
    return name, f".rela{name}", f".rel{name}"


def check_removed(before: Path, after: Path, name: str, segment_type: int) -> tuple[str, ...]:
    """Every fault of `after` as the file `before` without its sections of that name, a sentence each."""
    try:
        with before.open("rb") as first, after.open("rb") as second:
            old, new = read_input_tables(first), read_elf_tables(second)
            faults = [*mode_faults(before, after)]
            for field in (*KEPT_HEADER_FIELDS, "e_shoff"):
                faults += field_faults("ELF header", field, old.header, new.header)
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
    """All segments must be kept in order, except those of the type and a PT_LOAD of only the section."""
    left = [one for one in new.segments if one["p_type"] != "PT_PHDR"]
    for one in old.segments:
        if left and one == left[0]:
            left.pop(0)
        elif one["p_type"] not in ("PT_PHDR", segment_type) and not (
            _contained_only(one, old, name) or _contained_table(one, old, new, name)
        ):
            yield f"{one['p_type']} at {one['p_vaddr']:#x}: is missing or has changed"
    for one in left:
        yield f"{one['p_type']} at {one['p_vaddr']:#x}: is new"
    if new.of_type(segment_type):
        yield f"a segment still refers to {name}"
    expected = [{**table, **_table_place(old, new)} for table in old.of_type("PT_PHDR")]
    if expected != [{**table} for table in new.of_type("PT_PHDR")]:
        yield "PT_PHDR: is not the program header table"


def _table_place(old: ElfTables, new: ElfTables) -> dict[str, int | None]:
    """The fields that PT_PHDR must have: the table's size, and its address and offset if they changed."""
    start, end = new.table_range()
    place: dict[str, int | None] = {"p_filesz": end - start, "p_memsz": end - start}
    if start == old.header["e_phoff"]:
        return place
    loads = new.of_type("PT_LOAD")
    holders = [one for one in loads if one["p_offset"] <= start and end <= one["p_offset"] + one["p_filesz"]]
    address = start + holders[0]["p_vaddr"] - holders[0]["p_offset"] if holders else None
    return place | {"p_offset": start, "p_vaddr": address, "p_paddr": address}


def _contained_only(segment: Mapping[str, Any], old: ElfTables, name: str) -> bool:
    """Whether the segment is a PT_LOAD of the section and nothing else but zeros after it."""
    start, end = segment["p_vaddr"], segment["p_vaddr"] + segment["p_memsz"]
    loaded = [(found, header) for found, header in old.sections if header["sh_flags"] & SH_FLAGS.SHF_ALLOC]
    inside = [one for one in loaded if one[1]["sh_addr"] < end and start < one[1]["sh_addr"] + one[1]["sh_size"]]
    match inside:
        case [(found, header)] if segment["p_type"] == "PT_LOAD" and found == name and header["sh_addr"] == start:
            offset = segment["p_offset"]
            return not any(old.data[offset + header["sh_size"] : offset + segment["p_filesz"]])
    return False


def _contained_table(segment: Mapping[str, Any], old: ElfTables, new: ElfTables, name: str) -> bool:
    """Whether the segment is a PT_LOAD of only the program header table, which moved, and the section."""
    start, end = segment["p_offset"], segment["p_offset"] + segment["p_filesz"]
    if segment["p_type"] != "PT_LOAD" or not start == old.header["e_phoff"] != new.header["e_phoff"]:
        return False
    loaded = [(found, header) for found, header in old.sections if header["sh_flags"] & SH_FLAGS.SHF_ALLOC]
    low, high = segment["p_vaddr"], segment["p_vaddr"] + segment["p_memsz"]
    inside = [one for one in loaded if one[1]["sh_addr"] < high and low < one[1]["sh_addr"] + one[1]["sh_size"]]
    own = [(header["sh_offset"], header["sh_offset"] + header["sh_size"]) for _, header in inside]
    return {found for found, _ in inside} <= {name} and is_zero_outside(old.data, start, end, [old.table_range(), *own])


def _byte_faults(old: ElfTables, new: ElfTables, name: str) -> Iterator[str]:
    """Every byte of the file must be unchanged, except the tables, their counts, and the section."""
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


# ELF64: e_phoff, which may become the offset of an older equal table, e_phnum and e_shnum.
CHANGED_FIELDS = ((32, 40), (56, 58), (60, 62))
