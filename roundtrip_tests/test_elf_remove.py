"""Files that `.sframe` was taken out of: they run as before, nothing else has changed, and the check sees every fault.

Strategy: an `.sframe` that we wrote (in a PT_LOAD of its own) or that a linker wrote (in the middle of one) is removed,
and the result held against the input by its tables and its bytes, without the product's check; then by what readelf
2.47 and eu-elflint say, and by execution. The check is then held against results that were spoiled in one place each.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import unwindkit
from unwindkit import ParseError
from unwindkit.writers.elf_remove import RemoveReport, check_removed

from . import compiled
from .binutils import EVERY_VERSION, SFRAME, V3, Binutils, chosen, gcc
from .oracles import oracle_command
from .real_files import REAL_FILES
from .test_elf_writer import headers, patched, section_at, segment_at

PT_GNU_SFRAME = 0x6474E554
FLAGS = {flags.name: flags for flags in compiled.FLAG_SETS}
SOME_FLAGS = pytest.mark.parametrize(
    "name", ["O0", "O2", "Os-no-pie", "cf-protection", "now", "static", "static-pie", "shared", "g3"]
)
# A section's header that names nothing (gABI, SHN_UNDEF).
NULL = dict.fromkeys(
    ("sh_name", "sh_flags", "sh_addr", "sh_offset", "sh_size", "sh_link", "sh_info", "sh_addralign", "sh_entsize"), 0
) | {"sh_type": "SHT_NULL"}


@pytest.fixture(scope="session", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if (reason := compiled.absence()) is not None:
        pytest.skip(reason)
    return tmp_path_factory.getbasetemp() / "compiled"


# --- the witness --------------------------------------------------------------------------------------------


def is_of_sframe(name: str) -> bool:
    """What goes: the section, and its relocations where the linker was asked to keep them."""
    return name in (".sframe", ".rela.sframe")


def blank(data: bytearray, *places: tuple[int, int]) -> None:
    for start, end in places:
        data[start:end] = bytes(end - start)


def only_sframe_is_gone(before: Path, after: Path, report: RemoveReport, own_load: bool) -> None:
    """Every other section at its index, every other segment in its place, every other byte of the file, and the mode.
    `own_load`: the last PT_LOAD held nothing else, and is gone too."""
    (old_segments, old_sections), (segments, sections) = headers(before), headers(after)
    old, new = bytearray(before.read_bytes()), bytearray(after.read_bytes())
    assert after.stat().st_mode == before.stat().st_mode
    assert len(new) == len(old)

    assert report.removed == tuple(header["sh_size"] for name, header in old_sections if name == ".sframe")
    for index, (name, header) in enumerate(old_sections):
        if not is_of_sframe(name):
            assert sections[index] == (name, header)
        elif index < len(sections):
            assert sections[index] == ("", NULL)
        if is_of_sframe(name) and header["sh_type"] != "SHT_NOBITS":
            blank(old, (header["sh_offset"], header["sh_offset"] + header["sh_size"]))
    assert len(sections) == len(old_sections) - (old_sections[-1][0] == ".sframe")

    kept = [one for one in old_segments if one["p_type"] != PT_GNU_SFRAME]
    if own_load:
        del kept[max(index for index, one in enumerate(kept) if one["p_type"] == "PT_LOAD")]
    size = 56 * len(kept)
    kept = [one | {"p_filesz": size, "p_memsz": size} if one["p_type"] == "PT_PHDR" else one for one in kept]
    assert segments == kept
    assert report.segments == len(old_segments) - len(segments)

    # The tables were compared above; behind the shorter ones there is nothing. e_phnum and e_shnum count them.
    for offset, size, count in ((32, 56, (len(old_segments), len(kept))), (40, 64, (len(old_sections), len(sections)))):
        (start,) = struct.unpack_from("<Q", old, offset)
        assert not any(new[start + size * count[1] : start + size * count[0]])
        blank(old, (start, start + size * count[0]), (56, 58), (60, 62))
        blank(new, (start, start + size * count[0]), (56, 58), (60, 62))
    assert new == old


def complaints(path: Path) -> set[str]:
    """What readelf 2.47 and eu-elflint find wrong with a file."""
    commands = [[*oracle_command("readelf"), "-aW", path], ["eu-elflint", "--gnu-ld", path]]
    if shutil.which("eu-elflint") is None:
        pytest.skip("no eu-elflint (elfutils)")
    read, lint = (subprocess.run(one, capture_output=True, text=True, errors="replace") for one in commands)
    return {line.replace(str(path), "") for line in (read.stderr + lint.stdout).splitlines()} - {"No errors"}


def removed(before: Path, after: Path, own_load: bool) -> RemoveReport:
    """Take the section out, and look at the result."""
    report = unwindkit.remove_sframe(before, after)
    only_sframe_is_gone(before, after, report, own_load)
    return report


def prints(path: Path, **environment: str) -> str:
    """What a program prints, or a library's `run_frames`; its `step` is not libc's."""
    call = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_DEEPBIND).run_frames()"
    command = [sys.executable, "-c", call, path] if path.suffix == ".so" else [path]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment or None).stdout


# --- what we wrote ------------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_real_files_that_we_gave_a_section(path: str, folder: Path, tmp_path: Path) -> None:
    original, before, after = Path(path), tmp_path / "before", tmp_path / Path(path).name
    unwindkit.write_sframe(original, before)
    report = removed(before, after, own_load=True)
    assert report.segments == 2
    assert complaints(after) <= complaints(original)
    if ".so" in after.name:
        # In the place of the system's, it runs a program that throws exceptions.
        assert prints(compiled.build(folder, FLAGS["O2"]), LD_PRELOAD=str(after)) == compiled.EXPECTED_OUTPUT
    else:
        texts = [subprocess.run([one, "--version"], capture_output=True, check=True).stdout for one in (path, after)]
        assert texts[0] == texts[1] != b""


@pytest.mark.oracle
@SOME_FLAGS
def test_compiled_files_that_we_gave_a_section(name: str, folder: Path, tmp_path: Path) -> None:
    original = compiled.build(folder, FLAGS[name])
    before, after = tmp_path / "before", tmp_path / original.name
    unwindkit.write_sframe(original, before)
    removed(before, after, own_load=True)
    assert complaints(after) <= complaints(original)
    assert prints(after) == compiled.EXPECTED_OUTPUT


def test_add_and_remove_again_and_again(folder: Path, tmp_path: Path) -> None:
    original = compiled.build(folder, FLAGS["O2"])
    added = [tmp_path / f"added{index}" for index in range(3)]
    without = [original, *(tmp_path / f"without{index}" for index in range(3))]
    rules = []
    for index, path in enumerate(added):
        unwindkit.write_sframe(without[index], path)
        assert prints(path) == compiled.EXPECTED_OUTPUT
        rules.append(unwindkit.by_pc(unwindkit.read_elf(path, ".sframe")))
        removed(path, without[index + 1], own_load=True)
        assert prints(without[index + 1]) == compiled.EXPECTED_OUTPUT
    assert rules[0] == rules[1] == rules[2]


def test_added_twice_is_removed_once(folder: Path, tmp_path: Path) -> None:
    once, twice, one, two = (tmp_path / name for name in ("once", "twice", "one", "two"))
    unwindkit.write_sframe(compiled.build(folder, FLAGS["O2"]), once)
    unwindkit.write_sframe(once, twice)
    removed(once, one, own_load=True)
    removed(twice, two, own_load=True)
    assert one.read_bytes() == two.read_bytes()
    with pytest.raises(ParseError, match="the file has no such section"):
        unwindkit.remove_sframe(one, two)


def test_strip_works_on_what_is_left(folder: Path, tmp_path: Path) -> None:
    """Not before: GNU strip moves sections to where our program headers are."""
    before, after = tmp_path / "before", tmp_path / "after"
    unwindkit.write_sframe(compiled.build(folder, FLAGS["O2"]), before)
    removed(before, after, own_load=True)
    subprocess.run(["strip", after], check=True)
    assert prints(after) == compiled.EXPECTED_OUTPUT
    unwindkit.write_sframe(after, before)
    assert prints(before) == compiled.EXPECTED_OUTPUT


# --- what linkers wrote ---------------------------------------------------------------------------------------


def linked(folder: Path, tools: Binutils, name: str) -> Path:
    """A program with an `.sframe` by these tools, in the middle of a PT_LOAD."""
    flags = FLAGS[name]
    options = (*chosen(folder, tools), SFRAME, *flags.flags)
    return compiled.build(folder, replace(flags, name=f"{tools.release}-{name}", flags=options))


@pytest.mark.oracle
@pytest.mark.parametrize("tools", EVERY_VERSION)
@pytest.mark.parametrize("name", ["O0", "O2", "Os-no-pie", "static", "static-pie", "shared"])
def test_files_that_a_linker_gave_a_section(tools: Binutils, name: str, folder: Path, tmp_path: Path) -> None:
    before = linked(folder, tools, name)
    after = tmp_path / before.name
    _, sections = headers(before)
    place = [one for one, _ in sections].index(".sframe")
    assert before.read_bytes()[sections[place][1]["sh_offset"] :][2] == tools.version
    report = removed(before, after, own_load=False)
    assert report == RemoveReport((sections[place][1]["sh_size"],), 1)
    assert headers(after)[1][place] == ("", NULL), "symbols hold the indices of what follows"
    assert complaints(after) <= complaints(before)
    assert prints(after) == compiled.EXPECTED_OUTPUT


@pytest.mark.oracle
@pytest.mark.parametrize("tools", EVERY_VERSION)
def test_removed_from_a_linker_s_file_then_added_then_removed(tools: Binutils, folder: Path, tmp_path: Path) -> None:
    without, added, again = (tmp_path / name for name in ("without", "added", "again"))
    removed(linked(folder, tools, "O2"), without, own_load=False)
    report = unwindkit.write_sframe(without, added)
    assert (report.writer, report.replaced_bytes) == ("lief", ())
    assert prints(added) == compiled.EXPECTED_OUTPUT
    removed(added, again, own_load=True)
    assert prints(again) == compiled.EXPECTED_OUTPUT


@pytest.mark.oracle
@pytest.mark.parametrize("tools", EVERY_VERSION)
def test_relocations_that_were_kept_for_the_section_go_with_it(tools: Binutils, folder: Path, tmp_path: Path) -> None:
    """Those of a section that is none end objcopy and strip: "file format not recognized"."""
    (tmp_path / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("it runs"); return 0; }\n')
    gcc(tmp_path, *chosen(folder, tools), SFRAME, "-Wl,--emit-relocs", "main.c", "-o", "before")
    before, after = tmp_path / "before", tmp_path / "after"
    assert {".sframe", ".rela.sframe"} < {name for name, _ in headers(before)[1]}
    report = removed(before, after, own_load=False)
    assert len(report.removed) == report.segments == 1
    # eu-elflint: the section's own symbol is now one of no section.
    new = {one for one in complaints(after) - complaints(before) if "st_value out of bounds" not in one}
    assert new == set()
    for command in (["objcopy"], [*oracle_command("objcopy")], ["strip", "-o"]):
        copied = tmp_path / "copied"
        arguments = [copied, after] if command[-1] == "-o" else [after, copied]
        subprocess.run([*command, *arguments], check=True, capture_output=True)
        assert prints(copied) == "it runs\n"
        copied.unlink()


EMPTY = ' .section .sframe,"a"\n .section .note.GNU-stack,"",@progbits\n'


@pytest.mark.oracle
def test_section_without_bytes_and_without_a_segment(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.s").write_text(EMPTY)
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    gcc(tmp_path, *chosen(folder, V3), "main.c", "empty.s", "-o", "before")
    assert removed(tmp_path / "before", tmp_path / "after", own_load=False) == RemoveReport((0,), 0)
    assert complaints(tmp_path / "after") <= complaints(tmp_path / "before")
    assert prints(tmp_path / "after") == ""


@pytest.mark.oracle
def test_several_sections_loaded_and_not(folder: Path, tmp_path: Path) -> None:
    original, before, after = linked(folder, V3, "O2"), tmp_path / "before", tmp_path / "after"
    renamed = (f"--rename-section={name}=.sframe" for name in (".note.ABI-tag", ".comment"))
    subprocess.run(["objcopy", *renamed, original, before], check=True)
    sizes = [header["sh_size"] for name, header in headers(before)[1] if name == ".sframe"]
    assert len(sizes) == 3
    assert removed(before, after, own_load=False) == RemoveReport(tuple(sizes), 1)
    assert prints(after) == compiled.EXPECTED_OUTPUT


@pytest.mark.oracle
def test_segment_that_names_no_section_goes_too(folder: Path, tmp_path: Path) -> None:
    original = linked(folder, V3, "O2")
    # As if renamed: its name is then that of the section before.
    other, name = section_at(original, ".eh_frame"), section_at(original, ".sframe")
    (offset,) = struct.unpack_from("<I", original.read_bytes(), other)
    before = patched(original, tmp_path / "before", (name, "I", offset))
    assert removed(before, tmp_path / "after", own_load=False) == RemoveReport((), 1)
    assert prints(tmp_path / "after") == compiled.EXPECTED_OUTPUT


# --- the check ------------------------------------------------------------------------------------------------

Place = Callable[[Path], int]


def in_section(name: str, offset: int = 0) -> Place:
    return lambda path: int(str(dict(headers(path)[1])[name]["sh_offset"])) + offset


def in_header(name: str, field: int) -> Place:
    return lambda path: section_at(path, name) + field


def in_segment(kind: str, field: int, occurrence: int = 0) -> Place:
    return lambda path: segment_at(path, kind, occurrence) + field


# What is spoiled in a file that a linker's `.sframe` was taken out of, where (None: where that was), by what, and what
# the fault must say.
DAMAGE: dict[str, tuple[Place | None, str, int, str]] = {
    "code": (in_section(".text", 40), "B", 0xCC, r"section \[\d+\] \.text: its bytes have changed"),
    "symbol": (in_section(".symtab", 24 * 9 + 8), "Q", 0x77, r"section \[\d+\] \.symtab: its bytes have changed"),
    "address of a section": (in_header(".data", 16), "Q", 0x77, r"section \[\d+\] \.data: has changed"),
    "name of a section": (in_header(".plt", 0), "I", 0, r"section \[\d+\] \.plt: has changed"),
    "padding": (lambda path: padding_of(path), "B", 1, "bytes between 0x[0-9a-f]+ and 0x[0-9a-f]+ have changed"),
    "PT_LOAD": (in_segment("PT_LOAD", 0, 2), "I", 0, "PT_LOAD at 0x[0-9a-f]+: is missing or has changed"),
    "PT_LOAD's type": (in_segment("PT_LOAD", 0, 2), "I", 0, "PT_NULL at 0x[0-9a-f]+: is new"),
    "PT_LOAD's flags": (in_segment("PT_LOAD", 4, 1), "I", 7, "PT_LOAD at 0x[0-9a-f]+: is missing or has changed"),
    "PT_GNU_RELRO": (in_segment("PT_GNU_RELRO", 16), "Q", 8, "PT_GNU_RELRO at 0x[0-9a-f]+: is missing or has changed"),
    "PT_GNU_SFRAME": (in_segment("PT_GNU_STACK", 0), "I", PT_GNU_SFRAME, "a segment still names .sframe"),
    "PT_PHDR": (in_segment("PT_PHDR", 32), "Q", 56, "PT_PHDR: is not the program header table"),
    "program headers": (lambda _: 56, "H", 5, "is missing or has changed"),
    "entry": (lambda _: 24, "Q", 0x77, "ELF header: e_entry is 0x77, was 0x[0-9a-f]+"),
    "machine": (lambda _: 18, "H", 183, "ELF header: e_machine is EM_AARCH64, was EM_X86_64"),
    "section header table": (lambda _: 40, "Q", 0x77, "the result cannot be read"),
    "a byte of the section": (None, "B", 0x77, r"\.sframe: its bytes are still there"),
}


def padding_of(path: Path) -> int:
    """A byte that no table and no section has: the last of the first page, which the code follows."""
    (text,) = (one["p_offset"] for one in headers(path)[0] if one["p_type"] == "PT_LOAD" and one["p_flags"] == 5)
    return int(text) - 1


@pytest.fixture(name="pair")
def _pair(folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A linker's file, and the same without its section."""
    before, good = linked(folder, V3, "O2"), tmp_path / "good"
    removed(before, good, own_load=False)
    return before, good


