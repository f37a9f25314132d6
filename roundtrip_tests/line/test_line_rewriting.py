"""`convert --to debug_line` on whole files: what others read from the result is what they read from the input.

Strategy: programs of every version, DWARF format and byte order; llvm-dwarfdump's verifier and rows, addr2line at every
row, gdb and readelf before and after. References are counted by hand, and each one that is not updated is a fault.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from unwindkit import BuildError, ParseError, convert, open_elf, read_lines
from unwindkit.converters.dwarf.units import DebugUnits, units_of_sections
from unwindkit.converters.line.table import same_lines
from unwindkit.writers.elf.checks.line_units import LineUnits, check_line_units

from ..support.handmade import octets
from ..support.made.made_lines import assembled, llvm_lines
from ..support.oracles import run_oracle
from ..support.programs.debug_programs import VARIANTS, built
from ..support.programs.elf_programs import run, tool

BY_NAME = {variant.name: variant for variant in VARIANTS}
# A build, and the version that its line tables get: units of another version have other sizes, so that they move.
BUILDS = {
    "dwarf2": 4, "dwarf3": 5, "dwarf4": 5, "dwarf5": 4, "dwarf64": 2, "compressed": 3, "sections": 5, "s390x-dwarf5": 4,
    "aarch64-macinfo": 5,
}  # fmt: skip


# Others have .debug_macinfo, which does not refer to line numbers.
WITH_MACRO_UNITS = set(BUILDS) - {"aarch64-macinfo"}


def macro_offsets(path: Path) -> list[int]:
    """The line number program of each macro unit, as readelf prints it."""
    text = run_oracle("readelf", "-wmN", path)
    return [int(line.split()[-1], 16) for line in text.splitlines() if "Offset into .debug_line:" in line]


def starts(path: Path) -> list[int]:
    """The addresses of all rows."""
    rows = read_lines(path).rows
    return np.unique(rows.address[rows.flags & 4 == 0]).tolist()


def positions(path: Path) -> tuple[list[str], list[str]]:
    """What llvm-symbolizer and addr2line print for every row's address."""
    pcs = list(map(hex, starts(path)))
    symbolized = run_oracle("llvm-symbolizer-22", "-e", path, *pcs, suite="sid-llvm").splitlines()
    return symbolized, run_oracle("addr2line", "-fie", path, *pcs).splitlines()


def verified(path: Path) -> str:
    """llvm-dwarfdump's last words; it fails if there is an error."""
    text = run_oracle("llvm-dwarfdump-22", "--verify", path, suite="sid-llvm")
    assert "No errors." in text
    return text


def warnings(path: Path) -> list[str]:
    """What readelf complains about in line numbers, units and macros."""
    _, text = run("readelf", "-wliN", path)
    return [line for line in text.splitlines() if line.startswith("readelf:")]


def gdb_lines(path: Path) -> str:
    asked = [part for pc in starts(path)[::3] for part in ("-ex", f"info line *{pc:#x}")]
    return run("gdb", "-nx", "-batch", *asked, path)[1]


def units_of_file(path: Path) -> DebugUnits:
    image = open_elf(path)
    return units_of_sections(*(image.contents(image.named(name)[0]) for name in (".debug_info", ".debug_abbrev")))


def offsets(path: Path) -> list[int]:
    """The DW_AT_stmt_list of each unit."""
    return units_of_file(path).columns.line_offset.tolist()


@pytest.mark.oracle("sid-llvm", "gdb")
@pytest.mark.parametrize("name", BUILDS)
def test_others_read_the_same_from_the_result(name: str, debug_folder: Path, tmp_path: Path) -> None:
    _, program = built(debug_folder, BY_NAME[name])
    out = tmp_path / "out"
    report = convert(program, out, "debug_line", version=BUILDS[name])
    table = read_lines(program)
    assert (report.units, report.sequences, report.rows) == (
        table.unit_count, len(table.sequence_unit), len(table),
    )  # fmt: skip
    assert offsets(out) != offsets(program)
    # Macro units refer to programs, too.
    assert report.references >= sum(old != new for old, new in zip(offsets(program), offsets(out), strict=True))
    verified(out)
    before, after = positions(program), positions(out)
    assert before[0] == after[0]
    # addr2line 2.47 does not find the files of 64-bit DWARF 5.
    assert [two for one, two in zip(before[1], after[1], strict=True) if one != "??:?"] == [
        one for one in before[1] if one != "??:?"
    ]
    assert gdb_lines(out) == gdb_lines(program).replace(str(program), str(out))
    assert warnings(out) == warnings(program)
    assert set(read_lines(out).units.version.tolist()) == {BUILDS[name]}
    before_macros, after_macros = macro_offsets(program), macro_offsets(out)
    moved = dict(zip(read_lines(program).units.offset.tolist(), read_lines(out).units.offset.tolist(), strict=True))
    assert after_macros == [moved[offset] for offset in before_macros]
    assert bool(after_macros) == (name in WITH_MACRO_UNITS)


