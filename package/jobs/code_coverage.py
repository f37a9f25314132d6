"""How much of a file's code a result covers, and how much the file's call frame information would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ..converters.arrays import group_numbers, ranks
from ..converters.elf.image import covered_bytes
from ..converters.elf.relocation import LaidOut
from ..converters.files.read_elf import DIALECTS, frame_sections, table_of_laid_out
from ..converters.refusals import Refusals
from ..converters.table.model import UnwindTable
from ..schemas.section import ParseError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ranges = tuple[NDArray[np.uint64], NDArray[np.uint64]]

NOT_CHOSEN = "another source was chosen"
IS_NOBITS = "it is NOBITS here; the stripped file has its bytes"


@dataclass(frozen=True, slots=True)
class UnreadSection:
    """A section of call frame information that would add `code_bytes` to the result, and why it was not read. If it
    cannot be read, `code_bytes` is 0."""

    reason: str
    code_bytes: int


@dataclass(frozen=True, kw_only=True)
class CodeCoverage:
    """`covered_bytes` of the `code_bytes`, those of the executable sections, are in the result; all call frame
    information of the file covers `described_bytes`. `unread` are, by name, its sections that were not read but cover
    more, or could not be read. `outside` counts functions of `.debug_frame` that are left out because they are in no
    executable section."""

    code_bytes: int
    covered_bytes: int
    described_bytes: int
    outside: int = 0
    unread: dict[str, UnreadSection]

    @property
    def coverage(self) -> float:
        """The share of the code that is covered, in percent; 100 if there is no code."""
        return 100 * self.covered_bytes / self.code_bytes if self.code_bytes else 100.0


class _CodeCoverage(TypedDict):
    code_bytes: int
    covered_bytes: int
    described_bytes: int
    unread: dict[str, UnreadSection]


def code_coverage(laid: LaidOut, source: str, read: UnwindTable, written: Ranges) -> _CodeCoverage:
    """The fields of CodeCoverage, for a result that has the ranges `written` (starts, ends); the functions of `read`
    are those of `source`: the name of a section, or ALL."""
    image = laid.image
    covered, code = covered_bytes(image, *written)
    described, chosen = [_ranges(read)], frame_sections(image, source)
    unread: dict[str, UnreadSection] = {}
    for name in DIALECTS:
        if name in chosen or not any(section.size for section in image.named(name)):
            continue
        try:
            ranges = _ranges(table_of_laid_out(laid, name))
        except ParseError as error:
            reason = IS_NOBITS if image.named(name)[0].is_nobits else str(error)
            unread[name] = UnreadSection(reason, 0)
            continue
        described.append(ranges)
        if more := _union(laid, [written, ranges]) - covered:
            unread[name] = UnreadSection(NOT_CHOSEN, more)
    return {
        "code_bytes": code,
        "covered_bytes": covered,
        "described_bytes": _union(laid, described),
        "unread": unread,
    }


def _ranges(table: UnwindTable) -> Ranges:
    return table.functions.start, table.functions.start + table.functions.size


def _union(laid: LaidOut, ranges: list[Ranges]) -> int:
    """The number of bytes of code that some of the ranges cover."""
    starts, ends = (np.concatenate(column) for column in zip(*ranges, strict=True))
    return covered_bytes(laid.image, starts, ends)[0]


def expressed_ranges(table: UnwindTable, refusals: Refusals) -> Ranges:
    """The PC ranges of the functions without what is refused of them."""
    start, end = _ranges(table)
    order = np.lexsort((refusals.start, refusals.function))
    cuts = np.bincount(refusals.function, minlength=len(table))
    # Each function has a range before each of its refusals, and one after the last.
    owner, rank = group_numbers(cuts + 1), ranks(cuts + 1)
    begins, stops = start[owner], end[owner]
    begins[rank > 0] = refusals.end[order]
    stops[rank < cuts[owner]] = refusals.start[order]
    return begins, np.maximum(begins, stops)
