"""`.sframe` sections with one broken field: the faults, and which PCs a field decides."""

from __future__ import annotations

from collections.abc import Collection

from ..schemas.derive import bit_position
from ..schemas.sframe import HEADER_SIZE, FdeInfo, FreInfo
from .case import FAULTY, UNDECIDED, Answer, Case, WireField
from .choices import Draw
from .faults import FaultKind, Values, break_field, given, past_the_end


def _past_the_auxiliary_header(case: Case, _field: WireField) -> list[int]:
    return [255] if len(case.data) < HEADER_SIZE + 255 else []


def _bits(cls: type, name: str, *values: int) -> Values:
    """Values of some bits, with the others of the byte as they are."""
    shift, mask = bit_position(cls, name)
    return lambda _case, field: [field.value & ~(mask << shift) | value << shift for value in values]


def _fre_types(case: Case, field: WireField) -> list[int]:
    # Readers need no FRE type where there is no FRE.
    return _bits(FdeInfo, "fretype", 3, 7, 15)(case, field) if case.functions[_index(field)]["rows"] else []


def _index(field: WireField) -> int:
    """The number of the FDE in the name of a field."""
    return int(field.name[field.name.index("[") + 1 : field.name.index("]")])


def _no_offsets(case: Case, field: WireField) -> list[int]:
    # Version 3 has FREs without offsets, for outermost frames.
    shift, mask = bit_position(FreInfo, "fre_offset_count")
    return [] if case.version == 3 else [field.value & ~(mask << shift)]


FAULTS: dict[str, FaultKind] = {
    "magic": FaultKind(r"header\.magic", given(0, 0xDEE3, 0xFFFF), "not 0xdee2"),
    "version": FaultKind(r"header\.version", given(0, 4, 255), "no such version"),
    "abi": FaultKind(r"header\.abi_arch", given(0, 5, 255), "no such ABI"),
    "auxhdr-len": FaultKind(r"header\.auxhdr_len", _past_the_auxiliary_header, "past the end of the section"),
    "num-fdes": FaultKind(r"header\.num_fdes", past_the_end, "more FDEs than the section has bytes"),
    "fdeoff": FaultKind(r"header\.fdeoff", past_the_end, "past the end of the section"),
    "freoff": FaultKind(r"header\.freoff", past_the_end, "past the end of the section"),
    "fre-len": FaultKind(r"header\.fre_len", past_the_end, "past the end of the section"),
    "start-fre-off": FaultKind(r"\w+\[\d+\]\.func_start_fre_off", past_the_end, "past the end of the FRE sub-section"),
    "num-fres": FaultKind(r"\w+\[\d+\]\.func_num_fres", past_the_end, "more FREs than the sub-section has bytes"),
    "fretype": FaultKind(r"\w+\[\d+\]\.func_info", _fre_types, "no such FRE type"),
    "offset-size": FaultKind(
        r"fde\[\d+\]\.fre\[\d+\]\.info", _bits(FreInfo, "fre_offset_size", 3), "no such size of offsets"
    ),
    "offset-count": FaultKind(r"fde\[\d+\]\.fre\[\d+\]\.info", _no_offsets, "no CFA offset"),
}


def break_sframe(draw: Draw, case: Case, names: Collection[str]) -> Case | None:
    """The case with one field broken; None if no fault of these names is possible."""
    return break_field(draw, case, FAULTS, names, _decision)


def _decision(case: Case, name: str, field: WireField, pc: int) -> Answer | None:
    if not _decides(case, field, pc):
        return None
    # A reader that stops at the right FRE does not see that there are too many.
    return UNDECIDED if name == "num-fres" else FAULTY


def _sharing(case: Case, index: int) -> list[int]:
    """The functions that have the same FREs as one, which is among them."""
    places = [one.value for one in case.layout if one.name.endswith(".func_start_fre_off")]
    return [other for other, place in enumerate(places) if place == places[index]]


def _decides(case: Case, field: WireField, pc: int) -> bool:
    """Whether the answer at a PC depends on the field: on those of the header always, on those of an FRE in its
    function from there on."""
    if field.name.startswith("header."):
        return True
    index = _index(field)
    is_shared = field.name.startswith("attribute[") or ".fre[" in field.name
    indices = _sharing(case, index) if is_shared else [index]
    covering = [one for one in map(case.functions.__getitem__, indices) if 0 <= pc - one["start"] < one["size"]]
    if not covering:
        return False
    (function,) = covering
    if ".fre[" not in field.name:
        return True
    number = int(field.name.split(".fre[")[1].split("]")[0])
    offset = pc - function["start"]
    offset = offset % function["repetition"] if function["repetition"] else offset
    return bool(offset >= function["rows"][number]["offset"])
