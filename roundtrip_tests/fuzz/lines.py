"""Lines of the product that run: the coverage that guides a fuzz run and is reported at its end.

Strategy: only functions that still have lines not seen are traced line by line, so that tracing costs less and less.
The compiled kernels are invisible to it; the uncompiled ones, from the same files, are traced in their place.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import unwindkit

Line = tuple[str, int]
Tracer = Callable[[FrameType, str, Any], Any]
PRODUCT = Path(unwindkit.__file__).parent
# `package/` is the import package itself.
FOLDERS = ("schemas", "converters", "writers")


def _shown(path: str) -> str | None:
    """The path in the project of a file of the product; None for any other file."""
    if not path.startswith(f"{PRODUCT}/"):
        return None
    relative = path[len(str(PRODUCT)) + 1 :]
    return relative if relative.partition("/")[0] in FOLDERS else f"package/{relative}"


def _lines_of(code: CodeType) -> set[int]:
    """The lines of a function that have instructions."""
    return {line for *_, line in code.co_lines() if line is not None} | {code.co_firstlineno}


def lines_in(places: tuple[str, ...]) -> set[Line]:
    """The lines of all functions in some files and folders of the project."""
    found: set[Line] = set()
    for place in places:
        relative = place.removeprefix("package/") if place.startswith("package/") else place
        path = PRODUCT / relative
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            shown = _shown(str(source))
            assert shown is not None, source
            whole = compile(source.read_bytes(), str(source), "exec")
            found |= {(shown, line) for code in _functions(whole) for line in _lines_of(code)}
    return found


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The functions in a module; class bodies run at import and do not count."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & inspect.CO_OPTIMIZED:
                yield inner
            yield from _functions(inner)


class Lines:
    """The lines that have run in `traced` blocks."""

    def __init__(self) -> None:
        self.seen: set[Line] = set()
        self._missing: dict[CodeType, set[int] | None] = {}

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Note the lines that run inside."""
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        code = frame.f_code
        if code in self._missing:
            missing = self._missing[code]
        else:
            is_counted = code.co_flags & inspect.CO_OPTIMIZED and _shown(code.co_filename) is not None
            missing = self._missing[code] = _lines_of(code) if is_counted else None
        if not missing:
            return None
        self._note(code, code.co_firstlineno)
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        if event == "line":
            self._note(frame.f_code, frame.f_lineno)
        return self._line

    def _note(self, code: CodeType, line: int) -> None:
        missing = self._missing[code]
        if missing and line in missing:
            missing.discard(line)
            shown = _shown(code.co_filename)
            assert shown is not None
            self.seen.add((shown, line))
