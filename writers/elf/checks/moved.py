"""Check loaded sections whose address is declared to have changed, and everything that refers to them.

Strategy: only sections that are found through program headers and dynamic entries may move: .interp, notes, hash
tables, .dynsym. Each must have its old bytes and header, a PT_LOAD must map it, all references to the old address must
now be to the new one, and no symbol may be in it but the section's own, and the one of the ABI tag.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from elftools.elf.constants import P_FLAGS
from elftools.elf.enums import ENUM_D_TAG

from ....schemas.data_classes import dataclass
from .compare import ElfTables, difference, field_faults, is_zero_outside

POINTED_AT = {
    "SHT_HASH": ENUM_D_TAG["DT_HASH"],
    "SHT_GNU_HASH": ENUM_D_TAG["DT_GNU_HASH"],
    "SHT_DYNSYM": ENUM_D_TAG["DT_SYMTAB"],
}
MOVABLE = ("SHT_NOTE", *POINTED_AT)
DYNAMIC = "QQ"  # Elf64_Dyn
SYMBOL_SIZE, SYMBOL_INFO, SYMBOL_SECTION, SYMBOL_VALUE = 24, 4, slice(6, 8), 8  # Elf64_Sym: st_info, st_shndx, st_value
STT_SECTION = 3
ABI_TAG = ".note.ABI-tag"  # glibc's crt1.o has a symbol at its start, which no code reads
Segment = Mapping[str, Any]
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Moves:
    """The effect of declared moves on the old file.

    `segments` are its program headers other than PT_LOAD and PT_PHDR, as they should be in the new file; `ranges` are
    the file ranges whose bytes may have changed; `faults` are those of the moves themselves.
    """

    indices: tuple[int, ...]
    segments: list[dict[str, Any]]
    ranges: list[Range]
    faults: list[str]


def moves_of(old: ElfTables, new: ElfTables, indices: Sequence[int], others: list[Segment], kept: int) -> Moves:
    """Check the moves of the sections at `indices`; `kept` of the old program headers `others` should be left."""
    ranges: list[Range] = []
    faults: list[str] = []
    for index in indices:
        faults += _section_faults(old, new, index)
        ranges += (_range(elf.sections[index][1]) for elf in (old, new))
    if indices:
        ranges += _section_symbols(old, new, indices, faults)
        ranges += _pointers(old, new, indices, faults)
    if old.header["e_phoff"] == new.header["e_phoff"]:
        faults += _growth_faults(old, new, indices)
        ranges += (old.table_range(), new.table_range())
    segments = [_updated_segment(one, old, new, indices) for one in _remove_redundant(others, len(others) - kept)]
    return Moves(tuple(indices), segments, ranges, faults)


def _range(header: Mapping[str, Any]) -> Range:
    return header["sh_offset"], header["sh_offset"] + header["sh_size"]


def _remove_redundant(segments: list[Segment], surplus: int) -> list[Segment]:
    """The segments without `surplus` redundant ones: unused ones, and a PT_NOTE that PT_GNU_PROPERTY repeats."""
    places = [(one["p_offset"], one["p_filesz"]) for one in segments if one["p_type"] == "PT_GNU_PROPERTY"]
    repeated = [one for one in segments if one["p_type"] == "PT_NOTE" and (one["p_offset"], one["p_filesz"]) in places]
    unused = [one for one in segments if one["p_type"] == "PT_NULL"]
    redundant = [id(one) for one in (unused + repeated[:1])[: max(0, surplus)]]
    return [one for one in segments if id(one) not in redundant]


def _updated_segment(segment: Segment, old: ElfTables, new: ElfTables, indices: Sequence[int]) -> dict[str, Any]:
    """The program header as it should be in the new file: at the new offset of the sections that it refers to."""
    start, end = segment["p_offset"], segment["p_offset"] + segment["p_filesz"]
    for index in indices:
        place, moved = old.sections[index][1], new.sections[index][1]
        if start <= place["sh_offset"] < end:
            offset = moved["sh_offset"] - place["sh_offset"] + start
            address = moved["sh_addr"] - place["sh_addr"] + segment["p_vaddr"]
            return {**segment, "p_offset": offset, "p_vaddr": address, "p_paddr": address}
    return {**segment}


def _section_faults(old: ElfTables, new: ElfTables, index: int) -> Iterator[str]:
    (name, header), (_, moved) = old.sections[index], new.sections[index]
    title = f"section [{index}] {name}, which moved"
    is_interp = any(one["p_offset"] == header["sh_offset"] for one in old.of_type("PT_INTERP"))
    if header["sh_type"] not in MOVABLE and not is_interp:
        yield f"{title}: is not a note, hash table, .dynsym or program interpreter"
    for field in header:
        if field not in ("sh_name", "sh_addr", "sh_offset"):
            yield from field_faults(title, field, header, moved)
    if moved["sh_addr"] % max(1, header["sh_addralign"]):
        yield f"{title}: {moved['sh_addr']:#x} is not aligned to {header['sh_addralign']}"
    if difference(old.data, header["sh_offset"], new.data, moved["sh_offset"], header["sh_size"]) is not None:
        yield f"{title}: its bytes have changed"
    start, end = _range(moved)
    loads = [
        one for one in new.of_type("PT_LOAD") if one["p_offset"] <= start and end <= one["p_offset"] + one["p_filesz"]
    ]
    if not any(one["p_vaddr"] - one["p_offset"] == moved["sh_addr"] - start for one in loads):
        yield f"{title}: no PT_LOAD maps {start:#x} in the file to {moved['sh_addr']:#x}"
    if not all(one["p_flags"] & P_FLAGS.PF_R for one in loads):
        yield f"{title}: its PT_LOAD is not readable"
    others = (other for number, other in enumerate(new.sections) if number != index)
    for other_name, other in others:
        stored = 0 if other["sh_type"] == "SHT_NOBITS" else other["sh_size"]
        if other["sh_offset"] < end and start < other["sh_offset"] + stored:
            yield f"{title}: overlaps {other_name}"
    table_start, table_end = new.table_range()
    if table_start < end and start < table_end:
        yield f"{title}: overlaps the program header table"


def _growth_faults(old: ElfTables, new: ElfTables, indices: Sequence[int]) -> Iterator[str]:
    """A longer program header table may only cover sections that moved, the old section header table, and zeros."""
    shoff = old.header["e_shoff"]
    free = [_range(old.sections[index][1]) for index in indices]
    free.append((shoff, shoff + old.header["e_shnum"] * old.header["e_shentsize"]))
    if not is_zero_outside(old.data, old.table_range()[1], new.table_range()[1], free):
        yield "the longer program header table overwrites other bytes"


def _section_symbols(old: ElfTables, new: ElfTables, indices: Sequence[int], faults: list[str]) -> Iterator[Range]:
    """The file ranges of the values of moved sections' symbols. No other symbol may be in one, as its value stays."""
    order = _order(old)
    for (name, header), (_, kept) in zip(old.sections, new.sections, strict=False):
        if header["sh_type"] not in ("SHT_SYMTAB", "SHT_DYNSYM"):
            continue
        count = header["sh_size"] // SYMBOL_SIZE
        rows = np.frombuffer(old.data, np.uint8, count * SYMBOL_SIZE, header["sh_offset"]).reshape(count, SYMBOL_SIZE)
        column = rows[:, SYMBOL_SECTION].copy().view(f"{order}u2").reshape(-1)
        for number in np.flatnonzero(np.isin(column, list(indices))).tolist():
            index, value = int(column[number]), number * SYMBOL_SIZE + SYMBOL_VALUE
            (now,) = struct.unpack_from(f"{order}Q", new.data, kept["sh_offset"] + value)
            (was,) = struct.unpack_from(f"{order}Q", old.data, header["sh_offset"] + value)
            place_name, place = old.sections[index]
            inside = was - place["sh_addr"]
            is_own = rows[number, SYMBOL_INFO] == STT_SECTION or (place_name == ABI_TAG and inside == 0)
            if not is_own and not 0 <= inside < place["sh_size"]:
                continue  # has the section's index, but is outside it: __ehdr_start
            if not is_own or now != new.sections[index][1]["sh_addr"]:
                faults.append(f"{name}: symbol {number} is in {place_name}, which moved")
            yield header["sh_offset"] + value, header["sh_offset"] + value + 8


