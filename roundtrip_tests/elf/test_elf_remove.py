"""Files that `.sframe` was taken out of: they run as before, and nothing else has changed.

Strategy: an `.sframe` that we wrote (each engine in its way) or that a linker wrote (in the middle of a PT_LOAD) is
removed, and the result compared with the input by its tables and its bytes, without the product's check; then by
readelf 2.47 and eu-elflint, and by execution.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import unwindkit
from unwindkit import BuildError, ParseError
from unwindkit.writers.elf.add import HEADERS_KEPT, HEADERS_MOVED, LIEF
from unwindkit.writers.elf.remove import RemoveReport

from ..support.binutils import EVERY_VERSION, SFRAME, V3, Binutils, chosen, gcc
from ..support.judges.elf_removed import (
    FLAGS,
    NULL,
    altered,
    compiled_folder,
    complaints,
    given,
    linked,
    prints,
    removed,
    undone,
)
from ..support.oracles import oracle_command
from ..support.programs import compiled
from ..support.programs.compiled_sources import EXPECTED_OUTPUT
from ..support.programs.elf_programs import ENGINES, headers, patched, section_at
from ..support.real_files import REAL_FILES

SOME_FLAGS = pytest.mark.parametrize(
    "name", ["O0", "O2", "Os-no-pie", "cf-protection", "now", "static", "static-pie", "shared", "g3"]
)


@pytest.fixture(scope="session", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_folder(tmp_path_factory)


# --- what we wrote ------------------------------------------------------------------------------------------

EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)


@pytest.mark.oracle
@EVERY_ENGINE
@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_real_files_that_we_gave_a_section(path: str, engine: str, folder: Path, tmp_path: Path) -> None:
    original, before, after = Path(path), tmp_path / "before", tmp_path / Path(path).name
    given(original, before, engine)
    undone(original, before, after)
    report = removed(before, after, engine)
    assert report.segments == (1 if engine == HEADERS_KEPT else 2)
    assert complaints(after) <= complaints(original)
    if ".so" in after.name:
        # It replaces the system's one under a program that throws exceptions.
        assert prints(compiled.build(folder, FLAGS["O2"]), LD_PRELOAD=str(after)) == EXPECTED_OUTPUT
    else:
        texts = [subprocess.run([one, "--version"], capture_output=True, check=True).stdout for one in (path, after)]
        assert texts[0] == texts[1] != b""


# Their program headers cannot be kept.
MOVED_HEADERS = ("static",)


@pytest.mark.oracle
@EVERY_ENGINE
@SOME_FLAGS
def test_compiled_files_that_we_gave_a_section(name: str, engine: str, folder: Path, tmp_path: Path) -> None:
    original = compiled.build(folder, FLAGS[name])
    before, after = tmp_path / "before", tmp_path / original.name
    if engine == HEADERS_KEPT and name in MOVED_HEADERS:
        with pytest.raises(BuildError, match="in the way"):
            given(original, before, engine)
        return
    given(original, before, engine)
    undone(original, before, after)
    removed(before, after, engine)
    new = complaints(after) - complaints(original)
    if name == "shared" and engine == HEADERS_KEPT:
        # eu-elflint assumes that the relocation of a PLT slot writes as many bytes as the function has, here 64 KiB.
        new -= {one for one in new if re.search(r"'\.rela\.plt': relocation \d+: read-only section modified", one)}
        assert len(complaints(after)) == 2, "those of bytes_65535 and bytes_65536"
    assert new == set()
    assert prints(after) == EXPECTED_OUTPUT


@pytest.mark.parametrize("name", ["O2", "g3", "shared", "static-pie", *MOVED_HEADERS])
def test_added_again_and_again_it_is_the_first_file(name: str, folder: Path, tmp_path: Path) -> None:
    original = compiled.build(folder, FLAGS[name])
    first, without, again = (tmp_path / f"{one}{original.suffix}" for one in ("first", "without", "again"))
    report = unwindkit.write_sframe(original, first)
    assert report.writer == (HEADERS_MOVED if name in MOVED_HEADERS else HEADERS_KEPT)
    source = first
    for _ in range(3):
        undone(original, source, without)
        assert prints(without) == EXPECTED_OUTPUT
        assert unwindkit.write_sframe(without, again).writer == report.writer
        assert again.read_bytes() == first.read_bytes()
        source = again
    assert prints(again) == EXPECTED_OUTPUT


def test_added_longer_and_shorter_in_turn_it_is_the_first_file(folder: Path, tmp_path: Path) -> None:
    original, path, written = compiled.build(folder, FLAGS["O2"]), tmp_path / "program", []
    shutil.copy(original, path)
    for version in (2, 3, 2, 3, 2):
        unwindkit.write_sframe(path, path, version=version)
        written.append(path.read_bytes())
        unwindkit.remove_sframe(path, path)
        assert path.read_bytes() == original.read_bytes()
    assert written == [*written[:2], *written[:2], written[0]]


def test_added_longer_and_shorter_where_nothing_is_undone_it_grows_once(folder: Path, tmp_path: Path) -> None:
    """The capacity for another SFrame version is kept; a shorter section does not change it."""
    path, sizes = tmp_path / "program", []
    shutil.copy(compiled.build(folder, FLAGS["O2"]), path)
    for version in (2, 3, 2, 3, 2):
        unwindkit.write_sframe(path, path, version=version)
        sizes.append(path.stat().st_size)
        unwindkit.remove_sframe(altered(path), path)
        assert prints(path) == EXPECTED_OUTPUT
    assert sizes[1:] == [max(sizes)] * 4


def test_add_by_lief_and_remove_again_and_again(folder: Path, tmp_path: Path) -> None:
    original = compiled.build(folder, FLAGS["O2"])
    added = [tmp_path / f"added{index}" for index in range(3)]
    without = [original, *(tmp_path / f"without{index}" for index in range(3))]
    rules = []
    for index, path in enumerate(added):
        given(without[index], path, LIEF)
        assert prints(path) == EXPECTED_OUTPUT
        rules.append(unwindkit.by_pc(unwindkit.read_elf(path, ".sframe")))
        removed(path, without[index + 1], LIEF)
        assert prints(without[index + 1]) == EXPECTED_OUTPUT
    assert rules[0] == rules[1] == rules[2]


@EVERY_ENGINE
def test_added_twice_is_removed_once(engine: str, folder: Path, tmp_path: Path) -> None:
    once, twice, one, two = (tmp_path / name for name in ("once", "twice", "one", "two"))
    original = compiled.build(folder, FLAGS["O2"])
    given(original, once, engine)
    unwindkit.write_sframe(once, twice)
    undone(original, once, one)
    undone(original, twice, two)
    removed(once, one, engine)
    removed(twice, two, engine)
    assert one.read_bytes() == two.read_bytes()
    with pytest.raises(ParseError, match="the file has no such section"):
        unwindkit.remove_sframe(one, two)


@EVERY_ENGINE
def test_strip_works_on_what_is_left(engine: str, folder: Path, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    given(compiled.build(folder, FLAGS["O2"]), before, engine)
    removed(before, after, engine)
    subprocess.run(["strip", after], check=True)
    assert prints(after) == EXPECTED_OUTPUT
    unwindkit.write_sframe(after, before)
    assert prints(before) == EXPECTED_OUTPUT


# --- what linkers wrote ---------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("tools", EVERY_VERSION)
@pytest.mark.parametrize("name", ["O0", "O2", "Os-no-pie", "static", "static-pie", "shared"])
def test_files_that_a_linker_gave_a_section(tools: Binutils, name: str, folder: Path, tmp_path: Path) -> None:
    before = linked(folder, tools, name)
    after = tmp_path / before.name
    _, sections = headers(before)
    place = [one for one, _ in sections].index(".sframe")
    assert before.read_bytes()[sections[place][1]["sh_offset"] :][2] == tools.version
    report = removed(before, after)
    assert report == RemoveReport((sections[place][1]["sh_size"],), 1)
    assert headers(after)[1][place] == ("", NULL), "symbols hold the indices of what follows"
    assert complaints(after) <= complaints(before)
    assert prints(after) == EXPECTED_OUTPUT


@pytest.mark.oracle
@pytest.mark.parametrize("tools", EVERY_VERSION)
def test_removed_from_a_linker_s_file_then_added_then_removed(tools: Binutils, folder: Path, tmp_path: Path) -> None:
    without, added, again = (tmp_path / name for name in ("without", "added", "again"))
    removed(linked(folder, tools, "O2"), without)
    report = unwindkit.write_sframe(without, added)
    assert (report.writer, report.replaced_bytes) == (HEADERS_KEPT, ())
    assert prints(added) == EXPECTED_OUTPUT
    # PT_GNU_SFRAME's old place and that of a needless PT_NOTE are slots for both program headers: nothing has moved.
    removed(added, again, LIEF)
    undone(without, added, again)
    assert prints(again) == EXPECTED_OUTPUT


@pytest.mark.oracle
@pytest.mark.parametrize("tools", EVERY_VERSION)
def test_relocations_that_were_kept_for_the_section_go_with_it(tools: Binutils, folder: Path, tmp_path: Path) -> None:
    """objcopy and strip fail on relocations of a missing section: "file format not recognized"."""
    (tmp_path / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("it runs"); return 0; }\n')
    gcc(tmp_path, *chosen(folder, tools), SFRAME, "-Wl,--emit-relocs", "main.c", "-o", "before")
    before, after = tmp_path / "before", tmp_path / "after"
    assert {".sframe", ".rela.sframe"} < {name for name, _ in headers(before)[1]}
    report = removed(before, after)
    assert len(report.removed) == report.segments == 1
    # eu-elflint: the section's own symbol now belongs to no section.
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
    assert removed(tmp_path / "before", tmp_path / "after") == RemoveReport((0,), 0)
    assert complaints(tmp_path / "after") <= complaints(tmp_path / "before")
    assert prints(tmp_path / "after") == ""


@pytest.mark.oracle
def test_several_sections_loaded_and_not(folder: Path, tmp_path: Path) -> None:
    original, before, after = linked(folder, V3, "O2"), tmp_path / "before", tmp_path / "after"
    renamed = (f"--rename-section={name}=.sframe" for name in (".note.ABI-tag", ".comment"))
    subprocess.run(["objcopy", *renamed, original, before], check=True)
    sizes = [header["sh_size"] for name, header in headers(before)[1] if name == ".sframe"]
    assert len(sizes) == 3
    assert removed(before, after) == RemoveReport(tuple(sizes), 1)
    assert prints(after) == EXPECTED_OUTPUT


@pytest.mark.oracle
def test_segment_that_names_no_section_goes_too(folder: Path, tmp_path: Path) -> None:
    original = linked(folder, V3, "O2")
    # As if renamed: it then has the name of the section before it.
    other, name = section_at(original, ".eh_frame"), section_at(original, ".sframe")
    (offset,) = struct.unpack_from("<I", original.read_bytes(), other)
    before = patched(original, tmp_path / "before", (name, "I", offset))
    assert removed(before, tmp_path / "after") == RemoveReport((), 1)
    assert prints(tmp_path / "after") == EXPECTED_OUTPUT
