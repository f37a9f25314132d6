"""`unwindkit dump --rawline` and `--decodedline` print what `readelf -wNl` and `-wNL` of binutils 2.47 print.

Strategy: gcc's, GNU as's and LLVM's files of every version, the C library, a made section of every machine, and units
drawn by hypothesis; each dumped by both. Known differences are tested separately, at the end.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import ParseError, read_lines
from unwindkit.converters import bulk_text, strings
from unwindkit.converters.line.dump import decode, decoded, raw
from unwindkit.schemas.forms import DW_FORM
from unwindkit.schemas.line import DW_LNE, DW_LNS, VERSIONS, LineUnit
from unwindkit.schemas.line_sections import build_line_section
from unwindkit.schemas.strategies import LINE_STRINGS, valid_line_units

from ..conftest import engine_in_use, fewer
from ..support.commands import DONE, refuses, unwindkit
from ..support.judges.line_machine import Registers
from ..support.made.line_bytes import Unit
from ..support.made.line_tables import rows_of
from ..support.made.made_frames import TARGETS, X86_64
from ..support.made.made_lines import (
    agree,
    assembled,
    by_readelf,
    by_us,
    compiled,
    line_file,
    machine_code,
    rows_of_llvm,
)
from ..support.oracles import CROSS, PREFIXES
from .test_vectors_lines import END, PROGRAM_BYTES

oracle = pytest.mark.oracle
llvm = pytest.mark.oracle("sid-llvm")
EVERY_VERSION = pytest.mark.parametrize("version", VERSIONS)


# --- made by tools --------------------------------------------------------------------------------------------------


GCC_OPTIONS = ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-g", "-g -gz", "-g -gdwarf64", "-gdwarf-4 -ffunction-sections"]


@llvm
@pytest.mark.parametrize("options", GCC_OPTIONS)
def test_gcc(options: str, tmp_path: Path) -> None:
    for linked in (False, True):
        path = compiled(tmp_path, "-O2", *options.split(), linked=linked)
        agree(path)
    assert rows_of(read_lines(path)) == rows_of_llvm(path)


@oracle
def test_split_dwarf(tmp_path: Path) -> None:
    """A file list for type units, without a program."""
    compiled(tmp_path, "-g", "-gsplit-dwarf", "-fdebug-types-section", linked=False)
    found = list(tmp_path.glob("*.dwo"))
    assert [b".debug_line.dwo" in path.read_bytes() for path in found] == [True]
    agree(found[0])


def test_rows_of_gcc_lie_in_the_lines_of_the_source(tmp_path: Path) -> None:
    table = read_lines(compiled(tmp_path, "-O0", "-g"))
    names = {file.path for file in table.files_of(0)}
    assert {b"main.c", b"part.h"} <= names
    assert {4, 5, 6, 7, 8, 9} <= {int(line) for line in table.rows.line}


@oracle
@EVERY_VERSION
@pytest.mark.parametrize("machine", PREFIXES)
def test_gnu_as(machine: int, version: int, tmp_path: Path) -> None:
    for linked in (False, True):
        path = assembled(tmp_path, version, PREFIXES[machine], linked=linked)
        agree(path)
        assert len(read_lines(path)) == 13


@pytest.mark.oracle("forky-cross")
@pytest.mark.parametrize("machine", CROSS)
def test_gnu_as_of_other_machines(machine: str, tmp_path: Path) -> None:
    """On RISC-V every advance is DW_LNS_fixed_advance_pc, with relocations in an object."""
    for linked in (False, True):
        agree(assembled(tmp_path, 5, f"{machine}-", "forky-cross", linked=linked))


@llvm
@pytest.mark.parametrize(
    ("triple", "version"),
    [
        *(("x86_64-linux-gnu", version) for version in VERSIONS),
        *((f"{machine}-linux-gnu", 5) for machine in ("aarch64", "s390x", "i686")),
    ],
)
def test_llvm(triple: str, version: int, tmp_path: Path) -> None:
    path = machine_code(tmp_path, version, triple)
    agree(path)
    assert rows_of(read_lines(path)) == rows_of_llvm(path)


# --- made by hand ---------------------------------------------------------------------------------------------------

REST = "00 04 81 01 02 03  00 03 09 80 01  00 02 11 07  0d 05"
EVERY_TARGET = pytest.mark.parametrize("name", ["x86_64", "mips", "s390x", "arm"])


@oracle
@EVERY_TARGET
@EVERY_VERSION
@pytest.mark.parametrize("is_64", [False, True], ids=["32-bit DWARF", "64-bit DWARF"])
def test_every_instruction(name: str, version: int, is_64: bool, tmp_path: Path) -> None:
    target = TARGETS[name]
    order = "little" if target.order == "<" else "big"
    base = target.integer(0x1000, target.address_size).hex()
    program = PROGRAM_BYTES[22:].replace("093412", "09" + target.integer(0x1234, 2).hex())
    head = f"00 {1 + target.address_size:02x} 02 {base}"
    unit = Unit(
        f"{head} {program} {REST} {END} 01 01 14 {END}", version, opcode_base=14, byte_order=order, is_64=is_64,
        lengths=(0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1), address_size=target.address_size,
    )  # fmt: skip
    agree(line_file(tmp_path / "file", target, unit.data() + replace(unit, program="", lengths=None).data()))


@oracle
def test_operations_of_vliw_instructions(kernels: str, tmp_path: Path) -> None:
    unit = Unit(f"1c 02 06 01 34 02 01 01 14 09 0800 01 {END}", minimum_instruction_length=16, maximum_operations=4)
    agree(line_file(tmp_path / "file", X86_64, unit.data()))


SEEN_BY_LLVM = {
    **{f"version {version}": Unit(PROGRAM_BYTES, version) for version in VERSIONS},
    "64-bit DWARF": Unit(PROGRAM_BYTES, 5, is_64=True),
    "opcode_base 10": Unit(f"03 09 0a 0b 0c 0d 08 ff {END}", opcode_base=10),
    "opcode_base 14": Unit(f"0d 818000 14 02 05 ff {END}", opcode_base=14),
    "instructions of 4 bytes": Unit(f"02 03 01 08 01 09 0300 01 10 1c {END}", minimum_instruction_length=4),
    "VLIW": Unit(f"1c 02 06 01 34 08 01 02 01 01 {END}", minimum_instruction_length=16, maximum_operations=4),
    "a constant on the edge": Unit(f"08 01 {END}", line_range=11),
    "is_stmt is false": Unit(f"01 06 01 06 14 {END} 01 {END}", default_is_stmt=0),
}


@llvm
@pytest.mark.parametrize("which", SEEN_BY_LLVM)
def test_rows_are_those_of_llvm(which: str, tmp_path: Path) -> None:
    path = line_file(tmp_path / "file", X86_64, SEEN_BY_LLVM[which].data())
    assert rows_of(read_lines(path)) == rows_of_llvm(path)


OLD_TABLES = {
    "directories": "2f6100 6200 00  782e6300 02 8001 05  00",
    "no files": "2f6100 00 00",
    "nothing": "00 00",
    "a directory that is not there": "2f6100 00 782e6300 07 00 00 00",
    "long names": f"00 {'61' * 40}00 00 00 00 {'62' * 35}00 00 00 00 00",
}
NEW_TABLES = {
    "nothing": "00 00 00 00",
    "no files": "01 01 08 01 2f6100 00 00",
    "no directories": "00 00 01 01 08 01 782e6300",
    "every form of a number": "01 01 08 01 2f6100  07 02 0b 01 08 03 05 04 06 03 07 04 0f 03 09"
    "02 00 782e6300 0300 04000000 0500000000000000 8001 03010203  00 7900 0000 00000000 0000000000000000 00 00",
    "MD5 and strings": "01 01 1f 01 05000000 04 01 1f 02 0f 05 1e 8140 08"
    f"02 01000000 00 {bytes(range(16)).hex()} 7a00  1a000000 00 {bytes(16).hex()} 00",
    "blocks": "01 01 08 01 2f6100 03 01 08 8240 0a 8340 03 01 7800 02 0102 0300 040506",
}


@oracle
@pytest.mark.parametrize("which", OLD_TABLES)
def test_tables_up_to_version_4(which: str, kernels: str, tmp_path: Path) -> None:
    for version in (2, 4):
        unit = Unit(f"01 04 02 01 04 01 01 {END}", version, tables=OLD_TABLES[which])
        agree(line_file(tmp_path / "file", X86_64, unit.data()))


@oracle
@pytest.mark.parametrize("which", NEW_TABLES)
def test_tables_of_version_5(which: str, kernels: str, tmp_path: Path) -> None:
    unit = Unit(f"01 04 00 01 04 01 01 04 02 01 {END}", 5, tables=NEW_TABLES[which])
    agree(line_file(tmp_path / "file", X86_64, unit.data(), LINE_STRINGS))


@oracle
@fewer(10)
@given(engine=st.sampled_from(["pure", "compiled"]), units=st.lists(valid_line_units(), max_size=2))
def test_made_sections(engine: str, units: list[LineUnit]) -> None:
    usual = tuple(unit for unit in units if not has_known_difference(unit))
    with TemporaryDirectory() as folder, engine_in_use(engine):
        path = line_file(Path(folder) / "file", X86_64, build_line_section(usual), LINE_STRINGS)
        agree(path)


def has_known_difference(unit: LineUnit) -> bool:
    """What readelf prints differently; opcodes are searched for in operands, too. It warns about, and skips, vendors'
    content forms that refer to strings in missing sections."""
    header = unit.header
    forms = {int(one.form) for one in (*(header.directory_entry_format or ()), *(header.file_name_entry_format or ()))}
    is_vliw = (header.maximum_operations_per_instruction or 1) > 1
    return bool(
        header.padding
        or unit.head.segment_selector_size
        or (is_vliw and DW_LNS.const_add_pc in unit.program)
        or DW_LNE.define_file in unit.program
        or HP_SOURCE_FILE_CORRELATION in unit.program
        or forms & OTHER_STRINGS
    )


HP_SOURCE_FILE_CORRELATION = 0x80
OTHER_STRINGS = {DW_FORM.strp, DW_FORM.strp_sup, DW_FORM.strx, *range(DW_FORM.strx1, DW_FORM.strx4 + 1)}


@pytest.mark.parametrize("chunk", [1, 2, 3, 7])
@pytest.mark.parametrize("part", [16, 160, 1 << 20])
def test_chunks_of_any_size(
    chunk: int, part: int, kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is the same wherever it is cut: inside programs that define files, in headers, between units."""
    program = f"01 00 06 03 6300 00 00 00 04 03 01 04 02 01 0d 00 02 99 00 {END}"
    rows, tables = f"01 {END}", NEW_TABLES["MD5 and strings"]
    units = Unit(program), Unit(""), Unit(program, 5, tables=tables), Unit(rows, 3), Unit(rows, 5, tables=tables)
    path = line_file(tmp_path / "file", X86_64, b"".join(unit.data() for unit in units), LINE_STRINGS)
    whole = [by_us(path, decoded=which) for which in (False, True)]
    monkeypatch.setattr(decode, "CHUNK", chunk)
    for module in (bulk_text, strings, raw, decoded):
        monkeypatch.setattr(module, "PART", part)
    assert [by_us(path, decoded=which) for which in (False, True)] == whole


