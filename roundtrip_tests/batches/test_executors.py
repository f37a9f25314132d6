"""Batches by executors: whichever it is, results and their order are those of this process alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import unwindkit
from unwindkit import DebugFiles, Failure
from unwindkit.batches import mapped
from unwindkit.batches.source_files import SourceFile
from unwindkit.batches.workers import WorkerProcesses

from ..support.packages import wheel
from ..support.tiny_elf import CFI, CODE, Content, tiny_elf

ALONE = DebugFiles(links=False)


@pytest.fixture(scope="module", name="tree")
def _tree(built_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree")
    for name in ("a", "b", "c"):
        shutil.copy(built_program, tree / name)
    (tree / "broken").write_bytes(tiny_elf(CODE, Content(".eh_frame", CFI.data[:-1])))
    wheel(tree, tree / "x.whl")
    return tree


class Backwards(Executor):
    """Does the jobs when the result of the last is asked for, in the wrong order."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future = _Late(self)
        self.waiting.append((future, partial(function, *arguments, **named)))
        return future

    def work(self) -> None:
        while self.waiting:
            future, call = self.waiting.pop()
            future.set_result(call())


class _Late(Future[Any]):
    def __init__(self, executor: Backwards) -> None:
        super().__init__()
        self.executor = executor

    def result(self, timeout: float | None = None) -> Any:
        self.executor.work()
        return super().result(timeout)


EXECUTORS: dict[str, Callable[[], Executor]] = {
    "threads": lambda: ThreadPoolExecutor(3),
    "processes": lambda: ProcessPoolExecutor(2, get_context("spawn")),
    "own": lambda: WorkerProcesses(2),
    "backwards": Backwards,
}


def outcomes(found: Iterator[Any], folder: Path) -> list[Any]:
    """Reports with the folder of the results left out."""
    return [replace(one, output=one.output.replace(str(folder), "")) for one in found]


@pytest.mark.parametrize("name", EXECUTORS)
def test_an_executor_gives_what_this_process_gives(name: str, tree: Path, tmp_path: Path) -> None:
    wanted = outcomes(unwindkit.write_sframe_tree([tree], tmp_path / "here", debug=ALONE), tmp_path / "here")
    with EXECUTORS[name]() as executor:
        there = tmp_path / "there"
        assert outcomes(unwindkit.write_sframe_tree([tree], there, executor, debug=ALONE), there) == wanted
        store = list(unwindkit.write_symbol_store([tree], tmp_path / "store", executor, debug=ALONE))
    assert [isinstance(one, Failure) for one in wanted] == [False, False, True, False] * 2
    assert [isinstance(one, Failure) for one in store] == [False, False, True, False] * 2
    files = sorted(path.relative_to(tmp_path / "here") for path in (tmp_path / "here").rglob("*") if path.is_file())
    assert [str(one) for one in files] == ["a", "b", "c", "x.whl/a", "x.whl/b", "x.whl/c"]
    assert all((tmp_path / "here" / one).read_bytes() == (there / one).read_bytes() for one in files)


def test_few_files_wait_in_memory(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "WAITING_BYTES", 2 * (tree / "a").stat().st_size)
    monkeypatch.setattr(mapped, "WAITING", 3)
    executor = Backwards()
    most = 0
    submit = executor.submit

    def counted(*arguments: Any, **named: Any) -> Future[Any]:
        nonlocal most
        found = submit(*arguments, **named)
        most = max(most, len(executor.waiting))
        return found

    monkeypatch.setattr(executor, "submit", counted)
    found = list(unwindkit.write_sframe_tree([tree], tmp_path / "out", executor, debug=ALONE))
    assert (len(found), most) == (8, 4)


def fails(source: object, out: Path) -> None:
    raise KeyError("x")


@pytest.mark.parametrize("executor", [None, Backwards()], ids=["here", "executor"])
def test_a_fault_of_ours_is_a_failure_with_its_name(executor: Executor | None, tmp_path: Path) -> None:
    """It does not end a batch; where one path was given, it is raised."""
    pairs = [(SourceFile(f"p.deb!/{name}", name, b""), tmp_path / name) for name in ("a", "b")]
    found = list(mapped.map_job(fails, pairs, executor, {}))
    text = "internal error, please report: KeyError: 'x'"
    assert found == [
        Failure(f"p.deb!/{name}", str(tmp_path / name), text, "internal error: KeyError") for name in ("a", "b")
    ]
    with pytest.raises(KeyError):
        list(mapped.map_job(fails, [(tmp_path / "a", tmp_path / "b")], executor, {}))


def test_the_manifest_is_that_of_the_command(tree: Path, tmp_path: Path) -> None:
    first = list(unwindkit.write_symbol_store([tree], tmp_path / "store", None, tmp_path / "manifest", debug=ALONE))
    executor = Backwards()
    again = list(unwindkit.write_symbol_store([tree], tmp_path / "store", executor, tmp_path / "manifest", debug=ALONE))
    assert again == first


def test_a_pool_that_was_lost_is_replaced(tree: Path) -> None:
    import os

    with WorkerProcesses(1) as executor:
        with pytest.raises(Exception, match="terminated"):
            executor.submit(os._exit, 1).result()
        assert executor.submit(len, "abc").result() == 3
