"""The contents of sections as text and as JSON values (`unwindkit dump`).

Strategy: one table, SECTIONS, has for each section name the function for text and the one for JSON. Sections come in
the order of the section headers, as in readelf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ..converters.elf.admission import refuse_relocatable
from ..converters.elf.image import ElfSection, open_elf
from ..converters.elf.relocation import LaidOut, lay_out, relocate
from ..converters.elf.symbols import addresses_asked_for
from ..converters.files.read_elf import DIALECTS
from ..converters.table.lookup import addresses
from ..schemas.lookup_tables import ARANGES
from ..schemas.macros import MACRO_SECTIONS
from ..schemas.section import BuildError, ParseError, Section
from . import StrPath

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..converters.macro.strings import MacroSources

CFI_SECTIONS = (".eh_frame_hdr", *DIALECTS)
SFRAME_SECTIONS = (".sframe",)
UNWIND_SECTIONS = (*CFI_SECTIONS, *SFRAME_SECTIONS)
LINE_SECTIONS = (".debug_line", ".debug_line.dwo")
ARANGES_SECTIONS = (ARANGES,)
PUBNAMES_SECTIONS = (".debug_pubnames", ".debug_gnu_pubnames")
PUBTYPES_SECTIONS = (".debug_pubtypes", ".debug_gnu_pubtypes")
MACROS = tuple(MACRO_SECTIONS)
TABLE_SECTIONS = (*ARANGES_SECTIONS, *PUBNAMES_SECTIONS, *PUBTYPES_SECTIONS, *MACROS)

# Line number programs are shown as instructions or as rows.
LineView = Literal["raw", "decoded"]
RAW: LineView = "raw"
DECODED: LineView = "decoded"


class JsonSection(NamedTuple):
    """A section in JSON: the fields of the section itself, and its `parts`, in an array called `name`."""

    fields: dict[str, Any]
    name: str
    parts: Iterator[dict[str, Any]]


@dataclass(slots=True, eq=False)
class Opened:
    """A section of an open file, and how to show it. `sources`, the strings that macro entries refer to, is shared by
    all sections of the file and empty until first needed."""

    laid: LaidOut
    header: ElfSection
    interpreted: bool
    line_views: tuple[LineView, ...]
    pcs: NDArray[np.uint64] | None
    sources: list[MacroSources]

    @property
    def section(self) -> Section:
        return relocate(self.laid, self.header)

    @property
    def machine(self) -> str:
        return str(self.laid.image.machine)

    @property
    def has_bytes(self) -> bool:
        return self.header.size > 0 and not self.header.is_nobits

    def macro_sources(self) -> MacroSources:
        if not self.sources:
            self.sources.append(_macro_sources(self.laid))
        return self.sources[0]


Text: TypeAlias = Callable[[Opened], Iterator[bytes]]
Json: TypeAlias = Callable[[Opened], Iterator[JsonSection]]


def dump_sframe(path: StrPath) -> Iterator[bytes]:
    """Yield the text of every `.sframe` of an ELF file as GNU readelf 2.47 prints it. Raises OSError and ParseError."""
    return dump_sections(path, SFRAME_SECTIONS)


def dump_cfi(path: StrPath, interpreted: bool = False) -> Iterator[bytes]:
    """Yield call frame information as `readelf -wNf` prints it (instructions), or if `interpreted` as `readelf -wNF`
    (rows). Raises as `dump_sframe`."""
    return dump_sections(path, CFI_SECTIONS, interpreted)


def dump_lines(path: StrPath, view: LineView = RAW) -> Iterator[bytes]:
    """Yield line number programs as `readelf -wNl` prints them (instructions), or in the view "decoded" as `readelf
    -wNL` (rows). Raises as `dump_sframe`."""
    return dump_sections(path, LINE_SECTIONS, line_views=(view,))


def dump_sections(
    path: StrPath,
    names: tuple[str, ...],
    interpreted: bool = False,
    line_views: tuple[LineView, ...] = (RAW,),
    at: Sequence[int | str] = (),
) -> Iterator[bytes]:
    """Yield the text of the sections with these names. Call frame information is shown as rows if `interpreted`, line
    number programs in each of `line_views`.

    `at` are addresses and names of functions: `.eh_frame`, `.debug_frame` and `.sframe` are then shown with only the
    functions that cover one of them, and their CIEs. Raises as `dump_sframe`, and BuildError if a section has no
    functions.
    """
    for opened in _opened(path, names, interpreted, line_views, at):
        name = opened.header.name
        if opened.has_bytes or name in SFRAME_SECTIONS:
            text, _ = SECTIONS[name]
            yield from text(opened)
        elif not opened.header.size:
            yield f"\nSection '{name}' has no debugging data.\n".encode()
        else:
            # readelf's words. A file of debugging information has such an `.eh_frame` beside its `.debug_frame`.
            yield f"section '{name}' has the NOBITS type - its contents are unreliable.\n".encode()


def dump_json(
    path: StrPath,
    names: tuple[str, ...],
    interpreted: bool = False,
    line_views: tuple[LineView, ...] = (RAW,),
    at: Sequence[int | str] = (),
) -> Iterator[JsonSection]:
    """As `dump_sections`, as JSON values. Sections without bytes in the file are left out."""
    for opened in _opened(path, names, interpreted, line_views, at):
        if opened.has_bytes or opened.header.name in SFRAME_SECTIONS:
            _, json = SECTIONS[opened.header.name]
            yield from json(opened)


def _opened(
    path: StrPath,
    names: tuple[str, ...],
    interpreted: bool,
    line_views: tuple[LineView, ...],
    at: Sequence[int | str],
) -> Iterator[Opened]:
    image = open_elf(path)
    pcs = None
    if at:
        refuse_relocatable(image)
        names = _with_functions(names)
        pcs = addresses([address for address, _ in addresses_asked_for(image, at)])
    found = [header for header in image.sections if header.name in names]
    if not found:
        one = len(names) == 1
        reason = "the file has no such section" if one else f"the file has none of {', '.join(names)}"
        raise ParseError(names[0] if one else "", None, "", reason)
    laid = lay_out(image, at_zero=True)
    sources: list[MacroSources] = []
    for header in found:
        if header.name in SFRAME_SECTIONS:
            refuse_relocatable(image)
        yield Opened(laid, laid.image.sections[header.index], interpreted, line_views, pcs, sources)


def _with_functions(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some sections whose entries are functions. An `.eh_frame_hdr` is left out: it is only an index."""
    for name in names:
        if name not in UNWIND_SECTIONS:
            raise BuildError(name, None, "at", "its entries are not functions")
    return tuple(name for name in names if name in DIALECTS or name in SFRAME_SECTIONS)


