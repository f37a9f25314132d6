"""What a source has and a table of it lacks, in sentences: for the warnings of reports.

Strategy: a table has rows only. Each sentence names what is left out, and how to keep it if there is a way.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ..schemas.section import ParseError, Section
from ..schemas.sframe import SFRAME_F

if TYPE_CHECKING:
    from ..converters.elf.image import ElfImage


def losses_of_sframe(section: Section, frame_pointer: bool = False) -> tuple[str, ...]:
    """What a table of an `.sframe` lacks. `frame_pointer`: the flag is written on request. Raises ParseError."""
    if not len(section):
        return ()
    from ..converters.sframe.section import further_words, sframe_columns

    columns, found = sframe_columns(section), []
    if columns.header["flags"] & SFRAME_F.FRAME_POINTER and not frame_pointer:
        found.append(f"the flag FRAME_POINTER of {section.name} is left out (--frame-pointer writes it)")
    if columns.auxiliary_header:
        found.append(f"the auxiliary header of {section.name} ({len(columns.auxiliary_header)} bytes) is left out")
    further = further_words(columns)
    if further:
        found.append(f"offsets after CFA, RA and FP in {further} FREs of {section.name} are left out")
    return tuple(found)


def losses_of_replaced(image: ElfImage, frame_pointer: bool) -> tuple[str, ...]:
    """As `losses_of_sframe`, for the sections that a file has and that will be replaced; malformed ones have none."""
    found: list[str] = []
    for header in image.named(".sframe"):
        with suppress(ParseError):
            found += losses_of_sframe(image.contents(header), frame_pointer)
    return tuple(found)
