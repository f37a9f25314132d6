"""The loops over the variable streams: compiled where there was a C compiler, the same files uncompiled elsewhere.

Strategy: `rows.py` is an ordinary module; Cython compiles it, in pure-Python mode, into `_rows`, so that
both are there to be compared. `use` chooses; the first choice is the compiled engine unless
UNWINDKIT_PURE=1 says otherwise or nothing was built.
"""

from __future__ import annotations

import importlib
import os
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Engine:
    """One set of kernels, each imported when it is first asked for. `name` is "compiled" or "pure"."""

    reads: ModuleType
    entries: ModuleType
    rows: ModuleType
    streams: ModuleType
    numbering: ModuleType
    stack_cfi: ModuleType
    symbol_lines: ModuleType
    projection: ModuleType
    fres: ModuleType
    sharing: ModuleType
    lookup: ModuleType
    flex: ModuleType
    grouping: ModuleType
    instructions: ModuleType
    pieces: ModuleType
    writes: ModuleType
    lines: ModuleType
    values: ModuleType
    line_entries: ModuleType
    line_encoding: ModuleType
    line_events: ModuleType
    templates: ModuleType
    sets: ModuleType
    macros: ModuleType

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, kernel: str) -> ModuleType:
        if kernel not in KERNELS:
            raise AttributeError(f"there is no kernel {kernel!r}")
        module = importlib.import_module(_module_name(self.name, kernel))
        setattr(self, kernel, module)
        return module


KERNELS = tuple(Engine.__annotations__)


def _module_name(engine_name: str, kernel: str) -> str:
    return f"{__name__}.{'_' if engine_name == 'compiled' else ''}{kernel}"


def views(*columns: NDArray[Any]) -> tuple[memoryview, ...]:
    """Columns as kernels take them: indexing a memoryview gives Python's integers, which do not wrap."""
    return tuple(column.data for column in columns)


@cache
def load(name: str) -> Engine:
    """The engine of that name; ImportError where the compiled one was not built whole."""
    missing = [kernel for kernel in KERNELS if find_spec(_module_name(name, kernel)) is None]
    if missing:
        raise ImportError(f"{name} kernels are missing: {', '.join(missing)}")
    return Engine(name)


@cache
def engine() -> Engine:
    """The engine that this process uses."""
    if os.environ.get("UNWINDKIT_PURE") == "1":
        return load("pure")
    try:
        return load("compiled")
    except ImportError:
        return load("pure")
