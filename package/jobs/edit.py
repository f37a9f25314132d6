"""The `.eh_frame` of a file edited record by record: the job of `unwindkit edit`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..converters.cfi.edit.edit import EditedCfi, covering, edit_records
from ..converters.cfi.edit.merge import merge_cfi
from ..converters.cfi.records import read_records
from ..converters.elf.admission import refuse_relocatable, section_of_image
from ..converters.elf.image import ElfImage, open_elf
from ..converters.elf.relocation import lay_out
from ..converters.elf.symbols import addresses_asked_for
from ..converters.files.code_frames import code_frames
from ..converters.refusals import count_reasons
from ..converters.table.model import FunctionColumns, UnwindTable
from ..schemas.arguments import check_place, checked, each
from ..schemas.cfi import EH_FRAME
from ..schemas.data_classes import dataclass
from ..schemas.pointers import PointerBases
from ..schemas.section import BuildError, ParseError
from . import StrPath
from .eh_frame_files import frames_for
from .report import FileReport, Placement

if TYPE_CHECKING:
    from ..writers.elf.add import Writer


@dataclass(frozen=True, kw_only=True)
class EditReport(Placement, FileReport):
    """What `edit_eh_frame` did. Sizes in bytes.

    `functions` are those of the result; `dropped`, `replaced` and `added` count FDEs. `conflicts` counts ranges that
    both files of a merge cover with different rows.
    """

    dropped: int
    replaced: int
    added: int
    conflicts: int
    bytes_before: int
    bytes_after: int
    header_address: int


@checked(drop=each(check_place), take=each(check_place))
def edit_eh_frame(
    path: StrPath,
    out_path: StrPath,
    drop: Sequence[str | int] = (),
    source: StrPath | None = None,
    take: Sequence[str | int] = (),
    merge: StrPath | None = None,
    writer: Writer = "auto",
    preserve_dates: bool = False,
) -> EditReport:
    """Write a copy of `path` with its `.eh_frame` edited record by record, and a new `.eh_frame_hdr`, to `out_path`.

    Functions are given by symbol (which may be several local functions) or by a PC. Those in `drop` are removed. The
    functions of `source`, or only those in `take`, replace the functions of `path` that cover their starts, or are
    added. With `merge` the records of that file's `.eh_frame` are appended unchanged; where both files cover a PC, that
    of `path` is kept.

    Raises OSError, ParseError for malformed input and unknown names, BuildError for what cannot be written; `out_path`
    is then unchanged.
    """
    from ..writers.elf.frames import write_frames

    edited, conflicts = _edit(open_elf(path), drop, source, take, merge)
    written = write_frames(Path(path), Path(out_path), frames_for(edited), writer, preserve_dates)
    report = edited.report
    return EditReport(
        file=os.fspath(path),
        output=os.fspath(out_path),
        functions=len(edited.fdes),
        dropped=report.dropped,
        replaced=report.replaced,
        added=report.added,
        conflicts=conflicts,
        refused=count_reasons(edited.refusals),
        bytes_before=report.bytes_before,
        bytes_after=report.bytes_after,
        address=written.address,
        header_address=written.header_address,
        writer=written.engine,
        moved=written.moved,
        passed_over=written.passed_over,
    )


def _edit(
    image: ElfImage,
    drop: Sequence[str | int],
    source: StrPath | None,
    take: Sequence[str | int],
    merge: StrPath | None,
) -> tuple[EditedCfi, int]:
    """The edited section, and the number of conflicts in a merge."""
    architecture, section = image.architecture, section_of_image(image, EH_FRAME.name)
    if merge is not None:
        if drop or source is not None:
            raise BuildError(EH_FRAME.name, None, "merge", "cannot be combined with drop or source")
        other = section_of_image(open_elf(merge), EH_FRAME.name)
        merged = merge_cfi([section, other], architecture, address=section.address)
        return merged.frames, len(merged.conflicts)
    records = read_records(section, EH_FRAME, architecture, PointerBases(data=image.data_base))
    there, new = _taken(records.functions, source, take)
    return edit_records(records, _pcs(image, drop), there, new), 0


def _pcs(image: ElfImage, named: Sequence[str | int]) -> list[int]:
    """The PCs of addresses and names, without duplicates."""
    return sorted({address for address, _ in addresses_asked_for(image, named)})


def _taken(
    functions: FunctionColumns, source: StrPath | None, take: Sequence[str | int]
) -> tuple[UnwindTable | None, UnwindTable | None]:
    """The functions of another file that replace existing ones, and those that are added."""
    if source is None:
        if take:
            raise BuildError(EH_FRAME.name, None, "take", "requires a source")
        return None, None
    image = open_elf(source)
    refuse_relocatable(image)
    table = code_frames(lay_out(image)).table
    if take:
        pcs = np.array(_pcs(image, take), np.uint64)
        chosen, missing = covering(table.functions, pcs)
        for pc in pcs[missing].tolist():
            raise ParseError(table.source, None, "take", f"no function covers the PC {pc:#x}")
        table = table.select(chosen)
    table = table.select(table.functions.size > 0)
    _, is_new = covering(functions, table.functions.start)
    return table.select(~is_new), table.select(is_new)
