"""A section's bytes with their addresses and offsets, and the errors that name a place in them.

Strategy: every reader is given a `Section`, so that an error can name its place without file offsets
being passed along. `FormatError` is the only exception that bad input causes.
"""

from __future__ import annotations

from typing import Literal

from .arguments import check_address, check_address_size, check_byte_order, check_text, flat_bytes, optional
from .data_classes import dataclass

ByteOrder = Literal["little", "big"]


def order_code(order: ByteOrder) -> str:
    """What a byte order is called in the type codes of NumPy and of struct."""
    return "<" if order == "little" else ">"


_check_file_offset = optional(check_address)


@dataclass(frozen=True, slots=True)
class Section:
    """The bytes of one section and where they are.

    `address` is the virtual address of the first byte; `file_offset` is relative to the ELF file, and
    None for bytes from elsewhere (a decompressed section, a buffer); `address_size` is in bytes. `stored_name` is the
    name in the section headers (`.zdebug_line` for the compressed `.debug_line`), "" if there are none.
    """

    name: str
    data: memoryview
    address: int = 0
    file_offset: int | None = None
    byte_order: ByteOrder = "little"
    address_size: int = 8
    stored_name: str = ""

    def __post_init__(self) -> None:
        """Raises TypeError and ValueError for arguments that no section can have."""
        check_text(self.name, "name")
        check_text(self.stored_name, "stored_name")
        _check_file_offset(self.file_offset, "file_offset")
        check_address(self.address, "address")
        check_byte_order(self.byte_order, "byte_order")
        check_address_size(self.address_size, "address_size")
        object.__setattr__(self, "data", flat_bytes(self.data))

    @classmethod
    def of(
        cls, name: str, data: bytes, address: int = 0, byte_order: ByteOrder = "little", address_size: int = 8
    ) -> Section:
        """A section made from bytes in memory."""
        return cls(name, memoryview(data), address, None, byte_order, address_size)

    def __len__(self) -> int:
        return len(self.data)

    @property
    def listed_name(self) -> str:
        """The name as dumps print it."""
        return self.stored_name or self.name


class FormatError(Exception):
    """Bad input, or a value that a format cannot hold.

    `section` is its name ("" if the error is outside any section), `offset` is in bytes from the section's
    start (None if no byte is at fault), `record` is the path to the field (`FDE[12].cie_pointer`), `reason`
    is one sentence. Printed as `.eh_frame+0x1c8 (file 0x21c8): FDE[12].cie_pointer: points to ...`.
    `file` is the file's name where a job reads several, else "".
    """

    def __init__(self, section: Section | str, offset: int | None, record: str, reason: str) -> None:
        name = section if isinstance(section, str) else section.name
        super().__init__(name, offset, record, reason)
        self.section = name
        self.offset = offset
        self.record = record
        self.reason = reason
        self.file = ""
        self.file_offset: int | None = None
        if isinstance(section, Section) and section.file_offset is not None and offset is not None:
            self.file_offset = section.file_offset + offset

    def __str__(self) -> str:
        place = self.section
        if self.offset is not None:
            place += f"+{self.offset:#x}"
        if self.file_offset is not None:
            place += f" (file {self.file_offset:#x})"
        return ": ".join(part for part in (place, self.record, self.reason) if part)


class ParseError(FormatError):
    """The bytes do not follow the format."""


class BuildError(FormatError):
    """A value that the format has no encoding for."""
