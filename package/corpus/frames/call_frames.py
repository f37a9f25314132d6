"""Valid `.eh_frame` and `.debug_frame` sections, drawn together with the functions that they describe.

Strategy: the meaning is drawn first: CIEs, functions and their rows. Then the entries are written, with instructions
that are drawn among those that realise the rows. What is expected of a reader is therefore never computed by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import field, replace
from functools import cache
from typing import Literal

from ...converters.arch.table import Architecture, architecture_named
from ...converters.rules import CfaKind, RuleKind
from ...converters.table.model import Function, FunctionFlag, Row, UnwindTable, table_of
from ...schemas.arguments import check_address
from ...schemas.cfi import DEBUG_FRAME, EH_FRAME, SPARC_EFFECTS
from ...schemas.data_classes import dataclass
from ...schemas.pointers import APPLICATION_MASK, DW_EH_PE, NO_BASES, PointerBases, store
from ...schemas.section import ByteOrder, Section
from ...schemas.wire import INITIAL_LENGTH_SIZES, LENGTH_DWARF64, DwarfFormat
from ..byte_stream import ByteStream, fits
from ..case import WireField
from ..choices import Draw, binary, integers, sampled_from
from .cies import CieMeaning, Places, Setting, cie_features, draw_cie, instruction_writer, row_context, write_cie
from .features import Feature
from .instructions import write_rows
from .regions import MAX_LSDAS, Region, regions
from .row_meaning import HIGH_REGISTERS, MAX_ROWS, draw_rows

FrameSection = Literal[".eh_frame", ".debug_frame"]
MAX_FUNCTIONS = 5


@dataclass(frozen=True, slots=True)
class CallFrames:
    """The bytes of a section and what they mean.

    `name` is `.eh_frame` or `.debug_frame`; `address` that of the section, 0 for `.debug_frame`; `bases` are those of
    DW_EH_PE_textrel and DW_EH_PE_datarel. `functions` are in the order of the FDEs, disjoint, each with its rows;
    `origin` is the section offset of its FDE. `features` are the constructs that the section contains. `layout` has
    the fields that cases of a corpus break.
    """

    architecture: Architecture
    byte_order: ByteOrder
    name: FrameSection
    address: int
    data: bytes
    bases: PointerBases
    functions: tuple[Function, ...]
    features: frozenset[Feature]
    layout: tuple[WireField, ...] = ()

    @property
    def address_size(self) -> int:
        """The size in bytes of an address of the file."""
        return self.architecture.address_size

    @property
    def section(self) -> Section:
        """The bytes as the section that readers of this package take."""
        return Section.of(self.name, self.data, self.address, self.byte_order, self.address_size)

    def table(self) -> UnwindTable:
        """The functions as a table."""
        return table_of(self.architecture, self.functions, self.byte_order, self.name)

    def function_at(self, pc: int) -> Function | None:
        """The function that covers a PC."""
        check_address(pc, "pc")
        return next((one for one in self.functions if one.start <= pc < one.start + one.size), None)

    def row_at(self, pc: int) -> Row | None:
        """The row in force at a PC; None where no function covers it."""
        found = self.function_at(pc)
        if found is None:
            return None
        return found.rows[bisect_right(found.rows, pc - found.start, key=lambda row: row.offset) - 1]

    def pcs(self) -> tuple[int, ...]:
        """The PCs where a reader could err by one: the first and last of every row, and those around a function."""
        found = set()
        for function in self.functions:
            starts = [function.start + row.offset for row in function.rows]
            found |= {pc + beside for pc in (*starts, function.start + function.size) for beside in (-1, 0)}
        return tuple(sorted(pc for pc in found if pc >= 0))


_FUNCTION_COUNTS = integers(0, MAX_FUNCTIONS)
_ROW_COUNTS = integers(1, MAX_ROWS)
# Below 64: whether an FDE has a CIE of its own, whether that is a copy; where there is a choice, the CIE.
_CIE_CHOICES = integers(0, 63)
_LAST_STEPS = sampled_from([1, 2, 16, 63, 64])
_GAPS = sampled_from([0, 0, 1, 16])
# Of an FDE: whether it is empty, has no LSDA, more augmentation data, or an LSDA at address 0.
_MARKS = sampled_from([0, 0, 0, 0, 0, 1, 2, 2, 4, 8, 8])
_EMPTY, _NO_LSDA, _EXTRA, _LSDA_AT_0 = 1, 2, 4, 8
_EXTRA_DATA = binary(min_size=1, max_size=5)
_LSDAS = integers(0, MAX_LSDAS - 1)
_SEGMENTS = integers(0, 255)
# How entries are padded with DW_CFA_nop: to which multiple of bytes, and then by how many.
_ALIGNMENTS = sampled_from([(4, 0), (8, 0), (1, 0), (8, 8), (1, 3)])
_TERMINATORS = sampled_from([0, 1, 1, 3])
_ROTATIONS = integers(0, MAX_FUNCTIONS - 1)
_LATER = integers(0, 3)


@dataclass(slots=True)
class _Layout:
    """Entries as they are placed. `cies` have their offsets, None before they are placed; `pointers` are the offsets of
    the CIE pointers to be written, each with its CIE."""

    setting: Setting
    alignment: tuple[int, int]
    data: bytearray = field(default_factory=bytearray)
    cies: list[tuple[CieMeaning, int | None]] = field(default_factory=list)
    pointers: list[tuple[int, int]] = field(default_factory=list)
    used: set[Feature] = field(default_factory=set)
    fields: list[WireField] = field(default_factory=list)

    def begin(self, cie: CieMeaning, entry_id: int) -> ByteStream:
        """The stream of a new entry, after its id."""
        order, setting = self.setting.byte_order, self.setting
        stream = ByteStream(order, cie.address_size, setting.region.section + len(self.data), cie.padding)
        stream.data += bytes(INITIAL_LENGTH_SIZES[cie.dwarf_format])
        stream.put_integer(entry_id, setting.dialect.size_of_id(cie.dwarf_format))
        return stream

    def end(self, stream: ByteStream, cie: CieMeaning, name: str, places: Places) -> None:
        """Pad an entry, give it its length and append it with its fields. Zero bytes are DW_CFA_nop."""
        multiple, more = self.alignment
        if padding := -len(stream.data) % multiple + more:
            stream.data += bytes(padding)
            places["last_instruction.opcode"] = len(stream.data) - 1, 1
        header = ByteStream(self.setting.byte_order, cie.address_size)
        size = INITIAL_LENGTH_SIZES[cie.dwarf_format]
        if cie.dwarf_format is DwarfFormat.DWARF64:
            header.put_integer(LENGTH_DWARF64, 4)
        header.put_integer(len(stream.data) - size, cie.dwarf_format)
        stream.data[:size] = header.data
        places["length"] = size - cie.dwarf_format, cie.dwarf_format
        start, order = len(self.data), self.setting.byte_order
        self.data += stream.data
        self.fields += [
            WireField(f"{name}.{field}", start + at, width, int.from_bytes(stream.data[at : at + width], order))
            for field, (at, width) in places.items()
        ]

    def set_pointers(self) -> None:
        """Write the CIE pointers of all FDEs; every CIE has been placed."""
        for number, (offset, index) in enumerate(self.pointers):
            cie, place = self.cies[index]
            assert place is not None
            size = self.setting.dialect.size_of_id(cie.dwarf_format)
            pointer = offset - place if self.setting.dialect.relative else place
            self.fields.append(WireField(f"fde[{number}].cie_pointer", offset, size, pointer))
            self.data[offset : offset + size] = pointer.to_bytes(size, self.setting.byte_order)


def _place_cie(draw: Draw, layout: _Layout, index: int) -> None:
    cie, _ = layout.cies[index]
    layout.cies[index] = cie, len(layout.data)
    layout.used |= cie_features(layout.setting, cie)
    stream = layout.begin(cie, layout.setting.dialect.cie_ids[cie.dwarf_format])
    places = write_cie(draw, layout.setting, cie, stream, layout.used)
    layout.end(stream, cie, f"cie[{index}]", places)


def _choose_cie(draw: Draw, layout: _Layout) -> int:
    """The index of the CIE of the next FDE: one that there is, a copy of one, or a new one."""
    choice = draw(_CIE_CHOICES)
    if layout.cies and choice < 40:
        return choice % len(layout.cies)
    copied = layout.cies[choice % len(layout.cies)][0] if layout.cies and choice < 46 else None
    layout.cies.append((draw_cie(draw, layout.setting) if copied is None else copied, None))
    index = len(layout.cies) - 1
    may_follow = layout.setting.dialect is DEBUG_FRAME and Feature.CIE_AFTER_FDE not in layout.setting.without
    if may_follow and draw(_LATER) == 3:
        layout.used.add(Feature.CIE_AFTER_FDE)
    else:
        _place_cie(draw, layout, index)
    return index


def _draw_function(draw: Draw, layout: _Layout, cie: CieMeaning, start: int) -> Function:
    """The meaning of an FDE."""
    setting, marks = layout.setting, draw(_MARKS)
    is_empty = marks == _EMPTY and Feature.EMPTY_FUNCTION not in setting.without
    count = 1 if is_empty else draw(_ROW_COUNTS)
    context = row_context(setting, cie)
    rows = draw_rows(draw, context, cie.row, count, cie.code_factor, is_short=setting.region.is_short)
    lsda = _draw_lsda(draw, setting, cie, marks)
    return Function(
        start=start,
        size=0 if is_empty else rows[-1].offset + draw(_LAST_STEPS),
        rows=tuple(rows),
        segment=draw(_SEGMENTS) if cie.segment_size else 0,
        return_column=cie.return_column,
        flags=cie.flags | (FunctionFlag(0) if lsda is None else FunctionFlag.HAS_LSDA),
        personality_encoding=cie.personality_encoding,
        personality=cie.personality,
        lsda=lsda or 0,
    )


def _draw_lsda(draw: Draw, setting: Setting, cie: CieMeaning, marks: int) -> int | None:
    """The address of the LSDA. Address 0 has to be relative: an absolute 0 is no LSDA."""
    if cie.lsda_encoding == DW_EH_PE.omit:
        return None
    if marks == _NO_LSDA and Feature.NO_LSDA not in setting.without:
        return None
    if marks == _LSDA_AT_0 and cie.lsda_encoding & APPLICATION_MASK == DW_EH_PE.pcrel:
        stored = [
            store(0, cie.lsda_encoding, place, NO_BASES, cie.address_size)
            for place in (setting.region.section, setting.region.section + 0x8000)
        ]
        if setting.region.section and all(fits(value, cie.lsda_encoding, cie.address_size) for value in stored):
            return 0
    return setting.region.others + draw(_LSDAS)


def _place_fde(draw: Draw, layout: _Layout, index: int, function: Function) -> Function:
    """Append an FDE. Returns the function with its origin, and with its rows as they follow from the CIE's."""
    setting, origin, (cie, _) = layout.setting, len(layout.data), layout.cies[index]
    stream = layout.begin(cie, 0)
    name, places = f"fde[{len(layout.pointers)}]", Places()
    layout.pointers.append((origin + INITIAL_LENGTH_SIZES[cie.dwarf_format], index))
    if cie.segment_size:
        stream.put_integer(function.segment, cie.segment_size)
    stream.put_pointer(function.start, cie.address_encoding, setting.region.bases)
    stream.put_format(function.size, cie.address_encoding)
    if cie.is_augmented:
        data = stream.begin_block()
        _write_lsda(layout, cie, function, data)
        if draw(_MARKS) == _EXTRA and Feature.EXTRA_AUGMENTATION_DATA not in setting.without:
            layout.used.add(Feature.EXTRA_AUGMENTATION_DATA)
            data.data += draw(_EXTRA_DATA)
        places["augmentation_length"] = len(stream.data), 1 + cie.padding
        stream.put_block(bytes(data.data))
    writer = instruction_writer(setting, cie, stream, layout.used, cie.row)
    write_rows(draw, writer, function.rows, function.start)
    for index, (at, location) in enumerate(writer.places):
        places[f"at[{location:#x}].instruction[{index}].opcode"] = at, 1
    layout.end(stream, cie, name, places)
    return replace(function, origin=origin)


