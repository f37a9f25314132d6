"""The commands that write files, each with what it starts from and what it may change.

Strategy: a case makes its folder; the tool runs the command there once without a fault, and then with each fault in a
fresh copy. `OUT` of the command is a path in the folder.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SOURCE = "int f(int a) { return a + 1; }\nint main(int a, char **v) { return f(a) - f(1); }\n"


@dataclass(frozen=True, slots=True)
class Case:
    """A command that is run in a folder made by `make`. With `resumes` the same command, run again after a fault, must
    give the tree of an undisturbed run. `follows` is the folder of what is made at the end, of the files that were
    done: if some failed, it is of the others."""

    name: str
    arguments: tuple[str, ...]
    make: Callable[[Path], None]
    resumes: bool = False
    follows: str = ""


def program(folder: Path) -> None:
    """A program, and another file in the place of a result."""
    (folder / "a.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O2", "-o", "a", "a.c"], cwd=folder, check=True)
    (folder / "a.c").unlink()
    shutil.copy(folder / "a", folder / "b")
    (folder / "old").write_bytes(b"what was there before\n" * 100)


def with_section(folder: Path) -> None:
    """A program that has an `.sframe`."""
    program(folder)
    _unwindkit(folder, "sframe", "a", "-o", "c")
    (folder / "c").replace(folder / "a")


def archive(folder: Path) -> None:
    """An archive of two objects."""
    for name in ("x", "y"):
        (folder / f"{name}.c").write_text(SOURCE.replace("main", f"main_{name}").replace("f(", f"f_{name}("))
        subprocess.run(["gcc", "-O2", "-c", f"{name}.c"], cwd=folder, check=True)
    subprocess.run(["ar", "rc", "lib.a", "x.o", "y.o"], cwd=folder, check=True)
    for path in (*folder.glob("*.c"), *folder.glob("*.o")):
        path.unlink()


def tree(folder: Path) -> None:
    """A folder with three files of which two are one."""
    program(folder)
    (folder / "tree" / "bin").mkdir(parents=True)
    shutil.copy(folder / "a", folder / "tree" / "bin" / "a")
    (folder / "tree" / "b").hardlink_to(folder / "tree" / "bin" / "a")
    shutil.copy(folder / "b", folder / "tree" / "c")


def _unwindkit(folder: Path, *arguments: str) -> None:
    import sys

    command = [sys.executable, "-m", "unwindkit", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


CASES = (
    Case("sframe over a file", ("sframe", "a", "-o", "old"), program),
    Case("sframe to a new file", ("sframe", "a", "-o", "new"), program),
    Case("sframe in place", ("sframe", "a", "--in-place"), program),
    Case("sframe by lief", ("sframe", "a", "--in-place", "--writer", "lief"), program),
    Case("sframe again", ("sframe", "a", "--in-place", "--sframe-version", "3", "-p"), with_section),
    Case("sframe section", ("sframe", "a", "--section", "old", "--report", "report.json"), program),
    Case("sframe archive", ("sframe", "lib.a", "--in-place"), archive),
    Case("remove", ("remove", "a", "--in-place"), with_section),
    Case("edit", ("edit", "a", "--in-place", "--drop", "f"), program),
    Case("convert section", ("convert", "a", "old", "--to", "breakpad"), program),
    Case("convert .eh_frame", ("convert", "a", "old", "--to", "eh_frame"), program),
    Case("convert .debug_line", ("convert", "a", "old", "--to", "debug_line"), program),
    Case("breakpad", ("breakpad", "a", "-o", "old"), program),
    Case("tree in place", ("sframe", "tree", "--in-place"), tree, resumes=True),
    Case("folder", ("sframe", "tree", "--output-dir", "out", "--manifest", "m"), tree, resumes=True),
    Case(
        "store",
        ("breakpad", "tree", "--store", "out", "--manifest", "m", "--zip", "zips"),
        tree,
        resumes=True,
        follows="zips/",
    ),
    Case("export", ("export", "tree", "-o", "out", "--manifest", "m", "--only", "rows"), tree, resumes=True),
)
