"""`unwindkit breakpad`: one file, stores, many files, and the messages about files that lack something."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from unwindkit import (
    BuildError,
    Failure,
    FormatError,
    read_elf,
    store_breakpad,
    to_stack_cfi,
    write_breakpad,
    write_breakpad_many,
)
from unwindkit.schemas.breakpad.files import read_records
from unwindkit.schemas.breakpad.records import InfoCodeId, Module, Public, StackCfi, StackCfiInit
from unwindkit.schemas.section import ParseError

from ..cfi.test_cfi_reading import libc
from ..support.commands import DIFFERENT, DONE, WRONG, build_program, refuses, unwindkit
from ..support.programs.elf_programs import tool
from ..support.tiny_elf import CFI, CODE, ET_REL, Content, tiny_elf

ID = "33221100554477668899AABBCCDDEEFF0"
WITH_ID = "-Wl,--build-id=0x00112233445566778899aabbccddeeff01020304"


@pytest.fixture(name="program")
def _program(tmp_path: Path) -> Path:
    """A program with a known build id."""
    build_program(tmp_path)
    path = tmp_path / "main.c"
    return compiled(path.with_name("program"), path.read_text(), WITH_ID)


def compiled(path: Path, text: str, *options: str) -> Path:
    source = path.with_name(f"{path.name}.c")
    source.write_text(text)
    tool("gcc", "-O2", "-fasynchronous-unwind-tables", source, "-o", path, *options)
    return path


def kinds(data: bytes) -> list[type]:
    """The kinds of record in their order, each run of the same kind once."""
    found = [type(record) for _, record in read_records(io.BytesIO(data))]
    return [kind for index, kind in enumerate(found) if index == 0 or found[index - 1] is not kind]


def test_one_file(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "program.sym"
    done = unwindkit("breakpad", program, "-o", out)
    assert (done.returncode, done.stdout) == (DONE, "")
    data = out.read_bytes()
    head = f"MODULE Linux x86_64 {ID} program\nINFO CODE_ID 00112233445566778899AABBCCDDEEFF01020304\nPUBLIC "
    assert data.decode().startswith(head)
    assert set(kinds(data)) == {Module, InfoCodeId, Public, StackCfiInit, StackCfi}
    assert kinds(data)[:4] == [Module, InfoCodeId, Public, StackCfiInit]
    assert data.endswith(to_stack_cfi(read_elf(program, "all"))[0])
    functions, publics = len(read_elf(program, "all")), data.count(b"\nPUBLIC ")
    first, second = done.stderr.splitlines()
    assert first == f"{out}: {ID}: {publics} public symbols, {len(data):,} bytes"
    assert second.startswith(f"  STACK CFI: {functions} functions of .eh_frame; ")
    assert second.endswith(" code bytes covered")


def test_standard_output_and_the_library_give_the_same(program: Path, tmp_path: Path) -> None:
    stream = io.BytesIO()
    report = write_breakpad(program, stream)
    write_breakpad(program, tmp_path / "a.sym")
    assert stream.getvalue() == (tmp_path / "a.sym").read_bytes()
    assert (report.id, report.size, report.output) == (ID, len(stream.getvalue()), "")
    done = unwindkit("breakpad", program)
    assert done.stdout.encode() == stream.getvalue()
    assert done.stderr.startswith(f"program: {ID}: ")


def test_cfi_only_has_no_public(program: Path, tmp_path: Path) -> None:
    done = unwindkit("breakpad", program, "--cfi-only", "-o", tmp_path / "a.sym")
    assert done.returncode == DONE
    assert kinds((tmp_path / "a.sym").read_bytes())[:3] == [Module, InfoCodeId, StackCfiInit]
    assert ": 0 public symbols, " in done.stderr


def test_a_stripped_file_says_what_its_dynamic_symbols_say(tmp_path: Path) -> None:
    text = """int seen(int n) { return n + 1; }
        __attribute__((noinline)) static int hidden(int n) { return n * seen(n); }
        int user(int n) { return hidden(n); }"""
    library = compiled(tmp_path / "lib.so.1", text, "-shared", "-fPIC")
    tool("strip", library)
    out = io.BytesIO()
    report = write_breakpad(library, out)
    names = [record.name for _, record in read_records(io.BytesIO(out.getvalue())) if isinstance(record, Public)]
    assert sorted(names) == ["seen", "user"]
    assert (report.name, report.publics) == ("lib.so.1", 2)


def test_both_sections_without_duplicates(tmp_path: Path) -> None:
    """main() only in .debug_frame, the rest in .eh_frame; functions of both are written once."""
    text = "int main(void) { return 0; }"
    program = compiled(tmp_path / "both", text, "-g", "-Wa,--gdwarf-cie-version=3", "-fno-asynchronous-unwind-tables")
    starts = [record.address for _, record in said(program) if isinstance(record, StackCfiInit)]
    assert len(starts) == len(set(starts))
    table = read_elf(program, "all")
    assert table.source == ".eh_frame and .debug_frame"
    (main,) = (address for address, name in symbols(program) if name == "main")
    assert main in starts
    assert main not in read_elf(program).functions.start.tolist()


def said(path: Path) -> list[tuple[int, object]]:
    stream = io.BytesIO()
    write_breakpad(path, stream)
    return list(read_records(io.BytesIO(stream.getvalue())))


def symbols(path: Path) -> list[tuple[int, str]]:
    words = (line.split() for line in tool("nm", "--defined-only", path).splitlines())
    return [(int(address, 16), name) for address, _, name in words]


def test_a_file_without_call_frame_information(tmp_path: Path) -> None:
    """People lost crash stacks to that, silently."""
    bare = ("-nostdlib", "-static", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-Wl,-e,main")
    program = compiled(tmp_path / "bare", "int main(void) { for (;;) {} }", *bare)
    tool("objcopy", "--remove-section=.eh_frame", program)
    done = unwindkit("breakpad", program, "-o", tmp_path / "a.sym")
    assert done.returncode == DONE
    warning = "  no call frame information: stack walks will end in this file"
    assert done.stderr.splitlines()[1:] == [warning]
    assert kinds((tmp_path / "a.sym").read_bytes())[-1] is Public
    assert unwindkit("breakpad", program, "--strict", "-o", tmp_path / "b.sym").returncode == DIFFERENT
    assert (tmp_path / "b.sym").read_bytes() == (tmp_path / "a.sym").read_bytes()
    done = unwindkit("breakpad", program, "--store", tmp_path / "store", "--strict")
    assert done.returncode == DIFFERENT
    assert done.stderr.endswith("1 file: 1 done, 0 failed; 1 file without call frame information\n")


def test_a_debug_file_has_none_either(program: Path, tmp_path: Path) -> None:
    debug = tmp_path / "program.debug"
    tool("objcopy", "--only-keep-debug", program, debug)
    report = write_breakpad(debug, io.BytesIO())
    assert (report.functions, report.id, report.is_whole) == (0, ID, False)


def test_what_cannot_be_said_fails_strict(tmp_path: Path) -> None:
    text = """void odd(void);
        __asm__(".text\\n.globl odd\\nodd: .cfi_startproc\\n.cfi_escape 0x0f, 5, 0x77, 0, 0x76, 0, 0x27\\n"
                "nop\\n.cfi_endproc\\n");
        int main(void) { odd(); return 0; }"""
    program = compiled(tmp_path / "odd", text)
    done = unwindkit("breakpad", program, "--strict", "-o", tmp_path / "a.sym")
    assert done.returncode == DIFFERENT
    assert "  refused: 1 range, 1 bytes: " in done.stderr


def test_symbols_and_functions_outside_what_is_loaded(program: Path, tmp_path: Path) -> None:
    tool("objcopy", "--add-symbol", "far=.text:0x10000000,function,global", program)
    done = unwindkit("breakpad", program, "-o", tmp_path / "a.sym")
    assert "  left out: 1 outside the loaded segments" in done.stderr.splitlines()
    assert b" far\n" not in (tmp_path / "a.sym").read_bytes()


def test_a_store(program: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    place = store / "program" / ID / "program.sym"
    done = unwindkit("breakpad", program, "--store", store)
    assert done.returncode == DONE
    assert [path for path in store.rglob("*") if path.is_file()] == [place]
    write_breakpad(program, tmp_path / "a.sym")
    assert place.read_bytes() == (tmp_path / "a.sym").read_bytes()
    assert place.stat().st_mode & 0o777 == (tmp_path / "a.sym").stat().st_mode & 0o777
    assert store_breakpad(program, store).is_new is False
    again = unwindkit("breakpad", program, "--store", store)
    assert again.returncode == DONE
    assert "  already in the store, with the same content" in again.stderr.splitlines()


def test_two_files_of_one_name_and_id_with_another_content(program: Path, tmp_path: Path) -> None:
    """The existing one stays; with both in one run, the first."""
    store, other = tmp_path / "store", tmp_path / "other" / "program"
    other.parent.mkdir()
    shutil.copy(program, other)
    tool("strip", other)
    first = store_breakpad(program, store)
    before = Path(first.output).read_bytes()
    with pytest.raises(BuildError, match=r"program\.sym already exists with different content"):
        store_breakpad(other, store)
    assert Path(first.output).read_bytes() == before
    assert sorted(path.name for path in Path(first.output).parent.iterdir()) == ["program.sym"]
    done = unwindkit("breakpad", program, other, "--store", tmp_path / "new", "-j", "2")
    assert done.returncode == WRONG
    assert done.stderr.count("already exists with different content") == 1
    assert done.stderr.endswith("2 files: 1 done, 1 failed\n")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_many_files_and_folders(program: Path, tmp_path: Path, jobs: str) -> None:
    tree, store = tmp_path / "tree", tmp_path / "store"
    (tree / "lib").mkdir(parents=True)
    shutil.copy(program, tree / "lib" / "a")
    shutil.copy(program, tree / "lib" / "b")
    (tree / "broken").write_bytes(tiny_elf(CODE, Content(".eh_frame", CFI.data[:-1])))
    (tree / "object.o").write_bytes(tiny_elf(e_type=ET_REL))
    (tree / "text").write_text("no program")
    (tree / "link").symlink_to("lib/a")
    done = unwindkit("breakpad", tree, "--store", store, "-j", jobs)
    assert done.returncode == WRONG
    assert sorted(path.name for path in store.rglob("*.sym")) == ["a.sym", "b.sym"]
    assert f"unwindkit: {tree}/broken: .eh_frame+" in done.stderr
    assert done.stderr.endswith("3 files: 2 done, 1 failed\n")
    with ThreadPoolExecutor(2) as executor:
        outcomes = list(write_breakpad_many([tree / "lib" / "a", tree / "text"], store, executor, cfi_only=True))
    # The first one is stored with PUBLIC records, so its content differs.
    assert [isinstance(one, Failure) for one in outcomes] == [True, True]


def test_wrong_usage_and_broken_files_leave_nothing(program: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(tiny_elf(CODE, Content(".eh_frame", CFI.data[:-1])))
    out = tmp_path / "a.sym"
    out.write_text("as it was")
    says = ".eh_frame+0x2d (file 0x1ad): entry[2].length: the length reaches past the section's end"
    refuses(broken, "breakpad", broken, "-o", out, says=says)
    assert out.read_text() == "as it was"
    assert unwindkit("breakpad", broken).stdout == ""
    for wrong in ((program,), ("-j", "0"), ("-o", program), ("--store", tmp_path, "-j", "0")):
        assert unwindkit("breakpad", program, *wrong).returncode == WRONG
    done = unwindkit("breakpad", program, "-o", tmp_path / "none" / "a.sym")
    assert (done.returncode, done.stderr.count("\n")) == (WRONG, 1)
    relocatable = tmp_path / "main.o"
    tool("gcc", "-c", tmp_path / "main.c", "-o", relocatable)
    with pytest.raises(ParseError, match="is a relocatable file"):
        write_breakpad(relocatable, io.BytesIO())


@pytest.mark.oracle("sid-amd64")
def test_a_reader_that_has_seen_enough() -> None:
    """No error, though the output is larger than a pipe's buffer."""
    command = [sys.executable, "-m", "unwindkit", "breakpad", libc("sid-amd64")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(12) == b"MODULE Linux"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == DIFFERENT


@pytest.mark.parametrize("at", range(0, 64, 7))
def test_bytes_changed_in_headers_give_errors_of_ours(program: Path, tmp_path: Path, at: int) -> None:
    data = bytearray(program.read_bytes())
    for value in (0, 0xFF):
        data[at] = value
        (tmp_path / "changed").write_bytes(data)
        with suppress(FormatError):
            write_breakpad(tmp_path / "changed", io.BytesIO())