@pytest.mark.oracle("sid-llvm")
@pytest.mark.parametrize("name", ["dwarf4", "dwarf5", "dwarf64", "s390x-dwarf5", "aarch64-dwarf5"])
def test_the_same_version_and_the_same_size(name: str, debug_folder: Path, tmp_path: Path) -> None:
    _, program = built(debug_folder, BY_NAME[name])
    for keep_size in (False, True):
        report = convert(program, tmp_path / "out", "debug_line", keep_size=keep_size)
        assert same_lines(read_lines(program), read_lines(tmp_path / "out"))
        assert llvm_lines(program) == llvm_lines(tmp_path / "out")
        assert report.written <= report.source_bytes
        if keep_size:
            assert (report.written, report.references) == (report.source_bytes, 0)
            assert offsets(program) == offsets(tmp_path / "out")
    verified(tmp_path / "out")


@pytest.mark.oracle("forky-cross", "sid-llvm")
def test_units_are_padded_to_their_size(tmp_path: Path) -> None:
    """GNU as writes RISC-V programs a fifth longer: padded, they have the same rows for others, too."""
    program = assembled(tmp_path, 5, "riscv64-linux-gnu-", "forky-cross", linked=True)
    shorter = convert(program, tmp_path / "short", "debug_line")
    padded = convert(program, tmp_path / "padded", "debug_line", keep_size=True)
    assert shorter.written < padded.written == padded.source_bytes
    assert padded.file_bytes is not None
    assert len({len(path.read_bytes()) for path in (program, tmp_path / "padded")}) == 1
    assert llvm_lines(program) == llvm_lines(tmp_path / "short") == llvm_lines(tmp_path / "padded")
    assert warnings(tmp_path / "padded") == []


def test_a_unit_that_does_not_fit_is_refused(debug_folder: Path, tmp_path: Path) -> None:
    _, program = built(debug_folder, BY_NAME["dwarf3"])
    with pytest.raises(BuildError, match=r"unit\[0\]: is 1 bytes larger than the one it replaces"):
        convert(program, tmp_path / "out", "debug_line", version=4, keep_size=True)
    assert not (tmp_path / "out").exists()


# --- references ---

NO_UNITS = """ .text
 .file 1 "stray.c"
 .loc 1 7
 nop
"""
TYPES = """struct point { int x, y; };
int sum(struct point *p)
{
  return p->x +
    p->y;
}
"""


# What GNU as writes for assembler sources besides line numbers.
OF_UNITS = (".debug_info", ".debug_abbrev", ".debug_aranges", ".debug_str", ".rela.debug_info", ".rela.debug_aranges")


def made(folder: Path, *objects: tuple[str, str, tuple[str, ...]], link: tuple[str, ...] = ()) -> Path:
    """A program, without the C library, of sources with their options."""
    names = []
    for name, text, options in objects:
        (folder / name).write_text(text)
        names.append((folder / name).with_suffix(".o"))
        tool("gcc", *options, "-c", folder / name, "-o", names[-1])
        if name.endswith(".s"):
            tool("objcopy", *(f"-R{one}" for one in OF_UNITS), names[-1])
    tool("gcc", "-nostdlib", "-static", "-Wl,-e,sum", *link, *names, "-o", folder / "program")
    return folder / "program"


def test_programs_that_no_unit_names_stay_and_others_follow(tmp_path: Path) -> None:
    """The first program is of an assembler source without debugging information."""
    program = made(tmp_path, ("a.s", NO_UNITS, ()), ("b.c", TYPES, ("-gdwarf-4",)), ("c.s", NO_UNITS, ()))
    report = convert(program, tmp_path / "out", "debug_line", version=5)
    assert (report.units, report.references) == (3, 1)
    before, after = read_lines(program), read_lines(tmp_path / "out")
    assert [after.files_of(unit)[0].path for unit in range(3)] == [b"stray.c", b"b.c", b"stray.c"]
    assert offsets(tmp_path / "out") == [after.units.offset[1]] != [before.units.offset[1]]
    assert before.rows.line.tolist() == after.rows.line.tolist()


