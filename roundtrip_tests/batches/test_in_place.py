"""Trees that are replaced in place: hard links, files left out, files that can have no `.sframe`, and the check."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import unwindkit
from unwindkit import BuildError, DebugFiles
from unwindkit.batches.sources import is_excluded
from unwindkit.jobs.sframe_check import check_sframe

from ..support.commands import DONE, WRONG, usage_error
from ..support.commands import unwindkit as command
from ..support.packages import wheel
from ..support.small_elf import EM_RISCV
from ..support.tiny_elf import CODE, patched, tiny_elf

ALONE = DebugFiles(links=False)


@pytest.fixture(name="tree")
def _tree(built_program: Path, tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "usr" / "bin").mkdir(parents=True)
    (tree / "usr" / "lib").mkdir()
    shutil.copy(built_program, tree / "usr" / "bin" / "a")
    shutil.copy(built_program, tree / "usr" / "lib" / "a")
    (tree / "usr" / "bin" / "b").hardlink_to(tree / "usr" / "bin" / "a")
    (tree / "c").hardlink_to(tree / "usr" / "bin" / "a")
    (tree / "text").write_text("text")
    return tree


def with_sframe(tree: Path) -> list[str]:
    """The files that have one."""
    files = (path for path in tree.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF")
    return sorted(str(path.relative_to(tree)) for path in files if unwindkit.open_elf(path).named(".sframe"))


@pytest.mark.parametrize("jobs", ["-j1", "-j2"])
def test_hard_links_stay(jobs: str, tree: Path) -> None:
    before = (tree / "c").stat()
    done = command("sframe", "--in-place", tree, jobs)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (DONE, "2 files: 2 written, 0 failed")
    assert with_sframe(tree) == ["c", "usr/bin/a", "usr/bin/b", "usr/lib/a"]
    names = [(tree / one).stat() for one in ("c", "usr/bin/a", "usr/bin/b")]
    assert {(one.st_ino, one.st_nlink, one.st_mode) for one in names} == {(names[0].st_ino, 3, before.st_mode)}
    assert before.st_ino != names[0].st_ino
    assert (tree / "usr" / "lib" / "a").read_bytes() == (tree / "c").read_bytes()
    assert not list(tree.rglob(".unwindkit-*"))


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (["usr/lib/*"], ["c", "usr/bin/a", "usr/bin/b"]),
        (["/usr/lib/*", "c"], ["usr/bin/a", "usr/bin/b"]),
        (["a"], ["c", "usr/bin/b"]),
        (["[!c]"], ["c"]),
        (["nothing", "bin/*"], ["c", "usr/bin/a", "usr/bin/b", "usr/lib/a"]),
    ],
)
def test_files_are_left_out(patterns: list[str], left: list[str], tree: Path, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("\n# comment\n" + "".join(f"  {one} \n" for one in patterns[1:]))
    # A name that is left out keeps the old file.
    done = command("sframe", "--in-place", tree, "--exclude", patterns[0], "--exclude-from", tmp_path / "list")
    assert done.returncode == DONE
    assert with_sframe(tree) == left


def test_files_of_packages_are_left_out(tree: Path, tmp_path: Path) -> None:
    wheel(tree, tmp_path / "x.whl")
    done = command("sframe", tmp_path / "x.whl", "--output-dir", tmp_path / "out", "--exclude", "usr/bin/*")
    assert done.stderr.splitlines()[-1] == "2 files: 2 written, 0 failed"
    assert with_sframe(tmp_path / "out" / "x.whl") == ["c", "usr/lib/a"]


def test_patterns_are_those_of_the_shell() -> None:
    assert is_excluded("usr/lib/x.so.1", ["*.so.*"])
    assert not is_excluded("usr/lib.so.1/x", ["*.so.*"])
    assert is_excluded("usr/lib.so.1/x", ["usr/*.so.*/x"])
    assert not is_excluded("USR/lib", ["usr/*"])


def test_files_that_can_have_no_section(tree: Path) -> None:
    (tree / "bare").write_bytes(tiny_elf(CODE))
    (tree / "other").write_bytes(patched(bytearray(tiny_elf()), e_machine=EM_RISCV))
    done = command("sframe", "--in-place", tree)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (WRONG, "4 files: 2 written, 2 failed")
    before = {name: (tree / name).read_bytes() for name in ("bare", "other")}
    done = command("sframe", "--in-place", tree, "--where-possible", "--check")
    lines = done.stderr.splitlines()
    assert (done.returncode, lines[-1]) == (DONE, "4 files: 2 written, 2 unchanged, 0 failed")
    assert f"{tree}/bare: unchanged: it has no call frame information" in lines
    assert f"{tree}/other: unchanged: SFrame has no ABI for riscv64" in lines
    assert {name: (tree / name).read_bytes() for name in before} == before
    # A malformed file is no such file.
    (tree / "bare").write_bytes(tiny_elf(CODE)[:50])
    assert command("sframe", "--in-place", tree, "--where-possible").returncode == WRONG


def test_the_check_finds_a_wrong_row(tree: Path, tmp_path: Path) -> None:
    done = command("sframe", tree / "c", "-o", tmp_path / "out", "--check")
    assert done.returncode == DONE
    path = tmp_path / "out"
    check_sframe(path, ALONE)
    image = unwindkit.open_elf(path)
    (header,) = image.named(".sframe")
    data = bytearray(path.read_bytes())
    data[header.file_offset + header.size - 1] ^= 8  # an offset of the last FRE
    path.write_bytes(data)
    with pytest.raises(BuildError, match=r"check: differs from \.eh_frame.* at 0x[0-9a-f]+\.\.0x[0-9a-f]+"):
        check_sframe(path, ALONE)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-o", "out", "--where-possible"], "--where-possible requires --in-place with folders or several files"),
        (["--in-place", "--where-possible"], "--where-possible requires --in-place with folders or several files"),
        (["--section", "out", "--check"], "--check is for the whole file: --section does not write one"),
        (["-o", "out", "--exclude", "x"], "--exclude requires --output-dir"),
        (["-o", "out", "--exclude-from", "x"], "--exclude-from requires --output-dir"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str, tree: Path) -> None:
    done = command("sframe", tree / "c", *arguments)
    assert usage_error(done) == f"unwindkit sframe: error: {says}"
