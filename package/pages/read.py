"""Read a file for a report.

Strategy: each section becomes a table. What the function list has is the call frame information, the functions of PLT
sections that it lacks, and what only an `.sframe` covers; what an `.sframe` would cost is about the first two, as for
`unwindkit sframe`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from ..converters.arrays import renumbered
from ..converters.breakpad.demangle import demangle_names
from ..converters.elf.debug_files import DebugFiles, with_debug_file
from ..converters.elf.function_symbols import FunctionSymbols
from ..converters.elf.image import ElfImage, covered_bytes
from ..converters.elf.inputs import Input, input_name
from ..converters.elf.relocation import LaidOut, lay_out, relocate
from ..converters.files.code_frames import is_code, ranges_of
from ..converters.files.code_names import CodeNames
from ..converters.files.inputs import KINDS, Raw, naming_file, open_image
from ..converters.files.lint import lint
from ..converters.files.read_elf import DIALECTS, code_of, sections_of, table_of_section
from ..converters.files.symbol_names import symbols_at, symbols_of_code
from ..converters.files.uncovered_code import uncovered_code
from ..converters.plt import with_uncovered_plt
from ..converters.refusals import Refusals, count_reasons
from ..converters.table.cut import overlay
from ..converters.table.lookup import NOTHING, ranges_at
from ..converters.table.model import UnwindTable, concatenate, table_of
from ..schemas.cfi import DEBUG_FRAME
from ..schemas.section import ParseError
from .figures import code_figures, row_count, sframe_costs, shared_runs, source_figures
from .model import ReportedFile, ReportedFunctions, SourceFigures

if TYPE_CHECKING:
    from numpy.typing import NDArray

SFRAME, PLT = ".sframe", "PLT code"


def read_file(path: Input, raw: Raw, debug: DebugFiles) -> ReportedFile:
    """Read a file of any kind but an archive. A section that is malformed is reported. Raises OSError, ParseError, and
    BuildError if something is missing or must not be given."""
    name = input_name(path)
    with naming_file(name):
        image = with_debug_file(open_image(path, raw), debug)
        laid = lay_out(image)
        figures, tables = _sources(laid, raw.kind)
        return _reported(name, image, laid, figures, tables, raw.kind)


def _sources(laid: LaidOut, kind: str | None) -> tuple[list[SourceFigures], dict[str, UnwindTable]]:
    """The sections, with figures, and the tables of those that can be read, by name. Raises ParseError if there are
    none."""
    image = laid.image
    names = (*DIALECTS, SFRAME) if kind is None else (KINDS[kind],)
    headers = [one for name in names for one in image.named(name) if not one.is_nobits]
    headers = headers if image.is_elf else [image.sections[-1]]
    if not headers:
        raise ParseError("", None, "", "has no call frame information: neither .eh_frame nor .debug_frame")
    figures, tables = [], dict[str, UnwindTable]()
    for header in headers:
        size = image.content_size(header)
        try:
            table = _without_dropped(laid, header.name, table_of_section(image, relocate(laid, header)))
        except ParseError as error:
            figures.append(SourceFigures(header.name, size, fault=str(error)))
            continue
        figures.append(source_figures(image, header.name, size, table))
        known = [tables[header.name]] if header.name in tables else []
        tables[header.name] = concatenate([*known, table])
    return figures, tables


def _without_dropped(laid: LaidOut, name: str, table: UnwindTable) -> UnwindTable:
    """`.debug_frame` of a linked file keeps functions that the linker has dropped."""
    if name != DEBUG_FRAME.name or laid.is_relocatable:
        return table
    return table.select(is_code(laid.image, table.functions.start))


def _reported(
    name: str,
    image: ElfImage,
    laid: LaidOut,
    figures: list[SourceFigures],
    tables: dict[str, UnwindTable],
    kind: str | None,
) -> ReportedFile:
    frames, table = _joined(laid, tables)
    costs, refusals = sframe_costs(frames)
    covered, code = covered_bytes(laid.image, *ranges_of(table)) if image.is_elf else (0, 0)
    symbols = FunctionSymbols.empty()
    with suppress(ParseError):
        symbols = symbols_of_code(laid.image)
    return ReportedFile(
        file=name,
        type=str(image.type),
        architecture=image.architecture.name,
        byte_order=image.byte_order,
        debug_file=image.debug_file,
        debug_notes=image.notes,
        code_bytes=code,
        covered_bytes=covered,
        sources=tuple(figures),
        frames_bytes=sum(one.size for one in figures if one.name != SFRAME) or sum(one.size for one in figures),
        code=code_figures(laid.image, table, frames, refusals),
        costs=costs,
        refused={version: count_reasons(found) for version, found in refusals.items()},
        shared=shared_runs(table),
        rows=row_count(table),
        bare=uncovered_code(laid.image, table) if image.is_elf else ranges_of(table.select(slice(0))),
        lint=lint(image, None if kind is None else KINDS[kind]),
        names=CodeNames(laid.image),
        functions=_functions(laid, table, tables, refusals, symbols),
    )


def _joined(laid: LaidOut, tables: dict[str, UnwindTable]) -> tuple[UnwindTable, UnwindTable]:
    """The call frame information with the PLT, and the same with what only the `.sframe` has. Raises ParseError."""
    framed = [table for name, table in tables.items() if name != SFRAME]
    empty = table_of(laid.image.architecture, (), laid.image.byte_order)
    sframe = tables.get(SFRAME, empty)
    frames = reduce(overlay, framed) if framed else sframe
    if laid.image.is_elf and not laid.is_relocatable:
        frames = replace(with_uncovered_plt(laid.image, frames), code=code_of(laid.image))
    return frames, overlay(frames, sframe) if framed else frames


def _functions(
    laid: LaidOut,
    table: UnwindTable,
    tables: dict[str, UnwindTable],
    refusals: dict[int, Refusals],
    symbols: FunctionSymbols,
) -> ReportedFunctions:
    order = np.argsort(table.functions.start, kind="stable")
    start = table.functions.start[order]
    section, address = sections_of(laid, table.select(order)) if laid.is_relocatable else (np.zeros(0), start)
    names = [one.name for one in laid.image.sections] if laid.is_relocatable else []
    symbol, name = _names(symbols, start)
    source_names, sources = _source_bits(tables, start)
    return ReportedFunctions(
        table.select(order),
        source_names,
        sources,
        {version: _reason_bits(found, len(table))[order] for version, found in refusals.items()},
        tuple(names),
        section.astype(np.int64),
        address,
        symbol,
        name,
    )


def _source_bits(
    tables: dict[str, UnwindTable], start: NDArray[np.uint64]
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Which sources cover each address; what none does is from the code of a PLT."""
    bits = np.zeros(len(start), np.int64)
    for number, table in enumerate(tables.values()):
        functions = table.functions
        bits |= (ranges_at(functions.start, functions.size, start) != NOTHING).astype(np.int64) << number
    return (*tables, PLT), np.where(bits > 0, bits, 1 << len(tables))


def _reason_bits(refusals: Refusals, count: int) -> NDArray[np.int64]:
    bits = np.zeros(count, np.int64)
    np.bitwise_or.at(bits, refusals.function, np.int64(1) << refusals.reason.astype(np.int64))
    return bits


def _names(symbols: FunctionSymbols, start: NDArray[np.uint64]) -> tuple[list[str], list[str]]:
    """The names of functions as in the file, and demangled."""
    found = symbols_at(symbols, start)
    used, number = renumbered(found[found >= 0])
    mangled = [symbols.name[index] for index in used.tolist()]
    plain = demangle_names(mangled)
    offset = start[found >= 0] - symbols.address[used][number]
    ends = ["" if distance == 0 else f"+{distance:#x}" for distance in offset.tolist()]
    symbol, name = [""] * len(start), [""] * len(start)
    for place, one, end in zip(np.flatnonzero(found >= 0).tolist(), number.tolist(), ends, strict=True):
        symbol[place], name[place] = mangled[one] + end, plain[one] + end
    return symbol, name
