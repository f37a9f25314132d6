"""Whole processes: their time and peak memory, several programs in turn.

Strategy: wait4 tells what one process used. Programs alternate (A B A B ...), so that a machine that slows
down slows all of them; medians are taken; a first run of each warms the page cache and does not count.
This module imports little: a child's peak memory is never below its parent's at the fork.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

ROOT = Path(__file__).resolve().parents[1]
TIME_LIMIT = 120.0  # seconds: a peer that needs more for a file is not worth n runs
KIB = 1024


@dataclass(frozen=True, slots=True)
class Program:
    """A command that reads one file; `environment` goes on top of this process's."""

    name: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    version: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was not measured, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What one process used: seconds, and bytes of peak resident memory."""

    wall: float
    user: float
    system: float
    peak: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians of `runs` runs, each column by itself; `fastest` and `slowest` are of `wall`."""

    program: str
    runs: int
    wall: float
    fastest: float
    slowest: float
    user: float
    system: float
    peak: int


class RunError(Exception):
    """A measured program failed or took too long."""


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones (the statistics module costs 3 MB: see above)."""
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return (low + high) / 2


def memory_floor() -> int:
    """Peak memory of this process so far, in bytes: a child's is shown no lower (Linux keeps it across exec)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


def environment_of(program: Program) -> dict[str, str]:
    """Its environment: messages untranslated, so that no program pays for a catalogue."""
    return os.environ | {"LC_ALL": "C"} | dict(program.environment)


def run_once(program: Program, limit: float = TIME_LIMIT) -> Usage:
    """Run it to its end, its output thrown away. Raises RunError where it fails or takes more than `limit` seconds."""
    with TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            program.command, stdout=subprocess.DEVNULL, stderr=errors, cwd=ROOT, env=environment_of(program)
        )
        stop = threading.Timer(limit, process.kill)
        stop.start()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        stop.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)  # Popen is not to wait for it again
        if wall >= limit:
            raise RunError(f"took more than {limit:.0f} s")
        if process.returncode:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise RunError(f"ended with {process.returncode}: {last[:200]}")
    return Usage(wall, used.ru_utime, used.ru_stime, used.ru_maxrss * KIB)


def alternate(programs: Sequence[Program], runs: int) -> tuple[list[Measured], list[Skipped]]:
    """Run all of them in turn, `runs` times each; one that fails when warmed up is skipped."""
    ready, skipped = [], []
    for program in programs:
        try:
            run_once(program)
        except (RunError, OSError) as error:
            skipped.append(Skipped(program.name, str(error)))
        else:
            ready.append(program)
    usages: list[list[Usage]] = [[] for _ in ready]
    for _ in range(runs):
        for program, found in zip(ready, usages, strict=True):
            found.append(run_once(program))
    return [_medians(program.name, found) for program, found in zip(ready, usages, strict=True)], skipped


def _medians(name: str, usages: Sequence[Usage]) -> Measured:
    wall = [usage.wall for usage in usages]
    return Measured(
        program=name,
        runs=len(usages),
        wall=median(wall),
        fastest=min(wall),
        slowest=max(wall),
        user=median([usage.user for usage in usages]),
        system=median([usage.system for usage in usages]),
        peak=int(median([usage.peak for usage in usages])),
    )


def version_line(*command: str) -> str:
    """The first line with a version number that a command prints, on either stream (LLVM's own has it second)."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, cwd=ROOT)
    lines = done.stdout.decode(errors="replace").splitlines()
    return next((line.strip() for line in lines if re.search(r"\d\.\d", line)), "version unknown")
