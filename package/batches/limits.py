"""Limits of time and memory of one job.

Strategy: both are the system's, in the process that does the job. An alarm interrupts Python; a kernel that does not
return ends the process some time later, and with it only the file that it was about.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..schemas.data_classes import dataclass

# After this many times its limit, a process that does not react ends.
LAST = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one job: `seconds` of time, and `memory`, the bytes of data that its process may have; None for no
    limit. They apply in the main thread of a process only."""

    seconds: float | None = None
    memory: int | None = None

    def __bool__(self) -> bool:
        return self.seconds is not None or self.memory is not None


class TimeLimitError(Exception):
    """A job took longer than it may."""


@contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """Raise TimeLimitError in the body, or MemoryError, once it reaches a limit."""
    if not limits or threading.current_thread() is not threading.main_thread():
        yield
        return
    old = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        if limits.memory is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (limits.memory, old[1]))
        if limits.seconds is not None:
            signal.signal(signal.SIGALRM, _interrupt)
            signal.setitimer(signal.ITIMER_REAL, limits.seconds)
            if _is_worker():
                with open(os.devnull, "w", encoding="ascii") as nowhere:
                    faulthandler.dump_traceback_later(LAST * limits.seconds, exit=True, file=nowhere)
        yield
    except ImportError as error:
        # Modules are loaded when they are needed; with too little memory, that fails in its own way.
        if limits.memory is None:
            raise
        raise MemoryError from error
    finally:
        if limits.seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()
        if limits.memory is not None:
            resource.setrlimit(resource.RLIMIT_DATA, old)


def _is_worker() -> bool:
    import multiprocessing

    return multiprocessing.parent_process() is not None


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise TimeLimitError
