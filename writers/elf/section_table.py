"""The section headers of any ELF file, of both classes, to change sections that are not loaded.

Strategy: plain structs, as in `tables.py`, which is for ELF64 files that get loaded sections. Section headers of both
classes have the same fields in the same order.
"""

from __future__ import annotations

import struct
from dataclasses import astuple
from typing import BinaryIO

from ...schemas.data_classes import dataclass
from ...schemas.derive import struct_codes
from ...schemas.elf.headers import (
    EI_CLASS,
    EI_DATA,
    EI_NIDENT,
    ELFCLASS,
    ELFCLASS64,
    ELFDATA,
    MAGIC,
    SHN_XINDEX,
    FileHeader32,
    ProgramHeader32,
    ProgramHeader64,
    SectionHeader32,
)
from ...schemas.elf.numbers import SHT
from ...schemas.section import ParseError, order_code
from ...schemas.wire import fields_of
from .tables import HEADER, MAX_SECTIONS, SECTION, SectionHeader, bytes_at

HEADER32, SECTION32 = f"{EI_NIDENT}s{struct_codes(FileHeader32)}", struct_codes(SectionHeader32)


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
    ident = bytes_at(file, "e_ident", 0, EI_NIDENT)
    if not ident.startswith(MAGIC) or ident[EI_CLASS] not in ELFCLASS or ident[EI_DATA] not in ELFDATA:
        raise ParseError("", None, "e_ident", "is not an ELF file of a known class and byte order")
    order, is_64 = order_code(ELFDATA[ident[EI_DATA]]), ident[EI_CLASS] == ELFCLASS64
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
    declared = ProgramHeader64 if is_64 else ProgramHeader32
    names = [field.name for field in fields_of(declared)]
    layout, offset, filesz = struct_codes(declared), names.index("offset"), names.index("filesz")
    size = struct.calcsize(order + layout)
    phoff, phentsize, phnum = fields[5], fields[9], fields[10]
    if not phnum or phentsize != size:
        return ()
    raw = struct.iter_unpack(order + layout, bytes_at(file, "e_phoff", phoff, phnum * size))
    return tuple((one[offset], one[offset] + one[filesz]) for one in raw if one[filesz])
