"""What is done, step by step, for whoever listens: `--verbose` does. Without a listener a step costs nearly nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeAlias

# Called with a step's text, and with the seconds that it took, or None for what takes no time.
Listener: TypeAlias = Callable[[str, float | None], None]
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """The listener is told of all steps that end in the body, those of other threads included."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def note(text: str) -> None:
    """Tell what was chosen or found."""
    for one in _listeners:
        one(text, None)


class Step:
    """One step: the body of a `with`, which adds what it counted. One that fails is not told."""

    def __init__(self, text: str) -> None:
        self._text, self._counts = text, list[str]()
        self._begin = time.monotonic() if _listeners else 0.0

    def __enter__(self) -> Step:
        """The step itself."""
        return self

    def count(self, number: int, what: str) -> None:
        """Add a number, and what was counted, in the plural."""
        if _listeners:
            self._counts.append(f"{number:,} {what}")

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        """Tell the listeners."""
        if kind is None and _listeners:
            seconds, counts = time.monotonic() - self._begin, ", ".join(self._counts)
            for one in _listeners:
                one(f"{self._text}: {counts}" if counts else self._text, seconds)
