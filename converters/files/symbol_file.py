"""A whole Breakpad symbol file from a stripped ELF file: MODULE, INFO CODE_ID, PUBLIC, STACK CFI.

Strategy: everything is read and decided first, so that malformed input is reported before the first byte is written.
The STACK CFI records, which are large, are formatted in chunks while the file is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.breakpad import Module
from ...schemas.breakpad_files import build_record
from ..breakpad.module import module_of
from ..breakpad.public import PublicSymbols, public_lines, public_symbols
from ..breakpad.stack_cfi.write import StackCfiText, lay_out_text
from ..elf.admission import refuse_relocatable
from ..elf.image import ElfImage
from ..refusals import Refusals
from .read_elf import ALL, DIALECTS, table_of_image

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class SymbolFile:
    """The contents of a symbol file: `header`, the MODULE and INFO records; `publics`, the `public_count` PUBLIC
    records; `lines`, the STACK CFI records, None if the file has no call frame information.

    `functions` counts those with call frame information, `source` names its sections. `outside` counts functions and
    symbols outside every PT_LOAD, which are omitted.
    """

    module: Module
    header: bytes
    public_count: int
    publics: bytes
    lines: StackCfiText | None
    functions: int
    source: str
    outside: int

    @property
    def refusals(self) -> Refusals | None:
        """The ranges of code with call frame information but without STACK CFI records."""
        return None if self.lines is None else self.lines.refusals

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The file's bytes; a chunk is valid until the next one is requested."""
        yield self.header
        yield self.publics
        if self.lines is not None:
            yield from self.lines.chunks()


def symbol_file(image: ElfImage, cfi_only: bool = False) -> SymbolFile:
    """The symbol file of a linked ELF file; without PUBLIC records if `cfi_only`. Raises ParseError.

    At a PC that both cover, `.eh_frame` wins over `.debug_frame`. Addresses are relative to the first PT_LOAD.
    """
    refuse_relocatable(image)
    module, code_id = module_of(image)
    header = b"".join(build_record(record) for record in (module, code_id) if record is not None)
    # The table takes most memory: it is freed before the symbols are read.
    lines, functions, source, outside = _stack_cfi(image)
    symbols = PublicSymbols.empty() if cfi_only else public_symbols(image)
    is_loaded = _is_loaded(image, symbols.address)
    publics = public_lines(symbols.select(is_loaded), image.load_address)
    public_count = int(is_loaded.sum())
    outside += len(is_loaded) - public_count
    return SymbolFile(module, header, public_count, publics, lines, functions, source, outside)


def _stack_cfi(image: ElfImage) -> tuple[StackCfiText | None, int, str, int]:
    """The STACK CFI records, the number of functions with call frame information, its sections, and the number of
    functions outside every PT_LOAD. Sections without bytes in the file (SHT_NOBITS) are ignored.
    """
    if all(header.is_nobits for name in DIALECTS for header in image.named(name)):
        return None, 0, "", 0
    table = table_of_image(image, ALL)
    is_loaded = _is_loaded(image, table.functions.start)
    outside = int((~is_loaded).sum())
    if outside:
        table = table.select(is_loaded)
    return lay_out_text(table) if len(table) else None, len(table), table.source, outside


def _is_loaded(image: ElfImage, address: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which addresses are in a PT_LOAD."""
    found = np.zeros(len(address), np.bool_)
    for start, size in image.loaded:
        found |= address - np.uint64(start) < np.uint64(size)
    return found
