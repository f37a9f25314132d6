"""`dataclass` of the standard library, with methods that are made when one of them is first called.

Strategy: the standard library compiles the methods of each class from text, which takes most of the time in which a
module of small classes is imported; a command uses few of them. Fields are known from the start, so that `fields`,
`replace` and pattern matching work as ever. Most classes that are used need only `__init__`, which is made here; for
the other methods the standard library makes a class with the same fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, Any

INIT = "__init__"
METHODS = (INIT, "__repr__", "__eq__", "__hash__")
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
    """The signature of a class, which is known when it has its `__init__`."""

    def __init__(self, make: Callable[[], type]) -> None:
        self._make = make

    def __get__(self, instance: object, owner: Any) -> Any:
        from inspect import signature

        self._make()
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


def _complete_later(made: Any, namespace: dict[str, Any], later: list[str], options: dict[str, Any]) -> None:
    """Make the methods `later` when one of them is called; `namespace` is what the standard library reads for them."""
    others = [name for name in later if name != INIT]
    left = [*others]

    def complete() -> Any:
        with _LOCK:
            if left:
                source = type(made)(made.__name__, made.__bases__, {**namespace})
                dataclasses.dataclass(source, **{**options, "init": False, "frozen": True, "slots": False})
                for name in others:
                    setattr(made, name, vars(source)[name])
                left.clear()
        return made

    def initialize() -> Any:
        if INIT in later:
            setattr(made, INIT, _initializer(made))
        return made

    for name in later:
        setattr(made, name, _calling(name, initialize if name == INIT else complete))
    made.__signature__ = _Signature(initialize)


def _initializer(made: Any) -> Callable[..., None]:
    """The `__init__` of a frozen class."""
    listed = [one for one in dataclasses.fields(made) if one.init]
    known: dict[str, Any] = {"_set": object.__setattr__, "_made": dataclasses.MISSING}
    parameters, lines = {False: ["self"], True: ["*"]}, []
    for one in listed:
        value, default = one.name, ""
        if one.default is not dataclasses.MISSING:
            known[f"_default_{one.name}"], default = one.default, f"=_default_{one.name}"
        elif one.default_factory is not dataclasses.MISSING:
            known[f"_default_{one.name}"], default = one.default_factory, "=_made"
            value = f"_default_{one.name}() if {one.name} is _made else {one.name}"
        parameters[bool(one.kw_only)].append(one.name + default)
        lines.append(f" _set(self, {one.name!r}, {value})")
    if hasattr(made, "__post_init__"):
        lines.append(" self.__post_init__()")
    wanted = parameters[False] + (parameters[True] if len(parameters[True]) > 1 else [])
    exec("\n".join([f"def {INIT}({', '.join(wanted)}):", *(lines or [" pass"])]), known)
    function: Callable[..., None] = known[INIT]
    function.__annotations__ = {**{one.name: one.type for one in listed}, "return": None}
    function.__qualname__ = f"{made.__qualname__}.{INIT}"
    function.__module__ = made.__module__
    return function


def _calling(name: str, complete: Callable[[], type]) -> Callable[..., Any]:
    """A method that has the ones that are needed made, and calls the one that takes its place."""

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
