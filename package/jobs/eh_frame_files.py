"""An `.eh_frame` with its `.eh_frame_hdr`, written into an ELF file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..converters.cfi.eh_frame_hdr import EhFrame, build_eh_frame_hdr, eh_frame_hdr_size
from ..converters.cfi.write import frames_from_table
from ..converters.refusals import Refusals
from ..schemas.cfi import EH_FRAME
from .sources import Source

if TYPE_CHECKING:
    from ..writers.elf.add import Writer
    from ..writers.elf.frames import FrameSections, FramesReport


NEAR = 1 << 24  # more than anything that may be placed before the section


def write_eh_frame(path: Path, out_path: Path, found: Source, writer: Writer) -> tuple[Refusals, int, FramesReport]:
    """Write `path` with an `.eh_frame` and `.eh_frame_hdr` made from the `found` source to `out_path`. Returns the
    refusals, the size of the new `.eh_frame`, and what was written."""
    from ..writers.elf.frames import write_frames

    encoded, refusals = frames_from_table(found.table, EH_FRAME, 8 if _reaches_far(found) else 4)
    return refusals, len(encoded), write_frames(path, out_path, frames_for(encoded), writer)


def _reaches_far(found: Source) -> bool:
    """Whether some function may be more than 2 GiB from the new section, which may be after everything in the file."""
    assert found.image is not None
    ends = [one.address + one.size for one in found.image.sections]
    functions = found.table.functions
    return len(found.table) > 0 and max(ends) + len(found.section) + NEAR - int(functions.start.min()) > 1 << 31


def frames_for(frames: EhFrame) -> FrameSections:
    """An `.eh_frame` and its header in the form that the ELF writer takes."""
    from ..writers.elf.frames import FrameSections

    def header(eh_frame_address: int, address: int) -> bytes:
        return build_eh_frame_hdr(frames.fdes, frames.byte_order, frames.address_size, eh_frame_address, address)

    return FrameSections(len(frames), eh_frame_hdr_size(frames.fdes), frames.at, header)
