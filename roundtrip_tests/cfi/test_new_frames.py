"""A new `.eh_frame` in files that have none, or not for all functions: exceptions, backtrace(), gdb and readers use it.

Strategy: the programs of `mixed_frames` are run before and after. The functions come from `.debug_frame`, from a symbol
file and from SFrame; unwinding is libgcc's and gdb's, reading readelf 2.47's and LLVM's.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from unwindkit import Writer, by_pc, convert, read_elf, write_eh_frame
from unwindkit.converters.cfi.write import frames_from_table
from unwindkit.jobs.eh_frame_files import frames_for
from unwindkit.schemas.cfi import EH_FRAME
from unwindkit.writers.elf.frames import FrameSections, write_frames

from ..support.oracles import absent, oracle_command, oracle_root
from ..support.programs.elf_programs import headers, run, tool
from ..support.programs.mixed_frames import (
    CAUGHT,
    WALKED,
    joined,
    mixed_library,
    mixed_program,
    output_of,
    terminates,
    walker,
)
from ..support.texts.frame_text import readelf_frames

# How the program is linked. gold's sections have another type.
LINKS = ("", "-no-pie", "-static", "-static-pie", "-Wl,-z,noseparate-code", "-Wl,--no-eh-frame-hdr", "-fuse-ld=gold",
         "-fuse-ld=lld")  # fmt: skip
FRAMES, HEADER = ".eh_frame", ".eh_frame_hdr"


@pytest.fixture(scope="session", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mixed")


def types_of(path: Path) -> list[object]:
    return [header["sh_type"] for name, header in headers(path)[1] if name in (FRAMES, HEADER)]


@pytest.mark.parametrize("link", LINKS)
def test_an_exception_passes_a_frame_of_debug_frame(link: str, folder: Path, tmp_path: Path) -> None:
    original = mixed_program(folder, link)
    assert terminates(original)
    out = joined(original, tmp_path / "out")
    assert output_of(out) == CAUGHT
    assert set(types_of(out)) == set(types_of(original)) | ({"SHT_PROGBITS"} if link != "-fuse-ld=gold" else set())
    assert by_pc(read_elf(out, FRAMES)) == by_pc(read_elf(original, "all"))
    # Without a choice of the source, both sections are joined.
    convert(original, tmp_path / "default", "eh_frame")
    assert (tmp_path / "default").read_bytes() == out.read_bytes()


@pytest.mark.parametrize("writer", ["native", "lief"])
def test_every_engine_adds_both_sections(writer: Writer, folder: Path, tmp_path: Path) -> None:
    original, before = mixed_program(folder, ""), tmp_path / "before"
    tool("objcopy", "-R", FRAMES, "-R", HEADER, original, before)
    report = write_eh_frame(before, tmp_path / "out", read_elf(original, "all"), writer=writer)
    assert str(report.writer).startswith(writer)
    assert output_of(tmp_path / "out") == CAUGHT
    assert [name for name, _ in headers(tmp_path / "out")[1]][-2:] == [FRAMES, HEADER]


@pytest.mark.parametrize("link", ["", "-static"])
@pytest.mark.parametrize("source", ["breakpad", "sframe"])
def test_an_exception_passes_a_frame_of_other_sources(source: str, link: str, folder: Path, tmp_path: Path) -> None:
    original = mixed_program(folder, link)
    assert terminates(original, "plain")
    out = joined(original, tmp_path / "out", source)
    assert output_of(out, "plain") == CAUGHT
    # SFrame does not describe the registers that `through` saves.
    assert terminates(original)
    assert (output_of(out) == CAUGHT) == (source == "breakpad")


def test_a_library(folder: Path, tmp_path: Path) -> None:
    program, library = mixed_library(folder)
    for path in (program, library):
        shutil.copy(path, tmp_path)
    path = f"LD_LIBRARY_PATH={tmp_path}"
    assert terminates("env", path, tmp_path / "program")
    joined(library, tmp_path / library.name)
    assert output_of("env", path, tmp_path / "program") == CAUGHT


@pytest.mark.parametrize("machine", ["aarch64", "s390x"])
@pytest.mark.parametrize("link", ["", "-static"])
def test_other_machines(machine: str, link: str, folder: Path, tmp_path: Path) -> None:
    if shutil.which(f"qemu-{machine}") is None:
        absent(f"no qemu-{machine}")
    emulator = f"qemu-{machine}", "-L", f"/usr/{machine}-linux-gnu"
    original = mixed_program(folder, link, machine)
    assert terminates(*emulator, original)
    assert output_of(*emulator, joined(original, tmp_path / "out")) == CAUGHT


EMULATORS = {"sid-riscv64": "riscv64", "sid-ppc64el": "ppc64le"}


@pytest.mark.oracle("forky", *EMULATORS)
@pytest.mark.parametrize("suite", EMULATORS)
def test_libraries_of_more_machines(suite: str, tmp_path: Path) -> None:
    """Both sections of Debian's libc in a new segment: it is loaded, and prints its version when it is started."""
    (library,) = oracle_root(suite).glob("usr/lib/*/libc.so.6")
    (loader,) = library.parent.glob("ld*.so.*")
    emulator = f"qemu-{EMULATORS[suite]}"
    if shutil.which(emulator) is None:
        absent(f"no {emulator}")
    write_frames(library, out := tmp_path / "libc.so.6", wide_frames(library))
    assert readelf_frames(out, FRAMES) == readelf_frames(library, FRAMES)
    start = emulator, loader, "--library-path", library.parent
    assert output_of(*start, out) == output_of(*start, library) != ""


