"""What a kernel uses of the `cython` module when it runs uncompiled and Cython is not installed.

Strategy: decorators that change nothing, and `declare` and `cast`, which return the value; `nogil`, a decorator and a
context, changes nothing either. Annotations are never evaluated. Type checkers see stubs/cython.pyi instead, whether
Cython is installed or not.
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


class _NoGil:
    """`with cython.nogil:` and `@cython.nogil`, which leave Python's lock alone."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, function: object) -> object:
        return function


if not TYPE_CHECKING:
    cython = SimpleNamespace(
        compiled=False,
        **dict.fromkeys(("cfunc", "ccall", "inline", "cclass", "final"), _unchanged),
        exceptval=_exceptval,
        nogil=_NoGil(),
        **dict.fromkeys(("declare", "cast"), _value),
        **dict.fromkeys(("uchar", "ushort", "uint", "int", "longlong", "ulonglong"), int),
    )
