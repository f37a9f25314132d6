"""Merge several tables into one, and find duplicates and conflicts.

Strategy: a table becomes address ranges, called steps, each with the function that covers it and the number of a rule
set. For each step the first table that covers it is kept; the kept steps become pieces of the tables' functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_item
from ...schemas.data_classes import dataclass
from ...schemas.section import BuildError, ParseError
from ..arrays import distinct_values, group_numbers, run_ends, run_starts, values_at
from ..columns import Columns, column_of, columns
from ..limits import exceeded, raised
from .by_pc import RuleSet, by_pc
from .cut import pieces_of
from .lookup import NOTHING, owners
from .model import UnwindTable, concatenate

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A table may have this many rows, shared ones counted once per function; more only as SHARED_ROWS allows.
FREE_ROWS = 1 << 20
# Functions share rows: real files have 2 to 5 times as many rows as distinct ones.
SHARED_ROWS = 16


@dataclass(frozen=True, slots=True)
class SharedRange:
    """PCs from `start` up to `end` that two inputs cover; `first` and `second` are their indices, `first` is kept."""

    start: int
    end: int
    first: int
    second: int


@columns
class SharedRanges(Columns):
    """Shared ranges as columns, ascending."""

    start: NDArray[np.uint64] = column_of("address", "of the first PC")
    end: NDArray[np.uint64] = column_of("address", "after the last PC")
    first: NDArray[np.int64] = column_of("index", "of the input that is kept")
    second: NDArray[np.int64] = column_of("index", "of the other input")

    def __getitem__(self, index: int) -> SharedRange:
        """One range as an object. Raises IndexError."""
        return SharedRange(**self.record(check_item(index, len(self), "index")))

    @property
    def bytes(self) -> int:
        """The sum of their sizes; bytes that three inputs cover count twice."""
        return sum((self.end - self.start).tolist())


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """The result of `merge`: functions in address order that share no PC, and the ranges that several inputs cover."""

    table: UnwindTable
    duplicates: SharedRanges
    conflicts: SharedRanges


@columns
class _Steps(Columns):
    """Address ranges, each up to the start of the next one; `function` is NOTHING in a range without a function."""

    start: NDArray[np.uint64] = column_of("address")
    function: NDArray[np.int64] = column_of("index", "of the function")
    rules: NDArray[np.int64] = column_of("number", "of its rule set")

    def at(self, pc: NDArray[np.uint64]) -> _Steps:
        """The same contents in steps that start at these PCs."""
        place = np.searchsorted(self.start, pc, side="right") - 1
        return _Steps(pc, values_at(self.function, place, NOTHING), values_at(self.rules, place, NOTHING))


Projection = Callable[[UnwindTable], UnwindTable]


def _everything(table: UnwindTable) -> UnwindTable:
    return table


def merge(tables: Sequence[UnwindTable], project: Projection = _everything) -> Merged:
    """The functions of tables of linked code as one table.

    A PC belongs to the first table that has a function there. Ranges that other tables cover as well are duplicates if
    `by_pc` gives the same rule sets there for the projections of both tables, otherwise conflicts; each table is
    compared with the one that is kept. `project` drops what the target format does not keep; by default everything is
    compared. Raises BuildError for tables of different architectures or byte orders and if there are no tables,
    ParseError if the number of rows is out of proportion.
    """
    if not tables:
        raise BuildError("", None, "", "there are no tables to merge")
    for table in tables:
        refuse_mixture(table, tables[0])
    owner_of = group_numbers(np.array([len(table) for table in tables]))
    numbers: dict[RuleSet, int] = {}
    merged = _Steps.empty(0)
    found: list[tuple[NDArray[np.bool_], SharedRanges]] = []
    functions = 0
    for index, table in enumerate(tables):
        steps = _steps(table, functions, numbers, project)
        functions += len(table)
        at = np.union1d(merged.start, steps.start)
        above, below = merged.at(at), steps.at(at)
        found.append(_shared(above, below, owner_of, index))
        is_free = above.function == NOTHING
        merged = _Steps(
            at, np.where(is_free, below.function, above.function), np.where(is_free, below.rules, above.rules)
        )
    is_conflict = np.concatenate([flags for flags, _ in found])
    ranges = SharedRanges.concatenate([one for _, one in found])
    return Merged(_table(tables, merged), _select(ranges, ~is_conflict), _select(ranges, is_conflict))


def refuse_mixture(table: UnwindTable, first: UnwindTable) -> None:
    """Raise BuildError if a table does not have the architecture and byte order of the first one."""
    if (table.architecture, table.byte_order) != (first.architecture, first.byte_order):
        found, expected = (f"{one.architecture.name}, {one.byte_order}-endian" for one in (table, first))
        raise BuildError(table.source, None, "architecture", f"is {found}, that of the first input is {expected}")


def _steps(table: UnwindTable, first_function: int, numbers: dict[RuleSet, int], project: Projection) -> _Steps:
    """The table as steps. Functions are numbered from `first_function`; rule sets by `numbers`, which gets new ones."""
    functions = table.functions
    rows = int(np.diff(table.run_rows)[functions.run].sum())
    limit = raised(max(FREE_ROWS, SHARED_ROWS * (len(table.rows.offset) + len(table))))
    if rows > limit:
        reason = f"have {rows} rows; at most {limit} can be compared"
        raise ParseError(table.source, None, "functions", exceeded(reason))
    if (functions.size > ~functions.start).any():
        raise ParseError(table.source, None, "functions", "extend past the end of the address space")
    owner, begin = owners(table)
    end = functions.start[owner] + functions.size[owner]
    rules = by_pc(project(table))
    number = np.array([numbers.setdefault(rule_set, len(numbers)) for rule_set in rules.sets], np.int64)[rules.rules]
    at = distinct_values(np.concatenate([begin, end, rules.start, rules.end]))
    return _Steps(at, _inside(at, begin, end, owner + first_function), _inside(at, rules.start, rules.end, number))


def _inside(
    at: NDArray[np.uint64], start: NDArray[np.uint64], end: NDArray[np.uint64], value: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The value of the range (of disjoint ones) that contains each address, or NOTHING."""
    place = np.searchsorted(start, at, side="right") - 1
    return np.where(at < values_at(end, place, 0), values_at(value, place, NOTHING), NOTHING)


