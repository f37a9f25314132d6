"""verify on real programs: every row that they reach holds; changed rows and a linker's known fault are found."""

from __future__ import annotations

import json
import os
import platform
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import unwindkit
from unwindkit import UnwindTable, VerifyReport, verify
from unwindkit.converters.rules import CfaKind, RuleKind
from unwindkit.converters.table.model import RuleColumns
from unwindkit.execution.loaded_files import Library
from unwindkit.execution.machines import X86_64
from unwindkit.execution.ptrace import Tracer
from unwindkit.execution.stepping import Limits

from ..support.binutils import SFRAME, V3, chosen, gcc
from ..support.commands import DIFFERENT, DONE, WRONG
from ..support.commands import unwindkit as run_command
from ..support.oracles import absent
from ..support.programs.executed_programs import CONTROL, EXCEPTIONS, PLAIN, WAITING, built
from ..support.programs.plt_programs import SOURCE as CALLS

# Functions of glibc and libgcc whose rows describe the registers that they are about to load.
REPLACE_REGISTERS = {
    *("__longjmp", "setcontext", "__setcontext", "swapcontext", "__swapcontext"),
    *("_Unwind_RaiseException", "_Unwind_Resume", "_Unwind_Resume_or_Rethrow"),
}


@pytest.fixture(autouse=True)
def stepping() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        absent("programs are stepped on x86-64 Linux")


@pytest.fixture(scope="session", name="plain")
def plain_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("plain"), PLAIN, "gcc", "-static")


def figures(report: VerifyReport, path: Path) -> dict[str, tuple[int, int]]:
    """The rows reached and wrong, by source, of one of the files."""
    file = next(one for one in report.files if one.file == str(path))
    return {one.source: (one.rows, one.wrong) for one in file.sources}


@pytest.mark.usefixtures("kernels")
def test_every_way_out_of_a_function(tmp_path: Path) -> None:
    """Signals on two stacks, siglongjmp, longjmp, contexts, threads, fork, vfork and exec: no row is wrong, and the
    only unclear ones are of the C library's code that replaces the registers."""
    program = built(tmp_path, CONTROL, "gcc", "-static")
    report = verify([str(program)])
    assert report.exit_status == 0
    assert report.wrong == ()
    assert report.checked > 0.99 * report.steps > 50_000
    assert figures(report, program)[".eh_frame"][0] >= 500
    assert report.switches >= 8
    assert {one.symbol.partition("+")[0] for one in report.unclear} <= REPLACE_REGISTERS


@pytest.mark.usefixtures("kernels")
def test_exceptions(tmp_path: Path) -> None:
    program = built(tmp_path, EXCEPTIONS, "gcc", "-static-libstdc++", "-static-libgcc")
    report = verify([str(program)])
    assert (report.exit_status, report.wrong) == (0, ())
    assert figures(report, program)[".eh_frame"][0] >= 300
    # Frames that a landing pad continues are checked again.
    assert report.checked > 0.99 * report.steps
    assert {one.symbol.partition("+")[0] for one in report.unclear} <= REPLACE_REGISTERS


@pytest.mark.parametrize("version", [2, 3])
def test_our_sections_are_as_true_as_the_eh_frame(plain: Path, tmp_path: Path, version: int) -> None:
    """The `.sframe` that is added to a program, and its symbol file."""
    program, symbols = tmp_path / "program", tmp_path / "program.sym"
    unwindkit.write_sframe(plain, program, version)
    unwindkit.write_breakpad(plain, symbols)
    report = verify([str(program)], symbol_files=[symbols])
    assert (report.exit_status, report.wrong, report.unclear) == (0, (), ())
    found = figures(report, program)
    assert set(found) == {".eh_frame", ".sframe", "STACK CFI"}
    assert found["STACK CFI"] == found[".eh_frame"]
    assert found[".sframe"][0] > 0.9 * found[".eh_frame"][0] > 100


def reached_rows(program: Path) -> list[int]:
    """The rows of the `.eh_frame` of a static program that are checked when it runs, by index in its table."""
    library = Library(X86_64, {})
    tracer = Tracer(library, Limits(), lambda tally: None)

    def run() -> None:
        tracer.launch([str(program)])
        tracer.run()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result()
    spots = library.files[str(program)].spots.values()
    return sorted({one.place[1] for spot in spots if spot.checked for one in spot.stated if one.claim is not None})


