"""The tests, collected once in this process; forks of it run some of them.

Strategy: pytest collects as usual, and its run loop is replaced. Nothing is written to the cache. Examples of
hypothesis are few and always the same, and a failing one is not made smaller.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

# Before NumPy is imported: each test is one thread.
for _name in ("UNWINDKIT_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"

import pytest  # noqa: E402
from hypothesis import HealthCheck, Phase, settings  # noqa: E402

EXAMPLES = 25
OPTIONS = (
    "-p",
    "no:xdist",
    "-p",
    "no:cacheprovider",
    "-o",
    "addopts=--strict-markers",
    "-q",
    "--capture=sys",
    "--tb=no",
)


class OutOfTime(BaseException):
    """A test took longer than it may. Not an Exception, so that no test takes it for its own."""


class Loop:
    """A plugin for pytest: what to do in place of its run loop."""

    def __init__(self, do: Callable[[list[pytest.Item]], object]) -> None:
        self.do = do

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.do(session.items)
        return True


def with_tests(root: Path, arguments: Sequence[str | Path], do: Callable[[list[pytest.Item]], object]) -> int:
    """Collect tests, whose names are relative to `root`, and call `do` with them. Returns pytest's exit status."""
    os.chdir(root)
    os.environ["HYPOTHESIS_PROFILE"] = "fresh"  # what conftest.py loads, before the profile below takes its place
    options = [*OPTIONS, f"--rootdir={root}", *map(str, arguments)]
    return int(pytest.main(options, plugins=[_Examples(), Loop(do)]))


class _Examples:
    """A plugin for pytest: hypothesis's settings, after conftest.py and before a test's own."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        settings.register_profile(
            "mutants",
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("mutants")


def outcome(item: pytest.Item, following: pytest.Item | None) -> str:
    """Run a test: "passed", "failed" or "skipped"."""
    from _pytest.runner import runtestprotocol

    reports = runtestprotocol(item, nextitem=following, log=False)
    if any(report.failed for report in reports):
        return "failed"
    return "skipped" if any(report.skipped for report in reports) else "passed"


class Clock:
    """Whether time ran out. pytest reports OutOfTime as a failure like any other."""

    ran_out = False


@contextmanager
def limited(cpu: float, wall: float) -> Iterator[Clock]:
    """Raises OutOfTime inside after `cpu` seconds of this process, or `wall` seconds."""
    clock = Clock()

    def stop(signum: int, frame: FrameType | None) -> None:
        clock.ran_out = True
        raise OutOfTime

    before = [signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)]
    # A second signal, should the first be raised where it is lost, as in a destructor.
    signal.setitimer(signal.ITIMER_PROF, cpu, 1)
    signal.setitimer(signal.ITIMER_REAL, wall, 1)
    try:
        yield clock
    except OutOfTime:
        clock.ran_out = True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(number, handler)


def cpu_seconds() -> float:
    """CPU time of this process and of those that it waited for."""
    return sum(os.times()[:4])


def use_folder(item: pytest.Item, folder: Path) -> None:
    """Let a forked process have temporary folders of its own."""
    factory = item.config._tmp_path_factory  # type: ignore[attr-defined]
    factory._given_basetemp, factory._basetemp = folder, None
    os.environ["TMPDIR"] = str(folder.parent)
