"""The paths of directories and files in line number program headers: strings in the header or in other sections.

Strategy: strings are resolved form by form, and each distinct offset once; equal paths get one number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.forms import DW_FORM
from ...schemas.section import ParseError, Section
from ..dwarf.unit_strings import (
    INDEXED_FORMS,
    STR,
    STR_OFFSETS,
    STRING_SECTIONS,
    StringSections,
    UnitStrings,
    string_at,
)
from ..elf.debug_files import SUPPLEMENTARY_STRINGS
from .headers import LineHeaders, PathValues

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The sections that forms of paths refer to.
PATH_SECTIONS = {**STRING_SECTIONS, DW_FORM.strp_sup: SUPPLEMENTARY_STRINGS}


class PathNumbers:
    """Numbers distinct paths in the order in which they are met; `numbers` maps the bytes of a path to its number.

    `string_offsets_base` is that of each program's unit, or -1; without it, paths by index are refused."""

    def __init__(
        self, headers: LineHeaders, strings: dict[str, Section], string_offsets_base: NDArray[np.int64] | None
    ) -> None:
        self.headers = headers
        self.section = headers.section
        self.strings = strings
        self.base = string_offsets_base
        self.numbers: dict[bytes, int] = {}

    def number_of(self, path: bytes) -> int:
        """The number of a path."""
        return self.numbers.setdefault(path, len(self.numbers))

    def numbers_of(
        self, values: PathValues, value: NDArray[np.int64], form: NDArray[np.int64], unit: NDArray[np.int64]
    ) -> NDArray[np.uint32]:
        """The numbers of the paths in values of string forms, of these units. Raises ParseError."""
        found = np.zeros(len(value), np.uint32)
        for one in np.unique(form).tolist():
            which = np.flatnonzero(form == one)
            start = values.start[value[which]]
            if one == DW_FORM.string:
                size = values.number[value[which]].astype(np.int64)
                spans = zip(start.tolist(), (start + size).tolist(), strict=True)
                found[which] = [self.number_of(bytes(self.section.data[begin:end])) for begin, end in spans]
                continue
            if one in INDEXED_FORMS and self.base is not None:
                of_unit = unit[which]
                sections = StringSections(self.strings.get(STR), None, self.strings.get(STR_OFFSETS))
                found_strings = UnitStrings(self.section, sections, self.headers.is_64[of_unit], self.base[of_unit])
                forms = form[which].astype(np.uint64)
                local = found_strings.numbers_of(forms, values.number[value[which]], start, "DW_LNCT_path")
                numbers = [self.number_of(text) for text in found_strings.distinct()]
                found[which] = np.array(numbers, np.uint32)[local]
                continue
            if one not in PATH_SECTIONS:
                reason = f"{form_name(one)} refers to a section or file that is not read"
                raise ParseError(self.section, int(start[0]), "DW_LNCT_path", reason)
            offset, inverse = np.unique(values.number[value[which]], return_inverse=True)
            name, place = PATH_SECTIONS[DW_FORM(one)], int(start[0])
            texts = (string_in(self.section, self.strings, name, at, place) for at in offset.tolist())
            numbers = [self.number_of(text) for text in texts]
            found[which] = np.array(numbers, np.uint32)[inverse]
        return found


def string_in(section: Section, strings: dict[str, Section], name: str, offset: int, place: int) -> bytes:
    """The string at `offset` in the section `name`, referred to at offset `place` of `section`. Raises ParseError."""
    if name not in strings:
        raise ParseError(section, place, "DW_LNCT_path", f"refers to {name}, which the file does not have")
    if offset >= len(strings[name]):
        reason = f"{offset:#x} is outside a section of {len(strings[name]):#x} bytes"
        raise ParseError(section, place, f"DW_LNCT_path: {name}", reason)
    return string_at(strings[name], offset)


def form_name(form: int) -> str:
    """The name of a form."""
    return f"DW_FORM_{DW_FORM(form).name}"
