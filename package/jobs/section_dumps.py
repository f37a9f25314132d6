"""Each section that `dump` shows: the function for text and the one for JSON.

Strategy: one table, SECTIONS, by section name; formats are imported when one of their sections is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ..converters.elf.image import ElfSection
from ..converters.elf.relocation import LaidOut, relocate
from ..converters.files.read_elf import DIALECTS, DIRECTIVES, STACK_CFI
from ..converters.table.lookup import ChosenPcs
from ..schemas.arguments import check_place, each, one_of, optional
from ..schemas.data_classes import dataclass
from ..schemas.lookup_tables import ARANGES
from ..schemas.macros import MACRO_SECTIONS
from ..schemas.section import Section

if TYPE_CHECKING:
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


@dataclass(frozen=True, slots=True)
class Request:
    """What to show: sections of these names (None: unwind information, or the whole of a raw input); call frame
    information as rows if `interpreted`, line number programs in each of `line_views`; of functions only those `at`
    addresses or names (empty: all)."""

    names: tuple[str, ...] | None
    interpreted: bool
    line_views: tuple[LineView, ...]
    at: tuple[int | str, ...]

    def __post_init__(self) -> None:
        """Raises TypeError and ValueError for what cannot be asked for."""
        optional(each(str))(self.names, "names")
        each(one_of("raw", "decoded"))(self.line_views, "line_views")
        each(check_place)(self.at, "at")


@dataclass(slots=True, eq=False)
class Opened:
    """A section of an open file, and how to show it: the `request`, and which functions, None for all. `sources`, the
    strings that macro entries refer to, is shared by all sections of the file and empty until first needed."""

    laid: LaidOut
    header: ElfSection
    request: Request
    chosen: ChosenPcs | None
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


def _sframe_text(opened: Opened) -> Iterator[bytes]:
    from ..converters.sframe.dump import sframe_text

    return sframe_text(opened.section, opened.chosen)


def _sframe_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.sframe.dump import sframe_json

    fields, parts = sframe_json(opened.section, opened.chosen)
    yield JsonSection(fields, "functions", parts)


def _cfi_text(opened: Opened) -> Iterator[bytes]:
    from ..converters.cfi.dump.readelf import cfi_text

    dialect = DIALECTS[opened.header.name]
    return cfi_text(opened.section, dialect, opened.machine, opened.request.interpreted, opened.chosen)


def _cfi_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.cfi.dump.to_json import cfi_json

    dialect = DIALECTS[opened.header.name]
    fields, parts = cfi_json(opened.section, dialect, opened.machine, opened.request.interpreted, opened.chosen)
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
    if RAW in opened.request.line_views:
        yield from raw_line_text(dump)
    if DECODED in opened.request.line_views:
        yield from decoded_line_text(dump)


def _line_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.line.dump.to_json import line_json
    from ..converters.line.read import string_sections

    for view in (RAW, DECODED):
        if view in opened.request.line_views:
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


def _stack_text(opened: Opened) -> Iterator[bytes]:
    from ..converters.files.symbol_dump import stack_records_text

    if opened.request.interpreted:
        return _table_text(opened)
    return stack_records_text(opened.laid.image, opened.chosen)


def _stack_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.files.symbol_dump import stack_records_json

    if opened.request.interpreted:
        yield from _table_json(opened)
        return
    fields, parts = stack_records_json(opened.laid.image, opened.chosen)
    yield JsonSection(fields, "records", parts)


def _table_text(opened: Opened) -> Iterator[bytes]:
    from ..converters.files.table_dump import table_text

    return table_text(opened.laid.image, opened.request.interpreted, opened.chosen)


def _table_json(opened: Opened) -> Iterator[JsonSection]:
    from ..converters.files.table_dump import table_json

    fields, parts = table_json(opened.laid.image, opened.request.interpreted, opened.chosen)
    yield JsonSection(fields, "entries", parts)


SECTIONS: dict[str, tuple[Text, Json]] = {
    ".eh_frame_hdr": (_eh_frame_hdr_text, _eh_frame_hdr_json),
    **dict.fromkeys(DIALECTS, (_cfi_text, _cfi_json)),
    **dict.fromkeys(SFRAME_SECTIONS, (_sframe_text, _sframe_json)),
    **dict.fromkeys(LINE_SECTIONS, (_line_text, _line_json)),
    **dict.fromkeys(ARANGES_SECTIONS, (_aranges_text, _aranges_json)),
    **dict.fromkeys((*PUBNAMES_SECTIONS, *PUBTYPES_SECTIONS), (_names_text, _names_json)),
    **dict.fromkeys(MACROS, (_macro_text, _macro_json)),
    STACK_CFI: (_stack_text, _stack_json),
    DIRECTIVES: (_table_text, _table_json),
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
