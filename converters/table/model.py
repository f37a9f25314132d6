"""The table: every format is read into it and written from it. Read this first.

Strategy: a *row* is as in DWARF: the rules in force from one PC up to the next row. A *row run* is the rows of
one function, with PCs relative to its start; functions with equal runs share one. Everything is stored in columns
(NumPy); `Function` and `Row` are objects for single records, for reading, tests and messages. The register rules of a
row are a slice of the rule columns; rows with equal rules share a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from enum import IntFlag
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...schemas.arguments import check_byte_order, check_index, check_selection, check_size, checked, each, optional
from ...schemas.data_classes import dataclass
from ...schemas.pointers import DW_EH_PE
from ...schemas.section import ByteOrder, Section
from ..arch.table import Architecture
from ..arrays import group_numbers, starts_of
from ..arrow import arrow_table
from ..columns import Column, Columns, column_of, columns
from ..rules import CfaKind, RaState, RuleKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..columns import Which


class FunctionFlag(IntFlag):
    """Properties of a whole function."""

    SIGNAL_FRAME = 0x1
    PAUTH_B_KEY = 0x2
    MEMORY_TAGGING = 0x4
    HAS_LSDA = 0x8
    UNKNOWN_AUGMENTATION = 0x10  # only the function's addresses could be read; it has one row without rules


NO_FLAGS = FunctionFlag(0)
SHOWN_FUNCTIONS = 10  # in a notebook


@columns
class FunctionColumns(Columns):
    """One record per function."""

    start: NDArray[np.uint64] = column_of(
        "address", "of the first byte; in a relocatable file from its section's start"
    )
    size: NDArray[np.uint64] = column_of("bytes")
    run: NDArray[np.uint32] = column_of("index", "of its row run")
    section: NDArray[np.uint32] = column_of(
        "index", "of its ELF section in a relocatable file; 0 in other files, and if the section is unknown"
    )
    segment: NDArray[np.uint64] = column_of("segment selector")
    return_column: NDArray[np.uint32] = column_of("DWARF register", "whose rule gives the return address")
    repetition: NDArray[np.uint16] = column_of(
        "bytes", "of its PCMASK block: row offsets apply to (PC - `start`) modulo this; 0 for no block"
    )
    flags: NDArray[np.uint8] = column_of(FunctionFlag)
    personality_encoding: NDArray[np.uint8] = column_of(DW_EH_PE, "`omit` if it has none", fill=DW_EH_PE.omit)
    personality: NDArray[np.uint64] = column_of(
        "address", "resolved; for an indirect encoding that of the cell; in a relocatable file relative to its section"
    )
    lsda: NDArray[np.uint64] = column_of("address", "as `personality`; meaningless without `HAS_LSDA`")
    origin: NDArray[np.uint64] = column_of("section offset", "of the record it was read from, for messages")


@columns
class RowColumns(Columns):
    """One record per row."""

    offset: NDArray[np.uint64] = column_of("bytes", "from the function's start")
    cfa_kind: NDArray[np.uint8] = column_of(CfaKind)
    cfa_register: NDArray[np.uint16] = column_of("DWARF register", "that the CFA is relative to")
    cfa_offset: NDArray[np.int64] = column_of("bytes", "relative to `cfa_register`; or the index of an expression")
    ra_state: NDArray[np.uint8] = column_of(RaState)
    first_rule: NDArray[np.int64] = column_of("index", "of the first of its register rules")
    rule_count: NDArray[np.uint16] = column_of("rules")
    args_size: NDArray[np.uint64] = column_of(
        "bytes", "of arguments on the stack, which the unwinder pops before a landing pad (DW_CFA_GNU_args_size)"
    )


@columns
class RuleColumns(Columns):
    """One record per register rule; the rules of a row ascend by register."""

    register: NDArray[np.uint16] = column_of("DWARF register")
    kind: NDArray[np.uint8] = column_of(RuleKind)
    value: NDArray[np.int64] = column_of(
        "bytes", "relative to the CFA; or a DWARF register, or the index of an expression"
    )


# The key of rows outside their table.
RUN = Column("run", np.dtype(np.uint32), "index", "of its row run, as of `functions`")


class CfaRule(NamedTuple):
    """The CFA rule of a row; `value` is the offset in bytes for REGISTER, the expression for EXPRESSION."""

    kind: CfaKind
    register: int = 0
    value: int | bytes = 0


class RegisterRule(NamedTuple):
    """The rule of one register; `value` is an offset in bytes relative to the CFA, a register, or an expression."""

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


# The columns of rows that `Row` has unchanged, beside the offset: numbers, 0 where nothing sets them.
ROW_VALUES = tuple(one.name for one in fields(Row) if one.name not in ("offset", "cfa", "registers", "ra_state"))


@dataclass(frozen=True, slots=True)
class Function:
    """One function with its rows; the other fields are those of `FunctionColumns`."""

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

    `run_rows`: i64, one element more than runs; the rows of run r are run_rows[r] up to run_rows[r + 1].
    `expressions`: the DWARF expressions that rules refer to by index. `load_address`: the address of the first PT_LOAD.
    `source`: a name for messages. `code`: the file's executable sections, needed to inspect bytes between functions.
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
        """The size of an address in bytes."""
        return self.architecture.address_size

    def __len__(self) -> int:
        """The number of functions."""
        return len(self.functions)

    def __repr__(self) -> str:
        """Source, architecture and sizes, in two lines."""
        source = f" of {self.source}" if self.source else ""
        return (
            f"<UnwindTable{source}: {self.architecture.name}, {self.byte_order}-endian\n"
            f" {len(self):,} functions, {len(self.run_rows) - 1:,} row runs, {len(self.rows):,} rows>"
        )

    def _repr_html_(self) -> str:
        """The first functions as an HTML table, for notebooks."""
        from html import escape

        lines = [f"<caption>{escape(repr(self))}</caption>", "<tr><th>start</th><th>size</th><th>rows</th></tr>"]
        for index in range(min(len(self), SHOWN_FUNCTIONS)):
            run = int(self.functions.run[index])
            start, size = int(self.functions.start[index]), int(self.functions.size[index])
            rows = int(self.run_rows[run + 1] - self.run_rows[run])
            lines.append(f"<tr><td>{start:#x}</td><td>{size:,}</td><td>{rows:,}</td></tr>")
        if len(self) > SHOWN_FUNCTIONS:
            lines.append(f'<tr><td colspan="3">and {len(self) - SHOWN_FUNCTIONS:,} more</td></tr>')
        return "<table>" + "".join(lines) + "</table>"

    def select(self, which: Which) -> UnwindTable:
        """The table with some of its functions, given by indices, a mask or a slice."""
        return replace(self, functions=self.functions.select(check_selection(which, len(self), "which")))

    def to_arrow(self) -> dict[str, Any]:
        """`functions`, `rows` and `rules` as `pyarrow.Table`s; rows have their `run`, too. Numbers are not copied.
        Raises ImportError without pyarrow."""
        run = group_numbers(np.diff(self.run_rows)).astype(np.uint32)
        rows = [(RUN, run), *zip(self.rows.declared, self.rows.arrays(), strict=True)]
        return {"functions": self.functions.to_arrow(), "rows": arrow_table(rows), "rules": self.rules.to_arrow()}

    def function(self, index: int) -> Function:
        """One function as an object."""
        return self._function(check_index(index, len(self), "index"), self.run)

    def _function(self, index: int, rows_of: Callable[[int], tuple[Row, ...]]) -> Function:
        values = self.functions.record(index)
        rows = rows_of(values.pop("run"))
        return Function(rows=rows, **values | {"flags": FunctionFlag(values["flags"])})

    def run(self, index: int) -> tuple[Row, ...]:
        """The rows of one run as objects."""
        check_index(index, len(self.run_rows) - 1, "index")
        rules_of = cache(self.rule_slice)
        rows = range(int(self.run_rows[index]), int(self.run_rows[index + 1]))
        return tuple(self._row(row, rules_of) for row in rows)

    def row(self, index: int) -> Row:
        """One row as an object."""
        check_index(index, len(self.rows), "index")
        return self._row(index, self.rule_slice)

    def _row(self, index: int, rules_of: Callable[[int, int], tuple[RegisterRule, ...]]) -> Row:
        rows = self.rows
        registers = rules_of(int(rows.first_rule[index]), int(rows.rule_count[index]))
        state = RaState(rows.ra_state[index])
        values = (int(getattr(rows, name)[index]) for name in ROW_VALUES)
        return Row(int(rows.offset[index]), self.cfa(index), registers, state, *values)

    def cfa(self, index: int) -> CfaRule:
        """The CFA rule of a row."""
        rows = self.rows
        check_index(index, len(rows), "index")
        match kind := CfaKind(rows.cfa_kind[index]):
            case CfaKind.REGISTER:
                return CfaRule(kind, int(rows.cfa_register[index]), int(rows.cfa_offset[index]))
            case CfaKind.EXPRESSION:
                return CfaRule(kind, 0, self.expressions[int(rows.cfa_offset[index])])
            case _:
                return CfaRule(kind)

    def rule_slice(self, first: int, count: int) -> tuple[RegisterRule, ...]:
        """The `count` register rules that start at index `first`."""
        check_size(count, "count")
        check_index(first, len(self.rules) + 1, "first")
        check_index(first + count, len(self.rules) + 1, "the end")
        return tuple(self._rule(rule) for rule in range(first, first + count))

    def _rule(self, index: int) -> RegisterRule:
        kind = RuleKind(self.rules.kind[index])
        value: int | bytes = int(self.rules.value[index])
        if kind in (RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION):
            value = self.expressions[int(value)]
        return RegisterRule(int(self.rules.register[index]), kind, value)

    def __iter__(self) -> Iterator[Function]:
        """All functions as objects (slow: for tests and messages). Functions with one run share its rows."""
        rows_of = cache(self.run)
        return (self._function(index, rows_of) for index in range(len(self)))


def concatenate(tables: Sequence[UnwindTable]) -> UnwindTable:
    """Concatenate the functions of tables of one architecture; other properties are those of the first table."""
    if len(tables) == 1:
        return tables[0]
    first_rule = starts_of(np.array([len(table.rules) for table in tables])).tolist()
    first_expression = starts_of(np.array([len(table.expressions) for table in tables])).tolist()
    shifted = [_shift(*each) for each in zip(tables, first_rule[:-1], first_expression[:-1], strict=True)]
    return replace(
        tables[0],
        functions=concatenate_functions(tables),
        run_rows=starts_of(np.concatenate([np.diff(table.run_rows) for table in tables])),
        rows=RowColumns.concatenate([rows for rows, _ in shifted]),
        rules=RuleColumns.concatenate([rules for _, rules in shifted]),
        expressions=tuple(chain.from_iterable(table.expressions for table in tables)),
    )


def _shift(table: UnwindTable, rule: int, expression: int) -> tuple[RowColumns, RuleColumns]:
    """The rows and rules of a table, with the indices of rules and expressions increased by these numbers."""
    rows, rules = table.rows, table.rules
    if not rule and not expression:
        return rows, rules
    is_expression = (rules.kind == RuleKind.EXPRESSION) | (rules.kind == RuleKind.VAL_EXPRESSION)
    cfa_offset = rows.cfa_offset + np.where(rows.cfa_kind == CfaKind.EXPRESSION, expression, 0)
    value = rules.value + np.where(is_expression, expression, 0)
    return replace(rows, cfa_offset=cfa_offset, first_rule=rows.first_rule + rule), replace(rules, value=value)


def concatenate_functions(tables: Sequence[UnwindTable], without: Sequence[str] = ()) -> FunctionColumns:
    """The functions of all tables as a copy; the runs of each table are numbered after those of the preceding one.
    Columns `without` are not copied, but have their defaults."""
    runs = starts_of(np.array([len(table.run_rows) - 1 for table in tables])).astype(np.uint32)
    parts = [table.functions for table in tables]
    parts = [replace(part, run=part.run + first) if first else part for part, first in zip(parts, runs, strict=False)]
    copied = (one.name for one in FunctionColumns.declared if one.name not in without)
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in copied}
    return FunctionColumns.defaults(sum(map(len, parts)), **columns)


class _Interned:
    """The distinct rules and expressions of a table that is made from objects."""

    def __init__(self) -> None:
        self.expressions: dict[bytes, int] = {}
        self.slices: dict[tuple[RegisterRule, ...], int] = {}
        self.rules: list[dict[str, int]] = []

    def value(self, value: int | bytes) -> int:
        """The number that a column has for a rule's value."""
        return value if isinstance(value, int) else self.expressions.setdefault(value, len(self.expressions))

    def first_rule(self, registers: tuple[RegisterRule, ...]) -> int:
        """The index of the first rule of a slice."""
        if registers not in self.slices:
            self.slices[registers] = len(self.rules)
            self.rules += [rule._asdict() | {"value": self.value(rule.value)} for rule in sorted(registers)]
        return self.slices[registers]


