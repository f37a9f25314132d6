"""Sections with one broken field: what no reader may follow.

Strategy: each format has a table of faults by name: the fields that can be broken, the values that break them, and why.
What a broken field decides is a function of the format: at those PCs a right reader reports an error; at others it may
answer as if nothing were wrong, or report an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from ..schemas.data_classes import dataclass
from .case import Answer, Case, Fault, WireField
from .choices import Draw, integers, sampled_from

Values = Callable[[Case, WireField], list[int]]
# What is right at a PC of a section with a broken field: FAULTY, UNDECIDED, or None for what was right before.
Decision = Callable[[Case, str, WireField, int], Answer | None]


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A fault: a pattern of the names of fields, the values that break such a field in a case, and why they do."""

    field: str
    values: Values
    reason: str


def given(*values: int) -> Values:
    """The same values for every field."""
    return lambda _case, _field: list(values)


def past_the_end(case: Case, field: WireField) -> list[int]:
    """Numbers greater than the section's size, as far as the field can hold them."""
    top = (1 << 8 * field.size) - 1
    return [value for value in (len(case.data) + 1, top // 2, top) if value > len(case.data)]


def break_field(
    draw: Draw, case: Case, kinds: Mapping[str, FaultKind], names: Collection[str], decision: Decision
) -> Case | None:
    """The case with one field broken; None if no fault of these names is possible."""
    possible = {name: found for name in names if name in kinds and (found := _places(case, kinds[name]))}
    if not possible:
        return None
    name = draw(sampled_from(list(possible)))
    field, values = possible[name][draw(integers(0, len(possible[name]) - 1))]
    stored = draw(sampled_from(values))
    data = bytearray(case.data)
    data[field.offset : field.offset + field.size] = stored.to_bytes(field.size, case.byte_order)
    fault = Fault(name, field.name, field.offset, field.size, stored, kinds[name].reason)
    answers = {pc: decision(case, name, field, pc) or answer for pc, answer in case.answers.items()}
    return replace(case, data=bytes(data), answers=answers, fault=fault)


def _places(case: Case, kind: FaultKind) -> list[tuple[WireField, list[int]]]:
    """The fields that can be broken so, and the values."""
    matches = re.compile(kind.field).fullmatch
    return [(one, values) for one in case.layout if matches(one.name) and (values := kind.values(case, one))]
