"""One process that fuzzes one target.

Strategy: inputs run on the compiled kernels. One input in TRACED, and each that is treated in a new way, also runs on
the uncompiled kernels with its lines traced; both engines must do the same. An input that is treated in a new way, or
runs a new line, is kept and changed further. The current input is in shared memory, where the parent finds it if this
process dies or hangs.
"""

from __future__ import annotations

import os
import pickle
import random
import resource
import time
from collections.abc import Callable
from mmap import mmap
from multiprocessing.connection import Connection
from typing import Any
from unittest.mock import patch

from unwindkit.converters.kernels import engine

from .alone.worker import Batch, KernelRunner, fuzz_kernel, lost_errors
from .damage import damages
from .faults import Fault, key_of, minimise
from .lines import Lines
from .mutation import mutate
from .plan import (
    ADDRESS_SPACE,
    MEMORY,
    MEMORY_PER_BYTE,
    MOST_KEPT,
    REPORT_EVERY,
    SECONDS,
    SECONDS_PER_BYTE,
    SHARED,
    Plan,
    Tally,
)
from .seeds import Seed
from .target import Target

TRACED = 64


class Runner:
    """Runs inputs of one target and judges what happens."""

    def __init__(self, target: Target, plan: Plan) -> None:
        self.target, self.plan, self.lines = target, plan, Lines()
        self._engines = {name: engine.load(name) for name in ("pure", "compiled")}

    def _on(self, name: str, run: Callable[[Seed], Any], seed: Seed) -> Any:
        chosen = self._engines[name]
        with patch.object(engine, "chosen", lambda: chosen):
            return run(seed)

    def signature(self, seed: Seed) -> tuple[str, Fault | None]:
        """What the compiled readers do with an input; a fault if they take too much or raise what they must not."""
        before, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            with lost_errors() as lost:
                found = str(self._on("compiled", self.target.signature, seed))
        except Exception as error:  # noqa: BLE001 - any other exception is what is looked for
            return "", self._fault(key_of(error), repr(error), seed)
        if lost:
            return found, self._fault("IndexError", lost[0], seed)
        used = time.process_time() - before
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) << 10
        size = len(seed.data)
        if used > (SECONDS + SECONDS_PER_BYTE * size) * self.plan.slowness:
            return found, self._fault("slow", f"{used:.2f} s for {size} bytes", seed)
        if grown > MEMORY + MEMORY_PER_BYTE * size and not self.plan.is_sanitized:
            return found, self._fault("large", f"{grown >> 20} MiB for {size} bytes", seed)
        return found, None

    def compare(self, seed: Seed) -> Fault | None:
        """Run an input on both engines, and trace the uncompiled one; a fault if they differ."""
        try:
            compiled = self._on("compiled", self.target.digests, seed)
            with self.lines.traced():
                pure = self._on("pure", self.target.digests, seed)
        except Exception as error:  # noqa: BLE001 - any other exception is what is looked for
            return self._fault(key_of(error), repr(error), seed)
        for name, text in pure.items():
            if text != compiled[name]:
                return self._fault(f"engines differ in {name}", f"uncompiled: {text}\ncompiled: {compiled[name]}", seed)
        return None

    def shows(self, key: str) -> Callable[[Seed], bool]:
        """Whether an input shows the fault of that key."""

        def one(seed: Seed) -> bool:
            _, fault = self.signature(seed)
            if fault is None and key.startswith(("engines", "Assertion", "Overflow")):
                fault = self.compare(seed)
            return fault is not None and fault.key == key

        return one

    def _fault(self, key: str, text: str, seed: Seed) -> Fault:
        return Fault(self.target.name, key, text, seed)


def work(target: Target, plan: Plan, shared: mmap, report: Connection) -> None:
    """Fuzz a target, and send a `Tally` every second and each new `Fault`; None at the end."""
    if not plan.is_sanitized:
        pages = int(open("/proc/self/statm", encoding="ascii").read().split()[0])  # noqa: SIM115
        limit = pages * resource.getpagesize() + ADDRESS_SPACE
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with open(os.devnull, "w", encoding="ascii") as nothing:
        os.dup2(nothing.fileno(), 1)
    if target.kernel is not None:
        fuzz_kernel(target, plan, shared, report, _send)
    else:
        (_exhaust if plan.is_exhaustive else _fuzz)(target, plan, shared, report)
    report.send(None)


def _exhaust(target: Target, plan: Plan, shared: mmap, report: Connection) -> None:
    """Run every damaged input, however long it takes, on both engines."""
    runner, tally = Runner(target, plan), Tally()
    known: set[str] = set()
    last = time.monotonic()
    for seed in damages(target, plan.seed, plan.executions):
        announce(shared, seed)
        _, fault = runner.signature(seed)
        fault = fault or runner.compare(seed)
        tally.executions, tally.compared = tally.executions + 1, tally.compared + 1
        if fault is not None and fault.key not in known:
            known.add(fault.key)
            report.send(Fault(fault.target, fault.key, fault.text, minimise(seed, runner.shows(fault.key))))
        if (now := time.monotonic()) - last >= REPORT_EVERY:
            last = _send(report, tally, runner, now - last, now)
            tally = Tally()
    _send(report, tally, runner, time.monotonic() - last, 0.0)


def _fuzz(target: Target, plan: Plan, shared: mmap, report: Connection) -> None:
    random_ = random.Random(f"{plan.seed} {target.name} {plan.part}")
    runner, tally = Runner(target, plan), Tally()
    pool = target.seeds()
    seen: set[str] = set()
    known: set[str] = set()
    start = last = time.monotonic()
    number, given = 0, list(pool)
    while time.monotonic() - start < plan.seconds and (plan.executions is None or number < plan.executions):
        seed = given[number] if number < len(given) else mutate(random_, random_.choice(pool), pool)
        announce(shared, seed)
        signature, fault = runner.signature(seed)
        number, tally.executions = number + 1, tally.executions + 1
        is_new = bool(signature) and signature not in seen
        seen.add(signature)
        if fault is None and (is_new or number % TRACED == 0):
            before = len(runner.lines.seen)
            fault = runner.compare(seed)
            tally.compared += 1
            is_new |= len(runner.lines.seen) > before
        if fault is not None and fault.key not in known:
            known.add(fault.key)
            report.send(Fault(fault.target, fault.key, fault.text, minimise(seed, runner.shows(fault.key))))
        elif fault is None and is_new and len(pool) < MOST_KEPT and number > len(given):
            pool.append(seed)
            tally.kept += 1
        if (now := time.monotonic()) - last >= REPORT_EVERY:
            last = _send(report, tally, runner, now - last, now)
            tally = Tally()
    _send(report, tally, runner, time.monotonic() - last, 0.0)


def _send(report: Connection, tally: Tally, runner: Runner | KernelRunner, seconds: float, now: float) -> float:
    """Send a tally with the lines seen since; returns `now`."""
    tally.seconds, tally.lines = seconds, set(runner.lines.seen)
    report.send(tally)
    return now


def announce(shared: mmap, seed: Seed) -> None:
    """Put an input into shared memory."""
    data = pickle.dumps(seed)[: SHARED - 8]
    shared[8 : 8 + len(data)] = data
    shared[:8] = len(data).to_bytes(8, "little")


def announced(shared: mmap, target: Target) -> Seed | None:
    """The input that was put there last."""
    size = int.from_bytes(shared[:8], "little")
    found = pickle.loads(shared[8 : 8 + size]) if size else None
    if isinstance(found, Batch) and target.kernel is not None:
        return found.announced(shared, target.kernel)
    return found if isinstance(found, Seed) else None
