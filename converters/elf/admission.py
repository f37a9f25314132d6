"""Which ELF files are refused, and why."""

from __future__ import annotations

from ...schemas.section import ParseError, Section
from .image import ElfImage, ElfSection

# The section of every Linux module's `struct module`.
MODULE_SECTION = ".gnu.linkonce.this_module"


def is_object(image: ElfImage) -> bool:
    """Whether the file is an object to be linked: relocatable, but not a kernel module, which is loaded as it is."""
    return image.type == "ET_REL" and not image.named(MODULE_SECTION)


def refuse_module(image: ElfImage) -> None:
    """Raise ParseError for a kernel module, which is relocatable but never linked."""
    if image.type == "ET_REL" and not is_object(image):
        refuse_relocatable(image)


def refuse_relocatable(image: ElfImage) -> None:
    """Raise ParseError for a file whose functions have no addresses yet."""
    if image.type == "ET_REL":
        kind = "kernel module" if image.named(MODULE_SECTION) else "relocatable file"
        raise ParseError("", None, "e_type", f"is a {kind}: its addresses are not known before the link")


def section_of_image(image: ElfImage, name: str) -> Section:
    """The only section of that name in a linked file. Raises ParseError otherwise."""
    refuse_relocatable(image)
    return image.contents(only_section(image, name))


def only_section(image: ElfImage, name: str) -> ElfSection:
    """The header of the only section of that name. Raises ParseError if there is none or more than one."""
    found = image.named(name)
    if not found:
        raise ParseError(name, None, "", "the file has no such section")
    if len(found) > 1:
        raise ParseError(name, None, "", f"the file has {len(found)} sections of that name")
    return found[0]
