"""`check` finds the known faults of other writers: GNU ld's `.plt.got`, gas's FREs at the end of a function, and the
lazy PLT, restored registers and signed return addresses of dump_syms and symbolic.

Strategy: files that these programs write here, compared with the `.eh_frame` that they read. What is expected of each
is in the manual's pages on SFrame and Breakpad symbol files, with the reason.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from unwindkit import DebugFiles, check
from unwindkit.converters.files.lint import Code

from ..support.binutils import EVERY_VERSION, SFRAME, Binutils, chosen
from ..support.oracles import BREAKPAD_PROGRAMS, oracle_root
from ..support.programs.plt_programs import SOURCE as CALLS
from ..support.real_files import REAL_FILES
from ..support.texts.symbolic_reader import cfi_text

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


LATE = """ .cfi_sections .eh_frame, .sframe
 .text
f:
 .cfi_startproc
 nop
 .cfi_def_cfa_offset 16
 .cfi_endproc
"""


@pytest.mark.parametrize("tools", EVERY_VERSION[1:])
def test_an_fre_at_the_end_that_gas_writes(tools: Binutils, tmp_path: Path) -> None:
    """For a row that holds nowhere."""
    (tmp_path / "late.s").write_text(LATE)
    options = (*chosen(tmp_path, tools), SFRAME)
    subprocess.run(["gcc", *options, "-c", "late.s"], cwd=tmp_path, check=True)
    found = {one.name: one.findings.code.tolist() for one in check(tmp_path / "late.o").sections}
    assert Code.LATE_ROW in found[".sframe"]
    assert Code.LATE_ROW in found[".eh_frame"]


def of_symbolic(machine: str, library: str, tmp_path: Path) -> Path:
    """symbolic's STACK CFI for a library, as a symbol file."""
    symbols = tmp_path / "libc.sym"
    symbols.write_text(f"MODULE Linux {machine} {'0' * 33} libc\n{cfi_text(Path(library))}")
    return symbols


@pytest.mark.oracle("symbolic")
def test_symbolic(tmp_path: Path) -> None:
    """Of libc: it takes the lazy PLT's expression for SP + 24, and leaves rules in force that were restored; there the
    CFA and the return address are right."""
    (pair,) = check(LIBC, of_symbolic("x86_64", LIBC, tmp_path), debug=DebugFiles(links=False)).pairs
    assert pair.equal.bytes > 0.99 * (pair.equal.bytes + pair.different.bytes)
    in_plt = [one for one in pair.differences if one.name.startswith(".plt")]
    assert {(one.second or {}).get("cfa") for one in in_plt} == {"sp+24"}
    others = [(one.first or {}, one.second or {}) for one in pair.differences if one not in in_plt]
    restored = [both for both in others if both[0] and both[0]["ra"] != "undefined" and both[0]["cfa"][:3] != "exp"]
    assert restored
    for ours, theirs in restored:
        assert (ours["cfa"], ours["ra"]) == (theirs["cfa"], theirs["ra"])
        assert ours.keys() < theirs.keys()


@pytest.mark.oracle("symbolic", "sid-arm64")
def test_symbolic_on_signed_return_addresses(tmp_path: Path) -> None:
    """It keeps the first row of a function from there on: CFA is SP."""
    library = str(oracle_root("sid-arm64") / "usr/lib/aarch64-linux-gnu/libc.so.6")
    (pair,) = check(library, of_symbolic("arm64", library, tmp_path), debug=DebugFiles(links=False)).pairs
    assert pair.different.functions > 2000
    assert {(one.second or {}).get("cfa") for one in pair.differences if "[s]" in (one.first or {}).get("ra", "")} == {
        "sp+0"
    }
