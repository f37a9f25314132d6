"""The program and section header tables of an ELF64 file: read, checked and written by the writers.

Strategy: plain structs. pyelftools and lief both read more than this, and neither can write it back unchanged.
"""

from __future__ import annotations

import os
import struct
from dataclasses import astuple, replace
from io import BufferedReader
from typing import Any, BinaryIO

from ...schemas.data_classes import dataclass
from ...schemas.derive import struct_codes
from ...schemas.elf.headers import (
    EI_CLASS,
    EI_DATA,
    EI_NIDENT,
    ELFCLASS32,
    ELFCLASS64,
    ELFDATA,
    MAGIC,
    PN_XNUM,
    SHN_LORESERVE,
    SHN_XINDEX,
    FileHeader64,
    ProgramHeader64,
    SectionHeader64,
)
from ...schemas.elf.numbers import DT, ET, PT, SHF, SHT
from ...schemas.section import BuildError, ParseError, order_code

# The dynamic entry that is the only reference to a section of that type.
POINTED_AT = {SHT.HASH: DT.HASH, SHT.GNU_HASH: DT.GNU_HASH, SHT.DYNSYM: DT.SYMTAB}
MAX_SECTIONS = SHN_LORESERVE  # larger indices are reserved
MIN_PAGE, MAX_PAGE = 0x1000, 0x10000  # of all machines that run ELF64
ADDRESS_LIMIT = 1 << 63
# Sections that only Linux images have (include/asm-generic/vmlinux.lds.h).
KERNEL_SECTIONS = {b"__ksymtab", b"__param", b".data..percpu", b".init.text"}
UNSUITABLE_TYPES = {
    ET.REL: "is a relocatable file (ET_REL), which is not loaded: link it first",
    ET.CORE: "is a core file (ET_CORE)",
}
HEADER = f"{EI_NIDENT}s{struct_codes(FileHeader64)}"
SEGMENT, SECTION, DYNAMIC = struct_codes(ProgramHeader64), struct_codes(SectionHeader64), "qQ"
HEADER_SIZE, SEGMENT_SIZE, SECTION_SIZE, DYNAMIC_SIZE = (
    struct.calcsize("<" + fields) for fields in (HEADER, SEGMENT, SECTION, DYNAMIC)
)
SYMBOL = "IBBHQQ"  # st_name, st_info, st_other, st_shndx, st_value, st_size
SYMBOL_VALUE_OFFSET = 8


@dataclass(frozen=True, slots=True)
class Segment:
    """A program header; the fields of Elf64_Phdr without p_."""

    type: int
    flags: int
    offset: int
    vaddr: int
    paddr: int
    filesz: int
    memsz: int
    align: int

    @property
    def file_end(self) -> int:
        """The file offset after its bytes."""
        return self.offset + self.filesz

    def holds(self, section: SectionHeader) -> bool:
        """Whether the whole section is in the segment, at the same offset in memory and in the file."""
        start = section.address - self.vaddr
        return 0 <= start <= self.filesz - section.size and start == section.offset - self.offset


@dataclass(frozen=True, slots=True)
class SectionHeader:
    """A section header; the fields of Elf64_Shdr without sh_, spelled out."""

    name_offset: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    addralign: int
    entsize: int

    @property
    def is_loaded(self) -> bool:
        """Whether it is loaded (SHF_ALLOC)."""
        return bool(self.flags & SHF.ALLOC)

    def packed(self, order: str) -> bytes:
        """The header as stored; `order` is struct's."""
        place = (self.name_offset, self.type, self.flags, self.address, self.offset, self.size)
        return struct.pack(order + SECTION, *place, self.link, self.info, self.addralign, self.entsize)


