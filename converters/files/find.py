"""The row in force at each PC, from every unwind section of a file: one object per section and PC.

Strategy: a relocatable file is laid out, so that its places are addresses like those of a linked file, and the rows are
then given relative to their sections. An archive is that many files, whose rows are sorted by the PCs asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.arguments import check_place, checked, each
from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError
from ..arch.table import Architecture
from ..arrays import values_at
from ..elf.debug_files import BY_LINKS, DebugFiles
from ..elf.image import ElfImage, ElfSection
from ..elf.inputs import Input
from ..elf.relocation import LaidOut, lay_out, relocate
from ..rules import CfaKind, RaState, RuleKind
from ..sframe.lookup import fres_at
from ..sframe.read import rows_of_fres
from ..sframe.section import SframeColumns
from ..table.lookup import NOTHING, addresses, find_rows
from ..table.model import FunctionColumns, RegisterRule, Row, table_of
from .inputs import KINDS, Raw, naming_file, open_parts
from .places import Place, find_places, refuse_missing
from .read_elf import table_of_section

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOURCES = (".eh_frame", ".debug_frame", ".sframe")


@dataclass(frozen=True, slots=True)
class FoundRow:
    """The row in force at a PC, from one section (`source`).

    The function that contains the PC starts at `start` and has `size` bytes; without one, `size` is 0. `row` is None if
    the function has no row for the PC. The row's offset is relative to `start`, or to the start of each block of
    `repetition` bytes. `name` is the symbol that was given instead of the PC. In a relocatable file, PC and start are
    offsets in the `section` of that name; `member` is the file in an archive; `file` is the debug file that the
    source is in. They are "" for any other file.
    """

    pc: int
    source: str
    start: int = 0
    size: int = 0
    repetition: int = 0
    row: Row | None = None
    name: str | None = None
    section: str = ""
    member: str = ""
    file: str = ""


@checked(debug=DebugFiles)
def find_in_file(
    path: Input,
    pcs: Iterable[int | str],
    *,
    source: str | None = None,
    address: int = 0,
    architecture: str | None = None,
    debug: DebugFiles = BY_LINKS,
) -> tuple[Architecture, tuple[FoundRow, ...]]:
    """The row in force at each PC, from every unwind section of a file and its debug file (`debug`), PC by PC.

    A PC may be the name of a function: that is its start, or the starts of all local functions of that name. In a
    relocatable file a PC is an offset in every section, SECTION+OFFSET one in sections of that name; what has no
    function there is left out. An archive is searched member by member.

    `source` is the kind of a raw section, at the virtual address `address`, or the section of an ELF file to search;
    `architecture` has to be given for all raw sections but SFrame. Raises OSError, ParseError for a malformed section
    and for a name that no function has, and BuildError if something is missing or must not be given.
    """
    wanted = list(pcs)
    each(check_place)(wanted, "pcs")
    found = _Found()
    for part in open_parts(path, Raw(source, address, architecture), debug):
        if part.image is not None:
            names = searched_names(part.image, source)
            with naming_file(part.file if part.member is not None else ""):
                _find_in_image(found, part.image, part.member or "", wanted, names)
    if found.architecture is None:
        raise no_member_has_any()
    refuse_missing(wanted, found.places)
    return found.architecture, tuple(one for index in range(len(wanted)) for one in found.at(index, wanted[index]))


@dataclass(slots=True, eq=False)
class _Found:
    """What was found so far: the architecture, the places, the rows by index of the PC, the names of all sources."""

    architecture: Architecture | None = None
    places: list[Place] = field(default_factory=list)
    rows: dict[int, list[FoundRow]] = field(default_factory=dict)
    sources: dict[str, None] = field(default_factory=dict)

    def at(self, index: int, pc: int | str) -> list[FoundRow]:
        """The rows at a PC. For an offset that no section of code has, each source has none."""
        if index in self.rows or isinstance(pc, str):
            return self.rows.get(index, [])
        return [FoundRow(pc, name) for name in self.sources]


def searched_names(image: ElfImage, kind: str | None) -> tuple[str, ...]:
    """The names of the sections to search."""
    if not image.is_elf:
        return (image.sections[-1].name,)
    return SOURCES if kind is None else (KINDS[kind],)


def searched_sections(image: ElfImage, names: tuple[str, ...], member: str) -> list[ElfSection]:
    """The sections to search. A `member` of an archive may have none; raises ParseError for any other file."""
    found = [header for name in names for header in image.named(name) if not header.is_nobits]
    if not found and not member:
        raise ParseError("", None, "", f"has no unwind information: none of {', '.join(names)}")
    return found


def no_member_has_any() -> ParseError:
    """The error for an archive without any unwind information."""
    return ParseError("", None, "", f"no file in the archive has unwind information: none of {', '.join(SOURCES)}")


def _find_in_image(
    found: _Found, image: ElfImage, member: str, wanted: list[int | str], names: tuple[str, ...]
) -> None:
    """Add the rows of one image. A member of an archive may have none."""
    architecture = image.architecture
    if not searched_sections(image, names, member):
        return
    if found.architecture not in (None, architecture):
        reason = f"is that of {architecture.name}, but other members are for {found.architecture.name}"
        raise ParseError("", None, "e_machine", reason)
    found.architecture = architecture
    laid = lay_out(image)
    headers = searched_sections(laid.image, names, member)
    found.sources |= {header.name: None for header in headers}
    places = find_places(laid, wanted)
    found.places += places
    pc = addresses([place.address for place in places])
    for place, *rows in zip(places, *(_find(laid, header, pc) for header in headers), strict=True):
        # In a relocatable file, a number is an offset in every section: those without a function are left out.
        if any(row.size for row in rows) or place.name is not None or not place.section:
            base = place.address - place.pc
            found.rows.setdefault(place.asked, []).extend(
                replace(
                    row,
                    pc=place.pc,
                    start=row.start - base if row.size else 0,
                    name=place.name,
                    section=place.section,
                    member=member,
                )
                for row in rows
            )


def _find(laid: LaidOut, header: ElfSection, pc: NDArray[np.uint64]) -> list[FoundRow]:
    """The row in force at each PC, from one section."""
    section, part = relocate(laid, header), laid.image.part_of(header)
    file = "" if part is None else part.path
    functions: SframeColumns | FunctionColumns
    if header.name == ".sframe" and len(section):
        at = fres_at(section, pc)
        function, functions = at.fde, at.columns
        row = np.where(at.found, np.arange(len(pc)), NOTHING)
        rows, rules, expressions = rows_of_fres(at.fres, functions.architecture, functions.version)
        # A table with rows but no functions: enough to get the rows as objects.
        view = replace(table_of(functions.architecture, ()), rows=rows, rules=rules, expressions=expressions)
    else:
        view = table_of_section(laid.image, section)
        found, functions = find_rows(view, pc), view.functions
        function, row = found.function, found.row
    columns = (values_at(column, function, 0) for column in (functions.start, functions.size, functions.repetition))
    return [
        FoundRow(
            one_pc,
            header.name,
            start,
            size,
            repetition,
            None if one_row == NOTHING else view.row(one_row),
            file=file,
        )
        for one_pc, one_row, start, size, repetition in zip(
            pc.tolist(), row.tolist(), *(column.tolist() for column in columns), strict=True
        )
    ]


def found_text(architecture: Architecture, found: Iterable[FoundRow]) -> str:
    """A paragraph per PC, with one line per section; rules in readelf's shorthand."""
    lines: list[str] = []
    title = None
    for one in found:
        if (one_title := _title(one)) != title:
            title = one_title
            lines.append(title)
        lines.append(f"  {one.source:<12} {_source_text(architecture, one)}")
    return "\n".join(lines)


