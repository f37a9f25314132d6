"""The loops over the variable streams: compiled where there was a C compiler, the same files uncompiled elsewhere.

Strategy: `rows.py` is an ordinary module; Cython compiles it, in pure-Python mode, into `_rows`, so that
both are there to be compared. `use` chooses; the first choice is the compiled engine unless
UNWINDKIT_PURE=1 says otherwise or nothing was built.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass, fields
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Engine:
    """One set of kernels. `name` is "compiled" or "pure"."""

    name: str
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
    line_entries: ModuleType
    line_encoding: ModuleType
    line_events: ModuleType
    templates: ModuleType
    sets: ModuleType
    macros: ModuleType


def views(*columns: NDArray[Any]) -> tuple[memoryview, ...]:
    """Columns as kernels take them: indexing a memoryview gives Python's integers, which do not wrap."""
    return tuple(column.data for column in columns)


@cache
def load(name: str) -> Engine:
    """The engine of that name; ImportError where the compiled one was not built."""
    prefix = "_" if name == "compiled" else ""
    modules = {
        kernel: importlib.import_module(f".{prefix}{kernel}", __name__)
        for kernel in (field.name for field in fields(Engine) if field.name != "name")
    }
    return Engine(name, **modules)


@cache
def engine() -> Engine:
    """The engine that this process uses."""
    if os.environ.get("UNWINDKIT_PURE") == "1":
        return load("pure")
    try:
        return load("compiled")
    except ImportError:
        return load("pure")
