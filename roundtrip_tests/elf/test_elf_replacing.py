"""An existing section is overwritten if it has space, or replaced by another: the program sees one.

Strategy: each engine writes a section, then others of many sizes follow; or a foreign section is in the way.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from unwindkit.writers.elf.add import HEADERS_KEPT, IN_PLACE, WriteReport, write_by_engines, write_section
from unwindkit.writers.elf.checks.added import check_added

from ..support.programs.elf_programs import (
    DEBUG,
    ENGINES,
    OLDER,
    PT_GNU_SFRAME,
    SIZE,
    Built,
    expected,
    headers,
    line_of,
    patched,
    run,
    section_at,
    segment_at,
    sframe,
    tool,
)

EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)


def finds(program: Path, report: WriteReport) -> bool:
    return line_of(report) in run(program, "operand")[1]


def place_of(path: Path, name: str) -> dict[str, object]:
    return dict(headers(path)[1])[name]


@EVERY_ENGINE
def test_second_write_is_in_place_and_lengths_may_change(engine: str, built: Built, tmp_path: Path) -> None:
    program = tmp_path / "program"
    first = write_by_engines(built(DEBUG), program, sframe(3000), (engine,))
    for size, older in ((3000, 3000), (100, 3000), (3000, 100), (90000, 3000), (50, 90000)):
        before = tmp_path / "before"
        shutil.copy(program, before)
        report = write_section(program, program, sframe(size))
        assert report == replace(first, engine=IN_PLACE, replaced=(older,), moved=())
        assert check_added(before, program, expected(before, report, size)) == ()
        assert finds(program, report)
        assert [name for name, _ in headers(program)[1]].count(".sframe") == 1
    assert "descending" in tool("addr2line", "-fe", program, tool("nm", program).split(" t descending")[0].split()[-1])


@EVERY_ENGINE
def test_same_input_gives_same_bytes_and_again_itself(engine: str, built: Built, tmp_path: Path) -> None:
    one, two, again = tmp_path / "one", tmp_path / "two", tmp_path / "again"
    write_by_engines(built(DEBUG), one, sframe(), (engine,))
    write_by_engines(built(DEBUG), two, sframe(), (engine,))
    write_section(one, again, sframe())
    assert one.read_bytes() == two.read_bytes() == again.read_bytes()


@EVERY_ENGINE
def test_section_without_segment_is_replaced_at_its_index(engine: str, built: Built, tmp_path: Path) -> None:
    before, after = built("gcc -O1", OLDER), tmp_path / "program"
    report = write_by_engines(before, after, sframe(100, ".older"), (engine,))
    names = [name for name, _ in headers(before)[1]]
    assert report.replaced == (200,)
    assert [name for name, _ in headers(after)[1]] == names
    assert headers(after)[1][names.index(".older")][1]["sh_addr"] == report.address
    assert finds(after, report)
    offset = int(str(place_of(before, ".older")["sh_offset"]))
    assert after.read_bytes()[offset : offset + 200] == bytes(200)


@EVERY_ENGINE
def test_empty_section_is_replaced(engine: str, built: Built, tmp_path: Path) -> None:
    program = built("gcc -O1", OLDER)
    before = patched(program, tmp_path / "before", (section_at(program, ".older") + 32, "Q", 0))
    report = write_by_engines(before, tmp_path / "program", sframe(name=".older"), (engine,))
    assert report.replaced == (0,)
    assert check_added(before, tmp_path / "program", expected(before, report, name=".older")) == ()
    assert finds(tmp_path / "program", report)


@pytest.mark.parametrize("size", [200, 10, 201])
def test_section_among_others_is_overwritten_if_it_has_room(size: int, built: Built, tmp_path: Path) -> None:
    program = built("gcc -O1", OLDER)
    # A PT_NOTE becomes the segment, longer than GNU ld 2.45's section; the address must be aligned.
    address = int(str(place_of(program, ".older")["sh_addr"]))
    at = segment_at(program, "PT_NOTE")
    edits = ((at, "I", PT_GNU_SFRAME), (at + 8, "Q", address), (at + 16, "Q", address), (at + 32, "Q", 300))
    before, after = patched(program, tmp_path / "before", *edits), tmp_path / "program"
    report = write_section(before, after, sframe(size, ".older"))
    assert (report.engine, report.replaced) == (IN_PLACE if size <= 200 else HEADERS_KEPT, (200,))
    assert (report.address == address) == (size <= 200)
    assert finds(after, report)
    assert [one["p_filesz"] for one in headers(after)[0] if one["p_type"] == PT_GNU_SFRAME] == [size]


@EVERY_ENGINE
def test_several_sections_of_the_name_become_one(engine: str, built: Built, tmp_path: Path) -> None:
    first, after = tmp_path / "first", tmp_path / "after"
    names = ("--rename-section", ".older=.sframe", "--rename-section", ".comment=.sframe")
    tool("objcopy", *names, built("gcc -O1", OLDER), first)
    report = write_by_engines(first, after, sframe(), (engine,))
    assert len(report.replaced) == 2
    assert [name for name, _ in headers(after)[1]].count(".sframe") == 1
    assert len(headers(after)[1]) == len(headers(first)[1])
    assert finds(after, report)


@EVERY_ENGINE
def test_section_that_objcopy_added_unloaded_is_replaced(engine: str, built: Built, tmp_path: Path) -> None:
    before, raw = tmp_path / "before", tmp_path / "raw"
    raw.write_bytes(b"x" * 77)
    tool("objcopy", "--add-section", f".sframe={raw}", built(DEBUG), before)
    report = write_by_engines(before, tmp_path / "program", sframe(), (engine,))
    assert report.replaced == (77,)
    assert finds(tmp_path / "program", report)


@EVERY_ENGINE
def test_a_section_that_grew_in_place_is_followed_by_what_followed(engine: str, built: Built, tmp_path: Path) -> None:
    """Whole pages are inserted after it; then the space left is used, and the file grows no more."""
    program = tmp_path / "program"
    write_by_engines(built(DEBUG), program, sframe(), (engine,))
    first = program.stat().st_size
    sizes = []
    for size in (SIZE + 1, SIZE + 4096, SIZE + 4097, SIZE):
        report = write_section(program, program, sframe(size))
        assert report.engine == IN_PLACE
        sizes.append(program.stat().st_size - first)
    assert sizes == [4096, 4096, 8192, 8192]
    assert tool("readelf", "-SW", program).count(".debug_") == tool("readelf", "-SW", built(DEBUG)).count(".debug_")
