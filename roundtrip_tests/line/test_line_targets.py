"""`convert` into `.debug_aranges` and Breakpad's line records, raw sections, and the versions of line tables.

Strategy: gcc's own `.debug_aranges`, addr2line's positions and the symbol table are what the results must be; laws draw
tables of every version.
"""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import cast, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import (
    BuildError,
    FormatError,
    LineTable,
    ParseError,
    check_address_ranges,
    convert,
    find_lines,
    from_debug_line,
    from_line_records,
    open_elf,
    read_address_ranges,
    read_lines,
    to_debug_line,
)
from unwindkit.converters.line.paths import paths_of
from unwindkit.converters.line.table import same_lines
from unwindkit.converters.line.versions import in_version
from unwindkit.jobs.report import LineTarget
from unwindkit.schemas.breakpad.files import read_records
from unwindkit.schemas.breakpad.records import Func, Line
from unwindkit.schemas.breakpad.rules import check_records
from unwindkit.schemas.line import VERSIONS
from unwindkit.testing import line_tables

from ..support.oracles import run_oracle
from ..support.programs.debug_programs import EVERY_VARIANT, VARIANTS, Variant, built
from ..support.programs.elf_programs import run, tool

BY_NAME = {variant.name: variant for variant in VARIANTS}


def ranges_of(path: Path) -> dict[int, set[tuple[int, int]]]:
    """The ranges of each unit, by its offset."""
    image = open_elf(path)
    table = read_address_ranges(image.contents(image.named(".debug_aranges")[0]))
    used = np.flatnonzero(~table.is_end)
    found: dict[int, set[tuple[int, int]]] = {}
    for index in used.tolist():
        offset = int(table.debug_info_offset[table.set[index]])
        found.setdefault(offset, set()).add((int(table.address[index]), int(table.length[index])))
    return found


