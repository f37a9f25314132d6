"""How Breakpad's walker reads each construct that we write: register names, `.ra: 0`, omitted rules, `.undef`.

Strategy: a hand-made table gives the text of two functions; a hand-made stack without equal words is walked.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from unwindkit import Row, UnwindTable, to_stack_cfi
from unwindkit.converters.arch.table import ARCHITECTURES, breakpad_names
from unwindkit.converters.rules import RuleKind
from unwindkit.converters.table.model import CfaRule, Function, RegisterRule, table_of

from ..support.handmade import at, on, row
from ..support.programs.minidumps import CONTEXTS, Module, State
from ..support.texts.stackwalks import BY_CFI, SCANNING, WalkedFrame, store, walk

pytestmark = pytest.mark.oracle("npm")

MODULE = Module("handmade", 0x400000, 0x10000, bytes(range(1, 21)))
IDENTIFIER = "0403020106050807090A0B0C0D0E0F100"
INNER, OUTER, STACK = 0x1000, 0x2000, 0x7FFF0000
# The frame of INNER is 32 words with the return address at its top; OUTER's is above it.
FRAME = 32
RETURNED, BEYOND = MODULE.base + OUTER + 0x20, MODULE.base + OUTER + 0x40
# On MIPS the walker subtracts the call and its delay slot from a return address.
BEHIND_CALL = {"mips": 8, "mips64": 16}
# Callee-saved registers, by gdb's names, which our minidumps use.
KEPT = {
    "x86": ("ebx", "esi", "edi", "ebp"),
    "x86_64": ("rbx", "rbp", "r12", "r13", "r14", "r15"),
    "arm": tuple(f"r{number}" for number in range(4, 12)),
    "aarch64": tuple(f"x{number}" for number in range(19, 30)),
    "mips": (*(f"s{number}" for number in range(8)), "gp", "fp"),
    "mips64": (*(f"s{number}" for number in range(8)), "gp", "fp"),
    "riscv32": tuple(f"s{number}" for number in range(12)),
    "riscv64": tuple(f"s{number}" for number in range(12)),
}


def walked(architecture: str, folder: Path, table: UnwindTable, **registers: int) -> list[WalkedFrame]:
    """The walk from INNER + 8 by the text of the table. Word n of the stack is 0x5000 + n, except return addresses."""
    context = CONTEXTS[architecture]
    words = [0x5000 + number for number in range(3 * FRAME)]
    words[FRAME - 1], words[2 * FRAME - 1] = RETURNED, BEYOND
    size = ARCHITECTURES[architecture].address_size
    # All dumps are little-endian here, even MIPS'.
    stack = b"".join(word.to_bytes(size, "little") for word in words)
    registers |= {context.pc: MODULE.base + INNER + 8, context.sp: STACK}
    head = f"MODULE Linux {architecture} {IDENTIFIER} {MODULE.name}\n"
    names = f"PUBLIC {INNER:x} 0 inner\nPUBLIC {OUTER:x} 0 outer\n"
    symbols = store(folder / "symbols", [head + names + to_stack_cfi(table)[0].decode()])
    return walk(architecture, State(registers, STACK, stack, (MODULE,)), symbols)


def saved_by(architecture: str) -> tuple[RegisterRule, ...]:
    """Every kept register and the return address, from the top of the frame down."""
    arch = ARCHITECTURES[architecture]
    numbers = {name.removeprefix("$"): number for number, name in breakpad_names(ARCHITECTURES[architecture]).items()}
    registers = [arch.return_address, *(numbers[name] for name in KEPT[architecture])]
    rules = (at(register, -arch.address_size * (index + 1)) for index, register in enumerate(registers))
    return tuple(sorted(rules, key=lambda rule: rule.register))


def table(architecture: str, *inner: Row, outer: Row | None = None) -> UnwindTable:
    """INNER and OUTER with these rows; without any, their frame is of FRAME words, and OUTER's return address is
    undefined."""
    arch = ARCHITECTURES[architecture]
    last = row(0, cfa(architecture), lost(arch.return_address)) if outer is None else outer
    functions = [
        Function(start, 0x100, rows, return_column=arch.return_address)
        for start, rows in ((INNER, inner or (row(0, cfa(architecture), *saved_by(architecture)),)), (OUTER, (last,)))
    ]
    return table_of(arch, functions)


def cfa(architecture: str) -> CfaRule:
    arch = ARCHITECTURES[architecture]
    return on(arch.stack_pointer, FRAME * arch.address_size)


def lost(register: int) -> RegisterRule:
    return RegisterRule(register, RuleKind.UNDEFINED)


@pytest.mark.parametrize("architecture", KEPT)
def test_every_kept_register_has_the_walkers_name(architecture: str, tmp_path: Path) -> None:
    inner, outer = walked(architecture, tmp_path, table(architecture))[:2]
    assert inner.pc == MODULE.base + INNER + 8
    assert outer.found_by == BY_CFI
    assert outer.pc == RETURNED - BEHIND_CALL.get(architecture, 0)
    assert outer.registers[CONTEXTS[architecture].sp] == STACK + FRAME * ARCHITECTURES[architecture].address_size
    # Below the return address, one word each.
    expected = {name: 0x5000 + FRAME - 2 - index for index, name in enumerate(KEPT[architecture])}
    assert {name: outer.registers[name] for name in KEPT[architecture]} == expected


# --- a return address that is undefined -------------------------------------------------------------------------------


def found(frames: list[WalkedFrame]) -> list[tuple[int, str]]:
    return [(frame.pc, frame.found_by) for frame in frames[1:]]


@pytest.mark.parametrize("architecture", ["x86", "arm", "aarch64", "riscv32", "riscv64"])
def test_undefined_return_address_ends_the_walk(architecture: str, tmp_path: Path) -> None:
    """`.ra: 0`, though a word above looks like a return address."""
    assert found(walked(architecture, tmp_path, table(architecture))) == [(RETURNED, BY_CFI)]


@pytest.mark.parametrize("architecture", BEHIND_CALL)
def test_undefined_return_address_ends_the_walk_on_mips(architecture: str, tmp_path: Path) -> None:
    """The walker subtracts the delay slot first: one more frame, below 0, outside any module."""
    last = walked(architecture, tmp_path, table(architecture))[2:]
    behind = BEHIND_CALL[architecture]
    assert [(frame.module, frame.pc) for frame in last] == [
        ("", -behind % (1 << 8 * ARCHITECTURES[architecture].address_size))
    ]


def test_undefined_return_address_ends_walking_by_cfi_on_amd64(tmp_path: Path) -> None:
    """There this walker treats 0 as a failure ("invalid rip/rsp") and scans the stack; frames found so are marked.
    With 1 instead of 0 the walk would end, as on other machines."""
    frames = walked("x86_64", tmp_path, table("x86_64"))
    assert found(frames) == [(RETURNED, BY_CFI), (BEYOND, SCANNING)]


def test_a_return_address_that_has_a_rule_is_walked_to(tmp_path: Path) -> None:
    """The stack of the tests above."""
    frames = walked("x86_64", tmp_path, table("x86_64", outer=row(0, cfa("x86_64"), at(16, -8))))
    assert found(frames)[:2] == [(RETURNED, BY_CFI), (BEYOND, BY_CFI)]


# --- a register that is undefined -------------------------------------------------------------------------------------

RA = at(16, -8)


def test_undefined_register_that_never_had_a_rule_is_left_out(tmp_path: Path) -> None:
    """The walk goes on; the walker treats a callee-saved register as unchanged, as in every frame without a rule."""
    frames = walked("x86_64", tmp_path, table("x86_64", row(0, cfa("x86_64"), lost(3), RA)), rbx=0x1234)
    assert found(frames)[0] == (RETURNED, BY_CFI)
    assert frames[1].registers["rbx"] == 0x1234


def test_withdrawn_register_has_no_stale_value(tmp_path: Path) -> None:
    """`.undef` has no value for this walker: it treats the register as unchanged, and the frame's other rules hold."""
    rows = (row(0, cfa("x86_64"), at(3, -16), at(6, -24), RA), row(4, cfa("x86_64"), lost(3), at(6, -24), RA))
    said = table("x86_64", *rows)
    assert b"STACK CFI 1004 $rbx: .undef\n" in to_stack_cfi(said)[0]
    frames = walked("x86_64", tmp_path, said, rbx=0x1234)
    assert found(frames)[0] == (RETURNED, BY_CFI)
    assert frames[1].registers["rbx"] == 0x1234
    assert frames[1].registers["rbp"] == 0x5000 + FRAME - 3


def test_same_value_takes_a_rule_back_and_keeps_the_frame(tmp_path: Path) -> None:
    """DW_CFA_restore to no rule: the register's value, not the stale slot."""
    rows = (row(0, cfa("x86_64"), at(3, -16), RA), row(4, cfa("x86_64"), RA))
    said = table("x86_64", *rows)
    assert b"STACK CFI 1004 $rbx: $rbx\n" in to_stack_cfi(said)[0]
    frames = walked("x86_64", tmp_path, said, rbx=0x1234)
    assert found(frames)[0] == (RETURNED, BY_CFI)
    assert frames[1].registers["rbx"] == 0x1234
