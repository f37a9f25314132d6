"""Where names are used: which lines of functions depend on a table of a module.

Strategy: a mutant of a table runs when the module is imported, so no test runs its line. The tests that can notice are
those that run a function that mentions the table, or a table that is made from it. Names are compared as words, because
all that is wanted is a good order of tests.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .places import Mutant, tree_of
from .project import Module

DEPTH = 4  # tables made from tables


@dataclass(frozen=True)
class Place:
    """A statement that runs at import, with the names that it binds; or a line of a function, with none."""

    module: str
    line: int
    binds: frozenset[str]


class Uses:
    """An index of the names in some modules."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._by_name: dict[str, set[Place]] = defaultdict(set)
        for module in modules:
            for name, place in _mentions(module, tree_of(module).body, is_function=False):
                self._by_name[name].add(place)

    def lines(self, mutant: Mutant) -> set[tuple[str, int]]:
        """Lines of functions that depend on the mutant's statement."""
        names = frozenset(_bound_at(tree_of(mutant.module).body, mutant.line))
        found: set[tuple[str, int]] = set()
        seen: set[str] = set()
        for _ in range(DEPTH):
            places = {place for name in names - seen for place in self._by_name[name]}
            seen |= names
            found |= {(place.module, place.line) for place in places if not place.binds}
            names = frozenset(name for place in places for name in place.binds)
        return found


def _mentions(module: Module, body: list[ast.stmt], is_function: bool) -> Iterator[tuple[str, Place]]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _mentions(module, statement.body, is_function=True)
        elif isinstance(statement, ast.ClassDef) and not is_function:
            for inner in statement.body:
                bound = frozenset({statement.name, *_bound(inner)})
                if isinstance(inner, ast.FunctionDef):
                    yield from _mentions(module, inner.body, is_function=True)
                else:
                    yield from _named(module, inner, bound)
        elif not isinstance(statement, ast.Import | ast.ImportFrom):
            yield from _named(module, statement, frozenset() if is_function else frozenset(_bound(statement)))


def _named(module: Module, statement: ast.stmt, binds: frozenset[str]) -> Iterator[tuple[str, Place]]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id not in binds:
            yield node.id, Place(module.name, node.lineno, binds)
        elif isinstance(node, ast.Attribute):
            yield node.attr, Place(module.name, node.end_lineno or node.lineno, binds)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (node.id for one in targets for node in ast.walk(one) if isinstance(node, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            yield name


def _bound_at(body: list[ast.stmt], line: int) -> Iterator[str]:
    """The names bound by the statement at a line: of a class, the class's and the member's."""
    for statement in body:
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            if isinstance(statement, ast.ClassDef):
                members = list(_bound_at(statement.body, line))
                # A field's name alone is too common: who uses the record matters.
                is_enum = any("Enum" in ast.unparse(base) or "Flag" in ast.unparse(base) for base in statement.bases)
                yield from members if is_enum and members else (statement.name,)
            else:
                yield from _bound(statement)
