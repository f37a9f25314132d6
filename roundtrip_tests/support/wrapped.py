"""An `.sframe` section alone in an ELF file, so that readelf can read bytes of any architecture.

Strategy: no product code. The file header, the section, the names, three section headers; no program headers. Parts
of version 3 that readelf does not show are read by `flexible_words`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from .oracles import run_oracle
from .texts.readelf_text import SframeRows, parse_sframe_rows
from .tiny_elf import ALLOC, HEADER_SIZE, SECTION_SIZE, SEGMENT_SIZE, STRTAB

ET_DYN = 3
SHT_GNU_SFRAME = 0x6FFFFFF4


def wrapped_section(path: Path, data: bytes, address: int, machine: int, byte_order: str) -> None:
    """Write an ELF64 shared object with one loaded section, `.sframe`, at the address; `machine` is e_machine."""
    order = "<" if byte_order == "little" else ">"
    names = b"\0.sframe\0.shstrtab\0"
    names_offset = HEADER_SIZE + len(data)
    padding = bytes(-(names_offset + len(names)) % 8)
    headers_offset = names_offset + len(names) + len(padding)
    ident = b"\x7fELF\x02" + (b"\x01" if byte_order == "little" else b"\x02") + b"\x01" + bytes(9)
    sizes = (HEADER_SIZE, SEGMENT_SIZE, 0, SECTION_SIZE, 3, 2)
    header = struct.pack(f"{order}HHIQQQIHHHHHH", ET_DYN, machine, 1, 0, 0, headers_offset, 0, *sizes)
    section = f"{order}IIQQQQIIQQ"
    sframe = struct.pack(section, 1, SHT_GNU_SFRAME, ALLOC, address, HEADER_SIZE, len(data), 0, 0, 8, 0)
    strings = struct.pack(section, names.index(b".shstrtab"), STRTAB, 0, 0, names_offset, len(names), 0, 0, 1, 0)
    path.write_bytes(ident + header + data + names + padding + bytes(SECTION_SIZE) + sframe + strings)


def rows_of_bytes(path: Path, data: bytes, address: int, machine: int, byte_order: str) -> SframeRows:
    """The output of `readelf --sframe` for the bytes of a section; `path` is the file that it reads."""
    wrapped_section(path, data, address, machine, byte_order)
    return parse_sframe_rows(run_oracle("readelf", "-wN", "--sframe", path), data)


def flexible_words(data: bytes) -> Iterator[tuple[int, ...]]:
    """The words of each FRE of a version 3 section's FLEX FDEs, as stored: controls unsigned, too."""
    order = "<" if data[:2] == b"\xe2\xde" else ">"
    count, _, _, index, rows = struct.unpack_from(f"{order}IIIII", data, 8)
    base = 28 + data[7]
    for fde in range(count):
        (offset,) = struct.unpack_from(f"{order}I", data, base + index + 16 * fde + 12)
        at = base + rows + offset + 5
        fres, info, info2 = struct.unpack_from(f"{order}HBB", data, at - 5)
        if info2 & 0x1F != 1:
            continue
        for _ in range(fres):
            at += 1 << (info & 0xF)
            words, size = data[at] >> 1 & 0xF, data[at] >> 5 & 3
            yield struct.unpack_from(f"{order}{words}{'BHI'[size]}", data, at + 1)
            at += 1 + (words << size)
