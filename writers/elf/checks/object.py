"""Check a relocatable file that got a section, or lost it: all else is unchanged, and each relocation is right.

Strategy: both files are read with pyelftools; no code is shared with the writer. Sections are compared by index,
because symbols, groups and links hold indices. These changes are allowed, all others are faults: the file offsets of
sections, the section name table, the removed sections of that name with their relocations, and groups without them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.construct import ConstructError
from elftools.elf.enums import ENUM_SH_TYPE_BASE
from elftools.elf.structs import ELFStructs

from ....schemas.data_classes import dataclass
from .compare import KEPT_HEADER_FIELDS, field_faults, type_name

SHF_ALLOC, SHF_INFO_LINK, SHN_XINDEX = 2, 0x40, 0xFFFF
RELA_SIZE = 24
KEPT_FIELDS = ("sh_type", "sh_flags", "sh_addr", "sh_size", "sh_link", "sh_info", "sh_addralign", "sh_entsize")
RELOCATIONS = ("SHT_RELA", "SHT_REL", 0x40000014)
NOT_STORED = ("SHT_NOBITS", "SHT_NULL")
# Names of interest are shorter.
MAX_NAME = 255


@dataclass(frozen=True, slots=True)
class ExpectedRelocated:
    """The section that the result must have; `places` are the offset of each relocated field, and the section index and
    offset that it refers to."""

    name: str
    section_type: int
    data: bytes
    alignment: int
    relocation_type: int
    places: tuple[tuple[int, int, int], ...]


_Section = tuple[str, Mapping[str, Any], bytes]


@dataclass(frozen=True, slots=True)
class _Object:
    """The structures of a file, its header, the section of section names, and the names, headers and bytes of its
    sections by index."""

    structs: ELFStructs
    header: Mapping[str, Any]
    names: int
    sections: list[_Section]

    @property
    def order(self) -> str:
        """The byte order for `struct`."""
        return "<" if self.structs.little_endian else ">"

    def of(self, name: str) -> set[int]:
        """The indices of the sections of a name and their relocations."""
        found = {index for index, one in enumerate(self.sections) if one[0] == name}
        return found | {
            index
            for index, (_, header, _) in enumerate(self.sections)
            if header["sh_type"] in RELOCATIONS and header["sh_info"] in found
        }


def check_object(before: bytes, after: bytes, name: str, expected: ExpectedRelocated | None) -> tuple[str, ...]:
    """Every fault of `after` as `before` without its sections of that name, and with the expected one instead."""
    try:
        old, new = _read(before), _read(after)
        faults = [fault for field in KEPT_HEADER_FIELDS for fault in _changed_header(field, old, new)]
        faults += _section_faults(old, new, name, expected is not None)
        faults += _place_faults(new, len(after))
        if expected is None:
            faults += [f"{name}: is still there"] * bool(new.of(name))
        else:
            faults += _new_faults(new, expected)
    except (ELFError, ConstructError, ValueError, IndexError, KeyError, StopIteration, struct.error) as fault:
        return (f"the result cannot be read: {fault}",)
    return tuple(faults)


@lru_cache(maxsize=4)
def _structs(is_little: bool, bits: int, *kind: str) -> ELFStructs:
    """The structures of a `kind` of file: e_type, e_machine, EI_OSABI. The members of an archive share them: to make
    them takes longer than to read a member."""
    structs = ELFStructs(is_little, bits)
    structs.create_basic_structs()
    if kind:
        structs.create_advanced_structs(*kind)
    return structs


def _read(data: bytes) -> _Object:
    stream = BytesIO(data)
    try:
        is_little, bits = {1: True, 2: False}[data[5]], {1: 32, 2: 64}[data[4]]
    except LookupError:
        raise ELFError("e_ident has no valid class or byte order") from None
    header = struct_parse(_structs(is_little, bits).Elf_Ehdr, stream, 0)
    structs = _structs(is_little, bits, header["e_type"], header["e_machine"], header["e_ident"]["EI_OSABI"])
    start, size, count, names = (header[name] for name in ("e_shoff", "e_shentsize", "e_shnum", "e_shstrndx"))
    first = struct_parse(structs.Elf_Shdr, stream, start) if start else {"sh_size": 0, "sh_link": 0}
    # ELF: the first section header has the numbers that do not fit the ELF header.
    count, names = count or first["sh_size"], first["sh_link"] if names == SHN_XINDEX else names
    headers = [struct_parse(structs.Elf_Shdr, stream, start + size * index) for index in range(count if start else 0)]
    stored = [
        b"" if one["sh_type"] in NOT_STORED else data[one["sh_offset"] : one["sh_offset"] + one["sh_size"]]
        for one in headers
    ]
    # Not to the end of the table: in a hostile file every name may be as long as that.
    starts = (stored[names][one["sh_name"] : one["sh_name"] + MAX_NAME] for one in headers)
    titles = (start.partition(b"\0")[0].decode(errors="backslashreplace") for start in starts)
    return _Object(structs, header, names, list(zip(titles, headers, stored, strict=True)))


def _changed_header(field: str, old: _Object, new: _Object) -> Iterator[str]:
    return field_faults("ELF header", field, old.header, new.header)


def _section_faults(old: _Object, new: _Object, name: str, is_added: bool) -> Iterator[str]:
    gone, own = old.of(name), new.of(name)
    if len(new.sections) > len(old.sections) + 2 * is_added:
        yield f"there are {len(new.sections)} sections, there were {len(old.sections)}"
    for index, (title, header, data) in enumerate(old.sections):
        place = f"section [{index}] {title}"
        if index >= len(new.sections):
            if index not in gone:
                yield f"{place}: is missing"
            continue
        if index in gone:
            if index not in own and new.sections[index][1]["sh_type"] != "SHT_NULL":
                yield f"{place}: is still there"
        elif index:  # the first section header has counts that do not fit the ELF header
            if header["sh_type"] == "SHT_GROUP":
                data = _without(data, gone, old.order)
            added = f".rela{name}\0".encode() if index == old.names else b""
            yield from _kept_faults(place, (title, header, data), new.sections[index], added)


def _kept_faults(place: str, old: _Section, new: _Section, added: bytes) -> Iterator[str]:
    """The changes of one section; `added` may follow its bytes."""
    (title, header, data), (new_title, new_header, new_data) = old, new
    if new_title != title:
        yield f"{place}: its name is {new_title}"
    if new_data != data and (not added or new_data.removeprefix(data).lstrip(b"\0") != added):
        yield f"{place}: its bytes have changed"
    for field in KEPT_FIELDS:
        # The sizes of sections with bytes were compared with the bytes.
        if field != "sh_size" or header["sh_type"] in NOT_STORED:
            yield from field_faults(place, field, header, new_header)
    align = header["sh_addralign"]
    if align and data and header["sh_offset"] % align == 0 and new_header["sh_offset"] % align:
        yield f"{place}: is no longer aligned to {align}"


def _without(data: bytes, gone: set[int], order: str) -> bytes:
    """The words of a group, flags first, without the indices of removed sections."""
    words = [data[start : start + 4] for start in range(0, len(data), 4)]
    members = (word for word in words[1:] if int.from_bytes(word, "little" if order == "<" else "big") not in gone)
    return b"".join([*words[:1], *members])


def _place_faults(new: _Object, size: int) -> Iterator[str]:
    """Sections and header tables must not overlap."""
    headers = new.header
    table = headers["e_shoff"], headers["e_shoff"] + len(new.sections) * headers["e_shentsize"], "section headers"
    ranges = [(0, headers["e_ehsize"], "ELF header"), table] + [
        (header["sh_offset"], header["sh_offset"] + header["sh_size"], title)
        for title, header, _ in new.sections
        if header["sh_size"] and header["sh_type"] not in NOT_STORED
    ]
    ranges.sort()
    for (_, end, title), (start, _, other) in zip(ranges, [*ranges[1:], (size, size, "file's end")], strict=True):
        if end > start:
            yield f"{title}: overlaps {other}"


def _new_faults(new: _Object, expected: ExpectedRelocated) -> Iterator[str]:
    indices = sorted(new.of(expected.name), key=lambda index: new.sections[index][1]["sh_type"] == "SHT_RELA")
    names = [new.sections[index][0] for index in indices]
    if names != [expected.name, f".rela{expected.name}"]:
        yield f"the sections of {expected.name} are {names}"
        return
    section, table = (new.sections[index] for index in indices)
    wanted = {
        "sh_type": type_name(ENUM_SH_TYPE_BASE, expected.section_type), "sh_flags": SHF_ALLOC, "sh_addr": 0,
        "sh_size": len(expected.data), "sh_link": 0, "sh_info": 0, "sh_addralign": expected.alignment, "sh_entsize": 0,
    }  # fmt: skip
    for field in wanted:
        yield from field_faults(expected.name, field, wanted, section[1], "should be")
    if section[2] != expected.data:
        yield f"{expected.name}: its bytes differ from those that were requested"
    if section[1]["sh_offset"] % expected.alignment:
        yield f"{expected.name}: is not aligned to {expected.alignment}"
    yield from _relocation_faults(new, indices[0], table, expected)


def _relocation_faults(new: _Object, index: int, table: _Section, expected: ExpectedRelocated) -> Iterator[str]:
    title, header, data = table
    if new.sections[header["sh_link"]][1]["sh_type"] != "SHT_SYMTAB" or header["sh_type"] != "SHT_RELA":
        yield f"{title}: has no symbol table"
        return
    wanted = {
        "sh_flags": SHF_INFO_LINK, "sh_addr": 0, "sh_info": index, "sh_addralign": 8, "sh_entsize": RELA_SIZE,
    }  # fmt: skip
    for field in wanted:
        yield from field_faults(title, field, wanted, header, "should be")
    if len(data) != RELA_SIZE * len(expected.places):
        yield f"{title}: has {len(data)} bytes for {len(expected.places)} places"
        return
    targets: dict[int, tuple[int, int] | None] = {}
    for number, (fields, place) in enumerate(
        zip(struct.iter_unpack(f"{new.order}QIIq", data), expected.places, strict=True)
    ):
        # r_info is one integer, whose high half is the symbol.
        offset, *halves, addend = fields
        symbol, kind = halves if new.order == ">" else reversed(halves)
        if symbol not in targets:
            targets[symbol] = _place_of(new, header["sh_link"], symbol)
        found = targets[symbol]
        target = None if found is None else (found[0], (found[1] + addend) % (1 << 64))
        if (offset, kind, target) != (place[0], expected.relocation_type, place[1:]):
            yield f"{title}: relocation {number} is {offset:#x}, {kind}, {target}, not {place}"
            return


def _place_of(new: _Object, table: int, number: int) -> tuple[int, int] | None:
    """The section and value of a symbol that always resolves to this file (local or hidden); None for another."""
    layout = new.structs.Elf_Sym
    symbol = struct_parse(layout, BytesIO(new.sections[table][2]), number * layout.sizeof())
    hidden = symbol["st_info"]["bind"] == "STB_GLOBAL" and symbol["st_other"]["visibility"] != "STV_DEFAULT"
    if symbol["st_info"]["bind"] != "STB_LOCAL" and not hidden:
        return None
    section = symbol["st_shndx"]
    if section == SHN_XINDEX:
        words = next(
            data
            for _, header, data in new.sections
            if header["sh_type"] == "SHT_SYMTAB_SHNDX" and header["sh_link"] == table
        )
        (section,) = struct.unpack_from(f"{new.order}I", words, 4 * number)
    return (section, symbol["st_value"]) if isinstance(section, int) else None
