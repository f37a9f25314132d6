"""Check that every unit still refers to its own line number program after `.debug_line` was written again.

Strategy: root entries are read with pyelftools from the sections before the change, whose layout is that of the new
ones: only the values of DW_AT_stmt_list may differ. Programs are counted by their unit_length: the n-th one of the new
section replaces the n-th one of the old.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, Literal

from elftools.common.exceptions import DWARFError, ELFError
from elftools.common.utils import struct_parse
from elftools.construct import ConstructError
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo
from elftools.dwarf.enums import ENUM_DW_FORM

from ....schemas.data_classes import dataclass

TYPES = ".debug_types"
ENUM_NAMES = {number: name for name, number in ENUM_DW_FORM.items() if isinstance(number, int)}
SIZES = {"DW_FORM_data4": 4, "DW_FORM_data8": 8}


@dataclass(frozen=True, slots=True)
class LineUnits:
    """The contents of a file's sections before and after the change: those of units in `pairs`, by name, the
    abbreviations, and `.debug_line` in `line`."""

    is_little: bool
    address_size: int
    machine: str
    abbreviations: bytes
    pairs: Sequence[tuple[str, bytes, bytes]]
    line: tuple[bytes, bytes]


def check_line_units(units: LineUnits) -> tuple[str, ...]:
    """Every unit that does not refer to its program any more, a sentence each."""
    try:
        return tuple(_faults(units))
    except (ELFError, DWARFError, ConstructError, KeyError, ValueError, IndexError) as fault:
        return (f"the units cannot be read: {fault}",)


def _faults(units: LineUnits) -> Iterator[str]:
    old, new = (_starts(data, units.is_little) for data in units.line)
    if len(old) != len(new):
        yield f".debug_line has {len(new)} programs, it had {len(old)}"
        return
    moved = dict(zip(old, new, strict=True))
    for name, before, after in units.pairs:
        if len(before) != len(after):
            yield f"{name}: has {len(after)} bytes, it had {len(before)}"
            continue
        expected = bytearray(before)
        for place, size, value in _references(units, name, before):
            if value not in moved:
                yield f"{name}+{place:#x}: DW_AT_stmt_list was {value:#x}, where no program starts"
                continue
            found = int.from_bytes(after[place : place + size], _order(units.is_little))
            if found != moved[value]:
                yield f"{name}+{place:#x}: DW_AT_stmt_list is {found:#x}, the program is at {moved[value]:#x}"
            expected[place : place + size] = after[place : place + size]
        if expected != after:
            yield f"{name}: other bytes than DW_AT_stmt_list have changed"


def _order(is_little: bool) -> Literal["little", "big"]:
    return "little" if is_little else "big"


def _starts(data: bytes, is_little: bool) -> list[int]:
    """The offset of each program of a `.debug_line`."""
    found: list[int] = []
    at, order = 0, _order(is_little)
    while at + 4 <= len(data):
        found.append(at)
        start, size = at + 4, 4
        if data[at:start] == b"\xff" * 4:
            start, size = at + 12, 8
        at = start + int.from_bytes(data[start - size : start], order)
    return found


def _references(units: LineUnits, name: str, data: bytes) -> Iterator[tuple[int, int, int]]:
    """Section offset, size and value of each DW_AT_stmt_list."""
    dwarf = _dwarf(units, name, data)
    is_types = name.startswith(TYPES)
    for unit in dwarf.iter_TUs() if is_types else dwarf.iter_CUs():
        stream = (dwarf.debug_types_sec if is_types else dwarf.debug_info_sec).stream
        stream.seek(unit.tu_die_offset if is_types else unit.cu_die_offset)
        yield from _reference_of(unit, stream)


def _reference_of(unit: Any, stream: BytesIO) -> Iterator[tuple[int, int, int]]:
    """Offset, size and value of the DW_AT_stmt_list of the root entry at the stream's position.

    Not by pyelftools' entries, which look up strings, also in other files.
    """
    code = struct_parse(unit.structs.the_Dwarf_uleb128, stream)
    if code == 0:
        return
    for attribute in _attributes(unit, code):
        form = attribute["form"]
        while form == "DW_FORM_indirect":
            form = ENUM_NAMES[struct_parse(unit.structs.the_Dwarf_uleb128, stream)]
        if form == "DW_FORM_implicit_const":
            continue
        place = stream.tell()
        value = struct_parse(unit.structs.Dwarf_dw_form[form], stream)
        if attribute["name"] == "DW_AT_stmt_list":
            yield place, SIZES.get(form, unit.dwarf_format() // 8), value
            return


def _attributes(unit: Any, code: int) -> list[Any]:
    """Name and form of each attribute of one abbreviation. pyelftools' tables read all abbreviations of each unit."""
    stream = unit.dwarfinfo.debug_abbrev_sec.stream
    stream.seek(unit["debug_abbrev_offset"])
    while found := struct_parse(unit.structs.the_Dwarf_uleb128, stream):
        declaration = struct_parse(unit.structs.Dwarf_abbrev_declaration, stream)
        if found == code:
            attributes: list[Any] = declaration["attr_spec"]
            return attributes
    raise DWARFError(f"there is no abbreviation {code}")


def _dwarf(units: LineUnits, name: str, data: bytes) -> DWARFInfo:
    def section(content: bytes, title: str) -> DebugSectionDescriptor:
        return DebugSectionDescriptor(BytesIO(content), title, 0, len(content), 0)

    sections: dict[str, Any] = dict.fromkeys(_SECTIONS)
    sections["debug_abbrev_sec"] = section(units.abbreviations, ".debug_abbrev")
    sections["debug_info_sec"] = section(data, name)
    if name.startswith(TYPES):
        sections["debug_types_sec"] = section(data, name)
    return DWARFInfo(DwarfConfig(units.is_little, units.machine, units.address_size), **sections)


_SECTIONS = (
    "debug_info_sec", "debug_aranges_sec", "debug_abbrev_sec", "debug_frame_sec", "eh_frame_sec", "debug_str_sec",
    "debug_loc_sec", "debug_ranges_sec", "debug_line_sec", "debug_pubtypes_sec", "debug_pubnames_sec", "debug_addr_sec",
    "debug_str_offsets_sec", "debug_line_str_sec", "debug_loclists_sec", "debug_rnglists_sec", "debug_sup_sec",
    "gnu_debugaltlink_sec", "debug_types_sec",
)  # fmt: skip
