"""Row runs and SFrame frame row entries, both directions: the caller of kernels/fres.py.

Strategy: a run becomes segments, a segment with a width of start addresses becomes a block of bytes; equal
blocks are one. Reading, a block becomes a run again, its few distinct rule sets shared between rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from ..schemas import sframe
from ..schemas.derive import bit_position
from ..schemas.section import BuildError, ByteOrder, ParseError, Section
from ..schemas.sframe_abi import SLOT_REGISTER_MARK, SLOT_REGISTER_SHIFT, SframeAbi
from .arch import Architecture
from .interning import random_keys
from .kernels import engine, views
from .rules import CfaKind, RaState, RuleKind
from .runs import ROWS_PER_BYTE, reader_of, refuse
from .unwind import RowColumns, RuleColumns, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


Slots = tuple["NDArray[np.int64]", "NDArray[np.bool_]"]

MAX_WORDS = 3

# Up to here FDEs may name the same bytes from different starts; beyond, a real section names few twice.
FREE_ROWS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class SframeRows:
    """Each row in SFrame: its offset in its function, a reason (0: none), the FRE info byte, three words."""

    offset: NDArray[np.uint64]
    reason: NDArray[np.uint8]
    info: NDArray[np.uint8]
    words: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Runs split at what cannot be said; run r has segments first[r] up to first[r + 1]. The rest: kernels/fres.py."""

    first: NDArray[np.int64]
    reason: NDArray[np.uint8]
    start: NDArray[np.uint64]
    fres: NDArray[np.int64]
    size: NDArray[np.int64]
    rows: NDArray[np.int64]

    def fre_count(self, segment: NDArray[np.int64]) -> NDArray[np.int64]:
        """FREs of each of some segments."""
        return np.diff(self.fres, prepend=0)[segment]


def abi_of(architecture: Architecture) -> SframeAbi:
    if architecture.sframe is None:
        raise BuildError(".sframe", None, "abi_arch", f"SFrame has no ABI for {architecture.name}")
    return architecture.sframe


def _abi_vector(architecture: Architecture) -> NDArray[np.int64]:
    """The ABI as kernels/fres.py takes it."""
    abi = abi_of(architecture)
    registers = (architecture.stack_pointer, architecture.frame_pointer, architecture.return_address)
    offsets = (abi.fixed_ra_offset or 0, abi.sp_value_offset, abi.cfa_adjustment, abi.cfa_alignment)
    return np.array([*registers, *offsets, abi.has_register_slots, abi.sp_is_saved], np.int64)


def project_rows(tables: tuple[UnwindTable, ...]) -> SframeRows:
    """All rows of some tables of one architecture, behind one another, in SFrame."""
    count = sum(len(table.rows.offset) for table in tables)
    reason, info, words = np.empty(count, np.uint8), np.empty(count, np.uint8), np.empty((count, 3), np.int32)
    end = 0
    for table in tables:
        rows, rules = table.rows, table.rules
        start, end = end, end + len(rows.offset)
        columns = (rows.cfa_kind, rows.cfa_register, rows.cfa_offset, rows.ra_state, rows.first_rule, rows.rule_count)
        engine().fres.project(
            *views(_abi_vector(table.architecture), *columns, rules.register, rules.kind, rules.value),
            *views(reason[start:end], info[start:end], words[start:end]),
        )
    offset = tables[0].rows.offset if len(tables) == 1 else np.concatenate([table.rows.offset for table in tables])
    return SframeRows(offset, reason, info, words)


