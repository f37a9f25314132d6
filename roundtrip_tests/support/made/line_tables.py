"""Line tables for tests: read from units drawn by hypothesis, compared row by row, written back."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from unwindkit import from_debug_line, to_debug_line
from unwindkit.converters.line.read import LINE, LINE_STR, STR
from unwindkit.converters.line.table import LineTable
from unwindkit.schemas.line import LineUnit, RowFlag
from unwindkit.schemas.line_sections import build_line_section
from unwindkit.schemas.section import ByteOrder, Section
from unwindkit.schemas.strategies import LINE_STRINGS, valid_line_units

from ..judges.line_machine import Registers

STRINGS = {name: Section.of(name, LINE_STRINGS) for name in (LINE_STR, STR)}
ORDERS: list[ByteOrder] = ["little", "big"]


def line_section(data: bytes, byte_order: ByteOrder = "little", address_size: int = 8) -> Section:
    return Section.of(LINE, data, 0, byte_order, address_size)


@st.composite
def valid_sections(draw: DrawFn) -> tuple[tuple[LineUnit, ...], Section]:
    """Units whose programs run, and the section that they make."""
    byte_order, address_size = draw(st.sampled_from(ORDERS)), draw(st.sampled_from([4, 8]))
    units = tuple(draw(st.lists(valid_line_units(byte_order, address_size), max_size=2)))
    return units, line_section(build_line_section(units, byte_order), byte_order, address_size)


def rows_of(table: LineTable) -> list[list[Registers]]:
    """The rows of each sequence, from the reference machine."""
    found = []
    for sequence in range(len(table.sequence_unit)):
        rows = []
        for row in table.sequence(sequence):
            flags = {str(flag.name).lower(): flag in row.flags for flag in RowFlag}
            numbers = (row.address, row.op_index, row.file, row.line, row.column)
            rows.append(Registers(*numbers, isa=row.isa, discriminator=row.discriminator, **flags))
        found.append(rows)
    return found


def written(table: LineTable, address_size: int, fixed_advance: bool = False) -> tuple[Section, LineTable]:
    """The section written for a table, and the table that is read back."""
    line, line_str = to_debug_line(table, fixed_advance=fixed_advance)
    section = line_section(line, table.byte_order, address_size)
    return section, from_debug_line(line, line_str, table.byte_order, address_size)
