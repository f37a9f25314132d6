"""A section with relocations put into an ELF64 relocatable file, or taken out: bytes in, bytes out.

Strategy: sections keep their order, alignment and indices, the older ones of that name go with their relocations, the
new one, its relocations and the names come behind the others, the section headers last. So the result depends on what
is kept alone: doing it twice gives the same bytes. No symbol is added or changed: each relocation takes one that the
file has in the section that it leads into.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from enum import IntEnum
from io import BytesIO
from typing import NamedTuple

from ...schemas.section import BuildError, ByteOrder, ParseError
from .tables import (
    ET,
    HEADER,
    HEADER_SIZE,
    MAX_SECTIONS,
    NULL_SECTION,
    SECTION,
    SHF,
    SHN_XINDEX,
    SHT,
    STT_SECTION,
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
    """A field that a linker sets: `offset` in the new section is to lead to `target` in the one of index `section`."""

    offset: int
    section: int
    target: int


@dataclass(frozen=True, slots=True)
class RelocatedSection:
    """A section to be put into a file; every place has a relocation of `relocation_type`."""

    name: str
    section_type: int
    data: bytes
    alignment: int
    relocation_type: int
    places: tuple[Place, ...]


def is_relocatable(head: bytes) -> bool:
    """Whether a file is ELF and relocatable, by its first bytes, of which there are 18 or more in any that is."""
    order: ByteOrder = "big" if head[5:6] == b"\2" else "little"
    return head.startswith(b"\x7fELF") and int.from_bytes(head[16:18], order) == ET.REL


class _Rank(IntEnum):
    """Which symbol of a section a relocation had best take. None of these is another file's in the end, or a stub."""

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
    """The file with the section for all those of its name, whose sizes are returned too. Raises ParseError where the
    file is not whole, BuildError where there is no symbol to relocate by."""
    before = read_object_tables(BytesIO(data))
    gone = _indices_of(before, section.name)
    symbols_index = _symbol_table(before)
    named = _with_names(_text_of(data, before, before.shstrndx), section.name)
    relocations = _relocations(data, before, symbols_index, section)
    slots = _slots(before, gone)
    new = SectionHeader(
        named.index(section.name.encode() + b"\0"), section.section_type, SHF.ALLOC, 0, 0, len(section.data), 0, 0,
        section.alignment, 0,
    )  # fmt: skip
    rela = SectionHeader(
        named.index(_rela_name(section.name) + b"\0"), SHT.RELA, SHF.INFO_LINK, 0, 0, len(relocations), symbols_index,
        slots[0], TABLE_ALIGNMENT, RELA_SIZE,
    )  # fmt: skip
    last = {slots[0]: (new, section.data), slots[1]: (rela, relocations), before.shstrndx: (None, named)}
    return _rebuilt(data, before, gone, last), _sizes(before, section.name)


def without_section(data: bytes, name: str) -> tuple[bytes, tuple[int, ...]]:
    """The file without sections of that name, and their sizes; none where there is nothing to take out."""
    before = read_object_tables(BytesIO(data))
    gone, names = _indices_of(before, name), _text_of(data, before, before.shstrndx)
    return _rebuilt(data, before, gone, {before.shstrndx: (None, names)}), _sizes(before, name)


def _rela_name(name: str) -> bytes:
    return f".rela{name}".encode()


def _sizes(before: Tables, name: str) -> tuple[int, ...]:
    return tuple(before.sections[index].size for index in before.indices_of(name))


def _indices_of(before: Tables, name: str) -> tuple[int, ...]:
    """The sections of that name and their relocations. ParseError where it is what the file cannot be without."""
    found = set(before.indices_of(name))
    if before.shstrndx == 0:
        raise BuildError("", None, "e_shstrndx", "the file has no section names")
    for index in found:
        if index == before.shstrndx or before.sections[index].type in (SHT.SYMTAB, SHT.GROUP):
            raise ParseError(name, None, "sh_type", "is a table of the whole file")
    changing = {index for index, one in enumerate(before.sections) if one.type in RELOCATIONS and one.info in found}
    return tuple(sorted(found | changing))


