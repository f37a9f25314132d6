"""`.debug_macinfo` and `.debug_macro` as columns: read and written (DWARF4 6.3, DWARF5 6.3).

Strategy: a kernel finds units and entries, using the schema's tables of opcodes. Texts are not copied: a column has
their offsets in the section's bytes. The operands of opcodes that only a unit's header describes stay as bytes.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_index, check_indices, checked, instance_of, one_of
from ...schemas.data_classes import dataclass
from ...schemas.derive import bit_position
from ...schemas.macros import (
    END,
    MACRO_OPERAND_KINDS,
    MACRO_SECTIONS,
    VERSIONS,
    MacroFlags,
    MacroOperand,
    standard_operands,
)
from ...schemas.section import BuildError, ByteOrder, Section, order_code
from ...schemas.wire import DwarfFormat
from ..bulk_text import Pool
from ..kernels import engine, views
from ..kernels.calls import form_storages, reader_of, refuse, storage_of
from ..kernels.shared.protocol import Storage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U8 = NDArray[np.uint8]
    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]

_OPCODES = 256
_MAX_OPERANDS = 2
_LEB_BYTES = 10
_check_flag = one_of(*(one.name for one in fields(MacroFlags)))


@dataclass(frozen=True, slots=True, eq=False)
class Macros:
    """Macro information by unit.

    Units: `unit_offset` i64, the section offset; in `.debug_macro`, `version` u16, `flags` u8 (`MacroFlags`) and
    `line_offset` u64; `body` i64, the section offset of the first entry; unit u has the entries first[u] up to
    first[u + 1] (i64). Entries: `offset` i64, the section offset; `opcode` u8; `line` u64; `value` u64, any other
    number; and `text_size` bytes of `text` (u8) at `text_start` (i64): the text, or all operands of an opcode that the
    unit's header describes.
    """

    name: str
    byte_order: ByteOrder
    unit_offset: I64
    version: NDArray[np.uint16]
    flags: U8
    line_offset: U64
    body: I64
    first: I64
    offset: I64
    opcode: U8
    line: U64
    value: U64
    text: U8
    text_start: I64
    text_size: I64

    def __len__(self) -> int:
        """The number of entries."""
        return len(self.opcode)

    @property
    def has_headers(self) -> bool:
        """Whether units have headers, as in `.debug_macro`."""
        return MACRO_SECTIONS[self.name]

    def unit_of(self, entries: I64) -> I64:
        """The units of entries."""
        entries = check_indices(entries, len(self), "entries")
        return np.searchsorted(self.first, entries, side="right") - 1

    def flag(self, name: str) -> NDArray[np.bool_]:
        """One flag, by unit."""
        _check_flag(name, "name")
        shift, mask = bit_position(MacroFlags, name)
        return (self.flags >> np.uint8(shift) & np.uint8(mask)).astype(np.bool_)

    @property
    def offset_size(self) -> I64:
        """The size of a section offset in bytes, by unit."""
        return np.where(self.flag("offset_size"), 8, 4).astype(np.int64)

    def has_operand(self, entries: I64, *operands: MacroOperand) -> NDArray[np.bool_]:
        """Whether entries have one of these operands."""
        for operand in operands:
            instance_of(MacroOperand)(operand, "operands")
        has_one = _opcodes_with(self.has_headers, operands)
        return has_one[self.version[self.unit_of(entries)], self.opcode[entries]]

    def is_described(self, entries: I64) -> NDArray[np.bool_]:
        """Whether entries have opcodes that only their units' headers describe."""
        first = operand_table(self.has_headers)[:, :, 0]
        return np.equal(first[self.version[self.unit_of(entries)], self.opcode[entries]], Storage.UNKNOWN)

    def text_of(self, index: int) -> bytes:
        """The text of one entry."""
        check_index(index, len(self), "index")
        start = int(self.text_start[index])
        return self.text[start : start + int(self.text_size[index])].tobytes()