# --- sections, and the command --------------------------------------------------------------------------------------


def test_a_file_without_the_section(tmp_path: Path) -> None:
    path = line_file(tmp_path / "file", X86_64, b"")
    assert by_us(path, decoded=True) == b"\nSection '.debug_line' has no debugging data.\n"
    path.write_bytes(path.read_bytes().replace(b".debug_line", b".debug_none"))
    refuses(path, "dump", "--rawline", path, says="the file has none of .debug_line, .debug_line.dwo")


@oracle
def test_the_command_prints_both(tmp_path: Path) -> None:
    path = compiled(tmp_path, "-g")
    done = unwindkit("dump", "--rawline", "--decodedline", path)
    assert (done.returncode, done.stderr) == (DONE, "")
    assert done.stdout.encode() == b"".join(by_readelf(path, decoded=decoded) for decoded in (False, True))


def test_what_is_wrong_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = line_file(tmp_path / "file", X86_64, Unit("01 00 00").data())
    done = unwindkit("dump", "--rawline", path)
    assert done.returncode == 2
    assert "unit[0].program: the length of an extended instruction holds no opcode" in done.stderr
    with pytest.raises(ParseError):
        by_us(path, decoded=True)


def test_json_says_what_the_table_says(tmp_path: Path) -> None:
    path = line_file(tmp_path / "file", X86_64, Unit(PROGRAM_BYTES + "00 02 04 09 00 03 81 07 08" + END, 5).data())
    raw, decoded = json.loads(unwindkit("dump", "--rawline", "--decodedline", "--json", path).stdout)
    assert raw["section"] == decoded["section"] == ".debug_line"
    (unit,) = decoded["units"]
    assert unit["directories"] == [{"path": "/d"}]
    assert unit["files"] == [{"path": "a.c", "directory_index": 0}, {"path": "b.c", "directory_index": 0}]
    assert [[registers(row) for row in rows] for rows in unit["sequences"]] == rows_of(read_lines(path))
    instructions = raw["units"][0]["instructions"]
    assert instructions[0] == {
        "offset": 53, "opcode": "DW_LNE_set_address", "operand": 0x1000, "address": 0x1000, "line": 1
    }  # fmt: skip
    special = next(one for one in instructions if one["opcode"] == "special")
    assert (special["adjusted_opcode"], special["address"], special["line"]) == (16, 0x1004, 102)
    assert [one["operands"] for one in instructions if one["opcode"] == "extended 0x81"] == ["0708"]
    assert raw["units"][0] | {"sequences": 0} == unit | {"sequences": 0, "instructions": instructions}


