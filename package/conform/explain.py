"""Which bytes of a case a reader takes otherwise: two experiments on the smallest failing case.

Strategy: (1) one byte at a time is changed to each of its values, until our own reader answers what the other one did:
it behaves as if that byte had another value. (2) One drawn number is changed at a time: where all right answers stay
as they were and the reader's change, it misunderstands the field whose encoding changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ..corpus.case import Case, WireField
from ..corpus.choices import Replayed
from ..corpus.formats import Options, format_named, make_case
from .judge import normal
from .reader import Reply

if TYPE_CHECKING:
    from .run import Examiner, Failure

_MOST_CHANGES = 64
# Of bytes that are tried with another value: a line number program has many.
_MOST_BYTES = 16


def name_bytes(failure: Failure, examiner: Examiner, options: Options) -> tuple[str, ...]:
    """A sentence for each field that explains a failure."""
    case = failure.case
    if case is None or failure.difference is None or not case.layout or case.fault is not None:
        return ()
    return (*_as_if(failure, case), *_misunderstood(failure, case, examiner, options))


def _as_if(failure: Failure, case: Case) -> Iterator[str]:
    from .own_reader import own_answers

    assert failure.difference is not None
    if failure.kind != "wrong":
        return
    place, pc = case.fields.index(failure.field), failure.difference.pc
    wanted = normal(failure.difference.found)
    for one in [one for one in case.layout if one.size == 1][:_MOST_BYTES]:
        for value in range(256):
            data = bytearray(case.data)
            if data[one.offset] == value:
                continue
            data[one.offset] = value
            (answer,) = own_answers(replace(case, data=bytes(data)), [pc])
            if len(answer) == len(case.fields) and normal(answer[place]) == wanted:
                yield f"{_place(case, one)} is read as if it were {value:#04x}"
                break


def _misunderstood(failure: Failure, case: Case, examiner: Examiner, options: Options) -> Iterator[str]:
    form = format_named(failure.format)
    before = _told(examiner, case)
    seen = set()
    for place, number in list(enumerate(failure.numbers))[:_MOST_CHANGES]:
        for other in (number + 1, number + 2):
            numbers = (*failure.numbers[:place], other, *failure.numbers[place + 1 :])
            replayed = Replayed(numbers)
            changed = make_case(form, failure.number, options, replayed)
            if tuple(replayed.numbers) != numbers or changed.answers != case.answers or changed.data == case.data:
                continue
            if _told(examiner, changed) != before:
                # The first field that differs is a length or a count if a width changed; the cause is a byte.
                fields = [
                    two
                    for one, two in zip(case.layout, changed.layout, strict=False)
                    if one.name == two.name and one.value != two.value and two.size == 1
                ]
                for one in fields:
                    if one.name not in seen:
                        seen.add(one.name)
                        yield f"{_place(changed, one)}: with this value, the answers change; they must not"


def _told(examiner: Examiner, case: Case) -> Reply:
    return examiner.ask(case)[1]


def _place(case: Case, one: WireField) -> str:
    return f"{one.name}, byte {one.offset:#x} of {case.section} ({case.data[one.offset]:#04x})"
