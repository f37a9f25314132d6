"""ELF files: sections, segments and their bytes, memory-mapped.

Strategy: contents are views of one mapping, so that a large file costs only the pages that are read.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_integer, check_text, checked, flat_bytes
from ...schemas.data_classes import dataclass
from ...schemas.elf.headers import MAGIC
from ...schemas.elf.numbers import DT, PT, SHF, file_type, machine_name, section_type, segment_type
from ...schemas.section import ByteOrder, ParseError, Section, order_code
from ...schemas.steps import note
from ..arch.table import Architecture, architecture_of
from ..limits import exceeded, raised
from .compression import (
    LEAST_INFLATED,
    MAX_INFLATION,
    ZDEBUG,
    CompressedBytes,
    compress_like,
    compressed_bytes,
    decompress,
    plain_name,
)
from .headers import ElfHeaders, Mapping
from .inputs import Input, input_name, map_input, mapping_of, release

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Names of interest are shorter; in a hostile file, a name may be as long as the file.
MAX_NAME = 255


# Types of images that are not ELF files: the bytes of one section, and a Breakpad symbol file.
RAW_SECTION, SYMBOL_FILE = "raw section", "symbol file"


@dataclass(frozen=True, slots=True)
class ElfSection:
    """A section header. `type` is SHT_... or the number; sizes and offsets in bytes, `link` and `info` as stored.

    `size` is that in the file (`ElfImage.content_size`). `name` is `.debug_line` for `.zdebug_line`, the `stored_name`.
    """

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
    stored_name: str = ""

    @property
    def is_nobits(self) -> bool:
        """Whether the section has no bytes in the file."""
        return self.type == "SHT_NOBITS"

    @property
    def is_compressed(self) -> bool:
        """Whether its bytes in the file are compressed: SHF_COMPRESSED, or GNU's `.zdebug_*`."""
        return self.has_compression_header or self.stored_name.startswith(ZDEBUG)

    @property
    def has_compression_header(self) -> bool:
        """Whether the section is SHF_COMPRESSED."""
        return bool(self.flags & SHF.COMPRESSED)

    @property
    def is_code(self) -> bool:
        """Whether the section is loaded and executable."""
        return bool(self.flags & SHF.EXECINSTR) and bool(self.flags & SHF.ALLOC)

    @property
    def end_address(self) -> int:
        """The address after the last byte; at most 2**64 - 1, also where `size` reaches past the address space."""
        return min(self.address + self.size, (1 << 64) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Sections of an image that are in another file, `path`, with these bytes: those from index `first_section` on.

    `is_whole`: the other file has the symbols and debugging information that was stripped from this one.
    """

    path: str
    data: memoryview
    first_section: int
    is_whole: bool


@dataclass(frozen=True)  # without slots, for the cached property
class ElfImage:
    """An open ELF file. `type` is ET_..., `machine` EM_...; `loaded`: address and memory size of each PT_LOAD.

    A raw section and a symbol file are images, too, with one section, and the `type` RAW_SECTION or SYMBOL_FILE.
    `parts` are files that some of the sections come from; `notes`, sentences about files that were not used.
    """

    path: str
    type: str | int
    machine: str | int
    address_size: int
    byte_order: ByteOrder
    loaded: tuple[tuple[int, int], ...]
    sections: tuple[ElfSection, ...]
    data: memoryview
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def debug_file(self) -> str:
        """The path of the separate debug file; "" if there is none."""
        return next((part.path for part in self.parts if part.is_whole), "")

    @checked(header=ElfSection)
    def part_of(self, header: ElfSection) -> Part | None:
        """The part that a section is in; None for one of the file itself."""
        return next((part for part in reversed(self.parts) if header.index >= part.first_section), None)

    @property
    def is_elf(self) -> bool:
        """Whether it was made from an ELF file, and not from a raw section or a symbol file."""
        return self.type not in (RAW_SECTION, SYMBOL_FILE)

    @property
    def load_address(self) -> int:
        """The address of the first PT_LOAD; 0 if there is none."""
        return self.loaded[0][0] if self.loaded else 0

    @property
    def architecture(self) -> Architecture:
        """The architecture; of a machine outside `ARCHITECTURES` little is known."""
        return architecture_of(str(self.machine), self.address_size, self.byte_order)

    @cached_property
    def data_base(self) -> int:
        """The address that DW_EH_PE_datarel is relative to, as in gcc's unwinder: DT_PLTGOT, or 0 without one."""
        return self.dynamic_value(DT.PLTGOT) or 0

    @checked(tag=check_integer)
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

    @checked(name=check_text)
    def named(self, name: str) -> tuple[ElfSection, ...]:
        """The sections of that name, in file order."""
        return tuple(section for section in self.sections if section.name == name)

    @checked(header=ElfSection)
    def contents(self, header: ElfSection) -> Section:
        """The bytes of a section, decompressed if necessary. Raises ParseError if the file does not have them."""
        if header.is_nobits:
            reason = "is NOBITS: this is a separate debug file; the stripped file has the bytes"
            raise ParseError(header.name, None, "sh_type", reason)
        raw, compressed = self._stored(header)
        is_here = compressed is None and self.is_elf and self.part_of(header) is None
        offset = header.file_offset if is_here else None
        data = raw if compressed is None else decompress(compressed)
        if compressed is not None:
            part = self.part_of(header)
            release(self.data if part is None else part.data, header.file_offset, header.size)
        order, size = self.byte_order, self.address_size
        return Section(header.name, data, header.address, offset, order, size, header.stored_name)

    @checked(header=ElfSection)
    def content_size(self, header: ElfSection) -> int:
        """The size of a section's content in bytes: of a compressed one the size that it states, without decompressing
        it. Raises ParseError."""
        if header.is_nobits or not header.is_compressed:
            return header.size
        compressed = self._stored(header)[1]
        return header.size if compressed is None else compressed.size

    @checked(header=ElfSection)
    def stored_like(self, header: ElfSection, content: bytes) -> bytes:
        """Other content as it would be stored in the section: compressed if the section is. Raises ParseError."""
        flat_bytes(content)
        compressed = self._stored(header)[1]
        return content if compressed is None else compress_like(compressed, content)

    def _stored(self, header: ElfSection) -> tuple[memoryview, CompressedBytes | None]:
        """The bytes of a section in the file, and how they are compressed, None if they are not. Raises ParseError."""
        part, end = self.part_of(header), header.file_offset + header.size
        data = self.data if part is None else part.data
        if end > len(data):
            reason = f"reaches to {end:#x} in a file of {len(data):#x} bytes"
            raise ParseError(header.name, None, "sh_size", reason)
        raw = data[header.file_offset : end]
        if not header.is_compressed:
            return raw, None
        has_chdr = header.has_compression_header
        found = compressed_bytes(header.name, raw, has_chdr, self.address_size, self.byte_order)
        limit = raised(LEAST_INFLATED + MAX_INFLATION * len(data))
        if found is not None and found.size > limit:
            reason = f"is {found.size:#x}, the limit for a file of this size is {limit:#x}"
            raise ParseError(header.name, found.size_at, "ch_size", exceeded(reason))
        return raw, found


# Files that are mistaken for ELF: the offset of the magic number, the magic number, and what the file is.
_OTHER_KINDS = (
    (0, b"\x1f\x8b", "gzip-compressed: unpack it first"),
    (0, b"\xfd7zXZ\0", "xz-compressed: unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "zstd-compressed: unpack it first"),
    (0, b"!<arch>\n", "an archive of object files: link it first"),
    (0x202, b"HdrS", "a compressed kernel image (bzImage)"),
    (56, b"ARM\x64", "a kernel image without ELF headers"),
)


def open_elf(source: Input) -> ElfImage:
    """Open an ELF file: a path, bytes in memory, or a binary stream.

    Raises OSError, and ParseError if it is not ELF or its headers are malformed.
    """
    return elf_of_mapping(input_name(source), map_input(source))


def elf_of_bytes(name: str, data: bytes | memoryview) -> ElfImage:
    """As `open_elf`, for bytes of a file called `name`."""
    return elf_of_mapping(name, map_input(data))


def elf_of_mapping(name: str, data: memoryview, least_inflated: int = LEAST_INFLATED) -> ElfImage:
    """As `open_elf`, for all bytes of a file called `name`, from `map_input`. Its compressed sections may have
    `least_inflated` bytes of content whatever its size."""
    mapping = mapping_of(data)
    if mapping[:4] != MAGIC:
        kind = next((kind for place, magic, kind in _OTHER_KINDS if mapping[place : place + len(magic)] == magic), None)
        raise ParseError("", None, "", "not an ELF file" + (f" but {kind}" if kind else ""))
    headers = ElfHeaders(mapping)
    machine = machine_name(headers.machine)
    sections = _sections(headers, mapping, machine)
    image = ElfImage(
        path=name,
        type=file_type(headers.type),
        machine=machine,
        address_size=headers.address_size,
        byte_order=headers.byte_order,
        loaded=_loaded(headers),
        sections=sections,
        data=data,
    )
    _refuse_shared_bytes(image)
    _refuse_inflation(image, least_inflated)
    note(f"{name or 'file in memory'}: {image.type}, {machine}, {len(data):,} bytes, {len(sections):,} sections")
    return image


def _refuse_shared_bytes(image: ElfImage) -> None:
    """Raise ParseError if sections are together larger than the file: many headers may name the same bytes, which every
    reader would read once per header. A section that reaches past the file's end is refused when it is read."""
    size = len(image.data)
    stored = (one for one in image.sections if one.type not in ("SHT_NULL", "SHT_NOBITS"))
    if sum(one.size for one in stored if one.file_offset + one.size <= size) > raised(size):
        raise ParseError("", None, "section headers", exceeded("the sections are together larger than the file"))


def _refuse_inflation(image: ElfImage, least: int) -> None:
    """Raise ParseError if the content of compressed sections is much larger than the file, by the sizes they state."""
    size = 0
    for one in image.sections:
        if one.is_compressed and not one.is_nobits:
            # A header that is wrong by itself is refused when the section is read: it may be one that nobody needs.
            with suppress(ParseError):
                size += image.content_size(one)
    limit = raised(least + MAX_INFLATION * len(image.data))
    if size > limit:
        reason = f"the content of compressed sections has {size} bytes, the limit for a file of this size is {limit}"
        raise ParseError("", None, "section headers", exceeded(reason))


@dataclass(frozen=True, slots=True)
class ElfSegment:
    """A program header. `type` is PT_... or the number."""

    type: str | int
    file_offset: int
    address: int
    file_size: int
    memory_size: int


@dataclass(frozen=True, slots=True)
class ElfLayout:
    """What a loader needs: the address of the first instruction, and the segments."""

    entry: int
    segments: tuple[ElfSegment, ...]

    def of_type(self, kind: str) -> tuple[ElfSegment, ...]:
        """The segments of a type."""
        return tuple(one for one in self.segments if one.type == kind)


def layout_of(image: ElfImage) -> ElfLayout:
    """The entry point and the segments of an ELF file. Raises ParseError."""
    headers = ElfHeaders(mapping_of(image.data))
    segments = headers.segments()
    columns = [segments[name].tolist() for name in ("type", "offset", "vaddr", "filesz", "memsz")]
    found = (ElfSegment(segment_type(kind, image.machine), *rest) for kind, *rest in zip(*columns, strict=True))
    return ElfLayout(headers.entry, tuple(found))


def _loaded(headers: ElfHeaders) -> tuple[tuple[int, int], ...]:
    """The address and memory size of each PT_LOAD."""
    segments = headers.segments()
    columns = (segments[name].tolist() for name in ("type", "vaddr", "memsz"))
    return tuple((start, size) for kind, start, size in zip(*columns, strict=True) if kind == PT.LOAD)


def _sections(headers: ElfHeaders, mapping: Mapping, machine: str | int) -> tuple[ElfSection, ...]:
    """The sections with their names, which are all empty if there is no section name table."""
    table, names_index = headers.sections(), headers.names_index()
    start = end = 0
    if 0 < names_index < len(table):
        start = int(table["offset"][names_index])
        end = min(start + int(table["size"][names_index]), len(mapping))
    fields = ("name", "type", "flags", "addr", "offset", "size", "link", "info", "entsize")
    found = []
    columns = [table[name].tolist() for name in fields]
    for index, (name, kind, *rest) in enumerate(zip(*columns, strict=True)):
        stored = _name_at(mapping, start + name, end)
        flags, address, offset, size, link, info, entry_size = rest
        kind = section_type(kind, machine)
        one = ElfSection(plain_name(stored), kind, flags, address, offset, size, index, link, info, entry_size, stored)
        found.append(one)
    return tuple(found)


def _name_at(mapping: Mapping, offset: int, end: int) -> str:
    """The string at a file offset, up to its zero byte, to `end`, or to MAX_NAME bytes."""
    return mapping[offset : min(end, offset + MAX_NAME)].partition(b"\0")[0].decode(errors="backslashreplace")


# Ranges whose covered bytes are counted at a time: their columns fit a cache.
_COUNTED = 1 << 14


def covered_bytes(image: ElfImage, start: NDArray[np.uint64], end: NDArray[np.uint64]) -> tuple[int, int]:
    """The number of bytes of code that the ranges start..end (addresses, in any order) cover, and that of all code."""
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    sections = [one for one in image.sections if one.is_code]
    bounds = np.array([(one.address, one.end_address) for one in sections], np.uint64).reshape(-1, 2)
    covered, reach = 0, np.uint64(0)
    for first in range(0, len(start), _COUNTED):
        part = slice(first, first + _COUNTED)
        # Each range without what earlier ranges cover: disjoint ranges, whose sizes can be added.
        ends = np.maximum.accumulate(np.concatenate([[reach], end[part]]))
        begin, reach = np.maximum(start[part], ends[:-1]), ends[-1]
        below = _bytes_below(begin, np.maximum(ends[1:], begin), bounds)
        covered += int((below[:, 1] - below[:, 0]).sum())
    return covered, sum(one.size for one in sections)


def _bytes_below(begin: NDArray[np.uint64], end: NDArray[np.uint64], address: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The number of bytes below each address of some ranges, at least one, which are ascending and disjoint."""
    size = end - begin
    before = np.cumsum(size) - size
    last = np.searchsorted(begin, address, side="right") - 1
    return np.where(last >= 0, before[last] + np.minimum(size[last], address - begin[last]), np.uint64(0))
