"""Amounts of work, for tests of bounds: counted, so that a busy machine does not change them."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def at_most_calls(limit: int) -> Iterator[None]:
    """Fail as soon as more functions have been called, of Python or of a library, than `limit`.

    Iterations inside compiled kernels and NumPy are not counted.
    """
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if count > limit:
            sys.setprofile(None)
            raise AssertionError(f"more than {limit} functions were called")

    sys.setprofile(counted)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextmanager
def at_most_allocated(limit: int) -> Iterator[None]:
    """Fail if more bytes than `limit` were allocated at one time."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= limit, f"{peak} bytes were allocated"
