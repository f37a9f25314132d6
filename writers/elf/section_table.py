"""The section headers of any ELF file, of both classes, to change sections that are not loaded.

Strategy: plain structs, as in `tables.py`, which is for ELF64 files that get loaded sections. Section headers of both
classes have the same fields in the same order.
"""

from __future__ import annotations

import struct
from dataclasses import astuple
from typing import BinaryIO

from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError
from .tables import (
    BYTE_ORDER,
    ELFCLASS32,
    ELFCLASS64,
    HEADER,
    MAX_SECTIONS,
    SECTION,
    SHN_XINDEX,
    SHT,
    SectionHeader,
    bytes_at,
)

HEADER32, SECTION32 = "16sHHIIIIIHHHHHH", "IIIIIIIIII"
# Program headers: p_offset and p_filesz among the fields of each class.
SEGMENT32, SEGMENT64 = "IIIIIIII", "IIQQQQQQ"
PLACES = {SEGMENT32: (1, 4), SEGMENT64: (2, 5)}
IDENT_SIZE = 16


@dataclass(frozen=True, slots=True)
class SectionTable:
    """The section headers of a file with their names; `fields` are those of the ELF header, `order` is struct's.

    `segments` are the file offsets of the start and the end of each segment that has bytes.
    """

    order: str
    is_64: bool
    fields: tuple[int, ...]
    sections: tuple[SectionHeader, ...]
    names: tuple[bytes, ...]
    segments: tuple[tuple[int, int], ...]

    @property
    def header(self) -> str:
        """The struct of the ELF header."""
        return self.order + (HEADER if self.is_64 else HEADER32)

    @property
    def offset(self) -> int:
        """e_shoff."""
        return self.fields[6]

    @property
    def names_index(self) -> int:
        """The index of the section name table."""
        stored = self.fields[13]
        return self.sections[0].link if stored == SHN_XINDEX else stored

    @property
    def size(self) -> int:
        """The size of the section header table in bytes."""
        return len(self.sections) * struct.calcsize(self.order + self._section)

    @property
    def _section(self) -> str:
        return SECTION if self.is_64 else SECTION32

    def pack_header(self, offset: int, count: int) -> bytes:
        """The ELF header, with `count` section headers at `offset`."""
        fields = list(self.fields)
        fields[6], fields[12] = offset, 0 if count >= MAX_SECTIONS else count
        return struct.pack(self.header, *fields)

    def pack_sections(self, sections: list[SectionHeader]) -> bytes:
        """Section headers as stored."""
        return b"".join(struct.pack(self.order + self._section, *astuple(one)) for one in sections)


def has_bytes(one: SectionHeader) -> bool:
    """Whether the section has bytes in the file."""
    return bool(one.size) and one.type not in (SHT.NOBITS, SHT.NULL)


def read_section_table(file: BinaryIO) -> SectionTable:
    """Read the section headers. Raises ParseError if they, or a section, are outside the file."""
    ident = bytes_at(file, "e_ident", 0, IDENT_SIZE)
    if ident[:4] != b"\x7fELF" or ident[4] not in (ELFCLASS32, ELFCLASS64) or ident[5] not in BYTE_ORDER:
        raise ParseError("", None, "e_ident", "is not an ELF file of a known class and byte order")
    order, is_64 = BYTE_ORDER[ident[5]], ident[4] == ELFCLASS64
    layout, section = order + (HEADER if is_64 else HEADER32), order + (SECTION if is_64 else SECTION32)
    fields = struct.unpack(layout, bytes_at(file, "e_ident", 0, struct.calcsize(layout)))
    shoff, shentsize, shnum = fields[6], fields[11], fields[12]
    size = struct.calcsize(section)
    if not shoff or shentsize != size:
        raise ParseError("", None, "e_shoff", f"there are no section headers of {size} bytes")
    first = SectionHeader(*struct.unpack(section, bytes_at(file, "e_shoff", shoff, size)))
    # gABI: counts that do not fit the ELF header are in the first section header.
    raw = bytes_at(file, "e_shnum", shoff, (shnum or first.size) * size)
    sections = tuple(SectionHeader(*one) for one in struct.iter_unpack(section, raw))
    end = file.seek(0, 2)
    for index, one in enumerate(sections):
        if has_bytes(one) and one.offset + one.size > end:
            raise ParseError("", None, f"section header[{index}]", "is outside the file")
    table = SectionTable(order, is_64, fields, sections, (), _segments(file, order, is_64, fields))
    if not 0 < table.names_index < len(sections):
        raise ParseError("", None, "e_shstrndx", f"is {table.names_index}, which is not a section of names")
    names = sections[table.names_index]
    text = bytes_at(file, "e_shstrndx", names.offset, names.size)
    found = tuple(text[one.name_offset : max(0, text.find(b"\0", one.name_offset))] for one in sections)
    return SectionTable(order, is_64, fields, sections, found, table.segments)


def _segments(file: BinaryIO, order: str, is_64: bool, fields: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    layout = SEGMENT64 if is_64 else SEGMENT32
    size, (offset, filesz) = struct.calcsize(order + layout), PLACES[layout]
    phoff, phentsize, phnum = fields[5], fields[9], fields[10]
    if not phnum or phentsize != size:
        return ()
    raw = struct.iter_unpack(order + layout, bytes_at(file, "e_phoff", phoff, phnum * size))
    return tuple((one[offset], one[offset] + one[filesz]) for one in raw if one[filesz])
