"""Register names by DWARF number: GNU readelf 2.47's by ELF machine, Breakpad's by architecture.

Strategy: runs of consecutive numbers, each with its first number and the names; `a0..a7` is short for eight names.
readelf shows a register without a name as `r` and its number: all those of ARM, MIPS, PowerPC and SPARC, and the
general registers of s390. Breakpad's names are those of its dump_syms; for s390x, PowerPC, LoongArch and SPARC, which
dump_syms does not write, those of the assemblers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

RegisterNames = tuple[tuple[int, str], ...]

# psABI of i386 (2.4.2) and x86-64 (3.6.2), AADWARF64 4.1, s390 psABI 1.2.1.4, LoongArch psABI, RISC-V DWARF
# specification 2; from 0x1000 on the control and status registers of RISC-V.
READELF_NAMES: dict[str, RegisterNames | None] = {
    "EM_386": (
        (0, "eax ecx edx ebx esp ebp esi edi eip eflags"),
        (11, "st0..st7"),
        (21, "xmm0..xmm7 mm0..mm7 fcw fsw mxcsr es cs ss ds fs gs"),
        (48, "tr ldtr"),
        (93, "k0..k7"),
    ),
    "EM_X86_64": (
        (0, "rax rdx rcx rbx rsi rdi rbp rsp r8..r15 rip xmm0..xmm15 st0..st7 mm0..mm7 rflags es cs ss ds fs gs"),
        (58, "fs.base gs.base"),
        (62, "tr ldtr mxcsr fcw fsw xmm16..xmm31"),
        (118, "k0..k7 bnd0..bnd3"),
    ),
    "EM_ARM": None,
    "EM_AARCH64": (
        (0, "x0..x30 sp"),
        (33, "elr"),
        (46, "vg ffr p0..p15 v0..v31 z0..z31"),
    ),
    "EM_MIPS": None,
    "EM_PPC": None,
    "EM_PPC64": None,
    "EM_S390": (
        (16, "f0 f2 f4 f6 f1 f3 f5 f7 f8 f10 f12 f14 f9 f11 f13 f15 cr0..cr15 a0..a15 pswm pswa"),
        (68, "v16 v18 v20 v22 v17 v19 v21 v23 v24 v26 v28 v30 v25 v27 v29 v31"),
    ),
    "EM_LOONGARCH": (
        (0, "$zero $ra $tp $sp $a0..$a7 $t0..$t8 $r21 $fp $s0..$s8 $fa0..$fa7 $ft0..$ft15 $fs0..$fs7"),
    ),
    "EM_RISCV": (
        (0, "zero ra sp gp tp t0..t2 s0 s1 a0..a7 s2..s11 t3..t6 ft0..ft7 fs0 fs1 fa0..fa7 fs2..fs11 ft8..ft11"),
        (96, "v0..v31"),
        (0x1000, "ustatus fflags frm fcsr uie utvec"),
        (0x1008, "vstart vxsat vxrm"),
        (0x100f, "vcsr"),
        (0x1011, "ssp"),
        (0x1015, "seed"),
        (0x1017, "jvt"),
        (0x1040, "uscratch uepc ucause utval uip"),
        (0x1100, "sstatus"),
        (0x1102, "sedeleg sideleg sie stvec scounteren"),
        (0x110a, "senvcfg"),
        (0x110c, "sstateen0..sstateen3"),
        (0x1114, "sieh"),
        (0x1120, "scountinhibit"),
        (0x1140, "sscratch sepc scause stval sip"),
        (0x114d, "stimecmp sctrctl sctrstatus siselect sireg sireg2 sireg3 siph sireg4..sireg6"),
        (0x115c, "stopei stimecmph"),
        (0x115f, "sctrdepth"),
        (0x1180, "satp srmcfg"),
        (0x1183, "spmpen"),
        (0x1193, "spmpenh"),
        (0x1200, "vsstatus"),
        (0x1204, "vsie vstvec"),
        (0x1214, "vsieh"),
        (0x1240, "vsscratch vsepc vscause vstval vsip"),
        (0x124d, "vstimecmp vsctrctl"),
        (0x1250, "vsiselect vsireg vsireg2 vsireg3 vsiph vsireg4..vsireg6"),
        (0x125c, "vstopei vstimecmph"),
        (0x1280, "vsatp"),
        (0x1300, "mstatus misa medeleg mideleg mie mtvec mcounteren"),
        (0x1308, "mvien mvip menvcfg"),
        (0x130c, "mstateen0..mstateen3 mstatush"),
        (0x1312, "medelegh midelegh mieh"),
        (0x1316, "mpmpdeleg"),
        (0x1318, "mvienh mviph menvcfgh"),
        (0x131c, "mstateen0h..mstateen3h mcountinhibit mcyclecfg minstretcfg mhpmevent3..mhpmevent31 mscratch mepc"),
        (0x1342, "mcause mtval mip"),
        (0x134a, "mtinst mtval2"),
        (0x134e, "mctrctl"),
        (0x1350, "miselect mireg mireg2 mireg3 miph mireg4..mireg6"),
        (0x135c, "mtopei"),
        (0x13a0, "pmpcfg0..pmpcfg15 pmpaddr0..pmpaddr63"),
        (0x15a8, "scontext"),
        (0x1600, "hstatus"),
        (0x1602, "hedeleg hideleg hie htimedelta hcounteren hgeie hvien hvictl henvcfg"),
        (0x160c, "hstateen0..hstateen3"),
        (0x1612, "hedelegh hidelegh"),
        (0x1615, "htimedeltah"),
        (0x1618, "hvienh"),
        (0x161a, "henvcfgh"),
        (0x161c, "hstateen0h..hstateen3h"),
        (0x1643, "htval hip hvip hviprio1 hviprio2"),
        (0x164a, "htinst"),
        (0x1655, "hviph hviprio1h hviprio2h"),
        (0x1680, "hgatp"),
        (0x16a8, "hcontext"),
        (0x1721, "mcyclecfgh minstretcfgh mhpmevent3h..mhpmevent31h mnscratch mnepc mncause"),
        (0x1744, "mnstatus"),
        (0x1747, "mseccfg"),
        (0x1757, "mseccfgh"),
        (0x17a0, "tselect tdata1..tdata3 tinfo tcontrol"),
        (0x17a8, "mcontext"),
        (0x17aa, "mscontext"),
        (0x17b0, "dcsr dpc dscratch0 dscratch1"),
        (0x1b00, "mcycle"),
        (0x1b02, "minstret mhpmcounter3..mhpmcounter31"),
        (0x1b80, "mcycleh"),
        (0x1b82, "minstreth mhpmcounter3h..mhpmcounter31h"),
        (0x1c00, "cycle time instret hpmcounter3..hpmcounter31 vl vtype vlenb"),
        (0x1c80, "cycleh timeh instreth hpmcounter3h..hpmcounter31h"),
        (0x1da0, "scountovf"),
        (0x1db0, "stopi"),
        (0x1e12, "hgeip"),
        (0x1eb0, "vstopi"),
        (0x1f11, "mvendorid marchid mimpid mhartid mconfigptr"),
        (0x1fb0, "mtopi"),
    ),
    "EM_SPARCV9": None,
}  # fmt: skip

BREAKPAD_X86: RegisterNames = (
    (0, "$eax $ecx $edx $ebx $esp $ebp $esi $edi $eip $eflags"),
    (11, "$st0..$st7"),
    (21, "$xmm0..$xmm7 $mm0..$mm7"),
)
BREAKPAD_X86_64: RegisterNames = (
    (0, "$rax $rdx $rcx $rbx $rsi $rdi $rbp $rsp $r8..$r15 $rip $xmm0..$xmm15 $st0..$st7 $mm0..$mm7 $rflags"),
    (50, "$es $cs $ss $ds $fs $gs"),
    (58, "$fs.base $gs.base"),
)
BREAKPAD_ARM: RegisterNames = ((0, "r0..r12 sp lr pc"), (64, "s0..s31"), (256, "d0..d31"))
BREAKPAD_AARCH64: RegisterNames = ((0, "x0..x30 sp"), (64, "v0..v31"))
BREAKPAD_MIPS: RegisterNames = (
    (0, "$zero $at $v0 $v1 $a0..$a3 $t0..$t7 $s0..$s7 $t8 $t9 $k0 $k1 $gp $sp $fp $ra"),
    (32, "$f0..$f31"),
)
BREAKPAD_PPC: RegisterNames = ((0, "r0..r31 f0..f31"), (65, "lr ctr"), (68, "cr0..cr7"), (77, "v0..v31"))
BREAKPAD_RISCV: RegisterNames = (
    (0, "zero ra sp gp tp t0..t2 s0 s1 a0..a7 s2..s11 t3..t6 ft0..ft7 fs0 fs1 fa0..fa7 fs2..fs11 ft8..ft11"),
)
BREAKPAD_S390: RegisterNames = ((0, "%r0..%r15 %f0 %f2 %f4 %f6 %f1 %f3 %f5 %f7 %f8 %f10 %f12 %f14 %f9 %f11 %f13 %f15"),)
BREAKPAD_LOONGARCH: RegisterNames = (
    (0, "$zero $ra $tp $sp $a0..$a7 $t0..$t8 $r21 $fp $s0..$s8 $fa0..$fa7 $ft0..$ft15 $fs0..$fs7"),
)
BREAKPAD_SPARC: RegisterNames = ((0, "%g0..%g7 %o0..%o7 %l0..%l7 %i0..%i7 %f0..%f31"),)

# A control and status register without a name is `csr` and its number among RISC-V's CSRs.
_RISCV_CSRS = range(0x1000, 0x2000)


# Names that assemblers accept in addition to readelf's, without `%` and `$`.
_ASSEMBLER_NAMES: dict[str, RegisterNames] = {
    "EM_ARM": ((0, "r0..r15"), (10, "sl fp ip sp lr pc"), (256, "d0..d31")),
    "EM_AARCH64": ((0, "w0..w30 wsp"), (29, "fp lr"), (64, "b0..b31"), (64, "h0..h31"), (64, "s0..s31"),
        (64, "d0..d31"), (64, "q0..q31")),
    "EM_MIPS": ((0, "zero at v0 v1 a0..a3 t0..t7 s0..s7 t8 t9 k0 k1 gp sp fp ra"), (30, "s8"), (32, "f0..f31")),
    "EM_PPC": ((0, "r0..r31 f0..f31"), (1, "sp"), (65, "lr ctr"), (68, "cr0..cr7"), (77, "v0..v31")),
    "EM_PPC64": ((0, "r0..r31 f0..f31"), (1, "sp"), (65, "lr ctr"), (68, "cr0..cr7"), (77, "v0..v31")),
    "EM_S390": ((0, "r0..r15"),),
    "EM_LOONGARCH": ((0, "zero ra tp sp a0..a7 t0..t8 r21 fp s0..s8 fa0..fa7 ft0..ft15 fs0..fs7"), (0, "r0..r31"),
        (22, "s9"), (32, "f0..f31")),
    "EM_RISCV": ((0, "x0..x31 f0..f31"), (8, "fp")),
    "EM_SPARCV9": ((0, "g0..g7 o0..o7 l0..l7 i0..i7"), (0, "r0..r31"), (14, "sp"), (30, "fp"), (32, "f0..f31")),
}  # fmt: skip


@cache
def register_numbers(machine: str) -> dict[str, int]:
    """The DWARF numbers of the register names that an assembler accepts, lower-case and without `%` or `$`."""
    found = {name.lstrip("$").lower(): number for number, name in _names(machine).items()}
    return found | {name: number for number, name in _pairs(_ASSEMBLER_NAMES.get(machine, ()))}


def _pairs(runs: RegisterNames) -> Iterator[tuple[int, str]]:
    return ((number, name) for first, names in runs for number, name in enumerate(_expand(names), first))


def register_name(machine: str, number: int) -> str:
    """A register's name, such as `rsp`, or `r33` without one. `machine` is EM_..."""
    return _names(machine).get(number) or f"r{number}"


