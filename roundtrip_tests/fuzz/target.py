"""A fuzz target: inputs to start from, and the readers that get them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unwindkit import FormatError

from .outcome import digest, error_signature, result_signature
from .seeds import Seed

if TYPE_CHECKING:
    from .alone.kernel import Kernel

Read = Callable[[Seed], Any]


@dataclass(frozen=True, slots=True)
class Target:
    """`reads` are called one after the other; each may raise FormatError, or one of `errors`, and nothing else. `code`
    are folders and files of the product whose lines are counted as the target's. `kernel`: it is this one alone."""

    name: str
    seeds: Callable[[], list[Seed]]
    reads: Mapping[str, Read]
    code: tuple[str, ...]
    errors: tuple[type[Exception], ...] = (FormatError,)
    kernel: Kernel | None = None

    def signature(self, seed: Seed) -> str:
        """What the readers did, coarsely."""
        return " | ".join(self._outcome(read, seed, error_signature, result_signature) for read in self.reads.values())

    def digests(self, seed: Seed) -> dict[str, str]:
        """What each reader did, exactly; an error as its text."""
        return {name: self._outcome(read, seed, str, digest) for name, read in self.reads.items()}

    def _outcome(
        self, read: Read, seed: Seed, of_error: Callable[[Exception], str], of_result: Callable[[object], str]
    ) -> str:
        try:
            return of_result(read(seed))
        except self.errors as error:
            return of_error(error)
