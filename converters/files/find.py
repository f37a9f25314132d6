"""The row in force at each PC, from every unwind section of a file: one object per section and PC."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.section import ParseError
from ..arch.table import Architecture
from ..arrays import values_at
from ..elf.admission import refuse_relocatable
from ..elf.image import ElfImage, ElfSection, open_elf
from ..elf.symbols import addresses_asked_for
from ..rules import CfaKind, RaState, RuleKind
from ..sframe.lookup import fres_at
from ..sframe.read import rows_of_fres
from ..sframe.section import SframeColumns
from ..table.lookup import NOTHING, addresses, find_rows
from ..table.model import FunctionColumns, RegisterRule, Row, table_of
from .read_elf import table_of_section

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOURCES = (".eh_frame", ".debug_frame", ".sframe")


@dataclass(frozen=True, slots=True)
class FoundRow:
    """The row in force at a PC, from one section (`source`).

    The function that contains the PC starts at `start` and has `size` bytes; without one, `size` is 0. `row` is None if
    the function has no row for the PC. The row's offset is relative to `start`, or to the start of each block of
    `repetition` bytes. `name` is the symbol that was given instead of the PC.
    """

    pc: int
    source: str
    start: int = 0
    size: int = 0
    repetition: int = 0
    row: Row | None = None
    name: str | None = None


def find_in_file(path: str | os.PathLike[str], pcs: Iterable[int | str]) -> tuple[Architecture, tuple[FoundRow, ...]]:
    """The row in force at each PC, from every unwind section of an ELF file, PC by PC.

    A PC may be the name of a function: that is its start, or the starts of all local functions of that name. Raises
    OSError, and ParseError for a malformed section and for a name that no function has.
    """
    image = open_elf(path)
    refuse_relocatable(image)
    asked = addresses_asked_for(image, pcs)
    pc = addresses([address for address, _ in asked])
    headers = [header for name in SOURCES for header in image.named(name) if not header.is_nobits]
    if not headers:
        raise ParseError("", None, "", f"has no unwind information: none of {', '.join(SOURCES)}")
    by_source = [_find(image, header, pc) for header in headers]
    return image.architecture, tuple(
        found if name is None else replace(found, name=name)
        for (_, name), *one_pc in zip(asked, *by_source, strict=True)
        for found in one_pc
    )


def _find(image: ElfImage, header: ElfSection, pc: NDArray[np.uint64]) -> list[FoundRow]:
    """The row in force at each PC, from one section."""
    section = image.contents(header)
    functions: SframeColumns | FunctionColumns
    if header.name == ".sframe" and len(section):
        at = fres_at(section, pc)
        function, functions = at.fde, at.columns
        row = np.where(at.found, np.arange(len(pc)), NOTHING)
        rows, rules, expressions = rows_of_fres(at.fres, functions.architecture, functions.version)
        # A table with rows but no functions: enough to get the rows as objects.
        view = replace(table_of(functions.architecture, ()), rows=rows, rules=rules, expressions=expressions)
    else:
        view = table_of_section(image, section)
        found, functions = find_rows(view, pc), view.functions
        function, row = found.function, found.row
    columns = (values_at(column, function, 0) for column in (functions.start, functions.size, functions.repetition))
    return [
        FoundRow(one_pc, header.name, start, size, repetition, None if one_row == NOTHING else view.row(one_row))
        for one_pc, one_row, start, size, repetition in zip(
            pc.tolist(), row.tolist(), *(column.tolist() for column in columns), strict=True
        )
    ]


def found_text(architecture: Architecture, found: Iterable[FoundRow]) -> str:
    """A paragraph per PC, with one line per section; rules in readelf's shorthand."""
    lines: list[str] = []
    asked = None
    for one in found:
        if (one.pc, one.name) != asked:
            asked = one.pc, one.name
            lines.append(f"{one.pc:#x}" + (f" <{one.name}>" if one.name else ""))
        lines.append(f"  {one.source:<12} {_source_text(architecture, one)}")
    return "\n".join(lines)


def _source_text(architecture: Architecture, found: FoundRow) -> str:
    if not found.size:
        return "no function"
    function = f"{found.start:#x}..{found.start + found.size:#x}"
    if found.row is None:
        return f"{function} no row"
    block = f" of each {found.repetition} bytes" if found.repetition else ""
    rules = [f"{name}={rule}" for name, rule in _rules(architecture, found.row).items()]
    return " ".join([f"{function} +{found.row.offset:#x}{block}:", *rules])


def found_json(architecture: Architecture, found: FoundRow) -> dict[str, Any]:
    """The JSON object: absolute addresses, the row's `offset`, and `rules` by register, None without a row."""
    row = found.row
    return {
        "pc": found.pc,
        **({} if found.name is None else {"name": found.name}),
        "source": found.source,
        "start": found.start if found.size else None,
        "size": found.size if found.size else None,
        "repetition": found.repetition,
        "offset": None if row is None else row.offset,
        "rules": None if row is None else _rules(architecture, row),
    }


def _rules(architecture: Architecture, row: Row) -> dict[str, str]:
    """The rules for the CFA and registers, as in `readelf -wF`; `[s]` marks a signed return address."""
    roles = {architecture.stack_pointer: "sp", architecture.frame_pointer: "fp", architecture.return_address: "ra"}

    def name(register: int) -> str:
        return roles.get(register, f"r{register}")

    rules = {}
    match row.cfa.kind, row.cfa.value:
        case CfaKind.REGISTER, int(value):
            rules["cfa"] = f"{name(row.cfa.register)}{value:+d}"
        case CfaKind.EXPRESSION, bytes(expression):
            rules["cfa"] = f"exp({expression.hex()})"
    for rule in row.registers:
        mark = _SIGNED[row.ra_state] if rule.register == architecture.return_address else ""
        rules[name(rule.register)] = _rule(rule, name) + mark
    if row.ra_state is not RaState.PLAIN:
        rules.setdefault("ra", f"u{_SIGNED[row.ra_state]}")
    return rules


_SIGNED = {RaState.PLAIN: "", RaState.SIGNED: "[s]", RaState.SIGNED_WITH_PC: "[s, pc]"}


def _rule(rule: RegisterRule, name: Callable[[int], str]) -> str:
    match rule.kind, rule.value:
        case RuleKind.OFFSET, int(value):
            return f"c{value:+d}"
        case RuleKind.VAL_OFFSET, int(value):
            return f"v{value:+d}"
        case RuleKind.REGISTER, int(register):
            return name(register)
        case ((RuleKind.EXPRESSION | RuleKind.VAL_EXPRESSION), bytes(expression)):
            return f"{'v' * (rule.kind is RuleKind.VAL_EXPRESSION)}exp({expression.hex()})"
        case RuleKind.SAME_VALUE, _:
            return "s"
        case RuleKind.UNDEFINED, _:
            return "undefined"
    return "u"
