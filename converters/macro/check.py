"""What is wrong in macro information: its structure, and the texts of definitions.

Strategy: a definition's text is a proper name, a parameter list without spaces, and one space before the body (DWARF4
6.3.1.1). The places of bytes of each class are found once in the whole section, and searched for all texts at once.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

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
    """What may be wrong with macro information; a finding is at an entry, or at a unit; its value is the line or the
    offset in question."""

    NO_BASE = 1, "unit has no base source file", "units have no base source file"
    BASE_LINE = (
        2,
        "base source file is begun at a line other than 0",
        "base source files are begun at lines other than 0",
    )
    SEVERAL_BASES = 3, "file is begun behind the base source file", "files are begun behind the base source file"
    COMMAND_LINE = 4, "entry before the base source file has a line", "entries before the base source file have lines"
    BEHIND_BASE = 5, "entry stands behind the base source file", "entries stand behind the base source file"
    NOT_BEGUN = 6, "file is ended that was not begun", "files are ended that were not begun"
    NOT_ENDED = 7, "file is begun and not ended in its unit", "files are begun and not ended in their units"
    NO_LINE = 8, "entry inside a file has line 0", "entries inside files have line 0"
    DESCENDS = 9, "line is below the one before in its file", "lines are below the ones before in their files"
    NAME = 10, "macro has no proper name", "macros have no proper names"
    SPACE = 11, "definition is not behind exactly one space", "definitions are not behind exactly one space"
    PARAMETERS = 12, "parameter list has spaces or no end", "parameter lists have spaces or no ends"
    NO_STRING = 13, "text is outside .debug_str", "texts are outside .debug_str"
    NO_UNIT = 14, "import is of no unit", "imports are of no units"
    CYCLE = 15, "import leads back to its own unit", "imports lead back to their own units"


Found = list[tuple[MacroProblem, "I64", "U64 | None"]]


def check_macros(section: Section, sources: MacroSources | None = None) -> Findings[MacroProblem]:
    """What is wrong with a section of macro information that can be read; `sources` have the texts of others.

    Raises ParseError where it cannot be read.
    """
    table = read_macros(section)
    entries = np.arange(len(table))
    structure = _structure(table)
    found = _file_problems(table, structure) + _line_problems(table, structure)
    has_text = np.flatnonzero(table.has_operand(entries, MacroOperand.TEXT))
    start = table.text_start[has_text]
    found += _name_problems(table, has_text, table.text, start, start + table.text_size[has_text])
    has_offset = np.flatnonzero(table.has_operand(entries, MacroOperand.STRP))
    if sources is not None and sources.strings is not None:
        data, zeros = sources.strings.data, sources.strings.zeros
        inside = table.value[has_offset] <= np.uint64(zeros[-1]) if len(zeros) else np.zeros(len(has_offset), np.bool_)
        outside = has_offset[~inside]
        found.append((MacroProblem.NO_STRING, table.offset[outside], table.value[outside]))
        which = has_offset[inside]
        begin = table.value[which].astype(np.int64)
        end = zeros[np.searchsorted(zeros, begin)] if len(zeros) else begin
        found += _name_problems(table, which, data, begin, end)
    return findings(MacroProblem, found + _import_problems(table))


def _name_problems(table: Macros, which: I64, data: NDArray[np.uint8], start: I64, end: I64) -> Found:
    definitions = (DW_MACRO.define, DW_MACRO.define_strp)
    is_definition = np.isin(table.opcode[which], np.array(definitions, np.uint8))
    fault = name_faults(data, start, end, is_definition)
    kinds = {
        NameFault.NAME: MacroProblem.NAME,
        NameFault.SPACE: MacroProblem.SPACE,
        NameFault.PARAMETERS: MacroProblem.PARAMETERS,
    }
    return [(problem, table.offset[which[fault == one]], None) for one, problem in kinds.items()]


@dataclass(frozen=True, slots=True, eq=False)
class _Structure:
    """Of each entry: its `unit`, whether it begins a file, ends one, has a line; how many files are open before it
    (`depth`) and behind it; whether it begins its unit's first outer file (`is_base`), and stands before that."""

    unit: I64
    begins: Bools
    ends: Bools
    has_line: Bools
    depth: I64
    depth_behind: I64
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
    # An end too many closes nothing: what is counted is above the lowest so far. Each unit is put far below the one
    # before, so that the lowest of that is not its own.
    below = unit * (2 * len(table) + 2)
    lowest = np.minimum.accumulate(np.minimum(open_files, 0) - below) + below
    behind = open_files - lowest
    is_first = np.zeros(len(table), np.bool_)
    is_first[table.first[:-1][np.diff(table.first) > 0]] = True
    depth = np.where(is_first, 0, np.append(0, behind[:-1]) if len(table) else behind)
    outer = np.flatnonzero(begins & (depth == 0))
    bases = outer[np.unique(unit[outer], return_index=True)[1]]
    is_base = np.zeros(len(table), np.bool_)
    is_base[bases] = True
    base_of = np.full(len(table.body), -1, np.int64)
    base_of[unit[bases]] = bases
    has_base = base_of >= 0
    is_before = entries < base_of[unit]
    has_line = table.has_operand(entries, MacroOperand.LINE)
    return _Structure(unit, begins, ends, has_line, depth, behind, is_base, is_before, has_base)


