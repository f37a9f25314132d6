"""The machine and the software of a run: they are part of the figures."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from .measure import ROOT


@dataclass(frozen=True, slots=True)
class Machine:
    """Processor, memory in bytes, and versions; `load` is the average over a minute before the run.

    `unwindkit_sha256` is of the installed files (`package_digest`).
    """

    date: str
    processor: str
    processors: int
    memory: int
    system: str
    load: float
    python: str
    numpy: str
    unwindkit: str
    engine: str
    unwindkit_sha256: str


def describe_machine() -> Machine:
    """This machine, now, with the unwindkit of the running interpreter."""
    return Machine(
        date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        processor=_field("/proc/cpuinfo", r"model name\s*:\s*(.+)") or platform.processor() or platform.machine(),
        processors=len(os.sched_getaffinity(0)),
        memory=int(_field("/proc/meminfo", r"MemTotal:\s*(\d+) kB") or 0) * 1024,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        load=round(os.getloadavg()[0], 2),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        numpy=metadata.version("numpy"),
        unwindkit=metadata.version("unwindkit"),
        engine=_engine(),
        unwindkit_sha256=package_digest(),
    )


def _engine() -> str:
    """Which kernels conversions run on: compiled or pure."""
    command = (sys.executable, "-m", "unwindkit", "info", "--engine")
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def package_digest() -> str:
    """SHA-256 of the installed package's sources and compiled modules: a version number does not distinguish builds."""
    found = find_spec("unwindkit")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("unwindkit is not installed for this interpreter")
    folder = Path(found.submodule_search_locations[0])
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".so")):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _field(path: str, pattern: str) -> str:
    """The first group of a pattern's first match in a file of /proc; empty if there is none."""
    found = re.search(pattern, Path(path).read_text(errors="replace")) if Path(path).exists() else None
    return found[1].strip() if found else ""
