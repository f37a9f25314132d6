"""Core files: made by hand for each machine and each way to be malformed, and those of programs that crash, which gdb
walks, too."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
import unwindkit
from unwindkit import FormatError, ParseError, Places, WalkEnd
from unwindkit.converters.elf.core_file import core_file
from unwindkit.converters.elf.process_state import Memory

from ..support.made.cores import LINUX, NT_FPREGSET, PC, Mapped, core_of, note
from ..support.tiny_elf import tiny_elf
from ..support.work import at_most_calls

RSP, RIP = 7, 16
LOADED = 0x7F0000000000  # where tiny_elf's file offset 0 is; its .text, linked at 0x1000, has the file offset 0x100
STACK = 0x7FF000000000
BIAS = LOADED - 0xF00


def words(*values: int, order: str = "<") -> bytes:
    return struct.pack(f"{order}{len(values)}Q", *values)


def mapped_core(path: Path, registers: Mapping[int, int], memory: Mapping[int, bytes]) -> bytes:
    """A core file of a process that has tiny_elf's file mapped: functions at 0x1000 (CFA rsp+8, from 1 on rsp+16) and
    0x1040 (rsp+8)."""
    return core_of("x86_64", registers, memory, [Mapped(LOADED, LOADED + 0x1000, 0, str(path))], {9: BIAS + 0x1000})


@pytest.fixture(name="program")
def program_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "tiny"
    path.write_bytes(tiny_elf())
    return path


# --- made by hand -----------------------------------------------------------------------------------------------------


def test_frames_of_a_mapped_file(program: Path) -> None:
    """0x1050 was called by 0x1020, that by an address outside."""
    stack = words(BIAS + 0x1020, 0xAAAA, 0x1234)
    core = mapped_core(program, {RIP: BIAS + 0x1050, RSP: STACK, 3: 33, 0: 5}, {STACK: stack})
    found = unwindkit.walk_core(core)
    (thread,) = found.threads
    assert thread.pid == 7
    assert [frame.walked.frame.pc for frame in thread.frames] == [BIAS + 0x1050, BIAS + 0x1020, 0x1234]
    assert [frame.walked.cfa for frame in thread.frames] == [STACK + 8, STACK + 24, None]
    assert [frame.walked.source for frame in thread.frames] == ["registers", ".eh_frame", ".eh_frame"]
    assert [(frame.module, frame.address) for frame in thread.frames] == [
        (str(program), 0x1050), (str(program), 0x1020), ("", 0),
    ]  # fmt: skip
    assert thread.frames[2].walked.frame.registers == {
        RSP: STACK + 24,
        3: 33,
        6: 0,
        12: 0,
        13: 0,
        14: 0,
        15: 0,
        RIP: 0x1234,
    }
    assert (thread.end, thread.sentence) == (WalkEnd.NO_FUNCTION, "no function covers the PC: 0x1234 is in no module")


def test_a_file_that_is_gone_or_another_one(program: Path, tmp_path: Path) -> None:
    core = mapped_core(program, {RIP: BIAS + 0x1050, RSP: STACK}, {STACK: words(0)})
    program.rename(tmp_path / "moved")
    found = unwindkit.walk_core(core)
    assert (found.threads[0].end, found.notes) == (WalkEnd.NO_FUNCTION, (f"{program}: not found",))
    by_exe = unwindkit.walk_core(core, places=Places(exe=tmp_path / "moved"))
    assert by_exe.threads[0].end is WalkEnd.NULL_RETURN_ADDRESS
    root = tmp_path / "root"
    (root / program.relative_to("/")).parent.mkdir(parents=True)
    (tmp_path / "moved").rename(root / program.relative_to("/"))
    assert unwindkit.walk_core(core, places=Places(roots=[root])).threads[0].end is WalkEnd.NULL_RETURN_ADDRESS


def test_memory_that_was_not_dumped_is_the_files(program: Path) -> None:
    """The stack pointer is in the code, whose bytes are zeros."""
    core = mapped_core(program, {RIP: BIAS + 0x1050, RSP: BIAS + 0x1010}, {})
    assert unwindkit.walk_core(core).threads[0].end is WalkEnd.NULL_RETURN_ADDRESS


@pytest.mark.parametrize("architecture", ["aarch64", "s390x"])
def test_registers_of_other_machines(architecture: str) -> None:
    general = {number: 0x100 + number for number in range(32 if architecture == "aarch64" else 16)}
    order = "<" if architecture == "aarch64" else ">"
    # v8 is the ninth of 16 bytes; f8, DWARF 24, comes after FPC and f0 to f7.
    floating = b"".join(words(n, 0) for n in range(32)) if order == "<" else words(0, *range(16), order=order)
    core = core_of(architecture, general | {PC: 0x4242}, more=note(order, b"CORE\0", NT_FPREGSET, floating))
    (thread,) = core_file(unwindkit.open_elf(core)).threads
    assert (thread.pid, thread.pc) == (7, 0x4242)
    assert {number: thread.registers[number] for number in general} == general
    expected = {72: 8, 79: 15} if order == "<" else {16: 0, 17: 2, 20: 1, 24: 8, 25: 10, 28: 9, 31: 15}
    assert {number: thread.registers[number] for number in expected} == expected


def test_signal_frames_are_recognised_by_their_code() -> None:
    """AArch64: mov x8, #139; svc #0, with the registers at SP + 312. s390x: svc 119, at SP + 192."""
    page, stack = 0x9000, 0x20000
    saved = bytes(312) + words(*range(0x500, 0x51F), 0x7000, 0x4444) + bytes(8)
    core = core_of("aarch64", {31: stack, PC: page}, {page: bytes.fromhex("681180d2010000d4"), stack: saved})
    first, second = unwindkit.walk_core(core).threads[0].frames
    assert (first.walked.is_signal_frame, second.walked.source) == (True, "signal frame")
    frame = second.walked.frame
    assert (frame.pc, frame.registers[31], frame.registers[30], frame.registers[0]) == (0x4444, 0x7000, 0x51E, 0x500)
    assert not frame.is_after_call
    assert first.walked.cfa == 0x7000
    saved = (
        bytes(176) + words(0, 0x4444, *range(0x500, 0x510), order=">") + bytes(64 + 8) + words(*range(16), order=">")
    )
    for code, before in (("0a77", 0), ("0aad", 336 - 176)):
        memory = {page: bytes.fromhex(code), stack: bytes(before) + saved}
        (trace,) = unwindkit.walk_core(core_of("s390x", {15: stack, PC: page}, memory)).threads
        found = trace.frames[1]
        registers = found.walked.frame.registers
        assert (found.walked.frame.pc, registers[15], registers[24]) == (0x4444, 0x50F, 8)
        assert trace.frames[0].walked.cfa == 0x50F + 160


