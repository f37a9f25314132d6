"""Findings: faults in a section that do not prevent reading it, as columns, and sentences that summarize them.

Strategy: each kind of finding has its message text; each finding has a section offset and the wrong value, if any.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import numpy as np

from ..schemas.arguments import instance_of
from ..schemas.data_classes import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Worded(IntEnum):
    """An integer with message texts. A member is written `NAME = number, text, ...`."""

    words: tuple[str, ...]

    def __new__(cls, number: int, *words: str) -> Self:
        """Attach the texts to the integer."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.words = words
        return member

    @property
    def sentence(self) -> str:
        """The first text, for enumerations whose members have one each."""
        return self.words[0]


class Problem(Worded):
    """A kind of finding, with the texts for one finding and for several."""


P = TypeVar("P", bound=Problem)


@dataclass(frozen=True, slots=True, eq=False)
class Findings(Generic[P]):
    """One element per finding, in order of section offsets. `problem`: u8; `offset`: i64, the section offset; `value`:
    u64, the wrong address or offset, 0 if there is none."""

    kinds: type[P]
    problem: NDArray[np.uint8]
    offset: NDArray[np.int64]
    value: NDArray[np.uint64]

    def __len__(self) -> int:
        """The number of findings."""
        return len(self.problem)

    def of(self, problem: P) -> list[int]:
        """The section offsets of the findings of one kind. Raises TypeError for one that this section cannot have."""
        instance_of(self.kinds)(problem, "problem")
        return [int(offset) for offset in self.offset[self.problem == problem]]

    def sentences(self) -> tuple[str, ...]:
        """One sentence per kind of finding, with the count and the offset of the first."""
        found = []
        for problem in self.kinds:
            offsets = self.of(problem)
            if offsets:
                one, several = problem.words
                words = one if len(offsets) == 1 else several
                place = f"at {offsets[0]:#x}" if len(offsets) == 1 else f"first at {offsets[0]:#x}"
                found.append(f"{len(offsets):,} {words}, {place}")
        return tuple(found)


def findings(kinds: type[P], found: Sequence[tuple[P, NDArray[np.int64], NDArray[np.uint64] | None]]) -> Findings[P]:
    """Combine findings of several kinds: kind, offsets, and values if there are any."""
    problem = np.concatenate([np.zeros(0, np.uint8), *(np.full(len(at), kind, np.uint8) for kind, at, _ in found)])
    offset = np.concatenate([np.zeros(0, np.int64), *(at for _, at, _ in found)])
    values = (np.zeros(len(at), np.uint64) if value is None else value for _, at, value in found)
    value = np.concatenate([np.zeros(0, np.uint64), *values])
    order = np.lexsort((problem, offset))
    return Findings(kinds, problem[order], offset[order], value[order])
