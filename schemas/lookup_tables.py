"""`.debug_aranges`, `.debug_pubnames`, `.debug_pubtypes` and GNU's `.debug_gnu_` ones: look-up tables (DWARF4 6.1).

Strategy: a section is a sequence of sets, each an initial length, a header and its entries. Lengths are not kept,
but computed when building. Only zeros, which linkers pad with, may follow the last set.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from enum import IntEnum

from . import engine
from .data_classes import dataclass
from .forms import SECTION_OFFSET
from .initial_length import build_initial_length, parse_initial_length
from .section import BuildError, ByteOrder, ParseError, Section
from .wire import (
    BitField,
    Bits,
    DwarfFormat,
    Given,
    Integer,
    NulTerminated,
    Variable,
    When,
    record,
    wire,
)

# DWARF 2 to 5 all specify 2; readers accept 3, which some producers wrote with DWARF 3.
VERSIONS = (2, 3)
ARANGES = ".debug_aranges"
# Sections of names, and whether each name has an attributes byte.
NAME_SECTIONS = {
    ".debug_pubnames": False,
    ".debug_gnu_pubnames": True,
    ".debug_pubtypes": False,
    ".debug_gnu_pubtypes": True,
}


@record
class AddressRangesHeader:
    """The header of a set of address ranges (DWARF4 6.1.2), after its length."""

    dwarf_format: DwarfFormat = wire(Given(lambda this: this._params.dwarf_format), "32- or 64-bit DWARF")
    version: int = wire(Integer(2, allowed=VERSIONS), "2; not the version of DWARF")
    debug_info_offset: int = wire(SECTION_OFFSET, "of the compilation unit's header, in .debug_info")
    address_size: int = wire(Integer(1, allowed=(1, 2, 4, 8)), "bytes of an address")
    segment_size: int = wire(Integer(1, allowed=(0, 1, 2, 4, 8)), "bytes of a segment selector; 0: none")


@record
class AddressRange:
    """A range that a unit covers; the last of a set is all zeros."""

    segment: int | None = wire(
        When(Variable(lambda this: this._params.segment_size), lambda this: this._params.segment_size > 0),
        "the segment selector, if the header gives it a size",
    )
    address: int = wire(Variable(lambda this: this._params.address_size), "first address")
    length: int = wire(Variable(lambda this: this._params.address_size), "bytes covered")


@dataclass(frozen=True, slots=True)
class AddressRangeSet:
    """One set. `padding` precedes the ranges; `trailing` are the last bytes, if too few for a range.

    `ranges` includes the terminator.
    """

    header: AddressRangesHeader
    padding: bytes
    ranges: tuple[AddressRange, ...]
    trailing: bytes = b""


@record
class NamesHeader:
    """The header of a set of names (DWARF4 6.1.1), after its length."""

    dwarf_format: DwarfFormat = wire(Given(lambda this: this._params.dwarf_format), "32- or 64-bit DWARF")
    version: int = wire(Integer(2, allowed=VERSIONS), "2; not the version of DWARF")
    debug_info_offset: int = wire(SECTION_OFFSET, "of the compilation unit's header, in .debug_info")
    debug_info_length: int = wire(SECTION_OFFSET, "size of the unit in bytes, including its length")


class SymbolKind(IntEnum):
    """The kind of symbol that a name belongs to (GDB, Index Section Format)."""

    NONE = 0
    TYPE = 1
    VARIABLE = 2
    FUNCTION = 3
    OTHER = 4


@record
class SymbolAttributes:
    """The top byte of a word in .gdb_index, where the low 24 bits are a unit's number."""

    is_static: int = wire(BitField(1), "1: static, 0: global")
    kind: int = wire(BitField(3), "1 type, 2 variable, 3 function, 4 other")
    reserved: int = wire(BitField(4), "0")


@record
class Name:
    """A name. An offset of 0 alone ends the set."""

    offset: int = wire(SECTION_OFFSET, "of the debugging information entry, from its unit's header")
    attributes: SymbolAttributes | None = wire(
        When(Bits(SymbolAttributes), lambda this: this._params.is_gnu), "kind of symbol, in the .debug_gnu_ sections"
    )
    name: bytes = wire(NulTerminated(), "qualified as in the source language")


@dataclass(frozen=True, slots=True)
class NameSet:
    """One set. `is_terminated`: an offset of 0 follows the names; `trailing` are the bytes after it, in the set."""

    header: NamesHeader
    names: tuple[Name, ...]
    is_terminated: bool = True
    trailing: bytes = b""


def range_padding(header_end: int, header: AddressRangesHeader) -> int:
    """The padding before the ranges in bytes: their offset in the set is a multiple of their size (DWARF4 7.20).

    `header_end` is relative to the set's start.
    """
    return -header_end % range_size(header)


