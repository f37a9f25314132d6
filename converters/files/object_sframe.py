"""The `.sframe` of a relocatable file: its contents, and the relocations of the function starts.

Strategy: functions are encoded at the provisional addresses from `lay_out`, which leaves gaps between sections, so that
no FDE spans two of them. Each start then becomes a field with a relocation against the function's section. There is one
`.sframe` for all sections, outside any group, as from GNU as 2.47 and llvm-mc 22: linkers drop single FDEs of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas import sframe
from ...schemas.data_classes import dataclass
from ...schemas.section import BuildError
from ..arch.relocations import pcrel_type
from ..elf.image import ElfImage
from ..elf.relocation import LaidOut, lay_out
from ..refusals import Reason, Refusals
from ..sframe.write import Compact, Encoded, sframe_from_table
from ..table.model import UnwindTable
from .code_frames import CodeFrames, code_frames
from .read_elf import ALL, sections_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class ObjectSframe:
    """A section and its relocations, one per FDE, in the order of FDEs.

    `field` i64: section offset of the start field; `section` u32: index of the section that the start is in, and
    `offset` u64: the start's offset there. `relocation_type` is a number of the machine. `encoded` was made from `laid`
    and `frames`.
    """

    laid: LaidOut
    frames: CodeFrames
    encoded: Encoded
    data: bytes
    relocation_type: int
    field: NDArray[np.int64]
    section: NDArray[np.uint32]
    offset: NDArray[np.uint64]


def object_sframe(
    image: ElfImage,
    version: int,
    compact: Compact | None,
    max_rows: int | None = None,
    source: str = ALL,
    pcrel: bool = True,
    frame_pointer: bool = False,
) -> tuple[ObjectSframe, Refusals]:
    """The `.sframe` of a relocatable file, made from a section or from ALL call frame information, and the refusals.

    Raises ParseError, and BuildError as `to_sframe`, also for `compact="merge"`.
    """
    if compact == "merge":
        reason = "'merge' is for linked files: the linker decides which functions are adjacent"
        raise BuildError(".sframe", None, "compact", reason)
    laid = lay_out(image)
    frames = code_frames(laid, source)
    table = frames.table
    section, start = sections_of(laid, table)
    # Functions in no section (dropped by a linker, or defined in another file): their starts cannot be relocated.
    here = np.flatnonzero(section)
    encoded, refusals = sframe_from_table(table.select(here), version, compact, max_rows, pcrel, frame_pointer)
    encoded = replace(encoded, function=here[encoded.function])
    record = encoded.fdes.dtype
    assert record.fields is not None
    first, size = sframe.HEADER_SIZE, record.fields[sframe.START_FIELDS[encoded.version]][0].itemsize
    return ObjectSframe(
        laid=laid,
        frames=frames,
        encoded=encoded,
        data=encoded.without_starts(),
        relocation_type=pcrel_type(str(image.machine), 8 * size),
        field=first + np.arange(len(encoded.fdes)) * record.itemsize,
        section=section[encoded.function],
        offset=start[encoded.function] + (encoded.start - table.functions.start[encoded.function]),
    ), _with_absent(replace(refusals, function=here[refusals.function]), table, section)


def _with_absent(refusals: Refusals, table: UnwindTable, section: NDArray[np.uint32]) -> Refusals:
    """The refusals, and a refusal for each function that is in no section."""
    absent = np.flatnonzero((section == 0) & (table.functions.size > 0))
    start = table.functions.start[absent]
    reason = np.full(len(absent), Reason.NO_SECTION, np.uint8)
    return Refusals.concatenate([refusals, Refusals(absent, start, start + table.functions.size[absent], reason)])
