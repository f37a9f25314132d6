"""Cases of `.debug_line`: the file, line and column at each PC, and sections with one broken field."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection
from typing import Any

from ...converters.arch.table import architecture_named
from ...schemas.data_classes import dataclass
from ...schemas.line import DW_LNS
from ...schemas.wire import DwarfFormat
from ..case import FAULTY, NONE, UNDECIDED, Answer, Case, WireField, telling_pcs
from ..choices import Draw
from ..faults import FaultKind, Values, break_field, given, past_the_end
from ..machines import machines_without
from ..wire_writer import WireWriter
from . import meaning
from .headers import HeaderWriter, whole_unit
from .instructions import ProgramWriter, write_sequence
from .meaning import LineProgram, LineSequence, Setting, draw_programs

RESERVED_LENGTHS = 0xFFFFFFF0  # from here on, a unit_length of 4 bytes is no length (DWARF5 7.4)
FIELDS = ("file", "line", "column")
FEATURES = (
    meaning.DWARF64,
    meaning.VLIW,
    meaning.SEVERAL_UNITS,
    meaning.SHORT_BASE,
    meaning.LONG_BASE,
    meaning.UNKNOWN_STANDARD,
    meaning.UNKNOWN_EXTENDED,
    meaning.SAME_ADDRESS,
    meaning.SET_INSIDE,
    meaning.DEFINE_FILE,
    meaning.PADDED,
    meaning.WIDE_COLUMN,
    meaning.UNSORTED,
    meaning.HEADER_PADDING,
    meaning.LINE_0,
    meaning.HIGH_ADDRESS,
    meaning.LINE_STRP,
    meaning.VENDOR,
)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A sequence and where it is."""

    unit: int
    index: int
    program: LineProgram
    sequence: LineSequence

    @property
    def start(self) -> int:
        return self.sequence.start

    @property
    def end(self) -> int:
        return self.sequence.start + self.program.size(self.sequence)

    def addresses(self) -> list[int]:
        """Of the rows."""
        return [self.program.address(self.sequence, row.operations) for row in self.sequence.rows]

    def answers(self) -> list[Answer]:
        """Of the rows."""
        return [(self.program.path(row.file), str(row.line), str(row.column)) for row in self.sequence.rows]

    def answer(self, pc: int) -> Answer:
        """Of the last row at or before a PC."""
        return self.answers()[bisect_right(self.addresses(), pc) - 1]

    def described(self) -> dict[str, Any]:
        """For the JSON file."""
        rows = [
            {"offset": address - self.start, **dict(zip(FIELDS, answer, strict=True))}
            for address, answer in zip(self.addresses(), self.answers(), strict=True)
        ]
        size = self.end - self.start
        return {"start": self.start, "size": size, "unit": self.unit, "sequence": self.index, "rows": rows}


def draw_debug_line(draw: Draw, kind: int, version: int, without: frozenset[str]) -> Case:
    """A valid section for a machine, and the source position at each PC where a reader could err."""
    arch, order = machines_without(without)[kind]
    setting = Setting(version, architecture_named(arch, ".debug_line"), order, without)
    programs = draw_programs(draw, setting)
    writer, strings, used = WireWriter(order), bytearray(), set()
    for number, program in enumerate(programs):
        header = HeaderWriter(setting, program, f"unit[{number}]", strings)
        header.write(draw)
        instructions = ProgramWriter(setting, program, f"unit[{number}]")
        for index in range(len(program.sequences)):
            write_sequence(draw, instructions, index)
        writer.put_all(whole_unit(setting, header, instructions.writer))
        used |= header.used | instructions.used
    placed = [
        _Placed(unit, index, program, sequence)
        for unit, program in enumerate(programs)
        for index, sequence in enumerate(program.sequences)
    ]
    return Case(
        format="debug_line",
        version=version,
        architecture=setting.architecture,
        byte_order=order,
        section=".debug_line",
        address=0,
        data=bytes(writer.data),
        fields=FIELDS,
        answers=_answers(placed, 1 << 8 * setting.architecture.address_size),
        functions=tuple(one.described() for one in placed),
        features=frozenset(used | _features(programs, placed, setting)),
        layout=tuple(writer.fields),
        other_sections=((".debug_line_str", bytes(strings), None),) if strings else (),
    )


