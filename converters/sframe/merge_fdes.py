"""Merging of adjacent FDEs that only padding separates, if the section gets smaller (`compact="merge"`).

Strategy: an FDE is a range of PCs, not a function. The bytes of the code prove that a gap is padding; dynamic
programming (kernels/sframe/merge_fdes.py) chooses the groups; their FREs are then laid out as ordinary segments.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...schemas import sframe
from ...schemas.derive import bit_position
from ...schemas.section import Section
from ...schemas.sframe import SFRAME_VERSION
from ..arrays import ranges, run_ends, run_starts, starts_of
from ..columns import Columns, column_of, columns
from ..distinct import number_distinct
from ..elf.inputs import release
from ..kernels import engine, views
from ..kernels.sframe.protocol import PaddingCode
from ..table.model import FunctionFlag
from ..threads import in_threads
from .section import FRE_WIDTHS
from .write_fres import FdePlan, Options, Pieces, Segments, SframeRows, fre_types

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Chosen by measuring look-up time against size (docs/formats/sframe.md): larger values hardly shrink the section.
DEFAULT_MAX_ROWS = 128
# The largest number of FDEs in a group; the dynamic program takes this many steps per range.
WINDOW = 64
# FDEs with a larger gap between them are never merged, even if it is padding.
MAX_GAP = 4096
# Costs are in 1/1024 byte, because each user of a shared block pays a fraction of it.
SCALE = 1024
# Each pass uses the sharing that results from the pass before.
PASSES = 3
# Pieces that are laid out at a time.
PART = 1 << 15
# Bytes of code that one thread looks at, at a time.
CODE_PART = 1 << 23


class Gaps(NamedTuple):
    """Facts about the PCs between FDEs: the code sections, the instruction set whose padding is recognized, and the
    start addresses of ranges that cannot be encoded.
    """

    code: tuple[Section, ...]
    padding: PaddingCode
    refused: NDArray[np.uint64]


@columns
class _PieceFres(Columns):
    """The FREs of each piece."""

    first: NDArray[np.int64] = column_of("index", "of the first one in `Segments.rows`")
    count: NDArray[np.int64] = column_of()
    size: NDArray[np.int64] = column_of("bytes", "without start addresses")
    repeated: NDArray[np.int64] = column_of(
        "bytes", "of the first one, if it repeats the last one of the piece before; else 0"
    )
    last: NDArray[np.uint64] = column_of("bytes", "where the last one starts, from the piece's start")


def group_fdes(plan: FdePlan, options: Options, gaps: Gaps, max_rows: int) -> FdePlan:
    """The same row at every PC of a function, with fewer FDEs of at most `max_rows` FREs each."""
    if not len(plan.pieces):
        return plan
    joins = _joins(plan, gaps)
    fres, repeats = _fres_of_pieces(plan, joins)
    most = min(max_rows, sframe.MAX_FRES[options.version])
    is_first = run_starts(_choose(plan.pieces, fres, joins, options, most))
    return _lay_out(plan, fres, is_first, repeats & ~is_first)


def _fres_of_pieces(plan: FdePlan, joins: NDArray[np.bool_]) -> tuple[_PieceFres, NDArray[np.bool_]]:
    """The FREs of each piece; and whether it joins the piece before and its first FRE repeats the last one there."""
    pieces, segments = plan.pieces, plan.segments
    count = segments.fre_count(pieces.segment)
    first = segments.fres[pieces.segment] - count
    first_row = segments.rows[first]
    repeats = joins & _same_rows(plan.rows, segments.rows[np.roll(first + count - 1, 1)], first_row)
    repeated = np.where(repeats, _fre_sizes(plan.rows.info[first_row]), 0)
    last = segments.last_start(plan.rows, pieces.segment)
    return _PieceFres(first, count, segments.size[pieces.segment], repeated, last), repeats


def _fre_sizes(info: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The size of FREs in bytes, without their start addresses."""
    words, width = (
        info >> np.uint8(shift) & np.uint8(mask)
        for shift, mask in (bit_position(sframe.FreInfo, name) for name in ("fre_offset_count", "fre_offset_size"))
    )
    return 1 + (words.astype(np.int64) << width)


