"""Check a file that got a loaded section: everything else is unchanged and in place, and the new section is right.

Strategy: both files are read with pyelftools and compared table by table; no code is shared with a writer, so that none
of its faults can hide here. Sections are compared by index, because symbols hold section indices; equal bytes of
.symtab, .dynsym, .dynamic, .rela.*, .gnu.version* and notes prove that symbols, dependencies, relocations, versions and
the build id are unchanged. These changes are allowed, all others are faults: e_phoff, e_shoff, e_phnum and e_shnum in
the ELF header; the offset of the program header table, and the size of its PT_LOAD; sh_name, .shstrtab, the file offset
of what is not loaded; the bytes of a replaced section.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.constants import P_FLAGS, SH_FLAGS
from elftools.elf.enums import ENUM_P_TYPE_BASE, ENUM_SH_TYPE_AMD64, ENUM_SH_TYPE_BASE

from ....schemas.data_classes import dataclass
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
from .moved import Moves, moves_of

MIN_PAGE, MAX_PAGE = 0x1000, 0x10000  # smallest and largest page of the machines that run ELF64
# ELF64: e_phoff and e_shoff, e_phnum, e_shnum.
CHANGED_HEADER_BYTES = ((32, 48), (56, 58), (60, 62))


@dataclass(frozen=True, slots=True)
class ExpectedSection:
    """The section that the result must have: its bytes at `address`, and the fields of its two headers; of one only
    if `segment_type` is None.

    `moved` are the indices of other loaded sections whose address is declared to have changed. `following` is a section
    that was added with it; if both are in a new PT_LOAD, it is after this one.
    """

    name: str
    section_type: int
    segment_type: int | None
    address: int
    data: bytes
    alignment: int
    moved: tuple[int, ...] = ()
    following: ExpectedSection | None = None

    @property
    def parts(self) -> tuple[ExpectedSection, ...]:
        """This section and the following one."""
        return (self,) if self.following is None else (self, self.following)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def own_segment(self) -> tuple[str | int, ...]:
        """The type of its program header as in pyelftools, if it has one."""
        return () if self.segment_type is None else (type_name(ENUM_P_TYPE_BASE, self.segment_type),)

    @property
    def end(self) -> int:
        """The address after the last part."""
        return self.parts[-1].address + len(self.parts[-1].data)


def check_added(before: Path, after: Path, expected: ExpectedSection) -> tuple[str, ...]:
    """Every fault of `after` as the file `before` with one loaded section added or replaced, a sentence each."""
    try:
        with before.open("rb") as first, after.open("rb") as second:
            faults = [*mode_faults(before, after)]
            old, new = read_input_tables(first), read_elf_tables(second)
            faults += _header_faults(old, new)
            if lost := [index for index in expected.moved if index >= min(len(old.sections), len(new.sections))]:
                return (*faults, f"section {lost[0]} should have moved but is missing")
            others, new_others = _others(old, expected), _others(new, expected)
            moves = moves_of(old, new, expected.moved, others, len(new_others))
            faults += moves.faults
            faults += _section_faults(old, new, expected, moves)
            faults += _segment_faults(old, new, expected, moves)
            faults += _program_header_faults(old, new)
            faults += _layout_faults(old, new)
            for part in expected.parts:
                faults += _new_section_faults(new, part)
            faults += _trailer_faults(old, new)
    except ELFError as fault:
        return (f"the result cannot be read: {fault}",)
    return tuple(faults)


def _header_faults(old: ElfTables, new: ElfTables) -> Iterator[str]:
    for field in KEPT_HEADER_FIELDS:
        yield from field_faults("ELF header", field, old.header, new.header)


def _others(elf: ElfTables, expected: ExpectedSection) -> list[Mapping[str, Any]]:
    """The program headers other than PT_LOAD, PT_PHDR and the section's own."""
    own = ("PT_LOAD", "PT_PHDR", *(kind for part in expected.parts for kind in part.own_segment))
    return [segment for segment in elf.segments if segment["p_type"] not in own]


def _section_faults(old: ElfTables, new: ElfTables, expected: ExpectedSection, moves: Moves) -> Iterator[str]:
    """Each section must have its index, header and bytes; a replaced one is the new section or an unused header."""
    for index, (name, _) in enumerate(old.sections):
        if index >= len(new.sections):
            yield f"section [{index}] {name}: is missing"
            continue
        new_name, new_header = new.sections[index]
        if name in expected.names:
            if new_name != name and new_header["sh_type"] != "SHT_NULL":
                yield f"section [{index}] {name}: was replaced by {new_name}"
        elif new_name != name:
            yield f"section [{index}] {name}: is now {new_name}"
        elif index not in moves.indices:
            yield from _kept_section_faults(old, new, index, moves)
    names = new.sections[new.header["e_shstrndx"]][1]
    names_end = names["sh_offset"] + names["sh_size"]
    if names_end > len(new.data) or new.data[names_end - 1] != 0:
        yield "the section name table is not terminated by a zero byte"
    added = [name for name, _ in new.sections[len(old.sections) :]]
    had = {name for name, _ in old.sections}
    if added not in ([], [name for name in expected.names if name not in had]):
        yield f"unexpected sections at the end of the table: {', '.join(added)}"


