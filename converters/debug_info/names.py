"""The names of functions: linkage names, or names qualified by the scopes that contain the declaration.

Strategy: an inlined function leads to its abstract origin, and a definition to its declaration, perhaps in another
unit. All entries of one step are read at once, and each distinct entry once; a cycle ends because steps are bounded.
Names stay in their sections; only qualified ones are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.debug_info.entries import DW_TAG
from ...schemas.debug_info_roots import ROOT_FORM
from ...schemas.forms import DW_FORM
from ..arrays import values_at
from ..dwarf.unit_strings import StringSections, UnitStrings, strings_at
from ..strings import Numbered, Strings, concatenate, number_together
from .attributes import Attribute, DecodedUnits
from .entries import NOTHING, Rows, ScopeColumns, read_entries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

NAME_ATTRIBUTES = (
    *(Attribute.NAME, Attribute.LINKAGE_NAME, Attribute.ABSTRACT_ORIGIN, Attribute.SPECIFICATION),
    Attribute.SIGNATURE,
)
UNIT_REFERENCES = (ROOT_FORM.ref1, ROOT_FORM.ref2, ROOT_FORM.ref4, ROOT_FORM.ref8, ROOT_FORM.ref_udata)
# An inlined function, its abstract instance, a declaration: a few steps.
MAX_STEPS = 16
SEPARATOR = b"::"
# What demanglers print for scopes without a name.
ANONYMOUS = {
    DW_TAG.namespace: b"(anonymous namespace)",
    DW_TAG.class_type: b"(anonymous class)",
    DW_TAG.structure_type: b"(anonymous struct)",
    DW_TAG.union_type: b"(anonymous union)",
    DW_TAG.enumeration_type: b"(anonymous enum)",
}
# Qualified names take at most so many bytes together for each byte of .debug_info, and so many more: a scope's name is
# in each name of what it contains.
PROPORTION, LEAST = 4, 1 << 24


def references(decoded: DecodedUnits, rows: Rows, attribute: Attribute) -> I64:
    """The section offsets that references lead to; -1 for an absent one, or one to another file or a type unit."""
    form, number = rows.form_of(attribute), rows.number_of(attribute)
    place = np.minimum(number, np.uint64(len(decoded.section))).astype(np.int64)
    of_unit = np.isin(form, UNIT_REFERENCES)
    place[of_unit] += decoded.units.columns.offset[rows.unit[of_unit]]
    is_reference = (of_unit | (form == ROOT_FORM.ref_addr)) & (place < len(decoded.section))
    return np.where(is_reference, place, NOTHING)


def origins(decoded: DecodedUnits, rows: Rows) -> I64:
    """The section offset of the entry that each row is an instance of, or whose declaration it completes; or -1."""
    origin = references(decoded, rows, Attribute.ABSTRACT_ORIGIN)
    return np.where(origin >= 0, origin, references(decoded, rows, Attribute.SPECIFICATION))


class NameReader:
    """Reads names of the entries of a section; `scopes` are those of a walk."""

    def __init__(self, decoded: DecodedUnits, scopes: ScopeColumns, strings: StringSections) -> None:
        self.decoded = decoded
        self.scopes = scopes
        self.sections = strings
        self._scope_names: dict[int, bytes] = {}
        self._left = LEAST + PROPORTION * len(decoded.section)

    def names_of(self, offset: I64) -> Numbered:
        """The names of the entries at these section offsets; each distinct name is there once. Raises ParseError."""
        distinct, inverse = np.unique(offset, return_inverse=True)
        linkage, short, last = self._follow(distinct)
        scope = self._scope_of(last)
        is_qualified = (linkage.number < 0) & (scope >= 0) & (short.number >= 0)
        parts = (
            linkage,
            Numbered(np.where((linkage.number < 0) & ~is_qualified, short.number, NOTHING), short.strings),
            self._qualified(short, scope, np.flatnonzero(is_qualified), len(distinct)),
        )
        names, numbers = number_together(*(part.used() for part in parts))
        found = np.max(numbers, axis=0)
        return Numbered(found[inverse], names)

    def _follow(self, distinct: I64) -> tuple[Numbered, Numbered, I64]:
        """The linkage name and the short name of each entry, and the section offset of the last entry that it leads
        to."""
        count = len(distinct)
        found = {one: np.full(count, NOTHING) for one in (Attribute.LINKAGE_NAME, Attribute.NAME)}
        parts: dict[Attribute, list[Strings]] = {one: [Strings.of(())] for one in found}
        sizes = dict.fromkeys(found, 0)
        last, which, offset = distinct.copy(), np.arange(count), distinct
        for _ in range(MAX_STEPS):
            rows = read_entries(self.decoded, offset, NAME_ATTRIBUTES, "reference", lambda _: None)
            last[which] = offset
            for attribute, numbers in found.items():
                value = self._strings_of(rows, attribute)
                is_new = (numbers[which] < 0) & (value.number >= 0)
                numbers[which[is_new]] = value.number[is_new] + sizes[attribute]
                sizes[attribute] += len(value.strings)
                parts[attribute].append(value.strings)
            following = origins(self.decoded, rows)
            goes_on = (following >= 0) & (found[Attribute.LINKAGE_NAME][which] < 0)
            which, offset = which[goes_on], following[goes_on]
            if not len(which):
                break
        linkage, short = (Numbered(numbers, concatenate(parts[one])) for one, numbers in found.items())
        return linkage, short, last

    def _strings_of(self, rows: Rows, attribute: Attribute) -> Numbered:
        """The strings that are the values of an attribute."""
        columns, unit = self.decoded.units.columns, rows.unit
        form, number = rows.form_of(attribute).astype(np.uint64), np.ascontiguousarray(rows.number_of(attribute))
        record = f"DW_AT_{attribute.name.lower()}"
        is_inside = form == DW_FORM.string
        found = UnitStrings(self.decoded.section, self.sections, columns.is_64[unit], columns.string_offsets_base[unit])
        elsewhere = found.strings_of(np.where(is_inside, 0, form).astype(np.uint64), number, rows.offset, record)
        section = self.decoded.section
        inside = strings_at(section, number[is_inside], section, 0, record)
        numbers = elsewhere.number.copy()
        numbers[is_inside] = inside.number + len(elsewhere.strings)
        return Numbered(numbers, concatenate([elsewhere.strings, inside.strings]))

    def _scope_of(self, offset: I64) -> I64:
        """The index of the innermost scope that contains each offset; -1 for none."""
        scopes = self.scopes
        index = np.searchsorted(scopes.offset, offset) - 1
        while True:
            wrong = np.flatnonzero((index >= 0) & (values_at(scopes.end, index, 0) <= offset))
            if not len(wrong):
                return index
            index[wrong] = scopes.parent[index[wrong]]

    def _qualified(self, short: Numbered, scope: I64, which: I64, count: int) -> Numbered:
        """The names of the entries `which`, of `count`, qualified by their scopes."""
        self._read_scopes(scope[which])
        texts: list[bytes] = []
        for index in which.tolist():
            texts.append(self._scope_names[int(scope[index])] + SEPARATOR + short.strings[int(short.number[index])])
        number = np.full(count, NOTHING)
        number[which] = np.arange(len(which))
        return Numbered(number, Strings.of(texts))

    def _read_scopes(self, scope: I64) -> None:
        """Find the qualified names of scopes and of those that contain them."""
        needed = np.unique(scope)
        while True:
            parents = self.scopes.parent[needed]
            more = np.union1d(needed, parents[parents >= 0])
            if len(more) == len(needed):
                break
            needed = more
        rows = read_entries(self.decoded, self.scopes.offset[needed], NAME_ATTRIBUTES, "scope", lambda _: None)
        # A function that is a scope may have its name elsewhere.
        _, short, _ = self._follow(self.scopes.offset[needed])
        for index, tag, number in zip(needed.tolist(), rows.tag.tolist(), short.number.tolist(), strict=True):
            text = short.strings[number] if number >= 0 else ANONYMOUS.get(tag, b"(anonymous)")
            parent = int(self.scopes.parent[index])
            # Scopes ascend, so that a parent is known before what it contains.
            self._scope_names[index] = self._scope_names[parent] + SEPARATOR + text if parent >= 0 else text
