"""The checker on simulated machines: a call whose every register and saved word is known, by right and wrong rows.

Strategy: a tiny ELF file has the code and the rows; a simulated thread runs a caller and a function instruction by
instruction, and the checker sees its stops as it sees those of ptrace or gdb's protocol. A wrong rule has to be noted
at the first instruction where it does not hold, and with the value that was found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from unwindkit.converters.kernels import views
from unwindkit.execution.checker import CheckedThread, Tally
from unwindkit.execution.loaded_files import AddressSpace, Library, Mapping
from unwindkit.execution.machines import AARCH64, S390X, X86_64, Machine
from unwindkit.execution.shadow import Registers, Stacks

from ..support.handmade import Fde, eh_frame, octets
from ..support.small_elf import ALLOC, BASE, EM_S390, ET_EXEC, EXEC, PROGBITS, Part, small_elf

pytestmark = pytest.mark.usefixtures("kernels")

EM_AARCH64 = 183
OFFSET, SIZE = 0x40, 0x80  # of .text, the first section, in the file
MAIN = BASE + OFFSET
FUNCTION, STACK = MAIN + 0x40, 0x8000
SIGNATURE = 0x2B << 48  # bit 55 tells which half of memory the address is in


@dataclass
class Simulated:
    """Registers by DWARF number, and memory by word."""

    machine: Machine
    registers: dict[int, int]
    memory: dict[int, int] = field(default_factory=dict)

    def stop(self, pc: int) -> Registers:
        columns = self.machine.columns
        values = [0] * (max(*columns.values(), self.machine.program_counter) + 1)
        for number, column in columns.items():
            values[column] = self.registers.get(number, 0)
        values[self.machine.program_counter] = pc
        return views(np.array(values, np.uint64))[0]

    def read(self, address: int, size: int) -> bytes:
        order = self.machine.architecture.byte_order
        return b"".join(self.memory.get(at, 0).to_bytes(8, order) for at in range(address, address + size, 8))[:size]


Step = tuple[int, Callable[[Simulated], None]]


def nothing(_: Simulated) -> None:
    """An instruction that changes no register that matters."""


def noted(
    machine: Machine,
    number: int,
    data: bytes,
    code: bytes,
    steps: list[Step],
    folder: Path,
    *sections: str,
    killed_at: int | None = None,
) -> Tally:
    """What the checker notes when the steps (PC, what the instruction there does) are run; `number` is e_machine. The
    `sections` have the rows, `.eh_frame` by default, and no contents after the first. At the stop at `killed_at` the
    process is gone already."""
    file, code = folder / "program", code.ljust(SIZE, b"\0")
    order = "<" if machine.architecture.byte_order == "little" else ">"
    parts = (
        Part(".text", PROGBITS, ALLOC | EXEC, code),
        Part(sections[0] if sections else ".eh_frame", PROGBITS, ALLOC, data),
    )
    empty = [Part(name, PROGBITS, ALLOC, bytes(8)) for name in sections[1:]]
    file.write_bytes(small_elf(*parts, *empty, machine=number, order=order, elf_type=ET_EXEC))
    thread = Simulated(machine, {number: 0x5500 + number for number in machine.columns})
    thread.registers[machine.architecture.stack_pointer or 0] = STACK

    is_gone = False

    def read(address: int, size: int) -> bytes:
        if is_gone:
            return b""
        return code[address - MAIN :][:size] if MAIN <= address < MAIN + SIZE else thread.read(address, size)

    tally = Tally()
    mapping = Mapping(MAIN, MAIN + SIZE, OFFSET, str(file), True)
    checked = CheckedThread(
        AddressSpace(Library(machine, {}), read, lambda: [mapping]), Stacks(), tally, lambda _: None
    )
    for pc, instruction in steps:
        is_gone = pc == killed_at
        checked.step(thread.stop(pc))
        if is_gone:
            break
        instruction(thread)
    checked.finish()
    return tally


def wrongs(tally: Tally) -> list[tuple[int, str]]:
    """Address and text of what is wrong; nothing may be unclear."""
    assert not tally.unclear
    return sorted((one.spot.address, one.text) for one in tally.wrong.values())


# --- AArch64: the return address is signed and saved with x29; x19 is saved ------------------------------------------

A64_CIE = "01 00 04 78 1e 0c 1f 00"  # code alignment factor 4, data alignment factor -8, RA x30, CFA = SP
A64_CODE = b"".join(
    word.to_bytes(4, "little")
    for word in [0xD503201F, 0x9400000F, 0xD503201F]  # nop; bl FUNCTION; nop
).ljust(FUNCTION - MAIN, b"\0") + b"".join(
    word.to_bytes(4, "little")
    for word in [
        *(0xD503233F, 0xA9BE7BFD, 0xF9000BF3),  # paciasp; stp x29, x30, [sp, #-32]!; str x19, [sp, #16]
        *(0xD28000F3, 0xF9400BF3, 0xA8C27BFD),  # mov x19, #7; ldr x19, [sp, #16]; ldp x29, x30, [sp], #32
        *(0xD50323BF, 0xD65F03C0),  # autiasp; ret
    ]
)
A64_ROWS = """
    41 2d                # 4: the return address is signed
    41 0e20 9d04 9e03    # 8: CFA = SP + 32, x29 at CFA - 32, x30 at CFA - 24
    41 9302              # c: x19 at CFA - 16
    42 d3                # 14: x19 is restored
    41 dd de 0e00        # 18: x29 and x30 are restored, CFA = SP
    41 2d                # 1c: the return address is plain
