"""Function, inlined functions, file and line of addresses: symbol files written by hand, the command's text, and
programs that addr2line is asked about, too."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import unwindkit
from unwindkit import ParseError, SourceFrame

from ..support.commands import unwindkit as command
from ..support.oracles import oracle_root
from ..support.programs.symbol_programs import GCC, built
from ..support.symbol_files.judge import consult, judge, report, sample
from ..support.symbol_files.names import match
from ..support.symbol_files.records import Frame
from ..support.symbol_files.referees import ADDR2LINE, aliases, ask, normalize_path
from ..support.tiny_elf import CODE, STRTAB, SYMTAB, Content, patched, tiny_elf

SYMBOLS = b"""\
MODULE Linux x86_64 000000000000000000000000000000000 nested
FILE 0 /src/main.c
FILE 7 /src/with space.h
INLINE_ORIGIN 0 ns::outer(int)
INLINE_ORIGIN 1 _ZN2ns5innerEv
FUNC 1000 40 0 main
INLINE 0 10 0 0 1008 10 1030 8
INLINE 1 20 7 1 1008 8
1000 8 9 0
1008 8 30 7
1010 8 21 7
1018 18 0 0
1030 8 22 7
FUNC 1040 10 0 <name omitted>
PUBLIC 1080 0 assembler
PUBLIC 1080 0 not the first here
PUBLIC 10a0 0 last one
FUNC 10b0 8 0 end
"""
MAIN, HEADER = "/src/main.c", "/src/with space.h"
FRAMES = {
    0xFFF: [("", "", 0)],
    0x1000: [("main", MAIN, 9)],
    0x100F: [("ns::inner()", HEADER, 30), ("ns::outer(int)", HEADER, 20), ("main", MAIN, 10)],
    0x1010: [("ns::outer(int)", HEADER, 21), ("main", MAIN, 10)],
    0x1018: [("main", MAIN, 0)],  # no line
    0x1030: [("ns::outer(int)", HEADER, 22), ("main", MAIN, 10)],
    0x1038: [("main", "", 0)],
    0x104F: [("", "", 0)],  # without a name
    0x1050: [("", "", 0)],
    0x109F: [("assembler", "", 0)],
    0x10AF: [("last one", "", 0)],
    0x10B7: [("end", "", 0)],
    0x10B8: [("", "", 0)],
    (1 << 64) - 1: [("", "", 0)],
}


def expected(frames: list[tuple[str, str, int]]) -> tuple[SourceFrame, ...]:
    return tuple(SourceFrame(*one, is_inlined=one is not frames[-1]) for one in frames)


def test_frames_of_a_symbol_file() -> None:
    """In any order, with repetitions."""
    pcs = [*reversed(FRAMES), 0x1000, 0x1000]
    found = unwindkit.symbolize(SYMBOLS, pcs)
    assert list(found) == [expected(FRAMES[pc]) for pc in pcs]
    assert len(found) == len(pcs)
    assert len(unwindkit.symbolize(SYMBOLS, [])) == 0


def test_load_address_and_names_as_they_are() -> None:
    found = unwindkit.symbolize(SYMBOLS, [0x40100F, 0x401090, 0x100F], address=0x400000, demangle=False)
    assert [[frame.function for frame in frames] for frames in found] == [
        ["_ZN2ns5innerEv", "ns::outer(int)", "main"], ["assembler"], [""],
    ]  # fmt: skip


def test_an_inline_outside_its_function_is_not_in_the_next_one() -> None:
    text = b"FILE 0 a.c\nINLINE_ORIGIN 0 wide\nFUNC 10 10 0 first\nINLINE 0 1 0 0 10 30\nFUNC 20 20 0 second\n"
    found = unwindkit.symbolize(b"MODULE Linux x86_64 0 f\n" + text, [0x15, 0x25])
    assert [[one.function for one in frames] for frames in found] == [["wide", "first"], ["second"]]


@pytest.mark.parametrize("line", [b"PUBLIC xyz 0 name", b"PUBLIC 10", b"FUNC 10 x 0 f", b"INLINE 0 1 0 0"])
def test_a_malformed_symbol_file_is_refused(line: bytes) -> None:
    with pytest.raises(ParseError, match="line 2"):
        unwindkit.symbolize(b"MODULE Linux x86_64 0 f\n" + line + b"\n", [0x10])


def symbol(name: int, info: int, value: int, size: int) -> bytes:
    """An Elf64_Sym in section 1, the code."""
    return struct.pack("<IBBHQQ", name, info, 0, 1, value, size)


def test_symbols_name_code_without_debugging_information() -> None:
    """A symbol without a size ends at the next one, or with its section; the last one has 8 bytes."""
    names = b"\0first\0_Z6secondv\0alias\0"
    function = 0x12  # STB_GLOBAL, STT_FUNC
    records = (
        symbol(1, function, 0x1010, 0), symbol(7, function, 0x1020, 8), symbol(18, 2, 0x1020, 8),
        symbol(1, function, 0x1070, 0),
    )  # fmt: skip
    table, pool = (
        Content(".symtab", bytes(24) + b"".join(records), SYMTAB, 0),
        Content(".strtab", names, STRTAB, 0),
    )
    file = patched(tiny_elf(CODE, table, pool), section=2, sh_link=3, sh_entsize=24)
    asked = {0x100F: "", 0x1010: "first", 0x101F: "first", 0x1027: "second()", 0x1028: "", 0x107F: "first", 0x1080: ""}
    assert [frames for (frames,) in unwindkit.symbolize(file, list(asked))] == [
        SourceFrame(name, "", 0, False) for name in asked.values()
    ]


# --- the command ------------------------------------------------------------------------------------------------------

# addr2line's output for these options; 0x is not necessary.
PRINTED = {
    "": "/src/with space.h:30\n/src/main.c:?\n??:0\n",
    "-s": "with space.h:30\nmain.c:?\n??:0\n",
    "-f": "_ZN2ns5innerEv\n/src/with space.h:30\nmain\n/src/main.c:?\n??\n??:0\n",
    "-i": "/src/with space.h:30\n/src/with space.h:20\n/src/main.c:10\n/src/main.c:?\n??:0\n",
    "-a": "0x0000000000001008\n/src/with space.h:30\n0x0000000000001018\n/src/main.c:?\n0x0000000000001050\n??:0\n",
    "-fipsC": (
        "ns::inner() at with space.h:30\n (inlined by) ns::outer(int) at with space.h:20\n"
        " (inlined by) main at main.c:10\nmain at main.c:?\n?? ??:0\n"
    ),
    "-ap": "0x0000000000001008: /src/with space.h:30\n0x0000000000001018: /src/main.c:?\n0x0000000000001050: ??:0\n",
}


@pytest.fixture(name="symbol_path")
def symbol_path_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "nested.sym"
    path.write_bytes(SYMBOLS)
    return path


@pytest.mark.parametrize("options", PRINTED)
def test_text_of_the_command(options: str, symbol_path: Path) -> None:
    words = options.split()
    done = command("symbolize", *words, symbol_path, "1008", "0x1018", "1050")
    assert (done.returncode, done.stdout, done.stderr) == (0, PRINTED[options], "")
    again = command("symbolize", *words, "-e", symbol_path, "1008", "0x1018", "1050")
    assert again.stdout == done.stdout


def test_addresses_in_standard_input_and_json(symbol_path: Path) -> None:
    words = [sys.executable, "-m", "unwindkit", "symbolize", "-C", "--json", str(symbol_path)]
    done = subprocess.run(words, input="1008\n 0x1050\n", capture_output=True, text=True, check=True)
    first, second = json.loads(done.stdout)
    assert first["pc"] == 0x1008
    assert first["frames"][0] == {"function": "ns::inner()", "file": HEADER, "line": 30, "inlined": True}
    assert [one["inlined"] for one in first["frames"]] == [True, True, False]
    assert second == {"pc": 0x1050, "frames": [{"function": None, "file": None, "line": None, "inlined": False}]}


@pytest.mark.parametrize("words", [["xyz"], ["-1"], ["1" * 17], []])
def test_wrong_usage(words: list[str], symbol_path: Path) -> None:
    done = command("symbolize", *([symbol_path] if words else []), "--", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert ("is not a hexadecimal address" if words else "FILE is missing") in done.stderr


# --- other programs ---------------------------------------------------------------------------------------------------


@pytest.mark.oracle("sid-llvm", "eu-addr2line")
@pytest.mark.parametrize("is_symbol_file", [False, True])
def test_a_program_as_referees_see_it(
    is_symbol_file: bool, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With and without a symbol file in between."""
    folder = tmp_path_factory.mktemp("programs")
    program = built(folder, next(one for one in GCC if one.name == "gcc-dwarf5-O3"))
    addresses = sample(program.path, 600, seed=7)
    source = program.path
    if is_symbol_file:
        source = tmp_path / "program.sym"
        unwindkit.write_breakpad(program.path, source)
    found = unwindkit.symbolize(source, addresses)
    by_address = {pc: frames_of(one) for pc, one in zip(addresses, found, strict=True)}
    tally = judge(by_address.__getitem__, consult(program.plain, addresses, tmp_path))
    assert tally.sampled > 300
    # Of lambdas and what is made of them, DWARF's names differ from mangled ones; places never do.
    assert set(tally.kinds) <= {"another function", "chain: another caller"}, report("program", tally)
    assert tally.share()[0] > 0.98
    assert tally.lost == 0


