"""`.debug_line` made by hand: a unit from its header's fields and its program in hexadecimal."""

from __future__ import annotations

from dataclasses import dataclass

from unwindkit.schemas.section import ByteOrder

# Operands of the standard opcodes 1 to 12 (DWARF5 6.2.5.2).
STANDARD_LENGTHS = (0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit to encode. `tables` is what follows standard_opcode_lengths, by default the files a.c and b.c; `lengths`
    defaults to the standard ones, and to 1 beyond them."""

    program: str
    version: int = 4
    minimum_instruction_length: int = 1
    maximum_operations: int = 1
    default_is_stmt: int = 1
    line_base: int = -3
    line_range: int = 12
    opcode_base: int = 13
    lengths: tuple[int, ...] | None = None
    tables: str | None = None
    byte_order: ByteOrder = "little"
    is_64: bool = False
    address_size: int = 8

    def integer(self, value: int, size: int) -> bytes:
        return value.to_bytes(size, self.byte_order)

    def header(self) -> bytes:
        """The bytes after header_length."""
        lengths = self.lengths
        if lengths is None:
            known = STANDARD_LENGTHS[: max(self.opcode_base - 1, 0)]
            lengths = (*known, *[1] * (self.opcode_base - 1 - len(known)))
        fixed = [self.minimum_instruction_length]
        fixed += [self.maximum_operations] if self.version >= 4 else []
        fixed += [self.default_is_stmt, self.line_base & 0xFF, self.line_range, self.opcode_base, *lengths]
        return bytes(fixed) + bytes.fromhex(self.tables if self.tables is not None else TABLES[self.version >= 5])

    def data(self) -> bytes:
        size = 8 if self.is_64 else 4
        sizes = bytes([self.address_size, 0]) if self.version >= 5 else b""
        header = self.header()
        body = self.integer(self.version, 2) + sizes + self.integer(len(header), size) + header
        body += bytes.fromhex(self.program)
        length = b"\xff" * 4 + self.integer(len(body), 8) if self.is_64 else self.integer(len(body), 4)
        return length + body


TABLES = (
    "00"  # no directories
    "612e6300 00 00 00"  # a.c, directory 0, no time, no size
    "622e6300 00 00 00"  # b.c
    "00",
    "01 01 08"  # one value per directory: DW_LNCT_path, DW_FORM_string
    "01 2f6400"  # one: /d
    "02 01 08 02 0b"  # two values per file: DW_LNCT_path, DW_FORM_string; DW_LNCT_directory_index, DW_FORM_data1
    "02 612e6300 00 622e6300 00",  # two: a.c, b.c, in directory 0
)
