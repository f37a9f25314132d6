"""Add a section with relocations to an ELF64 relocatable file, or remove it: bytes in, bytes out.

Strategy: sections keep their order, alignment and indices. Existing sections of that name are removed with their
relocations; the new section, its relocations and the section names come after the others, the section headers last.
So the result depends only on what is kept: doing it twice gives the same bytes. No symbol is added or changed: each
relocation uses an existing symbol of the section that it refers to.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import IntEnum
from io import BytesIO
from typing import NamedTuple

from ...schemas.data_classes import dataclass
from ...schemas.elf.headers import SHN_XINDEX
from ...schemas.elf.numbers import SHF, SHT, STT
from ...schemas.section import BuildError, ParseError
from .tables import (
    HEADER,
    HEADER_SIZE,
    MAX_SECTIONS,
    NULL_SECTION,
    SECTION,
    SYMBOL,
    SectionHeader,
    Tables,
    read_object_tables,
)

TABLE_ALIGNMENT = 8
RELA = "QQq"  # r_offset, r_info, r_addend
RELA_SIZE, SYMBOL_SIZE = struct.calcsize("<" + RELA), struct.calcsize("<" + SYMBOL)
RELOCATIONS = (SHT.RELA, SHT.REL, SHT.CREL)
STB_LOCAL, STB_GLOBAL, STV_DEFAULT = 0, 1, 0
STT_NOTYPE, STT_OBJECT, STT_FUNC = 0, 1, 2


class Place(NamedTuple):
    """A field that the linker sets: the one at `offset` in the new section refers to the offset `target` in the section
    of index `section`."""

    offset: int
    section: int
    target: int


@dataclass(frozen=True, slots=True)
class RelocatedSection:
    """A section to add; every place gets a relocation of `relocation_type`."""

    name: str
    section_type: int
    data: bytes
    alignment: int
    relocation_type: int
    places: tuple[Place, ...]


class _Rank(IntEnum):
    """The kinds of symbols that relocations use, best first: no linker resolves them to another file or a stub."""

    SECTION = 0
    LOCAL_FUNCTION = 1
    LOCAL = 2
    HIDDEN = 3


@dataclass(frozen=True, slots=True)
class _Symbol:
    rank: _Rank
    index: int
    value: int


def with_section(data: bytes, section: RelocatedSection) -> tuple[bytes, tuple[int, ...]]:
    """The file with the section in place of any of its name, and the sizes of these.

    Raises ParseError if the file is not complete, BuildError if there is no symbol for a relocation.
    """
    before = read_object_tables(BytesIO(data))
    gone = _indices_of(before, section.name)
    symbols_index = _symbol_table(before)
    names = _extend_names(_text_of(data, before, before.shstrndx), section.name)
    relocations = _relocations(data, before, symbols_index, section)
    slots = _slots(before, gone)
    new = SectionHeader(
        names.index(section.name.encode() + b"\0"), section.section_type, SHF.ALLOC, 0, 0, len(section.data), 0, 0,
        section.alignment, 0,
    )  # fmt: skip
    rela = SectionHeader(
        names.index(_rela_name(section.name) + b"\0"), SHT.RELA, SHF.INFO_LINK, 0, 0, len(relocations), symbols_index,
        slots[0], TABLE_ALIGNMENT, RELA_SIZE,
    )  # fmt: skip
    last = {slots[0]: (new, section.data), slots[1]: (rela, relocations), before.shstrndx: (None, names)}
    return _rebuild(data, before, gone, last), _sizes(before, section.name)


def without_section(data: bytes, name: str) -> tuple[bytes, tuple[int, ...]]:
    """The file without sections of that name, and their sizes; no sizes if there is nothing to remove."""
    before = read_object_tables(BytesIO(data))
    gone, names = _indices_of(before, name), _text_of(data, before, before.shstrndx)
    return _rebuild(data, before, gone, {before.shstrndx: (None, names)}), _sizes(before, name)


def _rela_name(name: str) -> bytes:
    return f".rela{name}".encode()


def _sizes(before: Tables, name: str) -> tuple[int, ...]:
    return tuple(before.sections[index].size for index in before.indices_of(name))


def _indices_of(before: Tables, name: str) -> tuple[int, ...]:
    """The indices of the sections of that name and their relocations.

    Raises ParseError if one of them is a table that the whole file needs.
    """
    found = set(before.indices_of(name))
    if before.shstrndx == 0:
        raise BuildError("", None, "e_shstrndx", "the file has no section names")
    for index in found:
        if index == before.shstrndx or before.sections[index].type in (SHT.SYMTAB, SHT.GROUP):
            raise ParseError(name, None, "sh_type", "is a table that the whole file needs")
    changing = {index for index, one in enumerate(before.sections) if one.type in RELOCATIONS and one.info in found}
    return tuple(sorted(found | changing))


def _slots(before: Tables, gone: tuple[int, ...]) -> tuple[int, int]:
    """The indices for the section and its relocations: the first removed ones, so that no other index changes."""
    end = len(before.sections)
    old = next((index for index in gone if before.sections[index].type not in RELOCATIONS), end)
    end += old == end
    return old, next((index for index in gone if before.sections[index].type in RELOCATIONS), end)


def _extend_names(names: bytes, name: str) -> bytes:
    """The section names with that of the relocations, whose tail is the section's name."""
    stored = _rela_name(name) + b"\0"
    return names if stored in names else names + b"\0" * (names[-1:] != b"\0") + stored