"""
SP, LINK = 31, 30


def a64_store(thread: Simulated) -> None:
    thread.registers[SP] -= 32
    thread.memory[thread.registers[SP]] = thread.registers[29]
    thread.memory[thread.registers[SP] + 8] = thread.registers[LINK]
    # What follows in the function uses both.
    thread.registers[29], thread.registers[LINK] = thread.registers[SP], 0x7777


def a64_load(thread: Simulated) -> None:
    thread.registers[29] = thread.memory[thread.registers[SP]]
    thread.registers[LINK] = thread.memory[thread.registers[SP] + 8]
    thread.registers[SP] += 32


def a64_sign(thread: Simulated) -> None:
    thread.registers[LINK] ^= SIGNATURE


A64_STEPS: list[Step] = [
    (MAIN, nothing),
    (MAIN + 4, lambda thread: thread.registers.update({LINK: MAIN + 8})),
    (FUNCTION, a64_sign),
    (FUNCTION + 4, a64_store),
    (FUNCTION + 8, lambda thread: thread.memory.update({thread.registers[SP] + 16: thread.registers[19]})),
    (FUNCTION + 0xC, lambda thread: thread.registers.update({19: 7})),
    (FUNCTION + 0x10, lambda thread: thread.registers.update({19: thread.memory[thread.registers[SP] + 16]})),
    (FUNCTION + 0x14, a64_load),
    (FUNCTION + 0x18, a64_sign),
    (FUNCTION + 0x1C, nothing),
    (MAIN + 8, nothing),
]


def aarch64(rows: str, folder: Path, killed_at: int | None = None) -> Tally:
    data = eh_frame(A64_CIE, Fde(MAIN, 0x40), Fde(FUNCTION, 0x20, rows))
    return noted(AARCH64, EM_AARCH64, data, A64_CODE, A64_STEPS, folder, killed_at=killed_at)


def test_right_rows_of_aarch64(tmp_path: Path) -> None:
    tally = aarch64(A64_ROWS, tmp_path)
    assert (wrongs(tally), tally.switches) == ([], 0)


@pytest.mark.parametrize("address", [pc for pc, _ in A64_STEPS])
def test_memory_of_a_process_that_was_killed_is_no_fault(address: int, tmp_path: Path) -> None:
    """A process may be killed after its stop was reported: its slots cannot be read then."""
    assert wrongs(aarch64(A64_ROWS, tmp_path, address)) == []
    expressions = A64_ROWS.replace("9d04 9e03", "10 1d 02 8f00 9e03")  # x29 at sp + 0
    assert wrongs(aarch64(expressions, tmp_path, address)) == []


TRUE_LINK, TRUE_19, TRUE_29 = MAIN + 8, 0x5500 + 19, 0x5500 + 29
A64_CHANGES = {
    "CFA": ("0e20", "0e10", FUNCTION + 8, f"CFA {STACK - 16:#x}, true: {STACK:#x}"),
    "slot of x29": ("9d04", "9d02", FUNCTION + 8, f"r29 (x29) 0x0, true: {TRUE_29:#x}"),
    "x29 without a rule": ("9d04", "", FUNCTION + 8, f"r29 (x29) {STACK - 32:#x}, true: {TRUE_29:#x}"),
    "slot of x30": ("9e03", "9e04", FUNCTION + 8, f"return address {TRUE_29:#x}, true: {TRUE_LINK:#x}"),
    # The register has something else by then, signed or not.
    "x30 without a rule": ("9e03", "", FUNCTION + 8, f"return address 0x7777, true: {TRUE_LINK:#x}"),
    "x30 without a rule, plain": ("9e03", "2d", FUNCTION + 8, f"r30 (x30) 0x7777, true: {TRUE_LINK:#x}"),
    "slot of x19": ("9302", "9303", FUNCTION + 0xC, f"r19 (x19) {SIGNATURE | TRUE_LINK:#x}, true: {TRUE_19:#x}"),
    "x19 restored too early": ("42 d3", "41 d3 41", FUNCTION + 0x10, f"r19 (x19) 0x7, true: {TRUE_19:#x}"),
    "plain instead of signed": ("41 2d                # 4", "41 2d 2d # 4", FUNCTION + 4, None),
}


@pytest.mark.parametrize(("old", "new", "address", "text"), A64_CHANGES.values(), ids=A64_CHANGES)
def test_wrong_rows_of_aarch64(old: str, new: str, address: int, text: str | None, tmp_path: Path) -> None:
    assert A64_ROWS.count(old) == 1
    found = wrongs(aarch64(A64_ROWS.replace(old, new), tmp_path))
    assert found[0] == (address, text or f"r30 (x30) {SIGNATURE | TRUE_LINK:#x}, true: {TRUE_LINK:#x}")


# --- s390x: big-endian; r13 to r15 are saved in the caller's save area -----------------------------------------------

S390X_CIE = "01 00 01 78 0e 0c 0f a001"  # factors 1 and -8, RA r14, CFA = r15 + 160
S390X_CODE = octets("0700 c0e50000001f 0700").ljust(FUNCTION - MAIN, b"\0") + octets("""
    ebdff0680024    # stmg %r13, %r15, 104(%r15)
    e3f0ff60ff71    # lay %r15, -160(%r15)
    a7d90007        # lghi %r13, 7
    ebdff1080004    # lmg %r13, %r15, 264(%r15)
    07fe            # br %r14
