"""Look-up tables and macro information as text and as plain data: what `dumps` hands over to.

Strategy: a section's name says what it is; macro entries point into other sections, of which the first of each name
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ..converters.elf import ElfSection
from ..converters.relocation import LaidOut, relocated
from ..schemas.lookup_tables import ARANGES
from ..schemas.macros import MACRO_SECTIONS
from ..schemas.section import Section

if TYPE_CHECKING:
    from ..converters.macro_sources import MacroSources

    Sources = Callable[[], MacroSources]

ARANGES_SECTIONS = (ARANGES,)
PUBNAMES_SECTIONS = (".debug_pubnames", ".debug_gnu_pubnames")
PUBTYPES_SECTIONS = (".debug_pubtypes", ".debug_gnu_pubtypes")
MACROS = tuple(MACRO_SECTIONS)
TABLE_SECTIONS = (*ARANGES_SECTIONS, *PUBNAMES_SECTIONS, *PUBTYPES_SECTIONS, *MACROS)


def table_text(laid: LaidOut, header: ElfSection, sources: Sources) -> Iterator[bytes]:
    """A section of TABLE_SECTIONS as readelf 2.47 prints it, in pieces. Raises ParseError."""
    section = relocated(laid, header)
    if header.name in MACROS:
        from ..converters.macro_text import macro_text

        yield from macro_text(section, sources())
    elif header.name in ARANGES_SECTIONS:
        from ..converters.address_ranges_text import address_ranges_text

        yield from address_ranges_text(section)
    else:
        from ..converters.pubnames_text import names_text

        yield from names_text(section)


def table_plain(
    laid: LaidOut, header: ElfSection, sources: Sources
) -> tuple[dict[str, Any], str, Iterator[dict[str, Any]]]:
    """As `table_text`, as plain data: the section's own fields, the name of its parts, and these."""
    section = relocated(laid, header)
    if header.name in MACROS:
        from ..converters.macro_plain import macro_plain

        fields, parts = macro_plain(section, sources())
        return fields, "units", parts
    if header.name in ARANGES_SECTIONS:
        from ..converters.address_ranges_text import address_ranges_plain

        fields, parts = address_ranges_plain(section)
        return fields, "sets", parts
    from ..converters.pubnames_text import names_plain

    fields, parts = names_plain(section)
    return fields, "sets", parts


def sources_of(laid: LaidOut) -> Sources:
    """What macro entries of a file point at, found when it is first asked for; a file may have many such sections."""
    return cache(partial(_found_sources, laid))


def _found_sources(laid: LaidOut) -> MacroSources:
    from ..converters.macro_sources import macro_sources, string_offsets_bases

    names = (".debug_str", ".debug_line_str", ".debug_str_offsets", ".debug_line")
    strings, line_strings, offsets, line = (_first(laid, name) for name in names)
    bases = None
    if offsets is not None:
        bases = string_offsets_bases(offsets, _first(laid, ".debug_info"), _first(laid, ".debug_abbrev"))
    return macro_sources(strings, line_strings, offsets, line, bases)


def _first(laid: LaidOut, name: str) -> Section | None:
    """The first section of that name, None where the file has none."""
    found = next((one for one in laid.image.named(name) if one.size and not one.is_nobits), None)
    return None if found is None else relocated(laid, found)
