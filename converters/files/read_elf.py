"""The unwind table of an ELF file: choice of the section, and relocatable files.

Strategy: a linked file is read as it is. A relocatable file is laid out first and read at these provisional addresses;
at the end addresses are made relative to their sections again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import checked, optional
from ...schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from ...schemas.pointers import PointerBases
from ...schemas.section import ParseError, Section
from ..cfi.read import table_from_cfi
from ..elf.debug_files import BY_LINKS, DebugFiles, with_debug_file
from ..elf.image import ElfImage, open_elf
from ..elf.inputs import Input
from ..elf.relocation import LaidOut, lay_out, place_addresses, relocate
from ..table.cut import overlay
from ..table.model import UnwindTable, concatenate, table_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (EH_FRAME, DEBUG_FRAME)}
ALL = "all"
# In the place of a section's name: the records of a symbol file; assembler text.
TEXTS = STACK_CFI, DIRECTIVES = "STACK CFI", "directives"


@checked(section=optional(str), debug=DebugFiles)
def read_elf(path: Input, section: str | None = None, debug: DebugFiles = BY_LINKS) -> UnwindTable:
    """The unwind table of an ELF file: a path, bytes in memory, or a binary stream.

    `section` names `.eh_frame`, `.debug_frame` or `.sframe`. None takes `.eh_frame`, or `.debug_frame` if that has no
    functions. "all" takes both: `.eh_frame` where it has a function, `.debug_frame` elsewhere. Several sections of the
    same name are concatenated. `debug` chooses the separate debug file, whose sections count as the file's own. In a
    relocatable file, the start of a function is relative to its `section`. Raises OSError, and ParseError if the file
    has no such section, or a malformed one.
    """
    return table_of_image(with_debug_file(open_elf(path), debug), section)


def table_of_image(image: ElfImage, section: str | None = None) -> UnwindTable:
    """As `read_elf`, for an open file, or the only section of a raw section or a symbol file."""
    laid = lay_out(image)
    table = table_of_laid_out(laid, section)
    return in_sections(laid, table) if laid.is_relocatable else replace(table, code=code_of(image))


def in_sections(laid: LaidOut, table: UnwindTable) -> UnwindTable:
    """The table of a laid-out file with each address relative to its section; of a linked file as it is."""
    if not laid.is_relocatable:
        return table
    section, start = sections_of(laid, table)
    functions = table.functions
    personality, lsda = (place_addresses(laid, column)[1] for column in (functions.personality, functions.lsda))
    functions = replace(functions, section=section, start=start, personality=personality, lsda=lsda)
    return replace(table, functions=functions)


def sections_of(laid: LaidOut, table: UnwindTable) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """The section that each function of a laid-out file is in, 0 for none, and its offset there. Raises ParseError."""
    functions = table.functions
    section, start, is_stray = place_addresses(laid, functions.start)
    for wrong in np.flatnonzero(is_stray)[:1]:
        record = f"FDE[{wrong}].initial_location"
        raise ParseError(table.source, int(functions.origin[wrong]), record, "is in no section of the file")
    return section, start


def code_of(image: ElfImage) -> tuple[Section, ...]:
    """The executable sections whose bytes are in the file."""
    present = (one for one in image.sections if one.is_code and not one.is_nobits and not one.is_compressed)
    return tuple(image.contents(one) for one in present if one.file_offset + one.size <= len(image.data))


def table_of_laid_out(laid: LaidOut, section: str | None = None) -> UnwindTable:
    """As `read_elf`, with the provisional addresses of a laid-out relocatable file."""
    tables = (_read(laid, name) for name in frame_sections(laid.image, section))
    if section == ALL:
        return reduce(overlay, tables)
    first = next(tables)
    return first if len(first) else next(tables, first)


def frame_sections(image: ElfImage, section: str | None) -> tuple[str, ...]:
    """The names of the sections that `read_elf` reads for a `section`. Raises ParseError if there are none."""
    if section is not None and section != ALL:
        return (section,)
    if not image.is_elf:
        return (image.sections[-1].name,)
    present = [name for name in DIALECTS if image.named(name)]
    if not present:
        raise ParseError("", None, "", "has no call frame information: neither .eh_frame nor .debug_frame")
    return tuple(name for name in present if not image.named(name)[0].is_nobits) or tuple(present)


def _read(laid: LaidOut, name: str) -> UnwindTable:
    """The concatenated tables of all sections of a name."""
    found = laid.image.named(name)
    if not found:
        raise ParseError(name, None, "", "the file has no such section")
    return concatenate([table_of_section(laid.image, relocate(laid, header)) for header in found])


def table_of_section(image: ElfImage, section: Section) -> UnwindTable:
    """The table of one section of an open file, if relocatable at its laid-out addresses. Raises ParseError."""
    if section.name == ".sframe":
        # GNU as 2.45 writes some empty sections: they are valid, without functions.
        if not len(section):
            return table_of(image.architecture, (), source=".sframe")
        from ..sframe.read import table_from_sframe  # not needed for most files

        return table_from_sframe(section)
    if section.name == STACK_CFI:
        from ..breakpad.symbols import read_symbols

        return read_symbols(bytes(section.data), image.architecture, image.load_address).table
    if section.name == DIRECTIVES:
        from .directives import table_from_directives

        return table_from_directives(bytes(section.data), image.architecture, section.address or None, image.byte_order)
    if section.name not in DIALECTS:
        raise ParseError(section.name, None, "", "is not a section of unwind information")
    bases = PointerBases(data=image.data_base)
    dialect, architecture = DIALECTS[section.name], image.architecture
    return table_from_cfi(section, dialect, architecture, image.load_address, bases=bases)