def joined(ranges: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges with adjacent ones joined: two sections of one unit may follow each other."""
    found: list[tuple[int, int]] = []
    for start, size in sorted(ranges):
        if found and sum(found[-1]) == start:
            start, size = found[-1][0], found.pop()[1] + size
        found.append((start, size))
    return found


@EVERY_VARIANT
def test_ranges_are_those_of_the_compiler(variant: Variant, debug_folder: Path, tmp_path: Path) -> None:
    _, program = built(debug_folder, variant)
    before = ranges_of(program)
    bare = tmp_path / "bare"
    tool("objcopy" if not variant.machine else f"{variant.machine}objcopy", "-R", ".debug_aranges", program, bare)
    for source in (program, bare):
        report = convert(source, tmp_path / "out", "debug_aranges")
        after = ranges_of(tmp_path / "out")
        assert {unit: joined(ranges) for unit, ranges in after.items()} == {
            unit: joined(ranges) for unit, ranges in before.items()
        }
        assert (report.sets, report.ranges, report.left_out) == (2, sum(map(len, after.values())), 0)
        image = open_elf(tmp_path / "out")
        sections = (image.contents(image.named(name)[0]) for name in (".debug_aranges", ".debug_info"))
        assert check_address_ranges(*sections).sentences() == ()
        assert [line for line in run("readelf", "-wrN", tmp_path / "out")[1].splitlines() if "readelf:" in line] == []
    convert(program, tmp_path / "raw", "debug_aranges", section_only=True)
    written = open_elf(tmp_path / "out")
    assert (tmp_path / "raw").read_bytes() == bytes(written.contents(written.named(".debug_aranges")[0]).data)


def test_discarded_code_and_programs_of_no_unit_have_no_ranges(tmp_path: Path) -> None:
    """The linker puts the discarded function at address 0; the assembler source has no unit."""
    (tmp_path / "a.c").write_text("int used(void) { return 1; }\nint unused(void) { return 2; }\n")
    (tmp_path / "b.s").write_text(' .text\n .file 1 "b.s"\n .loc 1 1\n nop\n')
    tool("gcc", "-g", "-ffunction-sections", "-c", tmp_path / "a.c", "-o", tmp_path / "a.o")
    tool("gcc", "-c", tmp_path / "b.s", "-o", tmp_path / "b.o")
    tool("objcopy", *(f"-R{one}" for one in (".debug_info", ".debug_aranges", ".debug_abbrev")), tmp_path / "b.o")
    options = ("-nostdlib", "-static", "-Wl,--gc-sections,-e,used")
    tool("gcc", *options, tmp_path / "a.o", tmp_path / "b.o", "-o", tmp_path / "program")
    report = convert(tmp_path / "program", tmp_path / "out", "debug_aranges")
    found = ranges_of(tmp_path / "out")
    (address,) = (int(line.split()[0], 16) for line in tool("nm", tmp_path / "program").splitlines() if " used" in line)
    assert [[start for start, _ in ranges] for ranges in found.values()] == [[address]]
    assert (report.sets, report.ranges) == (1, 1)
    assert report.left_out >= 1


# --- line records ---


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["dwarf2", "dwarf5", "sections", "aarch64-dwarf5", "s390x-macinfo"])
def test_line_records_are_what_addr2line_finds(name: str, debug_folder: Path, tmp_path: Path) -> None:
    _, program = built(debug_folder, BY_NAME[name])
    report = convert(program, tmp_path / "text", "breakpad-lines")
    text = (tmp_path / "text").read_bytes()
    records = [
        record
        for _, record in read_records(io.BytesIO(b"MODULE Linux x86_64 000000000000000000000000000000000 a\n" + text))
    ]
    assert list(check_records(enumerate(records, 1))) == []
    lines = [record for record in records if isinstance(record, Line)]
    assert report.records == len(lines) >= 3
    assert report.written == len(text)
    image = open_elf(program)
    functions = {record.address + image.load_address: record.name for record in records if isinstance(record, Func)}
    symbols = (line.split() for line in tool("nm", program).splitlines())
    assert functions == {int(address, 16): symbol for address, kind, symbol in symbols if kind in "tT"}
    back = from_line_records(text, image.load_address)
    pcs = [record.address + image.load_address for record in lines]
    found = find_lines(back, pcs)
    said = run_oracle("addr2line", "-e", program, *map(hex, pcs)).splitlines()
    assert [f"{one.file.decode()}:{one.line}" for one in found if one is not None] == [
        line.partition(" (disc")[0] for line in said
    ]


def test_code_without_a_symbol_is_a_function_without_a_name(tmp_path: Path) -> None:
    """Lines before, between and after symbols, and symbols that overlap or have no size."""
    (tmp_path / "a.s").write_text(
        ' .text\n .file 1 "/a.s"\n .macro code line, size\n .loc 1 \\line\n .rept \\size\n nop\n .endr\n .endm\n'
        " code 1, 8\n .type one, @function\none: code 2, 16\n .type two, @function\ntwo: code 3, 4\n"
        " .size one, 18\n .size two, 2\n code 4, 4\n .type empty, @function\nempty: code 5, 4\n"
    )
    tool("gcc", "-c", tmp_path / "a.s", "-o", tmp_path / "a.o")
    tool("gcc", "-nostdlib", "-static", "-Wl,-e,0,-Ttext=0x401000", tmp_path / "a.o", "-o", tmp_path / "program")
    convert(tmp_path / "program", tmp_path / "text", "breakpad-lines")
    base = 0x401000 - open_elf(tmp_path / "program").load_address
    assert (tmp_path / "text").read_text().splitlines() == [
        "FILE 0 /a.s",
        *(f"FUNC {base:x} 8 0 <name omitted>", f"{base:x} 8 1 0"),
        *(f"FUNC {base + 8:x} 10 0 one", f"{base + 8:x} 10 2 0"),
        *(f"FUNC {base + 0x18:x} 2 0 two", f"{base + 0x18:x} 2 3 0"),
        *(f"FUNC {base + 0x1A:x} a 0 <name omitted>", f"{base + 0x1A:x} 2 3 0"),
        *(f"{base + 0x1C:x} 4 4 0", f"{base + 0x20:x} 4 5 0"),
    ]


# --- raw sections and symbol files ---


def test_raw_sections_and_symbol_files(debug_folder: Path, tmp_path: Path) -> None:
    """A raw section holds its own paths, so that it can be read again without `.debug_line_str`."""
    _, program = built(debug_folder, BY_NAME["dwarf5"])
    raw, text = tmp_path / "raw", tmp_path / "text"
    convert(program, raw, "debug_line", section_only=True)
    assert same_lines(read_lines(program), from_debug_line(raw.read_bytes()))
    convert(raw, tmp_path / "again", "debug_line", source="debug_line", architecture="x86_64")
    assert (tmp_path / "again").read_bytes() == raw.read_bytes()
    report = convert(raw, tmp_path / "four", "debug_line", source="debug_line", architecture="x86_64", version=4)
    assert (report.source, report.units) == (".debug_line", 2)
    assert set(from_debug_line((tmp_path / "four").read_bytes()).units.version.tolist()) == {4}
    convert(raw, text, "breakpad-lines", source="debug_line", architecture="x86_64")
    (tmp_path / "sym").write_bytes(b"MODULE Linux x86_64 000000000000000000000000000000000 a\n" + text.read_bytes())
    report = convert(tmp_path / "sym", tmp_path / "from_sym", "debug_line")
    assert (report.source, report.units) == ("line records", 1)
    table = from_debug_line((tmp_path / "from_sym").read_bytes())
    pcs = np.unique(read_lines(program).rows.address)
    assert [one and (one.file, one.line) for one in find_lines(table, pcs)] == [
        one and (one.file, one.line) for one in find_lines(program, pcs)
    ]
    report = convert(tmp_path / "sym", tmp_path / "aranges", "debug_aranges")
    assert (report.sets, report.ranges) == (1, len(table.sequence_unit))
    convert(tmp_path / "sym", tmp_path / "text2", "breakpad-lines")
    assert (tmp_path / "text2").read_bytes() == text.read_bytes()


def test_what_is_refused(debug_folder: Path, tmp_path: Path) -> None:
    _, program = built(debug_folder, BY_NAME["dwarf5"])
    out = tmp_path / "out"
    with pytest.raises(BuildError, match="source: 'eh_frame' is not one of debug_line, breakpad"):
        convert(program, out, "debug_line", source="eh_frame")
    with pytest.raises(BuildError, match="version: 6 is not one of 2, 3, 4, 5"):
        convert(program, out, "debug_line", version=6)
    with pytest.raises(BuildError, match="version: applies to debug_line only"):
        convert(program, out, "debug_aranges", version=4)
    with pytest.raises(BuildError, match="keep_size: applies to debug_line only"):
        convert(program, out, "breakpad-lines", keep_size=True)
    with pytest.raises(BuildError, match="keep_size: applies to debug_line only"):
        convert(program, out, cast("LineTarget", "sframe"), keep_size=True)
    with pytest.raises(BuildError, match="keep_size: applies to a section in an ELF file"):
        convert(program, out, "debug_line", keep_size=True, section_only=True)
    tool("strip", program, "-o", tmp_path / "stripped")
    for target in get_args(LineTarget):
        with pytest.raises(ParseError, match=r"\.debug_line: the file has no such section"):
            convert(tmp_path / "stripped", out, cast("LineTarget", target))
    tool("objcopy", "-R", ".debug_info", program, tmp_path / "no_units")
    with pytest.raises(ParseError, match=r"\.debug_info: the file has no such section, whose units"):
        convert(tmp_path / "no_units", out, "debug_aranges")
    assert not out.exists()


# --- versions ---


@given(table=line_tables(), version=st.sampled_from(VERSIONS))
def test_another_version_has_the_same_rows_and_paths(table: LineTable, version: int) -> None:
    units = table.units
    if version < 4:
        units.maximum_operations[:] = 1
    listed = np.append(table.directories.path, 0)[np.minimum(table.first_directory[:-1], len(table.directories))]
    has_any = (units.version >= 5) & (np.diff(table.first_directory) > 0)
    # The compilation directory is what .debug_info has; from version 5 on it is the same as directory 0.
    units.comp_dir[:] = np.where(has_any, listed, table.strings.index(b"/src") if b"/src" in table.strings else 0)
    try:
        other = in_version(table, version)
        line, line_str = to_debug_line(other)
    except FormatError as error:
        assert isinstance(error, BuildError)
        assert version < 5
        return
    assert set(other.units.version.tolist()) <= {version}
    assert same_lines(other, from_debug_line(line, line_str))
    for column in other.rows.declared:
        if column.name != "file":
            assert getattr(other.rows, column.name).tolist() == getattr(table.rows, column.name).tolist()
    assert paths_of_rows(other, table) == paths_of_rows(table, table)


def paths_of_rows(table: LineTable, before: LineTable) -> list[bytes]:
    """The path of each row that has a file in the table `before`."""
    number, paths = paths_of(table)
    file = table.file_numbers()
    return [paths[number[file[row]]] for row in np.flatnonzero(before.file_numbers() >= 0).tolist()]


@pytest.mark.parametrize("name", ["dwarf2", "dwarf5"])
def test_malformed_files_raise_format_errors(name: str, debug_folder: Path, tmp_path: Path) -> None:
    """Bytes of debugging sections and of section headers changed at random; a result that is written can be read."""
    _, program = built(debug_folder, BY_NAME[name])
    data, image = program.read_bytes(), open_elf(program)
    spans = [range(one.file_offset, one.file_offset + one.size) for one in image.sections if ".debug_" in one.name]
    spans.append(range(len(data) - 64 * len(image.sections), len(data)))
    random = Random(name)
    bad, out, written = tmp_path / "bad", tmp_path / "out", 0
    for number in range(40):
        changed = bytearray(data)
        for _ in range(random.choice((1, 2, 4))):
            place = random.choice(random.choice(spans))
            changed[place] = random.choice((0, 1, 0x7F, 0x80, 0xFF, changed[place] ^ 1 << random.randrange(8)))
        bad.write_bytes(changed)
        target = get_args(LineTarget)[number % 3]
        with suppress(FormatError):
            convert(bad, out, cast("LineTarget", target))
            written += 1
            if target != "breakpad-lines":
                open_elf(out)
    assert 10 < written < 40
