"""The function table: functions with code, the functions inlined into them, and the address ranges of both.

Strategy: everything is columns (NumPy), as in the unwind table. Ranges are separate, because optimized functions have
several; names and paths are by reference. What linkers discarded is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ..arrays import starts_of
from ..columns import Columns, column_of, columns
from ..kernels.protocol import Fault
from ..strings import Numbered, Strings, number_together

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOTHING = -1


@columns
class FunctionColumns(Columns):
    """Functions with code, in the order of their entries."""

    offset: NDArray[np.int64] = column_of("section offset", "of the entry, in .debug_info")
    unit: NDArray[np.uint32] = column_of("index", "of the unit in .debug_info")
    name: NDArray[np.int64] = column_of("index", "in `FunctionTable.names`; -1 if it has none", fill=-1)


@columns
class FunctionRanges(Columns):
    """The ranges of functions, ascending by start. Ranges of several functions may be equal (identical code folding) or
    overlap."""

    start: NDArray[np.uint64] = column_of("address")
    size: NDArray[np.uint64] = column_of("bytes", "at least 1")
    function: NDArray[np.uint32] = column_of("index", "in `FunctionTable.functions`")


@columns
class InlineColumns(Columns):
    """Inlined functions with code, each after the one that contains it."""

    offset: NDArray[np.int64] = column_of("section offset", "of the entry, in .debug_info")
    function: NDArray[np.uint32] = column_of("index", "in `FunctionTable.functions`, of the function with its code")
    parent: NDArray[np.int64] = column_of("index", "of the inlined function that contains it; -1 for none", fill=-1)
    depth: NDArray[np.uint16] = column_of("levels", "0 if the function itself contains it")
    name: NDArray[np.int64] = column_of("index", "in `FunctionTable.names`; -1 if it has none", fill=-1)
    call_file: NDArray[np.int64] = column_of("index", "in `FunctionTable.files`; -1 if it is unknown", fill=-1)
    call_line: NDArray[np.uint32] = column_of("line", "from 1; 0 if it is unknown")


@columns
class InlineRanges(Columns):
    """The ranges of inlined functions, ascending by inlined function and start. They are disjoint for one inlined
    function, and inside the ranges of what contains it."""

    start: NDArray[np.uint64] = column_of("address")
    size: NDArray[np.uint64] = column_of("bytes", "at least 1")
    inline: NDArray[np.uint32] = column_of("index", "in `FunctionTable.inlines`")


@columns
class SkippedUnits(Columns):
    """Units of which functions are left out because of a fault: in their entries, then all of them; or in a list of
    address ranges, then those that refer to it."""

    offset: NDArray[np.int64] = column_of("section offset", "of the unit, in .debug_info")
    place: NDArray[np.int64] = column_of("section offset", "of the fault, in .debug_info or the section of the lists")
    fault: NDArray[np.uint8] = column_of(Fault)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTable:
    """All functions of a file. `names` are linkage names, or qualified names where there is none; `files` are full
    paths; `skipped` are units that could not be read whole. `source` is the section's name, for messages."""

    functions: FunctionColumns
    ranges: FunctionRanges
    inlines: InlineColumns
    inline_ranges: InlineRanges
    names: Sequence[bytes]
    files: Sequence[bytes]
    skipped: SkippedUnits
    source: str = ".debug_info"

    def __len__(self) -> int:
        """The number of functions."""
        return len(self.functions)

    def __repr__(self) -> str:
        """Source and sizes, in two lines."""
        return (
            f"<FunctionTable of {self.source}: {len(self.skipped):,} units skipped\n"
            f" {len(self):,} functions, {len(self.ranges):,} ranges, {len(self.inlines):,} inlined functions>"
        )


def concatenate(tables: Sequence[FunctionTable]) -> FunctionTable:
    """The functions of several tables with the same `files`, in order."""
    if len(tables) == 1:
        return tables[0]
    named = [Numbered(one.functions.name, Strings.of(one.names)) for one in tables]
    inlined = [Numbered(one.inlines.name, Strings.of(one.names)) for one in tables]
    names, numbers = number_together(*named, *inlined)
    first = starts_of(np.array([len(one.functions) for one in tables])).tolist()
    first_inline = starts_of(np.array([len(one.inlines) for one in tables])).tolist()
    functions = FunctionColumns.concatenate([one.functions for one in tables])
    inlines = InlineColumns.concatenate([one.inlines for one in tables])
    ranges = FunctionRanges.concatenate([one.ranges for one in tables])
    inline_ranges = InlineRanges.concatenate([one.inline_ranges for one in tables])
    of_function = np.repeat(first[:-1], [len(one.ranges) for one in tables])
    of_inline = np.repeat(first_inline[:-1], [len(one.inlines) for one in tables])
    ranges.function[:] += of_function.astype(np.uint32)
    inline_ranges.inline[:] += np.repeat(first_inline[:-1], [len(one.inline_ranges) for one in tables]).astype(
        np.uint32
    )
    inlines.function[:] += np.repeat(first[:-1], [len(one.inlines) for one in tables]).astype(np.uint32)
    inlines.parent[:] = np.where(inlines.parent >= 0, inlines.parent + of_inline, NOTHING)
    functions.name[:] = np.concatenate(numbers[: len(tables)])
    inlines.name[:] = np.concatenate(numbers[len(tables) :])
    return replace(
        tables[0],
        functions=functions,
        ranges=ranges.select(np.argsort(ranges.start, kind="stable")),
        inlines=inlines,
        inline_ranges=inline_ranges,
        names=names,
        skipped=SkippedUnits.concatenate([one.skipped for one in tables]),
    )
