"""Inputs of any number of functions: the FDEs of a real `.eh_frame`, again and again, at new addresses.

Strategy: an FDE is copied except for its CIE pointer and its start, which are relative to their own position; CIEs
are copied unchanged and come first. Fewer functions than the source has are sampled evenly. Personality and LSDA
addresses, also relative, point nowhere; nothing follows them here. Code is a NOBITS section, so the file stays small.

Run as `python -m benchmarks.scaling SOURCE COUNT OUT`: its memory is freed before anything is measured.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from unwindkit.converters.elf.image import open_elf
from unwindkit.schemas.cfi import EH_FRAME
from unwindkit.schemas.cies import parse_augmentation, parse_cie
from unwindkit.schemas.pointers import DW_EH_PE
from unwindkit.schemas.section import Section

from roundtrip_tests.support.tiny_elf import ALLOC, EXECINSTR, HEADER, NOBITS, Content, patched, tiny_elf

_WORD = 4  # bytes of an initial length, an id, and a start or size as sdata4
_EXTENDED = 0xFFFF_FFFF  # initial length of a 64-bit entry
_FDE = struct.Struct("<IIiI")  # length, CIE pointer, start, size: the start of an FDE with pcrel sdata4 addresses
_ALIGNMENT = 16  # of functions
_MOST_CODE = 0x7000_0000  # bytes: all of it is in reach of 32-bit offsets, those of SFrame version 2 too
_PAGE = 0x1000
_ADDRESS = 0x1000  # of the section


@dataclass(frozen=True, slots=True)
class Body:
    """An FDE to repeat: the index of its CIE, its function's size, and all bytes after that."""

    cie: int
    size: int
    tail: bytes


def bodies_of(section: Section) -> tuple[list[bytes], list[Body]]:
    """The complete CIEs of a little-endian `.eh_frame`, and the FDEs whose starts are pcrel sdata4."""
    cies: dict[int, bytes] = {}
    usable: dict[int, int] = {}  # index of a CIE by its offset
    bodies = []
    for offset, entry_id, end in _entries(section):
        if entry_id == 0:
            cie = parse_cie(section, offset, EH_FRAME)
            if parse_augmentation(cie, section, offset).fde_encoding == DW_EH_PE.pcrel | DW_EH_PE.sdata4:
                usable[offset] = len(cies)
                cies[offset] = bytes(section.data[offset:end])
        elif (cie_offset := offset + _WORD - entry_id) in usable:
            *_, size = _FDE.unpack_from(section.data, offset)
            bodies.append(Body(usable[cie_offset], size, bytes(section.data[offset + _FDE.size : end])))
    return list(cies.values()), bodies


def _entries(section: Section) -> Iterator[tuple[int, int, int]]:
    """Offset, id and end of each entry up to the terminator."""
    offset = 0
    while offset + 2 * _WORD <= len(section):
        length, entry_id = struct.unpack_from("<II", section.data, offset)
        if length == 0:
            return
        if length == _EXTENDED:
            raise ValueError(f"{section.name}+{offset:#x}: 64-bit entries are not repeated")
        yield offset, entry_id, offset + _WORD + length
        offset += _WORD + length


def chosen(bodies: Sequence[Body], count: int) -> list[Body]:
    """`count` of them: evenly spread over the source, or the whole source, repeated as needed."""
    if count <= len(bodies):
        return [bodies[index * len(bodies) // count] for index in range(count)]
    return [bodies[index % len(bodies)] for index in range(count)]


def within_reach(bodies: Sequence[Body], count: int) -> list[Body]:
    """The bodies whose functions are small enough that `count` of them fit into _MOST_CODE bytes: all, if possible."""
    most = max((body.size for body in bodies), default=0)
    while True:
        left = [body for body in bodies if body.size <= most]
        if not most or sum(map(_aligned, left)) * count <= _MOST_CODE * len(left):
            return left
        most = most * 7 // 8


def _aligned(body: Body) -> int:
    return -(-body.size // _ALIGNMENT) * _ALIGNMENT


def build_section(cies: Sequence[bytes], bodies: Sequence[Body], address: int, code: int) -> tuple[bytes, int]:
    """An `.eh_frame` for virtual address `address` whose functions follow one another from `code` on, and their end."""
    parts = list(cies)
    cie_offsets = list(accumulate(map(len, cies), initial=0))
    offset, start = cie_offsets[-1], code
    for body in bodies:
        length = _FDE.size - _WORD + len(body.tail)
        pointer, relative = offset + _WORD - cie_offsets[body.cie], start - (address + offset + 2 * _WORD)
        parts += (_FDE.pack(length, pointer, relative, body.size), body.tail)
        offset += _WORD + length
        start += _aligned(body)
    return b"".join((*parts, bytes(_WORD))), start


def repeated_elf(source: Path, count: int) -> bytes:
    """An ELF file of `count` functions like those of `source`. Raises ValueError if that has none to repeat."""
    image = open_elf(source)
    if image.byte_order != "little" or image.address_size != 8:
        raise ValueError(f"{source}: only little-endian ELF64 is repeated")
    cies, bodies = bodies_of(image.contents(image.named(EH_FRAME.name)[0]))
    if not bodies:
        raise ValueError(f"{source}: no FDE with pcrel sdata4 starts")
    wanted = chosen(within_reach(bodies, count), count)
    size = sum(map(len, cies)) + sum(_FDE.size + len(body.tail) for body in wanted) + _WORD
    code = -(-(_ADDRESS + size) // _PAGE) * _PAGE
    section, end = build_section(cies, wanted, _ADDRESS, code)
    place, kind = HEADER["e_machine"]
    (machine,) = struct.unpack_from(f"<{kind}", image.data, place)
    text = Content(".text", type=NOBITS, flags=ALLOC | EXECINSTR)
    elf = patched(tiny_elf(Content(EH_FRAME.name, section), text, e_machine=machine), section=1, sh_addr=_ADDRESS)
    return bytes(patched(elf, section=2, sh_addr=code, sh_size=end - code))


if __name__ == "__main__":
    Path(sys.argv[3]).write_bytes(repeated_elf(Path(sys.argv[1]), int(sys.argv[2])))
