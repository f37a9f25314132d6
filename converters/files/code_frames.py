"""The call frame information of a file's code: the chosen sections, joined.

Strategy: as `read_elf(path, "all")`, but of a linked file without the functions of `.debug_frame` outside the
executable sections: linkers leave those of discarded code there, at address 0 or 1, or the highest one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.cfi import DEBUG_FRAME
from ...schemas.data_classes import dataclass
from ..arrays import group_numbers, ranks
from ..elf.image import ElfImage
from ..elf.relocation import LaidOut
from ..refusals import Refusals
from ..table.cut import overlay
from ..table.lookup import NOTHING, ranges_at
from ..table.model import UnwindTable
from .read_elf import ALL, code_of, frame_sections, table_of_laid_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ranges = tuple[NDArray[np.uint64], NDArray[np.uint64]]


@dataclass(frozen=True, slots=True, eq=False)
class CodeFrames:
    """A table; the names of the `sections` whose functions it has, at least one, and how many it has of each, in this
    order (`counts`); of those that were `read`; and the number of functions of `.debug_frame` that it lacks, because
    they are `outside` the executable sections."""

    table: UnwindTable
    sections: tuple[str, ...]
    counts: tuple[int, ...]
    read: tuple[str, ...]
    outside: int = 0


def code_frames(laid: LaidOut, section: str = ALL) -> CodeFrames:
    """The table of a laid-out file, of one section or of ALL of call frame information. Raises as `read_elf`."""
    frames = reduce(_joined, (_of_section(laid, name) for name in frame_sections(laid.image, section)))
    return frames if laid.is_relocatable else replace(frames, table=replace(frames.table, code=code_of(laid.image)))


def section_sizes(image: ElfImage, names: Iterable[str]) -> dict[str, int]:
    """The size in bytes of the sections of each name, decompressed."""
    return {name: sum(image.content_size(header) for header in image.named(name)) for name in names}


def _of_section(laid: LaidOut, name: str) -> CodeFrames:
    table = table_of_laid_out(laid, name)
    if name != DEBUG_FRAME.name or laid.is_relocatable:
        return CodeFrames(table, (name,), (len(table),), (name,))
    inside = is_code(laid.image, table.functions.start)
    outside = int((~inside).sum())
    table = table.select(inside) if outside else table
    return CodeFrames(table, (name,), (len(table),), (name,), outside)


def _joined(above: CodeFrames, below: CodeFrames) -> CodeFrames:
    """Both; a PC of both belongs to `above`."""
    table, outside = overlay(above.table, below.table), above.outside + below.outside
    read = above.read + below.read
    if not len(above.table) and len(table):
        return CodeFrames(replace(table, source=below.table.source), below.sections, (len(table),), read, outside)
    if table is above.table:
        return replace(above, read=read, outside=outside)
    counts = (*above.counts, len(table) - len(above.table))
    return CodeFrames(table, above.sections + below.sections, counts, read, outside)


def is_code(image: ElfImage, address: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which addresses are in an executable section; all, if the file has none."""
    code = [one for one in image.sections if one.is_code]
    start, size = (
        np.array(column, np.uint64) for column in ([one.address for one in code], [one.size for one in code])
    )
    return ranges_at(start, size, address) != NOTHING if code else np.ones(len(address), np.bool_)


def ranges_of(table: UnwindTable) -> Ranges:
    """The PC ranges of the functions: starts and ends."""
    return table.functions.start, table.functions.start + table.functions.size


def expressed_ranges(table: UnwindTable, refusals: Refusals) -> Ranges:
    """The PC ranges of the functions without what is refused of them."""
    start, end = ranges_of(table)
    order = np.lexsort((refusals.start, refusals.function))
    cuts = np.bincount(refusals.function, minlength=len(table))
    # Each function has a range before each of its refusals, and one after the last.
    owner, rank = group_numbers(cuts + 1), ranks(cuts + 1)
    begins, stops = start[owner], end[owner]
    begins[rank > 0] = refusals.end[order]
    stops[rank < cuts[owner]] = refusals.start[order]
    return begins, np.maximum(begins, stops)
