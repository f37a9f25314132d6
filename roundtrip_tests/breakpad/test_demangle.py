"""Demangled names: bounded in size before the text exists, as by the C++ runtime otherwise."""

from __future__ import annotations

import itertools
import sys
from string import ascii_lowercase

import demangle
import numpy as np
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
from unwindkit.converters.breakpad.name_forms import NameForm, forms_of
from unwindkit.converters.breakpad.rust import demangle_rust as demangle_strings
from unwindkit.converters.strings import Strings

from ..support.work import at_most_allocated

pytestmark = pytest.mark.usefixtures("kernels")
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # https://dlang.org/spec/abi.html#name_mangling: a qualified name, F for a function of D, Z, the result.
        ("_D3std5stdio7writelnFZv", "std.stdio.writeln()"),
        ("_D8demangle4testFiZAya", "demangle.test(int)"),
        ("_Dmain", "D main"),
        # Swift's docs/ABI/Mangling.rst: a module, a type and its kind, a function, its result (Si is Int), its kind.
        ("$s4main1AV3fooSiyF", "main.A.foo() -> Swift.Int"),
        ("_$s4main1AV3fooSiyF", "main.A.foo() -> Swift.Int"),
        ("$S4main3fooyyF", "main.foo() -> ()"),
    ],
)
def test_names_of_d_and_swift(name: str, text: str) -> None:
    assert demangle_names([name, "_Z1fv", name]) == [text, "f()", text]


def test_names_that_only_begin_as_those_of_d_and_swift_are_kept() -> None:
    names = ["_DYNAMIC", "_D", "_D3foo3bar", "_Data", "$s", "$sS", "_$S", "$d", "$x.4"]
    assert demangle_names(names) == names


def test_many_names_of_d_and_swift_keep_their_places() -> None:
    names = [f"_D1a{2}f{number % 10}FZv" for number in range(100)] + [doubling_name(9)] * 2 + ["$s4main3fooyyF"] * 80
    found = demangle_names(names)
    assert found[:100] == [f"a.f{number % 10}()" for number in range(100)]
    assert found[-80:] == ["main.foo() -> ()"] * 80


def test_a_conversion_that_the_runtime_of_gcc_12_cannot_demangle() -> None:
    assert demangle_names(["_ZNK1AcvSbIT_St11char_traitsIS0_ESaIS0_EEIwEEv"]) == [
        "A::operator std::basic_string<wchar_t, std::char_traits<wchar_t>, std::allocator<wchar_t> ><wchar_t>() const"
    ]


def test_a_name_of_librados_becomes_38_times_as_long() -> None:
    """std::map<std::string, std::map<std::string, std::string>>::_M_copy, in its internal form."""
    name = (
        "_ZNSt8_Rb_treeINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4pairIKS5_St3mapIS5_S5_St4lessIS5_E"
        "SaIS6_IS7_S5_EEEESt10_Select1stISE_ESA_SaISE_EE7_M_copyILb0ENSI_11_Alloc_nodeEEEPSt13_Rb_tree_nodeISE_ERKSI_RT0_"
    )
    (found,) = demangle_names([name])
    assert found.startswith("std::_Rb_tree_node<std::pair<std::__cxx11::basic_string<char, ")
    assert found.endswith("::_Alloc_node&)")
    assert len(found) > 8_000


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
    """Names with more substitutions than the runtime gets outside a process with limits, and a vendor's type, which is
    left to it."""
    function = "_Z{0}{1}u2idSt4pairIiiE" + "S1_" * 9
    return [function.format(len(f"f{index}"), f"f{index}") for index in range(count)]


def test_many_names_with_substitutions_are_expanded() -> None:
    pairs = ", ".join(["std::pair<int, int>"] * 10)
    assert demangle_names(many_names(100)) == [f"f{index}(id, {pairs})" for index in range(100)]


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


def demangle_rust(names: list[str], expansion: int) -> list[str]:
    """As the function of this name, of text; "" also for names that are not Rust's usual ones."""
    strings = Strings.of(name.encode() for name in names)
    form, found = forms_of(strings), [""] * len(names)
    for scheme in (NameForm.RUST_LEGACY, NameForm.RUST_V0):
        which = np.flatnonzero(form == scheme)
        texts = demangle_strings(strings.select(which), expansion, scheme == NameForm.RUST_LEGACY)
        for index, text in zip(which.tolist(), texts, strict=True):
            found[index] = text.decode()
    return found


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
    assert demangle_rust([name], MAX_EXPANSION)[0] in ("", demangle.demangle(name, language=["rust"], style="gnu"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
        ("_ZN4$zz$3fmt17h0123456789abcdefE", ""),
        ("_ZN7a$u7f$b17h0123456789abcdefE", ""),
        ("_ZN38_$LT$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE", "<T as core::fmt::Debug>::fmt"),
        ("_ZN4core3fmt17h0123456789abcdefE.llvm.1", ""),
        (f"_ZN{'9' * 10_000}core17h0123456789abcdefE", ""),
        ("_ZN17h0123456789abcdefE", ""),
        ("17h0123456789abcdefE", ""),
    ],
)
def test_legacy_names_of_rust(name: str, expected: str) -> None:
    assert demangle_rust([name], MAX_EXPANSION) == [expected]


