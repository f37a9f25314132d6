"""Which tests are tried on a mutant, and in which order.

Strategy: those that run the changed line; for a table, those that run a function that uses it. One of the parameters of
each test function first, cheap ones before expensive ones, and tests that run little before those that run everything.
A mutant that survives would run all of them, so the CPU time of its tests is limited.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache, cached_property

from .places import Mutant
from .project import Project
from .recording import Recording
from .uses import Uses

# A line that a test runs costs as much as this many seconds of it.
SECONDS_PER_LINE = 2e-5
# A test whose path shares no word with the module's is worth as much as one that takes so many times as long.
FAR = 5.0
# Words of paths that tell nothing.
COMMON = {"converters", "kernels", "package", "schemas", "writers", "tests", "test", "roundtrip", "py", "init", "text"}


class Choice:
    """The tests for each mutant. `distrusted` are tests that fail without one, `trusted` those that pass."""

    def __init__(self, project: Project, recording: Recording, seconds: float) -> None:
        self.project = project
        self.recording = recording
        self.seconds = seconds
        self.distrusted: set[str] = set()
        self.trusted: set[str] = set()

    @cached_property
    def _costs(self) -> dict[str, float]:
        found = {}
        for name, (seconds, lines) in self.recording.tests.items():
            found[name] = seconds + SECONDS_PER_LINE * sum(bits.bit_count() for bits in lines.values())
        return found

    @cached_property
    def _uses(self) -> Uses:
        return Uses(self.project.modules)

    def is_at_import(self, mutant: Mutant) -> bool:
        """Whether the changed place runs when the modules are imported."""
        return mutant.is_at_import or self.recording.is_at_import(mutant.module.name, mutant.line, mutant.last_line)

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests to run, in order; none if no test runs the line."""
        name, tests = mutant.module.name, self.recording.tests
        if self.is_at_import(mutant):
            wanted: dict[str, int] = defaultdict(int)
            for module, line in self._uses.lines(mutant):
                wanted[module] |= 1 << line
            # A function that runs at import is also run by tests.
            wanted[name] |= 0 if mutant.is_at_import else _bits(mutant)
            covering = _covering(self.recording, wanted)
            if not covering:
                covering = [one for one, (_, lines) in tests.items() if lines.get(name)]
        else:
            covering = _covering(self.recording, {name: _bits(mutant)})
        near = _words(mutant.module.path)
        return self._ordered((one for one in covering if one not in self.distrusted), near)

    def _ordered(self, names: Iterable[str], near: set[str]) -> list[str]:
        count: Counter[str] = Counter()
        turns = []
        for name in sorted(names, key=lambda one: (self._costs[one], one)):
            function = name.partition("[")[0]
            is_near = not near.isdisjoint(_words(name.partition("::")[0]))
            turns.append((count[function], self._costs[name] * (1.0 if is_near else FAR), name))
            count[function] += 1
        found, left = [], self.seconds
        for _, _, name in sorted(turns):
            left -= self.recording.tests[name][0]
            if left < 0 and found:
                break
            found.append(name)
        return found


@cache
def _words(path: str) -> set[str]:
    return set(re.findall("[a-z]+", path)) - COMMON


def _bits(mutant: Mutant) -> int:
    return ((1 << (mutant.last_line - mutant.line + 1)) - 1) << mutant.line


def _covering(recording: Recording, wanted: dict[str, int]) -> list[str]:
    return [
        name
        for name, (_, lines) in recording.tests.items()
        if any(lines.get(module, 0) & bits for module, bits in wanted.items())
    ]
