"""`unwindkit breakpad` of files with debug information: functions, inlined calls, lines, and the names of files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from unwindkit import (
    BreakpadReport,
    DebugFiles,
    from_function_records,
    prefix_map,
    repository_map,
    to_function_records,
    write_breakpad,
    write_breakpad_many,
)
from unwindkit.schemas.breakpad.files import read_records
from unwindkit.schemas.breakpad.records import File, Func, Inline, InlineOrigin, Line, Public
from unwindkit.schemas.breakpad.rules import check_records
from unwindkit.schemas.text_records import Record

from ..support.commands import DONE, WRONG, unwindkit, usage_error
from ..support.oracles import oracle_root
from ..support.programs.elf_programs import tool

SOURCE = """\
#include "seen.h"
__attribute__((noinline)) int user(int n)
{
  return twice(n) - 1;
}
int main(int argc, char **argv)
{
  return user(argc);
}
"""
HEADER = """\
static volatile int seen;
static inline __attribute__((always_inline)) int twice(int n)
{
  seen = n;
  return n * 2 + seen;
}
"""


@pytest.fixture(name="program")
def _program(tmp_path: Path) -> Path:
    """A program in which twice() is inlined into user(), in line 4."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "main.c").write_text(SOURCE)
    (folder / "seen.h").write_text(HEADER)
    path = tmp_path / "program"
    tool("gcc", "-g", "-O2", folder / "main.c", "-o", path, f"-I{folder}")
    return path


def written(path: Path, **choices: Any) -> tuple[list[Record], BreakpadReport]:
    """The records of a symbol file, and the report."""
    out = io.BytesIO()
    report = write_breakpad(path, out, **choices)
    return [record for _, record in read_records(io.BytesIO(out.getvalue()))], report


def only(records: list[Record], kind: type[Record]) -> list[Record]:
    return [record for record in records if type(record) is kind]


def test_functions_inlined_calls_and_lines(program: Path) -> None:
    records, report = written(program)
    assert list(check_records(enumerate(records, 1))) == []
    names = {one.number: one.name for one in records if isinstance(one, File)}
    (user,) = [one for one in records if isinstance(one, Func) and one.name == "user"]
    (inline,) = [one for one in records if isinstance(one, Inline)]
    assert only(records, InlineOrigin) == [InlineOrigin(0, "twice")]
    assert (inline.inline_nest_level, inline.call_site_line, inline.origin_num) == (0, 4, 0)
    assert names[inline.call_site_file_num or 0] == str(program.parent / "source/main.c")
    assert all(user.address <= start < start + size <= user.address + user.size for start, size in inline.ranges)
    lines = [one for one in records if isinstance(one, Line) and user.address <= one.address < user.address + user.size]
    assert {(Path(names[one.filenum]).name, one.line) for one in lines} >= {("seen.h", 4), ("seen.h", 5), ("main.c", 4)}
    assert sum(one.size for one in lines) == user.size
    publics = {one.address for one in records if isinstance(one, Public)}
    assert publics.isdisjoint(one.address for one in records if isinstance(one, Func))
    assert publics
    counts = [len(only(records, kind)) for kind in (Func, Inline, Line, Public)]
    assert counts == [report.funcs, report.inlines, report.lines, report.publics]


def test_without_inlined_calls_and_without_lines(program: Path) -> None:
    whole, _ = written(program)
    records, report = written(program, inlines=False)
    assert only(records, Inline) == only(records, InlineOrigin) == []
    assert (len(only(records, Line)), report.inlines) == (len(only(whole, Line)), 0)
    records, report = written(program, lines=False)
    assert only(records, Line) == []
    assert (only(records, Func), report.lines) == (only(whole, Func), 0)
    assert [one.name for one in records if isinstance(one, File)] == [str(program.parent / "source/main.c")]
    records, report = written(program, cfi_only=True)
    assert only(records, Func) == only(records, File) == only(records, Public) == []
    assert (report.funcs, report.inlines, report.lines, report.publics) == (0, 0, 0, 0)