def split_runs(tables: tuple[UnwindTable, ...], rows: SframeRows) -> Segments:
    """The runs of some tables, numbered on from one to the next, as segments of `project_rows`'s rows."""
    run_rows = tables[0].run_rows
    for table in tables[1:]:
        run_rows = np.concatenate([run_rows, table.run_rows[1:] + run_rows[-1]])
    count = len(rows.reason)
    first = np.empty(len(run_rows), np.int64)
    columns = [np.empty(count, code) for code in ("u1", "u8", "i8", "i8", "i8")]
    kept = engine().fres.segments(*views(run_rows, rows.offset, rows.reason, rows.info, rows.words, first, *columns))
    segments = int(first[-1])
    reason, start, fres, size = (column[:segments] for column in columns[:4])
    return Segments(first, reason, start, fres, size, columns[4][:kept])


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks to be written: the segment and the width of start addresses of each."""

    byte_order: ByteOrder
    rows: SframeRows
    split: Segments
    segment: NDArray[np.int64]
    width: NDArray[np.uint8]

    def select(self, which: NDArray[np.int64]) -> Blocks:
        """Some of the blocks, in that order."""
        return replace(self, segment=self.segment[which], width=self.width[which])

    def counts(self) -> NDArray[np.int64]:
        """FREs of each block."""
        return self.split.fre_count(self.segment)

    def ends(self) -> NDArray[np.int64]:
        """The offset behind each block."""
        return np.cumsum(self.split.size[self.segment] + self.counts() * self.width)

    def offsets(self) -> NDArray[np.int64]:
        """The offset of each block."""
        return np.concatenate([np.zeros(1, np.int64), self.ends()])[:-1]

    def encode(self) -> NDArray[np.uint8]:
        """The bytes of all blocks."""
        ends = self.ends()
        out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        columns = (self.segment, self.width, self.rows.offset, self.rows.info, self.rows.words)
        engine().fres.encode(
            int(self.byte_order == "big"),
            *views(*columns, self.split.start, self.split.fres, self.split.rows, out),
        )
        return out


def share_blocks(blocks: Blocks) -> NDArray[np.int64]:
    """For each block the one whose bytes it uses: an equal one, one that begins with it, or itself."""
    count = len(blocks.segment)
    slots = np.full(1 << (2 * count + 1).bit_length(), -1, np.int32)
    marks = np.zeros(len(slots), np.uint8)
    host = np.empty(count, np.int64)
    split, rows = blocks.split, blocks.rows
    engine().sharing.Sharing(
        *views(blocks.segment, blocks.width, rows.offset, rows.info, rows.words),
        *views(split.start, split.fres, split.rows),
        *views(random_keys(5), np.empty(len(split.rows), np.uint32), slots, marks, host),
    ).share()
    return host


@dataclass(frozen=True, slots=True, eq=False)
class FreBlocks:
    """Distinct blocks of FREs: `offset` in the sub-section, FREs, bytes of a start address, an FDE that names it."""

    offset: NDArray[np.int64]
    count: NDArray[np.int64]
    width: NDArray[np.uint8]
    fde: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Fres:
    """Frame row entries as stored: `start` u64, from the function's start; `info` u8, the FRE info word; `words`
    i32, three an FRE, those that it does not have 0.
    """

    start: NDArray[np.uint64]
    info: NDArray[np.uint8]
    words: NDArray[np.int32]

    def bits(self, name: str) -> NDArray[np.uint8]:
        """One field of the info word."""
        shift, mask = bit_position(sframe.FreInfo, name)
        return self.info >> np.uint8(shift) & np.uint8(mask)

    def slots(self, fixed_ra: int, fixed_fp: int) -> tuple[Slots, Slots]:
        """Where RA and FP are saved: each the words and which FREs have one (ABI/arch-specific Definition).

        `fixed_ra` and `fixed_fp` are the header's: offsets from the CFA that no FRE repeats.
        """
        count, wide = self.bits("fre_offset_count"), self.words.astype(np.int64)
        always = np.ones(len(self.info), np.bool_)
        ra = wide[:, 1], (count > 1) & (wide[:, 1] != sframe.RA_OFFSET_INVALID)
        fp = wide[:, 2], count > 2
        if fixed_ra != sframe.FIXED_OFFSET_INVALID:
            ra, fp = (np.full(len(always), fixed_ra, np.int64), always), (wide[:, 1], count > 1)
        if fixed_fp != sframe.FIXED_OFFSET_INVALID:
            fp = np.full(len(always), fixed_fp, np.int64), always
        return ra, fp

    def cfa_offsets(self, abi: SframeAbi) -> NDArray[np.int64]:
        """The CFA's offset from its base register, in bytes."""
        return self.words[:, 0].astype(np.int64) * abi.cfa_alignment + abi.cfa_adjustment


def fres_of_blocks(
    section: Section, fres: memoryview, fres_offset: int, blocks: FreBlocks, *, strict: bool = True
) -> Fres:
    """The FREs of some blocks, behind one another. `strict`: they ascend, and each has a CFA."""
    total = int(blocks.count.sum())
    if total > max(FREE_ROWS, ROWS_PER_BYTE * len(fres)):
        reason = f"FDEs name {total} FREs in a sub-section of {len(fres)} bytes"
        raise ParseError(section, None, "header.num_fdes", reason)
    found = Fres(np.empty(total, np.uint64), np.empty(total, np.uint8), np.empty((total, MAX_WORDS), np.int32))
    reader = reader_of(section, fres)
    columns = (blocks.offset, blocks.count, blocks.width, found.start, found.info, found.words)
    done = engine().fres.decode(reader, int(strict), *views(*columns))
    if reader.fault:
        refuse(section, f"FDE[{blocks.fde[done]}].FRE", reader, fres_offset)
    return found


