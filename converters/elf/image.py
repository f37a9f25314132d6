"""ELF files, through pyelftools: sections, segments and their bytes, memory-mapped.

Strategy: pyelftools parses the headers; contents are views of one mapping, so that a large file costs only the pages
that are read. Both header tables are walked here, with their bounds checked first, because pyelftools' own section
objects follow links and trust counts. Its exceptions become a ParseError.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.constants import SH_FLAGS, SHN_INDICES
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_D_TAG

from ...schemas.section import ByteOrder, ParseError, Section, order_code
from ..arch.table import Architecture, architecture_of
from ..arrays import furthest_before

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What pyelftools raises on hostile headers, besides its own errors: for an offset that seek() refuses, or a number
# outside an enumeration.
_HEADER_ERRORS = (ELFError, OverflowError, ValueError, KeyError, TypeError, AttributeError)

# gABI: e_phnum is PN_XNUM if the number of program headers is in section header 0.
PN_XNUM = 0xFFFF

# Names of interest are shorter; in a hostile file, a name may be as long as the file.
MAX_NAME = 255


@dataclass(frozen=True, slots=True)
class ElfSection:
    """A section header. `type` is SHT_... or the number; sizes and offsets in bytes, `link` and `info` as stored."""

    name: str
    type: str | int
    flags: int
    address: int
    file_offset: int
    size: int
    index: int
    link: int = 0
    info: int = 0
    entry_size: int = 0

    @property
    def is_nobits(self) -> bool:
        """Whether the section has no bytes in the file."""
        return self.type == "SHT_NOBITS"

    @property
    def is_compressed(self) -> bool:
        """Whether its bytes in the file are compressed (SHF_COMPRESSED)."""
        return bool(self.flags & SH_FLAGS.SHF_COMPRESSED)

    @property
    def is_code(self) -> bool:
        """Whether the section is loaded and executable."""
        return bool(self.flags & SH_FLAGS.SHF_EXECINSTR) and bool(self.flags & SH_FLAGS.SHF_ALLOC)


@dataclass(frozen=True, slots=True)
class ElfImage:
    """An open ELF file. `type` is ET_..., `machine` EM_...; `loaded`: address and memory size of each PT_LOAD."""

    path: str
    type: str | int
    machine: str | int
    address_size: int
    byte_order: ByteOrder
    loaded: tuple[tuple[int, int], ...]
    sections: tuple[ElfSection, ...]
    data: memoryview

    @property
    def load_address(self) -> int:
        """The address of the first PT_LOAD; 0 if there is none."""
        return self.loaded[0][0] if self.loaded else 0

    @property
    def architecture(self) -> Architecture | None:
        """The architecture; None if it is not supported."""
        return architecture_of(str(self.machine), self.address_size, self.byte_order)

    @property
    def data_base(self) -> int:
        """The address that DW_EH_PE_datarel is relative to, as in gcc's unwinder: DT_PLTGOT, or 0 without one."""
        return self.dynamic_value(ENUM_D_TAG["DT_PLTGOT"]) or 0

    def dynamic_value(self, tag: int) -> int | None:
        """The value of the first dynamic entry with this tag; None if there is none. Raises ParseError."""
        header = next((one for one in self.sections if one.type == "SHT_DYNAMIC" and not one.is_nobits), None)
        if header is None:
            return None
        words = self.contents(header)
        code = f"{order_code(self.byte_order)}u{self.address_size}"
        entries = np.frombuffer(words.data[: len(words) // (2 * self.address_size) * 2 * self.address_size], code)
        found = np.flatnonzero(entries[::2] == tag)
        return int(entries[2 * found[0] + 1]) if len(found) else None

    def named(self, name: str) -> tuple[ElfSection, ...]:
        """The sections of that name, in file order."""
        return tuple(section for section in self.sections if section.name == name)

    def contents(self, header: ElfSection) -> Section:
        """The bytes of a section, decompressed if necessary. Raises ParseError if the file does not have them."""
        if header.is_nobits:
            reason = "is NOBITS: this is a separate debug file; the stripped file has the bytes"
            raise ParseError(header.name, None, "sh_type", reason)
        end = header.file_offset + header.size
        if end > len(self.data):
            reason = f"reaches to {end:#x} in a file of {len(self.data):#x} bytes"
            raise ParseError(header.name, None, "sh_size", reason)
        if header.is_compressed:
            data, offset = _decompressed(self, header), None
        else:
            data, offset = self.data[header.file_offset : end], header.file_offset
        return Section(header.name, data, header.address, offset, self.byte_order, self.address_size)


# Files that are mistaken for ELF: the offset of the magic number, the magic number, and what the file is.
_OTHER_KINDS = (
    (0, b"\x1f\x8b", "gzip-compressed: unpack it first"),
    (0, b"\xfd7zXZ\0", "xz-compressed: unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "zstd-compressed: unpack it first"),
    (0, b"!<arch>\n", "an archive of object files: link it first"),
    (0x202, b"HdrS", "a compressed kernel image (bzImage)"),
    (56, b"ARM\x64", "a kernel image without ELF headers"),
)


def open_elf(path: str | os.PathLike[str]) -> ElfImage:
    """Open an ELF file. Raises OSError, and ParseError if it is not ELF or its headers are malformed."""
    with Path(path).open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ParseError("", None, "", "the file is empty")
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return _image(path, mapping)


def elf_of_bytes(name: str, data: bytes) -> ElfImage:
    """As `open_elf`, for a file's bytes (at least one)."""
    mapping = mmap.mmap(-1, len(data))
    mapping[:] = data
    return _image(name, mapping)


def _image(path: str | os.PathLike[str], mapping: mmap.mmap) -> ElfImage:
    if mapping[:4] != b"\x7fELF":
        kind = next((name for place, magic, name in _OTHER_KINDS if mapping[place : place + len(magic)] == magic), None)
        raise ParseError("", None, "", "not an ELF file" + (f" but {kind}" if kind else ""))
    try:
        elf = ELFFile(mapping)
        headers = list(_section_headers(elf, mapping))
        return ElfImage(
            path=os.fspath(path),
            type=elf["e_type"],
            machine=elf["e_machine"],
            address_size=elf.elfclass // 8,
            byte_order="little" if elf.little_endian else "big",
            loaded=_loaded(elf, mapping, headers),
            sections=_sections(elf, mapping, headers),
            data=memoryview(mapping),
        )
    except _HEADER_ERRORS as error:
        raise ParseError("", None, "ELF headers", str(error) or type(error).__name__) from error


Header = Mapping[str, Any]


def _header_table(elf: ELFFile, mapping: mmap.mmap, prefix: str, layout: Any, count: int) -> Iterator[Header]:
    """The first `count` headers of a header table; `prefix` is that of its fields in the file header (e_sh, e_ph)."""
    offset, size = elf[f"{prefix}off"], elf[f"{prefix}entsize"]
    if count and size < layout.sizeof():
        raise ParseError("", None, f"{prefix}entsize", f"{size} bytes do not hold a header of {layout.sizeof()}")
    if offset + count * size > len(mapping):
        reason = f"{count} headers from {offset:#x} reach past the file's end at {len(mapping):#x}"
        raise ParseError("", None, f"{prefix}num", reason)
    return (struct_parse(layout, mapping, offset + index * size) for index in range(count))


def _section_headers(elf: ELFFile, mapping: mmap.mmap) -> Iterator[Header]:
    count = elf["e_shnum"]
    if not elf["e_shoff"]:
        return iter(())
    if count == 0:
        # gABI: with 0xff00 sections or more, their number is in the first section header.
        count = next(_header_table(elf, mapping, "e_sh", elf.structs.Elf_Shdr, 1))["sh_size"]
    return _header_table(elf, mapping, "e_sh", elf.structs.Elf_Shdr, count)


def _loaded(elf: ELFFile, mapping: mmap.mmap, sections: list[Header]) -> tuple[tuple[int, int], ...]:
    """The address and memory size of each PT_LOAD."""
    count = sections[0]["sh_info"] if elf["e_phnum"] == PN_XNUM and sections else elf["e_phnum"]
    segments = _header_table(elf, mapping, "e_ph", elf.structs.Elf_Phdr, count)
    return tuple((int(one["p_vaddr"]), int(one["p_memsz"])) for one in segments if one["p_type"] == "PT_LOAD")


def _sections(elf: ELFFile, mapping: mmap.mmap, headers: list[Header]) -> tuple[ElfSection, ...]:
    """The sections with their names, which are all empty if there is no section name table."""
    names_index = elf["e_shstrndx"]
    if names_index == SHN_INDICES.SHN_XINDEX and headers:
        names_index = headers[0]["sh_link"]
    start = end = 0
    if 0 < names_index < len(headers):
        start = headers[names_index]["sh_offset"]
        end = min(start + headers[names_index]["sh_size"], len(mapping))
    return tuple(
        ElfSection(
            name=_name_at(mapping, start + header["sh_name"], end),
            type=header["sh_type"],
            flags=header["sh_flags"],
            address=header["sh_addr"],
            file_offset=header["sh_offset"],
            size=header["sh_size"],
            index=index,
            link=header["sh_link"],
            info=header["sh_info"],
            entry_size=header["sh_entsize"],
        )
        for index, header in enumerate(headers)
    )


def _name_at(mapping: mmap.mmap, offset: int, end: int) -> str:
    """The string at a file offset, up to its zero byte, to `end`, or to MAX_NAME bytes."""
    return mapping[offset : min(end, offset + MAX_NAME)].partition(b"\0")[0].decode(errors="backslashreplace")


def _decompressed(image: ElfImage, header: ElfSection) -> memoryview:
    """The bytes of an SHF_COMPRESSED section (gABI: an Elf_Chdr, then zlib).

    Not by pyelftools, which inflates whatever the stream holds before it compares sizes.
    """
    from elftools.elf.enums import ENUM_ELFCOMPRESS_TYPE

    raw = image.data[header.file_offset : header.file_offset + header.size]
    word = image.address_size
    # ch_type has 4 bytes, followed by 4 reserved bytes in ELF64; ch_size and ch_addralign are words.
    header_size, size_at = (24, 8) if word == 8 else (12, 4)
    if len(raw) < header_size:
        reason = f"{len(raw)} bytes do not hold a compression header of {header_size}"
        raise ParseError(header.name, 0, "Chdr", reason)
    kind = int.from_bytes(raw[:4], image.byte_order)
    size = int.from_bytes(raw[size_at : size_at + word], image.byte_order)
    if kind != ENUM_ELFCOMPRESS_TYPE["ELFCOMPRESS_ZLIB"]:
        raise ParseError(header.name, 0, "ch_type", f"compression type {kind} is not supported, only zlib is")
    try:
        # One byte more than ch_size reveals a wrong size without inflating everything.
        engine = zlib.decompressobj()
        data = engine.decompress(raw[header_size:], min(size, MAX_INFLATION * len(raw)) + 1)
    except zlib.error as error:
        raise ParseError(header.name, header_size, "compressed data", str(error)) from error
    if len(data) != size:
        found = f"more than {size:#x}" if len(data) > size else f"{len(data):#x}"
        raise ParseError(header.name, size_at, "ch_size", f"is {size:#x}, but the data inflates to {found} bytes")
    return memoryview(data)


# zlib's maximum compression ratio is about 1032.
MAX_INFLATION = 1040


def covered_bytes(image: ElfImage, start: NDArray[np.uint64], end: NDArray[np.uint64]) -> tuple[int, int]:
    """The number of bytes of code that the ranges start..end (addresses, in any order) cover, and that of all code."""
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    # Each range without what earlier ranges cover: disjoint ranges, whose sizes can be added.
    begin = np.maximum(start, furthest_before(end))
    size = np.where(reach > begin, reach - begin, np.uint64(0))
    before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(size, dtype=np.uint64)])

    def below(address: int) -> int:
        """The number of covered bytes below an address."""
        last = int(np.searchsorted(begin, np.uint64(address), side="right")) - 1
        return int(before[last]) + min(int(size[last]), address - int(begin[last])) if last >= 0 else 0

    covered = total = 0
    for section in image.sections:
        if section.is_code:
            end_address = min(section.address + section.size, (1 << 64) - 1)
            covered += below(end_address) - below(section.address)
            total += section.size
    return covered, total
