"""Convert line information: `.debug_line`, `.debug_aranges` and Breakpad's line records (`unwindkit convert`).

Strategy: a line table is read from an ELF file, a raw `.debug_line` or a symbol file. Into a copy of an ELF file, whole
sections that are not loaded are written; what refers to them is updated, and checked by other code than wrote it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..converters.breakpad.line_records import from_line_records, line_records, to_line_records
from ..converters.elf.admission import only_section, refuse_relocatable
from ..converters.elf.debug_files import BY_LINKS, DebugFiles, with_debug_file
from ..converters.elf.image import SYMBOL_FILE, ElfImage
from ..converters.files.code_ranges import code_ranges
from ..converters.files.inputs import Raw, open_image
from ..converters.files.line_text import line_text
from ..converters.files.rewrite_lines import (
    RewrittenLines,
    line_sections,
    read_line_section,
    refuse_relocated,
    rewrite_lines,
)
from ..converters.line.read import LINE, table_of_lines
from ..converters.line.versions import in_version
from ..converters.line.write import to_debug_line
from ..converters.lookup_tables.aranges import write_address_ranges
from ..converters.lookup_tables.from_lines import address_ranges_of_lines
from ..schemas.data_classes import dataclass
from ..schemas.debug_info.roots import DEBUG_ABBREV, DEBUG_INFO, DEBUG_TYPES
from ..schemas.lookup_tables import ARANGES
from ..schemas.section import BuildError, Section
from ..writers.files import write_bytes
from .report import Input, debug_file_of

if TYPE_CHECKING:
    from ..converters.line.table import LineTable
    from .report import LineTarget

# Kinds of input, by Raw.kind.
LINE_SOURCES = ("debug_line", "breakpad")


@dataclass(frozen=True, kw_only=True)
class LineReport(Input):
    """What `convert` to line information did. Sizes in bytes.

    `units`, `sequences` and `rows` were read from `source`, a section of `source_bytes` or a symbol file. `written` is
    the size of the section or text written; a `.debug_aranges` has `sets` and `ranges`, a text `records`, the number of
    line records. `references` counts the fields of other sections that were updated because units moved. `left_out`
    counts sequences that are not in a `.debug_aranges` because no unit refers to them or their code was discarded.
    `file_bytes` are the sizes of the ELF file before and after, None if only a section or text was written.
    """

    output: str
    to: LineTarget
    source: str
    source_bytes: int
    units: int
    sequences: int
    rows: int
    written: int
    references: int = 0
    sets: int = 0
    ranges: int = 0
    records: int = 0
    left_out: int = 0
    file_bytes: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class _Request:
    """One conversion: the input and the arguments of `convert_lines`."""

    path: Path
    out_path: Path
    image: ElfImage
    to: LineTarget
    version: int | None
    keep_size: bool


def convert_lines(
    path: Path,
    out_path: Path,
    to: LineTarget,
    *,
    source: str | None = None,
    address: int = 0,
    architecture: str | None = None,
    section_only: bool = False,
    version: int | None = None,
    keep_size: bool = False,
    debug: DebugFiles = BY_LINKS,
) -> LineReport:
    """The targets of `convert` that are line information; arguments as there. Raises as `convert`."""
    if source is not None and source not in LINE_SOURCES:
        raise BuildError("", None, "source", f"{source!r} is not one of {', '.join(LINE_SOURCES)}")
    if to != "debug_line" and (version is not None or keep_size):
        raise BuildError("", None, "version" if keep_size is False else "keep_size", "applies to debug_line only")
    image = open_image(path, Raw(source, address, architecture))
    if not image.is_elf or to == "breakpad-lines" or section_only:
        image = with_debug_file(image, debug)
    elif debug.file is not None:
        raise BuildError("", None, "debug_file", "cannot be given for a copy of the file, which gets its own sections")
    request = _Request(path, out_path, image, to, version, keep_size)
    if not image.is_elf:
        return _from_bytes(request)
    if to == "breakpad-lines":
        return _to_records(request)
    if to == "debug_aranges":
        return _to_ranges(request, section_only)
    return _to_section(request) if section_only else _to_lines(request)


def _report(request: _Request, table: LineTable, source: Section, written: int) -> LineReport:
    """The report on the table that was read, without what only some targets have."""
    return LineReport(
        file=os.fspath(request.path),
        **debug_file_of(request.image),
        output=os.fspath(request.out_path),
        to=request.to,
        source=source.name,
        source_bytes=len(source),
        units=table.unit_count,
        sequences=len(table.sequence_unit),
        rows=len(table),
        written=written,
    )


def _from_bytes(request: _Request) -> LineReport:
    """From a raw `.debug_line` or a symbol file: the section, or the text."""
    image = request.image
    source = image.contents(image.sections[-1])
    if image.type == SYMBOL_FILE:
        table = from_line_records(bytes(source.data), image.load_address, image.byte_order, image.address_size)
        source = replace(source, name="line records")
    else:
        table = table_of_lines(only_lines(source))
    report = _report(request, table, source, 0)
    if request.to == "debug_line":
        return _write_lines(request, table, report)
    if request.to == "debug_aranges":
        made = address_ranges_of_lines(table)
        data = write_address_ranges(made)
        report = replace(report, sets=len(made.begin), ranges=len(made) - len(made.begin))
    else:
        data = to_line_records(table, load_address=image.load_address)
        report = replace(report, records=len(line_records(table)))
    write_bytes(request.out_path, data)
    return replace(report, written=len(data))


def only_lines(source: Section) -> Section:
    """The section, which must be a `.debug_line`. Raises BuildError."""
    if source.name != LINE:
        raise BuildError(source.name, None, "", f"has no line information: it is read from {', '.join(LINE_SOURCES)}")
    return source


def _write_lines(request: _Request, table: LineTable, report: LineReport) -> LineReport:
    """Write a `.debug_line` alone, with its paths."""
    wanted = table if request.version is None else in_version(table, request.version)
    if request.keep_size:
        raise BuildError(LINE, None, "keep_size", "applies to a section in an ELF file")
    data, _ = to_debug_line(wanted, None)
    write_bytes(request.out_path, data)
    return replace(report, written=len(data))


def _to_section(request: _Request) -> LineReport:
    """The section of an ELF file alone."""
    refuse_relocatable(request.image)
    table, _ = read_line_section(request.image)
    return _write_lines(request, table, _report(request, table, _section(request.image, LINE), 0))


def _section(image: ElfImage, name: str) -> Section:
    return image.contents(only_section(image, name))


def _to_records(request: _Request) -> LineReport:
    refuse_relocatable(request.image)
    table, _ = read_line_section(request.image)
    text, records = line_text(request.image, table)
    write_bytes(request.out_path, text)
    return replace(_report(request, table, _section(request.image, LINE), len(text)), records=records)


def _to_ranges(request: _Request, section_only: bool) -> LineReport:
    image = request.image
    refuse_relocatable(image)
    made = code_ranges(image)
    report = _report(request, made.table, _section(image, LINE), len(made.data))
    report = replace(report, sets=made.sets, ranges=made.ranges, left_out=made.left_out)
    if section_only:
        write_bytes(request.out_path, made.data)
        return report
    from ..writers.elf.unloaded import AddedSection, write_unloaded

    replaced, added = dict[int, bytes](), tuple[AddedSection, ...]()
    if image.named(ARANGES):
        header = only_section(image, ARANGES)
        refuse_relocated(image, [header])
        replaced = {header.index: image.stored_like(header, made.data)}
    else:
        added = (AddedSection(ARANGES, made.data),)
    written = write_unloaded(request.path, request.out_path, replaced, added)
    return replace(report, file_bytes=(written.size_before, written.size_after))


def _to_lines(request: _Request) -> LineReport:
    """A copy of the ELF file with `.debug_line`, and that of split DWARF, encoded again."""
    from ..writers.elf.unloaded import write_unloaded

    image = request.image
    parts = [rewrite_lines(image, suffix, request.version, request.keep_size) for suffix in line_sections(image)]
    for part, suffix in zip(parts, line_sections(image), strict=True):
        _check_references(image, part, suffix)
    contents = {index: data for part in parts for index, data in part.contents.items()}
    stored = {index: image.stored_like(image.sections[index], data) for index, data in contents.items()}
    written = write_unloaded(request.path, request.out_path, stored)
    report = _report(request, parts[0].before, _section(image, parts[0].name), parts[0].size)
    return replace(
        report,
        source=" and ".join(part.name for part in parts),
        source_bytes=sum(part.size_before for part in parts),
        units=sum(part.before.unit_count for part in parts),
        sequences=sum(len(part.before.sequence_unit) for part in parts),
        rows=sum(len(part.before) for part in parts),
        written=sum(part.size for part in parts),
        references=sum(part.references for part in parts),
        file_bytes=(written.size_before, written.size_after),
    )


def _check_references(image: ElfImage, part: RewrittenLines, suffix: str) -> None:
    """Raise BuildError unless every unit still refers to its program."""
    if not part.references:
        return
    from ..writers.elf.checks.line_units import LineUnits, check_line_units

    pairs = tuple(
        (header.name, bytes(image.contents(header).data), part.contents[header.index])
        for name in (DEBUG_INFO, DEBUG_TYPES)
        for header in image.named(name + suffix)
        if header.index in part.contents
    )
    line = only_section(image, part.name)
    units = LineUnits(
        is_little=image.byte_order == "little",
        address_size=image.address_size,
        machine=str(image.machine),
        abbreviations=bytes(_section(image, DEBUG_ABBREV + suffix).data),
        pairs=pairs,
        line=(bytes(image.contents(line).data), part.contents[line.index]),
    )
    if faults := check_line_units(units):
        raise BuildError(part.name, None, "check", f"faults found: {'; '.join(faults[:3])}")
