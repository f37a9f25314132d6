"""Choose the CIEs for a table: functions with equal properties share a CIE with their most common initial row.

Strategy: everything in a CIE except its instructions is a function's *key*: return column, flags, personality, factors.
The most common first row of the functions of a key becomes the initial instructions of their CIE; other functions
encode the difference, or get a separate CIE if that takes fewer bytes. A run in which a rule of the CIE disappears
needs a CIE without that rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...schemas.data_classes import dataclass
from ..arrays import starts_of
from ..distinct import number_distinct
from ..rules import CfaKind, RuleKind
from ..table.model import FunctionFlag, UnwindTable
from .write_instructions import NO_ROW, EncodedStreams, Streams, StreamWriter, rule_effects

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The approximate size of a CIE without its instructions.
CIE_BYTES = 24
# The data alignment factors that are tried, largest first.
DATA_UNITS = (8, 4, 2, 1)


class CieKey(NamedTuple):
    """The properties that functions of one CIE share, except the instructions. Factors and sizes are in bytes."""

    return_column: int
    flags: FunctionFlag
    personality_encoding: int
    personality: int
    segment_size: int
    code_factor: int
    data_factor: int


@dataclass(frozen=True, slots=True, eq=False)
class CieChoice:
    """The CIEs and streams chosen. Per CIE: its key, and `initial`, the row that its instructions make (NO_ROW: none).
    Per stream, which functions share: `stream_run`, its run, and `stream_cie`, its CIE. `stream` is the stream of each
    function, -1 if no instructions can express its rows. `encoded` are the bytes of the streams."""

    keys: tuple[CieKey, ...]
    initial: NDArray[np.int64]
    stream_run: NDArray[np.int64]
    stream_cie: NDArray[np.int64]
    stream: NDArray[np.int64]
    encoded: EncodedStreams

    def streams(self) -> Streams:
        """The streams of functions."""
        code, data = factors_of(self.keys)
        return Streams(self.stream_run, self.initial[self.stream_cie], code[self.stream_cie], data[self.stream_cie])

    def cie_streams(self) -> Streams:
        """The initial instructions of the CIEs."""
        return Streams(np.full(len(self.initial), NO_ROW), self.initial, *factors_of(self.keys))


def factors_of(keys: Sequence[CieKey]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The code and data alignment factors of these CIEs, in bytes."""
    code, data = (np.array([getattr(one, name) for one in keys], np.int64) for name in ("code_factor", "data_factor"))
    return code, data


def choose_cies(writer: StreamWriter, which: NDArray[np.int64]) -> CieChoice:
    """Choose CIEs for the functions `which` of the writer's table."""
    has_instructions = _has_instructions(writer.table)[writer.table.functions.run[which]]
    if not has_instructions.all():
        choice = choose_cies(writer, which[has_instructions])
        stream = np.full(len(which), -1, np.int64)
        stream[has_instructions] = choice.stream
        return replace(choice, stream=stream)
    key, keys = _cie_keys(writer.table, which)
    run = writer.table.functions.run[which].astype(np.int64)
    stream, first = number_distinct(key, run)
    stream_run, stream_key = run[first], key[first]
    users = np.bincount(stream, minlength=len(first))
    initial, main, by_main = _initial_rows(writer, keys, stream_run, stream_key, users)
    encoded = np.flatnonzero(initial != _INEXPRESSIBLE)
    initial, stream_key = initial[encoded], stream_key[encoded]
    # CIEs of one key whose initial rows are equal are one.
    cie, of_cie = number_distinct(stream_key, np.where(initial == NO_ROW, NO_ROW, writer.content[initial]))
    place = np.full(len(first), -1, np.int64)
    place[encoded] = np.arange(len(encoded))
    chosen = tuple(keys[one] for one in stream_key[of_cie].tolist())
    choice = CieChoice(chosen, initial[of_cie], stream_run[encoded], cie, place[stream], by_main.select(encoded))
    has_main = (initial != NO_ROW) & (writer.content[initial] == writer.content[main[encoded]])
    others = np.flatnonzero(~has_main)
    rest = writer.write(choice.streams().select(others))
    return replace(choice, encoded=choice.encoded.replaced(others, rest))


