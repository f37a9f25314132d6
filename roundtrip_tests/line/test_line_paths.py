"""Whole paths of files: by hand, for every version, and as llvm-symbolizer 22 prints them, with line and column.

Strategy: a table is made by hand for each rule; compilers' programs are searched at random addresses of their code,
5,000 each with hypothesis' thorough profile.
"""

from __future__ import annotations

import random
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from unwindkit import (
    LineTable,
    ParseError,
    find_lines,
    from_debug_line,
    open_elf,
    paths_of,
    read_address_ranges,
    read_lines,
    read_units,
)
from unwindkit.converters.dwarf.units import DebugUnits, UnitColumns
from unwindkit.converters.line.paths import join_path
from unwindkit.converters.line.table import LineRowColumns, LineUnitColumns, PathColumns
from unwindkit.converters.line.units import with_units
from unwindkit.converters.strings import Strings
from unwindkit.schemas.debug_info.roots import DW_TAG

from ..support.handmade import octets
from ..support.oracles import oracle_command, oracle_root
from ..support.programs.elf_programs import tool
from ..support.tiny_elf import Content, tiny_elf

# --- by hand ----------------------------------------------------------------------------------------------------------


def path_of(
    version: int, directories: tuple[bytes, ...], directory: int, file: bytes, comp_dir: bytes | None = None
) -> bytes:
    """The whole path of a file in directory number `directory`."""
    strings = (file, comp_dir or b"", *directories)
    count = len(directories)
    units = LineUnitColumns.defaults(
        1, version=np.array([version], np.uint8), comp_dir=np.array([-1 if comp_dir is None else 1])
    )
    table = LineTable(
        byte_order="little",
        units=units,
        first_directory=np.array([0, count]),
        directories=PathColumns.defaults(count, path=np.arange(2, count + 2, dtype=np.uint32)),
        first_file=np.array([0, 1]),
        files=PathColumns.defaults(1, directory_index=np.array([directory], np.uint64)),
        strings=Strings.of(strings),
        sequence_unit=np.zeros(0, np.uint32),
        first_row=np.zeros(1, np.int64),
        rows=LineRowColumns.empty(0),
    )
    number, paths = paths_of(table)
    assert number.tolist() == [0]
    assert len(paths) == 1
    return paths[0]


OLD = (b"inc", b"/abs")
NEW = (b"/comp", b"inc", b"/abs", b"../up")


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("directory", "file", "comp_dir", "expected"),
    [
        (0, b"a.c", b"/src", b"/src/a.c"),
        (0, b"a.c", b"/src/", b"/src/a.c"),
        (0, b"sub/a.c", b"/src", b"/src/sub/a.c"),
        (0, b"../a.c", b"/src", b"/src/../a.c"),
        (0, b"/a.c", b"/src", b"/a.c"),
        (0, b"a.c", b"", b"a.c"),
        (0, b"a.c", None, b"a.c"),
        (1, b"a.h", b"/src", b"/src/inc/a.h"),
        (1, b"a.h", b".", b"./inc/a.h"),
        (1, b"a.h", None, b"inc/a.h"),
        (2, b"a.h", b"/src", b"/abs/a.h"),
        (2, b"/a.h", b"/src", b"/a.h"),
        # There is no such directory.
        (3, b"a.h", b"/src", b"/src/a.h"),
        ((1 << 64) - 1, b"a.h", b"/src", b"/src/a.h"),
    ],
)
def test_paths_up_to_version_4(
    version: int, directory: int, file: bytes, comp_dir: bytes | None, expected: bytes
) -> None:
    assert path_of(version, OLD, directory, file, comp_dir) == expected


@pytest.mark.parametrize(
    ("directories", "directory", "file", "comp_dir", "expected"),
    [
        (NEW, 0, b"a.c", b"/comp", b"/comp/a.c"),
        (NEW, 0, b"/a.c", b"/comp", b"/a.c"),
        (NEW, 1, b"a.h", b"/comp", b"/comp/inc/a.h"),
        (NEW, 1, b"a.h", None, b"/comp/inc/a.h"),
        (NEW, 2, b"a.h", b"/comp", b"/abs/a.h"),
        (NEW, 3, b"a.h", b"/comp", b"/comp/../up/a.h"),
        # Directory 0 is the compilation directory, even where it is relative or another than DW_AT_comp_dir.
        ((b"./csu", b"inc"), 0, b"a.c", b"./csu", b"./csu/a.c"),
        ((b"./csu", b"inc"), 1, b"a.c", b"./csu", b"./csu/inc/a.c"),
        ((b"rel",), 0, b"a.c", b"/comp", b"rel/a.c"),
        ((b"/zero", b"inc"), 1, b"a.c", b"/comp", b"/comp/inc/a.c"),
        (NEW, 9, b"a.c", b"/other", b"/other/a.c"),
        (NEW, 9, b"a.c", None, b"/comp/a.c"),
        ((), 0, b"a.c", b"/comp", b"/comp/a.c"),
        ((), 0, b"a.c", None, b"a.c"),
    ],
)
def test_paths_of_version_5(
    directories: tuple[bytes, ...], directory: int, file: bytes, comp_dir: bytes | None, expected: bytes
) -> None:
    assert path_of(5, directories, directory, file, comp_dir) == expected


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ((b"/a", b"b", b"c.c"), b"/a/b/c.c"),
        ((b"/a", b"", b"c.c"), b"/a/c.c"),
        ((b"C:\\src", b"c.c"), b"C:\\src/c.c"),
        ((b"/a", b"C:/inc", b"c.c"), b"C:/inc/c.c"),
        ((b"/a", b"\\\\server\\inc", b"c.c"), b"\\\\server\\inc/c.c"),
        ((b"/a", b"c:c.c"), b"/a/c:c.c"),
        ((b"/a", b"\\c.c"), b"/a/\\c.c"),
        ((b"",), b""),
    ],
)
def test_join_path(pieces: tuple[bytes, ...], expected: bytes) -> None:
    assert join_path(*pieces) == expected