def _file_problems(table: Macros, structure: _Structure) -> Found:
    """Files that are begun and ended where they should not be, and what stands outside of them."""
    begins, depth = structure.begins, structure.depth
    in_based = structure.has_base[structure.unit]
    is_outside = structure.has_line & ~begins & (depth == 0) & in_based
    has_entries = np.diff(table.first) > 0
    last = table.first[1:][has_entries] - 1
    left_open = np.flatnonzero(has_entries)[structure.depth_behind[last] > 0]
    # In .debug_macro a unit that others import has no file of its own.
    baseless = np.flatnonzero(has_entries & ~structure.has_base & (not table.has_headers))
    base_line = structure.is_base & (table.line > 0)
    command_line = is_outside & structure.is_before_base & (table.line > 0)
    wrong: list[tuple[MacroProblem, Bools]] = [
        (MacroProblem.BASE_LINE, base_line),
        (MacroProblem.SEVERAL_BASES, begins & (depth == 0) & ~structure.is_base),
        (MacroProblem.COMMAND_LINE, command_line),
        (MacroProblem.BEHIND_BASE, is_outside & ~structure.is_before_base),
        (MacroProblem.NOT_BEGUN, structure.ends & (depth == 0)),
    ]
    return [
        (MacroProblem.NO_BASE, table.unit_offset[baseless], None),
        (MacroProblem.NOT_ENDED, table.unit_offset[left_open], None),
        *((problem, table.offset[which], table.line[which]) for problem, which in wrong),
    ]


def _line_problems(table: Macros, structure: _Structure) -> Found:
    """Lines inside files: 0, or below the one before in the same file."""
    in_file = structure.has_line & ((structure.depth > 0) | ~structure.has_base[structure.unit])
    # What the command line includes is begun inside the base source file, at line 0.
    no_line = in_file & (structure.depth > 0) & (table.line == 0) & ~structure.begins
    lines, begun = np.flatnonzero(in_file), np.flatnonzero(structure.begins)
    # Lines at their file's depth, and between them marks where another file of that depth is begun.
    entry = np.concatenate([lines, begun])
    depth = np.concatenate([structure.depth[lines], structure.depth[begun] + 1])
    is_mark = np.concatenate([np.zeros(len(lines), np.bool_), np.ones(len(begun), np.bool_)])
    order = np.lexsort((entry, depth, structure.unit[entry]))
    entry, depth, is_mark = entry[order], depth[order], is_mark[order]
    same = (structure.unit[entry][1:] == structure.unit[entry][:-1]) & (depth[1:] == depth[:-1])
    same &= ~is_mark[1:] & ~is_mark[:-1]
    descends = entry[1:][same & (table.line[entry][1:] < table.line[entry][:-1])]
    return [
        (MacroProblem.NO_LINE, table.offset[no_line], None),
        (MacroProblem.DESCENDS, table.offset[descends], table.line[descends]),
    ]


