"""What callers of a kernel guarantee, as rules; each makes any input one that a caller could give.

Strategy: a rule leaves what callers give as it is, which is asserted of recorded calls; so none of them is stricter
than the callers. A rule runs if what it is about has changed: the values of `name`, or the length of it, `#name`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from .given import Array, Given, array

Repair = Callable[[Given], None]


@dataclass(frozen=True, slots=True)
class Rule:
    """`names` are those of the arguments that it is about; it may change `changed`."""

    names: frozenset[str]
    changed: frozenset[str]
    repair: Repair


def rule(names: Iterable[str], changes: Iterable[str], repair: Repair) -> Rule:
    """A rule by a function of its own."""
    return Rule(frozenset(names), frozenset(changes), repair)


def repaired(given: Given, rules: Iterable[Rule], changed: set[str]) -> Given:
    """The input as a caller could give it; `changed` are the arguments that mutation has changed."""
    for one in rules:
        if not changed.isdisjoint(one.names):
            one.repair(given)
            changed |= one.changed
    return given


def put(given: Given, name: str, values: Array) -> None:
    """Set an array, in its own type."""
    given[name] = np.ascontiguousarray(values.astype(array(given, name).dtype, copy=False))


def between(name: str, low: int, high: int) -> Rule:
    """Numbers, or a number, from `low` to `high`."""

    def repair(given: Given) -> None:
        found = given[name]
        if isinstance(found, np.ndarray):
            put(given, name, np.clip(found, low, high))
        else:
            given[name] = low + (found - low) % (high - low + 1) if not low <= found <= high else found

    return rule([name], [name], repair)


def one_of(name: str, *allowed: int) -> Rule:
    """Some numbers only."""
    known = np.array(sorted(allowed), np.int64)

    def repair(given: Given) -> None:
        found = given[name]
        if isinstance(found, np.ndarray):
            wide = found.astype(np.int64)
            wrong = ~np.isin(wide, known)
            if wrong.any():
                put(given, name, np.where(wrong, known[wide % len(known)], wide))
        elif found not in allowed:
            given[name] = int(known[found % len(known)])

    return rule([name], [name], repair)


def index(name: str, of: str, *, least: int = 0) -> Rule:
    """Indices of elements of `of`, which is not empty; from `least` on, so that -1 may be for none."""

    def repair(given: Given) -> None:
        count = len(array(given, of))
        put(given, name, np.clip(array(given, name), least, max(count - 1, least)))

    return rule([name, f"#{of}"], [name], repair)


def within(name: str, of: str) -> Rule:
    """Offsets in `of`, or its end."""

    def repair(given: Given) -> None:
        size = len(array(given, of))
        found = given[name]
        if isinstance(found, np.ndarray):
            put(given, name, np.clip(found, 0, size))
        else:
            given[name] = min(max(found, 0), size)

    return rule([name, f"#{of}"], [name], repair)


def bounds(start: str, end: str, of: str) -> Rule:
    """Parts of `of`: each from `start` up to `end`."""

    def repair(given: Given) -> None:
        size = len(array(given, of))
        first = np.clip(array(given, start), 0, size)
        put(given, start, first)
        put(given, end, np.clip(array(given, end), first, size))

    return rule([start, end, f"#{of}"], [start, end], repair)


def slices(first: str, count: str, of: str) -> Rule:
    """Parts of `of`: `count` elements of it from `first` on."""

    def repair(given: Given) -> None:
        size = len(array(given, of))
        begin = np.clip(array(given, first), 0, size)
        put(given, first, begin)
        put(given, count, np.clip(array(given, count).astype(np.int64), 0, size - begin))

    return rule([first, count, f"#{of}"], [first, count], repair)


def starts(name: str, of: str, *, per: str | None = None) -> Rule:
    """Where parts of `of` start, ascending from 0, with the end of the last. With `per`, one for each element of it."""

    def repair(given: Given) -> None:
        size, found = len(array(given, of)), np.sort(np.clip(array(given, name), 0, len(array(given, of))))
        if per is not None:
            found = np.resize(found, len(array(given, per)) + 1) if len(found) else np.zeros(1, np.int64)
            found = np.sort(found)
        found[0], found[-1] = 0, size
        put(given, name, found)

    names = [name, f"#{name}", f"#{of}", *([f"#{per}"] if per else [])]
    return rule(names, [name, f"#{name}"], repair)


def ascending(name: str) -> Rule:
    """Numbers that do not descend."""
    return rule([name], [name], lambda given: put(given, name, np.sort(array(given, name), kind="stable")))
