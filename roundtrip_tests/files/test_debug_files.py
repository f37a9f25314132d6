"""Separate debug files: a stripped program with its debug file gives what the program gave before it was stripped.

Strategy: a program most of whose call frame information is in `.debug_frame`, stripped as Debian and Fedora do it; the
debug file is given, or found in each place where gdb looks. Files with wrong identifiers are refused or left out.
"""

from __future__ import annotations

import lzma
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import pytest
from unwindkit import (
    DebugFiles,
    FormatError,
    by_pc,
    convert,
    find_in_file,
    find_lines,
    info,
    read_elf,
    read_lines,
    same_lines,
    write_breakpad,
    write_sframe,
    write_sframe_section,
)
from unwindkit.converters.elf.debug_files import LINK, with_debug_file
from unwindkit.converters.elf.identity import build_id
from unwindkit.converters.elf.image import open_elf

from ..cfi.test_cfi_reading import libc
from ..support.binutils import gcc
from ..support.commands import DONE, refuses
from ..support.commands import unwindkit as command
from ..support.oracles import oracle_root
from ..support.tiny_elf import Content, tiny_elf

SOURCE = """
#include <stdio.h>
static __attribute__((noinline)) int twice(int x) { return 2 * x + 1; }
static __attribute__((noinline)) int sum(int n) {
  int all[40];
  for (int i = 0; i < 40; i++) all[i] = twice(n + i);
  return all[n % 40];
}
int main(int count, char **values) { printf("%d", sum(count)); return values[0][0]; }
"""
FLAGS = ("-g", "-gdwarf-5", "-O1", "-fno-asynchronous-unwind-tables", "-Wl,--build-id=sha1")
NAMES = ["twice", "sum", "main", "_start"]


@dataclass(frozen=True, slots=True)
class Built:
    """A program before and after it was stripped, with the same name, and its debug file."""

    whole: Path
    stripped: Path
    debug: Path


def tool(*command_line: str | Path) -> None:
    subprocess.run(command_line, check=True, capture_output=True)


@pytest.fixture(scope="module", name="built")
def built_fixture(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("debug-files"), *FLAGS)


def build(folder: Path, *flags: str) -> Built:
    folder.mkdir(exist_ok=True)
    for name in ("whole", "stripped", "debug"):
        (folder / name).mkdir()
    (folder / "main.c").write_text(SOURCE)
    built = Built(folder / "whole/program", folder / "stripped/program", folder / "debug/program.debug")
    gcc(folder, *flags, "main.c", "-o", built.whole)
    tool("objcopy", "--only-keep-debug", built.whole, built.debug)
    tool("strip", "--strip-all", built.whole, "-o", built.stripped)
    return built


def with_link(built: Built, out: Path) -> Path:
    """A copy of the stripped program with a `.gnu_debuglink`."""
    out.parent.mkdir(parents=True, exist_ok=True)
    tool("objcopy", f"--add-gnu-debuglink={built.debug}", built.stripped, out)
    return out


def without_build_id(path: Path, out: Path) -> Path:
    tool("objcopy", "--remove-section=.note.gnu.build-id", path, out)
    return out


Place = Callable[[Built, Path], tuple[Path, DebugFiles]]


def given(built: Built, folder: Path) -> tuple[Path, DebugFiles]:
    return shutil.copy(built.stripped, folder / "program"), DebugFiles(built.debug)


def in_memory(built: Built, folder: Path) -> tuple[Path, DebugFiles]:
    return shutil.copy(built.stripped, folder / "program"), DebugFiles(built.debug.read_bytes())


def beside(built: Built, folder: Path) -> tuple[Path, DebugFiles]:
    program = with_link(built, folder / "program")
    shutil.copy(built.debug, folder)
    return program, DebugFiles()


def in_debug_folder(built: Built, folder: Path) -> tuple[Path, DebugFiles]:
    program = with_link(built, folder / "program")
    (folder / ".debug").mkdir()
    shutil.copy(built.debug, folder / ".debug")
    return program, DebugFiles()


