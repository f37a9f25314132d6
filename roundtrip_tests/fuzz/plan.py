"""What a worker is to do, what it reports, and the limits that inputs are held to."""

from __future__ import annotations

from dataclasses import dataclass, field

from .lines import Line

MOST_KEPT = 2000
# What all readers of a target may take for one input: CPU seconds, and per byte; bytes of memory, and per byte.
SECONDS, SECONDS_PER_BYTE = 1.0, 50e-6
MEMORY, MEMORY_PER_BYTE = 150 << 20, 10
# Address space in addition, so that a fault does not harm the machine. AddressSanitizer reserves terabytes.
ADDRESS_SPACE = 3 << 30
# Bytes of memory that a worker shares with its parent.
SHARED = 1 << 20
REPORT_EVERY = 1.0  # seconds


@dataclass(slots=True)
class Tally:
    """What a worker did since its last report."""

    executions: int = 0
    compared: int = 0
    kept: int = 0
    seconds: float = 0.0
    lines: set[Line] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker is to do. It ends after `seconds`, or after `executions`, if that is not None. `slowness`
    multiplies the limit of time; `is_sanitized`: no limit of memory. `is_exhaustive`: the inputs are those of `damage`,
    each compared on both engines."""

    seed: int
    part: int
    seconds: float
    executions: int | None = None
    slowness: float = 1.0
    is_sanitized: bool = False
    is_exhaustive: bool = False
