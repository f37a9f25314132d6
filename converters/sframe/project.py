"""What SFrame keeps of a table: CFA, RA and FP."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...schemas.sframe import SFRAME_VERSION
from ..arrays import starts_of
from ..rules import RuleKind
from ..table.model import NO_FLAGS, ROW_VALUES, FunctionFlag, UnwindTable
from ..table.pcmask import unroll
from .flex import in_forms, outermost_alone


def project_sframe(table: UnwindTable, version: int = 2) -> UnwindTable:
    """What SFrame keeps of a table: the rules of CFA, RA and FP, and the key that signs return addresses.

    A CFA expression of the PC modulo a block (the lazy PLT's) stands as the rows that it means.

    A rule of another register is gone; "same value" for FP or RA is no rule; personality, LSDA, memory tagging and the
    size of arguments have no place. Signal frames stay in version 3, expressions that have a form there are in that
    form, and of a row whose RA is undefined nothing else is left. For rows that are refused the projection says nothing
    useful.
    """
    table = unroll(table)
    if version >= SFRAME_VERSION.V3:
        table = outermost_alone(in_forms(table))
    rules, architecture = table.rules, table.architecture
    says_nothing = np.isin(rules.kind, (RuleKind.UNSPECIFIED, RuleKind.SAME_VALUE))
    kept = np.isin(rules.register, (architecture.frame_pointer, architecture.return_address)) & ~says_nothing
    place = starts_of(kept)
    first = table.rows.first_rule
    last = place[first + table.rows.rule_count]
    functions = table.functions
    flags = FunctionFlag.PAUTH_B_KEY | (FunctionFlag.SIGNAL_FRAME if version >= SFRAME_VERSION.V3 else NO_FLAGS)
    return replace(
        table,
        functions=replace(functions, flags=functions.flags & np.uint8(flags)),
        rows=replace(
            table.rows,
            first_rule=place[first],
            rule_count=(last - place[first]).astype(np.uint16),
            **{name: np.zeros_like(getattr(table.rows, name)) for name in ROW_VALUES},
        ),
        rules=rules.select(kept),
    )
