"""The root entry of a compilation unit of DWARF 5: header, abbreviation, and values (DWARF5 7.5).

Strategy: only what finding one attribute's value requires; pyelftools reads trees of entries.
"""

from __future__ import annotations

import io
from enum import IntEnum
from typing import Any

from . import engine
from .forms import FORM_KINDS, SECTION_OFFSET
from .section import ParseError, Section
from .wire import SLEB, U8, U16, ULEB, Block, DwarfFormat, Given, Integer, Kind, Leb128, When, record, wire


class DW_UT(IntEnum):
    """Unit types whose headers end with the abbreviations' offset (DWARF5 table 7.2)."""

    compile = 0x01
    partial = 0x03


class DW_AT(IntEnum):
    """Attributes of a root entry that refer to other sections (DWARF5 table 7.5)."""

    str_offsets_base = 0x72
    macros = 0x79


IMPLICIT_CONST = 0x21
# More forms of root entries than FORM_KINDS has (DWARF5 table 7.6): addrx, exprloc, loclistx, rnglistx, addrx1 to 4.
_ROOT_KINDS: dict[int, Kind] = {
    **{int(form): kind for form, kind in FORM_KINDS.items()},
    **dict.fromkeys((0x1B, 0x22, 0x23), ULEB),
    0x18: Block(),
    0x29: U8,
    0x2A: U16,
    0x2B: Integer(3),
    0x2C: Integer(4),
}
_ADDR, _NO_BYTES = 0x01, (0x19, IMPLICIT_CONST)

# Limits: one of the first abbreviations describes the root, and it has few values.
MAX_ABBREVIATIONS = 8
MAX_BYTES = 4096


@record
class UnitHeader:
    """The header of a compilation unit of DWARF 5, after its length."""

    dwarf_format: DwarfFormat = wire(Given(lambda this: this._params.dwarf_format), "32- or 64-bit DWARF")
    version: int = wire(Integer(2, allowed=(5,)), "5")
    unit_type: int = wire(Integer(1, allowed=tuple(DW_UT)), "a compilation or a partial unit")
    address_size: int = wire(Integer(1, allowed=(1, 2, 4, 8)), "bytes of an address")
    debug_abbrev_offset: int = wire(SECTION_OFFSET, "of its abbreviations, in .debug_abbrev")


@record
class Abbreviation:
    """The fields of an abbreviation before its attributes."""

    code: Leb128 = wire(ULEB, "its number")
    tag: Leb128 = wire(ULEB, "DW_TAG")
    has_children: int = wire(U8, "whether its entries have children")


@record
class AttributeSpecification:
    """An attribute of an abbreviation; the last one's name and form are 0."""

    name: Leb128 = wire(ULEB, "DW_AT")
    form: Leb128 = wire(ULEB, "DW_FORM")
    implicit_const: Leb128 | None = wire(When(SLEB, lambda this: this.form.value == IMPLICIT_CONST), "the value itself")


def parse_root(
    debug_info: Section, debug_abbrev: Section, start: int, end: int, dwarf_format: DwarfFormat
) -> dict[int, Any]:
    """The values of a unit's root entry by DW_AT, up to the first unknown form. `start` is the offset after its length.

    Raises ParseError if it is not a compilation unit of DWARF 5, or its abbreviation is not found.
    """
    params: dict[str, Any] = {"dwarf_format": dwarf_format}
    reach = min(end, start + MAX_BYTES)
    stream = io.BytesIO(debug_info.data[start:reach])
    header, _ = engine.parse_stream(UnitHeader, debug_info, stream, start, "unit", **params)
    code = _value(ULEB, debug_info, stream, start, params)
    values: dict[int, Any] = {}
    for name, form in _attributes(debug_abbrev, header.debug_abbrev_offset, int(code)):
        if form in _NO_BYTES:
            continue
        kind = Integer(header.address_size) if form == _ADDR else _ROOT_KINDS.get(form)
        if kind is None:
            break
        values[name] = _value(kind, debug_info, stream, start, params)
    return values


def _value(kind: Kind, section: Section, stream: io.BytesIO, start: int, params: dict[str, Any]) -> Any:
    return engine.parse_value(kind, section, stream, start, "unit.root", **params)[0]


def _attributes(section: Section, offset: int, code: int) -> list[tuple[int, int]]:
    """Name and form of each attribute of the abbreviation with that code. Raises ParseError."""
    stream = io.BytesIO(section.data[offset : offset + MAX_BYTES])
    for _ in range(MAX_ABBREVIATIONS):
        at = offset + stream.tell()
        if not any(section.data[at : at + 1]):
            break
        head, _ = engine.parse_stream(Abbreviation, section, stream, offset, "abbreviation")
        found: list[tuple[int, int]] = []
        while True:
            one, _ = engine.parse_stream(AttributeSpecification, section, stream, offset, "abbreviation")
            if not int(one.name) and not int(one.form):
                break
            found.append((int(one.name), int(one.form)))
        if int(head.code) == code:
            return found
    raise ParseError(section, offset, "abbreviation", f"no abbreviation {code} among the first {MAX_ABBREVIATIONS}")
