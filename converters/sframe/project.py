"""The part of a table that SFrame can express: the rules for CFA, RA, FP and the caller's SP."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...schemas.arguments import checked
from ...schemas.section import BuildError
from ...schemas.sframe import SFRAME_VERSION
from ..arch.table import unwind_registers
from ..arrays import starts_of
from ..rules import RuleKind
from ..table.model import NO_FLAGS, ROW_VALUES, FunctionFlag, UnwindTable
from ..table.pcmask import unroll
from .caller_sp import with_caller_sp
from .flex import in_forms, outermost_alone


@checked(table=UnwindTable, version=int)
def project_sframe(table: UnwindTable, version: int = 2) -> UnwindTable:
    """The part of a table that SFrame can express: the rules for CFA, RA and FP, and the key that signs RAs.

    The rule for SP becomes the ABI's: on s390x "the CFA - 160" in every row with a CFA, elsewhere none: it is the CFA.
    A CFA expression of the PC modulo a block size (as in a lazy PLT) becomes the equivalent rows.

    Rules for other registers are dropped; "same value" for FP or RA becomes no rule; personality, LSDA, memory tagging
    and args_size are dropped. Only version 3 keeps signal frames, turns expressions into FLEX forms where it has one,
    and reduces a row whose RA is undefined to that rule. Rows that `to_sframe` refuses have no meaningful projection.
    Raises BuildError for an unknown version.
    """
    if version not in set(SFRAME_VERSION):
        raise BuildError(".sframe", None, "version", f"{version} is unknown")
    table = unroll(table)
    if version >= SFRAME_VERSION.V3:
        table = outermost_alone(in_forms(table))
    rules, registers = table.rules, unwind_registers(table.architecture)
    has_no_rule = np.isin(rules.kind, (RuleKind.UNSPECIFIED, RuleKind.SAME_VALUE))
    kept = np.isin(rules.register, (registers.fp, registers.ra)) & ~has_no_rule
    place = starts_of(kept)
    first = table.rows.first_rule
    last = place[first + table.rows.rule_count]
    functions = table.functions
    flags = FunctionFlag.PAUTH_B_KEY | (FunctionFlag.SIGNAL_FRAME if version >= SFRAME_VERSION.V3 else NO_FLAGS)
    rows = replace(
        table.rows,
        first_rule=place[first],
        rule_count=(last - place[first]).astype(np.uint16),
        **{name: np.zeros_like(getattr(table.rows, name)) for name in ROW_VALUES},
    )
    rows, rules = with_caller_sp(table.architecture, rows, rules.select(kept))
    functions = replace(functions, flags=functions.flags & np.uint8(flags))
    return replace(table, functions=functions, rows=rows, rules=rules)
