"""Relocatable files of every architecture: as readelf 2.47 reads them, and as a linker resolves them.

Strategy: one program in two sections, assembled for each; Debian's libc.a as one object; what each relocation
computes, in bytes worked out by hand. Broken ones are in test_hostile_objects.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit import UnwindTable, by_pc, read_elf, to_sframe
from unwindkit.converters.arch.relocations import RELOCATION_TYPES
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.elf.relocation import lay_out, relocate
from unwindkit.converters.table.model import FunctionFlag
from unwindkit.schemas.section import BuildError

from ..conftest import engine_in_use
from ..support.commands import unwindkit
from ..support.oracles import oracle_root, run_oracle
from ..support.programs.objects import PROGRAM, SUITES, TARGETS, Target, assembled, linked
from ..support.texts.frame_text import readelf_frames, table_frames, without_windows

pytestmark = pytest.mark.oracle(*SUITES)

SECTIONS = (".eh_frame", ".debug_frame")


def test_every_machine_has_its_relocations() -> None:
    assert {architecture.machine for architecture in ARCHITECTURES.values()} == set(RELOCATION_TYPES)
    assert {target.name for target in TARGETS.values()} == set(ARCHITECTURES)


EVERY_TARGET = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
LINKED = [target for target in TARGETS.values() if target.linker is not None and target.name != "riscv32"]


def names_of_sections(path: Path, table: UnwindTable) -> list[str]:
    """The name of each function's section."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        return [elf.get_section(index).name for index in table.functions.section.tolist()]


def program(section: str) -> str:
    return f" .cfi_sections {section}\n{PROGRAM}"


@EVERY_TARGET
@pytest.mark.parametrize("section", SECTIONS)
def test_rows_are_readelfs_and_each_section_counts_from_0(tmp_path: Path, target: Target, section: str) -> None:
    path = assembled(tmp_path, target, program(section))
    tables = []
    for engine in ("pure", "compiled"):
        with engine_in_use(engine):
            tables.append(read_elf(path))
    table = tables[0]
    assert by_pc(table) == by_pc(tables[1])
    assert (table.source, table.architecture.name) == (section, target.name)
    nop = target.size
    assert [(f.start, f.size) for f in table] == [(0, 4 * nop), (0, 3 * nop), (4 * nop, 2 * nop)]
    assert names_of_sections(path, table) == [".text.a", ".text.b", ".text.b"]
    found = readelf_frames(path, section)
    assert table_frames(table) == found
    assert [len(frame.rows) for frame in found] == [3, 3, 2]


@pytest.mark.parametrize("target", LINKED, ids=lambda target: target.name)
@pytest.mark.parametrize("section", SECTIONS)
def test_linked_result_says_the_same_of_each_function(tmp_path: Path, target: Target, section: str) -> None:
    path = assembled(tmp_path, target, program(section))
    before = dict(zip("fgh", read_elf(path), strict=True))
    joined = linked(target, tmp_path / "joined.o", "-r", path)
    assert [f.rows for f in read_elf(joined)] == [f.rows for f in before.values()]
    assert names_of_sections(joined, read_elf(joined)) == [".text.a", ".text.b", ".text.b"]
    final = linked(target, tmp_path / "linked", "-e", "f", joined)
    with final.open("rb") as file:
        symbols = {s.name: s["st_value"] for s in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}
    after = {function.start: function for function in read_elf(final)}
    assert {symbols[name] for name in "fgh"} == set(after)
    for name, function in before.items():
        there = after[symbols[name]]
        assert (there.size, there.rows, there.section) == (function.size, function.rows, 0)


ARCHIVES = {
    "bookworm-mips64el": "usr/lib/*/libc.a",
    "sid-i386": "usr/lib/*/libc.a",
    "sid-loong64": "usr/lib/*/libc.a",
    "sid-ppc64el": "usr/lib/*/libc.a",
    "sid-riscv64": "usr/lib/*/libc.a",
    "sid-sparc64": "usr/*/lib/libc.a",
}
# Not SPARC's: ld 2.47 crashes with a segmentation fault.
WHOLE = {
    "sid-i386": ("x86", 3000),
    "sid-loong64": ("loongarch64", 3000),
    "sid-ppc64el": ("ppc64", 3000),
    "sid-riscv64": ("riscv64", 3000),
}


