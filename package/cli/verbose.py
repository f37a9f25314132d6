"""What `--verbose` prints on standard error: engine and threads, the files that are chosen, each step with its time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..converters.kernels import engine
from ..converters.threads import thread_count
from ..schemas.steps import listening
from .common import count_text


@contextmanager
def steps_shown(version: str) -> Iterator[None]:
    """Print the steps of the body, and at its end the whole time."""
    python = ".".join(map(str, sys.version_info[:3]))
    begin = time.monotonic()
    _print(f"{version}, Python {python}, {engine.chosen().name} kernels, {count_text(thread_count(), 'thread')}", None)
    try:
        with listening(_print):
            yield
    finally:
        _print("in all", time.monotonic() - begin)


def _print(text: str, seconds: float | None) -> None:
    when = "" if seconds is None else f"{seconds:.3f} s"
    # In one piece: steps of several threads end together.
    sys.stderr.write(f"{when:>9}  {text}\n")
    sys.stderr.flush()
