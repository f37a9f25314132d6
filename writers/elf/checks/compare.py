"""Compare two ELF files, read with pyelftools: the building blocks of the checks of written files."""

from __future__ import annotations

import mmap
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

from ....schemas.data_classes import dataclass

CHUNK = 1 << 20
# In a hostile file every name may be as long as the table. A longer name is not equal to that in the written file.
MAX_NAME = 1 << 12
HASH_TABLES = ("SHT_HASH", "SHT_GNU_HASH")
KEPT_HEADER_FIELDS = (
    "e_ident", "e_type", "e_machine", "e_version", "e_entry", "e_flags", "e_ehsize", "e_phentsize", "e_shentsize",
    "e_shstrndx",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ElfTables:
    """One file: its header fields by name, program headers, section names and headers, and its bytes."""

    header: Mapping[str, Any]
    segments: Sequence[Mapping[str, Any]]
    sections: Sequence[tuple[str, Mapping[str, Any]]]
    data: mmap.mmap

    def of_type(self, segment_type: int | str) -> list[Mapping[str, Any]]:
        return [segment for segment in self.segments if segment["p_type"] == segment_type]

    def table_range(self) -> tuple[int, int]:
        """The file offsets of the start and the end of the program header table."""
        start = self.header["e_phoff"]
        return start, start + self.header["e_phnum"] * self.header["e_phentsize"]


def read_elf_tables(file: Any) -> ElfTables:
    """Read the tables of a written file, and what sections refer to. Raises ELFError if that fails."""
    return _tables(file, is_followed=True)


def read_input_tables(file: Any) -> ElfTables:
    """As `read_elf_tables`, for the file that the written one was made from: references are not followed."""
    return _tables(file, is_followed=False)


def _tables(file: Any, is_followed: bool) -> ElfTables:
    try:
        elf = ELFFile(file)
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        segments = _headers(elf, elf.structs.Elf_Phdr, elf["e_phoff"], elf["e_phentsize"], elf.num_segments())
        headers = _headers(elf, elf.structs.Elf_Shdr, elf["e_shoff"], elf["e_shentsize"], elf.num_sections())
        sections = list(zip(_names(elf, headers, data), headers, strict=True))
        if is_followed:
            _follow(elf, headers)
        return ElfTables(elf.header, segments, sections, data)
    except (OSError, ValueError) as fault:  # an offset larger than any file
        raise ELFError(str(fault)) from fault


def _headers(elf: ELFFile, layout: Any, offset: int, size: int, count: int) -> list[Mapping[str, Any]]:
    if count and size < layout.sizeof():
        raise ELFError(f"headers of {size} bytes are too small")
    return [struct_parse(layout, elf.stream, stream_pos=offset + index * size) for index in range(count)]


def _follow(elf: ELFFile, sections: Sequence[Mapping[str, Any]]) -> None:
    """Read what sections refer to. Raises ELFError."""
    for index, header in enumerate(sections):
        # Hash tables refer to their symbols as other sections do; their numbers take longer to read than all the rest.
        if header["sh_type"] not in HASH_TABLES:
            elf.get_section(index)


def _names(elf: ELFFile, sections: Sequence[Mapping[str, Any]], data: mmap.mmap) -> Iterator[str]:
    """The names of sections."""
    index = elf.get_shstrndx()
    if sections and index >= len(sections):
        raise ELFError(f"e_shstrndx is {index}, but there are {len(sections)} sections")
    for header in sections:
        start = sections[index]["sh_offset"] + header["sh_name"]
        yield data[start : start + MAX_NAME].partition(b"\0")[0].decode(errors="replace")


def mode_faults(before: Path, after: Path) -> Iterator[str]:
    """The mode must be unchanged; set-id bits may be missing if the owner could not be kept."""
    old, new = before.stat(), after.stat()
    owner_kept = (old.st_uid, old.st_gid) == (new.st_uid, new.st_gid)
    dropped = 0 if owner_kept else stat.S_ISUID | stat.S_ISGID
    if stat.S_IMODE(old.st_mode) & ~dropped != stat.S_IMODE(new.st_mode) & ~dropped:
        yield f"the file's mode is {new.st_mode:o}, it was {old.st_mode:o}"


def field_faults(
    title: str, field: str, old: Mapping[str, Any], new: Mapping[str, Any], verb: str = "was"
) -> Iterator[str]:
    """A sentence if the field of two headers differs."""
    if old[field] != new[field]:
        shown = [f"{one:#x}" if isinstance(one, int) else str(one) for one in (new[field], old[field])]
        yield f"{title}: {field} is {shown[0]}, {verb} {shown[1]}"


def difference(old: mmap.mmap, old_offset: int, new: mmap.mmap, new_offset: int, size: int) -> int | None:
    """The offset, relative to their start, where `size` bytes first differ; None if they do not."""
    for start in range(0, size, CHUNK):
        end = min(size, start + CHUNK)
        one, two = old[old_offset + start : old_offset + end], new[new_offset + start : new_offset + end]
        if one != two:
            pairs = enumerate(zip(one, two, strict=False))
            return start + next((place for place, (a, b) in pairs if a != b), min(len(one), len(two)))
        for data, place in ((old, old_offset + start), (new, new_offset + start)):
            _forget(data, place, end - start)
    return None


def _forget(data: mmap.mmap, start: int, size: int) -> None:
    """Release the memory of pages that were read; otherwise two large files would be in memory whole."""
    first, last = -(-start // mmap.PAGESIZE), (start + size) // mmap.PAGESIZE
    if last > first:
        data.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)


def difference_outside(
    old: mmap.mmap, new: mmap.mmap, start: int, end: int, skipped: Iterable[tuple[int, int]]
) -> int | None:
    """The offset where two files first differ between two offsets, outside some ranges; None if they do not."""
    for skip_start, skip_end in [*sorted(skipped), (end, end)]:
        size = min(skip_start, end) - start
        place = difference(old, start, new, start, size) if size > 0 else None
        if place is not None:
            return start + place
        start = max(start, skip_end)
    return None


def is_zero_outside(data: mmap.mmap, start: int, end: int, skipped: Iterable[tuple[int, int]]) -> bool:
    """Whether all bytes between two offsets, outside some ranges, are zero."""
    for skip_start, skip_end in [*sorted(skipped), (end, end)]:
        if any(data[start : min(skip_start, end)]):
            return False
        start = max(start, skip_end)
    return True


def type_name(names: Mapping[str, int], number: int) -> str | int:
    """The type as in pyelftools: its name, or the number of an unknown one."""
    return next((name for name, value in names.items() if value == number), number)
