"""What runs a program by single steps, and when it stops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..schemas.data_classes import dataclass
from .checker import Tally


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop: after a number of steps or seconds; None for no limit. `burst`: single steps in a row, `pause`:
    seconds of free running between bursts; with a `burst` of 0 every instruction is a single step."""

    steps: int | None = None
    seconds: float | None = None
    burst: int = 0
    pause: float = 0.0


class Stepper(Protocol):
    """Runs a program by single steps. `exit_status`: that of the program, None while it runs."""

    exit_status: int | None

    def launch(self, command: Sequence[str]) -> None:
        """Start a program. Raises OSError if that is not possible."""

    def attach(self, number: int) -> None:
        """Take control of a running process. Raises OSError if that is not possible."""

    def run(self) -> Tally:
        """Step until the program ends or a limit is reached. The thread must be the one that launched or attached."""

    def stop(self) -> None:
        """End the run soon. For other threads."""
