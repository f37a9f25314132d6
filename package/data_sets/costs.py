"""The data sets of the `.sframe` that is made from a table: its FDEs, and what it cannot express."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..converters.arrays import integers_at
from ..converters.elf.relocation import LaidOut
from ..converters.refusals import Refusals
from ..converters.sframe.write import Compact, Encoded, functions_of_table, sframe_from_functions
from ..converters.table.model import UnwindTable
from ..schemas.derive import dtype_of
from ..schemas.sframe import SFRAME_VERSION, FuncDescAttribute
from .fields import DATA_SETS, SframeFdeFields
from .model import DataSet
from .records import placed

if TYPE_CHECKING:
    from numpy.typing import NDArray


def sframe_of(table: UnwindTable, version: int, compact: Compact | None) -> tuple[Encoded | None, Refusals]:
    """The `.sframe` of a table, and what it lacks; None if SFrame has no ABI for the architecture. Raises BuildError
    for a wrong version or choice."""
    if table.architecture.sframe is None:
        return None, Refusals.empty(0)
    return sframe_from_functions(functions_of_table(table, version), compact)


def sframe_fdes(laid: LaidOut, encoded: Encoded | None) -> DataSet:
    """The FDEs of an encoded `.sframe`."""
    fields = DATA_SETS["sframe_fdes"]
    if encoded is None:
        return DataSet(fields, {}, (SframeFdeFields.empty(0),))
    offset = encoded.fdes["func_start_fre_off"].astype(np.int64)
    stored = np.unique(offset)
    end = np.append(stored[1:], encoded.fres.nbytes)
    order = np.argsort(encoded.range_start, kind="stable")
    place = np.searchsorted(encoded.range_start[order], encoded.start)
    columns = SframeFdeFields(
        encoded.function[order[place]].astype(np.int64),
        placed(laid, encoded.start),
        encoded.fdes["func_size"].astype(np.uint64),
        offset.astype(np.uint64),
        (end - stored)[np.searchsorted(stored, offset)].astype(np.uint64),
        _fre_counts(encoded, offset).astype(np.uint64),
    )
    return DataSet(fields, {}, (columns,))


def _fre_counts(encoded: Encoded, offset: NDArray[np.int64]) -> NDArray[np.int64]:
    """The FREs of each FDE, whose block of FREs is at `offset`."""
    if encoded.version < SFRAME_VERSION.V3:
        return encoded.fdes["func_num_fres"].astype(np.int64)
    layout = dtype_of(FuncDescAttribute, encoded.byte_order)
    assert layout.fields is not None
    size, place = layout.fields["func_num_fres"][:2]
    return integers_at(encoded.fres, offset + place, size.itemsize, encoded.byte_order).astype(np.int64)


def refusals_of(laid: LaidOut, refusals: Refusals) -> DataSet:
    """The ranges that SFrame lacks."""
    start = placed(laid, refusals.start)
    found = replace(refusals, start=start, end=start + (refusals.end - refusals.start))
    return DataSet(DATA_SETS["refusals"], {}, (found,))
