"""Look-ups in an `.sframe` by its own bytes, as an unwinder does them (Generating Stack Traces using SFrame).

Strategy: no table is made. A binary search over the FDEs' starts, then that FDE's FREs one by one; nothing that no
PC asks for is decoded. Tests use it as a second reader of what the encoder wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.section import ParseError, Section
from ...schemas.sframe import SFRAME_VERSION
from ..arrays import values_at
from ..kernels import engine, views
from ..kernels.calls import reader_of, refuse
from ..table.lookup import NOTHING, addresses
from .fres import MAX_FLEX_WORDS, MAX_WORDS, Fres, check_words
from .section import SframeColumns, check_columns, sframe_columns

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, eq=False)
class FresAt:
    """One element a PC: `fde` i64, the index of its FDE, -1 where none holds it; `found`, whether an FRE applies;
    `fres`, that FRE as it is stored (zeros where none does). `columns` are the section's.
    """

    columns: SframeColumns
    fde: NDArray[np.int64]
    found: NDArray[np.bool_]
    fres: Fres


def find_fres(data: bytes | memoryview, pcs: ArrayLike, section_address: int = 0) -> FresAt:
    """The FRE in force at each PC, in an `.sframe` at the virtual address `section_address`. PCs are absolute.

    PCMASK: the remainder of the PC's distance from the function's start. Sections that are not sorted are put in
    order first. Raises ParseError.
    """
    if not 0 <= section_address < 1 << 64:
        raise ParseError(".sframe", None, "section_address", f"{section_address:#x} is no address")
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
    """The last FDE that starts at or before each PC, if it holds it."""
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
    # One more than look-ups: the kernel's room for the FRE that is one too many.
    fres = Fres.zeros(count + 1, MAX_FLEX_WORDS if columns.is_flex().any() else MAX_WORDS)
    reader = reader_of(columns.section, columns.fres)
    is_v3 = columns.version >= SFRAME_VERSION.V3
    blocks = engine.sframe.fres.Blocks(*views(columns.fre_offset[fde], columns.num_fres[fde], columns.widths()[fde]))
    done = engine.sframe.find_fre.find(reader, not is_v3, blocks, *views(target, found), fres.for_kernels())
    if reader.fault:
        refuse(columns.section, f"FDE[{fde[done]}].FRE", reader, columns.fres_offset)
    fres.is_flex[:-1] = columns.is_flex()[fde]
    fres = fres.select(slice(count))
    check_words(columns.section, fres, lambda lookup: f"FDE[{fde[lookup]}].FRE")
    # An FDE of version 3 without FREs is an outermost frame's, as an FRE without words is.
    return (found > 0) | (is_v3 & (columns.num_fres[fde] == 0)), fres
