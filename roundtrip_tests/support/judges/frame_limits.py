"""What STACK CFI and call frame information can express of a function, or the reasons why they cannot: stated without
product code.

Strategy: limits are from Breakpad's symbol_files.md and DWARF5 6.4.2. Content is compared elsewhere (test_one_step.py);
here it is only whether there is any.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from unwindkit.converters.refusals import Reason
from unwindkit.converters.rules import CfaKind, RuleKind

from ..stepping.machines import Machine
from . import rpn

if TYPE_CHECKING:
    from unwindkit.converters.table.model import Function, RegisterRule, Row

    from .sframe_limits import Causes

EXPRESSIBLE: Causes = frozenset()


def stack_cfi_causes(row: Row, column: int, machine: Machine) -> Causes:
    """Why a row has no STACK CFI record: its CFA or its return address needs a register without a name or an expression
    without a value. Rules of other registers can be left out."""
    found = {_cfa_cause(row, machine), *_ra_causes(row, column, machine)}
    return frozenset(one for one in found if one is not None)


def _cfa_cause(row: Row, machine: Machine) -> Reason | None:
    cfa = row.cfa
    if cfa.kind is CfaKind.NONE:
        return Reason.NO_CFA
    if isinstance(cfa.value, bytes):
        return None if _has_value(cfa.value, machine, starts_with_cfa=False) else Reason.CFA_EXPRESSION
    return None if cfa.register in machine.names else Reason.CFA_REGISTER


def _ra_causes(row: Row, column: int, machine: Machine) -> Causes:
    rule = next((rule for rule in row.registers if rule.register == column), None)
    if rule is None:
        # A call that pushes the return address leaves it in no register; that is the end of the walk.
        is_there = (machine.pushes_ra and column == machine.ra) or column in machine.names
    else:
        is_there = _has_words(rule, machine)
    return EXPRESSIBLE if is_there else frozenset({Reason.RA_RULE})


def _has_words(rule: RegisterRule, machine: Machine) -> bool:
    match rule.kind, rule.value:
        case RuleKind.REGISTER, int(number):
            return number in machine.names
        case RuleKind.SAME_VALUE, _:
            return rule.register in machine.names
        case RuleKind.EXPRESSION | RuleKind.VAL_EXPRESSION, bytes(expression):
            return _has_value(expression, machine, starts_with_cfa=True)
    return rule.kind in (RuleKind.UNDEFINED, RuleKind.OFFSET, RuleKind.VAL_OFFSET)


def _has_value(expression: bytes, machine: Machine, *, starts_with_cfa: bool) -> bool:
    """Whether an expression of sums, differences, products and reads of words has a value: Breakpad has all of these.

    Only registers with a name, and words of one size on both sides.
    """
    registers = dict.fromkeys(machine.names, 1)
    try:
        rpn.run(expression, registers, lambda address: address, 1 if starts_with_cfa else None)
    except (IndexError, KeyError):
        return False
    return machine.has_expressions


class Verdict(Enum):
    """Whether instructions can make a function's rows."""

    EXPRESSIBLE = "expressible"
    INEXPRESSIBLE = "inexpressible"
    DEPENDS = "only if states can be remembered and restored in that order"


def instruction_verdict(function: Function) -> Verdict:
    """No instruction ends a CFA rule (DWARF5 6.4.2.2), or gives an architectural rule. DW_CFA_restore ends a register's
    rule if the CIE has none, and a CIE can be empty; DW_CFA_restore_state brings an earlier row back."""
    if any(rule.kind is RuleKind.ARCHITECTURAL for row in function.rows for rule in row.registers):
        return Verdict.INEXPRESSIBLE
    had_cfa = lacked_cfa = False
    verdict = Verdict.EXPRESSIBLE
    for row in function.rows:
        if row.cfa.kind is not CfaKind.NONE:
            had_cfa = True
        elif had_cfa:
            if not lacked_cfa:
                return Verdict.INEXPRESSIBLE
            verdict = Verdict.DEPENDS
        else:
            lacked_cfa = True
    return verdict
