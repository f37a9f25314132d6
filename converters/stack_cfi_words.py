"""What rows say, in the words of Breakpad's STACK CFI (the symbol file document, STACK CFI records).

Strategy: each distinct register rule is put into words once, and each distinct row is the words of its rules. A rule
that cannot be said is told from one that was never given: the first has to be withdrawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..schemas.section import ByteOrder
from .arch import Architecture
from .breakpad_names import breakpad_names
from .contents import RowContent
from .postfix_text import CFA_NAME, postfix_of
from .refusals import Reason
from .rules import CfaKind, RuleKind
from .unwind import CfaRule, RegisterRule

RA_NAME = ".ra"
WITHDRAWN = ".undef"
OUTERMOST = "0"  # a caller at an address below 4096 ends Breakpad's walk

# Name of a register and its rule; None where its value is lost.
Rules = Mapping[str, str | None]


class Language:
    """Rules as the words of Breakpad's language, for tables of one architecture and byte order."""

    def __init__(self, architecture: Architecture, byte_order: ByteOrder) -> None:
        self.architecture = architecture
        self.byte_order: ByteOrder = byte_order
        self.names = breakpad_names(architecture.name)
        self._known: dict[RegisterRule, str | None] = {}

    def rules(self, content: RowContent, return_column: int) -> Rules | Reason:
        """All that a row says, by name; why nothing of it can be said where its CFA or return address cannot."""
        cfa = self._cfa(content.cfa)
        if isinstance(cfa, Reason):
            return cfa
        rules: dict[str, str | None] = {CFA_NAME: cfa, RA_NAME: self._default_ra(return_column)}
        for rule in content.registers:
            if rule.register == return_column:
                said = self._rule(rule)
                if said is None and rule.kind is not RuleKind.UNDEFINED:
                    return Reason.RA_RULE
                rules[RA_NAME] = said or OUTERMOST
            elif rule.register in self.names and rule.kind not in (RuleKind.UNSPECIFIED, RuleKind.SAME_VALUE):
                rules[self.names[rule.register]] = self._rule(rule)
        return Reason.RA_RULE if rules[RA_NAME] is None else rules

    def _default_ra(self, return_column: int) -> str | None:
        """Without a rule the return address is in its register, but where calls push it: there it is nowhere."""
        if self.architecture.assembler.ra_offset is not None and return_column == self.architecture.return_address:
            return OUTERMOST
        return self.names.get(return_column)

    def _cfa(self, cfa: CfaRule) -> str | Reason:
        match cfa.kind, cfa.value:
            case CfaKind.REGISTER, int(offset):
                name = self.names.get(cfa.register)
                return Reason.CFA_REGISTER if name is None else f"{name} {offset} +"
            case CfaKind.EXPRESSION, bytes(expression):
                return self._postfix(expression, starts_with_cfa=False) or Reason.CFA_EXPRESSION
        return Reason.NO_CFA

    def _rule(self, rule: RegisterRule) -> str | None:
        if rule not in self._known:
            self._known[rule] = self._words(rule)
        return self._known[rule]

    def _words(self, rule: RegisterRule) -> str | None:
        """The words of a register's rule; None where its value is lost, or they are no words for it."""
        match rule.kind, rule.value:
            case RuleKind.OFFSET, int(offset):
                return f"{CFA_NAME} {offset} + ^"
            case RuleKind.VAL_OFFSET, int(offset):
                return f"{CFA_NAME} {offset} +"
            case RuleKind.REGISTER, int(register):
                return self.names.get(register)
            case RuleKind.SAME_VALUE, _:
                return self.names.get(rule.register)
            case RuleKind.EXPRESSION, bytes(expression):
                words = self._postfix(expression, starts_with_cfa=True)
                return None if words is None else f"{words} ^"
            case RuleKind.VAL_EXPRESSION, bytes(expression):
                return self._postfix(expression, starts_with_cfa=True)
        return None

    def _postfix(self, expression: bytes, starts_with_cfa: bool) -> str | None:
        size = self.architecture.address_size
        return postfix_of(expression, self.names, self.byte_order, size, starts_with_cfa)


def all_rules(rules: Rules) -> list[tuple[str, str]]:
    """What is said at the beginning of a range, by name."""
    return sorted((name, rule) for name, rule in rules.items() if rule is not None)


def changed_rules(before: Rules, after: Rules, said: Collection[str]) -> list[tuple[str, str]]:
    """What is said of a row behind another one, by name. A register without a rule keeps its value.

    `said`: the registers that are lost in one of the rows, and of which the range has said something before.
    """
    gone = before.keys() - after.keys()
    changed = [(name, name) for name in gone if before[name] is not None or name in said]
    for name, rule in after.items() - before.items():
        if rule is not None:
            changed.append((name, rule))
        elif before.get(name) is not None or name in said:
            changed.append((name, WITHDRAWN))
    return sorted(changed)


def lost_registers(rules: Rules) -> set[str]:
    """Those whose value nobody knows."""
    return {name for name, rule in rules.items() if rule is None}
