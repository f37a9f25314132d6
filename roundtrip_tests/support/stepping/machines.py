"""The machines of the one-step law, from their ABIs' documents and GNU's unwinders, not from the product's table.

Strategy: one row per architecture. The CFA is defined by the ABI as the SP before the call, plus `bias` bytes: so the
caller's SP is the CFA - `bias`. Where DWARF has no rule for SP, readers take the CFA (libgcc's `_Unwind_SetSpColumn`,
gdb's DWARF2_FRAME_REG_CFA); on s390x, where r15 is call-saved, they keep its value (gdb's s390_dwarf2_frame_init_reg,
elfutils' s390_cfi.c).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..judges.rpn import Words


def _numbered(text: str, first: int = 0) -> dict[int, str]:
    return {first + index: name for index, name in enumerate(text.split())}


def _series(prefix: str, count: int, first: int) -> dict[int, str]:
    return {first + index: f"{prefix}{index}" for index in range(count)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """DWARF register numbers. `word` is the size of a saved register, `address` that of an address if it is another.
    `pushes_ra`: a call saves the return address on the stack, in no register. `pc`: the
    register that expressions read the PC from. `keeps_sp`: without a rule in DWARF, SP keeps its value. `saves_sp`:
    functions save SP with other registers, and the saved value is the caller's SP. `has_windows`:
    DW_CFA_GNU_window_save saves registers 16 to 31 from the CFA on. `names`: Breakpad's, empty if it has none."""

    name: str
    word: int
    address: int = 0
    sp: int
    fp: int
    ra: int
    bias: int = 0
    pushes_ra: bool = False
    pc: int | None = None
    keeps_sp: bool = False
    saves_sp: bool = False
    has_windows: bool = False
    names: dict[int, str] = field(default_factory=dict)

    def words(self, order: Literal["little", "big"]) -> Words:
        """How its words are stored."""
        return Words(self.word, order)

    @property
    def has_expressions(self) -> bool:
        """Whether DWARF's words and Breakpad's have one size, so that expressions have one meaning."""
        return self.address in (0, self.word)

    @property
    def pointer(self) -> int:
        """The size of an address in bytes."""
        return self.address or self.word


# System V ABI for Intel386, figure 2.14.
_X86 = _numbered("$eax $ecx $edx $ebx $esp $ebp $esi $edi $eip $eflags")
_X86 |= _series("$st", 8, 11) | _series("$xmm", 8, 21) | _series("$mm", 8, 29)
# System V ABI for AMD64, figure 3.36.
_X86_64 = _numbered("$rax $rdx $rcx $rbx $rsi $rdi $rbp $rsp") | {n: f"$r{n}" for n in range(8, 16)}
_X86_64 |= {16: "$rip"} | _series("$xmm", 16, 17)
# DWARF for the Arm Architecture; for the Arm 64-bit Architecture.
_ARM = _series("r", 13, 0) | _numbered("sp lr pc", 13)
_AARCH64 = _series("x", 31, 0) | {31: "sp"} | _series("v", 32, 64)
_MIPS = _numbered(
    "$zero $at $v0 $v1 $a0 $a1 $a2 $a3 $t0 $t1 $t2 $t3 $t4 $t5 $t6 $t7 "
    "$s0 $s1 $s2 $s3 $s4 $s5 $s6 $s7 $t8 $t9 $k0 $k1 $gp $sp $fp $ra"
)
_MIPS |= _series("$f", 32, 32)
# Power ABI; 65 is the link register.
_PPC = _series("r", 32, 0) | _series("f", 32, 32) | {65: "lr", 66: "ctr"} | _series("cr", 8, 68) | _series("v", 32, 77)
# RISC-V ABI, DWARF register numbers; names of the calling convention.
_RISCV = _numbered(
    "zero ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6 "
    "ft0 ft1 ft2 ft3 ft4 ft5 ft6 ft7 fs0 fs1 fa0 fa1 fa2 fa3 fa4 fa5 fa6 fa7 "
    "fs2 fs3 fs4 fs5 fs6 fs7 fs8 fs9 fs10 fs11 ft8 ft9 ft10 ft11"
)
# s390x ELF ABI 1.6: the floating-point registers are in this order.
_S390X = _series("%r", 16, 0) | _numbered("%f0 %f2 %f4 %f6 %f1 %f3 %f5 %f7 %f8 %f10 %f12 %f14 %f9 %f11 %f13 %f15", 16)
# LoongArch ELF ABI; SPARC ABI supplement: 32 general registers, window by window, and 32 floating-point ones.
_LOONGARCH = _numbered("$zero $ra $tp $sp") | _series("$a", 8, 4) | _series("$t", 9, 12) | {21: "$r21", 22: "$fp"}
_LOONGARCH |= _series("$s", 9, 23) | _series("$fa", 8, 32) | _series("$ft", 16, 40) | _series("$fs", 8, 56)
_SPARC = _series("%g", 8, 0) | _series("%o", 8, 8) | _series("%l", 8, 16) | _series("%i", 8, 24) | _series("%f", 32, 32)

MACHINES = {
    one.name: one
    for one in (
        Machine(name="x86", word=4, sp=4, fp=5, ra=8, pushes_ra=True, names=_X86),
        Machine(name="x86_64", word=8, sp=7, fp=6, ra=16, pushes_ra=True, pc=16, names=_X86_64),
        # x32: pointers have 4 bytes, but registers and their slots on the stack 8.
        Machine(name="x32", word=8, address=4, sp=7, fp=6, ra=16, pushes_ra=True, pc=16, names=_X86_64),
        Machine(name="arm", word=4, sp=13, fp=11, ra=14, names=_ARM),
        Machine(name="aarch64", word=8, sp=31, fp=29, ra=30, names=_AARCH64),
        Machine(name="aarch64_be", word=8, sp=31, fp=29, ra=30, names=_AARCH64),
        Machine(name="mips", word=4, sp=29, fp=30, ra=31, names=_MIPS),
        Machine(name="mips64", word=8, sp=29, fp=30, ra=31, names=_MIPS),
        Machine(name="ppc", word=4, sp=1, fp=31, ra=65, names=_PPC),
        Machine(name="ppc64", word=8, sp=1, fp=31, ra=65, names=_PPC),
        Machine(name="riscv32", word=4, sp=2, fp=8, ra=1, names=_RISCV),
        Machine(name="riscv64", word=8, sp=2, fp=8, ra=1, names=_RISCV),
        # s390x ELF ABI 1.2.2: a frame has a register save area of 160 bytes below the CFA.
        Machine(name="s390x", word=8, sp=15, fp=11, ra=14, bias=160, keeps_sp=True, saves_sp=True, names=_S390X),
        Machine(name="loongarch64", word=8, sp=3, fp=22, ra=1, names=_LOONGARCH),
        # The stack bias of the 64-bit SPARC ABI.
        Machine(name="sparc64", word=8, sp=14, fp=30, ra=15, bias=2047, has_windows=True, names=_SPARC),
    )
}
