"""Control transfers: what GNU objdump disassembles, and the kinds that a shadow stack must know."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from unwindkit.execution.control import Control
from unwindkit.execution.fixed_size_control import decode_aarch64, decode_s390x, exclusive_exits
from unwindkit.execution.x86_64_control import decode

from ..support.oracles import run_oracle

CALLS = """
    call . + 0x1000
    call *%rax
    call *%r12
    call *(%rax)
    call *(%rsp)
    call *(%r12)
    call *(%r13)
    call *8(%rbp)
    call *0x1234(%rbx)
    call *0x12(%rsp)
    call *0x1234(%rsp)
    call *0x1000(%rip)
    call *0x1000
    call *(%rax,%rcx,8)
    call *0x10(%rax,%r9,4)
    call *0x12345(,%rcx,8)
    call *(%rbp,%rcx,2)
    notrack call *%rdx
    notrack call *0x28(%r11)
    .byte 0xf2, 0xe8, 0, 0, 0, 0
    addr32 call *(%eax)
    call *%fs:0x10
"""
RETURNS = "ret\n ret $8\n rep ret\n .byte 0xf2, 0xc3\n"
JUMPS = "jmp *%rax\n jmp *%r15\n jmp *0x10(%rip)\n notrack jmp *%rdx\n .byte 0xf2, 0xff, 0x20\n"
STACKS = """
    mov %rax, %rsp
    mov %r8, %rsp
    mov 0x10(%rdi), %rsp
    mov (%rsp), %rsp
    lea 0x10(%rcx), %rsp
    xchg %rax, %rsp
    xchg %rbx, %rsp
    xchg %rsp, %r9
    pop %rsp
"""
OTHERS = """
    jmp . + 0x1000
    je . + 0x10
    push *%rax
    incl (%rax)
    decq %rsp
    mov %rsp, %rax
    mov %rax, %r12
    mov %rsp, 8(%rdi)
    mov 8(%rdi), %r12
    lea (%rsp), %r12
    pop %r12
    xchg %rax, %r12
    sub $0x1000, %rsp
    and $-16, %rsp
    add %rax, %rsp
    leave
    sysenter
    ljmp *(%rax)
