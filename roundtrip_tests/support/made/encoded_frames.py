"""Tables written as call frame information and read again: the comparisons for tests of the encoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from unwindkit import FunctionFlag, Refusals, UnwindTable, by_pc
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.converters.cfi.write import to_debug_frame, to_eh_frame
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from unwindkit.schemas.pointers import DW_EH_PE
from unwindkit.schemas.section import Section

ADDRESS = 0x8000
BY_FUNCTION = ("start", "size", "segment", "return_column", "flags", "lsda", "personality", "personality_encoding")


def read_back(data: bytes, dialect: Dialect, like: UnwindTable, address: int = 0) -> UnwindTable:
    section = Section.of(dialect.name, data, address, like.byte_order, like.address_size)
    return table_from_cfi(section, dialect, like.architecture)


def without(table: UnwindTable, refusals: Refusals) -> UnwindTable:
    """The functions that were not refused; a refusal is always of a whole function."""
    kept = np.setdiff1d(np.arange(len(table)), refusals.function)
    return table.select(kept)


def written(table: UnwindTable, dialect: Dialect) -> tuple[UnwindTable, UnwindTable, Refusals]:
    """The encodable functions, what was read back, and the refusals."""
    if dialect is EH_FRAME:
        data, refusals = to_eh_frame(table, ADDRESS)
        return without(table, refusals), read_back(data, dialect, table, ADDRESS), refusals
    data, refusals = to_debug_frame(table)
    return without(table, refusals), read_back(data, dialect, table), refusals


def plain(table: UnwindTable, dialect: Dialect) -> list[object]:
    """Each function except for its origin; `.debug_frame` has personalities and LSDAs as plain addresses, of which 0 is
    none."""
    found = [replace(function, origin=0) for function in table]
    if dialect is EH_FRAME:
        return list(found)
    keeps = DW_EH_PE.indirect
    found = [one if one.lsda else replace(one, flags=one.flags & ~FunctionFlag.HAS_LSDA) for one in found]
    return [
        one
        if one.personality_encoding == DW_EH_PE.omit
        else replace(one, personality_encoding=one.personality_encoding & keeps)
        for one in found
    ]


def survives(table: UnwindTable, address: int = 0) -> int:
    """Compare a table of one section with what is read back after rewriting it, by PC and by function; returns the
    bytes written."""
    dialect = EH_FRAME if table.source == EH_FRAME.name else DEBUG_FRAME
    data, refusals = to_eh_frame(table, address) if dialect is EH_FRAME else to_debug_frame(table)
    read = read_back(data, dialect, table, address if dialect is EH_FRAME else 0)
    assert len(refusals) == 0
    assert by_pc(read) == by_pc(table)
    for name in BY_FUNCTION:
        assert np.array_equal(getattr(table.functions, name), getattr(read.functions, name)), name
    return len(data)
