"""Line tables.

Strategy: line tables that `to_debug_line` can write: addresses ascend, op_index is below maximum_operations, and
opcode_base is above all standard opcodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ..converters.arrays import starts_of
from ..converters.columns import Columns
from ..converters.line.table import (
    OLD_DIRECTORY_CONTENTS,
    OLD_FILE_CONTENTS,
    LineRowColumns,
    LineTable,
    LineUnitColumns,
    PathColumns,
    contents_bit,
)
from ..converters.strings import Strings
from ..schemas.arguments import check_address_size, check_byte_order, checked
from ..schemas.line import DW_LNCT, DW_LNS, VERSIONS, RowFlag
from ..schemas.section import ByteOrder

if TYPE_CHECKING:
    from numpy.typing import NDArray

C = TypeVar("C", bound=Columns)

STRINGS = (b"/usr/src", b"include", b"a.c", b"b.h")
MAX_ROWS = 8
# Around the limits of one special opcode, of a constant, and of LEB128 numbers of one and two bytes.
_STEPS = st.one_of(st.integers(0, 40), st.sampled_from([127, 128, 145, 16383, 16384, 65535, 65536, 1 << 20]))
_LINES = st.one_of(st.integers(1, 200), st.integers(0, (1 << 32) - 1))
_SMALL = st.one_of(st.integers(0, 3), st.integers(0, (1 << 32) - 1))
_NUMBERS = st.integers(0, (1 << 64) - 1)
_BITS = [contents_bit(content) for content in DW_LNCT if content <= DW_LNCT.MD5]
_MARKS = sum(flag for flag in RowFlag if flag is not RowFlag.END_SEQUENCE)


@st.composite
def _unit(draw: DrawFn, address_size: int) -> dict[str, Any]:
    """The header fields of a unit, with the contents of its directory and file entries."""
    version = draw(st.sampled_from(VERSIONS))
    opcode_base = draw(st.sampled_from([DW_LNS.set_isa + 1, DW_LNS.set_isa + 1, 20, 200, 255]))
    lengths = draw(st.binary(min_size=opcode_base - 1, max_size=opcode_base - 1)).ljust(255, b"\0")
    more = sum(draw(st.lists(st.sampled_from(_BITS[1:]), unique=True)))
    return {
        "offset": 0,
        "version": version,
        "is_64": draw(st.booleans()),
        "address_size": address_size,
        "segment_selector_size": draw(st.sampled_from([0, 4])) if version >= 5 else 0,
        "minimum_instruction_length": draw(st.sampled_from([1, 1, 2, 4])),
        "maximum_operations": draw(st.sampled_from([1, 1, 4])) if version >= 4 else 1,
        "default_is_stmt": draw(st.integers(0, 1)),
        "line_base": draw(st.integers(-10, 1)),
        "line_range": draw(st.integers(1, 20)),
        "opcode_base": opcode_base,
        "opcode_lengths": tuple(lengths),
        "directory_contents": _BITS[0] if version >= 5 else OLD_DIRECTORY_CONTENTS,
        "file_contents": _BITS[0] | more if version >= 5 else OLD_FILE_CONTENTS,
        "comp_dir": draw(st.integers(-1, len(STRINGS) - 1)),
        "name": draw(st.integers(-1, len(STRINGS) - 1)),
    }


@st.composite
def _paths(draw: DrawFn, contents: int) -> list[tuple[Any, ...]]:
    """Entries: path, directory_index, timestamp, size, MD5; 0 for those that `contents` lacks."""
    values: list[SearchStrategy[Any]] = [st.integers(0, len(STRINGS) - 1)]
    values += [_NUMBERS if contents & bit else st.just(0) for bit in _BITS[1:-1]]
    values.append(st.binary(min_size=16, max_size=16).map(tuple) if contents & _BITS[-1] else st.just((0,) * 16))
    return draw(st.lists(st.tuples(*values), max_size=3))


@st.composite
def _sequence(draw: DrawFn, unit: dict[str, Any]) -> list[tuple[int, ...]]:
    """Rows: address, op_index, file, line, column, isa, discriminator, flags."""
    address, op_index = draw(st.integers(0, 1 << 28)), 0
    rows: list[tuple[int, ...]] = []
    count = draw(st.integers(1, MAX_ROWS))
    for number in range(count):
        step = draw(_STEPS) if number else 0
        address += step
        op_index = draw(st.integers(op_index if not step else 0, unit["maximum_operations"] - 1))
        flags = draw(st.integers(0, 31)) & _MARKS | (RowFlag.END_SEQUENCE if number == count - 1 else 0)
        rows.append((address, op_index, *draw(st.tuples(_SMALL, _LINES, _SMALL, _SMALL, _SMALL)), flags))
    return rows


@checked(byte_order=check_byte_order, address_size=check_address_size)
@st.composite
def line_tables(draw: DrawFn, byte_order: ByteOrder = "little", address_size: int = 8) -> LineTable:
    """Tables of up to three units of any version, with sequences in the order of their units."""
    units = draw(st.lists(_unit(address_size), max_size=3))
    directories = [draw(_paths(unit["directory_contents"])) for unit in units]
    files = [draw(_paths(unit["file_contents"])) for unit in units]
    sequences = [draw(st.lists(_sequence(unit), max_size=2)) for unit in units]
    owners = [number for number, found in enumerate(sequences) for _ in found]
    rows = [found for of_unit in sequences for found in of_unit]
    return LineTable(
        byte_order=byte_order,
        units=LineUnitColumns.of_records(units),
        first_directory=_starts(directories),
        directories=_all(PathColumns, directories),
        first_file=_starts(files),
        files=_all(PathColumns, files),
        strings=Strings.of(STRINGS),
        sequence_unit=np.array(owners, np.uint32),
        first_row=_starts(rows),
        rows=_all(LineRowColumns, rows),
    )


def _all(columns: type[C], groups: list[list[tuple[Any, ...]]]) -> C:
    """The records of all groups, whose values are in the order of the columns."""
    names = [one.name for one in columns.declared]
    return columns.of_records([dict(zip(names, record, strict=True)) for group in groups for record in group])


def _starts(groups: list[list[tuple[Any, ...]]]) -> NDArray[np.int64]:
    """The number of the first record of each group."""
    return starts_of(np.array([len(group) for group in groups], np.int64))
