"""One process that fuzzes one kernel.

Strategy: inputs are changed in batches, all from one; a batch and the number of the current input are in shared memory,
from which the parent makes that input again if this process dies. One input in COMPARED, and each that the kernel
treats in a new way, also runs uncompiled, with its lines traced; both must give the same.
"""

from __future__ import annotations

import pickle
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from mmap import mmap
from multiprocessing.connection import Connection
from typing import Any

from unwindkit.converters.kernels import engine

from ..faults import Fault, key_of
from ..lines import Lines
from ..plan import REPORT_EVERY, SECONDS, SHARED, Plan, Tally
from ..seeds import Seed
from ..target import Target
from .contract import repaired
from .given import Given, Ran, encode
from .kernel import Kernel

COMPARED = 1024
BATCH = 64
# Inputs that others are made from.
MOST_KEPT = 400
# Inputs that differ from one in one element each.
SIBLINGS = 7
NUMBER_SIZE = 8


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs made from `given`, with parts of `other`, by the random numbers of `seed`."""

    given: Given
    other: Given
    seed: int

    def inputs(self, kernel: Kernel) -> Iterator[Given]:
        """Without end; they depend on nothing else."""
        random_, mutator = random.Random(self.seed), kernel.mutator()
        while True:
            found, changed = mutator.mutate(random_, self.given, self.other)
            yield repaired(found, kernel.rules, changed)
            for _ in range(SIBLINGS):
                yield mutator.sibling(random_, found)

    def announce(self, shared: mmap) -> None:
        """Put the batch into shared memory."""
        data = pickle.dumps(self)
        shared[8 : 8 + len(data)] = data
        shared[:8] = len(data).to_bytes(8, "little")

    def announced(self, shared: mmap, kernel: Kernel) -> Seed:
        """The input that was being run."""
        number = int.from_bytes(shared[SHARED - NUMBER_SIZE :], "little")
        inputs = self.inputs(kernel)
        for _ in range(number):
            next(inputs)
        return as_seed(next(inputs))


def as_seed(given: Given) -> Seed:
    """An input as a seed of the kernel's target."""
    return Seed(encode(given), name="arguments")


@contextmanager
def lost_errors() -> Iterator[list[str]]:
    """The errors that kernels could not raise: of kernels with bounds checks."""
    found: list[str] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda lost: found.append(f"{lost.err_msg}: {lost.exc_value!r}")
    try:
        yield found
    finally:
        sys.unraisablehook = before


class KernelRunner:
    """Runs inputs of one kernel and judges what happens."""

    def __init__(self, target: Target, plan: Plan, lost: list[str]) -> None:
        assert target.kernel is not None
        self.target, self.kernel, self.plan, self.lines = target, target.kernel, plan, Lines()
        self._compiled, self._pure, self._lost = engine.load("compiled"), engine.load("pure"), lost

    def run(self, given: Given) -> tuple[Ran | None, Fault | None]:
        """What the compiled kernel does; a fault if it raises or takes too long."""
        before = time.process_time()
        try:
            ran = self.kernel.run(self._compiled, given)
        except Exception as error:  # noqa: BLE001 - a kernel raises nothing
            return None, self._fault(key_of(error), repr(error), given)
        if self._lost:
            text = self._lost.pop()
            self._lost.clear()
            return None, self._fault("IndexError", text, given)
        used = time.process_time() - before
        if used > SECONDS * self.plan.slowness:
            return ran, self._fault("slow", f"{used:.2f} s", given)
        return ran, None

    def compare(self, given: Given, compiled: Ran) -> Fault | None:
        """Run an input uncompiled and traced; a fault if that is different."""
        try:
            with self.lines.traced():
                pure = self.kernel.run(self._pure, given)
        except Exception as error:  # noqa: BLE001 - any exception is what is looked for
            return self._fault(key_of(error), repr(error), given)
        if pure.is_same(compiled):
            return None
        return self._fault("engines differ", f"uncompiled: {pure}\ncompiled: {compiled}"[:2000], given)

    def _fault(self, key: str, text: str, given: Given) -> Fault:
        return Fault(self.target.name, key, text, as_seed(given))


class _Pool:
    """The inputs that others are made from."""

    def __init__(self, random_: random.Random, kernel: Kernel) -> None:
        self.given, self._random = kernel.seeds(), random_
        self.seen: set[Any] = set()

    def batch(self) -> Batch:
        given, other = self._random.choice(self.given), self._random.choice(self.given)
        return Batch(given, other, self._random.getrandbits(63))


def fuzz_kernel(target: Target, plan: Plan, shared: mmap, report: Connection, send: Callable[..., float]) -> None:
    """Fuzz a kernel, and send as `work` does; `send` sends a tally."""
    assert target.kernel is not None
    random_, tally, known = random.Random(f"{plan.seed} {target.name} {plan.part}"), Tally(), set[str]()
    with lost_errors() as lost:
        runner, pool = KernelRunner(target, plan, lost), _Pool(random_, target.kernel)
        start = last = time.monotonic()
        count = 0
        left = plan.executions if plan.executions is not None else sys.maxsize
        first = iter(pool.given[:])
        while (now := time.monotonic()) - start < plan.seconds and count < left:
            if now - last >= REPORT_EVERY:
                last = send(report, tally, runner, now - last, now)
                tally = Tally()
            batch = pool.batch()
            batch.announce(shared)
            inputs = batch.inputs(target.kernel)
            for number in range(min(BATCH, left - count)):
                shared[SHARED - NUMBER_SIZE :] = number.to_bytes(NUMBER_SIZE, "little")
                given = next(inputs)
                given = next(first, given)
                count += 1
                fault = _one(runner, given, tally, pool, is_compared=count % COMPARED == 0)
                if fault is not None and fault.key not in known:
                    known.add(fault.key)
                    report.send(fault)
        send(report, tally, runner, time.monotonic() - last, 0.0)


def _one(runner: KernelRunner, given: Given, tally: Tally, pool: _Pool, *, is_compared: bool) -> Fault | None:
    """Run one input, and keep it if it is new."""
    ran, fault = runner.run(given)
    tally.executions += 1
    if ran is None or fault is not None:
        return fault
    signature = ran.signature()
    is_new = signature not in pool.seen
    if not is_new and not is_compared:
        return None
    pool.seen.add(signature)
    before = len(runner.lines.seen)
    fault = runner.compare(given, ran)
    tally.compared += 1
    if fault is None and len(pool.given) < MOST_KEPT and (is_new or len(runner.lines.seen) > before):
        pool.given.append(given)
        tally.kept += 1
    return fault
