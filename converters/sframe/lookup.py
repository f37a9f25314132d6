"""Look-up of PCs directly in the bytes of an `.sframe`, like an unwinder (Generating Stack Traces using SFrame).

Strategy: no table is made. A binary search over the starts of FDEs, then a scan of that FDE's FREs; FREs of other FDEs
are not decoded. Tests use it as a second reader of the encoder's output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import checked
from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError, Section
from ...schemas.sframe import SFRAME_VERSION
from ..arrays import values_at
from ..kernels import engine, views
from ..kernels.calls import reader_of, refuse
from ..table.lookup import NOTHING, addresses
from .fres import Fres, check_words, most_words, words_of
from .section import SframeColumns, check_columns, sframe_columns

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, eq=False)
class FresAt:
    """One element per PC: `fde` i64, the index of the FDE that contains it, -1 for none; `found`, whether an FRE is in
    force; `fres`, that FRE as stored (zeros for none). `columns` are those of the section.
    """

    columns: SframeColumns
    fde: NDArray[np.int64]
    found: NDArray[np.bool_]
    fres: Fres


@checked(section_address=int)
def find_fres(data: bytes | memoryview, pcs: ArrayLike, section_address: int = 0) -> FresAt:
    """The FRE in force at each PC, in an `.sframe` at the virtual address `section_address`. PCs are absolute.

    In a PCMASK function the PC's offset is taken modulo the block size. FDEs of an unsorted section are sorted first.
    Raises ParseError.
    """
    if not 0 <= section_address < 1 << 64:
        raise ParseError(".sframe", None, "section_address", f"{section_address:#x} is not an address")
    return fres_at(Section(".sframe", memoryview(data), section_address), addresses(pcs))


def fres_at(section: Section, pc: NDArray[np.uint64]) -> FresAt:
    """As `find_fres`."""
    columns = check_columns(sframe_columns(section))
    fde = _fdes_at(columns, pc)
    asked = np.flatnonzero(fde >= 0)
    of = fde[asked]
    target = pc[asked] - columns.start[of]
    block = columns.repetition[of].astype(np.uint64)
    target = np.where(block > 0, target % np.maximum(block, np.uint64(1)), target)
    found, fres = _scan(columns, of, target)
    result = Fres.zeros(len(pc), fres.words.shape[1])
    is_found = np.zeros(len(pc), np.bool_)
    is_found[asked] = found
    result.put(asked[found], fres.select(found))
    return FresAt(columns, fde, is_found, result)


def _fdes_at(columns: SframeColumns, pc: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The last FDE that starts at or before each PC, if it contains the PC, else NOTHING."""
    order = np.argsort(columns.start, kind="stable")
    order = order[columns.size[order] > 0]
    place = np.searchsorted(columns.start[order], pc, side="right") - 1
    fde = values_at(order, place, NOTHING)
    hits = np.flatnonzero(fde >= 0)
    outside = pc[hits] - columns.start[fde[hits]] >= columns.size[fde[hits]]
    fde[hits[outside]] = NOTHING
    return fde


def _scan(columns: SframeColumns, fde: NDArray[np.int64], target: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], Fres]:
    count = len(fde)
    found = np.zeros(count, np.uint8)
    # One more than look-ups: the kernel decodes one FRE past the end of each search.
    fres = Fres.zeros(count + 1, words_of(columns.is_flex()))
    reader = reader_of(columns.section, columns.fres)
    is_v3 = columns.version >= SFRAME_VERSION.V3
    asked = columns.blocks().select(fde)
    most = most_words(asked.is_flex)
    blocks = engine.sframe.fres.Blocks(*views(asked.offset, asked.count, asked.width, most))
    done = engine.sframe.find_fre.find(reader, not is_v3, blocks, *views(target, found), fres.for_kernels())
    if reader.fault:
        refuse(columns.section, f"FDE[{fde[done]}].FRE", reader, columns.fres_offset)
    fres.is_flex[:-1] = columns.is_flex()[fde]
    fres = fres.select(slice(count))
    check_words(columns.section, fres, lambda lookup: f"FDE[{fde[lookup]}].FRE")
    # In version 3 an FDE without FREs marks an outermost frame, like an FRE without words.
    return (found > 0) | (is_v3 & (columns.num_fres[fde] == 0)), fres
