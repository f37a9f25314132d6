"""A whole Breakpad symbol file from a stripped ELF file: MODULE, INFO CODE_ID, PUBLIC, STACK CFI.

Strategy: everything is read and decided first, so that broken input is told before a byte is written; what takes room,
the STACK CFI lines, is made piece by piece as it is written.
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
    """What a symbol file is made of: `head`, its first lines, `publics`, the PUBLIC lines, and `lines`, STACK CFI, None
    where the file has no call frame information. `functions` have some, in `source`. `outside` counts functions
    and symbols that lie outside every PT_LOAD, and are left out.
    """

    module: Module
    head: bytes
    public_count: int
    publics: bytes
    lines: StackCfiText | None
    functions: int
    source: str
    outside: int

    @property
    def refusals(self) -> Refusals | None:
        """The ranges of code without lines, though they have call frame information."""
        return None if self.lines is None else self.lines.refusals

    def pieces(self) -> Iterator[bytes | memoryview]:
        """The file's bytes; each piece stands only until the next is asked for."""
        yield self.head
        yield self.publics
        if self.lines is not None:
            yield from self.lines.chunks()


def symbol_file(image: ElfImage, cfi_only: bool = False) -> SymbolFile:
    """The symbol file of a linked ELF file; without PUBLIC records if `cfi_only`. Raises ParseError.

    Of `.eh_frame` and `.debug_frame` the first wins at a PC. Addresses count from the first PT_LOAD.
    """
    refuse_relocatable(image)
    module, code_id = module_of(image)
    head = b"".join(build_record(record) for record in (module, code_id) if record is not None)
    # The table takes most memory: it is gone before there are names.
    lines, functions, source, outside = _stack_cfi(image)
    symbols = PublicSymbols.empty() if cfi_only else public_symbols(image)
    is_loaded = _is_loaded(image, symbols.address)
    publics = public_lines(symbols.select(is_loaded), image.load_address)
    public_count = int(is_loaded.sum())
    outside += len(is_loaded) - public_count
    return SymbolFile(module, head, public_count, publics, lines, functions, source, outside)


def _stack_cfi(image: ElfImage) -> tuple[StackCfiText | None, int, str, int]:
    """The lines of all call frame information that the file has the bytes of, how many functions have some, in which
    sections, and how many more lie outside."""
    if all(header.is_nobits for name in DIALECTS for header in image.named(name)):
        return None, 0, "", 0
    table = table_of_image(image, ALL)
    is_loaded = _is_loaded(image, table.functions.start)
    outside = int((~is_loaded).sum())
    if outside:
        table = table.select(is_loaded)
    return lay_out_text(table) if len(table) else None, len(table), table.source, outside


def _is_loaded(image: ElfImage, address: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which addresses lie in a PT_LOAD."""
    found = np.zeros(len(address), np.bool_)
    for start, size in image.loaded:
        found |= address - np.uint64(start) < np.uint64(size)
    return found