def _same_rows(rows: SframeRows, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
    is_same: NDArray[np.bool_] = rows.info[one] == rows.info[other]
    for words in rows.words.T:
        is_same &= words[one] == words[other]
    return is_same


def _joins(plan: FdePlan, gaps: Gaps) -> NDArray[np.bool_]:
    """Which pieces may share an FDE with the one before: both have no special attributes, and only padding is between
    them.
    """
    flags = np.uint8(FunctionFlag.SIGNAL_FRAME | FunctionFlag.PAUTH_B_KEY)
    pieces, functions = plan.pieces, plan.functions
    is_plain = (functions.flags[pieces.function] & flags == 0) & (functions.repetition[pieces.function] == 0)
    is_plain &= ~plan.segments.is_flex(plan.rows, pieces.segment)
    joins = np.zeros(len(pieces), np.bool_)
    joins[1:] = is_plain[1:] & is_plain[:-1]
    gap_start, gap_end = pieces.end[:-1], pieces.start[1:]
    joins[1:] &= gap_end - gap_start <= MAX_GAP
    refused = np.sort(gaps.refused)
    joins[1:] &= np.searchsorted(refused, gap_start) == np.searchsorted(refused, gap_end)
    asked = np.flatnonzero(joins[1:] & (gap_end > gap_start))
    joins[asked + 1] = is_padding(gap_start[asked], gap_end[asked], gaps.code, gaps.padding)
    return joins


def is_padding(
    start: NDArray[np.uint64], end: NDArray[np.uint64], code: tuple[Section, ...], padding: PaddingCode
) -> NDArray[np.bool_]:
    """Whether each range of addresses, ascending, is inside one of the code sections and has only nops, traps and
    zeros."""
    found = np.zeros(len(start), np.bool_)
    for section in code:
        # The end of a section may be past the address space: only distances are compared.
        section_start = np.uint64(section.address)
        here = np.flatnonzero((start >= section_start) & (end - section_start <= np.uint64(len(section))))
        first, last = ((one[here] - section_start).astype(np.int64) for one in (start, end))
        found[here] = _is_padding_in(section, first, last, padding)
    return found


def _is_padding_in(
    section: Section, first: NDArray[np.int64], last: NDArray[np.int64], padding: PaddingCode
) -> NDArray[np.bool_]:
    """As `is_padding`, for ranges of offsets into one section. A part of a file's code is not kept in memory after it
    has been looked at: the parts between gaps are not needed."""
    marks, data = np.zeros(len(first), np.uint8), np.frombuffer(section.data, np.uint8)

    def look(begin: int) -> None:
        part = slice(*np.searchsorted(first, [begin, begin + CODE_PART]).tolist())
        if part.start < part.stop:
            engine.sframe.merge_fdes.padding(padding, *views(data, first[part], last[part], marks[part]))
            if section.file_offset is not None:
                release(section.data, section.file_offset + begin, min(CODE_PART, len(section) - begin))

    in_threads(look, range(0, len(section), CODE_PART))
    return marks > 0


def _choose(
    pieces: Pieces, fres: _PieceFres, joins: NDArray[np.bool_], options: Options, max_rows: int
) -> NDArray[np.int64]:
    """For each piece the index of the first piece of its group."""
    attributes = sframe.ATTRIBUTE_SIZE if options.version >= SFRAME_VERSION.V3 else 0
    fde = sframe.FDE_SIZES[options.version]
    separate = fres.size + fres.count * FRE_WIDTHS[fre_types(fres.last)] + attributes
    block, first_of = number_distinct(pieces.segment)
    users = np.bincount(block)[block] if options.shares else np.ones(len(pieces), np.int64)
    chosen, fewest = np.arange(len(pieces)), None
    for _ in range(PASSES if options.shares else 1):
        cost = SCALE * fde + SCALE * separate // np.maximum(users, 1)
        best, begin = np.empty(len(pieces) + 1, np.int64), np.empty(len(pieces), np.int64)
        columns = (
            pieces.start,
            pieces.start + fres.last,
            joins.astype(np.uint8),
            fres.count,
            fres.size,
            fres.repeated,
            cost,
        )
        found = engine.sframe.merge_fdes.Ranges(*views(*columns))
        engine.sframe.merge_fdes.group(max_rows, WINDOW, SCALE, SCALE * (fde + attributes), found, *views(best, begin))
        groups = _trace_groups(begin)
        single = np.bincount(groups, minlength=len(pieces))[groups] == 1
        left = np.bincount(block[single], minlength=len(first_of))
        # The true cost of this grouping: each block that is still used is stored once.
        stored = int(separate[first_of][left > 0].sum())
        spent = int(best[-1]) - int(cost[single].sum()) + SCALE * (fde * int(single.sum()) + stored)
        if fewest is None or spent < fewest:
            chosen, fewest = groups, spent
        users = left[block] + ~single
    return chosen


def _trace_groups(begin: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first piece of each piece's group, traced back from the last group."""
    groups = np.empty(len(begin), np.int64)
    last = len(begin) - 1
    firsts = begin.tolist()
    while last >= 0:
        first = firsts[last]
        groups[first : last + 1] = first
        last = first - 1
    return groups


def _lay_out(plan: FdePlan, fres: _PieceFres, is_first: NDArray[np.bool_], repeats: NDArray[np.bool_]) -> FdePlan:
    """One segment per group: the FREs of its pieces in order, without those that repeat the one before."""
    rows, pieces = plan.rows, plan.pieces
    group, starts = np.cumsum(is_first) - 1, np.flatnonzero(is_first)
    groups, kept = len(starts), fres.count - repeats
    first = starts_of(kept)
    # From the start of a piece's segment to the place of its rows in the group.
    shift = pieces.start - pieces.start[starts][group] - plan.segments.start[pieces.segment]
    count = int(first[-1])
    laid = SframeRows(
        offset=np.empty(count, np.uint64),
        reason=np.empty(count, np.uint8),
        info=np.empty(count, np.uint8),
        words=np.empty((count, rows.words.shape[1]), np.int32),
        is_flex=np.empty(count, np.bool_),
    )
    for begin in range(0, len(pieces), PART):
        part = slice(begin, begin + PART)
        row = plan.segments.rows[ranges(fres.first[part] + repeats[part], kept[part])]
        offset = rows.offset[row] + np.repeat(shift[part], kept[part])
        place = slice(int(first[begin]), int(first[begin]) + len(row))
        laid.put(place, replace(rows.select(row), offset=offset))
    segments = Segments(
        first=np.arange(groups + 1),
        reason=np.zeros(groups, np.uint8),
        start=np.zeros(groups, np.uint64),
        fres=np.cumsum(np.add.reduceat(kept, starts)),
        size=np.add.reduceat(fres.size - np.where(repeats, fres.repeated, 0), starts),
        rows=np.arange(count),
    )
    size = pieces.end[np.flatnonzero(run_ends(is_first))] - pieces.start[starts]
    merged = replace(pieces.select(starts), segment=np.arange(groups), size=size)
    return FdePlan(plan.functions, laid, segments, merged)
