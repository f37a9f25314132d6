"""Every command on one sample, judged."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from .collect import Sample
from .commands import START_SIZE, commands_for
from .measured import Outcome, confirm, measure


def judged(pattern: str, sample: Sample) -> list[tuple[Outcome, str]]:
    """What each command did, and which promise it broke. A fault has to show in a new process, too."""
    with sample.path.open("rb") as file:
        start = file.read(START_SIZE)
    scratch = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    commands = [one for one in commands_for(sample.kind, start) if pattern in " ".join(one)]
    found = []
    for outcome in measure(commands, sample.path, scratch):
        last = confirm(outcome.command, sample.path, scratch) if outcome.fault(sample.size) else outcome
        found.append((last, last.fault(sample.size)))
    shutil.rmtree(scratch)
    return found
