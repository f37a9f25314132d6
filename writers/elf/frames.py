"""Replace `.eh_frame` and `.eh_frame_hdr` in a finished ELF64 file: in place, or in a new segment.

Strategy: if both fit, they stay where they are, and only their bytes and sizes change. Otherwise they are written as
one section, like any loaded section (`add.py`), with the header's program header, and then split into two sections;
`checks.frames` compares the result with the file before the split.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from ...schemas.section import BuildError, ParseError
from ..files import copy_range, rewriting, size_of, take_owner_and_mode, take_times
from .add import IN_PLACE, Writer, WriteReport, write_section
from .checks.frames import ExpectedFrames, check_frames
from .engines.plan import LoadedSection, align_up
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
class FrameSections:
    """The sections to write: their sizes in bytes, and their contents given their addresses (the header's second)."""

    size: int
    header_size: int
    content: Callable[[int], bytes]
    header: Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class FramesReport:
    """The addresses of `.eh_frame` and its header, and the engine that made space. `moved` are other loaded sections
    whose address changed; `passed_over` has the reason why each earlier engine was not used, by name."""

    engine: str
    address: int
    header_address: int
    moved: tuple[str, ...]
    passed_over: dict[str, str]


def write_frames(
    path: Path, out_path: Path, frames: FrameSections, writer: Writer = "auto", preserve_dates: bool = False
) -> FramesReport:
    """Write `path` to `out_path` (which may be `path`) with another `.eh_frame` and `.eh_frame_hdr`.

    Links in `out_path` are followed; owner and mode are the input's, and the times if `preserve_dates`. Raises
    ParseError if the input is not complete ELF, BuildError if the sections cannot be replaced; `out_path` is then
    unchanged.
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
            address, header_address = _put_frames(middle, temporary, frames, is_moved=middle is temporary)
            if preserve_dates:
                take_times(source, temporary)
    return FramesReport(report.engine, address, header_address, report.moved, report.passed_over)


def _only(tables: Tables, name: str) -> SectionHeader:
    """The only section of that name, which must have bytes in a segment and be read-only."""
    found = [tables.sections[index] for index in tables.indices_of(name)]
    if len(found) != 1:
        raise ParseError(
            name, None, "", f"the file has {len(found) or 'no'} section{'s' * (len(found) > 1)} of that name"
        )
    if found[0].type == SHT.NOBITS or not any(load.holds(found[0]) for load in tables.loads):
        raise BuildError(name, None, "sh_type", "has no bytes in a segment")
    if found[0].flags & SHF.WRITE:
        raise BuildError(name, None, "sh_flags", "is writable: the dynamic linker relocates it in place")
    return found[0]


def _header_of(tables: Tables) -> SectionHeader:
    """The header's section, to which PT_GNU_EH_FRAME must refer.

    Without it (Debian's static programs), crtstuff registers frames from an address inside the section, after those of
    crt1.o: in another `.eh_frame`, libgcc would start to read in the middle of an entry.
    """
    named = [one for one in tables.segments if one.type == PT_GNU_EH_FRAME]
    if not named:
        reason = "the file has none: it registers its frames itself, from an address that would not be an entry's"
        raise BuildError(FRAMES, None, "PT_GNU_EH_FRAME", reason)
    header = _only(tables, HEADER)
    if [one.vaddr for one in named] != [header.address]:
        raise BuildError(HEADER, None, "PT_GNU_EH_FRAME", "does not refer to the section")
    return header


def _as_one(frames: FrameSections) -> LoadedSection:
    """Both as one section, the header first."""
    header_space = align_up(frames.header_size, ALIGNMENT)

    def content(address: int) -> bytes:
        header = frames.header(address + header_space, address)
        return header + bytes(header_space - len(header)) + frames.content(address + header_space)

    return LoadedSection(HEADER, SHT_PROGBITS, PT_GNU_EH_FRAME, header_space + frames.size, content, ALIGNMENT)


def _put_frames(middle: Path, out_path: Path, frames: FrameSections, is_moved: bool) -> tuple[int, int]:
    """Write the two sections and their headers into a copy of `middle`; returns their addresses. Raises BuildError if
    the result has faults."""
    with middle.open("rb") as source:
        tables = read_tables(source)
        old, header = _only(tables, FRAMES), _header_of(tables)
        new = replace(old, size=frames.size)
        if is_moved:
            header_space = align_up(frames.header_size, ALIGNMENT)
            new = replace(new, address=header.address + header_space, offset=header.offset + header_space)
        changes = list(_changes(tables, frames, old, new, header))
        with rewriting(out_path) as temporary:
            with temporary.open("w+b") as out:
                copy_range(source, out, 0, size_of(source))
                out.truncate(size_of(source))
                for offset, data in changes:
                    put(out, offset, data)
                take_owner_and_mode(source, out)
            declared = tuple((offset, offset + len(data)) for offset, data in changes)
            if faults := check_frames(middle, temporary, ExpectedFrames(frames.content, frames.header, declared)):
                raise BuildError(FRAMES, None, "check", f"faults found: {'; '.join(faults)}")
    return new.address, header.address


def _changes(
    tables: Tables, frames: FrameSections, old: SectionHeader, new: SectionHeader, header: SectionHeader
) -> Iterator[tuple[int, bytes]]:
    """File offsets and the bytes to write there; later ones overwrite earlier ones."""
    yield old.offset, bytes(old.size)
    yield header.offset, bytes(header.size)
    yield header.offset, frames.header(new.address, header.address)
    smaller = replace(header, size=frames.header_size, addralign=HEADER_ALIGNMENT)
    yield _header_offset(tables, HEADER), struct.pack(tables.order + SECTION, *astuple(smaller))
    index = next(index for index, one in enumerate(tables.segments) if one.type == PT_GNU_EH_FRAME)
    named = replace(tables.segments[index], filesz=frames.header_size, memsz=frames.header_size, align=HEADER_ALIGNMENT)
    yield tables.phoff + index * SEGMENT_SIZE, struct.pack(tables.order + SEGMENT, *astuple(named))
    yield new.offset, frames.content(new.address)
    yield _header_offset(tables, FRAMES), struct.pack(tables.order + SECTION, *astuple(new))


def _header_offset(tables: Tables, name: str) -> int:
    return tables.shoff + tables.indices_of(name)[0] * SECTION_SIZE
