"""Record which tests run which lines: for each test file, once, a file in `.mutants/`.

Strategy: the tests are collected in one process, a fork of it runs one test file. Between two tests the measured lines
are taken out. A test that takes long is no good for trying thousands of mutants: it is stopped and left out, and so are
the other parameters of the same function, what is left of a file that takes long, and tests of foreign programs.
"""

from __future__ import annotations

import importlib
import itertools
import os
import pickle
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from coverage.tracer import CFileDisposition, CTracer

from .commands_here import run_commands_here
from .process import Answer, answers
from .project import ROOT, Module, Project
from .session import cpu_seconds, limited, outcome, use_folder, with_tests

FOLDER = ROOT / ".mutants"

# Lines of modules, as bits of an integer.
Lines = dict[str, int]
Tests = dict[str, tuple[float, Lines]]


@dataclass(frozen=True)
class Limits:
    """Seconds for one test, of CPU and in all; CPU seconds for the tests of one file; are oracles run?"""

    cpu: float
    wall: float
    file: float
    has_oracles: bool


QUICK = Limits(2.0, 60.0, 12.0, has_oracles=False)
THOROUGH = Limits(20.0, 300.0, 120.0, has_oracles=True)


@dataclass
class Recording:
    """Lines that run when the modules are imported, and for each passing test its CPU time and the lines it runs.

    `stale` are the modules that have changed since a recording of some tests: their lines in it do not count."""

    imported: Lines = field(default_factory=dict)
    tests: Tests = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)

    def is_at_import(self, module: str, first: int, last: int) -> bool:
        """Whether one of these lines runs when the modules are imported."""
        bits = self.imported.get(module, 0) >> first
        return bool(bits & ((1 << (last - first + 1)) - 1))


def load(folder: Path, project: Project) -> Recording:
    """What is stored in a folder."""
    found = Recording()
    digests = {module.name: module.digest for module in project.modules}
    for path in sorted(folder.glob("*.lines")):
        before, tests = pickle.loads(path.read_bytes())
        changed = {name for name, digest in digests.items() if before.get(name) != digest}
        for name, (seconds, lines) in tests.items():
            found.stale |= changed & lines.keys()
            found.tests[name] = seconds, {module: bits for module, bits in lines.items() if module not in changed}
    _, found.imported = found.tests.pop("", (0.0, {}))
    return found