def _order(elf: ElfTables) -> str:
    return "<" if elf.header["e_ident"]["EI_DATA"] == "ELFDATA2LSB" else ">"


def _pointers(old: ElfTables, new: ElfTables, indices: Sequence[int], faults: list[str]) -> Iterator[Range]:
    """The file ranges of the values of dynamic entries of moved sections; each must change from the old address to the
    new one."""
    order = _order(old)
    for index in indices:
        (name, header), (_, moved) = old.sections[index], new.sections[index]
        tag = POINTED_AT.get(header["sh_type"])
        found = [] if tag is None else [*_entries(old, order, tag)]
        if tag is not None and len(found) != 1:
            faults.append(f"{name} moved, but {len(found)} dynamic entries refer to it")
        for offset, value in found:
            (now,) = struct.unpack_from(f"{order}Q", new.data, offset)
            if (value, now) != (header["sh_addr"], moved["sh_addr"]):
                faults.append(f"{name} moved to {moved['sh_addr']:#x}, its dynamic entry has {now:#x}")
            yield offset, offset + 8


def _entries(elf: ElfTables, order: str, tag: int) -> Iterator[tuple[int, int]]:
    """The dynamic entries of a tag: the file offset of each value, and the value."""
    step = struct.calcsize(order + DYNAMIC)
    for segment in elf.of_type("PT_DYNAMIC")[:1]:
        end = min(len(elf.data), segment["p_offset"] + segment["p_filesz"])
        for offset in range(segment["p_offset"], end - step + 1, step):
            found, value = struct.unpack_from(order + DYNAMIC, elf.data, offset)
            if found == 0:  # DT_NULL
                return
            if found == tag:
                yield offset + step // 2, value
