"""`-` for standard input and output, in every command; `unwindkit --version`; dump without options; symbols for `find`.

Strategy: a command writes the same bytes to standard output as to a file, and standard input gives the same result
as a file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import unwindkit as library

from ..support.commands import DONE, WRONG, build_program, refuses, unwindkit, usage_error
from ..support.loaded_command import WARNINGS
from ..support.programs import compiled
from ..support.tiny_elf import CFI, CODE, ET_REL, Content, tiny_elf


@pytest.fixture(name="program", scope="module")
def _program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program(tmp_path_factory.mktemp("streams"))


def piped(*arguments: str | Path, given: bytes = b"") -> tuple[bytes, list[str]]:
    """Standard output and the lines of standard error of a command that succeeds; its standard input is a pipe."""
    command = [sys.executable, "-m", "unwindkit", *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, check=False, env=os.environ | WARNINGS)
    assert done.returncode == DONE, done.stderr
    return done.stdout, done.stderr.decode().splitlines()


def test_version() -> None:
    done = unwindkit("--version")
    assert (done.returncode, done.stdout) == (DONE, f"unwindkit {library.__version__}\n")
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", library.__version__)


# Each command that writes a result, with its options, without FILE.
COMMANDS = {
    "sframe": ("sframe", "-o"),
    "the section alone": ("sframe", "--section"),
    "edit": ("edit", "--drop", "main", "-o"),
    "breakpad": ("breakpad", "-o"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_result_on_standard_output_is_that_of_a_file(name: str, program: Path, tmp_path: Path) -> None:
    out = tmp_path / "main"
    assert unwindkit(*COMMANDS[name], out, program).returncode == DONE
    data, lines = piped(*COMMANDS[name], "-", program)
    assert data == out.read_bytes()
    assert lines[0].startswith("main: " if name == "breakpad" else "-: ")
    assert not Path("-").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_standard_input_gives_what_the_file_gives(name: str, program: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    data, _ = piped(*COMMANDS[name], "-", "-", given=program.read_bytes())
    piped(*COMMANDS[name], out, "-", given=program.read_bytes())
    assert out.read_bytes() == data
    from_file, _ = piped(*COMMANDS[name], "-", program)
    # A module without DT_SONAME gets its file's name.
    assert data == (from_file.replace(b" main\n", b" -\n", 1) if name == "breakpad" else from_file)


def test_commands_in_a_pipe(program: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    with_sframe, _ = piped("sframe", program, "-o", "-")
    whole.write_bytes(with_sframe)
    address = library.open_elf(whole).named(".sframe")[0].address
    section, lines = piped("convert", "-", "-", "--to", "sframe", "--section", given=with_sframe)
    assert lines[0].startswith("-: ")
    assert section == bytes(library.open_elf(whole).contents(library.open_elf(whole).named(".sframe")[0]).data)
    merged, lines = piped("merge", "-", "-o", "-", "--address", hex(address), given=with_sframe)
    assert library.by_pc(library.from_sframe(merged, address)) == library.by_pc(library.from_sframe(section, address))
    assert lines[0].startswith("-: ")
    raw = ("--address", hex(address), "--from", "sframe")
    directives, _ = piped("convert", "-", "-", "--to", "directives", *raw, given=section)
    assert b".cfi_startproc" in directives
    without, lines = piped("remove", "-", "-o", "-", given=with_sframe)
    assert lines[0].startswith("-: removed 1 .sframe section of ")
    assert [one["name"] for one in info_of(without)] == [".eh_frame", ".eh_frame_hdr"]


def info_of(data: bytes) -> list[dict[str, object]]:
    found = json.loads(piped("info", "--json", "-", given=data)[0])
    assert found["file"] == "-"
    sections: list[dict[str, object]] = found["sections"]
    return sections


def test_a_symbol_file_from_standard_input(program: Path) -> None:
    symbols, _ = piped("breakpad", program)
    lines, _ = piped(
        *("convert", "-", "-", "--from", "breakpad", "--to", "breakpad", "--arch", "x86_64"), given=symbols
    )
    assert lines == symbols[symbols.index(b"STACK CFI") :]


def test_reading_commands_print_the_same_for_standard_input(program: Path) -> None:
    data = program.read_bytes()
    assert piped("dump", "--frames", "-", given=data) == piped("dump", "--frames", program)
    assert piped("find", "-", "main", given=data) == piped("find", program, "main")


def test_figures_on_standard_output(program: Path, tmp_path: Path) -> None:
    report, _ = piped("sframe", program, "-o", tmp_path / "out", "--report", "-")
    found = json.loads(report)
    assert (found["file"], found["output"]) == (str(program), str(tmp_path / "out"))


def test_what_standard_streams_cannot_be(program: Path, tmp_path: Path) -> None:
    for arguments, says in (
        (("sframe", program, "-o", "-", "--report", "-"), "- cannot be both the result and the report"),
        (("sframe", "-", "--in-place"), "--in-place requires a file, not standard input"),
        (("remove", "-", "--in-place"), "--in-place requires a file, not standard input"),
        (("edit", "-", "--in-place", "--drop", "main"), "--in-place requires a file, not standard input"),
        (("merge", "-", "-", "-o", tmp_path / "out"), "only one input can be standard input"),
    ):
        done = unwindkit(*arguments)
        assert (done.returncode, done.stdout) == (WRONG, "")
        assert usage_error(done).endswith(f"error: {says}")


def test_errors_name_the_stream(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unwindkit"]
    for arguments, given, says in (
        (("info", "-"), b"", "the file is empty"),
        (
            ("merge", "-", "-o", "-"),
            b"\xe2\xde",
            ".sframe+0x0: preamble: 2 bytes do not hold a preamble of 4",
        ),
        (("sframe", "-", "-o", "-"), b"text", "not an ELF file"),
    ):
        done = subprocess.run([*command, *arguments], input=given, capture_output=True, check=False, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (WRONG, b"")
        assert done.stderr.decode() == f"unwindkit: -: {says}\n"
    assert list(tmp_path.iterdir()) == []


# --- dump without options -----------------------------------------------------------------------------------------


def test_dump_alone_prints_the_sections_that_info_lists(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert unwindkit("sframe", program, "-o", path).returncode == DONE
    listed = {section.name for section in library.info(path).sections}
    assert listed == {".eh_frame", ".eh_frame_hdr", ".sframe"}
    done = unwindkit("dump", path)
    assert (done.returncode, done.stderr) == (DONE, "")
    assert done.stdout == unwindkit("dump", "--frames", "--sframe", path).stdout
    assert all(re.search(rf"{re.escape(name)}(?![\w.])", done.stdout) for name in listed)
    names = [section["section"] for section in json.loads(unwindkit("dump", "--json", path).stdout)]
    assert set(names) == listed


def test_dump_alone_of_an_object_prints_its_call_frame_information(tmp_path: Path) -> None:
    path = tmp_path / "file.o"
    path.write_bytes(tiny_elf(CODE, CFI, e_type=ET_REL))
    done = unwindkit("dump", path)
    assert done.returncode == DONE
    assert done.stdout == unwindkit("dump", "--frames", path).stdout
    path.write_bytes(tiny_elf(CODE, CFI, Content(".sframe", b""), e_type=ET_REL))
    both = unwindkit("dump", path)
    empty = "\nSection '.sframe' has no debugging data.\n"
    assert (both.returncode, both.stdout) == (DONE, done.stdout + empty)


def test_dump_alone_of_a_file_without_unwind_information(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(tiny_elf(CODE))
    refuses(path, "dump", path, says="the file has none of .eh_frame_hdr, .eh_frame, .debug_frame, .sframe")


# --- symbols for find ---------------------------------------------------------------------------------------------


def test_find_takes_names(program: Path) -> None:
    (main,) = library.addresses_of_names(library.open_elf(program), ["main"])["main"]
    (start,) = library.addresses_of_names(library.open_elf(program), ["_start"])["_start"]
    by_address = unwindkit("find", program, hex(main), hex(start)).stdout.splitlines()
    done = unwindkit("find", program, "main", hex(start), "_start")
    assert done.returncode == DONE
    lines = done.stdout.splitlines()
    assert lines[0] == f"{main:#x} <main>"
    assert lines[1:4] == by_address[1:4]
    assert lines[4] == f"{start:#x} <_start>"
    found = json.loads(unwindkit("find", "--json", program, "main", hex(main)).stdout)
    assert [one.pop("name", None) for one in found] == ["main", None]
    assert found[0] == found[1]
    refuses(program, "find", program, "main", "nothing", says="symbols: no function is called nothing")


def test_find_shows_every_function_of_a_name(tmp_path: Path) -> None:
    compiled.require()
    same = "static __attribute__((noinline)) int same(int x) { return x + 1; }"
    for name in "ab":
        (tmp_path / f"{name}.c").write_text(f"{same}\nint {name}(int x) {{ return same(x) * 2; }}\n")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "a.c", "b.c", "-o", "lib.so"], cwd=tmp_path, check=True)
    done = unwindkit("find", tmp_path / "lib.so", "same")
    headings = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert len(headings) == 2
    assert all(re.fullmatch("0x[0-9a-f]+ <same>", line) for line in headings)