def _answers(placed: list[_Placed], limit: int) -> dict[int, Answer]:
    ranges = [(one.start, one.end - one.start, one.addresses()) for one in placed]
    answers = {}
    for pc in telling_pcs(ranges, limit) or [0]:
        found = next((one for one in placed if one.start <= pc < one.end), None)
        answers[pc] = NONE if found is None else found.answer(pc)
    return answers


def _features(programs: list[LineProgram], placed: list[_Placed], setting: Setting) -> set[str]:
    """The features of what is described, however it is written."""
    rows = [row for one in placed for row in one.sequence.rows]
    starts = [one.start for one in placed]
    half = 1 << 8 * setting.architecture.address_size - 1
    has = {
        meaning.DWARF64: any(one.dwarf_format is DwarfFormat.DWARF64 for one in programs),
        meaning.VLIW: any(one.maximum_operations > 1 for one in programs),
        meaning.SEVERAL_UNITS: len(programs) > 1,
        meaning.SHORT_BASE: any(one.opcode_base < meaning.USUAL_BASE for one in programs),
        meaning.LONG_BASE: any(one.opcode_base > meaning.LAST_USUAL_BASE for one in programs),
        meaning.SAME_ADDRESS: any(len({*one.addresses()}) < len(one.addresses()) for one in placed),
        meaning.DEFINE_FILE: any(one.defined and one.sequences for one in programs),
        meaning.PADDED: any(one.padding for one in programs),
        meaning.WIDE_COLUMN: any(row.column >= meaning.WIDE for row in rows),
        meaning.UNSORTED: starts != sorted(starts),
        meaning.HEADER_PADDING: any(one.header_padding for one in programs),
        meaning.LINE_0: any(row.line == 0 for row in rows),
        meaning.HIGH_ADDRESS: any(one.end > half for one in placed),
    }
    return {name for name, is_there in has.items() if is_there}


# --- faults -------------------------------------------------------------------------------------------------------


def _with_code(values: Values) -> Values:
    """Only in units with sequences, because no answer depends on others."""

    def chosen(case: Case, field: WireField) -> list[int]:
        unit = _index("unit", field.name)
        return values(case, field) if any(one["unit"] == unit for one in case.functions) else []

    return chosen


def _if_it_divides(case: Case, field: WireField) -> list[int]:
    unit = _index("unit", field.name)
    return [0] * any(one["unit"] == unit and _divides(case, unit, one["sequence"]) for one in case.functions)


def _unit_lengths(case: Case, field: WireField) -> list[int]:
    return [*past_the_end(case, field), *([RESERVED_LENGTHS] if field.size == 4 else [])]


def _unknown_forms(_case: Case, field: WireField) -> list[int]:
    # One that takes more bytes than necessary is not a plain integer.
    return [0x7E] if field.size == 1 else []


def _in_last(values: Values) -> Values:
    """Only in the last instruction of a unit, which is DW_LNE_end_sequence."""

    def chosen(case: Case, field: WireField) -> list[int]:
        prefix = field.name[: field.name.index(".") + 1]
        *_, instruction = (
            one.name for one in case.layout if one.name.startswith(prefix) and ".instruction[" in one.name
        )
        is_last = instruction.rpartition(".")[0] == field.name.rpartition(".")[0]
        return values(case, field) if is_last and field.size == 1 else []

    return chosen


