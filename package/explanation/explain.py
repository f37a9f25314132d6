"""Explain what describes a function: records byte by byte, rows, STACK CFI lines, code.

Strategy: the table says which record describes the PC (`origin`) and what its rows are; the declarations say which byte
is which field. Rows are never read from the explained bytes a second time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..converters.arch.table import Architecture
from ..converters.elf.debug_files import BY_LINKS, DebugFiles
from ..converters.elf.image import ElfImage, ElfSection
from ..converters.elf.inputs import Input
from ..converters.elf.relocation import LaidOut, lay_out, relocate
from ..converters.files.find import no_member_has_any, row_rules, searched_names, searched_sections
from ..converters.files.inputs import Raw, naming_file, open_parts
from ..converters.files.places import Place, find_places, refuse_missing
from ..converters.files.read_elf import DIALECTS, table_of_section
from ..converters.refusals import Reason, count_reasons
from ..converters.table.lookup import addresses, find_rows
from ..converters.table.model import Function, FunctionFlag, Row, UnwindTable
from ..schemas.arguments import check_place, checked
from ..schemas.pointers import PointerBases
from ..schemas.section import Section
from .cfi import FunctionPlace, explain_entries
from .code import disassembled
from .model import ExplainedRecord, Explanation


@checked(debug=DebugFiles)
def explain(
    path: Input,
    pc: int | str,
    *,
    source: str | None = None,
    address: int = 0,
    architecture: str | None = None,
    debug: DebugFiles = BY_LINKS,
) -> tuple[Explanation, ...]:
    """Explain the records that describe a PC, field by field: one explanation for each place that `pc` means.

    `pc` is an address, the name of a function, or SECTION+OFFSET, as for `find_in_file`; so are the other parameters.
    Raises OSError, ParseError for a malformed section and for a name that no function has, and BuildError if something
    is missing or must not be given.
    """
    check_place(pc, "pc")
    found: list[Explanation] = []
    places: list[Place] = []
    has_any = False
    for part in open_parts(path, Raw(source, address, architecture), debug):
        if part.image is None:
            continue
        with naming_file(part.file if part.member is not None else ""):
            laid = lay_out(part.image)
            names = searched_names(part.image, source)
            headers = searched_sections(laid.image, names, part.member or "")
            if headers:
                has_any = True
                here = find_places(laid, [pc])
                places += here
                found += _explained(part.file, laid, headers, here)
    if not has_any:
        raise no_member_has_any()
    refuse_missing([pc], places)
    # A number is an offset in every section of a relocatable file: those without a function are left out.
    return tuple(one for one in found if one.size) or tuple(found[:1])


def _explained(file: str, laid: LaidOut, headers: list[ElfSection], places: list[Place]) -> Iterator[Explanation]:
    """Explain places in one file, whose sections are read once."""
    read = [(section, table_of_section(laid.image, section)) for section in (relocate(laid, one) for one in headers)]
    for place in places:
        yield _explained_at(file, laid, read, place)


def _explained_at(file: str, laid: LaidOut, read: list[tuple[Section, UnwindTable]], place: Place) -> Explanation:
    rules: dict[str, str] = {}
    records: list[ExplainedRecord] = []
    notes: list[str] = []
    first: tuple[Function, UnwindTable] | None = None
    for section, view in read:
        index = int(find_rows(view, addresses([place.address])).function[0])
        if index < 0:
            rules[section.name] = "no function"
            continue
        function = view.function(index)
        rows = _RowTexts(view.architecture, function, place.address - place.pc)
        rules[section.name] = rows.at(place.address - function.start)
        if function.flags & FunctionFlag.UNKNOWN_AUGMENTATION:
            notes.append(f"{section.name}: the CIE's augmentation is unknown, so there are no rows")
        records += _records(laid.image, section, function, rows)
        first = first or (function, view.select(np.array([index])))
    return _assembled(file, laid, place, first, rules, tuple(records), notes)


def _assembled(
    file: str,
    laid: LaidOut,
    place: Place,
    first: tuple[Function, UnwindTable] | None,
    rules: dict[str, str],
    records: tuple[ExplainedRecord, ...],
    notes: list[str],
) -> Explanation:
    architecture, base = laid.image.architecture, place.address - place.pc
    about = (file, architecture.name, place.pc, place.section, place.name or "")
    if first is None:
        return Explanation(*about, 0, 0, rules, records, (), (), tuple(notes))
    function, table = first
    shown = replace(table.functions, start=table.functions.start - np.uint64(base))
    lines, reasons = _stack_cfi(replace(table, functions=shown))
    code = _code_at(laid, function)
    rows = _RowTexts(architecture, function, base)
    if code:
        order = laid.image.byte_order
        listed, note = disassembled(architecture, order, code, rows.start, place.pc, rows.starting_by)
        notes += [note] if note else []
    else:
        listed = ()
    return Explanation(*about, rows.start, function.size, rules, records, lines, listed, (*notes, *reasons))


def _records(image: ElfImage, section: Section, function: Function, rows: _RowTexts) -> tuple[ExplainedRecord, ...]:
    if section.name in DIALECTS:
        dialect = DIALECTS[section.name]
        bases = PointerBases(data=image.data_base)
        place = FunctionPlace(function.origin, function.start, rows.start, rows.starting_by)
        return explain_entries(section, dialect, image.architecture, bases, place)
    if section.name != ".sframe":
        return ()  # text: its lines are what it says
    from ..converters.sframe.section import sframe_columns
    from .sframe import explain_fde

    columns = sframe_columns(section)
    (fde,) = np.flatnonzero(columns.origin == function.origin)
    return explain_fde(columns, int(fde), rows.start, rows.starting_by)


class _RowTexts:
    """The rows of a function as text, by the distance from its `start` as it is shown."""

    def __init__(self, architecture: Architecture, function: Function, base: int) -> None:
        self.start = function.start - base
        self.offsets = [row.offset for row in function.rows]
        self.texts = [_row_text(architecture, row, self.start) for row in function.rows]
        self.repetition, self.size = function.repetition, function.size

    def starting_by(self, offset: int) -> str:
        """The row with the largest offset up to this one, "" for none."""
        if offset >= self.size:
            return f"{self.start + offset:#x}: after the function's end"
        index = bisect_right(self.offsets, offset) - 1
        return self.texts[index] if index >= 0 else ""

    def at(self, offset: int) -> str:
        """The row in force at this distance."""
        return self.starting_by(offset % self.repetition if self.repetition else offset) or "no row"


def _row_text(architecture: Architecture, row: Row, start: int) -> str:
    rules = " ".join(f"{name}={rule}" for name, rule in row_rules(architecture, row).items())
    return f"{start + row.offset:#x}: {rules}"


def _stack_cfi(table: UnwindTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of a symbol file, and why there are none."""
    from ..converters.breakpad.stack_cfi.write import to_stack_cfi

    if table.architecture.breakpad_registers is None:
        return (), ("STACK CFI: Breakpad has no registers for this machine",)
    text, refusals = to_stack_cfi(table)
    reasons = (f"STACK CFI: {Reason[name].sentence}" for name in count_reasons(refusals))
    return tuple(text.decode("ascii").splitlines()), tuple(reasons)


def _code_at(laid: LaidOut, function: Function) -> bytes:
    """The bytes of a function, none if the file has no code there."""
    for header in laid.image.sections:
        if header.is_code and not header.is_nobits and header.address <= function.start < header.end_address:
            at = function.start - header.address
            return bytes(laid.image.contents(header).data[at : at + function.size])
    return b""
