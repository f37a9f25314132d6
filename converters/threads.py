"""Parts of one file, worked on by several threads.

Strategy: a file is cut into parts by its own size, never by the number of threads, and each part fills columns of its
own, which are concatenated in the order of the parts. The result, and the error of a malformed file, are therefore the
same for any number of threads. Kernels and most of NumPy release Python's lock. One thread needs no pool, and imports
none.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from ..schemas.section import BuildError
from .kernels import engine

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

VARIABLE = "UNWINDKIT_THREADS"
# Bytes for which a thread is worth its start.
LEAST = 1 << 20
# The parameter of glibc's mallopt() for the number of arenas (malloc.h).
M_ARENA_MAX = -8
Part = TypeVar("Part")
Result = TypeVar("Result")


class _Limit(threading.local):
    """The number of threads that work of this thread may use; 0 for the default."""

    threads = 0


_LIMIT = _Limit()


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Inside, work of this thread uses that many threads; 0: as the environment says."""
    before = _LIMIT.threads
    _LIMIT.threads = threads
    try:
        yield
    finally:
        _LIMIT.threads = before


def use_one_thread() -> None:
    """From now on, work of this thread uses no others."""
    _LIMIT.threads = 1


def thread_count() -> int:
    """The number of threads that the parts of one file may use: UNWINDKIT_THREADS, else the number of CPUs that this
    process may use. The uncompiled engine holds Python's lock: its default is 1. Raises BuildError for a wrong value
    of the variable."""
    if _LIMIT.threads:
        return _LIMIT.threads
    if text := os.environ.get(VARIABLE):
        if not (text.isascii() and text.isdigit() and int(text) > 0):
            raise BuildError("", None, VARIABLE, f"is {text!r}, not a number from 1")
        return int(text)
    if engine.chosen().name == "pure":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """`work` of each part, in order. Raises what the first part in order raises that raises something."""
    threads = min(thread_count(), len(parts)) if len(parts) > 1 else 1
    if threads == 1:
        return [work(part) for part in parts]
    done: dict[int, Result] = {}
    failed: dict[int, BaseException] = {}
    left, lock = iter(range(len(parts))), threading.Lock()

    def take_parts() -> None:
        with at_most(1):
            while True:
                # In order: when one fails, those before it have been taken, and those after it need no work.
                with lock:
                    index = None if failed else next(left, None)
                if index is None:
                    return
                try:
                    done[index] = work(parts[index])
                except BaseException as error:  # noqa: BLE001 - raised below, in the thread that called
                    failed[index] = error

    # This thread is one of them. A pool of the standard library takes as long to import as a small file to convert.
    others = [threading.Thread(target=take_parts) for _ in range(threads - 1)]
    # Where a limit on memory or threads allows fewer, these do the work.
    others = [other for other in others if _starts(other)]
    take_parts()
    for other in others:
        other.join()
    if failed:
        raise failed[min(failed)]
    return [done[index] for index in range(len(parts))]


def _starts(thread: threading.Thread) -> bool:
    """Start a thread; False if the system allows no more."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def in_turn(work: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
    """As `in_threads`, for results that are too large to be kept: there are never more than two for each thread that
    have been begun and not yet asked for."""
    threads = min(thread_count(), len(parts))
    if threads < 2:
        yield from map(work, parts)
        return
    begun: deque[Future[Result]] = deque()
    with _pool(threads) as pool:
        for part in parts:
            begun.append(pool.submit(work, part))
            if len(begun) == 2 * threads:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


@contextmanager
def in_background(work: Callable[[], Result], size: int) -> Iterator[Callable[[], Result]]:
    """Inside, `work` on `size` bytes runs in a thread of its own, and the function given returns what it returns, or
    raises. With one thread, or few bytes, that function is `work` itself. It is called once."""
    if size < LEAST or thread_count() == 1:
        yield work
        return
    with _pool(1) as pool:
        yield pool.submit(work).result


def use_one_arena() -> None:
    """From now on, new threads of this process allocate memory from one arena. By default, each thread of glibc has one
    of its own, which keeps what it frees: a fifth more memory for a large file. For commands, which own their process.
    """
    import ctypes

    # Other C libraries have no such function.
    with suppress(AttributeError, TypeError):
        ctypes.CDLL(None)["mallopt"](M_ARENA_MAX, 1)


def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads whose own work is not cut again."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(threads, initializer=use_one_thread)