def _text_of(data: bytes, before: Tables, index: int) -> bytes:
    """The bytes of a section. Raises ParseError if the file does not have them."""
    one = before.sections[index]
    if one.type == SHT.NOBITS or one.offset + one.size > len(data):
        raise ParseError("", None, f"section header[{index}]", "is outside the file")
    return data[one.offset : one.offset + one.size]


def _symbol_table(before: Tables) -> int:
    found = [index for index, one in enumerate(before.sections) if one.type == SHT.SYMTAB]
    if len(found) != 1:
        raise BuildError("", None, "SHT_SYMTAB", f"the file has {len(found)} symbol tables, expected one")
    if before.sections[found[0]].entsize != SYMBOL_SIZE:
        reason = f"{before.sections[found[0]].entsize} bytes, expected {SYMBOL_SIZE}"
        raise ParseError("", None, f"section header[{found[0]}].sh_entsize", reason)
    return found[0]


def _relocations(data: bytes, before: Tables, symbols_index: int, section: RelocatedSection) -> bytes:
    """The relocation table for the section's places."""
    needed = {place.section for place in section.places}
    chosen: dict[int, _Symbol] = {}
    for of_section, symbol in _usable_symbols(data, before, symbols_index, needed):
        if of_section not in chosen or symbol.rank < chosen[of_section].rank:
            chosen[of_section] = symbol
    for index in sorted(needed - chosen.keys()):
        name = before.names[index].decode(errors="replace")
        reason = f"section [{index}] {name} has no symbol that a relocation can use"
        raise BuildError(section.name, None, "symbols", reason)
    table = bytearray()
    for one in section.places:
        symbol = chosen[one.section]
        info = symbol.index << 32 | section.relocation_type
        table += struct.pack(before.order + RELA, one.offset, info, _signed(one.target - symbol.value))
    return bytes(table)


def _signed(number: int) -> int:
    """A number modulo 2**64 as a signed addend."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _usable_symbols(data: bytes, before: Tables, symbols_index: int, needed: set[int]) -> Iterator[tuple[int, _Symbol]]:
    """The symbols of the needed sections that relocations can use, each with its section."""
    grouped = _grouped(data, before)
    symbols = struct.iter_unpack(before.order + SYMBOL, _whole(_text_of(data, before, symbols_index), SYMBOL_SIZE))
    extended = _extended_indices(data, before, symbols_index)
    for index, (_, info, other, section, value, _) in enumerate(symbols):
        if section == SHN_XINDEX:
            section = extended[index] if index < len(extended) else 0
        elif section >= MAX_SECTIONS:
            continue
        rank = _rank_of(info, other) if section in needed else None
        if rank is not None and (rank is not _Rank.HIDDEN or section not in grouped):
            yield section, _Symbol(rank, index, value)


def _rank_of(info: int, other: int) -> _Rank | None:
    """The rank of a symbol; None if a linker may resolve it to anything other than its place in the section."""
    binding, kind = info >> 4, info & 0xF
    if binding == STB_LOCAL:
        if kind == STT.SECTION:
            return _Rank.SECTION
        return {STT_FUNC: _Rank.LOCAL_FUNCTION, STT_OBJECT: _Rank.LOCAL, STT_NOTYPE: _Rank.LOCAL}.get(kind)
    is_own = binding == STB_GLOBAL and other & 3 != STV_DEFAULT and kind in (STT_FUNC, STT_OBJECT, STT_NOTYPE)
    return _Rank.HIDDEN if is_own else None


def _grouped(data: bytes, before: Tables) -> set[int]:
    """The indices of sections that are members of a group."""
    groups = (index for index, one in enumerate(before.sections) if one.type == SHT.GROUP)
    return {member for index in groups for member in _words(_text_of(data, before, index), before.order)[1:]}


def _extended_indices(data: bytes, before: Tables, symbols_index: int) -> tuple[int, ...]:
    """The section indices of symbols whose own field cannot hold them (gABI, SHT_SYMTAB_SHNDX)."""
    for index, one in enumerate(before.sections):
        if one.type == SHT.SYMTAB_SHNDX and one.link == symbols_index:
            return _words(_text_of(data, before, index), before.order)
    return ()


def _words(text: bytes, order: str) -> tuple[int, ...]:
    text = _whole(text, 4)
    return struct.unpack(f"{order}{len(text) // 4}I", text)


def _whole(text: bytes, size: int) -> bytes:
    """The part of it that is whole records of `size` bytes."""
    return text[: len(text) // size * size]


_Last = dict[int, tuple[SectionHeader | None, bytes]]


def _rebuild(data: bytes, before: Tables, gone: tuple[int, ...], last: _Last) -> bytes:
    """The file without the sections `gone` and with those of `last` at its end, each with its header, or None to keep
    the existing one."""
    headers = [NULL_SECTION if index in gone else one for index, one in enumerate(before.sections)]
    headers += [NULL_SECTION] * (max([*last, len(headers) - 1]) + 1 - len(headers))
    while len(headers) - 1 in gone and len(headers) - 1 not in last:
        headers.pop()
    stored = _stored_sections(data, before, {*gone, *last})
    texts = {index: _text_of(data, before, index) for index in stored}
    if gone:
        texts |= {index: _remove_members(texts[index], before.order, gone) for index in _groups(before, stored)}
    out, moved = bytearray(HEADER_SIZE), []
    for index in stored:
        old = before.sections[index]
        _append(out, texts[index], _alignment(old))
        headers[index] = replace(old, offset=len(out) - len(texts[index]), size=len(texts[index]))
        moved.append((old.offset, headers[index].offset))
    _place_empty(headers, {*stored, *last}, moved, len(out))
    for index, (header, text) in last.items():
        header = header or before.sections[index]
        _append(out, text, _alignment(header))
        headers[index] = replace(header, offset=len(out) - len(text), size=len(text))
    _append(out, b"", TABLE_ALIGNMENT)
    return _append_headers(out, data, before.order, headers)


def _groups(before: Tables, among: Iterable[int]) -> Iterator[int]:
    return (index for index in among if before.sections[index].type == SHT.GROUP)


def _remove_members(text: bytes, order: str, gone: tuple[int, ...]) -> bytes:
    """A group's flags and members without removed sections: the new section is in no group."""
    flags, *members = _words(text, order) or (0,)
    kept = [flags, *(one for one in members if one not in gone)]
    return text if len(kept) == len(members) + 1 else struct.pack(f"{order}{len(kept)}I", *kept)


