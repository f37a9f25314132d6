"""The table from an `.sframe` section, versions 1 to 3 (write.py does the reverse).

Strategy: each distinct block of FREs is decoded once. FREs of all versions become a kind and a value for CFA, RA and
FP; the few distinct pairs of RA and FP become rules, which rows share. The caller's SP is the ABI's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas import sframe
from ...schemas.arguments import checked
from ...schemas.section import ParseError, Section
from ...schemas.sframe import SFRAME_VERSION
from ...schemas.sframe_abi import SLOT_REGISTER_MARK, SLOT_REGISTER_SHIFT, SframeAbi
from ...schemas.steps import Step
from ..arch.table import Architecture, unwind_registers
from ..arrays import starts_of, starts_of_ends, values_at
from ..distinct import number_distinct
from ..rules import CfaKind, RaState, RuleKind
from ..table.model import FunctionColumns, FunctionFlag, RowColumns, RuleColumns, UnwindTable
from ..table.runs import cut_runs, has_rows_past
from .caller_sp import with_caller_sp
from .flex import Forms, RuleForms, columns_of_forms
from .fres import FreBlocks, Fres, Pairs, Slots, abi_of, fres_of_blocks
from .section import SframeColumns, check_columns, sframe_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray


@checked(section_address=int)
def from_sframe(data: bytes | memoryview, section_address: int = 0) -> UnwindTable:
    """The table of an `.sframe` section at the virtual address `section_address`. The header gives the architecture.

    Raises ParseError.
    """
    if not 0 <= section_address < 1 << 64:
        raise ParseError(".sframe", None, "section_address", f"{section_address:#x} is not an address")
    return table_from_sframe(Section(".sframe", memoryview(data), section_address))


def table_from_sframe(section: Section) -> UnwindTable:
    """As `from_sframe`. The magic number gives the byte order."""
    with Step(f"rows of {section.name}") as step:
        columns = check_columns(sframe_columns(section))
        run, run_rows, rows, rules, expressions = _rows(columns)
        runs, run_rows, repeated = cut_runs(columns.section, run, _reach(columns), run_rows, rows.offset)
        step.count(len(columns), "FDEs")
        step.count(len(rows), "distinct FREs")
    return UnwindTable(
        architecture=columns.architecture,
        byte_order=columns.section.byte_order,
        functions=_functions(columns, runs),
        run_rows=run_rows,
        rows=RowColumns.concatenate([rows, rows.select(repeated)]),
        rules=rules,
        expressions=expressions,
        source=section.name,
    )


def has_late_fres(columns: SframeColumns) -> NDArray[np.bool_]:
    """Which FDEs have an FRE, other than the first, at or past the end of the function or of its repetitive block; the
    table leaves them out. Raises ParseError."""
    run, run_rows, rows, _, _ = _rows(columns)
    return has_rows_past(run, _reach(columns), run_rows, rows.offset)


def _rows(
    columns: SframeColumns,
) -> tuple[NDArray[np.uint32], NDArray[np.int64], RowColumns, RuleColumns, tuple[bytes, ...]]:
    """The run of each FDE, and as `rows_of_blocks`."""
    blocks, run = columns.distinct_blocks()
    is_v3 = columns.version >= SFRAME_VERSION.V3
    fres = fres_of_blocks(columns.section, columns.fres, columns.fres_offset, blocks, least=int(not is_v3))
    return run.astype(np.uint32), *rows_of_blocks(fres, blocks, columns.architecture, columns.version)


def _reach(columns: SframeColumns) -> NDArray[np.uint64]:
    """The end of each FDE's rows, in bytes from the start of the function or block."""
    return np.where(columns.repetition > 0, columns.repetition.astype(np.uint64), columns.size)


def _functions(columns: SframeColumns, runs: NDArray[np.uint32]) -> FunctionColumns:
    return FunctionColumns.defaults(
        len(columns),
        start=columns.start,
        size=columns.size,
        run=runs,
        return_column=np.full(len(columns), columns.architecture.return_address, np.uint32),
        repetition=columns.repetition,
        flags=columns.bits("pauth_key") * np.uint8(FunctionFlag.PAUTH_B_KEY)
        | columns.is_signal_frame() * np.uint8(FunctionFlag.SIGNAL_FRAME),
        origin=columns.origin,
    )


