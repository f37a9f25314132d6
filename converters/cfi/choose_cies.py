"""Which CIEs a table needs: functions share one whose marks are equal, on top of what most of them begin with.

Strategy: what a CIE has to say but its instructions is a function's *shape*: column, marks, personality, units. Of each
shape most functions begin with one row, which is the CIE's; others say what differs, or have a CIE of their own where
that takes fewer bytes. A run in which a rule goes that the CIE gives needs a CIE without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arrays import starts_of
from ..rules import CfaKind, RuleKind
from ..table.distinct import number_distinct
from ..table.model import FunctionFlag, UnwindTable
from .write_instructions import NO_ROW, Streams, StreamWriter

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Bytes of a CIE beside its instructions, about.
CIE_BYTES = 24
# Units of offsets that are tried, the largest first.
DATA_UNITS = (8, 4, 2, 1)


class Shape(NamedTuple):
    """What functions of one CIE have in common but its instructions; factors and sizes in bytes."""

    return_column: int
    flags: FunctionFlag
    personality_encoding: int
    personality: int
    segment_size: int
    code_factor: int
    data_factor: int


@dataclass(frozen=True, slots=True, eq=False)
class CieChoice:
    """The CIEs, an element each: `shapes` and `initial`, the row that it begins with (NO_ROW: none). A job is a stream
    that functions share: `job_run` and `job_cie`; `job` is each function's, -1 where no instructions say its rows."""

    shapes: tuple[Shape, ...]
    initial: NDArray[np.int64]
    job_run: NDArray[np.int64]
    job_cie: NDArray[np.int64]
    job: NDArray[np.int64]

    def streams(self) -> Streams:
        """What the jobs write."""
        code, data = factors_of(self.shapes)
        return Streams(self.job_run, self.initial[self.job_cie], code[self.job_cie], data[self.job_cie])

    def cie_streams(self) -> Streams:
        """What the CIEs begin with."""
        return Streams(np.full(len(self.initial), NO_ROW), self.initial, *factors_of(self.shapes))