@cache
def operand_table(has_headers: bool) -> U8:
    """The operands of each opcode, by version; UNKNOWN for an opcode that the version does not define. Version 0 is
    `.debug_macinfo`."""
    versions = VERSIONS if has_headers else (0,)
    table = np.zeros((max(versions) + 1, _OPCODES, _MAX_OPERANDS), np.uint8)
    for version in versions:
        table[version, :, 0] = Storage.UNKNOWN  # of opcode 0 too, by which kernels recognize a known version
        for opcode, operands in standard_operands(version).items():
            table[version, opcode] = (*operands, *[0] * (_MAX_OPERANDS - len(operands)))
    return table


@cache
def _opcodes_with(has_headers: bool, operands: tuple[MacroOperand, ...]) -> NDArray[np.bool_]:
    """Whether an opcode has one of these operands, by version and opcode."""
    table = operand_table(has_headers)
    has_one: NDArray[np.bool_] = np.logical_or.reduce(np.isin(table, operands), axis=2)
    return has_one


@cache
def _storage() -> tuple[U8, U8]:
    """The storage codes of operands, and those of forms."""
    operands = np.zeros(max(MacroOperand) + 1, np.uint8)
    for operand, kind in MACRO_OPERAND_KINDS.items():
        operands[operand] = storage_of(kind)
    return operands, form_storages()


@checked(section=Section)
def read_macros(section: Section) -> Macros:
    """Read a section of MACRO_SECTIONS; its name decides whether units have headers. Raises ParseError."""
    kernels = engine.dwarf.macros
    units = count = 0
    for _ in ("count", "fill"):
        unit_offset, body, first = (np.zeros(units, np.int64) for _ in range(3))
        version, flags, line_offset = np.zeros(units, np.uint16), np.zeros(units, np.uint8), np.zeros(units, np.uint64)
        offset, text_start, text_size = (np.zeros(count, np.int64) for _ in range(3))
        opcode, line, value = np.zeros(count, np.uint8), np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        reader = reader_of(section)
        tables = (operand_table(MACRO_SECTIONS[section.name]), *_storage(), np.full((_OPCODES, 2), -1, np.int64))
        by_unit = kernels.Units(*views(unit_offset, version, flags, line_offset, body, first))
        by_entry = kernels.Entries(*views(offset, opcode, line, value, text_start, text_size))
        is_in_header = kernels.scan(reader, kernels.Operands(*views(*tables)), by_unit, by_entry)
        units, count = by_unit.count, by_entry.count
        if reader.fault:
            record = "header" if is_in_header else f"entry[{count - by_unit.begun_at}]"
            refuse(section, f"unit[{units}].{record}", reader)
    return Macros(
        name=section.name,
        byte_order=section.byte_order,
        unit_offset=unit_offset,
        version=version,
        flags=flags,
        line_offset=line_offset,
        body=body,
        first=np.append(first, count),
        offset=offset,
        opcode=opcode,
        line=line,
        value=value,
        text=np.frombuffer(section.data, np.uint8),
        text_start=text_start,
        text_size=text_size,
    )


@checked(table=Macros)
def write_macros(table: Macros) -> bytes:
    """The bytes of the section, with LEB128 numbers in their shortest form. Raises BuildError."""
    pool = Pool([b"", b"\0", bytes([END])])
    empty, zero, end = range(3)
    entries = np.arange(len(table))
    unit = table.unit_of(entries)
    pieces = np.full((len(table), 5), empty, np.int64)
    pieces[:, 0] = pool.add(np.arange(_OPCODES, dtype=np.uint8)[:, None]) + table.opcode.astype(np.int64)
    has_line = table.has_operand(entries, MacroOperand.LINE)
    pieces[has_line, 1] = _add_ulebs(pool, table.line[has_line])
    by_kind: dict[int, list[MacroOperand]] = {}
    for operand, kind in MACRO_OPERAND_KINDS.items():
        if operand is not MacroOperand.LINE:
            by_kind.setdefault(storage_of(kind), []).append(operand)
    which = np.flatnonzero(table.has_operand(entries, *by_kind[Storage.ULEB]))
    pieces[which, 2] = _add_ulebs(pool, table.value[which])
    offsets = np.flatnonzero(table.has_operand(entries, *by_kind[Storage.SECTION_OFFSET]))
    pieces[offsets, 2] = _add_offsets(pool, table, offsets)
    has_text = table.has_operand(entries, *by_kind[Storage.STRING])
    pieces[has_text, 4] = zero
    texts = np.flatnonzero(has_text | table.is_described(entries))
    first = pool.add_slices(table.text, table.text_start[texts], table.text_size[texts])
    pieces[texts, 3] = first + np.arange(len(texts))
    # A unit is its header, its entries and an opcode of 0.
    units = np.arange(len(table.body))
    joined = np.full(2 * len(units) + 5 * len(table), end, np.int64)
    joined[(2 * unit + 1 + 5 * entries)[:, None] + np.arange(5)] = pieces
    joined[2 * units + 5 * table.first[:-1]] = _add_headers(pool, table) if table.has_headers else empty
    return pool.join(joined)


