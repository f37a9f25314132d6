"""Sections of call frame information before and after an edit, record by record, and tables of some functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from unwindkit import UnwindTable
from unwindkit.converters.cfi.edit.edit import EditedCfi
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.converters.cfi.records import scan
from unwindkit.converters.elf.admission import section_of_image
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.table.model import table_of
from unwindkit.schemas.cfi import EH_FRAME, Dialect
from unwindkit.schemas.section import Section


def eh_frame_of(path: str | Path) -> tuple[Section, UnwindTable]:
    """The `.eh_frame` of a file with its table."""
    image = open_elf(path)
    section = section_of_image(image, ".eh_frame")
    assert image.architecture is not None
    return section, table_from_cfi(section, EH_FRAME, image.architecture)


def moved_to(frames: EditedCfi, address: int) -> Section:
    """The section after an edit, at an address."""
    return replace(frames.records.section, data=memoryview(frames.at(address)), address=address, file_offset=None)


def read(frames: EditedCfi, address: int | None = None) -> UnwindTable:
    """The table read from the section after an edit, at its own address or another."""
    records = frames.records
    section = moved_to(frames, frames.address if address is None else address)
    return table_from_cfi(section, records.dialect, records.architecture)


def entries(section: Section, dialect: Dialect = EH_FRAME) -> dict[int, bytes]:
    """The bytes of each entry by its offset."""
    found = scan(section, dialect)
    return {at: bytes(section.data[at:end]) for at, end in zip(found.offset.tolist(), found.end.tolist(), strict=True)}


def changed_entries(frames: EditedCfi) -> list[int]:
    """Offsets of entries that differ from those at the section's own address, after an edit that moves no entry."""
    before = entries(frames.records.section, frames.records.dialect)
    after = entries(moved_to(frames, frames.address), frames.records.dialect)
    return [at for at, data in before.items() if after[at] != data]


def all_of(tables: Iterable[UnwindTable]) -> list[object]:
    """Every function of some tables except for its record's offset, in order of addresses."""
    found = [replace(one, origin=0) for table in tables for one in table]
    return sorted(found, key=lambda one: (one.start, one.size))


def none_like(table: UnwindTable) -> UnwindTable:
    """A table of no functions."""
    return table_of(table.architecture, (), table.byte_order)


def starts_of(table: UnwindTable) -> list[int]:
    """The start addresses of its functions, as integers."""
    found: list[int] = table.functions.start.astype(np.uint64).tolist()
    return found
