"""What of a table goes into an ELF file's `.eh_frame`, what is refused, and that the check finds what is wrong.

Strategy: tables, symbol files and debug files of the programs of `mixed_frames` are written into them, or into others;
contents that an unwinder would not understand are requested from the writer, whose check must refuse the result.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unwindkit
from unwindkit import ARCHITECTURES, BuildError, by_pc, convert, from_sframe, read_elf, write_eh_frame
from unwindkit.converters.cfi.write import frames_from_table
from unwindkit.converters.table.cut import overlay
from unwindkit.converters.table.model import FunctionColumns
from unwindkit.jobs.eh_frame_files import frames_for
from unwindkit.jobs.report import Target
from unwindkit.schemas.cfi import EH_FRAME
from unwindkit.writers.elf.checks.frames import check_frames
from unwindkit.writers.elf.frames import FRAMES, HEADER, FrameSections, write_frames

from ..support.programs.elf_programs import Built, patched, section_at, segment_at, tool
from ..support.programs.mixed_frames import CAUGHT, joined, mixed_program, output_of, terminates
from ..support.real_files import REAL_FILES


@pytest.fixture(scope="session", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mixed")


def test_a_table_from_anywhere(folder: Path, tmp_path: Path) -> None:
    original, out = mixed_program(folder, ""), tmp_path / "out"
    added, own = read_elf(original, ".debug_frame"), read_elf(original, FRAMES)
    report = write_eh_frame(original, out, added, keep=True, preserve_dates=True)
    assert (report.functions, report.kept, report.converted) == (len(own) + len(added), len(own), report.functions)
    assert out.stat().st_mtime_ns == original.stat().st_mtime_ns
    assert output_of(out) == CAUGHT
    kept = {one.start: one for one in own}
    for one in read_elf(out, FRAMES):
        if one.start in kept:
            old = kept[one.start]
            assert (one.lsda, one.personality, one.flags) == (old.lsda, old.personality, old.flags)
    assert write_eh_frame(original, out, added).functions == len(added)
    assert by_pc(read_elf(out, FRAMES)) == by_pc(added)
    in_place = write_eh_frame(out, out, added)
    assert (in_place.writer, in_place.kept, in_place.outside_code) == ("in place", 0, 0)


def test_tables_that_do_not_belong_to_the_file(folder: Path, tmp_path: Path) -> None:
    original, out = mixed_program(folder, ""), tmp_path / "out"
    table = read_elf(original, ".debug_frame")
    foreign = replace(table, architecture=ARCHITECTURES["aarch64"])
    with pytest.raises(BuildError, match=r"architecture: is aarch64, little-endian, but .* is x86_64, little-endian"):
        write_eh_frame(original, out, foreign)
    functions = table.functions
    moved = replace(table, functions=replace(functions, start=functions.start + np.uint64(1 << 20)))
    with pytest.raises(BuildError, match="functions: none is in an executable section of"):
        write_eh_frame(original, out, moved)
    assert not out.exists()
    some = replace(moved, functions=FunctionColumns.concatenate([functions, moved.functions]))
    report = write_eh_frame(original, out, some)
    assert (report.functions, report.outside_code) == (len(table), len(table))


def test_a_separate_debug_file(folder: Path, tmp_path: Path) -> None:
    original, debug, out = mixed_program(folder, ""), tmp_path / "program.debug", tmp_path / "out"
    tool("objcopy", "--only-keep-debug", original, debug)
    tool("strip", original, "-o", tmp_path / "program")
    assert terminates(tmp_path / "program")
    report = convert(debug, out, "eh_frame", source="debug_frame", into=tmp_path / "program", keep=True)
    assert report.into == str(tmp_path / "program")
    assert output_of(out) == CAUGHT
    other = mixed_program(folder, "-no-pie")
    with pytest.raises(BuildError, match=r"build id: is [0-9a-f]{40}, that of the file to copy [0-9a-f]{40}: they are"):
        convert(debug, tmp_path / "no", "eh_frame", source="debug_frame", into=other)


def test_a_symbol_file_with_its_module(folder: Path, tmp_path: Path) -> None:
    """The addresses of a symbol file are relative to the load address, here 0x400000."""
    original, symbols, out = mixed_program(folder, "-no-pie"), tmp_path / "program.sym", tmp_path / "out"
    with_frames = joined(original, tmp_path / "joined")
    unwindkit.write_breakpad(with_frames, symbols)
    report = convert(symbols, out, "eh_frame", source="breakpad", into=original, keep=True)
    assert report.outside_code == 0
    assert output_of(out) == CAUGHT
    assert convert(symbols, tmp_path / "to", "sframe", source="breakpad", into=original).into == str(original)
    assert len(read_elf(tmp_path / "to", ".sframe")) > 0
    with pytest.raises(BuildError, match=r"MODULE: is [0-9A-F]{32}0, that of the file to copy [0-9A-F]{32}0: they are"):
        convert(symbols, tmp_path / "no", "eh_frame", source="breakpad", into=mixed_program(folder, ""))


def test_sframe_beside_that_of_the_file(folder: Path, tmp_path: Path) -> None:
    original, first, out = mixed_program(folder, ""), tmp_path / "first", tmp_path / "out"
    unwindkit.write_sframe(original, first, source="eh_frame")
    convert(original, tmp_path / "added", "sframe", source="debug_frame", section_only=True, to_address=0)
    report = convert(tmp_path / "added", out, "sframe", source="sframe", into=first, keep=True)
    assert report.kept == len(read_elf(first, ".sframe"))
    assert len(read_elf(out, ".sframe")) == report.kept + len(read_elf(original, ".debug_frame"))
    tables = read_elf(first, ".sframe"), from_sframe((tmp_path / "added").read_bytes())
    assert by_pc(read_elf(out, ".sframe")) == by_pc(overlay(*tables))


ARGUMENTS: tuple[tuple[Target, dict[str, Any], str], ...] = (
    ("debug_frame", {"into": "/bin/ls"}, "into: debug_frame is not written into ELF files"),
    ("eh_frame", {"into": "/bin/ls", "section_only": True}, "section_only: excludes a copy of an ELF file"),
    ("eh_frame", {"into": "/bin/ls", "to_address": 8}, "to_address: applies to a section written alone"),
    ("eh_frame", {"section_only": True, "keep": True}, "keep: applies to a copy of an ELF file"),
    ("directives", {"keep": True}, "keep: applies to a copy of an ELF file"),
)


@pytest.mark.parametrize(("to", "arguments", "says"), ARGUMENTS)
def test_arguments_that_do_not_apply(to: Target, arguments: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=says):
        convert("/bin/ls", tmp_path / "out", to, **arguments)
    assert not (tmp_path / "out").exists()


FAR = """
__attribute__((section(".far"))) int far = 1;
int main(void) { return 0; }
"""


def test_a_program_of_more_than_2_gib(built: Built, tmp_path: Path) -> None:
    """Rows of the header are offsets of 4 bytes: the sections can stay in place, but not go after all others."""
    flags = "-g -fno-asynchronous-unwind-tables -no-pie -Wl,--section-start=.far=0x100000000"
    program, out = built(f"gcc {flags}", FAR), tmp_path / "out"
    assert convert(program, out, "eh_frame", source="eh_frame").writer == "in place"
    assert by_pc(read_elf(out, FRAMES)) == by_pc(read_elf(program, FRAMES))
    with pytest.raises(BuildError, match="is more than 2 GiB from the section at 0x10000"):
        convert(program, tmp_path / "all", "eh_frame")


# --- the check -----------------------------------------------------------------------------------------------------


def frames_of(path: Path) -> FrameSections:
    return frames_for(frames_from_table(read_elf(path, "all"), EH_FRAME)[0])


def swapped(header: bytes) -> bytes:
    """The first two rows change places."""
    return header[:12] + header[20:28] + header[12:20] + header[28:]


Change = Callable[[FrameSections], FrameSections]
WRONG: dict[str, tuple[Change, str]] = {
    "unsorted": (
        lambda one: replace(one, header=lambda *at: swapped(one.header(*at))),
        r"\.eh_frame_hdr: row 1 is not in ascending order",
    ),
    "no terminator": (
        lambda one: replace(one, size=one.size - 4, content=lambda at: one.content(at)[:-4]),
        r"\.eh_frame: has no terminator after its last entry",
    ),
    "garbage for a terminator": (
        lambda one: replace(one, content=lambda at: one.content(at)[:-4] + b"\x40\0\0\0"),
        r"\.eh_frame: has no terminator after its last entry",
    ),
    "another address": (
        lambda one: replace(one, content=lambda at: one.content(at + 8)),
        r"\.eh_frame_hdr: row 0 refers to an FDE of another address",
    ),
    "a CIE that is none": (
        lambda one: replace(one, content=lambda at: one.content(at)[:4] + b"\x01" + one.content(at)[5:]),
        r"\.eh_frame_hdr: row \d+ does not refer to an FDE with a CIE",
    ),
    "another address of the frames": (
        lambda one: replace(one, header=lambda frames, at: one.header(frames + 4, at)),
        r"\.eh_frame_hdr: eh_frame_ptr is not the address of \.eh_frame; .*row 0 does not refer to an FDE with a CIE",
    ),
    "another address of the header": (
        lambda one: replace(one, header=lambda frames, at: one.header(frames, at + 4)),
        r"\.eh_frame_hdr: eh_frame_ptr is not the address of \.eh_frame",
    ),
    "more rows than there are": (
        lambda one: replace(one, header=lambda *at: one.header(*at)[:8] + b"\x7f" + one.header(*at)[9:]),
        r"\.eh_frame_hdr: has \d+ bytes, expected 1028 for 127 rows",
    ),
    "another encoding": (
        lambda one: replace(one, header=lambda *at: one.header(*at)[:3] + b"\x1b" + one.header(*at)[4:]),
        r"\.eh_frame_hdr: starts with 01 1b 03 1b, expected 01 1b 03 3b",
    ),
    "a header of a few bytes": (
        lambda one: replace(one, header_size=8, header=lambda *at: one.header(*at)[:8]),
        r"\.eh_frame_hdr: has only 8 bytes",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_check_finds_what_an_unwinder_would_not(wrong: str, folder: Path, tmp_path: Path) -> None:
    original = mixed_program(folder, "")
    change, says = WRONG[wrong]
    with pytest.raises(BuildError, match=says):
        write_frames(original, tmp_path / "out", change(frames_of(original)))
    assert not (tmp_path / "out").exists()


def test_the_check_follows_the_program_header(folder: Path, tmp_path: Path) -> None:
    good = joined(mixed_program(folder, ""), tmp_path / "good")
    assert check_frames(good) == ()
    place = segment_at(good, "PT_GNU_EH_FRAME")
    for field in (8, 16, 40):  # p_offset, p_vaddr, p_memsz
        (value,) = struct.unpack_from("<Q", good.read_bytes(), place + field)
        bad = patched(good, tmp_path / "bad", (place + field, "Q", value + 8))
        assert check_frames(bad) == ("PT_GNU_EH_FRAME: does not refer to the header",)
    bad = patched(good, tmp_path / "bad", (place, "I", 0))
    assert check_frames(bad) == ("PT_GNU_EH_FRAME: does not refer to the header",)
    bad = patched(good, tmp_path / "bad", (section_at(good, HEADER) + 16, "Q", 0x10))
    assert check_frames(bad) == (f"{HEADER}: is in no PT_LOAD",)
    bad = patched(good, tmp_path / "bad", (section_at(good, HEADER), "I", 0))
    assert check_frames(bad) == (f"there are 0 sections {HEADER}",)


def test_the_check_accepts_what_linkers_write(folder: Path) -> None:
    for link in ("", "-no-pie", "-static-pie", "-fuse-ld=gold", "-fuse-ld=lld"):
        assert check_frames(mixed_program(folder, link)) == ()
    for path in REAL_FILES:
        assert check_frames(Path(path)) == ()
