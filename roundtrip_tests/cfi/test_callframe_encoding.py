"""The table as `.eh_frame` and `.debug_frame`, and back: nothing changes, by PC and by function (law 3).

Strategy: drawn tables of every architecture, then real files of each; both engines; sizes are compared with those that
compilers and linkers wrote. Bytes made by hand: test_vectors_encoding.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import BuildError, FunctionFlag, Reason, by_pc, from_sframe, read_elf, to_sframe
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.write import to_debug_frame, to_eh_frame
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.elf.relocation import lay_out
from unwindkit.converters.files.read_elf import DIALECTS, table_of_laid_out
from unwindkit.converters.rules import CfaKind
from unwindkit.converters.table.model import Function, Row, table_of
from unwindkit.converters.table.pcmask import unroll
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect

from ..conftest import engine_in_use, fewer
from ..support.handmade import NO_CFA, sp
from ..support.made.encoded_frames import ADDRESS, BY_FUNCTION, plain, survives, written
from ..support.oracles import FRAME_SUITES, oracle_root
from ..support.real_files import REAL_FILES
from ..support.tables import rich_tables, tables
from .dump.test_dump_frames import libraries
from .dump.test_dump_frames_objects import COMPILERS, FLAGS, object_of

EVERY_ARCHITECTURE = pytest.mark.parametrize("architecture", ARCHITECTURES)


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


def hold(path: Path, section: str) -> tuple[int, int]:
    """A file's table survives; returns the sizes of its section and of ours."""
    (header,) = open_elf(path).named(section)
    return header.size, survives(read_elf(path, section), header.address)


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
            # Where all entries were left empty by the linker, a few bytes are a large percentage.
            assert after <= 1.01 * before + 16, path


@pytest.mark.parametrize("suite", [pytest.param(suite, marks=pytest.mark.oracle(suite)) for suite in FRAME_SUITES])
def test_c_library_of_every_architecture(suite: str) -> None:
    (path,) = {found.resolve() for pattern in FRAME_SUITES[suite] for found in oracle_root(suite).glob(pattern)}
    before, after = hold(path, ".eh_frame")
    assert after <= max(1.01 * before, 4)


@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_sframe_as_call_frame_information_and_back(path: str) -> None:
    """The rows from SFrame survive, PCMASK too: they become GNU ld's expression, which converts back to SFrame."""
    data, _ = to_sframe(read_elf(path, ".eh_frame"))
    table = from_sframe(data)
    for dialect in (EH_FRAME, DEBUG_FRAME):
        _kept, read, refusals = written(table, dialect)
        assert len(refusals) == 0
        assert (table.functions.repetition > 0).any() == (read.rows.cfa_kind == CfaKind.EXPRESSION).any()
        again, refusals = to_sframe(read)
        assert len(refusals) == 0
        assert by_pc(from_sframe(again)) == by_pc(table)
        assert len(again) == len(data)


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_objects_at_the_addresses_of_a_linker(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    laid = lay_out(open_elf(object_of(compiler, flags, tmp_path)))
    tables = [table_of_laid_out(laid, name) for name in DIALECTS if laid.image.named(name)]
    assert sum(map(len, tables)) >= 3
    for table in tables:
        survives(table)


def test_functions_of_a_relocatable_file_are_refused() -> None:
    table = table_of(ARCHITECTURES["x86_64"], [Function(0, 4, (Row(0, sp(8)),), section=3)])
    for encode in (to_eh_frame, to_debug_frame):
        with pytest.raises(BuildError, match="functions: the file is relocatable: addresses are not final"):
            encode(table)


def test_unknown_augmentations_are_refused() -> None:
    one = Function(0x1000, 4, (Row(0, NO_CFA),), flags=FunctionFlag.UNKNOWN_AUGMENTATION)
    _, refusals = to_eh_frame(table_of(ARCHITECTURES["x86_64"], [one]))
    assert [(one.function, one.start, one.end, one.reason) for one in refusals] == [
        (0, 0x1000, 0x1004, Reason.AUGMENTATION)
    ]
