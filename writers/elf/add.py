"""Add a loaded section to a finished ELF64 executable or shared library, or replace it.

Strategy: no address may change, except those that are declared. Engines, each with its own way of making space, are
tried in order; `checks.added` judges each result independently, and only a faultless file is renamed into place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ...schemas.data_classes import dataclass
from ...schemas.elf.numbers import PF, SHF, SHT
from ...schemas.section import BuildError
from ..files import rewriting, size_of, take_attributes, take_owner_and_mode
from .checks.added import ExpectedSection, check_added
from .engines.by_lief import write_by_lief
from .engines.in_place import write_in_place
from .engines.native import write_headers_kept, write_headers_moved
from .engines.plan import LoadedSection, Plan
from .tables import (
    NULL_SECTION,
    SectionHeader,
    Segment,
    Tables,
    enclose_program_headers,
    put,
    read_tables,
    refuse_unsuitable,
    write_tables,
)

Writer: TypeAlias = Literal["auto", "lief", "native"]
_Engine: TypeAlias = Callable[[BufferedReader, Path, Tables, LoadedSection], Plan]
Check: TypeAlias = Callable[[Path], tuple[str, ...]]  # the faults of a written file
# The engines in order of preference: those that change least come first.
IN_PLACE, LIEF = "in place", "lief"
HEADERS_KEPT, HEADERS_MOVED = "native, program headers kept", "native, program headers moved"
_ENGINES: dict[str, _Engine] = {
    IN_PLACE: write_in_place,
    HEADERS_KEPT: write_headers_kept,
    HEADERS_MOVED: write_headers_moved,
    LIEF: write_by_lief,
}
_OF_WRITER: dict[Writer, tuple[str, ...]] = {
    "auto": tuple(_ENGINES),
    "lief": (LIEF,),
    "native": (IN_PLACE, HEADERS_KEPT, HEADERS_MOVED),
}


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What was written.

    `engine` is the one that made space: IN_PLACE, HEADERS_KEPT, HEADERS_MOVED or LIEF; `passed_over` has the reason why
    each earlier one was not used, by name. `moved` are other loaded sections whose address changed. `replaced` has the
    sizes in bytes of the existing sections of that name, in header order. `following` is the address of the section
    that was added with it, None if there is none.
    """

    engine: str
    address: int
    file_offset: int
    replaced: tuple[int, ...]
    moved: tuple[str, ...]
    passed_over: dict[str, str]
    following: int | None = None


def write_section(
    path: Path, out_path: Path, section: LoadedSection, writer: Writer = "auto", preserve_dates: bool = False
) -> WriteReport:
    """Write `path` to `out_path` (which may be `path`) with `section` added, in place of any sections of its name.

    Links in `out_path` are followed; owner and mode are the input's, and the times if `preserve_dates`. Raises
    ParseError if the input is not complete ELF, BuildError if no engine of `writer` can add the section; `out_path` is
    then unchanged.
    """
    return write_by_engines(path, out_path, section, engines_of(section.name, writer), preserve_dates)


def engines_of(name: str, writer: Writer) -> tuple[str, ...]:
    """The engines of `writer` in order of preference. Raises BuildError, naming the section, for an unknown one."""
    if writer not in get_args(Writer):
        raise BuildError(name, None, "writer", f"{writer!r} is not one of {', '.join(get_args(Writer))}")
    return _OF_WRITER[writer]


def write_by_engines(
    path: Path,
    out_path: Path,
    section: LoadedSection,
    engines: tuple[str, ...],
    preserve_dates: bool = False,
    check: Check | None = None,
) -> WriteReport:
    """As `write_section`, with the first of the named engines whose result is faultless."""
    if out_path.exists() and not out_path.is_file():
        raise BuildError("", None, "", f"{out_path.resolve()} is not a regular file")
    if section.size <= 0:
        raise BuildError(section.name, None, "sh_size", f"is {section.size}: there is nothing to load")
    with path.open("rb") as source:
        before = read_tables(source)
        refuse_unsuitable(before, size_of(source), section.name)
        with rewriting(out_path) as temporary:
            engine, plan, passed_over = _first_faultless(path, source, temporary, before, section, engines, check)
            take_attributes(source, temporary, preserve_dates)
    replaced = tuple(before.sections[index].size for index in before.indices_of(*section.names))
    moved = tuple(before.names[index].decode(errors="replace") for index in plan.moved)
    first, *following = plan.headers
    address = following[0].address if following else None
    return WriteReport(engine, first.address, first.offset, replaced, moved, passed_over, address)


