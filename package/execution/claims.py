"""What rows claim: where the CFA, the return address and the registers that calls preserve are found at a PC.

Strategy: a row becomes a claim with indices into a stop's registers, and what all claims at a PC need becomes a summary
of comparisons for the kernels; rules of rare kinds are left to the walker. A claim says nothing about what its format
leaves out: SFrame has no registers but FP.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..converters.kernels import engine, views
from ..converters.rules import CfaKind, RaState, RuleKind
from ..converters.table.lookup import NOTHING, RowIndex
from ..converters.table.model import RegisterRule, Row, UnwindTable
from ..converters.walk.caller import ADDRESS_MASK
from ..schemas.data_classes import dataclass
from .machines import Machine

if TYPE_CHECKING:
    from ..converters.kernels.execution.frames import Summary

NO_COLUMN = -1
MAX_SAVED = 64  # words of memory that are read at once
_KEPT = (RuleKind.UNSPECIFIED, RuleKind.SAME_VALUE)
_COMPUTED = (RuleKind.VAL_OFFSET, RuleKind.REGISTER, RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION)


@dataclass(frozen=True, slots=True)
class Claim:
    """The claims of one row of one source.

    The CFA is register `cfa_column` of the stop + `cfa_offset`; it has NO_COLUMN if an expression computes it.
    `kept_columns`: columns of registers with the caller's value. `saved`: pairs of such a column and the offset from
    the CFA of the memory with the caller's value; `return_offset`: that of the return address, None if it is elsewhere.
    `is_signed`: whether the return address is; `signed_column`: the column of the register that still has it then, else
    None. `computed`: registers whose rules are of other kinds; `needs_walk`: whether the walker has to apply the row
    for these, the CFA or the return address.
    """

    row: Row
    return_column: int
    cfa_column: int
    cfa_offset: int
    kept_columns: tuple[int, ...]
    saved: tuple[tuple[int, int], ...]
    return_offset: int | None
    is_signed: bool
    signed_column: int | None
    computed: tuple[int, ...]
    needs_walk: bool


def claim_of(
    row: Row, return_column: int, machine: Machine, claimed: tuple[int, ...], are_preserved: bool = True
) -> Claim | None:
    """The claim of a row about the `claimed` registers; None for a row without a CFA. `are_preserved`: whether these
    registers have the caller's value where a row has no rule for them."""
    match row.cfa.kind, row.cfa.value:
        case CfaKind.REGISTER, int(offset) if row.cfa.register in machine.columns:
            column = machine.columns[row.cfa.register]
        case CfaKind.EXPRESSION, _:
            column, offset = NO_COLUMN, 0
        case _:
            return None
    rules = {rule.register: rule for rule in row.registers}
    unspecified = RegisterRule(return_column, RuleKind.UNSPECIFIED)
    kinds = {number: rules.get(number, unspecified).kind for number in claimed}
    returned, is_signed = rules.get(return_column, unspecified), row.ra_state is not RaState.PLAIN
    in_register = machine.link is not None and returned.kind in _KEPT and return_column in machine.columns
    kept_kinds = _KEPT if are_preserved else (RuleKind.SAME_VALUE,)
    kept = [machine.columns[one] for one, kind in kinds.items() if kind in kept_kinds]
    if in_register and not is_signed:
        kept.append(machine.columns[return_column])
    computed = tuple(one for one, kind in kinds.items() if kind in _COMPUTED)
    return Claim(
        row=row,
        return_column=return_column,
        cfa_column=column,
        cfa_offset=offset,
        kept_columns=tuple(kept),
        saved=tuple((machine.columns[one], _offset(rules[one])) for one in claimed if kinds[one] is RuleKind.OFFSET),
        return_offset=_offset(returned) if returned.kind is RuleKind.OFFSET else None,
        is_signed=is_signed,
        signed_column=machine.columns[return_column] if in_register and is_signed else None,
        computed=computed,
        needs_walk=bool(computed) or column == NO_COLUMN or returned.kind in _COMPUTED,
    )


def summary_of(claims: Iterable[Claim], machine: Machine) -> Summary:
    """The summary of the claims of all sources at a PC."""
    claims = tuple(claims)
    # Where a call pushes the return address, the CFA tells that place, too.
    pushed = (None,) if machine.link is not None else (None, -machine.cfa_offset)
    is_complete = not any(
        one.needs_walk or one.signed_column is not None or one.return_offset not in pushed for one in claims
    )
    distinct = dict.fromkeys((one.cfa_column, one.cfa_offset, one.kept_columns) for one in claims)
    tests = np.zeros((len(distinct), 4), np.int64)
    kept: list[int] = []
    for number, (column, offset, columns) in enumerate(distinct):
        tests[number] = column, offset, len(kept), len(kept) + len(columns)
        kept += columns
    pairs = sorted({(offset, column) for one in claims for column, offset in one.saved})
    word = machine.architecture.register_size
    if pairs and pairs[-1][0] - pairs[0][0] >= MAX_SAVED * word:
        is_complete, pairs = False, []
    first = pairs[0][0] if pairs else 0
    size = pairs[-1][0] - first + word if pairs else 0
    saved = np.array([(column, offset - first) for offset, column in pairs], np.int64).reshape(-1, 2)
    arrays = views(tests, np.array(kept, np.int64), saved)
    return engine.execution.frames.Summary(arrays[0], arrays[1], first, size, arrays[2], is_complete)


def _offset(rule: RegisterRule) -> int:
    assert isinstance(rule.value, int)
    return rule.value


class ClaimSource:
    """The claims of one source of one file, by address in the file. `are_preserved` is as for `claim_of`."""

    def __init__(self, name: str, table: UnwindTable, machine: Machine, are_preserved: bool = True) -> None:
        self.name, self.table, self.machine, self._are_preserved = name, table, machine, are_preserved
        claimed = machine.preserved
        if name == SFRAME:
            claimed = tuple(one for one in claimed if one == machine.architecture.frame_pointer)
        self._claimed = claimed
        self._claims: dict[tuple[int, int], Claim | None] = {}

    @cached_property
    def _index(self) -> RowIndex:
        return RowIndex(self.table)

    def row_at(self, address: int) -> tuple[int, int] | None:
        """The indices of the function and the row in force at an address."""
        function, row = self._index.row_at(address & ADDRESS_MASK)
        return None if row == NOTHING else (function, row)

    def claim(self, place: tuple[int, int]) -> Claim | None:
        """The claim of a row, given as `row_at` returns it."""
        function, row = place
        key = row, int(self.table.functions.return_column[function])
        if key not in self._claims:
            claimed = self._claimed, self._are_preserved
            self._claims[key] = claim_of(self.table.row(row), key[1], self.machine, *claimed)
        return self._claims[key]


SFRAME = ".sframe"  # it has rules for the CFA, the return address and FP
