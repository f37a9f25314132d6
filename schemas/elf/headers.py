"""Headers of ELF files (System V gABI, ELF Header, Sections, Program Header).

Strategy: one declaration for each address size, because the fields' sizes, and of program headers also their order,
differ. Fields have the names of the gABI without the prefix.
"""

from __future__ import annotations

from ..section import ByteOrder
from ..wire import U16, U32, U64, record, wire

MAGIC = b"\x7fELF"
# The bytes of an address by EI_CLASS, and the byte order by EI_DATA.
ELFCLASS32, ELFCLASS64 = 1, 2
ELFCLASS = {ELFCLASS32: 4, ELFCLASS64: 8}
ELFDATA: dict[int, ByteOrder] = {1: "little", 2: "big"}
EI_CLASS, EI_DATA, EI_NIDENT = 4, 5, 16

# Section indices (gABI, Special Section Indexes), and e_phnum where section header 0 has the number.
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON, SHN_XINDEX = 0, 0xFF00, 0xFFF1, 0xFFF2, 0xFFFF
PN_XNUM = 0xFFFF


@record
class FileHeader32:
    """Elf32_Ehdr after e_ident."""

    type: int = wire(U16, "ET_...")
    machine: int = wire(U16, "EM_...")
    version: int = wire(U32, "1")
    entry: int = wire(U32, "address of the first instruction")
    phoff: int = wire(U32, "file offset of the program headers")
    shoff: int = wire(U32, "file offset of the section headers")
    flags: int = wire(U32, "of the machine")
    ehsize: int = wire(U16, "bytes of the file header")
    phentsize: int = wire(U16, "bytes of a program header")
    phnum: int = wire(U16, "program headers, or PN_XNUM")
    shentsize: int = wire(U16, "bytes of a section header")
    shnum: int = wire(U16, "section headers, or 0")
    shstrndx: int = wire(U16, "index of the section with the names, or SHN_XINDEX")


@record
class FileHeader64:
    """Elf64_Ehdr after e_ident."""

    type: int = wire(U16, "ET_...")
    machine: int = wire(U16, "EM_...")
    version: int = wire(U32, "1")
    entry: int = wire(U64, "address of the first instruction")
    phoff: int = wire(U64, "file offset of the program headers")
    shoff: int = wire(U64, "file offset of the section headers")
    flags: int = wire(U32, "of the machine")
    ehsize: int = wire(U16, "bytes of the file header")
    phentsize: int = wire(U16, "bytes of a program header")
    phnum: int = wire(U16, "program headers, or PN_XNUM")
    shentsize: int = wire(U16, "bytes of a section header")
    shnum: int = wire(U16, "section headers, or 0")
    shstrndx: int = wire(U16, "index of the section with the names, or SHN_XINDEX")


@record
class SectionHeader32:
    """Elf32_Shdr."""

    name: int = wire(U32, "offset in the section with the names")
    type: int = wire(U32, "SHT_...")
    flags: int = wire(U32, "SHF_...")
    addr: int = wire(U32, "address of the first byte")
    offset: int = wire(U32, "file offset of the first byte")
    size: int = wire(U32, "bytes")
    link: int = wire(U32, "index of a section, by the type")
    info: int = wire(U32, "by the type")
    addralign: int = wire(U32, "bytes")
    entsize: int = wire(U32, "bytes of an entry")


@record
class SectionHeader64:
    """Elf64_Shdr."""

    name: int = wire(U32, "offset in the section with the names")
    type: int = wire(U32, "SHT_...")
    flags: int = wire(U64, "SHF_...")
    addr: int = wire(U64, "address of the first byte")
    offset: int = wire(U64, "file offset of the first byte")
    size: int = wire(U64, "bytes")
    link: int = wire(U32, "index of a section, by the type")
    info: int = wire(U32, "by the type")
    addralign: int = wire(U64, "bytes")
    entsize: int = wire(U64, "bytes of an entry")


@record
class ProgramHeader32:
    """Elf32_Phdr."""

    type: int = wire(U32, "PT_...")
    offset: int = wire(U32, "file offset of the first byte")
    vaddr: int = wire(U32, "address of the first byte")
    paddr: int = wire(U32, "physical address")
    filesz: int = wire(U32, "bytes in the file")
    memsz: int = wire(U32, "bytes in memory")
    flags: int = wire(U32, "PF_...")
    align: int = wire(U32, "bytes")


@record
class ProgramHeader64:
    """Elf64_Phdr."""

    type: int = wire(U32, "PT_...")
    flags: int = wire(U32, "PF_...")
    offset: int = wire(U64, "file offset of the first byte")
    vaddr: int = wire(U64, "address of the first byte")
    paddr: int = wire(U64, "physical address")
    filesz: int = wire(U64, "bytes in the file")
    memsz: int = wire(U64, "bytes in memory")
    align: int = wire(U64, "bytes")


# By the bytes of an address.
FILE_HEADERS: dict[int, type] = {4: FileHeader32, 8: FileHeader64}
SECTION_HEADERS: dict[int, type] = {4: SectionHeader32, 8: SectionHeader64}
PROGRAM_HEADERS: dict[int, type] = {4: ProgramHeader32, 8: ProgramHeader64}
