"""The paths of directories and files in line number program headers: strings in the header or in other sections.

Strategy: strings are found form by form, and each distinct offset once; they stay in their sections (`Strings`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.forms import DW_FORM
from ...schemas.section import ParseError, Section
from ..arrays import distinct_values
from ..dwarf.unit_strings import (
    INDEXED_FORMS,
    STR,
    STR_OFFSETS,
    STRING_SECTIONS,
    StringSections,
    UnitStrings,
    strings_at,
)
from ..elf.supplementary import SUPPLEMENTARY_STRINGS
from ..strings import NO_STRINGS, Numbered, Strings, concatenate
from .headers import LineHeaders, PathValues

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The sections that forms of paths refer to.
PATH_SECTIONS = {**STRING_SECTIONS, DW_FORM.strp_sup: SUPPLEMENTARY_STRINGS}


class PathStrings:
    """Finds the paths of directories and files.

    `string_offsets_base` is that of each program's unit, or -1; without it, paths by index are refused."""

    def __init__(
        self, headers: LineHeaders, strings: dict[str, Section], string_offsets_base: NDArray[np.int64] | None
    ) -> None:
        self.headers = headers
        self.section = headers.section
        self.strings = strings
        self.base = string_offsets_base

    def paths_of(
        self, values: PathValues, value: NDArray[np.int64], form: NDArray[np.int64], unit: NDArray[np.int64]
    ) -> Numbered:
        """The paths in values of string forms, of these units. Raises ParseError."""
        found = np.zeros(len(value), np.int64)
        parts = [NO_STRINGS]
        count = 0
        for one in distinct_values(form).tolist():
            which = np.flatnonzero(form == one)
            part = self._of_form(one, values.number[value[which]], values.start[value[which]], unit[which])
            found[which] = count + part.number
            count += len(part.strings)
            parts.append(part.strings)
        return Numbered(found, concatenate(parts))

    def _of_form(
        self, form: int, number: NDArray[np.uint64], start: NDArray[np.int64], unit: NDArray[np.int64]
    ) -> Numbered:
        """The paths of values of one form."""
        if form == DW_FORM.string:
            data = np.frombuffer(self.section.data, np.uint8)
            return Numbered(np.arange(len(start)), Strings.within(data, start, number))
        if form in INDEXED_FORMS and self.base is not None:
            sections = StringSections(self.strings.get(STR), None, self.strings.get(STR_OFFSETS))
            found = UnitStrings(self.section, sections, self.headers.is_64[unit], self.base[unit])
            return found.strings_of(np.full(len(number), form, np.uint64), number, start, "DW_LNCT_path")
        place = int(start[0])
        if form not in PATH_SECTIONS:
            reason = f"{form_name(form)} refers to a section or file that is not read"
            raise ParseError(self.section, place, "DW_LNCT_path", reason)
        return strings_in(self.section, self.strings, PATH_SECTIONS[DW_FORM(form)], number, place)


def strings_in(
    section: Section, strings: dict[str, Section], name: str, offset: NDArray[np.uint64], place: int
) -> Numbered:
    """The strings at some offsets of the section `name`, referred to from offset `place` of `section` on. Raises
    ParseError."""
    if name not in strings:
        raise ParseError(section, place, "DW_LNCT_path", f"refers to {name}, which the file does not have")
    return strings_at(strings[name], offset, section, place, f"DW_LNCT_path: {name}")


def form_name(form: int) -> str:
    """The name of a form."""
    return f"DW_FORM_{DW_FORM(form).name}"
