"""The benchmark of whole symbol files runs each program on one input, and lists what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import symbol_files
from benchmarks.cases import SymbolFiles
from benchmarks.debug_inputs import DebugInput
from benchmarks.measure import Measured, Program, Skipped

from ..support.commands import build_program

MEASURED = Measured("unwindkit", 1, 2.0, 2.0, 2.0, user=1.5, system=0.5, peak=3_000_000, floor=0)


@pytest.mark.oracle("npm", "symbolic")
def test_each_program_is_measured_on_a_file_with_debugging_information(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(symbol_files.MOZILLA_PATH, "/nowhere/dump_syms")
    programs, missing = symbol_files.peers()
    assert [one.name for one in programs] == ["Breakpad dump_syms", "symbolic symcache"]
    assert [one.name for one in missing] == ["Mozilla dump_syms"]
    found, skipped = symbol_files.measure(DebugInput("main", build_program(tmp_path)), programs, 1)
    assert skipped == []
    assert found is not None
    assert [one.program for one in found.measured] == ["unwindkit", "Breakpad dump_syms", "symbolic symcache"]
    assert found.debug_info > 0
    assert all(one.wall > 0 for one in found.measured)


def test_figures_are_relative_to_the_debugging_information() -> None:
    found = SymbolFiles("input", (MEASURED,), debug_info=4_000_000)
    assert found.milliseconds_per_megabyte(MEASURED) == 500  # 2 s for 4 MB
    assert found.bytes_per_byte(MEASURED) == 0.75


def test_a_program_that_fails_is_skipped_for_this_input(tmp_path: Path) -> None:
    failing = [Program("Mozilla dump_syms", (shutil.which("false") or "false",))]
    found, skipped = symbol_files.measure(DebugInput("main", build_program(tmp_path)), failing, 1)
    assert found is not None
    assert skipped == [Skipped("Mozilla dump_syms on main", "ended with 1: ")]


def test_each_peer_gets_the_debug_file_in_its_own_way(tmp_path: Path) -> None:
    one = DebugInput("x", Path("/a/x"), Path("/b/x.debug"))
    peers = [Program(name, ("peer",)) for name in ("Breakpad dump_syms", "Mozilla dump_syms", "symbolic symcache")]
    ours, breakpad, mozilla, symcache = symbol_files.commands(one, peers, tmp_path)
    assert ours.command[3:] == ("breakpad", "/a/x", "--debug-file", "/b/x.debug", "-o", str(tmp_path / "ours.sym"))
    assert breakpad.command == ("peer", "-d", "-m", "/a/x", "/b")
    assert mozilla.command == ("peer", "--inlines", "-o", str(tmp_path / "mozilla.sym"), "/b/x.debug")
    assert symcache.command[1:] == ("-m", "benchmarks.symbol_files", "/b/x.debug", str(tmp_path / "symcache"))
