"""Unwind information of an ELF file into the table: which section speaks, and what is said where none does."""

from __future__ import annotations

import os
from dataclasses import replace

from ..schemas.callframe import DEBUG_FRAME, EH_FRAME, Dialect
from ..schemas.section import ParseError, Section
from .arch import Architecture
from .callframe import table_from_cfi
from .elf import ElfImage, open_elf
from .sframe import table_from_sframe
from .unwind import UnwindTable, table_of

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (EH_FRAME, DEBUG_FRAME)}


def read_elf(path: str | os.PathLike[str], section: str | None = None) -> UnwindTable:
    """The unwind table of an ELF file.

    `section` names `.eh_frame`, `.debug_frame` or `.sframe`; None takes `.eh_frame`, or `.debug_frame` where
    that covers nothing. Raises OSError, and ParseError where the file has no such section, or a broken one.
    """
    return table_of_image(open_elf(path), section)


def table_of_image(image: ElfImage, section: str | None = None) -> UnwindTable:
    """As `read_elf`, for an open file."""
    supported_architecture(image)
    refuse_relocatable(image)
    return replace(_table_of_image(image, section), code=_code(image))


def _code(image: ElfImage) -> tuple[Section, ...]:
    """The executable sections that the file has the bytes of."""
    present = (one for one in image.sections if one.is_code and not one.is_nobits and not one.is_compressed)
    return tuple(image.contents(one) for one in present if one.file_offset + one.size <= len(image.data))


def _table_of_image(image: ElfImage, section: str | None) -> UnwindTable:
    if section is not None:
        return _read(image, section)
    present = [name for name in DIALECTS if image.named(name)]
    if not present:
        raise ParseError("", None, "", "has no call frame information: neither .eh_frame nor .debug_frame")
    readable = [name for name in present if not image.named(name)[0].is_nobits]
    table = _read(image, (readable or present)[0])
    return table if len(table) or len(readable) < 2 else _read(image, readable[1])


# Every Linux module has its `struct module` there.
MODULE_SECTION = ".gnu.linkonce.this_module"


def supported_architecture(image: ElfImage) -> Architecture:
    """The image's architecture; ParseError where it is none of ours."""
    if image.architecture is None:
        if (image.machine, image.address_size) == ("EM_X86_64", 4):
            raise ParseError("", None, "e_machine", "is x32, x86-64 code in ELF32, which is not supported")
        reason = f"{image.machine} with addresses of {image.address_size} bytes is not supported"
        raise ParseError("", None, "e_machine", reason)
    return image.architecture


def refuse_relocatable(image: ElfImage) -> None:
    """ParseError for a file whose functions have no addresses yet."""
    if image.type == "ET_REL":
        kind = "kernel module" if image.named(MODULE_SECTION) else "relocatable file"
        raise ParseError("", None, "e_type", f"is a {kind}: its addresses are not known before the link")


def _read(image: ElfImage, name: str) -> UnwindTable:
    return table_of_section(image, section_of_image(image, name))


def section_of_image(image: ElfImage, name: str) -> Section:
    """The one section of that name, of a linked file of a known architecture. Raises ParseError."""
    supported_architecture(image)
    refuse_relocatable(image)
    found = image.named(name)
    if not found:
        raise ParseError(name, None, "", "the file has no such section")
    if len(found) > 1:
        raise ParseError(name, None, "", f"the file has {len(found)} sections of that name")
    return image.contents(found[0])


def table_of_section(image: ElfImage, section: Section) -> UnwindTable:
    """The table of one section of an open file. Raises ParseError."""
    if section.name == ".sframe":
        # GNU as 2.45 leaves some without a byte: nothing is said, and nothing is wrong.
        return (
            table_from_sframe(section)
            if len(section)
            else table_of(supported_architecture(image), (), source=".sframe")
        )
    if section.name not in DIALECTS:
        raise ParseError(section.name, None, "", "is not a section of unwind information")
    return table_from_cfi(section, DIALECTS[section.name], supported_architecture(image), image.load_address)
