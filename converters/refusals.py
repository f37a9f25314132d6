"""Refusals: what a target format cannot express. They are values, not exceptions, so that the rest is still converted.

Strategy: one enumeration of reasons, each with a sentence. A refusal is a function, a PC range and a reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..schemas.arguments import check_item
from ..schemas.data_classes import dataclass
from .arrays import distinct_values
from .columns import Columns, column_of, columns
from .findings import Worded

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Reason(Worded):
    """Why a PC range of a function is left out of the result."""

    NO_CFA = 1, "the row has no CFA rule"
    CFA_EXPRESSION = 2, "the CFA is a DWARF expression"
    CFA_REGISTER = 3, "the CFA is based on a register other than SP and FP"
    CFA_OFFSET = 4, "the CFA offset cannot be encoded"
    RA_UNDEFINED = 5, "the return address is undefined (outermost frame), which this format cannot mark"
    RA_RULE = 6, "this format cannot express the rule for the return address"
    FP_RULE = 7, "this format cannot express the rule for the frame pointer"
    SP_RULE = 8, "this format cannot express the rule for the stack pointer"
    FP_WITHOUT_RA = 9, "the frame pointer is saved but the return address is not"
    RA_SIGNED_WITH_PC = 10, "the return address is signed with the PC"
    RETURN_COLUMN = 11, "the return address column is not the ABI's"
    TOO_LARGE = 12, "the function is larger than 4 GiB"
    OVERLAP = 13, "these PCs belong to a function that starts earlier"
    REPETITION = 14, "this format cannot express the repeating block as a whole"
    SEGMENT = 15, "the function has a segment selector"
    RULE_LOST = (
        16,
        "the CFA rule ends between two rows, or a rule is architectural: no DW_CFA instruction does that",
    )
    AUGMENTATION = 17, "the CIE's augmentation is unknown: only the function's addresses could be read"
    NO_DIRECTIVE = 18, "no .cfi_ directive of this architecture can express the row"
    UNALIGNED_OFFSET = 19, "a register offset is not a multiple of the assembler's data alignment factor"
    UNALIGNED_ROW = 20, "a row's offset is not a multiple of the assembler's code alignment factor"
    FAR = 21, "too far from the other functions for 4-byte offsets"
    LARGE_COLUMN = 22, "the return address column is above 255"
    NULL_POINTER = 23, "the personality or LSDA is at address 0, which means that there is none"
    NO_SECTION = 24, "the function is in no section of the file"
    WIN_TYPE = 25, "the STACK WIN record is neither FrameTypeFPO nor FrameTypeFrameData: stack walkers ignore it"
    WIN_PROGRAM = (
        26,
        "the STACK WIN program fails: it lacks an operand, or uses a variable or a divisor without a value",
    )
    WIN_RESULT = 27, "the STACK WIN program does not store $eip and $esp"
    WIN_OPERATOR = 28, "DWARF expressions lack an operator of the STACK WIN program"
    WIN_LENGTH = 29, "an expression of the STACK WIN program is too long"
    WIN_CALLEE = 30, "the STACK WIN record needs the parameter size of the called function, which no rule can express"

    @property
    def is_loss(self) -> bool:
        """Whether the result lacks rules by which a caller could be found in the source. `--strict` fails on these."""
        return self not in _NOTHING_LOST


# An unwinder ends at an outermost frame, and at a row without a CFA, whether it finds these rows or no rows; PCs of an
# earlier function have the rows of that one; a function that is in no section has no code; and walkers ignore STACK WIN
# records of other types.
_NOTHING_LOST = (Reason.NO_CFA, Reason.RA_UNDEFINED, Reason.OVERLAP, Reason.NO_SECTION, Reason.WIN_TYPE)


@dataclass(frozen=True, slots=True)
class Refusal:
    """`function` is an index into the table; `start` and `end` (exclusive) are addresses."""

    function: int
    start: int
    end: int
    reason: Reason


@columns
class Refusals(Columns):
    """Refusals as columns."""

    function: NDArray[np.int64] = column_of("index", "of the function in the table")
    start: NDArray[np.uint64] = column_of("address", "of the first PC")
    end: NDArray[np.uint64] = column_of("address", "after the last PC")
    reason: NDArray[np.uint8] = column_of(Reason)

    def __getitem__(self, index: int) -> Refusal:
        """One refusal as an object."""
        index = check_item(index, len(self), "index")
        reason = Reason(int(self.reason[index]))
        return Refusal(int(self.function[index]), int(self.start[index]), int(self.end[index]), reason)


@columns
class RefusedRecords(Columns):
    """Records of a text that could not be read into a table, each with the PCs that lack a row for that reason."""

    line: NDArray[np.int64] = column_of("number", "of the line, from 1")
    start: NDArray[np.uint64] = column_of("address", "of the first PC")
    end: NDArray[np.uint64] = column_of("address", "after the last PC")
    reason: NDArray[np.uint8] = column_of(Reason)


@dataclass(frozen=True, slots=True)
class RefusedCount:
    """How often one reason occurred: PC ranges, and the bytes in them."""

    ranges: int
    bytes: int


def is_lossless(refused: Iterable[str]) -> bool:
    """Whether nothing is lost (`Reason.is_loss`), for the names of reasons."""
    return not any(Reason[name].is_loss for name in refused)


def count_reasons(refusals: Refusals | RefusedRecords) -> dict[str, RefusedCount]:
    """Count refusals by the name of their reason."""
    sizes = (refusals.end - refusals.start).astype(np.int64)
    found: dict[str, RefusedCount] = {}
    for reason in map(Reason, distinct_values(refusals.reason).tolist()):
        here = refusals.reason == reason
        found[reason.name] = RefusedCount(int(here.sum()), int(sizes[here].sum()))
    return found