def _title(found: FoundRow) -> str:
    """The PC, with the member and the section that it is in."""
    place = f"{found.section}+{found.pc:#x}" if found.section else f"{found.pc:#x}"
    return "".join(
        [f"{found.member}: " if found.member else "", place, "" if found.name is None else f" <{found.name}>"]
    )


def _source_text(architecture: Architecture, found: FoundRow) -> str:
    if not found.size:
        return "no function"
    function = f"{found.start:#x}..{found.start + found.size:#x}"
    if found.row is None:
        return f"{function} no row"
    block = f" of each {found.repetition} bytes" if found.repetition else ""
    rules = [f"{name}={rule}" for name, rule in row_rules(architecture, found.row).items()]
    return " ".join([f"{function} +{found.row.offset:#x}{block}:", *rules])


def found_json(architecture: Architecture, found: FoundRow) -> dict[str, Any]:
    """The JSON object: addresses, the row's `offset`, and `rules` by register, None without a row."""
    row = found.row
    return {
        "pc": found.pc,
        **({} if found.name is None else {"name": found.name}),
        **({"section": found.section} if found.section else {}),
        **({"member": found.member} if found.member else {}),
        "source": found.source,
        **({"file": found.file} if found.file else {}),
        "start": found.start if found.size else None,
        "size": found.size if found.size else None,
        "repetition": found.repetition,
        "offset": None if row is None else row.offset,
        "rules": None if row is None else row_rules(architecture, row),
    }


def row_rules(architecture: Architecture, row: Row) -> dict[str, str]:
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
