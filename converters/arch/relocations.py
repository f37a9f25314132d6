"""Relocation types that occur in unlinked call frame and debugging information, by machine.

Strategy: one row per type: its number, its name, and its formula over S (the symbol), A (the addend) and P (the place),
from the processor supplements. Formulas that only a linker can compute (a place in the GOT) are marked.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ...schemas.section import ParseError


class Operation(IntEnum):
    """The effect on the field at P; the value is S + A or S + A - P."""

    UNKNOWN = 0
    NOTHING = 1
    SET = 2  # the value, which has to fit
    SET_PART = 3  # the low bits of the value, from which another relocation subtracts
    ADD = 4
    SUBTRACT = 5
    SET_ULEB128 = 6  # the difference with the SUBTRACT_ULEB128 at the same place; the number keeps its size
    ADD_ULEB128 = 7  # likewise, added to the number
    SUBTRACT_ULEB128 = 8
    LINKER = 9  # refers to an entry that the linker creates: its address is unknown, S is taken as 0


class Formula(NamedTuple):
    """The formula of a relocation: the operation, the field's size in `bits`, and whether P is subtracted."""

    operation: Operation
    bits: int = 0
    is_pcrel: bool = False


NOTHING = Formula(Operation.NOTHING)
ABS8, ABS16, ABS32, ABS64 = (Formula(Operation.SET, bits) for bits in (8, 16, 32, 64))
PC8, PC16, PC32, PC64 = (Formula(Operation.SET, bits, is_pcrel=True) for bits in (8, 16, 32, 64))
SET6, SET8, SET16, SET32 = (Formula(Operation.SET_PART, bits) for bits in (6, 8, 16, 32))
ADD6, ADD8, ADD16, ADD24, ADD32, ADD64 = (Formula(Operation.ADD, bits) for bits in (6, 8, 16, 24, 32, 64))
SUB6, SUB8, SUB16, SUB24, SUB32, SUB64 = (Formula(Operation.SUBTRACT, bits) for bits in (6, 8, 16, 24, 32, 64))
LINK32, LINK64 = (Formula(Operation.LINKER, bits) for bits in (32, 64))
PC_LINK32, PC_LINK64 = (Formula(Operation.LINKER, bits, is_pcrel=True) for bits in (32, 64))

RelocationTypes = dict[int, tuple[str, Formula]]

# PLT: a function's PLT entry is equivalent to the function. GOTOFF: read as if relative to address 0, not to the GOT.
_I386: RelocationTypes = {
    0: ("R_386_NONE", NOTHING),
    1: ("R_386_32", ABS32),
    2: ("R_386_PC32", PC32),
    3: ("R_386_GOT32", LINK32),
    4: ("R_386_PLT32", PC32),
    9: ("R_386_GOTOFF", ABS32),
    10: ("R_386_GOTPC", PC_LINK32),
    20: ("R_386_16", ABS16),
    21: ("R_386_PC16", PC16),
    22: ("R_386_8", ABS8),
    23: ("R_386_PC8", PC8),
    32: ("R_386_TLS_LDO_32", ABS32),
    43: ("R_386_GOT32X", LINK32),
}

_X86_64: RelocationTypes = {
    0: ("R_X86_64_NONE", NOTHING),
    1: ("R_X86_64_64", ABS64),
    2: ("R_X86_64_PC32", PC32),
    3: ("R_X86_64_GOT32", LINK32),
    4: ("R_X86_64_PLT32", PC32),
    9: ("R_X86_64_GOTPCREL", PC_LINK32),
    10: ("R_X86_64_32", ABS32),
    11: ("R_X86_64_32S", ABS32),
    12: ("R_X86_64_16", ABS16),
    13: ("R_X86_64_PC16", PC16),
    14: ("R_X86_64_8", ABS8),
    15: ("R_X86_64_PC8", PC8),
    17: ("R_X86_64_DTPOFF64", ABS64),
    21: ("R_X86_64_DTPOFF32", ABS32),
    24: ("R_X86_64_PC64", PC64),
    25: ("R_X86_64_GOTOFF64", ABS64),
    26: ("R_X86_64_GOTPC32", PC_LINK32),
    28: ("R_X86_64_GOTPCREL64", PC_LINK64),
    29: ("R_X86_64_GOTPC64", PC_LINK64),
    41: ("R_X86_64_GOTPCRELX", PC_LINK32),
    42: ("R_X86_64_REX_GOTPCRELX", PC_LINK32),
}

