"""The architectures as data: names, ELF machines, the registers used in unwinding, and facts that formats need.

Strategy: one row per architecture with every field given, None where the architecture has no such thing. readelf's
register names and the relocation types are by ELF machine, in registers.py and relocations.py, because `dump` also
reads files of machines without a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...schemas.cfi import AARCH64_EFFECTS, NO_EFFECTS, SPARC_EFFECTS, Effect, MachineEffects
from ...schemas.section import BuildError, ByteOrder
from ...schemas.sframe_abi import SFRAME_ABI, SFRAME_ABIS, SframeAbi
from ..kernels.sframe.protocol import PaddingCode
from . import plt_stubs, registers
from .plt_stubs import Stubs
from .registers import RegisterNames, numbered_names


@dataclass(frozen=True, slots=True)
class AssemblerCfi:
    """Properties of the call frame information from GNU as (gas/config/tc-*.h: DWARF2_LINE_MIN_INSN_LENGTH,
    DWARF2_CIE_DATA_ALIGNMENT, tc_cfi_frame_initial_instructions, CFI_DIFF_EXPR_OK).

    The factors are those of its CIEs. At `.cfi_startproc` the CFA is the stack pointer + `cfa_offset`, and the return
    address is saved at CFA + `ra_offset` (None: it has no rule). `pc_relative`: the pointers to personality and LSDA
    may be relative to their own address. `comment` starts a comment to the end of the line.
    """

    code_alignment_factor: int
    data_alignment_factor: int
    cfa_offset: int = 0
    ra_offset: int | None = None
    pc_relative: bool = True
    comment: str = "#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One architecture. Registers are DWARF numbers; `address_size` in bytes; `byte_order` the usual one.

    `program_counter` is the PC's number in expressions (None: it has none). `instruction_unit`: every instruction's
    size in bytes is a multiple of it. `marks_code`: bit 0 of a function symbol's value marks an instruction set and is
    not part of the address. `instruction_effects`: effects of call frame instructions that are specific to the machine.
    `breakpad_module` is the name in MODULE records, `breakpad_registers` are the names in STACK CFI records (None:
    Breakpad has none). `plt_stubs` returns the known entries of PLT sections (None: none are known). `padding_code` is
    the instruction set whose padding the kernels know (None: not known, so no merging).
    """

    name: str
    machine: str
    address_size: int
    byte_order: ByteOrder
    stack_pointer: int
    frame_pointer: int
    return_address: int
    program_counter: int | None
    instruction_unit: int
    marks_code: bool
    assembler: AssemblerCfi
    instruction_effects: MachineEffects
    sframe: SframeAbi | None
    breakpad_module: str | None
    breakpad_registers: RegisterNames | None = field(repr=False)
    plt_stubs: Callable[[], Stubs] | None = field(repr=False)
    padding_code: PaddingCode | None

    @property
    def signs_return_addresses(self) -> bool:
        """Whether a call frame instruction can mark the return address as signed."""
        return Effect.NEGATE_RA_STATE in dict(self.instruction_effects).values()


