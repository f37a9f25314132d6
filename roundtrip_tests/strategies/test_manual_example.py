"""The examples of docs/strategies.md: readers and their tests, run as a reader of the manual would; and with faults."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "strategies.md"
CONFORM = PAGE.parent / "commands" / "conform.md"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FAULT = re.compile(r"without the line `(.*?) \.\.\.`", re.DOTALL)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """The two files of the example."""
    text = PAGE.read_text(encoding="utf-8")
    reader, test, _ = PYTHON.findall(text)
    (tmp_path / "reader.py").write_text(reader, encoding="utf-8")
    (tmp_path / "test_reader.py").write_text(test, encoding="utf-8")
    return tmp_path


def run(folder: Path, test: str = "test_reader.py") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
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


@pytest.mark.parametrize(
    ("right", "wrong"), [("", ""), ("info >> 5 & 3", "info >> 5 & 1"), ("words[0] * 8 + 160", "words[0]")]
)
def test_cases_of_the_corpus_as_a_property(tmp_path: Path, right: str, wrong: str) -> None:
    """The second example; it fails with a fault: too few bits of the size of offsets, s390x's CFA as it is stored."""
    (reader,) = PYTHON.findall(CONFORM.read_text(encoding="utf-8"))
    *_, test = PYTHON.findall(PAGE.read_text(encoding="utf-8"))
    assert len([line for line in test.splitlines() if line.strip()]) <= 20
    assert right in reader
    (tmp_path / "reader.py").write_text(reader.replace(right, wrong) if right else reader, encoding="utf-8")
    (tmp_path / "test_cases.py").write_text(test, encoding="utf-8")
    assert run(tmp_path, "test_cases.py").returncode == (1 if right else 0)
