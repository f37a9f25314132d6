"""The table of relocations: numbers as in pyelftools and the assemblers, results as computed by ld.

Strategy: each type that sets a field gets a place of its own by `.reloc`, linked so that S + A or S + A - P is -1,
and the bytes there show its size and whether it is PC-relative. Pairs of RISC-V are in test_relocation.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from elftools.elf import enums
from elftools.elf.elffile import ELFFile
from unwindkit.converters.arch.relocations import RELOCATION_TYPES, Formula, Operation
from unwindkit.converters.arch.table import ARCHITECTURES

from ..support.programs.objects import TARGETS, Target, assembled, linked

NAMES = {
    "EM_386": enums.ENUM_RELOC_TYPE_i386,
    "EM_X86_64": enums.ENUM_RELOC_TYPE_x64,
    "EM_ARM": enums.ENUM_RELOC_TYPE_ARM,
    "EM_AARCH64": enums.ENUM_RELOC_TYPE_AARCH64,
    "EM_MIPS": enums.ENUM_RELOC_TYPE_MIPS,
    "EM_PPC": enums.ENUM_RELOC_TYPE_PPC,
    "EM_PPC64": enums.ENUM_RELOC_TYPE_PPC64,
    "EM_S390": enums.ENUM_RELOC_TYPE_S390X,
}
# What pyelftools 0.32 lacks, or names differently than the psABIs (AArch64's NULL as NONE) and glibc's elf.h (DTPREL).
NOT_THERE = {
    *("R_386_GOT32X", "R_X86_64_GOTPCRELX", "R_X86_64_REX_GOTPCRELX", "R_MIPS_PC32"),
    *("R_PPC_DTPREL32", "R_390_TLS_LDO32", "R_390_TLS_LDO64"),
    *("R_AARCH64_NONE", "R_AARCH64_NULL", "R_AARCH64_PLT32", "R_AARCH64_GOTPCREL32", "R_AARCH64_TLS_DTPREL64"),
}


@pytest.mark.parametrize("machine", NAMES)
def test_numbers_are_those_of_pyelftools(machine: str) -> None:
    ours = {name: number for number, (name, _) in RELOCATION_TYPES[machine].items() if name not in NOT_THERE}
    assert {name: NAMES[machine].get(name) for name in ours} == ours


PLACE, HERE = 16, 0x30  # bytes of each place; offset of the symbol that is near them
SMALL = 0x12  # the other symbol
LINKED = [target for target in TARGETS.values() if target.linker is not None and target.name != "riscv32"]
WITHOUT_ADDENDS = ("x86", "arm")  # theirs are in the field
UNSIGNED = ("R_X86_64_32", "R_AARCH64_ABS32", "R_AARCH64_ABS16")  # for ld
# Types that as has no name for, or ld does not support.
NOT_LINKED = ("R_AARCH64_PLT32", "R_RISCV_PLT32", "R_RISCV_32_PCREL", "R_PPC_PLTREL32", "R_PPC64_PLTREL32")


# The numbers in the assemblers.
OTHERS = {"x86": "R_386_GOT32X", "x86_64": "R_X86_64_GOTPCRELX R_X86_64_REX_GOTPCRELX"}


@pytest.mark.oracle("forky-cross")
@pytest.mark.parametrize("target", OTHERS)
def test_numbers_that_only_an_assembler_has(target: str, tmp_path: Path) -> None:
    names = OTHERS[target].split()
    ours = {name: number for number, (name, _) in RELOCATION_TYPES[ARCHITECTURES[target].machine].items()}
    lines = "".join(f" .reloc ., {name}, g\n .8byte 0\n" for name in names)
    with assembled(tmp_path, TARGETS[target], f' .section .data,"aw"\n{lines}').open("rb") as file:
        (section,) = (one for one in ELFFile(file).iter_sections() if one.name in (".rela.data", ".rel.data"))
        assert [one["r_info_type"] for one in section.iter_relocations()] == [ours[name] for name in names]


def is_linked(name: str, formula: Formula) -> bool:
    """The types that the last test compares with ld: not thread-local storage, nor special references to the GOT;
    there is no ld for MIPS."""
    is_own = any(word in name for word in ("TLS", "DTP", "GOT", "MIPS"))
    return formula.operation is Operation.SET and name not in NOT_LINKED and not is_own


@pytest.mark.parametrize("machine", RELOCATION_TYPES)
def test_names_of_the_others_tell_size_and_what_they_count_from(machine: str) -> None:
    """PREL, PC and PLT types are relative to P; DTPREL is thread-local storage."""
    for name, formula in RELOCATION_TYPES[machine].values():
        if formula.operation in (Operation.SET, Operation.LINKER) and not is_linked(name, formula):
            tail = re.sub(r"^R_(X86_64|[A-Z0-9]+)_", "", name)
            size = re.search(r"(16|32|64)$", tail)
            assert formula.bits == (int(size[0]) if size else 32), name
            assert formula.is_pcrel == bool(re.search(r"^PC|GOTPC|PCREL|PLT|(?<!DT)PREL|TARGET2", tail)), name


def types_that_set(target: Target) -> list[tuple[int, str, Formula]]:
    rows = RELOCATION_TYPES[ARCHITECTURES[target.name].machine].items()
    return [(number, name, formula) for number, (name, formula) in rows if is_linked(name, formula)]


def place_of(target: Target, index: int, name: str, formula: Formula) -> str:
    """A field of 16 bytes with a relocation for -1."""
    symbol, addend = ("here", PLACE * index - HERE - 1) if formula.is_pcrel else ("small", -SMALL - 1)
    addend += (1 << formula.bits) * (name in UNSIGNED)
    if target.name not in WITHOUT_ADDENDS:
        return f" .reloc ., {name}, {symbol} + {addend}\n .8byte 0, 0\n"
    order = ARCHITECTURES[target.name].byte_order
    field = (addend % (1 << formula.bits)).to_bytes(formula.bits // 8, order).ljust(PLACE, b"\0")
    return f" .reloc ., {name}, {symbol}\n .byte {', '.join(map(str, field))}\n"


@pytest.mark.oracle("forky-cross")
@pytest.mark.parametrize("target", LINKED, ids=lambda target: target.name)
def test_a_field_is_what_ld_makes_of_it(target: Target, tmp_path: Path) -> None:
    types = types_that_set(target)
    places = [place_of(target, index, name, formula) for index, (_, name, formula) in enumerate(types)]
    # A local symbol's value would be added to the value in the field.
    places.insert(HERE // PLACE, " .globl here\nhere:\n" if target.name in WITHOUT_ADDENDS else "here:\n")
    source = f' .section .data,"aw"\n{"".join(places)}'
    path = assembled(tmp_path, target, source)
    with path.open("rb") as file:
        (section,) = (one for one in ELFFile(file).iter_sections() if one.name in (".rela.data", ".rel.data"))
        numbers = {one["r_offset"]: one["r_info_type"] for one in section.iter_relocations()}
    assert numbers == {PLACE * index: number for index, (number, *_) in enumerate(types)}
    output = linked(target, tmp_path / "linked", "-e", "0", "--defsym", f"small={SMALL}", path)
    with output.open("rb") as file:
        data = ELFFile(file).get_section_by_name(".data").data()
    for index, (_, name, formula) in enumerate(types):
        field = b"\xff" * (formula.bits // 8)
        assert data[PLACE * index :][:PLACE] == field.ljust(PLACE, b"\0"), name
