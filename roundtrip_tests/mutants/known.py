"""Mutants that are known by name, with what they mean.

`equal.json`: no input makes a difference; with the reason. `named.json`: faults that tests once did not notice, which
must be killed.
"""

from __future__ import annotations

import json
from pathlib import Path


def equal_mutants() -> dict[str, str]:
    """The reason by key."""
    return _stored("equal.json")


def named_mutants() -> dict[str, str]:
    """What the fault is, by key."""
    return _stored("named.json")


def _stored(name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return found