def under_global_folder(built: Built, folder: Path) -> tuple[Path, DebugFiles]:
    program = with_link(built, folder / "bin/program")
    place = Path(f"{folder}/global{program.parent}")
    place.mkdir(parents=True)
    shutil.copy(built.debug, place)
    return program, DebugFiles(folders=(folder / "absent", folder / "global"))


def by_identifier(built: Built, folder: Path) -> tuple[Path, DebugFiles]:
    identifier = build_id(open_elf(built.stripped)).hex()
    place = folder / "global/.build-id" / identifier[:2]
    place.mkdir(parents=True)
    shutil.copy(built.debug, place / f"{identifier[2:]}.debug")
    return shutil.copy(built.stripped, folder / "program"), DebugFiles(folders=(folder / "global",))


def through_a_symbolic_link(built: Built, folder: Path) -> tuple[Path, DebugFiles]:
    program, debug = beside(built, folder)
    (folder / "links").mkdir()
    (folder / "links/program").symlink_to(program)
    return folder / "links/program", debug


PLACES: list[Place] = [
    given,
    in_memory,
    beside,
    in_debug_folder,
    under_global_folder,
    by_identifier,
    through_a_symbolic_link,
]


def symbols(path: Path, debug: DebugFiles) -> bytes:
    out = BytesIO()
    write_breakpad(path, out, debug=debug)
    return out.getvalue()


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
class TestStrippedProgram:
    """With its debug file, found in each place, it is read like the program before it was stripped."""

    def test_tables_and_sframe(self, built: Built, place: Place, tmp_path: Path) -> None:
        program, debug = place(built, tmp_path)
        assert by_pc(read_elf(program, "all", debug)) == by_pc(read_elf(built.whole, "all"))
        alone = by_pc(read_elf(program, "all", DebugFiles(links=False)))
        assert alone != by_pc(read_elf(built.whole, "all"))
        report = write_sframe_section(program, tmp_path / "sframe", 0x4000, debug=debug)
        expected = write_sframe_section(built.whole, tmp_path / "expected", 0x4000)
        assert (tmp_path / "sframe").read_bytes() == (tmp_path / "expected").read_bytes()
        assert report.covered_bytes == expected.covered_bytes
        assert report.cfi_sizes == expected.cfi_sizes
        assert report.debug_file == (str(built.debug) if place is given else report.debug_file)

    def test_convert(self, built: Built, place: Place, tmp_path: Path) -> None:
        program, debug = place(built, tmp_path)
        for to in ("eh_frame", "debug_frame", "breakpad", "directives"):
            report = convert(program, tmp_path / "out", to, section_only=True, debug=debug)
            assert report.debug_file
            convert(built.whole, tmp_path / "expected", to, section_only=True)
            assert (tmp_path / "out").read_bytes() == (tmp_path / "expected").read_bytes()

    def test_convert_of_lines(self, built: Built, place: Place, tmp_path: Path) -> None:
        program, debug = place(built, tmp_path)
        for to in ("breakpad-lines", "debug_line", "debug_aranges"):
            convert(program, tmp_path / "out", to, section_only=to != "breakpad-lines", debug=debug)
            convert(built.whole, tmp_path / "expected", to, section_only=to != "breakpad-lines")
            assert (tmp_path / "out").read_bytes() == (tmp_path / "expected").read_bytes()

    def test_find(self, built: Built, place: Place, tmp_path: Path) -> None:
        program, debug = place(built, tmp_path)
        architecture, found = find_in_file(program, NAMES, debug=debug)
        assert (architecture, tuple(replace(one, file="") for one in found)) == find_in_file(built.whole, NAMES)
        assert {one.source for one in found if one.file} == {".debug_frame"}

    def test_breakpad(self, built: Built, place: Place, tmp_path: Path) -> None:
        program, debug = place(built, tmp_path)
        text = symbols(program, debug)
        assert text == symbols(built.whole, DebugFiles())
        assert b" 0 twice\n" in text
        assert b" twice\n" not in symbols(program, DebugFiles(links=False))

    def test_lines(self, built: Built, place: Place, tmp_path: Path) -> None:
        program, debug = place(built, tmp_path)
        assert same_lines(read_lines(program, debug), read_lines(built.whole))
        pcs = read_lines(built.whole).rows.address
        assert list(find_lines(program, pcs, debug)) == list(find_lines(built.whole, pcs))
        with pytest.raises(FormatError, match="the file has no such section"):
            read_lines(program, DebugFiles(links=False))

    def test_info(self, built: Built, place: Place, tmp_path: Path) -> None:
        program, debug = place(built, tmp_path)
        found = info(program, debug=debug)
        assert tuple(replace(one, file="") for one in found.sections) == info(built.whole).sections
        assert [one.name for one in found.sections if one.file] == [".debug_frame"]
        assert {one.file for one in found.sections} == {"", found.debug_file}