def archive_of(suite: str) -> Path:
    return next(oracle_root(suite).glob(ARCHIVES[suite]))


@pytest.mark.oracle(*WHOLE)
@pytest.mark.parametrize("suite", WHOLE)
def test_whole_libc_as_one_object(tmp_path: Path, suite: str) -> None:
    target, functions = WHOLE[suite]
    archive = archive_of(suite)
    path = linked(TARGETS[target], tmp_path / "libc.o", "-r", "--whole-archive", archive)
    table = read_elf(path)
    found = readelf_frames(path, ".eh_frame")
    assert len(table) > functions
    assert table_frames(table) == found
    assert (table.functions.section > 0).all()


MEMBERS = ("bookworm-mips64el", "sid-i386", "sid-loong64", "sid-riscv64", "sid-sparc64")


@pytest.mark.oracle(*MEMBERS)
@pytest.mark.parametrize("suite", MEMBERS)
def test_members_of_libc(tmp_path: Path, suite: str) -> None:
    archive = archive_of(suite)
    names = run_oracle("ar", "t", archive).split()
    compared = 0
    for name in ("printf.o", "qsort.o", "getaddrinfo.o", "vfprintf-internal.o", "backtrace.o", "cancellation.o"):
        if name in names:
            run_oracle("ar", "x", "--output", tmp_path, archive, name)
            found = readelf_frames(tmp_path / name, ".eh_frame")
            assert not found or table_frames(without_windows(read_elf(tmp_path / name))) == found
            compared += len(found)
    assert compared > 5


# --- what only some architectures have -----------------------------------------------------------------------


def test_riscv_advances_over_code_that_the_linker_may_shorten(tmp_path: Path) -> None:
    # gas leaves the bytes of an advance over a call to ADD, SUB and SET pairs.
    many = "\n".join([" call g\n .cfi_def_cfa_offset 16"] + [" call g"] * 9 + [" .cfi_def_cfa_offset 32\n c.nop"])
    source = f"f: .cfi_startproc\n{many}\n .cfi_endproc\n"
    path = assembled(tmp_path, TARGETS["riscv64"], source)
    kinds = run_oracle("readelf", "-rW", path)
    assert all(f"R_RISCV_{kind} " in kinds for kind in ("SET6", "SUB6", "32_PCREL", "ADD32", "SUB32"))
    (function,) = read_elf(path)
    assert [row.offset for row in function.rows] == [0, 8, 80]
    assert table_frames(read_elf(path)) == readelf_frames(path, ".eh_frame")


def test_riscv_uleb128_differences_keep_the_size_of_the_number(tmp_path: Path) -> None:
    source = """
 .text
f: call g
g: .fill 200
h: .section .sleep,"a"
 .reloc ., R_RISCV_SET_ULEB128, g
 .reloc ., R_RISCV_SUB_ULEB128, f
 .byte 0x80, 0x80, 0
 .reloc ., R_RISCV_SUB_ULEB128, f
 .reloc ., R_RISCV_SET_ULEB128, h + 1
 .byte 0x80, 0
"""
    laid = lay_out(open_elf(assembled(tmp_path, TARGETS["riscv64"], source)))
    (header,) = laid.image.named(".sleep")
    # 8 in three bytes, 8 + 200 + 1 in two.
    assert bytes(relocate(laid, header).data) == bytes.fromhex("88 80 00  d1 01")


def test_riscv_pairs_of_every_size(tmp_path: Path) -> None:
    pairs = "".join(
        f" .reloc {place}, R_RISCV_ADD{bits}, g\n .reloc {place}, R_RISCV_SUB{bits}, f\n"
        for place, bits in ((0, 64), (8, 32), (12, 16), (14, 8))
    )
    source = f""" .text
f: .fill 300
g: .section .sleep,"a"
{pairs} .reloc 15, R_RISCV_SET6, f + 70\n .reloc 15, R_RISCV_SUB6, f
 .reloc 16, R_RISCV_SET8, g\n .reloc 16, R_RISCV_SUB8, f
 .reloc 17, R_RISCV_SET16, g\n .reloc 19, R_RISCV_SET32, g\n .reloc 19, R_RISCV_SUB32, f
 .quad 1\n .long 2\n .short 3\n .byte 4, 0xc0, 0\n .short 0\n .long 0
"""
    laid = lay_out(open_elf(assembled(tmp_path, TARGETS["riscv64"], source)))
    (header,) = laid.image.named(".sleep")
    found = bytes(relocate(laid, header).data)
    # 300 is 0x12c; 70 & 63 is 6, under the two bits of the opcode; only g is at its place in the layout.
    assert found[:17] == bytes.fromhex("2d01000000000000 2e010000 2f01 30 c6 2c")
    assert found[19:] == bytes.fromhex("2c010000")


