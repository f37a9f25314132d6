"""`dataclass` of the standard library, with methods that are made when one of them is first called.

Strategy: the standard library inspects each field and compiles the methods of each class from text, which takes most
of the time in which a module of small classes is imported; a command uses few of them. Here a class gets its slots and
the names of its fields. Most classes that are used need only `__init__`, which is made here; for the other methods, and
for `fields` and `replace`, the standard library makes a class with the same fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

INIT = "__init__"
METHODS = (INIT, "__repr__", "__eq__", "__hash__")
# What the standard library reads in a class, besides the defaults of fields.
_READ = ("__module__", "__qualname__", "__doc__", "__orig_bases__", "__post_init__")
# What it makes of a class for `fields`, `replace` and itself.
_ATTRIBUTES = ("__dataclass_fields__", "__dataclass_params__")
_WITHOUT = {"init": False, "repr": False, "eq": False, "slots": False}
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


class Part(NamedTuple):
    """One field: what `__init__` takes for it. `given` is the default, a `Field`, or MISSING."""

    name: str
    type: str
    given: Any
    kw_only: bool


def parts_of(cls: Any) -> tuple[Part, ...]:
    """The fields of a frozen class, in order. `dataclasses.fields` takes longer when it is first called."""
    return tuple(cls._parts.values())


class _OnFirstUse:
    """An attribute of a class that the standard library computes when it is first read."""

    def __init__(self, name: str, complete: Callable[[], type]) -> None:
        self._name = name
        self._complete = complete

    def __get__(self, instance: object, owner: Any) -> Any:
        return getattr(self._complete(), self._name)


def _frozen(options: dict[str, Any]) -> Callable[[type], type]:
    """The decorator of a frozen data class with these options."""

    def decorate(cls: type) -> type:
        read = {*cls.__annotations__, *_READ}
        namespace = {name: value for name, value in vars(cls).items() if name in read}
        namespace["__annotations__"] = cls.__annotations__
        later, parts = _later(cls, options), _parts(cls, options)
        made: Any = _class_of(cls, parts, bool(options.get("slots")))
        positional = tuple(name for name, part in parts.items() if not part.kw_only)
        for name, value in {"_parts": parts, "__match_args__": positional}.items():
            setattr(made, name, value)
        made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
        if options.get("slots") and "__reduce__" not in vars(made):
            made.__getstate__, made.__setstate__ = _state, _set_state
        decorated: type = made
        _complete_later(decorated, namespace, later, options)
        return decorated

    return decorate


def _parts(cls: type, options: dict[str, Any]) -> dict[str, Part]:
    """The fields of a class, after those of the classes that it inherits from. An annotation that is no field is a
    ClassVar."""
    found: dict[str, Part] = {}
    for base in cls.__mro__[:0:-1]:
        found |= vars(base).get("_parts", {})
    for name, kind in cls.__annotations__.items():
        if not kind.startswith("ClassVar"):
            given = vars(cls).get(name, dataclasses.MISSING)
            is_last = getattr(given, "kw_only", dataclasses.MISSING)
            kw_only = bool(options.get("kw_only") if is_last is dataclasses.MISSING else is_last)
            found[name] = Part(name, kind, given, kw_only)
    return found


def _class_of(cls: type, parts: dict[str, Part], slots: bool) -> type:
    """The class with its fields declared as Python takes them: as slots, or with the defaults as attributes."""
    if not slots:
        for name in cls.__annotations__.keys() & parts.keys():
            given = parts[name].given
            if isinstance(given, dataclasses.Field):
                if given.default is dataclasses.MISSING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, given.default)
        return cls
    inherited = {slot for base in cls.__mro__[1:] for slot in vars(base).get("__slots__", ())}
    left_out = {*parts, "__dict__", "__weakref__"}
    namespace = {name: value for name, value in vars(cls).items() if name not in left_out}
    namespace["__slots__"] = tuple(name for name in parts if name not in inherited)
    namespace["__qualname__"] = cls.__qualname__
    return type(cls)(cls.__name__, cls.__bases__, namespace)


def _later(cls: type, options: dict[str, Any]) -> list[str]:
    """The names of the methods that a class lacks."""
    without = {f"__{name}__" for name in ("eq", "repr") if not options.get(name, True)}
    without |= {"__hash__"} if "__eq__" in without else set()
    # A class with __eq__ has None as its __hash__.
    return [name for name in METHODS if name not in without and vars(cls).get(name) is None]


def _complete_later(made: Any, namespace: dict[str, Any], later: list[str], options: dict[str, Any]) -> None:
    """Make the methods `later` when one of them is called, and what `fields` reads when it is read; `namespace` is what
    the standard library reads for them."""
    others = [name for name in later if name != INIT]

    def from_library(names: list[str], choices: dict[str, Any]) -> Any:
        with _LOCK:
            if names:
                source: Any = type(made)(made.__name__, made.__bases__, {**namespace})
                dataclasses.dataclass(source, **{**options, **choices})
                source.__dataclass_params__.frozen = True
                for name in names:
                    setattr(made, name, vars(source)[name])
                names.clear()
        return made

    left, described = [*others], [*_ATTRIBUTES]
    complete = partial(from_library, left, {"init": False, "frozen": True, "slots": False})
    # Either all classes that inherit from each other are frozen or none, which the standard library checks.
    is_derived = any("_parts" in vars(base) for base in made.__mro__[1:])
    describe = partial(from_library, described, {**_WITHOUT, "frozen": is_derived})

    def initialize() -> Any:
        if INIT in later:
            setattr(made, INIT, _initializer(made))
        return made

    for name in later:
        setattr(made, name, _calling(name, initialize if name == INIT else complete))
    for name in _ATTRIBUTES:
        setattr(made, name, _OnFirstUse(name, describe))
    made.__signature__ = _Signature(initialize)


def _initializer(made: Any) -> Callable[..., None]:
    """The `__init__` of a frozen class."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_made": dataclasses.MISSING}
    parameters, lines = {False: ["self"], True: ["*"]}, []
    for one in made._parts.values():
        value, default = one.name, ""
        is_field = isinstance(one.given, dataclasses.Field)
        if is_field and one.given.default_factory is not dataclasses.MISSING:
            known[f"_default_{one.name}"], default = one.given.default_factory, "=_made"
            value = f"_default_{one.name}() if {one.name} is _made else {one.name}"
        elif (given := one.given.default if is_field else one.given) is not dataclasses.MISSING:
            known[f"_default_{one.name}"], default = given, f"=_default_{one.name}"
        parameters[one.kw_only].append(one.name + default)
        lines.append(f" _set(self, {one.name!r}, {value})")
    if hasattr(made, "__post_init__"):
        lines.append(" self.__post_init__()")
    wanted = parameters[False] + (parameters[True] if len(parameters[True]) > 1 else [])
    exec("\n".join([f"def {INIT}({', '.join(wanted)}):", *(lines or [" pass"])]), known)
    function: Callable[..., None] = known[INIT]
    function.__annotations__ = {**{one.name: one.type for one in made._parts.values()}, "return": None}
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
    return [getattr(self, name) for name in self._parts]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self._parts, state, strict=True):
        object.__setattr__(self, name, value)