# --- the command line -----------------------------------------------------------------------------------------


def test_commands_name_the_debug_file(built: Built, tmp_path: Path) -> None:
    program, debug = built.stripped, str(built.debug)
    option = ("--debug-file", debug)
    done = command("sframe", program, "--section", tmp_path / "sframe", *option)
    assert f"\n  debug file: {debug}\n" in f"{done.stderr}\n"
    done = command(
        "convert", program, tmp_path / "raw", "--to", "eh_frame", "--from", "debug_frame", "--section", *option
    )
    assert f"  debug file: {debug}" in done.stderr.splitlines()
    done = command("breakpad", program, "-o", tmp_path / "program.sym", *option)
    assert f"  debug file: {debug}" in done.stderr.splitlines()
    done = command("find", program, "twice", *option)
    assert done.stderr == f"unwindkit: {program}: debug file: {debug}\n"
    assert ".debug_frame" in done.stdout
    assert f" bytes at 0x0, in {debug}\n" in command("info", program, *option).stdout


def test_debug_folders_and_no_links(built: Built, tmp_path: Path) -> None:
    program, debug = by_identifier(built, tmp_path)
    folder = str(debug.folders[0])
    assert ".debug_frame" in command("info", program, "--debug-dir", tmp_path, "--debug-dir", folder).stdout
    assert ".debug_frame" not in command("info", program, "--debug-dir", folder, "--no-debug-links").stdout
    assert ".debug_frame" not in command("info", program).stdout


def test_many_files_each_have_their_debug_file(built: Built, tmp_path: Path) -> None:
    program, debug = by_identifier(built, tmp_path)
    (tmp_path / "in").mkdir()
    shutil.copy(program, tmp_path / "in/one")
    option = ("--debug-dir", str(debug.folders[0]))
    done = command(
        "sframe", tmp_path / "in", "--output-dir", tmp_path / "out", "--report", tmp_path / "r.json", *option
    )
    assert done.returncode == DONE
    assert ".debug_frame" in (tmp_path / "r.json").read_text()
    done = command("breakpad", tmp_path / "in", "--store", tmp_path / "store", *option)
    assert f"  debug file: {debug.folders[0]}/.build-id/" in done.stderr
    wrong = command("sframe", tmp_path / "in", "--output-dir", tmp_path / "out", "--debug-file", built.debug)
    assert "--debug-file is for one file" in wrong.stderr


def test_the_program_with_its_section_runs(built: Built, tmp_path: Path) -> None:
    """`.sframe` is added to the stripped file, not to the joined one."""
    report = write_sframe(built.stripped, tmp_path / "program", debug=DebugFiles(built.debug))
    assert report.covered_bytes > 100
    assert not open_elf(tmp_path / "program").named(".debug_frame")
    assert subprocess.run([tmp_path / "program"], capture_output=True, check=False).stdout == b"5"


