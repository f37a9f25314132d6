"""What rows say, in the words of Breakpad's STACK CFI (the symbol file document, STACK CFI records).

Strategy: each distinct register rule is put into words once, and each distinct row is the set of its words. A rule that
cannot be said is told from one that was never given: the first has to be withdrawn.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from ....schemas.breakpad import CFA_NAME, RA_NAME, UNDEFINED
from ...arch.table import breakpad_names
from ...refusals import Reason
from ...rules import CfaKind, RuleKind
from ...table.distinct import Contents
from ...table.model import CfaRule, RegisterRule, UnwindTable
from ..postfix.from_dwarf import postfix_of

OUTERMOST = "0"  # a caller at an address below 4096 ends Breakpad's walk

# Stands for the colon behind a name while words are sorted: no name has it, and all characters are above.
SORTS = "\0"


def word_of(name: str, rule: str) -> str:
    """A rule as it stands in a line, the space before it too."""
    return f" {name}{SORTS} {rule}"


@dataclass(frozen=True, slots=True, eq=False)
class RowWords:
    """What a row says: the `words` of its rules, the `names` of the registers that have one or are `lost`."""

    words: frozenset[str]
    names: frozenset[str]
    lost: frozenset[str]


class _Entry(NamedTuple):
    """A register rule beside a return column: the register's name, and its words; "" where its value is lost."""

    name: str
    word: str


class RowEncoder:
    """Rows as words of Breakpad's language: those that a table's contents say."""

    def __init__(self, table: UnwindTable, contents: Contents) -> None:
        self.architecture = table.architecture
        self.byte_order = table.byte_order
        self.contents = contents
        self.names = breakpad_names(table.architecture)
        # Of every return column the entries of all rules, and how a row without a rule for it begins.
        self._entries: dict[int, list[_Entry | Reason | None]] = {}
        self._cfas: dict[CfaRule, str | Reason] = {}

    def encode(self, number: int, return_column: int) -> RowWords | Reason:
        """All that a content says; why nothing of it can be said where its CFA or return address cannot."""
        cfa = self.contents.cfa[number]
        if cfa not in self._cfas:
            self._cfas[cfa] = self._cfa(cfa)
        first = self._cfas[cfa]
        if isinstance(first, Reason):
            return first
        if return_column not in self._entries:
            self._entries[return_column] = [self._entry(rule, return_column) for rule in self.contents.rules]
        entries = self._entries[return_column]
        names, words = [CFA_NAME], [word_of(CFA_NAME, first)]
        lost: list[str] = []
        for index in self.contents.slices[number]:
            entry = entries[index]
            if isinstance(entry, Reason):
                return entry
            if entry is not None:
                names.append(entry.name)
                (words if entry.word else lost).append(entry.word or entry.name)
        if RA_NAME not in names:
            default = self._default_ra(return_column)
            if default is None:
                return Reason.RA_RULE
            names.append(RA_NAME)
            words.append(word_of(RA_NAME, default))
        return RowWords(frozenset(words), frozenset(names), frozenset(lost))

    def _entry(self, rule: RegisterRule, return_column: int) -> _Entry | Reason | None:
        """None for a register of which nothing is said."""
        if rule.register == return_column:
            words = OUTERMOST if rule.kind is RuleKind.UNDEFINED else self._words(rule)
            return Reason.RA_RULE if words is None else _Entry(RA_NAME, word_of(RA_NAME, words))
        if rule.register not in self.names or rule.kind in (RuleKind.UNSPECIFIED, RuleKind.SAME_VALUE):
            return None
        name, words = self.names[rule.register], self._words(rule)
        return _Entry(name, "" if words is None else word_of(name, words))

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


def changed_words(before: RowWords, after: RowWords, mentioned: Collection[str]) -> list[str]:
    """What is said of a row behind another one. A register without a rule keeps its value.

    `mentioned`: the registers that are lost in one of the rows, and of which the range has said something before.
    """
    changed = list(after.words - before.words)
    for name in before.names - after.names:
        if name not in before.lost or name in mentioned:
            changed.append(word_of(name, name))
    if after.lost:
        # Withdrawn, unless it was lost before, or nothing was ever said of it.
        had = before.names - before.lost
        changed += [word_of(name, UNDEFINED) for name in after.lost - before.lost if name in had or name in mentioned]
    return changed
