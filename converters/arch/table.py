"""The architectures as data: names, ELF machines, the registers used in unwinding, and facts that formats need.

Strategy: one row per architecture with every field given, None where the architecture has no such thing. Any other
machine has an architecture, too, of which only the size and order of addresses are known. readelf's register names and
the relocation types are by ELF machine, in registers.py and relocations.py, because `dump` needs no more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from typing import NamedTuple

from ...schemas.cfi import AARCH64_EFFECTS, NO_EFFECTS, SPARC_EFFECTS, Effect, MachineEffects
from ...schemas.data_classes import dataclass
from ...schemas.elf.numbers import is_machine
from ...schemas.section import BuildError, ByteOrder
from ...schemas.sframe_abi import SFRAME_ABI, SFRAME_ABIS, SFRAME_S390X_SP_VAL_OFFSET, SframeAbi
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

    `register_size` is that of a saved general register in bytes, which exceeds that of an address in x32.
    `caller_sp_offset`: where a row has no rule for SP, the caller's SP is the CFA plus this many bytes (the psABI's
    definition of the CFA). `needs_sp_rule`: readers of call frame information keep SP's value instead, so that rows
    from other formats get a rule.
    `program_counter` is the PC's number in expressions (None: it has none). `callee_saved`: the registers without SP
    whose values a called function preserves (psABI), which a row without a rule for them leaves unchanged.
    `instruction_unit`: every instruction's size in bytes is a multiple of it. `marks_code`: bit 0 of a function
    symbol's value marks an instruction set and is not part of the address. `instruction_effects`: effects of call frame
    instructions that are specific to the machine.
    `breakpad_module` is the name in MODULE records, `breakpad_registers` are the names in STACK CFI records (None:
    Breakpad has none). `plt_stubs` returns the known entries of PLT sections (None: none are known). `padding_code` is
    the instruction set whose padding the kernels know (None: not known, so no merging).

    The stack pointer, frame pointer, return address and `assembler` are None for machines outside `ARCHITECTURES`.
    """

    name: str
    machine: str
    address_size: int
    register_size: int
    byte_order: ByteOrder
    stack_pointer: int | None
    frame_pointer: int | None
    return_address: int | None
    caller_sp_offset: int
    needs_sp_rule: bool
    program_counter: int | None
    callee_saved: tuple[int, ...]
    instruction_unit: int
    marks_code: bool
    assembler: AssemblerCfi | None
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


# SP and FP of the 64-bit SPARC ABI are this many bytes below their frames; the CFA is not.
SPARC_STACK_BIAS = 2047