_check_functions = each(Function)


@checked(architecture=Architecture, byte_order=optional(check_byte_order), source=str)
def table_of(
    architecture: Architecture, functions: Iterable[Function], byte_order: ByteOrder | None = None, source: str = ""
) -> UnwindTable:
    """Make a table from objects (slow: for tests and handmade tables). Functions with equal rows share a run."""
    listed = list(functions)
    _check_functions(listed, "functions")
    kept = _Interned()
    runs: dict[tuple[Row, ...], int] = {}
    names = [one.name for one in FunctionColumns.declared if one.name != "run"]
    records = []
    for function in listed:
        run = runs.setdefault(function.rows, len(runs))
        records.append({"run": run, **{name: getattr(function, name) for name in names}})
    rows = [
        {
            "offset": row.offset,
            "cfa_kind": row.cfa.kind,
            "cfa_register": row.cfa.register,
            "cfa_offset": kept.value(row.cfa.value),
            "ra_state": row.ra_state,
            "first_rule": kept.first_rule(row.registers),
            "rule_count": len(row.registers),
            **{name: getattr(row, name) for name in ROW_VALUES},
        }
        for row in chain.from_iterable(runs)
    ]
    return UnwindTable(
        architecture=architecture,
        byte_order=byte_order or architecture.byte_order,
        functions=FunctionColumns.of_records(records),
        run_rows=np.cumsum([0, *map(len, runs)], dtype=np.int64),
        rows=RowColumns.of_records(rows),
        rules=RuleColumns.of_records(kept.rules),
        expressions=tuple(kept.expressions),
        source=source,
    )


def table_of_rows(
    architecture: Architecture,
    functions: FunctionColumns,
    row_counts: NDArray[np.int64],
    offset: NDArray[np.uint64],
    rows: Sequence[Row],
    which: NDArray[np.int64],
) -> UnwindTable:
    """Make a table from few distinct rows. Each run has `row_counts` rows: rows[which], at `offset` from the start."""
    distinct = table_of(architecture, [Function(0, 1, (row,)) for row in rows])
    chosen = distinct.rows.select(distinct.run_rows[:-1][distinct.functions.run][which])
    return replace(distinct, functions=functions, run_rows=starts_of(row_counts), rows=replace(chosen, offset=offset))
