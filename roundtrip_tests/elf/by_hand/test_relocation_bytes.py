"""Relocations of both classes and byte orders, field by field: values worked out by hand, and both sides of each limit.

Strategy: an object with one section to relocate, `.debug_x`, which is not loaded, so that P is the offset of the field.
Its symbol 1 is in `.text`, the only loaded section, which `lay_out` places at 0x40000000.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from unwindkit import ParseError
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.elf.relocation import lay_out, relocate

from ...support.handmade import octets, place
from ...support.small_elf import (
    ALLOC,
    EM_386,
    EM_ARM,
    EM_MIPS,
    EM_RISCV,
    EM_X86_64,
    EXEC,
    NOBITS,
    PROGBITS,
    REL,
    RELA,
    SYMTAB,
    WRITE,
    Part,
    small_elf,
)


def with_relocations(table: bytes, data: bytes, machine: int, order: str = "<", is_64: bool = True) -> bytes:
    """Sections: 1 .text, 2 .debug_x of these bytes, 3 its relocations (REL for i386, else RELA), 4 .symtab."""
    # st_name, st_info, st_other, st_shndx, st_value, st_size; ELF32: st_name, st_value, st_size, st_info, ...
    symbol = struct.pack(f"{order}IBBHQQ", 0, 0, 0, 1, 0, 0) if is_64 else struct.pack(f"{order}IIIBBH", *[0] * 5, 1)
    is_rel = machine == EM_386
    size = struct.calcsize(f"{order}{2 if is_rel else 3}{'Q' if is_64 else 'I'}")
    parts = [
        Part(".text", PROGBITS, ALLOC | EXEC, bytes(0x10)),
        Part(".debug_x", PROGBITS, 0, data),
        Part(".rel", REL if is_rel else RELA, 0, table, 4, 2, entry_size=size),
        Part(".symtab", SYMTAB, 0, bytes(len(symbol)) + symbol, 5, 1, entry_size=len(symbol)),
    ]
    return small_elf(*parts, machine=machine, order=order, is_64=is_64)


def relocated(path: Path, data: bytes) -> bytes:
    """The bytes of `.debug_x` after its relocations."""
    path.write_bytes(data)
    laid = lay_out(open_elf(path))
    return bytes(relocate(laid, laid.image.named(".debug_x")[0]).data)


def rela(kind: int, offset: int = 0, addend: int = 0, order: str = "<") -> bytes:
    """An Elf64_Rela for symbol 1."""
    return struct.pack(f"{order}QQq", offset, 1 << 32 | kind, addend)


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "object.o"


# --- addresses --------------------------------------------------------------------------------------------------


def test_code_comes_first_and_sections_without_bytes_last(path: Path) -> None:
    """Each gets the next multiple of 64 that leaves 64 bytes free; .bss of 2 GiB puts no other out of 32-bit reach."""
    parts = [
        Part(".debug_x", NOBITS, ALLOC | WRITE, 1 << 31),
        Part(".rel", PROGBITS, ALLOC, bytes(8)),
        Part(".text", PROGBITS, ALLOC | EXEC, bytes(0x10)),
    ]
    path.write_bytes(small_elf(*parts))
    assert lay_out(open_elf(path)).address.tolist() == [0, 0x40000100, 0x40000080, 0x40000000, 0]


@pytest.mark.parametrize("is_64", [False, True])
def test_sections_of_elf32_end_below_4_gib(path: Path, is_64: bool) -> None:
    """From 0x40000000 on: 0xBFFFFF7F bytes and the gap after them end at 0xFFFFFFC0."""
    for size, fits in ((0xBFFFFF7F, True), (0xBFFFFF80, is_64)):
        path.write_bytes(
            small_elf(Part(".text", NOBITS, ALLOC, size), machine=EM_X86_64 if is_64 else EM_386, is_64=is_64)
        )
        if fits:
            assert lay_out(open_elf(path)).address.tolist() == [0, 0x40000000, 0]
            continue
        with pytest.raises(ParseError) as caught:
            lay_out(open_elf(path))
        assert place(caught.value) == ("", None, "section headers")
        assert caught.value.reason == "the sections are larger than the address space"


# --- records ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["<", ">"])
def test_records_of_mips_n64_have_their_symbol_in_the_file_s_byte_order(path: Path, order: str) -> None:
    """r_offset, then r_sym of 4 bytes, r_ssym and three types of one byte each, the first last; R_MIPS_64 is 18."""
    table = struct.pack(f"{order}QI4Bq", 4, 1, 0, 0, 0, 18, 0x20)
    found = relocated(path, with_relocations(table, bytes(12), EM_MIPS, order))
    assert found == bytes(4) + struct.pack(f"{order}Q", 0x40000020)


# --- values -----------------------------------------------------------------------------------------------------


def test_rel_addends_of_16_bits_are_signed_and_the_value_wraps_at_32_bits(path: Path) -> None:
    """R_386_16 (20) and R_386_PC16 (21): the field holds the addend. Symbol 0 is 0."""
    table = struct.pack("<IIII", 0, 20, 4, 21)
    # S + A = -2, and S + A - P = 6 - 4.
    assert relocated(path, with_relocations(table, octets("feff 0000 0600"), EM_386, is_64=False)) == octets(
        "feff 0000 0200"
    )
    # -0x8000 - 1: A of the second field is -0x8000, and P is 1.
    for offset, field, fits in ((0, "0080", True), (1, "0080", False)):
        data = bytes(offset) + octets(field)
        file = with_relocations(struct.pack("<II", offset, 21), data, EM_386, is_64=False)
        if fits:
            assert relocated(path, file) == data
            continue
        with pytest.raises(ParseError) as caught:
            relocated(path, file)
        assert place(caught.value) == (".rel", 0, "relocation[0].addend")
        assert caught.value.reason == "R_386_PC16: 0xffff7fff does not fit 16 bits"


@pytest.mark.parametrize("kind", [28, 29])
def test_places_that_a_linker_makes_have_64_bits_too(path: Path, kind: int) -> None:
    """R_X86_64_GOTPCREL64 (28) and R_X86_64_GOTPC64 (29) are relative to the field; the entry's address counts as 0."""
    found = relocated(path, with_relocations(rela(kind, 8, 0x30), octets("77" * 16), EM_X86_64))
    assert found == octets("77" * 8) + struct.pack("<q", 0x30 - 8)


