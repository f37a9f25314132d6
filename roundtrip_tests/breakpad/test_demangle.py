"""Demangled names: bounded in size before the text exists, as by the C++ runtime otherwise."""

from __future__ import annotations

import itertools
import sys
from string import ascii_lowercase

import demangle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit.converters.breakpad import cplusplus
from unwindkit.converters.breakpad.demangle import (
    LEAST_EXPANSION,
    MAX_EXPANSION,
    MAX_MEAN_EXPANSION,
    demangle_names,
)
from unwindkit.converters.breakpad.rust import LegacyNames

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


def test_a_conversion_that_the_runtime_of_gcc_12_cannot_demangle() -> None:
    assert demangle_names(["_ZNK1AcvSbIT_St11char_traitsIS0_ESaIS0_EEIwEEv"]) == [
        "A::operator std::basic_string<wchar_t, std::char_traits<wchar_t>, std::allocator<wchar_t> ><wchar_t>() const"
    ]


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


def many_names(count: int) -> list[str]:
    """Names with more substitutions than the runtime gets outside a process with limits."""
    function = "_Z{0}{1}St4pairIiiE" + "S0_" * 9
    return [function.format(len(f"f{index}"), f"f{index}") for index in range(count)]


def test_many_names_with_substitutions_are_expanded() -> None:
    pairs = ", ".join(["std::pair<int, int>"] * 10)
    assert demangle_names(many_names(100)) == [f"f{index}({pairs})" for index in range(100)]


def test_names_after_one_that_ends_the_process_are_demangled() -> None:
    """Each of the hostile names takes the process's memory, or its time."""
    names = many_names(70)
    hostile = [doubling_name(count) for count in (30, 34)]
    found = demangle_names([*names[:35], *hostile, *names[35:]])
    assert found[35:37] == hostile
    assert found[:35] + found[37:] == demangle_names(names)


def test_the_process_answers_what_fits_its_limits() -> None:
    names = [b"_Z1fv", b"none", b"_Z1gv"]
    assert cplusplus.demangle_with_limits(names, MAX_EXPANSION) == [b"f()", b"", b"g()"]
    assert cplusplus.demangle_with_limits([doubling_name(10).encode()], MAX_EXPANSION) == [b""]


def test_names_without_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = demangle_names(many_names(70))
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert cplusplus.demangle_with_limits([b"_Z1fv"], MAX_EXPANSION) == []
    assert demangle_names(many_names(70)) == expected


# Rust's compiler, legacy symbol names: what stands for characters that assemblers do not take, and parts of these.
RUST_PIECES = [
    *"a_$.7",
    "..",
    "$LT$",
    "$GT$",
    "$u20$",
    "$u7e$",
    "$C$",
    "$RF$",
    "_$LT$",
    "core..fmt",
    "$u7f$",
    "$zz$",
    "h12",
]


@given(st.lists(st.lists(st.sampled_from(RUST_PIECES), min_size=1, max_size=5).map("".join), min_size=1, max_size=4))
def test_legacy_names_of_rust_are_as_by_the_library(components: list[str]) -> None:
    name = "_ZN" + "".join(f"{len(one)}{one}" for one in components) + "17h0123456789abcdefE"
    assert LegacyNames().path(name) in (None, demangle.demangle(name, language=["rust"], style="gnu"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
        ("_ZN4$zz$3fmt17h0123456789abcdefE", None),
        ("_ZN7a$u7f$b17h0123456789abcdefE", None),
        ("_ZN38_$LT$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE", "<T as core::fmt::Debug>::fmt"),
        ("_ZN4core3fmt17h0123456789abcdefE.llvm.1", None),
        (f"_ZN{'9' * 10_000}core17h0123456789abcdefE", None),
        ("_ZN17h0123456789abcdefE", None),
        ("17h0123456789abcdefE", None),
    ],
)
def test_legacy_names_of_rust(name: str, expected: str | None) -> None:
    assert LegacyNames().path(name) == expected
