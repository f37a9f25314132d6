"""FILE, INLINE_ORIGIN, FUNC, INLINE and line records as text.

Strategy: what is numbered (files, names of inlined functions) is numbered in the order of its first use, before the
first byte is written. A kernel writes the records of a few thousand functions at a time, and cuts the line records to
them while it reads these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_address, checked, each, optional
from ...schemas.breakpad.files import build_lines
from ...schemas.breakpad.records import NAMES, File, Func, Inline, InlineOrigin, Line
from ...schemas.data_classes import dataclass
from ...schemas.section import BuildError
from ...schemas.text_records import HEXADECIMAL, Mark, Maybe, Number, Record, parts_of
from ..arrays import starts_of
from ..debug_info.table import FunctionTable
from ..elf.function_symbols import FunctionSymbols
from ..kernels import engine, views
from ..line.paths import Paths
from ..line.ranges import LineRanges
from ..strings import Strings, place_strings
from .functions import SOURCE, FunctionRecords, function_records
from .public import printable
from .source_paths import PathMap, map_paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..kernels.breakpad import function_lines

# The name of the FILE record that INLINE records refer to if the file of their call is unknown; readers need one.
UNKNOWN_FILE = b"<unknown>"
CHUNK = 1024  # functions
FIRST_NAME = 3


@checked(table=FunctionTable, lines=LineRanges, symbols=optional(FunctionSymbols), paths=each(PathMap))
def to_function_records(
    table: FunctionTable,
    lines: LineRanges,
    load_address: int = 0,
    symbols: FunctionSymbols | None = None,
    paths: Sequence[PathMap] = (),
) -> bytes:
    """The FILE, INLINE_ORIGIN, FUNC, INLINE and line records of a linked file, relative to the load address.

    The paths of `lines` are `table.files`. FUNC records are disjoint: an address belongs to the function whose range
    starts first. Line records outside all of them are left out; `symbols` are functions for code that the table lacks.
    `paths` change the names of files. Raises BuildError.
    """
    check_address(load_address, "load_address")
    records = function_records(table, lines, symbols)
    return b"".join(map(bytes, lay_out_functions(records, lines, table.files, load_address, paths).chunks()))


@dataclass(frozen=True, slots=True, eq=False)
class FunctionText:
    """The text of function records, not yet written: `files` and `origins`, the FILE and INLINE_ORIGIN records; and
    what FUNC, INLINE and line records are written from. `words` are what lines begin with, and names; word w is from
    word_start[w] up to word_start[w + 1]. `number` is that of the FILE record of each path. `starts` are the absolute
    addresses of FUNC records, ascending; the counts are those of records."""

    files: bytes
    origins: bytes
    functions: function_lines.Functions
    inlines: function_lines.Inlines
    lines: function_lines.Lines
    words: NDArray[np.uint8]
    word_start: NDArray[np.int64]
    number: NDArray[np.int64]
    load_address: int
    starts: NDArray[np.uint64]
    inline_count: int
    line_count: int

    def fill(self, first: int, last: int, out: NDArray[np.uint8]) -> int:
        """Write the records of functions `first` up to `last` to `out`; return their size in bytes. What does not fit
        is not written, but counted."""
        text = engine.text.writer.TextWriter(*views(self.words, self.word_start, out))
        number, bases = views(self.number, _bases())
        records = self.functions, self.inlines, self.lines
        engine.breakpad.function_lines.write(*records, number, bases, first, last, self.load_address, text)
        return text.at

    def chunks(self) -> Iterator[bytes | memoryview]:
        """All records; a chunk is valid until the next one is requested."""
        yield self.files
        yield self.origins
        out = np.empty(1 << 20, np.uint8)
        for first in range(0, len(self.starts), CHUNK):
            last = min(first + CHUNK, len(self.starts))
            size = self.fill(first, last, out)
            if size > len(out):
                out = np.empty(2 * size, np.uint8)
                self.fill(first, last, out)
            yield out[:size].data


@cache
def _bases() -> NDArray[np.uint8]:
    """The bases of the numbers of FUNC, INLINE and line records, and of ranges."""
    kinds = [kind for one in (Func, Inline, Line) for _, kind in parts_of(one)]
    numbers = [kind.kind if isinstance(kind, Maybe) else kind for kind in [*kinds, HEXADECIMAL]]
    return np.array([kind.base for kind in numbers if isinstance(kind, Number)], np.uint8)


def first_words() -> list[bytes]:
    """The words of the numbers `FunctionWord`."""
    mark = next(kind for _, kind in parts_of(Func) if isinstance(kind, Mark))
    return [one.encode() for one in (f"{NAMES[Func]} ", f"{NAMES[Func]} {mark.word} ", f"{NAMES[Inline]} ")]


def lay_out_functions(
    records: FunctionRecords,
    lines: LineRanges,
    files: Sequence[bytes],
    load_address: int = 0,
    paths: Sequence[PathMap] = (),
) -> FunctionText:
    """As `to_function_records`, with the records not yet written."""
    _check_files(records, lines, len(files))
    functions, inlines, name, origin = _kernel_records(records, lines, len(files))
    number, _ = _number_files(functions, inlines, lines, np.arange(len(files) + 1))
    path_of, texts = _paths(files, number, paths)
    number, line_count = _number_files(functions, inlines, lines, path_of)
    used = np.flatnonzero(number >= 0)
    used = used[np.argsort(number[used])]
    first = first_words()
    names, name_start = _lines(records.names.select(name))
    word_start = starts_of(np.array([len(word) for word in first]))
    return FunctionText(
        files=_numbered(File, printable(Strings.of(texts[index] for index in used.tolist()))),
        origins=_numbered(InlineOrigin, records.names.select(origin)),
        functions=functions,
        inlines=inlines,
        lines=_kernel_lines(lines, path_of),
        words=np.append(np.frombuffer(b"".join(first), np.uint8), names),
        word_start=np.append(word_start[:-1], word_start[-1] + name_start),
        number=number,
        load_address=load_address,
        starts=records.functions.address,
        inline_count=len(records.inlines),
        line_count=line_count,
    )


def _numbered(cls: type[Record], names: Strings) -> bytes:
    """The records that number names."""
    before = np.frombuffer(build_lines(cls, range(len(names)), [""] * len(names)), np.uint8)
    end = np.flatnonzero(before == ord("\n"))
    start = np.append(0, end + 1)[:-1]
    return _lines(Strings.within(before, start, end - start), names)[0].tobytes()


def _lines(*columns: Strings) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Lines, each of one string of each column; and where each starts, with one more element."""
    start = starts_of(np.sum([one.size for one in columns], axis=0) + 1)
    out, place = np.full(int(start[-1]), ord("\n"), np.uint8), start[:-1]
    for one in columns:
        place_strings(one, out, place)
        place = place + one.size
    return out, start