def _shared(
    above: _Steps, below: _Steps, owner_of: NDArray[np.int64], index: int
) -> tuple[NDArray[np.bool_], SharedRanges]:
    """The ranges that the table with this index shares with earlier ones, and which of them are conflicts."""
    is_shared = (above.function != NOTHING) & (below.function != NOTHING)
    is_conflict = is_shared & (above.rules != below.rules)
    first = np.where(is_shared, values_at(owner_of, above.function, NOTHING), NOTHING)
    # The last step has no function: it is only the end of its predecessor.
    begins, ends = _runs(first * 2 + is_conflict)
    kept = is_shared[begins]
    begins, ends = begins[kept], ends[kept]
    ranges = SharedRanges(above.start[begins], above.start[ends], first[begins], np.full(len(begins), index, np.int64))
    return is_conflict[begins], ranges


def _runs(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The start and the end (exclusive) of each run of equal neighbours."""
    is_start = run_starts(keys)
    return np.flatnonzero(is_start), np.flatnonzero(run_ends(is_start)) + 1


def _select(ranges: SharedRanges, which: NDArray[np.bool_]) -> SharedRanges:
    order = np.lexsort((ranges.second, ranges.start))
    order = order[which[order]]
    return ranges.select(order)


def _table(tables: Sequence[UnwindTable], steps: _Steps) -> UnwindTable:
    """The steps as pieces of the tables' functions."""
    begins, ends = _runs(steps.function)
    kept = steps.function[begins] != NOTHING
    begins, ends = begins[kept], ends[kept]
    start = steps.start[begins]
    return pieces_of(concatenate(tables), steps.function[begins], start, steps.start[ends] - start)