@pytest.mark.oracle("sid-llvm")
def test_units_that_share_a_program_follow_together(tmp_path: Path) -> None:
    """Type units, of version 4 in .debug_types, have the program of their compilation unit."""
    for version in (4, 5):
        options = (f"-gdwarf-{version}", "-fdebug-types-section", "-x", "c++")
        program = made(tmp_path, ("a.s", NO_UNITS, ()), ("b.c", TYPES.replace("sum", "add"), options),
                       ("c.c", 'extern "C" ' + TYPES.partition("\n")[2].replace("struct point *p", "int p")
                        .replace("p->x", "p").replace("p->y", "p"), options))  # fmt: skip
        out = tmp_path / f"out{version}"
        report = convert(program, out, "debug_line", version=9 - version)
        assert report.references == 3
        verified(out)
        listed = run_oracle("llvm-dwarfdump-22", "--debug-info", "--debug-types", out, suite="sid-llvm")
        found = [line.split()[-1].strip("()") for line in listed.splitlines() if "DW_AT_stmt_list" in line]
        assert sorted({int(one, 16) for one in found}) == read_lines(out).units.offset[1:].tolist()
        assert len(found) == 3


@pytest.mark.oracle("g++")
def test_split_dwarf(tmp_path: Path) -> None:
    """Type units of a .dwo file have a .debug_line.dwo, with directories and files only; skeletons have the program."""
    for version in (4, 5):
        options = (f"-gdwarf-{version}", "-gsplit-dwarf", "-fdebug-types-section", "-x", "c++", "-I.")
        text = 'extern "C" ' + TYPES.partition("\n")[2]
        program = made(tmp_path, ("a.s", NO_UNITS, ()), ("b.c", TYPES.partition("\n")[0] + "\n" + text, options))
        report = convert(program, tmp_path / "out", "debug_line", version=9 - version)
        assert (report.units, report.references) == (2, 1)
        split = tmp_path / "b.dwo"
        report = convert(split, tmp_path / "out.dwo", "debug_line", version=9 - version)
        assert (report.source, report.units, report.rows) == (".debug_line.dwo", 1, 0)
        texts = [run("readelf", "-wlN", path)[1] for path in (split, tmp_path / "out.dwo")]
        assert "b.c" in texts[0]
        assert "b.c" in texts[1]
        assert "Warning" not in texts[1]


def test_relocatable_files_are_refused(tmp_path: Path) -> None:
    program = made(tmp_path, ("a.c", TYPES, ("-g",)), link=("-Wl,--emit-relocs",))
    says = r"relocations: \.rela\.debug_line has some for the section: link the file first"
    for path in (program, tmp_path / "a.o"):
        with pytest.raises(BuildError, match=says):
            convert(path, tmp_path / "out", "debug_line")
    with pytest.raises(ParseError, match="e_type: is a relocatable file"):
        convert(tmp_path / "a.o", tmp_path / "out", "debug_aranges")
    with pytest.raises(ParseError, match="e_type: is a relocatable file"):
        convert(tmp_path / "a.o", tmp_path / "out", "breakpad-lines")
    assert not (tmp_path / "out").exists()


def test_a_reference_to_no_program_is_refused(tmp_path: Path) -> None:
    program = made(tmp_path, ("a.s", NO_UNITS, ()), ("b.c", TYPES, ("-gdwarf-4",)))
    image = open_elf(program)
    header = image.named(".debug_info")[0]
    (place,) = (units_of_file(program).columns.line_place).tolist()
    data = bytearray(program.read_bytes())
    data[header.file_offset + place] += 1
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(ParseError, match=rf"\.debug_info\+{place:#x} .*is not the offset of a unit in \.debug_line"):
        convert(tmp_path / "bad", tmp_path / "out", "debug_line", version=5)
    # Without a move it stays as wrong as it was.
    convert(tmp_path / "bad", tmp_path / "out", "debug_line")


def test_a_reference_that_does_not_follow_is_a_fault(debug_folder: Path, tmp_path: Path) -> None:
    """The check reads units with pyelftools; every reference, every program and every other byte counts."""
    _, program = built(debug_folder, BY_NAME["dwarf4"])
    convert(program, tmp_path / "out", "debug_line", version=5)
    names = (".debug_info", ".debug_abbrev", ".debug_line")
    old, new = (
        [bytes(image.contents(image.named(name)[0]).data) for name in names]
        for image in (open_elf(program), open_elf(tmp_path / "out"))
    )

    def faults(info: bytes, line: bytes = new[2]) -> tuple[str, ...]:
        pairs = ((names[0], old[0], info),)
        return check_line_units(LineUnits(True, 8, "EM_X86_64", old[1], pairs, (old[2], line)))

    assert faults(new[0]) == ()
    assert len(faults(old[0])) == 1
    assert "DW_AT_stmt_list is " in faults(old[0])[0]
    places = units_of_file(program).columns.line_place.tolist()
    for place in (*places, 0x40):
        wrong = bytearray(new[0])
        wrong[place] ^= 1
        assert len(faults(bytes(wrong))) == 1
    assert faults(new[0], new[2] + new[2]) == (".debug_line has 4 programs, it had 2",)
    assert faults(new[0][:-1])[0].endswith(f"bytes, it had {len(old[0])}")