def rows_of_blocks(
    fres: Fres, blocks: FreBlocks, architecture: Architecture
) -> tuple[NDArray[np.int64], RowColumns, RuleColumns]:
    """`run_rows`, rows and rules of a table whose runs are the blocks; PCs before a first FRE get a row without CFA."""
    rows, rules = rows_of_fres(fres, architecture)
    run_rows, rows = _fill_gaps(np.concatenate([np.zeros(1, np.int64), np.cumsum(blocks.count)]), rows)
    return run_rows, rows, rules


def rows_of_fres(fres: Fres, architecture: Architecture) -> tuple[RowColumns, RuleColumns]:
    """A row for each FRE, in their order, and the rules that the rows share."""
    abi = abi_of(architecture)
    is_sp = fres.bits("fre_cfa_base_reg_id") == sframe.SFRAME_BASE_REG.SP
    # Every ABI tracks FP; a header that says otherwise was refused.
    ra, fp = fres.slots(abi.fixed_ra_offset or sframe.FIXED_OFFSET_INVALID, sframe.FIXED_OFFSET_INVALID)
    first_rule, rule_count, rules = _rules_of(architecture, abi, ra, fp)
    rows = RowColumns(
        offset=fres.start,
        cfa_kind=np.full(len(fres.info), CfaKind.REGISTER, np.uint8),
        cfa_register=np.where(is_sp, architecture.stack_pointer, architecture.frame_pointer).astype(np.uint16),
        cfa_offset=fres.cfa_offsets(abi),
        ra_state=fres.bits("fre_mangled_ra_p") * np.uint8(RaState.SIGNED),
        first_rule=first_rule,
        rule_count=rule_count,
    )
    return rows, rules


def _rules_of(
    architecture: Architecture,
    abi: SframeAbi,
    ra: Slots,
    fp: Slots,
) -> tuple[NDArray[np.int64], NDArray[np.uint16], RuleColumns]:
    """First rule and rule count of each row, and the rules: one slice for each distinct pair of FP and RA."""
    sets = np.stack([np.where(fp[1], fp[0], 0), fp[1], np.where(ra[1], ra[0], 0), ra[1]], axis=1)
    distinct, of_row = np.unique(sets, axis=0, return_inverse=True)
    # FP before RA: so they are numbered in every ABI that SFrame has.
    value = distinct[:, [0, 2]].reshape(-1)
    present = distinct[:, [1, 3]].reshape(-1) != 0
    register = np.tile(np.array([architecture.frame_pointer, architecture.return_address], np.uint16), len(distinct))
    kind = np.full(len(value), RuleKind.OFFSET, np.uint8)
    if abi.has_register_slots:
        is_register = value & SLOT_REGISTER_MARK > 0
        kind[is_register] = RuleKind.REGISTER
        value = np.where(is_register, value >> SLOT_REGISTER_SHIFT, value)
    count = present.reshape(-1, 2).sum(axis=1)
    first = np.cumsum(count) - count
    of_row = of_row.reshape(-1)
    rules = RuleColumns(register[present], kind[present], value[present])
    return first[of_row].astype(np.int64), count[of_row].astype(np.uint16), rules


def _fill_gaps(run_rows: NDArray[np.int64], rows: RowColumns) -> tuple[NDArray[np.int64], RowColumns]:
    """Let every run start at offset 0, with a row without a CFA where its first FRE does not."""
    first = run_rows[:-1]
    is_empty = np.diff(run_rows) == 0
    starts = np.append(rows.offset, np.uint64(0))[first]
    gaps = np.flatnonzero(is_empty | (starts > 0))
    if not len(gaps):
        return run_rows, rows
    added = np.zeros(len(run_rows), np.int64)
    added[gaps + 1] = 1
    # A zero in every column: offset 0, CfaKind.NONE, no rules.
    filled = RowColumns(*(np.insert(getattr(rows, field.name), first[gaps], 0) for field in fields(RowColumns)))
    return run_rows + np.cumsum(added), filled