# The supplement ORs the Thumb bit (T) into the result; here it is already in the symbol's value.
_ARM: RelocationTypes = {
    0: ("R_ARM_NONE", NOTHING),
    2: ("R_ARM_ABS32", ABS32),
    3: ("R_ARM_REL32", PC32),
    5: ("R_ARM_ABS16", ABS16),
    8: ("R_ARM_ABS8", ABS8),
    24: ("R_ARM_GOTOFF32", ABS32),
    25: ("R_ARM_BASE_PREL", PC_LINK32),
    26: ("R_ARM_GOT_BREL", LINK32),
    38: ("R_ARM_TARGET1", ABS32),  # on Linux
    40: ("R_ARM_V4BX", NOTHING),
    41: ("R_ARM_TARGET2", PC_LINK32),  # on Linux: R_ARM_GOT_PREL
    55: ("R_ARM_ABS32_NOI", ABS32),
    56: ("R_ARM_REL32_NOI", PC32),
    96: ("R_ARM_GOT_PREL", PC_LINK32),
    106: ("R_ARM_TLS_LDO32", ABS32),
}

_AARCH64: RelocationTypes = {
    0: ("R_AARCH64_NONE", NOTHING),
    256: ("R_AARCH64_NULL", NOTHING),
    257: ("R_AARCH64_ABS64", ABS64),
    258: ("R_AARCH64_ABS32", ABS32),
    259: ("R_AARCH64_ABS16", ABS16),
    260: ("R_AARCH64_PREL64", PC64),
    261: ("R_AARCH64_PREL32", PC32),
    262: ("R_AARCH64_PREL16", PC16),
    307: ("R_AARCH64_GOTREL64", ABS64),
    308: ("R_AARCH64_GOTREL32", ABS32),
    314: ("R_AARCH64_PLT32", PC32),
    315: ("R_AARCH64_GOTPCREL32", PC_LINK32),
    1029: ("R_AARCH64_TLS_DTPREL64", ABS64),
}

_MIPS: RelocationTypes = {
    0: ("R_MIPS_NONE", NOTHING),
    1: ("R_MIPS_16", ABS16),
    2: ("R_MIPS_32", ABS32),
    18: ("R_MIPS_64", ABS64),
    39: ("R_MIPS_TLS_DTPREL32", ABS32),
    41: ("R_MIPS_TLS_DTPREL64", ABS64),
    248: ("R_MIPS_PC32", PC32),
}

_PPC: RelocationTypes = {
    0: ("R_PPC_NONE", NOTHING),
    1: ("R_PPC_ADDR32", ABS32),
    3: ("R_PPC_ADDR16", ABS16),
    24: ("R_PPC_UADDR32", ABS32),
    25: ("R_PPC_UADDR16", ABS16),
    26: ("R_PPC_REL32", PC32),
    28: ("R_PPC_PLTREL32", PC32),
    78: ("R_PPC_DTPREL32", ABS32),
}

_PPC64: RelocationTypes = {
    0: ("R_PPC64_NONE", NOTHING),
    1: ("R_PPC64_ADDR32", ABS32),
    3: ("R_PPC64_ADDR16", ABS16),
    24: ("R_PPC64_UADDR32", ABS32),
    25: ("R_PPC64_UADDR16", ABS16),
    26: ("R_PPC64_REL32", PC32),
    28: ("R_PPC64_PLTREL32", PC32),
    38: ("R_PPC64_ADDR64", ABS64),
    43: ("R_PPC64_UADDR64", ABS64),
    44: ("R_PPC64_REL64", PC64),
    78: ("R_PPC64_DTPREL64", ABS64),
}

_RISCV: RelocationTypes = {
    0: ("R_RISCV_NONE", NOTHING),
    1: ("R_RISCV_32", ABS32),
    2: ("R_RISCV_64", ABS64),
    8: ("R_RISCV_TLS_DTPREL32", ABS32),
    9: ("R_RISCV_TLS_DTPREL64", ABS64),
    33: ("R_RISCV_ADD8", ADD8),
    34: ("R_RISCV_ADD16", ADD16),
    35: ("R_RISCV_ADD32", ADD32),
    36: ("R_RISCV_ADD64", ADD64),
    37: ("R_RISCV_SUB8", SUB8),
    38: ("R_RISCV_SUB16", SUB16),
    39: ("R_RISCV_SUB32", SUB32),
    40: ("R_RISCV_SUB64", SUB64),
    41: ("R_RISCV_GOT32_PCREL", PC_LINK32),
    43: ("R_RISCV_ALIGN", NOTHING),
    51: ("R_RISCV_RELAX", NOTHING),
    52: ("R_RISCV_SUB6", SUB6),
    53: ("R_RISCV_SET6", SET6),
    54: ("R_RISCV_SET8", SET8),
    55: ("R_RISCV_SET16", SET16),
    56: ("R_RISCV_SET32", SET32),
    57: ("R_RISCV_32_PCREL", PC32),
    59: ("R_RISCV_PLT32", PC32),
    60: ("R_RISCV_SET_ULEB128", Formula(Operation.SET_ULEB128)),
    61: ("R_RISCV_SUB_ULEB128", Formula(Operation.SUBTRACT_ULEB128)),
}

