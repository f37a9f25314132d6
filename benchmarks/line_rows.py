"""The line programs of one file run inside a process that has its modules loaded, by us and by pyelftools.

Strategy: each measurement is a new process; the two alternate. Both count the rows that they made.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from statistics import median

from .measure import ROOT

OURS, PYELFTOOLS = "unwindkit", "pyelftools"


@dataclass(frozen=True, slots=True)
class LineRows:
    """All rows of a `.debug_line`: medians, in seconds. pyelftools runs once: it takes seconds."""

    name: str
    runs: int
    rows: int
    seconds: float
    pyelftools_seconds: float

    @property
    def rows_per_second(self) -> float:
        """Rows per second of our time."""
        return self.rows / self.seconds

    @property
    def ratio(self) -> float:
        """pyelftools' time divided by ours."""
        return self.pyelftools_seconds / self.seconds


def run_lines(name: str, path: str, runs: int) -> LineRows:
    """Measure `runs` new processes after one to warm up, pyelftools' in between. Raises CalledProcessError if the
    file is refused, ValueError if the two do not make the same number of rows."""

    def run(reader: str) -> dict[str, float]:
        command = (sys.executable, "-m", "benchmarks.line_rows", reader, path)
        done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
        figures: dict[str, float] = json.loads(done.stdout)
        return figures

    first = run(OURS)
    peer = run(PYELFTOOLS)
    if peer["rows"] != first["rows"]:
        raise ValueError(f"{first['rows']} rows, pyelftools has {peer['rows']}")
    seconds = median([run(OURS)["seconds"] for _ in range(runs)])
    return LineRows(name, runs, int(first["rows"]), seconds, peer["seconds"])


def _by_us(path: str) -> int:
    from unwindkit import read_lines

    return len(read_lines(path))


def _by_pyelftools(path: str) -> int:
    from elftools.dwarf.structs import DWARFStructs
    from elftools.elf.elffile import ELFFile

    rows = 0
    with open(path, "rb") as file:
        elf = ELFFile(file)
        dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        structs = DWARFStructs(elf.little_endian, 32, elf.elfclass // 8)
        offset = 0
        while offset < dwarf.debug_line_sec.size:
            # No public call reads the programs one after the other.
            program = dwarf._parse_line_program_at_offset(offset, structs)
            rows += sum(entry.state is not None for entry in program.get_entries())
            offset = program.program_end_offset
    return rows


def main(reader: str, path: str) -> None:
    """The child: run all programs once and print the time."""
    # Loading the modules is not timed.
    import_module("elftools.elf.elffile")
    import_module("unwindkit.converters.line.read")
    from unwindkit.converters.kernels import engine

    engine.chosen()
    start = time.perf_counter()
    rows = _by_us(path) if reader == OURS else _by_pyelftools(path)
    print(json.dumps({"rows": rows, "seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main(*sys.argv[1:])
