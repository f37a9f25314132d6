"""Neighbouring FDEs as one, where nothing but padding lies between and the section gets smaller (`compact="merge"`).

Strategy: an FDE is a range of PCs, not a function. Gaps are proven to be padding from the code's bytes; a dynamic
program (kernels/sframe/merge_fdes.py) chooses the groups; their FREs are then laid out as segments like any others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas import sframe
from ...schemas.derive import bit_position
from ...schemas.section import Section
from ...schemas.sframe import SFRAME_VERSION
from ..arrays import group_numbers, ranks, run_starts, starts_of
from ..kernels import engine, views
from ..kernels.sframe.protocol import PaddingCode
from ..table.model import FunctionColumns, FunctionFlag
from .write_fres import Pieces, Segments, SframeRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Look-up time against size was measured (docs/formats/sframe.md): beyond this the section hardly shrinks.
DEFAULT_MAX_ROWS = 128
# Neighbours that one group may have. The program takes this many steps a range.
WINDOW = 64
# A longer gap is left alone, whatever its bytes say.
MAX_GAP = 4096
# Costs are counted in parts of a byte, since a shared block costs each of its users a part.
SCALE = 1024
# Each pass knows which blocks the one before left for others to share.
PASSES = 3


def group_fdes(
    rows: SframeRows,
    split: Segments,
    pieces: Pieces,
    refused: NDArray[np.uint64],
    functions: FunctionColumns,
    code: tuple[Section, ...],
    padding: PaddingCode,
    version: SFRAME_VERSION,
    max_rows: int,
    shares: bool,
) -> tuple[SframeRows, Segments, Pieces]:
    """The same rows at every PC in fewer FDEs: rows, segments and pieces made anew.

    `refused` has the addresses where ranges begin that cannot be said. `shares`: equal blocks are one.
    """
    if not len(pieces.start):
        return rows, split, pieces
    count = split.fre_count(pieces.segment)
    first = split.fres[pieces.segment] - count
    fre_size = _fre_sizes(rows, split)
    total = starts_of(fre_size)
    size = total[first + count] - total[first]
    joins = _joins(split.is_flex(rows, pieces.segment), pieces, refused, functions, code, padding)
    repeats = joins & _same_rows(rows, split.rows[np.roll(first + count - 1, 1)], split.rows[first])
    repeated = np.where(repeats, fre_size[first], 0)
    begin = _choose(version, max_rows, pieces, joins, count, size, repeated, shares)
    is_first = run_starts(begin)
    return _lay_out(rows, split, pieces, is_first, first, count, repeats & ~is_first)


def _fre_sizes(rows: SframeRows, split: Segments) -> NDArray[np.int64]:
    """Bytes of each FRE but its start address."""
    info = rows.info[split.rows]
    words, width = (
        info >> np.uint8(shift) & np.uint8(mask)
        for shift, mask in (bit_position(sframe.FreInfo, name) for name in ("fre_offset_count", "fre_offset_size"))
    )
    return 1 + (words.astype(np.int64) << width)


def _same_rows(rows: SframeRows, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
    is_same = (rows.info[one] == rows.info[other]) & (rows.words[one] == rows.words[other]).all(axis=1)
    return np.asarray(is_same, np.bool_)


def _joins(
    is_flex: NDArray[np.bool_],
    pieces: Pieces,
    refused: NDArray[np.uint64],
    functions: FunctionColumns,
    code: tuple[Section, ...],
    padding: PaddingCode,
) -> NDArray[np.bool_]:
    """Which pieces may be in one FDE with the one before: both ordinary, only padding between, nothing refused."""
    marks = np.uint8(FunctionFlag.SIGNAL_FRAME | FunctionFlag.PAUTH_B_KEY)
    owner = pieces.function
    is_plain = (functions.flags[owner] & marks == 0) & (functions.repetition[owner] == 0)
    is_plain &= ~is_flex
    joins = np.zeros(len(owner), np.bool_)
    joins[1:] = is_plain[1:] & is_plain[:-1]
    gap_start, gap_end = pieces.end[:-1], pieces.start[1:]
    joins[1:] &= gap_end - gap_start <= MAX_GAP
    between = (np.searchsorted(np.sort(refused), bound) for bound in (gap_start, gap_end))
    joins[1:] &= np.equal(*between)
    asked = np.flatnonzero(joins[1:] & (gap_end > gap_start))
    joins[asked + 1] = _is_padding(gap_start[asked], gap_end[asked], code, padding)
    return joins


def _is_padding(
    start: NDArray[np.uint64], end: NDArray[np.uint64], code: tuple[Section, ...], padding: PaddingCode
) -> NDArray[np.bool_]:
    """Whether each range of addresses holds nothing but nops, traps and zeros, in one of the code sections."""
    found = np.zeros(len(start), np.bool_)
    for section in code:
        first, behind = np.uint64(section.address), np.uint64(section.address + len(section))
        here = np.flatnonzero((start >= first) & (end <= behind))
        if len(here):
            is_padding = np.zeros(len(here), np.uint8)
            gap_start, gap_end = (start[here] - first).astype(np.int64), (end[here] - first).astype(np.int64)
            data = np.frombuffer(section.data, np.uint8)
            engine.sframe.merge_fdes.padding(padding, *views(data, gap_start, gap_end, is_padding))
            found[here] = is_padding > 0
    return found


def _choose(
    version: SFRAME_VERSION,
    max_rows: int,
    pieces: Pieces,
    joins: NDArray[np.bool_],
    count: NDArray[np.int64],
    size: NDArray[np.int64],
    repeated: NDArray[np.int64],
    shares: bool,
) -> NDArray[np.int64]:
    """For each piece the first of its group."""
    attributes = sframe.ATTRIBUTE_SIZE if version >= SFRAME_VERSION.V3 else 0
    fde = sframe.FDE_SIZES[version]
    width = np.where(pieces.size < 1 << 8, 1, np.where(pieces.size < 1 << 16, 2, 4))
    alone = size + count * width + attributes
    _, block = np.unique(pieces.segment * 8 + width, return_inverse=True)
    users = np.bincount(block.reshape(-1))[block.reshape(-1)] if shares else np.ones(len(alone), np.int64)
    pieces_count = len(alone)
    chosen, fewest = np.arange(pieces_count), None
    for _ in range(PASSES if shares else 1):
        cost = SCALE * fde + SCALE * alone // np.maximum(users, 1)
        best, begin = np.empty(pieces_count + 1, np.int64), np.empty(pieces_count, np.int64)
        columns = views(pieces.start, pieces.end, joins.astype(np.uint8), count, size, repeated, cost)
        ranges, limit = engine.sframe.merge_fdes.Ranges(*columns), min(max_rows, sframe.MAX_FRES[version])
        engine.sframe.merge_fdes.group(limit, WINDOW, SCALE, SCALE * (fde + attributes), ranges, *views(best, begin))
        groups = _from_the_end(begin)
        single = np.bincount(groups, minlength=pieces_count)[groups] == 1
        left = np.bincount(block.reshape(-1)[single], minlength=int(block.max()) + 1)
        # What this grouping truly costs: each block that is left once.
        kept = np.zeros(len(left), np.int64)
        kept[block.reshape(-1)] = alone
        spent = int(best[-1]) - int(cost[single].sum()) + SCALE * (fde * int(single.sum()) + int(kept[left > 0].sum()))
        if fewest is None or spent < fewest:
            chosen, fewest = groups, spent
        users = left[block.reshape(-1)] + ~single
    return chosen


def _from_the_end(begin: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first piece of each one's group: from the last group backwards."""
    groups = np.empty(len(begin), np.int64)
    last = len(begin) - 1
    firsts = begin.tolist()
    while last >= 0:
        first = firsts[last]
        groups[first : last + 1] = first
        last = first - 1
    return groups


