"""SFrame frame row entries as stored, and as rows of the table: the reading half (fre_blocks.py writes).

Strategy: blocks of FREs are decoded once each; what FREs say becomes a kind and a value for CFA, RA and FP, whatever
the version, and the few distinct pairs of RA and FP become rules that rows share.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..schemas import sframe
from ..schemas.derive import bit_position
from ..schemas.section import BuildError, ParseError, Section
from ..schemas.sframe import SFRAME_VERSION
from ..schemas.sframe_abi import SLOT_REGISTER_MARK, SLOT_REGISTER_SHIFT, SframeAbi
from .arch.table import Architecture
from .contents import numbered
from .flex import Forms, RuleForms, columns_of_forms
from .kernels import engine, views
from .rules import CfaKind, RaState, RuleKind
from .runs import ROWS_PER_BYTE, reader_of, refuse
from .unwind import RowColumns, RuleColumns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Words of an FRE: CFA, RA, FP; in a FLEX FDE a pair each.
MAX_WORDS = 3
MAX_FLEX_WORDS = 6

# Up to here FDEs may name the same bytes from different starts; beyond, a real section names few twice.
FREE_ROWS = 1 << 20


def abi_of(architecture: Architecture) -> SframeAbi:
    """The architecture's ABI in SFrame; BuildError where it has none."""
    if architecture.sframe is None:
        raise BuildError(".sframe", None, "abi_arch", f"SFrame has no ABI for {architecture.name}")
    return architecture.sframe


@dataclass(frozen=True, slots=True, eq=False)
class FreBlocks:
    """Blocks of FREs: `offset` in the sub-section, FREs, bytes of a start address, whether words are pairs, and an FDE
    that names it."""

    offset: NDArray[np.int64]
    count: NDArray[np.int64]
    width: NDArray[np.uint8]
    is_flex: NDArray[np.bool_]
    fde: NDArray[np.int64]


class Slots(NamedTuple):
    """Where one register is saved, an element an FRE: offset or word, and whether there is one."""

    word: NDArray[np.int64]
    is_there: NDArray[np.bool_]


