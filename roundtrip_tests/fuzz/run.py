"""A fuzz run: every target in processes of its own, on some cores; what they did and found.

Strategy: one thread waits for the workers' reports. A worker that dies or says nothing for HANGS seconds has shown a
fault with the input that it announced; another one takes its place.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from mmap import mmap
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from .faults import Fault, minimise
from .lines import Line
from .plan import SHARED, Plan, Tally
from .seeds import Seed
from .target import Target
from .worker import announce, announced, work

# Uncompiled and traced, what takes a tenth of a second takes minutes.
HANGS = 300.0
# Of the workers of one target: a fault that nearly every input shows is not looked for without end.
MOST_DEATHS = 50
_FORK = multiprocessing.get_context("fork")


@dataclass(slots=True)
class Result:
    """What a run did with one target."""

    target: Target
    executions: int = 0
    compared: int = 0
    kept: int = 0
    seconds: float = 0.0
    lines: set[Line] = field(default_factory=set)
    faults: dict[str, Fault] = field(default_factory=dict)

    def add(self, tally: Tally) -> None:
        """Count a worker's report."""
        self.executions += tally.executions
        self.compared += tally.compared
        self.kept += tally.kept
        self.seconds += tally.seconds
        self.lines |= tally.lines


@dataclass(slots=True)
class Worker:
    """A running process, and when it is to end."""

    result: Result
    plan: Plan
    end: float
    process: ForkProcess
    report: Connection
    shared: mmap
    heard: float


def run(
    targets: Sequence[Target], plan: Plan, jobs: int, on_fault: Callable[[Fault], None] = lambda fault: None
) -> list[Result]:
    """Fuzz each target for plan.seconds, `jobs` at a time. `on_fault` gets each new fault."""
    results = [Result(target) for target in targets]
    for target in targets:
        if target.kernel is not None:
            target.kernel.seeds()  # recorded once, not in each process
    waiting = iter(results)
    running: list[Worker] = []
    while True:
        while len(running) < jobs and (result := next(waiting, None)) is not None:
            running.append(_start(result, plan, time.monotonic() + plan.seconds))
        if not running:
            return results
        wait([one.report for one in running], timeout=1.0)
        running = [kept for one in running for kept in _attend(one, on_fault)]


def _start(result: Result, plan: Plan, end: float) -> Worker:
    shared = mmap(-1, SHARED)
    here, there = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=work, args=(result.target, plan, shared, there))
    process.start()
    there.close()
    return Worker(result, plan, end, process, here, shared, time.monotonic())


def _attend(worker: Worker, on_fault: Callable[[Fault], None]) -> Iterator[Worker]:
    """Take a worker's reports; yields it, or the one that takes its place."""
    try:
        while worker.report.poll():
            message = worker.report.recv()
            worker.heard = time.monotonic()
            if message is None:
                worker.process.join()
                return
            if isinstance(message, Fault):
                _found(worker.result, message, on_fault)
            else:
                worker.result.add(message)
    except EOFError:
        worker.process.join()
        yield from _after_death(worker, worker.process.exitcode or 0, on_fault)
        return
    if time.monotonic() - worker.heard > HANGS * worker.plan.slowness:
        worker.process.kill()
        worker.process.join()
        yield from _after_death(worker, None, on_fault)
        return
    yield worker


def _found(result: Result, fault: Fault, on_fault: Callable[[Fault], None]) -> None:
    if fault.key not in result.faults:
        result.faults[fault.key] = fault
        on_fault(fault)


def _after_death(worker: Worker, code: int | None, on_fault: Callable[[Fault], None]) -> Iterator[Worker]:
    """Note what a worker died of, and start the next part of its plan. `code` is None for one that was killed here."""
    target = worker.result.target
    seed = announced(worker.shared, target)
    key = "hangs" if code is None else _death(code)
    if seed is not None and key not in worker.result.faults:
        is_whole = code is None or target.kernel is not None
        smaller = seed if is_whole else minimise(seed, lambda one: death_of(target, one) == key)
        _found(worker.result, Fault(target.name, key, f"the process ended: {key}", smaller), on_fault)
    left = worker.end - time.monotonic()
    plan = worker.plan
    # What damages follow would be the same ones again.
    if left > 1 and not plan.is_exhaustive and plan.part < MOST_DEATHS:
        again = replace(plan, part=plan.part + 1, seconds=left)
        yield _start(worker.result, again, worker.end)


def _death(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def death_of(target: Target, seed: Seed) -> str | None:
    """How a process dies that runs an input; None if it lives."""
    process = _FORK.Process(target=_once, args=(target, seed))
    process.start()
    process.join(HANGS)
    if process.is_alive():
        process.kill()
        process.join()
        return "hangs"
    return None if process.exitcode == 0 else _death(process.exitcode or 0)


def _once(target: Target, seed: Seed) -> None:
    with open(os.devnull, "w", encoding="ascii") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        target.signature(seed)
    except Exception:  # noqa: BLE001 - only the death of the process counts here
        os._exit(0)
    os._exit(0)


__all__ = ["Plan", "Result", "announce", "death_of", "run"]
