"""Around a written file: owner, mode, links and appended bytes stay; what cannot be written is refused, and damaged
headers lead to a refusal or to a file that the check finds faultless."""

from __future__ import annotations

import random
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from unwindkit.schemas.section import BuildError, FormatError, ParseError
from unwindkit.writers.elf.add import HEADERS_KEPT, HEADERS_MOVED, LIEF, write_by_engines, write_section
from unwindkit.writers.elf.checks.added import check_added
from unwindkit.writers.elf.engines.plan import LoadedSection
from unwindkit.writers.elf.remove import remove_sections

from ..support.programs.elf_programs import (
    DEBUG,
    ENGINES,
    OLDER,
    PROGRAM,
    PT_GNU_SFRAME,
    Built,
    expected,
    line_of,
    patched,
    run,
    section_at,
    segment_at,
    sframe,
    tool,
)

EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)


@EVERY_ENGINE
def test_owner_mode_links_and_appended_data_are_kept(engine: str, built: Built, tmp_path: Path) -> None:
    before, target, link = tmp_path / "before", tmp_path / "target", tmp_path / "folder" / "link"
    before.write_bytes(built("gcc -no-pie -O1").read_bytes() + b"appended archive")
    before.chmod(0o4555)
    target.write_text("old")
    link.parent.mkdir()
    link.symlink_to("../target")
    content, written = before.read_bytes(), before.stat().st_mtime_ns
    report = write_by_engines(before, link, sframe(), (engine,))
    assert (link.is_symlink(), target.is_symlink()) == (True, False)
    assert target.stat().st_mode & 0o7777 == 0o4555
    assert target.read_bytes().endswith(b"appended archive")
    assert (before.read_bytes(), before.stat().st_mtime_ns) == (content, written)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["before", "folder", "target"]
    assert [one.name for one in link.parent.iterdir()] == ["link"]
    assert line_of(report) in run(target, "operand")[1]


