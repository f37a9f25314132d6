"""One factor that raises every limit on what a small file may amplify.

Strategy: the constants of a limit stand where it is kept; there, `raised` multiplies the bound, and `exceeded` ends the
reason of the error with the option that does so. The factor is in the environment, as the number of threads is, so
that it reaches the processes of a batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from ..schemas.arguments import check_integer
from ..schemas.section import BuildError

VARIABLE = "UNWINDKIT_RAISE_LIMITS"
OPTION = "--raise-limits"
# Buffers have room for what a limit allows.
LARGEST = 1 << 10


def is_factor(text: str) -> bool:
    """Whether limits can be multiplied by what `text` says."""
    return text.isascii() and text.isdigit() and len(text) < 8 and 1 <= int(text) <= LARGEST


def raised(bound: int) -> int:
    """A bound, multiplied by UNWINDKIT_RAISE_LIMITS. Raises BuildError for a wrong value of the variable."""
    text = os.environ.get(VARIABLE)
    if not text:
        return bound
    if not is_factor(text):
        raise BuildError("", None, VARIABLE, f"is {text!r}, not a number from 1 to {LARGEST}")
    return bound * int(text)


def raised_limits(factor: int) -> AbstractContextManager[None]:
    """Inside, this process, and processes that it starts, multiply each limit on amplification by `factor`. Raises
    ValueError for a factor below 1 or above 1,024."""
    check_integer(factor, "factor")
    if not 1 <= factor <= LARGEST:
        raise ValueError(f"factor is {factor}, expected 1 to {LARGEST}")
    return _raised_limits(int(factor))


@contextmanager
def _raised_limits(factor: int) -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(factor)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def exceeded(reason: str) -> str:
    """The reason of an error of a limit that can be raised."""
    return f"{reason} ({OPTION})"