def _kept_section_faults(old: ElfTables, new: ElfTables, index: int, moves: Moves) -> Iterator[str]:
    (name, header), (_, new_header) = old.sections[index], new.sections[index]
    title = f"section [{index}] {name}"
    holds_names = index == old.header["e_shstrndx"]
    is_loaded = bool(header["sh_flags"] & SH_FLAGS.SHF_ALLOC)
    changing = {"sh_name", *([] if is_loaded else ["sh_offset"]), *(["sh_size"] if holds_names else [])}
    for field in header:
        if index == 0 or field not in changing:
            yield from field_faults(title, field, header, new_header)
    # Section names are compared one by one, unless the table has the symbols' names, too, as with some linkers.
    if holds_names and not any(one["sh_link"] == index for _, one in old.sections):
        return
    if header["sh_type"] != "SHT_NOBITS":
        start, size = header["sh_offset"], header["sh_size"]
        if start == new_header["sh_offset"]:
            found = difference_outside(old.data, new.data, start, start + size, moves.ranges)
            place = None if found is None else found - start
        else:
            place = difference(old.data, start, new.data, new_header["sh_offset"], size)
        if place is not None:
            entry = f", in entry {place // header['sh_entsize']}" if header["sh_entsize"] else ""
            yield f"{title}: bytes differ from {place:#x} on{entry}"


def _segment_faults(old: ElfTables, new: ElfTables, expected: ExpectedSection, moves: Moves) -> Iterator[str]:
    """Each program header must be unchanged, except PT_PHDR, the section's own, and the extended PT_LOAD."""
    others, new_others = moves.segments, _others(new, expected)
    if len(others) != len(new_others):
        yield f"{len(new_others)} program headers besides PT_LOAD, PT_PHDR and the section's, there were {len(others)}"
    for one, other in zip(others, new_others, strict=False):
        title = f"{one['p_type']} at {one['p_vaddr']:#x}"
        for field in one:
            yield from field_faults(title, field, one, other)
        if one == {**other} and not _is_in(one, moves.ranges):
            yield from _segment_bytes_faults(title, one, old, new, expected, moves)
    new_loads = {segment["p_vaddr"]: segment for segment in new.of_type("PT_LOAD")}
    for load in old.of_type("PT_LOAD"):
        title = f"PT_LOAD at {load['p_vaddr']:#x}"
        new_load = new_loads.pop(load["p_vaddr"], None)
        if new_load is None:
            yield f"{title}: is missing"
            continue
        for field in ("p_offset", "p_paddr", "p_flags", "p_align"):
            yield from field_faults(title, field, load, new_load)
        yield from _length_faults(title, load, new_load, new, expected)
        yield from _segment_bytes_faults(title, load, old, new, expected, moves)
    for load in new_loads.values():
        yield from _new_load_faults(load, new, expected, moves)
    if late := _late(new) - _late(old):
        yield f"{late.pop()} comes after a PT_LOAD"


def _late(elf: ElfTables) -> set[str]:
    """The program headers that the gABI requires before any PT_LOAD, but that come after one."""
    kinds = [one["p_type"] for one in elf.segments]
    return {"PT_PHDR", "PT_INTERP"} & set(kinds[kinds.index("PT_LOAD") :]) if "PT_LOAD" in kinds else set()


def _new_load_faults(load: Mapping[str, Any], new: ElfTables, expected: ExpectedSection, moves: Moves) -> Iterator[str]:
    title, size = f"new PT_LOAD at {load['p_vaddr']:#x}", load["p_filesz"]
    ends = (expected.end - _shift(load), new.table_range()[1])
    if not _maps(load, expected) or load["p_offset"] + size not in ends:
        sections = " and ".join(expected.names)
        yield f"{title}: does not contain exactly {sections}, with or without the program headers"
    own = [new.table_range(), *((one["sh_offset"], one["sh_offset"] + one["sh_size"]) for one in _inside(new, moves))]
    for part in expected.parts:
        start = part.address - _shift(load)
        if not is_zero_outside(new.data, load["p_offset"], start, own):
            yield f"{title}: contains stray bytes before {part.name}"
        own.append((start, start + len(part.data)))
    wanted = {"p_flags": P_FLAGS.PF_R, "p_paddr": load["p_vaddr"], "p_memsz": size}
    for field in wanted:
        yield from field_faults(title, field, wanted, load, "should be")


