"""C++'s mangled names as a kernel demangles them: as GNU's demanglers do, or not at all."""

from __future__ import annotations

import demangle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit.converters.breakpad.cplusplus import open_runtime
from unwindkit.converters.breakpad.demangle import MAX_EXPANSION
from unwindkit.converters.breakpad.itanium import _BUILTINS, _OPERATORS, _STANDARD
from unwindkit.converters.breakpad.itanium import demangle_itanium as demangle_strings
from unwindkit.converters.strings import Strings

from ..conftest import engine_in_use
from .test_demangle import doubling_name

# Itanium C++ ABI, 5.1: for each production a name, and its text by the rules of GNU's demanglers.
NAMES = [
    ("_Z1f", "f"),
    ("_Z1fv", "f()"),
    ("_ZN1a1bE", "a::b"),
    ("_ZN1a1fEPKcz", "a::f(char const*, ...)"),
    ("_ZNVK1a1fERrVPi", "a::f(int* volatile restrict&) const volatile"),
    ("_ZNKO1a1fEOi", "a::f(int&&) const &&"),
    ("_ZNR1a1fEv", "a::f() &"),
    ("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()"),
    ("_ZL1fi", "f(int)"),
    ("_ZN1a1fB5cxx11Ev", "a::f[abi:cxx11]()"),
    ("_ZN1aC2Ev", "a::a()"),
    ("_ZN1aD0Ev", "a::~a()"),
    ("_ZN1aIN1b1cEED1Ev", "a<b::c>::~a()"),
    ("_ZN1bCI21aEi", "b::a(int)"),
    ("_ZN1aC5Ev", "a::a()"),
    ("_ZN1aplERKS_", "a::operator+(a const&)"),
    ("_ZN1anwEm", "a::operator new(unsigned long)"),
    ("_ZNK1acviEv", "a::operator int() const"),
    ("_ZltIiEbT_S0_", "bool operator< <int>(int, int)"),
    # Substitutions: the abbreviations, and their whole names before a constructor.
    ("_ZSt1fSsSaIcESo", "std::f(std::string, std::allocator<char>, std::ostream)"),
    ("_ZNSsC1Ev", "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string()"),
    ("_ZNSsD1Ev", "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::~basic_string()"),
    ("_ZN1a1fENS_1bES0_PS0_S1_", "a::f(a::b, a::b, a::b*, a::b*)"),
    ("_Z1f1aPS_PS0_PKS_", "f(a, a*, a**, a const*)"),
    # Templates, packs, and the arguments that their parameters refer to.
    ("_Z1fIiEvT_", "void f<int>(int)"),
    ("_Z1fI1aIiEEvT_PT_", "void f<a<int> >(a<int>, a<int>*)"),
    ("_Z1fIJicEEvDpRKT_", "void f<int, char>(int const&, char const&)"),
    ("_Z1fIJEEvDpT_", "void f<>()"),
    ("_Z1fIiJEEvT_", "void f<int>(int)"),
    ("_Z1fI1aIiEJEEvv", "void f<a<int>>()"),
    ("_Z1fIRiEvOT_", "void f<int&>(int&)"),
    ("_Z1fIOiEvRT_", "void f<int&&>(int&)"),
    ("_Z1fILi5ELj5ELln5ELy7ELb1ELb0ELh9EEvv", "void f<5, 5u, -5l, 7ull, true, false, (unsigned char)9>()"),
    ("_Z1fIL1e3EEvv", "void f<(e)3>()"),
    ("_Z1fIXadL_ZN1a1gEiEEEvv", "void f<&a::g>()"),
    ("_Z1fIXadL_Z1giEEEvv", "void f<&(g(int))>()"),
    (
        "_Z1fIiENSt9enable_ifIXaasr1bIT_E5valuentsrS3_1xEvE4typeEv",
        "std::enable_if<b<int>::value&&(!b<int>::x), void>::type f<int>()",
    ),
    ("_Z1fIiEN1bIXgtLi1ELi2EEEEv", "b<((1)>(2))> f<int>()"),
    ("_Z1fIJLi1ELi2EEEv1aIJXspT_EEE", "void f<1, 2>(a<1, 2>)"),
    ("_Z1fIiEDTcl1gfp_cl1hEEET_", "decltype (g({parm#1}, h())) f<int>(int)"),
    ("_Z1fI1aEDTcldtfp_1bfp0_EERT_i", "decltype (({parm#1}.b)({parm#2})) f<a>(a&, int)"),
    ("_Z1fIKiEvKT_", "void f<int const>(int const)"),
    # Declarators.
    ("_Z1fPFivE", "f(int (*)())"),
    ("_Z1fPFPFivEcE", "f(int (*(*)(char))())"),
    ("_Z1fRA3_KcPA2_A3_i", "f(char const (&) [3], int (*) [2][3])"),
    ("_Z1fM1aiMS_KFvvE", "f(int a::*, void (a::*)() const)"),
    ("_Z1fKPFvvE", "f(void (* const)())"),
    ("_Z1fIiEPFvT_ES0_", "void (*f<int>(int))(int)"),
    # What is local to a function, which is written without its result.
    ("_ZZ1fvE1x", "f()::x"),
    ("_ZZ1fvE1x_0", "f()::x"),
    ("_ZZ1fIiEvT_ENKUlvE_clEv", "f<int>(int)::{lambda()#1}::operator()() const"),
    ("_ZN1aUt_1fEv", "a::{unnamed type#1}::f()"),
]
# Names with what the kernel does not read, and malformed ones.
OTHERS = [
    *(
        "_Z1fIiEDTcvT_Li1EEv",
        "_Z1fILd14EEvv",
        "_Z1fIrKiEvKT_",
        "_Z1fIA2_iET_v",
        "_ZL1f_12v",
        "_Z1fu3int",
        "_Z1fDv4_f",
        "_ZTV1a",
        "_ZGV1a",
        "_Z1fv.cold",
        "_Zli1xv",
        "_ZZ1fvEs",
    ),
    *(
        "_Z",
        "_Z1",
        "_Z2f",
        "_Z99999999999999999999f",
        "_ZZ1fvENKUlT_E0_clIiEEDaS_",
        "_ZN1a",
        "_ZNE",
        "_Z1fS_",
        "_Z1fT_",
        "_Z1fIiEvT0_",
    ),
    *(
        "_Z1fIiEvT99999999999_",
        "_Z1fS0",
        "_Z1fSZZZZZZZZZZ_",
        "_ZC1v",
        "_ZN1aC6Ev",
        "_ZN1aD3Ev",
        "_Z1fvv_",
        "_Z1fA_",
        "_Z1fL",
        "_ZZ",
    ),
    *("_Z1fDpi", "_Z1fIiEvDpT_", "_Z1fPDpi", "_ZZ1fvEUlDpT_E_", "_Z1fA2_FivE", "_Z1f!", "_Z1fKVi", "_Z1fNK1aE"),
    # What no compiler writes: a result that is an array, or an unexpanded pack; a member of what is no class; an
    # operator's constructor.
    *("_Z1fPFA_vE", "_Z1fIJRA2_ibEET_St1aDpOT_", "_Z1fMPFvvEi", "_ZN1aplC1Ev"),
    *(f"_Z1f{'P' * 1000}i", f"_Z1f{'1aI' * 500}i{'E' * 500}", f"_Z1f{'Z' * 500}", f"_Z1fIX{'nt' * 500}Lb1EEEvv"),
]