ARCHITECTURES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in (
        Architecture(
            name="x86", machine="EM_386", address_size=4, register_size=4, byte_order="little",
            stack_pointer=4, frame_pointer=5, return_address=8, program_counter=None,
            callee_saved=(3, 5, 6, 7),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=1, marks_code=False, assembler=AssemblerCfi(1, -4, 4, -4),
            instruction_effects=NO_EFFECTS,
            breakpad_module="x86", breakpad_registers=registers.BREAKPAD_X86,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="x86_64", machine="EM_X86_64", address_size=8, register_size=8, byte_order="little",
            stack_pointer=7, frame_pointer=6, return_address=16, program_counter=16,
            callee_saved=(3, 6, 12, 13, 14, 15),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=1, marks_code=False, assembler=AssemblerCfi(1, -8, 8, -8),
            instruction_effects=NO_EFFECTS,
            breakpad_module="x86_64", breakpad_registers=registers.BREAKPAD_X86_64,
            sframe=SFRAME_ABIS[SFRAME_ABI.AMD64_ENDIAN_LITTLE],
            plt_stubs=plt_stubs.x86_64, padding_code=PaddingCode.X86_64,
        ),
        Architecture(
            name="x32", machine="EM_X86_64", address_size=4, register_size=8, byte_order="little",
            stack_pointer=7, frame_pointer=6, return_address=16, program_counter=16,
            callee_saved=(3, 6, 12, 13, 14, 15),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=1, marks_code=False, assembler=AssemblerCfi(1, -8, 8, -8),
            instruction_effects=NO_EFFECTS,
            breakpad_module="x86_64", breakpad_registers=registers.BREAKPAD_X86_64,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="arm", machine="EM_ARM", address_size=4, register_size=4, byte_order="little",
            stack_pointer=13, frame_pointer=11, return_address=14, program_counter=None,
            callee_saved=(*range(4, 12), *range(264, 272)),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=2, marks_code=True, assembler=AssemblerCfi(2, -4, comment="@"),
            instruction_effects=NO_EFFECTS,
            breakpad_module="arm", breakpad_registers=registers.BREAKPAD_ARM,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="aarch64", machine="EM_AARCH64", address_size=8, register_size=8, byte_order="little",
            stack_pointer=31, frame_pointer=29, return_address=30, program_counter=None,
            callee_saved=(*range(19, 30), *range(72, 80)),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(4, -8, comment="//"),
            instruction_effects=AARCH64_EFFECTS,
            breakpad_module="arm64", breakpad_registers=registers.BREAKPAD_AARCH64,
            sframe=SFRAME_ABIS[SFRAME_ABI.AARCH64_ENDIAN_LITTLE],
            plt_stubs=plt_stubs.aarch64, padding_code=PaddingCode.AARCH64,
        ),
        Architecture(
            name="aarch64_be", machine="EM_AARCH64", address_size=8, register_size=8, byte_order="big",
            stack_pointer=31, frame_pointer=29, return_address=30, program_counter=None,
            callee_saved=(*range(19, 30), *range(72, 80)),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(4, -8, comment="//"),
            instruction_effects=AARCH64_EFFECTS,
            breakpad_module="arm64", breakpad_registers=registers.BREAKPAD_AARCH64,
            sframe=SFRAME_ABIS[SFRAME_ABI.AARCH64_ENDIAN_BIG],
            plt_stubs=plt_stubs.aarch64, padding_code=PaddingCode.AARCH64,
        ),
        Architecture(
            name="mips", machine="EM_MIPS", address_size=4, register_size=4, byte_order="big",
            stack_pointer=29, frame_pointer=30, return_address=31, program_counter=None,
            callee_saved=(*range(16, 24), 28, 30),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=4, marks_code=True, assembler=AssemblerCfi(1, -4, pc_relative=False),
            instruction_effects=NO_EFFECTS,
            breakpad_module="mips", breakpad_registers=registers.BREAKPAD_MIPS,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="mips64", machine="EM_MIPS", address_size=8, register_size=8, byte_order="big",
            stack_pointer=29, frame_pointer=30, return_address=31, program_counter=None,
            callee_saved=(*range(16, 24), 28, 30, *range(56, 64)),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=4, marks_code=True, assembler=AssemblerCfi(1, -4, pc_relative=False),
            instruction_effects=NO_EFFECTS,
            breakpad_module="mips", breakpad_registers=registers.BREAKPAD_MIPS,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="ppc", machine="EM_PPC", address_size=4, register_size=4, byte_order="big",
            stack_pointer=1, frame_pointer=31, return_address=65, program_counter=None,
            callee_saved=(*range(13, 32), *range(46, 64)),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(4, -4),
            instruction_effects=NO_EFFECTS,
            breakpad_module="ppc", breakpad_registers=registers.BREAKPAD_PPC,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="ppc64", machine="EM_PPC64", address_size=8, register_size=8, byte_order="little",
            stack_pointer=1, frame_pointer=31, return_address=65, program_counter=None,
            callee_saved=(*range(13, 32), *range(46, 64)),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(4, -8),
            instruction_effects=NO_EFFECTS,
            breakpad_module="ppc64", breakpad_registers=registers.BREAKPAD_PPC,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="riscv32", machine="EM_RISCV", address_size=4, register_size=4, byte_order="little",
            stack_pointer=2, frame_pointer=8, return_address=1, program_counter=None,
            callee_saved=(8, 9, *range(18, 28), 40, 41, *range(50, 60)),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=2, marks_code=False, assembler=AssemblerCfi(1, -4),
            instruction_effects=NO_EFFECTS,
            breakpad_module="riscv", breakpad_registers=registers.BREAKPAD_RISCV,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="riscv64", machine="EM_RISCV", address_size=8, register_size=8, byte_order="little",
            stack_pointer=2, frame_pointer=8, return_address=1, program_counter=None,
            callee_saved=(8, 9, *range(18, 28), 40, 41, *range(50, 60)),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=2, marks_code=False, assembler=AssemblerCfi(1, -4),
            instruction_effects=NO_EFFECTS,
            breakpad_module="riscv64", breakpad_registers=registers.BREAKPAD_RISCV,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="s390x", machine="EM_S390", address_size=8, register_size=8, byte_order="big",
            stack_pointer=15, frame_pointer=11, return_address=14, program_counter=None,
            callee_saved=(*range(6, 14), *range(24, 32)),
            caller_sp_offset=SFRAME_S390X_SP_VAL_OFFSET, needs_sp_rule=True,
            instruction_unit=2, marks_code=False, assembler=AssemblerCfi(1, -8, -SFRAME_S390X_SP_VAL_OFFSET),
            instruction_effects=NO_EFFECTS,
            breakpad_module="s390x", breakpad_registers=registers.BREAKPAD_S390,
            sframe=SFRAME_ABIS[SFRAME_ABI.S390X_ENDIAN_BIG],
            plt_stubs=plt_stubs.s390x, padding_code=PaddingCode.S390X,
        ),
        Architecture(
            name="loongarch64", machine="EM_LOONGARCH", address_size=8, register_size=8, byte_order="little",
            stack_pointer=3, frame_pointer=22, return_address=1, program_counter=None,
            callee_saved=(*range(22, 32), *range(56, 64)),
            caller_sp_offset=0, needs_sp_rule=False,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(1, -8),
            instruction_effects=NO_EFFECTS,
            breakpad_module="loongarch64", breakpad_registers=registers.BREAKPAD_LOONGARCH,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
        Architecture(
            name="sparc64", machine="EM_SPARCV9", address_size=8, register_size=8, byte_order="big",
            stack_pointer=14, frame_pointer=30, return_address=15, program_counter=None,
            callee_saved=tuple(range(16, 32)),
            caller_sp_offset=-SPARC_STACK_BIAS, needs_sp_rule=False,
            instruction_unit=4, marks_code=False, assembler=AssemblerCfi(4, -8, SPARC_STACK_BIAS, comment="!"),
            instruction_effects=SPARC_EFFECTS,
            breakpad_module="sparcv9", breakpad_registers=registers.BREAKPAD_SPARC,
            sframe=None, plt_stubs=None, padding_code=None,
        ),
    )
}  # fmt: skip


