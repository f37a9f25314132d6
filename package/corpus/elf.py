"""Small ELF files: any class, byte order and machine, with the sections that they are given (gABI).

Strategy: pyelftools' own structures build the headers. Loaded sections are at file offsets that are congruent to their
addresses modulo the page size, so that a loader could map them.
"""

from __future__ import annotations

from collections.abc import Sequence

from elftools.construct.lib import Container
from elftools.elf.structs import ELFStructs

from ..converters.arch.table import Architecture
from ..schemas.arguments import check_address, check_byte_order, checked, each
from ..schemas.data_classes import dataclass
from ..schemas.section import ByteOrder

PAGE = 0x1000
_TEXT_FLAGS, _DATA_FLAGS = 6, 2  # SHF_ALLOC, with SHF_EXECINSTR for code
_READ, _READ_EXECUTE = 4, 5  # PF_R, with PF_X for code


@dataclass(frozen=True, slots=True)
class ElfSection:
    """A section to write. One with an address is loaded; `is_code`: it is executable."""

    name: str
    data: bytes
    address: int | None = None
    is_code: bool = False


@checked(architecture=Architecture, byte_order=check_byte_order, sections=each(ElfSection), page=check_address)
def build_elf(
    architecture: Architecture, byte_order: ByteOrder, sections: Sequence[ElfSection], *, page: int = PAGE
) -> bytes:
    """A shared object of these sections. Each loaded one gets a segment if `page` is not 1: then there are none.

    Raises ValueError for a page without bytes."""
    if page < 1:
        raise ValueError(f"page is {page}, which is not a number of bytes")
    structs = ELFStructs(little_endian=byte_order == "little", elfclass=8 * architecture.address_size)
    structs.create_basic_structs()
    structs.create_advanced_structs("ET_DYN", architecture.machine, "ELFOSABI_SYSV")
    names = b"\0" + b"".join(one.name.encode() + b"\0" for one in sections) + b".shstrtab\0"
    stored = [*sections, ElfSection(".shstrtab", names)]
    segments = [one for one in sections if one.address is not None] if page > 1 else []
    size = structs.Elf_Ehdr.sizeof() + structs.Elf_Phdr.sizeof() * (
        len(segments) + any(one.name == ".eh_frame_hdr" for one in segments)
    )
    contents, offsets = bytearray(size), []
    for one in stored:
        contents += bytes(((one.address or 0) - len(contents)) % page)
        offsets.append(len(contents))
        contents += one.data
    contents += bytes(-len(contents) % 8)
    table = b"".join(structs.Elf_Shdr.build(header) for header in _section_headers(stored, offsets, names))
    segment_table = b"".join(structs.Elf_Phdr.build(one) for one in _program_headers(sections, offsets, page))
    file_header = _file_header(structs, architecture, byte_order, len(stored) + 1, len(contents), len(segment_table))
    start = structs.Elf_Ehdr.build(file_header) + segment_table
    contents[: len(start)] = start
    return bytes(contents + table)


def _section_headers(sections: Sequence[ElfSection], offsets: list[int], names: bytes) -> list[Container]:
    """The null header, those of sections, and that of their names, which come last."""
    blank = dict.fromkeys(("sh_name", "sh_flags", "sh_addr", "sh_offset", "sh_size", "sh_link", "sh_info"), 0)
    found = [Container(**blank, sh_type="SHT_NULL", sh_addralign=0, sh_entsize=0)]
    for one, offset in zip(sections, offsets, strict=True):
        values = {
            "sh_name": names.index(b"\0" + one.name.encode() + b"\0") + 1,
            "sh_type": "SHT_STRTAB" if one.name == ".shstrtab" else "SHT_PROGBITS",
            "sh_flags": 0 if one.address is None else _TEXT_FLAGS if one.is_code else _DATA_FLAGS,
            "sh_addr": one.address or 0,
            "sh_offset": offset,
            "sh_size": len(one.data),
        }
        found.append(Container(**blank | values, sh_addralign=1, sh_entsize=0))
    return found


def _program_headers(sections: Sequence[ElfSection], offsets: list[int], page: int) -> list[Container]:
    """A PT_LOAD for each loaded section, by address, and a PT_GNU_EH_FRAME."""
    if page == 1:
        return []
    loaded = [(one, offset) for one, offset in zip(sections, offsets, strict=False) if one.address is not None]

    def header(kind: str, one: ElfSection, offset: int, align: int) -> Container:
        return Container(
            p_type=kind,
            p_flags=_READ_EXECUTE if one.is_code else _READ,
            p_offset=offset,
            p_vaddr=one.address,
            p_paddr=one.address,
            p_filesz=len(one.data),
            p_memsz=len(one.data),
            p_align=align,
        )

    found = [
        header("PT_LOAD", one, offset, page) for one, offset in sorted(loaded, key=lambda pair: pair[0].address or 0)
    ]
    return found + [header("PT_GNU_EH_FRAME", one, offset, 4) for one, offset in loaded if one.name == ".eh_frame_hdr"]


def _file_header(
    structs: ELFStructs, architecture: Architecture, byte_order: ByteOrder, sections: int, table: int, segments: int
) -> Container:
    ident = Container(
        EI_MAG=list(b"\x7fELF"),
        EI_CLASS=f"ELFCLASS{8 * architecture.address_size}",
        EI_DATA="ELFDATA2LSB" if byte_order == "little" else "ELFDATA2MSB",
        EI_VERSION="EV_CURRENT",
        EI_OSABI="ELFOSABI_SYSV",
        EI_ABIVERSION=0,
    )
    size = structs.Elf_Phdr.sizeof()
    return Container(
        e_ident=ident,
        e_type="ET_DYN",
        e_machine=architecture.machine,
        e_version="EV_CURRENT",
        e_entry=0,
        e_phoff=structs.Elf_Ehdr.sizeof() if segments else 0,
        e_shoff=table,
        e_flags=0,
        e_ehsize=structs.Elf_Ehdr.sizeof(),
        e_phentsize=size,
        e_phnum=segments // size,
        e_shentsize=structs.Elf_Shdr.sizeof(),
        e_shnum=sections,
        e_shstrndx=sections - 1,
    )