def frames_of(frames: tuple[SourceFrame, ...]) -> tuple[Frame, ...]:
    known = tuple(Frame(one.function, normalize_path(one.file), one.line) for one in frames)
    return () if known == (Frame("", "", 0),) else known


@pytest.mark.oracle("bookworm-dbg")
def test_the_c_library_as_addr2line_sees_it() -> None:
    """Functions, inlined functions, files and lines are equal, but: where several symbols have one address, another may
    be chosen; between functions (padding), addr2line repeats the name of the symbol before."""
    path = next(oracle_root("bookworm-dbg").glob("usr/lib/debug/.build-id/93/ac61*.debug"))
    addresses = sample(path, 500, seed=5)
    equals = aliases(path)
    differences: Counter[str] = Counter()
    answers = ask(ADDR2LINE, path, addresses)
    for one, other in zip(answers, map(frames_of, unwindkit.symbolize(path, addresses)), strict=True):
        if [(frame.file, frame.line) for frame in one] != [(frame.file, frame.line) for frame in other]:
            differences["place" if other and other[-1].function else "between functions"] += 1
        elif any(not frame.function for frame in other):
            differences["between functions"] += 1
        for frame, ours in zip(one, other, strict=False):
            is_same = match(frame.function, ours.function) or ours.function in equals.get(frame.function, ())
            differences["name"] += bool(ours.function) and not is_same
    assert differences["place"] == differences["name"] == 0
    assert differences["between functions"] <= 0.04 * len(addresses)
