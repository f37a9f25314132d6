"""What sections hold, as text and as plain data for JSON: the jobs of `unwindkit dump`.

Strategy: sections in the order of the file's headers, whatever is asked for, as readelf has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from ..converters.elf import ElfSection, open_elf
from ..converters.reading import DIALECTS, refuse_relocatable
from ..converters.relocation import LaidOut, laid_out, relocated
from ..schemas.section import ParseError
from . import StrPath
from .dump_tables import TABLE_SECTIONS, sources_of, table_plain, table_text

FRAME_SECTIONS = (".eh_frame_hdr", *DIALECTS)
SFRAME_SECTIONS = (".sframe",)
LINE_SECTIONS = (".debug_line", ".debug_line.dwo")
# How line number programs are shown: their instructions, the rows that these make.
LineView = Literal["raw", "decoded"]
RAW: LineView = "raw"
DECODED: LineView = "decoded"


class PlainSection(NamedTuple):
    """A section as JSON has it: its own fields, and what it consists of, one by one, under a name."""

    fields: dict[str, Any]
    name: str
    parts: Iterator[dict[str, Any]]


def dump_sframe(path: StrPath) -> Iterator[bytes]:
    """Every `.sframe` of an ELF file as GNU readelf 2.47 prints it, in pieces. Raises OSError and ParseError."""
    return dump_sections(path, SFRAME_SECTIONS)


def dump_frames(path: StrPath) -> Iterator[bytes]:
    """Call frame information as `readelf -wNf` prints it, as instructions, in pieces. Raises as `dump_sframe`."""
    return dump_sections(path, FRAME_SECTIONS)


def dump_frames_interp(path: StrPath) -> Iterator[bytes]:
    """Call frame information as `readelf -wNF` prints it, as rows, in pieces. Raises as `dump_sframe`."""
    return dump_sections(path, FRAME_SECTIONS, interpreted=True)


def dump_rawline(path: StrPath) -> Iterator[bytes]:
    """Line number programs as `readelf -wNl` prints them, as instructions, in pieces. Raises as `dump_sframe`."""
    return dump_sections(path, LINE_SECTIONS, line_views=(RAW,))


def dump_decodedline(path: StrPath) -> Iterator[bytes]:
    """Line number programs as `readelf -wNL` prints them, as rows, in pieces. Raises as `dump_sframe`."""
    return dump_sections(path, LINE_SECTIONS, line_views=(DECODED,))


def dump_sections(
    path: StrPath,
    names: tuple[str, ...],
    interpreted: bool = False,
    line_views: tuple[LineView, ...] = (RAW,),
) -> Iterator[bytes]:
    """The sections of these names as text, call frame information as rows if `interpreted`, line number programs in the
    views asked for. Raises as `dump_sframe`."""
    laid, headers = _sections(path, names)
    sources = sources_of(laid)
    for header in headers:
        if header.name in SFRAME_SECTIONS:
            from ..converters.sframe_text import sframe_text

            yield from sframe_text(laid.image.contents(header))
        elif header.name in LINE_SECTIONS and header.size and not header.is_nobits:
            yield from _lines(laid, header, line_views)
        elif header.size and not header.is_nobits and header.name in TABLE_SECTIONS:
            yield from table_text(laid, header, sources)
        else:
            yield from _frames(laid, header, interpreted)


def _lines(laid: LaidOut, header: ElfSection, views: tuple[LineView, ...]) -> Iterator[bytes]:
    from ..converters.line_decoded_text import decoded_line_text
    from ..converters.line_events import line_dump
    from ..converters.line_raw_text import raw_line_text
    from ..converters.line_reading import string_sections

    dump = line_dump(relocated(laid, header), string_sections(laid))
    for view in (RAW, DECODED):
        if view in views:
            yield from raw_line_text(dump) if view == RAW else decoded_line_text(dump)


def _frames(laid: LaidOut, header: ElfSection, interpreted: bool) -> Iterator[bytes]:
    if not header.size:
        yield f"\nSection '{header.name}' has no debugging data.\n".encode()
    elif header.is_nobits:
        # A file of debugging information has one such beside a `.debug_frame`, which is there.
        yield f"section '{header.name}' has the NOBITS type - its contents are unreliable.\n".encode()
    elif header.name in DIALECTS:
        from ..converters.frame_text import frame_text

        dialect = DIALECTS[header.name]
        yield from frame_text(relocated(laid, header), dialect, str(laid.image.machine), interpreted)
    else:
        from ..converters.eh_frame_hdr_text import eh_frame_hdr_text

        yield from eh_frame_hdr_text(laid.image.contents(header))


def plain_sections(
    path: StrPath,
    names: tuple[str, ...],
    interpreted: bool = False,
    line_views: tuple[LineView, ...] = (RAW,),
) -> Iterator[PlainSection]:
    """As `dump_sections`, as plain data. A section that the file has no bytes of is left out."""
    laid, headers = _sections(path, names)
    sources = sources_of(laid)
    for header in headers:
        if header.name in SFRAME_SECTIONS:
            from ..converters.sframe_text import sframe_plain

            fields, parts = sframe_plain(laid.image.contents(header))
            yield PlainSection(fields, "functions", parts)
        elif header.name in LINE_SECTIONS and header.size and not header.is_nobits:
            yield from _plain_lines(laid, header, line_views)
        elif header.size and not header.is_nobits and header.name in TABLE_SECTIONS:
            yield PlainSection(*table_plain(laid, header, sources))
        elif header.size and not header.is_nobits:
            yield _plain_frames(laid, header, interpreted)


def _plain_lines(laid: LaidOut, header: ElfSection, views: tuple[LineView, ...]) -> Iterator[PlainSection]:
    from ..converters.line_plain import line_plain
    from ..converters.line_reading import string_sections

    for view in (RAW, DECODED):
        if view in views:
            section, strings = relocated(laid, header), string_sections(laid)
            fields, parts = line_plain(section, strings, decoded=view == DECODED)
            yield PlainSection(fields, "units", parts)


def _plain_frames(laid: LaidOut, header: ElfSection, interpreted: bool) -> PlainSection:
    section = relocated(laid, header)
    if header.name in DIALECTS:
        from ..converters.frame_plain import frame_plain

        fields, parts = frame_plain(section, DIALECTS[header.name], str(laid.image.machine), interpreted)
        return PlainSection(fields, "entries", parts)
    from ..converters.eh_frame_hdr_text import eh_frame_hdr_plain

    fields, parts = eh_frame_hdr_plain(section)
    return PlainSection(fields, "table", parts)


def _sections(path: StrPath, names: tuple[str, ...]) -> tuple[LaidOut, list[ElfSection]]:
    image = open_elf(path)
    if not set(names).isdisjoint(SFRAME_SECTIONS):
        refuse_relocatable(image)
    found = [header for header in image.sections if header.name in names]
    if not found:
        one = len(names) == 1
        reason = "the file has no such section" if one else f"the file has none of {', '.join(names)}"
        raise ParseError(names[0] if one else "", None, "", reason)
    laid = laid_out(image, apart=False)
    return laid, [laid.image.sections[header.index] for header in found]
