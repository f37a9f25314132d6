"""The table from the STACK CFI records of a symbol file (Breakpad, docs/symbol_files.md, STACK CFI records).

Strategy: a kernel finds the lines and reads their addresses. Equal rule texts get the same number, and each distinct
one is parsed once, by its record's declaration; unusual spellings are made canonical first. INIT and delta records
become states, and states become rows.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....schemas.arguments import check_address, text_argument
from ....schemas.breakpad.files import build_record, parse_record
from ....schemas.breakpad.records import StackCfi, StackCfiInit
from ....schemas.data_classes import dataclass
from ....schemas.section import ParseError
from ....schemas.text_records import Number, Record, Rule, parts_of
from ...arch.table import Architecture, architecture_named, breakpad_names, unwind_registers
from ...arrays import group_numbers, ranges, run_ends, run_starts, starts_of, values_at
from ...columns import Columns, column_of, columns
from ...distinct import intern
from ...kernels import engine, views
from ...kernels.breakpad.protocol import LineKind
from ...table.model import FunctionColumns, Row, UnwindTable, table_of_rows
from ..postfix.to_dwarf import PostfixError
from .rule_rows import row_of_rules
from .write import DELTA, INIT

if TYPE_CHECKING:
    from numpy.typing import NDArray


NO_STATE = -1
# The n-th lines of all ranges are processed at once, unless fewer ranges than this have an n-th line: the rest of those
# is processed line by line, since a single long range would take one pass per line.
FEW = 32


def from_stack_cfi(text: bytes | str, arch: str, load_address: int = 0) -> UnwindTable:
    """The table from the STACK CFI records of a text, which may be a whole symbol file: other records are ignored.

    Addresses are relative to `load_address`. A register without a rule, or whose rule is its own name, has no rule in
    the table; SP without a rule is the CFA. Raises ParseError, whose record names the line, and BuildError if the
    architecture is unknown or Breakpad has no names for its registers.
    """
    architecture = architecture_named(arch, SOURCE)
    registers = {name: number for number, name in breakpad_names(architecture).items()}
    check_address(load_address, "load_address")
    lines = stack_lines(text_argument(text))
    wrong = _first_misplaced(lines)
    sound = lines if wrong is None else lines.until(wrong[0])
    first = np.flatnonzero(sound.is_init)
    count = np.diff(np.append(first, len(sound)))
    offset = sound.address - np.repeat(sound.address[first], count)
    pairs = np.column_stack([offset.view(np.int64), sound.text]).view(np.uint8).reshape(-1)
    run, one = intern(pairs, 16 * first, 16 * (first + count), np.zeros(len(first), np.int64))
    states = _States(architecture, lines.texts, registers)
    line = ranges(first[one], count[one])
    state = _states_after(states, sound, first[one], count[one])[line]
    if wrong is not None:
        raise ParseError(SOURCE, None, f"line {lines.number[wrong[0]]}", wrong[1])
    # Of records at one address the last has the row (dump_syms for Windows changes rules at the address of the INIT).
    group = group_numbers(count[one])
    kept = run_ends(run_starts(group, offset[line]))
    runs = _Runs(run, np.bincount(group[kept], minlength=len(one)), offset[line][kept], state[kept])
    return _table(states, sound, first, runs, load_address)


def _first_misplaced(lines: StackLines) -> tuple[int, str] | None:
    """The first line whose address or position is invalid, and the error."""
    found: list[tuple[int, str]] = []
    is_init, address, size = lines.is_init, lines.address, lines.size
    is_orphan = np.cumsum(is_init) == 0
    found += [(int(at), "no STACK CFI INIT before it") for at in np.flatnonzero(is_orphan)[:1]]
    last = address + np.maximum(size, np.uint64(1)) - np.uint64(1)
    found += [(int(at), "the range reaches past the address space") for at in np.flatnonzero(last < address)[:1]]
    init = np.maximum.accumulate(np.where(is_init, np.arange(len(lines)), 0))
    offset = address - address[init]
    before = np.append(np.uint64(0), offset[:-1])[: len(lines)]
    outside = ~is_init & ~is_orphan & ((offset < before) | (offset >= size[init]))
    reason = "the address is before that of the previous record, or not inside the range"
    found += [(int(at), reason) for at in np.flatnonzero(outside)[:1]]
    return min(found, default=None)


def _states_after(
    states: _States, lines: StackLines, first: NDArray[np.int64], count: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The state after each line of the ranges that start at lines `first`. Raises ParseError."""
    found = np.full(len(lines), NO_STATE, np.int64)
    active, now, done = np.arange(len(first)), np.full(len(first), NO_STATE, np.int64), 0
    while len(active) >= FEW:
        line = first[active] + done
        key = (now + 1) * len(lines.texts) + lines.text[line]
        _, at, which = np.unique(key, return_index=True, return_inverse=True)
        after = [states.after(int(now[one]), int(lines.text[line[one]]), int(lines.number[line[one]])) for one in at]
        now = np.array(after, np.int64)[which.reshape(-1)]
        found[line] = now
        done += 1
        keep = count[active] > done
        active, now = active[keep], now[keep]
    for index, state in zip(active.tolist(), now.tolist(), strict=True):
        begin, end = int(first[index]) + done, int(first[index] + count[index])
        texts, numbers = lines.text[begin:end].tolist(), lines.number[begin:end].tolist()
        for place, text, number in zip(range(begin, end), texts, numbers, strict=True):
            state = states.after(state, text, number)
            found[place] = state
    return found


