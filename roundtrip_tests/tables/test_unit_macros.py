"""Macros of compilation units, imports followed: by hand, as a slow reader, and as the compiler's preprocessor.

Strategy: hypothesis draws units that import one another, and files that are started and ended in any order; programs of
gcc have the definitions, files and lines that `gcc -E -dD` prints, and at the end those that `gcc -E -dM` prints.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import Macro, ParseError, Section, flatten_macros, open_elf, read_macros, read_unit_macros, read_units
from unwindkit.converters.macro.table import Macros
from unwindkit.schemas.macros import DW_MACRO, MacroKind

from ..conftest import fewer
from ..support.handmade import octets
from ..support.programs.debug_programs import EVERY_VARIANT, VARIANTS, Variant, built
from ..support.programs.elf_programs import tool
from ..support.work import at_most_calls

DEFINE, START, END = MacroKind.DEFINE, MacroKind.START_FILE, MacroKind.END_FILE


def table(data: str | bytes) -> Macros:
    return read_macros(Section.of(".debug_macro", octets(data) if isinstance(data, str) else data))


# --- imports ----------------------------------------------------------------------------------------------------------

UNITS = """
    0500 00  01 01 4100             # 0: define A at line 1,
             07 16000000            #    import the unit at 0x16,
             01 02 4200             #    define B at line 2,
             07 16000000 00         #    import it again
    0500 00  01 03 4300             # 0x16: define C at line 3,
             07 23000000 00         #    import the unit at 0x23
    0500 00  02 04 4100 00          # 0x23: undef A at line 4
