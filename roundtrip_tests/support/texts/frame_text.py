"""Every rule of every register that `readelf -wNF` prints for a file of any architecture, and a table's, likewise.

Strategy: no architecture's register names are known here: `-wNf` prints them with their numbers. Rules are kept as
readelf writes them, registers by number; `u` is "no rule" and DW_CFA_undefined, and is left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from unwindkit import Function, Row, UnwindTable
from unwindkit.converters.rules import CfaKind, RuleKind
from unwindkit.converters.table.model import RegisterRule, table_of

from ..oracles import run_oracle

Rules = tuple[str, tuple[tuple[int, str], ...]]


@dataclass(frozen=True, slots=True)
class Frame:
    """One function: its range, and the rules from each PC on: the CFA's, and by register. `return_column` is the
    register of the return address, where it is known."""

    start: int
    end: int
    rows: tuple[tuple[int, Rules], ...]
    return_column: int = field(default=-1, compare=False)


_TITLE = re.compile(
    r'(\S+) \S+ \S+ (?:CIE "(.*)" cf=\d+ df=-?\d+ ra=(\d+)|FDE cie=(\S+) pc=(?:\w+:)?([0-9a-f]+)\.\.([0-9a-f]+))'
)
_CELL = re.compile(r"\S+(?: \([^)]*\))?")
_NAME = re.compile(r"\br(\d+) \((\$?\w+)\)")


def readelf_frames(path: Path, section: str) -> list[Frame]:
    """The FDEs of all sections of that name, in file order."""
    rows, instructions = (run_oracle("readelf", option, path) for option in ("-wNF", "-wNf"))
    return parse_frames(rows, instructions, section)


def parse_frames(rows: str, instructions: str, section: str) -> list[Frame]:
    """As `readelf_frames`, from the text of both dumps."""
    numbers = {name: int(number) for number, name in _NAME.findall(instructions)}
    parts = re.split(r"^Contents of the (\S+) section.*:$", rows, flags=re.MULTILINE)
    found: list[Frame] = []
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        if name == section:
            found += _section_frames(body, numbers)
    return found


def _section_frames(text: str, numbers: dict[str, int]) -> Iterator[Frame]:
    cies: dict[str, tuple[int, Rules]] = {}
    entries = []
    for entry in re.split(r"\n\n(?=[0-9a-f]+ )", "\n" + text):
        if not entry.strip() or " ZERO terminator" in entry:
            continue
        title, _, body = entry.strip("\n").partition("\n")
        match = _TITLE.fullmatch(title)
        assert match is not None, title
        entries.append((match.groups(), body))
    # In .debug_frame, a CIE may come after its FDEs.
    for (offset, _, ra, cie, start, end), body in sorted(entries, key=lambda entry: entry[0][3] is not None):
        heading, *lines = body.split("\n")
        column = int(ra) if cie is None else cies[cie][0]
        parse = _parser(numbers, column, heading)
        rows = [(int(line.split()[0], 16), parse(line.partition(" ")[2])) for line in lines]
        if cie is None:
            cies[offset] = column, rows[-1][1] if rows else ("", ())
            continue
        first, last = int(start, 16), int(end, 16)
        # A row at the PC of another replaces it; rows past the end are left for the reader to cut.
        kept = dict(rows or [(first, cies[cie][1])])
        inside = tuple((pc, rules) for pc, rules in kept.items() if first <= pc < last or pc == first)
        yield Frame(first, last, inside, column)


@functools.cache
def _cells(text: str) -> tuple[str, ...]:
    return tuple(_CELL.findall(text))


def _parser(numbers: dict[str, int], return_column: int, heading: str) -> Callable[[str], Rules]:
    """The function that turns the cells of a row below that heading into rules."""

    def number(name: str) -> int:
        if name == "ra":
            return return_column
        return numbers[name] if name in numbers else int(name.removeprefix("r"))

    columns = [number(name) for name in heading.split()[2:]]

    def parse(text: str) -> Rules:
        cfa, *cells = _cells(text)
        # A negative offset may be printed `r7+-8`.
        if base := re.fullmatch(r"(\$?[a-z]\w*?)\+?(-?\d+|(?<=-)\d+)", cfa):
            # A row without CFA has register 0, whose name no instruction need have told.
            is_told = base[1] == "ra" or base[1] in numbers or base[1].removeprefix("r").isdigit()
            cfa = f"r{number(base[1]) if is_told else 0}{int(base[2]):+d}"
        rules = {}
        for column, cell in zip(columns, cells, strict=True):
            name = cell.partition(" ")[0]
            is_register = name not in ("u", "s", "exp", "vexp", "a", "n") and not re.fullmatch(r"[cv][+-]\d+", name)
            rules[column] = f"r{number(name)}" if is_register else name
        return cfa, tuple(sorted((column, rule) for column, rule in rules.items() if rule != "u"))

    return functools.cache(parse)


def table_frames(table: UnwindTable) -> list[Frame]:
    """A table's functions in the same notation, in the table's order."""
    runs: dict[tuple[Row, ...], tuple[tuple[int, Rules], ...]] = {}

    def frame(function: Function) -> Frame:
        if function.rows not in runs:
            runs[function.rows] = tuple((row.offset, rules_of(row)) for row in function.rows)
        rows = tuple((function.start + offset, rules) for offset, rules in runs[function.rows])
        return Frame(function.start, function.start + function.size, rows)

    return [frame(function) for function in table]


def without_windows(table: UnwindTable) -> UnwindTable:
    """What readelf shows of a table: without registers in the slots of DW_CFA_GNU_window_save."""
    if table.architecture.name != "sparc64":
        return table
    saved = {RegisterRule(16 + index, RuleKind.OFFSET, 8 * index) for index in range(16)}
    functions = [
        replace(
            one,
            rows=tuple(
                replace(row, registers=tuple(rule for rule in row.registers if rule not in saved)) for row in one.rows
            ),
        )
        for one in table
    ]
    return table_of(table.architecture, functions)


def rules_of(row: Row) -> Rules:
    """A row as readelf shows it, if it shows a CFA."""
    cfa = {CfaKind.NONE: "r0+0", CfaKind.EXPRESSION: "exp"}.get(
        row.cfa.kind
    ) or f"r{row.cfa.register}{row.cfa.value:+d}"
    shown = []
    for rule in row.registers:
        match rule.kind:
            case RuleKind.OFFSET | RuleKind.VAL_OFFSET:
                shown.append((rule.register, f"{'c' if rule.kind is RuleKind.OFFSET else 'v'}{rule.value:+d}"))
            case RuleKind.REGISTER:
                shown.append((rule.register, f"r{rule.value}"))
            case RuleKind.SAME_VALUE:
                shown.append((rule.register, "s"))
            case RuleKind.EXPRESSION | RuleKind.VAL_EXPRESSION:
                shown.append((rule.register, "exp" if rule.kind is RuleKind.EXPRESSION else "vexp"))
    return cfa, tuple(shown)
