"""`.eh_frame_hdr` held against `.eh_frame`: which rows of the look-up table and which FDEs do not agree.

Strategy: the table becomes two columns of addresses; both sides are sorted and searched in one another. Nothing here
raises for a table that lies: that is what is to be found. Only a header that cannot be read is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...schemas import engine
from ...schemas.eh_frame_hdr import POINTER_OFFSET, VERSION, EhFrameHdr, EhFrameHdrHead
from ...schemas.pointers import (
    APPLICATION_MASK,
    DW_EH_PE,
    FORMAT_SIZES,
    PointerBases,
    base_of,
    is_known,
    is_signed,
    resolve,
    value_format,
)
from ...schemas.section import BuildError, ParseError, Section, order_code
from ..arrays import run_starts, values_at
from ..findings import Problem
from ..table.lookup import NOTHING
from ..table.model import UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


class HdrProblem(Problem):
    """What may be wrong."""

    WRONG_EH_FRAME = 1, "eh_frame_ptr leads elsewhere", "eh_frame_ptr leads elsewhere"
    CUT = 2, "row is counted that the section has no bytes for", "rows are counted that the section has no bytes for"
    UNSORTED = 3, "row starts below the one before", "rows start below the one before"
    NO_FDE = 4, "row is for a start that no FDE has", "rows are for starts that no FDE has"
    WRONG_FDE = 5, "row names another FDE than the one that starts there", "rows name other FDEs than those there"
    NO_ROW = 6, "FDE has no row", "FDEs have no row"


@dataclass(frozen=True, slots=True, eq=False)
class HdrFindings:
    """What disagrees, one element each: `problem` u8, `row` i64 in the table, `function` i64 in the tables of
    `.eh_frame` (-1 where it is not of one), `address` u64: the start in question, or what eh_frame_ptr says.

    `rows` is how many the table says to have, None where it is omitted. A CUT has the first row that is not there.
    """

    rows: int | None
    problem: NDArray[np.uint8]
    row: NDArray[np.int64]
    function: NDArray[np.int64]
    address: NDArray[np.uint64]

    def __len__(self) -> int:
        """How many."""
        return len(self.problem)

    def sentences(self) -> tuple[str, ...]:
        """One for each kind of problem, with the first of them."""
        found = []
        for problem in HdrProblem:
            which = np.flatnonzero(self.problem == problem)
            if len(which):
                one, several = problem.words
                count = self.rows - int(self.row[which[0]]) if problem is HdrProblem.CUT and self.rows else len(which)
                number = "" if problem is HdrProblem.WRONG_EH_FRAME else f"{count:,} "
                place = "" if problem is HdrProblem.CUT else f": {int(self.address[which[0]]):#x}"
                first = " first" if place and count > 1 else ""
                found.append(f"{number}{one if count == 1 else several}{place}{first}")
        return tuple(found)


# What GNU ld writes, and every unwinder searches: pairs of signed distances from the header's first byte.
_POINTER, _COUNT, _TABLE = DW_EH_PE.pcrel | DW_EH_PE.sdata4, DW_EH_PE.udata4, DW_EH_PE.datarel | DW_EH_PE.sdata4
_HEAD_BYTES, _VALUE_BYTES = 12, 4


def eh_frame_hdr_size(table: UnwindTable) -> int:
    """Bytes of the `.eh_frame_hdr` of a table read from an `.eh_frame`."""
    return _HEAD_BYTES + 2 * _VALUE_BYTES * len(_searched(table))


def build_eh_frame_hdr(table: UnwindTable, eh_frame_address: int, address: int) -> bytes:
    """The `.eh_frame_hdr` for the virtual address `address`, of a table read from an `.eh_frame` at that other one.

    Each function has a row that has bytes and shares its start with no larger one: a search that ends at a function
    without bytes would miss the one around it. Raises BuildError where a distance does not fit four bytes.
    """
    which = _searched(table)
    functions = table.functions
    fde = functions.origin[which] + np.uint64(eh_frame_address)
    values = np.stack([functions.start[which], fde], axis=1).reshape(-1)
    # Wrapping is right: distances count modulo the address space.
    distance = (values - np.uint64(address)).view(np.int64)
    if table.address_size == _VALUE_BYTES:
        distance = distance.astype(np.int32).astype(np.int64)
    limits = np.iinfo(np.int32)
    far = np.flatnonzero((distance < limits.min) | (distance > limits.max))
    if len(far):
        reason = f"{int(values[far[0]]):#x} is more than 2 GiB from the header at {address:#x}"
        raise BuildError(".eh_frame_hdr", None, f"table[{far[0] // 2}]", reason)
    to_eh_frame = eh_frame_address - (address + POINTER_OFFSET)
    head = EhFrameHdrHead(VERSION, _POINTER, _COUNT, _TABLE, to_eh_frame, len(which))
    stored = distance.astype(f"{order_code(table.byte_order)}i{_VALUE_BYTES}")
    return engine.build(head, table.byte_order, address_size=table.address_size) + stored.tobytes()


def _searched(table: UnwindTable) -> NDArray[np.int64]:
    """The functions that a search by PC is to find, by their starts."""
    functions = table.functions
    order = np.lexsort((functions.origin, ~functions.size, functions.start))
    order = order[functions.size[order] > 0]
    start = functions.start[order]
    return order[run_starts(start)]


def check_eh_frame_hdr(section: Section, frames: Sequence[tuple[Section, UnwindTable]]) -> HdrFindings:
    """What of an `.eh_frame_hdr` and of the file's `.eh_frame` sections, with the tables read from them, disagrees.

    FDEs that start where another does need no row of their own, as lld writes it, nor do those of functions without
    bytes. Raises ParseError where the header cannot be read, or its table's encoding is none.
    """
    head, end = engine.parse(EhFrameHdrHead, section, 0, len(section))
    found = [_wrong_eh_frame(section, head, frames)]
    # An omitted table promises nothing; GNU ld omits it where it could not read an .eh_frame.
    if head.fde_count is None or head.table_enc == DW_EH_PE.omit:
        return _findings(None, found)
    count = max(0, int(head.fde_count))
    rows = _rows(section, head, end, count)
    if len(rows) < count:
        found.append(_problem(HdrProblem.CUT, row=np.array([len(rows)])))
    start = np.concatenate([np.zeros(0, np.uint64), *(table.functions.start for _, table in frames)])
    size = np.concatenate([np.zeros(0, np.uint64), *(table.functions.size for _, table in frames)])
    origins = (table.functions.origin + np.uint64(frame.address) for frame, table in frames)
    fde = np.concatenate([np.zeros(0, np.uint64), *origins])
    found += _disagreements(rows[:, 0], rows[:, 1], start, fde, size > 0)
    return _findings(count, found)


_Problem = tuple["NDArray[np.uint8]", "NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.uint64]"]


def _problem(
    problem: HdrProblem,
    row: NDArray[np.int64] | None = None,
    function: NDArray[np.int64] | None = None,
    address: NDArray[np.uint64] | None = None,
) -> _Problem:
    """Columns of one problem, as many as the first that is given."""
    count = next(len(column) for column in (row, function, address) if column is not None)
    nothing = np.full(count, NOTHING, np.int64)
    return (
        np.full(count, problem, np.uint8),
        nothing if row is None else row,
        nothing if function is None else function,
        np.zeros(count, np.uint64) if address is None else address,
    )


def _findings(rows: int | None, found: Sequence[_Problem]) -> HdrFindings:
    return HdrFindings(rows, *(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _wrong_eh_frame(section: Section, head: EhFrameHdrHead, frames: Sequence[tuple[Section, UnwindTable]]) -> _Problem:
    """Whether eh_frame_ptr, where there is one, is the address of an `.eh_frame`."""
    address = np.zeros(0, np.uint64)
    if head.eh_frame_ptr is not None and not head.eh_frame_ptr_enc & DW_EH_PE.indirect:
        place, bases = section.address + POINTER_OFFSET, PointerBases(data=section.address)
        said = resolve(int(head.eh_frame_ptr), head.eh_frame_ptr_enc, place, bases, section.address_size)
        if said not in [frame.address for frame, _ in frames]:
            address = np.array([said], np.uint64)
    return _problem(HdrProblem.WRONG_EH_FRAME, address=address)


def _rows(section: Section, head: EhFrameHdrHead, end: int, count: int) -> NDArray[np.uint64]:
    """Start and FDE address of each row that the section has the bytes of, `count` at most: two columns."""
    encoding = head.table_enc
    if not is_known(encoding) or encoding & DW_EH_PE.indirect:
        raise ParseError(section, 3, "table_enc", f"{encoding:#04x} is no encoding of a table")
    size = FORMAT_SIZES[value_format(encoding)]
    if size is None or encoding & APPLICATION_MASK == DW_EH_PE.aligned:
        # Nobody writes such a table, and no unwinder searches it.
        whole, _ = engine.parse(EhFrameHdr, section, 0, len(section))
        stored = np.array([int(value) & (1 << 64) - 1 for value in whole.table], np.uint64)
        size = 0
    else:
        size = size or section.address_size
        count = min(count, (len(section) - end) // (2 * size))
        order, sign = order_code(section.byte_order), "i" if is_signed(encoding) else "u"
        values = np.frombuffer(section.data[end : end + 2 * count * size], f"{order}{sign}{size}")
        stored = values.astype(np.int64).view(np.uint64) if sign == "i" else values.astype(np.uint64)
    bases = PointerBases(data=section.address)
    if encoding & APPLICATION_MASK == DW_EH_PE.pcrel:
        if not size:
            raise ParseError(section, 3, "table_enc", f"{encoding:#04x} is no encoding of a table")
        stored = stored + np.uint64(section.address + end) + np.arange(len(stored), dtype=np.uint64) * np.uint64(size)
    else:
        stored = stored + np.uint64(base_of(encoding, 0, bases))
    return (stored & np.uint64((1 << 8 * section.address_size) - 1)).reshape(-1, 2)


def _disagreements(
    row_start: NDArray[np.uint64],
    row_fde: NDArray[np.uint64],
    start: NDArray[np.uint64],
    fde: NDArray[np.uint64],
    has_bytes: NDArray[np.bool_],
) -> list[_Problem]:
    """Rows against FDEs: `start` is where the functions of FDEs are, `fde` where these are themselves."""
    by_fde = np.argsort(fde, kind="stable")
    named = _found(fde[by_fde], row_fde)
    is_right = named != NOTHING
    is_right[is_right] = start[by_fde[named[is_right]]] == row_start[is_right]
    has_fde = _found(np.sort(start), row_start) != NOTHING
    has_row = _found(np.sort(row_start), start) != NOTHING
    unsorted = np.flatnonzero(row_start[1:] < row_start[:-1]) + 1
    without_fde = np.flatnonzero(~has_fde)
    wrong = np.flatnonzero(has_fde & ~is_right)
    without_row = np.flatnonzero(~has_row & has_bytes)
    return [
        _problem(HdrProblem.UNSORTED, row=unsorted, address=row_start[unsorted]),
        _problem(HdrProblem.NO_FDE, row=without_fde, address=row_start[without_fde]),
        _problem(HdrProblem.WRONG_FDE, row=wrong, address=row_start[wrong]),
        _problem(HdrProblem.NO_ROW, function=without_row, address=start[without_row]),
    ]


def _found(ascending: NDArray[np.uint64], values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where each value stands in a sorted column, or NOTHING."""
    place = np.searchsorted(ascending, values)
    is_there = (place < len(ascending)) & (values_at(ascending, place, 0) == values)
    return np.where(is_there, place, NOTHING)
