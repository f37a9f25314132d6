"""Debugging sections by name, relocated; and the units of a file's `.debug_info`.

Strategy: a relocatable file may have several sections of one name, in groups of which a linker keeps one. They are
concatenated, and relocations are applied as if they were one section.
"""

from __future__ import annotations

from dataclasses import replace

from ...schemas.arguments import checked
from ...schemas.debug_info.roots import DEBUG_ABBREV, DEBUG_INFO
from ...schemas.section import ParseError, Section
from ..dwarf.unit_strings import LINE_STR, STR, STR_OFFSETS, StringSections
from ..dwarf.units import NO_UNITS, DebugUnits, units_of_sections
from .debug_files import BY_LINKS, DebugFiles, with_debug_file
from .image import ElfImage, open_elf
from .inputs import Input
from .relocation import LaidOut, lay_out, relocate
from .supplementary import SUPPLEMENTARY_STRINGS

GROUPED = (DEBUG_INFO, ".debug_macro")


@checked(debug=DebugFiles)
def read_units(path: Input, debug: DebugFiles = BY_LINKS) -> DebugUnits:
    """The units of the `.debug_info` of an ELF file: a path, bytes in memory, or a binary stream.

    `debug` chooses its debug file. Raises OSError, and ParseError if a section is malformed. A file without
    `.debug_info` has no units.
    """
    laid = lay_out_debug(with_debug_file(open_elf(path), debug))
    return units_of_file(laid, debug_strings(laid))


def lay_out_debug(image: ElfImage) -> LaidOut:
    """As `lay_out` with `at_zero`, but sections of one name in `GROUPED` follow each other."""
    laid = lay_out(image, at_zero=True)
    if not laid.is_relocatable:
        return laid
    address = laid.address.copy()
    for name in GROUPED:
        end = 0
        for one in laid.image.named(name):
            address[one.index] = end
            end += laid.image.content_size(one)
    return replace(laid, address=address)


def debug_section(laid: LaidOut, name: str) -> Section | None:
    """The section of that name, None if the file has no bytes of it. Raises ParseError if a linked file has several."""
    found = [one for one in laid.image.named(name) if one.size and not one.is_nobits]
    if not found:
        return None
    sections = [relocate(laid, one) for one in found]
    if len(found) == 1:
        return sections[0]
    if not laid.is_relocatable or name not in GROUPED:
        raise ParseError(name, None, "", f"the file has {len(found)} sections of that name")
    data = b"".join(one.data for one in sections)
    return replace(sections[0], data=memoryview(data), file_offset=None)


def units_of_file(laid: LaidOut, strings: StringSections) -> DebugUnits:
    """As `read_units`, from an open file with these `debug_strings`. Raises ParseError."""
    debug_info = debug_section(laid, DEBUG_INFO)
    if debug_info is None:
        return NO_UNITS
    return units_of_sections(debug_info, debug_section(laid, DEBUG_ABBREV), strings)


def debug_strings(laid: LaidOut) -> StringSections:
    """The file's sections of strings."""
    names = (STR, LINE_STR, STR_OFFSETS, SUPPLEMENTARY_STRINGS)
    return StringSections(*(debug_section(laid, name) for name in names))