@EVERY_ENGINE
def test_file_is_replaced_in_place(engine: str, built: Built, tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(built("gcc -O0"), program)
    report = write_by_engines(program, program, sframe(), (engine,))
    assert line_of(report) in run(program, "operand")[1]


def raising(address: int) -> bytes:
    raise KeyError(address)


@EVERY_ENGINE
def test_failure_leaves_the_destination_alone(engine: str, built: Built, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    cases: list[tuple[LoadedSection, type[Exception]]] = [
        (replace(sframe(), content=raising), KeyError),
        (replace(sframe(), content=lambda _: b"short"), BuildError),
        (replace(sframe(), size=0), BuildError),
    ]
    for section, error in cases:
        with pytest.raises(error):
            write_by_engines(built("gcc -O0"), target, section, (engine,))
        assert target.read_text() == "old"
        assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(BuildError, match="is not a regular file"):
        write_by_engines(built("gcc -O0"), tmp_path, sframe(), (engine,))


def test_refusal_says_what_each_engine_found(built: Built, tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        write_section(built("gcc -static"), tmp_path / "out", replace(sframe(), content=lambda _: b"short"))
    reasons = (
        "native, program headers kept: .rela.plt is in the way; "
        "native, program headers moved: the content has 5 bytes, expected 5000; "
        "lief: the content has 5 bytes, expected 5000"
    )
    assert str(caught.value).endswith(reasons)
    assert list(tmp_path.iterdir()) == []


def unsuitable(kind: str, program: Path, folder: Path) -> Path:
    path = folder / "input"
    if kind == "text":
        path.write_text("#!/bin/sh\n")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(program.read_bytes()[:-100])
    elif kind == "object":
        (folder / "input.c").write_text("int x;")
        tool("gcc", "-c", folder / "input.c", "-o", path)
    elif kind == "debug file":
        tool("objcopy", "--only-keep-debug", program, path)
    else:
        edits = {"core": (16, "H", 4), "ELF32": (4, "B", 1), "no sections": (40, "Q", 0), "many": (60, "H", 0)}
        edits["longer in the file"] = (segment_at(program, "PT_LOAD", 3) + 40, "Q", 0x10)
        patched(program, path, edits[kind])
    return path


@pytest.mark.parametrize(
    ("kind", "error", "reason"),
    [
        ("text", ParseError, "is not an ELF file"),
        ("empty", ParseError, "is not an ELF file"),
        ("truncated", ParseError, "is outside the file"),
        ("object", BuildError, "is a relocatable file"),
        ("core", BuildError, "is a core file"),
        ("ELF32", BuildError, "is ELF32"),
        ("no sections", BuildError, "no section header table"),
        ("many", BuildError, "more headers than"),
        ("longer in the file", ParseError, r"program header\[\d+\]: has p_filesz greater than p_memsz"),
        ("debug file", BuildError, "separate debug file"),
    ],
)
def test_unsuitable_input_is_refused_with_its_reason(
    kind: str, error: type[FormatError], reason: str, built: Built, tmp_path: Path
) -> None:
    path = unsuitable(kind, built(DEBUG), tmp_path)
    with pytest.raises(error, match=reason):
        write_section(path, tmp_path / "out", sframe())
    assert not (tmp_path / "out").exists()


@EVERY_ENGINE
def test_damaged_headers_end_in_a_format_error_or_in_a_checked_file(engine: str, built: Built, tmp_path: Path) -> None:
    good, out, written = built("gcc -O0").read_bytes(), tmp_path / "out", 0
    phoff, shoff = struct.unpack_from("<QQ", good, 32)
    for seed in range(150):
        chance, data = random.Random(seed), bytearray(good)
        start, count = chance.choice([(0, 8), (phoff, 13 * 7), (shoff, 30 * 8)])
        value = chance.choice([0, 1, 1 << 63, (1 << 64) - 1, len(good), chance.randrange(len(good))])
        struct.pack_into("<Q", data, start + 8 * chance.randrange(count), value)
        damaged = tmp_path / "damaged"
        damaged.write_bytes(data)
        try:
            report = write_by_engines(damaged, out, sframe(), (engine,))
        except FormatError:
            assert not out.exists()
        else:
            assert check_added(damaged, out, expected(damaged, report)) == ()
            out.unlink()
            written += 1
    assert written > 40, "much damage is of what no engine needs"


@pytest.mark.parametrize("engine", [HEADERS_KEPT, HEADERS_MOVED])
def test_loaded_section_names_cannot_grow(engine: str, built: Built, tmp_path: Path) -> None:
    program = built("gcc -O1")
    before = patched(program, tmp_path / "before", (section_at(program, ".shstrtab") + 8, "Q", 2))  # SHF_ALLOC
    with pytest.raises(BuildError) as caught:
        write_by_engines(before, tmp_path / "out", sframe(), (engine,))
    assert str(caught.value) == "e_shstrndx: the section name table is loaded and cannot grow"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("engine", [HEADERS_KEPT, HEADERS_MOVED])
def test_empty_section_may_be_anywhere(engine: str, built: Built, tmp_path: Path) -> None:
    """Its offset, far past the end of the file, refers to nothing."""
    program = built("gcc -O1", OLDER)
    header = section_at(program, ".older")
    before = patched(program, tmp_path / "before", (header + 24, "Q", 1 << 63), (header + 32, "Q", 0))
    report = write_by_engines(before, tmp_path / "out", sframe(), (engine,))
    assert line_of(report) in run(tmp_path / "out", "operand")[1]


def test_holes_stay_holes(built: Built, tmp_path: Path) -> None:
    """64 MiB of .bss: program headers that move are placed after it, in the file as well."""
    probe, moved, without = (tmp_path / name for name in ("probe", "moved", "without"))
    with probe.open("wb") as file:
        file.truncate(1 << 26)
    if probe.stat().st_blocks:
        pytest.skip("this file system has no holes")
    program = built("gcc -static -O0", PROGRAM.replace("in_bss[70000]", "in_bss[1 << 26]"))
    write_by_engines(program, moved, sframe(), (HEADERS_MOVED,))
    remove_sections(moved, without, ".sframe", PT_GNU_SFRAME)
    assert without.read_bytes() == program.read_bytes()
    with moved.open("r+b") as file:
        file.seek(segment_at(moved, PT_GNU_SFRAME) + 24)  # p_paddr: what we did not write is not undone
        file.write(bytes(8))
    remove_sections(moved, without, ".sframe", PT_GNU_SFRAME)
    for path in (moved, without):
        assert path.stat().st_size > 1 << 26
        assert path.stat().st_blocks * 512 < 4 << 20
        assert run(path, "-a", "x", "operand")[0] == 3


def test_no_hole_is_as_long_as_the_memory_of_a_large_program(built: Built, tmp_path: Path) -> None:
    """Program headers that move keep the first PT_LOAD's distance: here that is a terabyte into the file."""
    program = built("gcc -static")
    last = segment_at(program, "PT_LOAD", 3)
    before = patched(program, tmp_path / "before", (last + 40, "Q", 1 << 40))
    with pytest.raises(BuildError, match="the file would need a hole up to 0x100"):
        write_by_engines(before, tmp_path / "out", sframe(), (HEADERS_MOVED,))
    assert write_section(before, tmp_path / "out", sframe()).engine == LIEF
    assert (tmp_path / "out").stat().st_size < 2 << 20
