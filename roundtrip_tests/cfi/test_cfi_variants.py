"""Variants of call frame information: versions, sizes, encodings, unknown augmentations, several sections.

Strategy: bytes made by hand in small ELF files; readelf 2.47 judges the rows wherever it can read such files.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from unwindkit import by_pc, find_rows, read_elf, to_sframe
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.table.model import FunctionFlag, UnwindTable
from unwindkit.schemas import cfi_sections
from unwindkit.schemas.cfi import EH_FRAME, OpaqueCie
from unwindkit.schemas.cfi import Fde as FdeRecord
from unwindkit.schemas.pointers import APPLICATIONS, DW_EH_PE
from unwindkit.schemas.section import Section
from unwindkit.schemas.wire import DwarfFormat

from ..support.commands import unwindkit
from ..support.handmade import (
    NO_CFA,
    PLAIN_CIE,
    X86_64_START,
    Fde,
    at,
    debug_frame_table,
    eh_frame,
    entry,
    octets,
    only,
    row,
    sp,
    table_of_bytes,
)
from ..support.made.encoded_frames import survives
from ..support.texts import dwarfdump_text
from ..support.texts.frame_text import readelf_frames, table_frames
from ..support.tiny_elf import BASE, CODE, Content, tiny_elf
from ..support.work import at_most_calls

PC_ROWS = (row(0, sp(8), at(16, -8)), row(1, sp(16), at(16, -8)))
DYNAMIC = 6


def file_of(path: Path, *contents: Content) -> Path:
    path.write_bytes(tiny_elf(CODE, *contents))
    return path


def wide(body: bytes) -> bytes:
    """A body with its 64-bit length before it."""
    return b"\xff\xff\xff\xff" + struct.pack("<Q", len(body)) + body


# --- versions, DWARF formats, sizes -------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("dwarf_format", DwarfFormat)
@pytest.mark.parametrize(
    ("version", "address_size", "selector"), [(1, 8, 0), (3, 8, 0), (4, 8, 0), (4, 4, 0), (4, 8, 2), (4, 4, 4)]
)
def test_debug_frame_of_every_kind(
    tmp_path: Path, dwarf_format: DwarfFormat, version: int, address_size: int, selector: int
) -> None:
    sizes = bytes([address_size, selector]) if version == 4 else b""
    head = b"\xff" * dwarf_format + bytes([version, 0]) + sizes + octets("01 78 10") + octets(X86_64_START)
    pointer = bytes(dwarf_format) + (0x23).to_bytes(8, "little")[:selector]
    place = b"".join(value.to_bytes(address_size, "little") for value in (0x1000, 0x40))
    build = entry if dwarf_format is DwarfFormat.DWARF32 else wide
    content = Content(".debug_frame", build(head) + build(pointer + place + octets("41 0e10")), flags=0)
    table = read_elf(file_of(tmp_path / "file", content))
    function = only(table)
    assert (function.start, function.size, function.rows) == (0x1000, 0x40, PC_ROWS)
    assert function.segment == (0x23 if selector else 0)
    survives(table)
    # readelf reads an 8-byte range in ELF64 whatever the CIE gives, and refuses a 2-byte selector with 8-byte
    # addresses.
    if (address_size, selector) == (8, 0):
        assert table_frames(table) == readelf_frames(tmp_path / "file", ".debug_frame")


@pytest.mark.oracle("sid-llvm")
def test_eh_frame_of_64_bit_dwarf_is_llvms(tmp_path: Path) -> None:
    # The id and the CIE pointer have four bytes (LSB Core 10.6.1); readelf 2.47 reads eight and prints nonsense.
    cie = wide(bytes(4) + octets(f"{PLAIN_CIE} {X86_64_START} 0000"))
    fde = wide(struct.pack("<IQQ", len(cie) + 12, 0x1000, 0x40) + octets("41 0e10"))
    path = file_of(tmp_path / "file", Content(".eh_frame", cie + fde))
    function = only(read_elf(path))
    assert (function.start, function.size, function.rows) == (0x1000, 0x40, PC_ROWS)
    assert [dwarfdump_text.frame_of(function)] == dwarfdump_text.dwarfdump_frames(path, "x86_64")


SIZES = {
    DW_EH_PE.absptr: 8,
    DW_EH_PE.udata2: 2,
    DW_EH_PE.udata4: 4,
    DW_EH_PE.udata8: 8,
    DW_EH_PE.sdata2: 2,
    DW_EH_PE.sdata4: 4,
    DW_EH_PE.sdata8: 8,
}
FDE_OFFSET = 0x18


def encoded(value_format: DW_EH_PE, application: DW_EH_PE, stored: int) -> bytes:
    """An `.eh_frame` of one FDE of 0x40 bytes, its location stored with this encoding."""
    size = SIZES[value_format]
    cie = entry(bytes(4) + octets(f"01 7a5200 01 78 10 01 {value_format | application:02x} {X86_64_START} 0000"))
    location = (stored % (1 << 8 * size)).to_bytes(size, "little") + (0x40).to_bytes(size, "little")
    return cie + entry(struct.pack("<I", FDE_OFFSET + 4) + location + octets("00 41 0e10"))


@pytest.mark.oracle
@pytest.mark.parametrize("application", APPLICATIONS[:-1], ids=lambda application: application.name)
@pytest.mark.parametrize("value_format", SIZES, ids=lambda value_format: value_format.name)
def test_location_in_every_fixed_format_is_readelfs(
    tmp_path: Path, value_format: DW_EH_PE, application: DW_EH_PE
) -> None:
    def file(stored: int) -> Path:
        return file_of(tmp_path / "file", Content(".eh_frame", encoded(value_format, application, stored)))

    place = BASE + file(0).read_bytes().index(encoded(value_format, application, 0)) + FDE_OFFSET + 8
    path = file(0x2010 - place if application == DW_EH_PE.pcrel else 0x2010)
    table = read_elf(path)
    assert [(f.start, f.size, f.rows) for f in table] == [(0x2010, 0x40, PC_ROWS)]
    assert table_frames(table) == readelf_frames(path, ".eh_frame")


def test_datarel_counts_from_what_gccs_unwinder_takes(tmp_path: Path) -> None:
    data = encoded(DW_EH_PE.sdata4, DW_EH_PE.datarel, -0x2000)
    dynamic = struct.pack("<QQQQQQ", 5, 0x77, 3, 0x3010, 0, 0)  # DT_STRTAB, DT_PLTGOT, DT_NULL
    path = file_of(tmp_path / "file", Content(".eh_frame", data), Content(".dynamic", dynamic, DYNAMIC))
    assert only(read_elf(path)).start == 0x1010
    # However many sections ask for it, it is searched once.
    image = open_elf(path)
    with at_most_calls(100):
        assert {image.data_base for _ in range(1000)} == {0x3010}
    without = file_of(tmp_path / "other", Content(".eh_frame", data), Content(".dynamic", dynamic[:17], DYNAMIC))
    assert only(read_elf(without, ".eh_frame")).start == (1 << 64) - 0x2000


# --- unknown augmentations -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    "cie", ["01 7a78 00 01 78 10 02 abcd", "01 7a784c00 01 78 10 02 1bcd", "03 7a5378 00 01 78 10 00"]
)
def test_unknown_letter_behind_z_is_skipped_with_its_data(cie: str) -> None:
    data = eh_frame(f"{cie} {X86_64_START}", Fde(0x1000, 0x40, "03 616263 41 0e10"))
    function = only(table_of_bytes(data))
    assert function.rows == PC_ROWS
    assert function.flags == (FunctionFlag.SIGNAL_FRAME if "7a53" in cie else FunctionFlag(0))
    assert function.lsda == 0


@pytest.mark.oracle
def test_unknown_letter_behind_z_is_read_as_readelf_does(tmp_path: Path) -> None:
    data = eh_frame(f"01 7a527800 01 78 10 02 04cd {X86_64_START}", Fde(0x1000, 0x40, "03 616263 41 0e10"))
    path = file_of(tmp_path / "file", Content(".eh_frame", data))
    assert table_frames(read_elf(path)) == readelf_frames(path, ".eh_frame")


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("cie", ["01 5200 ffffff", "01 6d6c7400", "04 787900 80", "01 527a00 01 78 10 01 1b"])
def test_without_z_only_the_addresses_are_read(cie: str) -> None:
    # The FDE's instructions are unknown opcodes.
    data = eh_frame(cie, Fde(0x1000, 0x40, "3f3f3f"), Fde(0x2000, 0x10))
    table = table_of_bytes(data)
    assert [(f.start, f.size, f.rows) for f in table] == [
        (0x1000, 0x40, (row(0, NO_CFA),)),
        (0x2000, 0x10, (row(0, NO_CFA),)),
    ]
    assert {function.flags for function in table} == {FunctionFlag.UNKNOWN_AUGMENTATION}
    assert not len(by_pc(table).start)
    _, refusals = to_sframe(table)
    assert [(refusal.start, refusal.reason.name) for refusal in refusals] == [(0x1000, "NO_CFA"), (0x2000, "NO_CFA")]


@pytest.mark.usefixtures("kernels")
def test_functions_of_other_cies_are_read_beside_an_unknown_one() -> None:
    other = eh_frame("01 7800 ff", Fde(0x3000, 0x10, "3f"))
    table = table_of_bytes(other + eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 0x40, "41 0e10")))
    assert [function.rows for function in table] == [(row(0, NO_CFA),), PC_ROWS]


def test_records_of_an_unknown_augmentation_survive() -> None:
    section = Section.of(".eh_frame", eh_frame("01 787900 ffff", Fde(0x1000, 0x40, "3f3f")))
    found = cfi_sections.parse_section(section, EH_FRAME)
    (_, cie), (_, fde) = found
    assert cie == OpaqueCie(DwarfFormat.DWARF32, 1, b"xy", b"\xff\xff")
    assert isinstance(fde, FdeRecord)
    assert (fde.initial_location, fde.address_range, fde.instructions) == (0x1000, 0x40, b"\x3f\x3f")
    assert cfi_sections.build_section(found, EH_FRAME, section) == bytes(section.data)


def test_arms_compiler_marks_what_is_read_anyway() -> None:
    data = entry(octets("ffffffff 01 61726d63632b00 01 7c 0e 0c 0d 00")) + entry(octets("00000000 00100000 10000000"))
    assert only(debug_frame_table(data, "arm", "little", 4)).rows[0].cfa.register == 13


def test_info_says_what_has_no_rules(tmp_path: Path) -> None:
    path = file_of(tmp_path / "file", Content(".eh_frame", eh_frame("01 7800", Fde(0x1000, 0x40))))
    assert "  1 function without rules: unknown augmentation\n" in unwindkit("info", path).stdout


# --- several sections, both sections --------------------------------------------------------------------------------

FIRST = eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 0x20, "41 0e10"))
# A terminator, and an entry after it.
SECOND = bytes(4) + eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1040, 0x20, "41 0e20"))


def test_sections_of_one_name_are_read_one_after_the_other(tmp_path: Path) -> None:
    path = file_of(tmp_path / "file", Content(".eh_frame", FIRST), Content(".x"), Content(".eh_frame", SECOND))
    table = read_elf(path)
    assert [(f.start, f.rows[1].cfa) for f in table] == [(0x1000, sp(16)), (0x1040, sp(32))]
    assert find_rows(table, [0x1010, 0x1050, 0x1030]).function.tolist() == [0, 1, -1]
    text = unwindkit("info", path).stdout
    assert text.count("\n  1 function, 2 rows") == 2


def debug_frame(*fdes: Fde) -> Content:
    """The same content as an `.eh_frame`, encoded as `.debug_frame`."""
    data = entry(b"\xff" * 4 + octets(f"{PLAIN_CIE} {X86_64_START}"))
    for fde in fdes:
        data += entry(struct.pack("<IQQ", 0, fde.start, fde.size) + octets(fde.tail))
    return Content(".debug_frame", data, flags=0)


def said(table: UnwindTable, pcs: list[int]) -> list[int]:
    """The CFA's offset at some PCs, 0 where there is no row."""
    return [int(table.cfa(index).value) if index >= 0 else 0 for index in find_rows(table, pcs).row.tolist()]


