"""Check macro information: its structure of units and files, and the texts of definitions.

Strategy: a definition's text is a proper name, a parameter list without spaces, and one space before the body (DWARF4
6.3.1.1). The offsets of bytes of each class are found once in the whole section, then searched for all texts at once.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import checked, optional
from ...schemas.data_classes import dataclass
from ...schemas.macros import DW_MACRO, MacroOperand
from ...schemas.section import Section
from ..findings import Findings, Problem, findings
from .strings import MacroSources
from .table import Macros, read_macros

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]
    Bools = NDArray[np.bool_]
    U8 = NDArray[np.uint8]


class MacroProblem(Problem):
    """What may be wrong with macro information. A finding has the section offset of an entry, or of a unit; its value
    is the line or the offset in question."""

    NO_BASE = 1, "unit has no base source file", "units have no base source file"
    BASE_LINE = 2, "base source file starts at a line other than 0", "base source files start at lines other than 0"
    SEVERAL_BASES = 3, "file starts after the base source file", "files start after the base source file"
    COMMAND_LINE = 4, "entry before the base source file has a line", "entries before the base source file have lines"
    AFTER_BASE = 5, "entry is after the base source file", "entries are after the base source file"
    NOT_BEGUN = 6, "file is ended but was not started", "files are ended but were not started"
    NOT_ENDED = 7, "file is started but not ended in its unit", "files are started but not ended in their units"
    NO_LINE = 8, "entry inside a file has line 0", "entries inside files have line 0"
    DESCENDS = 9, "line number decreases within a file", "line numbers decrease within a file"
    NAME = 10, "macro has an invalid name", "macros have invalid names"
    SPACE = 11, "definition does not follow exactly one space", "definitions do not follow exactly one space"
    PARAMETERS = 12, "parameter list has spaces or no end", "parameter lists have spaces or no ends"
    NO_STRING = 13, "text is outside .debug_str", "texts are outside .debug_str"
    NO_UNIT = 14, "import does not refer to a unit", "imports do not refer to a unit"
    CYCLE = 15, "import leads back to its own unit", "imports lead back to their own units"


Found = list[tuple[MacroProblem, "I64", "U64 | None"]]


@checked(section=Section, sources=optional(MacroSources))
def check_macros(section: Section, sources: MacroSources | None = None) -> Findings[MacroProblem]:
    """Everything wrong with a readable section of macro information; `sources` hold the texts of other sections.

    Raises ParseError if the section cannot be read.
    """
    table = read_macros(section)
    entries = np.arange(len(table))
    structure = _structure(table)
    found = _file_problems(table, structure) + _line_problems(table, structure)
    has_text = np.flatnonzero(table.has_operand(entries, MacroOperand.TEXT))
    start = table.text_start[has_text]
    found += _text_problems(table, has_text, table.text, start, start + table.text_size[has_text])
    has_offset = np.flatnonzero(table.has_operand(entries, MacroOperand.STRP))
    if sources is not None and sources.strings is not None:
        data = sources.strings.data
        zeros = np.flatnonzero(data == 0)
        inside = table.value[has_offset] <= np.uint64(zeros[-1]) if len(zeros) else np.zeros(len(has_offset), np.bool_)
        outside = has_offset[~inside]
        found.append((MacroProblem.NO_STRING, table.offset[outside], table.value[outside]))
        which = has_offset[inside]
        begin = table.value[which].astype(np.int64)
        end = zeros[np.searchsorted(zeros, begin)] if len(zeros) else begin
        found += _text_problems(table, which, data, begin, end)
    return findings(MacroProblem, found + _import_problems(table))


@dataclass(frozen=True, slots=True, eq=False)
class _Structure:
    """Each entry's place in the files of its unit.

    `unit` i64; whether it starts a file (`begins`), ends one (`ends`), has a line; the number of files that are open
    before it (`depth`) and after it (`depth_after`); whether it starts the base source file, which is the first outer
    file of its unit (`is_base`), or is before that (`is_before_base`). `has_base` is by unit.
    """

    unit: I64
    begins: Bools
    ends: Bools
    has_line: Bools
    depth: I64
    depth_after: I64
    is_base: Bools
    is_before_base: Bools
    has_base: Bools


def _structure(table: Macros) -> _Structure:
    entries = np.arange(len(table))
    unit = table.unit_of(entries)
    begins = table.has_operand(entries, MacroOperand.FILE)
    ends = (table.opcode == DW_MACRO.end_file) & ~table.is_described(entries)
    step = begins.astype(np.int64) - ends
    total = np.cumsum(step)
    open_files = total - (total - step)[table.first[unit]]
    # A surplus end closes nothing, so the depth is relative to the lowest sum so far. Each unit is shifted far below
    # the previous one, so that the minimum of that one does not reach into it.
    below = unit * (2 * len(table) + 2)
    lowest = np.minimum.accumulate(np.minimum(open_files, 0) - below) + below
    depth_after = open_files - lowest
    is_first = np.zeros(len(table), np.bool_)
    is_first[table.first[:-1][np.diff(table.first) > 0]] = True
    depth = np.where(is_first, 0, np.append(0, depth_after[:-1]) if len(table) else depth_after)
    outer = np.flatnonzero(begins & (depth == 0))
    bases = outer[np.unique(unit[outer], return_index=True)[1]]
    is_base = np.zeros(len(table), np.bool_)
    is_base[bases] = True
    base_of = np.full(len(table.body), -1, np.int64)
    base_of[unit[bases]] = bases
    has_base = base_of >= 0
    is_before = entries < base_of[unit]
    has_line = table.has_operand(entries, MacroOperand.LINE)
    return _Structure(unit, begins, ends, has_line, depth, depth_after, is_base, is_before, has_base)


def _file_problems(table: Macros, structure: _Structure) -> Found:
    """Files that start or end in the wrong place, and entries outside files."""
    begins, depth = structure.begins, structure.depth
    in_based = structure.has_base[structure.unit]
    is_outside = structure.has_line & ~begins & (depth == 0) & in_based
    has_entries = np.diff(table.first) > 0
    last = table.first[1:][has_entries] - 1
    left_open = np.flatnonzero(has_entries)[structure.depth_after[last] > 0]
    # In .debug_macro a unit that others import has no file of its own.
    baseless = np.flatnonzero(has_entries & ~structure.has_base & (not table.has_headers))
    wrong: list[tuple[MacroProblem, Bools]] = [
        (MacroProblem.BASE_LINE, structure.is_base & (table.line > 0)),
        (MacroProblem.SEVERAL_BASES, begins & (depth == 0) & ~structure.is_base),
        (MacroProblem.COMMAND_LINE, is_outside & structure.is_before_base & (table.line > 0)),
        (MacroProblem.AFTER_BASE, is_outside & ~structure.is_before_base),
        (MacroProblem.NOT_BEGUN, structure.ends & (depth == 0)),
    ]
    found: Found = [
        (MacroProblem.NO_BASE, table.unit_offset[baseless], None),
        (MacroProblem.NOT_ENDED, table.unit_offset[left_open], None),
    ]
    return found + [(problem, table.offset[which], table.line[which]) for problem, which in wrong]


def _line_problems(table: Macros, structure: _Structure) -> Found:
    """Lines inside files that are 0, or lower than the previous one of the same file."""
    in_file = structure.has_line & ((structure.depth > 0) | ~structure.has_base[structure.unit])
    # Files that the command line includes start inside the base source file, at line 0.
    no_line = in_file & (structure.depth > 0) & (table.line == 0) & ~structure.begins
    lines, begun = np.flatnonzero(in_file), np.flatnonzero(structure.begins)
    # Lines sorted by depth, with a marker wherever another file of that depth starts.
    entry = np.concatenate([lines, begun])
    depth = np.concatenate([structure.depth[lines], structure.depth[begun] + 1])
    is_marker = np.concatenate([np.zeros(len(lines), np.bool_), np.ones(len(begun), np.bool_)])
    order = np.lexsort((entry, depth, structure.unit[entry]))
    entry, depth, is_marker = entry[order], depth[order], is_marker[order]
    same = (structure.unit[entry][1:] == structure.unit[entry][:-1]) & (depth[1:] == depth[:-1])
    same &= ~is_marker[1:] & ~is_marker[:-1]
    descends = entry[1:][same & (table.line[entry][1:] < table.line[entry][:-1])]
    return [
        (MacroProblem.NO_LINE, table.offset[no_line], None),
        (MacroProblem.DESCENDS, table.offset[descends], table.line[descends]),
    ]


def _import_problems(table: Macros) -> Found:
    """Imports that do not refer to a unit, or that lead back to their own."""
    entries = np.flatnonzero(table.has_operand(np.arange(len(table)), MacroOperand.UNIT))
    target = table.value[entries]
    units = table.unit_offset.astype(np.uint64)
    place = np.minimum(np.searchsorted(units, target), max(0, len(units) - 1))
    is_unit = units[place] == target if len(units) else np.zeros(0, np.bool_)
    source, to = table.unit_of(entries[is_unit]), place[is_unit]
    in_cycle = _units_in_cycles(source, to, len(units))
    cyclic = entries[is_unit][in_cycle[source] & in_cycle[to]]
    nowhere = entries[~is_unit]
    return [
        (MacroProblem.NO_UNIT, table.offset[nowhere], table.value[nowhere]),
        (MacroProblem.CYCLE, table.offset[cyclic], table.value[cyclic]),
    ]


def _units_in_cycles(source: I64, to: I64, count: int) -> Bools:
    """The units in a cycle of imports, or on a path between two: what remains after removing the ends of paths."""
    remains = np.ones(count, np.bool_)
    for tail, tip in ((source, to), (to, source)):
        order = np.argsort(tip, kind="stable")
        bounds = np.searchsorted(tip[order], np.arange(count + 1)).tolist()
        neighbours = tail[order].tolist()
        degree = np.bincount(tail, minlength=count).tolist()
        ends = [unit for unit in range(count) if not degree[unit]]
        while ends:
            unit = ends.pop()
            remains[unit] = False
            for other in neighbours[bounds[unit] : bounds[unit + 1]]:
                degree[other] -= 1
                if not degree[other]:
                    ends.append(other)
    return remains


def _byte_class(characters: str) -> Bools:
    table = np.zeros(256, np.bool_)
    table[list(characters.encode())] = True
    return table


# Bytes above 127 are UTF-8, a backslash starts a universal character name; compilers accept the dollar sign.
_IN_NAME = _byte_class(string.ascii_letters + string.digits + "_$\\") | (np.arange(256) >= 0x80)
_DIGIT = _byte_class(string.digits)
_BLANK = _byte_class(" \t\n\r\f\v")
_SPACE, _OPEN, _CLOSE = b" ()"


def _text_problems(table: Macros, which: I64, data: U8, start: I64, end: I64) -> Found:
    """Malformed texts of entries `which`, each in `data` from `start` up to the zero byte at `end`; the first problem
    of each. A definition's text has a body; an undefinition's is a name only."""
    is_definition = np.isin(table.opcode[which], np.array((DW_MACRO.define, DW_MACRO.define_strp), np.uint8))
    name_end = _next(np.flatnonzero(~_IN_NAME[data]), start, end)
    padded = np.append(data, np.uint8(0))
    is_named = (name_end > start) & ~_DIGIT[padded[start]]
    is_function = is_definition & (padded[name_end] == _OPEN)
    close = _next(np.flatnonzero(data == _CLOSE), name_end, end)
    blank = np.flatnonzero(_BLANK[data])
    blanks = np.searchsorted(blank, close) - np.searchsorted(blank, name_end)
    body = np.where(is_function, np.minimum(close + 1, end), name_end)
    has_one_space = (padded[body] == _SPACE) & ~_BLANK[padded[np.minimum(body + 1, end)]]
    wrong = {
        MacroProblem.NAME: ~is_named | (~is_definition & (name_end < end)),
        MacroProblem.PARAMETERS: is_function & ((close >= end) | (blanks > 0)),
        MacroProblem.SPACE: is_definition & ~has_one_space,
    }
    problem = np.select(list(wrong.values()), [np.uint8(one) for one in wrong], np.uint8(0))
    return [(one, table.offset[which[problem == one]], None) for one in wrong]


def _next(places: I64, start: I64, end: I64) -> I64:
    """The first of `places` at or after each start; its end if there is none before that."""
    found: I64 = np.append(places, np.iinfo(np.int64).max)[np.searchsorted(places, start)]
    np.minimum(found, end, out=found)
    return found
