"""Hypothesis strategies for tables (extra `testing`); those for records are `unwindkit.schemas.strategies`.

Strategy: line tables that `to_debug_line` can write: addresses ascend, op_index is below maximum_operations, and
opcode_base is above all standard opcodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from .converters.line.table import (
    OLD_DIRECTORY_CONTENTS,
    OLD_FILE_CONTENTS,
    LineRowColumns,
    LineTable,
    LineUnitColumns,
    PathColumns,
    contents_bit,
)
from .schemas.line import DW_LNCT, DW_LNS, VERSIONS, RowFlag
from .schemas.section import ByteOrder

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
    """The fields of a unit's header, and the contents of its entries."""
    version = draw(st.sampled_from(VERSIONS))
    opcode_base = draw(st.sampled_from([DW_LNS.set_isa + 1, DW_LNS.set_isa + 1, 20, 200, 255]))
    lengths = draw(st.binary(min_size=opcode_base - 1, max_size=opcode_base - 1)).ljust(255, b"\0")
    more = sum(draw(st.lists(st.sampled_from(_BITS[1:]), unique=True)))
    return {
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
        "opcode_lengths": np.frombuffer(lengths, np.uint8),
        "directory_contents": _BITS[0] if version >= 5 else OLD_DIRECTORY_CONTENTS,
        "file_contents": _BITS[0] | more if version >= 5 else OLD_FILE_CONTENTS,
    }


@st.composite
def _paths(draw: DrawFn, contents: int) -> list[tuple[Any, ...]]:
    """Entries: path, directory_index, timestamp, size, MD5; 0 for those that `contents` lacks."""
    values: list[SearchStrategy[Any]] = [st.integers(0, len(STRINGS) - 1)]
    values += [_NUMBERS if contents & bit else st.just(0) for bit in _BITS[1:-1]]
    values.append(st.binary(min_size=16, max_size=16) if contents & _BITS[-1] else st.just(bytes(16)))
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
        units=_unit_columns(units, directories, files),
        directories=_path_columns(directories),
        files=_path_columns(files),
        strings=STRINGS,
        sequence_unit=np.array(owners, np.uint32),
        first_row=np.cumsum([0, *map(len, rows)]),
        rows=_row_columns([row for found in rows for row in found]),
    )


def _unit_columns(
    units: list[dict[str, Any]], directories: list[list[tuple[Any, ...]]], files: list[list[tuple[Any, ...]]]
) -> LineUnitColumns:
    kinds = {"is_64": np.bool_, "line_base": np.int8, "opcode_lengths": np.uint8}
    names = [name for name in LineUnitColumns.__dataclass_fields__ if name not in ("offset", *_FIRST)]
    columns: dict[str, Any] = {
        name: np.array([unit[name] for unit in units], kinds.get(name, np.uint8)) for name in names
    }
    columns["opcode_lengths"] = columns["opcode_lengths"].reshape(-1, 255)
    firsts = [np.cumsum([0, *map(len, found)]) for found in (directories, files)]
    return LineUnitColumns(offset=np.zeros(len(units), np.int64), **columns, **dict(zip(_FIRST, firsts, strict=True)))


_FIRST = ("first_directory", "first_file")


def _path_columns(entries: list[list[tuple[Any, ...]]]) -> PathColumns:
    found = [entry for of_unit in entries for entry in of_unit]
    path, directory_index, timestamp, size = (
        np.array([entry[index] for entry in found], np.uint64) for index in range(4)
    )
    md5 = np.frombuffer(b"".join(entry[4] for entry in found), np.uint8).reshape(-1, 16)
    return PathColumns(path.astype(np.uint32), directory_index, timestamp, size, md5)


def _row_columns(rows: list[tuple[int, ...]]) -> LineRowColumns:
    kinds = (np.uint64, np.uint8, *[np.uint32] * 5, np.uint8)
    return LineRowColumns(*(np.array([row[index] for row in rows], kind) for index, kind in enumerate(kinds)))
