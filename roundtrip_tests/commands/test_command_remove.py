"""`unwindkit remove` as users run it: messages, no half-written files, malformed files that are refused.

Strategy: a program that we gave an `.sframe`, and a hand-made file in which one field at a time is corrupted.
"""

from __future__ import annotations

import os
import resource
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit import write_sframe

from ..support.commands import DONE, WRONG, build_program, refuses, unwindkit, usage_error
from ..support.tiny_elf import (
    BASE,
    CFI,
    CODE,
    ET_CORE,
    ET_REL,
    EXECINSTR,
    HEADER_SIZE,
    NOBITS,
    SECTION_SIZE,
    SEGMENT_SIZE,
    Content,
    patched,
    tiny_elf,
)
from ..support.wrapped import SHT_GNU_SFRAME

PT_LOAD, PT_GNU_SFRAME = 1, 0x6474E554
NO_SECTION = ".sframe: the file has no such section"


@pytest.fixture(scope="module", name="added")
def _added(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with an `.sframe`."""
    program = build_program(tmp_path_factory.mktemp("program"))
    write_sframe(program, program)
    return program


@pytest.fixture(name="copy")
def _copy(added: Path, tmp_path: Path) -> Path:
    """A copy of it, to be overwritten."""
    return Path(shutil.copy(added, tmp_path / "program"))


def sframe_bytes(path: Path) -> int:
    with path.open("rb") as file:
        return int(ELFFile(file).get_section_by_name(".sframe")["sh_size"])


def is_without(path: Path) -> bool:
    """Whether the program runs, and has neither section nor segment."""
    assert subprocess.run([path], capture_output=True, check=True).stdout == b"it runs\n"
    with path.open("rb") as file:
        elf = ELFFile(file)
        kinds = [segment["p_type"] for segment in elf.iter_segments()]
        return elf.get_section_by_name(".sframe") is None and PT_GNU_SFRAME not in kinds


# --- results ------------------------------------------------------------------------------------------------


def test_into_another_file(copy: Path) -> None:
    copy.chmod(0o4751)
    old, out, size = copy.read_bytes(), copy.with_name("out"), sframe_bytes(copy)
    done = unwindkit("remove", copy, "-o", out)
    assert (done.returncode, done.stdout) == (DONE, "")
    smaller = f"the file is {len(old) - out.stat().st_size} bytes smaller"
    assert done.stderr == f"{out}: removed 1 .sframe section of {size} bytes, 1 segment; {smaller}\n"
    assert copy.read_bytes() == old
    assert is_without(out)
    assert out.stat().st_mode & 0o7777 == 0o4751
    assert ".sframe" not in unwindkit("info", out).stdout
    refuses(out, "remove", out, "--in-place", says=NO_SECTION)


def test_in_place_through_a_symbolic_link(copy: Path) -> None:
    copy.chmod(0o711)
    link = copy.with_name("link")
    link.symlink_to(copy.name)
    assert unwindkit("remove", link, "--in-place").returncode == DONE
    assert (link.is_symlink(), copy.is_symlink()) == (True, False)
    assert is_without(copy)
    assert copy.stat().st_mode & 0o7777 == 0o711
    assert sorted(path.name for path in copy.parent.iterdir()) == ["link", "program"]


def test_output_through_a_symbolic_link(copy: Path) -> None:
    target, link = copy.with_name("target"), copy.with_name("link")
    target.write_text("old")
    link.symlink_to(target.name)
    assert unwindkit("remove", copy, "-o", link).returncode == DONE
    assert link.is_symlink()
    assert is_without(target)
    assert sframe_bytes(copy)


def test_same_input_twice_gives_the_same_bytes(copy: Path) -> None:
    outputs = [copy.with_name("first"), copy.with_name("second")]
    assert [unwindkit("remove", copy, "-o", out).returncode for out in outputs] == [DONE, DONE]
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


# --- what stays unchanged -------------------------------------------------------------------------------------


def test_output_that_is_the_input_itself(copy: Path) -> None:
    old, link = copy.read_bytes(), copy.with_name("link")
    link.symlink_to(copy.name)
    hard = copy.with_name("hard")
    os.link(copy, hard)
    for output in (copy, link, hard, copy.parent / "." / "program"):
        done = unwindkit("remove", copy, "-o", output)
        assert (done.returncode, done.stdout) == (WRONG, "")
        assert usage_error(done).endswith(f"{output} is the input file: use --in-place")
    assert copy.read_bytes() == old


@pytest.mark.parametrize(
    "arguments", [[], ["FILE"], ["FILE", "-o", "out", "--in-place"], ["FILE", "-o"], ["-o", "out"]]
)
def test_wrong_usage(copy: Path, arguments: list[str]) -> None:
    old = copy.read_bytes()
    done = unwindkit("remove", *(copy if argument == "FILE" else argument for argument in arguments))
    assert usage_error(done).startswith("unwindkit remove: error: ")
    assert copy.read_bytes() == old


def no_large_files() -> None:
    """Like a full disk: no file may grow beyond a kilobyte."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


@pytest.mark.parametrize("option", ["-o", "--in-place"])
def test_write_that_fails_leaves_the_old_file_alone(copy: Path, option: str) -> None:
    out, old = copy.with_name("out"), copy.read_bytes()
    out.write_text("old")
    done = unwindkit("remove", copy, *([option, out] if option == "-o" else [option]), before=no_large_files)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (WRONG, "", 1)
    assert (copy.read_bytes(), out.read_text()) == (old, "old")
    assert sorted(path.name for path in copy.parent.iterdir()) == ["out", "program"]


def test_output_that_is_no_file(copy: Path) -> None:
    (copy.parent / "folder").mkdir()
    for output, says in (("folder", ""), ("none/out", "No such file or directory")):
        done = unwindkit("remove", copy, "-o", copy.parent / output)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (WRONG, "", 1)
        assert says in done.stderr
    assert sorted(path.name for path in copy.parent.rglob("*")) == ["folder", "program"]


@pytest.mark.parametrize("option", ["-o", "--in-place"])
def test_file_without_the_section(tmp_path: Path, option: str) -> None:
    path, out = tmp_path / "none", tmp_path / "out"
    path.write_bytes(tiny_elf())
    refuses(path, "remove", path, *([option, out] if option == "-o" else [option]), says=NO_SECTION)
    assert path.read_bytes() == tiny_elf()


# --- malformed files ------------------------------------------------------------------------------------------

# Section 1 is the code, with nonzero bytes; 3 is `.sframe`, the last loaded one, at 0x1d0 in the file.
SFRAME = Content(".sframe", b"\x55" * 64, SHT_GNU_SFRAME)
FILLED = Content(".text", b"\xcc" * 0x80, flags=CODE.flags)
SFRAME_OFFSET = 0x1D0


def good(**header: int) -> bytearray:
    return tiny_elf(FILLED, CFI, SFRAME, **header)


def section(index: int, **fields: int) -> bytearray:
    return patched(good(), section=index, **fields)


def segments(*loads: dict[str, int], kind: int = PT_LOAD) -> bytearray:
    """The file with these program headers; the fields of Elf64_Phdr without p_."""
    data = good(e_phnum=len(loads))
    for index, load in enumerate(loads):
        fields = {"type": kind, "flags": 4, "align": 0x1000, "memsz": load.get("filesz", 0)} | load
        values = [
            fields.get(name, 0) for name in ("type", "flags", "offset", "vaddr", "paddr", "filesz", "memsz", "align")
        ]
        struct.pack_into("<IIQQQQQQ", data, HEADER_SIZE + SEGMENT_SIZE * index, *values)
    return data


def load(start: int, end: int, **fields: int) -> dict[str, int]:
    """A PT_LOAD of the file's bytes from `start` to `end`, at its addresses."""
    return {"offset": start, "vaddr": BASE + start, "filesz": end - start} | fields


END = len(good())
HEADERS = struct.unpack_from("<Q", good(), 40)[0]  # of the sections
LEAVES = "is outside the file or the address space"
REFUSED: dict[str, tuple[bytearray, str]] = {
    "section past the end": (section(3, sh_offset=END), f"section header[3]: {LEAVES}"),
    "section of 2**62 bytes": (section(3, sh_size=1 << 62), f"section header[3]: {LEAVES}"),
    "section past the last address": (section(3, sh_addr=(1 << 64) - 8), f"section header[3]: {LEAVES}"),
    "link to no section": (section(3, sh_link=99), "section header[3]: has sh_link 99, which is not a section"),
    "program headers out of the file": (
        good(e_phoff=1 << 40),
        f"e_phoff: 0x10000000000 to 0x10000000038 is outside the file, which ends at {END:#x}",
    ),
    "program headers over the end": (
        good(e_phoff=END - 20),
        f"e_phoff: {END - 20:#x} to {END + 36:#x} is outside the file, which ends at {END:#x}",
    ),
    "section headers out of the file": (
        good(e_shoff=1 << 50),
        f"e_shoff: 0x4000000000000 to 0x4000000000140 is outside the file, which ends at {END:#x}",
    ),
    "segment past the end": (segments(load(0, END + 1)), f"program header[0]: {LEAVES}"),
    "no PT_LOAD": (segments(load(0, END), kind=PT_GNU_SFRAME), ".sframe: PT_LOAD: the file has no loadable segment"),
    "over the code": (
        section(3, sh_offset=0x110),
        ".sframe: check: faults found: section [1] .text: its bytes have changed",
    ),
    "code over the section": (
        section(1, sh_offset=SFRAME_OFFSET),
        ".sframe: check: faults found: section [1] .text: its bytes have changed",
    ),
    "over the ELF header": (
        section(3, sh_offset=0),
        ".sframe: check: faults found: .sframe: its bytes are still there",
    ),
    "over the program headers": (
        section(3, sh_offset=HEADER_SIZE),
        ".sframe: check: faults found: .sframe: its bytes are still there",
    ),
    "over the section headers": (
        section(3, sh_offset=HEADERS + SECTION_SIZE),
        ".sframe: check: faults found: .sframe: its bytes are still there",
    ),
    "the table of names": (good(e_shstrndx=3), NO_SECTION),
    "relocatable": (good(e_type=ET_REL), "e_phnum: is 1: a relocatable file with program headers is not supported"),
    "core": (good(e_type=ET_CORE), "e_type: is a core file (ET_CORE)"),
    "debug file": (
        tiny_elf(Content(".text", b"\xcc", NOBITS, CODE.flags | EXECINSTR), SFRAME),
        ".sframe: sh_type: the code has no bytes: this is a separate debug file",
    ),
    "cut": (
        good()[:-1],
        f"e_shoff: {HEADERS:#x} to {END:#x} is outside the file, which ends at {END - 1:#x}",
    ),
    "not ELF": (bytearray(b"#!/bin/sh\n"), "e_ident: is not an ELF file"),
    "empty": (bytearray(), "e_ident: is not an ELF file"),
    # Its bytes after the section, which no section header covers, would be lost.
    "segment with more than the section": (
        segments(load(0, SFRAME_OFFSET), load(SFRAME_OFFSET, SFRAME_OFFSET + 64 + 8)),
        f".sframe: check: faults found: PT_LOAD at {BASE + SFRAME_OFFSET:#x}: is missing or has changed",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_malformed_file_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    data, says = REFUSED[name]
    path, out = tmp_path / "file", tmp_path / "out"
    path.write_bytes(data)
    out.write_text("old")
    refuses(path, "remove", path, "-o", out, says=says)
    refuses(path, "remove", path, "--in-place", says=says)
    assert (path.read_bytes(), out.read_text()) == (data, "old")


@pytest.mark.parametrize(
    ("loads", "left", "says"),
    [
        pytest.param([load(0, END)], 1, "0 segments", id="in the only segment"),
        pytest.param(
            [load(0, SFRAME_OFFSET), load(SFRAME_OFFSET, SFRAME_OFFSET + 64)], 1, "1 segment", id="in one of its own"
        ),
        pytest.param([load(0, 0x180), load(0x180, SFRAME_OFFSET + 64)], 2, "0 segments", id="with another section"),
        pytest.param(
            [load(0, END), load(SFRAME_OFFSET, SFRAME_OFFSET + 99, type=PT_GNU_SFRAME)],
            1,
            "1 segment",
            id="named by one that is too long",
        ),
    ],
)
def test_segments_that_hold_or_name_the_section(
    tmp_path: Path, loads: list[dict[str, int]], left: int, says: str
) -> None:
    path, out, data = tmp_path / "file", tmp_path / "out", segments(*loads)
    path.write_bytes(data)
    done = unwindkit("remove", path, "-o", out)
    assert (done.returncode, done.stderr) == (DONE, f"{out}: removed 1 .sframe section of 64 bytes, {says}\n")
    result = out.read_bytes()
    assert data[SFRAME_OFFSET : SFRAME_OFFSET + 64] == SFRAME.data
    assert result[SFRAME_OFFSET : SFRAME_OFFSET + 64] == bytes(64)
    assert struct.unpack_from("<H", result, 56) == (left,)
    kept = HEADER_SIZE + left * SEGMENT_SIZE
    assert result[HEADER_SIZE:kept] == data[HEADER_SIZE:kept]
    assert result[kept:0x100] == bytes(0x100 - kept)


def test_sections_that_lie_over_one_another_are_cleared(tmp_path: Path) -> None:
    path, out = tmp_path / "file", tmp_path / "out"
    path.write_bytes(patched(tiny_elf(FILLED, SFRAME, SFRAME), section=3, sh_offset=0x1A0))
    done = unwindkit("remove", path, "-o", out)
    assert done.stderr == f"{out}: removed 2 .sframe sections of 64, 64 bytes, 0 segments\n"
    assert out.read_bytes()[0x180:0x1E0] == bytes(0x60)
    assert out.read_bytes()[0x100:0x180] == FILLED.data
