"""The table: every format is read into it and written from it. Read this first.

Strategy: a *row* is DWARF's: rules that hold from one PC up to the next row's. A *row run* is the rows of
one function, PCs counted from its start; functions with equal runs share one. Everything is columns
(NumPy); `Function` and `Row` are a view of single records, for reading, tests and messages. Rules are
slices too: rows with equal rules share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntFlag
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ...schemas.pointers import DW_EH_PE
from ...schemas.section import ByteOrder, Section
from ..arch.table import Architecture
from ..rules import CfaKind, RaState, RuleKind

if TYPE_CHECKING:
    from numpy.typing import NDArray


class FunctionFlag(IntFlag):
    """What holds for a whole function."""

    SIGNAL_FRAME = 0x1
    PAUTH_B_KEY = 0x2
    MEMORY_TAGGING = 0x4
    HAS_LSDA = 0x8
    UNKNOWN_AUGMENTATION = 0x10  # only its addresses could be read: one row without rules


NO_FLAGS = FunctionFlag(0)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionColumns:
    """One element a function.

    `start` and `size` u64, bytes; `run` u32, index of its row run; `section` u32, the ELF section that starts
    count from in a relocatable file, else 0 (0 there, too, where the file does not say which); `segment` u64, the
    segment selector; `return_column` u32, DWARF number; `repetition` u16, 0 or the PCMASK block: rows then apply to PC
    modulo it (counted from `start`); `flags` u8, `FunctionFlag`; `personality_encoding` u8, DW_EH_PE (omit: none);
    `personality`, `lsda` u64, addresses as resolved (of the cell, where the encoding says indirect; in a relocatable
    file offsets in sections that are not told, 0 for another file's); `origin` u64, offset of the record that it came
    from, for messages.
    """

    start: NDArray[np.uint64]
    size: NDArray[np.uint64]
    run: NDArray[np.uint32]
    section: NDArray[np.uint32]
    segment: NDArray[np.uint64]
    return_column: NDArray[np.uint32]
    repetition: NDArray[np.uint16]
    flags: NDArray[np.uint8]
    personality_encoding: NDArray[np.uint8]
    personality: NDArray[np.uint64]
    lsda: NDArray[np.uint64]
    origin: NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """One element a row.

    `offset` u64, bytes from the function's start; `cfa_kind` u8, `CfaKind`; `cfa_register` u16, DWARF number;
    `cfa_offset` i64, bytes, or the index of an expression; `ra_state` u8, `RaState`; `first_rule` i64 and
    `rule_count` u16, its slice of the rules; `args_size` u64, bytes of arguments on the stack, which what lands in the
    function by an exception drops (DW_CFA_GNU_args_size).
    """

    offset: NDArray[np.uint64]
    cfa_kind: NDArray[np.uint8]
    cfa_register: NDArray[np.uint16]
    cfa_offset: NDArray[np.int64]
    ra_state: NDArray[np.uint8]
    first_rule: NDArray[np.int64]
    rule_count: NDArray[np.uint16]
    args_size: NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class RuleColumns:
    """One element a register rule; within a slice ascending by register.

    `register` u16, DWARF number; `kind` u8, `RuleKind`; `value` i64: bytes from the CFA, a register, or the
    index of an expression.
    """

    register: NDArray[np.uint16]
    kind: NDArray[np.uint8]
    value: NDArray[np.int64]


class CfaRule(NamedTuple):
    """`value` is the offset in bytes for REGISTER, the expression's bytes for EXPRESSION."""

    kind: CfaKind
    register: int = 0
    value: int | bytes = 0


class RegisterRule(NamedTuple):
    """The rule of one register; `value` is bytes from the CFA, a register, or an expression's bytes."""

    register: int
    kind: RuleKind
    value: int | bytes = 0


@dataclass(frozen=True, slots=True)
class Row:
    """The rules from `offset` bytes after the function's start up to the next row."""

    offset: int
    cfa: CfaRule
    registers: tuple[RegisterRule, ...] = ()
    ra_state: RaState = RaState.PLAIN
    args_size: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """One function with its rows; the fields are those of `FunctionColumns`."""

    start: int
    size: int
    rows: tuple[Row, ...]
    section: int = 0
    segment: int = 0
    return_column: int = 0
    repetition: int = 0
    flags: FunctionFlag = NO_FLAGS
    personality_encoding: int = DW_EH_PE.omit
    personality: int = 0
    lsda: int = 0
    origin: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class UnwindTable:
    """All unwind information of one source.

    `run_rows` i64, one more than runs: rows run_rows[r] up to run_rows[r + 1] are run r's. `expressions`: the
    DWARF expressions that rules name by index. `load_address`: of the first PT_LOAD. `source`: for messages. `code`:
    the executable sections of the file that it is about, for who has to know what lies between functions.
    """

    architecture: Architecture
    byte_order: ByteOrder
    functions: FunctionColumns
    run_rows: NDArray[np.int64]
    rows: RowColumns
    rules: RuleColumns
    expressions: tuple[bytes, ...] = ()
    load_address: int = 0
    source: str = ""
    code: tuple[Section, ...] = ()

    @property
    def address_size(self) -> int:
        """Bytes of an address."""
        return self.architecture.address_size

    def __len__(self) -> int:
        """How many functions."""
        return len(self.functions.start)

    def function(self, index: int) -> Function:
        """One function as an object."""
        return self._function(index, self.run)

    def _function(self, index: int, rows_of: Callable[[int], tuple[Row, ...]]) -> Function:
        columns: dict[str, Any] = {f.name: int(getattr(self.functions, f.name)[index]) for f in fields(FunctionColumns)}
        run = columns.pop("run")
        columns["flags"] = FunctionFlag(columns["flags"])
        return Function(rows=rows_of(run), **columns)

    def run(self, index: int) -> tuple[Row, ...]:
        """The rows of one run as objects."""
        rules_of = cache(self.rule_slice)
        rows = range(int(self.run_rows[index]), int(self.run_rows[index + 1]))
        return tuple(self._row(row, rules_of) for row in rows)

    def row(self, index: int) -> Row:
        """One row as an object."""
        return self._row(index, self.rule_slice)

    def _row(self, index: int, rules_of: Callable[[int, int], tuple[RegisterRule, ...]]) -> Row:
        rows = self.rows
        registers = rules_of(int(rows.first_rule[index]), int(rows.rule_count[index]))
        state = RaState(rows.ra_state[index])
        return Row(int(rows.offset[index]), self.cfa(index), registers, state, int(rows.args_size[index]))

    def cfa(self, index: int) -> CfaRule:
        """The CFA rule of a row."""
        rows = self.rows
        match kind := CfaKind(rows.cfa_kind[index]):
            case CfaKind.REGISTER:
                return CfaRule(kind, int(rows.cfa_register[index]), int(rows.cfa_offset[index]))
            case CfaKind.EXPRESSION:
                return CfaRule(kind, 0, self.expressions[int(rows.cfa_offset[index])])
            case _:
                return CfaRule(kind)

    def rule_slice(self, first: int, count: int) -> tuple[RegisterRule, ...]:
        """`count` register rules from index `first` on."""
        return tuple(self._rule(rule) for rule in range(first, first + count))

    def _rule(self, index: int) -> RegisterRule:
        kind = RuleKind(self.rules.kind[index])
        value: int | bytes = int(self.rules.value[index])
        if kind in (RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION):
            value = self.expressions[int(value)]
        return RegisterRule(int(self.rules.register[index]), kind, value)

    def __iter__(self) -> Iterator[Function]:
        """Every function as an object (slow: for tests and messages); those with one run share its rows."""
        rows_of = cache(self.run)
        return (self._function(index, rows_of) for index in range(len(self)))


def concatenate(first: UnwindTable, second: UnwindTable) -> UnwindTable:
    """The functions of two tables of one architecture, the second's behind the first's."""
    rows, rules = second.rows, second.rules
    is_expression = (rules.kind == RuleKind.EXPRESSION) | (rules.kind == RuleKind.VAL_EXPRESSION)
    shift = len(first.expressions)
    rows = replace(
        rows,
        cfa_offset=rows.cfa_offset + np.where(rows.cfa_kind == CfaKind.EXPRESSION, shift, 0),
        first_rule=rows.first_rule + len(first.rules.register),
    )
    rules = replace(rules, value=rules.value + np.where(is_expression, shift, 0))
    return replace(
        first,
        functions=joined_functions(first, second),
        run_rows=np.concatenate([first.run_rows, second.run_rows[1:] + first.run_rows[-1]]),
        rows=_joined(first.rows, rows),
        rules=_joined(first.rules, rules),
        expressions=first.expressions + second.expressions,
    )


def joined(tables: Sequence[UnwindTable]) -> UnwindTable:
    """The functions of one or more tables, one table's behind the other's."""
    # Halves first: what is joined one by one is copied once a table.
    half = len(tables) // 2
    return concatenate(joined(tables[:half]), joined(tables[half:])) if half else tables[0]


def joined_functions(first: UnwindTable, second: UnwindTable) -> FunctionColumns:
    """The functions of both tables, the second's runs numbered behind the first's; a copy."""
    runs = np.uint32(len(first.run_rows) - 1)
    return _joined(first.functions, replace(second.functions, run=second.functions.run + runs))


Columns = TypeVar("Columns", FunctionColumns, RowColumns, RuleColumns)


def _joined(first: Columns, second: Columns) -> Columns:
    pairs = ((getattr(first, field.name), getattr(second, field.name)) for field in fields(type(first)))
    return type(first)(*map(np.concatenate, pairs))


class _Interned:
    """Rules and expressions of a table being made of objects: equal ones once."""

    def __init__(self) -> None:
        self.expressions: dict[bytes, int] = {}
        self.slices: dict[tuple[RegisterRule, ...], int] = {}
        self.rules: list[tuple[int, int, int]] = []

    def value(self, value: int | bytes) -> int:
        """What a column holds for a rule's value."""
        return value if isinstance(value, int) else self.expressions.setdefault(value, len(self.expressions))

    def first_rule(self, registers: tuple[RegisterRule, ...]) -> int:
        """The index of the first rule of a slice."""
        if registers not in self.slices:
            self.slices[registers] = len(self.rules)
            self.rules += [(rule.register, rule.kind, self.value(rule.value)) for rule in sorted(registers)]
        return self.slices[registers]


def table_of(
    architecture: Architecture, functions: Iterable[Function], byte_order: ByteOrder | None = None, source: str = ""
) -> UnwindTable:
    """A table made of objects (slow: for tests and for tables made by hand). Functions with equal rows share a run."""
    kept = _Interned()
    runs: dict[tuple[Row, ...], int] = {}
    columns = []
    for function in functions:
        run = runs.setdefault(function.rows, len(runs))
        values = (run if field.name == "run" else getattr(function, field.name) for field in fields(FunctionColumns))
        columns.append(tuple(values))
    rows = [
        (
            *(row.offset, row.cfa.kind, row.cfa.register, kept.value(row.cfa.value), row.ra_state),
            *(kept.first_rule(row.registers), len(row.registers), row.args_size),
        )
        for run_rows in runs
        for row in run_rows
    ]
    return UnwindTable(
        architecture=architecture,
        byte_order=byte_order or architecture.byte_order,
        functions=FunctionColumns(
            *_columns(columns, ("u8", "u8", "u4", "u4", "u8", "u4", "u2", "u1", "u1", "u8", "u8", "u8"))
        ),
        run_rows=np.cumsum([0, *map(len, runs)], dtype=np.int64),
        rows=RowColumns(*_columns(rows, ("u8", "u1", "u2", "i8", "u1", "i8", "u2", "u8"))),
        rules=RuleColumns(*_columns(kept.rules, ("u2", "u1", "i8"))),
        expressions=tuple(kept.expressions),
        source=source,
    )


def _columns(records: list[tuple[Any, ...]], codes: tuple[str, ...]) -> list[NDArray[Any]]:
    return [np.array([record[index] for record in records], code) for index, code in enumerate(codes)]