_FAULT_SINCE = {"maximum-operations": meaning.HAS_OPERATIONS, "form": meaning.HAS_FORMATS}
_FEATURE_SINCE = {
    meaning.VLIW: meaning.HAS_OPERATIONS,
    meaning.LINE_STRP: meaning.HAS_FORMATS,
    meaning.VENDOR: meaning.HAS_FORMATS,
}
_UNIT = r"unit\[\d+\]\."
FAULTS: dict[str, FaultKind] = {
    "unit-length": FaultKind(
        rf"{_UNIT}unit_length", _with_code(_unit_lengths), "past the end of the section, or reserved"
    ),
    "version": FaultKind(rf"{_UNIT}version", _with_code(given(0, 1, 6, 0xFFFF)), "no such version"),
    "header-length": FaultKind(rf"{_UNIT}header_length", _with_code(past_the_end), "past the end of the unit"),
    "minimum-length": FaultKind(
        rf"{_UNIT}minimum_instruction_length", _with_code(given(0)), "advances are multiplied by it"
    ),
    "line-range": FaultKind(rf"{_UNIT}line_range", _if_it_divides, "special opcodes divide by it"),
    "maximum-operations": FaultKind(
        rf"{_UNIT}maximum_operations_per_instruction", _with_code(given(0)), "advances divide by it"
    ),
    "opcode-base": FaultKind(rf"{_UNIT}opcode_base", _with_code(given(0)), "one more than the number of lengths"),
    "extended-length": FaultKind(rf"{_UNIT}.*\.length", _in_last(given(0x7F)), "past the end of the unit"),
    "end-sequence": FaultKind(rf"{_UNIT}.*\.opcode", _in_last(given(0x7F)), "the last sequence does not end"),
    "form": FaultKind(rf"{_UNIT}.*\.form", _with_code(_unknown_forms), "no such form"),
}


def features_of(version: int) -> tuple[str, ...]:
    """The features that a version can have."""
    return tuple(
        name
        for name in FEATURES
        if version >= _FEATURE_SINCE.get(name, 0)
        and not (name == meaning.DEFINE_FILE and version >= meaning.HAS_FORMATS)
    )


def faults_of(version: int) -> tuple[str, ...]:
    """The faults of fields that a version has."""
    return tuple(name for name in FAULTS if version >= _FAULT_SINCE.get(name, 0))


def break_debug_line(draw: Draw, case: Case, names: Collection[str]) -> Case | None:
    """The case with one field broken; None if no fault of these names is possible."""
    return break_field(draw, case, FAULTS, names, _decision)


def _decision(case: Case, name: str, field: WireField, pc: int) -> Answer | None:
    found = next((one for one in case.functions if 0 <= pc - one["start"] < one["size"]), None)
    unit = _index("unit", field.name)
    # Where the next unit is, follows from a unit's length.
    if found is None or found["unit"] < unit or (found["unit"] > unit and name != "unit-length"):
        return None
    if name == "minimum-length":
        # A reader may take all advances as 0.
        return UNDECIDED
    if ".sequence[" in field.name:
        return FAULTY if found["sequence"] == _index("sequence", field.name) else None
    if name == "line-range" and not _divides(case, unit, found["sequence"]):
        return UNDECIDED
    return FAULTY


def _divides(case: Case, unit: int, sequence: int) -> bool:
    """Whether an instruction of a sequence is a special opcode or DW_LNS_const_add_pc."""
    prefix = f"unit[{unit}].sequence[{sequence}]."
    opcode_base = next(one.value for one in case.layout if one.name == f"unit[{unit}].opcode_base")
    names = {one.name for one in case.layout if one.name.endswith(".escape")}
    opcodes = [one for one in case.layout if one.name.startswith(prefix) and one.name.endswith(".opcode")]
    return any(
        one.value >= opcode_base or one.value == DW_LNS.const_add_pc
        for one in opcodes
        if one.name.replace(".opcode", ".escape") not in names
    )


def _index(word: str, name: str) -> int:
    """The number in the part of a name, as in `unit[3].version`."""
    match = re.search(rf"\b{word}\[(\d+)\]", name)
    assert match is not None
    return int(match[1])
