"""Entries whose operands only their unit's header describes, as in GNU readelf 2.47 and as plain data.

Strategy: few files have any, so the reference engine reads each.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ...schemas import engine
from ...schemas.forms import DW_FORM, FORM_KINDS
from ...schemas.macros import MacroHeader
from ...schemas.section import Section
from ...schemas.wire import LebBlock
from ..bulk_text import Pool, prefixed
from .strings import MacroSources
from .table import Macros

_BLOCKS = (DW_FORM.block, DW_FORM.block1, DW_FORM.block2, DW_FORM.block4)
_PREFIXED = (DW_FORM.data4, DW_FORM.data8, DW_FORM.sec_offset)
_INDEXED = (DW_FORM.strx, DW_FORM.strx1, DW_FORM.strx2, DW_FORM.strx3, DW_FORM.strx4)


def header_of(section: Section, table: Macros, unit: int) -> MacroHeader:
    """The header of a unit of `.debug_macro`."""
    start, end = int(table.unit_offset[unit]), int(table.body[unit])
    return engine.parse(MacroHeader, section, start, end, f"unit[{unit}].header")[0]


def operands_of(section: Section, table: Macros, entry: int) -> list[tuple[DW_FORM, Any]]:
    """The operands of one such entry, each with its form, as integers and bytes."""
    unit = _unit_of(table, entry)
    header = header_of(section, table, unit)
    described = {one.opcode: one.forms for one in header.opcode_operands or ()}
    start = int(table.text_start[entry])
    stream = io.BytesIO(table.text_of(entry))
    found = []
    for form in map(DW_FORM, described[int(table.opcode[entry])]):
        name, params = f"unit[{unit}].entry", {"dwarf_format": header.dwarf_format}
        value, _ = engine.parse_value(FORM_KINDS[form], section, stream, start, name, **params)
        if isinstance(value, LebBlock):
            value = value.data
        elif form is DW_FORM.data16:
            value = int.from_bytes(value, section.byte_order)
        found.append((form, value if isinstance(value, bytes) else int(value)))
    return found


def described_text(section: Section, table: Macros, sources: MacroSources, entry: int) -> bytes:
    """The text after the name of one such entry."""
    unit = _unit_of(table, entry)
    offset_size, unit_offset = int(table.offset_size[unit]), int(table.unit_offset[unit])
    operands = operands_of(section, table, entry)
    texts = [b" " + _operand_text(form, value, sources, offset_size, unit_offset) for form, value in operands]
    return b" -" * bool(texts) + b",".join(texts)


def _unit_of(table: Macros, entry: int) -> int:
    return int(table.unit_of(np.array([entry]))[0])


def _operand_text(form: DW_FORM, value: Any, sources: MacroSources, offset_size: int, unit_offset: int) -> bytes:
    if form in _BLOCKS:
        return f"{len(value)} byte block: ".encode() + b"".join(f"{byte:x} ".encode() for byte in value)
    if form is DW_FORM.string:
        return bytes(value)
    if form in _PREFIXED or form is DW_FORM.data16:
        return prefixed(value).encode()
    if form is DW_FORM.strp_sup:
        return f"<{prefixed(value)}>".encode()
    numbers, pool = np.array([value & (1 << 64) - 1], np.uint64), Pool([])
    if form is DW_FORM.strp:
        text = pool.join(sources.add_strings(pool, numbers))
        return f"(indirect string, offset: {prefixed(value)}): ".encode() + text
    if form is DW_FORM.line_strp:
        text = pool.join(sources.add_line_strings(pool, numbers))
        return f"(indirect line string, offset: {prefixed(value)}): ".encode() + text
    if form in _INDEXED:
        text = pool.join(sources.add_indexed(pool, numbers, offset_size, unit_offset))
        return f"(indexed string: {prefixed(value)}): ".encode() + text
    return f"{value}".encode()
