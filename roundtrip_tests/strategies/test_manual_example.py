"""The example of docs/strategies.md: its reader and its test, run as a reader of the manual would, and with a fault."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "strategies.md"
FAULT = re.compile(r"without the line `(.*?) \.\.\.`", re.DOTALL)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """The two files of the example."""
    text = PAGE.read_text(encoding="utf-8")
    reader, test = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "reader.py").write_text(reader, encoding="utf-8")
    (tmp_path / "test_reader.py").write_text(test, encoding="utf-8")
    return tmp_path


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_reader.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)


def test_the_reader_has_the_lines_that_the_heading_states(folder: Path) -> None:
    lines = (folder / "reader.py").read_text(encoding="utf-8").splitlines()
    stated = re.search(r"^## Example: a reader of (\d+) lines$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert stated is not None
    assert len([line for line in lines if line.strip()]) == int(stated[1])


def test_the_reader_of_the_manual_reads_every_drawn_row(folder: Path) -> None:
    done = run(folder)
    assert done.returncode == 0, done.stdout


def test_the_fault_that_the_manual_names_is_found(folder: Path) -> None:
    found = FAULT.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    lines = (folder / "reader.py").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.strip().startswith(found[1])]
    assert len(kept) == len(lines) - 1
    (folder / "reader.py").write_text("".join(kept), encoding="utf-8")
    # Which example shows the fault does not matter here: shrinking it takes most of the time.
    (folder / "conftest.py").write_text(
        'from hypothesis import Phase, settings\nsettings.register_profile("found", phases=[Phase.generate])\n'
        'settings.load_profile("found")\n',
        encoding="utf-8",
    )
    done = run(folder)
    assert done.returncode == 1
    assert "FAILED test_reader.py::test_every_row_is_read" in done.stdout
