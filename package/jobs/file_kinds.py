"""The kind of a file, from its first bytes."""

from __future__ import annotations

from pathlib import Path

from ..schemas.archive import is_archive
from ..schemas.arguments import check_path
from ..schemas.elf.headers import EI_DATA, EI_NIDENT, ELFDATA, MAGIC
from ..schemas.elf.numbers import ET

ARCHIVE_SUFFIX = ".a"
HEADER_SIZE = 64  # of ELF64; an archive's magic is shorter


def first_bytes(path: Path) -> bytes:
    """The bytes that determine the kind of a file. Raises OSError."""
    check_path(path)
    with path.open("rb") as file:
        return file.read(HEADER_SIZE)


def is_elf(path: Path) -> bool:
    return first_bytes(path).startswith(MAGIC)


def is_linked_elf(path: Path) -> bool:
    """Whether the file is ELF and not relocatable."""
    header = first_bytes(path)
    return header.startswith(MAGIC) and not is_relocatable(header)


def is_archive_file(path: Path) -> bool:
    return is_archive(first_bytes(path))


def is_relocatable(start: bytes) -> bool:
    """Whether a file is relocatable ELF, by its first 18 bytes or more."""
    if len(start) < EI_NIDENT + 2 or not start.startswith(MAGIC):
        return False
    return int.from_bytes(start[EI_NIDENT : EI_NIDENT + 2], ELFDATA.get(start[EI_DATA], "little")) == ET.REL


def is_linker_input(path: Path) -> bool:
    """Whether the file is relocatable or an archive."""
    header = first_bytes(path)
    return is_archive(header) or is_relocatable(header)
