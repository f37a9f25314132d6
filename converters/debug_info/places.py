"""Entries of several sections that refer to each other: `.debug_info`, `.debug_types`, and those of a supplementary
file (DWARF5 7.5.5, Reference).

Strategy: a *place* is the offset of an entry as if the sections followed each other, so one number is enough for a
reference. What only names need, the scopes of a section besides `.debug_info`, is read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.debug_info.roots import ROOT_FORM
from ..arrays import distinct_values, values_at
from ..dwarf.unit_strings import StringSections
from ..dwarf.units import types_of_units
from ..threads import in_threads
from .attributes import Attribute, DecodedUnits
from .entries import NOTHING, EntryWalk, Rows, ScopeColumns, scopes_of, walks_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

UNIT_REFERENCES = (ROOT_FORM.ref1, ROOT_FORM.ref2, ROOT_FORM.ref4, ROOT_FORM.ref8, ROOT_FORM.ref_udata)
SUPPLEMENTARY_REFERENCES = (ROOT_FORM.GNU_ref_alt, ROOT_FORM.ref_sup4, ROOT_FORM.ref_sup8)


class EntrySection:
    """A section of entries, and the sections that its strings are in. `walks`, if there are any, have passed all scopes
    when they are asked for."""

    def __init__(self, decoded: DecodedUnits, strings: StringSections, walks: Sequence[EntryWalk] = ()) -> None:
        self.decoded = decoded
        self.strings = strings
        self._walks = walks
        self._scopes: ScopeColumns | None = None

    def __len__(self) -> int:
        """Bytes."""
        return len(self.decoded.section)

    @property
    def scopes(self) -> ScopeColumns:
        """The entries whose names qualify those of others, by section offset."""
        if self._scopes is None:
            if not self._walks:
                self._walks = walks_of(self.decoded)
                in_threads(_walk, self._walks)
            self._scopes = scopes_of(self._walks)
        return self._scopes


def _walk(walk: EntryWalk) -> None:
    for _ in walk.rows():
        pass


class EntryPlaces:
    """Sections of entries, the first of which has place 0. `supplementary` is the number of the section that references
    to a supplementary file lead to; -1 if there is none."""

    def __init__(self, sections: Sequence[EntrySection], supplementary: int = NOTHING) -> None:
        self.sections = tuple(sections)
        self.start = np.cumsum([0, *map(len, self.sections)])
        self.supplementary = supplementary
        found = [types_of_units(one.decoded.section, one.decoded.units.columns) for one in self.sections]
        signature = np.concatenate([one for one, _ in found])
        place = np.concatenate([start + one for start, (_, one) in zip(self.start.tolist(), found, strict=False)])
        order = np.argsort(signature, kind="stable")
        self._signature, self._type = signature[order], place[order]

    def __len__(self) -> int:
        """The number of places."""
        return int(self.start[-1])

    def numbers_of(self, place: I64) -> I64:
        """The number of the section that each place is in."""
        return np.searchsorted(self.start[1:], place, side="right")

    def origins(self, number: int, rows: Rows) -> I64:
        """The place of the entry that each row of a section is an instance of, or whose declaration it completes."""
        origin = self.references(number, rows, Attribute.ABSTRACT_ORIGIN)
        return np.where(origin >= 0, origin, self.references(number, rows, Attribute.SPECIFICATION))

    def references(self, number: int, rows: Rows, attribute: Attribute) -> I64:
        """The places that references of a section lead to; -1 for an absent one, or one to what is not there."""
        form, value = rows.form_of(attribute), rows.number_of(attribute)
        section, start = self.sections[number], self.start[number]
        columns, size = section.decoded.units.columns, len(section)
        offset = np.minimum(value, np.uint64(len(self))).astype(np.int64)
        is_local = np.isin(form, UNIT_REFERENCES)
        is_inside = is_local | (form == ROOT_FORM.ref_addr)
        base = np.where(is_local, columns.offset[rows.unit], columns.entries_base[rows.unit])
        found = np.where(is_inside & (base + offset < size), start + base + offset, NOTHING)
        if self.supplementary >= 0:
            elsewhere = np.isin(form, SUPPLEMENTARY_REFERENCES) & (offset < len(self.sections[self.supplementary]))
            found = np.where(elsewhere, self.start[self.supplementary] + offset, found)
        is_type = form == ROOT_FORM.ref_sig8
        if is_type.any():
            found[is_type] = self._types(value[is_type])
        return found

    def _types(self, signature: NDArray[np.uint64]) -> I64:
        """The place of the type with each signature; -1 if no unit has it."""
        index = np.searchsorted(self._signature, signature)
        is_known = values_at(self._signature, index, 0) == signature
        return np.where(is_known, values_at(self._type, index, NOTHING), NOTHING)

    def scopes_of(self, place: I64) -> I64:
        """The place of the innermost scope that contains each place; -1 for none."""
        found, number = np.full(len(place), NOTHING), self.numbers_of(place)
        for one in distinct_values(number).tolist():
            which, start = np.flatnonzero(number == one), int(self.start[one])
            found[which] = _innermost(self.sections[one].scopes, place[which] - start, start)
        return found


def _innermost(scopes: ScopeColumns, offset: I64, start: int) -> I64:
    """The place of the innermost scope that contains each offset, in a section that begins at place `start`."""
    index = np.searchsorted(scopes.offset, offset) - 1
    while True:
        wrong = np.flatnonzero((index >= 0) & (values_at(scopes.end, index, 0) <= offset))
        if not len(wrong):
            return np.where(index >= 0, start + values_at(scopes.offset, index, 0), NOTHING)
        index[wrong] = scopes.parent[index[wrong]]