def faults(before: Path, after: Path) -> tuple[str, ...]:
    return check_removed(before, after, ".sframe", PT_GNU_SFRAME)


def found(fault: str, before: Path, bad: Path) -> bool:
    return any(re.search(fault, one) for one in faults(before, bad))


@pytest.mark.oracle
@pytest.mark.parametrize("damage", DAMAGE)
def test_check_reports_damage(damage: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    before, good = pair
    assert faults(before, good) == ()
    place, form, value, fault = DAMAGE[damage]
    at = in_section(".sframe", 5)(before) if place is None else place(good)
    assert found(fault, before, patched(good, tmp_path / "bad", (at, form, value)))


@pytest.mark.oracle
def test_check_reports_what_was_left_or_lost(pair: tuple[Path, Path], tmp_path: Path) -> None:
    before, good = pair
    header, data, bad = section_at(before, ".sframe"), good.read_bytes(), tmp_path / "bad"
    index = [name for name, _ in headers(before)[1]].index(".sframe")
    assert found(rf"section \[{index}\] \.sframe: is still there", before, patched(good, bad, (header + 4, "I", 1)))
    assert found("the file's mode is 100600, it was 100755", before, mode_of(patched(good, bad), 0o600))
    assert found("is still there", before, before)
    assert found("a segment still names", before, before)
    bad.chmod(0o755)
    bad.write_bytes(data + b"!")
    assert faults(before, bad) == (f"the file has {len(data) + 1} bytes, it had {len(data)}",)
    bad.write_bytes(data[:-64])
    assert found("the result cannot be read", before, bad)
    bad.write_bytes(b"no ELF file")
    assert faults(before, bad) == ("the result cannot be read: Magic number does not match",)


def mode_of(path: Path, mode: int) -> Path:
    path.chmod(mode)
    return path


@pytest.mark.oracle
@pytest.mark.parametrize("own_load", [True, False])
def test_check_watches_every_field_of_every_header(own_load: bool, folder: Path, tmp_path: Path) -> None:
    before, good, bad, missed = linked(folder, V3, "O2"), tmp_path / "good", tmp_path / "bad", []
    if own_load:
        original, before = compiled.build(folder, FLAGS["O2"]), tmp_path / "before"
        unwindkit.write_sframe(original, before)
    removed(before, good, own_load)
    data = bytearray(good.read_bytes())
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    segments, sections = headers(good)
    fields = [0, 4, 16, 18, 20, 24, 32, 40, 48, 52, 54, 56, 58, 60, 62]
    fields += [phoff + 56 * index + field for index in range(len(segments)) for field in (0, 4, 8, 16, 24, 32, 40, 48)]
    # Of an unused header only the type means something.
    used: dict[int, tuple[int, ...]] = {
        index: (0, 4, 8, 16, 24, 32, 40, 44, 48, 56) if name else (4,) for index, (name, _) in enumerate(sections)
    }
    fields += [shoff + 64 * index + field for index in used for field in used[index]]
    shutil.copy(good, bad)
    for offset in fields:
        with bad.open("r+b") as file:
            for value in (data[offset] ^ 1, data[offset]):
                file.seek(offset)
                file.write(bytes([value]))
                file.flush()
                if value != data[offset] and not faults(before, bad):
                    missed.append(offset)
    assert missed == []
