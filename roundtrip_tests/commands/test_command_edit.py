"""`unwindkit edit`: functions dropped, replaced, added; two files merged. Exceptions pass through the results.

What each edit does to the bytes is tested elsewhere: test_callframe_edits.py, test_callframe_merging.py.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import unwindkit
from unwindkit import BuildError, by_pc, edit_eh_frame, read_elf

from ..support.commands import DONE, WRONG, refuses
from ..support.commands import unwindkit as run
from ..support.judges.elf_removed import FLAGS, compiled_folder, prints
from ..support.programs import compiled
from ..support.programs.compiled_sources import EXPECTED_OUTPUT
from ..support.programs.elf_programs import tool
from ..support.texts.frame_text import readelf_frames


@pytest.fixture(scope="session", name="original")
def _original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled.build(compiled_folder(tmp_path_factory), FLAGS["O2"])


@pytest.fixture(name="copy")
def _copy(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "frames"))


def starts(path: Path) -> set[int]:
    functions = read_elf(path, ".eh_frame").functions
    return set(functions.start[functions.size > 0].tolist())


def ends_early(path: Path) -> bool:
    """Whether an exception cannot be unwound."""
    done = subprocess.run([path], capture_output=True, text=True, check=False)
    return done.returncode < 0 and "terminate called" in done.stderr


def address_of(path: Path, name: str) -> int:
    (address,) = (line.split()[0] for line in tool("nm", "-C", path).splitlines() if line.endswith(f" {name}"))
    return int(address, 16)


@pytest.mark.oracle
def test_an_exception_through_frames_merged_from_two(original: Path, tmp_path: Path) -> None:
    halves = [tmp_path / name for name in ("first", "second")]
    order = sorted(starts(original))
    for index, half in enumerate(halves):
        edit_eh_frame(original, half, drop=order[index::2])
        assert starts(half) == set(order[1 - index :: 2])
    assert any(map(ends_early, halves))
    merged = tmp_path / "merged"
    done = run("edit", halves[0], "--merge", halves[1], "-o", merged)
    assert (done.returncode, done.stdout) == (DONE, "")
    assert "conflict" not in done.stderr
    assert prints(merged) == EXPECTED_OUTPUT
    assert by_pc(read_elf(merged, ".eh_frame")) == by_pc(read_elf(original, ".eh_frame"))
    assert by_pc_of_readelf(merged) == by_pc_of_readelf(original)
    assert "disagrees" not in run("info", merged).stdout


def by_pc_of_readelf(path: Path) -> dict[int, object]:
    return {frame.start: frame for frame in readelf_frames(path, ".eh_frame") if frame.end > frame.start}


def test_dropped_by_name_and_taken_back(original: Path, copy: Path) -> None:
    (mangled,) = (name for name in tool("nm", original).split() if name.endswith("7throweri"))
    done = run("edit", copy, "--in-place", "--drop", mangled)
    count = len(starts(original))
    assert (done.returncode, done.stdout) == (DONE, "")
    assert done.stderr.splitlines()[0].endswith(" functions: 1 dropped, 0 replaced, 0 added")
    assert starts(original) - starts(copy) == {address_of(original, "thrower(int)")}
    assert ends_early(copy)
    out = copy.with_name("out")
    done = run("edit", copy, "-o", out, "--from", original, "--take", mangled)
    assert done.returncode == DONE, done.stderr
    assert prints(out) == EXPECTED_OUTPUT
    assert len(starts(out)) == count
    assert by_pc(read_elf(out, ".eh_frame")) == by_pc(read_elf(original, ".eh_frame"))


def test_all_functions_of_another_file(original: Path, copy: Path) -> None:
    """Existing functions are replaced, others added: so what `.sframe` cannot express comes from elsewhere."""
    pcs = sorted(starts(original))[::3]
    report = edit_eh_frame(copy, copy, drop=pcs)
    assert report.dropped == len(pcs)
    out = copy.with_name("out")
    report = edit_eh_frame(copy, out, source=original)
    assert (report.replaced, report.added) == (len(starts(original)) - len(pcs), len(pcs))
    assert prints(out) == EXPECTED_OUTPUT
    assert by_pc(read_elf(out, ".eh_frame")) == by_pc(read_elf(original, ".eh_frame"))


def test_a_function_by_one_of_its_pcs(original: Path, copy: Path) -> None:
    start = address_of(original, "catcher(int)")
    out = copy.with_name("out")
    assert run("edit", copy, "-o", out, "--drop", hex(start + 3)).returncode == DONE
    assert starts(original) - starts(out) == {start}


def test_what_is_refused(copy: Path) -> None:
    out = copy.with_name("out")
    base = ("edit", copy, "-o", out)
    for arguments, says in (
        ([], "nothing to do"),
        (["--take", "main"], "--take requires --from"),
        (["--merge", copy, "--drop", "main"], "--merge cannot be combined with"),
    ):
        done = run(*base, *arguments)
        assert (done.returncode, done.stdout) == (WRONG, "")
        assert says in done.stderr
    refuses(copy, *base, "--drop", "0x10", says=".eh_frame: drop: no FDE covers 0x10")
    refuses(copy, *base, "--from", copy, "--take", "16", says=".eh_frame: take: no function covers the PC 0x10")
    done = run(*base, "--drop", "no_such_name")
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert done.stderr.endswith("symbols: no function is called no_such_name\n")
    assert not out.exists()
    with pytest.raises(BuildError, match="take: requires a source"):
        unwindkit.edit_eh_frame(copy, out, take=["main"])
    with pytest.raises(BuildError, match="merge: cannot be combined with"):
        unwindkit.edit_eh_frame(copy, out, merge=copy, drop=[1])


def test_merged_with_itself_nothing_changes_by_pc(copy: Path) -> None:
    out = copy.with_name("out")
    report = edit_eh_frame(copy, out, merge=copy)
    assert report.conflicts == 0
    assert by_pc(read_elf(out, ".eh_frame")) == by_pc(read_elf(copy, ".eh_frame"))
    assert prints(out) == EXPECTED_OUTPUT
