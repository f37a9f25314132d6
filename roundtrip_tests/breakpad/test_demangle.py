"""Demangled names: bounded in size before the text exists, as by the C++ runtime otherwise."""

from __future__ import annotations

import itertools
from string import ascii_lowercase

import pytest
from unwindkit.converters.breakpad.demangle import (
    LEAST_EXPANSION,
    MAX_EXPANSION,
    MAX_MEAN_EXPANSION,
    demangle_names,
)

from ..support.work import at_most_allocated

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def doubling_name(count: int, function: str = "f") -> str:
    """A function with `count` arguments, each a pair<...> of the one before, twice: its text doubles with each."""
    arguments = "".join(f"S_IS{digit}_S{digit}_E" for digit in DIGITS[:count])
    return f"_Z{len(function)}{function}St4pairIiiE{arguments}"


def rust_backref(offset: int) -> str:
    """A Rust v0 back reference to an offset, a number in base 62 (RFC 2603): `B_` is 0, `B0_` is 1."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    text, offset = "", offset - 1
    while offset >= 0:
        text, offset = digits[offset % 62] + text, offset // 62 - (offset < 62)
    return f"B{text}_"


def rust_doubling_name(count: int) -> str:
    """A function whose generic arguments are tuples, each of the one before, twice."""
    body, last = "INvC1a1bTjjE", 8
    for _ in range(count):
        reference, last_of_this = rust_backref(last), len(body)
        body, last = f"{body}T{reference}{reference}E", last_of_this
    return f"_R{body}E"


def test_few_substitutions_are_expanded() -> None:
    """Itanium C++ ABI, 5.1.10: S_ is the first component, std::pair; S0_ the second, std::pair<int, int>."""
    assert demangle_names([doubling_name(1)]) == [
        "f(std::pair<int, int>, std::pair<std::pair<int, int>, std::pair<int, int> >)"
    ]
    assert demangle_names([rust_doubling_name(1)]) == ["a::b::<(usize, usize), ((usize, usize), (usize, usize))>"]


@pytest.mark.parametrize("count", [23, 34])
@pytest.mark.parametrize("made", [doubling_name, rust_doubling_name])
def test_a_name_that_would_double_with_each_argument_remains_mangled(made: object, count: int) -> None:
    assert callable(made)
    demangle_names([made(1)])
    with at_most_allocated(1 << 20):
        assert demangle_names([made(count)]) == [made(count)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(f"_Z1f{'P' * 100_000}i", id="pointers"),
        pytest.param(f"_Z1f{'St4pairI' * 20_000}i{'E' * 20_000}", id="templates"),
        pytest.param(f"_Z1f{'i' * 100_000}", id="arguments"),
        pytest.param(f"_Z1fI{'Xng' * 20_000}Li1E{'E' * 20_000}Evv", id="expressions"),
        pytest.param(f"_RINvC1a1b{'T' * 20_000}j{'E' * 20_001}", id="Rust tuples"),
        pytest.param(f"_Z1f{'P' * 10_000}i", id="pointers, shorter"),
        pytest.param(f"_RINvC1a1b{'T' * 5_000}j{'E' * 5_001}", id="Rust tuples, shorter"),
    ],
)
def test_a_deeply_nested_or_very_long_name_remains_mangled(name: str) -> None:
    assert demangle_names([name, "_Z1fv"]) == [name, "f()"]


@pytest.mark.parametrize("count", range(12))
def test_no_name_exceeds_its_bound(count: int) -> None:
    for name in (doubling_name(count), rust_doubling_name(count)):
        (found,) = demangle_names([name])
        assert len(found) <= MAX_EXPANSION * len(name)


def test_all_names_together_are_bounded() -> None:
    """The name of 3 pairs is 45 characters long and 465 demangled: a ratio of 10."""
    names = [doubling_name(3, "".join(letters)) for letters in itertools.product(ascii_lowercase, repeat=3)]
    found = demangle_names([*names, "_Z1gv"])
    size, bound = sum(map(len, found)), MAX_MEAN_EXPANSION * sum(map(len, names)) + LEAST_EXPANSION
    assert 0.99 * bound < size < bound
    assert found[0].startswith("aaa(std::pair<")
    assert found[-1] == "g()"