def factors_of(shapes: Sequence[Shape]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The units of bytes of some CIEs: of code and of data."""
    code, data = (np.array([getattr(one, name) for one in shapes], np.int64) for name in ("code_factor", "data_factor"))
    return code, data


def choose_cies(writer: StreamWriter, which: NDArray[np.int64]) -> CieChoice:
    """The CIEs for some functions of the writer's table, in the order of these."""
    shape, shapes = _shapes(writer.table, which)
    run = writer.table.functions.run[which].astype(np.int64)
    job, first = number_distinct(shape, run)
    job_run, job_shape = run[first], shape[first]
    initial = _initial_rows(writer, shapes, job_run, job_shape, np.bincount(job, minlength=len(first)))
    said = np.flatnonzero(initial != _UNSAID)
    initial, job_shape = initial[said], job_shape[said]
    # A row stands for all that say the same.
    cie, of_cie = number_distinct(job_shape, np.where(initial == NO_ROW, NO_ROW, writer.content[initial]))
    place = np.full(len(first), -1, np.int64)
    place[said] = np.arange(len(said))
    chosen = tuple(shapes[one] for one in job_shape[of_cie].tolist())
    return CieChoice(chosen, initial[of_cie], job_run[said], cie, place[job])


def _shapes(table: UnwindTable, which: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[Shape]]:
    """The number of each function's shape, and the shapes."""
    functions = table.functions
    units = [column[functions.run[which]] for column in (_code_units(table), _data_units(table))]
    names = ("return_column", "flags", "personality_encoding", "personality")
    # The bytes that a selector needs: of four widths.
    segment = functions.segment[which]
    width = np.select([segment >> np.uint64(8 * size) == 0 for size in (1, 2, 4)], [1, 2, 4], 8)
    columns = [*(getattr(functions, name)[which] for name in names), np.where(segment > 0, width, 0), *units]
    number, first = number_distinct(*columns)
    rows = zip(*(column[first].tolist() for column in columns), strict=True)
    shapes = [
        Shape(column, FunctionFlag(flags), encoding, personality, size, code, -data)
        for column, flags, encoding, personality, size, code, data in rows
    ]
    return number, shapes


def _code_units(table: UnwindTable) -> NDArray[np.int64]:
    """For each run the unit that its offsets are multiples of: the architecture's, or a byte."""
    unit = table.architecture.instruction_unit
    is_odd = table.rows.offset % np.uint64(unit) > 0
    return np.where(_any_row(table, is_odd), 1, unit)


def _data_units(table: UnwindTable) -> NDArray[np.int64]:
    """For each run the largest unit that all offsets which are stored in units are multiples of."""
    rows, rules = table.rows, table.rules
    is_factored = np.isin(rules.kind, (RuleKind.OFFSET, RuleKind.VAL_OFFSET))
    is_negative = (rows.cfa_kind == CfaKind.REGISTER) & (rows.cfa_offset < 0)
    units = np.ones(len(table.run_rows) - 1, np.int64)
    for unit in DATA_UNITS[::-1]:
        if unit <= table.address_size:
            odd_rules = starts_of(is_factored & (rules.value % unit != 0))
            end = rows.first_rule + rows.rule_count
            is_odd = (odd_rules[end] > odd_rules[rows.first_rule]) | (is_negative & (rows.cfa_offset % unit != 0))
            units[~_any_row(table, is_odd)] = unit
    return units


def _any_row(table: UnwindTable, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which runs have a marked row."""
    before = starts_of(marked)
    return before[table.run_rows[1:]] > before[table.run_rows[:-1]]


_UNSAID = -2


def _initial_rows(
    writer: StreamWriter,
    shapes: list[Shape],
    job_run: NDArray[np.int64],
    job_shape: NDArray[np.int64],
    users: NDArray[np.int64],
) -> NDArray[np.int64]:
    """For each job the row that its CIE begins with, NO_ROW for an empty one, _UNSAID where none leads to its rows."""
    own = writer.table.run_rows[job_run]
    code, data = (column[job_shape] for column in factors_of(shapes))
    beginning, first = number_distinct(job_shape, writer.content[own])
    # The beginning that most functions of a shape have: in descending order, the first of each.
    weight = np.bincount(beginning, users, len(first))
    order = np.lexsort((np.arange(len(first)), -weight))
    with_shape, at = np.unique(job_shape[first][order], return_index=True)
    common = np.empty(len(shapes), np.int64)
    common[with_shape] = own[first[order[at]]]
    main = common[job_shape]
    by_main = writer.sizes(Streams(job_run, main, code, data))
    is_usual = writer.content[own] == writer.content[main]
    by_own = np.where(is_usual, by_main, _sizes_of(writer, ~is_usual, Streams(job_run, own, code, data)))
    nothing = Streams(job_run, np.full_like(own, NO_ROW), code, data)
    by_none = _sizes_of(writer, (by_main < 0) & (by_own < 0), nothing)
    can_both = (by_main >= 0) & (by_own >= 0)
    saved = np.where(can_both, users * (_padded(by_main) - _padded(by_own)), 0)
    is_own = np.bincount(beginning, saved, len(first)) > CIE_BYTES
    is_own |= np.bincount(beginning, (by_main < 0) & (by_own >= 0), len(first)) > 0
    takes_own = is_own[beginning] & (by_own >= 0)
    return np.select([takes_own, by_main >= 0, by_none >= 0], [own, main, NO_ROW], _UNSAID)


def _sizes_of(writer: StreamWriter, which: NDArray[np.bool_], streams: Streams) -> NDArray[np.int64]:
    """Bytes of some of the streams; -1 of the others."""
    sizes = np.full(len(which), -1, np.int64)
    sizes[which] = writer.sizes(streams.select(which))
    return sizes


def _padded(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of an FDE that depend on the size of its instructions: entries are multiples of 4."""
    return (size + 1 + 3) // 4 * 4