def _stored_sections(data: bytes, before: Tables, but: set[int]) -> list[int]:
    """The indices of sections with bytes, in file order, except those of `but`.

    Raises ParseError if two overlap or one is outside the file, BuildError for undescribed bytes at the end.
    """
    stored = [
        (one.offset, index)
        for index, one in enumerate(before.sections)
        if one.size and one.type not in (SHT.NOBITS, SHT.NULL)
    ]
    end = HEADER_SIZE
    for offset, index in sorted(stored):
        if offset < end or offset + before.sections[index].size > len(data):
            raise ParseError("", None, f"section header[{index}]", "is outside the file, or overlaps another section")
        end = offset + before.sections[index].size
    table_end = before.shoff + len(before.sections) * struct.calcsize(before.order + SECTION)
    if any(data[max(end, table_end) :]):
        raise BuildError("", None, "", f"there are bytes after {max(end, table_end):#x} that no header describes")
    return [index for _, index in sorted(stored) if index not in but]


def _alignment(one: SectionHeader) -> int:
    """The alignment in the header if the section has it, else 1: then its new offset is never greater than the old. An
    empty section at offset 0 may state any alignment; it gets that of a new one at most."""
    align = one.addralign
    is_usual = 0 < align <= max(one.offset, TABLE_ALIGNMENT) and align & (align - 1) == 0
    return align if is_usual and one.offset % align == 0 else 1


def _append(out: bytearray, text: bytes, alignment: int) -> None:
    out += bytes(-len(out) % alignment) + text


def _place_empty(headers: list[SectionHeader], stored: set[int], moved: list[tuple[int, int]], end: int) -> None:
    """Give sections without bytes the offset of what followed them."""
    old, new = [place for place, _ in moved], [*(place for _, place in moved), end]
    for index, one in enumerate(headers):
        if index not in stored and one.type != SHT.NULL:
            headers[index] = replace(one, offset=new[bisect_left(old, one.offset)])


def _append_headers(out: bytearray, data: bytes, order: str, headers: list[SectionHeader]) -> bytes:
    """The whole file: the file header set, and the section headers appended."""
    fields = list(struct.unpack_from(order + HEADER, data))
    count = len(headers)
    fields[6], fields[12] = len(out), 0 if count >= MAX_SECTIONS else count
    headers[0] = replace(headers[0], size=count if count >= MAX_SECTIONS else 0)
    struct.pack_into(order + HEADER, out, 0, *fields)
    out += b"".join(one.packed(order) for one in headers)
    return bytes(out)