@dataclass(slots=True)
class _States:
    """The distinct sets of rules in force after a line, numbered. `registers`: register numbers by name.

    `steps`: (state before a line or NO_STATE, number of the line's text) -> state after it. `rows` has two rows per
    state: with `.ra` as the architecture's return address register, and with `.ra` in a column of its own, for a
    function that also has a rule for that register.
    """

    architecture: Architecture
    texts: list[tuple[Rule, ...]]
    registers: dict[str, int]
    steps: dict[tuple[int, int], int] = field(default_factory=dict)
    numbers: dict[tuple[tuple[str, str], ...], int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    rules: list[dict[str, str]] = field(default_factory=list)

    @property
    def return_address(self) -> int:
        """The register of the return address."""
        return unwind_registers(self.architecture).ra

    @property
    def own_column(self) -> int:
        """A separate column for the return address: the number after all named registers."""
        return max(self.registers.values()) + 1

    def after(self, state: int, text: int, line: int) -> int:
        """The state after a line with this text; `line` is its number, for errors. Raises ParseError."""
        key = state, text
        if key not in self.steps:
            rules = {**({} if state == NO_STATE else self.rules[state]), **dict(self.texts[text])}
            whole = tuple(sorted(rules.items()))
            if whole not in self.numbers:
                try:
                    columns = (self.return_address, self.own_column)
                    self.rows += [row_of_rules(rules, self.registers, self.architecture, one) for one in columns]
                except PostfixError as error:
                    raise ParseError(SOURCE, None, f"line {line}", str(error)) from error
                self.rules.append(rules)
                self.numbers[whole] = len(self.rules) - 1
            self.steps[key] = self.numbers[whole]
        return self.steps[key]

    def need_own_column(self) -> NDArray[np.bool_]:
        """Which states have a rule for the return address register in addition to `.ra`."""
        names = {name for name, number in self.registers.items() if number == self.return_address}
        return np.array([not names.isdisjoint(rules) for rules in self.rules], np.bool_)


class _Runs(NamedTuple):
    """The `run` of each range, the `row_count` of each run, and the `offset` and the `state` of each row."""

    run: NDArray[np.uint32]
    row_count: NDArray[np.int64]
    offset: NDArray[np.uint64]
    state: NDArray[np.int64]


def _table(states: _States, lines: StackLines, first: NDArray[np.int64], runs: _Runs, load_address: int) -> UnwindTable:
    """The table of the ranges that start at the lines `first`."""
    architecture = states.architecture
    needs_own = values_at(states.need_own_column(), runs.state, False)
    starts = starts_of(runs.row_count)[:-1]
    is_own = np.logical_or.reduceat(needs_own, starts) if len(starts) else np.zeros(0, np.bool_)
    functions = FunctionColumns.defaults(
        len(first),
        start=lines.address[first] + np.uint64(load_address),
        size=lines.size[first],
        run=runs.run,
        return_column=np.where(is_own[runs.run], states.own_column, states.return_address).astype(np.uint32),
    )
    which = 2 * runs.state + np.repeat(is_own, runs.row_count)
    table = table_of_rows(architecture, functions, runs.row_count, runs.offset, states.rows, which)
    return replace(table, source=SOURCE, load_address=load_address)


SOURCE = "STACK CFI"
RECORDS: tuple[type[Record], ...] = (StackCfiInit, StackCfi)  # indexed by LineKind


@dataclass(frozen=True, slots=True, eq=False)
class StackLines:
    """STACK CFI lines: `number` in the file, from 1; `is_init`; `address` u64; `size` u64 in bytes, 0 unless INIT;
    `text`, an index into `texts`, the distinct rules.
    """

    number: NDArray[np.int64]
    is_init: NDArray[np.bool_]
    address: NDArray[np.uint64]
    size: NDArray[np.uint64]
    text: NDArray[np.int64]
    texts: list[tuple[Rule, ...]]

    def __len__(self) -> int:
        """The number of lines."""
        return len(self.number)

    def until(self, count: int) -> StackLines:
        """The first `count` lines."""
        number, is_init, address = self.number[:count], self.is_init[:count], self.address[:count]
        return StackLines(number, is_init, address, self.size[:count], self.text[:count], self.texts)


def stack_lines(data: bytes) -> StackLines:
    """The STACK CFI lines of a symbol file; others are ignored. Raises ParseError, whose record names the line."""
    found = _scan(data)
    if (found.kind == LineKind.ODD).any():
        data = _respell(data, found)
        found = _scan(data)
    text, first = intern(np.frombuffer(data, np.uint8), found.rest, found.end, np.zeros(len(found.kind), np.int64))
    texts = [
        _rules(data[begin:end], number + 1)
        for begin, end, number in zip(
            *(column[first].tolist() for column in (found.begin, found.end, found.line)), strict=True
        )
    ]
    is_init = found.kind == LineKind.LONGER
    size = np.where(is_init, found.values[:, 1], np.uint64(0))
    return StackLines(found.line + 1, is_init, found.values[:, 0], size, text.astype(np.int64), texts)


@columns
class _Scanned(Columns):
    """Lines as the kernel finds them (kernels/breakpad/symbol_lines.py)."""

    line: NDArray[np.int64] = column_of("index", "of the line in the file")
    begin: NDArray[np.int64] = column_of("offset", "of the line in the file")
    kind: NDArray[np.uint8] = column_of(LineKind)
    values: NDArray[np.uint64] = column_of("number", "after the first words", items=2)
    rest: NDArray[np.int64] = column_of("offset", "of what follows the numbers")
    end: NDArray[np.int64] = column_of("offset", "of the line's end")


def _scan(data: bytes) -> _Scanned:
    # Each line is at least as long as its prefix.
    capacity = min(data.count(b"\n") + 1, len(data) // len(DELTA) + 1)
    found = _Scanned.defaults(capacity)
    numbers = [sum(isinstance(kind, Number) for _, kind in parts_of(record)) for record in RECORDS]
    text, longer, shorter = (np.frombuffer(part, np.uint8) for part in (data, INIT, DELTA))
    columns = (found.line, found.begin, found.kind, found.values, found.rest, found.end)
    count = engine.breakpad.symbol_lines.scan(*views(text, longer, shorter, np.array(numbers, np.int64), *columns))
    return found.select(slice(count))


def _respell(data: bytes, found: _Scanned) -> bytes:
    """The file with unusually spelled lines in canonical spelling. Raises ParseError."""
    pieces, at = [], 0
    odd = np.flatnonzero(found.kind == LineKind.ODD)
    for begin, end, number in zip(
        *(column[odd].tolist() for column in (found.begin, found.end, found.line)), strict=True
    ):
        record = parse_record(data[begin:end] + b"\n", number + 1)
        pieces += [data[at:begin], build_record(replace(record, spelling=b"")).rstrip(b"\n")]
        at = end
    return b"".join([*pieces, data[at:]])


def _rules(line: bytes, number: int) -> tuple[Rule, ...]:
    record = parse_record(line + b"\n", number)
    assert isinstance(record, StackCfiInit | StackCfi)
    if len(dict(record.rules)) != len(record.rules):
        raise ParseError(SOURCE, None, f"line {number}", "a register has two rules")
    return record.rules
