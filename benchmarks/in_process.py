"""One conversion inside a process that has its modules loaded: prints functions, rows and seconds as JSON.

Strategy: each measurement is a new process, so that no run profits from memory of the run before. Loading
the modules is not timed: a program that converts many files pays for it once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median

from .measure import ROOT


@dataclass(frozen=True, slots=True)
class InProcess:
    """read_elf and to_sframe of one file: medians, in seconds. `rows` counts the rows of every function."""

    name: str
    runs: int
    functions: int
    rows: int
    read_seconds: float
    encode_seconds: float

    @property
    def seconds(self) -> float:
        """The sum of both."""
        return self.read_seconds + self.encode_seconds

    @property
    def rows_per_second(self) -> float:
        """Rows of every function, shared or not, per second of reading and encoding."""
        return self.rows / self.seconds

    @property
    def rows_read_per_second(self) -> float:
        """The same per second of reading."""
        return self.rows / self.read_seconds


def convert_in_process(name: str, path: str, runs: int, pure: bool = False) -> InProcess:
    """Measure `runs` new processes after one to warm up, with uncompiled kernels if `pure`. Raises CalledProcessError
    if the file is refused."""
    environment = os.environ | ({"UNWINDKIT_PURE": "1"} if pure else {})
    command = (sys.executable, "-m", "benchmarks.in_process", path)
    found: list[dict[str, float]] = []
    for _ in range(runs + 1):
        done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=environment)
        found.append(json.loads(done.stdout))

    def middle(key: str) -> float:
        return median([run[key] for run in found[1:]])

    functions, rows = int(found[0]["functions"]), int(found[0]["rows"])
    return InProcess(name, runs, functions, rows, middle("read_seconds"), middle("encode_seconds"))


def main(path: str) -> None:
    """The child: convert once and print the time."""
    import numpy as np
    from unwindkit import read_elf, to_sframe

    start = time.perf_counter()
    table = read_elf(path)
    middle = time.perf_counter()
    to_sframe(table)
    end = time.perf_counter()
    rows = int(np.diff(table.run_rows)[table.functions.run].sum())
    figures = {"functions": len(table), "rows": rows, "read_seconds": middle - start, "encode_seconds": end - middle}
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1])
