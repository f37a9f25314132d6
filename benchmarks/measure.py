"""Whole processes: their time and peak memory, several programs in turn.

Strategy: the launcher, a separate process for each run, reports what one program used. Programs alternate
(A B A B ...), so that a machine that slows down slows all of them; the result is the median; a first run of each
warms the page cache and does not count.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# Other suites' programs and files, as roundtrip_tests/support/oracles.py finds them.
ORACLES = Path(os.environ.get("UNWINDKIT_ORACLES") or ROOT / ".oracles")
LAUNCHER = Path(__file__).with_name("launcher.py")
CPU_LIMIT = 120  # seconds: a peer that needs more for a file is not worth n runs


@dataclass(frozen=True, slots=True)
class Program:
    """A command that reads one file; `environment` is added to this process's."""

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
    """What one process used: seconds, and bytes of peak resident memory; a peak below `floor` cannot be measured."""

    wall: float
    user: float
    system: float
    peak: int
    floor: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians of `runs` runs, each column separately; `fastest` and `slowest` are of `wall`.

    A `peak` of at most `floor` is only an upper bound.
    """

    program: str
    runs: int
    wall: float
    fastest: float
    slowest: float
    user: float
    system: float
    peak: int
    floor: int


class RunError(Exception):
    """A measured program failed or took too long."""


def environment_of(program: Program) -> dict[str, str]:
    """Its environment: messages untranslated, so that no program pays for a catalogue."""
    return os.environ | {"LC_ALL": "C"} | dict(program.environment)


def run_once(program: Program, limit: int = CPU_LIMIT) -> Usage:
    """Run it to its end. Raises RunError if it fails or needs more than `limit` seconds of processor time."""
    launch = (sys.executable, "-I", "-S", str(LAUNCHER), str(limit), *program.command)
    done = subprocess.run(launch, capture_output=True, cwd=ROOT, env=environment_of(program), check=False)
    said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:200]
    if done.returncode:
        raise RunError(f"does not start: {said}")
    figures = json.loads(done.stdout)
    exit_code = figures.pop("exit_code")
    if exit_code == -signal.SIGXCPU:
        raise RunError(f"needs more than {limit} s")
    if exit_code:
        raise RunError(f"ended with {exit_code}: {said}")
    return Usage(**figures)


def alternate(
    programs: Sequence[Program], runs: int, run: Callable[[Program], Usage] = run_once
) -> tuple[list[Measured], list[Skipped]]:
    """Run all of them in turn, `runs` times each; one whose warm-up run fails is skipped. `run` raises RunError."""
    ready, skipped = [], []
    for program in programs:
        try:
            run(program)
        except (RunError, OSError) as error:
            skipped.append(Skipped(program.name, str(error)))
        else:
            ready.append(program)
    usages: list[list[Usage]] = [[] for _ in ready]
    for _ in range(runs):
        for program, found in zip(ready, usages, strict=True):
            found.append(run(program))
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
        floor=max(usage.floor for usage in usages),
    )


def version_line(*command: str) -> str:
    """The first line with a version number that a command prints, on either stream (LLVM's own has it second)."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, cwd=ROOT)
    lines = done.stdout.decode(errors="replace").splitlines()
    return next((line.strip() for line in lines if re.search(r"\d\.\d", line)), "version unknown")
