"""The architectures, as data: names, ELF machines, the registers that unwinding is about, SFrame's ABI.

Strategy: one row an architecture; whoever needs a register number or a machine looks it up here.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...schemas.section import ByteOrder
from ...schemas.sframe_abi import SFRAME_ABI, SFRAME_ABIS, SframeAbi


@dataclass(frozen=True, slots=True)
class AssemblerCfi:
    """What GNU as lays down for call frame information (gas/config/tc-*.h: DWARF2_LINE_MIN_INSN_LENGTH,
    DWARF2_CIE_DATA_ALIGNMENT, tc_cfi_frame_initial_instructions, CFI_DIFF_EXPR_OK).

    The factors are its CIEs'. Where `.cfi_startproc` stands the CFA is the stack pointer + `cfa_offset`, and the return
    address is saved `ra_offset` bytes from the CFA (None: it has no rule). `pc_relative` tells whether pointers to
    personality and LSDA may count from their place.
    """

    code_alignment_factor: int
    data_alignment_factor: int
    cfa_offset: int = 0
    ra_offset: int | None = None
    pc_relative: bool = True


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture. Registers are DWARF numbers; `address_size` in bytes; `byte_order` the usual one.

    `breakpad_module` is its name in Breakpad's MODULE records. `program_counter` is what an expression calls the PC,
    where it can. `instruction_unit`: every instruction's size in bytes is a multiple of it.
    """

    name: str
    machine: str
    address_size: int
    byte_order: ByteOrder
    stack_pointer: int
    frame_pointer: int
    return_address: int
    assembler: AssemblerCfi
    breakpad_module: str
    program_counter: int | None = None
    sframe: SframeAbi | None = None
    instruction_unit: int = 4

    @property
    def signs_return_addresses(self) -> bool:
        """Whether opcode 0x2d signs return addresses, and is no GNU_window_save."""
        return self.sframe is not None and self.sframe.signs_return_addresses


ARCHITECTURES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in (
        Architecture("x86", "EM_386", 4, "little", 4, 5, 8, AssemblerCfi(1, -4, 4, -4), "x86", instruction_unit=1),
        Architecture(
            "x86_64", "EM_X86_64", 8, "little", 7, 6, 16, AssemblerCfi(1, -8, 8, -8), "x86_64", program_counter=16,
            sframe=SFRAME_ABIS[SFRAME_ABI.AMD64_ENDIAN_LITTLE], instruction_unit=1,
        ),
        Architecture("arm", "EM_ARM", 4, "little", 13, 11, 14, AssemblerCfi(2, -4), "arm", instruction_unit=2),
        Architecture(
            "aarch64", "EM_AARCH64", 8, "little", 31, 29, 30, AssemblerCfi(4, -8), "arm64",
            sframe=SFRAME_ABIS[SFRAME_ABI.AARCH64_ENDIAN_LITTLE],
        ),
        Architecture(
            "aarch64_be", "EM_AARCH64", 8, "big", 31, 29, 30, AssemblerCfi(4, -8), "arm64",
            sframe=SFRAME_ABIS[SFRAME_ABI.AARCH64_ENDIAN_BIG],
        ),
        Architecture("mips", "EM_MIPS", 4, "big", 29, 30, 31, AssemblerCfi(1, -4, pc_relative=False), "mips"),
        Architecture("mips64", "EM_MIPS", 8, "big", 29, 30, 31, AssemblerCfi(1, -4, pc_relative=False), "mips"),
        Architecture("ppc", "EM_PPC", 4, "big", 1, 31, 65, AssemblerCfi(4, -4), "ppc"),
        Architecture("ppc64", "EM_PPC64", 8, "little", 1, 31, 65, AssemblerCfi(4, -8), "ppc64"),
        Architecture("riscv32", "EM_RISCV", 4, "little", 2, 8, 1, AssemblerCfi(1, -4), "riscv", instruction_unit=2),
        Architecture("riscv64", "EM_RISCV", 8, "little", 2, 8, 1, AssemblerCfi(1, -4), "riscv64", instruction_unit=2),
        Architecture(
            "s390x", "EM_S390", 8, "big", 15, 11, 14, AssemblerCfi(1, -8, 160), "s390x",
            sframe=SFRAME_ABIS[SFRAME_ABI.S390X_ENDIAN_BIG], instruction_unit=2,
        ),
    )
}  # fmt: skip


def architecture_of(machine: str, address_size: int, byte_order: ByteOrder) -> Architecture | None:
    """The architecture of an ELF file; None where it is none of ours. Only AArch64's name tells the byte order."""
    found = [a for a in ARCHITECTURES.values() if a.machine == machine and a.address_size == address_size]
    return next((a for a in found if a.byte_order == byte_order), found[0] if found else None)


def architecture_of_abi(abi_arch: int) -> Architecture:
    """The architecture of an SFrame header's ABI byte; ValueError where it is none."""
    return {a.sframe.abi_arch: a for a in ARCHITECTURES.values() if a.sframe is not None}[SFRAME_ABI(abi_arch)]
