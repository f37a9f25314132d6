"""A kernel as a fuzz target: real calls to start from, what may change, what callers guarantee, and the call.

Strategy: `run` does with the arguments what the kernel's callers do: it makes the objects, and arrays to be filled of
the sizes that callers choose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from unwindkit.converters.kernels import engine

from ..seeds import Seed
from ..target import Target
from .contract import Rule, repaired
from .given import Given, Ran, decode, encode
from .mutation import Mutator
from .recording import calls_of

# Real calls that fuzzing starts from, and the bytes of their arguments that change: small inputs run fast.
MOST_SEEDS = 24
MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Kernel:
    """`call` is the recorded function, of calls in the reading targets `readers`; a name in `fixed` is an argument that
    is never changed. `data`, `values` and `groups` are as for `Mutator`, `rules` what callers guarantee. `code` are the
    kernels whose lines are counted as the target's."""

    name: str
    call: str
    readers: tuple[str, ...]
    run: Callable[[Any, Given], Ran]
    code: tuple[str, ...]
    data: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    rules: tuple[Rule, ...] = ()
    # Of calls of the same function, those that this one is about.
    chosen: Callable[[Given], bool] = field(default=lambda given: True)
    # A call without the elements that callers allocate and do not use.
    trim: Callable[[Given], Given] = field(default=lambda given: given)
    # Of a kernel whose calls cannot be recorded.
    made: Callable[[], list[Given]] = field(default=list)

    @property
    def names(self) -> tuple[str, ...]:
        """All arguments."""
        return tuple(
            dict.fromkeys((*self.data, *self.values, *self.fixed, *(one for row in self.groups for one in row)))
        )

    def seeds(self) -> list[Given]:
        """Recorded calls, the distinct ones, small ones first."""
        return list(_seeds_of(self))

    def is_small(self, given: Given) -> bool:
        """Whether the arguments that change are few bytes."""
        changed = (one for name, one in given.items() if name not in self.fixed)
        return sum(one.nbytes for one in changed if isinstance(one, np.ndarray)) <= MOST_BYTES

    def breaks(self, given: Given) -> list[str]:
        """The arguments of a real call that `rules` would change: the rules claim more than callers guarantee."""
        changed = {*given, *(f"#{name}" for name in given)}
        found = repaired(dict(given), self.rules, changed)
        return [name for name in given if not np.array_equal(found[name], given[name])]

    def mutator(self) -> Mutator:
        """What changes the arguments."""
        ruled = {name for one in self.rules for name in one.names}
        free = [*(self.data * max(1, len(self.values))), *self.values]
        return Mutator(self.data, self.values, self.groups, [name for name in free if name not in ruled])

    def target(self) -> Target:
        """The target, whose seeds are the arguments as JSON."""

        def read(seed: Seed) -> Ran:
            return self.run(engine.chosen(), decode(seed.data))

        def seeds() -> list[Seed]:
            return [Seed(encode(given), name="arguments") for given in self.seeds()]

        return Target(self.name, seeds, {"run": read}, self.code, kernel=self)


@cache
def _seeds_of(kernel: Kernel) -> tuple[Given, ...]:
    found = {encode(given): given for given in kernel.made()}
    for given in calls_of(kernel.call, kernel.readers):
        if given.keys() >= set(kernel.names) and kernel.chosen(given):
            kept = kernel.trim({name: given[name] for name in kernel.names})
            if kernel.is_small(kept):
                found.setdefault(encode(kept), kept)
    seeds = sorted(found.items(), key=lambda one: len(one[0]))
    return tuple(given for _, given in seeds[:: max(1, len(seeds) // MOST_SEEDS)])


def kernel_files(*names: str) -> tuple[str, ...]:
    """The files of kernels."""
    return tuple(f"converters/kernels/{name}.py" for name in names)
