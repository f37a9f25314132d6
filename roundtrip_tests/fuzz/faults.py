"""Faults that a fuzz run finds: what counts as one, the smallest input that shows it, and how it is stored.

Strategy: a fault has a key, by which later inputs that show the same fault are recognised: the exception and where in
the product it was raised. Minimising removes ever smaller parts of the input and keeps what shows the same key.
"""

from __future__ import annotations

import json
import re
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import unwindkit

from .seeds import Seed

MINIMISING = 10.0  # seconds
_UNSAFE = re.compile(r"[^\w.-]+")


# A clone may have any name; the installed package is where its files are.
PRODUCT = Path(unwindkit.__file__).parent


@dataclass(frozen=True, slots=True)
class Fault:
    """`key` is the same for inputs that show the same fault; `text` is for people."""

    target: str
    key: str
    text: str
    seed: Seed

    def store(self, folder: Path) -> Path:
        """Write it as a JSON file, whose path is returned."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.target}-{_UNSAFE.sub('-', self.key)[:80]}.json"
        found = {"target": self.target, "key": self.key, "text": self.text, "seed": self.seed.to_json()}
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> Fault:
        """What `store` wrote."""
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(found["target"], found["key"], found["text"], Seed.from_json(json.dumps(found["seed"])))


def key_of(error: BaseException) -> str:
    """The exception's class and the innermost function of the product."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if PRODUCT in Path(one.filename).parents]
    place = f"{Path(frames[-1].filename).name} {frames[-1].name}" if frames else "outside"
    return f"{type(error).__name__} in {place}"


def minimise(seed: Seed, shows: Callable[[Seed], bool]) -> Seed:
    """A smaller input that still `shows` the fault."""
    deadline = time.monotonic() + MINIMISING
    best, size = seed, max(1, len(seed.data) // 2)
    while size and time.monotonic() < deadline:
        smaller, offset = best, 0
        while offset < len(smaller.data) and time.monotonic() < deadline:
            data = smaller.data[:offset] + smaller.data[offset + size :]
            candidate = replace(smaller, data=data, places=())
            if shows(candidate):
                smaller = candidate
            else:
                offset += size
        size = size // 2 if len(smaller.data) == len(best.data) else min(size, max(1, len(smaller.data) // 2))
        best = smaller
    return best