def _import_problems(table: Macros) -> Found:
    """Imports of what is no unit, and such as lead back."""
    entries = np.flatnonzero(table.has_operand(np.arange(len(table)), MacroOperand.UNIT))
    target = table.value[entries]
    units = table.unit_offset.astype(np.uint64)
    place = np.minimum(np.searchsorted(units, target), max(0, len(units) - 1))
    is_unit = units[place] == target if len(units) else np.zeros(0, np.bool_)
    source, to = table.unit_of(entries[is_unit]), place[is_unit]
    rest = _cyclic(source, to, len(units))
    cyclic = entries[is_unit][rest[source] & rest[to]]
    nowhere = entries[~is_unit]
    return [
        (MacroProblem.NO_UNIT, table.offset[nowhere], table.value[nowhere]),
        (MacroProblem.CYCLE, table.offset[cyclic], table.value[cyclic]),
    ]


def _cyclic(source: I64, to: I64, count: int) -> Bools:
    """The units that are in a cycle of imports, or between two: what is left once ends of paths are taken away."""
    rest = np.ones(count, np.bool_)
    for tail, head in ((source, to), (to, source)):
        order = np.argsort(head, kind="stable")
        bounds = np.searchsorted(head[order], np.arange(count + 1)).tolist()
        neighbours = tail[order].tolist()
        degree = np.bincount(tail, minlength=count).tolist()
        ends = [unit for unit in range(count) if not degree[unit]]
        while ends:
            unit = ends.pop()
            rest[unit] = False
            for other in neighbours[bounds[unit] : bounds[unit + 1]]:
                degree[other] -= 1
                if not degree[other]:
                    ends.append(other)
    return rest


class NameFault(IntEnum):
    """What is wrong with a text; the first that applies."""

    NONE = 0
    NAME = 1
    SPACE = 2
    PARAMETERS = 3


_SPACE, _OPEN, _CLOSE = b" ()"


def _bytes_of(characters: str) -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[list(characters.encode())] = True
    return table


# Bytes above 127 are of UTF-8, a backslash begins a universal character name; compilers take the dollar.
_IN_NAME = _bytes_of(string.ascii_letters + string.digits + "_$\\") | (np.arange(256) >= 0x80)
_DIGIT = _bytes_of(string.digits)
_BLANK = _bytes_of(" \t\n\r\f\v")


def name_faults(data: U8, start: I64, end: I64, is_definition: NDArray[np.bool_]) -> U8:
    """The fault of each text, from `start` up to the zero byte at `end`; what is no definition is a name alone."""
    name_end = _next(np.flatnonzero(~_IN_NAME[data]), start, end)
    padded = np.append(data, np.uint8(0))
    is_named = (name_end > start) & ~_DIGIT[padded[start]]
    is_function = is_definition & (padded[name_end] == _OPEN)
    close = _next(np.flatnonzero(data == _CLOSE), name_end, end)
    blank = np.flatnonzero(_BLANK[data])
    blanks = np.searchsorted(blank, close) - np.searchsorted(blank, name_end)
    bad_parameters = is_function & ((close >= end) | (blanks > 0))
    body = np.where(is_function, np.minimum(close + 1, end), name_end)
    is_apart = (padded[body] == _SPACE) & ~_BLANK[padded[np.minimum(body + 1, end)]]
    fault = np.zeros(len(start), np.uint8)
    fault[is_definition & ~is_apart] = NameFault.SPACE
    fault[bad_parameters] = NameFault.PARAMETERS
    fault[~is_named | (~is_definition & (name_end < end))] = NameFault.NAME
    return fault


def _next(places: I64, start: I64, end: I64) -> I64:
    """The first of some places from each start on; its end where none is before that."""
    found: I64 = np.append(places, np.iinfo(np.int64).max)[np.searchsorted(places, start)]
    np.minimum(found, end, out=found)
    return found