# Machines without a row that have the effects of one.
_EFFECTS_OF_MACHINES = {"EM_SPARC": SPARC_EFFECTS, "EM_SPARC32PLUS": SPARC_EFFECTS} | {
    architecture.machine: architecture.instruction_effects for architecture in ARCHITECTURES.values()
}
# The name of an architecture that is not in the table: `EM_88K-32-big`.
_OTHER = re.compile(r"(EM_\w+|\d{1,5})-(32|64)-(little|big)")


def architecture_of(machine: str, address_size: int, byte_order: ByteOrder) -> Architecture:
    """The architecture of an ELF file. `machine` is EM_... or a number. Only AArch64 has one row per byte order."""
    found = [a for a in ARCHITECTURES.values() if a.machine == machine and a.address_size == address_size]
    known = next((a for a in found if a.byte_order == byte_order), found[0] if found else None)
    return _other_architecture(machine, address_size, byte_order) if known is None else known


def _other_architecture(machine: str, address_size: int, byte_order: ByteOrder) -> Architecture:
    """An architecture whose registers have numbers only."""
    return Architecture(
        name=f"{machine}-{8 * address_size}-{byte_order}",
        machine=machine,
        address_size=address_size,
        register_size=address_size,
        byte_order=byte_order,
        stack_pointer=None,
        frame_pointer=None,
        return_address=None,
        caller_sp_offset=0,
        needs_sp_rule=False,
        program_counter=None,
        callee_saved=(),
        instruction_unit=1,
        marks_code=False,
        assembler=None,
        instruction_effects=_EFFECTS_OF_MACHINES.get(machine, NO_EFFECTS),
        sframe=None,
        breakpad_module=None,
        breakpad_registers=None,
        plt_stubs=None,
        padding_code=None,
    )


# What names can be, for errors.
NAMES = f"{', '.join(ARCHITECTURES)}, or of the form EM_88K-32-big for any other"


def find_architecture(name: str) -> Architecture | None:
    """The architecture of that name: one of `ARCHITECTURES`, or a machine, the bits of an address and a byte order
    (`EM_88K-32-big`). None if there is no such machine."""
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    other = _OTHER.fullmatch(name)
    if other is None or not (other[1].isdigit() or is_machine(other[1])):
        return None
    return architecture_of(other[1], int(other[2]) // 8, "big" if other[3] == "big" else "little")


def architecture_named(name: str, section: str) -> Architecture:
    """The architecture of that name. Raises BuildError, about `section`, for an unknown name."""
    found = find_architecture(name)
    if found is None:
        raise BuildError(section, None, "arch", f"{name!r} is not one of {NAMES}")
    return found


def check_architecture(name: str, _parameter: str) -> None:
    """Raise BuildError for what is not the name of an architecture."""
    architecture_named(name, "")


class UnwindRegisters(NamedTuple):
    """The DWARF numbers of the stack pointer, the frame pointer and the return address."""

    sp: int
    fp: int
    ra: int


def unwind_registers(architecture: Architecture) -> UnwindRegisters:
    """The registers used in unwinding. Raises BuildError for an architecture outside `ARCHITECTURES`."""
    sp, fp, ra = architecture.stack_pointer, architecture.frame_pointer, architecture.return_address
    if sp is None or fp is None or ra is None:
        raise BuildError("", None, "registers", f"the stack pointer of {architecture.name} is not known")
    return UnwindRegisters(sp, fp, ra)


def default_return_column(architecture: Architecture) -> int:
    """The return address column where no CIE gives one: that of the architecture, or 0 if it is not known."""
    return architecture.return_address or 0


def assembler_of(architecture: Architecture) -> AssemblerCfi:
    """The call frame information of the architecture's assembler. Raises BuildError if it is not known."""
    if architecture.assembler is None:
        raise BuildError("", None, "directives", f"the assembler's defaults for {architecture.name} are not known")
    return architecture.assembler


def breakpad_names(architecture: Architecture) -> dict[int, str]:
    """Breakpad's register names by DWARF number. Raises BuildError if it has none for the architecture."""
    if architecture.breakpad_registers is None:
        raise BuildError("STACK CFI", None, "registers", f"Breakpad has no register names for {architecture.name}")
    return numbered_names(architecture.breakpad_registers)


def architecture_of_abi(abi_arch: int) -> Architecture:
    """The architecture of an SFrame header's ABI byte. Raises ValueError for an unknown ABI."""
    return {a.sframe.abi_arch: a for a in ARCHITECTURES.values() if a.sframe is not None}[SFRAME_ABI(abi_arch)]
