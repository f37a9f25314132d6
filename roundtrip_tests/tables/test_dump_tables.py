"""`unwindkit dump --aranges`, `--pubnames`, `--pubtypes` and `--macro` print what readelf 2.47 prints with `-wN`.

Strategy: what gcc writes in every version and form, relocatable and linked, little- and big-endian, dumped by both.
Sections made by hand and known differences: test_dump_tables_made.py; a second reader: test_dump_tables_llvm.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from unwindkit.jobs.dump import dump_json, dump_sections
from unwindkit.jobs.section_dumps import ARANGES_SECTIONS, MACROS, PUBNAMES_SECTIONS, PUBTYPES_SECTIONS

from ..support.commands import DONE, WRONG, unwindkit
from ..support.oracles import run_oracle
from ..support.programs.debug_programs import CLANG, EVERY_VARIANT, VARIANTS, Variant, built
from ..support.tiny_elf import CODE, tiny_elf

oracle = pytest.mark.oracle
TABLES = {"r": ARANGES_SECTIONS, "p": PUBNAMES_SECTIONS, "t": PUBTYPES_SECTIONS, "m": MACROS}
BY_NAME = {variant.name: variant for variant in VARIANTS}


def by_us(path: Path, letter: str) -> str:
    return b"".join(dump_sections(path, TABLES[letter])).decode()


@oracle
@EVERY_VARIANT
def test_what_gcc_writes(variant: Variant, debug_folder: Path) -> None:
    for path in built(debug_folder, variant):
        for letter in TABLES:
            assert by_us(path, letter) == run_oracle("readelf", f"-wN{letter}", path)


@oracle
@pytest.mark.parametrize("variant", CLANG, ids=lambda variant: variant.name)
def test_what_clang_writes(variant: Variant, debug_folder: Path) -> None:
    """Except indices of strings, which readelf looks up in the wrong place: those are in test_dump_tables_llvm.py."""
    for path in built(debug_folder, variant):
        for letter in TABLES if variant.name == "clang-dwarf4" else "rpt":
            assert by_us(path, letter) == run_oracle("readelf", f"-wN{letter}", path)
    assert by_us(built(debug_folder, variant)[1], "r").count("Address size") == 2


@oracle
@pytest.mark.parametrize("name", ["macinfo", "s390x-dwarf5"])
def test_both_engines(name: str, debug_folder: Path, kernels: str) -> None:
    for letter in TABLES:
        path = built(debug_folder, BY_NAME[name])[1]
        assert by_us(path, letter) == run_oracle("readelf", f"-wN{letter}", path)


def test_what_the_programs_have(debug_folder: Path) -> None:
    """Ensures that the tests above have content to compare."""
    text = by_us(built(debug_folder, BY_NAME["macinfo"])[1], "m")
    assert text.count("DW_MACINFO_start_file") >= 5
    assert " DW_MACINFO_define - lineno : 0 macro : FROM_COMMAND_LINE 7\n" in text
    assert " DW_MACINFO_define - lineno : 1 macro : SHARED(x,y) ((x) + (y))\n" in text
    assert " DW_MACINFO_undef - lineno : 4 macro : GONE\n" in text
    text = by_us(built(debug_folder, BY_NAME["dwarf4"])[1], "m")
    assert "DW_MACRO_import - offset : 0x" in text
    assert re.search(r"DW_MACRO_start_file - lineno: 1 filenum: \d filename: \S*shared.h\n", text)
    assert "DW_MACRO_define_strp" in text
    assert "  g,function    _start\n" in by_us(built(debug_folder, BY_NAME["dwarf4"])[1], "p")
    assert "\tpair\n" in by_us(built(debug_folder, BY_NAME["dwarf3"])[1], "t")
    assert by_us(built(debug_folder, BY_NAME["sections"])[1], "r").count("\n    00") >= 5


# --- the command ------------------------------------------------------------------------------------------------------


@oracle
@pytest.mark.parametrize("pure", [False, True])
def test_command(pure: bool, debug_folder: Path) -> None:
    path = built(debug_folder, BY_NAME["dwarf5"])[1]
    done = unwindkit("dump", "--macro", "--aranges", "--pubtypes", "--pubnames", path, pure=pure)
    assert (done.returncode, done.stderr) == (DONE, "")
    assert done.stdout == run_oracle("readelf", "-wNrptm", path)


def test_without_such_a_section(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(tiny_elf(CODE))
    done = unwindkit("dump", "--aranges", tmp_path / "file")
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert done.stderr == f"unwindkit: {tmp_path / 'file'}: .debug_aranges: the file has no such section\n"


# --- JSON: the same content -------------------------------------------------------------------------------------------


def plain(path: Path, letter: str) -> list[dict[str, Any]]:
    """The sets or units of all sections, as JSON gives them back."""
    sections = dump_json(path, TABLES[letter])
    return [json.loads(json.dumps(part)) for section in sections for part in section.parts]


@oracle
@pytest.mark.parametrize("name", ["dwarf4", "s390x-dwarf64"])
def test_json_has_the_ranges_and_names_that_readelf_prints(name: str, debug_folder: Path) -> None:
    path = built(debug_folder, BY_NAME[name])[1]
    text = run_oracle("readelf", "-wNr", path)
    ranges = [(one["address"], one["length"]) for each in plain(path, "r") for one in each["ranges"]]
    assert ranges == [
        (int(address, 16), int(length, 16)) for address, length in re.findall(r"^    (\w{16}) (\w{16})$", text, re.M)
    ]
    for letter in "pt":
        text = run_oracle("readelf", f"-wN{letter}", path)
        sets = plain(path, letter)
        assert [one["debug_info_length"] for one in sets] == [int(size) for size in re.findall(r"Size.*: (\d+)", text)]
        found = [
            (f"{one['offset']:x}", one.get("static"), one.get("kind"), one["name"])
            for each in sets
            for one in each["names"]
        ]
        gnu = re.findall(r"^    (\w+) +([sg]),(\w+) +(.*)$", text, re.M)
        expected = [(offset, scope == "s", kind, each) for offset, scope, kind, each in gnu]
        plain_names = re.findall(r"^    (\w+) *\t(.*)$", text, re.M)
        assert found == (expected or [(offset, None, None, each) for offset, each in plain_names if each != "Name"])


def line_of(entry: dict[str, Any]) -> str:
    """An entry of JSON, as in readelf."""
    line, rest = entry.get("line"), ""
    if "file" in entry:
        rest = f"lineno: {line} filenum: {entry['file']}"
        rest += f" filename: {entry['filename']}" if "filename" in entry else ""
    elif "macro" in entry:
        rest = f"lineno : {line} macro : {entry['macro']}"
    elif "offset" in entry:
        rest = f"offset : {entry['offset']:#x}"
    return f" {entry['type']} - {rest}" if rest else f" {entry['type']}"


@oracle
@pytest.mark.parametrize("name", ["macinfo", "dwarf3", "s390x-dwarf64"])
def test_json_has_the_macros_that_readelf_prints(name: str, debug_folder: Path) -> None:
    path = built(debug_folder, BY_NAME[name])[1]
    text = run_oracle("readelf", "-wNm", path)
    units = plain(path, "m")
    assert [line_of(entry) for unit in units for entry in unit["entries"]] == re.findall(r"^ DW_.*$", text, re.M)
    offsets = [int(offset, 0) for offset in re.findall(r"Offset: +(\w+)$", text, re.M)]
    assert not offsets or [unit["offset"] for unit in units] == offsets
