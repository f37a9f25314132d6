"""The contents of sections as text and as JSON values (`unwindkit dump`).

Strategy: sections come in the order of the section headers, as in readelf, and members in the order of the archive.
How each one is shown is in section_dumps.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from ..converters.elf.image import ElfImage
from ..converters.elf.inputs import Input
from ..converters.elf.relocation import lay_out, relocate
from ..converters.files.inputs import KINDS, Part, Raw, naming_file, open_parts
from ..converters.files.places import Place, find_places, refuse_missing
from ..converters.files.read_elf import DIALECTS, TEXTS
from ..converters.table.lookup import ChosenPcs, addresses
from ..schemas.section import BuildError, ParseError
from ..schemas.steps import note
from .section_dumps import (
    CFI_SECTIONS,
    LINE_SECTIONS,
    RAW,
    SECTIONS,
    SFRAME_SECTIONS,
    UNWIND_SECTIONS,
    JsonSection,
    LineView,
    Opened,
    Request,
)

if TYPE_CHECKING:
    from ..converters.macro.strings import MacroSources


def dump_sframe(path: Input) -> Iterator[bytes]:
    """Yield the text of every `.sframe` of a file as GNU readelf 2.47 prints it. Raises OSError and ParseError."""
    return dump_sections(path, SFRAME_SECTIONS)


def dump_cfi(path: Input, interpreted: bool = False) -> Iterator[bytes]:
    """Yield call frame information as `readelf -wNf` prints it (instructions), or if `interpreted` as `readelf -wNF`
    (rows). Raises as `dump_sframe`."""
    return dump_sections(path, CFI_SECTIONS, interpreted)


def dump_lines(path: Input, view: LineView = RAW) -> Iterator[bytes]:
    """Yield line number programs as `readelf -wNl` prints them (instructions), or in the view "decoded" as `readelf
    -wNL` (rows). Raises as `dump_sframe`."""
    return dump_sections(path, LINE_SECTIONS, line_views=(view,))


def dump_sections(
    path: Input,
    names: tuple[str, ...] | None = None,
    interpreted: bool = False,
    line_views: tuple[LineView, ...] = (RAW,),
    at: Sequence[int | str] = (),
    *,
    source: str | None = None,
    address: int = 0,
    architecture: str | None = None,
) -> Iterator[bytes]:
    """Yield the text of the sections with these names (None: all unwind information, or a raw section). Call frame
    information is shown as rows if `interpreted`, line number programs in each of `line_views`.

    `at` are addresses and names of functions: `.eh_frame`, `.debug_frame` and `.sframe` are then shown with only the
    functions that cover one of them, and their CIEs. Of an archive, all members are shown, each with its name.

    `source` is the kind of a raw section, at the virtual address `address`, or the section of an ELF file to show;
    `architecture` has to be given for all raw sections but SFrame. Raises as `dump_sframe`, and BuildError if a section
    has no functions, or if something is missing or must not be given.
    """
    request = Request(names, interpreted, line_views or (RAW,), tuple(at))
    for part, sections in _parts(path, request, Raw(source, address, architecture)):
        if part.member is not None:
            yield f"\nFile: {part.file}\n".encode(errors="surrogateescape")
        with naming_file(part.file if part.member is not None else ""):
            for opened in sections:
                yield from _text(opened)


def _text(opened: Opened) -> Iterator[bytes]:
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
    path: Input,
    names: tuple[str, ...] | None = None,
    interpreted: bool = False,
    line_views: tuple[LineView, ...] = (RAW,),
    at: Sequence[int | str] = (),
    *,
    source: str | None = None,
    address: int = 0,
    architecture: str | None = None,
) -> Iterator[JsonSection]:
    """As `dump_sections`, as JSON values. Sections without bytes in the file are left out. Those of an archive have the
    `member`."""
    request = Request(names, interpreted, line_views or (RAW,), tuple(at))
    for part, sections in _parts(path, request, Raw(source, address, architecture)):
        member = {} if part.member is None else {"member": part.member}
        with naming_file(part.file if part.member is not None else ""):
            for opened in sections:
                if opened.has_bytes or opened.header.name in SFRAME_SECTIONS:
                    _, json = SECTIONS[opened.header.name]
                    yield from (one._replace(fields=member | one.fields) for one in json(opened))


def _parts(path: Input, request: Request, raw: Raw) -> Iterator[tuple[Part, Iterator[Opened]]]:
    """The images of an input, each with its sections, which are then shown before the next image is opened. Members of
    an archive without a place that was asked for are left out."""
    is_archive = has_sections = False
    found: list[Place] = []
    for part in open_parts(path, raw):
        names = _names_in(part.image, request, raw.kind)
        if part.member is None:
            assert part.image is not None
            places = find_places(lay_out(part.image), request.at)
            refuse_missing(request.at, places)
            yield part, _opened(part.image, names, request, places)
            return
        is_archive, sections = True, iter(tuple[Opened]())
        if part.image is not None and any(part.image.named(name) for name in names):
            has_sections = True
            with naming_file(part.file):
                places = find_places(lay_out(part.image), request.at)
            found += places
            sections = _opened(part.image, names, request, places)
            if places:
                yield part, sections
        if not request.at:
            yield part, sections
    if is_archive and not has_sections:
        _refuse_names(_names_in(None, request, raw.kind), "the archive's files have")
    if is_archive:
        refuse_missing(request.at, found)


def _names_in(image: ElfImage | None, request: Request, kind: str | None) -> tuple[str, ...]:
    """The names of the sections to show of an image."""
    if image is not None and not image.is_elf:
        return _names_in_raw(image, request)
    names = UNWIND_SECTIONS if request.names is None else request.names
    if kind is not None:
        names = tuple(name for name in names if name == KINDS[kind]) if request.names else (KINDS[kind],)
    return _with_functions(names) if request.at else names


def _names_in_raw(image: ElfImage, request: Request) -> tuple[str, ...]:
    """The name of the only section. Raises ParseError if others are asked for."""
    name = image.sections[-1].name
    shown_as = {name, *DIALECTS} if name in TEXTS else {name}
    if request.names is not None and shown_as.isdisjoint(request.names):
        _refuse_names(request.names, f"is a {image.type}, which has")
    return _with_functions((name,)) if request.at else (name,)


def _refuse_names(names: tuple[str, ...], subject: str) -> NoReturn:
    one = len(names) == 1
    reason = f"{subject} no such section" if one else f"{subject} none of {', '.join(names)}"
    raise ParseError(names[0] if one else "", None, "", reason)


def _opened(image: ElfImage, names: tuple[str, ...], request: Request, places: Sequence[Place]) -> Iterator[Opened]:
    """The sections of these names, in file order; of functions those at the places, if any were asked for."""
    found = [header for header in image.sections if header.name in names]
    if not found:
        _refuse_names(names, "the file has")
    laid = lay_out(image, at_zero=True)
    pcs = addresses([place.address for place in places])
    sources: list[MacroSources] = []
    for header in found:
        note(f"{header.name}: {header.size:,} bytes")
        chosen = None
        if request.at:
            # The same section where sections have distinct addresses, in which the places are.
            located = lay_out(image) if laid.is_relocatable else None
            section = None if located is None else relocate(located, located.image.sections[header.index])
            chosen = ChosenPcs(pcs, section)
        yield Opened(laid, laid.image.sections[header.index], request, chosen, sources)


def _with_functions(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some sections whose entries are functions. An `.eh_frame_hdr` is left out: it is only an index."""
    for name in names:
        if name not in (*UNWIND_SECTIONS, *TEXTS):
            raise BuildError(name, None, "at", "its entries are not functions")
    return tuple(name for name in names if name in (*DIALECTS, *SFRAME_SECTIONS, *TEXTS))