def rows_of_blocks(
    fres: Fres, blocks: FreBlocks, architecture: Architecture, version: SFRAME_VERSION
) -> tuple[NDArray[np.int64], RowColumns, RuleColumns, tuple[bytes, ...]]:
    """`run_rows`, rows, rules and expressions of a table whose runs are the blocks.

    PCs before the first FRE get a row without a CFA. In version 3 a block without FREs marks an outermost frame, like
    an FRE without words.
    """
    last = np.cumsum(blocks.count)
    if version >= SFRAME_VERSION.V3 and (is_empty := blocks.count == 0).any():
        places = last[is_empty]
        fres = fres.insert(places, Fres.zeros(len(places), fres.words.shape[1]))
        last = last + np.cumsum(is_empty)
    rows, rules, expressions = rows_of_fres(fres, architecture, version)
    run_rows, rows = _fill_gaps(starts_of_ends(last), rows)
    return run_rows, rows, rules, expressions


def rows_of_fres(
    fres: Fres, architecture: Architecture, version: SFRAME_VERSION
) -> tuple[RowColumns, RuleColumns, tuple[bytes, ...]]:
    """One row per FRE, in order; the rules, which rows share; and the expressions."""
    abi = abi_of(architecture)
    has_register_slots = abi.has_register_slots and version < SFRAME_VERSION.V3
    cfa, ra, fp = _forms(fres, architecture, abi, has_register_slots)
    first_rule, rule_count, rules = _rules_of(architecture, fp, ra)
    rows = RowColumns.defaults(
        len(fres),
        offset=fres.start,
        ra_state=fres.bits("fre_mangled_ra_p") * np.uint8(RaState.SIGNED),
        first_rule=first_rule,
        rule_count=rule_count,
    )
    rows, of_rows, expressions = columns_of_forms(architecture, cfa, rules, rows)
    return *with_caller_sp(architecture, rows, of_rows), expressions


def _forms(
    fres: Fres, architecture: Architecture, abi: SframeAbi, has_register_slots: bool
) -> tuple[Forms, Forms, Forms]:
    """The rules of each FRE for CFA, RA and FP."""
    # No ABI has a fixed FP offset; a header with one was refused.
    ra_slot, fp_slot = fres.slots(abi.fixed_ra_offset or sframe.FIXED_OFFSET_INVALID, sframe.FIXED_OFFSET_INVALID)
    is_sp = fres.bits("fre_cfa_base_reg_id") == sframe.SFRAME_BASE_REG.SP
    registers = unwind_registers(architecture)
    base = np.where(is_sp, registers.sp, registers.fp)
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
    """Base + offset, or the value in memory at that address (Recovery Rules)."""
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
    of_row, row = number_distinct(*(column for pair in columns for column in pair))
    # FP before RA: in every SFrame ABI FP has the lower register number.
    kind, base, value = (np.stack([of_fp[row], of_ra[row]], axis=1).reshape(-1) for of_fp, of_ra in columns)
    present = kind != RuleKind.UNSPECIFIED
    registers = unwind_registers(architecture)
    register = np.tile(np.array([registers.fp, registers.ra], np.uint16), len(row))
    count = present.reshape(-1, 2).sum(axis=1)
    first = starts_of(count)
    forms = Forms(kind[present].astype(np.uint8), base[present], value[present])
    return first[of_row], count[of_row].astype(np.uint16), RuleForms(register[present], forms)


def _fill_gaps(run_rows: NDArray[np.int64], rows: RowColumns) -> tuple[NDArray[np.int64], RowColumns]:
    """Make every run start at offset 0: if its first FRE does not, with a row without a CFA."""
    first = run_rows[:-1]
    is_empty = np.diff(run_rows) == 0
    starts = values_at(rows.offset, first, 0)
    gaps = np.flatnonzero(is_empty | (starts > 0))
    if not len(gaps):
        return run_rows, rows
    added = np.zeros(len(run_rows), np.int64)
    added[gaps + 1] = 1
    # A default row: offset 0, CfaKind.NONE, no rules.
    return run_rows + np.cumsum(added), rows.insert(first[gaps], RowColumns.defaults(len(gaps)))
