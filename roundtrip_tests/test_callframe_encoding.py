"""The table as `.eh_frame` and `.debug_frame`, and back: nothing changes, by PC and by function (law 3).

Strategy: drawn tables of every architecture, then real files of each; both engines; sizes beside those that compilers
and linkers wrote. Bytes made by hand: test_vectors_encoding.py.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import FunctionFlag, Reason, Refusals, UnwindTable, by_pc, from_sframe, read_elf, to_sframe
from unwindkit.converters.arch import ARCHITECTURES
from unwindkit.converters.callframe import table_from_cfi
from unwindkit.converters.callframe_encoding import to_debug_frame, to_eh_frame
from unwindkit.converters.elf import open_elf
from unwindkit.converters.repetition import unroll
from unwindkit.converters.unwind import FunctionColumns
from unwindkit.schemas.callframe import DEBUG_FRAME, EH_FRAME, Dialect
from unwindkit.schemas.pointers import DW_EH_PE
from unwindkit.schemas.section import Section

from .conftest import engine_in_use, fewer
from .oracles import FRAME_SUITES, oracle_root
from .real_files import REAL_FILES
from .tables import rich_tables, tables
from .test_dump_frames import libraries

ADDRESS = 0x8000
EVERY_ARCHITECTURE = pytest.mark.parametrize("architecture", ARCHITECTURES)
BY_FUNCTION = ("start", "size", "segment", "return_column", "flags", "lsda", "personality", "personality_encoding")


def read_back(data: bytes, dialect: Dialect, like: UnwindTable, address: int = 0) -> UnwindTable:
    section = Section.of(dialect.name, data, address, like.byte_order, like.address_size)
    return table_from_cfi(section, dialect, like.architecture)


def without(table: UnwindTable, refusals: Refusals) -> UnwindTable:
    """The functions that were not refused, each of which is refused whole."""
    kept = np.setdiff1d(np.arange(len(table)), refusals.function)
    columns = {field.name: getattr(table.functions, field.name)[kept] for field in fields(FunctionColumns)}
    return replace(table, functions=FunctionColumns(**columns))


def written(table: UnwindTable, dialect: Dialect) -> tuple[UnwindTable, UnwindTable, Refusals]:
    """What can be said, what was read back, and the refusals."""
    if dialect is EH_FRAME:
        data, refusals = to_eh_frame(table, ADDRESS)
        return without(table, refusals), read_back(data, dialect, table, ADDRESS), refusals
    data, refusals = to_debug_frame(table)
    return without(table, refusals), read_back(data, dialect, table), refusals


def plain(table: UnwindTable, dialect: Dialect) -> list[object]:
    """All of each function but where it stood; `.debug_frame` has personalities as plain addresses."""
    found = [replace(function, origin=0) for function in table]
    if dialect is EH_FRAME:
        return list(found)
    keeps = DW_EH_PE.indirect
    return [
        one
        if one.personality_encoding == DW_EH_PE.omit
        else replace(one, personality_encoding=one.personality_encoding & keeps)
        for one in found
    ]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dialect", [EH_FRAME, DEBUG_FRAME], ids=lambda one: one.name)
@EVERY_ARCHITECTURE
@fewer(20)
@given(data=st.data())
def test_any_table_survives(architecture: str, dialect: Dialect, data: st.DataObject) -> None:
    table = data.draw(rich_tables(ARCHITECTURES[architecture]))
    kept, read, refusals = written(table, dialect)
    assert set(refusals.reason.tolist()) <= {Reason.RULE_LOST}
    assert plain(read, dialect) == plain(kept, dialect)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dialect", [EH_FRAME, DEBUG_FRAME], ids=lambda one: one.name)
@pytest.mark.parametrize("architecture", ["x86_64", "aarch64_be", "s390x"])
@fewer(20)
@given(data=st.data())
def test_overlaps_segments_and_repetition(architecture: str, dialect: Dialect, data: st.DataObject) -> None:
    table = data.draw(tables(ARCHITECTURES[architecture]))
    kept, read, refusals = written(table, dialect)
    allowed = {Reason.RULE_LOST} | ({Reason.SEGMENT} if dialect is EH_FRAME else set())
    assert set(refusals.reason.tolist()) <= allowed
    for name in BY_FUNCTION:
        assert np.array_equal(getattr(kept.functions, name), getattr(read.functions, name)), name
    if not kept.functions.repetition.any():
        assert plain(read, dialect) == plain(kept, dialect)
    assert by_pc(unroll(read)) == by_pc(unroll(kept))


def hold(path: Path, section: str | None = None) -> tuple[int, int]:
    """A file's table survives by PC and by function; the bytes of its section and of ours."""
    table, image = read_elf(path, section), open_elf(path)
    (header,) = image.named(table.source)
    dialect = EH_FRAME if table.source == ".eh_frame" else DEBUG_FRAME
    data, refusals = to_eh_frame(table, header.address) if dialect is EH_FRAME else to_debug_frame(table)
    read = read_back(data, dialect, table, header.address if dialect is EH_FRAME else 0)
    assert len(refusals) == 0
    assert by_pc(read) == by_pc(table)
    for name in BY_FUNCTION:
        assert np.array_equal(getattr(table.functions, name), getattr(read.functions, name)), name
    return header.size, len(data)