NULL_SECTION = SectionHeader(0, SHT.NULL, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Tables:
    """The two header tables of a file and their file offsets; `names` are those of `sections`, `order` is struct's."""

    order: str
    phoff: int
    shoff: int
    shstrndx: int
    segments: tuple[Segment, ...]
    sections: tuple[SectionHeader, ...]
    names: tuple[bytes, ...]

    @property
    def loads(self) -> tuple[Segment, ...]:
        """The loadable segments."""
        return tuple(segment for segment in self.segments if segment.type == PT.LOAD)

    def indices_of(self, *names: str) -> tuple[int, ...]:
        """The indices of the sections of these names."""
        wanted = [name.encode() for name in names]
        return tuple(index for index, found in enumerate(self.names) if found in wanted)


def read_tables(file: BinaryIO) -> Tables:
    """Read the tables. Raises ParseError if they are outside the file, BuildError for a file that is not ELF64 or lacks
    a table."""
    order, header = _file_header(file)
    _, elf_type, _, _, _, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, shstrndx = header
    if elf_type not in (ET.EXEC, ET.DYN):
        reason = UNSUITABLE_TYPES.get(elf_type, f"is {elf_type:#x}, neither an executable nor a shared library")
        raise BuildError("", None, "e_type", reason)
    if not (phoff and phnum and shoff):
        raise BuildError("", None, "e_shoff", "the file has no section header table, or no program header table")
    if phnum == PN_XNUM or shnum == 0:
        raise BuildError("", None, "e_shnum", "the file has more headers than its ELF header can count")
    if (phentsize, shentsize) != (SEGMENT_SIZE, SECTION_SIZE) or shstrndx >= shnum:
        raise ParseError("", None, "e_shentsize", "the header sizes or e_shstrndx are invalid")
    segments = struct.iter_unpack(order + SEGMENT, bytes_at(file, "e_phoff", phoff, phnum * SEGMENT_SIZE))
    found = tuple(Segment(*fields) for fields in segments)
    return Tables(order, phoff, shoff, shstrndx, found, *_sections(file, order, shoff, shnum, shstrndx))


def read_object_tables(file: BinaryIO) -> Tables:
    """Read the section headers of a relocatable file, of any number. Raises as `read_tables`."""
    order, header = _file_header(file)
    _, elf_type, _, _, _, _, shoff, _, _, _, phnum, shentsize, shnum, shstrndx = header
    if elf_type != ET.REL:
        raise BuildError("", None, "e_type", f"is {elf_type:#x}, not a relocatable file")
    if phnum:
        raise BuildError("", None, "e_phnum", f"is {phnum}: a relocatable file with program headers is not supported")
    if not shoff:
        raise BuildError("", None, "e_shoff", "the file has no section header table")
    if shentsize != SECTION_SIZE:
        raise ParseError("", None, "e_shentsize", f"{shentsize} bytes, expected {SECTION_SIZE}")
    first = SectionHeader(*struct.unpack(order + SECTION, bytes_at(file, "e_shoff", shoff, SECTION_SIZE)))
    # gABI: counts that do not fit the ELF header are in the first section header.
    shnum = shnum or first.size
    shstrndx = first.link if shstrndx == SHN_XINDEX else shstrndx
    if shstrndx >= shnum:
        raise ParseError("", None, "e_shstrndx", f"is {shstrndx}, but there are only {shnum} sections")
    return Tables(order, 0, shoff, shstrndx, (), *_sections(file, order, shoff, shnum, shstrndx))


def _file_header(file: BinaryIO) -> tuple[str, tuple[Any, ...]]:
    """The byte order as struct's, and the fields of Elf64_Ehdr."""
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        raise ParseError("", None, "e_ident", "is not an ELF file")
    ident = bytes_at(file, "e_ident", 0, EI_NIDENT)
    if ident[EI_CLASS] == ELFCLASS32:
        raise BuildError("", None, "e_ident", "is ELF32; a loaded section can be added to ELF64 only")
    if ident[EI_CLASS] != ELFCLASS64 or ident[EI_DATA] not in ELFDATA:
        reason = f"has class {ident[EI_CLASS]} and byte order {ident[EI_DATA]}, which ELF does not define"
        raise ParseError("", None, "e_ident", reason)
    order = order_code(ELFDATA[ident[EI_DATA]])
    return order, struct.unpack(order + HEADER, bytes_at(file, "e_ident", 0, HEADER_SIZE))


def _sections(
    file: BinaryIO, order: str, shoff: int, shnum: int, shstrndx: int
) -> tuple[tuple[SectionHeader, ...], tuple[bytes, ...]]:
    """The section headers and their names."""
    raw = struct.iter_unpack(order + SECTION, bytes_at(file, "e_shoff", shoff, shnum * SECTION_SIZE))
    sections = tuple(SectionHeader(*fields) for fields in raw)
    text = bytes_at(file, "e_shstrndx", sections[shstrndx].offset, sections[shstrndx].size)
    names = tuple(text[one.name_offset : max(0, text.find(b"\0", one.name_offset))] for one in sections)
    return sections, names


def refuse_unsuitable(before: Tables, file_size: int, name: str) -> None:
    """Raise BuildError for a file that is not loaded as a program, ParseError for headers that point outside the file,
    which crash lief."""
    if not before.loads:
        raise BuildError(name, None, "PT_LOAD", "the file has no loadable segment")
    if KERNEL_SECTIONS & set(before.names):
        reason = "is a kernel image: its boot loader expects exactly its segments, and nothing would look for another"
        raise BuildError(name, None, "e_type", reason)
    if any(one.type == SHT.NOBITS and one.flags & SHF.EXECINSTR for one in before.sections):
        raise BuildError(name, None, "sh_type", "the code has no bytes: this is a separate debug file")
    for index, segment in enumerate(before.segments):
        if segment.file_end > file_size or segment.vaddr + segment.memsz > ADDRESS_LIMIT:
            raise ParseError("", None, f"program header[{index}]", "is outside the file or the address space")
        if segment.type == PT.LOAD and segment.filesz > segment.memsz:
            raise ParseError("", None, f"program header[{index}]", "has p_filesz greater than p_memsz")
    for index, one in enumerate(before.sections):
        # The null section header included: lief reads what it describes.
        stored = 0 if one.type == SHT.NOBITS else one.size
        if (stored and one.offset + stored > file_size) or one.address + one.size > ADDRESS_LIMIT:
            raise ParseError("", None, f"section header[{index}]", "is outside the file or the address space")
        if one.link >= len(before.sections):
            raise ParseError("", None, f"section header[{index}]", f"has sh_link {one.link}, which is not a section")


def bytes_at(file: BinaryIO, record: str, offset: int, size: int) -> bytes:
    """`size` bytes at a file offset. Raises ParseError, naming `record`, if the file ends before."""
    end = file.seek(0, os.SEEK_END)
    if offset + size > end:
        raise ParseError(
            "", None, record, f"{offset:#x} to {offset + size:#x} is outside the file, which ends at {end:#x}"
        )
    file.seek(offset)
    return file.read(size)


def write_tables(source: BufferedReader, out: BinaryIO, tables: Tables) -> None:
    """Write the two tables, and the file header of `source` with their offsets and counts."""
    header = list(struct.unpack(tables.order + HEADER, bytes_at(source, "e_ident", 0, HEADER_SIZE)))
    header[5:7] = tables.phoff, tables.shoff
    header[10], header[12] = len(tables.segments), len(tables.sections)
    put(out, 0, struct.pack(tables.order + HEADER, *header))
    put(out, tables.phoff, pack_segments(tables))
    put(out, tables.shoff, b"".join(one.packed(tables.order) for one in tables.sections))


def pack_segments(tables: Tables) -> bytes:
    """The program header table as stored."""
    return b"".join(struct.pack(tables.order + SEGMENT, *astuple(one)) for one in tables.segments)


def put(file: BinaryIO, offset: int, data: bytes) -> None:
    """Write at a file offset."""
    file.seek(offset)
    file.write(data)


def enclose_program_headers(segments: list[Segment], phoff: int) -> tuple[Segment, ...]:
    """The segments with PT_PHDR set to the program header table at `phoff`, and its PT_LOAD extended to contain it."""
    size = len(segments) * SEGMENT_SIZE
    before = [one for one in segments if one.type == PT.LOAD and one.offset <= phoff]
    if not before:  # the headers are not loaded, and there is no PT_PHDR
        return tuple(segments)
    holder = max(before, key=lambda one: one.offset)
    longer = max(holder.filesz, phoff + size - holder.offset)
    if longer > holder.filesz:
        segments[segments.index(holder)] = replace(holder, filesz=longer, memsz=longer)
    vaddr = phoff + holder.vaddr - holder.offset
    table = {"offset": phoff, "vaddr": vaddr, "paddr": vaddr, "filesz": size, "memsz": size}
    return tuple(replace(one, **table) if one.type == PT.PHDR else one for one in segments)


def is_alone(before: Tables, load: Segment, index: int) -> bool:
    """Whether `load` is the last PT_LOAD and contains only that section, as `write_section` creates it."""
    others = (one for place, one in enumerate(before.sections) if place != index and one.is_loaded)
    return (
        load.vaddr == before.sections[index].address
        and load.memsz == load.filesz
        and all(one.vaddr <= load.vaddr for one in before.loads)
        and not any(one.filesz and one.offset >= load.file_end for one in before.segments)
        and not any(load.vaddr <= one.address < load.vaddr + load.memsz for one in others)
        and not any(load.offset <= table < load.file_end for table in (before.phoff, before.shoff))
    )
