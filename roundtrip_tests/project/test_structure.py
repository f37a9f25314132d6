"""The shape of the project: who may import whom, what stands in one place only, and that the manual is up to date."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from unwindkit.converters.kernels import engine

ROOT = Path(__file__).parents[2]
LAYERS = {
    "schemas": set(),
    "converters": {"schemas"},
    "writers": {"schemas"},
    "package": {"schemas", "converters", "writers"},
}
SOURCES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]


def imports_of(path: Path) -> Iterator[str]:
    """Every module that a file imports; relative ones with the folder that they lead to, as `layer:name`."""
    inside = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module)
        elif isinstance(node, ast.ImportFrom):
            # package/ is the root of the import name: one level up from a layer's folder is beside all layers.
            base = ["unwindkit", *(inside[1:] if inside[0] == "package" else inside)]
            base = base[: len(base) - (node.level - 1)]
            names = [str(node.module)] if node.module else [name.name for name in node.names]
            for name in names:
                yield ".".join([*base, name])


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_layers_import_downwards_only(path: Path) -> None:
    layer = path.relative_to(ROOT).parts[0]
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "unwindkit" and len(parts) > 1 and parts[1] in LAYERS:
            assert parts[1] == layer or parts[1] in LAYERS[layer], f"{layer} imports {name}"
        elif parts[0] == "unwindkit":
            assert layer == "package", f"{layer} imports the face: {name}"


@pytest.mark.parametrize(("module", "home"), [("construct", "schemas"), ("lief", "writers"), ("argparse", "package")])
def test_a_dependency_has_one_home(module: str, home: str) -> None:
    users = {path for path in SOURCES if any(name.split(".")[0] == module for name in imports_of(path))}
    assert users
    assert {path.relative_to(ROOT).parts[0] for path in users} == {home}


def test_strategies_alone_need_hypothesis() -> None:
    """It is an extra: no other module of the product may need it."""
    users = {path for path in SOURCES if any(name.split(".")[0] == "hypothesis" for name in imports_of(path))}
    assert users
    homes = (ROOT / "schemas" / "strategies", ROOT / "package" / "testing.py")
    assert [path for path in users if not any(path.is_relative_to(home) for home in homes)] == []


def test_every_folder_is_installed() -> None:
    names = {"unwindkit"}
    for path in SOURCES:
        folder = path.parent.relative_to(ROOT)
        if path.name == "__init__.py":
            names.add(".".join(["unwindkit", *folder.parts[folder.parts[0] == "package" :]]))
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(names)
    assert {path.parent for path in SOURCES} == {path.parent for path in SOURCES if path.name == "__init__.py"}


def test_kernels_are_reached_through_the_engine() -> None:
    """A module that imports a kernel by name would not follow the choice of engine."""
    kernels = {f"{path.parent.name}.{path.stem}" for path in SOURCES if path.match("converters/kernels/*/*.py")}
    kernels -= {kernel for kernel in kernels if kernel.endswith((".__init__", ".protocol"))}
    assert "cfi.interpreter" in kernels
    for path in SOURCES:
        if path.is_relative_to(ROOT / "converters" / "kernels"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and ".kernels" in f".{node.module}":
                inside = f".{node.module}".partition(".kernels")[2]
                names = {f"{inside}.{name.name}"[1:] for name in node.names} | {inside[1:]}
                assert not names & kernels, path


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