@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_real_files(path: str) -> None:
    before, after = hold(Path(path), ".eh_frame")
    assert after <= 1.01 * before


def test_both_engines_write_the_same(kernels: str) -> None:
    table = read_elf(REAL_FILES[0])
    with engine_in_use("compiled"):
        compiled = to_eh_frame(table, ADDRESS)[0], to_debug_frame(table)[0]
    assert (to_eh_frame(table, ADDRESS)[0], to_debug_frame(table)[0]) == compiled, kernels


@pytest.mark.parametrize("part", range(6))
def test_libraries_of_this_machine(part: int) -> None:
    for path in libraries()[part::6]:
        if open_elf(path).named(".eh_frame"):
            before, after = hold(path, ".eh_frame")
            # Of nothing but entries that the linker left empty, a few bytes are many per cent.
            assert after <= 1.01 * before + 16, path


@pytest.mark.parametrize("suite", [pytest.param(suite, marks=pytest.mark.oracle(suite)) for suite in FRAME_SUITES])
def test_c_library_of_every_architecture(suite: str) -> None:
    (path,) = {found.resolve() for pattern in FRAME_SUITES[suite] for found in oracle_root(suite).glob(pattern)}
    before, after = hold(path, ".eh_frame")
    assert after <= max(1.01 * before, 4)


@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_sframe_as_call_frame_information_and_back(path: str) -> None:
    """What SFrame says survives, PCMASK too: as GNU ld's expression, which SFrame has again."""
    data, _ = to_sframe(read_elf(path, ".eh_frame"))
    table = from_sframe(data)
    for dialect in (EH_FRAME, DEBUG_FRAME):
        _kept, read, refusals = written(table, dialect)
        assert len(refusals) == 0
        assert (table.functions.repetition > 0).any() == (read.rows.cfa_kind == 2).any()
        again, refusals = to_sframe(read)
        assert len(refusals) == 0
        assert by_pc(from_sframe(again)) == by_pc(table)
        assert len(again) == len(data)


def test_functions_of_a_relocatable_file_are_refused() -> None:
    from unwindkit import BuildError
    from unwindkit.converters.unwind import Function, Row, table_of

    from .handmade import sp

    table = table_of(ARCHITECTURES["x86_64"], [Function(0, 4, (Row(0, sp(8)),), section=3)])
    for encode in (to_eh_frame, to_debug_frame):
        with pytest.raises(BuildError, match="are of a relocatable file"):
            encode(table)


def test_unknown_augmentations_are_refused() -> None:
    from unwindkit.converters.unwind import Function, Row, table_of

    from .handmade import NO_CFA

    one = Function(0x1000, 4, (Row(0, NO_CFA),), flags=FunctionFlag.UNKNOWN_AUGMENTATION)
    _, refusals = to_eh_frame(table_of(ARCHITECTURES["x86_64"], [one]))
    assert [(one.function, one.start, one.end, one.reason) for one in refusals] == [
        (0, 0x1000, 0x1004, Reason.AUGMENTATION)
    ]