def _sframe_text(opened: Opened) -> Iterator[bytes]:
    from ..converters.sframe.dump import sframe_text

    return sframe_text(opened.laid.image.contents(opened.header), opened.pcs)


def _sframe_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.sframe.dump import sframe_json

    fields, parts = sframe_json(opened.laid.image.contents(opened.header), opened.pcs)
    yield JsonSection(fields, "functions", parts)


def _cfi_text(opened: Opened) -> Iterator[bytes]:
    from ..converters.cfi.dump.readelf import cfi_text

    dialect = DIALECTS[opened.header.name]
    return cfi_text(opened.section, dialect, opened.machine, opened.interpreted, opened.pcs)


def _cfi_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.cfi.dump.to_json import cfi_json

    dialect = DIALECTS[opened.header.name]
    fields, parts = cfi_json(opened.section, dialect, opened.machine, opened.interpreted, opened.pcs)
    yield JsonSection(fields, "entries", parts)


def _eh_frame_hdr_text(opened: Opened) -> Iterator[bytes]:
    from ..converters.cfi.dump.eh_frame_hdr import eh_frame_hdr_text

    return eh_frame_hdr_text(opened.laid.image.contents(opened.header))


def _eh_frame_hdr_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.cfi.dump.eh_frame_hdr import eh_frame_hdr_json

    fields, parts = eh_frame_hdr_json(opened.section)
    yield JsonSection(fields, "table", parts)


