"""A seeded sample of the faults of `python -m roundtrip_tests.faults`, and signals that end a command."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from unwindkit.cli.signals import ENDING

from .cases import CASES, Case, program
from .inject import faults_of, prepare, wrongs

SAMPLE = 2


@pytest.mark.oracle("strace", "pyarrow")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_nothing_is_lost(case: Case, tmp_path: Path) -> None:
    found = prepare(case, tmp_path / "base")
    for number, fault in enumerate(random.Random(f"0 {case.name}").sample(faults_of(found), SAMPLE)):
        place = tmp_path / str(number)
        place.mkdir()
        assert wrongs(found, fault, place) == [], fault


def take_signals() -> None:
    """In the background, and below nohup, some are ignored."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_leaves_one_line_and_no_file(number: signal.Signals, tmp_path: Path) -> None:
    """The process ends by the signal, as one that does not catch it."""
    program(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # The command waits for its input.
    command = [sys.executable, "-m", "unwindkit", "sframe", "pipe", "-o", "old"]
    options: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True, "preexec_fn": take_signals}
    with subprocess.Popen(command, cwd=tmp_path, **options) as process, pipe.open("wb"):
        time.sleep(0.3)
        process.send_signal(number)
        text = process.communicate(timeout=60)[1]
    assert process.returncode == -number
    assert text == f"unwindkit: ended by {number.name}\n"
    pipe.unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_ignored_signals_stay_ignored(tmp_path: Path) -> None:
    """As by nohup."""
    code = (
        "import signal; from unwindkit.cli.signals import signals_as_exceptions as s\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with s():\n    signal.raise_signal(signal.SIGHUP)\n    print(signal.getsignal(signal.SIGTERM).__name__)\n"
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "end\nTrue\n"
