"""The judge of symbol files: its reader, its linter, its names and its counts, on texts written by hand."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ..support.symbol_files.coverage import FunctionRange, lost_functions, parse_functions
from ..support.symbol_files.judge import Answers, consult, judge, report, sample
from ..support.symbol_files.lint import Fault, lint
from ..support.symbol_files.names import is_fuller, match, normalize, without_signature
from ..support.symbol_files.records import (
    Frame,
    Inline,
    Line,
    Lookup,
    Public,
    SymbolFileError,
    parse_symbol_file,
)
from ..support.symbol_files.referees import (
    Referee,
    hide_symbols,
    normalize_path,
    parse_addr2line,
    parse_llvm_symbolizer,
)
from ..support.tiny_elf import CODE, SYMTAB, Content, patched, tiny_elf

# --- the reader -----------------------------------------------------------------------------------------------

NESTED = b"""\
MODULE Linux x86_64 000000000000000000000000000000000 nested
INFO CODE_ID 00
FILE 0 /src/main.c
FILE 7 /src/with space.h
INLINE_ORIGIN 0 ns::outer(int)
INLINE_ORIGIN 1 ns::inner()
INLINE_ORIGIN 2 ns::other()
FUNC 1000 40 0 main
INLINE 0 10 0 0 1008 10 1030 8
INLINE 1 20 7 1 1008 8
INLINE 0 12 0 2 1020 8
1000 8 9 0
1008 8 30 7
1010 8 21 7
1018 8 11 0
1020 8 5 7
1028 8 13 0
1030 8 22 7
1038 8 14 0
FUNC m 1040 10 0 folded
1040 10 3 0
PUBLIC 1080 0 assembler
PUBLIC m 2000 0 last one
STACK CFI INIT 1000 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^
"""


def test_records_have_the_values_of_the_text() -> None:
    symbols = parse_symbol_file(NESTED)
    assert symbols.module.endswith("nested")
    assert symbols.files == {0: "/src/main.c", 7: "/src/with space.h"}
    assert symbols.origins == {0: "ns::outer(int)", 1: "ns::inner()", 2: "ns::other()"}
    main, folded = symbols.functions
    assert (main.address, main.size, main.is_multiple, main.name) == (0x1000, 0x40, False, "main")
    assert (folded.address, folded.end, folded.is_multiple) == (0x1040, 0x1050, True)
    assert symbols.publics == (Public(0x1080, False, "assembler"), Public(0x2000, True, "last one"))
    inlines, lines = main.records()
    assert inlines[0] == Inline(0, 10, 0, 0, ((0x1008, 0x10), (0x1030, 8)))
    assert (len(inlines), len(lines)) == (3, 8)
    assert lines[1] == Line(0x1008, 8, 30, 7)
    assert folded.records() == ([], [Line(0x1040, 0x10, 3, 0)])


def test_lines_may_end_as_on_other_systems_and_other_records_may_stand_between() -> None:
    symbols = parse_symbol_file(b"FUNC 10 8 0 f\r\n10 4 1 0\r\nFILE 0 a.c\r\nINFO anything\r\n14 4 2 0\r\n")
    (function,) = symbols.functions
    assert (function.name, symbols.files) == ("f", {0: "a.c"})
    assert function.records() == ([], [Line(0x10, 4, 1, 0), Line(0x14, 4, 2, 0)])


@pytest.mark.parametrize("by_order", [False, True])
@pytest.mark.parametrize(
    ("address", "frames"),
    [
        (0x1000, [Frame("main", "/src/main.c", 9)]),
        (
            0x100F,
            [
                Frame("ns::inner()", "/src/with space.h", 30),
                Frame("ns::outer(int)", "/src/with space.h", 20),
                Frame("main", "/src/main.c", 10),
            ],
        ),
        (0x1010, [Frame("ns::outer(int)", "/src/with space.h", 21), Frame("main", "/src/main.c", 10)]),
        (0x1018, [Frame("main", "/src/main.c", 11)]),
        (0x1020, [Frame("ns::other()", "/src/with space.h", 5), Frame("main", "/src/main.c", 12)]),
        (0x1030, [Frame("ns::outer(int)", "/src/with space.h", 22), Frame("main", "/src/main.c", 10)]),
        (0x104F, [Frame("folded", "/src/main.c", 3)]),
        # A PUBLIC applies up to the next one; there is none between the end of a FUNC and it.
        (0x1050, []),
        (0x1FFF, [Frame("assembler")]),
        (0x2000, [Frame("last one")]),
        (0xFFF, []),
    ],
)
def test_an_address_has_the_frames_of_its_inlines_with_their_call_sites(
    address: int, frames: list[Frame], by_order: bool
) -> None:
    assert Lookup(parse_symbol_file(NESTED)).frames(address, by_order) == tuple(frames)


def test_an_inline_that_follows_a_foreign_parent_is_found_by_depth_but_not_by_order() -> None:
    text = b"""\