def _lay_out(
    rows: SframeRows,
    split: Segments,
    pieces: Pieces,
    is_first: NDArray[np.bool_],
    first: NDArray[np.int64],
    count: NDArray[np.int64],
    repeats: NDArray[np.bool_],
) -> tuple[SframeRows, Segments, Pieces]:
    """A segment for each group: the FREs of its pieces behind one another but for those that repeat the one before."""
    group = np.cumsum(is_first) - 1
    starts = np.flatnonzero(is_first)
    owner, rank = group_numbers(count), ranks(count)
    kept = ~((rank == 0) & repeats[owner])
    owner, rank = owner[kept], rank[kept]
    row = split.rows[first[owner] + rank]
    shift = pieces.start - pieces.start[starts][group]
    offset = rows.offset[row] - split.start[pieces.segment[owner]] + shift[owner]
    new_rows = replace(rows.select(row), offset=offset, reason=np.zeros(len(row), np.uint8))
    fres = np.cumsum(np.bincount(group[owner], minlength=len(starts)))
    groups = len(starts)
    segments = Segments(
        first=np.arange(groups + 1),
        reason=np.zeros(groups, np.uint8),
        start=np.zeros(groups, np.uint64),
        fres=fres,
        size=np.zeros(groups, np.int64),
        rows=np.arange(len(row)),
    )
    sizes = np.bincount(group[owner], weights=_fre_sizes(new_rows, segments), minlength=groups).astype(np.int64)
    ends = pieces.end[np.append(starts[1:], len(group)) - 1]
    merged = replace(pieces.select(starts), segment=np.arange(groups), size=ends - pieces.start[starts])
    return new_rows, replace(segments, size=sizes), merged