def _check_files(records: FunctionRecords, lines: LineRanges, count: int) -> None:
    """Raise BuildError for indices that are not those of files, of which there are `count`."""
    call_file = records.inlines.call_file
    for what, index in (("path", lines.path), ("call_file", call_file)):
        if len(index) and (int(index.max()) >= count or int(index.min()) < -1):
            raise BuildError(SOURCE, None, what, f"an index is not below {count}, the number of files")


def _number_files(
    functions: function_lines.Functions, inlines: function_lines.Inlines, lines: LineRanges, path_of: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """The number of each path in the order of its first use, -1 for unused ones; and the number of line records."""
    number = np.full(len(path_of), -1, np.int64)
    columns = _kernel_lines(lines, path_of)
    count = engine.breakpad.function_lines.number_files(functions, inlines, columns, *views(number))
    return number, count


def _kernel_lines(lines: LineRanges, path_of: NDArray[np.int64]) -> function_lines.Lines:
    """The line records as kernels take them."""
    columns = map(np.ascontiguousarray, (lines.address, lines.size, lines.line, lines.path, path_of))
    return engine.breakpad.function_lines.Lines(*views(*columns))


def _paths(
    files: Sequence[bytes], number: NDArray[np.int64], maps: Sequence[PathMap]
) -> tuple[NDArray[np.int64], list[bytes]]:
    """The number of the path of each file that has a number, the last of which is the unknown file; and the distinct
    paths. Raises BuildError if they are out of proportion to the input."""
    used = np.flatnonzero(number[:-1] >= 0)
    texts = files.select(used).whole(SOURCE) if isinstance(files, Paths) else [files[one] for one in used.tolist()]
    numbers: dict[bytes, int] = {}
    path_of = np.zeros(len(number), np.int64)
    path_of[used] = [numbers.setdefault(path, len(numbers)) for path in map_paths(texts, maps)]
    path_of[-1] = numbers.setdefault(UNKNOWN_FILE, len(numbers))
    return path_of, list(numbers)


def _kernel_records(
    records: FunctionRecords, lines: LineRanges, unknown_file: int
) -> tuple[function_lines.Functions, function_lines.Inlines, NDArray[np.int64], NDArray[np.int64]]:
    """FUNC and INLINE records as kernels take them; and the names of both, as indices in `records.names`."""
    functions, inlines, inline_ranges = records.functions, records.inlines, records.inline_ranges
    name, of_function = _by_first_use(functions.name, len(records.names))
    origin, of_inline = _by_first_use(inlines.name, len(records.names))
    first_inline = np.searchsorted(inlines.function, np.arange(len(functions) + 1))
    first_line = np.maximum(np.searchsorted(lines.address, functions.address, side="right") - 1, 0)
    kernel = engine.breakpad.function_lines
    func = kernel.Functions(
        *views(functions.address, functions.size, functions.m, of_function + FIRST_NAME, first_inline, first_line)
    )
    call_file = np.where(inlines.call_file < 0, unknown_file, inlines.call_file)
    first_range = np.searchsorted(inline_ranges.inline, np.arange(len(inlines) + 1))
    columns = (inlines.level, inlines.call_line, call_file, of_inline)
    inline = kernel.Inlines(*views(*columns, first_range, inline_ranges.start, inline_ranges.size))
    return func, inline, name, origin


def _by_first_use(index: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct indices, all below `count`, in the order of their first use; and for each its place among them."""
    first = np.full(count, len(index), np.int64)
    first[index[::-1]] = np.arange(len(index) - 1, -1, -1)
    used = np.flatnonzero(first < len(index))
    used = used[np.argsort(first[used])]
    place = np.empty(count, np.int64)
    place[used] = np.arange(len(used))
    return used, place[index]
