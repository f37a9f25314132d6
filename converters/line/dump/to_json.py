"""`.debug_line` as plain data for JSON: the header fields of each unit, and its instructions or rows.

Strategy: unit by unit from the columns of the line table; instructions are decoded in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....schemas.line import DW_LNCT, DW_LNE, DW_LNS, LineEffect, RowFlag
from ....schemas.section import ParseError, Section
from ...kernels.line.protocol import Event, UnitField
from ...limits import exceeded
from ..headers import LineHeaders, read_line_headers
from ..read import no_programs, run_programs, table_of_programs
from ..table import LineFile, LineTable, contents_bit
from .decode import ENDING, HEADING, events_of

Plain = dict[str, Any]


def line_json(section: Section, strings: dict[str, Section], decoded: bool) -> tuple[Plain, Iterator[Plain]]:
    """The section, and an iterator over its units: with their rows if `decoded`, else with their instructions.

    Addresses are absolute; `offset` is relative to the section's start. Raises ParseError.
    """
    headers = read_line_headers(section)
    # Instructions are also shown for programs that make no valid table: descending addresses, sequences without an end.
    table = table_of_programs(headers, run_programs(headers) if decoded else no_programs(), strings)
    return {"section": section.name}, _units(headers, table, decoded)


def _units(headers: LineHeaders, table: LineTable, decoded: bool) -> Iterator[Plain]:
    first = 0
    for unit in range(table.unit_count):
        last = first
        while last < len(table.sequence_unit) and table.sequence_unit[last] == unit:
            last += 1
        if decoded:
            content: Plain = {"sequences": [_rows(table, sequence) for sequence in range(first, last)]}
        else:
            content = {"instructions": _instructions(headers, unit)}
        _refuse_long_paths(headers, table, unit)
        yield _header(headers, table, unit) | content
        first = last


def _refuse_long_paths(headers: LineHeaders, table: LineTable, unit: int) -> None:
    """Raise ParseError if the paths of a unit, which is one value of JSON, are out of proportion to the table."""
    columns = (table.directories, table.first_directory), (table.files, table.first_file)
    paths = np.concatenate([one.path[first[unit] : first[unit + 1]] for one, first in columns])
    limit, total = table.strings.limit(len(paths)), int(table.strings.size[paths].sum())
    if total > limit:
        reason = f"the paths take {total} bytes; a JSON value has at most {limit}"
        raise ParseError(headers.section, int(headers.offset[unit]), f"unit[{unit}]", exceeded(reason))


def _header(headers: LineHeaders, table: LineTable, unit: int) -> Plain:
    units = table.units
    version, offset = int(headers.version[unit]), int(headers.offset[unit])
    sizes = {
        "address_size": int(units.address_size[unit]),
        "segment_selector_size": int(units.segment_selector_size[unit]),
    }
    lengths = units.opcode_lengths[unit, : units.opcode_base[unit] - 1]
    maximum = {"maximum_operations_per_instruction": int(units.maximum_operations[unit])}
    return {
        "offset": offset,
        "unit_length": int(headers.field(UnitField.END)[unit]) - offset - (12 if headers.is_64[unit] else 4),
        "version": version,
        **(sizes if version >= 5 else {}),
        "header_length": int(headers.header_length[unit]),
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
    """A directory or file, with the content types that its entry has."""
    values = {
        "path": path.path.decode(errors="backslashreplace"),
        "directory_index": path.directory_index,
        "timestamp": path.timestamp,
        "size": path.size,
        "MD5": path.md5.hex(),
    }
    return {name: value for name, value in values.items() if contents & contents_bit(DW_LNCT[name])}


def _rows(table: LineTable, sequence: int) -> list[Plain]:
    """The rows of a sequence; only flags that are set are included."""
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


def _instructions(headers: LineHeaders, unit: int) -> list[Plain]:
    """The instructions of a unit, each with the line and the address after it."""
    found: list[Plain] = []
    for events in events_of(headers, range(unit, unit + 1)):
        for effect, values in zip(events.effect.tolist(), events.values.tolist(), strict=True):
            if effect not in (HEADING, ENDING):
                found.append(_instruction(headers.section, LineEffect(effect), values))
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
    after = {"address": values[Event.ADDRESS], "line": line - (line >> 63 << 64)}
    return {"offset": values[Event.OFFSET], **name, **after}