def _has_instructions(table: UnwindTable) -> NDArray[np.bool_]:
    """Which runs have only rules of kinds that an instruction sets: an architectural rule has none."""
    rows, without = table.rows, starts_of(rule_effects()[table.rules.kind] == 0)
    return ~_any_row(table, without[rows.first_rule + rows.rule_count] > without[rows.first_rule])


def _cie_keys(table: UnwindTable, which: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[CieKey]]:
    """The index of each function's key, and the keys."""
    functions = table.functions
    units = [column[functions.run[which]] for column in (_code_units(table), _data_units(table))]
    names = ("return_column", "flags", "personality_encoding", "personality")
    # The size of a segment selector is 1, 2, 4 or 8 bytes.
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
    """For each run the unit that its row offsets are multiples of: that of the architecture, or 1."""
    unit = table.architecture.instruction_unit
    is_odd = table.rows.offset % np.uint64(unit) > 0
    return np.where(_any_row(table, is_odd), 1, unit)


def _data_units(table: UnwindTable) -> NDArray[np.int64]:
    """For each run the largest unit that all its factored offsets are multiples of."""
    rows, rules = table.rows, table.rules
    is_factored = np.isin(rules.kind, (RuleKind.OFFSET, RuleKind.VAL_OFFSET))
    is_negative = (rows.cfa_kind == CfaKind.REGISTER) & (rows.cfa_offset < 0)
    units = np.ones(len(table.run_rows) - 1, np.int64)
    for unit in DATA_UNITS[::-1]:
        if unit <= table.architecture.register_size:
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
) -> tuple[NDArray[np.int64], NDArray[np.int64], EncodedStreams]:
    """For each stream the initial row of its CIE: NO_ROW for a CIE without instructions, _INEXPRESSIBLE if no CIE
    works. Returns also the most common first row of its key, and its bytes for a CIE with that row."""
    own = writer.table.run_rows[stream_run]
    code, data = (column[stream_key] for column in factors_of(keys))
    first_row, first = number_distinct(stream_key, writer.content[own])
    # The most common first row of the functions of each key: the first one of the key in descending order.
    weight = np.bincount(first_row, users, len(first))
    order = np.lexsort((np.arange(len(first)), -weight))
    key, at = np.unique(stream_key[first][order], return_index=True)
    common = np.empty(len(keys), np.int64)
    common[key] = own[first[order[at]]]
    main = common[stream_key]
    encoded = writer.write(Streams(stream_run, main, code, data))
    by_main = encoded.size
    is_usual = writer.content[own] == writer.content[main]
    by_own = np.where(is_usual, by_main, _sizes_of(writer, ~is_usual, Streams(stream_run, own, code, data)))
    nothing = Streams(stream_run, np.full_like(own, NO_ROW), code, data)
    by_none = _sizes_of(writer, (by_main < 0) & (by_own < 0), nothing)
    can_both = (by_main >= 0) & (by_own >= 0)
    saved = np.where(can_both, users * (_padded(by_main) - _padded(by_own)), 0)
    is_own = np.bincount(first_row, saved, len(first)) > CIE_BYTES
    is_own |= np.bincount(first_row, (by_main < 0) & (by_own >= 0), len(first)) > 0
    takes_own = is_own[first_row] & (by_own >= 0)
    return np.select([takes_own, by_main >= 0, by_none >= 0], [own, main, NO_ROW], _INEXPRESSIBLE), main, encoded


def _sizes_of(writer: StreamWriter, which: NDArray[np.bool_], streams: Streams) -> NDArray[np.int64]:
    """The sizes of the streams `which`; -1 for the others."""
    sizes = np.full(len(which), -1, np.int64)
    sizes[which] = writer.sizes(streams.select(which))
    return sizes


def _padded(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bytes of an FDE that depend on the size of its instructions: entries are padded to multiples of 4."""
    return (size + 1 + 3) // 4 * 4
