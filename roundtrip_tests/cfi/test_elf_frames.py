"""`.eh_frame` and its header replaced in ELF files: everything that unwinds with them sees no difference.

Strategy: files whose call frame information we rewrote, in its place and in a new segment (with 8-byte pointers and
zeros after it as a terminator), are compared with the originals by readelf, elfutils, gdb and execution: C++ exceptions
pass through them by libgcc's unwinder, which finds no other unwind information, as the old bytes are zeroed.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit import BuildError, ParseError, by_pc, convert, read_elf
from unwindkit.converters.cfi.eh_frame_hdr import check_eh_frame_hdr
from unwindkit.converters.cfi.write import frames_from_table
from unwindkit.converters.elf.image import open_elf
from unwindkit.jobs.eh_frame_files import frames_for
from unwindkit.schemas.cfi import EH_FRAME
from unwindkit.writers.elf import add as elf_add
from unwindkit.writers.elf.add import IN_PLACE
from unwindkit.writers.elf.checks.added import ExpectedSection, check_added
from unwindkit.writers.elf.frames import FRAMES, HEADER, FramesReport, write_frames

from ..support.judges.elf_removed import FLAGS, compiled_folder, prints
from ..support.made.elf_matrix import backtrace
from ..support.oracles import absent, run_oracle
from ..support.programs import compiled
from ..support.programs.compiled_sources import EXPECTED_OUTPUT
from ..support.programs.elf_programs import (
    DEBUG,
    PT_GNU_SFRAME,
    Built,
    headers,
    patched,
    run,
    section_at,
    segment_at,
    tool,
)
from ..support.real_files import REAL_FILES
from ..support.texts.frame_text import readelf_frames
from ..support.tiny_elf import CFI, CODE, Content, tiny_elf

IN_NEW_SEGMENT = "in a new segment"
BOTH_PLACES = pytest.mark.parametrize("place", [IN_PLACE, IN_NEW_SEGMENT])
WITHOUT_HEADER = "static"


@pytest.fixture(scope="session", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_folder(tmp_path_factory)


def rewritten(path: Path, out: Path, place: str = IN_PLACE) -> FramesReport:
    """The file with its `.eh_frame` rebuilt from its own table."""
    table = read_elf(path, FRAMES)
    encoded, refusals = frames_from_table(table, EH_FRAME, 4 if place == IN_PLACE else 8)
    assert len(refusals) == 0
    frames = frames_for(encoded)
    if place == IN_NEW_SEGMENT:
        (old,) = open_elf(path).named(FRAMES)
        behind = bytes(old.size)
        frames = replace(frames, size=frames.size + old.size, content=lambda address: encoded.at(address) + behind)
    report = write_frames(path, out, frames)
    # Without a PT_GNU_EH_FRAME the section cannot stay: the program registers it from an address inside.
    is_found = any(one["p_type"] == "PT_GNU_EH_FRAME" for one in headers(path)[0])
    assert (report.engine == IN_PLACE) == (place == IN_PLACE and is_found)
    return report


def holds(path: Path, out: Path, report: FramesReport) -> None:
    """Our reader's rows, the header, and the reported addresses."""
    assert by_pc(read_elf(out, FRAMES)) == by_pc(read_elf(path, FRAMES))
    image = open_elf(out)
    (frames,) = image.named(FRAMES)
    assert frames.address == report.address
    assert [header.address for header in image.named(HEADER)] == (
        [report.header_address] if report.header_address else []
    )
    for header in image.named(HEADER):
        frames_read = [(image.contents(frames), read_elf(out, FRAMES))]
        assert check_eh_frame_hdr(image.contents(header), frames_read).sentences() == ()