# --- wrong files ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", name="other")
def other_fixture(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("other"), *FLAGS, "-DOTHER", "-O2")


def test_a_given_file_with_another_build_id_is_refused(built: Built, other: Built, tmp_path: Path) -> None:
    ours, theirs = (build_id(open_elf(one.stripped)).hex() for one in (built, other))
    says = f"debug_file: {other.debug} has the build id {theirs}, not {ours}"
    for arguments in (
        ("sframe", built.stripped, "-o", tmp_path / "out"),
        ("convert", built.stripped, tmp_path / "out", "--to", "debug_frame"),
        ("breakpad", built.stripped, "-o", tmp_path / "out"),
        ("find", built.stripped, "0x1000"),
        ("info", built.stripped),
    ):
        refuses(built.stripped, *arguments, "--debug-file", other.debug, says=says)


@pytest.mark.oracle("sid-s390x")
def test_given_files_that_are_none(built: Built, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not ELF")
    done = command("info", built.stripped, "--debug-file", text)
    assert (done.returncode, done.stderr) == (2, f"unwindkit: {text}: not an ELF file\n")
    done = command("info", built.stripped, "--debug-file", tmp_path / "absent")
    assert done.stderr == f"unwindkit: {tmp_path / 'absent'}: No such file or directory\n"
    with pytest.raises(FormatError, match=r"debug_file: .* is for s390x, big-endian"):
        read_elf(built.stripped, debug=DebugFiles(libc("sid-s390x")))


def test_without_build_ids_the_code_is_compared(built: Built, other: Built, tmp_path: Path) -> None:
    program = without_build_id(built.stripped, tmp_path / "program")
    debug = without_build_id(built.debug, tmp_path / "program.debug")
    assert by_pc(read_elf(program, "all", DebugFiles(debug))) == by_pc(read_elf(built.whole, "all"))
    wrong = without_build_id(other.debug, tmp_path / "other.debug")
    with pytest.raises(
        FormatError, match="has no build id to compare, and its executable sections are at other addresses"
    ):
        read_elf(program, debug=DebugFiles(wrong))


def test_a_debug_file_for_anything_but_a_linked_file_is_refused(built: Built, tmp_path: Path) -> None:
    gcc(tmp_path, "-c", "-g", built.whole.parent.parent / "main.c", "-o", "main.o")
    says = "debug_file: can be given for a linked ELF file only"
    refuses(tmp_path / "main.o", "info", tmp_path / "main.o", "--debug-file", built.debug, says=says)
    refuses(
        tmp_path / "main.o",
        "sframe",
        tmp_path / "main.o",
        "-o",
        tmp_path / "out",
        "--debug-file",
        built.debug,
        says=says,
    )


def test_a_copy_gets_only_its_own_lines(built: Built, tmp_path: Path) -> None:
    says = "debug_file: cannot be given for a copy of the file, which gets its own sections"
    arguments = ("--to", "debug_line", "--debug-file", built.debug)
    refuses(built.stripped, "convert", built.stripped, tmp_path / "out", *arguments, says=says)


def test_loaded_sections_are_those_of_the_stripped_file(built: Built, tmp_path: Path) -> None:
    """The debug file has the bytes of a loaded note, too."""
    program = tmp_path / "program"
    tool("objcopy", "--remove-section=.note.ABI-tag", built.stripped, program)
    assert open_elf(built.debug).named(".note.ABI-tag")
    assert not with_debug_file(open_elf(program), DebugFiles(built.debug)).named(".note.ABI-tag")


def test_a_section_of_both_files_is_that_of_the_stripped_one(built: Built, tmp_path: Path) -> None:
    """Debian's armhf keeps `.debug_frame` in stripped libraries."""
    program = tmp_path / "program"
    tool("strip", "--strip-all", "--keep-section=.debug_frame", built.whole, "-o", program)
    image = with_debug_file(open_elf(program), DebugFiles(built.debug))
    (frames,) = image.named(".debug_frame")
    assert image.part_of(frames) is None
    assert by_pc(read_elf(program, "all", DebugFiles(built.debug))) == by_pc(read_elf(built.whole, "all"))


def test_a_fault_in_the_debug_file_has_no_offset_in_the_stripped_file(built: Built, tmp_path: Path) -> None:
    debug, data = tmp_path / "broken.debug", bytearray(built.debug.read_bytes())
    (frames,) = open_elf(built.debug).named(".debug_frame")
    data[frames.file_offset + 8] = 77  # the CIE's version
    debug.write_bytes(data)
    with pytest.raises(FormatError, match=r"^\.debug_frame\+0x9: CIE\[0\]\.version: ") as caught:
        read_elf(built.stripped, ".debug_frame", DebugFiles(debug))
    assert caught.value.file_offset is None


def test_linked_files_of_another_program_are_noted_not_used(built: Built, other: Built, tmp_path: Path) -> None:
    """The CRC of the link is right; the build id is not."""
    program = tmp_path / "program"
    tool("objcopy", f"--add-gnu-debuglink={other.debug}", built.stripped, program)
    shutil.copy(other.debug, tmp_path)
    image = with_debug_file(open_elf(program))
    ours, theirs = (build_id(open_elf(one.stripped)).hex() for one in (built, other))
    assert image.notes == (f"{tmp_path}/program.debug has the build id {theirs}, not {ours}: not used",)
    assert (image.debug_file, image.named(".debug_frame")) == ("", ())
    assert info(program).debug_notes == image.notes
    done = command("breakpad", program, "-o", tmp_path / "out.sym")
    assert f"  debug file {image.notes[0]}" in done.stderr.splitlines()


def test_a_wrong_crc_is_noted_and_the_next_place_is_looked_at(built: Built, tmp_path: Path) -> None:
    program = with_link(built, tmp_path / "program")
    data = built.debug.read_bytes()
    (tmp_path / "program.debug").write_bytes(data + b"\0")
    image = with_debug_file(open_elf(program))
    assert image.debug_file == ""
    (note,) = image.notes
    assert note.startswith(f"{tmp_path}/program.debug has the CRC 0x")
    (tmp_path / ".debug").mkdir()
    shutil.copy(built.debug, tmp_path / ".debug")
    image = with_debug_file(open_elf(program))
    assert (image.debug_file, image.notes) == (f"{tmp_path}/.debug/program.debug", (note,))


def test_a_broken_candidate_is_noted(built: Built, tmp_path: Path) -> None:
    program, debug = by_identifier(built, tmp_path)
    (path,) = (tmp_path / "global/.build-id").glob("*/*.debug")
    path.write_bytes(b"not ELF")
    assert with_debug_file(open_elf(program), debug).notes == (f"{path} cannot be read (not an ELF file): not used",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"program.debug\0\0\0", "file name: is not followed by a CRC"),
        (b"program.debug", "file name: is not followed by a CRC"),
        (b"\0\0\0\0\1\2\3\4", "file name: is not followed by a CRC"),
        (b"", "file name: is not followed by a CRC"),
        (b"../program.debug\0\0\0\0" + bytes(4), "file name: '../program.debug' leads out of the folder"),
        (b"..\0\0" + bytes(4), "file name: '..' leads out of the folder"),
    ],
)
def test_a_malformed_link_is_noted(built: Built, tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "link").write_bytes(content)
    tool("objcopy", f"--add-section={LINK}={tmp_path / 'link'}", built.stripped, tmp_path / "program")
    (note,) = with_debug_file(open_elf(tmp_path / "program")).notes
    assert note.startswith("the links to a debug file cannot be read: .gnu_debuglink")
    assert note.endswith(reason)