def _first_faultless(
    path: Path,
    source: BufferedReader,
    out_path: Path,
    before: Tables,
    section: LoadedSection,
    engines: tuple[str, ...],
    check: Check | None,
) -> tuple[str, Plan, dict[str, str]]:
    """Run the engines until a result is faultless. Raises BuildError with the reasons why each was not."""
    refused: dict[str, BuildError] = {}
    for name in engines:
        try:
            plan = _ENGINES[name](source, out_path, before, section)
            data = _finish(source, out_path, before, plan, section)
            faults = check_added(path, out_path, _expected(plan, section, data))
            if not faults and check is not None:
                faults = check(out_path)
        except BuildError as error:
            refused[name] = error
            continue
        if faults:
            refused[name] = BuildError(section.name, None, "check", f"faults found: {'; '.join(faults)}")
        else:
            return name, plan, {one: str(error) for one, error in refused.items() if one != IN_PLACE}
    *_, last = refused.values()
    if len(refused) > 1:
        reasons = "; ".join(f"{name}: {error.reason}" for name, error in refused.items() if name != IN_PLACE)
        raise BuildError(last.section, None, last.record, reasons) from last
    raise last


def _expected(plan: Plan, section: LoadedSection, contents: tuple[bytes, ...]) -> ExpectedSection:
    """The check's arguments."""
    first, *following = (
        ExpectedSection(
            name=part.name,
            section_type=part.section_type,
            segment_type=part.segment_type,
            address=header.address,
            data=data,
            alignment=part.alignment,
            moved=plan.moved,
        )
        for part, header, data in zip(section.parts, plan.headers, contents, strict=True)
    )
    return replace(first, following=following[0]) if following else first


def _finish(
    source: BufferedReader, out_path: Path, before: Tables, plan: Plan, section: LoadedSection
) -> tuple[bytes, ...]:
    """Write the plan's tables and the parts' bytes, which are returned; clear the existing sections of their names,
    restore owner and mode."""
    contents = section.contents(tuple(header.address for header in plan.headers))
    for part, data in zip(section.parts, contents, strict=True):
        if len(data) != part.size:
            raise BuildError(part.name, None, "sh_size", f"the content has {len(data)} bytes, expected {part.size}")
    tables = _tables_with(plan, section)
    with out_path.open("r+b") as out:
        for old in (before.sections[index] for index in before.indices_of(*section.names)):
            if old.type != SHT.NOBITS and any(load.holds(old) for load in before.loads):
                put(out, old.offset, bytes(old.size))
        for offset, patch in plan.patches:
            put(out, offset, patch)
        for header, data in zip(plan.headers, contents, strict=True):
            put(out, header.offset, data)
        write_tables(source, out, tables)
        take_owner_and_mode(source, out)
    return contents


def _tables_with(plan: Plan, section: LoadedSection) -> Tables:
    """The plan's tables with the headers of all parts, and without any other section or segment of their kinds."""
    tables = plan.tables
    sections, segments = list(tables.sections), list(tables.segments)
    for part, index, planned in zip(section.parts, plan.indices, plan.headers, strict=True):
        size, align, address, offset = part.size, part.alignment, planned.address, planned.offset
        for old in tables.indices_of(part.name):
            sections[old] = NULL_SECTION
        sections[index] = SectionHeader(
            planned.name_offset, part.section_type, SHF.ALLOC, address, offset, size, 0, 0, align, 0
        )
        if part.segment_type is not None:
            segment = Segment(part.segment_type, PF.R, offset, address, address, size, size, align)
            at = next((i for i, one in enumerate(segments) if one.type == segment.type), len(segments))
            segments = [one for one in segments if one.type != segment.type]
            segments.insert(at, segment)
    return replace(tables, segments=enclose_program_headers(segments, tables.phoff), sections=tuple(sections))
