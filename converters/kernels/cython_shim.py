"""What a kernel asks of the `cython` module when it runs uncompiled and Cython is not installed.

Strategy: decorators that do nothing and a `declare` that gives its value back. Types appear in
annotations alone, which nobody evaluates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

compiled = False


def __getattr__(_name: str) -> object:
    """Any C type, as `declare` and `cast` are given it: nobody looks at it."""
    return object


def _unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


cfunc = ccall = inline = cclass = _unchanged


def exceptval(*_: Any, **__: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A C function's error value: nothing to do here."""
    return _unchanged


def declare(_type: object, value: Any) -> Any:
    """A C variable: its value."""
    return value


def cast(_type: object, value: Any) -> Any:
    """A C cast: the value."""
    return value
