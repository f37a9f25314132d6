"""ELF files, through pyelftools: which sections there are, and their bytes, memory-mapped.

Strategy: pyelftools reads the headers; contents are views of one mapping, so that a large file costs what
is looked at. Whatever pyelftools chokes on becomes a ParseError with the section's name.
"""

from __future__ import annotations

import mmap
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from ..schemas.section import ByteOrder, ParseError, Section
from .arch import Architecture, architecture_of

# What pyelftools raises on hostile headers, besides its own errors: a name that is no UTF-8, an offset that no
# seek takes, a number that no enumeration has.
_HEADER_ERRORS = (ELFError, UnicodeDecodeError, OverflowError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class ElfSection:
    """A section header. `type` is SHT_... or the number; sizes and offsets in bytes."""

    name: str
    type: str | int
    flags: int
    address: int
    file_offset: int
    size: int
    index: int

    @property
    def is_nobits(self) -> bool:
        """Whether the file holds no bytes for it."""
        return self.type == "SHT_NOBITS"

    @property
    def is_compressed(self) -> bool:
        """Whether its bytes are compressed (SHF_COMPRESSED)."""
        return bool(self.flags & SH_FLAGS.SHF_COMPRESSED)

    @property
    def is_code(self) -> bool:
        """Whether it is loaded and executable."""
        return bool(self.flags & SH_FLAGS.SHF_EXECINSTR) and bool(self.flags & SH_FLAGS.SHF_ALLOC)


@dataclass(frozen=True, slots=True)
class ElfImage:
    """An open ELF file. `type` is ET_..., `machine` EM_..., `load_address` the first PT_LOAD's."""

    path: str
    type: str | int
    machine: str | int
    address_size: int
    byte_order: ByteOrder
    load_address: int
    sections: tuple[ElfSection, ...]
    data: memoryview

    @property
    def architecture(self) -> Architecture | None:
        """Its architecture; None where it is none of ours."""
        return architecture_of(str(self.machine), self.address_size, self.byte_order)

    def named(self, name: str) -> tuple[ElfSection, ...]:
        """The sections of that name, in file order."""
        return tuple(section for section in self.sections if section.name == name)

    def contents(self, header: ElfSection) -> Section:
        """The bytes of a section, decompressed where need be. Raises ParseError where the file does not hold them."""
        if header.is_nobits:
            reason = "is NOBITS: this is a file of debugging information alone; its other half has the bytes"
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


def open_elf(path: str | os.PathLike[str]) -> ElfImage:
    """Open an ELF file. Raises OSError, and ParseError where it is none or its headers are broken."""
    with Path(path).open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ParseError("", None, "", "the file is empty")
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if bytes(data[:4]) != b"\x7fELF":
            raise ParseError("", None, "", "not an ELF file")
        try:
            elf = ELFFile(file)
            return ElfImage(
                path=os.fspath(path),
                type=elf["e_type"],
                machine=elf["e_machine"],
                address_size=elf.elfclass // 8,
                byte_order="little" if elf.little_endian else "big",
                load_address=_load_address(elf),
                sections=tuple(_section_of(section, index) for index, section in enumerate(elf.iter_sections())),
                data=data,
            )
        except _HEADER_ERRORS as error:
            raise ParseError("", None, "ELF headers", str(error) or type(error).__name__) from error


def _load_address(elf: ELFFile) -> int:
    """The address of the first PT_LOAD; 0 where there is none."""
    return next((int(s["p_vaddr"]) for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"), 0)


def _section_of(section: object, index: int) -> ElfSection:
    header = section.header  # type: ignore[attr-defined]
    return ElfSection(
        name=section.name,  # type: ignore[attr-defined]
        type=header["sh_type"],
        flags=header["sh_flags"],
        address=header["sh_addr"],
        file_offset=header["sh_offset"],
        size=header["sh_size"],
        index=index,
    )


def _decompressed(image: ElfImage, header: ElfSection) -> memoryview:
    """The bytes of an SHF_COMPRESSED section (gABI: an Elf_Chdr, then zlib)."""
    from elftools.elf.enums import ENUM_ELFCOMPRESS_TYPE

    raw = image.data[header.file_offset : header.file_offset + header.size]
    word = image.address_size
    # ch_type is 4 bytes, then 4 reserved ones in ELF64; ch_size and ch_addralign are words.
    head, size_at = (24, 8) if word == 8 else (12, 4)
    if len(raw) < head:
        raise ParseError(header.name, 0, "Chdr", f"{len(raw)} bytes do not hold a compression header of {head}")
    kind = int.from_bytes(raw[:4], image.byte_order)
    size = int.from_bytes(raw[size_at : size_at + word], image.byte_order)
    if kind != ENUM_ELFCOMPRESS_TYPE["ELFCOMPRESS_ZLIB"]:
        raise ParseError(header.name, 0, "ch_type", f"compression {kind} is not supported (zlib is)")
    try:
        # One byte more than promised, so that a lying size is told apart without inflating all.
        engine = zlib.decompressobj()
        data = engine.decompress(raw[head:], min(size, MAX_INFLATION * len(raw)) + 1)
    except zlib.error as error:
        raise ParseError(header.name, head, "compressed data", str(error)) from error
    if len(data) != size:
        found = f"more than {size:#x}" if len(data) > size else f"{len(data):#x}"
        raise ParseError(header.name, size_at, "ch_size", f"says {size:#x} bytes, the data has {found}")
    return memoryview(data)


# zlib cannot expand a byte to more than about 1032.
MAX_INFLATION = 1040


def covered_bytes(image: ElfImage, start: NDArray[np.uint64], end: NDArray[np.uint64]) -> tuple[int, int]:
    """How many bytes of code the ranges start..end (addresses, in any order) cover, and how many there are."""
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    # Each range but for what the ones before it reach: disjoint, so that sums are cover.
    begin = np.maximum(start, np.concatenate([np.zeros(1, np.uint64), reach])[:-1])
    covered = total = 0
    for section in image.sections:
        if section.is_code:
            low, high = np.uint64(section.address), np.uint64(section.address + section.size)
            inside = np.minimum(reach, high).astype(np.int64) - np.maximum(begin, low).astype(np.int64)
            covered += int(inside[inside > 0].sum())
            total += section.size
    return covered, total
