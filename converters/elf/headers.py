"""The file header and both header tables of an ELF file, read in bulk.

Strategy: a table is one NumPy array of the declared records, with its bounds checked first.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...schemas.derive import dtype_of
from ...schemas.elf.headers import (
    EI_CLASS,
    EI_DATA,
    EI_NIDENT,
    ELFCLASS,
    ELFDATA,
    FILE_HEADERS,
    PN_XNUM,
    PROGRAM_HEADERS,
    SECTION_HEADERS,
    SHN_XINDEX,
)
from ...schemas.section import ByteOrder, ParseError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Mapping: TypeAlias = mmap.mmap


class ElfHeaders:
    """The headers of a mapped ELF file. `type`, `machine` and `entry` as stored; `address_size` in bytes.

    Raises ParseError where the file header is malformed, and in `sections` and `segments` where a table is.
    """

    def __init__(self, mapping: Mapping) -> None:
        ident = mapping[:EI_NIDENT]
        if len(ident) < EI_NIDENT:
            raise ParseError("", None, "e_ident", f"{len(ident)} bytes, expected {EI_NIDENT}")
        if ident[EI_CLASS] not in ELFCLASS:
            raise ParseError("", None, "EI_CLASS", f"is {ident[EI_CLASS]}, expected 1 or 2")
        if ident[EI_DATA] not in ELFDATA:
            raise ParseError("", None, "EI_DATA", f"is {ident[EI_DATA]}, expected 1 or 2")
        self.address_size: int = ELFCLASS[ident[EI_CLASS]]
        self.byte_order: ByteOrder = ELFDATA[ident[EI_DATA]]
        self._mapping = mapping
        layout = dtype_of(FILE_HEADERS[self.address_size], self.byte_order)
        if len(mapping) < EI_NIDENT + layout.itemsize:
            reason = f"the file has {len(mapping)} bytes, and its header {EI_NIDENT + layout.itemsize}"
            raise ParseError("", None, "ELF header", reason)
        self._file: Any = np.frombuffer(mapping[EI_NIDENT : EI_NIDENT + layout.itemsize], layout)[0]
        self.type, self.machine, self.entry = (int(self._file[name]) for name in ("type", "machine", "entry"))

    def sections(self) -> NDArray[np.void]:
        """The section headers; none if there is no table."""
        count = int(self._file["shnum"])
        if not self._file["shoff"]:
            return self._sections(0)
        # gABI: with 0xff00 sections or more, their number is in the first section header.
        return self._sections(count or int(self._sections(1)["size"][0]))

    def segments(self) -> NDArray[np.void]:
        """The program headers."""
        count = int(self._file["phnum"])
        if count == PN_XNUM and self._file["shoff"]:
            count = int(self._sections(1)["info"][0])
        return self._table("e_ph", PROGRAM_HEADERS, count)

    def names_index(self) -> int:
        """The index of the section with the names of sections."""
        index = int(self._file["shstrndx"])
        if index == SHN_XINDEX and self._file["shoff"]:
            return int(self._sections(1)["link"][0])
        return index

    def _sections(self, count: int) -> NDArray[np.void]:
        return self._table("e_sh", SECTION_HEADERS, count)

    def _table(self, prefix: str, layouts: dict[int, type], count: int) -> NDArray[np.void]:
        """The first `count` headers of a table; `prefix` is that of its fields in the file header (e_sh, e_ph)."""
        layout = dtype_of(layouts[self.address_size], self.byte_order)
        offset, size = (int(self._file[f"{prefix[2:]}{name}"]) for name in ("off", "entsize"))
        if count and size < layout.itemsize:
            raise ParseError("", None, f"{prefix}entsize", f"{size} bytes do not hold a header of {layout.itemsize}")
        if offset + count * size > len(self._mapping):
            reason = f"{count} headers from {offset:#x} reach past the file's end at {len(self._mapping):#x}"
            raise ParseError("", None, f"{prefix}num", reason)
        if not count:
            return np.empty(0, layout)
        return np.ndarray(count, layout, self._mapping[offset : offset + count * size], 0, (size,))