_S390: RelocationTypes = {
    0: ("R_390_NONE", NOTHING),
    1: ("R_390_8", ABS8),
    3: ("R_390_16", ABS16),
    4: ("R_390_32", ABS32),
    5: ("R_390_PC32", PC32),
    7: ("R_390_GOT32", LINK32),
    8: ("R_390_PLT32", PC32),
    13: ("R_390_GOTOFF32", ABS32),
    14: ("R_390_GOTPC", PC_LINK32),
    16: ("R_390_PC16", PC16),
    22: ("R_390_64", ABS64),
    23: ("R_390_PC64", PC64),
    25: ("R_390_PLT64", PC64),
    28: ("R_390_GOTOFF64", ABS64),
    52: ("R_390_TLS_LDO32", ABS32),
    53: ("R_390_TLS_LDO64", ABS64),
}

_LOONGARCH: RelocationTypes = {
    0: ("R_LARCH_NONE", NOTHING),
    1: ("R_LARCH_32", ABS32),
    2: ("R_LARCH_64", ABS64),
    8: ("R_LARCH_TLS_DTPREL32", ABS32),
    9: ("R_LARCH_TLS_DTPREL64", ABS64),
    47: ("R_LARCH_ADD8", ADD8),
    48: ("R_LARCH_ADD16", ADD16),
    49: ("R_LARCH_ADD24", ADD24),
    50: ("R_LARCH_ADD32", ADD32),
    51: ("R_LARCH_ADD64", ADD64),
    52: ("R_LARCH_SUB8", SUB8),
    53: ("R_LARCH_SUB16", SUB16),
    54: ("R_LARCH_SUB24", SUB24),
    55: ("R_LARCH_SUB32", SUB32),
    56: ("R_LARCH_SUB64", SUB64),
    99: ("R_LARCH_32_PCREL", PC32),
    100: ("R_LARCH_RELAX", NOTHING),
    102: ("R_LARCH_ALIGN", NOTHING),
    105: ("R_LARCH_ADD6", ADD6),
    106: ("R_LARCH_SUB6", SUB6),
    107: ("R_LARCH_ADD_ULEB128", Formula(Operation.ADD_ULEB128)),
    108: ("R_LARCH_SUB_ULEB128", Formula(Operation.SUBTRACT_ULEB128)),
    109: ("R_LARCH_64_PCREL", PC64),
}

_SPARCV9: RelocationTypes = {
    0: ("R_SPARC_NONE", NOTHING),
    1: ("R_SPARC_8", ABS8),
    2: ("R_SPARC_16", ABS16),
    3: ("R_SPARC_32", ABS32),
    4: ("R_SPARC_DISP8", PC8),
    5: ("R_SPARC_DISP16", PC16),
    6: ("R_SPARC_DISP32", PC32),
    23: ("R_SPARC_UA32", ABS32),
    24: ("R_SPARC_PLT32", ABS32),
    32: ("R_SPARC_64", ABS64),
    46: ("R_SPARC_DISP64", PC64),
    47: ("R_SPARC_PLT64", ABS64),
    54: ("R_SPARC_UA64", ABS64),
    55: ("R_SPARC_UA16", ABS16),
    76: ("R_SPARC_TLS_DTPOFF32", ABS32),
    77: ("R_SPARC_TLS_DTPOFF64", ABS64),
}

RELOCATION_TYPES: dict[str, RelocationTypes] = {
    "EM_386": _I386,
    "EM_X86_64": _X86_64,
    "EM_ARM": _ARM,
    "EM_AARCH64": _AARCH64,
    "EM_MIPS": _MIPS,
    "EM_PPC": _PPC,
    "EM_PPC64": _PPC64,
    "EM_RISCV": _RISCV,
    "EM_S390": _S390,
    "EM_LOONGARCH": _LOONGARCH,
    "EM_SPARCV9": _SPARCV9,
}


def relocation_types(machine: str) -> RelocationTypes:
    """The types of a machine. Raises ParseError if they are not supported."""
    if machine not in RELOCATION_TYPES:
        raise ParseError("", None, "e_machine", f"the relocation types of {machine} are not supported")
    return RELOCATION_TYPES[machine]


def has_n64_records(machine: str, address_size: int) -> bool:
    """Whether a record holds three consecutive types after its symbol, one field each (MIPS 64-bit ELF format, 2.9)."""
    return machine == "EM_MIPS" and address_size == 8


def pcrel_type(machine: str, bits: int) -> int:
    """The number of the machine's relocation type that sets a field of 32 or 64 bits to S + A - P."""
    plain = {32: PC32, 64: PC64}[bits]
    # If two types have that formula, the second is for functions that a linker may call through a PLT.
    return next(number for number, (_, formula) in relocation_types(machine).items() if formula == plain)
