"""Processes that are forked for one task each, some at a time, with limits of time and memory.

Strategy: the child's answer comes through a pipe. A child has its own session, so that what it started ends with it.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# CPU seconds and seconds of a child; bytes of its address space in addition to its parent's.
CPU_SECONDS, WALL_SECONDS = 150, 400.0
ADDRESS_SPACE = 4 << 30
# What a child answers, or {"died": how}.
Answer = dict[str, Any]


@dataclass(slots=True)
class _Child:
    number: int
    pid: int
    pipe: int
    folder: Path
    end: float
    heard: bytes = b""
    cpu: float = field(default=0.0)


def answers(tasks: Iterable[Any], do: Callable[[Any, Path], Answer], jobs: int) -> Iterator[tuple[Any, Answer]]:
    """Do each task in a child, `jobs` at a time; yields its answer when it is there. `do` also gets a folder."""
    running: dict[int, tuple[_Child, Any]] = {}
    waiting = iter(tasks)
    is_left = True
    while running or is_left:
        while is_left and len(running) < jobs:
            try:
                task = next(waiting)
            except StopIteration:
                is_left = False
                break
            child = _start(task, do)
            running[child.pipe] = child, task
        ready, _, _ = select.select(list(running), [], [], 1.0)
        for pipe, (child, task) in list(running.items()):
            answer = _attend(child, pipe in ready)
            if answer is not None:
                del running[pipe]
                yield task, answer


def _start(task: Any, do: Callable[[Any, Path], Answer]) -> _Child:
    here, there = os.pipe()
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    gc.freeze()  # so that the child copies less
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.close(here)
            _limit()
            answer = do(task, folder)
            with open(there, "wb") as file:
                file.write(json.dumps(answer).encode())
            os._exit(0)
        except BaseException as fault:  # noqa: BLE001 - the parent's code must not go on here
            os.write(there, json.dumps({"broken": f"{type(fault).__name__}: {fault}"}).encode())
        finally:
            os._exit(1)
    os.close(there)
    return _Child(0, pid, here, folder, time.monotonic() + WALL_SECONDS)


def _limit() -> None:
    """Limits, and silence."""
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, used + ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)


def _attend(child: _Child, is_ready: bool) -> Answer | None:
    """Take what a child says; its answer if it has ended."""
    if is_ready:
        piece = os.read(child.pipe, 1 << 16)
        child.heard += piece
        if piece:
            return None
    elif time.monotonic() < child.end:
        return None
    # What it started may hold files in its folder.
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child.pid, signal.SIGKILL)
    _, status, usage = os.wait4(child.pid, 0)
    os.close(child.pipe)
    shutil.rmtree(child.folder, ignore_errors=True)
    answer: Answer = json.loads(child.heard) if child.heard else {"died": _death(status, is_ready)}
    return answer | {"cpu": usage.ru_utime + usage.ru_stime}


def _death(status: int, has_ended: bool) -> str:
    code = os.waitstatus_to_exitcode(status)
    if not has_ended or code in {-signal.SIGXCPU, -signal.SIGPROF, -signal.SIGALRM}:
        return "timed out"
    return "killed" if code == -signal.SIGKILL else f"crashed: {code}"