def test_loongarch_advances_over_code_that_the_linker_may_shorten(tmp_path: Path) -> None:
    # gas leaves the bytes of an advance over a call to ADD and SUB pairs; the opcode's bits stay.
    many = [" .cfi_def_cfa_offset 16", *[" call36 g"] * 9, " .cfi_def_cfa_offset 32", *[" call36 g"] * 40]
    many += [" .cfi_def_cfa_offset 48", *[" call36 g"] * 8200, " .cfi_def_cfa_offset 64"]
    source = "\n".join(["f: .cfi_startproc", " call36 g", *many, " @", " .cfi_endproc\n"])
    path = assembled(tmp_path, TARGETS["loongarch64"], source)
    kinds = run_oracle("readelf", "-rW", path)
    pairs = [f"{kind}{bits}" for kind in ("ADD", "SUB") for bits in (6, 8, 16, 32)]
    assert all(f"R_LARCH_{kind} " in kinds for kind in ("32_PCREL", *pairs))
    (function,) = read_elf(path)
    assert [row.offset for row in function.rows] == [0, 8, 80, 400, 66000]
    assert table_frames(read_elf(path)) == readelf_frames(path, ".eh_frame")


def test_loongarch_pairs_of_every_size(tmp_path: Path) -> None:
    """All add to the value in the field (LoongArch psABI, relocations)."""
    pairs = "".join(
        f" .reloc {place}, R_LARCH_ADD{bits}, g\n .reloc {place}, R_LARCH_SUB{bits}, f\n"
        for place, bits in ((0, 64), (8, 32), (12, 24), (15, 16), (17, 8), (18, 6), (19, "_ULEB128"), (22, "_ULEB128"))
    )
    source = f""" .text
f: .fill 300
g: .section .sleep,"a"
{pairs} .quad 1\n .long 2\n .byte 3, 0, 0, 4, 0, 5, 0xc6, 0x87, 0x80, 0, 0x80, 1
"""
    laid = lay_out(open_elf(assembled(tmp_path, TARGETS["loongarch64"], source)))
    (header,) = laid.image.named(".sleep")
    # 300 is 0x12c, its low byte 0x2c and its low six bits too, under the two bits of the opcode: 0x2c + 6 = 0x32.
    # 7 + 300 in three bytes; 128 + 300 in two.
    expected = "2d01000000000000 2e010000 2f0100 3001 31 f2  b3 82 00  ac 03"
    assert bytes(relocate(laid, header).data) == bytes.fromhex(expected)


def test_sparc_fields_of_every_size_on_any_byte(tmp_path: Path) -> None:
    source = """
 .text
f: .skip 16
 .data
 .byte 0
 .uaxword f + 5
 .uaword f + 6
 .reloc ., R_SPARC_UA16, h
 .uahalf 0
 .reloc ., R_SPARC_DISP64, f
 .uaxword 0
 .reloc ., R_SPARC_DISP32, f + 1
 .uaword 0
h = 0x20
"""
    laid = lay_out(open_elf(assembled(tmp_path, TARGETS["sparc64"], source)))
    (text,), (data,) = laid.image.named(".text"), laid.image.named(".data")
    fields = [(text.address + 5, 8), (text.address + 6, 4), (0x20, 2)]
    fields += [(text.address - (data.address + 15), 8), (text.address + 1 - (data.address + 23), 4)]
    expected = b"\0" + b"".join((value % (1 << 8 * size)).to_bytes(size, "big") for value, size in fields)
    assert bytes(relocate(laid, data).data) == expected


