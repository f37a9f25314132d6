"""The caller's SP in rows of SFrame: the CFA plus a fixed offset of the ABI, which no FRE stores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arch.table import Architecture, unwind_registers
from ..arrays import group_numbers, ranges, starts_of
from ..distinct import number_distinct
from ..rules import CfaKind, RuleKind
from ..table.model import RowColumns, RuleColumns


def with_caller_sp(architecture: Architecture, rows: RowColumns, rules: RuleColumns) -> tuple[RowColumns, RuleColumns]:
    """Give SP a rule in every row with a CFA if the architecture's call frame information needs one.

    The rules given must not have one for SP.
    """
    if not architecture.needs_sp_rule:
        return rows, rules
    has_cfa = rows.cfa_kind != CfaKind.NONE
    number, one = number_distinct(rows.first_rule, rows.rule_count, has_cfa)
    first, count, gets_rule = rows.first_rule[one], rows.rule_count[one].astype(np.int64), has_cfa[one]
    added = int(gets_rule.sum())
    every = RuleColumns.concatenate(
        [
            rules.select(ranges(first, count)),
            RuleColumns(
                np.full(added, unwind_registers(architecture).sp, np.uint16),
                np.full(added, RuleKind.VAL_OFFSET, np.uint8),
                np.full(added, architecture.caller_sp_offset, np.int64),
            ),
        ]
    )
    order = np.lexsort((every.register, np.concatenate([group_numbers(count), np.flatnonzero(gets_rule)])))
    count += gets_rule
    first = starts_of(count)[:-1]
    rows = replace(rows, first_rule=first[number], rule_count=count[number].astype(np.uint16))
    return rows, every.select(order)
