"""One job for many files, each independent of the others: one that fails does not stop them.

Strategy: any `concurrent.futures.Executor` can do the work, including a cluster's. If a worker process dies (a
malformed file may crash a library, or use all memory), its pool is lost; each remaining file then gets a process of its
own, so that only the file that kills its worker fails.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ..jobs import StrPath
from ..jobs.breakpad import BreakpadReport, store_breakpad
from ..jobs.sframe_files import write_sframe
from ..jobs.sframe_report import SframeReport
from ..schemas.arguments import check_executor, check_path, checked, optional
from ..schemas.data_classes import dataclass
from ..schemas.section import FormatError
from .limits import TimeLimitError
from .source_files import Failure, SourceFile, name_of
from .workers import worker_processes

Choices: TypeAlias = dict[str, Any]
Report = TypeVar("Report")

# Files that wait for a worker or for their turn: as many, or as many bytes of those from packages.
WAITING, WAITING_BYTES = 256, 256 << 20


@checked(executor=optional(check_executor))
def write_sframe_many(
    pairs: Sequence[tuple[StrPath, StrPath]], executor: Executor | None = None, **choices: Any
) -> Iterator[SframeReport | Failure]:
    """`write_sframe` with the options `choices` for each (input, output); results come in the same order.

    Missing folders are created. With `executor` None the files are converted in this process, one by one.
    """
    return map_job(write_sframe, pairs, executor, choices)


@checked(store=check_path, executor=optional(check_executor))
def write_breakpad_many(
    paths: Sequence[StrPath], store: StrPath, executor: Executor | None = None, **choices: Any
) -> Iterator[BreakpadReport | Failure]:
    """`store_breakpad` with the options `choices` for each path; results come in the same order.

    With `executor` None the files are converted in this process, one by one.
    """
    return map_job(store_breakpad, [(path, store) for path in paths], executor, choices)


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """The result of a file for which no job is needed."""

    result: Any


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A job that was submitted, and what it is about; without a future, the result is known."""

    source: StrPath | SourceFile
    out: StrPath
    future: Future[Any] | None
    known: Any = None

    @property
    def is_done(self) -> bool:
        """Whether the result is there."""
        return self.future is None or self.future.done()

    @property
    def size(self) -> int:
        """The bytes in memory."""
        if not isinstance(self.source, SourceFile):
            return 0
        return len(self.source.data or b"") + sum(len(one.data) for one in self.source.debug)


def map_job(
    job: Callable[..., Report],
    pairs: Iterable[tuple[StrPath | SourceFile, StrPath] | Known],
    executor: Executor | None,
    choices: Choices,
) -> Iterator[Report | Failure]:
    """The results of a job for pairs of input and output, in order, and those that are known already. Of a long
    iterator, only some pairs are taken in advance. With `executor` None the job is done in this process."""
    waiting: deque[_Waiting] = deque()
    size = 0
    for pair in pairs:
        if isinstance(pair, Known):
            one = _Waiting("", "", None, pair.result)
        elif executor is None:
            one = _Waiting(*pair, None, _one(job, *pair, choices))
        else:
            one = _Waiting(*pair, executor.submit(partial(_one, job, *pair, choices)))
        waiting.append(one)
        size += one.size
        while waiting and (waiting[0].is_done or len(waiting) > WAITING or size > WAITING_BYTES):
            first = waiting.popleft()
            size -= first.size
            yield _outcome(job, first, choices)
    while waiting:
        yield _outcome(job, waiting.popleft(), choices)


def _outcome(job: Callable[..., Report], one: _Waiting, choices: Choices) -> Report | Failure:
    if one.future is None:
        found: Report | Failure = one.known
        return found
    try:
        found = one.future.result()
    except BrokenProcessPool:
        pass
    else:
        return found
    with worker_processes(2, 2) as alone:
        assert alone is not None
        try:
            return alone.submit(_one, job, one.source, one.out, choices).result()
        except BrokenProcessPool:
            reason = "the process that converted it died"
            return Failure(name_of(one.source), os.fspath(one.out), reason, reason)


def _one(job: Callable[..., Report], source: StrPath | SourceFile, out: StrPath, choices: Choices) -> Report | Failure:
    kind = ""
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        return job(source, out, **choices)
    except FormatError as error:
        reason, kind = str(error), error.reason
    except OSError as error:
        reason = error.strerror or str(error)
    except MemoryError:
        reason = "not enough memory"
    except TimeLimitError:
        reason = "took longer than --time-limit"
    except Exception as error:
        if not isinstance(source, SourceFile):
            raise
        # A fault of ours must not end a batch of a thousand other files.
        reason = f"internal error, please report: {type(error).__name__}: {error}"
        kind = f"internal error: {type(error).__name__}"
    return Failure(name_of(source), os.fspath(out), reason, kind or reason)