# --- units and programs -----------------------------------------------------------------------------------------------


def test_names_and_compilation_directories_of_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.c").write_text("int a(int x) { return x + 1; }\n")
    (tmp_path / "b.c").write_text("int a(int);\nint main(void) { return a(2); }\n")
    for version in (2, 3, 4, 5):
        program = tmp_path / f"program{version}"
        tool("gcc", f"-gdwarf-{version}", "sub/a.c", "b.c", "-o", program)
        table = read_lines(program)
        assert [(table.name_of(unit), table.comp_dir_of(unit)) for unit in range(table.unit_count)] == [
            (b"sub/a.c", bytes(tmp_path)),
            (b"b.c", bytes(tmp_path)),
        ]
        assert [one.line_offset for one in read_units(program)] == table.units.offset.tolist()
        assert bytes(tmp_path / "sub" / "a.c") in paths_of(table)[1]


def test_the_unit_of_a_program() -> None:
    """A whole compilation unit wins over a partial and a type unit with the same program, then the first; a program
    without a unit has no names."""
    offset, nothing = np.array([0x10, 0x40, 0x80]), np.full(5, -1)
    tags = (DW_TAG.type_unit, DW_TAG.partial_unit, DW_TAG.compile_unit, DW_TAG.compile_unit, DW_TAG.skeleton_unit)
    columns = UnitColumns.defaults(
        5,
        tag=np.array(tags, np.int64),
        line_offset=np.array([0x10, 0x10, 0x10, 0x10, 0x80]),
        comp_dir=np.array([-1, 0, 1, 2, 2]),
        name=nothing,
    )
    table = LineTable(
        byte_order="little",
        units=LineUnitColumns.defaults(3, offset=offset),
        first_directory=np.zeros(4, np.int64),
        directories=PathColumns.defaults(0),
        first_file=np.zeros(4, np.int64),
        files=PathColumns.defaults(0),
        strings=Strings.of([b"/z"]),
        sequence_unit=np.zeros(0, np.uint32),
        first_row=np.zeros(1, np.int64),
        rows=LineRowColumns.empty(0),
    )
    found = with_units(table, DebugUnits(columns, Strings.of((b"/x", b"/y", b"/z"))))
    assert [found.comp_dir_of(unit) for unit in range(3)] == [b"/y", b"", b"/z"]
    assert [found.name_of(unit) for unit in range(3)] == [b""] * 3
    assert found.strings == (b"/z", b"/y")


# .debug_line, version 5: directories and files as DW_FORM_strx1, by indices 1, 2 and 3 from the unit's base.
INDEXED_LINE = """
    2d000000 0500 08 00         # length, version, address_size, segment_selector_size
    25000000                    # header_length
    01 01 01 fb 0e 0d           # as GNU as
    00 01 01 01 01 00 00 00 01 00 00 01
    01 01 25  02 01 02          # one value of a directory: DW_LNCT_path, strx1; two directories
    02 01 25 02 0b  01 03 01    # a file: DW_LNCT_path, strx1, DW_LNCT_directory_index, data1; one file in directory 1
    0000000000                  # padding
"""
INDEXED_SECTIONS = {
    ".debug_info": "11000000 0500 01 08 00000000 01 00000000 10000000",
    ".debug_abbrev": "01 11 00  10 17  72 17  00 00  00",
    ".debug_str_offsets": "1c000000 0500 0000 05050505 05050505 00000000 02000000 05000000 08000000",
    ".debug_str": "7a00 2f7800 796900 612e6300",  # "z", "/x", "yi", "a.c"
}


def test_paths_by_string_indices() -> None:
    """The base is that of the unit of .debug_info: 16, where the offset 0 is."""
    data = {".debug_line": INDEXED_LINE, **INDEXED_SECTIONS}
    contents = [Content(name, octets(text), flags=0) for name, text in data.items()]
    table = read_lines(bytes(tiny_elf(*contents)))
    assert [one.path for one in (*table.directories_of(0), *table.files_of(0))] == [b"/x", b"yi", b"a.c"]
    assert paths_of(table)[1] == (b"/x/yi/a.c",)
    short = replace(contents[3], data=contents[3].data[:-4])
    cut = bytes(tiny_elf(*contents[:3], short, *contents[4:]))
    with pytest.raises(ParseError, match=r"DW_LNCT_path: .debug_str_offsets: there is no index 3"):
        read_lines(cut)
    with pytest.raises(ParseError, match="DW_FORM_strx1 refers to a section or file that is not read"):
        from_debug_line(octets(INDEXED_LINE))


