"""Run mutants against the tests that cover them, each in a forked process.

Strategy: one process has imported everything and collected all tests; a fork of it changes the code of some functions
and runs tests within milliseconds. What runs when modules are imported is changed in a fork of the process before the
first import, which then imports, collects and runs. A test that kills its first mutant is also run without one: if it
fails there, too, it is not counted, and the mutant is run again.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .choice import Choice
from .commands_here import run_commands_here
from .places import Mutant
from .process import Answer, answers
from .project import Project
from .recording import import_all
from .session import limited, outcome, use_folder, with_tests
from .swap import change_at_import, change_functions, functions_of, prepare

# Third-party modules, imported once.
PRELOADED = ("capstone", "construct", "elftools.elf.elffile", "hypothesis", "lief", "numpy", "_pytest.runner")
# Of a test: this many times what it takes without a mutant, and seconds.
CPU_FACTOR, CPU_MORE, WALL_LIMIT = 5.0, 2.0, 90.0
# Rounds of running again what a distrusted test had killed.
ROUNDS = 3
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Result:
    """What became of a mutant: "killed" by a test, "timed out", "crashed", "survived" or "uncovered"; or "broken"."""

    key: str
    status: str
    by: str = ""
    tests: int = 0
    cpu: float = 0.0

    @property
    def is_killed(self) -> bool:
        return self.status in {"killed", "timed out", "crashed"}


@dataclass(frozen=True)
class Task:
    """A mutant and its tests; without a mutant, a test is tried."""

    number: int
    tests: tuple[str, ...]


def run(
    project: Project, choice: Choice, mutants: Sequence[Mutant], jobs: int, found: Callable[[Mutant, Result], object]
) -> None:
    """Run mutants, and call `found` with each result."""
    for name in PRELOADED:
        importlib.import_module(name)
    left = []
    for mutant in mutants:
        if choice.tests(mutant):
            left.append(mutant)
        else:
            found(mutant, Result(mutant.key, "uncovered"))
    quick = [one for one in left if not choice.is_at_import(one)]
    not_swapped: list[Mutant] = []

    def take(mutant: Mutant, result: Result) -> None:
        if result.status == "not swapped":
            not_swapped.append(mutant)
        else:
            found(mutant, result)

    _Runs(project, choice, jobs, take).all(quick, _in_one_process)
    at_import = [one for one in left if choice.is_at_import(one)] + not_swapped
    _Runs(project, choice, jobs, found).all(at_import, _one_by_one)


Way = Callable[["_Runs", Sequence[Mutant], list[Task]], Iterator[tuple[Task, Answer]]]


class _Runs:
    """Runs of mutants in one of two ways, until each is killed by a test that can be trusted, or survives."""

    def __init__(self, project: Project, choice: Choice, jobs: int, found: Callable[[Mutant, Result], object]) -> None:
        self.project, self.choice, self.jobs, self.found = project, choice, jobs, found

    def all(self, mutants: Sequence[Mutant], way: Way) -> None:
        waiting = list(range(len(mutants)))
        for is_last in [False] * (ROUNDS - 1) + [True]:
            if not waiting:
                return
            tasks = [Task(number, tuple(self.choice.tests(mutants[number]))) for number in waiting]
            waiting = []
            for task, answer in way(self, mutants, tasks):
                result = _result(mutants[task.number], task, answer)
                if result.by in self.choice.distrusted and not is_last:
                    waiting.append(task.number)
                else:
                    self.found(mutants[task.number], result)

    def note(self, answer: Answer, test: str) -> None:
        """What a test did without a mutant."""
        (self.choice.trusted if answer.get("status") == "survived" else self.choice.distrusted).add(test)


def _result(mutant: Mutant, task: Task, answer: Answer) -> Result:
    status = answer.get("status") or ("broken" if "broken" in answer else "")
    by = str(answer.get("test") or answer.get("broken") or "")
    if not status:
        status = "timed out" if answer["died"] == "timed out" else "crashed"
        by = answer["died"]
    return Result(mutant.key, status, by, int(answer.get("tests", 0)), round(float(answer.get("cpu", 0.0)), 2))


def _in_one_process(runs: _Runs, mutants: Sequence[Mutant], tasks: list[Task]) -> Iterator[tuple[Task, Answer]]:
    """Everything is imported and collected in one process, whose forks run the tasks."""
    here, there = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_serve, args=(runs, mutants, tasks, there))
    process.start()
    there.close()
    try:
        while True:
            kind, *said = here.recv()
            if kind == "control":
                runs.note(said[1], said[0])
            else:
                yield said[0], said[1]
    except EOFError:
        process.join()


def _serve(runs: _Runs, mutants: Sequence[Mutant], tasks: list[Task], pipe: Any) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    run_commands_here(lambda: lambda: None)
    import_all(runs.project.modules)
    with_tests(runs.project.root, [runs.project.tests], lambda items: _serve_items(runs, mutants, tasks, pipe, items))


def _serve_items(
    runs: _Runs, mutants: Sequence[Mutant], tasks: list[Task], pipe: Any, items: list[pytest.Item]
) -> None:
    by_name = {item.nodeid: item for item in items}
    functions = functions_of(runs.project.modules)
    costs = runs.choice.recording.tests

    def do(task: Task, folder: Path) -> Answer:
        if task.number >= 0:
            mutant = mutants[task.number]
            if not change_functions(mutant, functions.get(mutant.module.name, [])):
                return {"status": "not swapped"}
        return run_items([by_name[name] for name in task.tests if name in by_name], costs, folder)

    def prepared() -> Iterator[Task]:
        for task in tasks:
            prepare(mutants[task.number].module)  # here, once for all mutants of the module
            yield task

    for task, answer in answers(prepared(), do, runs.jobs):
        test = answer.get("test")
        if test and test not in runs.choice.trusted | runs.choice.distrusted:
            ((_, control),) = answers([Task(-1, (test,))], do, 1)
            runs.note(control, test)
            pipe.send(("control", test, control))
        pipe.send(("result", task, answer))
    pipe.close()


def _one_by_one(runs: _Runs, mutants: Sequence[Mutant], tasks: list[Task]) -> Iterator[tuple[Task, Answer]]:
    """Each task in a process that imports and collects for itself."""
    costs = runs.choice.recording.tests

    def do(task: Task, folder: Path) -> Answer:
        if task.number >= 0:
            change_at_import(mutants[task.number])
        run_commands_here(lambda: lambda: None)
        return run_files(runs.project.root, task.tests, costs, folder)

    for task, answer in answers(tasks, do, runs.jobs):
        test = answer.get("test")
        if test and test not in runs.choice.trusted | runs.choice.distrusted:
            ((_, control),) = answers([Task(-1, (test,))], do, 1)
            runs.note(control, test)
        yield task, answer


def run_files(root: Path, tests: Sequence[str], costs: Any, folder: Path) -> Answer:
    """Collect the files of some tests, and run these. An error while collecting kills, too."""
    found: Answer = {}

    def do(items: list[pytest.Item]) -> None:
        by_name = {item.nodeid: item for item in items}
        found.update(run_items([by_name[name] for name in tests if name in by_name], costs, folder))

    with limited(60, 300) as clock:
        with_tests(root, list(dict.fromkeys(name.partition("::")[0] for name in tests)), do)
    if clock.ran_out:
        return {"died": "timed out"}
    return found or {"died": "not collected"}


def run_items(items: Sequence[pytest.Item], costs: Any, folder: Path) -> Answer:
    """Run tests until one fails."""
    if not items:
        return {"broken": "no test"}
    use_folder(items[0], folder / "tests")
    for index, item in enumerate(items):
        following = items[index + 1] if index + 1 < len(items) else None
        with limited(CPU_FACTOR * costs[item.nodeid][0] + CPU_MORE, WALL_LIMIT) as clock:
            what = outcome(item, following)
        if clock.ran_out or what == "failed":
            status = "timed out" if clock.ran_out else "killed"
            return {"status": status, "test": item.nodeid, "tests": index + 1}
    return {"status": "survived", "tests": len(items)}
