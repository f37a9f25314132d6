"""A whole Breakpad symbol file from a linked ELF file: MODULE, INFO CODE_ID, functions and lines, PUBLIC, STACK CFI.

Strategy: everything is read and decided first, so that malformed input is reported before the first byte is written.
The records of functions and STACK CFI, which are large, are formatted in chunks while the file is written. What reads
debugging information is imported only for a whole file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.breakpad.files import build_record
from ...schemas.breakpad.records import Module
from ...schemas.data_classes import dataclass
from ...schemas.debug_info.roots import DEBUG_INFO
from ..breakpad.module import module_of
from ..breakpad.stack_cfi.write import StackCfiText, lay_out_text
from ..elf.admission import refuse_relocatable
from ..elf.debug_files import BY_LINKS, DebugFiles
from ..elf.image import ElfImage
from ..elf.relocation import lay_out
from ..refusals import Refusals
from ..table.cut import trim
from ..threads import in_background
from .code_frames import code_frames, expressed_ranges, ranges_of
from .read_elf import DIALECTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..breakpad.function_text import FunctionText
    from ..breakpad.source_paths import PathMap
    from ..elf.function_symbols import FunctionSymbols
    from .code_frames import Ranges
    from .functions import SourceMap


def _no_ranges() -> Ranges:
    return np.zeros(0, np.uint64), np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class Unwinding:
    """The STACK CFI records, None if there are none. `functions` counts those with call frame information, `sections`
    are those that they are from, `read` those that were read; `outside` counts functions that are left out: outside
    every PT_LOAD, or, of `.debug_frame`, outside all code. The ranges of all functions are `described`; those with
    records, `written`.
    """

    lines: StackCfiText | None = None
    functions: int = 0
    sections: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    outside: int = 0
    described: Ranges = field(default_factory=_no_ranges)
    written: Ranges = field(default_factory=_no_ranges)


@dataclass(frozen=True, slots=True)
class SymbolChoices:
    """What a symbol file contains: with `cfi_only` only MODULE, INFO and STACK CFI; otherwise INLINE records if
    `inlines`, and line records if `lines`. `path_maps` change the names of source files."""

    cfi_only: bool = False
    inlines: bool = True
    lines: bool = True
    path_maps: tuple[PathMap, ...] = ()


WHOLE = SymbolChoices()


@dataclass(frozen=True, slots=True, eq=False)
class SymbolFile:
    """The contents of a symbol file: `header`, the MODULE and INFO records; `functions`, from FILE to line records,
    None if they are not wanted; `skipped_units` of `.debug_info` are malformed; `publics`, the `public_count` PUBLIC
    records; and what is known of `unwinding`.

    `outside` counts functions and symbols outside every PT_LOAD, which are omitted. `notes` are sentences about split
    units that are missing.
    """

    module: Module
    header: bytes
    functions: FunctionText | None
    skipped_units: int
    public_count: int
    publics: bytes
    unwinding: Unwinding
    outside: int
    notes: tuple[str, ...] = ()

    @property
    def lines(self) -> StackCfiText | None:
        """The STACK CFI records."""
        return self.unwinding.lines

    @property
    def refusals(self) -> Refusals | None:
        """The ranges of code with call frame information but without STACK CFI records."""
        return None if self.lines is None else self.lines.refusals

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The file's bytes; a chunk is valid until the next one is requested."""
        yield self.header
        if self.functions is not None:
            yield from self.functions.chunks()
        yield self.publics
        if self.lines is not None:
            yield from self.lines.chunks()


def symbol_file(image: ElfImage, choices: SymbolChoices = WHOLE, debug: DebugFiles = BY_LINKS) -> SymbolFile:
    """The symbol file of a linked ELF file; `debug` is for files of split DWARF. Raises ParseError.

    At a PC that both cover, `.eh_frame` wins over `.debug_frame`. Addresses are relative to the first PT_LOAD.
    """
    refuse_relocatable(image)
    module, code_id = module_of(image)
    header = b"".join(build_record(record) for record in (module, code_id) if record is not None)
    if choices.cfi_only:
        unwinding = _stack_cfi(image)
        return SymbolFile(module, header, None, 0, 0, b"", unwinding, unwinding.outside)
    from ..breakpad.public import public_lines
    from ..elf.function_symbols import function_symbols
    from .functions import source_map

    # The largest section is decompressed at the same time.
    with in_background(lambda: _stack_cfi(image), sum(one.size for one in image.named(DEBUG_INFO))) as read_unwinding:
        symbols = function_symbols(image)
        is_loaded = _is_loaded(image, symbols.address)
        found = source_map(image, choices.lines, debug)
        unwinding = read_unwinding()
    functions, outside = _functions(image, choices, symbols.select(is_loaded), found)
    outside += unwinding.outside + int((~is_loaded).sum())
    is_loaded &= ~np.isin(symbols.address, functions.starts)
    publics = public_lines(symbols.select(is_loaded), image.load_address)
    skipped, count = len(found.functions.skipped), int(is_loaded.sum())
    return SymbolFile(module, header, functions, skipped, count, publics, unwinding, outside, found.notes)


def _functions(
    image: ElfImage, choices: SymbolChoices, symbols: FunctionSymbols, found: SourceMap
) -> tuple[FunctionText, int]:
    """The text from FILE to line records, and the number of ranges of functions outside every PT_LOAD."""
    from ..breakpad.function_text import lay_out_functions
    from ..breakpad.functions import function_records
    from ..debug_info.table import InlineColumns, InlineRanges

    is_loaded = _is_loaded(image, found.functions.ranges.start)
    table = replace(found.functions, ranges=found.functions.ranges.select(is_loaded))
    if not choices.inlines:
        table = replace(table, inlines=InlineColumns.defaults(0), inline_ranges=InlineRanges.defaults(0))
    records = function_records(table, found.lines, symbols)
    text = lay_out_functions(records, found.lines, table.files, image.load_address, choices.path_maps)
    return text, int((~is_loaded).sum())


def _stack_cfi(image: ElfImage) -> Unwinding:
    """The STACK CFI records. Sections without bytes in the file (SHT_NOBITS) are ignored."""
    if all(header.is_nobits for name in DIALECTS for header in image.named(name)):
        return Unwinding()
    frames = code_frames(lay_out(image))
    table, described = frames.table, ranges_of(frames.table)
    is_loaded = _is_loaded(image, table.functions.start)
    outside = int((~is_loaded).sum()) + frames.outside
    if not is_loaded.all():
        table = table.select(is_loaded)
    if not len(table):
        return Unwinding(None, 0, frames.sections, frames.read, outside, described)
    lines = lay_out_text(table)
    written = expressed_ranges(trim(table), lines.refusals)
    return Unwinding(lines, len(table), frames.sections, frames.read, outside, described, written)


def _is_loaded(image: ElfImage, address: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which addresses are in a PT_LOAD; segments may overlap."""
    loaded = sorted((start, min(start + size, 1 << 64) - 1) for start, size in image.loaded if size)
    begin, last = (np.array(column, np.uint64) for column in zip(*loaded, strict=True)) if loaded else _no_ranges()
    reach = np.maximum.accumulate(np.append(np.uint64(0), last))
    place = np.searchsorted(begin, address, side="right")
    return (place > 0) & (address <= reach[place])