def _slots(before: Tables, gone: tuple[int, ...]) -> tuple[int, int]:
    """The indices for the section and its relocations: the first old ones, so that no other index changes."""
    end = len(before.sections)
    old = next((index for index in gone if before.sections[index].type not in RELOCATIONS), end)
    end += old == end
    return old, next((index for index in gone if before.sections[index].type in RELOCATIONS), end)


def _with_names(names: bytes, name: str) -> bytes:
    """The section names with that of the relocations, which ends in the section's."""
    stored = _rela_name(name) + b"\0"
    return names if stored in names else names + b"\0" * (names[-1:] != b"\0") + stored


def _text_of(data: bytes, before: Tables, index: int) -> bytes:
    """The bytes of a section. Raises ParseError where the file does not hold them."""
    one = before.sections[index]
    if one.type == SHT.NOBITS or one.offset + one.size > len(data):
        raise ParseError("", None, f"section header[{index}]", "leaves the file")
    return data[one.offset : one.offset + one.size]


def _symbol_table(before: Tables) -> int:
    found = [index for index, one in enumerate(before.sections) if one.type == SHT.SYMTAB]
    if len(found) != 1:
        raise BuildError("", None, "SHT_SYMTAB", f"there are {len(found)} symbol tables, where one is needed")
    if before.sections[found[0]].entsize != SYMBOL_SIZE:
        reason = f"{before.sections[found[0]].entsize} bytes, where a symbol has {SYMBOL_SIZE}"
        raise ParseError("", None, f"section header[{found[0]}].sh_entsize", reason)
    return found[0]


def _relocations(data: bytes, before: Tables, symbols_index: int, section: RelocatedSection) -> bytes:
    """The table of relocations for the places."""
    needed = {place.section for place in section.places}
    chosen: dict[int, _Symbol] = {}
    for of_section, symbol in _usable_symbols(data, before, symbols_index, needed):
        if of_section not in chosen or symbol.rank < chosen[of_section].rank:
            chosen[of_section] = symbol
    for index in sorted(needed - chosen.keys()):
        name = before.names[index].decode(errors="replace")
        reason = f"section [{index}] {name} has none that a relocation could take"
        raise BuildError(section.name, None, "symbols", reason)
    table = bytearray()
    for one in section.places:
        symbol = chosen[one.section]
        info = symbol.index << 32 | section.relocation_type
        table += struct.pack(before.order + RELA, one.offset, info, _signed(one.target - symbol.value))
    return bytes(table)