def test_target2_of_arm_is_an_entry_that_the_linker_makes(path: Path) -> None:
    """On Linux R_ARM_TARGET2 (41) is R_ARM_GOT_PREL: GOT(S) + A - P, with GOT(S) unknown."""
    found = relocated(path, with_relocations(struct.pack("<IIi", 4, 1 << 8 | 41, 0x10), bytes(8), EM_ARM, is_64=False))
    assert found == octets("00000000 0c000000")


def test_six_bits_at_the_end_of_a_section(path: Path) -> None:
    """R_RISCV_SET6 (53) sets the low bits of one byte, which has to be in the section."""
    assert relocated(path, with_relocations(rela(53, 2, 0x15), octets("4040c0"), EM_RISCV)) == octets("4040d5")
    with pytest.raises(ParseError) as caught:
        relocated(path, with_relocations(rela(53, 3, 0x15), octets("4040c0"), EM_RISCV))
    assert place(caught.value) == (".rel", 0, "relocation[0].offset")
    assert caught.value.reason == "R_RISCV_SET6 at 0x3 reaches past the section's 0x3 bytes"


def test_an_uleb128_difference_of_64_bits_has_10_groups(path: Path) -> None:
    """R_RISCV_SET_ULEB128 (60) and R_RISCV_SUB_ULEB128 (61): 1 << 63 is nine groups of 0 and one of 1."""
    pair = rela(60, 0, -(1 << 63)) + rela(61, 0, 0)
    found = relocated(path, with_relocations(pair, octets("80" * 9 + "00"), EM_RISCV))
    assert found == octets("80" * 9 + "01")
    with pytest.raises(ParseError) as caught:
        relocated(path, with_relocations(pair, octets("80" * 8 + "00 00"), EM_RISCV))
    assert place(caught.value) == (".rel", 0, "relocation[0].addend")
    with pytest.raises(ParseError) as caught:
        relocated(path, with_relocations(pair, octets("80" * 10 + "00"), EM_RISCV))
    assert caught.value.reason == ("R_RISCV_SET_ULEB128: the difference does not fit the size of the LEB128 number")
