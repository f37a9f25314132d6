"""STACK CFI records: the rules in force at an address, and the caller's registers by them (Breakpad, `STACK CFI`).

Strategy: an INIT record and the records that change it are one `RuleRange`. Rules stay text until they are evaluated
for a frame.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping

from ....schemas.arguments import check_address, check_address_size, check_callable, checked, each
from ....schemas.breakpad.records import CFA_NAME, RA_NAME, UNDEFINED, StackCfi, StackCfiInit
from ....schemas.data_classes import dataclass
from ....schemas.section import ParseError
from ....schemas.text_records import Record
from ...dwarf.expressions import ReadMemory
from ..postfix.evaluate import evaluate_postfix


@dataclass(frozen=True, slots=True)
class RuleRange:
    """A STACK CFI INIT record and the STACK CFI records up to the next one."""

    init: StackCfiInit
    deltas: tuple[StackCfi, ...]

    @property
    def end(self) -> int:
        """The first address after the range, relative to the load address."""
        return self.init.address + self.init.size


@dataclass(frozen=True, slots=True)
class RuleRow:
    """The rules in force from `start` up to `end`: register -> expression."""

    start: int
    end: int
    rules: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RuleIndex:
    """Disjoint ranges in ascending order, and the start of each."""

    starts: tuple[int, ...]
    ranges: tuple[RuleRange, ...]

    def at(self, address: int) -> RuleRow | None:
        """The row in force at an address, which is relative to the load address."""
        check_address(address, "address")
        place = bisect_right(self.starts, address) - 1
        if place < 0 or address >= self.ranges[place].end:
            return None
        return next(row for row in rule_rows(self.ranges[place]) if row.start <= address < row.end)


@dataclass(frozen=True, slots=True)
class CallerRegisters:
    """The values of registers by name, `.cfa` and `.ra` included, and the registers that cannot be recovered."""

    values: Mapping[str, int]
    undefined: frozenset[str]


def rule_ranges(records: Iterable[tuple[int, Record]]) -> Iterator[RuleRange]:
    """The STACK CFI records of a file, range by range. Raises ParseError for a record before the first INIT."""
    init: StackCfiInit | None = None
    deltas: list[StackCfi] = []
    for number, record in records:
        if isinstance(record, StackCfiInit):
            if init is not None:
                yield RuleRange(init, tuple(deltas))
            init, deltas = record, []
        elif isinstance(record, StackCfi):
            if init is None:
                raise ParseError("", None, f"line {number}: STACK CFI", "no STACK CFI INIT before it")
            deltas.append(record)
    if init is not None:
        yield RuleRange(init, tuple(deltas))


@checked(found=RuleRange)
def rule_rows(found: RuleRange) -> Iterator[RuleRow]:
    """The rows of a range, ascending. Of records at one address the last wins; those outside the range are ignored."""
    rules = dict(found.init.rules)
    start = found.init.address
    for delta in sorted(found.deltas, key=lambda delta: delta.address):
        if not found.init.address <= delta.address < found.end:
            continue
        if delta.address > start:
            yield RuleRow(start, delta.address, dict(rules))
            start = delta.address
        rules.update(delta.rules)
    if start < found.end:
        yield RuleRow(start, found.end, rules)


_check_ranges = each(RuleRange)


def rule_index(ranges: Iterable[RuleRange]) -> RuleIndex:
    """An index for looking up rules. Of overlapping ranges the one that starts first is kept, then the first read."""
    kept: list[RuleRange] = []
    listed = list(ranges)
    _check_ranges(listed, "ranges")
    for found in sorted(listed, key=lambda found: found.init.address):
        if not kept or found.init.address >= kept[-1].end:
            kept.append(found)
    return RuleIndex(tuple(found.init.address for found in kept), tuple(kept))


def missing_rules(rules: Mapping[str, str]) -> tuple[str, ...]:
    """Which of `.cfa` and `.ra` have no rule or are undefined: stack walkers ignore a record unless it has both."""
    return tuple(name for name in (CFA_NAME, RA_NAME) if rules.get(name, UNDEFINED) == UNDEFINED)


@checked(rules=Mapping, registers=Mapping, memory=check_callable, word_size=check_address_size)
def evaluate_rules(
    rules: Mapping[str, str], registers: Mapping[str, int], memory: ReadMemory, word_size: int = 8
) -> CallerRegisters:
    """The values of the rules alone; `registers` are the frame's, by name.

    An expression can refer to the frame's registers and `.cfa`, never to another rule's value. Raises ParseError for
    an expression that has no value, and whatever `memory` raises.
    """
    known = dict(registers)
    values: dict[str, int] = {}
    undefined = set()
    for name in sorted(rules, key=lambda name: name != CFA_NAME):
        if rules[name] == UNDEFINED:
            undefined.add(name)
            continue
        try:
            values[name] = evaluate_postfix(rules[name], known, memory, word_size)
        except ParseError as error:
            raise ParseError(error.section, error.offset, f"{name}: {error.record}", error.reason) from None
        if name == CFA_NAME:
            known[CFA_NAME] = values[CFA_NAME]
    return CallerRegisters(values, frozenset(undefined))


@checked(rules=Mapping, registers=Mapping, memory=check_callable, word_size=check_address_size, stack_pointer=str)
def caller_registers(
    rules: Mapping[str, str],
    registers: Mapping[str, int],
    memory: ReadMemory,
    word_size: int = 8,
    *,
    stack_pointer: str,
    callee_saved: Collection[str] = (),
) -> CallerRegisters:
    """The caller's registers: the rules' values; without a rule, the CFA for the stack pointer, and `callee_saved`
    registers unchanged.

    Raises the same errors as `evaluate_rules`, and ParseError if `.cfa` or `.ra` has no rule.
    """
    missing = missing_rules(rules)
    if missing:
        raise ParseError("", None, "STACK CFI", f"no rule for {' and '.join(missing)} is in force")
    found = evaluate_rules(rules, registers, memory, word_size)
    kept = {name: registers[name] for name in callee_saved if name in registers and name not in rules}
    if stack_pointer not in rules:
        kept[stack_pointer] = found.values[CFA_NAME]
    return CallerRegisters(kept | dict(found.values), found.undefined)
