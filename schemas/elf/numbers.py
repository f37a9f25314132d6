"""Numbers in ELF files and their names: file, section and segment types, machines, dynamic entries, symbols, notes.

Strategy: what nearly every file has, and what is looked for, is listed here. pyelftools knows the names of all others,
and takes longer to import than the headers of many files to read: it is asked for a number that is not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Any


class ET(IntEnum):
    """File types."""

    REL = 1
    EXEC = 2
    DYN = 3
    CORE = 4


class PT(IntEnum):
    """Segment types."""

    NULL = 0
    LOAD = 1
    DYNAMIC = 2
    INTERP = 3
    NOTE = 4
    PHDR = 6
    TLS = 7
    GNU_EH_FRAME = 0x6474E550
    GNU_STACK = 0x6474E551
    GNU_RELRO = 0x6474E552
    GNU_PROPERTY = 0x6474E553


class PF(IntEnum):
    """Segment flags."""

    W = 2
    R = 4


class SHT(IntEnum):
    """Section types: those that have one meaning on all machines."""

    NULL = 0
    PROGBITS = 1
    SYMTAB = 2
    STRTAB = 3
    RELA = 4
    HASH = 5
    DYNAMIC = 6
    NOTE = 7
    NOBITS = 8
    REL = 9
    DYNSYM = 11
    INIT_ARRAY = 14
    FINI_ARRAY = 15
    PREINIT_ARRAY = 16
    GROUP = 17
    SYMTAB_SHNDX = 18
    RELR = 19
    CREL = 0x40000014
    GNU_HASH = 0x6FFFFFF6
    GNU_verdef = 0x6FFFFFFD
    GNU_verneed = 0x6FFFFFFE
    GNU_versym = 0x6FFFFFFF


class SHF(IntEnum):
    """Section flags."""

    WRITE = 1
    ALLOC = 2
    EXECINSTR = 4
    INFO_LINK = 0x40
    COMPRESSED = 0x800


class DT(IntEnum):
    """Tags of dynamic entries."""

    PLTGOT = 3
    HASH = 4
    SYMTAB = 6
    SONAME = 14
    DEBUG = 21
    GNU_HASH = 0x6FFFFEF5


class STT(IntEnum):
    """Types of symbols."""

    NOTYPE = 0
    FUNC = 2
    SECTION = 3
    GNU_IFUNC = 10


STB_LOCAL = 0
# The type of `.eh_frame` from gold and clang (x86-64 psABI, Special Sections). On other machines it is another type.
SHT_X86_64_UNWIND = 0x70000001
NT_GNU_BUILD_ID = 3
ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD = 1, 2

MACHINES = {
    2: "EM_SPARC",
    3: "EM_386",
    8: "EM_MIPS",
    20: "EM_PPC",
    21: "EM_PPC64",
    22: "EM_S390",
    40: "EM_ARM",
    43: "EM_SPARCV9",
    62: "EM_X86_64",
    183: "EM_AARCH64",
    243: "EM_RISCV",
    258: "EM_LOONGARCH",
}
_FILE_TYPES, _SECTION_TYPES, _SEGMENT_TYPES = (
    {int(one): f"{kinds.__name__}_{one.name}" for one in kinds} for kinds in (ET, SHT, PT)
)

# What pyelftools calls its tables of the types that a machine adds to.
_OF_MACHINES = {
    "EM_AARCH64": "AARCH64",
    "EM_ARM": "ARM",
    "EM_MIPS": "MIPS",
    "EM_RISCV": "RISCV",
    "EM_X86_64": "AMD64",
}


def file_type(number: int) -> str | int:
    """The name of e_type, or the number of an unknown one."""
    return _FILE_TYPES.get(number) or _other("ENUM_E_TYPE", number)


def machine_name(number: int) -> str | int:
    """The name of e_machine, or the number of an unknown one."""
    return MACHINES.get(number) or _other("ENUM_E_MACHINE", number)


def section_type(number: int, machine: str | int) -> str | int:
    """The name of sh_type, or the number of an unknown one."""
    if number == SHT_X86_64_UNWIND and machine == "EM_X86_64":
        return "SHT_AMD64_UNWIND"  # as pyelftools calls it
    return _SECTION_TYPES.get(number) or _other_of("ENUM_SH_TYPE", number, machine)


def segment_type(number: int, machine: str | int) -> str | int:
    """The name of p_type, or the number of an unknown one."""
    return _SEGMENT_TYPES.get(number) or _other_of("ENUM_P_TYPE", number, machine)


def is_machine(name: str) -> bool:
    """Whether a name is that of a machine."""
    from elftools.elf.enums import ENUM_E_MACHINE

    return name in ENUM_E_MACHINE


def _other(table: str, number: int) -> str | int:
    return _table(table).get(number, number)


def _other_of(table: str, number: int, machine: str | int) -> str | int:
    own = f"{table}_{_OF_MACHINES.get(str(machine), 'BASE')}"
    return _other(own, number) if _table(own) else _other(f"{table}_BASE", number)


@cache
def _table(name: str) -> Mapping[int, str]:
    """The names of a table of pyelftools by their numbers; empty if it has no such table."""
    from elftools.elf import enums

    found: dict[str, Any] = getattr(enums, name, {})
    return {number: one for one, number in found.items() if isinstance(number, int)}
