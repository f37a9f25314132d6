"""Worker processes for many files."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from typing import ParamSpec, TypeVar

from ..converters.threads import use_one_thread

P = ParamSpec("P")
Result = TypeVar("Result")

PR_SET_PDEATHSIG = 1


def worker_processes(jobs: int, files: int) -> AbstractContextManager[Executor | None]:
    """A pool of up to `jobs` processes, with one thread each; None, for this process, if one is enough."""
    return nullcontext() if min(jobs, files) < 2 else WorkerProcesses(min(jobs, files))


class WorkerProcesses(Executor):
    """Processes with one thread each; those that are lost when one of them dies are replaced."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        import multiprocessing

        # Not forked: the copy of a process with threads may hang.
        return ProcessPoolExecutor(self._jobs, multiprocessing.get_context("spawn"), _start_worker, (os.getpid(),))

    def submit(self, function: Callable[P, Result], /, *arguments: P.args, **named: P.kwargs) -> Future[Result]:
        """As of any executor."""
        try:
            return self._pool.submit(function, *arguments, **named)
        except BrokenProcessPool:
            self._pool = self._new_pool()
            return self._pool.submit(function, *arguments, **named)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Wait for what was submitted, unless an exception ends the batch: then only for what has begun."""
        self.shutdown(wait=True, cancel_futures=kind is not None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of any executor."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def _start_worker(parent: int) -> None:
    """What a worker does first: it is to end with its parent, however that ends, and leave the other cores alone."""
    import ctypes
    import signal

    use_one_thread()
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
