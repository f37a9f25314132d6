"""Separate debug files: found by build id or .gnu_debuglink, or given, and joined with the stripped file.

Strategy: the result is one image. The sections of the debug file follow those of the file; loaded ones, and those that
the file itself has, become empty headers, so that links between sections stay valid. Readers see a file that was never
stripped. `.gnu_debugdata`, a compressed ELF file with more symbols, is joined likewise, if there is nothing better;
of a supplementary file the entries and strings are (`supplementary`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...schemas.data_classes import dataclass
from ...schemas.elf.numbers import SHF
from ...schemas.section import BuildError, FormatError, ParseError, Section
from ...schemas.steps import note
from ..limits import exceeded, raised
from .compression import LEAST_INFLATED, MAX_INFLATION
from .debuginfod import DebugServers, fetch_debug_file
from .identity import GivenDebugFile, build_id, by_build_id
from .image import ElfImage, ElfSection, Part, elf_of_bytes, open_elf
from .inputs import Input, StrPath, is_file
from .supplementary import candidate_name, open_candidate, with_supplementary_file

DEBUG_FOLDERS: tuple[StrPath, ...] = ("/usr/lib/debug",)
LINK, MINI = ".gnu_debuglink", ".gnu_debugdata"
# A file with one of these was not stripped.
OWN_INFORMATION = (".debug_info", ".debug_line")
CRC_SIZE = 4
CRC_CHUNK = 1 << 24
# An xz stream names the size of its dictionary, which is allocated; `xz -9` has 64 MiB.
LZMA_MEMORY = 1 << 27


@dataclass(frozen=True, slots=True)
class DebugFiles:
    """Where separate debug files come from: `file` is given; without it, if `links`, build id and `.gnu_debuglink` are
    looked up in `folders`, and the link also in the folder of the file and its `.debug` folder, as gdb does. Those in
    `given` come before those in folders; `servers` are asked for what is in neither."""

    file: Input | None = None
    links: bool = True
    folders: tuple[StrPath, ...] = DEBUG_FOLDERS
    given: tuple[GivenDebugFile, ...] = ()
    servers: DebugServers | None = None


BY_LINKS = DebugFiles()


def with_debug_file(image: ElfImage, debug: DebugFiles = BY_LINKS) -> ElfImage:
    """A linked file joined with its debug file; any other image as it is.

    Raises OSError and FormatError if `debug.file` cannot be read or belongs to another file. A file that links lead to
    is not used then; `notes` of the result has the reason.
    """
    if not image.is_elf or image.type == "ET_REL":
        refuse_debug_file(debug)
        return image
    if debug.file is not None:
        other = _open(debug.file)
        if reason := _mismatch(image, other):
            raise ParseError("", None, "debug_file", f"{other.path} {reason}")
        joined = _joined(image, other, is_whole=True)
    else:
        joined = _by_links(image, debug) if debug.links else image
        joined = joined if joined.debug_file else _with_mini(joined)
    found = _with_shared_entries(joined, debug)
    note(f"{image.path}: {f'debug file {found.debug_file}' if found.debug_file else 'no debug file'}")
    for one in found.notes:
        note(f"{image.path}: debug file {one}")
    return found


def _with_shared_entries(image: ElfImage, debug: DebugFiles) -> ElfImage:
    if not debug.links:
        return image
    notes: list[str] = []

    def fetch(identifier: bytes) -> Path | None:
        return None if debug.servers is None else fetch_debug_file(debug.servers, identifier, notes.append)

    found = with_supplementary_file(image, debug.folders, debug.given, fetch)
    return replace(found, notes=(*found.notes, *notes)) if notes else found


def refuse_debug_file(debug: DebugFiles) -> None:
    """Raise BuildError for a debug file of an input that is not a linked file."""
    if debug.file is not None:
        raise BuildError("", None, "debug_file", "can be given for a linked ELF file only")


def _open(source: Input) -> ElfImage:
    """Open a file; errors name it."""
    try:
        return open_elf(source)
    except FormatError as error:
        error.file = os.fspath(source) if isinstance(source, str | os.PathLike) else "debug file"
        raise


def _mismatch(image: ElfImage, other: ElfImage) -> str:
    """Why a file is not the debug file of the other; "" if it is, as far as can be known."""
    if other.architecture != image.architecture or other.byte_order != image.byte_order:
        return f"is for {other.architecture.name}, {other.byte_order}-endian"
    ours, theirs = build_id(image), build_id(other)
    if ours and theirs:
        return "" if ours == theirs else f"has the build id {theirs.hex()}, not {ours.hex()}"
    code, other_code = _code(image), _code(other)
    if code != other_code:
        return "has no build id to compare, and its executable sections are at other addresses"
    return ""


def _code(image: ElfImage) -> set[tuple[str, int, int]]:
    return {(one.name, one.address, one.size) for one in image.sections if one.is_code}


def _by_links(image: ElfImage, debug: DebugFiles) -> ElfImage:
    """The image joined with the first file that its links lead to and that belongs to it."""
    if any(image.named(name) for name in OWN_INFORMATION):
        return image
    notes: list[str] = []
    for path, crc in _candidates(image, debug, notes):
        try:
            other = open_candidate(path)
            reason = _mismatch(image, other) or _wrong_crc(other, crc)
        except (OSError, FormatError) as error:
            reason = f"cannot be read ({error})"
        if not reason:
            return replace(_joined(image, other, is_whole=True), notes=tuple(notes))
        notes.append(f"{candidate_name(path)} {reason}: not used")
    return replace(image, notes=tuple(notes))


def _candidates(
    image: ElfImage, debug: DebugFiles, notes: list[str]
) -> Iterator[tuple[Path | GivenDebugFile, int | None]]:
    """Existing files that may be the debug file, each with its expected CRC, None for one found by build id."""
    try:
        identifier, link = build_id(image), _debug_link(image)
    except ParseError as error:
        notes.append(f"the links to a debug file cannot be read: {error}")
        return
    if len(identifier) > 1:
        yield from ((one, None) for one in debug.given if one.identifier == identifier)
        for folder in debug.folders:
            path = by_build_id(folder, identifier)
            if is_file(path):
                yield path, None
    if link is not None and image.path:
        yield from _beside(image, debug, *link)
    if len(identifier) > 1 and debug.servers is not None:
        fetched = fetch_debug_file(debug.servers, identifier, notes.append)
        if fetched is not None:
            yield fetched, None


def _beside(image: ElfImage, debug: DebugFiles, name: str, crc: int) -> Iterator[tuple[Path, int]]:
    """Existing files that `.gnu_debuglink` may mean."""
    named, own = Path(image.path), Path(os.path.realpath(image.path))
    folders = [named.parent] if named.parent.resolve() == own.parent else [named.parent, own.parent]
    places = [place for folder in folders for place in (folder, folder / ".debug")]
    places += [Path(f"{os.fspath(one)}{own.parent}") for one in debug.folders]
    for place in places:
        path = place / name
        if is_file(path) and os.path.realpath(path) != str(own):
            yield path, crc


def _debug_link(image: ElfImage) -> tuple[str, int] | None:
    """The file name and CRC in `.gnu_debuglink`; None if there is none. Raises ParseError."""
    found = image.named(LINK)
    if not found or found[0].is_nobits:
        return None
    section = image.contents(found[0])
    name, end, _ = bytes(section.data).partition(b"\0")
    at = -(-len(name + end) // CRC_SIZE) * CRC_SIZE
    if not name or not end or len(section) < at + CRC_SIZE:
        raise ParseError(section, 0, "file name", "is not followed by a CRC")
    text = os.fsdecode(name)
    if "/" in text or text in (".", ".."):
        raise ParseError(section, 0, "file name", f"{text!r} leads out of the folder")
    return text, int.from_bytes(section.data[at : at + CRC_SIZE], image.byte_order)


def _wrong_crc(other: ElfImage, expected: int | None) -> str:
    """A sentence about a CRC that is not the expected one; "" if it is."""
    found = expected if expected is None else _crc_of(other.data)
    return "" if found == expected else f"has the CRC {found:#010x}, not {expected:#010x}"


def _crc_of(data: memoryview) -> int:
    crc = 0
    for at in range(0, len(data), CRC_CHUNK):
        crc = zlib.crc32(data[at : at + CRC_CHUNK], crc)
    return crc


def _joined(image: ElfImage, other: ElfImage, is_whole: bool) -> ElfImage:
    """The image with the sections of the other file that it lacks."""
    first = len(image.sections)
    present = {one.name for one in image.sections if not one.is_nobits}

    def is_wanted(one: ElfSection) -> bool:
        # A string table may be needed by a symbol table, whatever its name is.
        return not one.flags & SHF.ALLOC and (one.type == "SHT_STRTAB" or one.name not in present)

    sections = tuple(
        replace(one, index=first + one.index, link=first + one.link)
        if is_wanted(one)
        else ElfSection("", "SHT_NULL", 0, 0, 0, 0, index=first + one.index)
        for one in other.sections
    )
    part = Part(other.path or "debug file", other.data, first, is_whole)
    return replace(image, sections=image.sections + sections, parts=(*image.parts, part))


def _with_mini(image: ElfImage) -> ElfImage:
    """The image joined with its `.gnu_debugdata`, as far as that can be read."""
    found = image.named(MINI)
    if not found or found[0].is_nobits:
        return image
    try:
        data = _unpacked(image.contents(found[0]))
        other = elf_of_bytes(f"{image.path} {MINI}", data)
    except ParseError as error:
        return replace(image, notes=(*image.notes, f"{MINI} cannot be read: {error}"))
    if any(one.is_compressed for one in other.sections):
        # Two bounds would multiply.
        return replace(image, notes=(*image.notes, f"{MINI} was not read: it has compressed sections"))
    return _joined(image, other, is_whole=False)


def _unpacked(section: Section) -> bytes:
    """The contents of an xz stream. Raises ParseError."""
    import lzma  # by files with a `.gnu_debugdata` only

    limit = raised(LEAST_INFLATED + MAX_INFLATION * len(section))
    engine = lzma.LZMADecompressor(lzma.FORMAT_XZ, LZMA_MEMORY)
    try:
        data = engine.decompress(section.data, limit)
    except lzma.LZMAError as error:
        raise ParseError(section, None, "compressed data", str(error)) from error
    if not engine.eof:
        reason = f"is truncated or inflates to more than {limit:#x} bytes"
        raise ParseError(section, None, "compressed data", exceeded(reason))
    return data
