"""Functions and inlined functions of a file, from `.debug_info`, as a `FunctionTable`.

Strategy: walks find the entries of code; their ranges are read with each part of a walk, and only entries that have
code in the file are kept. Names are read at the end, once for each distinct entry that has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError, Section
from ..arrays import starts_of
from ..columns import Columns, column_of, columns
from ..dwarf.unit_strings import StringSections
from ..dwarf.units import DebugUnits, units_of_sections
from ..kernels import engine, views
from ..kernels.protocol import Fault
from ..limits import exceeded, raised
from ..line.ranges import SourceFiles
from ..strings import Numbered, Strings
from ..threads import in_threads
from .attributes import Attribute, decode_units, walk_only
from .code import CodeSections, Ranges, UnitCode, disjoint, inside
from .entries import NOTHING, EntryWalk, Rows, skipped_units, walks_of
from .names import NameReader
from .places import EntryPlaces, EntrySection
from .table import FunctionColumns, FunctionRanges, FunctionTable, InlineColumns, InlineRanges, SkippedUnits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]


WORD_MAX = (1 << 32) - 1
# Ranges that entries get of what contains them, or of what they contain, for each entry and range that is read: nested
# 4,096 deep, each may get all.
MAX_NESTED = 16


@columns
class CodeColumns(Columns):
    """Entries that have code in the file."""

    offset: NDArray[np.int64] = column_of("section offset")
    unit: NDArray[np.uint32] = column_of("index")
    parent: NDArray[np.int64] = column_of("index", "of the innermost entry that contains an inlined function; -1")
    function: NDArray[np.int64] = column_of("index", "of the outermost one; itself for a function")
    origin: NDArray[np.int64] = column_of("place", "of an entry that has its name, or leads to it")
    call_file: NDArray[np.int64] = column_of("index", "of the file, as its unit numbers them; -1", fill=NOTHING)
    call_line: NDArray[np.uint32] = column_of("line")
    depth: NDArray[np.uint16] = column_of("", "of an inlined function; 0 for one that a function contains")


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """Entries that have code, whose indices are among these; and their ranges, those of inlined functions inside the
    ranges of what contains them."""

    entries: CodeColumns
    ranges: Ranges


@dataclass(frozen=True, slots=True, eq=False)
class NamedCode:
    """Entries that have code, their names, and by entry the index of `call_file` in the paths of the file, i64, -1 for
    none; and the units that were skipped. Nothing refers to the sections that these are from: they may be freed."""

    code: Code
    names: Numbered
    call_file: I64
    skipped: SkippedUnits


@dataclass(frozen=True, slots=True)
class DebugSections:
    """The sections that entries and what they refer to are in; None for one that the file does not have."""

    debug_abbrev: Section | None
    code: CodeSections
    strings: StringSections
    types: Section | None = None
    supplementary: SupplementarySections | None = None


@dataclass(frozen=True, slots=True)
class SupplementarySections:
    """The sections of the file that dwz moved entries to, which several files share."""

    debug_info: Section
    debug_abbrev: Section | None
    strings: StringSections


@dataclass(frozen=True, slots=True, eq=False)
class UnitSource:
    """Units whose functions are read, and the sections that they refer to: those of `unit_code`, of which a walk passes
    the ones in `is_walked`. `types` are the units of `sections.types`. Of split units `skeleton` is the index of their
    skeleton unit in `.debug_info`, i64."""

    sections: DebugSections
    unit_code: UnitCode
    is_walked: NDArray[np.bool_]
    types: DebugUnits | None = None
    skeleton: I64 | None = None


def unit_source(sections: DebugSections, debug_info: Section, units: DebugUnits) -> UnitSource:
    """The units of a file without split ones. Raises ParseError."""
    types = None
    if sections.types is not None:
        types = units_of_sections(sections.types, sections.debug_abbrev)
    decoded = decode_units(debug_info, sections.debug_abbrev, units)
    return UnitSource(sections, UnitCode(decoded, sections.code), units.columns.root >= 0, types)


def code_of_units(
    source: UnitSource, files: SourceFiles, start: NDArray[np.uint64], end: NDArray[np.uint64]
) -> NamedCode:
    """The entries that have code in the sections from `start` up to `end`. Raises ParseError."""
    decoded = walk_only(source.unit_code.decoded, source.is_walked)
    walks = walks_of(decoded)
    places = _places(source, EntrySection(decoded, source.sections.strings, walks))
    # Blocks take much memory: nothing else refers to them.
    code = _concatenate(in_threads(lambda walk: _read_part(walk, places, source.unit_code, start, end), walks))
    skipped = skipped_units(decoded, walks)
    names = NameReader(places).names_of(code.entries.origin).compact()
    program = files.programs_at(decoded.units.columns.line_offset)[code.entries.unit]
    if source.skeleton is not None:
        code.entries.unit[:] = source.skeleton[code.entries.unit]
    return NamedCode(code, names, files.numbers_of(program, code.entries.call_file), skipped)


def _places(source: UnitSource, first: EntrySection) -> EntryPlaces:
    """The sections that entries of the first one lead to. Raises ParseError."""
    sections, parts, number = source.sections, [first], NOTHING
    if sections.types is not None and source.types is not None:
        types = decode_units(sections.types, sections.debug_abbrev, source.types)
        parts.append(EntrySection(types, sections.strings))
    if (other := sections.supplementary) is not None:
        number = len(parts)
        units = units_of_sections(other.debug_info, other.debug_abbrev)
        parts.append(EntrySection(decode_units(other.debug_info, other.debug_abbrev, units), other.strings))
    return EntryPlaces(parts, number)


def _read_part(
    walk: EntryWalk, places: EntryPlaces, unit_code: UnitCode, start: NDArray[np.uint64], end: NDArray[np.uint64]
) -> list[Code]:
    """The entries of some units that have code in the sections from `start` up to `end`."""
    found = []
    for rows in walk.rows():
        own = _with_containing(places, rows, inside(unit_code.ranges_of(rows, walk.faults), start, end))
        has_code = np.zeros(len(rows.offset), np.bool_)
        has_code[own.owner] = True
        _drop_orphans(has_code, rows.parent)
        number = np.cumsum(has_code) - 1
        own = own.select(has_code[own.owner])
        own.owner[:] = number[own.owner]
        entries = _columns(places, rows, np.flatnonzero(has_code), number)
        found.append(Code(entries, _nested(places, entries, own)))
    return found


def _concatenate(parts: Sequence[Sequence[Code]]) -> Code:
    """The entries of all blocks of all parts, in order."""
    before, blocks = 0, [block for part in parts for block in part]
    for block in blocks:
        entries = block.entries
        np.add(entries.parent, before, out=entries.parent, where=entries.parent >= 0)
        for index in (entries.function, block.ranges.owner):
            np.add(index, before, out=index)
        before += len(entries)
    if not blocks:
        return Code(CodeColumns.empty(0), Ranges.empty(0))
    entries = CodeColumns.concatenate([block.entries for block in blocks])
    return Code(entries, Ranges.concatenate([block.ranges for block in blocks]))


def _check_nested(places: EntryPlaces, offset: I64, read: int, count: int) -> None:
    """Raise ParseError if entries have too many ranges: `count` with those of what contains or is inside them, `read`
    of their own. `offset` is the section offset of each entry."""
    if count > raised(MAX_NESTED) * (len(offset) + read):
        section = places.sections[0].decoded.section
        raise ParseError(section, int(offset[0]), "ranges of nested entries", exceeded(Fault.RANGES_OVERLAP.sentence))


def _with_containing(places: EntryPlaces, rows: Rows, own: Ranges) -> Ranges:
    """The ranges of entries; inlined functions without any have those of what is inlined into them.

    Where the first range has no bytes and is at the unit's base address, GCC 12 writes a pair of zeros, and that ends
    the list (DWARF4 2.17.3)."""
    parent = rows.parent
    has_code = np.zeros(len(parent) + 1, np.bool_)
    has_code[own.owner] = True
    has_code[np.flatnonzero(parent < 0)] = True
    parts = [own]
    while len(parts[-1]):
        _check_nested(places, rows.offset, len(own), sum(map(len, parts)))
        last = parts[-1]
        above = parent[last.owner]
        lacking = np.flatnonzero(~has_code[above] & (above >= 0))
        parts.append(Ranges(above[lacking], last.start[lacking], last.end[lacking]))
    return disjoint(Ranges.concatenate(parts)) if len(parts) > 2 else own


def _drop_orphans(has_code: NDArray[np.bool_], parent: I64) -> None:
    """Give up what is inlined into something without code."""
    count = -1
    while count != (count := int(has_code.sum())):
        has_code &= (parent < 0) | has_code[parent]


def _columns(places: EntryPlaces, rows: Rows, kept: I64, number: I64) -> CodeColumns:
    """The rows that are kept; `number` is the new index of each row."""
    parent, origin = rows.parent[kept], places.origins(0, rows)[kept]
    has_file = rows.form_of(Attribute.CALL_FILE)[kept] > 0
    has_line = rows.form_of(Attribute.CALL_LINE)[kept] > 0
    top = np.uint64(WORD_MAX)
    file, line = (np.minimum(rows.number_of(one)[kept], top) for one in (Attribute.CALL_FILE, Attribute.CALL_LINE))
    return CodeColumns(
        offset=rows.offset[kept],
        unit=rows.unit[kept],
        parent=np.where(parent >= 0, number[parent], NOTHING),
        function=number[rows.function[kept]],
        # A definition may have a linkage name that its declaration lacks; an inlined function has none of its own.
        origin=np.where((parent >= 0) & (origin >= 0), origin, rows.offset[kept]),
        call_file=np.where(has_file, file.astype(np.int64), NOTHING),
        call_line=np.where(has_line, line, 0).astype(np.uint32),
        depth=np.zeros(len(kept), np.uint16),
    )


def table_of_code(found: NamedCode, files: Sequence[bytes]) -> FunctionTable:
    """The table of entries with code."""
    code, names, call_file = found.code, found.names, found.call_file
    entries = code.entries
    is_function = entries.parent < 0
    function, inline = np.flatnonzero(is_function), np.flatnonzero(~is_function)
    number = np.where(is_function, np.cumsum(is_function), np.cumsum(~is_function)) - 1
    clipped = code.ranges
    is_of_function = is_function[clipped.owner]
    outer, inner = clipped.select(is_of_function), clipped.select(~is_of_function)
    outer = outer.select(np.argsort(outer.start, kind="stable"))
    has_code = np.zeros(len(entries), np.bool_)
    has_code[clipped.owner] = True
    # What has no code inside its parent is left out; so is then all that it contains.
    inline = inline[has_code[inline]]
    renumbered = np.full(len(entries), NOTHING)
    renumbered[inline] = np.arange(len(inline))
    parent = entries.parent[inline]
    return FunctionTable(
        FunctionColumns(entries.offset[function], entries.unit[function], names.number[function]),
        FunctionRanges(outer.start, outer.end - outer.start, number[outer.owner].astype(np.uint32)),
        InlineColumns(
            offset=entries.offset[inline],
            function=number[entries.function[inline]].astype(np.uint32),
            parent=renumbered[parent],
            depth=entries.depth[inline],
            name=names.number[inline],
            call_file=call_file[inline],
            call_line=entries.call_line[inline],
        ),
        InlineRanges(inner.start, inner.end - inner.start, renumbered[inner.owner].astype(np.uint32)),
        names.strings,
        files,
        found.skipped,
    )


def table_of_nothing(files: SourceFiles) -> FunctionTable:
    """The table of a file without `.debug_info`."""
    return FunctionTable(
        functions=FunctionColumns.empty(0),
        ranges=FunctionRanges.empty(0),
        inlines=InlineColumns.empty(0),
        inline_ranges=InlineRanges.empty(0),
        names=Strings.of(()),
        files=files.paths,
        skipped=SkippedUnits.empty(0),
    )


def _nested(places: EntryPlaces, entries: CodeColumns, own: Ranges) -> Ranges:
    """The ranges of all entries, those of inlined functions inside the ranges of their parents. Fills the column
    `depth`.

    With -gstrict-dwarf, GCC gives an inlined function in several parts the first one only, and what it contains is in
    the others: they are its, too."""
    clipped, is_cut = _clip_to_parents(places, entries, own)
    if not is_cut.any():
        return clipped
    parts, last = [own], own.select(is_cut[own.owner])
    while len(last):
        above = entries.parent[last.owner]
        is_inlined = np.flatnonzero((above >= 0) & (entries.parent[above] >= 0))
        last = Ranges(above[is_inlined], last.start[is_inlined], last.end[is_inlined])
        parts.append(last)
        _check_nested(places, entries.offset, len(own), sum(map(len, parts)))
    if len(parts) == 2 and not len(parts[1]):
        return clipped
    clipped, _ = _clip_to_parents(places, entries, disjoint(Ranges.concatenate(parts)))
    return clipped


def _clip_to_parents(places: EntryPlaces, entries: CodeColumns, found: Ranges) -> tuple[Ranges, NDArray[np.bool_]]:
    """The ranges of all entries, those of inlined functions inside the ranges of their parents, and which entries lose
    some bytes. Fills the column `depth`."""
    own = starts_of(np.bincount(found.owner, minlength=len(entries)))
    first, is_cut = np.zeros(len(entries) + 1, np.int64), np.zeros(len(entries), np.uint8)
    count, space = -1, len(found)
    while count < 0:
        # What is nested is nearly always inside one range of what contains it.
        _check_nested(places, entries.offset, len(found), len(found) + space)
        clipped = Ranges.empty(space)
        kernel = engine.dwarf.entry_ranges
        filled = kernel.Clipped(*views(clipped.owner, clipped.start, clipped.end, first, entries.depth, is_cut))
        count = kernel.clip(*views(entries.parent, own, found.start, found.end), filled)
        space *= 2
    return clipped.select(slice(count)), is_cut.astype(np.bool_)
