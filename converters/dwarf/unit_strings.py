"""The strings of attributes of `.debug_info`, in the unit or in another section, directly or by index.

Strategy: strings are found form by form, and each distinct offset once; they stay in their sections (`Strings`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.debug_info.roots import ROOT_FORM
from ...schemas.forms import DW_FORM
from ...schemas.section import ParseError, Section
from ...schemas.wire import LENGTH_DWARF64, DwarfFormat
from ..arrays import distinct_values, integers_at
from ..strings import NO_STRINGS, Numbered, Strings, concatenate, terminated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]

NOTHING = -1
STR, LINE_STR, STR_OFFSETS = ".debug_str", ".debug_line_str", ".debug_str_offsets"
# The sections that these forms refer to.
STRING_SECTIONS = {DW_FORM.line_strp: LINE_STR, DW_FORM.strp: STR}
INDEXED_FORMS = (DW_FORM.strx, DW_FORM.strx1, DW_FORM.strx2, DW_FORM.strx3, DW_FORM.strx4, ROOT_FORM.GNU_str_index)
_SUPPLEMENTARY = (DW_FORM.strp_sup, ROOT_FORM.GNU_strp_alt)
# The size in bytes of version and padding, after the length of a contribution to .debug_str_offsets (DWARF5 7.26).
STRING_OFFSETS_HEADER = 4


@dataclass(frozen=True, slots=True)
class StringSections:
    """The sections that strings are in; None for one that the file does not have. `supplementary` is the .debug_str of
    the file that dwz moved strings to."""

    strings: Section | None = None
    line_strings: Section | None = None
    string_offsets: Section | None = None
    supplementary: Section | None = None

    def by_name(self) -> dict[str, Section]:
        """Those that the file has, by name."""
        found = (self.strings, self.line_strings, self.string_offsets, self.supplementary)
        return {one.name: one for one in found if one is not None}


class UnitStrings:
    """Finds the strings of the attributes of `section`. `is_64`; `base`, the DW_AT_str_offsets_base or -1; and
    `strings_base`, the offset of the unit's strings in .debug_str, 0 for None, are by unit."""

    def __init__(
        self,
        section: Section,
        sections: StringSections,
        is_64: NDArray[np.bool_],
        base: I64,
        strings_base: I64 | None = None,
    ) -> None:
        self.section = section
        self.sections = sections
        self.offset_size = np.where(is_64, int(DwarfFormat.DWARF64), int(DwarfFormat.DWARF32))
        self.base = base
        self.strings_base = (np.zeros_like(base) if strings_base is None else strings_base).astype(np.uint64)

    def strings_of(self, form: U64, number: U64, start: I64, record: str) -> Numbered:
        """The string of each unit, none for a form that is no string's, or a string in a supplementary file that is not
        there. `number` and `start` are the values, as kernels give them. Raises ParseError."""
        found = np.full(len(form), NOTHING)
        parts = [NO_STRINGS]
        count = 0
        for one in distinct_values(form).tolist():
            which = np.flatnonzero(form == one)
            value, place = number[which], int(start[which[0]])
            if one == DW_FORM.string:
                data = np.frombuffer(self.section.data, np.uint8)
                part = Numbered(np.arange(len(which)), Strings.within(data, start[which], value))
            elif one in STRING_SECTIONS:
                is_str = one == DW_FORM.strp
                section = self.sections.strings if is_str else self.sections.line_strings
                offset = self._based(which, value) if is_str else value
                part = self._at(section, STRING_SECTIONS[DW_FORM(one)], offset, place, record)
            elif one in _SUPPLEMENTARY and self.sections.supplementary is not None:
                part = self._at(self.sections.supplementary, STR, value, place, record)
            elif one in INDEXED_FORMS:
                offset = self._based(which, self._indexed(which, value, one, place, record))
                part = self._at(self.sections.strings, STR, offset, place, record)
            else:
                continue
            found[which] = count + part.number
            count += len(part.strings)
            parts.append(part.strings)
        return Numbered(found, concatenate(parts))

    def _based(self, which: I64, offset: U64) -> U64:
        """Offsets in .debug_str, given those in the strings of units `which`; 2**64 - 1 for one that wraps."""
        found = offset + self.strings_base[which]
        return np.where(found < offset, np.uint64(np.iinfo(np.uint64).max), found)

    def _at(self, section: Section | None, name: str, offset: U64, place: int, record: str) -> Numbered:
        """The strings at some offsets of a section."""
        if section is None:
            raise ParseError(self.section, place, record, f"refers to {name}, which the file does not have")
        return strings_at(section, offset, self.section, place, f"{record}: {name}")

    def _indexed(self, which: I64, index: U64, form: int, place: int, record: str) -> U64:
        """The offsets in .debug_str that string indices of units `which` lead to."""
        section = self.sections.string_offsets
        if section is None:
            raise ParseError(self.section, place, record, f"refers to {STR_OFFSETS}, which the file does not have")
        # GNU's section of split DWARF 4 has no header.
        default = 0 if form == ROOT_FORM.GNU_str_index else first_string_offset(section)
        base = np.where(self.base[which] < 0, default, self.base[which])
        size = self.offset_size[which]
        limit = np.maximum(len(section) - base, 0) // size
        for wrong in np.flatnonzero(index >= limit.astype(np.uint64))[:1]:
            raise ParseError(self.section, place, f"{record}: {STR_OFFSETS}", f"there is no index {int(index[wrong])}")
        offset = np.zeros(len(index), np.uint64)
        data = np.frombuffer(section.data, np.uint8)
        for one in distinct_values(size).tolist():
            of_size = np.flatnonzero(size == one)
            at = base[of_size] + index[of_size].astype(np.int64) * one
            offset[of_size] = integers_at(data, at, one, section.byte_order)
        return offset


def first_string_offset(section: Section) -> int:
    """The section offset after the first header of a `.debug_str_offsets` (DWARF5 7.26)."""
    is_64 = int.from_bytes(section.data[:4], section.byte_order) == LENGTH_DWARF64
    return (12 if is_64 else 4) + STRING_OFFSETS_HEADER


def strings_at(strings: Section, offset: U64, section: Section, place: int, record: str) -> Numbered:
    """The strings at some offsets of `strings`, which values of `section` refer to, the first of them at `place`.
    Raises ParseError if one is outside, or has no zero byte at its end."""
    last = int(offset.max(initial=0))
    if len(offset) and last >= len(strings):
        raise ParseError(section, place, record, f"{last:#x} is outside a section of {len(strings):#x} bytes")
    found = terminated(np.frombuffer(strings.data, np.uint8), offset)
    for wrong in np.flatnonzero(found.number < 0)[:1]:
        raise ParseError(strings, int(offset[wrong]), "string", "is not terminated by a zero byte")
    return found