def _inside(new: ElfTables, moves: Moves) -> Iterator[Mapping[str, Any]]:
    return (new.sections[index][1] for index in moves.indices)


def _length_faults(
    title: str, load: Mapping[str, Any], new_load: Mapping[str, Any], new: ElfTables, expected: ExpectedSection
) -> Iterator[str]:
    growth = new_load["p_filesz"] - load["p_filesz"]
    if growth == 0 and new_load["p_memsz"] == load["p_memsz"]:
        return
    start, end = new.table_range()
    file_end = load["p_offset"] + load["p_filesz"]
    for_table = file_end <= start and end <= file_end + growth
    for_section = _maps(new_load, expected)
    was_full = load["p_filesz"] == load["p_memsz"] and new_load["p_filesz"] == new_load["p_memsz"]
    if growth < 0 or not was_full or not (for_table or for_section):
        sizes = f"p_filesz {new_load['p_filesz']:#x} and p_memsz {new_load['p_memsz']:#x}"
        yield f"{title}: {sizes} are neither the old sizes nor extended as declared"


def _is_in(segment: Mapping[str, Any], ranges: Iterable[tuple[int, int]]) -> bool:
    start, end = segment["p_offset"], segment["p_offset"] + segment["p_filesz"]
    return any(low <= start < high or low < end <= high for low, high in ranges)


def _segment_bytes_faults(
    title: str, segment: Mapping[str, Any], old: ElfTables, new: ElfTables, expected: ExpectedSection, moves: Moves
) -> Iterator[str]:
    """Compare the bytes of `segment`, at the same offset in both files, outside the declared ranges."""
    skipped = [*CHANGED_HEADER_BYTES, *moves.ranges]
    names = expected.names
    for elf in (old, new):
        for name, header in elf.sections:
            if name in names and header["sh_type"] != "SHT_NOBITS":
                skipped.append((header["sh_offset"], header["sh_offset"] + header["sh_size"]))
    start, end = segment["p_offset"], segment["p_offset"] + segment["p_filesz"]
    place = difference_outside(old.data, new.data, start, end, skipped)
    if place is not None:
        yield f"{title}: the file's bytes differ at {place:#x}"


def _program_header_faults(old: ElfTables, new: ElfTables) -> Iterator[str]:
    start, end = new.table_range()
    holder = _load_at(new, start, end)
    if holder is None:
        if _load_at(old, *old.table_range()):
            yield "the program header table is in no PT_LOAD"
        return
    # Kernels before 5.18 set AT_PHDR to e_phoff plus this difference of the first PT_LOAD.
    if _shift(holder) != _shift(new.of_type("PT_LOAD")[0]):
        yield "the program header table's PT_LOAD has a different p_vaddr - p_offset than the first one"
    tables, old_tables = new.of_type("PT_PHDR"), old.of_type("PT_PHDR")
    if len(tables) != len(old_tables):
        yield f"there are {len(tables)} PT_PHDR, there were {len(old_tables)}"
    vaddr, size = start + _shift(holder), end - start
    moved = {"p_offset": start, "p_vaddr": vaddr, "p_paddr": vaddr, "p_filesz": size, "p_memsz": size}
    for old_table, table in zip(old_tables, tables, strict=False):
        wanted = {**old_table, **moved}
        for field in wanted:
            yield from field_faults("PT_PHDR", field, wanted, table, "should be")


def _layout_faults(old: ElfTables, new: ElfTables) -> Iterator[str]:
    """The requirements of the kernel and ld.so on PT_LOADs: order, no overlap, congruence, whole pages."""
    loads, known = new.of_type("PT_LOAD"), {load["p_vaddr"] for load in old.of_type("PT_LOAD")}
    for load in loads:
        title, align = f"PT_LOAD at {load['p_vaddr']:#x}", max(load["p_align"], 1)
        if load["p_vaddr"] % align != load["p_offset"] % align:
            yield f"{title}: p_vaddr and p_offset {load['p_offset']:#x} differ modulo p_align {align:#x}"
        if load["p_offset"] + load["p_filesz"] > len(new.data):
            yield f"{title}: ends past the file"
        # glibc's dlopen refuses it: "ELF load command alignment not page-aligned".
        if load["p_vaddr"] not in known and (align < MIN_PAGE or align & (align - 1)):
            yield f"{title}: p_align {align:#x} is not a page size"
    old_pairs = pairwise(old.of_type("PT_LOAD"))
    sharing = {(one["p_vaddr"], two["p_vaddr"]) for one, two in old_pairs if _share_page(one, two)}
    for one, two in pairwise(loads):
        pair = one["p_vaddr"], two["p_vaddr"]
        if pair[0] + one["p_memsz"] > pair[1]:
            yield f"PT_LOADs at {pair[0]:#x} and {pair[1]:#x} overlap or are not in order"
        # With equal differences the shared page has the same bytes of the file, whichever mapping wins.
        elif _share_page(one, two) and _shift(one) != _shift(two) and pair not in sharing:
            yield f"PT_LOADs at {pair[0]:#x} and {pair[1]:#x} share a page"