FILE 0 a.c
INLINE_ORIGIN 0 first
INLINE_ORIGIN 1 second
INLINE_ORIGIN 2 deep
FUNC 100 20 0 f
INLINE 0 1 0 0 100 8
INLINE 0 2 0 1 110 8
INLINE 1 3 0 2 100 4
100 20 9 0
"""
    lookup = Lookup(parse_symbol_file(text))
    assert [one.function for one in lookup.frames(0x100)] == ["deep", "first", "f"]
    assert [one.function for one in lookup.frames(0x100, by_order=True)] == ["first", "f"]


def test_a_public_applies_after_a_function_only_if_it_is_nearer() -> None:
    lookup = Lookup(parse_symbol_file(b"PUBLIC 100 0 before\nFUNC 110 8 0 f\nPUBLIC 120 0 after\n"))
    assert [lookup.frames(at) for at in (0x10F, 0x118, 0x120)] == [(Frame("before"),), (), (Frame("after"),)]
    assert lookup.frames(0x112) == (Frame("f"),)


def test_of_functions_that_overlap_the_one_that_starts_last_is_in_force() -> None:
    lookup = Lookup(parse_symbol_file(b"FUNC 100 20 0 whole\nFUNC 108 8 0 part\nFUNC 108 8 0 again\n"))
    assert [one[0].function for one in map(lookup.frames, (0x107, 0x108, 0x110))] == ["whole", "part", "whole"]


@pytest.mark.parametrize(
    "text",
    [
        b"FUNC 1000 0 main\n",
        b"FUNC 10g0 1 0 main\n",
        b"FILE x a.c\n",
        b"PUBLIC 100\n",
        b"FUNC 0 1 0 f\n0 1 1\n",
        b"FUNC 0 1 0 f\nINLINE 0 1 0 0 5\n",
        b"FUNC 0 1 0 f\nINLINE 0 1 0 0\n",
    ],
)
def test_a_malformed_record_is_an_error(text: bytes) -> None:
    with pytest.raises(SymbolFileError, match="record"):
        list(lint(parse_symbol_file(text)))


# --- the linter -----------------------------------------------------------------------------------------------

HEAD = b"FILE 0 a.c\nINLINE_ORIGIN 0 inlined\n"


def faults(text: bytes) -> list[tuple[Fault, int]]:
    return [(found.fault, found.address) for found in lint(parse_symbol_file(HEAD + text))]


def test_a_file_without_faults_has_no_findings() -> None:
    assert list(lint(parse_symbol_file(NESTED))) == []


@pytest.mark.parametrize(
    ("text", "fault", "address"),
    [
        (b"FILE 0 b.c\n", Fault.repeated_id, 0),
        (b"INLINE_ORIGIN 0 again\n", Fault.repeated_id, 0),
        (b"FUNC 20 8 0 g\nFUNC 10 8 0 f\n", Fault.functions_unordered, 0x10),
        (b"FUNC 10 9 0 f\nFUNC 18 8 0 g\n", Fault.functions_overlap, 0x18),
        (b"FUNC 10 8 0 f\nFUNC 10 8 0 g\n", Fault.functions_overlap, 0x10),
        (b"FUNC 10 0 0 f\n", Fault.function_empty, 0x10),
        (b"FUNC 10 8 0 \n", Fault.function_unnamed, 0x10),
        (b"PUBLIC 10 0 \n", Fault.function_unnamed, 0x10),
        (b"PUBLIC 20 0 g\nPUBLIC 10 0 f\n", Fault.publics_unordered, 0x10),
        (b"PUBLIC 10 0 g\nPUBLIC 10 0 f\n", Fault.public_repeated, 0x10),
        (b"FUNC 10 8 0 f\nPUBLIC 10 0 f\n", Fault.public_in_function, 0x10),
        (b"FUNC 10 8 0 f\n14 5 1 0\n", Fault.line_outside, 0x14),
        (b"FUNC 10 8 0 f\nf 1 1 0\n", Fault.line_outside, 0xF),
        (b"FUNC 10 8 0 f\n10 5 1 0\n14 4 2 0\n", Fault.lines_overlap, 0x14),
        (b"FUNC 10 8 0 f\n14 4 1 0\n10 4 2 0\n", Fault.lines_unordered, 0x10),
        (b"FUNC 10 8 0 f\n10 0 1 0\n", Fault.line_empty, 0x10),
        (b"FUNC 10 8 0 f\n10 8 1 3\n", Fault.unknown_file, 0x10),
        (b"FUNC 10 8 0 f\nINLINE 0 1 3 0 10 8\n", Fault.unknown_file, 0x10),
        (b"FUNC 10 8 0 f\nINLINE 0 1 0 3 10 8\n", Fault.unknown_origin, 0x10),
        (b"FUNC 10 8 0 f\nINLINE 1 1 0 0 10 8\n", Fault.inline_orphan, 0x10),
        (b"FUNC 10 8 0 f\nINLINE 0 1 0 0 14 5\n", Fault.inline_outside, 0x14),
        (b"FUNC 10 8 0 f\nINLINE 0 1 0 0 10 4\nINLINE 1 1 0 0 12 4\n", Fault.inline_outside, 0x12),
        (b"FUNC 10 8 0 f\nINLINE 0 1 0 0 10 4\nINLINE 0 1 0 0 12 4\n", Fault.inlines_overlap, 0x12),
        (b"FUNC 10 8 0 f\nINLINE 0 1 0 0 10 4 12 2\n", Fault.inlines_overlap, 0x12),
        (b"FUNC 10 8 0 f\nINLINE 0 1 0 0 10 4 15 0\n", Fault.inline_empty, 0x15),
    ],
)
def test_each_fault_is_found_once_and_nothing_else(text: bytes, fault: Fault, address: int) -> None:
    assert faults(text) == [(fault, address)]


def test_lines_before_the_first_function_are_a_fault() -> None:
    (found,) = lint(parse_symbol_file(b"FILE 0 a.c\n10 8 1 0\nINLINE 0 1 0 0 10 8\nFUNC 20 8 0 f\n20 8 1 0\n"))
    assert (found.fault, found.text) == (Fault.stray, "2 records")


def test_an_inline_may_lie_in_ranges_of_its_parent_that_join() -> None:
    assert faults(b"FUNC 10 10 0 f\nINLINE 0 1 0 0 18 8 10 8\nINLINE 1 1 0 0 14 8\n") == []
    # The same range, where they do not join.
    assert faults(b"FUNC 10 10 0 f\nINLINE 0 1 0 0 19 7 10 8\nINLINE 1 1 0 0 14 8\n") == [(Fault.inline_outside, 0x14)]


def test_an_inline_belongs_to_the_record_before_it() -> None:
    # The third is inside the first, but the second is its parent.
    text = b"FUNC 10 20 0 f\nINLINE 0 1 0 0 10 8\nINLINE 0 1 0 0 20 8\nINLINE 1 1 0 0 10 4\n"
    assert faults(text) == [(Fault.inline_outside, 0x10)]


# --- names and paths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("f(int, char const*)", "f(int,char const *)"),
        ("ns::f(int)", "ns::f"),
        ("int ns::f<int>(std::vector<int> const&)", "ns::f<int>"),
        ("std::vector<int> ns::f<int>()", "ns::f<int>"),
        ("(anonymous namespace)::f()", "{anonymous}::f()"),
        ("f(int) [clone .cold]", "f(int)"),
        ("f.part.0.cold", "f"),
        ("f.lto_priv.12", "f"),
        ("child.0.lto_priv.0", "child"),
        ("isastream@GLIBC_2.2.5", "isastream"),
        ("A::g() const", "A::g"),
        ("A::operator()(int) const", "A::operator()"),
        ("A::operator<<(int)", "A::operator<<"),
        ("auto std::operator<=><char>(A<char> const&)", "std::operator<=> <char>"),
        ("bool operator< <int>(A<int>)", "operator< <int>"),
        ("A::operator->() const", "A::operator->"),
        ("decltype ((f<A>)(0)) ns::g<A>()", "decltype(f<A>(0)) ns::g<A>()"),
        ("operator new(unsigned long)", "operator new"),
        ("A::operator bool() const", "A::operator bool"),
        ("f[abi:cxx11](int)", "f(int)"),
        ("main::{lambda(int)#1}::operator()(int) const", "main::'lambda'(int)::operator()(int) const"),
        ("main::{lambda(int)#1}::operator()(int) const", "operator()"),
        ("core::fmt::write::h0123456789abcdef", "core::fmt::write"),
        ("_$LT$T$u20$as$u20$a..B$GT$::f::h0123456789abcdef", "<T as a::B>::f"),
        ("ns::f(int)", "f"),
        ("ns::f<int, 3>(int)", "f<int, 3>"),
        ("A<5ul>::f()", "A<5>::f()"),
        ("A<(unsigned long)5>::f()", "A<5ul>::f()"),
        ("core::f::<u8, 4: usize>", "core[0123456789abcdef]::f::<u8, 4>"),
        ("core::f.841", "core::f"),
        ("std::basic_string<char, std::char_traits<char>, std::allocator<char> >::f(int)", "std::string::f(int)"),
    ],
)
def test_names_of_one_function_match(name: str, other: str) -> None:
    assert match(name, other)
    assert match(other, name)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("f(int)", "g(int)"),
        ("a::f(int)", "b::f(int)"),
        ("A<int>::f()", "A<char>::f()"),
        ("A::operator<(int)", "A::operator<<(int)"),
        ("_ZN1a1fEv", "a::f()"),
        ("a::f", ""),
        ("f.cold", "g.cold"),
    ],
)
def test_names_of_two_functions_do_not_match(name: str, other: str) -> None:
    assert not match(name, other)
    assert not match(other, name)


def test_the_qualified_name_is_the_fuller_one() -> None:
    assert is_fuller("ns::f(int)", "f")
    assert not is_fuller("f(int, int, int)", "ns::f")
    assert without_signature(normalize("unsigned int ns::f<char (*)(int)>(char (*)(int))")) == "ns::f<char(*)(int)>"


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/a/./b//c/../d.c", "/a/b/d.c"),
        ("??", ""),
        ("./csu/./csu/init.c", "csu/init.c"),
        ("./csu/../sysdeps/x.c", "sysdeps/x.c"),
        ("/csu/csu/init.c", "/csu/csu/init.c"),
        ("a/ab/c.c", "a/ab/c.c"),
    ],
)
def test_paths_are_made_comparable(path: str, normal: str) -> None:
    assert normalize_path(path) == normal


# --- the referees' output -------------------------------------------------------------------------------------


def test_addr2line_is_read() -> None:
    text = """\