def test_rel_addends_are_taken_out_of_the_place(tmp_path: Path) -> None:
    source = """
 .text
f: .fill 16
 .data
g: .long f + 5, f - 2
 .long f - . + 1
 .reloc ., R_386_16, h
 .short 0x1234
 .reloc ., R_386_16, h
 .short -16
 .byte 7
h = 0x20
"""
    laid = lay_out(open_elf(assembled(tmp_path, TARGETS["x86"], source)))
    (text,), (data,) = laid.image.named(".text"), laid.image.named(".data")
    found = bytes(relocate(laid, data).data)
    expected = [text.address + 5, text.address - 2, text.address - (data.address + 8) + 1]
    assert found[:12] == b"".join((value % (1 << 32)).to_bytes(4, "little") for value in expected)
    assert found[12:] == bytes.fromhex("5412 1000 07")


LSDA = """
 .text
f: .cfi_startproc
 .cfi_personality {personality}, p
 .cfi_lsda {lsda}, .Ldata
 @
 .cfi_endproc
g: .cfi_startproc
 @
 .cfi_endproc
 .section .gcc_except_table,"a"
.Ldata: .byte 0xff
 .byte 0xff
"""


@pytest.mark.parametrize("encoding", [0x00, 0x03, 0x04, 0x1B, 0x1C])
def test_lsda_at_the_start_of_its_section_is_one(tmp_path: Path, encoding: int) -> None:
    source = LSDA.format(personality=hex(encoding), lsda=hex(encoding))
    first, second = read_elf(assembled(tmp_path, TARGETS["x86_64"], source))
    assert first.flags == FunctionFlag.HAS_LSDA
    assert (first.lsda, first.personality) == (0, 0)
    assert second.flags == FunctionFlag(0)


def test_personality_in_the_file_is_told_by_its_offset(tmp_path: Path) -> None:
    source = LSDA.format(personality=0x9B, lsda=0x1B) + ' .section .data.p,"aw"\n .quad 0\np: .quad 0\n'
    function = read_elf(assembled(tmp_path, TARGETS["x86_64"], source)).function(0)
    assert (function.personality_encoding, function.personality) == (0x9B, 8)


def test_more_sections_than_16_bits_count(tmp_path: Path) -> None:
    many = "".join(f' .section .s{number},"a"\n .byte 0\n' for number in range(65290))
    path = assembled(tmp_path, TARGETS["x86_64"], many + PROGRAM)
    table = read_elf(path)
    assert (table.functions.section > 0xFF00).all()
    assert names_of_sections(path, table) == [".text.a", ".text.b", ".text.b"]
    assert [f.start for f in table] == [0, 0, 4]


def test_compressed_section_is_relocated_after_unpacking(tmp_path: Path) -> None:
    source = program(".debug_frame") + PROGRAM.replace("f:", "a:").replace("g:", "b:").replace("h:", "c:") * 1
    plain = read_elf(assembled(tmp_path, TARGETS["x86_64"], source))
    path = assembled(tmp_path, TARGETS["x86_64"], source, "--compress-debug-sections=zlib")
    assert any(header.is_compressed for header in open_elf(path).named(".debug_frame"))
    assert by_pc(read_elf(path)) == by_pc(plain)


# --- callers without addresses ----------------------------------------------------------------------------------


def test_sframe_of_an_object_counts_from_its_sections_too(tmp_path: Path) -> None:
    path = assembled(tmp_path, TARGETS["x86_64"], PROGRAM.replace("1, -8", "6, -16"), "--gsframe")
    frames, sframe = read_elf(path), read_elf(path, ".sframe")
    places = [[(f.section, f.start, f.size) for f in table] for table in (frames, sframe)]
    assert sorted(places[0]) == sorted(places[1])


def test_info_describes_an_object(tmp_path: Path) -> None:
    path = assembled(tmp_path, TARGETS["aarch64"], PROGRAM)
    done = unwindkit("info", path)
    assert done.stdout == (
        f"{path}: aarch64, little-endian, ET_REL, 40 bytes of code\n"
        ".eh_frame: 96 bytes at 0x0\n"
        "  3 functions, 8 rows, 3 distinct row runs, 90.00 % of code bytes covered\n"
    )


def test_nothing_has_an_address_before_the_link(tmp_path: Path) -> None:
    path = assembled(tmp_path, TARGETS["x86_64"], PROGRAM)
    with pytest.raises(BuildError, match="the file is relocatable"):
        to_sframe(read_elf(path))
    at_0 = replace(read_elf(path).functions, section=read_elf(path).functions.section * 0)
    assert to_sframe(replace(read_elf(path), functions=at_0))
