"""The `.sframe` of a relocatable file: what is said, and where a linker has to put which start.

Strategy: functions are encoded at the addresses that `lay_out` makes up, where no two sections touch, so that no
FDE spans two; each start then is a field to be relocated: by the section that its function is in and the offset there.
One section for all, outside any group, as GNU as 2.47 and llvm-mc 22 make it: linkers drop its FDEs one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas import sframe
from ...schemas.section import BuildError
from ..arch.relocations import pcrel_type
from ..elf.image import ElfImage
from ..elf.relocation import LaidOut, lay_out
from ..refusals import Reason, Refusals
from ..sframe.write import Compact, Encoded, sframe_from_table
from ..table.model import UnwindTable
from .read_elf import sections_of, table_of_laid_out

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class ObjectSframe:
    """A section and its relocations, one an FDE, in their order.

    `field` i64, where in the section the start is; `section` u32, the section that it leads into, and `offset` u64,
    the place there. `relocation_type` is the machine's. `laid` and `table` are what `encoded` was made from.
    """

    laid: LaidOut
    table: UnwindTable
    encoded: Encoded
    data: bytes
    relocation_type: int
    field: NDArray[np.int64]
    section: NDArray[np.uint32]
    offset: NDArray[np.uint64]


def object_sframe(
    image: ElfImage, version: int, compact: Compact | None, max_rows: int | None = None
) -> tuple[ObjectSframe, Refusals]:
    """The `.sframe` of a relocatable file, and what could not be said. Raises ParseError, and BuildError as
    `to_sframe`, also for `compact="merge"`."""
    if compact == "merge":
        reason = "'merge' is for linked files: which functions are neighbours a linker decides"
        raise BuildError(".sframe", None, "compact", reason)
    laid = lay_out(image)
    table = table_of_laid_out(laid)
    section, start = sections_of(laid, table)
    # What a linker has dropped, or another file defines: there is nothing to relocate the start by.
    here = np.flatnonzero(section)
    encoded, refusals = sframe_from_table(table.select(here), version, compact, max_rows)
    encoded = replace(encoded, function=here[encoded.function])
    record = encoded.fdes.dtype
    assert record.fields is not None
    first, size = sframe.HEADER_SIZE, record.fields[sframe.START_FIELDS[encoded.version]][0].itemsize
    return ObjectSframe(
        laid=laid,
        table=table,
        encoded=encoded,
        data=encoded.without_starts(),
        relocation_type=pcrel_type(str(image.machine), 8 * size),
        field=first + np.arange(len(encoded.fdes)) * record.itemsize,
        section=section[encoded.function],
        offset=start[encoded.function] + (encoded.start - table.functions.start[encoded.function]),
    ), _with_absent(replace(refusals, function=here[refusals.function]), table, section)


def _with_absent(refusals: Refusals, table: UnwindTable, section: NDArray[np.uint32]) -> Refusals:
    """Also the functions that are in no section."""
    absent = np.flatnonzero((section == 0) & (table.functions.size > 0))
    start = table.functions.start[absent]
    reason = np.full(len(absent), Reason.NO_SECTION, np.uint8)
    return Refusals.concatenate([refusals, Refusals(absent, start, start + table.functions.size[absent], reason)])