def register_text(machine: str, number: int) -> str:
    """A register with its number, as readelf shows it where there is space: `r7 (rsp)`, `r33`."""
    name = _names(machine).get(number)
    return f"r{number} ({name})" if name else f"r{number}"


def register_count(machine: str) -> int:
    """One more than the greatest number of a register with a name."""
    return max(_names(machine), default=-1) + 1


@cache
def _names(machine: str) -> dict[int, str]:
    """The names of all registers of a machine, by number."""
    found = {number: f"csr{number - _RISCV_CSRS.start}" for number in _RISCV_CSRS} if machine == "EM_RISCV" else {}
    return found | numbered_names(READELF_NAMES.get(machine) or ())


@cache
def numbered_names(runs: RegisterNames) -> dict[int, str]:
    """The names in runs of consecutive numbers, by number."""
    return dict(_pairs(runs))


def _expand(names: str) -> Iterator[str]:
    """The single names: `mhpmcounter3h..mhpmcounter31h` is short for 29."""
    for name in names.split():
        if found := _RANGE.fullmatch(name):
            stem, begin, tail, end = found.groups()
            yield from (f"{stem}{number}{tail}" for number in range(int(begin), int(end) + 1))
        else:
            yield name


_RANGE = re.compile(r"(.*?)(\d+)(\D?)\.\.\1(\d+)\3")