def test_names_of_files_are_mapped(program: Path) -> None:
    folder = program.parent / "source"
    mapped = {
        "/src/main.c": prefix_map(f"{folder}=/src"),
        "git:example.org/a/b:main.c:v1": repository_map("git", f"{folder}=example.org/a/b@v1"),
        "hg:example.org/a/b:source/main.c:12ab": repository_map("hg", f"{folder.parent}=example.org/a/b@12ab"),
    }
    for name, one in mapped.items():
        records, _ = written(program, path_maps=[one])
        assert name in [record.name for record in records if isinstance(record, File)]


def test_the_command_has_the_same_options(program: Path, tmp_path: Path) -> None:
    folder, out = program.parent / "source", tmp_path / "a.sym"
    done = unwindkit(
        "breakpad", program, "-o", out, "--no-inlines", "--prefix-map", f"{folder}=/s", "--hg", f"{folder}/x=y@z"
    )
    assert done.returncode == DONE
    expected = io.BytesIO()
    report = write_breakpad(program, expected, inlines=False, path_maps=[prefix_map(f"{folder}=/s")])
    assert out.read_bytes() == expected.getvalue()
    assert f"\n  {report.funcs} functions, 0 inlined calls, {report.lines} line records\n" in done.stderr
    done = unwindkit("breakpad", program, "-o", out, "--no-lines", "--git", f"{folder}=y@z")
    assert b"FILE 0 git:y:main.c:z\n" in out.read_bytes()
    assert ", 1 inlined call, 0 line records\n" in done.stderr


def test_a_store_takes_the_same_options(program: Path, tmp_path: Path) -> None:
    (report,) = write_breakpad_many([program], tmp_path / "store", lines=False, path_maps=(prefix_map("/=//"),))
    assert isinstance(report, BreakpadReport)
    assert (report.lines, report.inlines) == (0, 1)
    assert b"FILE 0 //" in Path(report.output).read_bytes()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--prefix-map", "/a"), "prefix map: found '/a', expected OLD=NEW"),
        (("--git", "/a=b"), "git map: found '/a=b', expected DIR=REPOSITORY@REVISION"),
        (("--hg", "/a=https://b@c"), "hg map: the repository 'https://b' contains a colon"),
    ],
)
def test_a_malformed_map_is_wrong_usage(program: Path, option: tuple[str, str], message: str) -> None:
    done = unwindkit("breakpad", program, *option)
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert usage_error(done).endswith(f"error: {message}")


def test_code_of_an_assembler_is_a_function_by_its_symbol(tmp_path: Path) -> None:
    """Line information of .loc, without .debug_info."""
    source, path = tmp_path / "a.s", tmp_path / "a.so"
    source.write_text("""
        .file 1 "hand.s"
        .text
        .globl sized
        .type sized, @function
    sized:
        .loc 1 7
        nop
        .loc 1 8
        ret
        .size sized, . - sized
        .globl sizeless
        .type sizeless, @function
    sizeless:
        .loc 1 9
        ret
    """)
    tool("gcc", "-shared", "-nostdlib", source, "-o", path)
    # Newer assemblers describe functions, too.
    tool("objcopy", *(f"--remove-section=.debug_{one}" for one in ("info", "abbrev", "aranges", "rnglists")), path)
    records, _ = written(path)
    (function,) = [one for one in records if isinstance(one, Func)]
    assert (function.name, function.size) == ("sized", 2)
    assert [(one.address - function.address, one.size, one.line) for one in records if isinstance(one, Line)] == [
        (0, 1, 7),
        (1, 1, 8),
    ]
    assert [one.name for one in records if isinstance(one, Public)] == ["sizeless"]


@pytest.mark.oracle("bookworm", "bookworm-dbg")
def test_libc_keeps_the_rules_of_the_document_and_is_read_back() -> None:
    path = next(oracle_root("bookworm").glob("lib/x86_64-linux-gnu/libc.so.6"))
    folder = oracle_root("bookworm-dbg") / "usr/lib/debug"
    out = io.BytesIO()
    report = write_breakpad(path, out, debug=DebugFiles(folders=(folder,)))
    assert (report.funcs > 3000, report.inlines > 3000, report.lines > 100_000) == (True, True, True)
    assert list(check_records(read_records(io.BytesIO(out.getvalue())))) == []
    assert to_function_records(*from_function_records(out.getvalue())) in out.getvalue()