class Measured:
    """Lines of the modules that run in this process, taken out piece by piece.

    This is coverage.py's tracer alone: with all the rest of it, one start, stop and report takes 20 ms, and there are
    14,000 tests."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._names = {os.path.realpath(one.file): one.name for one in modules}
        self._tracer = CTracer()
        self._tracer.should_trace = self._disposition
        self._tracer.should_trace_cache = {}
        self._tracer.trace_arcs = False
        self._tracer.warn = warnings.warn
        self._tracer.lock_data = self._tracer.unlock_data = lambda: None
        for unused in ("check_include", "concur_id_func", "disable_plugin", "should_start_context", "switch_context"):
            setattr(self._tracer, unused, None)

    def _disposition(self, path: str, frame: FrameType) -> CFileDisposition:
        found = CFileDisposition()
        found.original_filename = found.canonical_filename = path
        found.source_filename = self._names.get(os.path.realpath(path))
        found.trace = found.source_filename is not None
        found.reason, found.file_tracer, found.has_dynamic_filename = "", None, False
        return found

    def start(self) -> None:
        """Measure from here on."""
        self._tracer.data = {}
        self._tracer.start()

    def take(self) -> Lines:
        """Stop, and return the lines that ran since the start."""
        self._tracer.stop()
        return {str(name): bits_of(lines) for name, lines in self._tracer.data.items() if lines}


def bits_of(lines: Collection[Any]) -> int:
    """Line numbers as bits."""
    found = bytearray(max(lines, default=0) // 8 + 1)
    for line in lines:
        found[line >> 3] |= 1 << (line & 7)
    return int.from_bytes(found, "little")


def import_all(modules: Sequence[Module]) -> None:
    """Import every module that can be imported here."""
    for module in modules:
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # an optional dependency
                importlib.import_module(module.name)


def record(
    project: Project,
    folder: Path,
    files: Sequence[str | Path],
    jobs: int,
    log: Callable[[str], object],
    limits: Limits = QUICK,
) -> None:
    """Run the tests in these files (default: all), and store what they run."""
    folder.mkdir(exist_ok=True)
    measured = Measured(project.modules)
    measured.start()
    import_all(project.modules)
    digests = {module.name: module.digest for module in project.modules}
    _store(folder / "imported.lines", digests, {"": (0.0, measured.take())})
    with_tests(
        project.root,
        files or [project.tests],
        lambda items: _record_files(_groups(items, limits), measured, digests, folder, jobs, log, limits),
    )


def _store(path: Path, digests: dict[str, str], tests: Tests) -> None:
    """Write a file, whole or not at all."""
    temporary = path.with_suffix(".new")
    temporary.write_bytes(pickle.dumps((digests, tests)))
    temporary.replace(path)


def _groups(items: list[pytest.Item], limits: Limits) -> list[list[pytest.Item]]:
    """The tests of each file that are recorded."""
    kept = (item for item in items if limits.has_oracles or item.get_closest_marker("oracle") is None)
    return [_one_of_each_first(list(some)) for _, some in itertools.groupby(kept, lambda item: item.path)]


def _record_files(
    groups: list[list[pytest.Item]],
    measured: Measured,
    digests: dict[str, str],
    folder: Path,
    jobs: int,
    log: Callable[[str], object],
    limits: Limits,
) -> None:
    def do(group: list[pytest.Item], temporary: Path) -> Answer:
        use_folder(group[0], temporary / "tests")
        of_commands = temporary / "commands"
        run_commands_here(lambda: _measured_command(measured, of_commands))
        tests: Tests = {}
        counts: Counter[str] = Counter()
        for name, seconds, what, lines in _record_file(group, measured, of_commands, limits):
            counts[what] += 1
            if what == "passed":
                tests[name] = seconds, lines
        _store(folder / f"{_name_of(group[0])}.lines", digests, tests)
        return dict(counts)

    for number, (group, answer) in enumerate(answers(groups, do, jobs), 1):
        log(f"{number}/{len(groups)} {group[0].path.name}: {answer}")


def _name_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0].removesuffix(".py").replace("/", ".")


def _one_of_each_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """The first parameters of each test function, then the second, and so on: the last ones may be left out."""
    count: Counter[str] = Counter()
    turns = {}
    for item in items:
        function = item.nodeid.partition("[")[0]
        turns[item] = count[function]
        count[function] += 1
    return sorted(items, key=turns.__getitem__)


def _measured_command(measured: Measured, path: Path) -> Callable[[], None]:
    """In the child that is the command; what is measured goes on there."""

    def end() -> None:
        with path.open("ab") as file:
            pickle.dump(measured.take(), file)

    return end


def _record_file(
    items: list[pytest.Item], measured: Measured, of_commands: Path, limits: Limits
) -> Iterator[tuple[str, float, str, Lines]]:
    slow: set[str] = set()
    spent = 0.0
    for item, following in itertools.zip_longest(items, items[1:]):
        function = item.nodeid.partition("[")[0]
        if function in slow or spent > limits.file:
            yield item.nodeid, 0.0, "left out", {}
            continue
        of_commands.unlink(missing_ok=True)
        start = cpu_seconds()
        with limited(limits.cpu, limits.wall) as clock:
            measured.start()
            what = outcome(item, following)
        lines = measured.take()
        if clock.ran_out:
            what = "slow"
            slow.add(function)
        seconds = cpu_seconds() - start
        spent += seconds
        for more in _stored(of_commands):
            lines = {name: lines.get(name, 0) | more.get(name, 0) for name in lines | more}
        yield item.nodeid, seconds, what, lines


def _stored(path: Path) -> Iterator[Lines]:
    if path.exists():
        with path.open("rb") as file, suppress(EOFError):
            while True:
                yield pickle.load(file)
