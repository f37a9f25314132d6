"""Cases of `.eh_frame` and `.debug_frame`: sections of `draw_call_frames`, and those with one broken field."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ...converters.arch.table import architecture_named, unwind_registers
from ...converters.table.model import Function
from ...schemas.cfi import DEBUG_FRAME, EH_FRAME
from ...schemas.wire import LENGTH_DWARF64, DwarfFormat
from ..case import FAULTY, NONE, Answer, Case, Fault, telling_pcs
from ..choices import Draw, integers, sampled_from
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
FAULTS = ("length", "cie-pointer")


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


def break_frames(draw: Draw, case: Case, names: Collection[str]) -> Case | None:
    """The case with a length that leads out of the section, or a CIE pointer that leads to no CIE."""
    possible = [name for name in names if name in FAULTS]
    covering = [one for one in case.functions if one["size"]]
    if not possible or not covering:
        return None
    name = draw(sampled_from(possible))
    function = covering[draw(integers(0, len(covering) - 1))]
    offset, size = function["fde"], 4
    if int.from_bytes(case.data[offset : offset + 4], case.byte_order) == LENGTH_DWARF64:
        offset, size = offset + 4, 8
    if name == "length":
        stored, reason = len(case.data) + draw(integers(0, 255)), "past the end of the section"
    else:
        offset += size
        size = (EH_FRAME if case.section == EH_FRAME.name else DEBUG_FRAME).size_of_id(DwarfFormat(size))
        # Relative to itself in .eh_frame: before the section; the offset of a CIE in .debug_frame: after it.
        stored, reason = len(case.data) + 4 * draw(integers(1, 64)), "leads out of the section"
    data = bytearray(case.data)
    data[offset : offset + size] = stored.to_bytes(size, case.byte_order)
    field = f"fde[{case.functions.index(function)}].{'length' if name == 'length' else 'cie_pointer'}"
    # A wrong length hides all entries after it, too.
    hidden = [one for one in case.functions if one is function or (name == "length" and one["fde"] > function["fde"])]
    answers = {
        pc: FAULTY if any(0 <= pc - one["start"] < one["size"] for one in hidden) else answer
        for pc, answer in case.answers.items()
    }
    fault = Fault(name, field, offset, size, stored, reason)
    return replace(case, data=bytes(data), answers=answers, fault=fault)
