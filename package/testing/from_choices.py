"""Choices of the corpus drawn by hypothesis, which then shrinks them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ..corpus.choices import Binary, Choice, Draw, Integers, OneOf, SampledFrom, T


@lru_cache(maxsize=4096)
def strategy_of(choice: Any) -> SearchStrategy[Any]:
    """The strategy that draws what a choice offers."""
    match choice:
        case Integers(low, high):
            return st.integers(low, high)
        case SampledFrom(values):
            return st.sampled_from(values)
        case OneOf(choices):
            return st.one_of(*[strategy_of(cast(Any, one)) for one in choices])
        case Binary(low, high):
            return st.binary(min_size=low, max_size=high)
    raise TypeError(f"{choice!r} is not a choice")


def by_hypothesis(draw: DrawFn) -> Draw:
    """A `Draw` for the generators of cases."""

    def one(choice: Choice[T], /) -> T:
        found: T = draw(strategy_of(cast(Any, choice)))
        return found

    return one