""".replace("push *", "push ")


def disassembled(folder: Path, text: str) -> list[bytes]:
    """The bytes of each instruction, as objdump divides them."""
    source, assembled = folder / "text.s", folder / "text.o"
    source.write_text(f"{text}\n")
    run_oracle("as", source, "-o", assembled)
    lines = run_oracle("objdump", "-d", "--insn-width=15", assembled).splitlines()
    found = (re.match(r"\s+[0-9a-f]+:\t((?:[0-9a-f]{2} )+)", line) for line in lines)
    return [bytes.fromhex(one[1]) for one in found if one]


@pytest.mark.oracle("forky")
def test_kinds_and_sizes_on_x86_64(tmp_path: Path) -> None:
    following = bytes.fromhex("4889e5 c3 e8")
    for text, control in (
        (CALLS, Control.CALL),
        (RETURNS, Control.RETURN),
        (JUMPS, Control.JUMP),
        (STACKS, Control.NEW_STACK),
        ("syscall", Control.SYSTEM_CALL),
        (OTHERS, Control.OTHER),
    ):
        instructions = disassembled(tmp_path, text)
        assert len(instructions) == len([line for line in text.splitlines() if line.strip()])
        for one in instructions:
            found = decode((one + following)[:15])
            assert found.control is control, one.hex()
            if control in (Control.CALL, Control.SYSTEM_CALL):
                assert found.size == len(one), one.hex()


def test_bytes_that_end_early() -> None:
    for code in (b"", b"\xff", b"\x48", b"\xe8", b"\x66" * 15, b"\x0f"):
        decode(code)


# The Arm ARM's encodings, with register numbers other than 0 where there are any.
@pytest.mark.parametrize(
    ("word", "control"),
    [
        (0x94000123, Control.CALL),  # bl
        (0x97FFFFFF, Control.CALL),  # bl, backwards
        (0xD63F0200, Control.CALL),  # blr x16
        (0xD73F0A11, Control.CALL),  # blraa x16, x17
        (0xD63F0A1F, Control.CALL),  # blraaz x16
        (0xD65F03C0, Control.RETURN),  # ret
        (0xD65F0220, Control.RETURN),  # ret x17
        (0xD65F0BFF, Control.RETURN),  # retaa
        (0xD65F0FFF, Control.RETURN),  # retab
        (0xD61F0220, Control.JUMP),  # br x17
        (0xD71F0A11, Control.JUMP),  # braa x16, x17
        (0xD4000001, Control.SYSTEM_CALL),  # svc #0
        (0x9100005F, Control.NEW_STACK),  # mov sp, x2
        (0x14000123, Control.OTHER),  # b
        (0x910003FD, Control.OTHER),  # mov x29, sp
        (0xD10043FF, Control.OTHER),  # sub sp, sp, #16
        (0xD503233F, Control.OTHER),  # paciasp
    ],
)
def test_kinds_on_aarch64(word: int, control: Control) -> None:
    assert decode_aarch64(word.to_bytes(4, "little")).control is control


# __aarch64_cas4_acq of libgcc from its ldaxr on, at 0x45420c: ldaxr; cmp; b.ne 0x454220; stxr; cbnz 0x45420c; ret.
CAS4 = bytes.fromhex("40fc5f88 1f00106b 61000054 417c1188 91ffff35 c0035fd6")


@pytest.mark.parametrize(
    ("code", "exits"),
    [
        (CAS4, (0x45421C, 0x454220)),
        (CAS4[:12], ()),  # without a store
        (CAS4[4:], ()),  # it does not begin with the load
        (bytes.fromhex("20087fc8 410821c8"), (0x454214,)),  # ldxp x0, x2, [x1]; stxp w1, x1, x2, [x2]
        (bytes.fromhex("207c6048 417c1188"), ()),  # casp: one instruction
        (bytes.fromhex("20fcdf88 417c1188"), ()),  # ldar: not exclusive
        (bytes.fromhex("407c5f88 e0ffff34 40000036 417c1188"), (0x45421C,)),  # cbz back to 0x45420c; tbz to the end - 4
    ],
)
def test_ends_of_exclusive_sequences(code: bytes, exits: tuple[int, ...]) -> None:
    assert exclusive_exits(code, 0x45420C) == exits


# z/Architecture: BASR, BRAS, BRASL, BAS with r14 as the link; BCR; SVC; LGR r15.
@pytest.mark.parametrize(
    ("code", "control", "size"),
    [
        ("0de1", Control.CALL, 2),  # basr %r14, %r1
        ("0de0", Control.OTHER, 0),  # basr %r14, 0: no branch
        ("0dd1", Control.OTHER, 0),  # basr %r13, %r1
        ("a7e50010", Control.CALL, 4),  # bras %r14, .+32
        ("a7d50010", Control.OTHER, 0),  # bras %r13: a literal pool
        ("c0e500000010", Control.CALL, 6),  # brasl %r14
        ("c0f400000010", Control.OTHER, 0),  # brcl 15: a jump
        ("4de01000", Control.CALL, 4),  # bas %r14, 0(%r1)
        ("07fe", Control.RETURN, 0),  # br %r14
        ("07f1", Control.RETURN, 0),  # br %r1
        ("0700", Control.OTHER, 0),  # nopr
        ("0a01", Control.SYSTEM_CALL, 2),  # svc 1
        ("b90400f1", Control.NEW_STACK, 0),  # lgr %r15, %r1
        ("b904001f", Control.OTHER, 0),  # lgr %r1, %r15
        ("a7fbff60", Control.OTHER, 0),  # aghi %r15, -160
    ],
)
def test_kinds_on_s390x(code: str, control: Control, size: int) -> None:
    found = decode_s390x(bytes.fromhex(code))
    assert (found.control, found.size if control in (Control.CALL, Control.SYSTEM_CALL) else 0) == (control, size)