def test_a_link_with_a_name_that_no_file_has(built: Built, tmp_path: Path) -> None:
    (tmp_path / "link").write_bytes(b"x" * 5000 + b"\0\0\0\0" + bytes(4))
    tool("objcopy", f"--add-section={LINK}={tmp_path / 'link'}", built.stripped, tmp_path / "program")
    assert with_debug_file(open_elf(tmp_path / "program")).notes == ()


def test_a_file_with_its_own_debugging_information_needs_no_other(built: Built, tmp_path: Path) -> None:
    tool("objcopy", f"--add-gnu-debuglink={built.debug}", built.whole, tmp_path / "program")
    shutil.copy(built.debug, tmp_path)
    assert with_debug_file(open_elf(tmp_path / "program")).parts == ()


# --- .gnu_debugdata -------------------------------------------------------------------------------------------


def with_mini(built: Built, folder: Path, data: bytes | None = None) -> Path:
    """The stripped program with symbols in a `.gnu_debugdata`, as Fedora makes it."""
    mini = folder / "mini"
    tool("objcopy", "--strip-debug", "--keep-symbol=twice", "--keep-symbol=sum", "--strip-all", built.debug, mini)
    (folder / "mini.xz").write_bytes(lzma.compress(mini.read_bytes()) if data is None else data)
    tool("objcopy", f"--add-section=.gnu_debugdata={folder / 'mini.xz'}", built.stripped, folder / "program")
    return folder / "program"


