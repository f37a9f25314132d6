"""What rows say, as numbers: equal ones have equal numbers.

Strategy: rules and rows are packed into bytes, and equal byte ranges numbered by the kernel that shares row runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .interning import intern
from .rules import CfaKind, RaState, RuleKind
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
    packed, size = _packed(rules.register, rules.kind, rules.value)
    start = rows.first_rule * size
    number, first = intern(packed, start, start + rows.rule_count * np.int64(size), np.zeros(len(start), np.int64))
    return number.astype(np.int64), first


def numbered(*columns: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A number for each element of some columns, equal where all of them are, and the first element of each."""
    packed, size = _packed(*columns)
    start = np.arange(len(columns[0]), dtype=np.int64) * size
    number, first = intern(packed, start, start + size, np.zeros(len(start), np.int64))
    return number.astype(np.int64), first


def _packed(*columns: NDArray[Any]) -> tuple[NDArray[np.uint8], int]:
    """Columns as one record an element, without padding, and the bytes of a record."""
    records = np.empty(len(columns[0]), [(str(index), column.dtype) for index, column in enumerate(columns)])
    for index, column in enumerate(columns):
        records[str(index)] = column
    return np.frombuffer(records.tobytes(), np.uint8), records.itemsize
