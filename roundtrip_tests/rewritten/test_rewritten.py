"""Programs and libraries of a tree that lies over a folder: what differs is found, what is rewritten is not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ..support.oracles import absent
from .__main__ import compare
from .system import Outcomes, absence, run_in_system
from .trees import KINDS, elf_files, make_tree

PROGRAM = """
#include <stdio.h>
int answer(void);
int main(int count, char **words) {
    printf("%s %d\\n", count > 1 ? words[1] : "", answer());
    return 0;
}
"""
LIBRARY = "int answer(void) { return ANSWER; }"


def built(folder: Path, answer: int) -> Path:
    """A folder with bin/program and lib/libanswer.so."""
    if shutil.which("gcc") is None:
        absent("no gcc")
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    library = folder / "lib" / "libanswer.so"
    options: list[str | Path] = ["gcc", "-g0", "-x", "c", "-", "-o"]
    subprocess.run([*options, library, "-shared", f"-DANSWER={answer}"], input=LIBRARY, text=True, check=True)
    linked: list[str | Path] = ["-xnone", library, "-Wl,-rpath,$ORIGIN/../lib"]
    subprocess.run([*options, folder / "bin" / "program", *linked], input=PROGRAM, text=True, check=True)
    return folder


def outcomes(folder: Path, tree: Path | None, scratch: Path) -> Outcomes:
    if (reason := absence()) is not None:
        pytest.skip(reason)
    scratch.mkdir()
    program, library = folder / "bin" / "program", folder / "lib" / "libanswer.so"
    return run_in_system(tree, folder, [str(program)], [str(library)], scratch)


def test_rewritten_files_answer_as_before(tmp_path: Path) -> None:
    folder = built(tmp_path / "folder", 42)
    before = outcomes(folder, None, tmp_path / "before")
    answers = [[0, f"{option} 42\n", ""] for option in ("--version", "--help")]
    program, library = (str(path) for path, _ in elf_files(folder))
    assert before == Outcomes({program: answers}, {library: ""})
    for kind in KINDS:
        tree = make_tree(kind, elf_files(folder), tmp_path / kind, None)
        assert (tree.written, tree.refused) == (2, {})
        is_same = (tree.folder / "bin" / "program").read_bytes() == Path(program).read_bytes()
        assert is_same == (kind == "removed")
        after = outcomes(folder, tree.folder, tmp_path / f"after-{kind}")
        assert compare([before, before], after) == []
        assert after == before


def test_another_answer_and_a_library_that_does_not_load_are_found(tmp_path: Path) -> None:
    folder = built(tmp_path / "folder", 42)
    before = [outcomes(folder, None, tmp_path / f"before{number}") for number in (1, 2)]
    tree = built(tmp_path / "other", 43)
    found = compare(before, outcomes(folder, tree, tmp_path / "other answers"))
    assert [one.partition(":")[0] for one in found] == [
        f"{folder}/bin/program --version",
        f"{folder}/bin/program --help",
    ]
    library = tree / "lib" / "libanswer.so"
    library.write_bytes(library.read_bytes()[:200])
    found = compare(before, outcomes(folder, tree, tmp_path / "no library"))
    assert len(found) == 3
    assert found[2].startswith(f"{folder}/lib/libanswer.so: ")
    assert found[2].endswith(", before loaded")