"""


def test_imported_units_take_the_place_of_their_imports(kernels: str) -> None:
    macros = table(UNITS)
    assert macros.unit_offset.tolist() == [0, 0x16, 0x23]
    flat = flatten_macros(macros, 0)
    assert [macros.text_of(entry) for entry in flat.entry.tolist()] == [b"A", b"C", b"A", b"B", b"C", b"A"]
    assert flat.kind.tolist() == [DEFINE, DEFINE, MacroKind.UNDEF, DEFINE, DEFINE, MacroKind.UNDEF]
    assert macros.line[flat.entry].tolist() == [1, 3, 4, 2, 3, 4]
    assert flat.opener.tolist() == [-1] * 6
    assert [macros.text_of(entry) for entry in flatten_macros(macros, 1).entry.tolist()] == [b"C", b"A"]


def test_files_of_entries() -> None:
    unit = """
        0500 00  01 00 4100        # define A, before all files
        03 00 01                   # start file 1
          01 01 4200               #   define B
          03 02 02                 #   start file 2 at line 2
            01 01 4300             #     define C
          04                       #   end file 2
          01 03 4400               #   define D
        04 04                      # end file 1, and a surplus end
        01 00 4500                 # define E, after all files
        03 00 03 01 01 4600 04     # start file 3, define F, end
        00
    """
    flat = flatten_macros(table(unit), 0)
    assert flat.kind.tolist() == [1, 3, 1, 3, 1, 4, 1, 4, 4, 1, 3, 1, 4]
    assert flat.opener.tolist() == [-1, -1, 1, 1, 3, 3, 1, 1, -1, -1, -1, 10, 10]


def test_a_vendors_entry_is_kept_and_one_that_imports_from_a_supplementary_file() -> None:
    flat = flatten_macros(table("0500 04 01 e0 01 0b  e0 01  0a 10000000  00"), 0)
    assert flat.kind.tolist() == [MacroKind.OTHER, MacroKind.OTHER]


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ("0500 00 07 00000000 00", r"\+0x3.*unit\[0\].entry\[0\]: the import leads back to its own unit"),
        ("0500 00 07 09000000 00 0500 00 07 00000000 00", r"\+0xc.*unit\[1\].entry\[0\]: the import leads back"),
        ("0500 00 07 01000000 00", r"\+0x3.*unit\[0\].entry\[0\]: 0x1 is not the offset of a unit"),
        ("0500 00 07 ff000000 00", r"0xff is not the offset of a unit"),
    ],
)
def test_imports_that_lead_nowhere(units: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        flatten_macros(table(units), 0)


def importing(*targets: list[int]) -> bytes:
    """Units that define M at the line of their number, then import others, given by number."""
    places = np.cumsum([0, *(8 + 5 * len(units) for units in targets)]).tolist()
    data = b""
    for number, units in enumerate(targets):
        data += octets("0500 00 01") + bytes([number % 128]) + b"M\0"
        data += b"".join(b"\7" + places[unit].to_bytes(4, "little") for unit in units) + b"\0"
    return data


def test_amplification_by_imports_ends() -> None:
    """Unit n imports unit n + 1 twice; a chain of imports, on the other hand, is as long as it is."""
    with at_most_calls(40_000_000):
        doubling = table(importing(*([number + 1] * 2 for number in range(40)), []))
        with pytest.raises(ParseError, match="more than 1048576 entries"):
            flatten_macros(doubling, 0)
        assert len(flatten_macros(doubling, 30)) == 2**11 - 1
        with pytest.raises(ParseError, match="more than 3000 entries"):
            flatten_macros(doubling, 30, max_entries=3000)
        count = 50_000
        chain = table(importing(*([number + 1] for number in range(count)), []))
        assert len(flatten_macros(chain, 0)) == count + 1


@fewer(2)
@given(st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=1, max_size=6))
def test_imports_as_a_slow_reader_follows_them(steps: list[list[int]]) -> None:
    """Each unit imports units after it."""
    last = len(steps)
    targets = [[min(number + step, last) for step in one] for number, one in enumerate(steps)] + [[]]

    def lines(unit: int) -> list[int]:
        return [unit, *(line for target in targets[unit] for line in lines(target))]

    macros = table(importing(*targets))
    assert macros.line[flatten_macros(macros, 0).entry].tolist() == lines(0)


@fewer(2)
@given(st.lists(st.sampled_from([DW_MACRO.define, DW_MACRO.start_file, DW_MACRO.end_file]), max_size=12))
def test_open_files_as_a_slow_reader_finds_them(opcodes: list[DW_MACRO]) -> None:
    operands = {DW_MACRO.define: b"\1A\0", DW_MACRO.start_file: b"\1\1", DW_MACRO.end_file: b""}
    data = octets("0500 00") + b"".join(bytes([opcode]) + operands[opcode] for opcode in opcodes) + b"\0"
    expected, stack = [], [-1]
    for index, opcode in enumerate(opcodes):
        expected.append(stack[-1])
        if opcode is DW_MACRO.start_file:
            stack.append(index)
        elif opcode is DW_MACRO.end_file and len(stack) > 1:
            stack.pop()
    assert flatten_macros(table(data), 0).opener.tolist() == expected


# --- programs ---------------------------------------------------------------------------------------------------------


def preprocessed(
    folder: Path, compiler: str, name: str, flags: tuple[str, ...]
) -> list[tuple[MacroKind, str, int, str]]:
    """Kind, file, line and text of each definition that `-E -dD` prints; "" for a file that is no file."""
    command = (compiler, *flags, "-E", "-dD", f"{name}.c")
    found, file, line = [], "", 0
    for text in tool("env", f"--chdir={folder}", *command).splitlines():
        marker = re.match(r'# (\d+) "(.*)"', text)
        if marker:
            line, file = int(marker[1]), "" if marker[2].startswith("<") else str(folder / marker[2])
            continue
        one = re.match(r"#(define|undef) (.*)", text)
        if one:
            kind = MacroKind.DEFINE if one[1] == "define" else MacroKind.UNDEF
            found.append((kind, file, line if file else 0, one[2]))
        line += 1
    return found


def defined_at_end(macros: list[Macro]) -> set[bytes]:
    """The definitions that are in force after all entries."""
    found: dict[bytes, bytes] = {}
    for one in macros:
        if one.kind is MacroKind.DEFINE:
            found[re.split(rb"[ (]", one.text)[0]] = one.text
        elif one.kind is MacroKind.UNDEF:
            found.pop(one.text, None)
    return set(found.values())


@EVERY_VARIANT
def test_macros_as_the_preprocessor_prints_them(variant: Variant, debug_folder: Path) -> None:
    built_object, program = built(debug_folder, variant)
    folder, compiler = program.parent, variant.machine + variant.program
    flags = ("-O1", "-DFROM_COMMAND_LINE=7")
    units = list(read_unit_macros(program))
    assert [unit.unit.name for unit in units] == [b"main.c", b"other.c"]
    for unit, name in zip(units, ("main", "other"), strict=True):
        macros = list(unit)
        expected = preprocessed(folder, compiler, name, flags)
        ours = [
            (one.kind, one.file.decode(), one.line if one.file else 0, one.text.decode().rstrip())
            for one in macros
            if one.kind in (MacroKind.DEFINE, MacroKind.UNDEF)
        ]
        in_files = [one for one in ours if one[1]]
        assert in_files == [(*one[:3], one[3].rstrip()) for one in expected if one[1]]
        assert len(in_files) > 8
        dumped = tool("env", f"--chdir={folder}", compiler, *flags, "-E", "-dM", f"{name}.c")
        at_end = {line.removeprefix("#define ").rstrip().encode() for line in dumped.splitlines()}
        assert {text.rstrip() for text in defined_at_end(macros)} == at_end
        assert {unit.paths[path] for path in set(unit.path.tolist()) if path >= 0} == {
            one[1].encode() for one in expected if one[1]
        } | {bytes(folder / f"{name}.c")}
    # The object has the macros in several sections of one name.
    assert list(next(read_unit_macros(built_object))) == list(units[0])


def test_where_files_are_included(debug_folder: Path) -> None:
    """other.c includes other.h at line 1, which includes shared.h at line 1."""
    variant = next(one for one in VARIANTS if one.name == "dwarf5")
    _, unit = read_unit_macros(built(debug_folder, variant)[1])
    place = next(index for index, one in enumerate(unit) if one.text.startswith(b"SHARED("))
    chain = []
    while place >= 0:
        chain.append((Path(unit[place].file.decode()).name, unit[place].line))
        place = int(unit.opener[place])
    assert chain == [("shared.h", 1), ("shared.h", 1), ("other.h", 1), ("other.c", 0)]


def test_the_program_that_a_macro_unit_refers_to_names_its_files(debug_folder: Path) -> None:
    """DW_AT_stmt_list of the second unit is changed to the first one's program."""
    program = built(debug_folder, next(one for one in VARIANTS if one.name == "dwarf5"))[1]
    data, second = bytearray(program.read_bytes()), list(read_units(program))[1]
    start = open_elf(program).named(".debug_info")[0].file_offset + second.offset
    place = data.index(second.line_offset.to_bytes(4, "little"), start)
    assert place < start + 60
    data[place : place + 4] = bytes(4)
    assert list(read_units(bytes(data)))[1].line_offset == 0
    assert list(list(read_unit_macros(bytes(data)))[1]) == list(list(read_unit_macros(program))[1])


def test_a_file_without_units_has_no_macros(debug_folder: Path, tmp_path: Path) -> None:
    program = built(debug_folder, VARIANTS[0])[1]
    tool("strip", "-o", tmp_path / "stripped", program)
    assert list(read_unit_macros(tmp_path / "stripped")) == []
    tool("objcopy", "--remove-section=.debug_macro", program, tmp_path / "without")
    with pytest.raises(ParseError, match="the file has no such section"):
        list(read_unit_macros(tmp_path / "without"))