0x0000000000001139
inner(int)
/src/a.h:3 (discriminator 2)
main
/src/./a.c:9
0x0000000000001000
_init
??:?
0x0000000000002000
??
??:0
0x0000000000003000
f
/src/b.c:?
0x0000000000004000
g(int) inlined at /src/d.c:38:3 in ??
/src/c.c:12:34
"""
    assert parse_addr2line(text) == [
        (Frame("inner(int)", "/src/a.h", 3), Frame("main", "/src/a.c", 9)),
        (Frame("_init"),),
        (),
        (Frame("f", "/src/b.c", 0),),
        (Frame("g(int)", "/src/c.c", 12),),
    ]


def test_llvm_symbolizer_is_read() -> None:
    text = """\
{"Address":"0x1","ModuleName":"a","Symbol":[{"Column":2,"Discriminator":0,"FileName":"/a/../b.c","FunctionName":"f",\
"Line":7,"StartAddress":"","StartFileName":"","StartLine":0},{"Column":0,"Discriminator":0,"FileName":"/c.c",\
"FunctionName":"main","Line":8,"StartAddress":"0x0","StartFileName":"","StartLine":0}]}
{"Address":"0x2","ModuleName":"a","Symbol":[{"Column":0,"Discriminator":0,"FileName":"","FunctionName":"",\
"Line":0,"StartAddress":"","StartFileName":"","StartLine":0}]}
"""
    assert parse_llvm_symbolizer(text) == [(Frame("f", "/b.c", 7), Frame("main", "/c.c", 8)), ()]


# --- the counts -----------------------------------------------------------------------------------------------

INNER, MAIN = Frame("ns::inner(int)", "/a.h", 3), Frame("main", "/a.c", 9)
CHAIN = (INNER, MAIN)


def judged(said: tuple[Frame, ...], first: tuple[Frame, ...] = CHAIN, second: tuple[Frame, ...] = CHAIN) -> list[int]:
    """Sampled, innermost, equal, chains, equal chains, lost."""
    tally = judge(lambda address: said, Answers((0x1000,), ("first", "second"), [first], [second]))
    return [tally.sampled, tally.innermost, tally.innermost_equal, tally.chains, tally.chains_equal, tally.lost]


def kinds(said: tuple[Frame, ...], first: tuple[Frame, ...] = CHAIN, second: tuple[Frame, ...] = CHAIN) -> list[str]:
    tally = judge(lambda address: said, Answers((0x1000,), ("first", "second"), [first], [second]))
    assert tally.kinds.total() == len(tally.kinds)
    return list(tally.kinds)


def test_an_equal_answer_counts_as_such() -> None:
    assert judged(CHAIN) == [1, 1, 1, 1, 1, 0]
    assert kinds(CHAIN) == []


def test_a_lost_function_counts_as_such() -> None:
    assert judged(()) == judged((Frame("public"),)) == [1, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ((), "no function"),
        ((Frame("public"),), "no FUNC record, and another symbol"),
        ((Frame("ns::inner"),), "no line"),
        ((Frame("other", "/a.h", 3), MAIN), "another function"),
        ((Frame("_ZN2ns5innerEi", "/a.h", 3), MAIN), "a mangled name"),
        ((Frame("ns::inner(int)", "/a.h", 4), MAIN), "another line"),
        ((Frame("ns::inner(int)", "/b.h", 3), MAIN), "another file"),
        ((Frame("ns::inner(int)", "/include/a.h", 3), MAIN), "another folder of the file"),
        ((INNER,), "chain: callers missing"),
        ((*CHAIN, MAIN), "chain: callers too many"),
        ((INNER, Frame("other", "/a.c", 9)), "chain: another caller"),
        ((INNER, Frame("main", "/a.c", 10)), "chain: another call site"),
    ],
)
def test_a_difference_has_a_kind(said: tuple[Frame, ...], kind: str) -> None:
    assert kinds(said) == [kind]


def test_the_more_qualified_of_the_referees_names_counts() -> None:
    short = (Frame("inner", "/a.h", 3), MAIN)
    assert judged(CHAIN, first=short) == [1, 1, 1, 1, 1, 0]
    assert kinds((Frame("other::inner", "/a.h", 3), MAIN), first=short) == ["another function"]


def test_the_symbol_of_the_outer_function_is_not_the_name_of_an_inlined_one() -> None:
    """std::_Function_base::_Base_manager<T>::_M_manager is inlined into std::_Function_handler<T>::_M_manager."""
    inner, outer = Frame("_M_manager", "/f.h", 183), Frame("_M_manager", "/f.h", 282)
    first = (Frame("Handler<int>::_M_manager(int)", "/f.h", 183), outer)
    said = (Frame("Manager<int>::_M_manager", "/f.h", 183), Frame("Handler<int>::_M_manager(int)", "/f.h", 282))
    assert judged(said, first=first, second=(inner, outer)) == [1, 1, 1, 1, 1, 0]
    # The same function without inlines has its symbol's name.
    assert kinds(said[:1], first=first[:1], second=(inner,)) == ["another function"]


def test_where_the_referees_differ_it_is_counted_whom_the_subject_follows() -> None:
    other = (Frame("ns::inner(int)", "/a.h", 5), MAIN)
    assert judged(CHAIN, first=other) == [1, 0, 0, 0, 0, 0]
    tally = judge(lambda address: other, Answers((1,), ("first", "second"), [other], [CHAIN]))
    assert tally.undecided == {"first": 1}
    assert "the referees differ at 1; followed: first 1" in report("x", tally)


def test_a_call_site_without_a_line_may_have_any_file() -> None:
    without = (INNER, Frame("main", "", 0))
    assert kinds((INNER, Frame("main", "/any.c", 0)), first=without, second=without) == []
    assert kinds((INNER, Frame("main", "/any.c", 1)), first=without, second=without) == ["chain: another call site"]


@pytest.mark.oracle
def test_a_third_referee_is_heard_where_the_first_two_differ(tmp_path: Path) -> None:
    answers = {"first": CHAIN, "second": (INNER,), "third": (INNER,)}
    path = tmp_path / "program"
    path.write_bytes(tiny_elf())
    (tmp_path / "copy").mkdir()
    referees = tuple(Referee(name, lambda _: ["true"], lambda _, said=said: [said]) for name, said in answers.items())
    found = consult(path, [0x1000], tmp_path / "copy", referees)
    assert (found.first, found.second, found.settled) == ([(INNER,)], [(INNER,)], {"second": 1})


def test_where_only_the_chains_differ_the_innermost_frame_counts() -> None:
    assert judged(CHAIN, first=(INNER,)) == [1, 1, 1, 0, 0, 0]


def test_code_without_a_function_in_dwarf_does_not_count() -> None:
    assert judged((), first=CHAIN, second=()) == [0] * 6
    assert judged((), first=CHAIN, second=(Frame("", "/a.s", 1),)) == [0] * 6


def test_another_symbol_of_the_same_address_is_an_equal_name() -> None:
    alias = {"main": frozenset({"main", "__main"})}
    said = (INNER, Frame("__main", "/a.c", 9))
    tally = judge(lambda address: said, Answers((1,), ("a", "b"), [CHAIN], [CHAIN], alias))
    assert (tally.chains_equal, tally.aliased) == (1, 1)


# --- functions that are lost ----------------------------------------------------------------------------------

GSYM = """\
Header:
  Magic        = 0x4753594d