def test_all_takes_debug_frame_where_eh_frame_has_nothing(tmp_path: Path) -> None:
    around = Fde(0xFF0, 0x70, "0e28 60 0e30")  # at 0xff0 40, from 0x1010 on 48
    path = file_of(tmp_path / "file", Content(".eh_frame", FIRST), debug_frame(around, Fde(0x1004, 8, "0e38")))
    table = read_elf(path, "all")
    pcs = [0xFEF, 0xFF0, 0xFFF, 0x1000, 0x1001, 0x1010, 0x101F, 0x1020, 0x105F, 0x1060]
    assert said(table, pcs) == [0, 40, 40, 8, 16, 16, 16, 48, 48, 0]
    assert table.source == ".eh_frame and .debug_frame"
    assert [(f.start, f.size) for f in table] == [(0x1000, 0x20), (0xFF0, 0x10), (0x1020, 0x40)]
    assert said(read_elf(path), pcs)[:3] == [0, 0, 0]


def test_all_is_eh_frame_where_that_covers_all(tmp_path: Path) -> None:
    # Two functions that share PCs are left as they are.
    both = eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 0x40, "41 0e10"), Fde(0x1020, 0x20))
    path = file_of(tmp_path / "file", Content(".eh_frame", both), debug_frame(Fde(0x1010, 0x30, "0e38")))
    assert list(read_elf(path, "all")) == list(read_elf(path, ".eh_frame"))


@pytest.mark.parametrize("name", [".eh_frame", ".debug_frame"])
def test_all_of_one_section_is_that_section(tmp_path: Path, name: str) -> None:
    content = Content(".eh_frame", FIRST) if name == ".eh_frame" else debug_frame(Fde(0x1000, 0x20, "41 0e10"))
    path = file_of(tmp_path / "file", content)
    assert [(f.start, f.rows) for f in read_elf(path, "all")] == [(0x1000, PC_ROWS)]
    assert read_elf(path, "all").source == name


def test_all_with_nothing_in_eh_frame(tmp_path: Path) -> None:
    path = file_of(tmp_path / "file", Content(".eh_frame", bytes(4)), debug_frame(Fde(0x1000, 0x20), Fde(0x1010, 0x20)))
    assert [(f.start, f.size) for f in read_elf(path, "all")] == [(0x1000, 0x20), (0x1020, 0x10)]
