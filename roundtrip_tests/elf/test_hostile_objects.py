"""Invalid relocatable files: every read of relocations and symbols ends in a FormatError with its offset.

Strategy: one small object made by hand, of x86-64, RISC-V or MIPS; each case corrupts a field or has other relocations.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import FormatError, ParseError, info, read_elf, read_lines
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.elf.relocation import lay_out, relocate

from ..conftest import fewer
from ..support.handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame, place
from ..support.tiny_elf import ALLOC, CODE, ET_REL, NOBITS, SYMTAB, Content, patched, tiny_elf
from ..support.work import at_most_calls

RELA, REL, CREL, SYMTAB_SHNDX = 4, 9, 0x40000014, 18
EM_MIPS, EM_RISCV = 8, 243
TEXT_INDEX, CFI_INDEX, RELA_INDEX, SYMBOLS_INDEX, X_INDEX = 1, 2, 3, 4, 5
MAX = (1 << 64) - 1

# A CIE of 20 bytes and an FDE of 44, whose initial location follows its length and pointer.
CFI = eh_frame(f"{PLAIN_CIE} {X86_64_START} 0000", Fde(0, 0x40, "41 0e10" + 17 * " 00"))
OTHER = Content(".x", b"x")
FDE_OFFSET, LOCATION = 0x14, 0x1C
R_64, R_PC32, R_GOTPCREL, R_32 = 1, 2, 9, 10


@dataclass(frozen=True, slots=True)
class Symbol:
    """The Elf64_Sym of a place."""

    value: int = 0
    shndx: int = TEXT_INDEX


@dataclass(frozen=True, slots=True)
class Rela:
    """An Elf64_Rela; symbol 0 is the undefined one."""

    type: int
    offset: int = LOCATION
    addend: int = 0
    symbol: int = 1


def symbol_table(*symbols: Symbol) -> bytes:
    return bytes(24) + b"".join(struct.pack("<IBBHQQ", 0, 0, 0, one.shndx, one.value, 0) for one in symbols)


def relocation_table(*relocations: Rela) -> bytes:
    return b"".join(struct.pack("<QQq", one.offset, one.symbol << 32 | one.type, one.addend) for one in relocations)


def tiny_object(
    relocations: Sequence[Rela] | bytes,
    symbols: Sequence[Symbol] = (Symbol(),),
    cfi: bytes = CFI,
    fifth: Content = OTHER,
    **header: int,
) -> bytearray:
    """Sections: 1 .text of 0x80 bytes, 2 .eh_frame, 3 .rela.eh_frame, 4 .symtab, 5 .x or another, 6 .shstrtab."""
    table = relocations if isinstance(relocations, bytes) else relocation_table(*relocations)
    contents = (Content(".rela.eh_frame", table, RELA, 0), Content(".symtab", symbol_table(*symbols), SYMTAB, 0))
    data = tiny_elf(CODE, Content(".eh_frame", cfi), *contents, fifth, e_type=ET_REL, **header)
    patched(data, RELA_INDEX, sh_link=SYMBOLS_INDEX, sh_info=CFI_INDEX, sh_entsize=24)
    return patched(data, SYMBOLS_INDEX, sh_entsize=24)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "object.o"


def refused(path: Path, data: bytes) -> ParseError:
    path.write_bytes(data)
    with pytest.raises(ParseError) as caught:
        read_elf(path)
    return caught.value


def test_the_object_itself_is_right(path: Path) -> None:
    path.write_bytes(tiny_object([Rela(R_64, addend=0x40)]))
    (function,) = read_elf(path)
    assert (function.section, function.start, function.size) == (TEXT_INDEX, 0x40, 0x40)


@pytest.mark.parametrize("symbol", [Symbol(0, 0), Symbol(7, 0), Symbol(0x10, 0xFFF2)])
def test_what_another_file_defines_is_in_no_section(path: Path, symbol: Symbol) -> None:
    path.write_bytes(tiny_object([Rela(R_64, addend=0x40)], [symbol]))
    (function,) = read_elf(path)
    assert (function.section, function.start) == (0, 0x40)


def test_absolute_symbol_is_in_no_section(path: Path) -> None:
    path.write_bytes(tiny_object([Rela(R_64)], [Symbol(0xFFFFFFFF80000000, 0xFFF1)]))
    (function,) = read_elf(path)
    assert (function.section, function.start) == (0, 0xFFFFFFFF80000000)


def test_place_that_a_linker_makes_is_none_yet(path: Path) -> None:
    # "zPR": the personality is pcrel sdata4, indirect, at 0x12; the routine is in .text.
    cie = f"01 7a505200 01 78 10  06 9b 00000000 00 {X86_64_START}"
    for kind, personality in ((R_PC32, 0x20), (R_GOTPCREL, 0)):
        relocations = [Rela(kind, 0x12, symbol=1), Rela(R_64, 0x24, symbol=2)]
        cfi = eh_frame(cie, Fde(0, 0x40, "00"))
        path.write_bytes(tiny_object(relocations, [Symbol(0x20), Symbol()], cfi))
        (function,) = read_elf(path)
        assert (function.personality_encoding, function.personality) == (0x9B, personality)
        assert (function.section, function.start) == (TEXT_INDEX, 0)


def test_relocation_that_does_nothing_is_not_looked_at(path: Path) -> None:
    path.write_bytes(tiny_object([Rela(0, offset=MAX, symbol=77), Rela(R_64)]))
    assert read_elf(path).function(0).section == TEXT_INDEX


# Relocations; the index, the field and the reason of the error, which is at that record.
PAST = "reaches past the section's 0x40 bytes"
TABLES = [
    ([Rela(R_64, offset=0x39)], 0, "offset", f"R_X86_64_64 at 0x39 {PAST}"),
    ([Rela(R_64), Rela(R_32, offset=0x3D)], 1, "offset", f"R_X86_64_32 at 0x3d {PAST}"),
    ([Rela(R_64), Rela(R_32, offset=MAX)], 1, "offset", f"R_X86_64_32 at {MAX:#x} {PAST}"),
    ([Rela(R_64, offset=1 << 63)], 0, "offset", f"R_X86_64_64 at {1 << 63:#x} {PAST}"),
    ([Rela(R_64, symbol=2)], 0, "symbol", "2 is out of range: there are 2 symbols"),
    ([Rela(R_64, symbol=0xFFFFFFFF)], 0, "symbol", "4294967295 is out of range: there are 2 symbols"),
    ([Rela(R_64), Rela(77)], 1, "type", "77 is unknown for EM_X86_64"),
    ([Rela(0xFFFFFFFF)], 0, "type", "4294967295 is unknown for EM_X86_64"),
    ([Rela(R_64), Rela(R_64, addend=1)], 1, "offset", "R_X86_64_64 at 0x1c: another relocation sets the same field"),
    # .text is placed at 0x40000000, .eh_frame after it at 0x40000100.
    ([Rela(R_32, addend=1 << 33)], 0, "addend", "R_X86_64_32: 0x240000000 does not fit 32 bits"),
    ([Rela(R_PC32, addend=-(1 << 32))], 0, "addend", "R_X86_64_PC32: 0xfffffffefffffee4 does not fit 32 bits"),
]


@pytest.mark.parametrize(("relocations", "number", "field", "reason"), TABLES)
def test_relocation_that_lies(path: Path, relocations: list[Rela], number: int, field: str, reason: str) -> None:
    error = refused(path, tiny_object(relocations))
    assert place(error) == (".rela.eh_frame", 24 * number, f"relocation[{number}].{field}")
    assert error.reason == reason


def fields_of(path: Path, *relocations: Rela) -> bytes:
    """The bytes of `.eh_frame`, relocated."""
    path.write_bytes(tiny_object(relocations))
    laid = lay_out(open_elf(path))
    (header,) = laid.image.named(".eh_frame")
    return bytes(relocate(laid, header).data)


def test_limits_of_a_pc_relative_field(path: Path) -> None:
    """The value is signed or unsigned: from -2**31 to 2**32 - 1."""
    to_text = 0x100 + LOCATION  # the symbol is so many bytes before the field
    for value, field in ((-(1 << 31), "00000080"), ((1 << 32) - 1, "ffffffff")):
        assert fields_of(path, Rela(R_PC32, addend=value + to_text))[LOCATION:][:4].hex() == field
    for value, shown in ((-(1 << 31) - 1, 0xFFFFFFFF7FFFFFFF), (1 << 32, 1 << 32)):
        error = refused(path, tiny_object([Rela(R_PC32, addend=value + to_text)]))
        assert place(error) == (".rela.eh_frame", 0, "relocation[0].addend")
        assert error.reason == f"R_X86_64_PC32: {shown:#x} does not fit 32 bits"


@pytest.mark.parametrize(("machine", "name"), [(2, "EM_SPARC"), (0xABCD, "43981")])
def test_machine_whose_relocations_are_not_supported(path: Path, machine: int, name: str) -> None:
    data = tiny_object([Rela(R_64)], fifth=Content(".debug_line", bytes(64), flags=0), e_machine=machine)
    patched(data, RELA_INDEX, sh_info=X_INDEX)
    path.write_bytes(data)
    with pytest.raises(ParseError) as caught:
        read_lines(path)
    assert caught.value.reason == f"the relocation types of {name} are not supported"


@pytest.mark.parametrize("shndx", [7, 0xFEFF])
def test_symbol_of_a_section_that_is_not_there(path: Path, shndx: int) -> None:
    error = refused(path, tiny_object([Rela(R_64)], [Symbol(0, shndx)]))
    assert place(error) == (".rela.eh_frame", 0, "relocation[0].symbol")
    assert error.reason == f"is in section {shndx}, but there are only 7 sections"


def test_large_section_index_without_its_table(path: Path) -> None:
    error = refused(path, tiny_object([Rela(R_64)], [Symbol(0, 0xFFFF)]))
    assert (place(error), error.reason) == (
        (".symtab", None, "st_shndx"),
        "is SHN_XINDEX without SHT_SYMTAB_SHNDX",
    )


@pytest.mark.parametrize("size", [4, 8, 12])
def test_large_section_indices_are_one_per_symbol(path: Path, size: int) -> None:
    indices = Content(".x", struct.pack("<3I", 0, TEXT_INDEX, 0)[:size], SYMTAB_SHNDX, 0)
    data = tiny_object([Rela(R_64, addend=0x40)], [Symbol(0, 0xFFFF)], fifth=indices)
    patched(data, X_INDEX, sh_link=SYMBOLS_INDEX)
    if size == 8:
        path.write_bytes(data)
        assert read_elf(path).function(0).section == TEXT_INDEX
        return
    error = refused(path, data)
    assert place(error) == (".x", None, "sh_size")
    assert error.reason == f"{size} bytes, expected 4 for each of 2 symbols"


COMPACT = "is SHT_CREL, compact relocations, which are not supported"
FAR = "reaches to 0x10000000018 in a file of 0x415 bytes"
FAR_SIZE = "reaches to 0x1800000001c0 in a file of 0x415 bytes"
LARGE = "section headers"
HEADERS = [
    (RELA_INDEX, {"sh_entsize": 0}, ".rela.eh_frame", "sh_entsize", "0 bytes, expected 24"),
    (RELA_INDEX, {"sh_entsize": 16}, ".rela.eh_frame", "sh_entsize", "16 bytes, expected 24"),
    (RELA_INDEX, {"sh_type": REL}, ".rela.eh_frame", "sh_entsize", "24 bytes, expected 16"),
    (RELA_INDEX, {"sh_size": 25}, ".rela.eh_frame", "sh_size", "25 bytes are not a multiple of 24"),
    (RELA_INDEX, {"sh_size": 24 << 40}, ".rela.eh_frame", "sh_size", FAR_SIZE),
    (RELA_INDEX, {"sh_offset": 1 << 40}, ".rela.eh_frame", "sh_size", FAR),
    (RELA_INDEX, {"sh_link": 0}, ".rela.eh_frame", "sh_link", "section 0 is not a symbol table"),
    (RELA_INDEX, {"sh_link": RELA_INDEX}, ".rela.eh_frame", "sh_link", "section 3 is not a symbol table"),
    (RELA_INDEX, {"sh_link": 77}, ".rela.eh_frame", "sh_link", "section 77 is not a symbol table"),
    (RELA_INDEX, {"sh_type": CREL}, ".rela.eh_frame", "sh_type", COMPACT),
    (SYMBOLS_INDEX, {"sh_entsize": 16}, ".symtab", "sh_entsize", "16 bytes, expected 24"),
    (SYMBOLS_INDEX, {"sh_size": 47}, ".symtab", "sh_size", "47 bytes are not a multiple of 24"),
    (
        SYMBOLS_INDEX,
        {"sh_size": 24},
        ".rela.eh_frame",
        "relocation[0].symbol",
        "1 is out of range: there are 1 symbols",
    ),
    (TEXT_INDEX, {"sh_type": NOBITS, "sh_size": MAX}, "", LARGE, "the sections are larger than the address space"),
]


@pytest.mark.parametrize(("index", "fields", "section", "record", "reason"), HEADERS)
def test_section_header_that_lies(
    path: Path, index: int, fields: dict[str, int], section: str, record: str, reason: str
) -> None:
    error = refused(path, patched(tiny_object([Rela(R_64)]), index, **fields))
    assert (error.section, error.record, error.reason) == (section, record, reason)


def test_table_that_relocates_itself_ends(path: Path) -> None:
    data = patched(tiny_object([Rela(R_64)]), RELA_INDEX, sh_info=RELA_INDEX)
    path.write_bytes(data)
    assert read_elf(path).function(0).section == 0


def test_start_between_sections_is_refused(path: Path) -> None:
    error = refused(path, tiny_object([Rela(R_64, addend=0x81)]))
    assert place(error) == (".eh_frame", FDE_OFFSET, "FDE[0].initial_location")
    assert error.reason == "is in no section of the file"


@pytest.mark.filterwarnings("error")
def test_sections_with_lying_sizes_and_addresses(path: Path) -> None:
    data = patched(tiny_object([Rela(R_64, addend=0x10)]), X_INDEX, sh_addr=0x40000010, sh_size=MAX)
    for flags in (ALLOC, 0):
        path.write_bytes(patched(data, X_INDEX, sh_flags=flags))
        assert read_elf(path).function(0).start == 0x10


def test_end_of_a_section_is_in_it(path: Path) -> None:
    path.write_bytes(tiny_object([Rela(R_64, addend=0x80)]))
    assert read_elf(path).function(0).start == 0x80


SET_ULEB, SUB_ULEB = 60, 61
PAIRS = [
    ([Rela(SET_ULEB)], "type", "R_RISCV_SET_ULEB128 at 0x1c is not part of a pair"),
    ([Rela(SUB_ULEB)], "type", "R_RISCV_SUB_ULEB128 at 0x1c is not part of a pair"),
    (
        [Rela(SET_ULEB), Rela(SUB_ULEB, offset=0x1D)],
        "type",
        "R_RISCV_SET_ULEB128 at 0x1c is not part of a pair",
    ),
    ([Rela(SET_ULEB), Rela(SET_ULEB), Rela(SUB_ULEB)], "type", "R_RISCV_SET_ULEB128 at 0x1c is not part of a pair"),
    (
        [Rela(SET_ULEB, addend=128), Rela(SUB_ULEB)],
        "addend",
        "the difference does not fit the size of the LEB128 number",
    ),
    ([Rela(SET_ULEB), Rela(SUB_ULEB, addend=1)], "addend", "the difference does not fit the size of the LEB128 number"),
    ([Rela(SET_ULEB, offset=0x40), Rela(SUB_ULEB, offset=0x40)], "offset", "reaches past the section's end"),
    ([Rela(SET_ULEB, offset=0x3F), Rela(SUB_ULEB, offset=0x3F)], "offset", "reaches past the section's end"),
    ([Rela(SET_ULEB, offset=0x31), Rela(SUB_ULEB, offset=0x31)], "addend", "the difference does not fit"),
]


@pytest.mark.parametrize(("relocations", "field", "reason"), PAIRS)
def test_uleb128_pair_that_is_none(path: Path, relocations: list[Rela], field: str, reason: str) -> None:
    cfi = CFI[:0x31] + b"\x80" * 15
    error = refused(path, tiny_object(relocations, cfi=cfi.ljust(64, b"\x80"), e_machine=EM_RISCV))
    assert (error.section, error.record) == (".rela.eh_frame", f"relocation[0].{field}")
    assert reason in error.reason


def test_several_relocations_in_one_of_mips(path: Path) -> None:
    # n64: the symbol, a special symbol, three types from the last to the first.
    for several in (b"\0\0\2\x12", b"\0\2\0\x12", b"\1\0\0\x12"):
        table = struct.pack("<QI", LOCATION, 1) + several + bytes(8)
        error = refused(path, tiny_object(table, e_machine=EM_MIPS))
        assert place(error) == (".rela.eh_frame", 0, "relocation[0].type2")
    path.write_bytes(tiny_object(struct.pack("<QI", LOCATION, 1) + b"\0\0\0\x12" + bytes(8), e_machine=EM_MIPS))
    assert read_elf(path).function(0).section == TEXT_INDEX


def test_many_sections_that_share_their_bytes(path: Path) -> None:
    data = tiny_elf(CODE, *[Content(".eh_frame", CFI)] * 2, Content(".x", bytes(64)), e_type=ET_REL)
    for index in (2, 3):
        patched(data, index, sh_offset=0, sh_size=len(data) - 1)
    error = refused(path, data)
    assert (error.record, error.reason) == (
        "section headers",
        "the sections are together larger than the file (--raise-limits)",
    )


def test_many_sections_with_relocations_take_no_square(path: Path) -> None:
    count = 1500
    names = b"\0.eh_frame\0.rela\0.symtab\0"
    contents = [names, CFI, relocation_table(Rela(R_64, symbol=0)), symbol_table()]
    offsets = [64 + sum(map(len, contents[:index])) for index in range(4)]
    headers = [bytes(64), struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, offsets[0], len(names), 0, 0, 1, 0)]
    headers.append(struct.pack("<IIQQQQIIQQ", 17, SYMTAB, 0, 0, offsets[3], 24, 0, 0, 1, 24))
    for index in range(count):
        headers.append(struct.pack("<IIQQQQIIQQ", 1, 1, ALLOC, 0, offsets[1], len(CFI), 0, 0, 1, 0))
        headers.append(struct.pack("<IIQQQQIIQQ", 11, RELA, 0, 0, offsets[2], 24, 2, 3 + 2 * index, 8, 24))
    end = 64 + sum(map(len, contents))
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    file = struct.pack("<HHIQQQIHHHHHH", ET_REL, 62, 1, 0, 0, end, 0, 64, 56, 0, 64, len(headers), 1)
    path.write_bytes(ident + file + b"".join(contents) + b"".join(headers))
    # 4,460 for each section; one for each pair of sections would be 2,250,000 more.
    with at_most_calls(8_000_000):
        assert len(read_elf(path)) == count


@fewer(2)
@given(
    changes=st.lists(st.tuples(st.integers(0, 1 << 12), st.integers(0, 255)), min_size=1, max_size=4),
    machine=st.sampled_from([62, EM_RISCV, EM_MIPS]),
)
def test_damaged_objects_end_in_a_table_or_a_format_error(
    tmp_path: Path, changes: list[tuple[int, int]], machine: int
) -> None:
    data = tiny_object([Rela(2), Rela(SET_ULEB), Rela(SUB_ULEB), Rela(35), Rela(18)], e_machine=machine)
    for offset, byte in changes:
        data[offset % len(data)] = byte
    damaged = tmp_path / "damaged.o"
    damaged.write_bytes(data)
    for read in (read_elf, info, lambda path: read_elf(path, "all")):
        try:
            read(damaged)
        except FormatError as error:
            assert error.reason
