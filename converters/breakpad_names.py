"""What Breakpad calls architectures, and their registers by DWARF number.

Strategy: as `register_names`, whose runs of names are written alike. Names are those of Breakpad's dump_syms; for s390x
and PowerPC, which it does not write, those of the assemblers.
"""

from __future__ import annotations

from functools import cache

from .register_names import numbered_names

_X86 = (
    (0, "$eax $ecx $edx $ebx $esp $ebp $esi $edi $eip $eflags"),
    (11, "$st0..$st7"),
    (21, "$xmm0..$xmm7 $mm0..$mm7"),
)
_X86_64 = (
    (0, "$rax $rdx $rcx $rbx $rsi $rdi $rbp $rsp $r8..$r15 $rip $xmm0..$xmm15 $st0..$st7 $mm0..$mm7 $rflags"),
    (50, "$es $cs $ss $ds $fs $gs"),
    (58, "$fs.base $gs.base"),
)
_ARM = ((0, "r0..r12 sp lr pc"), (64, "s0..s31"), (256, "d0..d31"))
_AARCH64 = ((0, "x0..x30 sp"), (64, "v0..v31"))
_MIPS = (
    (0, "$zero $at $v0 $v1 $a0..$a3 $t0..$t7 $s0..$s7 $t8 $t9 $k0 $k1 $gp $sp $fp $ra"),
    (32, "$f0..$f31"),
)
_PPC = ((0, "r0..r31 f0..f31"), (65, "lr ctr"), (68, "cr0..cr7"), (77, "v0..v31"))
_RISCV = ((0, "zero ra sp gp tp t0..t2 s0 s1 a0..a7 s2..s11 t3..t6 ft0..ft7 fs0 fs1 fa0..fa7 fs2..fs11 ft8..ft11"),)
_S390 = ((0, "%r0..%r15 %f0 %f2 %f4 %f6 %f1 %f3 %f5 %f7 %f8 %f10 %f12 %f14 %f9 %f11 %f13 %f15"),)
_RUNS = {
    "x86": _X86,
    "x86_64": _X86_64,
    "arm": _ARM,
    "aarch64": _AARCH64,
    "aarch64_be": _AARCH64,
    "mips": _MIPS,
    "mips64": _MIPS,
    "ppc": _PPC,
    "ppc64": _PPC,
    "riscv32": _RISCV,
    "riscv64": _RISCV,
    "s390x": _S390,
}


@cache
def breakpad_names(architecture: str) -> dict[int, str]:
    """The names of an architecture's registers by DWARF number; others have none."""
    return numbered_names(_RUNS[architecture])


@cache
def numbers_of_names(architecture: str) -> dict[str, int]:
    """The DWARF numbers of an architecture's registers by name."""
    return {name: number for number, name in breakpad_names(architecture).items()}


# MODULE's name of an architecture where it is not ours.
_MODULE_NAMES = {"aarch64": "arm64", "aarch64_be": "arm64", "mips64": "mips", "riscv32": "riscv"}


def module_architecture(architecture: str) -> str:
    """What a MODULE record calls an architecture."""
    return _MODULE_NAMES.get(architecture, architecture)
