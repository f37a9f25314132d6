"""Dump of the table of a symbol file or of assembler text, through the `.debug_frame` made from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...schemas.cfi import DEBUG_FRAME
from ...schemas.section import Section
from ..cfi.dump.readelf import cfi_text
from ..cfi.dump.to_json import cfi_json
from ..cfi.write import to_debug_frame
from ..elf.image import ElfImage
from ..refusals import Refusals
from ..table.lookup import ChosenPcs
from .read_elf import table_of_image


def table_text(image: ElfImage, interpreted: bool, at: ChosenPcs | None) -> Iterator[bytes]:
    """Yield the instructions or, if `interpreted`, the rows as text, and the ranges that it cannot express."""
    section, refusals = _as_debug_frame(image)
    yield from cfi_text(section, DEBUG_FRAME, str(image.machine), interpreted, at)
    for index in range(len(refusals)):
        refusal = refusals[index]
        yield f"{refusal.start:#x}..{refusal.end:#x}: not shown: {refusal.reason.sentence}\n".encode()


def table_json(
    image: ElfImage, interpreted: bool, at: ChosenPcs | None
) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """As `table_text`, for JSON."""
    section, _ = _as_debug_frame(image)
    return cfi_json(section, DEBUG_FRAME, str(image.machine), interpreted, at)


def _as_debug_frame(image: ElfImage) -> tuple[Section, Refusals]:
    data, refusals = to_debug_frame(table_of_image(image))
    name = image.sections[-1].name
    return Section(name, memoryview(data), 0, None, image.byte_order, image.address_size), refusals
