"""The macro entries of one unit in the order in which the compiler met them: imported units in place of their imports.

Strategy: units are walked with a stack, import by import; what lies between imports is a slice of entries. The file
that is open at each entry is found for all entries at once, depth by depth.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_index, checked, optional
from ...schemas.data_classes import dataclass
from ...schemas.macros import MACRO_KINDS, MacroKind
from ...schemas.section import ParseError
from ..arrays import ranges
from ..limits import exceeded, raised
from .table import Macros

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]
    U8 = NDArray[np.uint8]
    Bools = NDArray[np.bool_]

NOTHING = -1
# A compilation unit has thousands; units that import one another twice each would have 2 to the power of their number.
MAX_ENTRIES = 1 << 20
_OPCODES = 256


@dataclass(frozen=True, slots=True, eq=False)
class FlatMacros:
    """The entries of a unit and of the units that it imports: `entry` i64, the index in the table; `kind` u8,
    `MacroKind`; `opener` i64, the index here of the entry that starts the file in which the entry is, -1 outside of all
    files. Imports are left out."""

    entry: I64
    kind: U8
    opener: I64

    def __len__(self) -> int:
        """The number of entries."""
        return len(self.entry)


@cache
def _kinds() -> U8:
    """The kind of each opcode that the standards define."""
    kinds = np.zeros(_OPCODES, np.uint8)
    for opcode, kind in MACRO_KINDS.items():
        kinds[opcode] = kind
    return kinds


def kinds_of_entries(table: Macros, entries: I64) -> U8:
    """The `MacroKind` of entries."""
    return np.where(table.is_described(entries), MacroKind.OTHER, _kinds()[table.opcode[entries]]).astype(np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Imports:
    """The imports of a section: `entry`, ascending, and the unit that each refers to, -1 for none. Unit u has those
    from first[u] up to first[u + 1]."""

    table: Macros
    entry: list[int]
    target: list[int]
    first: list[int]


def imports_of(table: Macros) -> Imports:
    """Find the imports of a section."""
    entry = np.flatnonzero(kinds_of_entries(table, np.arange(len(table))) == MacroKind.IMPORT)
    unit_offset = table.unit_offset.astype(np.uint64)
    place = np.searchsorted(unit_offset, table.value[entry])
    is_unit = np.append(unit_offset, np.uint64(0))[place] == table.value[entry]
    target = np.where(is_unit & (place < len(unit_offset)), place, NOTHING)
    first = np.searchsorted(entry, table.first)
    return Imports(table, entry.tolist(), target.tolist(), first.tolist())


@checked(table=Macros, imports=optional(Imports), max_entries=int)
def flatten_macros(
    table: Macros, unit: int, imports: Imports | None = None, max_entries: int = MAX_ENTRIES
) -> FlatMacros:
    """The entries of one unit, with those of the units that it imports. `imports`, the result of `imports_of`, saves
    time where many units are flattened.

    Raises ParseError for an import that does not refer to a unit, or leads back to its own, and for more than
    `max_entries` entries.
    """
    check_index(unit, len(table.unit_offset), "unit")
    begin, count = _slices(imports or imports_of(table), unit, max_entries)
    entry = ranges(begin, count)
    kind = kinds_of_entries(table, entry)
    opener = _openers(kind == MacroKind.START_FILE, kind == MacroKind.END_FILE)
    return FlatMacros(entry, kind, opener)


def _slices(imports: Imports, root: int, max_entries: int) -> tuple[I64, I64]:
    """The slices of entries between imports, in order: their starts and sizes."""
    first = imports.table.first.tolist()
    begin: list[int] = []
    count: list[int] = []
    # For each open unit: its number, its next entry, and its next import.
    stack = [(root, first[root], imports.first[root])]
    is_open, total, limit = {root}, 0, raised(max_entries)
    while stack:
        unit, entry, number = stack.pop()
        is_last = number == imports.first[unit + 1]
        end = first[unit + 1] if is_last else imports.entry[number]
        begin.append(entry)
        count.append(end - entry)
        total += end - entry + 1
        if total > limit:
            reason = f"the unit and its imports have more than {limit} entries"
            raise _error(imports, unit, entry, exceeded(reason))
        if is_last:
            is_open.remove(unit)
            continue
        target = imports.target[number]
        if target == NOTHING:
            raise _error(imports, unit, end, f"{int(imports.table.value[end]):#x} is not the offset of a unit")
        if target in is_open:
            raise _error(imports, unit, end, "the import leads back to its own unit")
        stack.append((unit, end + 1, number + 1))
        stack.append((target, first[target], imports.first[target]))
        is_open.add(target)
    return np.array(begin, np.int64), np.array(count, np.int64)


def _error(imports: Imports, unit: int, entry: int, reason: str) -> ParseError:
    table = imports.table
    offset = int(table.offset[entry]) if entry < len(table) else None
    return ParseError(table.name, offset, f"unit[{unit}].entry[{entry - int(table.first[unit])}]", reason)


def _openers(starts: Bools, ends: Bools) -> I64:
    """The entry that starts the file which is open before each entry; -1 if none is. An end without a start ends
    nothing."""
    count = len(starts)
    step = starts.astype(np.int64) - ends
    total = np.cumsum(step)
    depth_after = total - np.minimum(np.minimum.accumulate(total), 0) if count else total
    depth = np.append(0, depth_after)[:count]
    # Entries, and a marker for each start, by depth: a marker is at the depth of what is inside of its file.
    marker = np.flatnonzero(starts)
    place = np.concatenate([np.arange(count), marker])
    level = np.concatenate([depth, depth_after[marker]])
    found = np.concatenate([np.zeros(count, np.int64), marker + 1])
    order = np.lexsort((place, level))
    shift = level[order] * (count + 1)
    latest = np.maximum.accumulate(found[order] + shift) - shift
    opener = np.empty(len(order), np.int64)
    opener[order] = latest - 1
    return opener[:count]