def test_names_in_gnu_debugdata(tmp_path: Path) -> None:
    """The names in .dynsym, which the compressed table lacks, remain."""
    built = build(tmp_path / "build", *FLAGS, "-rdynamic")
    program = with_mini(built, tmp_path)
    text, alone = symbols(program, DebugFiles()), symbols(built.stripped, DebugFiles())
    publics, before = ({line for line in one.splitlines() if line.startswith(b"PUBLIC ")} for one in (text, alone))
    assert {line.split()[-1] for line in publics - before} == {b"twice", b"sum"}
    assert {b"main", b"_start"} <= {line.split()[-1] for line in before}
    assert before <= publics
    (found,) = find_in_file(program, ["twice"])[1]
    (expected, *_) = find_in_file(built.whole, ["twice"])[1]
    assert found.pc == expected.pc


def test_gnu_debugdata_is_not_read_beside_a_debug_file(built: Built, tmp_path: Path) -> None:
    _, debug = by_identifier(built, tmp_path)
    image = with_debug_file(open_elf(with_mini(built, tmp_path)), debug)
    assert [part.path for part in image.parts] == [image.debug_file]


# 16 MiB in 2.5 kB.
INFLATED = lzma.compress(bytes(1 << 24))


@pytest.mark.parametrize(
    "data",
    [b"not xz", b"", lzma.compress(b"not ELF"), INFLATED, lzma.compress(b"\x7fELF")[:-20]],
    ids=["not xz", "empty", "not ELF", "inflated", "truncated"],
)
def test_gnu_debugdata_that_cannot_be_read_is_noted(built: Built, tmp_path: Path, data: bytes) -> None:
    image = with_debug_file(open_elf(with_mini(built, tmp_path, data)))
    (note,) = image.notes
    assert note.startswith(".gnu_debugdata cannot be read: ")
    if data is INFLATED:
        most = (8 << 20) + 16 * len(data)
        assert note.endswith(f"is truncated or inflates to more than {most:#x} bytes (--raise-limits)")
    assert image.parts == ()


# --- .gnu_debugaltlink ----------------------------------------------------------------------------------------


IDENTIFIER = bytes(range(20))
NOTE = 7  # SHT_NOTE


def with_strings(identifier: bytes) -> bytes:
    """A supplementary file with this build id."""
    note = struct.pack("<III", 4, len(identifier), 3) + b"GNU\0" + identifier
    strings = Content(".debug_str", b"first\0moved.c\0", flags=0)
    return bytes(tiny_elf(strings, Content(".note.gnu.build-id", note, NOTE, flags=0)))


