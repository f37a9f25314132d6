"""The kernels in use: `engine.cfi.interpreter` is the compiled module or the uncompiled one.

Strategy: the compiled engine is used unless UNWINDKIT_PURE=1 or a part of it was not built; a kernel is imported at its
first use. Type checkers see the uncompiled modules, so they check the names and arguments of every call.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import breakpad as breakpad
    from . import cfi as cfi
    from . import dwarf as dwarf
    from . import execution as execution
    from . import line as line
    from . import sframe as sframe
    from . import shared as shared
    from . import text as text

_PACKAGE = __name__.rpartition(".")[0]
# Modules that are the same for both engines.
_UNCOMPILED = {"protocol"}
# Cython's own code, which the compiled kernels share.
_CYTHON_RUNTIME = "_cyutility"


class Folder:
    """The kernels of one folder, as one engine has them; each is imported at its first use."""

    def __init__(self, folder: str, prefix: str) -> None:
        self._package = f"{_PACKAGE}.{folder}"
        self._prefix = prefix

    def __getattr__(self, kernel: str) -> ModuleType:
        if kernel.startswith("_"):
            raise AttributeError(kernel)
        module = importlib.import_module(f"{self._package}.{self._prefix}{kernel}")
        setattr(self, kernel, module)
        return module


class Engine:
    """One set of kernels, with a `Folder` for each folder. `name` is "compiled" or "pure"."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, folder: str) -> Folder:
        if folder not in _kernels():
            raise AttributeError(f"{_PACKAGE} has no folder {folder!r}")
        kernels = Folder(folder, "_" if self.name == "compiled" else "")
        setattr(self, folder, kernels)
        return kernels


@cache
def _kernels() -> dict[str, set[str]]:
    """The modules in each folder, both the compiled and the uncompiled ones; in "", those beside the folders."""
    paths = importlib.import_module(_PACKAGE).__path__
    found = list(pkgutil.iter_modules(paths))
    modules = {"": {module.name for module in found}}
    for folder in (module.name for module in found if module.ispkg):
        modules[folder] = {module.name for module in pkgutil.iter_modules([f"{path}/{folder}" for path in paths])}
    return modules


def _not_built() -> list[str]:
    """The kernels that have no compiled module."""
    modules = _kernels()
    missing = [] if _CYTHON_RUNTIME in modules[""] else [_CYTHON_RUNTIME]
    for folder in filter(None, modules):
        sources = {name for name in modules[folder] if not name.startswith("_")} - _UNCOMPILED
        missing += [f"{folder}.{name}" for name in sorted(sources) if f"_{name}" not in modules[folder]]
    return missing


@cache
def load(name: str) -> Engine:
    """The engine of that name; ImportError where the compiled one was not built whole."""
    if name == "compiled" and (missing := _not_built()):
        raise ImportError(f"compiled kernels are missing: {', '.join(missing)}")
    return Engine(name)


@cache
def chosen() -> Engine:
    """The engine that this process uses."""
    if os.environ.get("UNWINDKIT_PURE") == "1":
        return load("pure")
    try:
        return load("compiled")
    except ImportError:
        return load("pure")


if not TYPE_CHECKING:

    def __getattr__(folder: str) -> Folder:
        """A folder of the engine in use, as an attribute of this module."""
        return getattr(chosen(), folder)
