"""Row runs as SFrame frame row entries (fres.py decodes them); calls kernels/sframe.

Strategy: a run is split into segments; a segment and a width of start addresses make a block of bytes; equal blocks are
stored once. In version 3, if one row of a segment needs FLEX words, the whole segment is encoded with them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...schemas import sframe
from ...schemas.data_classes import dataclass
from ...schemas.section import ByteOrder
from ...schemas.sframe import SFRAME_FRE_TYPE, SFRAME_VERSION
from ..arch.table import Architecture, unwind_registers
from ..arrays import group_numbers, hash_slots, run_starts, starts_of
from ..columns import Columns, column_of, columns
from ..distinct import random_keys
from ..kernels import engine, views
from ..refusals import Reason
from ..table.model import ROW_VALUES, FunctionColumns, UnwindTable
from ..threads import in_threads
from .flex import forms_of
from .fres import MAX_FLEX_WORDS, MAX_WORDS, abi_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..kernels.sframe.fres import FreRows
    from ..kernels.sframe.fres import Segments as KernelSegments
    from ..kernels.sframe.project import Abi
    from ..kernels.shared.rows import Rows, Rules

# Reasons of refusal that FLEX words may overcome.
FLEXIBLE = (
    *(Reason.CFA_EXPRESSION, Reason.CFA_REGISTER, Reason.RA_RULE, Reason.FP_RULE, Reason.FP_WITHOUT_RA),
    # Only those by an expression, which may be the ABI's rule in other words.
    Reason.SP_RULE,
)

# What one thread works on at a time: rows to turn into words, segments to hash, bytes of FREs to write.
PART = 1 << 18
HASHED_PART = 1 << 14
ENCODED_PART = 1 << 20


@columns
class SframeRows(Columns):
    """Rows as FREs."""

    offset: NDArray[np.uint64] = column_of("bytes", "from the function's start")
    reason: NDArray[np.uint8] = column_of(Reason, "0 where it can be encoded")
    info: NDArray[np.uint8] = column_of("`FreInfo`", "the FRE info word")
    words: NDArray[np.int32] = column_of("data words", "only three if no row is FLEX", items=MAX_FLEX_WORDS)
    is_flex: NDArray[np.bool_] = column_of(meaning="whether words are pairs, in the whole segment")

    def for_kernels(self) -> FreRows:
        """The rows as kernels take them."""
        return engine.sframe.fres.FreRows(*views(self.offset, self.reason, self.info, self.words))


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Runs, split at rows that cannot be encoded: run r has the segments first[r] up to first[r + 1].

    The other columns are described in kernels/sframe/fres.py.
    """

    first: NDArray[np.int64]
    reason: NDArray[np.uint8]
    start: NDArray[np.uint64]
    fres: NDArray[np.int64]
    size: NDArray[np.int64]
    rows: NDArray[np.int64]

    def for_kernels(self) -> KernelSegments:
        """The segments as kernels take them."""
        columns = views(self.first, self.reason, self.start, self.fres, self.size, self.rows)
        return engine.sframe.fres.Segments(*columns)

    def fre_count(self, segment: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of FREs of each given segment."""
        return np.diff(self.fres, prepend=0)[segment]

    def last_start(self, rows: SframeRows, segment: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The start of the last FRE of each given segment, from the segment's own; all segments must have FREs."""
        return rows.offset[self.rows[self.fres[segment] - 1]] - self.start[segment]

    def is_flex(self, rows: SframeRows, segment: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the words of each given segment are pairs; all segments must have FREs."""
        if not rows.is_flex.any():
            return np.zeros(len(segment), np.bool_)
        return rows.is_flex[self.rows[self.fres[segment] - 1]]


def fre_types(last: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The `SFRAME_FRE_TYPE` of FDEs, given where the last FRE of each starts.

    It has the width that this start needs. GNU as takes that of the function's size, which is never less.
    """
    types = np.full(len(last), SFRAME_FRE_TYPE.ADDR4, np.uint8)
    types[last < 1 << 16] = SFRAME_FRE_TYPE.ADDR2
    types[last < 1 << 8] = SFRAME_FRE_TYPE.ADDR1
    return types


def _kernel_abi(architecture: Architecture, version: SFRAME_VERSION) -> Abi:
    """The ABI as kernels take it. Version 3 has no register slots, but can mark outermost frames."""
    abi, registers = abi_of(architecture), unwind_registers(architecture)
    is_v3 = version >= SFRAME_VERSION.V3
    return engine.sframe.project.Abi(
        sp=registers.sp,
        fp=registers.fp,
        ra=registers.ra,
        fixed_ra=abi.fixed_ra_offset or 0,
        sp_value=architecture.caller_sp_offset,
        cfa_adjustment=abi.cfa_adjustment,
        cfa_alignment=abi.cfa_alignment,
        sp_is_saved=abi.sp_is_saved,
        has_register_slots=abi.has_register_slots and not is_v3,
        # Where an RA slot can hold a register, an RA that is not saved is a padding word before FP.
        fp_alone=abi.has_register_slots,
        marks_outermost=is_v3,
    )


def project_rows(tables: tuple[UnwindTable, ...], version: SFRAME_VERSION) -> SframeRows:
    """All rows of tables of one architecture as FREs, concatenated."""
    first = starts_of(np.array([len(table.rows) for table in tables]))
    count = int(first[-1])
    offsets = [table.rows.offset for table in tables]
    whole = SframeRows(
        offsets[0] if len(tables) == 1 else np.concatenate(offsets),
        np.empty(count, np.uint8),
        np.empty(count, np.uint8),
        np.empty((count, MAX_WORDS), np.int32),
        np.zeros(count, np.bool_),
    )
    plain = [whole.select(slice(*ends)) for ends in pairwise(first.tolist())]
    found = [_project(table, rows, version) for table, rows in zip(tables, plain, strict=True)]
    if found == plain:
        return whole
    wide = [replace(one, words=np.pad(one.words, ((0, 0), (0, MAX_FLEX_WORDS - one.words.shape[1])))) for one in found]
    return SframeRows.concatenate(wide)


def _project(table: UnwindTable, plain: SframeRows, version: SFRAME_VERSION) -> SframeRows:
    """Fill the columns of a table's rows. Returns them, or wider ones if some rows are FLEX."""
    kernels = engine.sframe.project
    abi = _kernel_abi(table.architecture, version)
    rules = engine.shared.rows.Rules(**table.rules.views())

    def fill(begin: int) -> None:
        part = slice(begin, begin + PART)
        rows = engine.shared.rows.Rows(**table.rows.select(part).views(without=ROW_VALUES))
        kernels.project(abi, rows, rules, kernels.Fres(*views(plain.reason[part], plain.info[part], plain.words[part])))

    in_threads(fill, range(0, len(table.rows), PART))
    if version < SFRAME_VERSION.V3:
        return plain
    rows = engine.shared.rows.Rows(**table.rows.views(without=ROW_VALUES))
    return _with_flex(table, plain, abi, rows, rules)


def _with_flex(table: UnwindTable, plain: SframeRows, abi: Abi, rows: Rows, rules: Rules) -> SframeRows:
    """The rows with FLEX words in those runs where this refuses fewer rows, except in segments that need none."""
    run = group_numbers(np.diff(table.run_rows))
    tried = np.zeros(len(table.run_rows) - 1, np.bool_)
    tried[run[np.isin(plain.reason, FLEXIBLE)]] = True
    if not tried.any():
        return plain
    wanted = tried[run].astype(np.uint8)
    cfa, forms = forms_of(table)
    reason, info = plain.reason.copy(), plain.info.copy()
    words = np.zeros((len(reason), MAX_FLEX_WORDS), np.int32)
    words[:, :MAX_WORDS] = plain.words
    kernels = engine.sframe.project
    pairs = kernels.Pairs(abi, rows, rules, kernels.Forms(**cfa.views()), kernels.Forms(**forms.views()))
    kernels.project_flex(pairs, *views(wanted), kernels.Fres(*views(reason, info, words)))
    refused = (np.bincount(run, of > 0, len(tried)) for of in (reason, plain.reason))
    is_flex = (tried & np.less(*refused))[run]
    is_flex &= _has_any(plain.reason > 0, _segment_of(run, reason > 0))
    back = wanted.astype(np.bool_) & ~is_flex
    # Keep the reason from FLEX encoding for rows that both refuse: it is the one that pairs cannot overcome.
    reason[back & (plain.reason == 0)] = 0
    info[back] = plain.info[back]
    words[back] = 0
    words[back, :MAX_WORDS] = plain.words[back]
    return SframeRows(plain.offset, reason, info, words, is_flex)


def _segment_of(run: NDArray[np.int64], is_refused: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A segment number for each row: a new one at the start of a run, and where rows begin or cease to be refused."""
    return np.cumsum(run_starts(run, is_refused)) - 1


def _has_any(is_there: NDArray[np.bool_], group: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each element whether `is_there` holds for any element of its group."""
    return (np.bincount(group, is_there) > 0)[group]


def runs_of(tables: tuple[UnwindTable, ...]) -> NDArray[np.int64]:
    """The `run_rows` of tables, numbered continuously, for the rows from `project_rows`."""
    run_rows = tables[0].run_rows
    for table in tables[1:]:
        run_rows = np.concatenate([run_rows, table.run_rows[1:] + run_rows[-1]])
    return run_rows


def split_runs(run_rows: NDArray[np.int64], rows: SframeRows, version: SFRAME_VERSION) -> Segments:
    """Runs as segments of the rows from `project_rows`."""
    count = len(rows.reason)
    first = np.empty(len(run_rows), np.int64)
    reason, start = np.empty(count, np.uint8), np.empty(count, np.uint64)
    fres, size, kept = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    whole = Segments(first, reason, start, fres, size, kept)
    total = engine.sframe.fres.split(
        sframe.MAX_FRES[version], *views(run_rows), rows.for_kernels(), whole.for_kernels()
    )
    segments = int(first[-1])
    return Segments(first, reason[:segments], start[:segments], fres[:segments], size[:segments], kept[:total])


@columns
class Pieces(Columns):
    """The FDEs to write, ascending by start."""

    function: NDArray[np.int64] = column_of("index", "of the function that it comes from")
    segment: NDArray[np.int64] = column_of("index", "of the segment that it comes from")
    start: NDArray[np.uint64] = column_of("address")
    size: NDArray[np.uint64] = column_of("bytes")

    @property
    def end(self) -> NDArray[np.uint64]:
        """The first address after each."""
        return self.start + self.size


@dataclass(frozen=True, slots=True, eq=False)
class FdePlan:
    """The FDEs of a section before they are encoded: `pieces` of `functions`; the `segments` that pieces refer to; and
    the `rows` that segments refer to.
    """

    functions: FunctionColumns
    rows: SframeRows
    segments: Segments
    pieces: Pieces


class Options(NamedTuple):
    """Encoding options. `shares`: FDEs with equal rows share one block of FREs."""

    version: SFRAME_VERSION
    shares: bool


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of FREs to write, one element per block: `fde`, the first FDE with that block; `segment`; `width`, the
    bytes of a start address; `group`: only blocks of equal group may share bytes (kernels/sframe/share_blocks.py).
    `header` bytes are left free before each block for its attributes.
    """

    byte_order: ByteOrder
    rows: SframeRows
    split: Segments
    fde: NDArray[np.int64]
    segment: NDArray[np.int64]
    width: NDArray[np.uint8]
    group: NDArray[np.int64]
    header: int

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self.segment)

    def select(self, which: NDArray[np.int64]) -> Blocks:
        """The blocks of these indices, in that order."""
        columns = {name: getattr(self, name)[which] for name in ("fde", "segment", "width", "group")}
        return replace(self, **columns)

    def counts(self) -> NDArray[np.int64]:
        """The number of FREs of each block."""
        return self.split.fre_count(self.segment)

    def offsets(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The offset of each block, of so many FREs, in the FRE sub-section, and the size of that."""
        return starts_of(self.header + self.split.size[self.segment] + counts * self.width)

    def encode(self, offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The bytes of all blocks."""
        out = np.empty(int(offsets[-1]), np.uint8)
        is_big, rows, segments = self.byte_order == "big", self.rows.for_kernels(), self.split.for_kernels()

        def fill(begin: int) -> None:
            first, last = np.searchsorted(offsets[1:], [begin, begin + ENCODED_PART]).tolist()
            if first < last:
                part, place = slice(first, last), slice(*offsets[[first, last]].tolist())
                columns = views(self.segment[part], self.width[part], out[place])
                engine.sframe.fres.encode(is_big, self.header, rows, segments, *columns)

        in_threads(fill, range(0, len(out) + 1, ENCODED_PART))
        return out


def share_blocks(blocks: Blocks) -> NDArray[np.int64]:
    """For each block the one whose bytes it uses: itself, an equal or (without attributes) a longer one."""
    count = len(blocks.segment)
    slots = hash_slots(count)
    tags = np.zeros(len(slots), np.uint8)
    host = np.empty(count, np.int64)
    keys, hashes = random_keys(blocks.rows.words.shape[1] + 2), np.empty(len(blocks.split.rows), np.uint32)
    columns = views(blocks.segment, blocks.group, keys, hashes, slots, tags, host)
    rows, segments = blocks.rows.for_kernels(), blocks.split.for_kernels()
    sharing, all_segments = engine.sframe.share_blocks.Sharing(rows, segments, *columns), len(blocks.split.reason)

    def hash_part(begin: int) -> None:
        sharing.hash_segments(rows, begin, min(begin + HASHED_PART, all_segments))

    in_threads(hash_part, range(0, all_segments, HASHED_PART))
    sharing.share(not blocks.header)
    return host
