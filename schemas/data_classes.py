"""`dataclass` of the standard library, with methods that are made when one of them is first called.

Strategy: the standard library compiles the methods of each class from text, which takes most of the time in which a
module of small classes is imported; a command uses few of them. Fields are known from the start, so that `fields`,
`replace` and pattern matching work as ever. For its methods a class with the same fields is made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, Any

METHODS = ("__init__", "__repr__", "__eq__", "__hash__")
# What the standard library reads in a class, besides the defaults of fields.
_READ = ("__module__", "__qualname__", "__orig_bases__", "__post_init__")
_WITHOUT = {"init": False, "repr": False, "eq": False}
# Two threads may be the first to use a class.
_LOCK = RLock()

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, order=False, **options):
        """As `dataclasses.dataclass`; only frozen classes, which nearly all are, have methods that are made later."""
        if not frozen or order:
            return dataclasses.dataclass(cls, frozen=frozen, order=order, **options)
        return _frozen(options) if cls is None else _frozen(options)(cls)


class _Signature:
    """The signature of a class, which is known when it has its methods."""

    def __init__(self, complete: Callable[[], type]) -> None:
        self._complete = complete

    def __get__(self, instance: object, owner: Any) -> Any:
        from inspect import signature

        self._complete()
        found = signature(owner.__init__)
        return found.replace(parameters=[*found.parameters.values()][1:])


def _frozen(options: dict[str, Any]) -> Callable[[type], type]:
    """The decorator of a frozen data class with these options."""

    def decorate(cls: type) -> type:
        read = {*cls.__annotations__, *_READ}
        namespace = {name: value for name, value in vars(cls).items() if name in read}
        namespace["__annotations__"] = cls.__annotations__
        later = _later(cls, options)
        # Either all classes that inherit from each other are frozen or none, which the standard library checks.
        frozen = any(map(dataclasses.is_dataclass, cls.__bases__))
        made: Any = dataclasses.dataclass(cls, **{**options, **_WITHOUT, "frozen": frozen})
        made.__dataclass_params__.frozen = True
        made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
        if options.get("slots") and "__reduce__" not in vars(made):
            made.__getstate__, made.__setstate__ = _state, _set_state
        decorated: type = made
        _complete_later(decorated, namespace, later, options)
        return decorated

    return decorate


def _later(cls: type, options: dict[str, Any]) -> list[str]:
    """The names of the methods that a class lacks."""
    without = {f"__{name}__" for name in ("eq", "repr") if not options.get(name, True)}
    without |= {"__hash__"} if "__eq__" in without else set()
    # A class with __eq__ has None as its __hash__.
    return [name for name in METHODS if name not in without and vars(cls).get(name) is None]


def _complete_later(made: type, namespace: dict[str, Any], later: list[str], options: dict[str, Any]) -> None:
    """Make the methods `later` when one of them is called; `namespace` is what the standard library reads for them."""
    left = [*later]

    def complete() -> type:
        with _LOCK:
            if left:
                source = type(made)(made.__name__, made.__bases__, {**namespace})
                dataclasses.dataclass(source, **{**options, "frozen": True, "slots": False})
                for name in later:
                    setattr(made, name, vars(source)[name])
                left.clear()
        return made

    for name in later:
        setattr(made, name, _calling(name, complete))
    made.__signature__ = _Signature(complete)  # type: ignore[attr-defined]


def _calling(name: str, complete: Callable[[], type]) -> Callable[..., Any]:
    """A method that has all methods made, and calls the one that takes its place."""

    def call(self: Any, /, *arguments: Any, **named: Any) -> Any:
        return getattr(complete(), name)(self, *arguments, **named)

    call.__name__ = name
    return call


def _refuse_to_set(*arguments: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {arguments[1]!r}")


def _refuse_to_delete(*arguments: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {arguments[1]!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