def _write_lsda(layout: _Layout, cie: CieMeaning, function: Function, data: ByteStream) -> None:
    if cie.lsda_encoding == DW_EH_PE.omit:
        return
    if function.flags & FunctionFlag.HAS_LSDA:
        bases = replace(layout.setting.region.bases, function=function.start)
        data.put_pointer(function.lsda, cie.lsda_encoding, bases)
        return
    layout.used.add(Feature.NO_LSDA)
    if cie.lsda_encoding & APPLICATION_MASK == DW_EH_PE.aligned:
        data.data += bytes(-data.here % cie.address_size)
    data.put_format(0, cie.lsda_encoding)


def _meaning_features(
    functions: Collection[Function], cies: Collection[CieMeaning], architecture: Architecture
) -> set[Feature]:
    """The features of what is described, however it is written."""
    half = 1 << 8 * architecture.address_size - 1
    found = {Feature.EMPTY_FUNCTION for one in functions if not one.size}
    found |= {Feature.HIGH_ADDRESS for one in functions if one.start + one.size > half}
    found |= {Feature.NO_CFA for one in functions for row in one.rows if row.cfa.kind is CfaKind.NONE}
    rows = [*(row for one in functions for row in one.rows), *(cie.row for cie in cies)]
    usual = (architecture.stack_pointer or 0, 1 if architecture.frame_pointer is None else architecture.frame_pointer)
    if any(row.cfa.kind is CfaKind.REGISTER and row.cfa.register not in usual for row in rows):
        found.add(Feature.OTHER_CFA_REGISTER)
    named = {number for row in rows for number in _registers(row)} | {cie.return_column for cie in cies}
    is_high = max(named - {architecture.return_address}, default=0) >= min(HIGH_REGISTERS)
    return found | ({Feature.HIGH_REGISTER} if is_high else set())