def saved_registers(table: UnwindTable, row: int) -> list[int]:
    """The rules of a row for registers in memory, the return address among them, by index in the table."""
    first, count = int(table.rows.first_rule[row]), int(table.rows.rule_count[row])
    return [one for one in range(first, first + count) if table.rules.kind[one] == RuleKind.OFFSET]


def with_changed_row(table: UnwindTable, row: int, is_cfa: bool, drawn: random.Random) -> UnwindTable:
    """The table with the CFA of a row, or one of the saved registers in it, 8 bytes off."""
    first, count = int(table.rows.first_rule[row]), int(table.rows.rule_count[row])
    if table.rows.cfa_kind[row] != CfaKind.REGISTER or not is_cfa:
        saved = [one for one in saved_registers(table, row) if table.rules.register[one] != 16 or count == 1]
        # The rules may be those of other rows, too: this row gets its own.
        rules = RuleColumns.concatenate([table.rules, table.rules.select(slice(first, first + count))])
        rules.value[len(table.rules) + drawn.choice(saved) - first] += 8
        starts = table.rows.first_rule.copy()
        starts[row] = len(table.rules)
        return replace(table, rules=rules, rows=replace(table.rows, first_rule=starts))
    offsets = table.rows.cfa_offset.copy()
    offsets[row] += drawn.choice([-8, 8])
    return replace(table, rows=replace(table.rows, cfa_offset=offsets))


def test_each_changed_row_is_found(plain: Path, tmp_path: Path) -> None:
    """One row after another that the program reaches has its CFA, or a saved register, 8 bytes off."""
    table, drawn = unwindkit.read_elf(plain), random.Random(20)
    rows = drawn.sample(reached_rows(plain), int(os.environ.get("UNWINDKIT_CHANGED_ROWS", "4")))
    # One has a preserved register in memory, in any sample.
    rows[0] = drawn.choice([row for row in reached_rows(plain) if len(saved_registers(table, row)) > 1])
    missed = []
    for index, row in enumerate(rows):
        changed = tmp_path / "changed"
        unwindkit.write_eh_frame(plain, changed, with_changed_row(table, row, index % 2 == 1, drawn))
        if not any(one.file == str(changed) for one in verify([str(changed)]).wrong):
            missed.append(row)
    assert missed == []


@pytest.mark.oracle("forky")
def test_a_linkers_own_fault_is_found(tmp_path: Path) -> None:
    """GNU ld 2.47's `.sframe` gives SP + 16 as the CFA in `.plt.got`, where it is SP + 8 (its `.eh_frame` is right)."""
    (tmp_path / "calls.c").write_text(CALLS)
    gcc(tmp_path, *chosen(tmp_path, V3), "-O1", "-fno-builtin", "-fPIE", "-pie", SFRAME, "calls.c", "-o", "calls")
    report = verify([str(tmp_path / "calls")])
    assert {(one.source, one.symbol.partition("+")[0]) for one in report.wrong} == {(".sframe", ".plt.got")}
    assert {one.rules["cfa"] for one in report.wrong} == {"sp+16"}


def test_the_command(plain: Path, tmp_path: Path) -> None:
    done = run_command("verify", "--json", "-o", tmp_path / "report", "--", plain)
    assert (done.returncode, done.stdout, done.stderr) == (DONE, "", "")
    report = json.loads((tmp_path / "report").read_text())
    assert (report["exit_status"], report["wrong"]) == (0, [])
    table = unwindkit.read_elf(plain)
    changed = tmp_path / "changed"
    row = next(one for one in reached_rows(plain) if table.rows.cfa_kind[one] == CfaKind.REGISTER)
    unwindkit.write_eh_frame(plain, changed, with_changed_row(table, row, True, random.Random(1)))
    done = run_command("verify", "--", changed)
    assert done.returncode == DIFFERENT
    assert f"wrong: {changed} " in done.stderr
    done = run_command("verify", "--steps", "500", "--", plain)
    assert done.stderr.startswith("x86_64: 500 steps, ")


