"""Calls of kernels, recorded while whole readers run: real arguments, from which fuzzing starts.

Strategy: an engine in place of the compiled one, whose functions and objects note their arguments and pass them on.
The arguments of an object's constructor are those of every call that the object takes part in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from unwindkit.converters.kernels import engine

from ..target import Target
from .given import Given
from .libraries import LIBRARIES

# Larger arrays are not kept: most are space to be filled.
MOST_BYTES = 100_000
# Of each reader's seeds, from the smallest on.
SEEDS = 12


class Recorder:
    """An engine that notes calls: `calls` has the arguments of each, by `folder.kernel.function`."""

    name = "compiled"

    def __init__(self) -> None:
        self._compiled, self._pure = engine.load("compiled"), engine.load("pure")
        self.calls: dict[str, list[Given]] = {}

    def __getattr__(self, folder: str) -> _Folder:
        return _Folder(self, folder, getattr(self._compiled, folder), getattr(self._pure, folder))

    def note(self, name: str, arguments: dict[str, Any]) -> None:
        """Note a call."""
        self.calls.setdefault(name, []).append(_flat(arguments))


class _Folder:
    def __init__(self, recorder: Recorder, name: str, compiled: engine.Folder, pure: engine.Folder) -> None:
        self._parts = recorder, name, compiled, pure

    def __getattr__(self, kernel: str) -> _Kernel:
        recorder, name, compiled, pure = self._parts
        return _Kernel(recorder, f"{name}.{kernel}", getattr(compiled, kernel), getattr(pure, kernel))


class _Kernel:
    def __init__(self, recorder: Recorder, name: str, compiled: ModuleType, pure: ModuleType) -> None:
        self._parts = recorder, name, compiled, pure

    def __getattr__(self, name: str) -> Callable[..., Any]:
        recorder, kernel, compiled, pure = self._parts
        called, read = getattr(compiled, name), getattr(pure, name)
        if isinstance(called, type):
            return lambda *args, **named: _Object(
                recorder, f"{kernel}.{name}", called(*_real(args), **_real(named)), _bound(read, args, named), read
            )

        def call(*args: Any, **named: Any) -> Any:
            recorder.note(f"{kernel}.{name}", _bound(read, args, named))
            return called(*_real(args), **_real(named))

        return call


class _Object:
    """An object of a kernel, which passes everything on."""

    def __init__(self, recorder: Recorder, name: str, real: Any, arguments: dict[str, Any], cls: type) -> None:
        object.__setattr__(self, "parts", (recorder, name, real, arguments, cls))

    def __getattr__(self, name: str) -> Any:
        recorder, own, real, arguments, cls = self.parts
        found = getattr(real, name)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            bound = _bound(getattr(cls, name), (None, *args), named)
            recorder.note(f"{own}.{name}", {"self": arguments, **bound})
            return found(*_real(args), **_real(named))

        return call

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.parts[2], name, value)


def _real(arguments: Any) -> Any:
    """The same arguments with the kernels' own objects."""
    if isinstance(arguments, dict):
        return {name: _real(one) for name, one in arguments.items()}
    if isinstance(arguments, tuple):
        return tuple(_real(one) for one in arguments)
    return arguments.parts[2] if isinstance(arguments, _Object) else arguments


def _bound(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names of the parameters."""
    found = dict(inspect.signature(function).bind(*args, **named).arguments)
    found.pop("self", None)
    return found


def _flat(arguments: dict[str, Any], prefix: str = "") -> Given:
    """The arrays (copied) and numbers in arguments, and in those that objects among them were made with."""
    found: Given = {}
    for name, one in arguments.items():
        if isinstance(one, _Object):
            found |= _flat(one.parts[3], f"{prefix}{name}.")
        elif isinstance(one, dict):
            found |= _flat(one, f"{prefix}{name}.")
        elif isinstance(one, memoryview) and one.nbytes <= MOST_BYTES:
            found[f"{prefix}{name}"] = np.asarray(one).copy()
        elif isinstance(one, int):
            found[f"{prefix}{name}"] = int(one)
    return found


@cache
def recorded(reader: str) -> dict[str, list[Given]]:
    """The calls of kernels that a reading target makes on some of its seeds."""
    # The targets of readers are not those of kernels, which need this module.
    from ..reading_targets import READING_TARGETS

    target, recorder = {**READING_TARGETS, LIBRARIES.name: LIBRARIES}[reader], Recorder()
    seeds = sorted(target.seeds(), key=lambda seed: len(seed.data))
    with patch.object(engine, "chosen", lambda: recorder):
        for seed in seeds[:: max(1, len(seeds) // SEEDS)]:
            _read(target, seed)
    return recorder.calls


def _read(target: Target, seed: Any) -> None:
    for read in target.reads.values():
        try:
            read(seed)
        except target.errors:
            continue


def calls_of(name: str, readers: Iterable[str]) -> list[Given]:
    """The recorded calls of one kernel in some reading targets."""
    return [given for reader in readers for given in recorded(reader).get(name, [])]
