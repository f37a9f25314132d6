"""`.eh_frame` edited in place of records: laws on drawn tables and on real files of every architecture.

Strategy: dropped functions are absent, replaced ones have their new rows, and all others are unchanged, at the same
address and at another.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import Reason, UnwindTable, by_pc
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.edit.edit import EditedCfi, edit_cfi
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.converters.cfi.write import to_debug_frame, to_eh_frame
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from unwindkit.schemas.section import Section

from ..conftest import fewer
from ..support.made.edited_frames import all_of, changed_entries, eh_frame_of, moved_to, read, starts_of
from ..support.oracles import FRAME_SUITES, oracle_root
from ..support.real_files import REAL_FILES
from ..support.tables import rich_tables

ADDRESS = 0x8000
EVERY_ARCHITECTURE = pytest.mark.parametrize("name", ARCHITECTURES)
EITHER = pytest.mark.parametrize("dialect", [EH_FRAME, DEBUG_FRAME], ids=lambda one: one.name)
REAL = pytest.mark.parametrize("path", REAL_FILES, ids=str)


def section_of(table: UnwindTable, dialect: Dialect = EH_FRAME) -> tuple[Section, UnwindTable]:
    """A table's section, and its entries."""
    address = ADDRESS if dialect is EH_FRAME else 0
    data, _ = to_eh_frame(table, address) if dialect is EH_FRAME else to_debug_frame(table)
    section = Section.of(dialect.name, data, address, table.byte_order, table.address_size)
    return section, table_from_cfi(section, dialect, table.architecture)


@pytest.mark.usefixtures("kernels")
@EITHER
@EVERY_ARCHITECTURE
@fewer(30)
@given(data=st.data())
def test_drop_replace_and_add_do_what_they_say(name: str, dialect: Dialect, data: st.DataObject) -> None:
    whole = data.draw(rich_tables(ARCHITECTURES[name]))
    section, old = section_of(whole, dialect)
    fates = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(old), max_size=len(old))), np.int64)
    other = data.draw(rich_tables(ARCHITECTURES[name]))
    _, new = section_of(other, dialect)
    # Functions of another table at the addresses of those that are replaced, and after all others.
    place_of = np.flatnonzero(fates == 2)[: len(new)]
    moved = np.array(starts_of(old), np.uint64)[place_of]
    instead = new.select(slice(len(place_of)))
    size = np.minimum(instead.functions.size, old.functions.size[place_of])
    instead = replace(instead, functions=replace(instead.functions, start=moved, size=size))
    behind = new.select(slice(len(place_of), None))
    end = int((old.functions.start + old.functions.size).max(initial=0))
    shift = np.uint64(end)
    behind = replace(behind, functions=replace(behind.functions, start=behind.functions.start + shift))
    gone = np.union1d(np.flatnonzero(fates == 1), place_of)
    drop = [int(old.functions.start[index]) for index in np.flatnonzero(fates == 1)]
    frames = edit_cfi(section, whole.architecture, drop, instead, behind, dialect=dialect)
    # A shorter function has no rows past its end, as a reader will find.
    assert set(frames.refusals.reason.tolist()) <= {Reason.RULE_LOST}
    if len(frames.refusals) == 0:
        kept = np.setdiff1d(np.arange(len(old)), gone)
        expected = [old.select(kept), behind]
        assert by_pc(read(frames)) == by_pc(of_all([*expected, instead]))
        # A function's replacement may equal the original.
        assert set(changed_entries(frames)) <= {*old.functions.origin[gone].tolist(), *terminators_moved(frames)}
    hold_moved(frames)


def of_all(tables: list[UnwindTable]) -> UnwindTable:
    from unwindkit.converters.table.model import concatenate

    return concatenate(tables)


def terminators_moved(frames: EditedCfi) -> list[int]:
    """The offset of the old terminator, if anything was inserted before it."""
    before = len(frames.records.section) - 4
    return [before] if len(frames) > len(frames.records.section) and frames.name == ".eh_frame" else []


def hold_moved(frames: EditedCfi) -> None:
    """At another address the section describes the same rows, and moving it back restores it."""
    if frames.name != ".eh_frame":
        return
    here, there = frames.address, frames.address + 0x12340
    assert all_of([read(frames, there)]) == all_of([read(frames)])
    back = edit_cfi(moved_to(frames, there), frames.records.architecture)
    assert back.at(here) == frames.at(here)


@EVERY_ARCHITECTURE
@fewer(30)
@given(data=st.data())
def test_replacing_each_function_by_itself_takes_no_room(name: str, data: st.DataObject) -> None:
    section, old = section_of(data.draw(rich_tables(ARCHITECTURES[name])))
    frames = edit_cfi(section, old.architecture, replace=old)
    assert all_of([read(frames)]) == all_of([old])
    assert (frames.report.in_place, frames.report.replaced) == (len(old), len(old))
    assert edit_cfi(moved_to(frames, ADDRESS), old.architecture, replace=old).at(ADDRESS) == frames.at(ADDRESS)


@REAL
def test_nothing_is_touched_but_the_functions_named(path: str) -> None:
    section, old = eh_frame_of(path)
    chosen = sorted(random.Random(5).sample(range(len(old)), len(old) // 10))
    drop, instead = chosen[::2], chosen[1::2]
    frames = edit_cfi(section, old.architecture, starts_of(old.select(drop)), old.select(instead))
    assert set(changed_entries(frames)) <= set(old.functions.origin[chosen].tolist())
    assert by_pc(read(frames)) == by_pc(old.select(np.delete(np.arange(len(old)), drop)))
    assert (frames.report.dropped, frames.report.replaced) == (len(drop), len(instead))
    assert len(frames) == len(section)


def hold_file(path: str) -> None:
    """Replaced by itself, dropped, added again, and moved, the section still describes the same rows."""
    section, old = eh_frame_of(path)
    assert edit_cfi(section, old.architecture).at(section.address) == bytes(section.data)
    again = edit_cfi(section, old.architecture, replace=old)
    assert by_pc(read(again)) == by_pc(old)
    empty = edit_cfi(section, old.architecture, drop=starts_of(old))
    assert len(read(empty)) == 0
    assert len(empty) == len(section)
    renewed = edit_cfi(section, old.architecture, drop=starts_of(old), add=old)
    assert by_pc(read(renewed)) == by_pc(old)
    hold_moved(again)
    hold_moved(renewed)


@REAL
def test_real_files(path: str) -> None:
    hold_file(path)


@pytest.mark.parametrize("suite", [pytest.param(suite, marks=pytest.mark.oracle(suite)) for suite in FRAME_SUITES])
def test_c_library_of_every_architecture(suite: str) -> None:
    (path,) = {found.resolve() for pattern in FRAME_SUITES[suite] for found in oracle_root(suite).glob(pattern)}
    hold_file(str(path))
