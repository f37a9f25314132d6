"""The benchmark of STACK CFI runs, lists what is missing, and gives dump_syms a file that it can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import stack_cfi
from benchmarks.inputs import Found
from benchmarks.measure import Program, Skipped

from ..breakpad.test_breakpad_peers import with_unwind_type
from ..support.real_files import REAL_FILES
from ..support.texts.stackwalks import cfi_lines, dump_syms

INPUT = Found("input", Path(REAL_FILES[0]), 0, "", True)


@pytest.mark.oracle("npm", "symbolic")
def test_each_program_is_measured_beside_its_peer() -> None:
    symbolic, breakpad = stack_cfi.symbolic(), stack_cfi.dump_syms()
    assert isinstance(symbolic, Program)
    assert isinstance(breakpad, Program)
    assert (symbolic.version[0].isdigit(), breakpad.version) == (True, "of minidump 0.26.0")
    inside, skipped = stack_cfi.in_process(INPUT, symbolic, 1)
    assert inside is not None
    assert [one.program for one in inside.measured] == ["unwindkit", "symbolic"]
    assert all(one.wall > 0 and one.peak >= one.floor > 0 for one in inside.measured)
    whole, more = stack_cfi.whole_process(INPUT, breakpad, 1)
    assert whole is not None
    assert [one.program for one in whole.measured] == ["unwindkit", "dump_syms", "unwindkit --cfi-only"]
    assert skipped + more == []


def test_a_peer_that_fails_is_skipped_with_its_last_line() -> None:
    comparison, skipped = stack_cfi.in_process(INPUT, Program("symbolic", ("false",)), 1)
    assert comparison is not None
    assert [one.program for one in comparison.measured] == ["unwindkit"]
    assert skipped == [Skipped("symbolic on input", "ended with 1: ")]


@pytest.mark.oracle("npm")
def test_dump_syms_gets_a_copy_with_the_type_that_it_reads(tmp_path: Path) -> None:
    before = cfi_lines(dump_syms(INPUT.path))
    changed = tmp_path / "changed"
    changed.write_bytes(with_unwind_type(INPUT.path))
    assert cfi_lines(dump_syms(changed)) == []
    (tmp_path / "copy").mkdir()
    copy = stack_cfi.readable_by_dump_syms(changed, tmp_path / "copy")
    assert copy != changed
    assert cfi_lines(dump_syms(copy)) == before
    assert stack_cfi.readable_by_dump_syms(INPUT.path, tmp_path) == INPUT.path
