"""`.sframe` sections with one broken field: what no reader may follow.

Strategy: a table of faults by name: the field that changes, the values that break it, and which PCs it decides. At
those a right reader reports an error; at others it may answer as if nothing were wrong, or report an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ..schemas.data_classes import dataclass
from ..schemas.derive import bit_position
from ..schemas.sframe import HEADER_SIZE, FdeInfo, FreInfo
from .case import FAULTY, UNDECIDED, Case, Fault, WireField
from .choices import Draw, integers, sampled_from

Values = Callable[[Case, WireField], list[int]]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A fault: the end of the field's name, the values that break it in a case, and why they do."""

    field: str
    values: Values
    reason: str


def _given(*values: int) -> Values:
    return lambda _case, _field: list(values)


def _past_the_end(case: Case, field: WireField) -> list[int]:
    """Numbers greater than the section's size, as far as the field can hold them."""
    top = (1 << 8 * field.size) - 1
    return [value for value in (len(case.data) + 1, top // 2, top) if value > len(case.data)]


def _past_the_auxiliary_header(case: Case, _field: WireField) -> list[int]:
    return [255] if len(case.data) < HEADER_SIZE + 255 else []


def _bits(cls: type, name: str, *values: int) -> Values:
    """Values of some bits, with the others of the byte as they are."""
    shift, mask = bit_position(cls, name)
    return lambda _case, field: [field.value & ~(mask << shift) | value << shift for value in values]


def _no_offsets(case: Case, field: WireField) -> list[int]:
    # Version 3 has FREs without offsets, for outermost frames.
    shift, mask = bit_position(FreInfo, "fre_offset_count")
    return [] if case.version == 3 else [field.value & ~(mask << shift)]


FAULTS: dict[str, _Kind] = {
    "magic": _Kind("header.magic", _given(0, 0xDEE3, 0xFFFF), "not 0xdee2"),
    "version": _Kind("header.version", _given(0, 4, 255), "no such version"),
    "abi": _Kind("header.abi_arch", _given(0, 5, 255), "no such ABI"),
    "auxhdr-len": _Kind("header.auxhdr_len", _past_the_auxiliary_header, "past the end of the section"),
    "num-fdes": _Kind("header.num_fdes", _past_the_end, "more FDEs than the section has bytes"),
    "fdeoff": _Kind("header.fdeoff", _past_the_end, "past the end of the section"),
    "freoff": _Kind("header.freoff", _past_the_end, "past the end of the section"),
    "fre-len": _Kind("header.fre_len", _past_the_end, "past the end of the section"),
    "start-fre-off": _Kind("func_start_fre_off", _past_the_end, "past the end of the FRE sub-section"),
    "num-fres": _Kind("func_num_fres", _past_the_end, "more FREs than the sub-section has bytes"),
    "fretype": _Kind("func_info", _bits(FdeInfo, "fretype", 3, 7, 15), "no such FRE type"),
    "offset-size": _Kind("info", _bits(FreInfo, "fre_offset_size", 3), "no such size of offsets"),
    "offset-count": _Kind("info", _no_offsets, "no CFA offset"),
}
TRUNCATED = "truncated"


def break_sframe(draw: Draw, case: Case, names: Collection[str]) -> Case | None:
    """The case with one field broken; None if no fault of these names is possible."""
    possible = {name: found for name in names if name in FAULTS and (found := _places(case, FAULTS[name]))}
    if not possible:
        return None
    name = draw(sampled_from(list(possible)))
    field, values = possible[name][draw(integers(0, len(possible[name]) - 1))]
    stored = draw(sampled_from(values))
    data = bytearray(case.data)
    data[field.offset : field.offset + field.size] = stored.to_bytes(field.size, case.byte_order)
    fault = Fault(name, field.name, field.offset, field.size, stored, FAULTS[name].reason)
    # A reader that stops at the right FRE does not see that there are too many.
    wrong = UNDECIDED if name == "num-fres" else FAULTY
    answers = {pc: wrong if _decides(case, field, pc) else answer for pc, answer in case.answers.items()}
    return replace(case, data=bytes(data), answers=answers, fault=fault)


def _places(case: Case, kind: _Kind) -> list[tuple[WireField, list[int]]]:
    """The fields that can be broken so, and the values."""
    whole = kind.field.startswith("header.")
    fields = [one for one in case.layout if one.name == kind.field or (not whole and _is_part(one.name, kind.field))]
    return [(field, values) for field in fields if (values := kind.values(case, field))]


def _is_part(name: str, field: str) -> bool:
    is_fre = ".fre[" in name
    return name.endswith(f".{field}") and is_fre == (field == "info")


def _decides(case: Case, field: WireField, pc: int) -> bool:
    """Whether the answer at a PC depends on the field: on those of the header always, on those of an FRE in its
    function from there on."""
    if field.name.startswith("header."):
        return True
    function = case.functions[int(field.name[field.name.index("[") + 1 : field.name.index("]")])]
    if not 0 <= pc - function["start"] < function["size"]:
        return False
    if ".fre[" not in field.name:
        return True
    number = int(field.name.split(".fre[")[1].split("]")[0])
    offset = pc - function["start"]
    offset = offset % function["repetition"] if function["repetition"] else offset
    return bool(offset >= function["rows"][number]["offset"])
