"""`check` finds the known faults of other writers: GNU ld's `.plt.got`, and dump_syms' lazy PLT and restored registers.

Strategy: files that these programs write here, compared with the `.eh_frame` that they read. What is expected of each
is in the manual's pages on SFrame and Breakpad symbol files, with the reason.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from unwindkit import DebugFiles, check

from ..support.binutils import EVERY_VERSION, SFRAME, Binutils, chosen
from ..support.oracles import BREAKPAD_PROGRAMS, oracle_root
from ..support.programs.plt_programs import SOURCE as CALLS
from ..support.real_files import REAL_FILES

LIBC = next((one for one in REAL_FILES if "libc.so" in one), "")


@pytest.mark.parametrize("tools", EVERY_VERSION[1:])
def test_the_linkers_own_sframe(tools: Binutils, tmp_path: Path) -> None:
    """GNU ld 2.44 and 2.47 write SP + 16 for `.plt.got`, where it is SP + 8: no other range differs."""
    (tmp_path / "calls.c").write_text(CALLS)
    options = (*chosen(tmp_path, tools), "-O1", "-fno-builtin", "-fPIE", "-pie", SFRAME)
    subprocess.run(["gcc", *options, "calls.c", "-o", "calls"], cwd=tmp_path, check=True)
    report = check(tmp_path / "calls")
    pair = next(one for one in report.pairs if "sframe" in one.second)
    different = [one for one in pair.differences if one.relation == "DIFFERENT"]
    assert {one.name.partition("+")[0] for one in different} == {".plt.got"}
    assert [((one.first or {})["cfa"], (one.second or {})["cfa"]) for one in different] == [("sp+8", "sp+16")]


@pytest.mark.oracle("npm")
def test_dump_syms_of_breakpad(tmp_path: Path) -> None:
    """Of libc: it takes the lazy PLT's expression for SP + 24, leaves out the expressions of the signal trampoline, and
    gives outermost frames (`clone`) a return address."""
    symbols = tmp_path / "libc.sym"
    program = oracle_root("npm") / BREAKPAD_PROGRAMS / "dump_syms"
    symbols.write_bytes(subprocess.run([program, LIBC], capture_output=True, check=True).stdout)
    (pair,) = check(LIBC, symbols, debug=DebugFiles(links=False)).pairs
    in_plt = [one for one in pair.differences if one.name.startswith(".plt")]
    assert {(one.second or {}).get("cfa") for one in in_plt} == {"sp+24"}
    assert {(one.first or {}).get("cfa") for one in in_plt} == {"sp+8", "sp+16"}
    others = [one for one in pair.differences if one not in in_plt]
    kinds = {"undefined" if (one.first or {})["ra"] == "undefined" else (one.first or {})["cfa"][:3] for one in others}
    assert kinds <= {"undefined", "exp"}
    assert pair.equal.bytes > 0.99 * (pair.equal.bytes + pair.different.bytes)
