"""Put a changed module in the place of the original: into functions that are there already, or when it is imported."""

from __future__ import annotations

import ast
import gc
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FunctionType
from typing import Any

from .places import Mutant, tree_of
from .project import Module

Key = tuple[str, int, int]


def functions_of(modules: Sequence[Module]) -> dict[str, list[FunctionType]]:
    """The functions in this process that were made from each module's file, by the module's name."""
    names = {str(one.file): one.name for one in modules}
    found: dict[str, list[FunctionType]] = defaultdict(list)
    for one in gc.get_objects():
        if type(one) is FunctionType and (name := names.get(one.__code__.co_filename)):
            found[name].append(one)
    return found


def change_functions(mutant: Mutant, functions: list[FunctionType]) -> bool:
    """Give functions their code from the changed module; whether a function has other code now.

    Whoever holds a function, by import or in a table, holds the changed one."""
    original = _original(mutant.module)
    mutant.apply()
    changed = dict(_codes(_compiled(mutant.module)))
    done = False
    for function in functions:
        code = function.__code__
        same = [key for key in original if key[:2] == (code.co_qualname, code.co_firstlineno)]
        key = next((key for key in same if len(same) == 1 or original[key] == code), None)
        new = changed.get(key) if key else None
        if key and new is not None and new != original[key]:
            if len(new.co_freevars) != len(code.co_freevars):
                return False
            function.__code__ = new
            done = True
    return done


def prepare(module: Module) -> None:
    """Do what the first change of a module's functions would do, in a process that its forks inherit it from."""
    _original(module)


@cache
def _original(module: Module) -> dict[Key, CodeType]:
    return dict(_codes(_compiled(module)))


def _compiled(module: Module) -> CodeType:
    return compile(tree_of(module), str(module.file), "exec", dont_inherit=True)


def _codes(code: CodeType) -> Iterator[tuple[Key, CodeType]]:
    """The functions in a module's code, with their names, first lines, and numbers among those of the same line."""
    count: dict[tuple[str, int], int] = defaultdict(int)
    waiting = [code]
    while waiting:
        for one in waiting.pop(0).co_consts:
            if isinstance(one, CodeType):
                place = (one.co_qualname, one.co_firstlineno)
                yield (*place, count[place]), one
                count[place] += 1
                waiting.append(one)


class _Loader(SourceFileLoader):
    """Loads the changed tree in place of the file."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self.tree = tree

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.tree, self.path, "exec", dont_inherit=True)


class _Finder:
    """Finds one module."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.module.name:
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None
        assert isinstance(spec.loader, SourceFileLoader)
        spec.loader = _Loader(name, spec.loader.path, tree_of(self.module))
        return spec


def change_at_import(mutant: Mutant) -> None:
    """From now on, importing the module gives the changed one."""
    assert mutant.module.name not in sys.modules
    mutant.apply()
    sys.meta_path.insert(0, _Finder(mutant.module))  # type: ignore[arg-type]
