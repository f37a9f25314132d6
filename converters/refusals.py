"""What a target format cannot say: values, never exceptions, so that the rest is converted.

Strategy: one enumeration of reasons, each with its sentence; a refusal names a function and PCs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .findings import Worded

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Reason(Worded):
    """Why a PC range of a function is left out of the result."""

    NO_CFA = 1, "no rule for the CFA"
    CFA_EXPRESSION = 2, "the CFA is a DWARF expression"
    CFA_REGISTER = 3, "the CFA counts from a register other than SP and FP"
    CFA_OFFSET = 4, "the CFA offset has no encoding"
    RA_UNDEFINED = 5, "the return address is undefined: an outermost frame, which the format has no mark for"
    RA_RULE = 6, "the return address has a rule that the format cannot say"
    FP_RULE = 7, "the frame pointer has a rule that the format cannot say"
    SP_RULE = 8, "the stack pointer has a rule that the format cannot say"
    FP_WITHOUT_RA = 9, "the frame pointer is saved, the return address is not"
    RA_SIGNED_WITH_PC = 10, "the return address is signed with the PC"
    RETURN_COLUMN = 11, "the return address is in a column other than the ABI's"
    TOO_LARGE = 12, "the function is larger than 4 GiB"
    OVERLAP = 13, "the PCs belong to a function that starts before"
    REPETITION = 14, "a repetitive block that the format cannot say as a whole"
    SEGMENT = 15, "the function lies in a segment of its own"
    RULE_LOST = 16, "a rule, once given, is not given any more, which no instruction says"
    AUGMENTATION = 17, "of the function only its addresses are known, because its augmentation is not"
    NO_DIRECTIVE = 18, "something that no directive of this architecture says"
    UNALIGNED_OFFSET = 19, "a register's offset is no multiple of the assembler's data alignment factor"
    UNALIGNED_ROW = 20, "a row begins at no multiple of the assembler's code alignment factor"
    FAR = 21, "too far from the other functions for offsets of four bytes"
    LARGE_COLUMN = 22, "the return address is in a column above 255"
    NULL_POINTER = 23, "the personality or the LSDA is at address 0, which means that there is none"
    NO_SECTION = 24, "the function is in no section of the file"


@dataclass(frozen=True, slots=True)
class Refusal:
    """`function` is its index in the table; `start` and `end` (behind the last PC) are addresses."""

    function: int
    start: int
    end: int
    reason: Reason


@dataclass(frozen=True, slots=True, eq=False)
class Refusals:
    """Refusals as columns: `function` index, `start` and `end` addresses (u64), `reason` (u8)."""

    function: NDArray[np.int64]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    reason: NDArray[np.uint8]

    def __len__(self) -> int:
        """How many."""
        return len(self.function)

    def __getitem__(self, index: int) -> Refusal:
        """One refusal as an object."""
        reason = Reason(int(self.reason[index]))
        return Refusal(int(self.function[index]), int(self.start[index]), int(self.end[index]), reason)


@dataclass(frozen=True, slots=True)
class RefusedCount:
    """How often a reason was met: PC ranges, and the bytes in them."""

    ranges: int
    bytes: int


def count_reasons(refusals: Refusals) -> dict[str, RefusedCount]:
    """Refusals by the name of their reason."""
    sizes = (refusals.end - refusals.start).astype(np.int64)
    found: dict[str, RefusedCount] = {}
    for reason in Reason:
        here = refusals.reason == reason
        if here.any():
            found[reason.name] = RefusedCount(int(here.sum()), int(sizes[here].sum()))
    return found
