"""Small ELF files of both classes and byte orders, section by section (gABI, ELF Header, Sections, Program Header).

Strategy: the file header, then program headers, then the bytes of each part in order, then section headers. Nothing is
aligned: a part without a header puts the next one where a test needs it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

PROGBITS, SYMTAB, STRTAB, RELA, NOBITS, REL = 1, 2, 3, 4, 8, 9
WRITE, ALLOC, EXEC = 1, 2, 4
EM_386, EM_MIPS, EM_S390, EM_ARM, EM_X86_64, EM_RISCV = 3, 8, 22, 40, 62, 243
ET_REL, ET_EXEC = 1, 2
PT_LOAD, PT_GNU_EH_FRAME = 1, 0x6474E550
BASE = 0x10000  # the difference of address and file offset of loaded sections in linked files


@dataclass(frozen=True, slots=True)
class Part:
    """A section: its name, type and flags, its bytes or, of one without, its size; sh_link, sh_info, sh_addralign,
    sh_entsize. Without a name the bytes have no section header."""

    name: str
    type: int
    flags: int
    data: bytes | int
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry_size: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """A program header: its type and flags; the file offsets of its start and end, the size in memory if that is
    larger, and p_align."""

    type: int
    flags: int
    start: int
    end: int
    memory: int = 0
    alignment: int = 0x1000


def undescribed(data: bytes) -> Part:
    """Bytes that no section header describes."""
    return Part("", 0, 0, data)


def small_elf(
    *parts: Part,
    machine: int = EM_X86_64,
    order: str = "<",
    is_64: bool = True,
    elf_type: int = ET_REL,
    loads: tuple[Load, ...] = (),
    names_flags: int = 0,
) -> bytes:
    """A file of these parts; the section names, `.names`, are the last section."""
    word = "Q" if is_64 else "I"
    found = dict.fromkeys([*(one.name for one in parts if one.name), ".names"])
    names = b"\0" + b"".join(f"{name}\0".encode() for name in found)
    header_size, segment_size, section_size = (64, 56, 64) if is_64 else (52, 32, 40)
    out, headers = bytearray(header_size), [bytes(section_size)]
    for load in loads:
        size, memory = load.end - load.start, max(load.memory, load.end - load.start)
        address = load.start + BASE
        fields = (load.start, address, address, size, memory)
        out += struct.pack(f"{order}IIQQQQQQ", load.type, load.flags, *fields, load.alignment) if is_64 else (
            struct.pack(f"{order}IIIIIIII", load.type, *fields, load.flags, load.alignment)
        )  # fmt: skip
    for one in (*parts, Part(".names", STRTAB, names_flags, names)):
        stored = b"" if isinstance(one.data, int) else one.data
        size = one.data if isinstance(one.data, int) else len(stored)
        address = len(out) + BASE if one.flags & ALLOC and elf_type != ET_REL else 0
        if one.name:
            headers.append(struct.pack(
                f"{order}II{word}{word}{word}{word}II{word}{word}", names.index(f"{one.name}\0".encode()),
                one.type, one.flags, address, len(out), size, one.link, one.info, one.alignment, one.entry_size,
            ))  # fmt: skip
        out += stored
    ident = b"\x7fELF" + bytes([1 + is_64, 1 + (order == ">"), 1]) + bytes(9)
    # e_type, e_machine, e_version, e_entry, e_phoff, e_shoff, e_flags, e_ehsize, e_phentsize, e_phnum, e_shentsize,
    # e_shnum, e_shstrndx
    header = struct.pack(
        f"{order}HHI{word}{word}{word}IHHHHHH", elf_type, machine, 1, 0, header_size if loads else 0, len(out), 0,
        header_size, segment_size if loads else 0, len(loads), section_size, len(headers), len(headers) - 1,
    )  # fmt: skip
    out[: 16 + len(header)] = ident + header
    return bytes(out) + b"".join(headers)
