"""The machines whose programs can be checked: registers of a stopped thread, and what a call preserves.

Strategy: registers are those of the architecture by DWARF number; a stop has its values in a tuple, whose order is that
of the source (ptrace's structure, gdb's packet).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..converters.arch.table import ARCHITECTURES, Architecture, unwind_registers
from ..schemas.core_files.notes import LAYOUTS, S390X_FIRST_FLOATING, S390X_FLOATING
from ..schemas.data_classes import dataclass
from .control import Instruction
from .fixed_size_control import decode_aarch64, decode_s390x
from .x86_64_control import decode


@dataclass(frozen=True, slots=True)
class SystemCalls:
    """The numbers of system calls that matter here, and the columns of their number and first two arguments."""

    number: int
    arguments: tuple[int, int]
    sigreturn: int
    munmap: int
    mmap: int


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine.

    `columns`: the index in a stop's registers of each DWARF register. `program_counter`, `stack_pointer` and `link` are
    such indices; `link` is the register of the return address, None if a call pushes it. At a function's first
    instruction the CFA is the stack pointer + `cfa_offset`. `address_mask`: the bits of an address; those above may
    sign it. `other_registers`: gdb's numbers of DWARF registers that are not in a stop.
    """

    architecture: Architecture
    columns: dict[int, int]
    program_counter: int
    stack_pointer: int
    link: int | None
    cfa_offset: int
    address_mask: int
    other_registers: dict[int, int]
    decode: Callable[[bytes], Instruction]
    system_calls: SystemCalls

    @property
    def register_count(self) -> int:
        """How many of a stop's registers matter: the first ones."""
        return 1 + max(self.program_counter, *self.columns.values())

    @property
    def preserved(self) -> tuple[int, ...]:
        """The registers of a stop whose caller's values rows recover; SP only where a rule gives it."""
        architecture = self.architecture
        stack_pointer = (architecture.stack_pointer,) if architecture.needs_sp_rule else ()
        return tuple(one for one in (*architecture.callee_saved, *stack_pointer) if one in self.columns)


_MASK_64 = (1 << 64) - 1


def _machine(name: str, **facts: Any) -> Machine:
    """A machine whose stops have the registers of a core file's NT_PRSTATUS, as ptrace and gdb's packet `g` have."""
    architecture = ARCHITECTURES[name]
    layout, registers = LAYOUTS[architecture.machine], unwind_registers(architecture)
    facts["link"] = layout.general[registers.ra] if facts["link"] else None
    stack_pointer = layout.general[registers.sp]
    return Machine(
        architecture=architecture,
        columns=layout.general,
        program_counter=layout.pc,
        stack_pointer=stack_pointer,
        **facts,
    )


X86_64 = _machine(
    "x86_64",
    link=False,
    cfa_offset=8,
    address_mask=_MASK_64,
    other_registers={},
    decode=decode,
    system_calls=SystemCalls(10, (14, 13), sigreturn=15, munmap=11, mmap=9),
)
AARCH64 = _machine(
    "aarch64",
    link=True,
    cfa_offset=0,
    address_mask=(1 << 48) - 1,
    other_registers={},
    decode=decode_aarch64,
    system_calls=SystemCalls(8, (0, 1), sigreturn=139, munmap=215, mmap=222),
)
# gdb numbers the floating-point registers after 18 registers of packet `g`, 16 access registers and FPC.
_F0 = 18 + 16 + 1
S390X = _machine(
    "s390x",
    link=True,
    cfa_offset=160,
    address_mask=_MASK_64,
    other_registers={S390X_FIRST_FLOATING + index: _F0 + number for index, number in enumerate(S390X_FLOATING)},
    decode=decode_s390x,
    system_calls=SystemCalls(2 + 1, (2 + 2, 2 + 3), sigreturn=173, munmap=91, mmap=90),
)
MACHINES = {one.architecture.name: one for one in (X86_64, AARCH64, S390X)}
