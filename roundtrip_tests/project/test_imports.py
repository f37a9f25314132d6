"""The import rule: which module may import which, inside the project and outside it; and that there is no cycle.

Strategy: one graph of modules, read from the source text, imports inside functions included; TYPE_CHECKING blocks are
not, since they only name types.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Each top-level folder, and those that it may import.
LAYERS = {
    "schemas": set(),
    "converters": {"schemas"},
    "writers": {"schemas"},
    "package": {"schemas", "converters", "writers"},
}
FORMATS = {"assembler", "breakpad", "cfi", "debug_info", "line", "lookup_tables", "macro", "sframe"}
# The folders of converters/, from the lowest layer up: a folder imports itself and the layers below.
ROOMS = (
    {"arrays", "arrow", "column", "columns", "findings", "limits", "refusals", "rules"},
    {"kernels"},
    {"distinct", "threads"},
    {"strings"},
    {"bulk_text"},
    {"arch", "dwarf"},
    {"elf", "table"},
    {"packages"},
    FORMATS | {"plt", "walk"},
    {"files"},
)
# The lowest layer has no inner order; expression texts name registers. Other folders of one layer do not import each
# other, except that other formats are made from tables of lines and functions.
NEIGHBOURS = {("dwarf", "arch")}
SHARED_TABLES = {
    "unwindkit.converters.debug_info.table",
    *(f"unwindkit.converters.line.{name}" for name in ("table", "paths", "lookup", "ranges")),
}
MADE_FROM_TABLES = {"breakpad", "debug_info", "lookup_tables"}


def module_name(path: Path) -> str:
    """The import name of a file of the project; package/ is the root of it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "package" else parts
    return ".".join(["unwindkit", *(parts[:-1] if parts[-1] == "__init__" else parts)])


FILES = {module_name(path): path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))}


def executed(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below, except those that only type checkers read."""
    todo: list[ast.AST] = [node]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            # No statement is inside an expression.
            if isinstance(child, ast.expr) or (
                isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            ):
                continue
            todo.append(child)
            if isinstance(child, ast.stmt):
                yield child


def imports_of(name: str) -> set[str]:
    """Every module that a module imports, by its full name."""
    path, found = FILES[name], set()
    for node in executed(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            folder = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
            above = folder[: len(folder) + 1 - node.level] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            inside = {f"{origin}.{one.name}" for one in node.names}
            found |= {one if one in FILES else origin for one in inside}
    return found - {name}


GRAPH = {name: imports_of(name) for name in FILES}
OURS = [(name, target) for name, targets in GRAPH.items() for target in sorted(targets) if target in FILES]


def layer_of(name: str) -> str:
    return FILES[name].relative_to(ROOT).parts[0]


def room_of(name: str) -> str | None:
    """The folder of converters/ that a module is in."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["unwindkit", "converters"] and len(parts) > 2 else None


def test_the_graph_is_whole() -> None:
    assert len(GRAPH) > 200
    assert len(OURS) > 1000
    assert ("unwindkit.converters.cfi.read", "unwindkit.converters.table.model") in OURS


def test_layers_import_downwards_only() -> None:
    wrong = [
        (name, target)
        for name, target in OURS
        if layer_of(target) != layer_of(name) and layer_of(target) not in LAYERS[layer_of(name)]
    ]
    assert wrong == []


def test_rooms_import_downwards_only() -> None:
    floor = {room: index for index, rooms in enumerate(ROOMS) for room in rooms}
    wrong = []
    for name, target in OURS:
        room, other = room_of(name), room_of(target)
        if room is None or other is None or room == other:
            continue
        is_below = floor[other] < floor[room] or floor[other] == 0 == floor[room] or (room, other) in NEIGHBOURS
        if not is_below and not (room in MADE_FROM_TABLES and target in SHARED_TABLES):
            wrong.append((name, target))
    assert wrong == []


def test_no_import_goes_in_a_circle() -> None:
    try:
        order = list(TopologicalSorter(GRAPH).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")
    assert set(FILES) <= set(order)


def test_what_checks_a_written_file_shares_no_code_with_what_writes_it() -> None:
    checks = {name for name in FILES if name.startswith("unwindkit.writers.elf.checks.")}
    engines = {name for name in FILES if name.startswith("unwindkit.writers.elf.engines.")}
    assert len(checks) >= 4 <= len(engines)
    declared = {name for name in FILES if layer_of(name) == "schemas"}

    def reached(names: set[str]) -> set[str]:
        todo, seen = list(names), set(names)
        while todo:
            new = (GRAPH[todo.pop()] & FILES.keys()) - seen - declared
            seen |= new
            todo += new
        return seen

    assert reached(checks) & reached(engines) == set()
    assert reached(checks) == checks


def test_kernels_are_reached_through_the_engine() -> None:
    """A module that imports a kernel by name would not follow the choice of engine."""
    kernels = {name for name, path in FILES.items() if path.match("converters/kernels/*/*.py")}
    kernels = {name for name in kernels if name.rpartition(".")[2] not in ("__init__", "protocol")}
    assert "unwindkit.converters.kernels.cfi.interpreter" in kernels
    outside = [(name, target) for name, target in OURS if room_of(name) != "kernels" and target in kernels]
    assert outside == []


@pytest.mark.parametrize(("module", "home"), [("construct", "schemas"), ("lief", "writers"), ("argparse", "package")])
def test_a_dependency_has_one_home(module: str, home: str) -> None:
    users = {name for name, targets in GRAPH.items() if module in {target.partition(".")[0] for target in targets}}
    assert users
    assert {layer_of(name) for name in users} == {home}


def test_strategies_alone_need_hypothesis() -> None:
    """It is an optional dependency: no other module of the product may need it."""
    users = {name for name, targets in GRAPH.items() if "hypothesis" in {one.partition(".")[0] for one in targets}}
    assert "unwindkit.testing.call_frames" in users
    homes = ("unwindkit.schemas.strategies.", "unwindkit.testing.")
    assert [name for name in sorted(users) if not name.startswith(homes)] == []
    outside = [(name, target) for name, target in OURS if target.startswith(homes) and not name.startswith(homes)]
    assert [pair for pair in outside if pair[0] not in ("unwindkit.testing", "unwindkit.schemas.strategies")] == []


def test_no_folder_has_more_than_25_files() -> None:
    tests = (ROOT / "roundtrip_tests").rglob("*.py")
    folders = [path.parent for path in [*FILES.values(), *tests] if path.name != "__init__.py"]
    crowded = {str(folder.relative_to(ROOT)): folders.count(folder) for folder in set(folders)}
    assert {folder: count for folder, count in crowded.items() if count > 25} == {}
