"""Split DWARF: units whose entries are in a package or in .dwo files, and the skeleton units that lead to them
(DWARF5 3.1.2, 3.1.3; GNU's extension for DWARF 4).

Strategy: skeleton and split unit have equal dwo_ids. A split unit is read like any other one, with the bases that its
skeleton unit has; the skeleton unit itself is then not walked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.debug_info.packages import CU_INDEX, DW_SECT, DWO, TU_INDEX
from ...schemas.debug_info.range_lists import RANGE_LISTS
from ...schemas.debug_info.roots import DEBUG_ABBREV, DEBUG_INFO, DEBUG_TYPES, DW_UT
from ...schemas.section import Section
from ..arrays import values_at
from ..dwarf.unit_strings import LINE_STR, STR, STR_OFFSETS, StringSections
from ..dwarf.units import Contributions, ids_of_units, units_of_sections
from .attributes import decode_units
from .code import Skeletons, UnitCode
from .entries import NOTHING
from .functions import UnitSource
from .packages import Packaged, packaged, read_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]

SPLIT_INFO, SPLIT_TYPES = DEBUG_INFO + DWO, DEBUG_TYPES + DWO
# The section that each base of a contribution is in.
BASES = {
    "abbreviations": DEBUG_ABBREV + DWO,
    "string_offsets": STR_OFFSETS + DWO,
    "strings": STR + DWO,
    "range_lists": RANGE_LISTS + DWO,
}
SPLIT_SECTIONS = (SPLIT_INFO, SPLIT_TYPES, *BASES.values(), LINE_STR + DWO)
INDICES = (CU_INDEX, TU_INDEX)


@dataclass(frozen=True, slots=True, eq=False)
class SkeletonUnits:
    """The skeleton units of a file, by index: `unit` in `.debug_info`, i64, `dwo_id` u64, and the number of its .dwo
    `file`, i64, -1 for none. A package has the number 0."""

    unit: I64
    dwo_id: U64
    file: I64

    def select(self, which: I64) -> SkeletonUnits:
        """Some of them."""
        return SkeletonUnits(self.unit[which], self.dwo_id[which], self.file[which])

    def matches(self, dwo_id: U64, file: I64) -> I64:
        """The index of the skeleton unit of each split unit; -1 for none. Of equal ids the first is found, and only the
        first split unit has a skeleton unit."""
        found = np.full(len(dwo_id), NOTHING)
        known: dict[tuple[int, int], int] = {}
        for index, key in enumerate(zip(self.file.tolist(), self.dwo_id.tolist(), strict=True)):
            known.setdefault(key, index)
        for index, key in enumerate(zip(file.tolist(), dwo_id.tolist(), strict=True)):
            found[index] = known.pop(key, NOTHING)
        return found


def skeletons_of(unit_code: UnitCode) -> SkeletonUnits:
    """The units that name a .dwo file, with their ids; those without an id lead nowhere."""
    decoded = unit_code.decoded
    is_named = decoded.units.columns.dwo_name >= 0
    unit, dwo_id = _ids(unit_code)
    unit, dwo_id = unit[is_named[unit]], dwo_id[is_named[unit]]
    return SkeletonUnits(unit, dwo_id, np.full(len(unit), NOTHING))


def _ids(unit_code: UnitCode) -> tuple[I64, U64]:
    """The units that have a dwo_id, in the header or as an attribute, and the ids."""
    decoded = unit_code.decoded
    unit, dwo_id = ids_of_units(decoded.section, decoded.units.columns)
    old = np.flatnonzero(unit_code.has_dwo_id)
    return np.concatenate([unit, old]), np.concatenate([dwo_id, unit_code.dwo_id[old]])


def of_package(sections: dict[str, Section]) -> Packaged:
    """The sections of a package, by name, and its contributions. Raises ParseError."""
    index = {name: read_index(sections[name]) for name in INDICES if name in sections}
    found = [one.contributions(DW_SECT.INFO) for one in index.values()]
    units = Contributions.concatenate(found) if found else Contributions.empty(0)
    types = index[TU_INDEX].contributions(DW_SECT.TYPES) if TU_INDEX in index else Contributions.empty(0)
    return Packaged(sections, units.select(np.argsort(units.start, kind="stable")), types)


def of_files(files: Sequence[dict[str, Section]]) -> Packaged:
    """The sections of .dwo files, by name, and their contributions."""
    return packaged(files, SPLIT_INFO, SPLIT_TYPES, BASES)


def split_units(split: Packaged, skeletons: SkeletonUnits, main: UnitSource) -> UnitSource | None:
    """The split units of skeleton units of `main`; None if there is none. Raises ParseError."""
    sections = split.sections
    if SPLIT_INFO not in sections:
        return None
    own = replace(
        main.sections,
        debug_abbrev=sections.get(DEBUG_ABBREV + DWO),
        code=replace(main.sections.code, range_lists=sections.get(RANGE_LISTS + DWO)),
        strings=StringSections(*(sections.get(name + DWO) for name in (STR, LINE_STR, STR_OFFSETS))),
        types=sections.get(SPLIT_TYPES),
        supplementary=None,
    )
    units = units_of_sections(sections[SPLIT_INFO], own.debug_abbrev, contributions=split.units)
    unit_code = UnitCode(decode_units(sections[SPLIT_INFO], own.debug_abbrev, units), own.code)
    which, dwo_id = _ids(unit_code)
    at = split.units.at(units.columns)
    skeleton = np.full(len(units), NOTHING)
    index = skeletons.matches(dwo_id, values_at(split.units.file, at[which], NOTHING))
    skeleton[which] = values_at(skeletons.unit, index, NOTHING)
    if not np.any(skeleton >= 0):
        return None
    of_main = main.unit_code
    unit_code.inherit(
        Skeletons(
            base=values_at(of_main.base, skeleton, 0),
            addresses=values_at(of_main.address_base, skeleton, NOTHING),
            ranges=np.maximum(values_at(of_main.lists_base, skeleton, 0), 0),
            range_lists=values_at(split.units.range_lists, at, 0),
        )
    )
    units.columns.line_offset[:] = values_at(of_main.decoded.units.columns.line_offset, skeleton, NOTHING)
    types = None
    if own.types is not None:
        types = units_of_sections(own.types, own.debug_abbrev, contributions=split.types)
    is_walked = (skeleton >= 0) | (units.columns.unit_type == DW_UT.split_type)
    return UnitSource(own, unit_code, is_walked, types, skeleton)
