"""The worked diffs of docs/adding.md are applied to a copy of the sources, and their commands run there.

Strategy: a diff is applied by git; the console blocks below it run with the copy on PYTHONPATH, uncompiled, and print
what they show. So "one row in one file" is true: the copy differs in nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adding.md"
DIFF = re.compile(r"^```diff\n(.*?)^```$(.*?)(?=^\*\*|^## )", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"(?:^<!-- file: ([^\n]+) -->\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ (.*?[^\\]\n)(.*?)(?=^\$ |\Z)", re.DOTALL | re.MULTILINE)
TEXT = PAGE.read_text(encoding="utf-8").partition("\n## Two worked diffs\n")[2].partition("\n## Tasks\n")[0]
DIFFS = DIFF.findall(TEXT + "\n## ")


def copy_of_sources(folder: Path) -> None:
    """The sources with the import name of the package: what the build maps is linked."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.c")
    for name in ("package", "schemas", "converters", "writers"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("schemas", "converters", "writers"):
        (folder / "package" / name).symlink_to(folder / name)
    (folder / "unwindkit").symlink_to(folder / "package")


def test_the_page_has_both() -> None:
    assert [re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE) for diff, _ in DIFFS] == [
        ["converters/arch/table.py"],
        ["schemas/cfi.py"],
    ]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(("diff", "text"), DIFFS, ids=["architecture", "opcode"])
def test_commands_below_a_worked_diff(diff: str, text: str, tmp_path: Path) -> None:
    sources, folder = tmp_path / "sources", tmp_path / "folder"
    sources.mkdir()
    folder.mkdir()
    copy_of_sources(sources)
    environment = os.environ | {
        "PYTHON": sys.executable,
        "PYTHONPATH": str(sources),
        "PYTHONSAFEPATH": "1",
        "UNWINDKIT_PURE": "1",
        "GIT_CEILING_DIRECTORIES": str(tmp_path),
    }
    names = 'unwindkit() { "$PYTHON" -m unwindkit "$@"; }; python() { "$PYTHON" "$@"; }\n'

    def run(command: str, given: str = "") -> str:
        done = subprocess.run(
            ["bash", "-c", names + command],
            cwd=sources if given else folder, env=environment, input=given, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert run("python -c 'import unwindkit; print(unwindkit.__file__)'").startswith(str(sources))
    run("git apply -", diff)
    ran = 0
    for name, language, block in BLOCK.findall(text):
        if name:
            (folder / name).write_text(block, encoding="utf-8")
        elif language == "console":
            for command, shown in COMMAND.findall(block):
                assert run(command) == shown
                ran += 1
    assert ran >= 2
