"""What a kernel uses of the `cython` module when it runs uncompiled and Cython is not installed.

Strategy: decorators that change nothing, and `declare` and `cast`, which return the value. Annotations are never
evaluated. Type checkers see stubs/cython.pyi instead, whether Cython is installed or not.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython as cython


def _unchanged(function: object) -> object:
    return function


def _exceptval(*_: object, **__: object) -> Callable[[object], object]:
    return _unchanged


def _value(_type: object, value: Any) -> Any:
    return value


if not TYPE_CHECKING:
    cython = SimpleNamespace(
        compiled=False,
        **dict.fromkeys(("cfunc", "ccall", "inline", "cclass", "final"), _unchanged),
        exceptval=_exceptval,
        **dict.fromkeys(("declare", "cast"), _value),
        **dict.fromkeys(("uchar", "ushort", "uint", "int", "longlong", "ulonglong"), int),
    )