ARCHITECTURES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in (
        Architecture(
            name="x86", machine="EM_386", address_size=4, byte_order="little",
            stack_pointer=4, frame_pointer=5, return_address=8, program_counter=None,
            instruction_unit=1, marks_code=False, assembler=AssemblerCfi(1, -4, 4, -4),
            instruction_effects=NO_EFFECTS,
            breakpad_module="x86", breakpad_registers=registers.BREAKPAD_X86,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="x86_64", machine="EM_X86_64", address_size=8, byte_order="little",
            stack_pointer=7, frame_pointer=6, return_address=16, program_counter=16,
            instruction_unit=1, marks_code=False, assembler=AssemblerCfi(1, -8, 8, -8),
            instruction_effects=NO_EFFECTS,
            breakpad_module="x86_64", breakpad_registers=registers.BREAKPAD_X86_64,
            sframe=SFRAME_ABIS[SFRAME_ABI.AMD64_ENDIAN_LITTLE],
            plt_stubs=plt_stubs.x86_64, padding_code=PaddingCode.X86_64,
        ),
        Architecture(
            name="arm", machine="EM_ARM", address_size=4, byte_order="little",
            stack_pointer=13, frame_pointer=11, return_address=14, program_counter=None,
            instruction_unit=2, marks_code=True, assembler=AssemblerCfi(2, -4, comment="@"),
            instruction_effects=NO_EFFECTS,
            breakpad_module="arm", breakpad_registers=registers.BREAKPAD_ARM,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="aarch64", machine="EM_AARCH64", address_size=8, byte_order="little",
            stack_pointer=31, frame_pointer=29, return_address=30, program_counter=None,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(4, -8, comment="//"),
            instruction_effects=AARCH64_EFFECTS,
            breakpad_module="arm64", breakpad_registers=registers.BREAKPAD_AARCH64,
            sframe=SFRAME_ABIS[SFRAME_ABI.AARCH64_ENDIAN_LITTLE],
            plt_stubs=plt_stubs.aarch64, padding_code=PaddingCode.AARCH64,
        ),
        Architecture(
            name="aarch64_be", machine="EM_AARCH64", address_size=8, byte_order="big",
            stack_pointer=31, frame_pointer=29, return_address=30, program_counter=None,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(4, -8, comment="//"),
            instruction_effects=AARCH64_EFFECTS,
            breakpad_module="arm64", breakpad_registers=registers.BREAKPAD_AARCH64,
            sframe=SFRAME_ABIS[SFRAME_ABI.AARCH64_ENDIAN_BIG],
            plt_stubs=plt_stubs.aarch64, padding_code=PaddingCode.AARCH64,
        ),
        Architecture(
            name="mips", machine="EM_MIPS", address_size=4, byte_order="big",
            stack_pointer=29, frame_pointer=30, return_address=31, program_counter=None,
            instruction_unit=4, marks_code=True, assembler=AssemblerCfi(1, -4, pc_relative=False),
            instruction_effects=NO_EFFECTS,
            breakpad_module="mips", breakpad_registers=registers.BREAKPAD_MIPS,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="mips64", machine="EM_MIPS", address_size=8, byte_order="big",
            stack_pointer=29, frame_pointer=30, return_address=31, program_counter=None,
            instruction_unit=4, marks_code=True, assembler=AssemblerCfi(1, -4, pc_relative=False),
            instruction_effects=NO_EFFECTS,
            breakpad_module="mips", breakpad_registers=registers.BREAKPAD_MIPS,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="ppc", machine="EM_PPC", address_size=4, byte_order="big",
            stack_pointer=1, frame_pointer=31, return_address=65, program_counter=None,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(4, -4),
            instruction_effects=NO_EFFECTS,
            breakpad_module="ppc", breakpad_registers=registers.BREAKPAD_PPC,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="ppc64", machine="EM_PPC64", address_size=8, byte_order="little",
            stack_pointer=1, frame_pointer=31, return_address=65, program_counter=None,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(4, -8),
            instruction_effects=NO_EFFECTS,
            breakpad_module="ppc64", breakpad_registers=registers.BREAKPAD_PPC,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="riscv32", machine="EM_RISCV", address_size=4, byte_order="little",
            stack_pointer=2, frame_pointer=8, return_address=1, program_counter=None,
            instruction_unit=2, marks_code=False, assembler=AssemblerCfi(1, -4),
            instruction_effects=NO_EFFECTS,
            breakpad_module="riscv", breakpad_registers=registers.BREAKPAD_RISCV,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="riscv64", machine="EM_RISCV", address_size=8, byte_order="little",
            stack_pointer=2, frame_pointer=8, return_address=1, program_counter=None,
            instruction_unit=2, marks_code=False, assembler=AssemblerCfi(1, -4),
            instruction_effects=NO_EFFECTS,
            breakpad_module="riscv64", breakpad_registers=registers.BREAKPAD_RISCV,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="s390x", machine="EM_S390", address_size=8, byte_order="big",
            stack_pointer=15, frame_pointer=11, return_address=14, program_counter=None,
            instruction_unit=2, marks_code=False, assembler=AssemblerCfi(1, -8, 160),
            instruction_effects=NO_EFFECTS,
            breakpad_module="s390x", breakpad_registers=registers.BREAKPAD_S390,
            sframe=SFRAME_ABIS[SFRAME_ABI.S390X_ENDIAN_BIG],
            plt_stubs=plt_stubs.s390x, padding_code=PaddingCode.S390X,
        ),
        Architecture(
            name="loongarch64", machine="EM_LOONGARCH", address_size=8, byte_order="little",
            stack_pointer=3, frame_pointer=22, return_address=1, program_counter=None,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(1, -8),
            instruction_effects=NO_EFFECTS,
            breakpad_module=None, breakpad_registers=None,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="sparc64", machine="EM_SPARCV9", address_size=8, byte_order="big",
            stack_pointer=14, frame_pointer=30, return_address=15, program_counter=None,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(4, -8, 2047, comment="!"),
            instruction_effects=SPARC_EFFECTS,
            breakpad_module="sparcv9", breakpad_registers=None,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
    )
}  # fmt: skip


def architecture_of(machine: str, address_size: int, byte_order: ByteOrder) -> Architecture | None:
    """The architecture of an ELF file, None if it is not supported. Only AArch64 has one row per byte order."""
    found = [a for a in ARCHITECTURES.values() if a.machine == machine and a.address_size == address_size]
    return next((a for a in found if a.byte_order == byte_order), found[0] if found else None)


def architecture_named(name: str, section: str) -> Architecture:
    """The architecture of that name. Raises BuildError, about `section`, for an unknown name."""
    if name not in ARCHITECTURES:
        raise BuildError(section, None, "arch", f"{name!r} is not one of {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def breakpad_names(architecture: Architecture) -> dict[int, str]:
    """Breakpad's register names by DWARF number. Raises BuildError if it has none for the architecture."""
    if architecture.breakpad_registers is None:
        raise BuildError("STACK CFI", None, "registers", f"Breakpad has no register names for {architecture.name}")
    return numbered_names(architecture.breakpad_registers)


def architecture_of_abi(abi_arch: int) -> Architecture:
    """The architecture of an SFrame header's ABI byte. Raises ValueError for an unknown ABI."""
    return {a.sframe.abi_arch: a for a in ARCHITECTURES.values() if a.sframe is not None}[SFRAME_ABI(abi_arch)]