def test_memory_of_several_ranges() -> None:
    memory = Memory("little")
    memory.add(0x1000, memoryview(b"abcd"))
    memory.add(0x1008, memoryview(b"ijkl"))
    memory.add(0xFFC, memoryview(b"WXYZABCDefghIJKLmnop"))  # what is there already wins
    assert memory.bytes_at(0xFFC, 20) == b"WXYZabcdefghijklmnop"
    assert memory.read(0x1003, 2) == int.from_bytes(b"de", "little")
    assert memory.upto(0x100A, 100) == b"kl"
    for address, size in ((0xFFB, 1), (0x1010, 1), (0x100F, 2), (0, 8), ((1 << 64) - 1, 8)):
        with pytest.raises(LookupError):
            memory.bytes_at(address, size)


# --- hostile ----------------------------------------------------------------------------------------------------------


def test_every_truncation_is_an_answer_or_an_error(program: Path) -> None:
    core = mapped_core(program, {RIP: BIAS + 0x1050, RSP: STACK}, {STACK: words(BIAS + 0x1020, 0, 0x1234)})
    ends = set()
    for size in range(0, len(core), 7):
        try:
            ends.add(unwindkit.walk_core(core[:size]).threads[0].end)
        except FormatError:
            ends.add(None)
    assert ends == {None, WalkEnd.NO_MEMORY}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (tiny_elf(), "not a core file"),
        (core_of("x86_64", {})[:18] + b"\x08\0" + core_of("x86_64", {})[20:], "not supported"),
        (core_of("x86_64", {}, more=note("<", b"CORE\0", 1, bytes(200))), "pr_reg: 160 bytes needed, 88 left"),
        (core_of("x86_64", {}, more=note("<", b"CORE\0", 0x46494C45, words(1 << 60, 4096))), "do not fit"),
        (core_of("x86_64", {}, more=note("<", b"CORE\0", 0x46494C45, words(1, 4096, 0, 0, 0) + b"x")), "0 names"),
        (core_of("x86_64", {}, more=note("<", b"CORE\0", 6, bytes(12))), "no whole number"),
        (core_of("aarch64", {}, more=note("<", LINUX, 0x406, bytes(8))), "16 bytes needed, 8 left"),
        (core_of("x86_64", {}).replace(b"CORE", b"EROC"), "no thread"),
    ],
)
def test_malformed_core_files(data: bytes, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        unwindkit.walk_core(data)


def test_registers_that_point_nowhere_and_stacks_that_loop(program: Path) -> None:
    for pc in (0, 1, BIAS + 0x1050, (1 << 64) - 1):
        for sp in (0, 8, (1 << 64) - 8, (1 << 64) - 1):
            core = mapped_core(program, {RIP: pc, RSP: sp}, {})
            expected = WalkEnd.NO_MEMORY if pc == BIAS + 0x1050 else WalkEnd.NO_FUNCTION
            assert unwindkit.walk_core(core).threads[0].end is expected
    # The stack is full of return addresses: one frame for each word, or as many as wanted.
    core = mapped_core(program, {RIP: BIAS + 0x1050, RSP: STACK}, {STACK: words(*[BIAS + 0x1050] * 500)})
    assert len(unwindkit.walk_core(core, limit=50).threads[0].frames) == 50
    with at_most_calls(500_000):
        assert len(unwindkit.walk_core(core).threads[0].frames) == 501


def test_vdso_that_is_no_elf_file() -> None:
    core = core_of("x86_64", {RIP: 0x5000}, {0x5000: b"\x7fELF" + bytes(60)}, auxv={33: 0x5000})
    found = unwindkit.walk_core(core)
    assert found.threads[0].end is WalkEnd.NO_FUNCTION
    assert any(one.startswith("[vdso]") for one in found.notes)
