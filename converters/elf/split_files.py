"""Files of split DWARF: the package FILE.dwp, or the .dwo files that skeleton units name (DWARF5 7.3.4, 7.3.5).

Strategy: names are looked up like those of separate debug files. A file that is not there or cannot be read is left
out, with a note; whether a unit belongs to its skeleton unit is not known before its dwo_id is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...schemas.section import FormatError
from .debug_files import DebugFiles
from .image import ElfImage, open_elf
from .inputs import is_file

PACKAGE = ".dwp"


def open_package(image: ElfImage, debug: DebugFiles, notes: list[str]) -> ElfImage | None:
    """The package of a file; None if there is none."""
    if not debug.links or not image.path:
        return None
    named = [image.path, os.path.realpath(image.path), *(part.path for part in image.parts if part.is_whole)]
    places = [Path(f"{path}{PACKAGE}") for path in named]
    for folder in debug.folders:
        places += [Path(f"{os.fspath(folder)}{named[1]}{PACKAGE}"), Path(folder, f"{Path(named[1]).name}{PACKAGE}")]
    return _first_open(image, places, notes)


def open_dwo(image: ElfImage, name: bytes, comp_dir: bytes, debug: DebugFiles, notes: list[str]) -> ElfImage | None:
    """The .dwo file of a skeleton unit; None if there is none."""
    return _first_open(image, _places(image, os.fsdecode(name), os.fsdecode(comp_dir), debug), notes)


def _places(image: ElfImage, name: str, comp_dir: str, debug: DebugFiles) -> Iterator[Path]:
    """Where a .dwo file may be: where it was written, beside the file, and in the given folders."""
    whole = Path(comp_dir, name)
    if whole.is_absolute():
        yield whole
    files: Sequence[str] = [one for one in (image.path, image.debug_file) if one]
    besides = [Path(os.path.realpath(one)).parent for one in files]
    for folder in (*besides, *map(Path, debug.folders)):
        if not Path(name).is_absolute():
            yield folder / name
        yield folder / whole.name
    for one in debug.folders:
        yield Path(f"{os.fspath(one)}/{whole}")


def _first_open(image: ElfImage, places: Iterator[Path] | Sequence[Path], notes: list[str]) -> ElfImage | None:
    """The first file that is there and can be read."""
    for path in places:
        if not is_file(path):
            continue
        try:
            other = open_elf(path)
        except (OSError, FormatError) as error:
            notes.append(f"{path} cannot be read ({error}): not used")
            continue
        if other.byte_order == image.byte_order and other.is_elf:
            return other
        notes.append(f"{path} is no {image.byte_order}-endian ELF file: not used")
    return None