def wide_frames(path: Path) -> FrameSections:
    """The `.eh_frame` with pointers of 8 bytes, which does not fit in place of the old one."""
    return frames_for(frames_from_table(read_elf(path, FRAMES), EH_FRAME, pointer_size=8)[0])


# --- files entirely without .eh_frame ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["linked without", "removed", "no header"])
def test_backtrace_in_a_file_without_frames(how: str, folder: Path, tmp_path: Path) -> None:
    original, out = tmp_path / "original", tmp_path / "out"
    link = "-Wl,--no-eh-frame-hdr" if how == "no header" else ""
    shutil.copy(walker(folder, link, discards=how == "linked without"), original)
    if how == "removed":
        # objcopy leaves a PT_GNU_EH_FRAME that refers to nothing.
        tool("objcopy", "-R", FRAMES, "-R", HEADER, original)
    kinds = [one["p_type"] for one in headers(original)[0]]
    assert ("PT_GNU_EH_FRAME" in kinds) == (how == "removed")
    assert [name for name, _ in headers(original)[1] if name == FRAMES] == [FRAMES] * (how == "no header")
    assert output_of(original) != WALKED
    report = convert(original, out, "eh_frame", source="debug_frame")
    assert (report.converted, report.kept, report.outside_code) == (2, 0, 0)
    assert output_of(out) == WALKED
    assert [one["p_type"] for one in headers(out)[0]].count("PT_GNU_EH_FRAME") == 1
    again = convert(out, tmp_path / "again", "eh_frame")
    assert (again.writer, again.address, again.header_address) == ("in place", report.address, report.header_address)


@pytest.mark.parametrize("link", ["-static", "-static-pie"])
def test_a_static_program_without_frames(link: str, folder: Path, tmp_path: Path) -> None:
    """libgcc's own functions must be described, too: the symbol file was made before the section was removed."""
    original, symbols, without = walker(folder, link, discards=False), tmp_path / "walker.sym", tmp_path / "without"
    convert(joined(original, tmp_path / "all"), symbols, "breakpad")
    tool("objcopy", "-R", FRAMES, "-R", HEADER, original, without)
    assert run(without)[0] != 0
    report = convert(symbols, tmp_path / "out", "eh_frame", source="breakpad", into=without)
    assert report.functions > 1000
    assert output_of(tmp_path / "out") == WALKED


# --- readers -------------------------------------------------------------------------------------------------------

READERS = (
    ("readelf", "forky", ("-wfN",)),
    ("readelf", "forky", ("-wFN",)),
    ("readelf", "forky", ("-lSW",)),
    ("llvm-readobj-22", "sid-llvm", ("--unwind",)),
    ("llvm-readobj-22", "sid-llvm", ("--elf-output-style=GNU", "--unwind")),
    ("llvm-dwarfdump-22", "sid-llvm", ("--eh-frame",)),
)


@pytest.mark.oracle("forky", "sid-llvm")
@pytest.mark.parametrize("link", LINKS)
def test_readers_have_no_complaints(link: str, folder: Path, tmp_path: Path) -> None:
    out = joined(mixed_program(folder, link), tmp_path / "out")
    for program, suite, options in READERS:
        done = subprocess.run([*oracle_command(program, suite), *options, out], capture_output=True, check=True)
        assert (done.stderr, done.stdout != b"") == (b"", True)
    found = {(one.start, one.end): one.rows for one in readelf_frames(out, FRAMES)}
    original = mixed_program(folder, link)
    kept = {(one.start, one.end): one.rows for one in readelf_frames(original, FRAMES)}
    added = {(one.start, one.end): one.rows for one in readelf_frames(original, ".debug_frame")}
    assert found == kept | added
    assert len(added) >= 2


def gdb_frames(program: Path, path: Path) -> str:
    """gdb's backtrace from the innermost function, and the registers of every frame. The program is copied to `path`,
    whose length determines addresses on the stack."""
    shutil.copy(program, path)
    commands = ("-ex", "break counts", "-ex", "run", "-ex", "backtrace")
    registers = [part for level in range(1, 5) for part in ("-ex", f"frame {level}", "-ex", "info registers")]
    text = run("gdb", "-nx", "-batch", *commands, *registers, path)[1].replace(str(path), "")
    return text.partition("Breakpoint 1, ")[2]


@pytest.mark.parametrize("source", ["debug_frame", "breakpad"])
def test_gdb_gives_the_same_backtrace_without_debug_frame(source: str, folder: Path, tmp_path: Path) -> None:
    if shutil.which("gdb") is None:
        absent("no gdb")
    original, program = mixed_program(folder, ""), tmp_path / "program"
    before, after = tmp_path / "before", tmp_path / "after"
    tool("objcopy", "-R", ".debug_frame", original, before)
    tool("objcopy", "-R", ".debug_frame", joined(original, tmp_path / "out", source), after)
    expected = gdb_frames(original, program)
    assert expected.count("\n#") >= 4
    assert gdb_frames(after, program) == expected
    # The section is needed: from the code alone, gdb guesses.
    assert gdb_frames(before, program) != expected