def demangle_itanium(names: list[str], expansion: int, *, is_whole: bool) -> list[str]:
    """As the function of this name, of text."""
    found = demangle_strings(Strings.of(name.encode() for name in names), expansion, is_whole)
    return [text.decode() for text in found]


@pytest.mark.parametrize(("name", "text"), NAMES)
def test_a_name_of_each_production(name: str, text: str, kernels: str) -> None:
    assert demangle_itanium([name, "_Z1gv"], MAX_EXPANSION, is_whole=False) == [text, "g()"]


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_are_left_to_a_demangler(name: str, kernels: str) -> None:
    assert demangle_itanium([name, "_Z1gv"], MAX_EXPANSION, is_whole=False) == ["", "g()"]


def test_whole_names_of_standard_classes(kernels: str) -> None:
    lambda_of = "_ZZ1fvENKUlT_E0_clIiEEDaS_"
    assert demangle_itanium(["_Z1fSo", "_Z1fSs", lambda_of], MAX_EXPANSION, is_whole=True) == [
        "f(std::basic_ostream<char, std::char_traits<char> >)",
        "f(std::basic_string<char, std::char_traits<char>, std::allocator<char> >)",
        "auto f()::{lambda(auto:1)#2}::operator()<int>(int) const",
    ]


@pytest.mark.parametrize(("index", "reference"), [(0, "S_"), (1, "S0_"), (10, "S9_"), (11, "SA_"), (37, "S10_")])
def test_substitutions_are_counted_in_base_36(index: int, reference: str, kernels: str) -> None:
    classes = [f"a{number:02}" for number in range(40)]
    name = f"_Z1f{''.join(f'3{one}' for one in classes)}{reference}"
    assert demangle_itanium([name], MAX_EXPANSION, is_whole=False) == [f"f({', '.join([*classes, classes[index]])})"]


