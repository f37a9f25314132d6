"""Choices among declared alternatives, and what draws from them: a seed, or a list of numbers.

Strategy: the generators of cases draw from `Choice`s and know nothing about where the numbers come from. A corpus draws
from a seed, so that it needs no hypothesis, whose drawing differs between versions; the strategies of
`unwindkit.testing` draw from hypothesis; shrinking repeats a case with smaller numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Generic, Protocol, TypeVar

from ..schemas.data_classes import dataclass

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Below = Callable[[int], int]


class Choice(Protocol[T_co]):
    """Something to draw. `pick` calls `below(n)` for numbers from 0 to n - 1; the smallest ones are the plainest."""

    def pick(self, below: Below, /) -> T_co: ...


class Draw(Protocol):
    """Draws a value of a choice."""

    def __call__(self, choice: Choice[T], /) -> T: ...


@dataclass(frozen=True, slots=True, eq=False)
class Integers:
    """An integer between two limits, the plainest one nearest to 0."""

    low: int
    high: int

    def pick(self, below: Below) -> int:
        number = below(self.high - self.low + 1)
        if self.low >= 0:
            return self.low + number
        if self.high <= 0:
            return self.high - number
        both = min(-self.low, self.high)
        if number <= 2 * both:
            return number // 2 if number % 2 == 0 else -(number // 2) - 1
        return number - both if self.high > both else both - number


@dataclass(frozen=True, slots=True, eq=False)
class SampledFrom(Generic[T]):
    """One of some values, the plainest one first."""

    values: tuple[T, ...]

    def pick(self, below: Below) -> T:
        return self.values[below(len(self.values))]


@dataclass(frozen=True, slots=True, eq=False)
class OneOf(Generic[T]):
    """One of some choices."""

    choices: tuple[Choice[T], ...]

    def pick(self, below: Below) -> T:
        return self.choices[below(len(self.choices))].pick(below)


@dataclass(frozen=True, slots=True, eq=False)
class Binary:
    """Bytes of a bounded number."""

    min_size: int
    max_size: int

    def pick(self, below: Below) -> bytes:
        size = self.min_size + below(self.max_size - self.min_size + 1)
        return bytes(below(256) for _ in range(size))


def integers(low: int, high: int) -> Choice[int]:
    """An integer from `low` to `high`, both included."""
    return Integers(low, high)


def sampled_from(values: Sequence[T]) -> Choice[T]:
    """One of some values."""
    return SampledFrom(tuple(values))


def one_of(*choices: Choice[T]) -> Choice[T]:
    """A value of one of some choices."""
    return OneOf(choices)


def binary(*, min_size: int = 0, max_size: int) -> Choice[bytes]:
    """Bytes."""
    return Binary(min_size, max_size)


class Seeded:
    """Draws from a seed: the same values on every machine and with every version of Python.

    `random.Random` promises this for `random()` alone; `getrandbits` of the Mersenne Twister has never changed
    either, and seeding with a string is SHA-512 since Python 3.2. `numbers` are those that were drawn.
    """

    def __init__(self, seed: str) -> None:
        self._bits = Random(seed).getrandbits
        self.numbers: list[int] = []

    def _below(self, count: int) -> int:
        size = (count - 1).bit_length()
        number = self._bits(size) if size else 0
        while number >= count:
            number = self._bits(size)
        self.numbers.append(number)
        return number

    def __call__(self, choice: Choice[T], /) -> T:
        return choice.pick(self._below)


class Replayed:
    """Draws given numbers again, as far as they are possible, then 0. `numbers` are those that were used."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._given = numbers
        self.numbers: list[int] = []

    def _below(self, count: int) -> int:
        place = len(self.numbers)
        number = min(self._given[place], count - 1) if place < len(self._given) else 0
        self.numbers.append(number)
        return number

    def __call__(self, choice: Choice[T], /) -> T:
        return choice.pick(self._below)