def test_what_cannot_be_run(tmp_path: Path) -> None:
    absent_file = tmp_path / "none"
    done = run_command("verify", "--", absent_file)
    assert (done.returncode, done.stderr) == (WRONG, f"unwindkit: {absent_file}: No such file or directory\n")
    assert run_command("verify").returncode == WRONG
    done = run_command("verify", "--pid", str(1 << 30))
    assert (done.returncode, done.stderr) == (WRONG, f"unwindkit: {1 << 30}: No such process\n")
    symbols = tmp_path / "no.sym"
    symbols.write_text("FUNC 1 1 0 f\n")
    done = run_command("verify", "--symbol-file", symbols, "--", "true")
    assert done.stderr == f"unwindkit: {symbols}: MODULE: the symbol file does not begin with MODULE\n"


def test_a_running_process() -> None:
    """Only calls that are made after it was attached to are checked; it goes on afterwards."""
    with subprocess.Popen(["sh", "-c", "while :; do test -e /; done"]) as process:
        try:
            report = verify(pid=process.pid, steps=30_000)
            assert (report.wrong, report.exit_status) == ((), None)
            assert report.steps == 30_000 > report.checked > 10_000
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGKILL)


def test_a_program_that_waits_is_stopped(tmp_path: Path) -> None:
    """A time limit holds while nothing is stepped, and the end of a program with threads is the end of all of them."""
    report = verify([str(built(tmp_path, WAITING, "gcc", "-static"))], seconds=1)
    assert (report.exit_status, report.wrong) == (None, ())
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            assert verify(pid=process.pid, seconds=0.2).wrong == ()
            assert process.poll() is None
            assert "State:\tS" in Path(f"/proc/{process.pid}/status").read_text()
        finally:
            process.kill()


def test_samples_reach_more_of_a_program() -> None:
    """Bursts after the first one are in the program's loop, which single steps from the start do not reach."""
    command = ["sh", "-c", "while :; do test -e /; done"]
    names = [
        {Path(file.file).name for file in verify(command, steps=8_000, burst=burst, pause=0.3).files}
        for burst in (0, 2_000)
    ]
    assert not any(name.startswith("libc.") for name in names[0])
    assert any(name.startswith("libc.") for name in names[1])


@pytest.mark.oracle("qemu-aarch64", "qemu-s390x", "aarch64-linux-gnu-gcc", "s390x-linux-gnu-gcc")
@pytest.mark.parametrize("machine", ["aarch64", "s390x"])
@pytest.mark.parametrize("how", ["static", "dynamic"])
def test_programs_under_an_emulator(machine: str, how: str, tmp_path: Path) -> None:
    flags = ["-static"] if how == "static" else []
    flags += ["-mbranch-protection=standard"] if machine == "aarch64" else []
    program = built(tmp_path, PLAIN, f"{machine}-linux-gnu-gcc", *flags)
    report = verify([str(program)], steps=4_000)
    assert (report.wrong, report.unclear) == ((), ())
    assert report.checked > 0.98 * report.steps == 0.98 * 4_000


# A compare-and-swap whose loop ends only if no stop comes between its load and its store, then exit(7).
EXCLUSIVE = """
.globl _start
_start: mov x29, sp
bl swap
mov x8, 93
svc 0
.type swap, %function
swap: .cfi_startproc
sub x1, sp, 16
mov w0, 7
again: ldaxr w2, [x1]
stxr w3, w0, [x1]
cbnz w3, again
ldr w0, [x1]
ret
.cfi_endproc
"""


@pytest.mark.oracle("qemu-aarch64", "aarch64-linux-gnu-gcc")
def test_exclusive_sequences_run_without_a_stop(tmp_path: Path) -> None:
    (tmp_path / "swap.s").write_text(EXCLUSIVE)
    program = tmp_path / "swap"
    flags = ["-static", "-nostdlib", "-Wl,--build-id=none"]
    subprocess.run(["aarch64-linux-gnu-gcc", *flags, tmp_path / "swap.s", "-o", program], check=True)
    report = verify([str(program)], steps=1_000)
    assert (report.exit_status, report.wrong, report.steps, report.checked) == (7, (), 10, 6)
