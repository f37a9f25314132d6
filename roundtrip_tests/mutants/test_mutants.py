"""The tool that breaks code, on a package of a few lines: what its tests notice, and what they do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from .known import equal_mutants, named_mutants
from .places import mutants_of
from .project import ROOT, UNWINDKIT, Project

pytest.importorskip("coverage", reason="coverage is not installed (dependency group `checks`)")

SOURCE = '''
"""A module."""

SIZES = {"byte": 1, "half": 2}


def size(name: str, count: int = 1) -> int:
    """Bytes of some values."""
    return SIZES[name] * count


def limited(value: int) -> int:
    if value > 10:
        raise ValueError(f"{value} is more than 10")
    return value


def steps(end: int) -> int:
    count = 0
    while count < end:
        count += 1
    return count


def never(value: int) -> int:
    return value - 1
'''
TESTS = """
import pytest
from small.sums import limited, size, steps


def test_size():
    assert size("half") == 2


def test_limited():
    assert limited(3) == 3
    with pytest.raises(ValueError):
        limited(12)


def test_steps():
    assert steps(2) == 2
"""


@pytest.fixture(scope="module", name="results")
def _results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The status by mutant."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "small").mkdir()
    (folder / "tests").mkdir()
    (folder / "small" / "__init__.py").touch()
    (folder / "small" / "sums.py").write_text(SOURCE)
    (folder / "tests" / "test_sums.py").write_text(TESTS)
    command = [sys.executable, "-m", "roundtrip_tests.mutants", "--package", "small", str(folder / "tests")]
    command += ["--folder", str(folder / "recorded"), "--jobs", "2"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    subprocess.run([*command, "--record"], check=True, cwd=ROOT, env=environment, capture_output=True)
    command += ["--all", "--json", str(folder / "results.json")]
    done = subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "SURVIVED line 13: sums.py: limited: comparison: value > 10 -> value >= 10 (1 tests)\n" in done.stdout
    return {one["key"]: one["status"] for one in json.loads((folder / "results.json").read_text())}


@pytest.mark.parametrize(
    ("mutant", "status"),
    [
        ("size: arithmetic: SIZES[name] * count -> SIZES[name] // count", "survived"),
        ("size: default: 1 -> 2", "killed"),
        ("limited: comparison: value > 10 -> value < 10", "killed"),
        ("limited: comparison: value > 10 -> value >= 10", "survived"),
        ("limited: raise: raise ValueError(f'{value} is more than 10') -> pass", "killed"),
        ("steps: statement: count += 1 -> pass", "timed out"),
        ("never: arithmetic: value - 1 -> value + 1", "uncovered"),
        # A table is changed when the module is imported.
        ("<module>: constant: 2 -> 3", "killed"),
        ("<module>: row: {'byte': 1, 'half': 2} -> {'byte': 1}", "killed"),
        ("<module>: row: {'byte': 1, 'half': 2} -> {'half': 2}", "survived"),
    ],
)
def test_what_the_tests_notice(mutant: str, status: str, results: dict[str, str]) -> None:
    assert results[f"sums.py: {mutant}"] == status


def mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> list[str]:
    """The names of a module's mutants, without the module's and the function's."""
    (tmp_path / "single").mkdir()
    (tmp_path / "single" / "__init__.py").write_text(dedent(source))
    monkeypatch.syspath_prepend(str(tmp_path))
    (module,) = Project("single", tmp_path).modules
    return [mutant.key.split(": ", 2)[2] for mutant in mutants_of(module)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 3", ["constant: 3 -> 4", "constant: 3 -> 2", "constant: 3 -> 0"]),
        ("x = y < z", ["comparison: y < z -> y <= z", "comparison: y < z -> y > z"]),
        ("x = y and z", ["boolean: y and z -> y or z", "boolean: y and z -> z", "boolean: y and z -> y"]),
        ("x = y[z:]", ["slice: z: -> :", "slice: z: -> z + 1:"]),
        ("x = a, b, a", [
            "row: (a, b, a) -> (b, a)", "row: (a, b, a) -> (a, a)", "row: (a, b, a) -> (a, b)",
            "row: (a, b, a) -> (b, a, a)", "row: (a, b, a) -> (a, a, b)",
        ]),
        ("x = {a: b, c: d}", [
            "row: {a: b, c: d} -> {c: d}", "row: {a: b, c: d} -> {a: b}", "row: {a: b, c: d} -> {a: d, c: b}",
        ]),
        ("class X:\n    a: int = wire(U8)\n    b: int = wire(U16)", [
            "field: a: int = wire(U8); b: int = wire(U16) -> b: int = wire(U16); a: int = wire(U8)",
        ]),
        ("def f(a: int = True): pass", ["default: True -> False"]),
        ("def f() -> X | None: return x", ["return: return x -> return None"]),
        ("x = b'ab'", ["bytes: b'ab' -> b'a'", "bytes: b'ab' -> b'`b'"]),
        # What no test of behaviour notices.
        ("'''Text: 1.'''\nx: Literal[1]\nassert y == 1\nfrom z import a", []),
        ("if TYPE_CHECKING:\n    x = 1", []),
        ("raise ValueError(1)", ["raise: raise ValueError(1) -> pass"]),
        ("X = int | None", []),
    ],
)  # fmt: skip
def test_operators(source: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mutants(tmp_path, monkeypatch, source) == expected


def test_mutants_that_are_known_by_name_exist() -> None:
    names = equal_mutants() | named_mutants()
    places = {key.partition(":")[0] for key in names}
    known = {mutant.key for module in UNWINDKIT.modules if module.path in places for mutant in mutants_of(module)}
    assert sorted(set(names) - known) == []


def test_reasons_are_given_for_equal_mutants() -> None:
    assert [key for key, reason in equal_mutants().items() if len(reason) < 20] == []


# Tests by hand, modules that they are about, and how many of the sample they notice at least: all but one when it was
# drawn. Code that changes brings other mutants into it.
TESTS_OF_SAMPLE = ("sframe/test_sframe_choices.py", "sframe/test_vectors_sframe.py", "elf/by_hand")
MODULES_OF_SAMPLE = ("converters/kernels/sframe/project.py", "writers/elf/unloaded.py")
SAMPLE, LEAST = 12, 10


def test_a_sample_of_mutants_is_noticed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "roundtrip_tests.mutants", "--folder", str(tmp_path / "recorded"), "--jobs", "2"]
    tests = [str(ROOT / "roundtrip_tests" / name) for name in TESTS_OF_SAMPLE]
    subprocess.run([*command, "--record", *tests], check=True, cwd=ROOT, capture_output=True)
    results = tmp_path / "results.json"
    command += ["--seed", "0", "--count", str(SAMPLE), "--covered", "--seconds", "3", "--json", str(results)]
    done = subprocess.run([*command, *MODULES_OF_SAMPLE], check=False, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(results.read_text())
    assert len(found) == SAMPLE
    killed = [one for one in found if one["status"] in {"killed", "timed out", "crashed"}]
    assert len(killed) >= LEAST, done.stdout