def _signed(number: int) -> int:
    """Modulo 2**64, as addends are added."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _usable_symbols(data: bytes, before: Tables, symbols_index: int, needed: set[int]) -> Iterator[tuple[int, _Symbol]]:
    """Symbols of the needed sections, each with its section."""
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
    """None for a symbol that a linker may resolve to something else than the place in the section."""
    binding, kind = info >> 4, info & 0xF
    if binding == STB_LOCAL:
        if kind == STT_SECTION:
            return _Rank.SECTION
        return {STT_FUNC: _Rank.LOCAL_FUNCTION, STT_OBJECT: _Rank.LOCAL, STT_NOTYPE: _Rank.LOCAL}.get(kind)
    is_own = binding == STB_GLOBAL and other & 3 != STV_DEFAULT and kind in (STT_FUNC, STT_OBJECT, STT_NOTYPE)
    return _Rank.HIDDEN if is_own else None


def _grouped(data: bytes, before: Tables) -> set[int]:
    """The sections that are members of a group."""
    groups = (index for index, one in enumerate(before.sections) if one.type == SHT.GROUP)
    return {member for index in groups for member in _words(_text_of(data, before, index), before.order)[1:]}


def _extended_indices(data: bytes, before: Tables, symbols_index: int) -> tuple[int, ...]:
    """gABI, SHT_SYMTAB_SHNDX: the section index of each symbol whose own field cannot hold it."""
    for index, one in enumerate(before.sections):
        if one.type == SHT.SYMTAB_SHNDX and one.link == symbols_index:
            return _words(_text_of(data, before, index), before.order)
    return ()


def _words(text: bytes, order: str) -> tuple[int, ...]:
    text = _whole(text, 4)
    return struct.unpack(f"{order}{len(text) // 4}I", text)


def _whole(text: bytes, size: int) -> bytes:
    """As much of it as are whole records."""
    return text[: len(text) // size * size]


_Last = dict[int, tuple[SectionHeader | None, bytes]]


def _rebuilt(data: bytes, before: Tables, gone: tuple[int, ...], last: _Last) -> bytes:
    """The file without some sections and with some, given with their headers or None for the old one, at its end."""
    headers = [NULL_SECTION if index in gone else one for index, one in enumerate(before.sections)]
    headers += [NULL_SECTION] * (max([*last, len(headers) - 1]) + 1 - len(headers))
    while len(headers) - 1 in gone and len(headers) - 1 not in last:
        headers.pop()
    stored = _stored(data, before, {*gone, *last})
    texts = {index: _text_of(data, before, index) for index in stored}
    if gone:
        texts |= {index: _without_members(texts[index], before.order, gone) for index in _groups(before, stored)}
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
    return _with_headers(out, data, before.order, headers)


def _groups(before: Tables, among: Iterable[int]) -> Iterator[int]:
    return (index for index in among if before.sections[index].type == SHT.GROUP)


def _without_members(text: bytes, order: str, gone: tuple[int, ...]) -> bytes:
    """A group's flags and members, but for those that go: the new section belongs to no group."""
    flags, *members = _words(text, order) or (0,)
    kept = [flags, *(one for one in members if one not in gone)]
    return text if len(kept) == len(members) + 1 else struct.pack(f"{order}{len(kept)}I", *kept)


def _stored(data: bytes, before: Tables, but: set[int]) -> list[int]:
    """The sections that have bytes, in the order of these. ParseError where two share some, or any leaves the file."""
    stored = [
        (one.offset, index)
        for index, one in enumerate(before.sections)
        if one.size and one.type not in (SHT.NOBITS, SHT.NULL)
    ]
    end = HEADER_SIZE
    for offset, index in sorted(stored):
        if offset < end or offset + before.sections[index].size > len(data):
            raise ParseError("", None, f"section header[{index}]", "leaves the file, or shares bytes with another")
        end = offset + before.sections[index].size
    table_end = before.shoff + len(before.sections) * struct.calcsize(before.order + SECTION)
    if any(data[max(end, table_end) :]):
        raise BuildError("", None, "", f"there are bytes behind {max(end, table_end):#x} that no header describes")
    return [index for _, index in sorted(stored) if index not in but]


def _alignment(one: SectionHeader) -> int:
    """What it has by its header, if it has that at all: then its new place is never behind its old one."""
    align = one.addralign
    return align if align & (align - 1) == 0 and align and one.offset % align == 0 else 1


def _append(out: bytearray, text: bytes, alignment: int) -> None:
    out += bytes(-len(out) % alignment) + text


def _place_empty(headers: list[SectionHeader], placed: set[int], moved: list[tuple[int, int]], end: int) -> None:
    """Sections without bytes get the place of what followed them."""
    old, new = [place for place, _ in moved], [*(place for _, place in moved), end]
    for index, one in enumerate(headers):
        if index not in placed and one.type != SHT.NULL:
            headers[index] = replace(one, offset=new[bisect_left(old, one.offset)])


def _with_headers(out: bytearray, data: bytes, order: str, headers: list[SectionHeader]) -> bytes:
    """The file header and the section headers at their places."""
    fields = list(struct.unpack_from(order + HEADER, data))
    count = len(headers)
    fields[6], fields[12] = len(out), 0 if count >= MAX_SECTIONS else count
    headers[0] = replace(headers[0], size=count if count >= MAX_SECTIONS else 0)
    struct.pack_into(order + HEADER, out, 0, *fields)
    out += b"".join(struct.pack(order + SECTION, *astuple(one)) for one in headers)
    return bytes(out)
