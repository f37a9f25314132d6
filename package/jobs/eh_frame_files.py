"""An `.eh_frame` with its `.eh_frame_hdr`, written into an ELF file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..converters.cfi.eh_frame_hdr import EhFrame, build_eh_frame_hdr, eh_frame_hdr_size
from ..converters.cfi.write import frames_from_table
from ..converters.elf.image import open_elf
from ..converters.refusals import Refusals, count_reasons
from ..converters.table.model import UnwindTable
from ..schemas.arguments import checked
from ..schemas.cfi import EH_FRAME
from ..schemas.data_classes import dataclass
from . import StrPath
from .into_file import table_for
from .report import Coverage, FileReport, Placement, coverage, has_rest

if TYPE_CHECKING:
    from ..writers.elf.add import Writer
    from ..writers.elf.frames import FrameSections, FramesReport


@dataclass(frozen=True, kw_only=True)
class EhFrameReport(Placement, Coverage, FileReport):
    """What `write_eh_frame` did. Sizes in bytes.

    `written` is the size of the `.eh_frame`, `header_address` the address of its `.eh_frame_hdr`. Of the functions,
    `kept` are those of the file's own `.eh_frame`. `outside_code` counts functions that were left out because they are
    in no executable section.
    """

    written: int
    header_address: int
    kept: int
    outside_code: int


@checked(table=UnwindTable)
def write_eh_frame(
    path: StrPath,
    out_path: StrPath,
    table: UnwindTable,
    *,
    keep: bool = False,
    writer: Writer = "auto",
    preserve_dates: bool = False,
) -> EhFrameReport:
    """Write a copy of `path` with an `.eh_frame` and `.eh_frame_hdr` of this table to `out_path`, which may be `path`.

    Both are loaded, and PT_GNU_EH_FRAME refers to the header, whether the file had any or not. The functions of an
    existing `.eh_frame` are replaced; with `keep` they stay, and the table only adds PCs that they do not cover.
    `writer` selects the engine that makes space; with `preserve_dates` the result keeps the times of `path`.

    Raises OSError, ParseError for malformed input, BuildError for what cannot be written and for a table of another
    architecture; `out_path` is then unchanged.
    """
    given = table_for(open_elf(path), table, EH_FRAME.name, keep)
    refusals, size, written = write_frames_of(given.table, Path(path), Path(out_path), writer, preserve_dates)
    return EhFrameReport(
        file=os.fspath(path),
        output=os.fspath(out_path),
        functions=len(given.table),
        refused=count_reasons(refusals),
        written=size,
        address=written.address,
        header_address=written.header_address,
        writer=written.engine,
        moved=written.moved,
        passed_over=written.passed_over,
        kept=given.kept,
        outside_code=given.outside,
        **coverage(has_rest(given.table, refusals), refusals),
    )


def write_frames_of(
    table: UnwindTable, path: Path, out_path: Path, writer: Writer, preserve_dates: bool = False
) -> tuple[Refusals, int, FramesReport]:
    """Write the file `path` with an `.eh_frame` and `.eh_frame_hdr` of this table to `out_path`.
    Returns the refusals, the size of the new `.eh_frame`, and what was written."""
    from ..writers.elf.frames import write_frames

    # Pointers of 4 bytes are enough: a function that is too far away for them is so for the rows of the header.
    encoded, refusals = frames_from_table(table, EH_FRAME)
    return refusals, len(encoded), write_frames(path, out_path, frames_for(encoded), writer, preserve_dates)


def frames_for(frames: EhFrame) -> FrameSections:
    """An `.eh_frame` and its header in the form that the ELF writer takes."""
    from ..writers.elf.frames import FrameSections

    def header(eh_frame_address: int, address: int) -> bytes:
        return build_eh_frame_hdr(frames.fdes, frames.byte_order, frames.address_size, eh_frame_address, address)

    return FrameSections(len(frames), eh_frame_hdr_size(frames.fdes), frames.at, header)