def supplementary(built: Built, folder: Path, name: str) -> Path:
    """The stripped program and a debug file with one line number program, whose file name is in a supplementary file.

    DWARF5 6.2.4: the file has the path DW_FORM_strp_sup 6, "moved.c", in the supplementary `.debug_str`.
    """
    after = bytes.fromhex("01 01 01 fb 0e 0d 00 01 01 01 01 00 00 00 01 00 00 01")  # up to the opcode lengths
    formats = bytes.fromhex("01 01 08 01") + b"/src\0" + bytes.fromhex("01 01 1d 01") + struct.pack("<I", 6)
    program = bytes.fromhex("00 09 02") + struct.pack("<Q", 0x1000) + bytes.fromhex("04 00 01 02 04 00 01 01")
    header = struct.pack("<I", len(after + formats)) + after + formats
    unit = struct.pack("<HBB", 5, 8, 0) + header + program
    (folder / "line").write_bytes(struct.pack("<I", len(unit)) + unit)
    (folder / "alt").write_bytes(name.encode() + b"\0" + IDENTIFIER)
    sup = folder / "sup.debug"
    sup.write_bytes(with_strings(IDENTIFIER))
    debug = folder / "program.debug"
    tool(
        *("objcopy", "--remove-section=.debug_line", "--remove-section=.debug_info", built.debug, debug),
    )
    tool(
        *("objcopy", "--add-section", f".debug_line={folder / 'line'}"),
        *("--add-section", f".gnu_debugaltlink={folder / 'alt'}", debug),
    )
    return sup


@pytest.mark.parametrize("place", ["relative", "absolute", "dwz folder", "build id"])
def test_strings_of_a_supplementary_file(built: Built, tmp_path: Path, place: str) -> None:
    folders = tmp_path / "global"
    names = {
        "relative": "dwz/common.debug",
        "absolute": f"{tmp_path}/dwz/common.debug",
        "dwz folder": "../../.dwz/x86_64/common.debug",
        "build id": "absent",
    }
    targets = {
        "dwz folder": folders / ".dwz/x86_64/common.debug",
        "build id": folders / ".build-id/00" / f"{IDENTIFIER[1:].hex()}.debug",
    }
    sup = supplementary(built, tmp_path, names[place])
    target = targets.get(place, tmp_path / "dwz/common.debug")
    target.parent.mkdir(parents=True)
    sup.rename(target)
    debug = DebugFiles(tmp_path / "program.debug", folders=(folders,))
    (found,) = find_lines(built.stripped, [0x1000], debug)
    assert found is not None
    assert found.file == b"/src/moved.c"
    # With another build id it is another file.
    target.write_bytes(with_strings(bytes(20)))
    image = with_debug_file(open_elf(built.stripped), debug)
    (note,) = image.notes
    assert note == f"{target} has the build id {'00' * 20}, not {IDENTIFIER.hex()}: not used"
    with pytest.raises(FormatError, match=r"DW_LNCT_path: refers to .*, which the file does not have"):
        find_lines(built.stripped, [0x1000], debug)


# --- a file from Debian ---------------------------------------------------------------------------------------


@pytest.mark.oracle("bookworm", "bookworm-dbg")
def test_debian_libc_finds_its_debug_file_by_build_id(tmp_path: Path) -> None:
    path = next(oracle_root("bookworm").glob("lib/x86_64-linux-gnu/libc.so.6"))
    folder = oracle_root("bookworm-dbg") / "usr/lib/debug"
    debug = DebugFiles(folders=(folder,))
    image = with_debug_file(open_elf(path), debug)
    assert image.debug_file.startswith(f"{folder}/.build-id/")
    lines = find_lines(path, [start + 1 for start in read_elf(path).functions.start.tolist()[:2000]], debug)
    named = sum(one is not None and b"/" in one.file for one in lines)
    assert named > 1500
    text = symbols(path, debug)
    named = text.count(b"\nFUNC ") + text.count(b"\nPUBLIC ")
    assert named > symbols(path, DebugFiles(links=False)).count(b"\nPUBLIC ") + 1000
