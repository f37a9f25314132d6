"""Sections of call frame information with one broken field: the faults, and which PCs a field decides."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from ...schemas.cfi import DEBUG_FRAME, DW_CFA, EH_FRAME
from ...schemas.wire import INITIAL_LENGTH_SIZES, DwarfFormat
from ..case import FAULTY, UNDECIDED, Answer, Case, WireField
from ..choices import Draw
from ..faults import FaultKind, Values, break_field, given

_PART = re.compile(r"\b(\w+)\[(\w+)\]")


def _if_it_decides(values: Values) -> Values:
    """Only in entries that some function depends on."""

    def chosen(case: Case, field: WireField) -> list[int]:
        return values(case, field) if any(one["size"] for one in _dependent(case, field)) else []

    return chosen


def _lengths(case: Case, _field: WireField) -> list[int]:
    return [len(case.data), len(case.data) + 1, len(case.data) + 255]


def _cie_pointers(case: Case, field: WireField) -> list[int]:
    """Out of the section: before it in .eh_frame, where pointers are relative, or after it. To the FDE itself."""
    fde = case.functions[_numbers(field)["fde"]]["fde"]
    itself = EH_FRAME if case.section == EH_FRAME.name else DEBUG_FRAME
    return [len(case.data) + 4, len(case.data) + 256, field.offset - fde if itself.relative else fde]


def _other_letter(case: Case, field: WireField) -> list[int]:
    """The augmentation with another first character."""
    found = b"q" + case.data[field.offset + 1 : field.offset + field.size]
    return [int.from_bytes(found, case.byte_order)] if field.size else []


def _augmentation_lengths(case: Case, field: WireField) -> list[int]:
    """The greatest number of one byte, if the entry ends before."""
    length = next(one for one in case.layout if one.name == field.name.replace("augmentation_length", "length"))
    rest = length.offset + length.size + length.value - field.offset - field.size
    return [0x7F] if field.size == 1 and rest < 0x7F else []


_ENTRY = r"(cie|fde)\[\d+\]\."
FAULTS: dict[str, FaultKind] = {
    "length": FaultKind(r"fde\[\d+\]\.length", _if_it_decides(_lengths), "past the end of the section"),
    "cie-pointer": FaultKind(r"fde\[\d+\]\.cie_pointer", _if_it_decides(_cie_pointers), "leads to no CIE"),
    "cie-version": FaultKind(r"cie\[\d+\]\.version", _if_it_decides(given(0, 2, 5, 255)), "no such version"),
    "augmentation": FaultKind(r"cie\[\d+\]\.augmentation", _if_it_decides(_other_letter), "no such augmentation"),
    "address-size": FaultKind(r"cie\[\d+\]\.address_size", _if_it_decides(given(0, 3, 255)), "no such size"),
    "address-encoding": FaultKind(
        r"cie\[\d+\]\.address_encoding", _if_it_decides(given(0x0D, 0x07)), "no such format of an encoded address"
    ),
    "augmentation-length": FaultKind(
        r"fde\[\d+\]\.augmentation_length", _if_it_decides(_augmentation_lengths), "past the end of the entry"
    ),
    "opcode": FaultKind(
        rf"{_ENTRY}(at\[\w+\]\.)?instruction\[\d+\]\.opcode", _if_it_decides(given(0x18, 0x3E)), "no such instruction"
    ),
    "operand": FaultKind(
        rf"{_ENTRY}last_instruction\.opcode",
        _if_it_decides(given(DW_CFA.def_cfa_offset, DW_CFA.def_cfa_register)),
        "its operand is past the end of the entry",
    ),
}


def break_frames(draw: Draw, case: Case, names: Collection[str]) -> Case | None:
    """The case with one field broken; None if no fault of these names is possible."""
    return break_field(draw, case, FAULTS, names, _decision)


def _numbers(field: WireField) -> dict[str, int]:
    """The numbers in the name of a field: `fde[1].at[0x10].instruction[0].opcode`."""
    return {name: int(number, 0) for name, number in _PART.findall(field.name)}


def _dependent(case: Case, field: WireField) -> list[dict[str, Any]]:
    """The functions whose FDE a field belongs to, or whose CIE."""
    numbers = _numbers(field)
    if "fde" in numbers:
        return [case.functions[numbers["fde"]]]
    length = next(one for one in case.layout if one.name == f"cie[{numbers['cie']}].length")
    return [one for one, cie in zip(case.functions, _cies(case), strict=True) if cie == _start(length)]


def _start(length: WireField) -> int:
    """The offset of an entry."""
    return length.offset + length.size - INITIAL_LENGTH_SIZES[DwarfFormat(length.size)]


def _cies(case: Case) -> list[int]:
    """The offset of the CIE of each function's FDE."""
    dialect = EH_FRAME if case.section == EH_FRAME.name else DEBUG_FRAME
    pointers = {one.name: one for one in case.layout if one.name.endswith(".cie_pointer")}
    found = [pointers[f"fde[{index}].cie_pointer"] for index in range(len(case.functions))]
    return [dialect.cie_offset(one.offset, one.value) for one in found]


def _decision(case: Case, name: str, field: WireField, pc: int) -> Answer | None:
    index, function = next(
        ((index, one) for index, one in enumerate(case.functions) if 0 <= pc - one["start"] < one["size"]), (-1, None)
    )
    if function is None:
        return None
    if name == "length":
        # It hides all entries after it. A reader may find a CIE there by the pointer of an FDE before.
        if function["fde"] >= _start(field):
            return FAULTY
        return UNDECIDED if _cies(case)[index] > field.offset else None
    if function not in _dependent(case, field):
        return None
    numbers = _numbers(field)
    location = numbers.get("at", 0)
    if name == "operand" and "fde" in numbers:
        location = function["rows"][-1]["offset"]
    # Instructions are executed up to the PC.
    return FAULTY if pc - function["start"] >= location else None