# --- as llvm-symbolizer -----------------------------------------------------------------------------------------------


VARIANTS = {
    **{f"dwarf{version}": (f"-gdwarf-{version}",) for version in (2, 3, 4, 5)},
    "dwarf64": ("-gdwarf-5", "-gdwarf64"),
    "dwarf64-3": ("-gdwarf-3", "-gdwarf64"),
    "split4": ("-gdwarf-4", "-gsplit-dwarf"),
    "split5": ("-gdwarf-5", "-gsplit-dwarf"),
    "types4": ("-gdwarf-4", "-fdebug-types-section"),
    "types5": ("-gdwarf-5", "-fdebug-types-section"),
    "prefix4": ("-gdwarf-4", "-fdebug-prefix-map={folder}=."),
    "prefix5": ("-gdwarf-5", "-ffile-prefix-map={folder}=/usr/src/./program"),
    "compressed": ("-gdwarf-4", "-gz=zlib"),
}
COUNT = 150 if settings.default.max_examples <= 100 else 5 * settings.default.max_examples


def sources(folder: Path) -> list[str]:
    """Sources in two folders, with headers in others, all of which have code; their paths relative to `folder`."""
    for name in ("main", "main/part", "include", "up"):
        (folder / name).mkdir()
    step = (
        "static inline int NAME(int n) { int sum = 0; for (int i = 0; i < n; i++) sum += i * n ^ KEY; return sum; }\n"
    )
    for number, header in enumerate(("main/own.h", "main/part/part.h", "include/shared.h", "up/up.h")):
        name = Path(header).stem
        (folder / header).write_text(
            "".join(step.replace("NAME", f"{name}_{n}").replace("KEY", str(number + n)) for n in range(12))
        )
    includes = '#include "own.h"\n#include "part/part.h"\n#include <shared.h>\n#include "../up/up.h"\n'
    names = []
    for number in range(2):
        bodies = "".join(
            f"int f{number}_{n}(int x)\n{{\n  x += own_{n}(x);\n  if (x > {n})\n    x -= part_{n}(x);\n"
            f"  return shared_{n}(x)\n    + up_{n}(x);\n}}\n"
            for n in range(12)
        )
        marked = f'#line 500 "generated/grammar{number}.y"\nint g{number}(int x) {{ return x * 3; }}\n'
        names.append(f"main/{number}.c")
        (folder / names[-1]).write_text(includes + bodies + marked)
    return names


def symbolized(path: Path, pcs: list[int]) -> list[str]:
    """FILE:LINE:COLUMN of each PC, by llvm-symbolizer."""
    command = [*oracle_command("llvm-symbolizer-22", "sid-llvm"), f"--obj={path}", "--functions=none", "--no-inlines"]
    text = subprocess.run(
        command, input="".join(f"{pc:#x}\n" for pc in pcs), capture_output=True, text=True, check=True
    )
    return text.stdout.split("\n\n")[:-1]


def agrees(path: Path) -> LineTable:
    """Our and llvm-symbolizer's positions of random addresses of a file's units are equal; most have one.

    The padding between two functions is in a sequence, but may be in no unit; llvm-symbolizer looks for the unit first.
    """
    image = open_elf(path)
    ranges = read_address_ranges(image.contents(image.named(".debug_aranges")[0]))
    code = list(zip(ranges.address.tolist(), ranges.length.tolist(), strict=True))
    generator = random.Random(path.name)
    chosen = generator.choices(code, [size for _, size in code], k=COUNT)
    pcs = [start + generator.randrange(size) for start, size in chosen]
    table = read_lines(path)
    ours = [
        "??:0:0" if one is None else f"{one.file.decode()}:{one.line}:{one.column}" for one in find_lines(table, pcs)
    ]
    assert ours == symbolized(path, pcs)
    assert sum(one != "??:0:0" for one in ours) > 0.9 * COUNT
    return table


@pytest.mark.oracle("sid-llvm")
@pytest.mark.parametrize("name", VARIANTS)
def test_positions_as_llvm_symbolizer_prints_them(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = [flag.replace("{folder}", str(tmp_path)) for flag in VARIANTS[name]]
    files = sources(tmp_path)
    tool("gcc", "-O1", "-shared", "-fPIC", "-nostdlib", "-Iinclude", *flags, *files, "-o", f"{name}.so")
    folders = {Path(path.decode()).parent.name for path in paths_of(agrees(tmp_path / f"{name}.so"))[1]}
    assert {"main", "part", "include", "up", "generated"} <= folders


@pytest.mark.oracle("sid-llvm", "bookworm-dbg")
def test_positions_in_libc_as_llvm_symbolizer_prints_them() -> None:
    agrees(
        max(oracle_root("bookworm-dbg").glob("usr/lib/debug/.build-id/*/*.debug"), key=lambda one: one.stat().st_size)
    )
