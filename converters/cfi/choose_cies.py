"""Which CIEs a table needs: functions share one whose marks are equal, on top of what most of them begin with.

Strategy: all that a CIE holds except its instructions is a function's *key*: return column, flags, personality,
factors. Most functions of a key begin with one row, which is the CIE's; others encode what differs, or have a CIE of
their own if that takes fewer bytes. A run in which a rule goes that the CIE gives needs a CIE without it.
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


class CieKey(NamedTuple):
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
    """The CIEs, one element each: `keys`, and `initial`, the row that its instructions give (NO_ROW: none). Functions
    share streams: of each its run and its CIE; `stream` is each function's, -1 if no instructions express its rows."""

    keys: tuple[CieKey, ...]
    initial: NDArray[np.int64]
    stream_run: NDArray[np.int64]
    stream_cie: NDArray[np.int64]
    stream: NDArray[np.int64]

    def streams(self) -> Streams:
        """The functions' streams."""
        code, data = factors_of(self.keys)
        return Streams(self.stream_run, self.initial[self.stream_cie], code[self.stream_cie], data[self.stream_cie])

    def cie_streams(self) -> Streams:
        """What the CIEs begin with."""
        return Streams(np.full(len(self.initial), NO_ROW), self.initial, *factors_of(self.keys))


def factors_of(keys: Sequence[CieKey]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The units of bytes of some CIEs: of code and of data."""
    code, data = (np.array([getattr(one, name) for one in keys], np.int64) for name in ("code_factor", "data_factor"))
    return code, data


def choose_cies(writer: StreamWriter, which: NDArray[np.int64]) -> CieChoice:
    """The CIEs for some functions of the writer's table, in the order of these."""
    key, keys = _cie_keys(writer.table, which)
    run = writer.table.functions.run[which].astype(np.int64)
    stream, first = number_distinct(key, run)
    stream_run, stream_key = run[first], key[first]
    initial = _initial_rows(writer, keys, stream_run, stream_key, np.bincount(stream, minlength=len(first)))
    encoded = np.flatnonzero(initial != _INEXPRESSIBLE)
    initial, stream_key = initial[encoded], stream_key[encoded]
    # Rows with equal contents are one.
    cie, of_cie = number_distinct(stream_key, np.where(initial == NO_ROW, NO_ROW, writer.content[initial]))
    place = np.full(len(first), -1, np.int64)
    place[encoded] = np.arange(len(encoded))
    chosen = tuple(keys[one] for one in stream_key[of_cie].tolist())
    return CieChoice(chosen, initial[of_cie], stream_run[encoded], cie, place[stream])


def _cie_keys(table: UnwindTable, which: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[CieKey]]:
    """The number of each function's key, and the keys."""
    functions = table.functions
    units = [column[functions.run[which]] for column in (_code_units(table), _data_units(table))]
    names = ("return_column", "flags", "personality_encoding", "personality")
    # The bytes that a selector needs: of four widths.
    segment = functions.segment[which]
    width = np.select([segment >> np.uint64(8 * size) == 0 for size in (1, 2, 4)], [1, 2, 4], 8)
    columns = [*(getattr(functions, name)[which] for name in names), np.where(segment > 0, width, 0), *units]
    number, first = number_distinct(*columns)
    rows = zip(*(column[first].tolist() for column in columns), strict=True)
    keys = [
        CieKey(column, FunctionFlag(flags), encoding, personality, size, code, -data)
        for column, flags, encoding, personality, size, code, data in rows
    ]
    return number, keys


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


_INEXPRESSIBLE = -2


def _initial_rows(
    writer: StreamWriter,
    keys: list[CieKey],
    stream_run: NDArray[np.int64],
    stream_key: NDArray[np.int64],
    users: NDArray[np.int64],
) -> NDArray[np.int64]:
    """For each stream the row that its CIE begins with; NO_ROW for an empty CIE, _INEXPRESSIBLE if none leads to its
    rows."""
    own = writer.table.run_rows[stream_run]
    code, data = (column[stream_key] for column in factors_of(keys))
    first_row, first = number_distinct(stream_key, writer.content[own])
    # The first row that most functions of a key have: in descending order, the first of each.
    weight = np.bincount(first_row, users, len(first))
    order = np.lexsort((np.arange(len(first)), -weight))
    with_shape, at = np.unique(stream_key[first][order], return_index=True)
    common = np.empty(len(keys), np.int64)
    common[with_shape] = own[first[order[at]]]
    main = common[stream_key]
    by_main = writer.sizes(Streams(stream_run, main, code, data))
    is_usual = writer.content[own] == writer.content[main]
    by_own = np.where(is_usual, by_main, _sizes_of(writer, ~is_usual, Streams(stream_run, own, code, data)))
    nothing = Streams(stream_run, np.full_like(own, NO_ROW), code, data)
    by_none = _sizes_of(writer, (by_main < 0) & (by_own < 0), nothing)
    can_both = (by_main >= 0) & (by_own >= 0)
    saved = np.where(can_both, users * (_padded(by_main) - _padded(by_own)), 0)
    is_own = np.bincount(first_row, saved, len(first)) > CIE_BYTES
    is_own |= np.bincount(first_row, (by_main < 0) & (by_own >= 0), len(first)) > 0
    takes_own = is_own[first_row] & (by_own >= 0)
    return np.select([takes_own, by_main >= 0, by_none >= 0], [own, main, NO_ROW], _INEXPRESSIBLE)


def _sizes_of(writer: StreamWriter, which: NDArray[np.bool_], streams: Streams) -> NDArray[np.int64]:
    """Bytes of some of the streams; -1 of the others."""
    sizes = np.full(len(which), -1, np.int64)
    sizes[which] = writer.sizes(streams.select(which))
    return sizes


def _padded(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of an FDE that depend on the size of its instructions: entries are multiples of 4."""
    return (size + 1 + 3) // 4 * 4