def _add_ulebs(pool: Pool, values: U64) -> I64:
    """Add unsigned LEB128 numbers to the pool; returns the piece number of each."""
    groups = values[:, None] >> np.arange(0, 7 * _LEB_BYTES, 7, dtype=np.uint64)
    size = 1 + (groups[:, 1:] > 0).sum(axis=1)
    data = (groups & np.uint64(0x7F)).astype(np.uint8)
    data[np.arange(_LEB_BYTES) < size[:, None] - 1] |= 0x80
    first = pool.add_slices(data.reshape(-1), _LEB_BYTES * np.arange(len(values)), size)
    return first + np.arange(len(values))


def _add_offsets(pool: Pool, table: Macros, entries: I64) -> I64:
    """Add the section offsets of entries to the pool; returns the piece number of each."""
    size = table.offset_size[table.unit_of(entries)]
    for wrong in entries[(size == DwarfFormat.DWARF32) & (table.value[entries] >> np.uint64(32) > 0)][:1]:
        reason = f"{int(table.value[wrong]):#x} does not fit 4 bytes"
        raise BuildError(table.name, None, f"entry[{wrong}].value", reason)
    return _add_integers(pool, table.value[entries], size, table.byte_order)


def _add_integers(pool: Pool, values: U64, size: I64, order: ByteOrder) -> I64:
    """Add integers of these sizes in bytes to the pool; returns the piece number of each."""
    data = values.astype(f"{order_code(order)}u8").view(np.uint8)
    skip = 8 - size if order == "big" else np.zeros(len(size), np.int64)
    return pool.add_slices(data, 8 * np.arange(len(values)) + skip, size) + np.arange(len(values))


def _add_headers(pool: Pool, table: Macros) -> I64:
    """Add the units' headers to the pool; returns the piece number of each. Opcode tables are copied as they are."""
    units = len(table.body)
    line_size = np.where(table.flag("debug_line_offset"), table.offset_size, 0)
    for wrong in np.flatnonzero((line_size == DwarfFormat.DWARF32) & (table.line_offset >> np.uint64(32) > 0))[:1]:
        reason = f"{int(table.line_offset[wrong]):#x} does not fit 4 bytes"
        raise BuildError(table.name, None, f"unit[{wrong}].debug_line_offset", reason)
    two = np.full(units, 2)
    described = table.unit_offset + 3 + line_size
    described_size = np.where(table.flag("opcode_operands_table"), table.body - described, 0)
    parts = Pool([])
    numbers = [
        _add_integers(parts, table.version.astype(np.uint64), two, table.byte_order),
        parts.add_slices(table.flags, np.arange(units), np.ones(units, np.int64)) + np.arange(units),
        _add_integers(parts, table.line_offset, line_size, table.byte_order),
        parts.add_slices(table.text, described, described_size) + np.arange(units),
    ]
    lengths = parts.lengths()
    joined = parts.join(np.stack(numbers, axis=1).reshape(-1))
    return pool.add_texts(joined, sum(lengths[one] for one in numbers)) + np.arange(units)