def places(path: Path) -> dict[str, tuple[int, int, int, int]]:
    """File offset, size, address and alignment of both sections, and of the header's program header."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        found = {one.name: one.header for one in elf.iter_sections() if one.name in (FRAMES, HEADER)}
        (named,) = (one.header for one in elf.iter_segments("PT_GNU_EH_FRAME"))
    sections = {name: (h["sh_offset"], h["sh_size"], h["sh_addr"], h["sh_addralign"]) for name, h in found.items()}
    return sections | {"": (named["p_offset"], named["p_memsz"], named["p_vaddr"], named["p_align"])}


@BOTH_PLACES
def test_alignment_and_nothing_left_of_what_was_there(place: str, folder: Path, tmp_path: Path) -> None:
    original, out = compiled.build(folder, FLAGS["O2"]), tmp_path / "out"
    rewritten(original, out, place)
    before, after, data = places(original), places(out), out.read_bytes()
    assert after[FRAMES][2] % 8 == 0
    assert [after[name][3] for name in (FRAMES, HEADER, "")] == [8, 4, 4]
    assert after[HEADER] == after[""]
    for name in (FRAMES, HEADER) if place == IN_PLACE else (FRAMES,):
        start, size = before[name][:2]
        kept = after[name][1] if place == IN_PLACE else 0
        assert data[start + kept : start + size] == bytes(size - kept)


def test_of_fewer_functions_zeros_are_left_in_both_sections(folder: Path, tmp_path: Path) -> None:
    original, out = compiled.build(folder, FLAGS["O2"]), tmp_path / "out"
    table = read_elf(original, FRAMES).select(slice(None, -3))
    write_frames(original, out, frames_for(frames_from_table(table, EH_FRAME)[0]))
    before, after, data = places(original), places(out), out.read_bytes()
    assert before[HEADER][1] - after[HEADER][1] == 3 * 8
    for name in (FRAMES, HEADER):
        start, size = before[name][:2]
        kept = after[name][1]
        assert data[start + kept : start + size] == bytes(size - kept) != b""


@pytest.mark.oracle
@BOTH_PLACES
@pytest.mark.parametrize("name", FLAGS)
def test_exceptions_pass_through_rewritten_frames(name: str, place: str, folder: Path, tmp_path: Path) -> None:
    original = compiled.build(folder, FLAGS[name])
    out = tmp_path / original.name
    assert any(one["p_type"] == "PT_GNU_EH_FRAME" for one in headers(original)[0]) == (name != WITHOUT_HEADER)
    report = rewritten(original, out, place)
    assert prints(out) == EXPECTED_OUTPUT
    holds(original, out, report)
    assert readelf_frames(out, FRAMES) == readelf_frames(original, FRAMES)


def test_exceptions_need_the_frames_that_we_write(folder: Path, tmp_path: Path) -> None:
    """The test above is effective: without one function's FDE the same program aborts."""
    original = compiled.build(folder, FLAGS["O2"])
    table = read_elf(original, FRAMES)
    (start,) = (
        int(line.split()[0], 16) for line in tool("nm", "-C", original).splitlines() if line.endswith(" thrower(int)")
    )
    encoded, _ = frames_from_table(table, EH_FRAME)
    index = table.functions.start[encoded.function].tolist().index(start)
    # A size of 0: the function no longer has an FDE.
    offset = encoded.fdes.offset[index]
    encoded.data[offset + 12 : offset + 16] = 0
    write_frames(original, tmp_path / "frames", frames_for(encoded))
    done = subprocess.run([tmp_path / "frames"], capture_output=True, text=True, check=False)
    assert done.returncode < 0
    assert "terminate called" in done.stderr


@pytest.mark.oracle
@BOTH_PLACES
@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_real_files(path: str, place: str, folder: Path, tmp_path: Path) -> None:
    original, out = Path(path), tmp_path / Path(path).name
    report = rewritten(original, out, place)
    holds(original, out, report)
    assert readelf_frames(out, FRAMES) == readelf_frames(original, FRAMES)
    if ".so" in out.name:
        # In place of the system's library: exceptions of the program pass through frames of libstdc++ and libc.
        assert prints(compiled.build(folder, FLAGS["O2"]), LD_PRELOAD=str(out)) == EXPECTED_OUTPUT
    else:
        texts = [subprocess.run([one, "--version"], capture_output=True, check=True).stdout for one in (path, out)]
        assert texts[0] == texts[1] != b""


@pytest.mark.oracle
@BOTH_PLACES
def test_other_readers_take_it(place: str, folder: Path, tmp_path: Path) -> None:
    original, out = compiled.build(folder, FLAGS["O2"]), tmp_path / "frames"
    rewritten(original, out, place)
    for arguments in (("-wNf",), ("-wNF",), ("-aW",)):
        assert "arning" not in run_oracle("readelf", *arguments, out)
    said = tool("eu-readelf", "--debug-dump=frames", out)
    assert "invalid" not in said
    assert said.count(" FDE ") == len(read_elf(out))
    lint = [set(run("eu-elflint", "--gnu-ld", one)[1].splitlines()) for one in (original, out)]
    new = {line for line in lint[1] - lint[0] if "No errors" not in line}
    # crtstuff's symbols name the first and the last byte of the section as the linker left it.
    assert all("st_value out of bounds" in line for line in new)
    assert len(new) <= 2


@BOTH_PLACES
def test_gdb_gives_the_same_backtrace(place: str, built: Built, tmp_path: Path) -> None:
    if shutil.which("gdb") is None:
        absent("no gdb")
    original, out = tmp_path / "original", tmp_path / "program"
    shutil.copy(built(f"{DEBUG} -DABORTS"), original)
    rewritten(original, out, place)
    assert backtrace(out) == backtrace(original)
    assert "main" in backtrace(out)


WALKER = """
#include <execinfo.h>
#include <stdio.h>
__attribute__((noinline)) int walk(int n) {
    void *frames[50];
    volatile char used[100 + n];
    used[n] = 1;
    return n ? walk(n - 1) + used[n] - 1 : backtrace(frames, 50);
}
int main(void) { printf("%d frames\\n", walk(20)); }
"""


@BOTH_PLACES
@pytest.mark.parametrize("machine", ["aarch64", "s390x"])
def test_other_machines_walk_as_far(machine: str, place: str, built: Built, tmp_path: Path) -> None:
    compiler = f"{machine}-linux-gnu-gcc"
    for program in (compiler, f"qemu-{machine}"):
        if shutil.which(program) is None:
            absent(f"no {program}")
    original, out = built(f"{compiler} -O2 -fasynchronous-unwind-tables", WALKER), tmp_path / "walker"
    holds(original, out, rewritten(original, out, place))
    emulator = f"qemu-{machine}", "-L", f"/usr/{machine}-linux-gnu"
    said = tool(*emulator, out)
    assert said == tool(*emulator, original)
    assert int(said.split()[0]) > 20


