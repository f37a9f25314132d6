"""The engine that overwrites existing sections of the same names, if they are large enough or can grow."""

from __future__ import annotations

from dataclasses import replace
from io import BufferedReader
from pathlib import Path

from ....schemas.elf.numbers import PF, SHT
from ....schemas.section import BuildError
from ...files import copy_range, size_of
from ..tables import MIN_PAGE, Segment, Tables
from .plan import LoadedSection, Part, Plan, align_up


def write_in_place(source: BufferedReader, out_path: Path, before: Tables, section: LoadedSection) -> Plan:
    """Copy the input, extended by whole pages if an existing section ends the last PT_LOAD and must grow.

    Raises BuildError if no existing section can be overwritten.
    """
    if set(section.segment_types) - {segment.type for segment in before.segments}:
        raise BuildError(section.name, None, "", "no program header refers to an existing section")
    found = [_place(before, part) for part in section.parts]
    # Only one section can end the last PT_LOAD.
    load, excess = max(((load, excess) for _, load, excess in found), key=lambda one: one[1])
    growth = align_up(excess, MIN_PAGE)  # whole pages: what follows in the file stays aligned
    with out_path.open("wb") as out:
        copy_range(source, out, 0, load.file_end)
        out.seek(growth, 1)
        copy_range(source, out, load.file_end, size_of(source) - load.file_end)
        out.truncate(size_of(source) + growth)
    return Plan(tuple(index for index, _, _ in found), _grow(before, load, growth))


def _place(before: Tables, part: Part) -> tuple[int, Segment, int]:
    """The index of an existing section for this part, its PT_LOAD, and by how many bytes that must grow."""
    for index in before.indices_of(part.name):
        old = before.sections[index]
        load = next((one for one in before.loads if one.holds(old)), None)
        if load is None or not old.is_loaded or old.type == SHT.NOBITS or old.address % part.alignment:
            continue
        ends = _ends(before, load, index)
        excess = max(0, part.size - (load.file_end - old.offset if ends else old.size))
        if load.flags & (PF.R | PF.W) == PF.R and (ends or not excess):
            return index, load, excess
    raise BuildError(part.name, None, "", "no existing section is large enough")


def _ends(before: Tables, load: Segment, index: int) -> bool:
    """Whether the section ends `load` and `load` is the last in memory and file, so that it can grow."""
    old = before.sections[index]
    others = (one for place, one in enumerate(before.sections) if place != index and one.is_loaded)
    return (
        load.memsz == load.filesz
        and all(one.vaddr <= load.vaddr for one in before.loads)
        and not any(one.filesz and one.offset >= load.file_end for one in before.segments)
        and not any(old.address <= one.address < load.vaddr + load.memsz for one in others)
        and not any(old.offset <= table < load.file_end for table in (before.phoff, before.shoff))
    )


def _grow(before: Tables, load: Segment, growth: int) -> Tables:
    """The tables with `growth` bytes inserted at the end of `load`."""
    grown = replace(load, filesz=load.filesz + growth, memsz=load.memsz + growth)
    return replace(
        before,
        shoff=before.shoff + (growth if before.shoff >= load.file_end else 0),
        segments=tuple(grown if one == load else one for one in before.segments),
        sections=tuple(
            replace(one, offset=one.offset + growth) if not one.is_loaded and one.offset >= load.file_end else one
            for one in before.sections
        ),
    )