# Abbreviation 1: DW_TAG_compile_unit without children; DW_AT_language is an implicit constant, DW_AT_stmt_list follows.
ABBREVIATIONS = octets("01 11 00  13 21 1d  10 17  00 00  00")
# Of a 64-bit unit: its length, version 5, DW_UT_compile, address_size, debug_abbrev_offset, abbreviation code.
UNIT_64 = octets("ffffffff 1500000000000000 0500 01 08 0000000000000000  01")
# Programs of 4 and of 2 bytes after their lengths; the second one is at 8, and at 18 if the first has a 64-bit length.
PROGRAMS = octets("04000000 05000000 02000000 0500")
PROGRAMS_64 = octets("ffffffff 0600000000000000 050000000000 02000000 0500")


def faults_by_hand(reference: int, line: bytes = PROGRAMS_64) -> tuple[str, ...]:
    """The unit refers to the program at 8 before, and to this offset after."""
    before, after = (UNIT_64 + value.to_bytes(8, "little") for value in (8, reference))
    return check_line_units(
        LineUnits(True, 8, "EM_X86_64", ABBREVIATIONS, ((".debug_info", before, after),), (PROGRAMS, line))
    )


def test_references_of_64_bits_are_compared_whole() -> None:
    """DW_AT_stmt_list is at 25, after an attribute without bytes."""
    assert faults_by_hand(18) == ()
    for wrong in (0, 8, 1 << 32 | 18, 1 << 56 | 18):
        assert faults_by_hand(wrong) == (f".debug_info+0x19: DW_AT_stmt_list is {wrong:#x}, the program is at 0x12",)
    assert faults_by_hand(18, PROGRAMS_64[:18]) == (".debug_line has 1 programs, it had 2",)


def test_the_offset_of_a_single_sequence_is_refused(tmp_path: Path) -> None:
    """clang's DW_AT_LLVM_stmt_sequence (0x3e0c), in an abbreviation by hand."""
    source = tmp_path / "a.s"
    source.write_text(
        NO_UNITS + ' .section .debug_abbrev, ""\n .uleb128 1, 0x11\n .byte 0\n .uleb128 0x3e0c, 0x17, 0, 0\n .byte 0\n'
    )
    tool("gcc", "-c", source, "-o", tmp_path / "a.o")
    tool("gcc", "-nostdlib", "-static", "-Wl,-e,0", tmp_path / "a.o", "-o", tmp_path / "program")
    with pytest.raises(BuildError, match="DW_AT_LLVM_stmt_sequence has offsets of single sequences"):
        convert(tmp_path / "program", tmp_path / "out", "debug_line")


@pytest.mark.oracle
@pytest.mark.parametrize("method", ["zlib", "zlib-gnu", "zstd"])
def test_compressed_sections_are_compressed_again(method: str, debug_folder: Path, tmp_path: Path) -> None:
    _, program = built(debug_folder, BY_NAME["dwarf4"])
    packed, out = tmp_path / "packed", tmp_path / "out"
    run_oracle("objcopy", f"--compress-debug-sections={method}", program, packed)
    report = convert(packed, out, "debug_line", version=5)
    assert report.references > 0
    sections = [[line.split()[1:3] for line in run_oracle("readelf", "-SW", path).splitlines() if "debug" in line]
                for path in (packed, out)]  # fmt: skip
    assert sections[0] == sections[1]
    assert any(one.is_compressed for one in open_elf(out).sections)
    convert(program, tmp_path / "plain", "debug_line", version=5)
    assert contents(out) == contents(tmp_path / "plain")
    # LLVM does not read .zdebug_* sections any more.
    assert positions(out)[1] == positions(tmp_path / "plain")[1]


def contents(path: Path) -> dict[str, bytes]:
    """The debugging sections by name, decompressed."""
    image = open_elf(path)
    return {one.name: bytes(image.contents(one).data) for one in image.sections if one.name.startswith(".debug_")}
