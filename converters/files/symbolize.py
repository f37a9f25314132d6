"""Functions, inlined functions and lines of addresses, from debugging information or from a symbol file.

Strategy: both become a `SourceMap` and symbols, so that one search serves both, for all addresses at once. Inlined
functions are searched depth by depth: those of one depth in one function are disjoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_address, check_item, checked
from ...schemas.breakpad.files import parse_record
from ...schemas.breakpad.records import Public
from ...schemas.data_classes import dataclass
from ...schemas.text_records import text_from
from ..arrays import distinct_values, last_at_or_before, starts_of, values_at
from ..breakpad.function_read import from_function_records
from ..columns import Columns, column_of, columns
from ..debug_info.table import FunctionRanges
from ..elf.debug_files import BY_LINKS, DebugFiles, refuse_debug_file, with_debug_file
from ..elf.function_symbols import TOP, FunctionSymbols
from ..elf.image import ElfImage
from ..elf.inputs import Input
from ..line.ranges import LineRanges
from ..table.lookup import NOTHING, addresses, ranges_at
from .functions import SourceMap, source_map
from .inputs import BREAKPAD, ELF, Raw, open_image
from .symbol_names import SourceFrame, demangle_some, symbols_at, symbols_of_code

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]

PUBLIC = b"PUBLIC "


@columns
class FrameColumns(Columns):
    """Frames at addresses, innermost first."""

    name: NDArray[np.int64] = column_of("index", "in `SourceFrames.names`; -1 if it is unknown", fill=-1)
    file: NDArray[np.int64] = column_of("index", "in `SourceFrames.files`; -1 if it is unknown", fill=-1)
    line: NDArray[np.uint32] = column_of("line", "from 1; 0 if it is unknown, and for code of no line")
    is_inlined: NDArray[np.uint8] = column_of("", "1 if the next frame's function contains the code of this one")


@dataclass(frozen=True, slots=True, eq=False)
class SourceFrames:
    """The frames at each of several addresses `pc`: first[i] up to first[i + 1], innermost first, at least one each.
    The last is of the function itself, the others are inlined into the next one."""

    pc: NDArray[np.uint64]
    first: NDArray[np.int64]
    frames: FrameColumns
    names: Sequence[str]
    files: Sequence[str]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """The number of addresses."""
        return len(self.pc)

    def __getitem__(self, index: int) -> tuple[SourceFrame, ...]:
        """The frames at one address."""
        index = check_item(index, len(self), "index")
        return tuple(self._frame(at) for at in range(int(self.first[index]), int(self.first[index + 1])))

    def __iter__(self) -> Iterator[tuple[SourceFrame, ...]]:
        """The frames, address by address."""
        return (self[index] for index in range(len(self)))

    def _frame(self, at: int) -> SourceFrame:
        name, file = int(self.frames.name[at]), int(self.frames.file[at])
        return SourceFrame(
            self.names[name] if name >= 0 else "",
            self.files[file] if file >= 0 else "",
            int(self.frames.line[at]),
            bool(self.frames.is_inlined[at]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SourceSymbols:
    """What addresses are looked up in: functions and lines, and the symbols for code that has neither."""

    source: SourceMap
    symbols: FunctionSymbols


@checked(address=check_address, debug=DebugFiles)
def symbolize(
    path: Input, pcs: ArrayLike, *, address: int = 0, demangle: bool = True, debug: DebugFiles = BY_LINKS
) -> SourceFrames:
    """Function, inlined functions, file and line of addresses in a linked ELF file or a Breakpad symbol file.

    PCs are those of the file. `address`: the load address of a symbol file, whose own addresses are relative to it.
    Names are as linked, or, with `demangle`, readable; code without debugging information has the name of its symbol.
    Raises OSError, and ParseError for a malformed file.
    """
    pc = addresses(pcs)
    image = open_image(path, Raw(address=address, otherwise=ELF if not address else BREAKPAD))
    return find_frames(read_symbols(image, debug), pc, demangle)


def read_symbols(image: ElfImage, debug: DebugFiles = BY_LINKS) -> SourceSymbols:
    """The functions, lines and symbols of an image. Raises ParseError."""
    if image.is_elf:
        joined = with_debug_file(image, debug)
        found = read_joined(joined, debug)
        return replace(found, source=replace(found.source, notes=(*joined.notes, *found.source.notes)))
    refuse_debug_file(debug)
    text = bytes(image.data)
    functions, lines = from_function_records(text, image.load_address)
    publics = _public_records(text, image.load_address, functions.ranges)
    return SourceSymbols(SourceMap(functions, lines), publics)


def read_joined(joined: ElfImage, debug: DebugFiles = BY_LINKS) -> SourceSymbols:
    """As `read_symbols`, for a linked file joined with its debug file."""
    return SourceSymbols(source_map(joined, debug=debug), symbols_of_code(joined))


def _public_records(text: bytes, load_address: int, functions: FunctionRanges) -> FunctionSymbols:
    """The PUBLIC records of a symbol file. Raises ParseError."""
    found: dict[int, Public] = {}
    for number, line in enumerate(text.splitlines(keepends=True)):
        if line.startswith(PUBLIC):
            record = parse_record(line, number + 1)
            assert isinstance(record, Public)
            found.setdefault((record.address + load_address) & int(TOP), record)
    address = np.array(sorted(found), np.uint64)
    names = [found[one].name for one in address.tolist()]
    # Each applies up to the next one, or to the function in between.
    starts = distinct_values(np.append(functions.start, TOP))
    limit = np.minimum(np.append(address[1:], TOP)[: len(address)], starts[np.searchsorted(starts, address)])
    nothing = np.zeros(len(names), np.bool_)
    return FunctionSymbols(address, limit - address, nothing, names, nothing)


def find_frames(found: SourceSymbols, pc: NDArray[np.uint64], demangle: bool = True) -> SourceFrames:
    """The frames at each address."""
    table, lines = found.source.functions, found.source.lines
    place = ranges_at(table.ranges.start, table.ranges.size, pc)
    function = values_at(table.ranges.function.astype(np.int64), place, NOTHING)
    inlines = _inlines_at(found.source, function, pc)
    first = starts_of((inlines != NOTHING).sum(axis=0) + 1)
    outermost = first[1:] - 1
    frames = FrameColumns.defaults(int(first[-1]))
    frames.is_inlined[:] = 1
    frames.is_inlined[outermost] = 0
    frames.file[first[:-1]], frames.line[first[:-1]] = _lines_at(lines, pc)
    names, files = _Names(table.names, found.symbols.name), _Names(table.files)
    frames.name[outermost] = names.numbers(
        values_at(table.functions.name, function, NOTHING), symbols_at(found.symbols, pc)
    )
    for depth, inline in enumerate(inlines):
        here = np.flatnonzero(inline != NOTHING)
        one, at = inline[here], outermost[here] - 1 - depth
        frames.name[at] = names.numbers(table.inlines.name[one])
        frames.file[at + 1], frames.line[at + 1] = table.inlines.call_file[one], table.inlines.call_line[one]
    frames.file[:] = files.numbers(frames.file)
    texts = names.texts()
    return SourceFrames(
        pc, first, frames, demangle_some(texts) if demangle else texts, files.texts(), found.source.notes
    )


class _Names:
    """The strings in use, of one or two sequences, numbered as they are asked for."""

    def __init__(self, *pools: Sequence[bytes] | Sequence[str]) -> None:
        self.pools = pools
        self.used: dict[tuple[int, int], int] = {}

    def numbers(self, *indices: I64) -> I64:
        """The number of a string for each element: that of the first pool whose index is not -1; -1 for none."""
        result = np.full(len(indices[0]), NOTHING, np.int64)
        for pool, index in reversed(list(enumerate(indices))):
            known = np.flatnonzero(index >= 0)
            wanted = index[known]
            distinct = distinct_values(wanted).tolist()
            number = {one: self.used.setdefault((pool, one), len(self.used)) for one in distinct}
            result[known] = [number[one] for one in wanted.tolist()]
        return result

    def texts(self) -> list[str]:
        """The strings by number."""
        found = [self.pools[pool][index] for pool, index in self.used]
        return [one if isinstance(one, str) else text_from(one) for one in found]


def _inlines_at(source: SourceMap, function: I64, pc: U64) -> I64:
    """The inlined function at each address, one row per depth from 0; -1 where there is none. It contains that of the
    next depth."""
    table, spans = source.functions, source.functions.inline_ranges
    if not len(spans):  # symbols alone
        return np.empty((0, len(pc)), np.int64)
    spans = spans.select(np.isin(table.inlines.function[spans.inline], distinct_values(function[function >= 0])))
    owner, depth = table.inlines.function[spans.inline].astype(np.int64), table.inlines.depth[spans.inline]
    order = np.lexsort((spans.start, owner))
    spans, owner, depth = spans.select(order), owner[order], depth[order]
    found: list[I64] = []
    parent = np.full(len(pc), NOTHING, np.int64)
    is_open = function >= 0
    while is_open.any():
        is_level = depth == len(found)
        level, owners = spans.select(is_level), owner[is_level]
        begin, end = (np.searchsorted(owners, function, side=side) for side in ("left", "right"))
        place = last_at_or_before(level.start, begin, end, pc)
        place = np.where(place >= begin, place, NOTHING)
        inside = pc - values_at(level.start, place, 0) < values_at(level.size, place, 0)
        inline = values_at(level.inline.astype(np.int64), place, NOTHING)
        is_open &= inside & (inline >= 0) & (values_at(table.inlines.parent, inline, NOTHING) == parent)
        parent = np.where(is_open, inline, NOTHING)
        if is_open.any():
            found.append(parent)
    return np.array(found, np.int64).reshape(len(found), len(pc))


def _lines_at(lines: LineRanges, pc: U64) -> tuple[I64, NDArray[np.uint32]]:
    """The path and line of each address; -1 and 0 for none."""
    place = np.searchsorted(lines.address, pc, side="right") - 1
    inside = pc - values_at(lines.address, place, 0) < values_at(lines.size, place, 0)
    place = np.where(inside, place, NOTHING)
    return values_at(lines.path.astype(np.int64), place, NOTHING), values_at(lines.line, place, 0)
