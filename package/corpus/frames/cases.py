"""Cases of `.eh_frame` and `.debug_frame`: sections of `draw_call_frames`, and those with one broken field."""

from __future__ import annotations

from typing import Any

from ...converters.arch.table import architecture_named, unwind_registers
from ...converters.table.model import Function
from ..case import NONE, Answer, Case, telling_pcs
from ..choices import Draw
from ..machines import machines_without
from ..rules import row_answer
from .call_frames import CallFrames, FrameSection, draw_call_frames
from .features import Feature

FIELDS = ("cfa", "ra", "fp")
# What a section alone does not tell: the bases of addresses, and the segment of a PC.
_LEFT_OUT = frozenset({Feature.BASED_ADDRESS, Feature.BASED_POINTER, Feature.SEGMENT, Feature.WIDE_SEGMENT})


def feature_name(feature: Feature) -> str:
    """As in `--without`."""
    return feature.name.lower().replace("_", "-")


FEATURES = {feature_name(one): one for one in Feature if one not in _LEFT_OUT}


def draw_frames(draw: Draw, kind: int, section: FrameSection, without: frozenset[str]) -> Case:
    """A valid section of a machine, and the row at each PC where a reader could err."""
    arch, order = machines_without(without)[kind]
    left_out = _LEFT_OUT | {FEATURES[name] for name in without if name in FEATURES}
    return case_of(draw_call_frames(draw, arch, section, order, left_out))


def case_of(frames: CallFrames) -> Case:
    """A section and its answers."""
    fp = unwind_registers(architecture_named(frames.architecture.name, frames.name)).fp
    limit = 1 << 8 * frames.address_size
    ranges = [(one.start, one.size, [one.start + row.offset for row in one.rows]) for one in frames.functions]
    answers: dict[int, Answer] = {}
    for pc in telling_pcs([one for one in ranges if one[1]], limit) or [frames.address]:
        function, row = frames.function_at(pc), frames.row_at(pc)
        answers[pc] = NONE if function is None or row is None else row_answer(row, function.return_column, fp)
    return Case(
        format=frames.name.removeprefix("."),
        version=0,
        architecture=frames.architecture,
        byte_order=frames.byte_order,
        section=frames.name,
        address=frames.address,
        data=frames.data,
        fields=FIELDS,
        answers=answers,
        functions=tuple(_described(one, fp) for one in frames.functions),
        features=frozenset(map(feature_name, frames.features)),
        layout=frames.layout,
    )


def _described(function: Function, fp: int) -> dict[str, Any]:
    rows = [
        {"offset": row.offset, **dict(zip(FIELDS, row_answer(row, function.return_column, fp), strict=True))}
        for row in function.rows
    ]
    return {
        "start": function.start,
        "size": function.size,
        "fde": function.origin,
        "return_column": function.return_column,
        "rows": rows,
    }
