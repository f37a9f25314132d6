"""The canonical form for comparing tables: one rule set per PC range.

Strategy: splitting and merging change functions and rows, never the rules at a PC. Rows become disjoint address
ranges, each with the number of a distinct rule set; neighbours with equal sets are one range. A PC that two functions
cover belongs to the one that starts first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...schemas.arguments import checked, instance_of, optional
from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError
from ..arrays import distinct_values, furthest_before, group_numbers, range_run_starts, ranks, run_ends
from ..distinct import number_distinct
from ..limits import exceeded, raised
from ..refusals import Refusals
from ..rules import CfaKind
from .distinct import row_contents
from .model import FunctionFlag, Row, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A few bytes can declare 4 GiB of one-byte blocks; the largest PLTs have 100,000 blocks of 16 bytes.
MAX_RANGES = 1 << 20


class RuleSet(NamedTuple):
    """The rules in force at a PC: a row (with offset 0), and properties of the whole function."""

    row: Row
    return_column: int
    flags: FunctionFlag


@dataclass(frozen=True, slots=True, eq=False)
class RulesByPc:
    """Disjoint ranges, ascending: `section` u32, `start` and `end` (exclusive) u64, and `rules` i64, an index into
    `sets`."""

    section: NDArray[np.uint32]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    rules: NDArray[np.int64]
    sets: tuple[RuleSet, ...]

    def __eq__(self, other: object) -> bool:
        """Whether the same rules are in force at every PC."""
        if not isinstance(other, RulesByPc):
            return NotImplemented
        if len(self.start) != len(other.start):
            return False
        numbers = {rule_set: number for number, rule_set in enumerate(self.sets)}
        theirs = np.array([numbers.get(rule_set, -1) for rule_set in other.sets] or [-1], np.int64)
        pairs = ((self.section, other.section), (self.start, other.start), (self.end, other.end))
        same_ranges = all(np.array_equal(ours, others) for ours, others in pairs)
        return same_ranges and np.array_equal(self.rules, theirs[other.rules])

    def differences(self, other: RulesByPc) -> list[str]:
        """The first ten ranges that are in only one of the two, as sentences."""
        instance_of(RulesByPc)(other, "other")
        sides = [{(int(s), int(a), int(b), table.sets[r]) for s, a, b, r in table._ranges()} for table in (self, other)]
        return [
            f"{'only the first' if side else 'only the second'}: {start:#x}..{end:#x} {rule_set}"
            for side, (_, start, end, rule_set) in sorted(
                [(True, found) for found in sides[0] - sides[1]] + [(False, found) for found in sides[1] - sides[0]],
                key=lambda item: item[1][:3],
            )[:10]
        ]

    def _ranges(self) -> zip[tuple[int, int, int, int]]:
        return zip(self.section.tolist(), self.start.tolist(), self.end.tolist(), self.rules.tolist(), strict=True)


@checked(table=UnwindTable, without=optional(Refusals))
def by_pc(table: UnwindTable, without: Refusals | None = None) -> RulesByPc:
    """The rules at each PC of a table, except in the ranges of the refusals `without`, which must be of this table."""
    row_sets, contents = row_contents(table)
    owner, row, start, end = _ranges(table)
    functions = table.functions
    section = functions.section[owner]
    rules, sets = _with_function(table, row_sets[row], contents, owner)
    covered = np.array([s.row.cfa.kind is not CfaKind.NONE or bool(s.row.registers) for s in sets] or [True])
    keep = covered[rules] if len(rules) else np.zeros(0, np.bool_)
    if without is not None and len(without):
        keep &= ~_is_refused(owner, start, without)
    section, start, end, rules = section[keep], start[keep], end[keep], rules[keep]
    is_new = range_run_starts(start, end, rules, section)
    return RulesByPc(section[is_new], start[is_new], end[run_ends(is_new)], rules[is_new], sets)


def _ranges(
    table: UnwindTable,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Function, row, start and end of every range; the ranges are disjoint, in order of section and address."""
    functions = table.functions
    order = np.lexsort((functions.start, functions.section))
    order = order[functions.size[order] > 0]
    size, run = functions.size[order], functions.run[order]
    start, section = functions.start[order], functions.section[order]
    count = np.diff(table.run_rows)[run]
    repetition = functions.repetition[order].astype(np.uint64)
    block = np.where(repetition > 0, repetition, size)
    blocks = (size // block + (size % block > 0)).astype(np.int64)
    per_function = count * blocks
    if per_function[blocks > 1].sum(dtype=np.float64) > raised(MAX_RANGES):
        reason = f"more than {raised(MAX_RANGES)} repetitive blocks to expand"
        raise ParseError(table.source, None, "func_rep_size", exceeded(reason))
    owner, rank = group_numbers(per_function), ranks(per_function)
    row = table.run_rows[:-1][run][owner] + rank % count[owner]
    base = (rank // count[owner]).astype(np.uint64) * block[owner]
    # A row past the function's end, in an incomplete last block, must not wrap around if that end is 2**64.
    begin = np.minimum(base + table.rows.offset[row], size[owner])
    is_last = rank % count[owner] == count[owner] - 1
    following = table.rows.offset[np.where(is_last, row, row + 1)]
    stop = np.minimum(base + np.where(is_last, block[owner], following), size[owner])
    taken = np.zeros(len(order), np.uint64)
    for number in distinct_values(section):
        inside = section == number
        taken[inside] = furthest_before((start + size)[inside])
    begin, stop = begin + start[owner], stop + start[owner]
    begin = np.maximum(begin, taken[owner])
    keep = begin < stop
    return order[owner[keep]], row[keep], begin[keep], stop[keep]


def _with_function(
    table: UnwindTable,
    content: NDArray[np.int64],
    contents: list[Row],
    owner: NDArray[np.int64],
) -> tuple[NDArray[np.int64], tuple[RuleSet, ...]]:
    """Add the properties of the whole function to the row content of each range."""
    flags = table.functions.flags[owner] & ~np.uint8(FunctionFlag.HAS_LSDA)
    columns = (content, table.functions.return_column[owner], flags)
    number, first = number_distinct(*columns)
    distinct = zip(*(column[first].tolist() for column in columns), strict=True)
    return number, tuple(RuleSet(contents[c], column, FunctionFlag(flag)) for c, column, flag in distinct)


def _is_refused(owner: NDArray[np.int64], start: NDArray[np.uint64], without: Refusals) -> NDArray[np.bool_]:
    """Which ranges are in a refusal of their own function. A range, which is part of one row, is in it completely or
    not at all."""
    function = np.concatenate([without.function, owner])
    begin = np.concatenate([without.start, start])
    is_range = np.arange(len(function)) >= len(without)
    order = np.lexsort((is_range, begin, function))
    # For each range the last refusal at or before it.
    last = np.maximum.accumulate(np.where(is_range[order], -1, np.arange(len(order))))
    refusal = order[np.maximum(last, 0)]
    end = without.end[np.minimum(refusal, len(without) - 1)]
    refused = np.empty(len(order), np.bool_)
    refused[order] = (last >= 0) & (function[refusal] == function[order]) & (begin[order] < end)
    return refused[len(without) :]