""")
S390X_ROWS = """
    46 8d07 8e06 8f05    # 6: r13, r14, r15 at CFA - 56, - 48, - 40
    46 0ec002            # 12: CFA = r15 + 320
    4a cd ce cf 0ea001   # 22: all are restored
"""


def save(thread: Simulated) -> None:
    thread.memory.update({thread.registers[15] + 8 * number: thread.registers[number] for number in (13, 14, 15)})
    thread.registers[14] = 0x7777


def restore(thread: Simulated) -> None:
    base = thread.registers[15] + 160
    thread.registers.update({number: thread.memory[base + 8 * number] for number in (13, 14, 15)})


S390X_STEPS: list[Step] = [
    (MAIN, nothing),
    (MAIN + 2, lambda thread: thread.registers.update({14: MAIN + 8})),
    (FUNCTION, save),
    (FUNCTION + 6, lambda thread: thread.registers.update({15: thread.registers[15] - 160})),
    (FUNCTION + 12, lambda thread: thread.registers.update({13: 7})),
    (FUNCTION + 16, restore),
    (FUNCTION + 22, nothing),
    (MAIN + 8, nothing),
]


def s390x(rows: str, folder: Path) -> Tally:
    data = eh_frame(S390X_CIE, Fde(MAIN, 0x40), Fde(FUNCTION, 24, rows), byte_order="big")
    return noted(S390X, EM_S390, data, S390X_CODE, S390X_STEPS, folder)


S390X_CHANGES = {
    "CFA": ("0ec002", "0eb802", FUNCTION + 12, f"CFA {STACK - 8 + 160:#x}, true: {STACK + 160:#x}"),
    "slot of r13": ("8d07", "8d06", FUNCTION + 6, f"r13 {MAIN + 8:#x}, true: {0x5500 + 13:#x}"),
    "slot of r14": ("8e06", "8e07", FUNCTION + 6, f"return address {0x5500 + 13:#x}, true: {MAIN + 8:#x}"),
    "slot of r15": ("8f05", "8f06", FUNCTION + 6, f"r15 {MAIN + 8:#x}, true: {STACK:#x}"),
}


def test_right_rows_of_s390x(tmp_path: Path) -> None:
    tally = s390x(S390X_ROWS, tmp_path)
    assert (wrongs(tally), tally.switches) == ([], 0)


@pytest.mark.parametrize(("old", "new", "address", "text"), S390X_CHANGES.values(), ids=S390X_CHANGES)
def test_wrong_rows_of_s390x(old: str, new: str, address: int, text: str, tmp_path: Path) -> None:
    assert S390X_ROWS.count(old) == 1
    assert wrongs(s390x(S390X_ROWS.replace(old, new), tmp_path))[0] == (address, text)


# --- x86-64: Go's functions preserve no register ----------------------------------------------------------------------

EM_X86_64 = 62
X86_64_CODE = octets("e83b000000 90").ljust(FUNCTION - MAIN, b"\0") + octets("bb07000000 c3")  # call; mov $7, %ebx; ret
X86_64_CIE = octets("""
    14000000 ffffffff 04 00 08 00 01 78 10    # version 4, factors 1 and -8, RA 16
    0c0708 9001 00 00 00 00                   # CFA = rsp + 8, RA at CFA - 8