def test_again_it_stays_where_it_is(folder: Path, tmp_path: Path) -> None:
    original = compiled.build(folder, FLAGS["O2"])
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    report = rewritten(original, first, IN_NEW_SEGMENT)
    assert first.read_bytes() != original.read_bytes()
    again = convert(first, second, "eh_frame")
    assert (again.writer, again.address, again.header_address) == (IN_PLACE, report.address, report.header_address)
    convert(second, third, "eh_frame")
    assert third.read_bytes() == second.read_bytes()
    assert prints(third) == EXPECTED_OUTPUT
    assert out_in_place(first, tmp_path) == second.read_bytes()


def out_in_place(path: Path, folder: Path) -> bytes:
    """As above, but with the output at the input's own path."""
    copy = Path(shutil.copy(path, folder / "copy"))
    convert(copy, copy, "eh_frame")
    return copy.read_bytes()


# --- what is refused, and what the check sees ------------------------------------------------------------------------


def elf_with(folder: Path, *contents: Content) -> Path:
    path = folder / "file"
    path.write_bytes(tiny_elf(CODE, *contents))
    return path


def test_files_without_frames_are_refused(tmp_path: Path) -> None:
    path = elf_with(tmp_path)
    with pytest.raises(ParseError, match="has no call frame information"):
        convert(path, tmp_path / "out", "eh_frame")
    path = elf_with(tmp_path, CFI, CFI)
    with pytest.raises(ParseError, match=r"\.eh_frame: the file has 2 sections of that name"):
        convert(path, tmp_path / "out", "eh_frame")
    assert not (tmp_path / "out").exists()


def test_a_header_that_nothing_names(folder: Path, tmp_path: Path) -> None:
    original = compiled.build(folder, FLAGS["O2"])
    named = segment_at(original, "PT_GNU_EH_FRAME")
    path = patched(original, tmp_path / "unnamed", (named, "I", PT_GNU_SFRAME))
    report = convert(path, tmp_path / "out", "eh_frame")
    assert report.writer != IN_PLACE
    assert places(tmp_path / "out")[""] == places(tmp_path / "out")[HEADER]
    assert prints(tmp_path / "out") == EXPECTED_OUTPUT
    (tmp_path / "out").unlink()
    path = patched(original, tmp_path / "elsewhere", (named + 16, "Q", 0x40))
    with pytest.raises(BuildError, match="does not refer to the section"):
        convert(path, tmp_path / "out", "eh_frame")


def test_writable_frames_are_refused(folder: Path, tmp_path: Path) -> None:
    original = compiled.build(folder, FLAGS["O2"])
    path = patched(original, tmp_path / "writable", (section_at(original, FRAMES) + 8, "Q", 3))
    with pytest.raises(BuildError, match="is writable"):
        convert(path, tmp_path / "out", "eh_frame")


DAMAGE = {
    "a byte elsewhere": (lambda path: section_offset(path, ".text"), "B", r"\.text: bytes differ from 0x0 on"),
    "a byte of the frames": (
        lambda path: section_offset(path, FRAMES) + 20,
        "B",
        f"{FRAMES}: its bytes at .* differ from those that were requested",
    ),
    "a byte of the header": (
        lambda path: section_offset(path, HEADER) + 9,
        "B",
        f"{HEADER}: its bytes at .* differ from those that were requested",
    ),
    "its size": (lambda path: section_at(path, FRAMES) + 32, "Q", f"{FRAMES}: sh_size is"),
    "its address": (lambda path: section_at(path, HEADER) + 16, "Q", f"{HEADER}: sh_addr is"),
    "the program header": (
        lambda path: segment_at(path, "PT_GNU_EH_FRAME") + 16,
        "Q",
        f"{HEADER}: its segment: p_vaddr is",
    ),
    "a segment besides": (lambda path: segment_at(path, "PT_GNU_STACK"), "I", "PT_GNU_STACK .*: p_type is"),
}


def section_offset(path: Path, name: str) -> int:
    return next(int(str(header["sh_offset"])) for found, header in headers(path)[1] if found == name)


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_check_sees_damage(damage: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = compiled.build(folder, FLAGS["O2"])
    place, form, says = DAMAGE[damage]

    def spoiled(before: Path, after: Path, expected: ExpectedSection) -> object:
        data, at = bytearray(after.read_bytes()), place(after)
        (value,) = struct.unpack_from(f"<{form}", data, at)
        struct.pack_into(f"<{form}", data, at, value ^ 0x11)
        after.write_bytes(data)
        return check_added(before, after, expected)

    monkeypatch.setattr(elf_add, "check_added", spoiled)
    with pytest.raises(BuildError, match=says):
        rewritten(original, tmp_path / "out")
    assert not (tmp_path / "out").exists()
