"""The table as Breakpad's STACK CFI lines (the symbol file document, STACK CFI records).

Strategy: what a row says is text once for each distinct content; what changes once for each distinct step from one
content to the next; a kernel puts addresses to them, function by function. Rows that cannot be said end a range, and
the next that can begins another: a rule that no longer holds is never left in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..schemas.breakpad import NAMES, StackCfi, StackCfiInit
from ..schemas.section import BuildError
from .arch import Architecture
from .breakpad_names import breakpad_names
from .contents import RowContent, numbered, row_contents
from .kernels import engine, views
from .kernels.protocol import TextRow
from .overlaps import trimmed, without_blocks
from .postfix_text import CFA_NAME, postfix_of
from .refusals import Reason, Refusals
from .rules import CfaKind, RuleKind
from .text import ranges
from .unwind import CfaRule, RegisterRule, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

RA_NAME = ".ra"
WITHDRAWN = ".undef"
OUTERMOST = "0"  # a caller at an address below 4096 ends Breakpad's walk
INIT, DELTA = (f"{NAMES[record]} ".encode() for record in (StackCfiInit, StackCfi))

# Name of a register and its rule; None where its value is lost.
Rules = Mapping[str, str | None]


def to_stack_cfi(table: UnwindTable) -> bytes:
    """The table as STACK CFI INIT and STACK CFI lines, in the order of addresses, which count from the load address.

    Functions are cut where they overlap: a PC is the first one's. Rules that the language cannot say are left out or
    withdrawn; `stack_cfi_from_table` tells which. Raises BuildError for a table of a relocatable file.
    """
    return stack_cfi_from_table(table)[0]


def stack_cfi_from_table(table: UnwindTable) -> tuple[bytes, Refusals]:
    """As `to_stack_cfi`; with the ranges that have no line because their CFA or return address cannot be said."""
    if table.functions.section.any():
        raise BuildError("STACK CFI", None, "functions", "are of a relocatable file: their addresses are not known yet")
    table = trimmed(without_blocks(table))
    functions = table.functions
    order = np.argsort(functions.start, kind="stable")
    order = order[functions.size[order] > 0]
    job, first = numbered(functions.run[order], functions.return_column[order])
    jobs = _jobs(table, functions.run[order][first].astype(np.int64), functions.return_column[order][first])
    start = functions.start[order] - np.uint64(table.load_address)
    fixed = _word_places(jobs.words)
    columns = (jobs.first, table.rows.offset[jobs.row], jobs.kind, jobs.word, jobs.stop)
    arguments = (*views(*fixed), *views(start, functions.size[order], job, *columns))
    text = np.empty(0, np.uint8)
    size = engine().stack_cfi.lines(*arguments, *views(text))
    text = np.empty(size, np.uint8)
    engine().stack_cfi.lines(*arguments, *views(text))
    return text.tobytes(), _refusals(table, order, job, jobs)


@dataclass(frozen=True, slots=True, eq=False)
class _Jobs:
    """The rows of each run with a return column, one behind the other from `first` on: their index in the table, their
    kind, the number of their text in `words`, the row where a range ends, and why they cannot be said (0: they can)."""

    first: NDArray[np.int64]
    row: NDArray[np.int64]
    kind: NDArray[np.uint8]
    word: NDArray[np.int64]
    stop: NDArray[np.int64]
    reason: NDArray[np.uint8]
    words: list[bytes]


def _jobs(table: UnwindTable, run: NDArray[np.int64], column: NDArray[np.uint32]) -> _Jobs:
    content, contents = row_contents(table)
    count = np.diff(table.run_rows)[run]
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
    row = ranges(table.run_rows[run], count)
    said, at = numbered(content[row], np.repeat(column, count))
    columns = np.repeat(column, count)[at].tolist()
    language = _Language(table)
    rules = [language.rules(contents[one], ra) for one, ra in zip(content[row][at].tolist(), columns, strict=True)]
    reasons = np.array([one if isinstance(one, Reason) else 0 for one in rules], np.uint8)
    reason = reasons[said]
    is_first = np.zeros(len(row), np.bool_)
    is_first[first[:-1]] = True
    before = np.where(is_first | np.append(True, reason[:-1] > 0), -1, np.append(-1, said[:-1]))
    lost = _lost_before(said, before, rules)
    # A step is from nothing, for an INIT, or from another row; of few it matters what was said before that.
    step, steps = numbered(before, said, lost)
    kind, words = _step_texts(rules, before[steps].tolist(), said[steps].tolist(), lost[steps].tolist())
    kinds = kind[step]
    stops = np.flatnonzero(kinds == TextRow.SKIPPED)
    stop = np.append(stops, len(row))[np.searchsorted(stops, np.arange(len(row)), side="right")]
    return _Jobs(first, row, kinds, step, stop, reason, words)


def _step_texts(
    rules: list[Rules | Reason], before: list[int], said: list[int], lost: list[int]
) -> tuple[NDArray[np.uint8], list[bytes]]:
    """The kind of each step, and its text up to the end of its line."""
    kinds, words = [], []
    for old, new, names in zip(before, said, lost, strict=True):
        after, former = rules[new], rules[old]
        if isinstance(after, Reason):
            kind, said_now = TextRow.SKIPPED, []
        elif old < 0 or isinstance(former, Reason):
            kind, said_now = TextRow.INIT, [(name, rule) for name, rule in after.items() if rule is not None]
        else:
            said_now = _changes(former, after, bool(names))
            kind = TextRow.DELTA if said_now else TextRow.SAME
        kinds.append(kind)
        words.append("".join(f" {name}: {rule}" for name, rule in sorted(said_now)).encode() + b"\n")
    return np.array(kinds, np.uint8), words


def _changes(before: Rules, after: Rules, was_said: bool) -> list[tuple[str, str]]:
    """What is said of a row behind another one. A register without a rule keeps its value.

    `was_said`: some register that is lost now had a rule in the range, though not right before.
    """
    changed = [(name, name) for name in before.keys() - after.keys()]
    for name, rule in after.items():
        if rule is not None and before.get(name) != rule:
            changed.append((name, rule))
        elif rule is None and (before.get(name) is not None or (was_said and name not in before)):
            changed.append((name, WITHDRAWN))
    return changed


def _lost_before(said: NDArray[np.int64], before: NDArray[np.int64], rules: list[Rules | Reason]) -> NDArray[np.int64]:
    """Which rows lose a register that had a rule earlier in their range, but none right before."""
    lost = np.zeros(len(said), np.int64)
    loses = np.array([not isinstance(one, Reason) and None in one.values() for one in rules])
    if not loses.any():
        return lost
    # Undefined registers beside the return address are rare; ranges with one are walked.
    mentioned: set[str] = set()
    group = np.cumsum(before < 0)
    walked = np.isin(group, group[loses[said]])
    for index in np.flatnonzero(walked).tolist():
        now = rules[said[index]]
        if before[index] < 0:
            mentioned = set()
        if not isinstance(now, Reason):
            lost[index] = int(any(rule is None and name in mentioned for name, rule in now.items()))
            mentioned |= {name for name, rule in now.items() if rule is not None}
    return lost


class _Language:
    """Rules as the words of Breakpad's language, for one table's architecture."""

    def __init__(self, table: UnwindTable) -> None:
        self.architecture: Architecture = table.architecture
        self.byte_order = table.byte_order
        self.names = breakpad_names(table.architecture.name)

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


def _word_places(
    words: list[bytes],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """All words as one pool, where each is, and what lines begin with."""
    pool = INIT + DELTA + b" ".join([b"", *words])
    size = np.array([len(one) for one in words], np.int64)
    start = len(INIT) + len(DELTA) + 1 + np.cumsum(size + 1) - (size + 1)
    init = np.array([0, len(INIT), len(INIT) - 1], np.int64)  # the third: a space
    return np.frombuffer(pool, np.uint8), start, size, init, np.array([len(INIT), len(DELTA)], np.int64)


def _refusals(table: UnwindTable, order: NDArray[np.int64], job: NDArray[np.int64], jobs: _Jobs) -> Refusals:
    """The rows without a line, function by function."""
    count = np.diff(jobs.first)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(jobs.reason > 0)])
    has_any = before[jobs.first[1:]] > before[jobs.first[:-1]]
    which = np.flatnonzero(has_any[job])
    owner = np.repeat(which, count[job[which]])
    place = ranges(jobs.first[:-1][job[which]], count[job[which]])
    function = order[owner]
    offset, size = table.rows.offset[jobs.row[place]], table.functions.size[function]
    is_last = place == jobs.first[1:][job[owner]] - 1
    following = table.rows.offset[jobs.row[np.where(is_last, place, place + 1)]]
    end = np.where(is_last, size, following)
    start = table.functions.start[function]
    refused = jobs.reason[place] > 0
    begin, stop = (start + offset)[refused], (start + end)[refused]
    return Refusals(function[refused], begin, stop, jobs.reason[place][refused])
