"""Breakpad's STACK CFI lines into the table (the symbol file document, STACK CFI records).

Strategy: lines are read by their declaration, and few rules are different: each is understood once, states once for
each step from one to the next. What is left a line is its address.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from itertools import chain

import numpy as np

from ..schemas.breakpad import StackCfi, StackCfiInit
from ..schemas.breakpad_lines import parse_record
from ..schemas.pointers import DW_EH_PE
from ..schemas.section import ParseError
from ..schemas.text_lines import Record, Rule
from .arch import ARCHITECTURES, Architecture
from .breakpad_names import breakpad_names
from .postfix_reading import PostfixError, expression_of
from .postfix_text import CFA_NAME
from .rules import CfaKind, RuleKind
from .stack_cfi import DELTA
from .stack_cfi_words import OUTERMOST, RA_NAME, WITHDRAWN
from .unwind import CfaRule, Function, FunctionColumns, RegisterRule, Row, RowColumns, UnwindTable, table_of

SOURCE = "STACK CFI"
MAX_ADDRESS = 1 << 64
NOTHING = -1


def from_stack_cfi(text: bytes | str, arch: str, load_address: int = 0) -> UnwindTable:
    """The table of the STACK CFI lines of a text, which may be a whole symbol file: other lines are passed over.

    Addresses count from `load_address`. A register without a rule, or whose rule is itself, has none in the table.
    Raises ParseError, whose record names the line.
    """
    if arch not in ARCHITECTURES:
        raise ParseError(SOURCE, None, "arch", f"{arch!r} is none of {', '.join(ARCHITECTURES)}")
    numbers = {name: number for number, name in breakpad_names(arch).items()}
    lines = _Lines(_States(ARCHITECTURES[arch], numbers, max(numbers.values()) + 1))
    data = text.encode() if isinstance(text, str) else text
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.startswith(DELTA):
            record = parse_record(line + b"\n", number)
            try:
                lines.add(record)
            except _LineError as error:
                raise ParseError(SOURCE, None, f"line {number}", str(error)) from error
    return lines.table(load_address)


class _LineError(Exception):
    """What is wrong with a line."""


@dataclass(slots=True)
class _States:
    """What holds after lines: rules by name, numbered; `steps` leads from a state (NOTHING: none) by a line's.

    `rows` has two of each state: with `.ra` as the architecture's return address, and in a column of its own, where
    that register has a rule, too.
    """

    architecture: Architecture
    names: dict[str, int]
    own_column: int
    steps: dict[tuple[int, tuple[Rule, ...]], int] = field(default_factory=dict)
    numbers: dict[tuple[tuple[str, str], ...], int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    rules: list[dict[str, str]] = field(default_factory=list)

    def after(self, state: int, said: tuple[Rule, ...]) -> int:
        """The state behind a line. Raises _LineError."""
        key = state, said
        if key not in self.steps:
            rules = {**({} if state == NOTHING else self.rules[state]), **dict(said)}
            if len(dict(said)) != len(said):
                raise _LineError("a register has two rules")
            whole = tuple(sorted(rules.items()))
            if whole not in self.numbers:
                columns = self.architecture.return_address, self.own_column
                self.rows += [self._row(rules, column) for column in columns]
                self.rules.append(rules)
                self.numbers[whole] = len(self.rules) - 1
            self.steps[key] = self.numbers[whole]
        return self.steps[key]

    def needs_own_column(self, state: int) -> bool:
        """Whether the return address and the register that usually has it are said apart."""
        return breakpad_names(self.architecture.name).get(self.architecture.return_address) in self.rules[state]

    def _row(self, rules: dict[str, str], ra_column: int) -> Row:
        architecture, numbers = self.architecture, self.names
        cfa = CfaRule(CfaKind.NONE)
        registers: dict[int, RegisterRule] = {}
        for name, rule in rules.items():
            if name not in numbers and name not in (CFA_NAME, RA_NAME):
                raise _LineError(f"{name} is no register of {architecture.name}")
            try:
                if name == CFA_NAME:
                    cfa = _cfa(rule.split(), numbers, architecture)
                    continue
                number = ra_column if name == RA_NAME else numbers[name]
                found = _rule(number, rule.split(), numbers, architecture, name == RA_NAME)
            except PostfixError as error:
                raise _LineError(f"{name}: {error}") from error
            if found is not None:
                registers[number] = found
        return Row(0, cfa, tuple(sorted(registers.values())))


def _cfa(words: list[str], numbers: dict[str, int], architecture: Architecture) -> CfaRule:
    match words:
        case [name, offset, "+"] if name in numbers and _is_number(offset):
            return CfaRule(CfaKind.REGISTER, numbers[name], int(offset))
        case [name] if name in numbers:
            return CfaRule(CfaKind.REGISTER, numbers[name], 0)
    size = architecture.address_size
    return CfaRule(CfaKind.EXPRESSION, 0, expression_of(words, numbers, architecture.byte_order, size, False))


def _rule(
    number: int, words: list[str], numbers: dict[str, int], architecture: Architecture, is_ra: bool
) -> RegisterRule | None:
    """The rule of a register; None where it keeps its value."""
    match words:
        case [word] if word == WITHDRAWN or (word == OUTERMOST and is_ra):
            return RegisterRule(number, RuleKind.UNDEFINED)
        case [name] if name in numbers:
            return None if numbers[name] == number else RegisterRule(number, RuleKind.REGISTER, numbers[name])
        case [name, "^"] if name == CFA_NAME:
            return RegisterRule(number, RuleKind.OFFSET, 0)
        case [name, offset, "+", "^"] if name == CFA_NAME and _is_number(offset):
            return RegisterRule(number, RuleKind.OFFSET, int(offset))
        case [name, offset, "+"] if name == CFA_NAME and _is_number(offset):
            return RegisterRule(number, RuleKind.VAL_OFFSET, int(offset))
        case [name, offset, "-", "^"] if name == CFA_NAME and offset.isdecimal():
            return RegisterRule(number, RuleKind.OFFSET, -int(offset))
    is_memory = words[-1] == "^"
    kind = RuleKind.EXPRESSION if is_memory else RuleKind.VAL_EXPRESSION
    value = words[:-1] if is_memory else words
    size = architecture.address_size
    return RegisterRule(number, kind, expression_of(value, numbers, architecture.byte_order, size, True))


def _is_number(word: str) -> bool:
    """Whether it is a decimal number that an offset may be."""
    return word.removeprefix("-").isdecimal() and abs(int(word)) < 1 << 61


@dataclass(slots=True)
class _Lines:
    """Lines as they come: each range with the number of its run, a run being offsets and states."""

    states: _States
    runs: dict[tuple[tuple[int, int], ...], int] = field(default_factory=dict)
    columns: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    run: list[int] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """One line. Raises _LineError."""
        if isinstance(record, StackCfiInit):
            self._end()
            if record.address + record.size > MAX_ADDRESS:
                raise _LineError("the range reaches past the address space")
            self.starts.append(record.address)
            self.sizes.append(record.size)
            self.rows = [(0, self.states.after(NOTHING, record.rules))]
        elif isinstance(record, StackCfi):
            if not self.rows:
                raise _LineError("stands behind no STACK CFI INIT")
            offset = record.address - self.starts[-1]
            if not self.rows[-1][0] < offset < self.sizes[-1]:
                raise _LineError("its address is not between the one before and the end of the range")
            self.rows.append((offset, self.states.after(self.rows[-1][1], record.rules)))

    def _end(self) -> None:
        """The range begun has all its lines."""
        if self.rows:
            is_own = any(self.states.needs_own_column(state) for _, state in self.rows)
            rows = tuple((offset, 2 * state + is_own) for offset, state in self.rows)
            self.run.append(self.runs.setdefault(rows, len(self.runs)))
            ra = self.states.architecture.return_address
            self.columns.append(self.states.own_column if is_own else ra)

    def table(self, load_address: int) -> UnwindTable:
        """The table of all lines."""
        self._end()
        self.rows = []
        architecture = self.states.architecture
        # One row each, for their rules; runs are then made of these.
        distinct = table_of(architecture, [Function(0, 1, (row,)) for row in self.states.rows], source=SOURCE)
        pairs = np.array(list(chain.from_iterable(self.runs)), np.int64).reshape(-1, 2)
        row = distinct.run_rows[:-1][distinct.functions.run][pairs[:, 1]] if len(pairs) else np.zeros(0, np.int64)
        columns = {one.name: getattr(distinct.rows, one.name)[row] for one in fields(RowColumns)}
        rows = RowColumns(**{**columns, "offset": pairs[:, 0].astype(np.uint64)})
        run_rows = np.cumsum([0, *map(len, self.runs)], dtype=np.int64)
        functions = self._functions(load_address)
        return replace(distinct, functions=functions, run_rows=run_rows, rows=rows, load_address=load_address)

    def _functions(self, load_address: int) -> FunctionColumns:
        count = len(self.starts)
        nothing = np.zeros(count, np.uint64)
        return FunctionColumns(
            start=np.array(self.starts, np.uint64) + np.uint64(load_address),
            size=np.array(self.sizes, np.uint64),
            run=np.array(self.run, np.uint32),
            section=np.zeros(count, np.uint32),
            segment=nothing,
            return_column=np.array(self.columns, np.uint32),
            repetition=np.zeros(count, np.uint16),
            flags=np.zeros(count, np.uint8),
            personality_encoding=np.full(count, DW_EH_PE.omit, np.uint8),
            personality=nothing,
            lsda=nothing,
            origin=nothing,
        )