class Pairs(NamedTuple):
    """A control and an offset word, an element an FRE, and whether there are any."""

    control: NDArray[np.int64]
    offset: NDArray[np.int64]
    is_there: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Fres:
    """Frame row entries as stored: `start` u64, from the function's start; `info` u8, the FRE info word; `words`
    i32, those that an FRE does not have 0; `is_flex`, whether they are pairs.
    """

    start: NDArray[np.uint64]
    info: NDArray[np.uint8]
    words: NDArray[np.int32]
    is_flex: NDArray[np.bool_]

    @classmethod
    def empty(cls, count: int, words: int) -> Fres:
        """Room for FREs of up to so many words each."""
        return cls(
            *(np.zeros(count, np.uint64), np.zeros(count, np.uint8), np.zeros((count, words), np.int32)),
            np.zeros(count, np.bool_),
        )

    def select(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> Fres:
        """Some of them."""
        return Fres(self.start[which], self.info[which], self.words[which], self.is_flex[which])

    def bits(self, name: str) -> NDArray[np.uint8]:
        """One field of the info word."""
        shift, mask = bit_position(sframe.FreInfo, name)
        return self.info >> np.uint8(shift) & np.uint8(mask)

    def slots(self, fixed_ra: int, fixed_fp: int) -> tuple[Slots, Slots]:
        """Where RA and FP are saved, of FREs that are not FLEX (ABI/arch-specific Definition).

        `fixed_ra` and `fixed_fp` are the header's: offsets from the CFA that no FRE repeats.
        """
        count, wide = self.bits("fre_offset_count"), self.words.astype(np.int64)
        always = count > 0
        ra = Slots(wide[:, 1], (count > 1) & (wide[:, 1] != sframe.RA_OFFSET_INVALID))
        fp = Slots(wide[:, 2], count > 2)
        if fixed_ra != sframe.FIXED_OFFSET_INVALID:
            ra, fp = Slots(np.full(len(count), fixed_ra, np.int64), always), Slots(wide[:, 1], count > 1)
        if fixed_fp != sframe.FIXED_OFFSET_INVALID:
            fp = Slots(np.full(len(count), fixed_fp, np.int64), always)
        return ra, fp

    def pairs(self) -> tuple[Pairs, Pairs, Pairs]:
        """The words of CFA, RA and FP, of FLEX FREs (Flexible FDE Type Interpretation)."""
        count, wide = self.bits("fre_offset_count").astype(np.int64), self.words.astype(np.int64)
        # Control words are unsigned: take the sign off again.
        bits = 8 << self.bits("fre_offset_size").astype(np.int64)
        unsigned = wide & ((1 << bits) - 1)[:, None]
        cfa = Pairs(unsigned[:, 0], wide[:, 1], count > 1)
        has_ra = (count > 3) & (unsigned[:, 2] != sframe.PADDING_WORD)
        ra = Pairs(unsigned[:, 2], wide[:, 3], has_ra)
        # One word stands for an RA that has no rule.
        at = np.where((count > 2) & (unsigned[:, 2] == sframe.PADDING_WORD), 3, 4)
        number = np.arange(len(count))
        control, offset = unsigned[number, at], wide[number, np.minimum(at + 1, MAX_FLEX_WORDS - 1)]
        return cfa, ra, Pairs(control, offset, (count > at + 1) & (control != sframe.PADDING_WORD))

    def cfa_offsets(self, abi: SframeAbi) -> NDArray[np.int64]:
        """The CFA's offset from its base register, in bytes."""
        word = np.where(self.is_flex, self.words[:, 1], self.words[:, 0]).astype(np.int64)
        return word * abi.cfa_alignment + abi.cfa_adjustment


def fres_of_blocks(
    section: Section, fres: memoryview, fres_offset: int, blocks: FreBlocks, *, least: int, ascending: bool = True
) -> Fres:
    """The FREs of some blocks, behind one another; each has `least` words or more."""
    total = int(blocks.count.sum())
    if total > max(FREE_ROWS, ROWS_PER_BYTE * len(fres)):
        reason = f"FDEs name {total} FREs in a sub-section of {len(fres)} bytes"
        raise ParseError(section, None, "header.num_fdes", reason)
    found = Fres.empty(total, MAX_FLEX_WORDS if blocks.is_flex.any() else MAX_WORDS)
    reader = reader_of(section, fres)
    columns = (blocks.offset, blocks.count, blocks.width, found.start, found.info, found.words)
    done = engine.sframe.fres.decode(reader, least, int(ascending), *views(*columns))
    if reader.fault:
        refuse(section, f"FDE[{blocks.fde[done]}].FRE", reader, fres_offset)
    found.is_flex[:] = np.repeat(blocks.is_flex, blocks.count)
    if ascending:
        check_words(section, found, lambda fre: _place_of(blocks, fre))
    return found


def _place_of(blocks: FreBlocks, fre: int) -> str:
    """The name of an FRE, counted over all blocks."""
    block = int(np.searchsorted(np.cumsum(blocks.count), fre, side="right"))
    return f"FDE[{blocks.fde[block]}].FRE[{fre - int(blocks.count[:block].sum())}]"


def check_words(section: Section, fres: Fres, place_of: Callable[[int], str]) -> None:
    """Refuse FREs with more words than their FDE's type has, pairs that are none, a CFA that counts from itself.
    `place_of` names an FRE by its index."""
    if fres.words.shape[1] <= MAX_WORDS:
        return  # none is FLEX, and of more words the kernel has made a fault
    count = fres.bits("fre_offset_count")
    has_base = fres.words[:, 0] & sframe.CONTROL_REG > 0
    # One word stands for an RA without a rule, so the count is odd with it and even without.
    is_padded = fres.words[:, 2] == sframe.PADDING_WORD
    flex = fres.is_flex & (count > 0)
    for is_wrong, reason in (
        (~fres.is_flex & (count > MAX_WORDS), f"an FRE that is not FLEX has up to {MAX_WORDS} data words"),
        (flex & (count == 1), "a FLEX FRE has a control and an offset word for the CFA"),
        (flex & ~has_base, "the CFA counts from no register"),
        (flex & (count > 2) & (is_padded != (count % 2 == 1)), "a control word without its offset"),
    ):
        wrong = np.flatnonzero(is_wrong)
        if len(wrong):
            raise ParseError(section, None, place_of(int(wrong[0])), reason)


def rows_of_blocks(
    fres: Fres, blocks: FreBlocks, architecture: Architecture, version: SFRAME_VERSION
) -> tuple[NDArray[np.int64], RowColumns, RuleColumns, tuple[bytes, ...]]:
    """`run_rows`, rows, rules and expressions of a table whose runs are the blocks.

    PCs before a first FRE get a row without CFA. In version 3 a block without FREs is an outermost frame's, as an FRE
    without words is.
    """
    last = np.cumsum(blocks.count)
    if version >= SFRAME_VERSION.V3 and (is_empty := blocks.count == 0).any():
        marks = last[is_empty]
        columns = (np.insert(getattr(fres, field.name), marks, 0, axis=0) for field in fields(Fres))
        fres, last = Fres(*columns), last + np.cumsum(is_empty)
    rows, rules, expressions = rows_of_fres(fres, architecture, version)
    run_rows, rows = _fill_gaps(np.concatenate([np.zeros(1, np.int64), last]), rows)
    return run_rows, rows, rules, expressions


def rows_of_fres(
    fres: Fres, architecture: Architecture, version: SFRAME_VERSION
) -> tuple[RowColumns, RuleColumns, tuple[bytes, ...]]:
    """A row for each FRE, in their order, the rules that the rows share, and their expressions."""
    abi = abi_of(architecture)
    has_register_slots = abi.has_register_slots and version < SFRAME_VERSION.V3
    cfa, ra, fp = _forms(fres, architecture, abi, has_register_slots)
    first_rule, rule_count, rules = _rules_of(architecture, fp, ra)
    return columns_of_forms(
        architecture,
        cfa,
        rules,
        offset=fres.start,
        ra_state=fres.bits("fre_mangled_ra_p") * np.uint8(RaState.SIGNED),
        first_rule=first_rule,
        rule_count=rule_count,
    )


def _forms(
    fres: Fres, architecture: Architecture, abi: SframeAbi, has_register_slots: bool
) -> tuple[Forms, Forms, Forms]:
    """What each FRE says of CFA, RA and FP."""
    # Every ABI tracks FP; a header that says otherwise was refused.
    ra_slot, fp_slot = fres.slots(abi.fixed_ra_offset or sframe.FIXED_OFFSET_INVALID, sframe.FIXED_OFFSET_INVALID)
    is_sp = fres.bits("fre_cfa_base_reg_id") == sframe.SFRAME_BASE_REG.SP
    base = np.where(is_sp, architecture.stack_pointer, architecture.frame_pointer)
    is_outermost = fres.bits("fre_offset_count") == 0
    cfa_kind = np.where(is_outermost, CfaKind.NONE, CfaKind.REGISTER).astype(np.uint8)
    cfa = Forms(cfa_kind, base.astype(np.int64), np.where(is_outermost, 0, fres.cfa_offsets(abi)))
    ra, fp = _slot_forms(ra_slot, has_register_slots), _slot_forms(fp_slot, has_register_slots)
    if fres.is_flex.any():
        flex = np.flatnonzero(fres.is_flex & ~is_outermost)
        cfa_pair, ra_pair, fp_pair = fres.select(flex).pairs()
        cfa.kind[flex] = np.where(cfa_pair.control & sframe.CONTROL_DEREF, CfaKind.EXPRESSION, CfaKind.REGISTER)
        cfa.base[flex] = cfa_pair.control >> sframe.CONTROL_REGISTER_SHIFT
        ra.put(flex, _pair_forms(ra_pair))
        fp.put(flex, _pair_forms(fp_pair))
        if abi.fixed_ra_offset is not None:
            default = flex[~ra_pair.is_there]
            ra.kind[default], ra.value[default] = RuleKind.OFFSET, abi.fixed_ra_offset
    ra.kind[is_outermost], ra.value[is_outermost] = RuleKind.UNDEFINED, 0
    return cfa, ra, fp


def _slot_forms(slot: Slots, has_register_slots: bool) -> Forms:
    kind = np.where(slot.is_there, RuleKind.OFFSET, RuleKind.UNSPECIFIED).astype(np.uint8)
    value = np.where(slot.is_there, slot.word, 0)
    if has_register_slots:
        is_register = slot.is_there & (value & SLOT_REGISTER_MARK > 0)
        kind[is_register] = RuleKind.REGISTER
        value = np.where(is_register, value >> SLOT_REGISTER_SHIFT, value)
    return Forms(kind, np.zeros(len(kind), np.int64), value)


def _pair_forms(pair: Pairs) -> Forms:
    """Base + offset, or what is in memory there (Recovery Rules)."""
    is_register, is_memory = pair.control & sframe.CONTROL_REG > 0, pair.control & sframe.CONTROL_DEREF > 0
    kind = np.select(
        [~pair.is_there, is_register & is_memory, is_register & (pair.offset == 0), is_register, is_memory],
        [RuleKind.UNSPECIFIED, RuleKind.EXPRESSION, RuleKind.REGISTER, RuleKind.VAL_EXPRESSION, RuleKind.OFFSET],
        RuleKind.VAL_OFFSET,
    ).astype(np.uint8)
    base = np.where(pair.is_there, pair.control >> sframe.CONTROL_REGISTER_SHIFT, 0)
    value = np.where(pair.is_there, np.where(kind == RuleKind.REGISTER, base, pair.offset), 0)
    names_base = (kind == RuleKind.EXPRESSION) | (kind == RuleKind.VAL_EXPRESSION)
    return Forms(kind, np.where(names_base, base, 0), value)


def _rules_of(
    architecture: Architecture, fp: Forms, ra: Forms
) -> tuple[NDArray[np.int64], NDArray[np.uint16], RuleForms]:
    """First rule and rule count of each row, and the rules: one slice for each distinct pair of FP and RA."""
    columns = ((fp.kind, ra.kind), (fp.base, ra.base), (fp.value, ra.value))
    of_row, row = numbered(*(column for pair in columns for column in pair))
    # FP before RA: so they are numbered in every ABI that SFrame has.
    kind, base, value = (np.stack([of_fp[row], of_ra[row]], axis=1).reshape(-1) for of_fp, of_ra in columns)
    present = kind != RuleKind.UNSPECIFIED
    register = np.tile(np.array([architecture.frame_pointer, architecture.return_address], np.uint16), len(row))
    count = present.reshape(-1, 2).sum(axis=1)
    first = np.cumsum(count) - count
    forms = Forms(kind[present].astype(np.uint8), base[present], value[present])
    return first[of_row].astype(np.int64), count[of_row].astype(np.uint16), RuleForms(register[present], forms)


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
