"""How much of a file's code a result covers, and how much the file's call frame information would."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ..converters.elf.image import covered_bytes
from ..converters.elf.relocation import LaidOut
from ..converters.files.code_frames import ranges_of
from ..converters.files.read_elf import DIALECTS, table_of_laid_out
from ..schemas.data_classes import dataclass
from ..schemas.section import ParseError

if TYPE_CHECKING:
    from ..converters.files.code_frames import Ranges

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
    more, or could not be read. `outside_code` counts functions that are left out because they are in no executable
    section: linkers leave such in `.debug_frame`."""

    code_bytes: int
    covered_bytes: int
    described_bytes: int
    outside_code: int = 0
    unread: dict[str, UnreadSection]

    @property
    def coverage(self) -> float:
        """The share of the code that is covered, in percent; 100 if there is no code."""
        return 100 * self.covered_bytes / self.code_bytes if self.code_bytes else 100.0


class CodeFigures(TypedDict):
    code_bytes: int
    covered_bytes: int
    described_bytes: int
    unread: dict[str, UnreadSection]


# Of a raw section.
NO_CODE: CodeFigures = {"code_bytes": 0, "covered_bytes": 0, "described_bytes": 0, "unread": {}}


def code_coverage(laid: LaidOut, read: tuple[str, ...], described: Ranges, written: Ranges) -> CodeFigures:
    """The fields of CodeCoverage, for a result that has the ranges `written` (starts, ends); `described` are those of
    the functions in the sections that were `read`."""
    image = laid.image
    covered, code = covered_bytes(image, *written)
    all_described = [described]
    unread: dict[str, UnreadSection] = {}
    for name in DIALECTS:
        if name in read or not any(section.size for section in image.named(name)):
            continue
        try:
            ranges = ranges_of(table_of_laid_out(laid, name))
        except ParseError as error:
            reason = IS_NOBITS if image.named(name)[0].is_nobits else str(error)
            unread[name] = UnreadSection(reason, 0)
            continue
        all_described.append(ranges)
        if more := _union(laid, [written, ranges]) - covered:
            unread[name] = UnreadSection(NOT_CHOSEN, more)
    return {
        "code_bytes": code,
        "covered_bytes": covered,
        "described_bytes": _union(laid, all_described),
        "unread": unread,
    }


def _union(laid: LaidOut, ranges: list[Ranges]) -> int:
    """The number of bytes of code that some of the ranges cover."""
    starts, ends = ranges[0] if len(ranges) == 1 else (np.concatenate(column) for column in zip(*ranges, strict=True))
    return covered_bytes(laid.image, starts, ends)[0]
