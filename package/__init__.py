"""unwindkit: unwind information of finished binaries, read into one table, written in any format.

Strategy: the public names, each brought in when first asked for, so that a program pays for what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .converters.by_pc import RulesByPc, by_pc
    from .converters.reading import read_elf
    from .converters.refusals import Reason, Refusal, Refusals
    from .converters.sframe import from_sframe, project, to_sframe
    from .converters.unwind import Function, FunctionFlag, Row, UnwindTable
    from .jobs import describe, write_sframe
    from .schemas.section import BuildError, FormatError, ParseError

_HOMES = {
    "BuildError": "schemas.section",
    "FormatError": "schemas.section",
    "Function": "converters.unwind",
    "FunctionFlag": "converters.unwind",
    "ParseError": "schemas.section",
    "Reason": "converters.refusals",
    "Refusal": "converters.refusals",
    "Refusals": "converters.refusals",
    "Row": "converters.unwind",
    "RulesByPc": "converters.by_pc",
    "UnwindTable": "converters.unwind",
    "by_pc": "converters.by_pc",
    "describe": "jobs",
    "from_sframe": "converters.sframe",
    "project": "converters.sframe",
    "read_elf": "converters.reading",
    "to_sframe": "converters.sframe",
    "write_sframe": "jobs",
}

__all__ = [
    "BuildError",
    "FormatError",
    "Function",
    "FunctionFlag",
    "ParseError",
    "Reason",
    "Refusal",
    "Refusals",
    "Row",
    "RulesByPc",
    "UnwindTable",
    "by_pc",
    "describe",
    "from_sframe",
    "project",
    "read_elf",
    "to_sframe",
    "write_sframe",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
