"""What fuzzing starts from: bytes, the places of their fields, and the context that a reader needs.

Strategy: the corpus draws sections and knows where each of their fields is. In ELF files and minidumps the places come
from the declared records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from unwindkit.corpus.formats import FORMATS, Options, make_case
from unwindkit.schemas.core_files import minidump
from unwindkit.schemas.derive import dtype_of
from unwindkit.schemas.elf import headers
from unwindkit.schemas.section import ByteOrder, Section

# Fields that are changed as numbers have at most this many bytes.
WIDEST = 8


class Place(NamedTuple):
    """A field: an offset in the seed and a size, both in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Seed:
    """An input. `others` are further sections, by name, which stay as they are; `variant` is for the target's use."""

    data: bytes
    places: tuple[Place, ...] = ()
    name: str = ""
    byte_order: ByteOrder = "little"
    address_size: int = 8
    architecture: str = "x86_64"
    address: int = 0
    others: tuple[tuple[str, bytes], ...] = ()
    variant: str = ""

    def section(self, name: str = "") -> Section:
        """The data as a section."""
        return Section.of(name or self.name, self.data, self.address, self.byte_order, self.address_size)

    def other(self, name: str) -> bytes:
        """The bytes of another section, or none."""
        return dict(self.others).get(name, b"")

    def to_json(self) -> dict[str, Any]:
        """All but the places, as JSON; bytes are hexadecimal."""
        return {
            "data": self.data.hex(),
            "name": self.name,
            "byte_order": self.byte_order,
            "address_size": self.address_size,
            "architecture": self.architecture,
            "address": self.address,
            "others": [[name, data.hex()] for name, data in self.others],
            "variant": self.variant,
        }

    @classmethod
    def from_json(cls, text: str) -> Seed:
        """What `to_json` describes."""
        found = json.loads(text)
        others = tuple((name, bytes.fromhex(data)) for name, data in found.pop("others"))
        return cls(bytes.fromhex(found.pop("data")), others=others, **found)


def corpus_seeds(name: str, count: int = 40) -> list[Seed]:
    """The first cases of a format of the corpus, of every variant in turn, that have bytes."""
    form, found = FORMATS[name], []
    for number in range(count):
        case = make_case(form, number, Options())
        if not case.data:
            continue
        places = tuple(Place(one.offset, int(one.size)) for one in case.layout if 0 < one.size <= WIDEST)
        others = tuple((section, data) for section, data, _ in case.other_sections)
        architecture = case.architecture
        found.append(
            Seed(
                case.data,
                places,
                case.section,
                case.byte_order,
                architecture.address_size,
                architecture.name,
                case.address,
                others,
            )
        )
    return found


def record_places(cls: type, order: ByteOrder, offset: int) -> Iterator[Place]:
    """The fields of a declared record of fixed size at an offset."""
    fields = dtype_of(cls, order).fields
    assert fields is not None
    for found, start, *_ in fields.values():
        if found.itemsize <= WIDEST:
            yield Place(offset + start, found.itemsize)


def elf_places(data: bytes) -> tuple[Place, ...]:
    """The fields of the file header, and of the first program and section headers, of a well-formed ELF file."""
    order = headers.ELFDATA[data[headers.EI_DATA]]
    is_64 = data[headers.EI_CLASS] == headers.ELFCLASS64
    file_header = headers.FileHeader64 if is_64 else headers.FileHeader32
    segment = headers.ProgramHeader64 if is_64 else headers.ProgramHeader32
    section = headers.SectionHeader64 if is_64 else headers.SectionHeader32
    start = headers.EI_NIDENT
    found = [Place(headers.EI_CLASS, 1), Place(headers.EI_DATA, 1), *record_places(file_header, order, start)]
    values = Section.of("file", data, 0, order)
    shown = {
        name: int.from_bytes(values.data[start + at : start + at + kind.itemsize], order)
        for name, (kind, at, *_) in (dtype_of(file_header, order).fields or {}).items()
    }
    for cls, first, count in ((segment, "phoff", "phnum"), (section, "shoff", "shnum")):
        size = dtype_of(cls, order).itemsize
        for index in range(min(shown[count], 12)):
            found += record_places(cls, order, shown[first] + index * size)
    return tuple(found)


def minidump_places(data: bytes) -> tuple[Place, ...]:
    """The fields of the header and of the directory, and every aligned word of the streams."""
    header = dtype_of(minidump.Header, "little").itemsize
    found = [*record_places(minidump.Header, "little", 0)]
    return (*found, *(Place(offset, 4) for offset in range(header, len(data) - 3, 4)))


def words(data: bytes, size: int) -> tuple[Place, ...]:
    """Consecutive words of one size: for tables of numbers."""
    return tuple(Place(offset, size) for offset in range(0, len(data) - size + 1, size))