FunctionInfo @ 0x00000100: [0x0000000000401000 - 0x0000000000401040) "main"
LineTable:
  0x0000000000401000 /src/main.c:9
FunctionInfo @ 0x00000200: [0x0000000000401040 - 0x0000000000401060) "_ZN1a1bEv"
"""


def test_functions_are_those_of_llvm() -> None:
    assert parse_functions(GSYM) == [
        FunctionRange(0x401000, 0x401040, "main"),
        FunctionRange(0x401040, 0x401060, "_ZN1a1bEv"),
    ]


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (b"FUNC 1000 40 0 main\nFUNC 1040 20 0 a::b()\n", []),
        # FUNC records that join, or one for both, as of folded code.
        (b"FUNC 1020 20 0 y\nFUNC 1000 20 0 x\nFUNC 1040 20 0 a::b()\n", []),
        (b"FUNC ff0 80 0 main\n", []),
        (b"FUNC 1000 40 0 main\n", ["_ZN1a1bEv"]),
        (b"FUNC 1000 3f 0 main\nFUNC 1040 20 0 a::b()\n", ["main"]),
        (b"FUNC 1001 5f 0 main\n", ["main"]),
        (b"PUBLIC 1000 0 main\n", ["main", "_ZN1a1bEv"]),
    ],
)
def test_a_function_is_lost_if_a_byte_of_it_is_in_no_func(text: bytes, lost: list[str]) -> None:
    found = lost_functions(parse_functions(GSYM), parse_symbol_file(text), 0x400000)
    assert [one.name for one in found] == lost


# --- the files that the referees read -------------------------------------------------------------------------


def test_symbol_tables_are_hidden_in_a_copy(tmp_path: Path) -> None:
    path, folder = tmp_path / "program", tmp_path / "copy"
    path.write_bytes(
        patched(tiny_elf(CODE, Content(".symtab", type=SYMTAB, flags=0)), section=2, sh_link=3, sh_entsize=24)
    )
    folder.mkdir()
    copy = hide_symbols(path, folder).read_bytes()
    # sh_type of the second section, 4 bytes into its header; the headers end the file, .shstrtab's is the last.
    field = len(copy) - 2 * 64 + 4
    changed = [at for at, (one, other) in enumerate(zip(path.read_bytes(), copy, strict=True)) if one != other]
    assert set(changed) == set(range(field, field + 4))
    assert int.from_bytes(copy[field : field + 4], "little") != SYMTAB


def test_samples_lie_in_executable_sections_and_follow_the_seed(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(tiny_elf(CODE, Content(".data", bytes(0x4000))))
    drawn = sample(path, 50, seed=3)
    assert drawn == sorted(set(drawn))
    assert len(drawn) > 20
    assert all(0x1000 <= address < 0x1080 for address in drawn)  # CODE: 0x80 bytes
    assert drawn == sample(path, 50, seed=3) != sample(path, 50, seed=4)


def test_the_judge_contains_no_product_code() -> None:
    folder = Path(__file__).parents[1] / "support/symbol_files"
    sources = sorted(folder.glob("*.py"))
    assert sources
    for source in sources:
        names = {name for node in ast.walk(ast.parse(source.read_text())) for name in _imported(node)}
        assert not [name for name in names if name.partition(".")[0] == "unwindkit"], source.name


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
