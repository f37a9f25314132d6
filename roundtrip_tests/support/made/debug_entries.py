"""ELF files with `.debug_info` made by hand: units are given as hex, and only their headers are computed here.

Strategy: `.text` is the first section of a linked file, so its address is known. Values that depend on byte order or
on sizes are written by `Layout`.
"""

from __future__ import annotations

from dataclasses import dataclass

from unwindkit import DebugFiles, FunctionTable, read_functions

from ..handmade import octets
from ..small_elf import ALLOC, EM_386, EM_S390, EM_X86_64, ET_EXEC, EXEC, PROGBITS, Part, small_elf

TEXT_SIZE = 0x100
NO_LINKS = DebugFiles(links=False)


@dataclass(frozen=True, slots=True)
class Layout:
    """How values are stored: DWARF version, byte order ("<" or ">"), size of an address and of a section offset."""

    version: int = 4
    order: str = "<"
    address_size: int = 8
    offset_size: int = 4

    @property
    def text(self) -> int:
        """The address of `.text`, after the ELF header."""
        return 0x10000 + (64 if self.address_size == 8 else 52)

    def number(self, value: int, size: int) -> bytes:
        """An integer of `size` bytes."""
        return value.to_bytes(size, "little" if self.order == "<" else "big")

    def address(self, offset: int) -> bytes:
        """The address at an offset of `.text`."""
        return self.number(self.text + offset, self.address_size)

    def offset(self, value: int) -> bytes:
        """An offset in a section."""
        return self.number(value, self.offset_size)

    def contribution(self, body: bytes) -> bytes:
        """A contribution to a section: the initial length and what follows it (DWARF5 7.4)."""
        escape = b"\xff\xff\xff\xff" if self.offset_size == 8 else b""
        return escape + self.number(len(body), self.offset_size) + body

    def unit(self, entries: bytes, unit_type: int = 1, extra: bytes = b"") -> bytes:
        """A unit whose abbreviations are at 0: DWARF5 7.5.1, or DWARF4 7.5.1.1 before version 5."""
        version, size = self.number(self.version, 2), bytes([self.address_size])
        if self.version < 5:
            return self.contribution(version + self.offset(0) + size + extra + entries)
        return self.contribution(version + bytes([unit_type]) + size + self.offset(0) + extra + entries)

    @property
    def header_size(self) -> int:
        """The bytes of a unit before its first entry."""
        return len(self.unit(b""))

    def file(self, sections: dict[str, bytes]) -> bytes:
        """A linked file with these sections."""
        machine = {"<4": EM_386, "<8": EM_X86_64, ">4": EM_S390, ">8": EM_S390}[f"{self.order}{self.address_size}"]
        parts = [Part(".text", PROGBITS, ALLOC | EXEC, bytes(TEXT_SIZE))]
        parts += [Part(name, PROGBITS, 0, data) for name, data in sections.items()]
        is_64 = self.address_size == 8
        return small_elf(*parts, machine=machine, order=self.order, is_64=is_64, elf_type=ET_EXEC)

    def functions(self, info: bytes, abbreviations: str | bytes, **others: bytes) -> FunctionTable:
        """The functions of a file with these sections; the name `debug_str` is `.debug_str`."""
        found = octets(abbreviations) if isinstance(abbreviations, str) else abbreviations
        sections = {".debug_info": info, ".debug_abbrev": found}
        return read_functions(self.file(sections | {f".{name}": data for name, data in others.items()}), NO_LINKS)


def named_ranges(table: FunctionTable) -> list[tuple[bytes | None, int, int]]:
    """The name, start and size of each range of a function."""
    ranges = table.ranges
    names = [table.names[one] if one >= 0 else None for one in table.functions.name[ranges.function].tolist()]
    return list(zip(names, ranges.start.tolist(), ranges.size.tolist(), strict=True))


def inlined_calls(table: FunctionTable) -> list[tuple[int, int, int, bytes | None, bytes | None, int]]:
    """Start, size, depth, name, call file and call line of each range of an inlined function, sorted."""
    found = []
    ranges = table.inline_ranges
    for start, size, inline in zip(ranges.start.tolist(), ranges.size.tolist(), ranges.inline.tolist(), strict=True):
        one = table.inlines.record(inline)
        name = table.names[one["name"]] if one["name"] >= 0 else None
        file = table.files[one["call_file"]] if one["call_file"] >= 0 else None
        found.append((start, size, one["depth"], name, file, one["call_line"]))
    return sorted(found, key=repr)
