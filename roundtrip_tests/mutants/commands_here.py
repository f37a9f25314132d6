"""Run the command by a fork of the process of the tests, so that it runs on the module that was changed there.

Strategy: `support/loaded_command.py` forks from a process that loaded the code from files. Here the process of the
tests itself has loaded everything, so a fork of it can act as `python -m unwindkit`.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

from ..support import loaded_command as loaded

# CPU time of one command; the longest in a test that is recorded takes a tenth of it.
SECONDS = 20


def run_commands_here(in_child: Callable[[], Callable[[], None]]) -> None:
    """From now on, `LoadedCommand` forks this process.

    The child calls `in_child` when it begins, and what that returned when it ends."""

    def run(self: Any, arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                _act_as_command(arguments, environment, (out.fileno(), err.fileno()), in_child())
            _, status = os.waitpid(child, 0)
            out.seek(0)
            err.seek(0)
            said = [file.read().decode(errors="surrogateescape") for file in (out, err)]
        return subprocess.CompletedProcess(arguments, os.waitstatus_to_exitcode(status), *said)

    loaded.LoadedCommand.__init__ = lambda self: None  # type: ignore[method-assign]
    loaded.LoadedCommand.run = run  # type: ignore[method-assign]


def _act_as_command(
    arguments: list[str], environment: dict[str, str], outputs: tuple[int, int], at_end: Callable[[], None]
) -> None:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    exit_now = os._exit

    def end(status: int) -> None:
        at_end()
        exit_now(status)

    try:
        os.environ.clear()
        os.environ.update(environment)
        for number, descriptor in enumerate(outputs, 1):
            os.dup2(descriptor, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin, sys.stdout, sys.stderr = (_standard(number) for number in range(3))
        warnings.resetwarnings()
        warnings.simplefilter("error")
        _choose_engine_again()
        os._exit = end  # type: ignore[assignment]
        loaded.run_and_end(arguments)
    except BaseException as fault:  # noqa: BLE001 - a child of the tests must not go on with the tests
        os.write(2, f"{type(fault).__name__}: {fault}\n".encode())
    exit_now(1)


def _standard(number: int) -> io.TextIOWrapper:
    """The standard stream of a process that has just started."""
    errors = "backslashreplace" if number == 2 else "surrogateescape" if os.environ.get("LC_ALL") == "C" else "strict"
    buffer = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115 - as long as the process
    return io.TextIOWrapper(buffer, encoding="utf-8", errors=errors, line_buffering=number == 2)


def _choose_engine_again() -> None:
    """A test may have chosen an engine for its own process; the command chooses by its environment."""
    from unwindkit.converters.kernels import engine

    is_pure = os.environ.get("UNWINDKIT_PURE") == "1" or bool(engine._not_built())
    chosen = engine.load("pure" if is_pure else "compiled")
    engine.chosen = lambda: chosen  # type: ignore[assignment]
