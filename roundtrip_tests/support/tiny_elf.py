"""A small ELF64 file made by hand (gABI), so that a test can corrupt any single field of it.

Strategy: the file header, then one program header, then contents, then section headers; `patched` writes a
field of the first or the last by its name.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame

# Name: (offset, struct code) in a header; ELF64.
HEADER = {
    "ei_class": (4, "B"),
    "ei_data": (5, "B"),
    "e_type": (16, "H"),
    "e_machine": (18, "H"),
    "e_phoff": (32, "Q"),
    "e_shoff": (40, "Q"),
    "e_phentsize": (54, "H"),
    "e_phnum": (56, "H"),
    "e_shentsize": (58, "H"),
    "e_shnum": (60, "H"),
    "e_shstrndx": (62, "H"),
}
SECTION = {
    "sh_name": (0, "I"),
    "sh_type": (4, "I"),
    "sh_flags": (8, "Q"),
    "sh_addr": (16, "Q"),
    "sh_offset": (24, "Q"),
    "sh_size": (32, "Q"),
    "sh_link": (40, "I"),
    "sh_info": (44, "I"),
    "sh_entsize": (56, "Q"),
}
HEADER_SIZE, SEGMENT_SIZE, SECTION_SIZE = 64, 56, 64

PROGBITS, SYMTAB, STRTAB, NOBITS = 1, 2, 3, 8
ALLOC, EXECINSTR, COMPRESSED = 2, 4, 0x800
EM_X86_64 = 62
ET_REL, ET_EXEC, ET_CORE = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Content:
    """A section to write: its name, type, flags, address and bytes; the loaded ones are at their file offset."""

    name: str
    data: bytes = b""
    type: int = PROGBITS
    flags: int = ALLOC


CFI = Content(".eh_frame", eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 0x40, "41 0e10"), Fde(0x1040, 0x40)))
CODE = Content(".text", bytes(0x80), flags=ALLOC | EXECINSTR)
BASE = 0xF00  # of addresses: .text, the first section, is then at 0x1000


def tiny_elf(*contents: Content, **header: int) -> bytearray:
    """A little-endian x86-64 executable of these sections (CODE and CFI where none are given)."""
    contents = contents or (CODE, CFI)
    names = b"\0" + b"".join(content.name.encode() + b"\0" for content in contents) + b".shstrtab\0"
    data = bytearray(0x100)
    headers = [bytes(SECTION_SIZE)]
    for content in (*contents, Content(".shstrtab", names, STRTAB, 0)):
        data += bytes(-len(data) % 16)
        name, address = names.index(content.name.encode() + b"\0"), BASE + len(data) if content.flags & ALLOC else 0
        size = (content.flags, address, len(data), len(content.data))
        headers.append(struct.pack("<IIQQQQIIQQ", name, content.type, *size, 0, 0, 1, 0))
        data += content.data
    end = len(data)
    data += b"".join(headers)
    fields = (
        2,
        EM_X86_64,
        1,
        0x1000,
        HEADER_SIZE,
        end,
        0,
        64,
        SEGMENT_SIZE,
        1,
        SECTION_SIZE,
        len(headers),
        len(headers) - 1,
    )
    data[:16] = b"\x7fELF\x02\x01\x01" + bytes(9)
    data[16:HEADER_SIZE] = struct.pack("<HHIQQQIHHHHHH", *fields)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, BASE, BASE, end, end, 0x1000)
    data[HEADER_SIZE : HEADER_SIZE + SEGMENT_SIZE] = segment
    return patched(data, **header)


def patched(data: bytearray, section: int | None = None, **values: int) -> bytearray:
    """The file with some fields overwritten, in place: of the file header, or of a section's header."""
    table, base = HEADER, 0
    if section is not None:
        table, base = SECTION, struct.unpack_from("<Q", data, HEADER["e_shoff"][0])[0] + section * SECTION_SIZE
    for name, value in values.items():
        offset, code = table[name]
        struct.pack_into(f"<{code}", data, base + offset, value)
    return data


def tiny_elf32() -> bytes:
    """A little-endian i386 executable with an empty `.eh_frame` and nothing to load."""
    names = b"\0.eh_frame\0.shstrtab\0"
    data = bytes(4) + names
    null = bytes(40)
    cfi = struct.pack("<10I", 1, PROGBITS, ALLOC, 0x1000, 52, 4, 0, 0, 4, 0)
    strings = struct.pack("<10I", 11, STRTAB, 0, 0, 56, len(names), 0, 0, 1, 0)
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    return (
        ident
        + struct.pack("<HHIIIIIHHHHHH", ET_EXEC, 3, 1, 0, 0, 52 + len(data), 0, 52, 32, 0, 40, 3, 2)
        + data
        + null
        + cfi
        + strings
    )