def range_size(header: AddressRangesHeader) -> int:
    """The size of a range in bytes."""
    return 2 * header.address_size + header.segment_size


def _bounds(section: Section, record: str) -> Iterator[tuple[int, str, DwarfFormat, int, int]]:
    """Each set's offset, record path, format, offset after the length, and end."""
    offset = index = 0
    while offset < len(section) and (any(section.data[offset : offset + 4]) or any(section.data[offset:])):
        name = f"{record}[{index}]"
        dwarf_format, length, start = parse_initial_length(section, offset, name)
        yield offset, name, dwarf_format, start, start + length
        offset = start + length
        index += 1


def parse_address_ranges(section: Section) -> tuple[AddressRangeSet, ...]:
    """The sets of a `.debug_aranges` (law 2: `build_address_ranges` gives the bytes back, except zeros at the end)."""
    sets = []
    for offset, name, dwarf_format, start, end in _bounds(section, "set"):
        header, at = engine.parse(AddressRangesHeader, section, start, end, name, dwarf_format=dwarf_format)
        # A set may end inside its padding; it has no ranges then.
        begin = min(end, at + range_padding(at - offset, header))
        count = (end - begin) // range_size(header)
        sizes = {"address_size": header.address_size, "segment_size": header.segment_size}
        ranges = []
        padding, at = bytes(section.data[at:begin]), begin
        stream = io.BytesIO(section.data[begin:end])
        for index in range(count):
            path = f"{name}.range[{index}]"
            one, at = engine.parse_stream(AddressRange, section, stream, begin, path, **sizes)
            ranges.append(one)
        sets.append(AddressRangeSet(header, padding, tuple(ranges), bytes(section.data[at:end])))
    return tuple(sets)


def build_address_ranges(sets: tuple[AddressRangeSet, ...], byte_order: ByteOrder) -> bytes:
    """The bytes of a `.debug_aranges`. Raises BuildError."""
    data = bytearray()
    for index, one in enumerate(sets):
        header, name = one.header, f"set[{index}]"
        sizes = {"address_size": header.address_size, "segment_size": header.segment_size}
        body = engine.build(header, byte_order, name, dwarf_format=header.dwarf_format) + one.padding
        for number, each in enumerate(one.ranges):
            body += engine.build(each, byte_order, f"{name}.range[{number}]", **sizes)
        data += _with_length(header.dwarf_format, body + one.trailing, byte_order)
    return bytes(data)


def _with_length(dwarf_format: DwarfFormat, body: bytes, byte_order: ByteOrder) -> bytes:
    return build_initial_length(dwarf_format, len(body), byte_order) + body


def parse_names(section: Section, is_gnu: bool) -> tuple[NameSet, ...]:
    """The sets of a section of names; `is_gnu` as in NAME_SECTIONS (law 2: `build_names` gives the bytes back)."""
    sets = []
    for _, name, dwarf_format, start, end in _bounds(section, "set"):
        header, at = engine.parse(NamesHeader, section, start, end, name, dwarf_format=dwarf_format)
        names: list[Name] = []
        is_terminated, begin, stream = False, at, io.BytesIO(section.data[at:end])
        while at < end and not is_terminated:
            if at + dwarf_format > end:
                reason = f"{dwarf_format:d} bytes needed, {end - at} left"
                raise ParseError(section, at, f"{name}.name[{len(names)}].offset", reason)
            if not any(section.data[at : at + dwarf_format]):
                is_terminated, at = True, at + dwarf_format
                continue
            path = f"{name}.name[{len(names)}]"
            one, at = engine.parse_stream(Name, section, stream, begin, path, dwarf_format=dwarf_format, is_gnu=is_gnu)
            names.append(one)
        sets.append(NameSet(header, tuple(names), is_terminated, bytes(section.data[at:end])))
    return tuple(sets)


def build_names(sets: tuple[NameSet, ...], is_gnu: bool, byte_order: ByteOrder) -> bytes:
    """The bytes of a section of names. Raises BuildError."""
    data = bytearray()
    for index, one in enumerate(sets):
        dwarf_format, name = one.header.dwarf_format, f"set[{index}]"
        body = engine.build(one.header, byte_order, name, dwarf_format=dwarf_format)
        for number, each in enumerate(one.names):
            path = f"{name}.name[{number}]"
            if each.offset == 0:
                raise BuildError("", None, f"{path}.offset", "is 0, which ends the set")
            body += engine.build(each, byte_order, path, dwarf_format=dwarf_format, is_gnu=is_gnu)
        body += bytes(dwarf_format) if one.is_terminated else b""
        data += _with_length(dwarf_format, body + one.trailing, byte_order)
    return bytes(data)
