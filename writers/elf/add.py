"""One loaded section added to, or replaced in, a finished ELF64 executable or shared library.

Strategy: no address may move but those that are declared. Engines, each with its own way of making room, are tried in
their order; `elf_check` judges each result by itself, and only a faultless file is renamed into place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ...schemas.section import BuildError
from ..files import rewriting, size_of, take_owner_and_mode, take_times
from .checks.added import ExpectedSection, check_added
from .engines.by_lief import write_by_lief
from .engines.in_place import write_in_place
from .engines.native import write_headers_kept, write_headers_moved
from .engines.plan import LoadedSection, Plan
from .tables import (
    NULL_SECTION,
    PF,
    SHF,
    SHT,
    SectionHeader,
    Segment,
    Tables,
    around_program_headers,
    put,
    read_tables,
    refuse_unsuitable,
    write_tables,
)

Writer: TypeAlias = Literal["auto", "lief", "native"]
_Engine: TypeAlias = Callable[[BufferedReader, Path, Tables, LoadedSection], Plan]
# By what they leave as it was, best first.
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

    `engine` says how room was made: IN_PLACE, HEADERS_KEPT, HEADERS_MOVED or LIEF; `passed_over` why those before it
    were not taken, by their names. `moved` are other loaded sections that have another address now. `replaced` has the
    sizes in bytes of the older sections of that name, in the order of their headers.
    """

    engine: str
    address: int
    file_offset: int
    replaced: tuple[int, ...]
    moved: tuple[str, ...]
    passed_over: dict[str, str]


def write_section(
    path: Path, out_path: Path, section: LoadedSection, writer: Writer = "auto", preserve_dates: bool = False
) -> WriteReport:
    """Write `path` with `section` added, or put for all those of its name, to `out_path` (which may be `path`).

    Links in `out_path` are followed; owner and mode are the input's, times if `preserve_dates`. Raises ParseError if
    the input is not whole ELF,
    BuildError if no engine of `writer` can give it the section; `out_path` is then as it was.
    """
    if writer not in get_args(Writer):
        raise BuildError(section.name, None, "writer", f"{writer!r} is none of {', '.join(get_args(Writer))}")
    return write_by_engines(path, out_path, section, _OF_WRITER[writer], preserve_dates)


def write_by_engines(
    path: Path, out_path: Path, section: LoadedSection, engines: tuple[str, ...], preserve_dates: bool = False
) -> WriteReport:
    """As `write_section`, by the first of the named engines whose result is faultless."""
    if out_path.exists() and not out_path.is_file():
        raise BuildError("", None, "", f"{out_path.resolve()} is not a regular file")
    if section.size <= 0:
        raise BuildError(section.name, None, "sh_size", f"is {section.size}: there is nothing to load")
    with path.open("rb") as source:
        before = read_tables(source)
        refuse_unsuitable(before, size_of(source), section.name)
        with rewriting(out_path) as temporary:
            engine, plan, passed_over = _first_right(path, source, temporary, before, section, engines)
            if preserve_dates:
                take_times(source, temporary)
    replaced = tuple(before.sections[index].size for index in before.indices_of(section.name))
    moved = tuple(before.names[index].decode(errors="replace") for index in plan.moved)
    return WriteReport(engine, plan.place.address, plan.place.offset, replaced, moved, passed_over)


def _first_right(
    path: Path,
    source: BufferedReader,
    out_path: Path,
    before: Tables,
    section: LoadedSection,
    engines: tuple[str, ...],
) -> tuple[str, Plan, dict[str, str]]:
    """Have the engines write until a result is faultless. Raises BuildError with what each was found to lack."""
    refused: dict[str, BuildError] = {}
    for name in engines:
        try:
            plan = _ENGINES[name](source, out_path, before, section)
            data = _finish(source, out_path, before, plan, section)
            place = plan.place.address
            shape = (section.name, section.section_type, section.segment_type, place, data, section.alignment)
            faults = check_added(path, out_path, ExpectedSection(*shape, plan.moved))
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


def _finish(source: BufferedReader, out_path: Path, before: Tables, plan: Plan, section: LoadedSection) -> bytes:
    """Write the plan and the section's bytes, which are returned; clear older sections, restore owner and mode."""
    data = section.content(plan.place.address)
    if len(data) != section.size:
        raise BuildError(section.name, None, "sh_size", f"{section.size} bytes were announced, {len(data)} came")
    tables = _tables_with(plan, section)
    with out_path.open("r+b") as out:
        for old in (before.sections[index] for index in before.indices_of(section.name)):
            if old.type != SHT.NOBITS and any(load.holds(old) for load in before.loads):
                put(out, old.offset, bytes(old.size))
        for offset, patch in plan.patches:
            put(out, offset, patch)
        put(out, plan.place.offset, data)
        write_tables(source, out, tables)
        take_owner_and_mode(source, out)
    return data


def _tables_with(plan: Plan, section: LoadedSection) -> Tables:
    """The plan's tables with the section's own headers; any other section or segment of its kind is dropped."""
    tables, place = plan.tables, plan.place
    size, align = section.size, section.alignment
    header = SectionHeader(
        place.name_offset, section.section_type, SHF.ALLOC, place.address, place.offset, size, 0, 0, align, 0
    )
    named = Segment(section.segment_type, PF.R, place.offset, place.address, place.address, size, size, align)
    sections = list(tables.sections)
    for index in tables.indices_of(section.name):
        sections[index] = header if index == plan.index else NULL_SECTION
    segments = [one for one in tables.segments if one.type != section.segment_type]
    at = next((i for i, one in enumerate(tables.segments) if one.type == section.segment_type), len(segments))
    segments.insert(at, named)
    return replace(tables, segments=around_program_headers(segments, tables.phoff), sections=tuple(sections))
