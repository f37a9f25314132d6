"""The rules of a row as the text of an answer; registers are DWARF numbers.

`r7+16`: a register plus an offset; `c-8`: saved at CFA - 8; `v-8`: is CFA - 8; `m(r6+0)`: in memory at r6 + 0;
`exp(HEX)`: saved at the address that a DWARF expression gives; `vexp(HEX)`: its value; `s`: unchanged; `undefined`;
`u`: there is no rule.
"""

from __future__ import annotations

from ..converters.rules import CfaKind, RaState, RuleKind
from ..converters.table.model import RegisterRule, Row
from .case import Answer

NO_RULE = "u"
_STATES = {RaState.PLAIN: "", RaState.SIGNED: "[s]", RaState.SIGNED_WITH_PC: "[s,pc]"}


def cfa_text(row: Row) -> str:
    """The CFA of a row."""
    match row.cfa.kind, row.cfa.value:
        case CfaKind.REGISTER, int(value):
            return f"r{row.cfa.register}{value:+d}"
        case CfaKind.EXPRESSION, bytes(expression):
            return f"exp({expression.hex()})"
    return NO_RULE


def rule_text(rule: RegisterRule) -> str:
    """The rule of a register."""
    match rule.kind, rule.value:
        case RuleKind.OFFSET, int(value):
            return f"c{value:+d}"
        case RuleKind.VAL_OFFSET, int(value):
            return f"v{value:+d}"
        case RuleKind.REGISTER, int(register):
            return f"r{register}+0"
        case RuleKind.EXPRESSION, bytes(expression):
            return f"exp({expression.hex()})"
        case RuleKind.VAL_EXPRESSION, bytes(expression):
            return f"vexp({expression.hex()})"
        case RuleKind.SAME_VALUE, _:
            return "s"
        case RuleKind.UNDEFINED, _:
            return "undefined"
    return NO_RULE


def row_answer(row: Row, return_column: int, frame_pointer: int) -> Answer:
    """CFA, RA and FP of a row; a signed return address has `[s]` after its rule."""
    rules = {rule.register: rule_text(rule) for rule in row.registers}
    ra = rules.get(return_column, NO_RULE) + _STATES[row.ra_state]
    return cfa_text(row), ra, rules.get(frame_pointer, NO_RULE)