# RFC 2603, the grammar of symbol names, with a crate `a` and a function `b`.
V0_NAMES = [
    ("_RNvC1a1b", "a::b"),
    ("_RNvCsgStHSCytQ6I_1a1b", "a::b"),
    ("_RNvNtC1a1m1b", "a::m::b"),
    ("_RNCNvC1a1b0", "a::b::{closure#0}"),
    ("_RNCNvC1a1bs_0", "a::b::{closure#1}"),
    ("_RNCNvC1a1bs0_1c", "a::b::{closure:c#2}"),
    ("_RNSNvC1a1b6vtable", "a::b::{shim:vtable#0}"),
    ("_RNvC1a3__1b", "a::_1b"),
    ("_RINvC1a1bhE", "a::b::<u8>"),
    ("_RINvC1a1bhtE", "a::b::<u8, u16>"),
    ("_RINvC1a1bTEE", "a::b::<()>"),
    ("_RINvC1a1bThEE", "a::b::<(u8,)>"),
    ("_RINvC1a1bRhQePtOxE", "a::b::<&u8, &mut str, *const u16, *mut i64>"),
    ("_RINvC1a1bShAhj4_E", "a::b::<[u8], [u8; 4]>"),
    ("_RINvC1a1bKj2a_Kin1_Kb1_KpE", "a::b::<42, -1, true, _>"),
    ("_RINvC1a1bKy0123456789abcdef_E", "a::b::<81985529216486895>"),
    ("_RINvC1a1bFhEuFEhFUKChEzE", 'a::b::<fn(u8), fn() -> u8, unsafe extern "C" fn(u8) -> !>'),
    ("_RINvC1a1bFG_RL0_hEuE", "a::b::<for<'a> fn(&'a u8)>"),
    ("_RINvC1a1bDNtC1a1TEL_E", "a::b::<dyn a::T>"),
    ("_RINvC1a1bDINtC1a1ThEp1UtNtC1a1VEL_E", "a::b::<dyn a::T<u8, U = u16> + a::V>"),
    ("_RNvMC1aNtC1a1S1b", "<a::S>::b"),
    ("_RNvXC1aNtC1a1SNtC1a1T1b", "<a::S as a::T>::b"),
    ("_RNvYhNtC1a1T1b", "<u8 as a::T>::b"),
    ("_RINvC1a1bNtB2_1SE", "a::b::<a::S>"),
    ("_RINvC1a1bNtC1a1SB7_E", "a::b::<a::S, a::S>"),
    ("_RNvC1a1bC1c", "a::b"),
    ("_RNvC1a1b.7845", "a::b.7845"),
    ("_RNvC1a1bC1c.0", "a::b.0"),
]


@pytest.mark.parametrize(("name", "expected"), V0_NAMES)
def test_v0_names_of_rust(name: str, expected: str) -> None:
    assert demangle_rust([name], MAX_EXPANSION) == [expected]
    assert demangle.demangle(name, language=["rust"], style="gnu") == expected


@pytest.mark.parametrize(
    "name",
    [
        *(
            "_RNvC1a1",
            "_RNvC1a",
            "_RNvC_1b",
            "_RNvC1a1b1c",
            "_RNvC1a1b.llvm.1",
            "_RNvC1a1b.1.2",
            "_RNvC1a1b.1a",
            "_RNvB_1a",
            "_RINvC1a1bBz_E",
            "_RZ",
        ),
        *("_RINvC1a1bwhE", "_RINvC1a1bKe61_E", "_RNvC1au5a_gaa", "_RINvC1a1bL0_E", "_RINvC1a1bKj0123456789abcdef0_E"),
        *("_RNvCsZZZZZZZZZZZ_1a1b", "_RINvC1a1bgE", "_RINvC1a1bDNtC1a1TEE", f"_RINvC1a1b{'T' * 1000}{'E' * 1001}"),
        "_RMC0FGZZZZ_Eu",
    ],
)
def test_v0_names_of_other_forms_are_left_to_the_library(name: str) -> None:
    assert demangle_rust([name, "_RNvC1a1b"], MAX_EXPANSION) == ["", "a::b"]


V0_PIECES = [
    "NvC1a1b",
    "NtC1a1S",
    "C1a",
    "I",
    "E",
    "h",
    "R",
    "L0_",
    "L_",
    "B_",
    "B2_",
    "B6_",
    "T",
    "FG_",
    "F",
    "u",
    "D",
]
V0_PIECES += [
    ".",
    ".12",
    "Kj2_",
    "K",
    "p",
    "p1U",
    "X",
    "M",
    "Y",
    "Nv",
    "NC",
    "s_",
    "0",
    "1x",
    "A",
    "S",
    "_",
    "G",
    "UK",
    "C",
    "P",
]


@given(st.lists(st.sampled_from(V0_PIECES), min_size=1, max_size=12).map("".join))
def test_v0_names_of_rust_are_as_by_the_library(pieces: str) -> None:
    for name in (f"_R{pieces}", f"_RINvC1a1b{pieces}E"):
        assert demangle_rust([name], MAX_EXPANSION)[0] in ("", demangle.demangle(name, language=["rust"], style="gnu"))


def test_many_names_are_demangled_in_parts() -> None:
    names = [f"_RNvC1a{len(str(number)) + 1}n{number}" for number in range(3_000)]
    assert demangle_rust(names * 5, MAX_EXPANSION) == [f"a::n{number}" for number in range(3_000)] * 5