def test_instructions_are_shown_of_what_makes_no_table(tmp_path: Path) -> None:
    """An address that goes down, and no end of the sequence."""
    path = line_file(tmp_path / "file", X86_64, Unit("02 05 01 00 09 02 0100000000000000 01").data())
    assert b"set Address to 0x1\n" in by_us(path, decoded=False)
    assert by_us(path, decoded=True).count(b"a.c ") == 2
    ((unit,),) = [section["units"] for section in json.loads(unwindkit("dump", "--rawline", "--json", path).stdout)]
    assert [one["address"] for one in unit["instructions"]] == [5, 5, 1, 1]
    with pytest.raises(ParseError, match="the program ends inside a sequence"):
        read_lines(path)


def registers(row: dict[str, Any]) -> Registers:
    return Registers(**row)


# --- differences ----------------------------------------------------------------------------------------------------


@oracle
def test_constant_advances_of_vliw_instructions(tmp_path: Path) -> None:
    """readelf 2.47 decodes DW_LNS_const_add_pc for one operation per instruction in the instructions, but not in the
    rows."""
    unit = Unit(f"08 01 {END}", minimum_instruction_length=16, maximum_operations=4)
    path = line_file(tmp_path / "file", X86_64, unit.data())
    assert by_us(path, decoded=True) == by_readelf(path, decoded=True)
    assert b"Advance PC by constant 20 to 0x50[0]\n" in by_us(path, decoded=False)
    assert b"Advance PC by constant 320 to 0x140\n" in by_readelf(path, decoded=False)


@oracle
def test_files_defined_behind_a_sequence(tmp_path: Path) -> None:
    """readelf numbers them from 1 again."""
    path = line_file(tmp_path / "file", X86_64, Unit(f"01 {END} 00 06 03 6300 00 00 00 04 03 01 {END}").data())
    assert b"   3\t0\t0\t0\tc\n" in by_us(path, decoded=False)
    assert b"   1\t0\t0\t0\tc\n" in by_readelf(path, decoded=False)
    assert by_us(path, decoded=True) == by_readelf(path, decoded=True)


@oracle
def test_what_the_header_counts_beyond_its_tables(tmp_path: Path) -> None:
    """readelf decodes it as the program."""
    path = line_file(tmp_path / "file", X86_64, Unit(f"01 {END}", tables="00 00 14").data())
    assert by_us(path, decoded=False).count(b"Special opcode") == 0
    assert by_readelf(path, decoded=False).count(b"Special opcode") == 1
