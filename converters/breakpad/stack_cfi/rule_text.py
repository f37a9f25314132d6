"""Rows as rules of STACK CFI records (Breakpad, docs/symbol_files.md, STACK CFI records).

Strategy: each distinct register rule is formatted once; a distinct row is the set of its formatted rules. A rule that
cannot be expressed differs from one that was never given: the rule before it must be withdrawn. SP always has a rule:
without one its value is the CFA (Breakpad, STACK CFI), which is not the ABI's default everywhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ....schemas.breakpad.records import CFA_NAME, RA_NAME, UNDEFINED
from ....schemas.data_classes import dataclass
from ...arch.table import assembler_of, breakpad_names, unwind_registers
from ...refusals import Reason
from ...rules import CfaKind, RuleKind
from ...table.distinct import Contents
from ...table.model import CfaRule, RegisterRule, UnwindTable
from ..postfix.from_dwarf import postfix_of

CFA_OFFSET = f"{CFA_NAME} {{}} +"
OUTERMOST = "0"  # a caller at an address below 4096 ends Breakpad's walk

# Placeholder for the colon after a register name, so that sorting rules sorts them by name: no name contains it, and
# all other characters sort after it.
COLON = "\0"


def rule_text(name: str, expression: str) -> str:
    """A rule as in a record, with the space before it."""
    return f" {name}{COLON} {expression}"


@dataclass(frozen=True, slots=True, eq=False)
class RowWords:
    """The rules of a row: their `words`, the `lost` registers, and the `names` of all registers with a rule or lost.

    The value of a lost register cannot be recovered. SP is never lost: its rule is then `.undef`.
    """

    words: frozenset[str]
    names: frozenset[str]
    lost: frozenset[str]


class _Rule(NamedTuple):
    """The name of a register and the text of its rule; "" if the register is lost."""

    name: str
    text: str


class RowEncoder:
    """Encodes the distinct rows of a table."""

    def __init__(self, table: UnwindTable, contents: Contents) -> None:
        self.architecture = table.architecture
        self.byte_order = table.byte_order
        self.contents = contents
        self.names = breakpad_names(table.architecture)
        self.stack_pointer = self.names[unwind_registers(table.architecture).sp]
        # In force without a record: an INIT leaves it out.
        self.implied = rule_text(self.stack_pointer, CFA_OFFSET.format(0))
        # All rules of the table, by return address column.
        self._rules: dict[int, list[_Rule | Reason | None]] = {}
        self._cfas: dict[CfaRule, str | Reason] = {}

    def encode(self, number: int, return_column: int) -> RowWords | Reason:
        """The rules of a distinct row, or the reason if its CFA or return address cannot be expressed."""
        cfa = self.contents.cfa[number]
        if cfa not in self._cfas:
            self._cfas[cfa] = self._cfa_expression(cfa)
        cfa_expression = self._cfas[cfa]
        if isinstance(cfa_expression, Reason):
            return cfa_expression
        if return_column not in self._rules:
            self._rules[return_column] = [self._rule(rule, return_column) for rule in self.contents.rules]
        rules = self._rules[return_column]
        names, words = [CFA_NAME], [rule_text(CFA_NAME, cfa_expression)]
        lost: list[str] = []
        for index in self.contents.slices[number]:
            rule = rules[index]
            if isinstance(rule, Reason):
                return rule
            if rule is not None:
                names.append(rule.name)
                (words if rule.text else lost).append(rule.text or rule.name)
        if RA_NAME not in names:
            default = self._default_ra(return_column)
            if default is None:
                return Reason.RA_RULE
            names.append(RA_NAME)
            words.append(rule_text(RA_NAME, default))
        if self.stack_pointer not in names:
            names.append(self.stack_pointer)
            words.append(rule_text(self.stack_pointer, CFA_OFFSET.format(self.architecture.caller_sp_offset)))
        return RowWords(frozenset(words), frozenset(names), frozenset(lost))

    def _rule(self, rule: RegisterRule, return_column: int) -> _Rule | Reason | None:
        """The formatted rule; None if the register needs none: it keeps its value, or Breakpad has no name for it."""
        if rule.register == return_column:
            expression = OUTERMOST if rule.kind is RuleKind.UNDEFINED else self._expression(rule)
            return Reason.RA_RULE if expression is None else _Rule(RA_NAME, rule_text(RA_NAME, expression))
        if rule.register not in self.names or rule.kind is RuleKind.UNSPECIFIED:
            return None
        name, expression = self.names[rule.register], self._expression(rule)
        if name == self.stack_pointer:
            return _Rule(name, rule_text(name, UNDEFINED if expression is None else expression))
        if expression == name:
            # The register keeps its value, as without a rule; `name: name` only ends another rule.
            return None
        return _Rule(name, "" if expression is None else rule_text(name, expression))

    def _default_ra(self, return_column: int) -> str | None:
        """The return address without a rule: its register; where calls push it there is none (outermost frame)."""
        if assembler_of(self.architecture).ra_offset is not None and return_column == self.architecture.return_address:
            return OUTERMOST
        return self.names.get(return_column)

    def _cfa_expression(self, cfa: CfaRule) -> str | Reason:
        match cfa.kind, cfa.value:
            case CfaKind.REGISTER, int(offset):
                name = self.names.get(cfa.register)
                return Reason.CFA_REGISTER if name is None else f"{name} {offset} +"
            case CfaKind.EXPRESSION, bytes(expression):
                return self._postfix(expression, starts_with_cfa=False) or Reason.CFA_EXPRESSION
        return Reason.NO_CFA

    def _expression(self, rule: RegisterRule) -> str | None:
        """The expression of a register's rule; None if the value is lost or the language cannot express the rule."""
        match rule.kind, rule.value:
            case RuleKind.OFFSET, int(offset):
                return f"{CFA_OFFSET.format(offset)} ^"
            case RuleKind.VAL_OFFSET, int(offset):
                return CFA_OFFSET.format(offset)
            case RuleKind.REGISTER, int(register):
                return self.names.get(register)
            case RuleKind.SAME_VALUE, _:
                return self.names.get(rule.register)
            case RuleKind.EXPRESSION, bytes(expression):
                address = self._postfix(expression, starts_with_cfa=True)
                return None if address is None else f"{address} ^"
            case RuleKind.VAL_EXPRESSION, bytes(expression):
                return self._postfix(expression, starts_with_cfa=True)
        return None

    def _postfix(self, expression: bytes, starts_with_cfa: bool) -> str | None:
        size = self.architecture.address_size
        if size != self.architecture.register_size:
            # Breakpad computes with words of a register's size, DWARF with words of an address's size.
            return None
        return postfix_of(expression, self.names, self.byte_order, size, starts_with_cfa)


def changed_words(before: RowWords, after: RowWords, mentioned: Collection[str]) -> list[str]:
    """The rules that change from one row to the next. A register whose rule ends gets the rule that it keeps its value.

    `mentioned`: the registers that are lost in one of the two rows and had a rule earlier in the range.
    """
    changed = list(after.words - before.words)
    for name in before.names - after.names:
        if name not in before.lost or name in mentioned:
            changed.append(rule_text(name, name))
    if after.lost:
        # The rule is withdrawn, unless the register was lost before or never had a rule.
        had = before.names - before.lost
        changed += [rule_text(name, UNDEFINED) for name in after.lost - before.lost if name in had or name in mentioned]
    return changed
