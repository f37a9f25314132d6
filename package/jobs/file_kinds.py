"""The kind of a file, from its first bytes."""

from __future__ import annotations

from pathlib import Path

from ..schemas.archive import is_archive
from ..schemas.arguments import check_path
from ..writers.elf.object import is_relocatable

ELF_MAGIC = b"\x7fELF"
HEADER_SIZE = 64  # of ELF64; an archive's magic is shorter


def first_bytes(path: Path) -> bytes:
    """The bytes that determine the kind of a file. Raises OSError."""
    check_path(path)
    with path.open("rb") as file:
        return file.read(HEADER_SIZE)


def is_elf(path: Path) -> bool:
    return first_bytes(path).startswith(ELF_MAGIC)


def is_linked_elf(path: Path) -> bool:
    """Whether the file is ELF and not relocatable."""
    header = first_bytes(path)
    return header.startswith(ELF_MAGIC) and not is_relocatable(header)


def is_archive_file(path: Path) -> bool:
    return is_archive(first_bytes(path))


def is_linker_input(path: Path) -> bool:
    """Whether the file is relocatable or an archive."""
    header = first_bytes(path)
    return is_archive(header) or is_relocatable(header)
