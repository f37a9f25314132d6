"""What identifies a file to readers of its dumps: the build id and the module name.

Strategy: notes and the string table are walked by our own readers, with their bounds checked, not by pyelftools, whose
iterators follow hostile sizes and links. A file without a SONAME has its base name.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...schemas.data_classes import dataclass
from ...schemas.elf.notes import notes_in
from ...schemas.elf.numbers import DT, NT_GNU_BUILD_ID
from ...schemas.section import ByteOrder
from .image import ElfImage, ElfSection
from .inputs import StrPath


@dataclass(frozen=True, slots=True)
class GivenDebugFile:
    """A debug file or supplementary file in memory: its name for messages, its build id and its bytes."""

    name: str
    identifier: bytes
    data: bytes


def module_name(image: ElfImage) -> str:
    """DT_SONAME without directories, else the base name of the file; never a name that leads out of a directory."""
    for name in (_soname(image), os.path.basename(image.path)):
        base = name.rpartition("/")[2]
        if base not in ("", ".", "..") and not any(control in base for control in "\0\r\n"):
            return base
    return "unnamed"


def build_id(image: ElfImage) -> bytes:
    """The GNU build id, of any length; empty if there is none. Raises ParseError."""
    for header in image.sections:
        if header.type == "SHT_NOTE" and not header.is_nobits:
            found = _build_id_in(image, header)
            if found:
                return found
    return b""


def _build_id_in(image: ElfImage, header: ElfSection) -> bytes:
    """The build id in one SHT_NOTE section; empty if there is none."""
    found = build_ids_in(image.contents(header).data, image.byte_order)
    return found[0] if found else b""


def build_ids_in(data: memoryview, byte_order: ByteOrder) -> list[bytes]:
    """The build ids among notes."""
    notes = notes_in(data, byte_order)
    return [bytes(note.description) for note in notes if note.type == NT_GNU_BUILD_ID and note.name == b"GNU\0"]


def by_build_id(folder: StrPath, identifier: bytes) -> Path:
    """Where a folder of debug files has the one with this build id."""
    return Path(folder, ".build-id", identifier[:1].hex(), f"{identifier[1:].hex()}.debug")


def _soname(image: ElfImage) -> str:
    """DT_SONAME; empty if there is none."""
    header = next((one for one in image.sections if one.type == "SHT_DYNAMIC" and not one.is_nobits), None)
    if header is None or header.link >= len(image.sections) or image.sections[header.link].type != "SHT_STRTAB":
        return ""
    offset = image.dynamic_value(DT.SONAME)
    strings = image.sections[header.link]
    if offset is None or strings.is_nobits:
        return ""
    # Longer than PATH_MAX, the string is not a file name: a hostile string table may be as large as the file.
    name: bytes = bytes(image.contents(strings).data[offset : offset + 4096]).partition(b"\0")[0]
    return name.decode("utf-8", "surrogateescape")
