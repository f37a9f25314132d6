"""Project structure: what is installed, what prints, which engine runs, and that the manual is up to date."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from unwindkit.converters.kernels import engine

ROOT = Path(__file__).parents[2]
SOURCES = [
    path for folder in ("schemas", "converters", "writers", "package") for path in sorted((ROOT / folder).rglob("*.py"))
]


def test_every_folder_is_installed() -> None:
    names = {"unwindkit"}
    for path in SOURCES:
        folder = path.parent.relative_to(ROOT)
        if path.name == "__init__.py":
            names.add(".".join(["unwindkit", *folder.parts[folder.parts[0] == "package" :]]))
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(names)
    assert {path.parent for path in SOURCES} == {path.parent for path in SOURCES if path.name == "__init__.py"}


def test_the_chosen_engine_is_the_one_that_is_called(kernels: str) -> None:
    assert engine.chosen().name == kernels
    found = engine.cfi.interpreter
    assert found.__name__.split(".")[-1] == ("_interpreter" if kernels == "compiled" else "interpreter")


def test_only_the_command_line_prints_and_exits() -> None:
    for path in SOURCES:
        calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
        names = {ast.unparse(call.func) for call in calls}
        is_command_line = ROOT / "package" / "cli" in path.parents
        assert is_command_line or not names & {"print", "sys.exit", "exit"}, path


def test_reading_a_file_does_not_import_lief() -> None:
    code = "import sys, unwindkit; unwindkit.read_elf(sys.executable); assert 'lief' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT / "docs")


def test_field_tables_of_the_manual_are_those_of_the_declarations() -> None:
    subprocess.run([sys.executable, str(ROOT / "docs" / "fields.py"), "--check"], check=True, cwd=ROOT)


def test_the_public_names_are_there() -> None:
    import unwindkit

    assert [name for name in unwindkit.__all__ if not hasattr(unwindkit, name)] == []
    assert unwindkit.FormatError.__mro__[1] is Exception


def test_the_manual_lists_the_public_names() -> None:
    import unwindkit

    code = re.findall(r"`([^`]+)`", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"))
    named = {name for text in code for name in re.findall(r"^(?:unwindkit\.)?(\w+)(?=[(]|$)", text)}
    assert sorted(set(unwindkit.__all__) - named) == []


def test_the_manual_uses_public_modules_only() -> None:
    private = re.compile(r"\bunwindkit\.(?:converters|writers|jobs|cli)\b|from (?:converters|writers|package)\b")
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [(str(page), name) for page in pages for name in private.findall(page.read_text(encoding="utf-8"))]
    assert found == []


def test_type_checkers_see_the_public_names_where_they_are() -> None:
    import unwindkit

    tree = ast.parse((ROOT / "package" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (name.asname, node.module) for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert len(seen) == len(block.body)
    assert seen == set(unwindkit._HOMES.items())


def test_links_of_the_manual_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^)\s:#]+)[)#]", page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 60
    assert [(str(page), link) for page, link in links if not (page.parent / link).exists()] == []


def test_modules_that_the_manual_names_exist() -> None:
    named = re.compile(r"(?<![\w/])(?:schemas|converters|writers|package|roundtrip_tests|docs)/[\w/]+\.(?:py|md)\b")
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    paths = {path for page in pages for path in named.findall(page.read_text(encoding="utf-8"))}
    assert len(paths) > 10
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []
