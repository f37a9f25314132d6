"""System calls that matter for what is known of a process: those that change its code, and the end of a signal."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from unwindkit.converters.kernels import views
from unwindkit.execution.checker import CheckedThread, Tally
from unwindkit.execution.loaded_files import AddressSpace, Library, Mapping
from unwindkit.execution.machines import MACHINES, X86_64
from unwindkit.execution.shadow import Registers, Stacks

from ..support.handmade import Fde, eh_frame
from ..support.small_elf import ALLOC, BASE, ET_EXEC, EXEC, PROGBITS, Part, small_elf

OFFSET, SIZE, STACK = 0x40, 0x80, 0x8000
MAIN = BASE + OFFSET
HANDLER, RESTORER = MAIN + 0x40, MAIN + 0x60
RAX, RDI, RSI, RSP = 0, 5, 4, 7  # DWARF numbers
CFA_IS_RSP_8 = "01 00 01 78 10 0c 07 08 90 01"  # the rows of a function that has pushed nothing
# syscall(2), "Architecture calling conventions", by DWARF number: that of the call, and its first two arguments.
CONVENTIONS = {"x86_64": (RAX, RDI, RSI), "aarch64": (8, 0, 1), "s390x": (1, 2, 3)}


@pytest.mark.parametrize(
    ("name", "compiler"),
    [
        pytest.param(name, f"{prefix}gcc", marks=pytest.mark.oracle(f"{prefix}gcc"))
        for name, prefix in [("x86_64", ""), ("aarch64", "aarch64-linux-gnu-"), ("s390x", "s390x-linux-gnu-")]
    ],
)
def test_numbers_are_those_of_the_kernels_headers(name: str, compiler: str) -> None:
    source = "#include <sys/syscall.h>\n__NR_mmap __NR_munmap __NR_rt_sigreturn\n"
    command = [compiler, "-E", "-P", "-x", "c", "-"]
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    calls = MACHINES[name].system_calls
    assert [calls.mmap, calls.munmap, calls.sigreturn] == [int(one) for one in text.splitlines()[-1].split()]


@pytest.mark.parametrize("name", MACHINES)
def test_registers_are_those_of_the_calling_convention(name: str) -> None:
    machine = MACHINES[name]
    number, *arguments = (machine.columns[register] for register in CONVENTIONS[name])
    assert (machine.system_calls.number, machine.system_calls.arguments) == (number, tuple(arguments))


@dataclass
class Stepped:
    """A thread of x86-64 whose code is all `nop` but for a few instructions."""

    checked: CheckedThread
    registers: dict[int, int] = field(default_factory=lambda: dict.fromkeys(X86_64.columns, 1) | {RSP: STACK})

    def stop(self, pc: int) -> Registers:
        values = [0] * X86_64.register_count
        for number, column in X86_64.columns.items():
            values[column] = self.registers[number]
        values[X86_64.program_counter] = pc
        return views(np.array(values, np.uint64))[0]

    def step(self, *pcs: int) -> None:
        for pc in pcs:
            self.checked.step(self.stop(pc))


@pytest.fixture(name="thread")
def thread_fixture(tmp_path: Path, kernels: str) -> Stepped:
    """At MAIN and at RESTORER a system call; at HANDLER a `ret`."""
    assert kernels
    code = bytearray(b"\x90" * SIZE)
    for address, instruction in ((MAIN, b"\x0f\x05"), (RESTORER, b"\x0f\x05"), (HANDLER, b"\xc3")):
        code[address - MAIN : address - MAIN + len(instruction)] = instruction
    rows = eh_frame(CFA_IS_RSP_8, Fde(MAIN, SIZE))
    parts = (Part(".text", PROGBITS, ALLOC | EXEC, bytes(code)), Part(".eh_frame", PROGBITS, ALLOC, rows))
    (tmp_path / "program").write_bytes(small_elf(*parts, elf_type=ET_EXEC))

    def read(address: int, size: int) -> bytes:
        return bytes(code[address - MAIN :][:size]) if MAIN <= address < MAIN + SIZE else bytes(size)

    mapping = Mapping(MAIN, MAIN + SIZE, OFFSET, str(tmp_path / "program"), True)
    space = AddressSpace(Library(X86_64, {}), read, lambda: [mapping])
    return Stepped(CheckedThread(space, Stacks(), Tally(), lambda _: None))


@pytest.mark.parametrize(
    ("call", "address", "size", "is_forgotten"),
    [
        ("munmap", MAIN, SIZE, True),
        ("mmap", MAIN + SIZE - 1, 1, True),
        ("munmap", MAIN + SIZE, SIZE, False),
        ("mmap", MAIN - 8, 8, False),
        ("sigreturn", MAIN, SIZE, False),
    ],
)
def test_code_that_is_mapped_anew_is_looked_at_anew(
    thread: Stepped, call: str, address: int, size: int, is_forgotten: bool
) -> None:
    thread.registers |= {RAX: getattr(X86_64.system_calls, call), RDI: address, RSI: size}
    thread.step(MAIN)
    spots = thread.checked.space.spots
    assert set(spots) == {MAIN}
    thread.step(MAIN + 2)
    assert (MAIN not in spots) == is_forgotten


@pytest.mark.parametrize(("number", "left"), [(X86_64.system_calls.sigreturn, 0), (X86_64.system_calls.munmap, 1)])
def test_the_end_of_a_signal_goes_on_with_the_interrupted_call(thread: Stepped, number: int, left: int) -> None:
    """A handler returns to its restorer, which ends the signal; another system call there is none that ends it."""
    thread.step(MAIN + 3)
    interrupted = thread.stop(MAIN + 4)
    thread.registers[RSP] = STACK - 0x400
    thread.checked.interrupt(interrupted, thread.stop(HANDLER), RESTORER)
    shadow = thread.checked.shadow
    assert [call.return_address for call in shadow.calls] == [MAIN + 4, RESTORER]
    thread.registers[RSP] += 8
    thread.registers[RAX] = number
    thread.step(RESTORER)
    assert [call.return_address for call in shadow.calls] == [MAIN + 4]
    thread.registers[RSP] = STACK
    thread.step(MAIN + 4)
    assert shadow.switches == left
    assert len(shadow.calls) == 0
