"""The names of functions: linkage names, or names qualified by the scopes that contain the declaration.

Strategy: an inlined function leads to its abstract origin, and a definition to its declaration, perhaps in another
unit or file; a scope that is only a signature leads to its type unit. All entries of one step are read at once, and
each distinct entry once; a cycle ends because steps are bounded. Names stay in their sections; only qualified ones are
made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.debug_info.entries import DW_TAG
from ...schemas.forms import DW_FORM
from ...schemas.section import ParseError
from ..arrays import distinct_values
from ..dwarf.unit_strings import UnitStrings, strings_at
from ..limits import exceeded, raised
from ..strings import NO_STRINGS, Numbered, Strings, concatenate, number_together
from .attributes import Attribute, DecodedUnits
from .entries import NOTHING, Rows, read_entries
from .places import EntryPlaces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

NAME_ATTRIBUTES = (
    *(Attribute.NAME, Attribute.LINKAGE_NAME, Attribute.ABSTRACT_ORIGIN, Attribute.SPECIFICATION),
    Attribute.SIGNATURE,
)
# An inlined function, its abstract instance, a declaration: a few steps.
MAX_STEPS = 16
# Compilers nest scopes a few dozen deep; names do not go further up than this.
MAX_SCOPES = 256
SEPARATOR = b"::"
# What demanglers print for scopes without a name.
_ANONYMOUS: dict[int, bytes] = {
    DW_TAG.namespace: b"(anonymous namespace)",
    DW_TAG.class_type: b"(anonymous class)",
    DW_TAG.structure_type: b"(anonymous struct)",
    DW_TAG.union_type: b"(anonymous union)",
    DW_TAG.enumeration_type: b"(anonymous enum)",
}
# Qualified names take at most PROPORTION bytes together for each byte of the entries, and LEAST more: a scope's name
# is in the name of everything that it contains.
PROPORTION, LEAST = 4, 1 << 24


@dataclass(frozen=True, slots=True)
class _Followed:
    """What entries and those that they lead to say: linkage names; short names; the tag of the entry; and the place of
    the last entry."""

    linkage: Numbered
    short: Numbered
    tag: NDArray[np.uint16]
    last: I64


class NameReader:
    """Reads the names of entries."""

    def __init__(self, places: EntryPlaces) -> None:
        self.places = places
        self._scope_names: dict[int, bytes] = {NOTHING: b""}
        self._left = raised(LEAST + PROPORTION * len(places))

    def names_of(self, place: I64) -> Numbered:
        """The names of the entries at these places; each distinct name is there once. Raises ParseError."""
        distinct, inverse = np.unique(place, return_inverse=True)
        found = self._follow(distinct)
        linkage, short = found.linkage, found.short
        scope = np.full(len(distinct), NOTHING)
        is_short = np.flatnonzero((linkage.number < 0) & (short.number >= 0))
        scope[is_short] = self.places.scopes_of(found.last[is_short])
        is_qualified = scope >= 0
        parts = (
            linkage,
            Numbered(np.where((linkage.number < 0) & ~is_qualified, short.number, NOTHING), short.strings),
            self._qualified(short, scope, np.flatnonzero(is_qualified)),
        )
        names, numbers = number_together(*(part.used() for part in parts))
        return Numbered(np.max(numbers, axis=0)[inverse], names)

    def _follow(self, distinct: I64) -> _Followed:
        """Read entries and those that they lead to."""
        count = len(distinct)
        found = {one: np.full(count, NOTHING) for one in (Attribute.LINKAGE_NAME, Attribute.NAME)}
        parts: dict[Attribute, list[Strings]] = {one: [NO_STRINGS] for one in found}
        sizes = dict.fromkeys(found, 0)
        tag, last, which, place = np.zeros(count, np.uint16), distinct.copy(), np.arange(count), distinct
        is_type = np.zeros(count, np.bool_)
        for step in range(MAX_STEPS):
            following = np.full(len(place), NOTHING)
            # A type unit need not have all scopes that the entry with the signature is in.
            last[which[~is_type]] = place[~is_type]
            by_signature = np.zeros(len(place), np.bool_)
            for number, here in self._by_section(place):
                offset = place[here] - self.places.start[number]
                rows = read_entries(self._decoded(number), offset, NAME_ATTRIBUTES)
                if step == 0:
                    tag[here] = rows.tag
                for attribute, numbers in found.items():
                    value = self._strings_of(number, rows, attribute)
                    is_new = (numbers[which[here]] < 0) & (value.number >= 0)
                    numbers[which[here[is_new]]] = value.number[is_new] + sizes[attribute]
                    sizes[attribute] += len(value.strings)
                    parts[attribute].append(value.strings)
                has_name = found[Attribute.NAME][which[here]] >= 0
                of_type = self.places.references(number, rows, Attribute.SIGNATURE)
                origin = self.places.origins(number, rows)
                by_signature[here] = (origin < 0) & ~has_name
                following[here] = np.where(by_signature[here], of_type, origin)
            goes_on = (following >= 0) & (found[Attribute.LINKAGE_NAME][which] < 0)
            which, place, is_type = which[goes_on], following[goes_on], (is_type | by_signature)[goes_on]
            if not len(which):
                break
        linkage, short = (Numbered(numbers, concatenate(parts[one])) for one, numbers in found.items())
        return _Followed(linkage, short, tag, last)

    def _decoded(self, number: int) -> DecodedUnits:
        return self.places.sections[number].decoded

    def _by_section(self, place: I64) -> Iterator[tuple[int, I64]]:
        """The numbers of the sections that these places are in, and the indices of the places of each."""
        number = self.places.numbers_of(place)
        for one in distinct_values(number).tolist():
            yield one, np.flatnonzero(number == one)

    def _strings_of(self, number: int, rows: Rows, attribute: Attribute) -> Numbered:
        """The strings that are the values of an attribute."""
        section, columns, unit = self._decoded(number).section, self._decoded(number).units.columns, rows.unit
        form, value = rows.form_of(attribute).astype(np.uint64), np.ascontiguousarray(rows.number_of(attribute))
        record = f"DW_AT_{attribute.name.lower()}"
        is_inside = form == DW_FORM.string
        bases = (columns.is_64[unit], columns.string_offsets_base[unit], columns.strings_base[unit])
        found = UnitStrings(section, self.places.sections[number].strings, *bases)
        elsewhere = found.strings_of(np.where(is_inside, 0, form).astype(np.uint64), value, rows.offset, record)
        inside = strings_at(section, value[is_inside], section, 0, record)
        numbers = elsewhere.number.copy()
        numbers[is_inside] = inside.number + len(elsewhere.strings)
        return Numbered(numbers, concatenate([elsewhere.strings, inside.strings]))

    def _qualified(self, short: Numbered, scope: I64, which: I64) -> Numbered:
        """The names of the entries `which`, qualified by their scopes. Raises ParseError."""
        self._read_scopes(distinct_values(scope[which]))
        texts = [
            self._join(self._scope_names[of_scope], text)
            for of_scope, text in zip(scope[which].tolist(), short.strings.select(short.number[which]), strict=True)
        ]
        number = np.full(len(scope), NOTHING)
        number[which] = np.arange(len(which))
        return Numbered(number, Strings.of(texts))

    def _join(self, before: bytes, short: bytes) -> bytes:
        """A short name qualified by that of a scope, which is b"" outside all scopes. Raises ParseError."""
        self._left -= len(before) + len(SEPARATOR) + len(short)
        if self._left < 0:
            section = self._decoded(0).section
            reason = f"qualified names take more than {raised(PROPORTION)} bytes for each byte"
            raise ParseError(section, None, "names", exceeded(reason))
        return before + SEPARATOR + short if before else short

    def _read_scopes(self, place: I64) -> None:
        """Find the qualified names of scopes and of those that contain them. Raises ParseError."""
        shorts: dict[int, tuple[Numbered, int, int]] = {}
        parents: dict[int, int] = {}
        for _ in range(MAX_SCOPES):
            if not len(place):
                break
            found = self._follow(place)
            parent = self.places.scopes_of(found.last)
            parents.update(zip(place.tolist(), parent.tolist(), strict=True))
            for one, number, tag in zip(place.tolist(), found.short.number.tolist(), found.tag.tolist(), strict=True):
                shorts[one] = found.short, number, tag
            above = distinct_values(parent).tolist()
            place = np.array([one for one in above if one not in parents and one >= 0], np.int64)
        for one in parents:
            self._name_scope(one, parents, shorts)

    def _name_scope(self, place: int, parents: dict[int, int], shorts: dict[int, tuple[Numbered, int, int]]) -> None:
        """Find the qualified name of a scope whose `parents` are known; a cycle of scopes is cut."""
        chain: list[int] = []
        passed = set()
        while place not in self._scope_names and place in parents and place not in passed:
            chain.append(place)
            passed.add(place)
            place = parents[place]
        name = self._scope_names.get(place, b"")
        for one in reversed(chain):
            short, number, tag = shorts[one]
            text = short.strings[number] if number >= 0 else _ANONYMOUS.get(tag, b"(anonymous)")
            name = self._scope_names[one] = self._join(name, text)
