"""Supplementary files: entries and strings of several debug files, which dwz moved to one file (DWARF5 7.3.6).

Strategy: `.gnu_debugaltlink`, or `.debug_sup` in DWARF 5, has the name of the file and its identifier. The identifier
is the build id of the file, or the checksum in its own `.debug_sup`. Sections of the file that are needed join those of
the image, under names of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from ...schemas.data_classes import dataclass
from ...schemas.debug_info.supplementary import DEBUG_SUP, DebugSup
from ...schemas.direct import parse
from ...schemas.section import FormatError, ParseError, Section
from .identity import GivenDebugFile, build_id, by_build_id
from .image import ElfImage, ElfSection, Part, elf_of_bytes, open_elf
from .inputs import StrPath, is_file

ALT_LINK = ".gnu_debugaltlink"
# The names that sections of a supplementary file have in an image.
SUPPLEMENTARY = {name: f"{name} of the supplementary file" for name in (".debug_info", ".debug_abbrev", ".debug_str")}
SUPPLEMENTARY_INFO, SUPPLEMENTARY_ABBREVIATIONS, SUPPLEMENTARY_STRINGS = SUPPLEMENTARY.values()
DWZ = ".dwz"
# Gets the file with a build id from elsewhere.
Fetch: TypeAlias = Callable[[bytes], Path | None]


@dataclass(frozen=True, slots=True)
class _Link:
    """A link to a supplementary file. `section` is the one that has it."""

    section: ElfSection
    name: str
    identifier: bytes


def with_supplementary_file(
    image: ElfImage, folders: Sequence[StrPath], given: Sequence[GivenDebugFile] = (), fetch: Fetch = lambda _: None
) -> ElfImage:
    """The image with the entries and strings of its supplementary file. It is looked up by its identifier in `given`,
    then at the name in the link, in the folder `.dwz` of `folders`, and there by its identifier; at last it is fetched
    by that. `notes` of the result have why a file was not used."""
    notes = list(image.notes)
    for link in _links_in(image, notes):
        for path in _candidates(image, link, folders, given, fetch):
            try:
                other = open_candidate(path)
                reason = _mismatch(image, other, link)
            except (OSError, FormatError) as error:
                reason = f"cannot be read ({error})"
            if not reason:
                return replace(_joined(image, other), notes=tuple(notes))
            notes.append(f"{candidate_name(path)} {reason}: not used")
    return replace(image, notes=tuple(notes))


def open_candidate(source: Path | GivenDebugFile) -> ElfImage:
    """Open a file that was found or given. Raises OSError, ParseError."""
    return elf_of_bytes(source.name, source.data) if isinstance(source, GivenDebugFile) else open_elf(source)


def candidate_name(source: Path | GivenDebugFile) -> str:
    """How messages call it."""
    return source.name if isinstance(source, GivenDebugFile) else os.fspath(source)


def identifier_of_link(image: ElfImage) -> bytes:
    """The identifier of the supplementary file that a file needs; empty if there is none."""
    return next((link.identifier for link in _links_in(image, [])), b"")


def _links_in(image: ElfImage, notes: list[str]) -> Iterator[_Link]:
    """The links of a file. A supplementary file has none."""
    for section in (*image.named(ALT_LINK)[:1], *image.named(DEBUG_SUP)[:1]):
        if section.is_nobits:
            continue
        try:
            contents = image.contents(section)
            if section.name == ALT_LINK:
                name, _, identifier = bytes(contents.data).partition(b"\0")
                yield _Link(section, os.fsdecode(name), identifier)
            elif not (found := _parse_sup(contents)).is_supplementary:
                yield _Link(section, os.fsdecode(found.sup_filename), found.sup_checksum.data)
        except ParseError as error:
            notes.append(f"the link to a supplementary file cannot be read: {error}")


def _parse_sup(section: Section) -> DebugSup:
    """The contents of a `.debug_sup`. Raises ParseError."""
    # Few files have this section, and the reference engine takes longer to import than most commands to run.
    return parse(DebugSup, section, 0, len(section))[0]


def _candidates(
    image: ElfImage, link: _Link, folders: Sequence[StrPath], given: Sequence[GivenDebugFile], fetch: Fetch
) -> Iterator[Path | GivenDebugFile]:
    """Existing files that a link may mean: its name is relative to the folder of the file that has it."""
    yield from (one for one in given if one.identifier == link.identifier)
    part = image.part_of(link.section)
    beside = os.path.dirname(os.path.realpath(part.path if part else image.path))
    _, dwz, rest = link.name.rpartition(f"/{DWZ}/")
    for path in (
        Path(beside, link.name),
        *(Path(folder, DWZ, rest) for folder in folders if dwz),
        *(by_build_id(folder, link.identifier) for folder in folders if len(link.identifier) > 1),
    ):
        if is_file(path):
            yield path
    fetched = fetch(link.identifier) if len(link.identifier) > 1 else None
    if fetched is not None:
        yield fetched


def _mismatch(image: ElfImage, other: ElfImage, link: _Link) -> str:
    """Why a file is not the one that a link means; "" if it is. Raises ParseError."""
    if other.byte_order != image.byte_order:
        return f"is {other.byte_order}-endian"
    if link.section.name == ALT_LINK:
        return _difference("build id", build_id(other), link.identifier)
    found = other.named(DEBUG_SUP)
    if not found or found[0].is_nobits:
        return f"has no {DEBUG_SUP}"
    sup = _parse_sup(other.contents(found[0]))
    if not sup.is_supplementary:
        return "is no supplementary file"
    return _difference("checksum", sup.sup_checksum.data, link.identifier)


def _difference(name: str, found: bytes, expected: bytes) -> str:
    return "" if found == expected else f"has the {name} {found.hex()}, not {expected.hex()}"


def _joined(image: ElfImage, other: ElfImage) -> ElfImage:
    first = len(image.sections)
    found = [(one, name) for of_file, name in SUPPLEMENTARY.items() for one in other.named(of_file)[:1]]
    sections = tuple(
        replace(one, name=name, index=first + number) for number, (one, name) in enumerate(found) if not one.is_nobits
    )
    part = Part(other.path, other.data, first, is_whole=False)
    return replace(image, sections=image.sections + sections, parts=(*image.parts, part))