def _registers(row: Row) -> Iterator[int]:
    """The registers that a row names."""
    yield row.cfa.register
    for rule in row.registers:
        yield rule.register
        if rule.kind is RuleKind.REGISTER:
            yield int(rule.value)


@cache
def _lacking(architecture: Architecture, section: FrameSection) -> frozenset[Feature]:
    """The features that a machine or a section does not have."""
    found = set()
    if not architecture.signs_return_addresses:
        found |= {Feature.NEGATE_RA_STATE, Feature.NEGATE_RA_STATE_WITH_PC, Feature.PAUTH_B_KEY, Feature.MEMORY_TAGGING}
    if architecture.instruction_effects != SPARC_EFFECTS:
        found.add(Feature.WINDOW_SAVE)
    if section == ".debug_frame":
        # It is not loaded, so no address is relative to it.
        found |= {Feature.BASED_ADDRESS, Feature.BASED_POINTER, Feature.TERMINATOR}
    else:
        found.add(Feature.CIE_AFTER_FDE)
    return frozenset(found)


def draw_call_frames(
    draw: Draw,
    arch: str,
    section: FrameSection,
    byte_order: ByteOrder | None,
    without: frozenset[Feature],
    region: Region | None = None,
) -> CallFrames:
    """A section; `byte_order` None is the default of the architecture. `region` says where it and its code are."""
    architecture = architecture_named(arch, section)
    dialect = EH_FRAME if section == EH_FRAME.name else DEBUG_FRAME
    if region is None:
        has_high = Feature.HIGH_ADDRESS not in without
        region = draw(regions(8 * architecture.address_size, is_loaded=dialect is EH_FRAME, has_high=has_high))
    left_out = without | _lacking(architecture, section)
    setting = Setting(architecture, dialect, byte_order or architecture.byte_order, region, left_out)
    layout = _Layout(setting, draw(_ALIGNMENTS))
    functions = _place_functions(draw, layout)
    if dialect is EH_FRAME and Feature.TERMINATOR not in left_out and (count := draw(_TERMINATORS)):
        layout.data += bytes(4 * count)
        layout.used.add(Feature.TERMINATOR)
    return CallFrames(
        architecture=architecture,
        byte_order=setting.byte_order,
        name=section,
        address=region.section,
        data=bytes(layout.data),
        bases=region.bases,
        functions=functions,
        features=frozenset(layout.used | _meaning_features(functions, [cie for cie, _ in layout.cies], architecture)),
        layout=tuple(sorted(layout.fields, key=lambda one: one.offset)),
    )


def _place_functions(draw: Draw, layout: _Layout) -> tuple[Function, ...]:
    """All entries but the terminators. The FDEs are in the order of their functions, or rotated."""
    count = draw(_FUNCTION_COUNTS)
    drawn, start = [], layout.setting.region.code
    for _ in range(count):
        index = _choose_cie(draw, layout)
        function = _draw_function(draw, layout, layout.cies[index][0], start)
        start += function.size + draw(_GAPS)
        drawn.append((index, function))
    if count > 1 and (rotation := draw(_ROTATIONS) % count):
        drawn = drawn[rotation:] + drawn[:rotation]
    placed = tuple(_place_fde(draw, layout, index, function) for index, function in drawn)
    for index, (_, place) in enumerate(layout.cies):
        if place is None:
            _place_cie(draw, layout, index)
    layout.set_pointers()
    return placed