""")


def x86_64_call(thread: Simulated) -> None:
    thread.registers[7] -= 8
    thread.memory[thread.registers[7]] = MAIN + 5


X86_64_STEPS: list[Step] = [
    (MAIN, x86_64_call),
    (FUNCTION, lambda thread: thread.registers.update({3: 7})),
    (FUNCTION + 5, lambda thread: thread.registers.update({7: thread.registers[7] + 8})),
    (MAIN + 5, nothing),
]


@pytest.mark.parametrize(
    ("sections", "is_wrong"),
    [
        ((".debug_frame",), True),
        ((".debug_frame", ".gopclntab"), False),
        ((".debug_frame", ".data.rel.ro.gopclntab"), False),
    ],
)
def test_functions_of_go_preserve_no_register(sections: tuple[str, ...], is_wrong: bool, tmp_path: Path) -> None:
    """A row of Go's `.debug_frame` has no rule for rbx, which its function changes."""
    fde = octets("1c000000 00000000") + MAIN.to_bytes(8, "little") + SIZE.to_bytes(8, "little") + bytes(8)
    tally = noted(X86_64, EM_X86_64, X86_64_CIE + fde, X86_64_CODE, X86_64_STEPS, tmp_path, *sections)
    assert wrongs(tally) == ([(FUNCTION + 5, f"r3 (rbx) 0x7, true: {0x5503:#x}")] if is_wrong else [])
