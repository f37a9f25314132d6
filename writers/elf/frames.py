"""Write `.eh_frame` and `.eh_frame_hdr` into a finished ELF64 file: new ones, or in place of those that it has.

Strategy: they are a loaded section and one that follows it (`add.py`), to which PT_GNU_EH_FRAME refers; `checks.frames`
then reads them as an unwinder does. They stay where they are only if the file has both and PT_GNU_EH_FRAME, by which
unwinders find them. Otherwise they go into a new segment, and the old bytes become zeros: startup code that registers
`.eh_frame` by its address (crtbeginT.o in static programs) finds a terminator there and registers nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...schemas.data_classes import dataclass
from ...schemas.elf.numbers import PT, SHF, SHT, SHT_X86_64_UNWIND
from ...schemas.section import BuildError, ParseError
from .add import Writer, engines_of, write_by_engines
from .checks.frames import check_frames
from .engines.plan import FollowingSection, LoadedSection
from .tables import SectionHeader, Tables, read_tables

FRAMES, HEADER = ".eh_frame", ".eh_frame_hdr"
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
    """Write `path` to `out_path` (which may be `path`) with this `.eh_frame` and `.eh_frame_hdr`, and PT_GNU_EH_FRAME.

    Links in `out_path` are followed; owner and mode are the input's, and the times if `preserve_dates`. Raises
    ParseError if the input is not complete ELF, BuildError if the sections cannot be written; `out_path` is then
    unchanged.
    """
    with path.open("rb") as source:
        before = read_tables(source)
    old, header = _existing(before, FRAMES), _existing(before, HEADER)
    if header is not None:
        _refuse_other_header(before, header)
    section = _pair(frames, old, header)

    def new_faults(result: Path) -> tuple[str, ...]:
        # Edited records may lack a terminator as the input's do.
        found = check_frames(result)
        return tuple(one for one in found if one not in check_frames(path)) if found else ()

    report = write_by_engines(path, out_path, section, engines_of(FRAMES, writer), preserve_dates, new_faults)
    assert report.following is not None
    return FramesReport(report.engine, report.address, report.following, report.moved, report.passed_over)


def _existing(tables: Tables, name: str) -> SectionHeader | None:
    """The section of that name, if there is one; it must have bytes in a segment and be read-only."""
    found = [tables.sections[index] for index in tables.indices_of(name)]
    if not found:
        return None
    if len(found) != 1:
        raise ParseError(name, None, "", f"the file has {len(found)} sections of that name")
    if found[0].type == SHT.NOBITS or not any(load.holds(found[0]) for load in tables.loads):
        raise BuildError(name, None, "sh_type", "has no bytes in a segment")
    if found[0].flags & SHF.WRITE:
        raise BuildError(name, None, "sh_flags", "is writable: the dynamic linker relocates it in place")
    return found[0]


def _refuse_other_header(tables: Tables, header: SectionHeader) -> None:
    """Raise BuildError if there is a PT_GNU_EH_FRAME that refers to anything but the header."""
    named = [one.vaddr for one in tables.segments if one.type == PT.GNU_EH_FRAME]
    if named not in ([], [header.address]):
        raise BuildError(HEADER, None, "PT_GNU_EH_FRAME", "does not refer to the section")


def _pair(frames: FrameSections, old: SectionHeader | None, header: SectionHeader | None) -> LoadedSection:
    """Both sections for the engines, with the types and the alignment of the existing ones."""

    def header_content(address: int, frames_address: int) -> bytes:
        return frames.header(frames_address, address)

    following = FollowingSection(
        HEADER, _type_of(header), PT.GNU_EH_FRAME, frames.header_size, header_content, HEADER_ALIGNMENT
    )
    alignment = old.addralign if old is not None and old.addralign in (4, 8) else ALIGNMENT
    return LoadedSection(FRAMES, _type_of(old), None, frames.size, frames.content, alignment, following)


def _type_of(old: SectionHeader | None) -> int:
    return SHT.PROGBITS if old is None or old.type != SHT_X86_64_UNWIND else SHT_X86_64_UNWIND
