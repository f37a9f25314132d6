"""Lines of addresses, and line tables as Breakpad's line records and back.

Strategy: look-ups against a slow search and addr2line; texts by hand; a table read back from a text has the same line
for every address, by our reader and, put into a program, by addr2line.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from unwindkit import (
    BuildError,
    LineAt,
    LineTable,
    ParseError,
    find_lines,
    from_line_records,
    read_lines,
    to_debug_aranges,
    to_debug_line,
    to_line_records,
)
from unwindkit.converters.line.paths import paths_of
from unwindkit.converters.line.table import LineRow
from unwindkit.schemas.breakpad.files import read_records
from unwindkit.schemas.breakpad.records import File, Func, Line
from unwindkit.schemas.breakpad.rules import check_records
from unwindkit.schemas.line import STANDARD_OPCODE_LENGTHS
from unwindkit.testing import line_tables

from ..support.programs.elf_programs import tool

SOURCE = """#include "part.h"
int first(int n)
{
    if (n > 3)
        n *= twice(n);
    return n;
}
int main(int argc, char **argv)
{
    return first(argc) + (argv[0] != 0);
}
"""
PART = "static inline int twice(int n)\n{\n    return n * 2;\n}\n"


@pytest.fixture(name="program", params=["-gdwarf-5", "-gdwarf-4", "-gdwarf-3"])
def _program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "part.h").write_text(PART)
    (tmp_path / "a.c").write_text(SOURCE)
    tool("gcc", "-O1", request.param, f"-I{tmp_path / 'deep'}", tmp_path / "a.c", "-o", tmp_path / "program")
    return tmp_path / "program"


def said_slowly(table: LineTable, sequences: list[list[LineRow]], pc: int) -> tuple[int, int]:
    """The row in force and its line, by trying every sequence: the one that starts first wins."""
    found = [
        (rows[0].address, number) for number, rows in enumerate(sequences) if rows[0].address <= pc < rows[-1].address
    ]
    if not found:
        return -1, 0
    number = min(found)[1]
    first, rows = int(table.first_row[number]), sequences[number]
    place = max(index for index, row in enumerate(rows) if row.address <= pc)
    return first + place, rows[place].line


@given(line_tables())
def test_lines_are_those_of_a_slow_search(table: LineTable) -> None:
    near = np.unique(np.concatenate([table.rows.address, table.rows.address + 1, table.rows.address - 1])[:60])
    found = find_lines(table, near)
    sequences = [list(table.sequence(number)) for number in range(len(table.sequence_unit))]
    expected = [said_slowly(table, sequences, pc) for pc in near.tolist()]
    assert list(zip(found.row.tolist(), found.line.tolist(), strict=True)) == expected
    numbers = table.file_numbers()
    for index, row in enumerate(found.row.tolist()):
        file = int(numbers[row]) if row >= 0 else -1
        assert (found.path[index] < 0) == (file < 0)


def test_addr2line_says_the_same(program: Path) -> None:
    table = read_lines(program)
    starts = table.rows.address[table.rows.flags & 4 == 0]
    pcs = np.unique(np.concatenate([starts, starts + 1]))
    assert symbolized(program, pcs.tolist()) == [
        "??:0" if one is None else f"{Path(one.file.decode()).name}:{one.line}" for one in find_lines(program, pcs)
    ]
    assert find_lines(program, 0)[0] is None
    main = next(line.split()[0] for line in tool("nm", program).splitlines() if line.endswith(" T main"))
    found = find_lines(table, int(main, 16))[0]
    assert isinstance(found, LineAt)
    assert (Path(found.file.decode()).name, found.line, found.column) == ("a.c", 9, 1)


def symbolized(program: Path, pcs: list[int]) -> list[str]:
    # addr2line reports errors in sections other than the new one.
    said = [line for line in tool("addr2line", "-e", program, *map(hex, pcs)).splitlines() if " error: " not in line]
    return [Path(one.partition(" (")[0]).name.replace("??:?", "??:0") for one in said]


def test_paths_have_their_directories(program: Path) -> None:
    _, paths = paths_of(read_lines(program))
    names = [path.decode() for path in paths]
    folder = program.parent
    assert str(folder / "deep" / "part.h") in names
    assert str(folder / "a.c") in names


# --- records --------------------------------------------------------------------------------------------------------

TEXT = b"""MODULE Linux x86_64 0 a
FILE 0 /src/a.c
FILE 7 /src/b.h
FUNC 1000 20 0 first
1000 4 10 0
1004 8 3 7
100c 14 11 0
FUNC 1030 8 0 second
1030 8 20 0
PUBLIC 2000 0 other
STACK CFI INIT 1000 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^
"""


@pytest.mark.usefixtures("kernels")
def test_records_as_rows() -> None:
    table = from_line_records(TEXT, load_address=0x400000)
    assert [(one.address, one.file, one.line, one.flags.name) for one in map(table.row, range(len(table)))] == [
        (0x401000, 0, 10, "IS_STMT"),
        (0x401004, 1, 3, "IS_STMT"),
        (0x40100C, 0, 11, "IS_STMT"),
        (0x401020, 0, 0, "END_SEQUENCE"),
        (0x401030, 0, 20, "IS_STMT"),
        (0x401038, 0, 0, "END_SEQUENCE"),
    ]
    assert [one.path for one in table.files_of(0)] == [b"/src/a.c", b"/src/b.h"]
    assert find_lines(table, 0x401005)[0] == LineAt(b"/src/b.h", 3, 0, 0)


@pytest.mark.usefixtures("kernels")
def test_rows_as_records() -> None:
    table = from_line_records(TEXT, load_address=0x400000)
    functions = {"start": [0x401030, 0x401000], "size": [8, 0x20], "names": ["second", "first"]}
    said = to_line_records(table, **functions, load_address=0x400000)
    assert said.decode() == (
        "FILE 0 /src/a.c\nFILE 1 /src/b.h\nFUNC 1000 20 0 first\n1000 4 10 0\n1004 8 3 1\n100c 14 11 0\n"
        "FUNC 1030 8 0 second\n1030 8 20 0\n"
    )
    # Clipped to functions, which may have no lines, or part of a record.
    clipped = to_line_records(table, [0x401002, 0x401006, 0x401100], [4, 2, 1], ["a", "b", "c"], 0x400000)
    assert clipped.decode().splitlines()[2:] == [
        *("FUNC 1002 4 0 a", "1002 2 10 0", "1004 2 3 1", "FUNC 1006 2 0 b", "1006 2 3 1", "FUNC 1100 1 0 c")
    ]
    unnamed = to_line_records(table, load_address=0x400000).decode().splitlines()
    assert [one for one in unnamed if one.startswith("FUNC")] == [
        *("FUNC 1000 20 0 <name omitted>", "FUNC 1030 8 0 <name omitted>")
    ]
    with pytest.raises(BuildError, match="functions: overlap"):
        to_line_records(table, [0x401000, 0x401001], [2, 2])


@pytest.mark.usefixtures("kernels")
def test_oddly_spelled_records() -> None:
    odd = b"FILE 0  a.c \r\n0X10 4 1 0\n0014  4 2 0\nFUNC 1 2 3 4 5\n18 4 00 0\r\n1C 4 4 0\n20 2 18446744073709551615 0"
    with pytest.raises(ParseError, match=r"line 7: line: 18446744073709551615 does not fit 32 bits"):
        from_line_records(odd)
    table = from_line_records(odd.rpartition(b"\n")[0])
    assert [(one.address, one.line) for one in map(table.row, range(len(table)))] == [
        *((0x10, 1), (0x14, 2), (0x18, 0), (0x1C, 4), (0x20, 0))
    ]
    assert len(from_line_records(b"")) == 0
    assert to_line_records(from_line_records(b"")) == b""


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10 4 1 0", "line 1: filenum: there is no FILE 0"),
        ("FILE 0 a\n10 4 1 1", "line 2: filenum: there is no FILE 1"),
        ("FILE 0 a\nFILE 0 b", "line 2: number: FILE 0 has two names"),
        ("FILE 0 a\nffffffffffffffff 2 1 0", "line 2: size: the record reaches past the address space"),
        ("FILE 0 a\n10 4 1", "line 2: line record.filenum: the line ends before it"),
        ("FILE 0 a\n10000000000000000 4 1 0", "line 2: line record.address: .* does not fit in 64 bits"),
        ("FILE x a", "line 1: FILE.number: found"),
    ],
)
def test_malformed_records(text: str, says: str) -> None:
    with pytest.raises(ParseError, match=says):
        from_line_records(text)


@pytest.mark.parametrize(("size", "load_address"), [(8, 0), (8, 0x20), (4, 0x20)])
def test_records_up_to_the_last_address(size: int, load_address: int) -> None:
    """The address after the last record is the highest possible; one more is an error."""
    last = (1 << 8 * size) - 1
    start = last - load_address - 4
    table = from_line_records(f"FILE 0 a\n{start:x} 4 1 0\n", load_address, address_size=size)
    assert table.rows.address.tolist() == [last - 4, last]
    with pytest.raises(ParseError, match="line 2: size: the record reaches past the address space"):
        from_line_records(f"FILE 0 a\n{start:x} 5 1 0\n", load_address, address_size=size)


def test_where_records_overlap_the_first_holds() -> None:
    table = from_line_records("FILE 0 a\n10 10 1 0\n18 10 2 0\n12 2 3 0\n")
    assert find_lines(table, [0x10, 0x13, 0x1F, 0x20, 0x27]).line.tolist() == [1, 1, 1, 2, 2]
    assert find_lines(table, [0xF, 0x28]).row.tolist() == [-1, -1]


@given(line_tables())
def test_what_a_table_says_comes_back(table: LineTable) -> None:
    text = to_line_records(table)
    back = from_line_records(text)
    near = np.unique(np.concatenate([table.rows.address, table.rows.address + 1, table.rows.address - 1]))
    one, other = find_lines(table, near), find_lines(back, near)
    for before, after in zip(one, other, strict=True):
        is_said = before is not None and before.file
        assert (after is not None) == bool(is_said)
        if after is not None and before is not None:
            assert (after.file, after.line) == (before.file, before.line)
    assert to_line_records(back) == text


def test_text_is_a_sound_symbol_file(program: Path) -> None:
    text = b"MODULE Linux x86_64 D3096ED481217FD4C16B29CD9BC208BA0 a\n" + to_line_records(read_lines(program))
    records = list(read_records(io.BytesIO(text)))
    assert list(check_records(records)) == []
    kinds = {type(record) for _, record in records}
    assert {File, Func, Line} <= kinds


def test_sections_from_a_symbol_file_in_a_program(program: Path) -> None:
    """addr2line finds the same with them as with the compiler's."""
    table = read_lines(program)
    starts = np.unique(table.rows.address[table.rows.flags & 4 == 0]).tolist()
    before = symbolized(program, starts)
    back = from_line_records(to_line_records(table))
    line, line_str = to_debug_line(back)
    sections = {".debug_line": line, ".debug_line_str": line_str, ".debug_aranges": to_debug_aranges(back)}
    for name, data in sections.items():
        (program.parent / "bytes").write_bytes(data)
        has = name in tool("readelf", "-SW", program)
        how = "--update-section" if has else "--add-section"
        tool("objcopy", how, f"{name}={program.parent / 'bytes'}", program)
    assert symbolized(program, starts) == before
    assert tool("readelf", "-wr", program).count("000000000000") >= 2
    assert [int(one) for one in STANDARD_OPCODE_LENGTHS] == [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]