def _line_text(opened: Opened) -> Iterator[bytes]:
    from ..converters.line.dump.decode import read_line_dump
    from ..converters.line.dump.decoded import decoded_line_text
    from ..converters.line.dump.raw import raw_line_text
    from ..converters.line.read import string_sections

    dump = read_line_dump(opened.section, string_sections(opened.laid))
    if RAW in opened.line_views:
        yield from raw_line_text(dump)
    if DECODED in opened.line_views:
        yield from decoded_line_text(dump)


def _line_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.line.dump.to_json import line_json
    from ..converters.line.read import string_sections

    for view in (RAW, DECODED):
        if view in opened.line_views:
            fields, parts = line_json(opened.section, string_sections(opened.laid), decoded=view == DECODED)
            yield JsonSection(fields, "units", parts)


def _aranges_text(opened: Opened) -> Iterator[bytes]:
    from ..converters.lookup_tables.aranges_dump import address_ranges_text

    return address_ranges_text(opened.section)


def _aranges_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.lookup_tables.aranges_dump import address_ranges_json

    fields, parts = address_ranges_json(opened.section)
    yield JsonSection(fields, "sets", parts)


def _names_text(opened: Opened) -> Iterator[bytes]:
    from ..converters.lookup_tables.pubnames_dump import names_text

    return names_text(opened.section)


def _names_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.lookup_tables.pubnames_dump import names_json

    fields, parts = names_json(opened.section)
    yield JsonSection(fields, "sets", parts)


def _macro_text(opened: Opened) -> Iterator[bytes]:
    from ..converters.macro.dump import macro_text

    return macro_text(opened.section, opened.macro_sources())


def _macro_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.macro.dump import macro_json

    fields, parts = macro_json(opened.section, opened.macro_sources())
    yield JsonSection(fields, "units", parts)


SECTIONS: dict[str, tuple[Text, Json]] = {
    ".eh_frame_hdr": (_eh_frame_hdr_text, _eh_frame_hdr_json),
    **dict.fromkeys(DIALECTS, (_cfi_text, _cfi_json)),
    **dict.fromkeys(SFRAME_SECTIONS, (_sframe_text, _sframe_json)),
    **dict.fromkeys(LINE_SECTIONS, (_line_text, _line_json)),
    **dict.fromkeys(ARANGES_SECTIONS, (_aranges_text, _aranges_json)),
    **dict.fromkeys((*PUBNAMES_SECTIONS, *PUBTYPES_SECTIONS), (_names_text, _names_json)),
    **dict.fromkeys(MACROS, (_macro_text, _macro_json)),
}


def _macro_sources(laid: LaidOut) -> MacroSources:
    """The sections that macro entries refer to: the first of each name."""
    from ..converters.macro.strings import macro_sources, string_offsets_bases

    names = (".debug_str", ".debug_line_str", ".debug_str_offsets", ".debug_line")
    strings, line_strings, offsets, line = (_first(laid, name) for name in names)
    bases = None
    if offsets is not None:
        bases = string_offsets_bases(offsets, _first(laid, ".debug_info"), _first(laid, ".debug_abbrev"))
    return macro_sources(strings, line_strings, offsets, line, bases)


def _first(laid: LaidOut, name: str) -> Section | None:
    """The first section of this name that has bytes, None if there is none."""
    found = next((one for one in laid.image.named(name) if one.size and not one.is_nobits), None)
    return None if found is None else relocate(laid, found)