def _new_section_faults(new: ElfTables, expected: ExpectedSection) -> Iterator[str]:
    title, size = f"the new {expected.name}", len(expected.data)
    found = [header for name, header in new.sections if name == expected.name]
    named = [one for kind in expected.own_segment for one in new.of_type(kind)]
    if len(found) != 1 or len(named) != len(expected.own_segment):
        yield f"{title}: there are {len(found)} sections and {len(named)} segments for it, not one each"
        return
    [header] = found
    start, end = header["sh_offset"], header["sh_offset"] + size
    types = ENUM_SH_TYPE_AMD64 if new.header["e_machine"] == "EM_X86_64" else ENUM_SH_TYPE_BASE
    wanted = {"sh_type": type_name(types, expected.section_type), "sh_flags": SH_FLAGS.SHF_ALLOC}
    wanted |= {"sh_addr": expected.address, "sh_size": size, "sh_addralign": expected.alignment}
    wanted |= {"sh_link": 0, "sh_info": 0, "sh_entsize": 0}
    for field in wanted:
        yield from field_faults(title, field, wanted, header, "should be")
    wanted = {"p_offset": start, "p_vaddr": expected.address, "p_paddr": expected.address, "p_filesz": size}
    wanted |= {"p_memsz": size, "p_flags": P_FLAGS.PF_R, "p_align": expected.alignment}
    for segment in named:
        for field in wanted:
            yield from field_faults(f"{title}: its segment", field, wanted, segment, "should be")
    if expected.address % expected.alignment:
        yield f"{title}: {expected.address:#x} is not aligned to {expected.alignment}"
    if new.data[start:end] != expected.data:
        yield f"{title}: its bytes at {start:#x} in the file differ from those that were requested"
    load = _load_at(new, start, end)
    if load is None or start + _shift(load) != expected.address:
        yield f"{title}: no PT_LOAD maps {start:#x} in the file to {expected.address:#x}"
    elif load["p_flags"] & (P_FLAGS.PF_R | P_FLAGS.PF_W) != P_FLAGS.PF_R:
        yield f"{title}: its PT_LOAD is not read-only"
    table_start, table_end = new.table_range()
    if start < table_end and table_start < end:
        yield f"{title}: overlaps the program header table"
    for name, other in new.sections:
        alone = other is header or not other["sh_flags"] & SH_FLAGS.SHF_ALLOC or other["sh_flags"] & SH_FLAGS.SHF_TLS
        if not alone and other["sh_addr"] < expected.address + size and expected.address < _section_end(other):
            yield f"{title}: overlaps {name}"


def _trailer_faults(old: ElfTables, new: ElfTables) -> Iterator[str]:
    """Whatever follows the described bytes (an archive, a script's data) must still be at the end of the file."""
    tables = ((old.header["e_shoff"], old.header["e_shnum"] * old.header["e_shentsize"]), (old.table_range()[1], 0))
    ends = [offset + size for offset, size in tables]
    ends += [one["p_offset"] + one["p_filesz"] for one in old.segments]
    ends += [one["sh_offset"] + one["sh_size"] for _, one in old.sections if one["sh_type"] != "SHT_NOBITS"]
    size = len(old.data) - max(ends)
    if size > 0 and difference(old.data, max(ends), new.data, len(new.data) - size, size) is not None:
        yield f"the last {size} bytes of the file, which no header describes, are not kept"


def _load_at(elf: ElfTables, start: int, end: int) -> Mapping[str, Any] | None:
    """The PT_LOAD that contains these bytes of the file."""
    loads = elf.of_type("PT_LOAD")
    return next((one for one in loads if one["p_offset"] <= start and end <= one["p_offset"] + one["p_filesz"]), None)


def _shift(load: Mapping[str, Any]) -> int:
    """The difference of virtual address and file offset."""
    return int(load["p_vaddr"] - load["p_offset"])


def _section_end(header: Mapping[str, Any]) -> int:
    return int(header["sh_addr"] + header["sh_size"])


def _maps(load: Mapping[str, Any], expected: ExpectedSection) -> bool:
    size = expected.end - expected.address
    return bool(0 <= expected.address - load["p_vaddr"] <= load["p_filesz"] - size and size >= 0)


def _share_page(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    page = min(MAX_PAGE, max(MIN_PAGE, one["p_align"], two["p_align"]))
    return bool((one["p_vaddr"] + one["p_memsz"] - 1) // page >= two["p_vaddr"] // page)
