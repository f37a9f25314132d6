"""What rows say, as numbers: equal ones have equal numbers.

Strategy: columns are hashed by keys that nobody can foresee, hashes sorted, and what has one hash compared: no input
makes it slow, and no chance makes it wrong.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .rules import CfaKind, RaState, RuleKind
from .text import ranges
from .unwind import CfaRule, RegisterRule, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

WITH_EXPRESSION = (RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION)


def with_distinct_expressions(table: UnwindTable) -> UnwindTable:
    """The same table with every expression once, so that equal rules have equal values."""
    numbers: dict[bytes, int] = {}
    number = np.array([numbers.setdefault(one, len(numbers)) for one in table.expressions] or [0], np.int64)
    is_cfa, is_rule = table.rows.cfa_kind == CfaKind.EXPRESSION, np.isin(table.rules.kind, WITH_EXPRESSION)
    cfa_offset, value = table.rows.cfa_offset.copy(), table.rules.value.copy()
    cfa_offset[is_cfa] = number[cfa_offset[is_cfa]]
    value[is_rule] = number[value[is_rule]]
    rows, rules = replace(table.rows, cfa_offset=cfa_offset), replace(table.rules, value=value)
    return replace(table, rows=rows, rules=rules, expressions=tuple(numbers))


class RowContent(NamedTuple):
    """What a row says."""

    cfa: CfaRule
    registers: tuple[RegisterRule, ...] = ()
    ra_state: RaState = RaState.PLAIN
    args_size: int = 0


def row_contents(table: UnwindTable) -> tuple[NDArray[np.int64], list[RowContent]]:
    """For each row the number of its distinct content, and the contents."""
    table = with_distinct_expressions(table)
    slices, of_slice = _rule_slices(table)
    number, first = content_numbers(table, slices)
    rows = table.rows
    places = zip(rows.first_rule[of_slice].tolist(), rows.rule_count[of_slice].tolist(), strict=True)
    registers = [table.rule_slice(*place) for place in places]
    columns = (column[first].tolist() for column in (slices, rows.ra_state, rows.args_size))
    contents = [
        RowContent(table.cfa(row), registers[rules], RaState(state), size)
        for row, rules, state, size in zip(first.tolist(), *columns, strict=True)
    ]
    return number, contents


def content_numbers(
    table: UnwindTable, slices: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A number for each row of a table with distinct expressions, equal where all but the offset is, and the first row
    of each. `slices` is a number for each row's rules."""
    rows = table.rows
    slices = _rule_slices(table)[0] if slices is None else slices
    register = np.where(rows.cfa_kind == CfaKind.REGISTER, rows.cfa_register, np.uint16(0))
    offset = np.where(rows.cfa_kind == CfaKind.NONE, 0, rows.cfa_offset)
    return numbered(slices, rows.cfa_kind, register, offset, rows.ra_state, rows.args_size)


def _rule_slices(table: UnwindTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A number for each row's register rules, equal where they are, and the first row of each."""
    rows, rules = table.rows, table.rules
    # Rows of a run share slices: each place is looked at once.
    place, at = numbered(rows.first_rule, rows.rule_count)
    first, count = rows.first_rule[at], rows.rule_count[at].astype(np.int64)
    rule, _ = numbered(rules.register, rules.kind, rules.value)
    weights = np.frombuffer(os.urandom(8 * (int(rule.max(initial=0)) + 1)), np.uint64)
    before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weights[rule])])
    number, one = numbered(before[first + count] - before[first], count)
    # Equal sums of equally many: the rules themselves say whether chance made them so.
    like = one[number]
    element, other = ranges(first, count), ranges(first[like], count)
    if not np.array_equal(rule[element], rule[other]):
        return _rule_slices(table)
    return number[place], at[one]


def numbered(*columns: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A number for each element of some columns, equal where all of them are, in the order in which they first occur;
    and the first element of each."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column, key in zip(columns, np.frombuffer(os.urandom(8 * len(columns)), np.uint64), strict=True):
        hashes = (hashes ^ column.astype(np.int64).view(np.uint64)) * (key | np.uint64(1))
        hashes ^= hashes >> np.uint64(31)
    _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
    number = number.reshape(-1)
    if not all(np.array_equal(column, column[first][number]) for column in columns):
        # Chance: with other keys it will not be so again.
        return numbered(*columns)
    order = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    return rank[number], first[order]
