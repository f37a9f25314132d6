"""What is wrong with a reader's answers for a case."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..corpus.case import ERROR, FAULTY, NO_ROW, NONE, UNDECIDED, Answer, Case
from .reader import UNKNOWN, Reply

# What a difference is about where no field is.
WHOLE = "row"


class Difference(NamedTuple):
    """`field`: the part of the answer, `row` for all of it; `kind`: what is wrong with it."""

    field: str
    kind: str
    pc: int
    expected: str
    found: str

    @property
    def key(self) -> tuple[str, str]:
        """Differences of one key are counted together."""
        return self.field, self.kind


_ZERO_OFFSET = re.compile(r"^(r\d+)$")


def differences(case: Case, pcs: tuple[int, ...], reply: Reply) -> Iterator[Difference]:
    """All differences of a reply from the answers of a case.

    Where the fault decides, an error or no row is right. Elsewhere in a faulty section an error is right, too.
    """
    if reply.failure:
        yield Difference(WHOLE, reply.failure, pcs[0] if pcs else 0, "an answer", reply.failure)
        return
    for pc, found in zip(pcs, reply.answers, strict=True):
        expected = case.answers[pc]
        is_error = found[0] == ERROR
        if expected == UNDECIDED:
            continue
        if expected == FAULTY:
            if not is_error and found != NONE:
                kind = f"answered in spite of {case.fault.name}" if case.fault else "answered"
                yield Difference(WHOLE, kind, pc, ERROR, " ".join(found))
        elif is_error:
            if case.fault is None:
                yield Difference(WHOLE, "rejected", pc, " ".join(expected), " ".join(found))
        elif (expected == NONE) != (found == NONE):
            if found == NONE and case.fault is not None:
                continue
            kind = "missing" if found == NONE else "where there is none"
            yield Difference(WHOLE, kind, pc, " ".join(expected), " ".join(found))
        elif expected != NONE:
            for field, one, other in zip(case.fields, expected, found, strict=True):
                if other != UNKNOWN and normal(one) != normal(other):
                    yield Difference(field, "wrong", pc, one, other)


def normal(rule: str) -> str:
    """A rule in the spelling of the corpus: `r3` is r3+0."""
    return _ZERO_OFFSET.sub(r"\1+0", rule)


def is_no_row(answer: Answer) -> bool:
    """Whether an answer says that nothing covers the PC."""
    return answer[0] == NO_ROW
