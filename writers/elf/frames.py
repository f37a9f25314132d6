"""`.eh_frame` and `.eh_frame_hdr` replaced in a finished ELF64 file: in their place, or in a new segment.

Strategy: where both fit they stay where they are, and nothing but their bytes and sizes changes. Else they are written
as one section by what writes any loaded section, with the header's program header, and then named one by one; a last
look with pyelftools alone holds the file against the one before that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from elftools.common.exceptions import ELFError

from ...schemas.section import BuildError, ParseError
from ..files import copy_range, rewriting, size_of, take_owner_and_mode, take_times
from .add import IN_PLACE, Writer, WriteReport, write_section
from .checks.compare import difference_outside, read_elf_tables
from .engines.plan import LoadedSection, aligned
from .tables import (
    SECTION,
    SECTION_SIZE,
    SEGMENT,
    SEGMENT_SIZE,
    SHF,
    SHT,
    SectionHeader,
    Tables,
    put,
    read_tables,
    refuse_unsuitable,
)

FRAMES, HEADER = ".eh_frame", ".eh_frame_hdr"
PT_GNU_EH_FRAME = 0x6474E550
SHT_PROGBITS = 1
ALIGNMENT = 8
HEADER_ALIGNMENT = 4


@dataclass(frozen=True, slots=True)
class Frames:
    """What is put into the file: bytes of both sections, and their contents by address (the header's second)."""

    size: int
    header_size: int
    content: Callable[[int], bytes]
    header: Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class FramesReport:
    """Where `.eh_frame` and its header are now, and how room was made; `moved` are other sections that had to go,
    `passed_over` is why other engines were not taken, by their names."""

    engine: str
    address: int
    header_address: int
    moved: tuple[str, ...]
    passed_over: dict[str, str]


def write_frames(
    path: Path, out_path: Path, frames: Frames, writer: Writer = "auto", preserve_dates: bool = False
) -> FramesReport:
    """Write `path` with these for its `.eh_frame` and `.eh_frame_hdr` to `out_path` (which may be `path`).

    Links in `out_path` are followed; owner and mode are the input's, times if `preserve_dates`. Raises ParseError if
    the input is not whole ELF, BuildError if it cannot be given them; `out_path` is then as it was.
    """
    with path.open("rb") as source:
        before = read_tables(source)
        refuse_unsuitable(before, size_of(source), FRAMES)
        old = _only(before, FRAMES)
        header = _header_of(before)
        report = WriteReport(IN_PLACE, old.address, old.offset, (old.size,), (), {})
        with rewriting(out_path) as temporary:
            if frames.size <= old.size and frames.header_size <= header.size:
                middle = path
            else:
                report = write_section(path, temporary, _as_one(frames), writer)
                middle = temporary
            placed = _put_frames(middle, temporary, frames, is_moved=middle is temporary)
            if preserve_dates:
                take_times(source, temporary)
    return FramesReport(report.engine, *placed, report.moved, report.passed_over)


def _only(tables: Tables, name: str) -> SectionHeader:
    """The one section of that name, read-only bytes of a segment."""
    found = [tables.sections[index] for index in tables.indices_of(name)]
    if len(found) != 1:
        raise ParseError(
            name, None, "", f"the file has {len(found) or 'no'} section{'s' * (len(found) > 1)} of that name"
        )
    if found[0].type == SHT.NOBITS or not any(load.holds(found[0]) for load in tables.loads):
        raise BuildError(name, None, "sh_type", "has no bytes in a segment")
    if found[0].flags & SHF.WRITE:
        raise BuildError(name, None, "sh_flags", "is writable: the dynamic linker relocates it, as it stands")
    return found[0]


def _header_of(tables: Tables) -> SectionHeader:
    """The header's section, which a program header names.

    Without one (Debian's static programs) crtstuff registers frames from an address on that lies inside the section,
    behind what crt1.o has there: libgcc would read on from the midst of an entry.
    """
    named = [one for one in tables.segments if one.type == PT_GNU_EH_FRAME]
    if not named:
        reason = "the file has none: it registers its frames by itself, from an address that would be no entry's"
        raise BuildError(FRAMES, None, "PT_GNU_EH_FRAME", reason)
    header = _only(tables, HEADER)
    if [one.vaddr for one in named] != [header.address]:
        raise BuildError(HEADER, None, "PT_GNU_EH_FRAME", "does not name the one section")
    return header


def _as_one(frames: Frames) -> LoadedSection:
    """Both as one section, the header first."""
    room = aligned(frames.header_size, ALIGNMENT)

    def content(address: int) -> bytes:
        header = frames.header(address + room, address)
        return header + bytes(room - len(header)) + frames.content(address + room)

    return LoadedSection(HEADER, SHT_PROGBITS, PT_GNU_EH_FRAME, room + frames.size, content, ALIGNMENT)


def _put_frames(middle: Path, out_path: Path, frames: Frames, is_moved: bool) -> tuple[int, int]:
    """Give the two sections their bytes and headers, in a copy of `middle`; their addresses. BuildError for a fault."""
    with middle.open("rb") as source:
        tables = read_tables(source)
        old, header = _only(tables, FRAMES), _header_of(tables)
        new = replace(old, size=frames.size)
        if is_moved:
            room = aligned(frames.header_size, ALIGNMENT)
            new = replace(new, address=header.address + room, offset=header.offset + room)
        changes = list(_changes(tables, frames, old, new, header))
        with rewriting(out_path) as temporary:
            with temporary.open("w+b") as out:
                copy_range(source, out, 0, size_of(source))
                out.truncate(size_of(source))
                for offset, data in changes:
                    put(out, offset, data)
                take_owner_and_mode(source, out)
            if faults := tuple(_faults(middle, temporary, frames, changes)):
                raise BuildError(FRAMES, None, "check", f"faults found: {'; '.join(faults)}")
    return new.address, header.address


def _changes(
    tables: Tables, frames: Frames, old: SectionHeader, new: SectionHeader, header: SectionHeader
) -> Iterator[tuple[int, bytes]]:
    """File offsets, and what is written there; later ones over earlier ones."""
    yield old.offset, bytes(old.size)
    yield header.offset, bytes(header.size)
    yield header.offset, frames.header(new.address, header.address)
    smaller = replace(header, size=frames.header_size, addralign=HEADER_ALIGNMENT)
    yield _place(tables, HEADER), struct.pack(tables.order + SECTION, *astuple(smaller))
    index = next(index for index, one in enumerate(tables.segments) if one.type == PT_GNU_EH_FRAME)
    named = replace(tables.segments[index], filesz=frames.header_size, memsz=frames.header_size, align=HEADER_ALIGNMENT)
    yield tables.phoff + index * SEGMENT_SIZE, struct.pack(tables.order + SEGMENT, *astuple(named))
    yield new.offset, frames.content(new.address)
    yield _place(tables, FRAMES), struct.pack(tables.order + SECTION, *astuple(new))


def _place(tables: Tables, name: str) -> int:
    return tables.shoff + tables.indices_of(name)[0] * SECTION_SIZE


def _faults(before: Path, after: Path, frames: Frames, changes: list[tuple[int, bytes]]) -> Iterator[str]:
    """What is wrong with the result, read with pyelftools: a byte changed elsewhere, sections that are not as given."""
    try:
        with before.open("rb") as first, after.open("rb") as second:
            old, new = read_elf_tables(first), read_elf_tables(second)
            if len(old.data) != len(new.data):
                yield f"the file has {len(new.data)} bytes, it had {len(old.data)}"
                return
            declared = [(offset, offset + len(data)) for offset, data in changes]
            if (place := difference_outside(old.data, new.data, 0, len(new.data), declared)) is not None:
                yield f"the bytes have changed at {place:#x}"
            found = {name: header for name, header in new.sections if name in (FRAMES, HEADER)}
            address = found[FRAMES]["sh_addr"]
            wanted = {
                FRAMES: frames.content(address),
                HEADER: frames.header(address, found[HEADER]["sh_addr"]),
            }
            for name, data in wanted.items():
                offset = found[name]["sh_offset"]
                if found[name]["sh_size"] != len(data) or new.data[offset : offset + len(data)] != data:
                    yield f"{name}: is not what was given"
                if not any(_shows(load, found[name]) for load in new.of_type("PT_LOAD")):
                    yield f"{name}: is in no PT_LOAD"
            for one in new.of_type("PT_GNU_EH_FRAME"):
                if (one["p_vaddr"], one["p_filesz"]) != (found[HEADER]["sh_addr"], found[HEADER]["sh_size"]):
                    yield "PT_GNU_EH_FRAME: is not the header"
    except (ELFError, KeyError) as fault:
        yield f"the result cannot be read: {fault}"


def _shows(load: Mapping[str, int], section: Mapping[str, int]) -> bool:
    """Whether a PT_LOAD has the section where its header says."""
    start = section["sh_offset"] - load["p_offset"]
    is_inside = 0 <= start <= load["p_filesz"] - section["sh_size"]
    return is_inside and load["p_vaddr"] + start == section["sh_addr"]