# A comma that would begin in the demangler's buffer of 255 characters and end outside it is written after the buffer.
@pytest.mark.parametrize("size", range(248, 262))
def test_commas_where_a_buffer_ends(size: int, kernels: str) -> None:
    lists = ["JEE", "iJEE", "JEiE", "iJEiE", "JEJEiJEE", "iiE", "JiEJiEE"]
    names = [f"_Z1f{size}{'a' * size}I{arguments}{second}" for arguments in lists for second in ("", "i", "1bIiJEE")]
    with open_runtime() as runtime:
        for one, text in zip(names, demangle_itanium(names, MAX_EXPANSION, is_whole=False), strict=True):
            assert text
            assert runtime is None or text == runtime(one.encode()).decode()


def test_every_code_is_as_by_the_runtime(kernels: str) -> None:
    operators = [f"_ZN1a{code}ERKS_" for code in _OPERATORS]
    types = [f"_Z1f{code}PK{code}" for code in (*_BUILTINS, *_STANDARD) if code not in ("v", "St")]
    values = [f"_Z1fIL{code}1EEvv" for code in _BUILTINS]
    names = [*operators, *types, *values]
    with open_runtime() as runtime:
        for name, text in zip(names, demangle_itanium(names, MAX_EXPANSION, is_whole=False), strict=True):
            assert runtime is None or not text or text == runtime(name.encode()).decode()
    texts = demangle_itanium([*operators, *types], MAX_EXPANSION, is_whole=False)
    assert [name for name, text in zip([*operators, *types], texts, strict=True) if not text] == []


def test_a_pack_of_a_lambda_is_written_as_by_the_library(kernels: str) -> None:
    name, text = "_ZZ1fvENKUlDpOT_E_clEv", "f()::{lambda((auto:1&&)...)#1}::operator()() const"
    assert demangle_itanium([name], MAX_EXPANSION, is_whole=True) == [text]
    assert demangle.demangle(name, language="itanium", style="gnu") == text


def test_the_runtime_writes_the_same() -> None:
    with open_runtime() as runtime:
        if runtime is not None:
            assert {name: runtime(name.encode()).decode() for name, _ in NAMES} == dict(NAMES)


@pytest.mark.parametrize("count", [6, 23, 34])
def test_text_and_time_are_bounded(count: int, kernels: str) -> None:
    """Packs of packs that are empty: each substitution would double the steps, but none writes anything."""
    empty = "_Z1fIJEEvSt4pairIDpT_S1_E" + "".join(f"St4pairIDpS{digit}_S{digit}_E" for digit in "123456789")
    assert demangle_itanium([doubling_name(count)], 64, is_whole=False)[0] in ("", *_by_library(doubling_name(count)))
    assert demangle_itanium([doubling_name(34), empty], 64, is_whole=False)[0] == ""


def _by_library(name: str) -> list[str]:
    limits = demangle.Limits(max_output=64 * len(name))
    return [str(demangle.demangle(name, language="itanium", style="gnu", limits=limits))]


def test_many_names_in_parts(kernels: str) -> None:
    names = [
        f"_Z{len(str(number)) + 1}f{number}1aIJ{'i' * 40}EE" for number in range(300 if kernels == "pure" else 9_000)
    ]
    ints = ", ".join(["int"] * 40)
    assert demangle_itanium(names, MAX_EXPANSION, is_whole=False) == [
        f"f{number}(a<{ints}>)" for number in range(len(names))
    ]


PIECES = [
    *("P", "R", "O", "K", "i", "c", "v", "1a", "S_", "S0_", "S1_", "St1b", "Sa", "Ss", "So", "T_", "T0_", "DpT_", "E"),
    *(
        "I",
        "N",
        "J",
        "FvvE",
        "A3_",
        "MS_",
        "1aIiE",
        "1aI1bE",
        "JEE",
        "IJEE",
        "Li1E",
        "Lb1E",
        "Dn",
        "C1",
        "D2",
        "B1x",
        "L",
    ),
    *(
        "Z1fvE",
        "_0",
        "cv",
        "pl",
        "Ut_",
        "XntsrT_1xE",
        "XspT_E",
        "DTcl1gfp_EE",
        "DTcldtfp_1gEE",
        "fp0_",
        "PFivE",
        "RA2_i",
        "PA2_A3_i",
        "z",
        "ENK",
        "Ev",
    ),
]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=10).map("".join))
def test_any_name_is_as_by_the_runtime(pieces: str) -> None:
    """Or as by the library, where the runtime finds no text: that of gcc 12 limits what it tries."""
    names = [f"_Z{pieces}", f"_Z1f{pieces}", f"_Z1fIiEv{pieces}", f"_ZN1f{pieces}Ev", f"_Z1fIJi1aEEvDpT_{pieces}"]
    with open_runtime() as runtime, engine_in_use("pure"):
        for name, text in zip(names, demangle_itanium(names, MAX_EXPANSION, is_whole=False), strict=True):
            if text:
                expected = b"" if runtime is None else runtime(name.encode())
                assert text == (expected.decode() or demangle.demangle(name, language="itanium", style="gnu"))
