"""Files of a release agree with pyproject.toml and with each other."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import unwindkit
from unwindkit.cli.commands import parser_of

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONDA_NAMES = {"lief": "py-lief"}


def named(text: str) -> dict[str, str]:
    """Name and lower bound of each requirement in the text."""
    return dict(re.findall(r"^\s*(?:- )?([A-Za-z][\w.-]*) ?>=([\d.]+)", text, re.MULTILINE))


def test_the_conda_recipe_has_the_dependencies_of_the_project() -> None:
    wanted = named("\n".join([*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]))
    found = named((ROOT / "packaging/conda/recipe.yaml").read_text(encoding="utf-8"))
    assert found == {CONDA_NAMES.get(name, name.lower()): bound for name, bound in wanted.items()}


def test_the_version_is_the_same_everywhere() -> None:
    """Each of these formats needs a version of its own."""
    first_heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    recipe = re.search(r'^  version: "(.*)"$', (ROOT / "packaging/conda/recipe.yaml").read_text(), re.MULTILINE)
    citation = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    debian = re.match(r"unwindkit \((.*)-\d+\)", (ROOT / "packaging/debian/unwindkit/changelog").read_text())
    found = [one and one[1] for one in (first_heading, recipe, citation, debian)]
    assert found == [unwindkit.__version__] * 4


def test_the_workflow_and_the_wheels_know_the_same_pythons() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    pythons = re.findall(r'"(3\.\d+t?)"', workflow)
    wheels = re.findall(r"cp3(\d+t?)-", PROJECT["tool"]["cibuildwheel"]["build"])
    assert [f"3.{one}" for one in wheels] == pythons
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"
    assert "bash .ci/run" in workflow


def test_commands_of_the_hook_and_of_the_wheels_exist() -> None:
    for line in PROJECT["tool"]["cibuildwheel"]["test-command"]:
        program, command, *words = shlex.split(line)
        parsed, unknown = parser_of(program, "", (command,)).parse_known_args([command, *words])
        assert (parsed.run.__module__, unknown) == (f"unwindkit.cli.{command}", [])


@pytest.mark.parametrize("fails", [None, 2])
def test_the_hook_checks_each_file_by_itself(tmp_path: Path, fails: int | None) -> None:
    """By a stand-in for the program, which writes down its arguments."""
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    entry = re.search(r"^  entry: (.*)$", hook, re.MULTILINE)
    assert entry is not None
    program = tmp_path / "unwindkit"
    program.write_text(f'#!/bin/sh\necho "$@"\n[ "$2" != {"b" if fails else "none"} ] || exit {fails or 0}\n')
    program.chmod(0o755)
    done = subprocess.run(
        [*shlex.split(entry[1]), "a", "b", "c"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    seen = ["check a", "check b", "check c"][: fails or 3]
    assert (done.stdout.splitlines(), done.returncode) == (seen, fails or 0)


def test_the_manifest_of_the_sdist_names_what_exists() -> None:
    for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines():
        word, *paths = line.split()
        if word in {"graft", "include"}:
            assert all((ROOT / path).exists() for path in paths), line
