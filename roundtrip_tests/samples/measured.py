"""One command on one file in a process of its own, and what it took.

Strategy: a process that has imported the product forks one for each file, which runs its commands one after the other;
most need less time than a process takes to start. Memory is all that this process has, the interpreter and the modules
too, and that of the commands before. `confirm` runs a command as a user does, and has the last word.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from resource import struct_rusage

from unwindkit.cli import main
from unwindkit.cli.commands import COMMANDS

from .commands import FILE, OUT, START_SIZE, commands_for

SECONDS = 2.0
MEMORY, MEMORY_PER_BYTE = 150 << 20, 10
# What ends a command that goes far beyond: CPU seconds, and bytes of address space.
END_SECONDS, END_MEMORY = 20, 4 << 30
# 1: `check` has found differences; so have `--strict` and a gate, which no command here is given.
CODES = {0, 2}
DIFFERENT = ("check",)
CRASH = 70
ERRORS = "errors"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one command: `status` as by the shell, CPU seconds, peak bytes, and the last line of standard error."""

    command: tuple[str, ...]
    status: int
    seconds: float
    memory: int
    error: str

    def fault(self, size: int) -> str:
        """Which promise is broken for a file of `size` bytes; "" for none."""
        allowed = CODES | {1} if self.command[0] in DIFFERENT else CODES
        if self.status not in allowed or "Traceback" in self.error:
            return f"exit status {self.status}: {self.error.strip().splitlines()[-1:]}"
        if self.seconds > SECONDS:
            return f"{self.seconds:.1f} s"
        if self.memory > MEMORY + MEMORY_PER_BYTE * size:
            return f"{self.memory >> 20} MiB, {(self.memory - MEMORY) / size:.0f} times the size beside 150 MiB"
        return ""


def prepare(path: Path) -> None:
    """Let commands that succeed on the ELF file `path` import what they need, except lief and pyarrow."""
    for name in COMMANDS:
        import_module(f"unwindkit.cli.{name}")
    scratch = Path(tempfile.mkdtemp())
    with path.open("rb") as file:
        commands = list(commands_for("elf", file.read(START_SIZE)))
    saved = [os.dup(number) for number in (1, 2)]
    for command in commands:
        if "lief" not in command and "export" not in command:
            _run(_filled(command, path, scratch), os.devnull)
            _empty(scratch)
    for number, old in zip((1, 2), saved, strict=True):
        os.dup2(old, number)
    scratch.rmdir()
    gc.collect()
    gc.freeze()


def measure(commands: Sequence[tuple[str, ...]], path: Path, scratch: Path) -> list[Outcome]:
    """Run commands on a file, one after the other in one fork of this process; those that it did not come to, because
    one ended it, each in a fork of its own. `scratch` is an empty folder, and afterwards, too."""
    results = scratch.with_name(f"{scratch.name}.results")
    found = []
    status, _ = _fork(commands, path, scratch, results)
    lines = results.read_text().splitlines() if results.exists() else []
    for command, line in zip(commands, lines, strict=False):
        code, seconds, memory, error = json.loads(line)
        found.append(Outcome(command, code, seconds, memory << 10, error))
    if status:
        command = commands[len(found)]
        status, usage = _fork([command], path, scratch, results)
        text = (scratch / ERRORS).read_text(errors="replace") if (scratch / ERRORS).exists() else ""
        found.append(Outcome(command, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10, text))
        _empty(scratch)
        if len(found) < len(commands):
            found += measure(commands[len(found) :], path, scratch)
    results.unlink(missing_ok=True)
    return found


def _fork(commands: Sequence[tuple[str, ...]], path: Path, scratch: Path, results: Path) -> tuple[int, struct_rusage]:
    results.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        _child(commands, path, scratch, results)
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage


def _child(commands: Sequence[tuple[str, ...]], path: Path, scratch: Path, results: Path) -> None:
    status = CRASH
    try:
        resource.setrlimit(resource.RLIMIT_AS, (END_MEMORY, END_MEMORY))
        with results.open("w") as file:
            for command in commands:
                before = _usage()
                end = int(before[0]) + END_SECONDS
                resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
                code = _run(_filled(command, path, scratch), scratch / ERRORS)
                seconds, memory = _usage()
                error = (scratch / ERRORS).read_text(errors="replace")
                file.write(json.dumps([code, seconds - before[0], memory, error[-2000:]]) + "\n")
                file.flush()
                _empty(scratch)
        status = 0
    except BaseException:  # noqa: BLE001 - any exception is a fault of the command, and this process ends
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _usage() -> tuple[float, int]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = usage.ru_utime + usage.ru_stime + children.ru_utime + children.ru_stime
    return seconds, max(usage.ru_maxrss, children.ru_maxrss)


def _run(arguments: list[str], errors: str | Path) -> int:
    """The command, with its output discarded; the exit status."""
    for number, name in ((1, os.devnull), (2, errors)):
        opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else CRASH
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def confirm(command: tuple[str, ...], path: Path, scratch: Path) -> Outcome:
    """The same in a new process, the quicker of two runs."""
    outcomes = []
    for _ in range(2):
        with (scratch / ERRORS).open("wb") as errors:
            arguments = [sys.executable, "-m", "unwindkit", *_filled(command, path, scratch)]
            process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        text = (scratch / ERRORS).read_text(errors="replace")
        seconds = usage.ru_utime + usage.ru_stime
        outcomes.append(Outcome(command, process.returncode, seconds, usage.ru_maxrss << 10, text))
        _empty(scratch)
    return min(outcomes, key=lambda one: one.seconds)


def _empty(scratch: Path) -> None:
    for left in scratch.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()


def _filled(command: tuple[str, ...], path: Path, scratch: Path) -> list[str]:
    values = {FILE: str(path), OUT: str(scratch / "out")}
    return [values.get(word, word) for word in command]
