"""`.debug_line` as plain data for JSON: units with the fields of the specification, and their instructions or rows.

Strategy: the columns of a dump, unit by unit; rows are those of the line table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....schemas.line import DW_LNCT, DW_LNE, DW_LNS, LineEffect, RowFlag
from ....schemas.section import Section
from ...kernels.line.protocol import Event, UnitField
from ..read import empty_rows, table_of_headers, table_of_lines
from ..table import LineFile, LineRowColumns, LineTable, contents_bit
from .decode import LineDump, events_of, line_dump

Plain = dict[str, Any]


def line_plain(section: Section, strings: dict[str, Section], decoded: bool) -> tuple[Plain, Iterator[Plain]]:
    """The section, and one by one its units, with their instructions, or if `decoded` the rows that these make.

    Addresses are absolute, `offset` counts from the section's start. Raises ParseError.
    """
    dump = line_dump(section, strings)
    # Instructions are shown of what makes no table, too: addresses that go down, sequences without an end.
    table = table_of_lines(section, strings) if decoded else _without_rows(dump)
    return {"section": section.name}, _units(dump, table, decoded)


def _without_rows(dump: LineDump) -> LineTable:
    no_sequence = (np.zeros(0, np.uint32), np.zeros(1, np.int64))
    return table_of_headers(dump.heads, dump.paths, LineRowColumns(*empty_rows(0)), *no_sequence)


def _units(dump: LineDump, table: LineTable, decoded: bool) -> Iterator[Plain]:
    first = 0
    for unit in range(table.unit_count):
        last = first
        while last < len(table.sequence_unit) and table.sequence_unit[last] == unit:
            last += 1
        sequences = range(first, last)
        what = (
            {"sequences": [_rows(table, one) for one in sequences]} if decoded else {"instructions": _said(dump, unit)}
        )
        yield _head(dump, table, unit) | what
        first = last


def _head(dump: LineDump, table: LineTable, unit: int) -> Plain:
    heads, units = dump.heads, table.units
    version, offset = int(heads.version[unit]), int(heads.offset[unit])
    sizes = {
        "address_size": int(units.address_size[unit]),
        "segment_selector_size": int(units.segment_selector_size[unit]),
    }
    lengths = units.opcode_lengths[unit, : units.opcode_base[unit] - 1]
    maximum = {"maximum_operations_per_instruction": int(units.maximum_operations[unit])}
    return {
        "offset": offset,
        "unit_length": int(heads.field(UnitField.END)[unit]) - offset - (12 if heads.is_64[unit] else 4),
        "version": version,
        **(sizes if version >= 5 else {}),
        "header_length": int(heads.header_length[unit]),
        "minimum_instruction_length": int(units.minimum_instruction_length[unit]),
        **(maximum if version >= 4 else {}),
        "default_is_stmt": int(units.default_is_stmt[unit]),
        "line_base": int(units.line_base[unit]),
        "line_range": int(units.line_range[unit]),
        "opcode_base": int(units.opcode_base[unit]),
        "standard_opcode_lengths": lengths.tolist(),
        "directories": [_path(one, int(units.directory_contents[unit])) for one in table.directories_of(unit)],
        "files": [_path(one, int(units.file_contents[unit])) for one in table.files_of(unit)],
    }


def _path(path: LineFile, contents: int) -> Plain:
    """What an entry says."""
    said = {
        "path": path.path.decode(errors="backslashreplace"),
        "directory_index": path.directory_index,
        "timestamp": path.timestamp,
        "size": path.size,
        "MD5": path.md5.hex(),
    }
    return {name: value for name, value in said.items() if contents & contents_bit(DW_LNCT[name])}


def _rows(table: LineTable, sequence: int) -> list[Plain]:
    """The rows of a sequence; the flags that are set."""
    return [
        {
            "address": row.address,
            "op_index": row.op_index,
            "file": row.file,
            "line": row.line,
            "column": row.column,
            "isa": row.isa,
            "discriminator": row.discriminator,
            **{str(flag.name).lower(): True for flag in RowFlag if flag in row.flags},
        }
        for row in table.sequence(sequence)
    ]


# The operand of an instruction, by its effect.
_OPERANDS = {
    LineEffect.ADVANCE_PC: Event.OPERAND,
    LineEffect.ADVANCE_LINE: Event.LINE_ADVANCE,
    LineEffect.SET_FILE: Event.OPERAND,
    LineEffect.SET_COLUMN: Event.OPERAND,
    LineEffect.FIXED_ADVANCE_PC: Event.OPERAND,
    LineEffect.SET_ISA: Event.OPERAND,
    LineEffect.SET_ADDRESS: Event.OPERAND,
    LineEffect.SET_DISCRIMINATOR: Event.OPERAND,
}


def _said(dump: LineDump, unit: int) -> list[Plain]:
    """The instructions of a unit, with line and address behind each."""
    found: list[Plain] = []
    for events in events_of(dump.heads, unit):
        for effect, values in zip(events.effect.tolist(), events.values.tolist(), strict=True):
            found.append(_instruction(dump.section, LineEffect(effect), values))
    return found


def _instruction(section: Section, effect: LineEffect, values: list[int]) -> Plain:
    opcode = values[Event.OPCODE]
    if effect is LineEffect.SPECIAL:
        name: Plain = {"opcode": "special", "adjusted_opcode": opcode}
    elif values[Event.IS_EXTENDED]:
        known = opcode in list(DW_LNE)
        name = {"opcode": f"DW_LNE_{DW_LNE(opcode).name}" if known else f"extended {opcode:#x}"}
    else:
        name = {"opcode": f"DW_LNS_{DW_LNS(opcode).name}" if opcode in list(DW_LNS) else f"standard {opcode:#x}"}
    if effect in _OPERANDS:
        value = values[_OPERANDS[effect]]
        name["operand"] = value - (value >> 63 << 64) if effect is LineEffect.ADVANCE_LINE else value
    elif effect in (LineEffect.NOTHING, LineEffect.DEFINE_FILE):
        name["operands"] = bytes(section.data[values[Event.BEGIN] : values[Event.END]]).hex()
    line = values[Event.LINE]
    behind = {"address": values[Event.ADDRESS], "line": line - (line >> 63 << 64)}
    return {"offset": values[Event.OFFSET], **name, **behind}
