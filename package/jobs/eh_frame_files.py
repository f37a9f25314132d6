"""Whole jobs that write call frame information: `.eh_frame` into an ELF file, raw sections, assembler text."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from ..converters.assembler.write import to_directives
from ..converters.breakpad.stack_cfi.write import stack_cfi_from_table
from ..converters.cfi.eh_frame_hdr import build_eh_frame_hdr, eh_frame_hdr_size
from ..converters.cfi.read import table_from_cfi
from ..converters.cfi.write import frames_from_table, to_debug_frame, to_eh_frame
from ..converters.refusals import Refusals, RefusedCount, count_reasons
from ..converters.table.model import UnwindTable
from ..schemas.cfi import EH_FRAME
from ..schemas.section import BuildError, Section
from ..writers.files import write_bytes
from . import StrPath
from .sources import Source, read_source

if TYPE_CHECKING:
    from ..writers.elf.add import Writer
    from ..writers.elf.frames import Frames, FramesReport


NEAR = 1 << 24  # room for what may be put before the section

FramesFormat = Literal["eh_frame", "debug_frame", "directives", "breakpad"]


class PlacedAnywhere(Protocol):
    """A section whose bytes depend on where it is."""

    def __len__(self) -> int: ...

    def at(self, section_address: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class FramesConvertReport:
    """What `convert_frames` did. Sizes in bytes.

    `functions` were read from `source`, a section of `source_bytes`; `refused` counts those that are not in the result
    by the name of the `Reason`. `written` are the bytes of the result's section, or of the text; `address` its address,
    `header_address` that of the `.eh_frame_hdr`. Where an ELF file was written, `writer` says how room was made,
    `passed_over` why not otherwise; `moved` are other sections that have another address now.
    """

    file: str
    output: str
    source: str
    source_bytes: int
    to: str
    functions: int
    refused: dict[str, RefusedCount]
    written: int
    address: int | None
    header_address: int | None
    writer: str | None
    moved: tuple[str, ...]
    passed_over: dict[str, str]


def convert_frames(
    path: StrPath,
    out_path: StrPath,
    to: FramesFormat = "eh_frame",
    source: str | None = None,
    address: int = 0,
    to_address: int | None = None,
    section_only: bool = False,
    architecture: str | None = None,
    writer: Writer = "auto",
) -> FramesConvertReport:
    """Write the unwind information of `path`, an ELF file or a raw section, as call frame information to `out_path`.

    `source` is one of `conversions.SOURCES` (None, of an ELF file alone: the call frame information that it has). Raw:
    it is at the virtual address `address`, and all but SFrame needs the `architecture`. `to`: "eh_frame", of an ELF
    file a copy of it with that `.eh_frame` and its `.eh_frame_hdr`, else, or with `section_only`, the section for
    `to_address` (None: where the input's was); "debug_frame", a section; "directives", source for GNU as; "breakpad",
    STACK CFI lines, which count from the load address. Raises OSError, ParseError for broken input, BuildError for what
    cannot be written; `out_path` is then as it was.
    """
    if to not in get_args(FramesFormat):
        raise BuildError("", None, "to", f"{to!r} is none of {', '.join(get_args(FramesFormat))}")
    found = read_source(Path(path), source, address, architecture)
    place, written = None, None
    if to == "eh_frame" and found.image is not None and not section_only:
        if to_address is not None:
            raise BuildError(EH_FRAME.name, None, "to_address", "is chosen by what writes an ELF file")
        refusals, size, written = _into_elf(Path(path), Path(out_path), found, writer)
        place = written.address
    else:
        if to == "eh_frame":
            place = found.section.address if to_address is None else to_address
            data, refusals = to_eh_frame(found.table, place)
        else:
            data, refusals = _ENCODERS[to](found.table)
        size = len(data)
        write_bytes(Path(out_path), data)
    return FramesConvertReport(
        file=os.fspath(path),
        output=os.fspath(out_path),
        source=found.section.name,
        source_bytes=len(found.section),
        to=to,
        functions=len(found.table),
        refused=count_reasons(refusals),
        written=size,
        address=place,
        header_address=None if written is None else written.header_address,
        writer=None if written is None else written.engine,
        moved=() if written is None else written.moved,
        passed_over={} if written is None else written.passed_over,
    )


# To what depends on no address.
_ENCODERS: dict[str, Callable[[UnwindTable], tuple[bytes, Refusals]]] = {
    "debug_frame": to_debug_frame,
    "directives": to_directives,
    "breakpad": stack_cfi_from_table,
}


def _into_elf(path: Path, out_path: Path, found: Source, writer: Writer) -> tuple[Refusals, int, FramesReport]:
    """The refusals, the bytes of the new `.eh_frame`, and what was written."""
    from ..writers.elf.frames import write_frames

    encoded, refusals = frames_from_table(found.table, EH_FRAME, 8 if _reaches_far(found) else 4)
    return refusals, len(encoded), write_frames(path, out_path, frames_for(encoded, found.table), writer)


def _reaches_far(found: Source) -> bool:
    """Whether some function may be more than 2 GiB from where the section will be: behind all that the file has."""
    assert found.image is not None
    ends = [one.address + one.size for one in found.image.sections]
    functions = found.table.functions
    return len(found.table) > 0 and max(ends) + len(found.section) + NEAR - int(functions.start.min()) > 1 << 31


def frames_for(frames: PlacedAnywhere, like: UnwindTable, address: int | None = None) -> Frames:
    """An `.eh_frame` as a writer takes it, with the header that belongs to it; architecture and byte order are those of
    `like`. `address` is one where it can stand (None: near the functions)."""
    from ..writers.elf.frames import Frames

    def table_at(address: int) -> UnwindTable:
        data = memoryview(frames.at(address))
        section = Section(EH_FRAME.name, data, address, None, like.byte_order, like.address_size)
        return table_from_cfi(section, EH_FRAME, like.architecture)

    def header(eh_frame_address: int, address: int) -> bytes:
        return build_eh_frame_hdr(table_at(eh_frame_address), eh_frame_address, address)

    # The header has as many rows wherever both are; near the functions every address can be said.
    nearby = address if address is not None else int(like.functions.start.min()) if len(like) else 0
    return Frames(len(frames), eh_frame_hdr_size(table_at(nearby)), frames.at, header)
