"""Split units of a file: from its package, and those that are not there from .dwo files.

Strategy: a package is read first. The .dwo files that are then needed are read together, as if they were packaged.
Skeleton units whose split unit is nowhere are counted in a note. If the files cannot be read together, the malformed
ones are found one by one, and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError, Section
from ..debug_info.functions import UnitSource
from ..debug_info.split import (
    INDICES,
    SPLIT_INFO,
    SPLIT_SECTIONS,
    SkeletonUnits,
    of_files,
    of_package,
    skeletons_of,
    split_units,
)
from ..elf.debug_files import DebugFiles
from ..elf.image import ElfImage
from ..elf.split_files import open_dwo, open_package

NOTHING = -1


def with_split_units(
    image: ElfImage, main: UnitSource, debug: DebugFiles
) -> tuple[tuple[UnitSource, ...], tuple[str, ...]]:
    """The units of a file and its split units, and notes about those that are missing. Raises ParseError."""
    missing = skeletons_of(main.unit_code)
    if not len(missing.unit):
        return (main,), ()
    notes: list[str] = []
    sources: list[UnitSource] = []
    is_walked = main.is_walked.copy()
    for find in (_in_package, _in_files):
        found = find(image, missing, main, debug, notes) if len(missing.unit) else None
        if found is None or found.skeleton is None:
            continue
        sources.append(found)
        is_walked[found.skeleton[found.skeleton >= 0]] = False
        missing = missing.select(np.flatnonzero(is_walked[missing.unit]))
    if len(missing.unit):
        first = main.unit_code.decoded.units[int(missing.unit[0])].dwo_name.decode(errors="replace")
        count = f"{len(missing.unit)} of {len(skeletons_of(main.unit_code).unit)} split units are missing"
        notes.append(f"{first} has no split unit of this file, or was not found ({count})")
    return (replace(main, is_walked=is_walked), *sources), tuple(notes)


def _in_package(
    image: ElfImage, missing: SkeletonUnits, main: UnitSource, debug: DebugFiles, notes: list[str]
) -> UnitSource | None:
    """The split units in the package of a file; None if there is none. Raises ParseError."""
    package = open_package(image, debug, notes)
    if package is None:
        return None
    try:
        return split_units(of_package(_sections(package)), replace(missing, file=np.zeros_like(missing.file)), main)
    except ParseError as error:
        notes.append(_not_used(package, error))
        return None


def _in_files(
    image: ElfImage, missing: SkeletonUnits, main: UnitSource, debug: DebugFiles, notes: list[str]
) -> UnitSource | None:
    """The split units in .dwo files; None if there is none. Raises ParseError."""
    if not debug.links:
        return None
    units = main.unit_code.decoded.units
    numbers: dict[tuple[bytes, bytes], int] = {}
    files: list[_DwoFile] = []
    file = missing.file.copy()
    for index, unit in enumerate(missing.unit.tolist()):
        name = units[unit].dwo_name, units[unit].comp_dir
        if name not in numbers:
            other = open_dwo(image, *name, debug, notes)
            sections = {} if other is None else _sections(other)
            numbers[name] = NOTHING
            if other is not None and SPLIT_INFO in sections:
                numbers[name] = len(files)
                files.append(_DwoFile(other, sections))
        file[index] = numbers[name]
    return _together(files, replace(missing, file=file), main, notes) if files else None


@dataclass(frozen=True, slots=True, eq=False)
class _DwoFile:
    """A .dwo file, and its sections of split units by name."""

    image: ElfImage
    sections: dict[str, Section]


def _together(
    files: Sequence[_DwoFile], missing: SkeletonUnits, main: UnitSource, notes: list[str]
) -> UnitSource | None:
    """The split units in .dwo files, without those that are malformed. Raises ParseError."""
    try:
        return split_units(of_files([one.sections for one in files]), missing, main)
    except ParseError as error:
        if len(files) == 1:
            notes.append(_not_used(files[0].image, error))
            return None
    file = np.full(len(missing.file), NOTHING)
    readable: list[dict[str, Section]] = []
    for number, one in enumerate(files):
        own = np.where(missing.file == number, 0, NOTHING)
        if _together([one], replace(missing, file=own), main, notes) is not None:
            file[own == 0] = len(readable)
            readable.append(one.sections)
    return split_units(of_files(readable), replace(missing, file=file), main) if readable else None


def _not_used(image: ElfImage, error: ParseError) -> str:
    return f"{image.path} cannot be read ({error}): not used"


def _sections(image: ElfImage) -> dict[str, Section]:
    """The sections of split units in a file, by name; those of one name follow each other. Raises ParseError."""
    found: dict[str, Section] = {}
    for name in (*SPLIT_SECTIONS, *INDICES):
        parts = [image.contents(one) for one in image.named(name) if one.size and not one.is_nobits]
        if parts:
            data = parts[0].data if len(parts) == 1 else memoryview(b"".join(one.data for one in parts))
            found[name] = replace(parts[0], data=data)
    return found
