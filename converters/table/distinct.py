"""Give equal rows and rules the same number, so that row runs and FRE blocks can be shared.

Strategy: hash tables in kernels, with random keys, so that no input can be made to collide.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ..arrays import ranges, starts_of
from ..distinct import hash_table, number_distinct
from ..kernels import engine, views
from ..rules import CfaKind, RaState, RuleKind
from .model import ROW_VALUES, CfaRule, RegisterRule, Row, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


WITH_EXPRESSION = (RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION)


def with_distinct_expressions(table: UnwindTable) -> UnwindTable:
    """The table with each distinct expression once, so that equal rules have equal values."""
    numbers: dict[bytes, int] = {}
    number = np.array([numbers.setdefault(one, len(numbers)) for one in table.expressions] or [0], np.int64)
    if len(numbers) == len(table.expressions):
        return table
    is_cfa, is_rule = table.rows.cfa_kind == CfaKind.EXPRESSION, np.isin(table.rules.kind, WITH_EXPRESSION)
    cfa_offset, value = table.rows.cfa_offset.copy(), table.rules.value.copy()
    cfa_offset[is_cfa] = number[cfa_offset[is_cfa]]
    value[is_rule] = number[value[is_rule]]
    rows, rules = replace(table.rows, cfa_offset=cfa_offset), replace(table.rules, value=value)
    return replace(table, rows=rows, rules=rules, expressions=tuple(numbers))


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The distinct contents of rows. `number`: i64, per row the number of its content. Per content: `cfa`, the CFA
    rule; `slices`, the register rules as indices into `rules`; `first`: i64, the first row that has it."""

    number: NDArray[np.int64]
    cfa: list[CfaRule]
    slices: list[tuple[int, ...]]
    rules: list[RegisterRule]
    first: NDArray[np.int64]


def contents_of(table: UnwindTable) -> Contents:
    """The contents of a table's rows."""
    table = with_distinct_expressions(table)
    slices, of_slice = _rule_slices(table)
    number, first = _numbers(table, slices)
    rules, indices = _rules_of(table, of_slice)
    rows = table.rows
    known: dict[tuple[int, int, int], CfaRule] = {}
    cfa = []
    columns = (column[first].tolist() for column in (rows.cfa_kind, rows.cfa_register, rows.cfa_offset))
    for row, rule in zip(first.tolist(), zip(*columns, strict=True), strict=True):
        if rule not in known:
            known[rule] = table.cfa(row)
        cfa.append(known[rule])
    return Contents(number, cfa, [indices[one] for one in slices[first].tolist()], rules, first)


def row_contents(table: UnwindTable) -> tuple[NDArray[np.int64], list[Row]]:
    """The number of each row's content, and the distinct contents, as rows with offset 0."""
    found = contents_of(table)
    registers: dict[tuple[int, ...], tuple[RegisterRule, ...]] = {}
    for one in found.slices:
        if one not in registers:
            registers[one] = tuple(found.rules[index] for index in one)
    rows = table.rows.select(found.first)
    values = zip(*(getattr(rows, name).tolist() for name in ROW_VALUES), strict=True)
    contents = [
        Row(0, cfa, registers[rules], RaState(state), *of_row)
        for cfa, rules, state, of_row in zip(found.cfa, found.slices, rows.ra_state.tolist(), values, strict=True)
    ]
    return found.number, contents


def content_numbers(table: UnwindTable) -> NDArray[np.int64]:
    """Number the rows of a table with distinct expressions: rows that differ only in the offset get the same number."""
    return _numbers(table, _rule_slices(table)[0])[0]


def _numbers(table: UnwindTable, slices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of each row's content, and the first row of each content."""
    rows = table.rows
    # Values other than 0 are rare.
    values = [column for column in (getattr(rows, name) for name in ROW_VALUES) if column.any()]
    others = number_distinct(slices, *values)[0] if values else slices
    columns, number, first = hash_table(len(rows))
    distinct = engine.shared.numbering.DistinctContents(*columns)
    distinct.number_all(engine.shared.rows.Rows(**rows.views(without=ROW_VALUES)), *views(others))
    return number, first[: distinct.count]


def _rule_slices(table: UnwindTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the register rules of rows: equal ones get the same number. Returns also the first row of each number."""
    rows = engine.shared.rows.Rows(**table.rows.views(without=ROW_VALUES))
    rules = engine.shared.rows.Rules(**table.rules.views())
    known_count, known_number = np.full(len(table.rules) + 1, -1, np.int32), np.empty(len(table.rules) + 1, np.int64)
    columns, number, first = hash_table(len(table.rows))
    distinct = engine.shared.numbering.DistinctRules(*columns)
    distinct.number_all(rows, rules, *views(known_count, known_number))
    return number, first[: distinct.count]


def _rules_of(table: UnwindTable, rows: NDArray[np.int64]) -> tuple[list[RegisterRule], list[tuple[int, ...]]]:
    """The distinct register rules of these rows, and for each row the indices of its own among them."""
    first, count = table.rows.first_rule[rows], table.rows.rule_count[rows].astype(np.int64)
    place, rules = ranges(first, count), table.rules
    number, one = number_distinct(rules.register[place], rules.kind[place], rules.value[place])
    found = number.tolist()
    slices = [tuple(found[begin:end]) for begin, end in pairwise(starts_of(count).tolist())]
    return [table.rule_slice(index, 1)[0] for index in place[one].tolist()], slices
