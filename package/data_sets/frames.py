"""The data sets of the unwind table: functions, rows, rules and expressions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..converters.arrays import group_numbers, ranges, starts_of
from ..converters.distinct import number_distinct
from ..converters.dwarf.expression_text import expression_text
from ..converters.elf.function_symbols import FunctionSymbols
from ..converters.files.code_frames import CodeFrames
from ..converters.files.read_elf import in_sections
from ..converters.files.symbol_names import symbols_at
from ..converters.table.model import UnwindTable
from ..schemas.section import ParseError, Section
from .fields import DATA_SETS, ExpressionNumber, FunctionNumber, RuleSet, RunNumber
from .model import NOTHING, DataSet, Texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..converters.elf.relocation import LaidOut


def functions_of(laid: LaidOut, table: UnwindTable, frames: CodeFrames, symbols: FunctionSymbols) -> DataSet:
    """The functions of a table: those of `frames`, followed by those of PLT sections."""
    number = np.full(len(table), NOTHING, np.int64)
    number[: sum(frames.counts)] = group_numbers(np.array(frames.counts, np.int64))
    texts = {"name": names_at(symbols, table.functions.start), "source": Texts(frames.sections, number)}
    columns = FunctionNumber(np.arange(len(table))), in_sections(laid, table).functions
    return DataSet(DATA_SETS["functions"], texts, columns)


def names_at(symbols: FunctionSymbols, address: NDArray[np.uint64]) -> Texts:
    """The name of the symbol that covers each address, null if there is none."""
    found = symbols_at(symbols, address)
    used, number = np.unique(found[found >= 0], return_inverse=True)
    names = np.full(len(found), NOTHING, np.int64)
    names[found >= 0] = number
    return Texts([symbols.name[index] for index in used.tolist()], names)


def rows_and_rules(table: UnwindTable) -> tuple[DataSet, DataSet]:
    """The rows, and the rules: one set for all rows that have equal ones. Rows without rules have the set NOTHING."""
    rows = table.rows
    run = group_numbers(np.diff(table.run_rows)).astype(np.uint32)
    number, first = number_distinct(rows.first_rule, rows.rule_count)
    begin, count = rows.first_rule[first], rows.rule_count[first].astype(np.int64)
    place = np.where(count > 0, starts_of(count)[:-1], NOTHING)
    rules = table.rules.select(ranges(begin, count))
    of_rows = RunNumber(run), replace(rows, first_rule=place[number])
    of_rules = RuleSet(np.repeat(place, count)), rules
    return DataSet(DATA_SETS["rows"], {}, of_rows), DataSet(DATA_SETS["rules"], {}, of_rules)


def expressions_of(table: UnwindTable) -> DataSet:
    """The expressions, as text and as bytes. One that is malformed has no text."""
    machine = str(table.architecture.machine)
    texts: list[str | None] = []
    for one in table.expressions:
        code = Section.of("expression", one, 0, table.byte_order, table.architecture.address_size)
        try:
            texts.append(expression_text(code, machine))
        except ParseError:
            texts.append(None)
    number = np.arange(len(texts))
    known = np.where([one is not None for one in texts], number, NOTHING) if texts else number
    columns = {
        "text": Texts([one or "" for one in texts], known),
        "bytes": Texts([one.hex() for one in table.expressions], number),
    }
    return DataSet(DATA_SETS["expressions"], columns, (ExpressionNumber(number),))
